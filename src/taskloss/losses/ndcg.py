"""Rankings: NDCG, DCG and precision at the top."""

from __future__ import annotations

import numbers
from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np

from .._arguments import HYPERPARAMETERS
from .._checks import real_array
from ..polytopes.base import Polytope, listable
from ..polytopes.cube import Cube
from ..polytopes.gains import Gains
from .base import Array, Loss


class Ranking(Loss):
    """A loss over the orders of n_items items. y: a relevance per item, not negative. z: a rank per item, 0 at the top.

    L(z, y) = c - sum_j D[z_j] phi_j(y): psi(z)_j = -D[z_j], and decoding is a sort of the moments, ties to the
    first item, whatever the weights D of the positions, as long as they do not increase.
    """

    kind = "ranking"
    itemwise: ClassVar[bool] = True  # phi_j depends on y_j alone
    at: int | None
    n_items: int | None

    def bind(self, size: int) -> Self:
        if self.n_items is None:
            return self.with_params(n_items=size)
        if self.n_items != size:
            raise ValueError(f"{self!r} is a loss over {self.n_items} items, but the group has {size}.")
        return self

    def _size(self) -> int:
        if self.n_items is None:
            raise ValueError(
                f"{self!r} does not know its number of items yet: give n_items, or call bind(n_items) for each group."
            )
        if self.n_items < 1:
            raise ValueError(f"n_items must be at least one, the number of items in a group, got {self.n_items!r}.")
        if self.at is not None and (not isinstance(self.at, numbers.Integral) or self.at < 1):
            raise ValueError(f"at must be a whole number of positions from 1, got {self.at!r}.")
        return self.n_items

    @property
    def weights(self) -> np.ndarray:
        """D, what a position is worth, from the top down."""
        raise NotImplementedError

    def embedding_key(self) -> tuple[Any, ...]:
        """What phi depends on: losses with the same key decode the same moments."""
        raise NotImplementedError

    def moments_for(self, other: Loss, mu: Array) -> Array:
        if not isinstance(other, Ranking) or other.embedding_key() != self.embedding_key():
            raise ValueError(
                f"{other!r} needs other moments than those of {self!r}, which were fitted: fit with loss={other!r}."
            )
        return mu

    def _relevance(self, y: Array) -> np.ndarray:
        y = np.asarray(y, dtype=float)
        if y.shape[-1:] != (self._size(),):
            raise ValueError(f"The relevance y must have {self.n_items} columns, one per item, got shape {y.shape}.")
        return check_relevance(y)

    def _ranks(self, z: Array) -> np.ndarray:
        z = np.asarray(z)
        m = self._size()
        if z.shape[-1:] != (m,) or not (np.sort(z, axis=-1) == np.arange(m)).all():
            raise ValueError(f"A ranking z must give each of the {m} items a rank of its own from 0 to {m - 1}.")
        return z.astype(np.int64)

    def psi(self, z: Array) -> np.ndarray:
        return -self.weights[self._ranks(z)]

    @property
    def constant(self) -> float:
        return 1.0

    def __call__(self, z: Array, y: Array) -> np.ndarray:
        return self.constant - (self.weights[self._ranks(z)] * self.phi(y)).sum(-1)

    def seen_through(self, phi: Array, propensity: Array) -> np.ndarray:
        """phi over the propensities with which its items were seen: unbiased for phi where each item has its own gain."""
        if not self.itemwise:
            raise ValueError(
                f"propensity corrects losses that are affine in the gains, and {self!r} divides these by the best DCG of the "
                "group, which clicks over propensities do not estimate without bias: use loss=DCG(...) or PrecisionAt(...)."
            )
        return phi / propensity

    def decode(self, mu: Array, costs: Array | None = None) -> np.ndarray:
        if costs is not None:
            raise ValueError("Rankings take no costs per example: there are too many orders to price one by one.")
        order = np.argsort(-np.asarray(mu), axis=-1, kind="stable")
        ranks = np.empty_like(order)
        np.put_along_axis(ranks, order, np.broadcast_to(np.arange(order.shape[-1]), order.shape), axis=-1)
        return ranks

    def range(self) -> tuple[float, float]:
        if self.n_items is None:
            raise ValueError(f"{self!r} has no range that is the same for groups of any size: give n_items=...")
        return super().range()

    def outputs(self) -> np.ndarray:
        from ..polytopes.birkhoff import Birkhoff

        return Birkhoff(self._size()).matchings()

    def labels(self) -> np.ndarray:
        """All binary relevances, which span every other."""
        m = self._size()
        listable(2.0**m)
        return (np.arange(2**m)[:, None] >> np.arange(m)[::-1]) & 1

    def scorer(self, costs: Any = None) -> Any:
        raise ValueError(
            "A ranking is judged group by group: use Ranker.score(X, y, groups=...), or pass scoring=None."
        )


