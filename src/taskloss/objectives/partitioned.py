"""The penalised risk of data in partitions that lie elsewhere: an evaluation is one round of tasks, one for each share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
from scipy import sparse

from ..hypotheses.base import Hypothesis, Inputs, Moments
from ..hypotheses.linear import MOMENTS_LIMIT
from ..parallel import THREAD_WORK, Executor, total_of
from ..solvers.base import RidgeForm
from .penalised import PenalisedRisk
from .penalty import Penalised
from .ridge import principal, squares_of
from .rows import evenly
from .scores import ScoreRisk

Array = Any
Share = list[tuple[Inputs, ScoreRisk]]  # what lies together: the examples of some partitions, and their risk

_MOMENTS_ROWS = 1 << 12  # rows from which second moments are estimated, where a guess will do
_MOMENTS_EACH = 16  # but for each feature at least so many


class Partitions(Protocol):
    """Objects that lie elsewhere, in an order. Work on them is a function of a module, with arguments that are sent once."""

    def made(self, name: str, work: Callable[..., Any], *arguments: Any) -> Self:
        """work(object, *arguments) in the place of each object; it stays there."""
        ...

    def each(self, name: str, work: Callable[..., Any], *arguments: Any, own: Sequence[Any] | None = None) -> list[Any]:
        """[work(object, *arguments)] in a round of tasks; with `own` each object gets an argument of its own first, and None asks nothing of it."""
        ...

    def sum(self, name: str, work: Callable[..., Any], *arguments: Any) -> Any:
        """The sum of work(object, *arguments), added up in a tree on the way; objects for which it is None are left out."""
        ...


class Totals(NamedTuple):
    """Of a share: its examples, their rows, the weights of these, entries of the inputs, the risk's own work, and sum_i w_i phi_i."""

    examples: int
    rows: int
    weight: float
    entries: int
    work: float
    moments: Any


class PartitionedScores:
    """The risk as a function of scores whose examples lie in shares: what an estimator hands on in the place of a ScoreRisk.

    example: the inputs and the risk of one of the examples, which tell the kind of all.
    """

    def __init__(self, shares: Partitions, sizes: list[Totals], example: tuple[Inputs, ScoreRisk]):
        self.shares, self.sizes = shares, sizes
        self.inputs, self.example = example[0], example[1].standing_for(total_of(size.moments for size in sizes))

    def kept_ordered(self, one_direction: bool) -> PartitionedScores:
        kept = PartitionedScores.__new__(PartitionedScores)
        kept.__dict__ |= self.__dict__ | {"example": self.example.kept_ordered(one_direction)}
        return kept

    def penalised(self, hypothesis: Hypothesis, inputs: Inputs, alpha: float) -> PartitionedRisk:
        return PartitionedRisk(hypothesis, self, alpha)

    def chosen(self, examples: np.ndarray, shares: Partitions | None = None) -> tuple[Inputs, ScoreRisk]:
        """Some examples, by their places in order, brought here."""
        firsts = np.concatenate([[0], np.cumsum([size.examples for size in self.sizes])])
        cuts = np.searchsorted(examples, firsts)
        own = [examples[a:b] - first if b > a else None for a, b, first in zip(cuts, cuts[1:], firsts, strict=False)]
        found = (self.shares if shares is None else shares).each("taskloss-sample", chosen, own=own)
        parts = [part for part in found if part is not None]
        risks = [risk for _, risk in parts]
        return stacked([inputs for inputs, _ in parts]), type(risks[0]).joined(risks)


class PartitionedRisk(Penalised):
    """The penalised risk of examples in shares; every share builds its own PenalisedRisk where it lies, and gives its sums."""

    def __init__(self, hypothesis: Hypothesis, scores: PartitionedScores, alpha: float):
        super().__init__(hypothesis, scores.inputs, scores.example, alpha)
        self.scores, sizes = scores, scores.sizes
        self.n_rows, self.total = sum(size.rows for size in sizes), sum(size.weight for size in sizes)
        wide = hypothesis.makes_features
        self.work = float(sum(size.rows * hypothesis.width(0) if wide else size.entries for size in sizes))
        size = max(self.work * scores.example.n_scores, sum(size.work for size in sizes))
        self.executor = Executor.for_work(size)
        compiled = size >= THREAD_WORK
        self.problems = scores.shares.made("taskloss-piece", _problems, hypothesis, scores.example, compiled)

    @cached_property
    def free(self) -> np.ndarray | None:
        codes = self.risk.row_codes
        if codes is None or self.hypothesis.free(self.inputs, self.start, codes) is None:
            return None
        return np.flatnonzero(self.problems.sum("taskloss-states", _free, self.start.shape))

    def slopes(self, coefficients: Array) -> tuple[np.ndarray, Array]:
        value, gradient, self.constant = self.problems.sum("taskloss-gradient", _slopes, coefficients)
        return value, gradient

    def products(self, coefficients: Array) -> Callable[[Array], Array]:
        curved = self.problems.made("taskloss-curvature", _products, coefficients)
        return lambda d: curved.sum("taskloss-product", _product, d)

    def _moments(self) -> Moments:
        if self.hypothesis.whitened:
            return self.hypothesis.moments(self.inputs, np.ones(1))
        d = self.hypothesis.width(self.inputs.shape[1])
        if d <= MOMENTS_LIMIT and squares_of(self.hypothesis, self.risk):  # of which they are all that a solver needs
            return self._exact_moments()
        inputs, risk = self._sampled(max(_MOMENTS_ROWS, _MOMENTS_EACH * min(d, MOMENTS_LIMIT)))
        return self.hypothesis.moments(inputs, risk.row_weights / risk.row_weights.sum(), self.executor)

    def _exact_moments(self) -> Moments:
        return Moments(*self.problems.sum("taskloss-moments", _moments, self.total))

    def _sampled(self, count: int) -> tuple[Inputs, ScoreRisk]:
        kept = self.__dict__.setdefault("_samples", {})  # the same rows every time
        if count not in kept:
            some = evenly(self.n_rows, count)
            rows = np.arange(self.n_rows) if isinstance(some, slice) else some
            kept[count] = self.scores.chosen(rows, self.problems)
        return kept[count]

    def ridge_form(self) -> RidgeForm | None:
        """The same function as ridge regression in principal coordinates, without what it says of single examples."""
        if not squares_of(self.hypothesis, self.risk) or self.hypothesis.width(self.inputs.shape[1]) > MOMENTS_LIMIT:
            return None
        correlations, total = self.problems.sum("taskloss-correlations", _correlations)
        return principal(self.hypothesis, self.alpha, self._exact_moments(), correlations, total)


