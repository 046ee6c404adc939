"""What L-BFGS remembers: its last steps and the changes of the gradient along them, and their inner products.

The two loops of L-BFGS read each vector twice, one after the other. With R_ij = <s_i, y_j> for steps s_i no later than s_j, and D its
diagonal, they are the two triangular systems of Byrd, Nocedal and Schnabel (1994):

    R a = S g,    z = P (g - Y' a),    R' c = D a - Y z,    direction = -(z + S' c)

for a first guess P of the inverse Hessian. All vectors are read at once, four times in all, and R is known from S g at
successive points: a hundred pairs cost about what ten did.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..parallel import Executor

Array = Any

_LANES = 64  # numbers that loops go over at the least
_NUMBERS = 1 << 25  # that are remembered, beyond the fewest pairs
_FEWEST = 8
USEFUL = 1e-300  # the least curvature along a step that says anything


class Pairs:
    """The last pairs (s, y) of points of this shape, whose columns are problems of their own.

    A vector lies in memory as rows of `lanes` numbers, a whole number of columns' rows side by side, with zeros behind it.
    """

    def __init__(self, shape: tuple[int, int], memory: int):
        self.shape, self.memory = shape, memory
        size, columns = shape[0] * shape[1], shape[1]
        self.side = max(1, _LANES // columns)
        self.rows, self.lanes = -(-shape[0] // self.side), self.side * columns
        self.most = min(memory, max(_FEWEST, _NUMBERS // (2 * size)))
        self.executor = Executor.for_work(4.0 * self.most * size)
        # Those of large points are kept in single precision, half of the memory to read; and what is never written to is never taken.
        dtype = np.float32 if self.executor.compiled else np.float64
        self.steps = np.empty((self.most, self.rows, self.lanes), dtype)
        self.changes = np.empty_like(self.steps)
        self.products = np.zeros((self.most, self.most, columns))  # R, by places
        self.order: list[int] = []  # places of pairs, the oldest first
        self.along = np.zeros((self.most, columns))  # S g at the last point
        self.fresh = False  # whether a pair has come since then

    def add(self, s: Array, y: Array, curvature: np.ndarray) -> None:
        """Remember a pair of which <s, y> is the curvature; columns where it says nothing are left out."""
        place = len(self.order) if len(self.order) < self.most else self.order.pop(0)
        useful = curvature > USEFUL
        for vectors, x in ((self.steps, s), (self.changes, y)):
            vectors[place] = self._in_lanes(x if useful.all() else np.where(useful, x, 0.0))
        self.order.append(place)
        self.products[place] = self.products[:, place] = 0.0
        self.products[place, place] = np.where(useful, curvature, 1.0)
        self.along[place], self.fresh = 0.0, True

    def direction(self, gradient: Array, guess: Callable[[Array], Array]) -> Array:
        """-H g of the quasi-Newton matrix H that starts from the guess of the inverse Hessian and takes in all pairs."""
        if not self.order:
            return -guess(gradient)
        count, newest = len(self.order), self.order[-1]
        steps, changes = self.steps[:count], self.changes[:count]
        g = self._in_lanes(gradient)
        along = self._inner(steps, g)
        # <s_i, y> is the change of <s_i, g>; the newest step had no product at the last point, and its own curvature is known
        if self.fresh:
            own = self.products[newest, newest].copy()
            self.products[:count, newest] = along - self.along[:count]
            self.products[newest, newest] = own
        self.along[:count], self.fresh = along, False
        r = np.triu(self.products[np.ix_(self.order, self.order)].transpose(2, 0, 1))
        by_place = np.argsort(self.order)
        a = _solve(r, along[self.order])
        z = guess(self._out_of_lanes(self._add(changes, -a[by_place], g)))
        lanes = self._in_lanes(z)
        diagonal = np.einsum("bii->ib", r)
        c = _solve(r.swapaxes(1, 2), diagonal * a - self._inner(changes, lanes)[self.order])
        out = self._out_of_lanes(self._add(steps, c[by_place], lanes))
        return np.negative(out, out=out)

    def keep(self, columns: np.ndarray) -> Pairs:
        """Those of some columns alone."""
        kept = Pairs((self.shape[0], len(columns)), self.memory)
        places = self.order[-kept.most :]
        kept.order = list(range(len(places)))
        for new, old in enumerate(places):
            for mine, theirs in ((kept.steps, self.steps), (kept.changes, self.changes)):
                mine[new] = kept._in_lanes(self._out_of_lanes(theirs[old])[:, columns])
        kept.products[: len(places), : len(places)] = self.products[np.ix_(places, places)][:, :, columns]
        kept.along[: len(places)] = self.along[places][:, columns]
        return kept

    # -- vectors in memory -------------------------------------------------------------------------------------------

    def _in_lanes(self, x: Array) -> np.ndarray:
        """A fresh copy of a point in lanes."""
        out = np.zeros((self.rows, self.lanes))
        out.reshape(-1)[: x.size] = x.reshape(-1)
        return out

    def _out_of_lanes(self, x: np.ndarray) -> np.ndarray:
        rows, columns = self.shape
        return x.reshape(-1)[: rows * columns].reshape(rows, columns).astype(float, copy=False)

    def _inner(self, vectors: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Inner products of each vector with x, column by column: (count, columns)."""
        if self.executor.compiled:
            from .._compiled.pairs import inner

            def work(rows: slice) -> np.ndarray:
                part = np.zeros((len(vectors), self.lanes))
                inner(vectors, x, part, rows.start, rows.stop)
                return part

            threads = self.executor.threads
            cuts = [slice(self.rows * i // threads, self.rows * (i + 1) // threads) for i in range(threads)]
            out = sum(self.executor.map(work, cuts))
        else:
            out = np.einsum("irc,rc->ic", vectors, x)
        return np.asarray(out).reshape(len(vectors), self.side, -1).sum(axis=1)

    def _add(self, vectors: np.ndarray, coefficients: np.ndarray, x: np.ndarray) -> np.ndarray:
        """x + sum_i coefficients_i vectors_i, in the memory of x."""
        w = np.tile(coefficients, (1, self.side))
        if self.executor.compiled:
            from .._compiled.pairs import add

            self.executor.over(lambda rows: add(vectors, w, x, rows.start, rows.stop), self.rows)
        else:
            x += np.einsum("ic,irc->rc", w, vectors)
        return x


def _solve(matrices: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The solutions (count, b) of b triangular systems (b, count, count) with these right-hand sides (count, b)."""
    if len(matrices) == 1:
        from scipy.linalg import solve_triangular

        lower = bool(len(right) > 1 and matrices[0, -1, 0])
        return solve_triangular(matrices[0], right, lower=lower, check_finite=False)
    return np.linalg.solve(matrices, right.T[:, :, None])[:, :, 0].T
