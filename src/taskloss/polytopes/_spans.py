"""Probabilities of whole spans of a chain, from the marginals of its positions and of its steps.

A chain's law is Markov: given the state at a position, what comes after does not depend on what came before. So the probability that
states s, ..., e are given ones is the marginal of the first times the conditional probabilities of the steps, p(s) prod_t p(t, t + 1) /
p(t), and no sum over labellings is needed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ._forest import Forest


class Tags(NamedTuple):
    """The states that spans of each kind are made of, as codes; -1 where a scheme has no such state.

    first, inside: of the first position and of the others. last, single: of the last position and of spans of one, where these
    have states of their own; without the former a span ends where the next state is not `inside`. open: whether a span begins
    only where the state before is not `inside`, as where the first position has no state of its own.
    """

    first: np.ndarray
    inside: np.ndarray
    last: np.ndarray
    single: np.ndarray
    open: bool


class Found(NamedTuple):
    """Spans of packed chains: first and last position, kind and probability."""

    start: np.ndarray
    end: np.ndarray
    kind: np.ndarray
    probability: np.ndarray


class SpanLaw:
    """Probabilities of spans of packed chains, from what they need of the marginals; looked up where a span may be.

    nodes: marginals of positions. steps: marginals of steps at the pairs of states that `cells` lists, (steps, cells).
    """

    def __init__(self, forest: Forest, nodes: np.ndarray, steps: np.ndarray, tags: Tags):
        self.nodes, self.steps, self.tags = nodes, steps, tags
        self.closes = bool((tags.last >= 0).any())
        lower = forest.children
        self.below, self.before = (
            np.full(forest.n_nodes, -1),
            np.full(forest.n_nodes, -1),
        )  # steps, -1 at the ends of chains
        self.below[forest.parents[lower]] = self.before[lower] = np.arange(len(lower))

    def _starts(self, at: np.ndarray, kind: np.ndarray) -> np.ndarray:
        """The probabilities that spans begin."""
        p = self._state(at, self.tags.first[kind])
        if self.tags.open:  # less the probability that the span began before
            step = self.before[at]
            p = np.maximum(p - np.where(step >= 0, self.steps[step, len(self.tags.first) + kind], 0.0), 0.0)
        return p

    def _state(self, at: np.ndarray, state: np.ndarray) -> np.ndarray:
        return np.where(state >= 0, self.nodes[at, np.maximum(state, 0)], 0.0)

    def _onward(self, at: np.ndarray, kind: np.ndarray, length: int, closing: bool = False) -> np.ndarray:
        """P(inside next, or with `closing` the last state next | the state of a span here); zero where there is no next."""
        here, to = (
            (self.tags.inside if length else self.tags.first)[kind],
            (self.tags.last if closing else self.tags.inside)[kind],
        )
        given, step = self._state(at, here), self.below[at]
        column = len(self.tags.first) * (bool(length) + 2 * closing) + kind
        there = (step >= 0) & (to >= 0) & (given > 0)
        return np.where(there, np.minimum(self.steps[step, column] / np.where(there, given, 1.0), 1.0), 0.0)

    def _likely(self, states: np.ndarray, threshold: float) -> tuple[np.ndarray, np.ndarray]:
        """Positions and kinds at which a state of its own is at least so likely."""
        kind_of = np.full(self.nodes.shape[1], -1)
        kind_of[states[states >= 0]] = np.flatnonzero(states >= 0)
        at, state = np.divmod(np.flatnonzero(self.nodes.ravel() >= threshold), self.nodes.shape[1])
        ours = kind_of[state] >= 0
        return at[ours], kind_of[state[ours]]

    @staticmethod
    def cells(tags: Tags) -> np.ndarray:
        """The pairs of states at which steps are needed: first to inside, inside to inside, and to the last where it has a state."""
        pairs = [(tags.first, tags.inside), (tags.inside, tags.inside)]
        if (tags.last >= 0).any():
            pairs += [(tags.first, tags.last), (tags.inside, tags.last)]
        return np.maximum(np.concatenate([np.stack(pair, axis=1) for pair in pairs]), 0)

    def of(self, start: np.ndarray, end: np.ndarray, kind: np.ndarray) -> np.ndarray:
        """The probabilities of given spans."""
        out = np.empty(len(start))
        alone = (start == end) & self.closes
        out[alone] = self._state(start[alone], self.tags.single[kind[alone]])
        todo = np.flatnonzero(~alone)
        at, run, stop = start.copy(), self._starts(start, kind), end - self.closes
        length = 0
        while len(todo):
            done = at[todo] == stop[todo]
            i, todo = todo[done], todo[~done]
            out[i] = run[i] * self._ends(at[i], kind[i], length, self._onward(at[i], kind[i], length))
            run[todo] *= self._onward(at[todo], kind[todo], length)
            at[todo] += 1
            length += 1
        return out

    def above(self, threshold: float) -> Found:
        """All spans of at least this probability, by their place.

        The probability that a span has begun and gone so far bounds that of every span that begins so: few are to be followed.
        """
        start, kind = self._likely(self.tags.single, threshold)
        found = [Found(start, start, kind, self._state(start, self.tags.single[kind]))]
        start, kind = self._likely(self.tags.first, threshold)
        at, run, length = start, self._starts(start, kind), 0
        while len(start):
            on = self._onward(at, kind, length)
            p = run * self._ends(at, kind, length, on)
            keep = p >= threshold
            found.append(Found(start[keep], at[keep] + self.closes, kind[keep], p[keep]))
            run = run * on
            go = run >= threshold  # zero at the end of a chain
            start, at, kind, run, length = start[go], at[go] + 1, kind[go], run[go], length + 1
        parts = [np.concatenate(part) for part in zip(*found, strict=True)]
        order = np.lexsort((parts[1], parts[0]))
        return Found(*(part[order] for part in parts))

    def _ends(self, at: np.ndarray, kind: np.ndarray, length: int, on: np.ndarray) -> np.ndarray:
        """P(a span that has gone as far as `at` ends: here, or with a state of its own at the next position)."""
        return self._onward(at, kind, length, closing=True) if self.closes else 1 - on


def best_apart(found: Found, threshold: float) -> np.ndarray:
    """Which spans to keep so that none overlap: the set of largest sum of (probability - threshold).

    Spans that overlap exclude each other, so that from one half on nothing is to be decided.
    """
    order = np.argsort(found.end, kind="stable")
    start, end, gain = found.start[order], found.end[order], found.probability[order] - threshold
    before = np.searchsorted(end, start)  # how many of the spans end before this one starts
    best, take = np.zeros(len(order) + 1), np.zeros(len(order), dtype=bool)
    for i in range(len(order)):
        with_it = best[before[i]] + gain[i]
        take[i] = with_it > best[i] or (with_it == best[i] and before[i] == i)
        best[i + 1] = max(best[i], with_it)
    kept, i = [], len(order)
    while i:
        if take[i - 1]:
            kept.append(order[i - 1])
            i = before[i - 1]
        else:
            i -= 1
    return np.sort(np.array(kept, dtype=np.int64))


def as_precise(found: Found, precision: float) -> Found:
    """The most spans, the likeliest first, whose mean probability is at least this."""
    order = np.argsort(-found.probability, kind="stable")
    means = np.cumsum(found.probability[order]) / np.arange(1, len(order) + 1)
    kept = np.sort(order[: int((means >= precision).sum())])  # the means fall
    return Found(*(part[kept] for part in found))
