"""The layout with one row of scores for each example: labels, label sets, ordered labels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Self

import numpy as np

from ..hypotheses.base import row_blocks
from ..parallel import SERIAL, Executor
from ..surrogates.base import Surrogate
from . import fused
from .scores import Array, Curvature, ScoreRisk

_CONSTANT_NUMBERS = 1 << 17  # entries of the moments in a block whose potential is computed at once
_CURVATURE_SIZE = (
    200  # the most scores whose second derivatives are computed as matrices; of more an even diagonal serves
)
_OUTPUT_WORK = 16  # multiplications, for each score, that the evaluation of one output costs in a convolved surrogate
_BARRIER = 1e-4  # the share of the domain's centre in each label's moments, where the surrogate has to act as a barrier


class Rows(ScoreRisk):
    """One row of scores for each example.

    targets: moments phi (n, k); whole numbers are labels, vertices of the marginal polytope. weights: one for each example, normalised here
    unless they are a part's.
    """

    def __init__(
        self,
        surrogate: Surrogate,
        targets: np.ndarray,
        weights: np.ndarray,
        *,
        part: bool = False,
        barrier: float = 0.0,
        offset: np.ndarray | None = None,
    ):
        self.surrogate, self.targets, self.barrier, self.offset = surrogate, targets, barrier, offset
        self.weights = weights if part else weights / weights.sum()

    @property
    def n_rows(self) -> int:
        return len(self.targets)

    @cached_property
    def n_scores(self) -> int:
        size = None if self.separable else self.surrogate.size
        return self.targets.shape[1] if size is None else size

    @property
    def separable(self) -> bool:
        return self.surrogate.separable

    @property
    def ordered(self) -> bool:
        return self.surrogate.ordered

    @property
    def smooth(self) -> bool:
        return self.surrogate.smooth

    @property
    def coupled(self) -> bool:
        return not self.separable and self.n_scores > 1

    @property
    def cuts_freely(self) -> bool:
        return True

    @property
    def curved(self) -> bool:
        return True

    @property
    def exactly_curved(self) -> bool:
        return self.surrogate.smooth and self.surrogate.convex and (self.separable or self.n_scores <= _CURVATURE_SIZE)

    @property
    def stiff(self) -> bool:
        return self.barrier > 0

    @property
    def smoothness(self) -> float | None:
        return self.surrogate.smoothness

    @property
    def work(self) -> float:
        """A convolved pass tries every output for every row; the others cost less than the scores."""
        outputs = 0 if self.kernel is None else self.kernel.memory
        return float(_OUTPUT_WORK * self.n_rows * outputs * self.n_scores)

    @property
    def row_weights(self) -> np.ndarray:
        return self.weights

    def check_single_steps(self) -> None:
        self.surrogate.check_single_steps()

    def spread(self, rows: int) -> Any:
        return evenly(self.n_rows, rows)

    @cached_property
    def mean(self) -> np.ndarray:
        """The mean moments."""
        return self.moment_sum() / self.weights.sum()

    def moment_sum(self) -> np.ndarray:
        total = np.zeros(self.targets.shape[1])
        for rows in row_blocks(self.targets, max(1, _CONSTANT_NUMBERS // len(total))):
            total += self.weights[rows] @ self.targets[rows]
        return total

    def standing_for(self, moment_sum: np.ndarray) -> Rows:
        return Rows(self.surrogate, moment_sum[None] / 1.0, np.ones(1), part=True, barrier=self.barrier)

    def in_form_of(self, other: ScoreRisk) -> Rows:
        assert isinstance(other, Rows)
        return self if self.barrier == other.barrier else self._with(barrier=other.barrier)

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Rows:
        first = parts[0]
        targets, weights = (np.concatenate([getattr(p, name) for p in parts]) for name in ("targets", "weights"))
        return cls(first.surrogate, targets, weights, part=True, barrier=first.barrier)

    def start(self) -> np.ndarray:
        return np.asarray(self.surrogate.start(self.mean), dtype=float)

    def kept_ordered(self, one_direction: bool) -> Rows:
        """The minimum has ordered scores by itself where all scores share their weights and every label occurs. Elsewhere a small share
        of every label is mixed into each example, and thresholds that meet at some x have an infinite risk.
        """
        if not self.ordered or (one_direction and self.mean.all()):
            return self
        return self._with(barrier=_BARRIER)

    def _with(self, **changed: Any) -> Rows:
        """A copy with some attributes changed."""
        other = Rows(self.surrogate, self.targets, self.weights, part=True, barrier=self.barrier, offset=self.offset)
        other.__dict__ |= changed
        return other

    def take(self, examples: Any, columns: Any = None) -> Rows:
        targets, offset = self.targets[examples], None if self.offset is None else self.offset[examples]
        if columns is not None:
            targets, offset = targets[:, columns], None if offset is None else offset[:, columns]
        part = Rows(self.surrogate, targets, self.weights[examples], part=True, barrier=self.barrier, offset=offset)
        part.kernel, part.memory = self.kernel, None if self.memory is None else self.memory[examples]
        return part

    def rows_of(self, examples: Any) -> Any:
        return examples

    def arranged(self, order: str) -> Rows:
        targets = np.asfortranarray(self.targets) if order == "F" else np.ascontiguousarray(self.targets)
        return self._with(targets=targets)

    def shifted(self, offset: np.ndarray) -> Rows:
        return self._with(offset=offset if self.offset is None else self.offset + offset)

    def squared_distance_targets(self) -> np.ndarray | None:
        if not self.surrogate.squared_distance:
            return None
        return self.targets if self.offset is None else self.targets - self.offset

    def moments(self, dtype: Any) -> Array:
        """The targets as numbers of the scores' kind."""
        phi = self.targets.astype(dtype, copy=False)
        if self.barrier:
            assert self.surrogate.domain is not None
            phi = (1 - self.barrier) * phi + (self.barrier * self.surrogate.domain.center()).astype(dtype)
        return phi

    @cached_property
    def constant(self) -> float:
        n, k = self.targets.shape
        labels = self.targets.dtype.kind == "i" and not self.barrier
        if labels and self.surrogate.constant_on_vertices and n:
            return float(self.surrogate.potential(self.targets[:1].astype(float))[0] * self.weights.sum())
        total = 0.0
        for rows in row_blocks(self.targets, max(1, _CONSTANT_NUMBERS // k)):
            part = self.take(rows)
            total += float(part.weights @ self.surrogate.potential(part.moments(float)))
        return total

    def risk_and_gradient(self, v: Array, out: Any = None, executor: Executor = SERIAL) -> tuple[np.ndarray, Array]:
        kernel = self.kernel if executor.compiled or self.memory is not None else None
        if out is not v and (kernel is not None or self.offset is not None):
            v = np.array(v)
        if self.offset is not None:
            v += self.offset
        if executor.threads > 1:
            pieces = row_blocks(v, -(-len(v) // executor.threads))
            sums = executor.map(lambda rows: self.take(rows)._evaluate(v[rows], kernel, v[rows]), pieces)
            return sum(sums[1:], sums[0]), v
        gradient = v if out is v or kernel is not None else np.empty_like(v)
        return self._evaluate(v, kernel, gradient), gradient

    @cached_property
    def kernel(self) -> fused.Pointwise | fused.Convolution | None:
        """The compiled pass over scores, one for all parts."""
        return fused.pointwise(self.surrogate)

    @cached_property
    def memory(self) -> np.ndarray | None:
        """What the compiled pass remembers of each row for the next pass, where it does; parts have views of it."""
        return np.zeros((self.n_rows, self.kernel.memory)) if self.kernel is not None and self.kernel.memory else None

    def _evaluate(self, v: Array, kernel: Any, gradient: Array) -> np.ndarray:
        weights = self.weights.astype(v.dtype, copy=False)
        if kernel is not None:
            phi = self.moments(v.dtype) if self.barrier else self.targets
            # One memory layout in a block: a copy of a few bytes, and the compiled loops run in vectors.
            return kernel(v, phi.copy("C" if v.flags.c_contiguous else "F"), weights, self.memory)
        terms, dv = self.surrogate.risk_and_gradient(v, self.moments(v.dtype))
        value = np.asarray(weights @ terms, float)
        np.multiply(dv, weights[:, None], out=gradient)
        return value

    def expansion(self, v: Array) -> tuple[np.ndarray, Array, Callable[[], Curvature | None]]:
        if self.memory is not None or not self.exactly_curved:
            return super().expansion(v)
        v = v if self.offset is None else v + self.offset
        weights = self.weights.astype(v.dtype, copy=False)
        surrogate, phi = self.surrogate, self.moments(v.dtype)
        terms, dv = surrogate.risk_and_gradient(v, phi)
        second = surrogate.diagonal if self.separable else surrogate.hessian_matrices
        value = np.asarray(weights @ terms, float)
        return value, dv * weights[:, None], lambda: Curvature(self.weights, second(v, phi, dv))

    def hessian(self, v: Array) -> Callable[[Array], Array]:
        if not self.surrogate.smooth:
            raise ValueError(
                f"{self.surrogate!r} has no second derivative, which solver='newton' needs; use solver='lbfgs'."
            )
        v = v if self.offset is None else v + self.offset
        weights = self.weights.astype(v.dtype, copy=False)[:, None]
        if not self.surrogate.convex:
            matrices = _absolute(self.surrogate.hessian_matrices(v, self.moments(v.dtype)))
            return lambda u: np.einsum("nij,nj->ni", matrices, u) * weights
        product = self.surrogate.hessian(v, self.moments(v.dtype))
        return lambda u: product(u) * weights

    def diagonal(self, v: Array, gradient: Array) -> np.ndarray:
        v = v if self.offset is None else v + self.offset
        weights = self.weights[:, None]
        return weights * self.surrogate.diagonal(v, self.moments(v.dtype), gradient / weights)

    def curvature(self, v: Array) -> Curvature:
        v = v if self.offset is None else v + self.offset
        n, k = v.shape
        if not self.surrogate.smooth or (k > _CURVATURE_SIZE and not self.separable):
            return Curvature(self.weights, np.full((n, k), 1 / k if self.surrogate.smooth else 1.0))
        phi = self.moments(float)
        if self.separable:
            return Curvature(self.weights, self.surrogate.diagonal(v, phi))
        matrices = self.surrogate.hessian_matrices(v, phi)
        return Curvature(self.weights, matrices if self.surrogate.convex else _absolute(matrices))


def _absolute(matrices: np.ndarray) -> np.ndarray:
    """Symmetric matrices with the absolute values of their eigenvalues."""
    values, vectors = np.linalg.eigh(matrices)
    return (vectors * np.abs(values)[:, None]) @ vectors.swapaxes(1, 2)


def evenly(n: int, rows: int) -> Any:
    """About so many of n rows, evenly spread."""
    return slice(None) if rows >= n else np.linspace(0, n - 1, rows).astype(int)
