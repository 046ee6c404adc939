"""Fitting from a stream of examples, by averaged stochastic gradient descent."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import _check_sample_weight, _num_samples, validate_data

from ..hypotheses.base import Hypothesis, row_blocks
from ..labels import labels_for
from ..objectives.scores import Rows
from ..objectives.stochastic import Chunk
from ..solvers.asgd import ASGD, Expansion, Iterates
from ..solvers.base import Progress, Solution, Solver, Status
from ..surrogates.base import Surrogate

_CHUNK = 1 << 20  # features that are made at one time


def _streams(estimator: Any) -> bool:
    """Streams are fitted by ASGD alone: other solvers leave no partial_fit."""
    solver = estimator.solver
    if Hypothesis.resolve(estimator.hypothesis).trained:
        raise AttributeError(f"{estimator.hypothesis!r} needs all examples at once: use fit.")
    if (isinstance(solver, str) and solver in ("auto", ASGD.name)) or isinstance(solver, ASGD) or solver is ASGD:
        return True
    raise AttributeError(
        f"Streams are fitted by ASGD, not by {solver!r}: leave solver='auto', or pass solver=ASGD(radius=...)."
    )


class Streaming:
    """partial_fit and fit_stream: examples are seen once, in the order in which they come, and need not fit in memory."""

    solver: Any
    hypothesis: Any
    verbose: bool
    class_weight: Any = None
    labels_: Any
    _stream: Any
    solution_: Solution

    @available_if(_streams)
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Take some more examples into the average.

        classes: all labels that may ever come, at the first call, unless the loss names them or a fit has seen them. After
        a fit the average starts anew. A Nyström hypothesis takes
        its centres from the first call's rows; a kernel hypothesis keeps every point it sees.
        """
        self._check_numbers()  # type: ignore[attr-defined]
        if not hasattr(self, "_stream"):
            self._open_stream(X, y, classes, None)
        return self._take(X, y, sample_weight)

    @available_if(_streams)
    def fit_stream(self, batches: Iterable[tuple], classes: Any = None, n_samples: int | None = None) -> Self:
        """Fit anew to an iterable of (X, y) or (X, y, sample_weight), each of any number of rows.

        n_samples: how many examples there will be, for the constant step of the theorem; without it the step falls with
        the square root of the examples seen. The model is usable after every batch: an interrupt, an error in the
        iterable or its early end leave the average of what was seen.
        """
        self._check_numbers()  # type: ignore[attr-defined]
        self.close_stream()
        progress = Progress(type(self).__name__, 1.0) if self.verbose else None
        status = Status.PASSED
        try:
            for batch in batches:
                if not isinstance(batch, tuple) or len(batch) not in (2, 3):
                    raise ValueError("Every batch of a stream must be a tuple (X, y) or (X, y, sample_weight).")
                if _num_samples(batch[0]) == 0:
                    continue
                if not hasattr(self, "_stream"):
                    self._open_stream(batch[0], batch[1], classes, n_samples)
                self._take(*batch)
                if progress is not None:
                    progress.count(self._stream.state.seen, n_samples, "examples")
        except KeyboardInterrupt:
            status = Status.INTERRUPTED
        seen = self._stream.state.seen if hasattr(self, "_stream") else 0
        if not seen:
            raise ValueError("The stream ended before its first batch: there is nothing to fit.")
        if status is Status.INTERRUPTED:
            self.solution_ = replace(self.solution_, status=status)
            warnings.warn(status.value, ConvergenceWarning, stacklevel=2)
        elif n_samples is not None and seen < n_samples:
            warnings.warn(
                f"The stream ended after {seen} of the {n_samples} examples that n_samples announced: the model is the average over "
                "those, with a step meant for more.",
                ConvergenceWarning,
                stacklevel=2,
            )
        if progress is not None:
            progress.close(status)
        return self

    def close_stream(self) -> None:
        """Forget the running average; the next partial_fit starts anew."""
        self.__dict__.pop("_stream", None)

    # -- one batch after another -------------------------------------------------------------------------------------

    def _open_stream(self, X: Any, y: Any, classes: Any, n_samples: int | None) -> None:
        solver = self._stream_solver(n_samples)
        loss = self._make_loss()  # type: ignore[attr-defined]
        order = self._order()  # type: ignore[attr-defined]
        if classes is None and hasattr(self, "theta_"):  # labels that a fit has seen are known
            labels = self.labels_
        elif loss.kind == "classes":
            if classes is None and order is None and loss.label_names() is None:
                raise ValueError("The first call needs classes=..., all labels that may ever come.")
            labels = labels_for(loss, order if classes is None else classes, order)
        else:
            labels = labels_for(loss, y, classes)
        labels.check()
        loss, surrogate = self._match(loss.bind_names(labels.classes).bind(labels.size))  # type: ignore[attr-defined]
        surrogate.check_single_steps()
        hypothesis = self._make_hypothesis(loss, surrogate)  # type: ignore[attr-defined]
        X = validate_data(self, X, accept_sparse="csr", dtype=list(hypothesis.dtypes))
        self.loss_, self.surrogate_, self.labels_ = loss, surrogate, labels
        size = surrogate.size or loss.phi(labels.encode(y)[:1]).shape[1]
        stream = _Growing if hypothesis.grows else _Fixed
        self._stream = stream(solver, hypothesis, surrogate, X, size)

    def _stream_solver(self, n_samples: int | None) -> ASGD:
        if self.class_weight is not None:
            raise ValueError(
                "class_weight needs all labels at once: weigh the examples of a stream with sample_weight."
            )
        solver = ASGD() if isinstance(self.solver, str) and self.solver == "auto" else Solver.resolve(self.solver)
        assert isinstance(solver, ASGD)
        solver.validate()
        if n_samples is None:
            return solver
        return solver.with_params(horizon=-(-n_samples // solver.batch_size))

    def _take(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        stream = self._stream
        X = validate_data(self, X, accept_sparse="csr", dtype=list(stream.hypothesis.dtypes), reset=False)
        codes = self.labels_.encode(y)
        if len(codes) != X.shape[0]:
            raise ValueError(f"X and y have different lengths: {X.shape[0]} and {len(codes)}.")
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        phi = self.loss_.phi(codes)
        try:
            for rows in row_blocks(X, stream.rows(X)):
                stream.take(X[rows], phi[rows], weights[rows])
        finally:  # whatever happened, what was seen is a model
            if stream.state.seen:
                self.hypothesis_, self.theta_ = stream.model()
                self.n_iter_ = stream.state.steps
                self.solution_ = Solution(self.theta_, np.nan, Status.PASSED, self.n_iter_, 0, np.nan)
        return self


class _Fixed:
    """Explicit features, of a size that does not change."""

    def __init__(self, solver: ASGD, hypothesis: Hypothesis, surrogate: Surrogate, X: Any, size: int):
        self.surrogate = surrogate
        self.hypothesis = hypothesis.bind(X)
        self.state = Iterates(solver, self.hypothesis.start(X, np.zeros(size)))

    def rows(self, X: Any) -> int:
        return max(1, _CHUNK // self.hypothesis.width(X.shape[1]))

    def take(self, X: Any, phi: np.ndarray, weights: np.ndarray) -> None:
        self.state.take(Chunk(self.hypothesis, X, Rows(self.surrogate, phi, weights, part=True)))

    def model(self) -> tuple[Hypothesis, np.ndarray]:
        return self.hypothesis, self.state.mean


class _Growing:
    """A sum of kernels at all points seen. The intercepts are a constant feature of their own."""

    def __init__(self, solver: ASGD, hypothesis: Hypothesis, surrogate: Surrogate, X: Any, size: int):
        self.surrogate = surrogate
        self.hypothesis = hypothesis.growing(X)
        self.state = Expansion(solver, size, float(hypothesis.fit_intercept), hypothesis.shares_weights)
        self.points: Any = None

    def rows(self, X: Any) -> int:
        return max(1, min(1024, _CHUNK // (self.state.seen + 1024)))

    def take(self, X: Any, phi: np.ndarray, weights: np.ndarray) -> None:
        points = X
        if self.points is not None:  # an interrupt may have left points behind that have no coefficients
            X = _as(X, self.points)
            points = _stack(self.points[: len(self.state.c)], X)
        grown = self.hypothesis.expansion(points)
        k, diagonal = grown.features(X), grown.diagonal(X) + self.state.constant
        self.points = points
        self.state.take(_Points(diagonal, Rows(self.surrogate, phi, weights, part=True)), k)

    def model(self) -> tuple[Hypothesis, np.ndarray]:
        mean = self.state.mean
        functions, intercepts = self.state.mixed(mean), self.state.constant * mean.sum(axis=0)
        theta = np.concatenate([functions, intercepts.reshape(-1, functions.shape[1])])
        return self.hypothesis.expansion(self.points[: len(mean)]), theta


class _Points(Chunk):
    """Examples whose features are only known by their inner products."""

    def __init__(self, diagonal: np.ndarray, risk: Rows):
        self.risk, self.scale = risk, 1.0
        self.kappa = float(np.sqrt(diagonal.max()))


def _as(X: Any, like: Any) -> Any:
    """Rows as dense or as sparse as others are."""
    if sparse.issparse(like):
        return sparse.csr_matrix(X)
    return X.toarray() if sparse.issparse(X) else X


def _stack(a: Any, b: Any) -> Any:
    return sparse.vstack([a, b], format="csr") if sparse.issparse(a) else np.concatenate([a, b])
