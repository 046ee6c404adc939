"""The risk as a function of scores: sum_i w_i S(v_i, phi_i). Above it are tasks, below it are learners.

Three layouts of scores: `Rows`, one row of scores for each example (labels, label sets, ordered labels); `Groups`, one
score for each item, examples of each size a batch (rankings, matchings); `Forests`, node and edge scores of packed chains
and trees (sequences, trees).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np

from ..hypotheses.base import Scores, row_blocks
from ..parallel import SERIAL, Executor
from ..surrogates.base import Surrogate
from . import fused

Array = Any

_CONSTANT_NUMBERS = 1 << 17  # moments whose potential is taken at one time
_CURVATURE_SIZE = 200  # scores up to which the curvature's off-diagonal entries are worth their cost
_CONSTANT_STEPS = 30  # Newton steps for the best constant score of items
_BARRIER = 1e-4  # how much of the domain's centre is mixed into labels where the surrogate has to act as a barrier


class Curvature(NamedTuple):
    """Weights of some rows of scores, and the second derivatives of S there: (rows, k, k), or their diagonals (rows, k)."""

    weights: np.ndarray
    matrices: np.ndarray

    @property
    def traces(self) -> np.ndarray:
        c = self.matrices
        return np.einsum("nii->n", c) if c.ndim == 3 else c.sum(1)


class NewtonStep(NamedTuple):
    """The risk at some scores, and its gradient and curvature there, in single precision, with rows that weigh one on average."""

    value: float
    gradient: np.ndarray
    curvature: np.ndarray


class ScoreRisk(ABC):
    """sum_i w_i S(v_i, phi_i) as a function of the scores v alone; the weights of the whole sum to one.

    A row is a row of scores and of the inputs they are made of; an example owns one row or several.
    """

    weights: np.ndarray  # of the examples; those of a part keep the whole's normalisation
    table: np.ndarray | None = None  # of constants that are fitted beside the scores, where there is one

    # -- shape -------------------------------------------------------------------------------------------------------

    @property
    def n_examples(self) -> int:
        return len(self.weights)

    @property
    @abstractmethod
    def n_rows(self) -> int:
        """How many rows of scores the examples own."""

    @property
    @abstractmethod
    def n_scores(self) -> int:
        """How many scores a row has."""

    @property
    def separable(self) -> bool:
        """Whether each column of scores is a problem of its own."""
        return False

    @property
    def convex(self) -> bool:
        return True

    @property
    def smooth(self) -> bool:
        """Whether second derivatives exist."""
        return True

    @property
    def coupled(self) -> bool:
        """Whether scores have second derivatives in common with others, so that steps on each alone add up to too much."""
        return not self.separable

    @property
    def ordered(self) -> bool:
        """Whether the risk is finite for ordered scores only."""
        return False

    @property
    def cuts_freely(self) -> bool:
        """Whether small blocks of examples cost no more than large ones."""
        return False

    @property
    def curved(self) -> bool:
        """Whether `curvature` is known, of which preconditioners are made."""
        return False

    @property
    def smoothness(self) -> float | None:
        """A Lipschitz constant of the gradient of an example's S in its scores; None where there is none."""
        return None

    @property
    def work(self) -> float:
        """Multiplications of one evaluation, where the scores themselves cost fewer."""
        return 0.0

    @property
    @abstractmethod
    def row_weights(self) -> np.ndarray:
        """The weight of each row's example."""

    def kept_ordered(self, one_direction: bool) -> ScoreRisk:
        """A risk whose minimum has ordered scores, where only those are in its domain."""
        return self

    def check_single_steps(self) -> None:
        """Refuse steps on single examples, in one sentence, where they would leave the risk's domain."""
        return None

    @abstractmethod
    def start(self) -> np.ndarray:
        """The scores of the best constant prediction."""

    def best_constant(self) -> np.ndarray:
        """The scores of the best constant prediction, where `start` is only near it."""
        return self.start()

    # -- parts -------------------------------------------------------------------------------------------------------

    @abstractmethod
    def take(self, examples: Any, columns: Any = None) -> Self:
        """The risk of some examples (a slice or numbers), and for separable risks of some columns; views for slices."""

    @abstractmethod
    def rows_of(self, examples: Any) -> Any:
        """The rows that some examples own."""

    def spread(self, rows: int) -> Any:
        """Examples with at least so many rows, evenly spread, where some of them can stand for all; else all."""
        return slice(None)

    def example_sums(self, rows: np.ndarray) -> np.ndarray:
        """One number for each row, added up for each example."""
        return rows

    def example_norms(self, v: Scores) -> np.ndarray:
        """The l2 norm of each example's scores."""
        return np.sqrt(self.example_sums((v**2).sum(axis=1)))

    def zeros(self) -> Scores:
        """Scores of zero."""
        return np.zeros((self.n_rows, self.n_scores))

    def slopes(self) -> np.ndarray:
        """The l2 norm of each example's gradient at the score zero."""
        return self.example_norms(self.risk_and_gradient(self.zeros())[1])

    def cut(self, rows: int) -> list[slice]:
        """Slices of examples with about so many rows each; an example is never cut."""
        return row_blocks(self.weights[:, None], max(1, rows * self.n_examples // max(self.n_rows, 1)))

    def arranged(self, order: str) -> Self:
        """The same risk with targets in memory as the scores will be: "C" by rows, "F" by columns."""
        return self

    def squared_distance_targets(self) -> np.ndarray | None:
        """t, where the risk is sum_i w_i |v_i - t_i|^2 / 2; None where it is no such sum."""
        return None

    # -- values ------------------------------------------------------------------------------------------------------

    def value_and_gradient(self, v: Scores, out: Any = None) -> tuple[np.ndarray, Scores]:
        """One value for each independent problem, and the gradient; with out=v the gradient takes the scores' place."""
        value, gradient = self.risk_and_gradient(v, out)
        return value + self.constant / len(value), gradient

    @abstractmethod
    def risk_and_gradient(self, v: Scores, out: Any = None, executor: Executor = SERIAL) -> tuple[np.ndarray, Scores]:
        """The value less `constant`, which no score changes, and the gradient: what a solver loops on."""

    @cached_property
    def constant(self) -> float:
        """sum_i w_i h(phi_i)."""
        return 0.0

    @abstractmethod
    def hessian(self, v: Scores) -> Callable[[Scores], Scores]:
        """The linear map u -> (second derivative) u; positive semidefinite, also where the risk is not convex."""

    def curvature(self, v: Scores) -> Curvature | None:
        """Second derivatives row by row, for preconditioners; None where a layout has none that pays."""
        return None

    def diagonal(self, v: Scores, gradient: Scores) -> np.ndarray:
        """The diagonal of the second derivative in the rows' scores, at scores whose gradient is known."""
        raise NotImplementedError

    @abstractmethod
    def shifted(self, offset: Scores) -> Self:
        """The same risk around given scores, v -> risk(offset + v), for learners that add up."""

    # -- learners that train themselves ------------------------------------------------------------------------------

    def steps(self, factor: float = 1.0) -> Callable[[Array], NewtonStep]:
        """The function scores -> value, gradient and `factor` times the diagonal curvature, for one Newton step a round."""
        from .steps import Steps

        return Steps(self, factor)

    def profiled(self, layout: Any, options: Any, table: np.ndarray | None = None) -> Any:
        """The least risk over a table of constants, as a function of the scores that the table is joined to."""
        from .profiled import Profiled

        return Profiled(self, layout, options, table)

    def at_table(self) -> ScoreRisk:
        """The same risk with the table held where it is, for learners that take many small steps between its fits."""
        return self


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
    def smoothness(self) -> float | None:
        return self.surrogate.smoothness

    @property
    def row_weights(self) -> np.ndarray:
        return self.weights

    def check_single_steps(self) -> None:
        self.surrogate.check_single_steps()

    def spread(self, rows: int) -> Any:
        n = self.n_rows
        return slice(None) if rows >= n else np.linspace(0, n - 1, rows).astype(int)

    @cached_property
    def mean(self) -> np.ndarray:
        """The mean moments."""
        mean = np.zeros(self.targets.shape[1])
        for rows in row_blocks(self.targets, max(1, _CONSTANT_NUMBERS // len(mean))):
            mean += self.weights[rows] @ self.targets[rows]
        return mean / self.weights.sum()

    def start(self) -> np.ndarray:
        return np.asarray(self.surrogate.start(self.mean), dtype=float)

    def kept_ordered(self, one_direction: bool) -> Rows:
        """They keep their order by themselves where one direction serves all thresholds and every label occurs. Elsewhere a
        little of every label in each example keeps each gap open, at each x.
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
        if "kernel" in self.__dict__:
            part.kernel = self.kernel
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
        kernel = self.kernel if executor.compiled or fused.starts_warm(self.surrogate) else None
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
    def kernel(self) -> Any:
        """The compiled pass, one for all parts: it may remember where it ended."""
        return fused.pointwise(self.surrogate)

    def _evaluate(self, v: Array, kernel: Any, gradient: Array) -> np.ndarray:
        weights = self.weights.astype(v.dtype, copy=False)
        if kernel is not None:
            phi = self.moments(v.dtype) if self.barrier else self.targets
            # One memory layout in a block: a copy of a few bytes, and the compiled loops run in vectors.
            return kernel(v, phi.copy("C" if v.flags.c_contiguous else "F"), weights)
        terms, dv = self.surrogate.risk_and_gradient(v, self.moments(v.dtype))
        value = np.asarray(weights @ terms, float)
        np.multiply(dv, weights[:, None], out=gradient)
        return value

    def hessian(self, v: Array) -> Callable[[Array], Array]:
        if not self.surrogate.smooth:
            raise ValueError(
                f"{self.surrogate!r} has no second derivative, which solver='newton' needs; use solver='lbfgs'."
            )
        v = v if self.offset is None else v + self.offset
        product = self.surrogate.hessian(v, self.moments(v.dtype))
        weights = self.weights.astype(v.dtype, copy=False)[:, None]
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
        product = self.surrogate.hessian(v, self.moments(float))
        if self.separable:
            return Curvature(self.weights, product(np.ones_like(v)))
        return Curvature(self.weights, np.stack([product(np.broadcast_to(e, v.shape)) for e in np.eye(k)], axis=1))


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
