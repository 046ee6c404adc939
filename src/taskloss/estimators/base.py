"""What all faces share: from moments to decisions."""

from __future__ import annotations

import copy
import numbers
import warnings
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from ..hypotheses.base import Hypothesis
from ..hypotheses.boosting import Ensemble
from ..labels import check_kind
from ..losses.base import Loss
from ..losses.tabular import CostMatrix, Tabular, ZeroOne
from ..objectives import Monitor, Options, ScoreRisk, minimise
from ..scoring import example_weights
from ..solvers.base import Progress, Solution, Solver
from .validation import Judge, hold_out


def keep(estimator: Any, arguments: dict[str, Any]) -> None:
    """Store a constructor's arguments under their own names, as scikit-learn asks."""
    for name, value in arguments.items():
        if name not in ("self", "__class__"):
            setattr(estimator, name, value)


class Minimiser:
    """What estimators that minimise a penalised risk share: their hyperparameters checked, and the minimum found."""

    alpha: float
    solver: Any
    tol: float
    max_iter: int
    warm_start: bool
    verbose: bool
    theta_: Any
    hypothesis_: Hypothesis
    solution_: Solution

    def _check_numbers(self) -> None:
        if not (isinstance(self.alpha, numbers.Real) and 0 < self.alpha < np.inf):
            raise ValueError(
                f"alpha must be a finite number above zero, got {self.alpha!r}: the penalty is what makes the minimum unique."
            )
        if not self.tol > 0 or self.max_iter < 1:
            raise ValueError(f"tol and max_iter must be positive, got {self.tol!r} and {self.max_iter!r}.")

    def _minimise(
        self,
        hypothesis: Hypothesis,
        inputs: Any,
        risk: ScoreRisk,
        judge: Judge | None = None,
        monitor: Monitor | None = None,
    ) -> Solution:
        """The parameters of least penalised risk, with a progress bar if asked, and a warning where the solver stopped short.

        A hypothesis that stops early is watched on data given, `monitor`, or else on examples that are held out, by `judge`.
        """
        if hypothesis.holdout is not None and monitor is None and judge is not None:
            inputs, risk, monitor = hold_out(hypothesis, inputs, risk, judge)
        solver = self._make_solver(inputs.dtype)
        warm = self.warm_start and hasattr(self, "theta_") and hypothesis.agrees(self.hypothesis_)
        progress = Progress(type(self).__name__, self.tol) if self.verbose else None
        options = Options(self.alpha, solver, self.theta_ if warm else None, progress, monitor)
        solution = minimise(hypothesis, inputs, risk, options)
        if not solution.converged:
            warnings.warn(solution.status.value, ConvergenceWarning, stacklevel=3)
        return solution

    def _keep_solution(self, hypothesis: Hypothesis, solution: Solution) -> None:
        self.hypothesis_, self.solution_, self.theta_ = hypothesis, solution, solution.theta
        self.n_iter_ = solution.iterations

    def _make_solver(self, dtype: Any) -> Solver:
        if not isinstance(self.solver, str):
            return Solver.resolve(self.solver)
        # One choice for all: with its preconditioner L-BFGS needs few passes on dense data; Newton may win on sparse.
        solver = Solver.resolve("lbfgs" if self.solver == "auto" else self.solver)
        floor = 1e-6 if dtype == np.float32 else 0.0  # finer than that, single precision is noise
        return solver.within(max(self.tol, floor), self.max_iter)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "theta_")

    # -- what a fit with trees has -----------------------------------------------------------------------------------

    @property
    def _ensemble(self) -> Ensemble:
        check_is_fitted(self)
        found = getattr(self.theta_, "node", self.theta_)
        if not isinstance(found, Ensemble):
            raise AttributeError(f"{self.hypothesis_!r} has no trees: use hypothesis=Boosting(...).")
        return found

    @property
    def feature_importances_(self) -> np.ndarray:
        """With trees: the share of each feature in the total gain of all splits."""
        return self._ensemble.importances

    @property
    def n_estimators_(self) -> int:
        """With trees: the number of rounds kept."""
        return self._ensemble.rounds

    @property
    def validation_curve_(self) -> np.ndarray:
        """With trees: the held-out task loss after 0, 1, ... rounds, also of those that were not kept; empty where nothing was held out."""
        return self._ensemble.curve


