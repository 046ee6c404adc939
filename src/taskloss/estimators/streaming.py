"""Fitting from a stream of examples, by averaged stochastic gradient descent."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Protocol, Self, cast

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.metaestimators import available_if

from .._checks import check_whole, count_examples
from ..data.labels import labels_for
from ..data.weights import example_weights
from ..hypotheses.base import Hypothesis
from ..objectives.rows import Rows
from ..objectives.scores import ScoreRisk
from ..objectives.stochastic import Chunk
from ..progress import follow
from ..solvers.asgd import ASGD, Expansion, Iterates
from ..solvers.base import Interrupted, Solution, Solver, Status
from .base import check_features, keep_found

_CHUNK = 1 << 20  # features that are made at one time


def _streams(estimator: Any) -> bool:
    """Streams are fitted by ASGD alone: other solvers leave no partial_fit."""
    if Hypothesis.resolve(estimator.hypothesis).trained:
        raise AttributeError(f"{estimator.hypothesis!r} needs all examples at once: use fit.")
    if _stream_solver(estimator.solver).streams:
        return True
    raise AttributeError(
        f"Streams are fitted by ASGD, not by {estimator.solver!r}: leave solver='auto', or pass solver=ASGD(radius=...)."
    )


def _stream_solver(spec: Any) -> Solver:
    return ASGD() if isinstance(spec, str) and spec == "auto" else Solver.resolve(spec)


class Averaging:
    """The running average of averaged stochastic gradient descent, kept between batches."""

    solver: Any
    verbose: bool
    class_weight: Any = None
    solution_: Solution
    _stream: Stream | None = None

    def close_stream(self) -> None:
        """Forget the running average; the next partial_fit starts anew."""
        self._stream = None

    def _stream_solver(self, n_samples: int | None) -> ASGD:
        if self.class_weight is not None:
            raise ValueError(
                "class_weight needs all labels at once: weigh the examples of a stream with sample_weight."
            )
        _streams(self)
        return cast(ASGD, _stream_solver(self.solver)).for_stream(n_samples)

    def _take(self, stream: Stream, inputs: Any, risk: ScoreRisk) -> None:
        """Take a batch into the average, and keep the model so far."""
        try:
            for examples in risk.cut(stream.rows(inputs)):
                stream.take(stream.hypothesis.piece(inputs, risk.rows_of(examples)), risk.take(examples))
        finally:  # whatever happened, what was seen is a model
            if stream.state.seen:
                keep_found(self, stream.found)
                self._stream = stream
                self.hypothesis_, self.theta_ = stream.model()
                self.n_iter_ = stream.state.steps
                self.solution_ = Solution(self.theta_, np.nan, Status.PASSED, self.n_iter_, 0, np.nan)


class Streaming(Averaging):
    """partial_fit and fit_stream: examples are seen once, in the order in which they come, and need not fit in memory.

    Everything that is given is checked before anything of the estimator changes.
    """

    @available_if(_streams)
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Take some more examples into the average.

        classes: all labels that may ever come, at the first call, unless the loss names them or a fit has seen them. After
        a fit the average starts anew. A Nyström hypothesis takes
        its centres from the first call's rows; a kernel hypothesis keeps every point it sees.
        """
        self._check_numbers()  # type: ignore[attr-defined]
        stream = self._open_stream(X, y, classes, None) if self._stream is None else self._stream
        self._take(stream, *self._batch(stream, X, y, sample_weight))
        return self

    @available_if(_streams)
    def fit_stream(self, batches: Iterable[tuple[Any, ...]], classes: Any = None, n_samples: int | None = None) -> Self:
        """Fit anew to an iterable of (X, y) or (X, y, sample_weight), each of any number of rows.

        n_samples: how many examples there will be, for the constant step of the theorem; without it the step falls with
        the square root of the examples seen. The model is usable after every batch: an interrupt, an error in the
        iterable or its early end leave the average of what was seen.
        """
        self._check_numbers()  # type: ignore[attr-defined]
        if n_samples is not None:
            check_whole("n_samples", n_samples)
        if not isinstance(batches, Iterable) or getattr(batches, "shape", None) == ():
            raise TypeError(f"batches must be an iterable of (X, y) or (X, y, sample_weight), got {batches!r}.")
        progress = follow(type(self).__name__, 1.0, self.verbose)
        stream: Stream | None = None
        try:
            for batch in batches:
                if not isinstance(batch, tuple) or len(batch) not in (2, 3):
                    raise ValueError(
                        f"batches must be tuples (X, y) or (X, y, sample_weight), got {type(batch).__name__} among them."
                    )
                if count_examples("X", batch[0]) == 0:
                    continue
                if stream is None:
                    stream = self._open_stream(batch[0], batch[1], classes, n_samples)
                self._take(stream, *self._batch(stream, *batch))
                if progress is not None:
                    progress.count(stream.state.seen, n_samples, "examples")
        except KeyboardInterrupt as interrupt:
            if stream is None or not stream.state.seen:
                raise
            self.solution_ = replace(self.solution_, status=Status.INTERRUPTED)
            raise Interrupted(self.solution_) from interrupt
        if stream is None:
            raise ValueError("batches hold no rows of X: there is nothing to fit.")
        if n_samples is not None and stream.state.seen < n_samples:
            warnings.warn(
                f"The stream ended after {stream.state.seen} of the {n_samples} examples that n_samples announced: the model is the average over "
                "those, with a step meant for more.",
                ConvergenceWarning,
                stacklevel=2,
            )
        if progress is not None:
            progress.close(Status.PASSED)
        return self

    # -- one batch after another -------------------------------------------------------------------------------------

    def _open_stream(self, X: Any, y: Any, classes: Any, n_samples: int | None) -> Stream:
        """A stream of rows, from its first batch."""
        loss, order = self._make_loss(), self._order()  # type: ignore[attr-defined]
        if classes is None and hasattr(self, "theta_"):  # labels that a fit has seen are known
            labels = self.labels_  # type: ignore[attr-defined]
        elif loss.kind == "classes":
            if classes is None and order is None and loss.label_names() is None:
                raise ValueError("The first call needs classes=..., all labels that may ever come.")
            name, known = ("order", order) if classes is None else ("classes", classes)
            labels = self._make_labels(loss, known, name)  # type: ignore[attr-defined]
        else:
            labels = labels_for(loss, y, classes)
            labels.check()
        loss, surrogate = self._match(loss.bind_names(labels.classes).bind(labels.size))  # type: ignore[attr-defined]
        surrogate.check_single_steps()
        X, found = check_features(self, X, Hypothesis.resolve(self.hypothesis))  # type: ignore[attr-defined]
        hypothesis = self._make_hypothesis(loss, surrogate, found)  # type: ignore[attr-defined]
        found |= {"loss_": loss, "surrogate_": surrogate, "labels_": labels}
        risk = Rows(surrogate, loss.phi(labels.encode(y)[:1]), np.ones(1))
        return open_stream(self._stream_solver(n_samples), hypothesis, X, risk.n_scores, found)

    def _batch(self, stream: Stream, X: Any, y: Any, sample_weight: Any = None) -> tuple[Any, ScoreRisk]:
        """The inputs and the risk of a batch."""
        found = stream.found
        like = copy.copy(self)
        keep_found(like, {name: found[name] for name in ("n_features_in_", "feature_names_in_")})
        X = stream.hypothesis.read(X, like, False)
        codes = found["labels_"].encode(y)
        if len(codes) != X.shape[0]:
            raise ValueError(f"X and y have different lengths: {X.shape[0]} and {len(codes)}.")
        weights = example_weights(sample_weight, len(codes))
        return X, Rows(found["surrogate_"], found["loss_"].phi(codes), weights, part=True)


