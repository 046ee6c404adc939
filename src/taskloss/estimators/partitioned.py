"""Fits to Dask collections: what every partition shows, the parts that follow, and the objective over shares of the data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from ..hypotheses.base import Hypothesis
from ..objectives.partitioned import PartitionedScores, Share, chosen, totals
from ..progress import follow
from ..solvers.base import Solution, Solver, Status
from .base import keep_found
from .streaming import open_stream
from .validation import NO_USE

_SHARES = 2  # for each thread, so that the last to end leaves few waiting
_ROWS_HERE = 1 << 27  # rows whose numbers a draw of centres brings here


class Survey(NamedTuple):
    """What one partition shows: how many examples, their weights' sum, the bytes and the kind of its inputs, and what else its plan asks for."""

    examples: int
    weight: float
    size: int
    kind: Any
    found: Any


EMPTY = Survey(0, 0.0, 0, None, None)


class Plan:
    """How an estimator reads partitions, in two passes: `survey` finds codes, sizes and names, `read` makes inputs and risks.

    Both run where the partition lies. `settle`, here, makes of all surveys what `read` needs, and what the estimator keeps.
    """

    hypothesis: Hypothesis
    found: dict[str, Any]

    def __init__(self, face: Any):
        self.face = face

    def survey(self, *parts: Any) -> Survey:
        raise NotImplementedError

    def settle(self, surveys: list[Survey]) -> None:
        raise NotImplementedError

    def read(self, *parts: Any) -> tuple[Any, Any]:
        raise NotImplementedError

    def keys(self, surveys: list[Survey]) -> tuple[np.ndarray, tuple[np.ndarray, ...]] | None:
        """How many rows each example has, and by what examples are sorted in memory, the last first; None where they keep their order."""
        return None


def fit_partitioned(face: Any, plan: Plan, collections: dict[str, Any], validation: Any, checkpoint: Any) -> Any:
    """Fit an estimator to Dask collections; the same minimum as in memory, in rounds of tasks over shares of the partitions."""
    from ..distributed.collections import aligned
    from ..distributed.rounds import Cluster, Shares

    face._check_numbers()
    if validation is not None:
        raise ValueError(NO_USE)
    _refuse(face)
    tables = Shares(Cluster(), aligned(collections), held=False)
    found = tables.each("taskloss-survey", _survey, plan, own=range(len(tables)))
    surveys, where = [survey for survey, _ in found], [worker for _, worker in found]
    _check_alike(surveys)
    plan.settle(surveys)
    if face._make_solver(np.float64).streams:
        if checkpoint is not None:
            raise ValueError(
                f"checkpoint keeps parameters from which a solver goes on, and {face.solver!r} sees the data once: leave it out."
            )
        pass_over(face, plan, tables, surveys)
        return face
    shares, order = _shares(plan, tables, surveys, where)
    hypothesis = plan.hypothesis
    sizes = shares.each("taskloss-sizes", totals)
    first = next(i for i, size in enumerate(sizes) if size.examples)
    own = [np.zeros(1, dtype=np.int64) if i == first else None for i in range(len(sizes))]
    one = shares.each("taskloss-example", chosen, hypothesis, own=own)[first]
    scores = PartitionedScores(shares, sizes, one)
    if hypothesis.whitened:
        rows = RowsElsewhere(scores, hypothesis, order, plan.keys(surveys))
        hypothesis = hypothesis.bind(rows, rows.weights)
    else:
        hypothesis = hypothesis.bind(scores.inputs)
    face._fit_to(hypothesis, scores.inputs, scores, plan.found, checkpoint=checkpoint)
    face.close_stream()
    return face


def _refuse(face: Any) -> None:
    """What cannot be fitted over partitions, in one sentence each."""
    hypothesis = Hypothesis.resolve(face.hypothesis)
    if hypothesis.trained:
        raise ValueError(
            f"{hypothesis!r} trains itself on all examples at once. The libraries' own distributed training has no way back from a lost worker, and "
            "holds no table of scores beside trees that a risk over all partitions could be asked for: fit it to a sample in memory, or use "
            "hypothesis='nystrom'."
        )
    if hypothesis.grows or hypothesis.pairwise:
        raise ValueError(
            f"{hypothesis!r} needs kernel values between all pairs of examples, which partitions do not hold: use hypothesis='nystrom'."
        )
    if face._chooses_alpha:
        raise ValueError(
            f"With Dask collections alpha must be a number, got {face.alpha!r}, by which the penalty is chosen on examples held out: choose it on some partitions in memory, "
            "and pass its alpha_."
        )
    if getattr(face, "_unpenalised", False):
        raise ValueError(
            "alpha=0 asks whether the features separate the labels, which takes all examples in memory: with Dask collections give alpha a number above zero."
        )