class Cumulative(Ranking):
    """A loss made of gains G(y_j) and discounts D.

    gain G: "exponential" (2^y - 1, as in LightGBM and LETOR), "linear" (y, as in scikit-learn) or a function of an
    array. discount D: "log2" (1 / log2(2 + position)) or a function of the positions 0, 1, ... that does not increase;
    it is scaled to D_0 = 1. at: the number of positions that count.
    """

    integral_phi = False
    gain: str | Callable[[Array], Array]
    discount: str | Callable[[Array], Array]

    @property
    def weights(self) -> np.ndarray:
        m = self._size()
        positions = np.arange(m)
        if callable(self.discount):
            d = real_array("discount", self.discount(positions), "a function that gives numbers")
        elif self.discount == "log2":
            d = 1 / np.log2(2.0 + positions)
        else:
            raise ValueError(f"discount must be 'log2' or a function of the positions, got {self.discount!r}.")
        if d.shape != (m,) or not np.isfinite(d).all() or d[0] <= 0 or (np.diff(d) > 0).any() or d[-1] < 0:
            raise ValueError(
                "discount must give each position a finite weight that is not negative, above zero at the top and never increasing."
            )
        return np.where(positions < (m if self.at is None else self.at), d / d[0], 0.0)

    def gains(self, y: Array) -> np.ndarray:
        """G(y)."""
        if callable(self.gain):
            g = real_array("gain", self.gain(y), "a function that gives numbers")
        elif self.gain == "exponential":
            with np.errstate(over="ignore"):
                g = np.exp2(y) - 1
        elif self.gain == "linear":
            g = np.asarray(y, dtype=float)
        else:
            raise ValueError(f"gain must be 'exponential', 'linear' or a function of the relevance, got {self.gain!r}.")
        if g.shape != np.shape(y):
            raise ValueError(
                f"gain must give a number for each relevance, but made shape {g.shape} of shape {np.shape(y)}: compute it elementwise."
            )
        if not np.isfinite(g).all() or (g < 0).any():
            raise ValueError(
                "The gains of this relevance are negative or not finite: scale the grades or choose another gain."
            )
        return g


class NDCG(Cumulative):
    """One less the normalised discounted cumulative gain: 1 - sum_j D[z_j] G(y_j) / N(y), N(y) the best order's sum.

    gain G: "exponential" (2^y - 1, as in LightGBM and LETOR), "linear" (y, as in scikit-learn) or a function of an
    array. discount D: "log2" (1 / log2(2 + position)) or a function of the positions 0, 1, ... that does not increase.
    at: the number of positions that count. phi(y) = G(y) / N(y), exact also for `at` and real relevance; D is scaled to
    D_0 = 1, which changes no loss and puts phi in [0, 1]. M is polytopes.Gains (the paper's section on NDCG).

    A group without relevant items has no best order. `empty` is the NDCG it counts as: 0 (the default, as in
    scikit-learn and the LETOR tools; phi = 0), 1 (as in LightGBM: all orders are perfect, phi = 1 / sum D) or between.

    Equals 1 - sklearn.metrics.ndcg_score with gain="linear" where scores have no ties.
    """

    name = "ndcg"
    itemwise = False

    def __init__(
        self,
        gain: str | Callable[[Array], Array] = "exponential",
        discount: str | Callable[[Array], Array] = "log2",
        at: int | None = None,
        empty: float = 0.0,
        n_items: int | None = None,
    ):
        self.gain = gain
        self.discount = discount
        self.at = at
        self.empty = empty
        self.n_items = n_items

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(n_items=3), cls("linear", at=2, empty=1.0, n_items=3)]

    def range(self) -> tuple[float, float]:
        return 0.0, 1.0

    def embedding_key(self) -> tuple[Any, ...]:
        return (NDCG, self.gain, self.discount, self.at, self.empty)

    @property
    def polytope(self) -> Polytope:
        return Gains(tuple(self.weights.tolist()), float(self.empty))

    def phi(self, y: Array, dtype: Any = float) -> np.ndarray:
        HYPERPARAMETERS["empty"]("empty", self.empty)
        g, d = self.gains(self._relevance(y)), self.weights
        best = (-np.sort(-g, axis=-1) @ d)[..., None]
        return np.where(best > 0, g / np.where(best > 0, best, 1), self.empty / d.sum()).astype(dtype)


