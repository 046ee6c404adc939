"""The F-measure read from the probability of each label alone, as if labels were independent given x."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..polytopes.cube import Cube
from .base import Array
from .fbeta import FBeta

_BLOCK = 1 << 22  # numbers in the tables of a block of examples
_TAIL = 28.0  # minus the logarithm of the chance that sizes beyond the last one have: 1e-12


class IndependentFBeta(FBeta):
    """`FBeta` in the embedding of `Hamming`: the moments are 2 P(y_j = 1) - 1, and labels are taken to be independent given x and that
    there are at least `min_size` of them.

    The number of the other labels is then Poisson-binomial, and decoding is exact, in O(k s) for the tables of an example with
    sizes up to s, and O(k s) for each size of output that can be best. Where labels depend on each other given x the decision need not be the best one:
    `FBeta` itself, fitted, is consistent. The loss is no linear function of these moments, and has no psi.
    """

    @property
    def polytope(self) -> Any:
        return Cube(self._count())

    def phi(self, y: Array, dtype: Any = float) -> np.ndarray:
        return 2 * self._check(y, "labels").astype(dtype) - np.ones((), dtype)

    def psi(self, z: Array) -> np.ndarray:
        raise NotImplementedError("The F-measure is no linear function of the labels' probabilities.")

    def probabilities(self, mu: Array) -> np.ndarray:
        return np.clip((np.asarray(mu) + 1) / 2, 0.0, 1.0)

    def _tables(self, mu: Array) -> Iterator[tuple[slice, FBeta, np.ndarray]]:
        """Blocks of examples: which they are, the loss with its own statistics of sizes that can occur, and their moments."""
        p = self.probabilities(mu).reshape(-1, self._count())
        mean = float(p.sum(axis=1).max(initial=0.0))
        # Chernoff: P(count >= mean + t) <= exp(-t^2 / (2 mean + 2 t / 3))
        sizes = min(self._count(), int(np.ceil(mean + _TAIL / 3 + np.sqrt(_TAIL**2 / 9 + 2 * _TAIL * mean))))
        sizes = max(sizes, int(self.min_size), 1)
        full = FBeta(self.n_labels, self.beta, sizes)
        rows = max(1, _BLOCK // ((self._count() + 1) * (sizes + 1)))
        for i in range(0, len(p), rows):
            some = slice(i, min(i + rows, len(p)))
            tables = joint_sizes(p[some], sizes)
            if self.min_size:
                tables[:, :-1, 1 : self.min_size] = 0.0
                tables[:, -1, : self.min_size] = 0.0
                rest = tables[:, -1].sum(axis=1)[:, None, None]
                tables /= np.where(rest > 0, rest, 1.0)
            yield some, full, tables.reshape(some.stop - i, -1)

    def decode(self, mu: Array, costs: Array | None = None) -> np.ndarray:
        """The set of largest expected F, by its size; costs (n, n_labels) are the prices of predicting each label."""
        shape = np.shape(mu)
        prices = None if costs is None else np.broadcast_to(costs, shape).reshape(-1, self._count())
        z = np.empty((int(np.prod(shape[:-1])), self._count()), dtype=np.int64)
        for some, full, tables in self._tables(mu):
            z[some] = full.decode(tables, None if prices is None else prices[some])
        return z.reshape(shape)

    def bayes_risk(self, z: Array, mu: Array) -> np.ndarray:
        flat = self._check(z, "outputs").reshape(-1, self._count())
        risk = np.empty(len(flat))
        for some, full, tables in self._tables(mu):
            risk[some] = full.bayes_risk(flat[some], tables)
        return risk.reshape(np.shape(z)[:-1])


def joint_sizes(p: np.ndarray, sizes: int) -> np.ndarray:
    """The moments of polytopes.SizedSets of independent labels with probabilities p (n, k), of sets of at most so many.

    The law of the count of all labels is built label by label, and that of the others is what remains where one is divided out:
    upward where its probability is below a half, downward where it is above, so that errors shrink on the way.
    """
    n, k = p.shape
    count = np.zeros((n, sizes + 1))
    count[:, 0] = 1.0
    for j in range(k):
        taken = count[:, :-1] * p[:, j : j + 1]
        count *= 1 - p[:, j : j + 1]
        count[:, 1:] += taken
    out = np.zeros((n, k + 1, sizes + 1))
    out[:, :-1, 1:] = p[:, :, None] * _others(p, count)[:, :, :sizes]
    out[:, :-1, 0] = 1 - p
    out[:, -1] = count
    return out


def _others(p: np.ndarray, count: np.ndarray) -> np.ndarray:
    """The law of the count of all labels but one, for each one, (n, k, sizes + 1)."""
    low, last = p <= 0.5, count.shape[1] - 1
    up, down = np.where(low, 1 / np.maximum(1 - p, 0.5), 0.0), np.where(low, 0.0, 1 / np.maximum(p, 0.5))
    out = np.empty((*p.shape, last + 1))
    before = np.zeros(p.shape)
    for s in range(last + 1):
        before = out[:, :, s] = (count[:, s, None] - p * before) * up
    after = np.zeros(p.shape)
    for s in range(last, -1, -1):  # count[s + 1] = p out[s] + (1 - p) out[s + 1]
        above = count[:, s + 1, None] if s < last else 0.0
        after = (above - (1 - p) * after) * down
        out[:, :, s] += after
    return np.maximum(out, 0.0)