def stacked(parts: list[Inputs]) -> Inputs:
    """Rows of some inputs as one."""
    return sparse.vstack(parts, format="csr") if sparse.issparse(parts[0]) else np.concatenate(parts)


# -- what is done where a share lies: functions of a module, so that a worker can look them up ------------------------


def _entries(inputs: Inputs) -> int:
    rows: Any = getattr(inputs, "rows", inputs)
    return int(rows.nnz if sparse.issparse(rows) else rows.size)


def totals(share: Share) -> Totals:
    """The totals of a share."""
    found = [
        (r.n_examples, r.n_rows, float(r.row_weights.sum()), _entries(x), r.work, r.moment_sum()) for x, r in share
    ]
    return Totals(*map(total_of, zip(*found, strict=True))) if found else Totals(0, 0, 0.0, 0, 0.0, None)


class Lot(list[Any]):
    """Objects that say how many bytes they hold: schedulers move what seems small."""

    size = 0

    @classmethod
    def of(cls, items: Iterable[Any], size: int) -> Lot:
        lot = cls(items)
        lot.size = size
        return lot

    def __sizeof__(self) -> int:
        return super().__sizeof__() + self.size


def _problems(share: Share, hypothesis: Hypothesis, like: ScoreRisk, compiled: bool) -> Lot:
    executor = Executor(1, compiled)
    found = (PenalisedRisk(hypothesis, x, risk.in_form_of(like), 0.0, executor, part=True) for x, risk in share)
    return Lot.of(found, sum(x.dtype.itemsize * _entries(x) for x, _ in share))


def _slopes(problems: list[PenalisedRisk], coefficients: Array) -> Any:
    """And the constant, which one pass over data in files has then found."""
    return total_of((*p.slopes(coefficients), p.constant) for p in problems)


def _products(problems: Lot, coefficients: Array) -> Lot:
    return Lot.of([p.products(coefficients) for p in problems], problems.size)


def _product(maps: list[Callable[[Array], Array]], d: Array) -> Any:
    return total_of(product(d) for product in maps)


def _free(problems: list[PenalisedRisk], shape: tuple[int, ...]) -> Any:
    start = np.broadcast_to(0.0, shape)
    codes = [p.risk.row_codes for p in problems]
    found = (p.hypothesis.free(p.inputs, start, c) for p, c in zip(problems, codes, strict=True) if c is not None)
    return total_of(found)  # of truth values, "or"


def _moments(problems: list[PenalisedRisk], total: float) -> Any:
    found = (p.hypothesis.exact_moments(p.inputs, p.risk.row_weights / total) for p in problems)
    return total_of((moments.mean, moments.second) for moments in found)


def _correlations(problems: list[PenalisedRisk]) -> Any:
    def of(p: PenalisedRisk) -> tuple[np.ndarray, np.ndarray]:
        targets = p.risk.squared_distance_targets()
        weighted = p.risk.weights[:, None] * targets
        return p.hypothesis.coordinates(p.inputs).T @ weighted, weighted.sum(axis=0)

    return total_of(map(of, problems))


def chosen(share: Any, examples: np.ndarray, hypothesis: Hypothesis | None = None) -> tuple[Inputs, ScoreRisk]:
    """Some examples of a share, by their places in order."""
    found, first = [], 0
    for part in share:
        inputs, risk = part if isinstance(part, tuple) else (part.inputs, part.risk)
        own = part.hypothesis if hypothesis is None else hypothesis
        mine = examples[(examples >= first) & (examples < first + risk.n_examples)] - first
        first += risk.n_examples
        if len(mine):
            found.append((own.piece(inputs, risk.rows_of(mine)), risk.take(mine)))
    if len(found) == 1:
        return found[0]
    return stacked([inputs for inputs, _ in found]), type(found[0][1]).joined([risk for _, risk in found])
