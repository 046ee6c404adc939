"""The F-measure of label sets."""

from __future__ import annotations

import numbers
from typing import Any, Self

import numpy as np

from .._checks import check_beta
from ..polytopes.sizedsets import SizedSets
from .base import Array, Loss, check_prices, check_sets, price_of_sets
from .hamming import Hamming


class FBeta(Loss):
    """L(z, y) = 1 - (1 + beta^2) |z and y| / (beta^2 |y| + |z|), one less the F-measure of each example; F(0, 0) = 1.

    y and z are rows of 0 and 1. The loss is affine in the statistics phi(y) of polytopes.SizedSets, a table of whether
    label j is in y and of which size y then is: psi(z)[j, s] = -(1 + beta^2) z_j / (beta^2 s + |z|), -1(z = 0) on the
    empty set's own statistic, and c = 1. Sizes above `max_size` (by default n_labels; fitting takes the largest seen)
    have no statistic, though they may be predicted.

    Decoding is exact: for each size r = |z| the best set holds the r labels of largest sum_s mu[j, s] (1 + beta^2) /
    (beta^2 s + r), O(k^2) after these products (Ye and others 2012; Waegeman and others 2014). beta = 1 is Dice's
    coefficient, and with it sklearn's f1_score(average="samples", zero_division=1).

    Statistics are labels times sizes, which hundreds of labels make large. `predict(X, loss=FBeta())` of a fit with `Hamming` reads the probabilities of
    labels alone, exact where labels are independent given x and that there are at least `min_size` of them (1 where no set is empty, which
    matters); a fit with FBeta, which learns sizes, is consistent whether they are or not.
    """

    name = "f-beta"
    kind = "indicator"

    def __init__(self, n_labels: int | None = None, beta: float = 1.0, max_size: int | None = None, min_size: int = 0):
        self.n_labels = n_labels
        self.beta = beta
        self.max_size = max_size
        self.min_size = min_size

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(3), cls(3, beta=2.0), cls(4, beta=0.5, max_size=2)]

    def bind(self, size: int) -> Self:
        if self.n_labels is None:
            return self.with_params(n_labels=size)
        if self.n_labels != size:
            raise ValueError(f"{self!r} is a loss over {self.n_labels} labels, but y has {size} columns.")
        return self

    def bind_codes(self, y: np.ndarray) -> Self:
        """Statistics up to the largest size seen: those of others would be fitted to nothing."""
        return self if self.max_size is not None else self.with_params(max_size=max(1, int(y.sum(-1).max())))

    def _count(self) -> int:
        if self.n_labels is None:
            raise ValueError("FBeta does not know its number of labels yet: give n_labels, or call bind(n_labels).")
        check_beta(self.beta)
        if self.max_size is not None and not 1 <= self.max_size <= self.n_labels:
            raise ValueError(f"max_size must be from 1 to the {self.n_labels} labels, got {self.max_size!r}.")
        if not isinstance(self.min_size, numbers.Integral) or not 0 <= self.min_size <= self.n_labels:
            raise ValueError(f"min_size must be from 0 to the {self.n_labels} labels, got {self.min_size!r}.")
        return self.n_labels

    @property
    def polytope(self) -> SizedSets:
        return SizedSets(self._count(), self.max_size)

    def _check(self, y: Array, what: str) -> np.ndarray:
        return check_sets(y, self._count(), what).astype(np.int64)

    def phi(self, y: Array, dtype: Any = float) -> np.ndarray:
        y, polytope = self._check(y, "labels"), self.polytope
        if y.size and y.sum(-1).max() > polytope.sizes:
            raise ValueError(
                f"A set of {y.sum(-1).max()} labels is larger than max_size={polytope.sizes}: raise max_size, or leave it out."
            )
        return polytope.statistics(y, dtype)

    def _reward(self) -> np.ndarray:
        """(1 + beta^2) / (beta^2 s + r) for sizes s = 1.. of y and r = 1..k of z: what a label in both is worth."""
        s, r = np.arange(1, self.polytope.sizes + 1), np.arange(1, self._count() + 1)
        return (1 + self.beta**2) / (self.beta**2 * s[:, None] + r)

    def psi(self, z: Array) -> np.ndarray:
        z, polytope = self._check(z, "outputs"), self.polytope
        count = z.sum(-1)
        out = np.zeros((*z.shape[:-1], polytope.rows, polytope.columns))
        out[..., :-1, 1:] = -z[..., None] * self._reward().T[np.maximum(count, 1) - 1][..., None, :]
        out[..., -1, 0] = np.where(count == 0, -1.0, 0.0)
        return out.reshape(*z.shape[:-1], polytope.size)

    @property
    def constant(self) -> float:
        return 1.0

    def __call__(self, z: Array, y: Array) -> np.ndarray:
        z, y = self._check(z, "outputs"), self._check(y, "labels")
        both, sizes = (z & y).sum(-1), self.beta**2 * y.sum(-1) + z.sum(-1)
        return 1 - np.where(sizes > 0, (1 + self.beta**2) * both / np.where(sizes > 0, sizes, 1), 1.0)

    def decode(self, mu: Array, costs: Array | None = None) -> np.ndarray:
        """The set of largest expected F, by its size; costs (n, n_labels) are the prices of predicting each label."""
        k, polytope = self._count(), self.polytope
        mu = np.asarray(mu, dtype=float)
        tables = mu.reshape(-1, polytope.rows, polytope.columns)
        joint, reward = np.ascontiguousarray(tables[:, :-1, 1:]), self._reward()
        price: Any = 0.0
        if costs is not None:
            price = check_prices(costs, (*mu.shape[:-1], k), "label that is predicted").reshape(-1, k)
        best, size = tables[:, -1, 0].copy(), np.zeros(len(tables), dtype=np.int64)
        most = (1 + self.beta**2) * np.maximum(joint, 0.0).sum((1, 2))  # over r, what r labels can be worth
        for r in range(1, k + 1):
            if costs is None and (most < r * best).all():
                break
            worth = joint @ reward[:, r - 1] - price
            top = worth if r == k else np.partition(worth, k - r, axis=-1)[:, k - r :]
            value = top.sum(-1)
            size = np.where(value > best, r, size)
            best = np.maximum(value, best)
        worth = np.einsum("njs,sn->nj", joint, reward[:, np.maximum(size, 1) - 1]) - price
        rank = np.argsort(np.argsort(-worth, axis=-1, kind="stable"), axis=-1)
        return (rank < size[:, None]).astype(np.int64).reshape(*mu.shape[:-1], k)

    def price(self, z: Array, costs: Array) -> np.ndarray:
        return price_of_sets(z, costs)

    def worst(self, z: Array, costs: Array | None = None) -> np.ndarray:
        return np.ones(len(z)) if costs is None else 1 + self.price(z, costs)

    def range(self) -> tuple[float, float]:
        return 0.0, 1.0

    def probabilities(self, mu: Array) -> np.ndarray:
        """P(y_j = 1), label by label: the sums over sizes."""
        polytope = self.polytope
        tables = np.asarray(mu).reshape(*np.shape(mu)[:-1], polytope.rows, polytope.columns)
        return tables[..., :-1, 1:].sum(-1)

    def moments_for(self, other: Loss, mu: Array) -> Array:
        if isinstance(other, Hamming):
            return 2 * self.probabilities(mu) - 1
        if isinstance(other, FBeta) and other.polytope.columns > self.polytope.columns:  # sizes that were never seen
            mine, theirs = self.polytope, other.polytope
            tables = np.asarray(mu).reshape(*np.shape(mu)[:-1], mine.rows, mine.columns)
            missing = np.zeros((*tables.shape[:-1], theirs.columns - mine.columns))
            return np.concatenate([tables, missing], axis=-1).reshape(*np.shape(mu)[:-1], theirs.size)
        return super().moments_for(other, mu)

    def embedded_like(self, other: Loss) -> FBeta:
        """Of a fit of each label's probability alone, the same loss with labels taken to be independent given x."""
        from .independent import IndependentFBeta

        return IndependentFBeta(self.n_labels, self.beta, None, self.min_size) if isinstance(other, Hamming) else self

    def outputs(self) -> np.ndarray:
        return SizedSets(self._count()).sets()

    def labels(self) -> np.ndarray:
        return self.polytope.sets()


