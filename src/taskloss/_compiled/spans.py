"""The spans of packed chains that are at least so likely; the definition is `taskloss.polytopes._spans.likely_spans`."""

from __future__ import annotations

import numpy as np

from .caching import njit


@njit(nogil=True, error_model="numpy")
def likely(nodes, steps, edge_of, offsets, states, state_starts, pairs, columns, pair_starts, least):
    """Start, stop, kind and probability of each, by start and kind.

    `states[state_starts[c]:state_starts[c + 1]]` are those of kind c, and `pairs` those that continue each other, in the same way, with their columns
    of `steps`. A span is at most as likely as what is alive of its kind, so that nothing is lost where that falls below `least`.
    """
    size, count = max(len(nodes), 16), 0
    places, chances = np.empty((size, 3), np.int64), np.empty(size)
    alive, now = (
        np.zeros((2, nodes.shape[1])),
        0,
    )  # one row is now, the other after the next step: swapped arrays would be counted
    nearly = least * (1 - 1e-9)  # sums in another order differ by roundings
    for tree in range(len(offsets) - 1):
        end = offsets[tree + 1]
        for first in range(offsets[tree], end):
            rest = 1.0  # what the kinds that follow have between them
            for kind in range(len(state_starts) - 1):
                if rest < nearly:
                    break
                low, high = state_starts[kind], state_starts[kind + 1]
                begin, after = pair_starts[kind], pair_starts[kind + 1]
                total = 0.0
                for i in range(low, high):
                    total += nodes[first, states[i]]
                rest -= total
                if total < least:
                    continue
                if first > offsets[tree]:  # most candidates are inner tags, of which little begins here
                    for p in range(begin, after):
                        total -= steps[edge_of[first], columns[p]]
                    if total < nearly:
                        continue
                for i in range(low, high):
                    alive[now, states[i]] = nodes[first, states[i]]
                if first > offsets[tree]:
                    for p in range(begin, after):
                        alive[now, pairs[p, 1]] -= steps[edge_of[first], columns[p]]
                total = 0.0
                for i in range(low, high):
                    alive[now, states[i]] = max(alive[now, states[i]], 0.0)
                    total += alive[now, states[i]]
                last = first
                while total >= least:
                    going = 0.0
                    if last + 1 < end:
                        for i in range(low, high):
                            alive[1 - now, states[i]] = 0.0
                        for p in range(begin, after):
                            a = pairs[p, 0]
                            if alive[now, a] > 0.0 and nodes[last, a] > 0.0:
                                mass = alive[now, a] * (steps[edge_of[last + 1], columns[p]] / nodes[last, a])
                                alive[1 - now, pairs[p, 1]] += mass
                                going += mass
                    if total - going >= least:
                        if count == size:
                            size *= 2
                            more, larger = np.empty((size, 3), np.int64), np.empty(size)
                            more[:count], larger[:count] = places, chances
                            places, chances = more, larger
                        places[count, 0], places[count, 1], places[count, 2] = first, last + 1, kind
                        chances[count] = total - going
                        count += 1
                    total, last, now = going, last + 1, 1 - now
    return places[:count], chances[:count]
