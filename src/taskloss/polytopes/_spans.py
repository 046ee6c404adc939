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
    """What spans need of the marginals of packed chains: (nodes, kinds) tables."""

    def __init__(self, forest: Forest, nodes: np.ndarray, edges: np.ndarray, tags: Tags):
        self.closes = bool((tags.last >= 0).any())
        lower = forest.children

        def at(states: np.ndarray) -> np.ndarray:
            return np.where(states >= 0, nodes[:, np.maximum(states, 0)], 0.0)

        def step(a: np.ndarray, b: np.ndarray) -> np.ndarray:
            """P(next state is b | state is a) by the upper end of the step; zero where there is no next."""
            out = np.zeros((forest.n_nodes, len(a)))
            there = np.maximum(a, 0)
            joint = np.where((a >= 0) & (b >= 0), edges[:, there, np.maximum(b, 0)], 0.0)
            given = nodes[forest.parents[lower]][:, there]
            out[forest.parents[lower]] = joint / np.where(given > 0, given, 1.0)
            return np.clip(out, 0.0, 1.0)

        self.start = at(tags.first)
        if tags.open:  # less the probability that the span began before
            before = np.zeros_like(self.start)
            before[lower] = edges[:, tags.inside, tags.inside]
            self.start = np.maximum(self.start - before, 0.0)
        self.alone = at(tags.single)
        self.on_first, self.on = step(tags.first, tags.inside), step(tags.inside, tags.inside)
        if self.closes:
            self.off_first, self.off = step(tags.first, tags.last), step(tags.inside, tags.last)

    def of(self, start: np.ndarray, end: np.ndarray, kind: np.ndarray) -> np.ndarray:
        """The probabilities of given spans."""
        out = np.empty(len(start))
        alone = (start == end) & self.closes
        out[alone] = self.alone[start[alone], kind[alone]]
        todo = np.flatnonzero(~alone)
        at, run, stop = start.copy(), self.start[start, kind], end - self.closes
        length = 0
        while len(todo):
            done = at[todo] == stop[todo]
            i, todo = todo[done], todo[~done]
            out[i] = self._ended(at[i], kind[i], run[i], length)
            run[todo] *= self._on(length)[at[todo], kind[todo]]
            at[todo] += 1
            length += 1
        return out

    def above(self, threshold: float) -> Found:
        """All spans of at least this probability, by their place.

        The probability that a span has begun and gone so far bounds that of every span that begins so: few are to be followed.
        """
        start, kind = np.nonzero(self.alone >= threshold)
        found = [Found(start, start, kind, self.alone[start, kind])]
        start, kind = np.nonzero(self.start >= threshold)
        at, run, length = start, self.start[start, kind], 0
        while len(start):
            p = self._ended(at, kind, run, length)
            keep = p >= threshold
            found.append(Found(start[keep], at[keep] + self.closes, kind[keep], p[keep]))
            run = run * self._on(length)[at, kind]
            go = run >= threshold  # zero at the end of a chain
            start, at, kind, run, length = start[go], at[go] + 1, kind[go], run[go], length + 1
        parts = [np.concatenate(part) for part in zip(*found, strict=True)]
        order = np.lexsort((parts[1], parts[0]))
        return Found(*(part[order] for part in parts))

    def _on(self, length: int) -> np.ndarray:
        return self.on if length else self.on_first

    def _ended(self, at: np.ndarray, kind: np.ndarray, run: np.ndarray, length: int) -> np.ndarray:
        """The probability of spans that have gone as far as `at` and end: here, or with a state of their own at the next position."""
        if self.closes:
            return run * (self.off if length else self.off_first)[at, kind]
        return run * (1 - self._on(length)[at, kind])


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