class Recall(FBeta):
    """L(z, y) = |y without z| / |y|, one less the recall of each example: the share of its labels that is missed; zero where y is empty.

    The limit of `FBeta` for large beta, on the same moments, but for label sets y that are empty. Every label that may be in y is worth
    predicting, so that it is a loss to be kept below a level (`taskloss.RiskController`) or decoded with prices of labels.
    """

    name = "recall"

    def __init__(self, n_labels: int | None = None, max_size: int | None = None):
        self.n_labels = n_labels
        self.max_size = max_size

    beta, min_size = 1.0, 0  # of no use here

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(3), cls(4, max_size=2)]

    def _reward(self) -> np.ndarray:
        s = np.arange(1, self.polytope.sizes + 1)
        return np.repeat(1 / s[:, None], self._count(), axis=1)

    def psi(self, z: Array) -> np.ndarray:
        out = super().psi(z).reshape(*np.shape(z)[:-1], self.polytope.rows, self.polytope.columns)
        out[..., -1, 0] = -1.0
        return out.reshape(*np.shape(z)[:-1], self.polytope.size)

    def __call__(self, z: Array, y: Array) -> np.ndarray:
        return self.by_part(z, y).sum(-1)

    def by_part(self, z: Array, y: Array) -> np.ndarray:
        z, y = self._check(z, "outputs"), self._check(y, "labels")
        return (1 - z) * y / np.maximum(y.sum(-1, keepdims=True), 1)

    def decode(self, mu: Array, costs: Array | None = None) -> np.ndarray:
        """Each label whose expected share of y is worth its price; costs (n, n_labels) are the prices of predicting each label."""
        k, polytope = self._count(), self.polytope
        mu = np.asarray(mu, dtype=float)
        tables = mu.reshape(-1, polytope.rows, polytope.columns)
        price: Any = 0.0
        if costs is not None:
            price = check_prices(costs, (*mu.shape[:-1], k), "label that is predicted").reshape(-1, k)
        worth = tables[:, :-1, 1:] @ self._reward()[:, 0]
        return (worth > price).astype(np.int64).reshape(*mu.shape[:-1], k)

    def embedded_like(self, other: Loss) -> Recall:
        return self

    def worst(self, z: Array, costs: Array | None = None) -> np.ndarray:
        """One, for a set with a label that z lacks."""
        worst = (self._check(z, "outputs").sum(-1) < self._count()).astype(float)
        return worst if costs is None else worst + self.price(z, costs)
