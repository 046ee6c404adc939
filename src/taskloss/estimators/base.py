"""What all faces share: minimising a penalised risk, and going from moments to decisions."""

from __future__ import annotations

import hashlib
import warnings
from dataclasses import replace
from typing import Any, ClassVar, cast

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted, validate_data

from .._arguments import check_hyperparameters
from .._checks import check_lengths, check_number, said_of
from ..checkpoints import Checkpoint
from ..data.base import Translator
from ..data.costs import example_costs, warn_of_alphabet
from ..data.labels import check_kind
from ..data.weights import example_weights
from ..hypotheses.base import Hypothesis
from ..hypotheses.boosting import Ensemble
from ..hypotheses.trained import Trained
from ..losses.base import Loss
from ..losses.tabular import CostMatrix, ZeroOne
from ..model_files import Portable
from ..objectives import Monitor, Options, ScoreRisk, minimise
from ..priors import reweigh
from ..progress import follow, warn
from ..solvers.base import Interrupted, Solution, Solver
from ..surrogates.base import Surrogate
from .lazily import lazily, lazily_scored
from .penalties import Penalties, choose_scale
from .showing import Shown
from .validation import Judge, hold_out

COSTS: dict[str, bool | str | None] = {"costs": True}  # scikit-learn's metadata routing passes costs on by default
_ALPHA = 1e-3  # the penalty where none is given and none can be chosen
_PATH_TOL = 3e-3  # the relative gap of the fits among which the penalty is chosen
OF_FEATURES = ("n_features_in_", "feature_names_in_")


class ConsistencyWarning(UserWarning):
    """The surrogate does not determine the moments that decoding needs."""


def warn_of_ties(surrogate: Surrogate, loss: Loss) -> None:
    """Say that another loss than the fitted one, or its costs, are decided from moments that stand still where outputs tie."""
    warnings.warn(
        f"{type(surrogate).__name__} was fitted for {loss!r}: its moments are the same wherever two outputs tie for that loss, "
        "and other losses or costs are decided from these moments; fit with that loss, or with a surrogate whose potential is differentiable.",
        ConsistencyWarning,
        stacklevel=4,
    )


def _digest(labels: np.ndarray) -> str:
    """A short word for a list of labels."""
    return hashlib.blake2b(repr(labels.tolist()).encode(), digest_size=6).hexdigest()


def keep(estimator: Any, arguments: dict[str, Any]) -> None:
    """Store a constructor's arguments under their own names, as scikit-learn asks."""
    for name, value in arguments.items():
        if name not in ("self", "__class__"):
            setattr(estimator, name, value)


