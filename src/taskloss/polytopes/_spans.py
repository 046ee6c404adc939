"""Spans in packed chains: runs of states that continue each other, their probabilities, and the best set of them.

`continues[a, b]` says whether state b carries on the span that the state a before it is in, and `kinds[a]` of which kind
a span with state a is, -1 outside of spans: so every scheme of tags (BIO, BIOES) is the same to what follows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ._forest import Forest

COMPILED_NODES = 1 << 14  # marginals of nodes from which a compiled pass pays


class Spans(NamedTuple):
    """The first node of each span, the node after its last, and its kind."""

    first: np.ndarray
    stop: np.ndarray
    kind: np.ndarray


class Tags(NamedTuple):
    """How states make spans."""

    continues: np.ndarray
    kinds: np.ndarray

    @property
    def n_kinds(self) -> int:
        return int(self.kinds.max(initial=-1)) + 1

    @property
    def pairs(self) -> np.ndarray:
        """The pairs of states that continue each other, one a row: the steps whose probabilities spans are made of."""
        return np.argwhere(self.continues)


def spans_of(forest: Forest, states: np.ndarray, tags: Tags) -> Spans:
    """The spans of labelled chains, in the order of their nodes; a state of -1 is outside of all spans."""
    kinds = np.where(states < 0, -1, tags.kinds[states])
    carried = np.zeros(len(states), dtype=bool)
    i = forest.children
    known = (states[i] >= 0) & (states[i - 1] >= 0)
    carried[i[known]] = tags.continues[states[i[known] - 1], states[i[known]]]
    first = np.flatnonzero((kinds >= 0) & ~carried)
    ends = np.flatnonzero((kinds >= 0) & ~np.append(carried[1:], False))
    return Spans(first, ends + 1, kinds[first])


def span_probabilities(
    forest: Forest,
    nodes: np.ndarray,
    steps: np.ndarray,
    tags: Tags,
    least: float = 1e-12,
    only: Spans | None = None,
) -> tuple[Spans, np.ndarray]:
    """The spans of probability above `least` under the Markov law with these marginals, and their probabilities, but for what was dropped.

    steps: marginals of edges at `tags.pairs`, a column each. only: look no further than these spans reach.

    A span begins at s in state a with probability P(y_s = a) - sum_b P(y_{s-1} = b, y_s = a) over the b that a continues,
    carries on with the conditional probabilities of the continuing states, and stops with the rest. What is alive after l
    nodes is advanced for all starts at a time, and dropped below `least`.
    """
    pairs = tags.pairs
    joint = np.zeros((forest.n_nodes + 1, len(pairs)))  # into each node from the one before; none follows the last
    joint[forest.children] = steps
    begin = nodes.copy()
    for column, (_, after) in enumerate(pairs.tolist()):
        begin[:, after] -= joint[:-1, column]
    begin = np.where(tags.kinds >= 0, np.maximum(begin, 0.0), 0.0)
    reach = np.full((forest.n_nodes, tags.n_kinds), forest.n_nodes if only is None else 0)
    if only is not None:
        np.maximum.at(reach, (only.first, only.kind), only.stop)
        begin = np.where(reach[:, np.maximum(tags.kinds, 0)] > 0, begin, 0.0)
    first, state = np.nonzero(begin > least)
    alive = begin[first, state]
    out: list[tuple[np.ndarray, ...]] = []
    k, length = nodes.shape[1], 1
    while len(first):
        last = first + length - 1
        # P(next = b | last = a) of the continuing pairs, row by row.
        mass = nodes[last]
        following = np.where(mass[:, pairs[:, 0]] > 0, joint[last + 1] / np.maximum(mass[:, pairs[:, 0]], 1e-300), 0.0)
        moving = np.where(pairs[:, 0] == state[:, None], alive[:, None] * following, 0.0)
        stopped = alive - moving.sum(1)
        out.append((first, last + 1, tags.kinds[state], np.maximum(stopped, 0.0)))
        going = last + 1 < reach[first, tags.kinds[state]]
        row, pair = np.nonzero((moving > least) & going[:, None])
        first, state, alive = _merged(first[row], pairs[pair, 1], moving[row, pair], k)
        length += 1
    return _gathered(out, least)


def probabilities_of(spans: Spans, forest: Forest, nodes: np.ndarray, steps: np.ndarray, tags: Tags) -> np.ndarray:
    """The probabilities of given spans, exactly; marginals as in `span_probabilities`."""
    found, q = span_probabilities(forest, nodes, steps, tags, 0.0, spans)
    keys, wanted = ((s.first * (forest.n_nodes + 1) + s.stop) * tags.n_kinds + s.kind for s in (found, spans))
    if not len(keys):
        return np.zeros(len(wanted))
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[at] == wanted, q[at], 0.0)


def likely_spans(
    forest: Forest, nodes: np.ndarray, steps: np.ndarray, tags: Tags, least: float, compiled: bool | None = None
) -> tuple[Spans, np.ndarray]:
    """All spans of at least this probability, and their probabilities, exactly.

    A span may be written in several ways (it begins with B, or with I after O), of which each alone may be less likely: what is dropped on the
    way is a hundredth of `least`, and what is found is evaluated anew.
    """
    if compiled is None:
        compiled = nodes.size >= COMPILED_NODES
    if compiled and least > 0 and tags.n_kinds:
        return _compiled(forest, nodes, steps, tags, least)
    some, _ = span_probabilities(forest, nodes, steps, tags, least / 100)
    q = probabilities_of(some, forest, nodes, steps, tags)
    kept = q >= least
    return Spans(*(part[kept] for part in some)), q[kept]


def _compiled(
    forest: Forest, nodes: np.ndarray, steps: np.ndarray, tags: Tags, least: float
) -> tuple[Spans, np.ndarray]:
    from .._compiled.spans import likely

    def by_kind(kinds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        order = np.argsort(kinds, kind="stable")
        order = order[kinds[order] >= 0]
        return order, np.searchsorted(kinds[order], np.arange(tags.n_kinds + 1))

    pairs = tags.pairs
    states, state_starts = by_kind(tags.kinds)
    columns, pair_starts = by_kind(tags.kinds[pairs[:, 0]])
    places, q = likely(
        np.ascontiguousarray(nodes, dtype=float),
        np.ascontiguousarray(steps, dtype=float),
        forest.edge_of,
        forest.offsets,
        states,
        state_starts,
        np.ascontiguousarray(pairs[columns]),
        columns,
        pair_starts,
        float(least),
    )
    order = np.argsort(
        (places[:, 0] * (forest.n_nodes + 1) + places[:, 1]) * tags.n_kinds + places[:, 2], kind="stable"
    )
    return Spans(*places[order].T), q[order]


def _merged(first: np.ndarray, state: np.ndarray, alive: np.ndarray, k: int) -> tuple[np.ndarray, ...]:
    """One entry for each start and state."""
    keys, place = np.unique(first * k + state, return_inverse=True)
    return keys // k, keys % k, np.bincount(place, alive, len(keys))


def _gathered(parts: list[tuple[np.ndarray, ...]], least: float) -> tuple[Spans, np.ndarray]:
    """All spans in the order of their starts and ends, one entry for each place and kind."""
    if not parts:
        none = np.zeros(0, dtype=np.int64)
        return Spans(none, none, none), np.zeros(0)
    first, stop, kind, probability = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.lexsort((kind, stop, first))
    first, stop, kind, probability = (column[order] for column in (first, stop, kind, probability))
    new = np.ones(len(first), dtype=bool)
    new[1:] = (np.diff(first) != 0) | (np.diff(stop) != 0) | (np.diff(kind) != 0)
    starts = np.flatnonzero(new)
    total = np.add.reduceat(probability, starts)
    kept = total > least
    chosen = starts[kept]
    return Spans(first[chosen], stop[chosen], kind[chosen]), total[kept]


def best_spans(spans: Spans, gains: np.ndarray) -> np.ndarray:
    """Which spans make up the set of largest total gain in which no two overlap: weighted interval scheduling.

    Spans of positive gain that overlap with no other are taken at once; the clusters of those that do are solved by
    dynamic programming on their ends, all clusters at a time.
    """
    taken = np.zeros(len(gains), dtype=bool)
    some = np.flatnonzero(gains > 0)
    if not len(some):
        return taken
    order = some[np.lexsort((spans.stop[some], spans.first[some]))]
    first, stop, gain = spans.first[order], spans.stop[order], gains[order]
    reach = np.maximum.accumulate(stop)
    new = np.ones(len(order), dtype=bool)
    new[1:] = first[1:] >= reach[:-1]
    cluster = np.cumsum(new) - 1
    sizes = np.bincount(cluster)
    taken[order[sizes[cluster] == 1]] = True
    hard = np.flatnonzero(sizes[cluster] > 1)
    if len(hard):
        taken[order[hard[_scheduled(first[hard], stop[hard], gain[hard], cluster[hard])]]] = True
    return taken


def _scheduled(first: np.ndarray, stop: np.ndarray, gain: np.ndarray, cluster: np.ndarray) -> np.ndarray:
    """The places of the spans that are taken, where clusters of overlapping ones do not touch each other."""
    order = np.lexsort((stop, cluster))
    first, stop, gain, cluster = first[order], stop[order], gain[order], cluster[order]
    # Clusters lie apart and in the order of their nodes, so that ends rise over all of them.
    before = np.searchsorted(stop, first, side="right")  # spans that end where this one begins, or sooner
    starts = np.flatnonzero(np.diff(cluster, prepend=-1))
    rank = np.arange(len(cluster)) - np.repeat(starts, np.diff(np.append(starts, len(cluster))))
    best = np.zeros(len(gain) + 1)  # best[i + 1]: of the span's own cluster, up to and with it
    base = starts[np.cumsum(np.diff(cluster, prepend=-1) != 0) - 1]
    with_it = np.zeros(len(gain))
    taken = np.zeros(len(gain), dtype=bool)
    by_rank = np.argsort(rank, kind="stable")
    levels = np.split(by_rank, np.cumsum(np.bincount(rank))[:-1])
    for now in levels:
        earlier = np.where(before[now] > base[now], best[before[now]], 0.0)
        with_it[now] = gain[now] + earlier
        without = np.where(now > base[now], best[now], 0.0)
        taken[now] = with_it[now] > without
        best[now + 1] = np.maximum(with_it[now], without)
    out = np.zeros(len(gain), dtype=bool)
    ends = np.append(starts[1:], len(gain))
    place = ends - 1  # walk back over all clusters at a time
    while len(place):
        take = taken[place]
        out[place[take]] = True
        place = np.where(take, before[place] - 1, place - 1)
        alive = place >= starts[: len(place)]
        place, starts = place[alive], starts[alive]
    return order[out]
