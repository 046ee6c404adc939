"""Moments recalibrated: maps from a model's moments to those that labelled examples show, fitted in moment space."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp
from sklearn.isotonic import IsotonicRegression

from .losses.base import Loss
from .losses.fbeta import FBeta

__all__ = ["METHODS", "Recalibration", "choose", "folds_of", "from_laws", "laws_of"]

_LEAST = 1e-12  # of a probability whose logarithm is taken
_PENALTY = 1e-3
_ROWS = 512
_STEPS, _DECREMENT = 50, 1e-12  # of Newton's method
FOLDS = 5


# -- moments as laws ---------------------------------------------------------------------------------------------------


def laws_of(loss: Loss, mu: np.ndarray) -> np.ndarray:
    """Moments as laws, (n, laws, outcomes): one over the labels, one for each label of a set (there or not), and for
    `FBeta` one for each label over the sizes of the sets that it is in, and one over all sizes. Moments outside of the
    polytope are clipped and rescaled.
    """
    mu = np.asarray(mu, dtype=float)
    if isinstance(loss, FBeta):
        q = np.clip(mu.reshape(-1, loss.polytope.rows, loss.polytope.columns), 0, None)
    elif loss.kind == "indicator":
        p = np.clip(loss.probabilities(mu), 0, 1)
        q = np.stack([1 - p, p], axis=-1)
    else:
        q = np.clip(loss.probabilities(mu), 0, None)[:, None, :]
    return _normalised(q)


def from_laws(loss: Loss, q: np.ndarray) -> np.ndarray:
    """The moments of such laws: the inverse of `laws_of` on the polytope."""
    if isinstance(loss, FBeta):
        return q.reshape(len(q), -1)
    return loss.moments(q[:, :, 1] if loss.kind == "indicator" else q[:, 0, :])


def _normalised(q: np.ndarray) -> np.ndarray:
    total = q.sum(-1, keepdims=True)
    return np.where(total > 0, q / np.where(total > 0, total, 1.0), 1 / q.shape[-1])


# -- the maps ----------------------------------------------------------------------------------------------------------


class Recalibration:
    """A map of laws (n, laws, outcomes), fitted to outcomes that were seen; as it stands, the identity."""

    name: ClassVar[str] = "none"

    def fit(self, q: np.ndarray, seen: np.ndarray, weights: np.ndarray) -> Self:
        """Fit to laws and indicators of what was seen, of the same shape; weights sum to one."""
        return self

    def __call__(self, q: np.ndarray) -> np.ndarray:
        return q


class Temperature(Recalibration):
    """q^(1/T), normalised: T minimises the log-loss; one number for all laws."""

    name = "temperature"
    sharpness_: float

    def fit(self, q: np.ndarray, seen: np.ndarray, weights: np.ndarray) -> Self:
        logs = _logs(q)
        of_seen = float(np.einsum("nrc,nrc,n->", logs, seen, weights))

        def risk(u: float) -> float:
            return float(weights @ logsumexp(np.exp(u) * logs, axis=-1).sum(-1)) - np.exp(u) * of_seen

        found = minimize_scalar(risk, bounds=(-5.0, 5.0), method="bounded", options={"xatol": 1e-5})
        self.sharpness_ = float(np.exp(found.x))
        return self

    def __call__(self, q: np.ndarray) -> np.ndarray:
        return _softmax(self.sharpness_ * _logs(q))


class Vector(Recalibration):
    """q_c proportional to q_c^a_c exp(b_c), with a and b for each outcome of each law.

    They minimise the mean log-loss and the penalty alpha (|a - 1|^2 + |b|^2) / 2 with alpha = 1e-3, which keeps the map
    finite where few examples speak. With two outcomes it is beta calibration. Laws of several models, (n, models, laws, outcomes), are
    multiplied, each with powers of its own, from the first model's law as the start.
    """

    name = "vector"
    powers_: np.ndarray
    shifts_: np.ndarray

    def fit(self, q: np.ndarray, seen: np.ndarray, weights: np.ndarray) -> Self:
        logs = _sources(q)
        found = [_powers(logs[:, :, r], seen[:, r], weights) for r in range(q.shape[-2])]
        theta = np.stack(found, axis=1)
        self.powers_, self.shifts_ = theta[:-1], theta[-1]
        return self

    def __call__(self, q: np.ndarray) -> np.ndarray:
        return _softmax(np.einsum("nsrc,src->nrc", _sources(q), self.powers_) + self.shifts_)


class Isotonic(Recalibration):
    """Each probability by a non-decreasing step function of itself, of least squared error; the laws are then normalised."""

    name = "isotonic"
    steps_: list[list[Any]]

    def fit(self, q: np.ndarray, seen: np.ndarray, weights: np.ndarray) -> Self:
        def step(r: int, c: int) -> Any:
            regression = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip")
            return regression.fit(q[:, r, c], seen[:, r, c], sample_weight=weights)

        some = weights > 0
        q, seen, weights = q[some], seen[some], weights[some]
        outcomes = range(1, 2) if q.shape[2] == 2 else range(q.shape[2])
        self.steps_ = [[step(r, c) for c in outcomes] for r in range(q.shape[1])]
        return self

    def __call__(self, q: np.ndarray) -> np.ndarray:
        out = np.empty_like(q)
        for r, steps in enumerate(self.steps_):
            if q.shape[2] == 2:
                out[:, r, 1] = steps[0].predict(q[:, r, 1])
                out[:, r, 0] = 1 - out[:, r, 1]
            else:
                for c, step in enumerate(steps):
                    out[:, r, c] = step.predict(q[:, r, c])
        known = out.sum(-1, keepdims=True) > 0
        return np.where(known, _normalised(out), q)


METHODS: dict[str, type[Recalibration]] = {kind.name: kind for kind in (Recalibration, Temperature, Vector, Isotonic)}


def _logs(q: np.ndarray) -> np.ndarray:
    return np.log(np.maximum(q, _LEAST))


def _sources(q: np.ndarray) -> np.ndarray:
    """Logarithms of the laws of one or more models, (n, models, laws, outcomes)."""
    return _logs(q if q.ndim == 4 else q[:, None])


def _powers(logs: np.ndarray, seen: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The powers and shifts, (models + 1, outcomes), of one law, whose logarithms are (n, models, outcomes): Newton's method."""
    n, sources, k = logs.shape
    X = np.concatenate([logs, np.ones((n, 1, k))], axis=1)
    start = np.zeros((sources + 1, k))
    start[0] = 1.0
    size = start.size

    def value(theta: np.ndarray) -> tuple[float, np.ndarray]:
        v = (X * theta).sum(1)
        top = logsumexp(v, axis=-1)
        risk = weights @ (top - (v * seen).sum(-1))
        return float(risk + _PENALTY * ((theta - start) ** 2).sum() / 2), np.exp(v - top[:, None])

    theta = start
    risk, p = value(theta)
    for _ in range(_STEPS):
        gradient = (X * ((p - seen) * weights[:, None])[:, None]).sum(0) + _PENALTY * (theta - start)
        outer = (X * (p * np.sqrt(weights)[:, None])[:, None]).reshape(n, size)
        hessian = _PENALTY * np.eye(size) - sum(
            outer[i : i + _ROWS].T @ outer[i : i + _ROWS]
            for i in range(0, n, _ROWS)  # too small for BLAS to share out among threads
        )
        # The variance of a law is diag(p) - p p': within an outcome the powers of the models and the shift meet.
        same = np.einsum("nsk,ntk->stk", X * (p * weights[:, None])[:, None], X)
        of = np.arange(size).reshape(start.shape)
        hessian[of[:, None], of[None]] += same
        step = np.linalg.solve(hessian, gradient.ravel()).reshape(start.shape)
        decrement = float((step * gradient).sum())
        if decrement < _DECREMENT:
            break
        length = 1.0
        while (there := value(theta - length * step))[0] > risk - length * decrement / 4 and length > 1e-8:
            length /= 2
        theta, (risk, p) = theta - length * step, there
    return theta