class Minimiser:
    """What estimators that minimise a penalised risk share: hyperparameters checked, and the minimum found and kept."""

    alpha: Any
    alpha_: float
    hypothesis: Any
    solver: Any
    tol: float
    max_iter: int
    warm_start: bool
    verbose: bool
    theta_: Any
    hypothesis_: Hypothesis
    solution_: Solution

    def _check_numbers(self) -> None:
        if not self._chooses_alpha and self.alpha is not None:
            why = ": the penalty is what makes the minimum unique; 'auto' chooses it by the task loss"
            check_number("alpha", self.alpha, above=0, why=why)
        check_hyperparameters(self)

    @property
    def _strength(self) -> Any:
        """The penalty that is asked for: the hypothesis's own where none is given."""
        return Hypothesis.resolve(self.hypothesis).default_alpha if self.alpha is None else self.alpha

    @property
    def _chooses_alpha(self) -> bool:
        """Whether the strength of the penalty is to be chosen by the task loss."""
        return isinstance(self._strength, str) and self._strength in ("auto", "loo")

    def _fit_to(
        self,
        hypothesis: Hypothesis,
        inputs: Any,
        risk: ScoreRisk,
        found: dict[str, Any],
        judge: Judge | None = None,
        monitor: Monitor | None = None,
        checkpoint: Any = None,
    ) -> None:
        """Minimise the penalised risk, then set the parameters and what else was found: a fit that fails changes nothing.

        A hypothesis that stops early is watched on data given, `monitor`, or else on examples that are held out, by `judge`.
        checkpoint: where the best parameters so far are kept. An interrupt is raised on, with the solution so far on the exception; with warm_start the estimator keeps it.
        """

        def keep_solution(solution: Solution) -> None:
            keep_found(self, found)
            self.hypothesis_, self.solution_, self.theta_ = hypothesis, solution, solution.theta
            self.n_iter_ = solution.iterations
            self.alphas_, self.path_scores_, self.alpha_ = penalties

        if hypothesis.holdout is not None and monitor is None and judge is not None:
            inputs, risk, judge, monitor = hold_out(hypothesis, inputs, risk, judge)
        hypothesis, penalties = self._penalties(hypothesis, inputs, risk, judge)
        warm = self.warm_start and hasattr(self, "theta_") and hypothesis.agrees(self.hypothesis_)
        progress = follow(type(self).__name__, self.tol, self.verbose)
        start, kept = self.theta_ if warm else None, None
        if checkpoint is not None:
            labels = getattr(found.get("labels_"), "classes", np.zeros(0))
            kept = Checkpoint(checkpoint, f"a {type(self).__name__} on {hypothesis!r} and labels {_digest(labels)}")
        options = Options(penalties.alpha, self._make_solver(inputs.dtype), start, progress, monitor, kept)
        try:
            solution = minimise(*hypothesis.tabulated(inputs), risk, options)
        except Interrupted as interrupt:
            if self.warm_start:
                keep_solution(interrupt.solution)
            raise
        keep_solution(solution)
        if not solution.converged:
            warn(solution.status.value, ConvergenceWarning, stacklevel=3)

    def _penalties(
        self, hypothesis: Hypothesis, inputs: Any, risk: ScoreRisk, judge: Judge | None
    ) -> tuple[Hypothesis, Penalties]:
        """The strength of the penalty, given or chosen, and the hypothesis at the scale that suits it."""
        solver = self._make_solver(inputs.dtype)
        fixed = self._strength
        if self.alpha is None and (solver.streams or judge is None or np.count_nonzero(risk.weights) < 2):
            fixed = _ALPHA  # nothing to choose, or to choose it by, and nobody has asked for it
        if not isinstance(fixed, str):
            if hypothesis.rescaled(1.0) is not None and self.alpha is not None:
                raise ValueError(
                    "gamma='auto' is chosen together with the penalty: use alpha='auto', or give gamma a number."
                )
            return hypothesis, Penalties(np.array([fixed]), np.array([np.nan]), float(fixed))
        first = hypothesis.begins
        if hypothesis.trained and first is not None:  # the penalty is that of the start alone
            read = first.reads(inputs)
            first, found = self._penalties(first.bind(read, risk.row_weights), read, risk, judge)
            return hypothesis.beginning_with(first), found
        if hypothesis.trained or solver.streams:
            what = type(solver if solver.streams else hypothesis).__name__
            raise ValueError(
                f"alpha='auto' is for solvers and hypotheses that a penalty keeps small, and {what} has other means: give alpha a number."
            )
        assert judge is not None
        loose = solver.within(max(self.tol, _PATH_TOL), self.max_iter)
        try:
            return choose_scale(hypothesis, inputs, risk, judge, loose)
        except KeyboardInterrupt as interrupt:  # a search's parameters are those of some strength
            raise KeyboardInterrupt(
                "Interrupted while the penalty was chosen: there are no parameters yet."
            ) from interrupt

    def _make_solver(self, dtype: Any) -> Solver:
        if not isinstance(self.solver, str):
            solver = Solver.resolve(self.solver)
            check_hyperparameters(solver)
            return solver
        solver = Solver.resolve(self.solver)
        floor = 1e-6 if dtype == np.float32 else 0.0  # finer than that, single precision is noise
        return solver.within(max(self.tol, floor), self.max_iter)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "theta_")

    def __getstate__(self) -> dict[str, Any]:
        """Stored models have what predictions need: a kernel's eigenvectors are n x n, and a fit makes them anew."""
        state = cast(dict[str, Any], super().__getstate__())
        if "theta_" not in state:
            return state
        hypothesis = self.hypothesis_.expanded()
        if hypothesis is self.hypothesis_:
            return state
        theta = self.hypothesis_.expand(self.theta_)
        return {**state, "hypothesis_": hypothesis, "theta_": theta, "solution_": replace(self.solution_, theta=theta)}

    # -- what a fit with trees or a network has ----------------------------------------------------------------------

    @property
    def _found(self) -> Any:
        check_is_fitted(self)
        return self.hypothesis_.self_trained(self.theta_)

    @property
    def _ensemble(self) -> Ensemble:
        if not isinstance(self._found, Ensemble):
            raise AttributeError(f"{self.hypothesis_!r} has no trees: use hypothesis=Boosting(...).")
        return self._found

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
        """With trees or a network: the held-out task loss after 0, 1, ... rounds or epochs, also of those that were not kept; empty where
        nothing was held out."""
        if not isinstance(self._found, Trained):
            raise AttributeError(
                f"{self.hypothesis_!r} watches no held-out task loss: use Boosting(...) or Torch(...)."
            )
        return self._found.curve