def _survey(table: tuple[Any, ...], place: int, plan: Plan) -> tuple[Survey, str | None]:
    from ..distributed.rounds import worker

    return _said_of(place, lambda: plan.survey(*table)), worker()


def _said_of(place: int, work: Callable[[], Any]) -> Any:
    """What is said of a partition's data names the partition."""
    try:
        return work()
    except (TypeError, ValueError) as error:
        raise type(error)(f"Partition {place}: {error}") from error


def _check_alike(surveys: list[Survey]) -> None:
    """Partitions have columns of one kind, and some have examples that count."""
    some = [i for i, survey in enumerate(surveys) if survey.examples]
    if not some:
        raise ValueError("No partition of X has any rows: there is nothing to fit.")
    first = surveys[some[0]].kind
    for i in some[1:]:
        kind = surveys[i].kind
        if kind != first:
            raise ValueError(
                f"Partition {i} of X is {_in_words(kind)}, and partition {some[0]} is {_in_words(first)}: all partitions need the same columns."
            )
    if not sum(survey.weight for survey in surveys) > 0:
        raise ValueError("sample_weight is zero for all examples of all partitions: at least one must count.")


def _in_words(kind: tuple[Any, ...]) -> str:
    form, width, names = kind
    return f"{form} of {width} columns" + ("" if names is None else f" named {list(names)}")


def _shares(plan: Plan, tables: Any, surveys: list[Survey], where: list[Any]) -> tuple[Any, list[int]]:
    """The partitions read, and their order: together in a few shares for each thread where they fit in memory, else one by one and anew in every round.

    where: the worker that looked at a partition, which has it if any worker has.
    """
    from ..distributed.rounds import Shares

    cluster, some = tables.cluster, [i for i, survey in enumerate(surveys) if survey.examples]
    sizes = [float(surveys[i].size) for i in some]
    held, places = cluster.holds(sum(sizes)), None
    lots = [[i] for i in range(len(some))]
    if held:
        lots, places = cluster.lots(
            sizes, [where[i] for i in some] if cluster.has(tables.items) else [None] * len(some), _SHARES
        )
    groups = [[tables.items[some[i]] for i in lot] for lot in lots]
    read = Shares(cluster, groups, held=False).made("taskloss-read", _read, plan, held=held, places=places)
    return read, [i for lot in lots for i in lot]


def _read(tables: list[tuple[Any, ...]], plan: Plan) -> Share:
    return [plan.read(*table) for table in tables]


class RowsElsewhere:
    """The rows of all shares as one array would have them, brought here as they are asked for: what draws centres."""

    def __init__(self, scores: PartitionedScores, hypothesis: Hypothesis, parts: list[int], keys: Any = None):
        self.scores, self.hypothesis = scores, hypothesis
        n = sum(size.rows for size in scores.sizes)
        if n > _ROWS_HERE:
            raise ValueError(f"{hypothesis!r} draws its centres among at most {_ROWS_HERE} rows, and there are {n}.")
        self.shape, self.dtype = (n, scores.inputs.shape[1]), scores.inputs.dtype
        self.firsts = np.concatenate([[0], np.cumsum([size.rows for size in scores.sizes])])
        # Where the rows lie, in the order in which memory would have them: of the partitions, then of sorted examples.
        self.order = np.arange(n)
        if parts != sorted(parts):
            rows = np.concatenate(scores.shares.each("taskloss-lengths", _lengths))
            self.order = _in_runs(rows, np.argsort(parts))
        if keys is not None:
            lengths, columns = keys
            self.order = self.order[_in_runs(lengths, np.lexsort(columns))]

    @property
    def weights(self) -> np.ndarray:
        return np.concatenate(self.scores.shares.each("taskloss-weights", _row_weights))[self.order]

    def __getitem__(self, rows: Any) -> Any:
        rows = self.order[rows]
        order = np.argsort(rows, kind="stable")
        cuts = np.searchsorted(rows[order], self.firsts)
        own = [
            rows[order[a:b]] - first if b > a else None
            for a, b, first in zip(cuts, cuts[1:], self.firsts, strict=False)
        ]
        found = [part for part in self.scores.shares.each("taskloss-rows", _rows, own=own) if part is not None]
        inputs = sparse.vstack(found, format="csr") if sparse.issparse(found[0]) else np.concatenate(found)
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        return inputs[back]

    @property
    def rows(self) -> RowsElsewhere:
        """Themselves: of sequences, the rows of all positions."""
        return self

    def variance(self) -> float:
        """Of all entries, each row as often as its weight says."""
        total = sum(size.weight for size in self.scores.sizes) * self.shape[1]
        mean = self.scores.shares.sum("taskloss-mean", _powers, 0.0, 1) / total
        return float(self.scores.shares.sum("taskloss-variance", _powers, mean, 2) / total)