def _softmax(v: np.ndarray) -> np.ndarray:
    v = np.exp(v - v.max(-1, keepdims=True))
    return v / v.sum(-1, keepdims=True)


# -- cross-fitting -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CrossFitted:
    """Laws of every example by a map that was fitted without its fold, and their mean squared error."""

    name: str
    q: np.ndarray
    error: float


def folds_of(strata: np.ndarray, random_state: int = 0, folds: int = FOLDS) -> np.ndarray:
    """The fold of each example: as many of each stratum in one as in another."""
    rng = np.random.default_rng(random_state)
    order = np.lexsort([rng.random(len(strata)), strata])
    out = np.empty(len(strata), dtype=np.int64)
    out[order] = np.arange(len(strata)) % folds
    return out


def cross_fit(
    q: np.ndarray, seen: np.ndarray, weights: np.ndarray, folds: np.ndarray, names: Any = None
) -> Iterator[CrossFitted]:
    """The recalibrations, each cross-fitted."""
    for name in METHODS if names is None else names:
        out = np.empty(seen.shape)
        for fold in np.unique(folds):
            held, rest = folds == fold, folds != fold
            total = weights[rest].sum()
            if total <= 0:
                out[held] = q[held]
            else:
                out[held] = METHODS[name]().fit(q[rest], seen[rest], weights[rest] / total)(q[held])
        yield CrossFitted(name, out, float(weights @ ((out - seen) ** 2).sum((-1, -2)) / weights.sum()))


def choose(q: np.ndarray, seen: np.ndarray, weights: np.ndarray, folds: np.ndarray) -> str:
    """The name of the recalibration of least cross-fitted squared error, which is proper for moments whatever the loss."""
    return min(cross_fit(q, seen, weights, folds), key=lambda found: found.error).name