class Stream(Protocol):
    """The running average over the examples of a stream."""

    hypothesis: Hypothesis
    state: Any
    found: dict[str, Any]

    def rows(self, inputs: Any) -> int:
        """How many rows to take at one time."""
        ...

    def take(self, inputs: Any, risk: ScoreRisk) -> None: ...

    def model(self) -> tuple[Hypothesis, np.ndarray]:
        """The hypothesis and its parameters now."""
        ...


def open_stream(solver: ASGD, hypothesis: Hypothesis, inputs: Any, n_scores: int, found: dict[str, Any]) -> Stream:
    """A stream whose hypothesis is bound to the first inputs; found is what else the estimator is to keep."""
    kind: Any = _Growing if hypothesis.grows else _Fixed
    return kind(solver, hypothesis, inputs, n_scores, found)


class _Fixed:
    """Explicit features, of a size that does not change."""

    def __init__(self, solver: ASGD, hypothesis: Hypothesis, inputs: Any, n_scores: int, found: dict[str, Any]):
        self.hypothesis, self.found = hypothesis.bind(inputs), found
        self.state = Iterates(solver, self.hypothesis.start(inputs, np.zeros(n_scores)))

    def rows(self, inputs: Any) -> int:
        return max(1, _CHUNK // self.hypothesis.width(inputs.shape[1]))

    def take(self, inputs: Any, risk: ScoreRisk) -> None:
        self.state.take(Chunk(self.hypothesis, inputs, risk))

    def model(self) -> tuple[Hypothesis, np.ndarray]:
        return self.hypothesis, self.state.mean.copy()  # the mean itself goes on changing, and this is the user's


class _Growing:
    """A sum of kernels at all points seen. The intercepts are a constant feature of their own."""

    def __init__(self, solver: ASGD, hypothesis: Hypothesis, inputs: Any, n_scores: int, found: dict[str, Any]):
        self.hypothesis, self.found = hypothesis.growing(inputs), found
        self.state = Expansion(solver, n_scores, float(hypothesis.fit_intercept), hypothesis.shares_weights)
        self.points: Any = None

    def rows(self, inputs: Any) -> int:
        return max(1, min(1024, _CHUNK // (self.state.seen + 1024)))

    def take(self, inputs: Any, risk: ScoreRisk) -> None:
        points = inputs
        if self.points is not None:  # an interrupt may have left points behind that have no coefficients
            inputs = _as(inputs, self.points)
            points = _stack(self.points[: len(self.state.c)], inputs)
        grown = self.hypothesis.expansion(points)
        k, diagonal = grown.features(inputs), grown.diagonal(inputs) + self.state.constant
        self.points = points
        self.state.take(_Points(diagonal, risk), k)

    def model(self) -> tuple[Hypothesis, np.ndarray]:
        mean = self.state.mean
        functions, intercepts = self.state.mixed(mean), self.state.constant * mean.sum(axis=0)
        theta = np.concatenate([functions, intercepts.reshape(-1, functions.shape[1])])
        return self.hypothesis.expansion(self.points[: len(mean)]), theta


class _Points(Chunk):
    """Examples whose features are only known by their inner products."""

    def __init__(self, diagonal: np.ndarray, risk: ScoreRisk):
        self.risk, self.scale = risk, 1.0
        self.kappa = float(np.sqrt(diagonal.max()))


def _as(X: Any, like: Any) -> Any:
    """Rows as dense or as sparse as others are."""
    if sparse.issparse(like):
        return sparse.csr_matrix(X)
    return X.toarray() if sparse.issparse(X) else X


def _stack(a: Any, b: Any) -> Any:
    return sparse.vstack([a, b], format="csr") if sparse.issparse(a) else np.concatenate([a, b])
