"""The layout with one score for each item, examples of each size a batch: rankings, matchings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ..parallel import SERIAL, Executor
from ..surrogates.base import Surrogate
from .scores import Array, Curvature, ScoreRisk

_CONSTANT_STEPS = 30  # Newton steps for the best constant score of items


class Batch(NamedTuple):
    """Examples of one size: their surrogate, bound to it, and their moments (N, k); they own N k rows of one score."""

    surrogate: Surrogate
    targets: np.ndarray


class Groups(ScoreRisk):
    """One score for each item; an example is a group of items, and groups of each size are a batch.

    The rows of the first batch come first, group by group. Nothing in a surrogate knows of unequal sizes.
    """

    def __init__(
        self,
        batches: Sequence[Batch],
        weights: np.ndarray,
        *,
        part: bool = False,
        offset: np.ndarray | None = None,
    ):
        self.batches, self.offset = [b for b in batches if len(b.targets)], offset
        self.weights = weights if part else weights / weights.sum()
        self.sizes = np.array([b.targets.shape[1] for b in self.batches])
        self.counts = np.array([len(b.targets) for b in self.batches])

    @property
    def n_rows(self) -> int:
        return int(self.sizes @ self.counts) if len(self.sizes) else 0

    @property
    def n_scores(self) -> int:
        return 1

    @cached_property
    def first_rows(self) -> np.ndarray:
        """Where each group's rows begin, and where the last one's end."""
        return np.concatenate([[0], np.cumsum(np.repeat(self.sizes, self.counts))]).astype(np.int64)

    @cached_property
    def row_weights(self) -> np.ndarray:
        return np.repeat(self.weights, np.repeat(self.sizes, self.counts))

    def example_sums(self, rows: np.ndarray) -> np.ndarray:
        return np.add.reduceat(rows, self.first_rows[:-1])

    @property
    def smooth(self) -> bool:
        return all(b.surrogate.smooth for b in self.batches)

    @property
    def coupled(self) -> bool:
        return not all(b.surrogate.separable for b in self.batches)

    @property
    def smoothness(self) -> float | None:
        found = [b.surrogate.smoothness for b in self.batches]
        return None if None in found else max((s for s in found if s is not None), default=0.0)

    def start(self) -> np.ndarray:
        return np.zeros(1)

    def best_constant(self) -> np.ndarray:
        """By Newton's method. A softmax over all items of a group does not see constants."""
        score = 0.0
        for _ in range(_CONSTANT_STEPS):
            v = np.full((self.n_rows, 1), score)
            slope, curvature = (
                float(d.sum()) for d in (self.risk_and_gradient(v)[1], self.hessian(v)(np.ones_like(v)))
            )
            if abs(slope) < 1e-12 or curvature < 1e-12:
                break
            score -= float(np.clip(slope / curvature, -2.0, 2.0))
        return np.full(1, score)

    def rows_of(self, examples: Any) -> Any:
        ends = self.first_rows
        if isinstance(examples, slice):
            low, high, _ = examples.indices(self.n_examples)
            return slice(int(ends[low]), int(ends[max(high, low)]))
        which = np.arange(self.n_examples)[examples]
        lengths = np.diff(ends)[which]
        stops = np.cumsum(lengths)
        return np.arange(stops[-1] if len(stops) else 0) + np.repeat(ends[which] - (stops - lengths), lengths)

    def take(self, examples: Any, columns: Any = None) -> Groups:
        """Some groups, in the given order: runs of one batch are a batch."""
        which = np.arange(self.n_examples)[examples]
        firsts = np.concatenate([[0], np.cumsum(self.counts)])
        batch_of = np.searchsorted(firsts, which, side="right") - 1
        stops = [*(np.flatnonzero(np.diff(batch_of)) + 1).tolist(), len(which)]
        batches, start = [], 0
        for stop in stops if len(which) else []:
            i = int(batch_of[start])
            mine: Any = which[start:stop] - firsts[i]
            if isinstance(examples, slice):
                mine = slice(int(mine[0]), int(mine[-1]) + 1)
            batches.append(self.batches[i]._replace(targets=self.batches[i].targets[mine]))
            start = stop
        offset = None if self.offset is None else self.offset[self.rows_of(examples)]
        return Groups(batches, self.weights[which], part=True, offset=offset)

    def shifted(self, offset: np.ndarray) -> Groups:
        offset = offset if self.offset is None else self.offset + offset
        return Groups(self.batches, self.weights, part=True, offset=offset)

    def _each(self, v: Array) -> list[tuple[Batch, slice, np.ndarray, Array]]:
        """(batch, its rows, its weights, its scores (N, k)) for each batch."""
        if self.offset is not None:
            v = v + self.offset
        out, row, group = [], 0, 0
        for batch in self.batches:
            n, k = batch.targets.shape
            rows, groups = slice(row, row + n * k), slice(group, group + n)
            out.append((batch, rows, self.weights[groups], v[rows].reshape(n, k)))
            row, group = rows.stop, groups.stop
        return out

    @cached_property
    def constant(self) -> float:
        parts = self._each(np.zeros((self.n_rows, 1)))
        return sum(float(w @ b.surrogate.potential(b.targets.astype(float, copy=False))) for b, _, w, _ in parts)

    def risk_and_gradient(self, v: Array, out: Any = None, executor: Executor = SERIAL) -> tuple[np.ndarray, Array]:
        gradient = np.empty_like(v) if out is None else out

        def work(part: tuple[Any, ...]) -> float:
            batch, rows, w, scores = part
            terms, dv = batch.surrogate.risk_and_gradient(scores, batch.targets.astype(v.dtype, copy=False))
            gradient[rows] = (w[:, None] * dv).reshape(-1, 1)
            return float(w @ terms.sum(-1))

        return np.atleast_1d(sum(executor.map(work, self._each(v)))), gradient

    def hessian(self, v: Array) -> Callable[[Array], Array]:
        maps = [
            (rows, w[:, None], b.surrogate.hessian(s, b.targets.astype(v.dtype))) for b, rows, w, s in self._each(v)
        ]

        def product(u: Array) -> Array:
            out = np.empty_like(u)
            for rows, w, curvature in maps:
                out[rows] = (w * curvature(u[rows].reshape(len(w), -1))).reshape(-1, 1)
            return out

        return product

    def diagonal(self, v: Array, gradient: Array) -> np.ndarray:
        out = np.empty_like(gradient)
        for b, rows, w, scores in self._each(v):
            weights, phi = w[:, None], b.targets.astype(v.dtype, copy=False)
            each = b.surrogate.diagonal(scores, phi, gradient[rows].reshape(scores.shape) / weights)
            out[rows] = (weights * each).reshape(-1, 1)
        return out

    def curvature(self, v: Array) -> Curvature:
        """One mean curvature for each batch: with random signs e, e_r (C e)_r is the diagonal of C on average."""
        signs = np.random.default_rng(0).choice([-1.0, 1.0], (len(v), 1))
        ones = Groups(self.batches, np.ones(self.n_examples), part=True, offset=self.offset)
        products = signs * ones.hessian(v)(signs)
        each = np.empty((len(v), 1))
        for _, rows, _, _ in self._each(v):
            each[rows] = max(float(products[rows].mean()), 1e-12)
        return Curvature(self.row_weights, each)
