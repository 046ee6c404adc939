"""The spans of packed chains that are at least so likely; the definition is `taskloss.polytopes._spans.likely_spans`."""

from __future__ import annotations

import numpy as np

from .caching import njit


@njit(nogil=True)
def likely(nodes, steps, edge_of, offsets, kinds, states, state_starts, pairs, columns, pair_starts, least):
    """Start, stop, kind and probability of each, by start.

    `states[state_starts[c]:state_starts[c + 1]]` are those of kind c, and `pairs` those that continue each other, in the same way, with their columns
    of `steps`. A span is at most as likely as what is alive of its kind, so that nothing is lost where that falls below `least`.
    """
    size, count = max(len(nodes), 16), 0
    places, chances = np.empty((size, 3), np.int64), np.empty(size)
    alive, moved = np.zeros(nodes.shape[1]), np.zeros(nodes.shape[1])
    seen = np.full(len(state_starts), -1)
    share = least / np.max(np.diff(state_starts))  # one state of a kind has it at least, where the kind has `least`
    for tree in range(len(offsets) - 1):
        end = offsets[tree + 1]
        for first in range(offsets[tree], end):
            for state in range(nodes.shape[1]):
                if nodes[first, state] < share or kinds[state] < 0 or seen[kinds[state]] == first:
                    continue
                kind = kinds[state]
                seen[kind] = first
                low, high = state_starts[kind], state_starts[kind + 1]  # no slice, which would be counted
                for i in range(low, high):
                    alive[states[i]] = nodes[first, states[i]]
                begin, after = pair_starts[kind], pair_starts[kind + 1]
                if first > offsets[tree]:
                    for p in range(begin, after):
                        alive[pairs[p, 1]] -= steps[edge_of[first], columns[p]]
                total = 0.0
                for i in range(low, high):
                    alive[states[i]] = max(alive[states[i]], 0.0)
                    total += alive[states[i]]
                last = first
                while total >= least:
                    going = 0.0
                    if last + 1 < end:
                        for i in range(low, high):
                            moved[states[i]] = 0.0
                        for p in range(begin, after):
                            a = pairs[p, 0]
                            if alive[a] > 0.0 and nodes[last, a] > 0.0:
                                mass = alive[a] * (steps[edge_of[last + 1], columns[p]] / nodes[last, a])
                                moved[pairs[p, 1]] += mass
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
                    alive, moved, total, last = moved, alive, going, last + 1
    return places[:count], chances[:count]