def _in_runs(lengths: np.ndarray, order: np.ndarray) -> np.ndarray:
    """The places of rows that lie in runs of these lengths, the runs in another order."""
    starts, ends = (np.cumsum(lengths) - lengths)[order], np.cumsum(lengths[order])
    return np.arange(lengths.sum()) + np.repeat(starts - (ends - lengths[order]), lengths[order])


def _lengths(share: Share) -> np.ndarray:
    """How many rows each partition of a share has."""
    return np.array([risk.n_rows for _, risk in share])


def _rows_of(share: Share) -> list[Any]:
    return [getattr(inputs, "rows", inputs) for inputs, _ in share]


def _row_weights(share: Share) -> np.ndarray:
    return np.concatenate([np.zeros(0), *(risk.row_weights for _, risk in share)])


def _rows(share: Share, rows: np.ndarray) -> Any:
    found, first = [], 0
    for inputs in _rows_of(share):
        mine = rows[(rows >= first) & (rows < first + inputs.shape[0])] - first
        first += inputs.shape[0]
        found.append(inputs[mine])
    return sparse.vstack(found, format="csr") if sparse.issparse(found[0]) else np.concatenate(found)


def _powers(share: Share, centre: float, power: int) -> float:
    """sum_i w_i sum_j (x_ij - centre)^power; zeros of sparse rows count, too."""
    total = 0.0
    for inputs, (_, risk) in zip(_rows_of(share), share, strict=True):
        if sparse.issparse(inputs):
            each = inputs.copy()
            each.data = (each.data - centre) ** power - (-centre) ** power
            sums = np.asarray(each.sum(axis=1)).ravel() + inputs.shape[1] * (-centre) ** power
        else:
            sums = ((inputs - centre) ** power).sum(axis=1)
        total += float(risk.row_weights @ sums)
    return total


def pass_over(face: Any, plan: Plan, tables: Any, surveys: list[Survey]) -> None:
    """One pass of averaged stochastic gradient descent over the partitions in turn, to which the running average travels."""
    count = sum(survey.examples for survey in surveys)
    solver: Any = Solver.resolve(face.solver)
    solver = solver.for_stream(count)
    stream: Any = None
    progress, seen = follow(type(face).__name__, 1.0, face.verbose), 0
    for i, survey in enumerate(surveys):
        if survey.examples:
            own = [(stream,) if i == j else None for j in range(len(surveys))]
            stream = tables.each("taskloss-pass", _pass, plan, solver, count, own=own)[i]
            seen += survey.examples
            if progress is not None:
                progress.count(seen, count, "examples")
    face.close_stream()
    keep_found(face, plan.found)
    face.hypothesis_, face.theta_ = stream.model()
    face.n_iter_ = stream.state.steps
    face.solution_ = Solution(face.theta_, np.nan, Status.PASSED, face.n_iter_, 0, np.nan)
    if progress is not None:
        progress.close(Status.PASSED)


def _pass(table: tuple[Any, ...], so_far: tuple[Any], plan: Plan, solver: Any, count: int) -> Any:
    """The stream after the examples of one partition."""
    inputs, risk = plan.read(*table)
    risk.weights = risk.weights * count  # one on average
    stream = so_far[0]
    if stream is None:
        stream = open_stream(solver, plan.hypothesis, inputs, risk.n_scores, {})
    for examples in risk.cut(stream.rows(inputs)):
        stream.take(stream.hypothesis.piece(inputs, risk.rows_of(examples)), risk.take(examples))
    return stream