class Decoder(ClassifierMixin, BaseEstimator):
    """From moments to decisions. A child gives `predict_moments`, and after fitting `loss_` and `labels_`."""

    def predict(self, X: Any, loss: Any = None, costs: Any = None) -> Any:
        """The outputs of least expected loss.

        loss: another loss on the same labels; the fit is the same, only the decision changes. costs: costs that
        differ per example, an array (n, Z, Y) in the place of the cost matrix, or (n, Z), a price added to each
        output.
        """
        loss, mu = self._loss_and_moments(loss, X)
        return self.labels_.translate(loss.decode(mu, costs), loss)

    def expected_loss(self, X: Any, loss: Any = None, costs: Any = None) -> np.ndarray:
        """The expected loss of each prediction, as the fitted moments estimate it; loss and costs as in `predict`."""
        loss, mu = self._loss_and_moments(loss, X)
        return risk_of(loss, loss.decode(mu, costs), mu, costs)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Minus the mean task loss; higher is better."""
        self._check_fitted()
        z = self.labels_.encode_outputs(self.predict(X), self.loss_)
        losses = self.loss_(z, self.labels_.encode(y))
        return -float(np.average(losses, weights=example_weights(sample_weight, len(losses))))

    def predict_moments(self, X: Any) -> np.ndarray:
        raise NotImplementedError

    def _check_fitted(self) -> None:
        check_is_fitted(self)

    def _loss_and_moments(self, loss: Any, X: Any) -> tuple[Any, np.ndarray]:
        """A loss, fitted or another, and the moments it decodes."""
        mu = self.predict_moments(X)
        loss = self._loss_for(loss)
        return loss, mu if loss is self.loss_ else self.loss_.moments_for(loss, mu)

    def _loss_for(self, loss: Any) -> Loss:
        """The fitted loss, or another one brought to its labels and embedding."""
        self._check_fitted()
        if loss is None:
            return self.loss_
        loss = resolve_loss(loss)
        if loss.kind != self.loss_.kind:
            raise ValueError(
                f"{loss!r} needs labels of another kind ({loss.kind}) than this estimator was fitted on ({self.loss_.kind})."
            )
        loss = loss.bind_names(self.labels_.classes).bind(self.labels_.size)
        return loss.embedded_like(self.loss_) if isinstance(loss, Tabular) else loss

    @property
    def classes_(self) -> np.ndarray:
        """The labels, in the order of the loss's columns."""
        self._check_fitted()
        return self.labels_.classes


def risk_of(loss: Any, z: np.ndarray, mu: np.ndarray, costs: Any) -> np.ndarray:
    """The expected loss of the outputs z, with costs that differ per example where they are given."""
    if costs is None:
        return loss.bayes_risk(z, mu)
    return np.take_along_axis(loss.expected(mu, costs), z[:, None], axis=1)[:, 0]


def resolve_loss(spec: Any) -> Loss:
    """A loss from a loss, its class, its name, or a matrix of costs."""
    return Loss.resolve(spec) if isinstance(spec, str | Loss | type) else CostMatrix(spec)


def as_loss(spec: Any) -> Loss:
    """A loss on labels from a loss, a name, a matrix of costs, or None for 0-1 loss."""
    if spec is None:
        return ZeroOne()
    loss = resolve_loss(spec)
    check_kind(loss)
    if loss.kind == "indicator":
        raise ValueError(f"{loss!r} is a loss on label sets; use MultilabelClassifier for those.")
    return loss


def check_features(estimator: Any, X: Any, hypothesis: Hypothesis) -> tuple[Any, dict[str, Any]]:
    """X as the hypothesis reads it at a fit, and what the estimator is to know of its features once it is fitted."""
    fresh = copy.copy(estimator)  # a fit that fails must not change what an earlier one learned
    X = hypothesis.read(X, fresh, True)
    return X, {name: getattr(fresh, name, None) for name in ("n_features_in_", "feature_names_in_")}


def keep_features(estimator: Any, found: dict[str, Any]) -> None:
    """Set what `check_features` found, and forget what no longer holds."""
    for name, value in found.items():
        if value is not None:
            setattr(estimator, name, value)
        elif hasattr(estimator, name):
            delattr(estimator, name)


def read_more(estimator: Any, X: Any, hypothesis: Hypothesis, found: dict[str, Any]) -> Any:
    """Other rows with the features that `check_features` found, before the estimator knows them."""
    fresh = copy.copy(estimator)
    keep_features(fresh, found)
    return hypothesis.read(X, fresh, False)
