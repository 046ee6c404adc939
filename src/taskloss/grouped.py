"""Examples of many sizes (lists of items, tables of node pairs) that share one scoring function."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .hypotheses.base import Hypothesis, row_blocks
from .labels import absent
from .surrogates.base import Surrogate

Array = Any

_FEATURE_BYTES = 1 << 26  # features that a hypothesis makes of rows are held up to this size


class Groups:
    """Rows that belong together, by one id per row, wherever they stand; groups are numbered in the order of their ids."""

    def __init__(self, ids: Any, n_rows: int):
        ids = np.asarray(ids)
        if ids.ndim != 1 or len(ids) != n_rows:
            raise ValueError(
                f"groups must name the group of each of the {n_rows} rows, got shape {ids.shape}; from sizes, it is "
                "np.repeat(np.arange(len(sizes)), sizes)."
            )
        if ids.dtype.kind in "fOM" and any(map(absent, ids.tolist())):
            raise ValueError("groups contains NaN or None: every row needs a group.")
        try:
            self.ids, self.group_of = np.unique(ids, return_inverse=True)
        except TypeError as error:
            raise ValueError(
                f"The ids in groups are of types that cannot be sorted together ({error}): make them all strings or all numbers."
            ) from error
        self.sizes = np.bincount(self.group_of, minlength=len(self.ids))
        self._order = np.argsort(self.group_of, kind="stable")
        self._first = np.concatenate([[0], np.cumsum(self.sizes)[:-1]]).astype(np.int64)

    def __len__(self) -> int:
        return len(self.ids)

    def by_size(self) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """(size, numbers of the groups of that size, their rows as one row each): equal sizes are one array."""
        for size in np.unique(self.sizes).tolist():
            which = np.flatnonzero(self.sizes == size)
            yield size, which, self._order[self._first[which][:, None] + np.arange(size)]


@dataclass
class Stack:
    """Examples of one size: their surrogate, moments (N, k) and weights; they own the next N k rows of X."""

    surrogate: Surrogate
    phi: np.ndarray
    weights: np.ndarray


class GroupedRisk:
    """f(theta) = sum_i w_i S(v_i, phi_i) + alpha/2 |theta|^2, where example i has k_i coordinates with a row of X each.

    One score per row, by the same theta for all. Examples of equal size are stacked and go through their surrogate at
    once, as ordinary rows do: nothing in a surrogate knows of ragged sizes. All that a solver sees.
    """

    def __init__(self, hypothesis: Hypothesis, stacks: Sequence[Stack], X: Any, alpha: float):
        self.hypothesis, self.X, self.alpha = hypothesis, X, alpha
        room = max(256, _FEATURE_BYTES // (8 * hypothesis.width(X.shape[1])))
        self.blocks = row_blocks(X, room if hypothesis.makes_features else X.shape[0])
        self.held = hypothesis.features(X) if len(self.blocks) == 1 else None
        total = sum(float(s.weights.sum()) for s in stacks)
        stops = np.cumsum([s.phi.size for s in stacks]).tolist()
        starts = [0, *stops[:-1]]
        self.stacks = [
            (slice(a, b), s.surrogate, s.phi.astype(float, copy=False), s.weights / total)
            for a, b, s in zip(starts, stops, stacks, strict=True)
        ]
        self.constant = sum(float(w @ s.potential(phi)) for _, s, phi, w in self.stacks)
        self.start = hypothesis.start(X, np.zeros(1))
        self.head = hypothesis.penalised(X)

    def _features(self) -> Iterator[tuple[slice, Any]]:
        """Blocks of rows and their features: made anew in every pass where they are too many to hold."""
        for rows in self.blocks:
            yield rows, self.hypothesis.features(self.X[rows]) if self.held is None else self.held

    def scores(self, theta: Array) -> np.ndarray:
        coefficients = self.hypothesis.expand(theta)
        parts = [np.asarray(self.hypothesis.scores(coefficients, made)).ravel() for _, made in self._features()]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _pullback(self, dv: np.ndarray) -> np.ndarray:
        parts = [self.hypothesis.pullback(made, dv[rows, None]) for rows, made in self._features()]
        return self.hypothesis.contract(sum(parts[1:], parts[0]))

    def value_and_gradient(self, theta: Array) -> tuple[np.ndarray, Array]:
        v = self.scores(theta)
        dv, value = np.empty_like(v), self.constant
        for rows, surrogate, phi, w in self.stacks:
            terms, gradient = surrogate.risk_and_gradient(v[rows].reshape(phi.shape), phi)
            value += float(w @ terms.sum(-1))
            dv[rows] = (w[:, None] * gradient).ravel()
        value += self.alpha / 2 * float((theta[: self.head] ** 2).sum())
        return np.atleast_1d(value), self._penalise(self._pullback(dv), theta)

    def _penalise(self, gradient: Array, theta: Array) -> Array:
        gradient[: self.head] += self.alpha * theta[: self.head]
        return gradient

    def _curvatures(self, v: np.ndarray) -> list[tuple[slice, np.ndarray, Callable[[Array], Array]]]:
        return [(rows, w[:, None], s.hessian(v[rows].reshape(phi.shape), phi)) for rows, s, phi, w in self.stacks]

    def hessian(self, theta: Array) -> Callable[[Array], Array]:
        maps = self._curvatures(self.scores(theta))

        def product(direction: Array) -> Array:
            u = self.scores(direction)
            out = np.empty_like(u)
            for rows, w, curvature in maps:
                out[rows] = (w * curvature(u[rows].reshape(len(w), -1))).ravel()
            return self._penalise(self._pullback(out), direction)

        return product

    def preconditioner(self, theta: Array) -> Callable[[Array], Array]:
        """As for one mean curvature per row, a stack's own: with random signs e, e_r (C e)_r is C's diagonal on average."""
        signs = np.random.default_rng(0).choice([-1.0, 1.0], self.X.shape[0])
        weights = np.empty(self.X.shape[0])
        for rows, w, curvature in self._curvatures(self.scores(theta)):
            e = signs[rows].reshape(len(w), -1)
            weights[rows] = np.broadcast_to(w * max(float((e * curvature(e)).mean()), 1e-12), e.shape).ravel()
        total = weights.sum()
        return self.hypothesis.preconditioner(self.X, weights / total, np.array([total]), self.alpha)
