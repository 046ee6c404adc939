"""Scores in the span of a kernel at a few centres: the Nyström approximation, for up to millions of points."""

from __future__ import annotations

import numbers
from typing import Any, Self

import numpy as np
from scipy.optimize import brentq
from sklearn.utils import check_random_state

from .base import row_blocks
from .gram import spectrum, whitening
from .kernel import Kernel

_CENTRES = 1000
_ROWS = 4  # rows per centre from which the features' second moments are estimated
_MOST_ROWS = 20_000


class Nystrom(Kernel):
    """g(x) = sum_j a_j k(x, c_j) + b at m centres c_j among the training points, with the penalty of `Kernel`.

    n_centres: how many; left out, 1000, or all points where they are fewer. centres: how they are drawn, "uniform" or
    "leverage" (by approximate ridge leverage scores, which favour points that the others explain badly); rows of weight
    zero are never drawn. device: where kernel values are made and multiplied, such as "cuda", as in `Linear`; the Gaussian
    kernel is made there, others on the host. Kernel values are held up to 64 MB and made block by block beyond, so that memory grows with m^2
    and not with n m.

    With all points as centres it equals `Kernel`. theta are coordinates in which the penalty is Euclidean and the
    features, as a sample of the rows shows them, are uncorrelated: with the preconditioner that follows, squares need a few
    passes over the data (Rudi, Carratino and Rosasco 2017). Other surrogates are curved differently from row to row; the
    Hessian's blocks on a sample of rows keep their passes few (after Marteau-Ferey, Bach and Rudi 2019).
    """

    name = "nystrom"

    def __init__(
        self,
        n_centres: int | None = None,
        kernel: Any = "rbf",
        gamma: Any = "scale",
        degree: float = 3,
        coef0: float = 1,
        kernel_params: dict[str, Any] | None = None,
        centres: str = "uniform",
        fit_intercept: bool = True,
        shared: Any = "deprecated",
        random_state: Any = 0,
        device: Any = None,
    ):
        self.n_centres = n_centres
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.centres = centres
        self.fit_intercept = fit_intercept
        self.shared = shared
        self.random_state = random_state
        self.device = device

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(5), cls(5, "laplacian", gamma=0.3), cls(6, centres="leverage", fit_intercept=False)]

    @property
    def grows(self) -> bool:
        return False

    def _settle(self, X: Any, weights: np.ndarray | None) -> None:
        if self.kernel == "precomputed":
            raise ValueError(
                "Nystrom makes kernel values as it needs them: give it the kernel, or use Kernel('precomputed')."
            )
        rng = check_random_state(self.random_state)
        if self.centres not in ("uniform", "leverage"):
            raise ValueError(f"centres must be 'uniform' or 'leverage', got {self.centres!r}.")
        draws = _Draws(X, weights, rng)
        m = self._count(draws.size)
        chosen = draws.take(m)
        if self.centres == "leverage":
            chosen = self._by_leverage(draws, chosen)
        self._settle_at(draws, chosen)

    def _count(self, n: int) -> int:
        if self.n_centres is None:
            return min(n, _CENTRES)
        if not isinstance(self.n_centres, numbers.Integral) or self.n_centres < 1:
            raise ValueError(f"n_centres must be a whole number, at least 1, got {self.n_centres!r}.")
        if self.n_centres > n:
            raise ValueError(
                f"n_centres={self.n_centres} is more than the {n} training points to choose from (those of weight zero are none); "
                "leave it out, or use hypothesis='kernel'."
            )
        return self.n_centres

    def _settle_at(self, draws: _Draws, chosen: np.ndarray) -> None:
        """Coordinates for centres at these rows."""
        X, m, place = draws.X, len(chosen), self._place
        centres = X[np.sort(chosen)]
        self.gram_ = self._gram(centres, X, draws.weights)
        values, vectors, _ = spectrum(np.array(self.gram_(centres), dtype=float), False, place=place)
        white = place.put(whitening(values, vectors)[1])
        rows, share = draws.sample(max(_ROWS * m, min(_MOST_ROWS, 10 * m)))
        mean, second = place.put(np.zeros(m)), place.put(np.zeros((m, m)))
        for block in row_blocks(rows, max(256, (1 << 24) // m)):
            k = self.gram_.at(X[rows[block]])
            w = place.put(share[block])
            mean += w @ k
            second += k.T @ (k if draws.even else k * (w * len(rows))[:, None])
        second /= len(rows)
        if self.fit_intercept:
            second -= mean[:, None] * mean
        second = white.T @ second @ white
        moments, turn = place.eigh((second + second.T) / 2)
        self.mean_ = place.get(mean) if self.fit_intercept else np.zeros(m)
        self.moments_ = np.maximum(moments[::-1], 0.0)
        self.basis_ = place.get(white @ place.put(turn[:, ::-1]))

    def _by_leverage(self, draws: _Draws, first: np.ndarray) -> np.ndarray:
        """Centres drawn in proportion to their ridge leverage scores, which a first, uniform draw estimates.

        In the first draw's coordinates f(x), with second moments c, the score at level t is sum_j f_j^2 / (c_j + t) +
        (k(x, x) - |f|^2) / t: what the centres explain, and what they do not. t is where the degrees of freedom
        sum c / (c + t) are half the number of centres, beyond which centres could not be told apart.
        """
        X, m = draws.X, len(first)
        self._settle_at(draws, first)
        c = self.moments_
        if not c.sum() > 1e-12 * self.gram_.diagonal(X[:1]).max():  # points that are all alike
            return first
        target = 0.5 * min(m, (c > 0).sum())
        low, high = 1e-15 * c[0], c[0] * len(c) / target
        level = brentq(lambda log_t: (c / (c + np.exp(log_t))).sum() - target, np.log(low), np.log(high))
        t = np.exp(level)
        scores = np.empty(X.shape[0])
        for rows in row_blocks(X, max(256, (1 << 24) // m)):
            block = X[rows]
            f = self.gram_(block) @ self.basis_
            unexplained = np.maximum(self.gram_.diagonal(block) - (f**2).sum(1), 0.0)
            f -= self.mean_ @ self.basis_
            scores[rows] = (f**2 / (c + t)).sum(1) + unexplained / t
        return draws.take(m, scores)


class _Draws:
    """Random rows of X, each in proportion to its weight: a row of weight two is drawn as two equal rows would be."""

    def __init__(self, X: Any, weights: np.ndarray | None, rng: np.random.RandomState):
        self.X, self.rng = X, rng
        self.weights = np.ones(X.shape[0]) if weights is None else weights
        self.rows = np.flatnonzero(self.weights)
        self.even = self.weights.min() == self.weights.max()

    @property
    def size(self) -> int:
        return len(self.rows)

    def take(self, count: int, scores: np.ndarray | None = None) -> np.ndarray:
        """Different rows of a weight above zero, each in proportion to its weight and score."""
        if self.even and scores is None:
            return self.rng.choice(self.size, count, replace=False)
        if count == self.size:
            return self.rows
        p = self.weights[self.rows] * (1.0 if scores is None else scores[self.rows])
        return self.rows[self.rng.choice(self.size, count, replace=False, p=p / p.sum())]

    def sample(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Rows that stand for all, in order, and their weights, which sum to one."""
        rows = self.rows
        if count < self.size:
            rows = rows[np.sort(self.rng.choice(self.size, count, replace=False))]
        return rows, self.weights[rows] / self.weights[rows].sum()