class Decoder(Shown, Portable, ClassifierMixin, BaseEstimator):
    """From moments to decisions. A child gives `predict_moments`, and after fitting `loss_` and `labels_`."""

    loss_: Loss
    labels_: Translator
    order: Any = None  # the labels, lowest first, where an estimator is told
    __metadata_request__predict: ClassVar = COSTS
    __metadata_request__score: ClassVar = COSTS

    @lazily
    def predict(
        self, X: Any, loss: Any = None, costs: Any = None, class_prior: Any = None, train_prior: Any = None
    ) -> Any:
        """The outputs of least expected loss.

        Parameters
        ----------
        X : array, sparse matrix or data frame
            Inputs, as `fit` takes them.
        loss : Loss, str or array, optional
            Another loss on the same labels; the fit is the same, only the decision changes.
        costs : array, function or dict, optional
            Costs that differ per example: an array (n, Z, Y) in the place of the cost matrix, or (n, Z), a price added to each output;
            for label sets (n, labels), a price for each label that is predicted. Or a function of X that returns one, or a formula on
            its columns, {"miss": "amount", "review": 10}; see `taskloss.example_costs`.
        class_prior : array, dict or PriorEstimate, optional
            The shares of the labels among these examples, where they differ from those of the fit: numbers in the order of classes_, a
            mapping from label to share, or an estimate; moments are reweighed, then decoded (`taskloss.reweigh`).
        train_prior : array or dict, optional
            The shares that the fit saw, where that is not `class_prior_`.

        Returns
        -------
        array or list of sets
            An output for each example, by its name.
        """
        costs = self._costs(costs, X, loss)
        loss, z, _ = self._decide_for(X, loss, costs, class_prior, train_prior)
        return self.labels_.translate(z, loss)

    @lazily
    def expected_loss(
        self, X: Any, loss: Any = None, costs: Any = None, class_prior: Any = None, train_prior: Any = None
    ) -> np.ndarray:
        """The expected loss of each prediction, as the fitted moments estimate it; other arguments as in `predict`."""
        costs = self._costs(costs, X, loss)
        loss, z, mu = self._decide_for(X, loss, costs, class_prior, train_prior)
        return loss.risk(z, mu, costs)

    @lazily_scored
    def score(self, X: Any, y: Any, sample_weight: Any = None, costs: Any = None) -> float:
        """Minus the mean task loss; higher is better. A label that the fit has not seen counts by the worst loss of the prediction.

        costs: as in `predict`; decisions are made for them, and judged by them.
        """
        costs = self._costs(costs, X, None)
        loss, z, _ = self._decide(X, None, costs)
        check_lengths(len(z), y)
        losses = self.labels_.losses(loss, z, y, costs)
        return -float(np.average(losses, weights=example_weights(sample_weight, len(losses))))

    def predict_moments(self, X: Any) -> np.ndarray:
        raise NotImplementedError

    def predict_proba(self, X: Any) -> np.ndarray:
        raise NotImplementedError

    @lazily
    def predict_log_proba(self, X: Any) -> np.ndarray:
        """The logarithm of `predict_proba`."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def _check_fitted(self) -> None:
        check_is_fitted(self)

    def _costs(self, costs: Any, X: Any, loss: Any) -> Any:
        """Costs per example as an array."""
        if costs is None or isinstance(costs, np.ndarray):
            return costs
        loss = self._loss_for(loss)
        names = self.labels_.classes, self.labels_.outputs(loss)
        if loss.label_names() is None and self.order is None:
            warn_of_alphabet(costs, *names)
        return example_costs(X, costs, *names)

    def _decide_for(
        self, X: Any, loss: Any, costs: Any, class_prior: Any, train_prior: Any
    ) -> tuple[Loss, np.ndarray, np.ndarray]:
        """`_decide` where the shares of the labels are others than those of the fit."""
        if class_prior is None:
            if train_prior is not None:
                raise ValueError("train_prior says what the fit saw: give class_prior=..., the shares in use, too.")
            return self._decide(X, loss, costs)
        loss, mu = self._loss_and_moments(loss, X)
        if loss.kind != "classes":
            raise ValueError(f"class_prior is for one label per example, and {loss!r} is on label sets.")
        trained = getattr(self, "class_prior_", None) if train_prior is None else train_prior
        if trained is None:
            raise ValueError(
                f"{type(self).__name__} has seen no labels at its fit: pass train_prior=..., the shares of the labels that the model was fitted to."
            )
        mu = loss.moments(reweigh(loss.probabilities(mu), class_prior, trained, self.labels_.classes))
        return loss, loss.decode(mu, costs), mu

    def _decide(self, X: Any, loss: Any, costs: Any) -> tuple[Loss, np.ndarray, np.ndarray]:
        """A loss, fitted or another, the outputs decided for it, and its moments."""
        loss, mu = self._loss_and_moments(loss, X)
        return loss, loss.decode(mu, costs), mu

    def _loss_and_moments(self, loss: Any, X: Any) -> tuple[Loss, np.ndarray]:
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
                f"loss={loss!r} needs labels of another kind ({loss.kind}) than this estimator was fitted on ({self.loss_.kind})."
            )
        return loss.bind_names(self.labels_.classes).bind(self.labels_.size).embedded_like(self.loss_)

    @property
    def classes_(self) -> np.ndarray:
        """The labels, in the order of the loss's columns."""
        self._check_fitted()
        return self.labels_.classes

    @property
    def outputs_(self) -> np.ndarray:
        """What may be predicted, in the order of the loss's rows."""
        self._check_fitted()
        return self.labels_.outputs(self.loss_)


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