class DCG(Cumulative):
    """What a ranking's discounted cumulative gain lacks of the largest: sum_j D_j - sum_j D[z_j] G(y_j) / G(top).

    gain, discount, at: as for NDCG. top: the largest relevance, by which gains are scaled; None takes the largest at the fit,
    or 1 for a loss by itself. phi_j(y) = G(y_j) / G(top), M the cube [0, 1]^m. The best order sorts by expected gain, and
    groups count by what there is to gain in them, where NDCG counts them alike. Affine in the gains of each item alone,
    so that clicks over propensities estimate it without bias; moments fitted for one `at` serve every other.

    References
    ----------
    Joachims, Swaminathan and Schnabel, Unbiased learning-to-rank with biased feedback, 2017.
    Agarwal and others, A general framework for counterfactual learning-to-rank, 2019.

    Examples
    --------
    >>> import taskloss as tl
    >>> loss = tl.losses.DCG(n_items=2)
    >>> loss([[0, 1], [1, 0]], [[1, 0], [1, 0]]).round(3).tolist()
    [0.631, 1.0]
    """

    name = "dcg"

    def __init__(
        self,
        gain: str | Callable[[Array], Array] = "exponential",
        discount: str | Callable[[Array], Array] = "log2",
        at: int | None = None,
        top: float | None = None,
        n_items: int | None = None,
    ):
        self.gain = gain
        self.discount = discount
        self.at = at
        self.top = top
        self.n_items = n_items

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(n_items=3), cls("linear", at=2, top=2.0, n_items=3)]

    def embedding_key(self) -> tuple[Any, ...]:
        return (DCG, self.gain, self.top)

    def bind_codes(self, y: np.ndarray) -> Self:
        return self.with_params(top=float(y.max(initial=0)) or 1.0) if self.top is None else self

    @property
    def constant(self) -> float:
        return float(self.weights.sum())

    @property
    def polytope(self) -> Polytope:
        return Cube(self._size(), low=0.0)

    def labels(self) -> np.ndarray:
        """All relevances that are 0 or the largest."""
        return super().labels() * (1 if self.top is None else self.top)

    def phi(self, y: Array, dtype: Any = float) -> np.ndarray:
        HYPERPARAMETERS["top"]("top", self.top)
        largest = self.gains(np.array([1.0 if self.top is None else self.top]))
        if not largest[0] > 0:
            raise ValueError(f"top must be a relevance whose gain is above zero, got {self.top!r}.")
        return (self.gains(self._relevance(y)) / largest).astype(dtype)


class PrecisionAt(Ranking):
    """One less the share of relevant items among the first `at`: 1 - sum_j 1(z_j < at) 1(y_j > 0) / at.

    Relevance above zero counts as relevant. The divisor is `at` also for groups with fewer items, as in the LETOR
    tools. phi(y) = 1(y > 0), M the cube [0, 1]^m: moments fitted for one `at` serve every other.
    """

    name = "precision-at"

    def __init__(self, at: int = 10, n_items: int | None = None):
        self.at = at
        self.n_items = n_items

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(2, n_items=3)]

    def range(self) -> tuple[float, float]:
        return 0.0, 1.0

    def embedding_key(self) -> tuple[Any, ...]:
        return (PrecisionAt,)

    def _size(self) -> int:
        if self.at is None:
            raise ValueError("PrecisionAt needs the number of positions that count: give it at=..., from 1.")
        return super()._size()

    @property
    def weights(self) -> np.ndarray:
        m = self._size()
        return (np.arange(m) < self.at) / self.at  # type: ignore[operator]

    @property
    def polytope(self) -> Polytope:
        return Cube(self._size(), low=0.0)

    def phi(self, y: Array, dtype: Any = float) -> np.ndarray:
        return (self._relevance(y) > 0).astype(dtype)


def check_relevance(y: np.ndarray) -> np.ndarray:
    """Finite relevances that are not negative, or one clear sentence."""
    if not np.isfinite(y).all():
        raise ValueError("The relevance y contains NaN or infinite values: every item needs one.")
    if (y < 0).any():
        raise ValueError(
            f"The relevance y must not be negative, got {y.min():g}: shift the grades so that 0 means irrelevant."
        )
    return y