def read_features(estimator: Any, X: Any, dtypes: Any, reset: bool = False) -> Any:
    """X as scikit-learn checks it; what NumPy says of values that are no numbers is said of X."""
    with said_of("X", "hold numbers, one row for each example"):
        return validate_data(estimator, X, accept_sparse="csr", dtype=dtypes, reset=reset)


def _twin(estimator: Any) -> Any:
    """Another estimator with the same attributes: copy.copy would ask for all that is stored with a model."""
    twin = object.__new__(type(estimator))
    twin.__dict__.update(estimator.__dict__)
    return twin


def check_features(estimator: Any, X: Any, hypothesis: Hypothesis) -> tuple[Any, dict[str, Any]]:
    """X as the hypothesis reads it at a fit, and what the estimator is to know of its features once it is fitted."""
    fresh = _twin(estimator)  # a fit that fails must not change what an earlier one learned
    X = hypothesis.read(X, fresh, True)
    return X, {name: getattr(fresh, name, None) for name in OF_FEATURES}


def keep_found(estimator: Any, found: dict[str, Any]) -> None:
    """Set what a fit found, and forget names and numbers of features that no longer hold."""
    for name, value in found.items():
        if value is not None or name not in OF_FEATURES:
            setattr(estimator, name, value)
        elif hasattr(estimator, name):
            delattr(estimator, name)


def read_more(estimator: Any, X: Any, hypothesis: Hypothesis, found: dict[str, Any]) -> Any:
    """Other rows with the features that `check_features` found, before the estimator knows them."""
    fresh = _twin(estimator)
    keep_found(fresh, found)
    return hypothesis.read(X, fresh, False)
