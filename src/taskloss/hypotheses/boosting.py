"""Scores that are sums of boosted trees."""

from __future__ import annotations

import numbers
from typing import Any, Self

import numpy as np

from ..solvers.base import Interrupted, Solution, Status
from .base import Array, Hypothesis, Inputs
from .boosters import Library, check_parameters, thread_count
from .mixed import MixedRows, read_mixed
from .trained import SelfTrained, Start, Trained

_CURVATURES = ("auto", "diagonal", "bound", "library")
_IDLE = 10  # rounds without a split in a row after which there will be none


class Ensemble(Trained):
    """The parameters of `Boosting`: where it starts from, and models whose trees add up, each in its library's own text format.

    curve: the held-out task loss before each round, and after the last.
    """

    def __init__(self, library: str, start: np.ndarray, begun: Start | None, n_features: int, categorical: list[int]):
        self.library, self.start, self.begun = library, start, begun
        self.n_features, self.categorical = n_features, categorical
        self.texts: list[str] = []
        self.rounds = 0
        self.curve = np.zeros(0)

    def grown(self, text: str, rounds: int, curve: list[float]) -> Ensemble:
        """The same with a model's rounds added; the last of the curve so far is the first of what follows."""
        other = Ensemble(self.library, self.start, self.begun, self.n_features, self.categorical)
        other.texts = [*self.texts, text] if rounds else self.texts
        other.rounds = self.rounds + rounds
        other.curve = np.concatenate([self.curve[: self.rounds], curve])
        return other

    def models(self, threads: int | None = None) -> list[Any]:
        known: dict[int | None, list[Any]] = self.__dict__.setdefault("_models", {})
        if threads not in known:
            known[threads] = [Library.resolve(self.library).load(text, threads) for text in self.texts]
        return known[threads]

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_models"}

    def scores(self, inputs: Inputs, threads: int | None = None) -> np.ndarray:
        """The start and the trees at some rows."""
        v, values = self.before(inputs), _values(inputs)
        for model in self.models(threads):
            v = v + Library.resolve(self.library).predict(model, values, self.categorical, threads)
        return v

    @property
    def importances(self) -> np.ndarray:
        """The share of each feature in the total gain of all splits."""
        library = Library.resolve(self.library)
        gains = np.zeros(self.n_features)
        for model in self.models():
            gains = gains + library.importances(model, self.n_features)
        return gains / (gains.sum() or 1.0)


class Boosting(SelfTrained):
    """g(x) = g0(x) + a sum of trees for each score, grown by LightGBM or XGBoost, one Newton step on the risk a round.

    g0 are the best constant scores, or those of another hypothesis, `start`.

    It needs only the risk's gradient and curvature in score space, once a round, and so serves every task and every
    surrogate that has second derivatives. With ordered labels, `Thresholds(Boosting())` is one ensemble for all
    thresholds, which are fitted exactly each round (proportional odds); with sequences, `Structured(Boosting())` is an
    ensemble for each label and a table of transitions, fitted each round. The estimators' penalty alpha acts on that table
    of transitions and on the start's weights; leaves have the library's own penalties. alpha="auto" chooses the start's.
    Weights of examples are scaled to mean one.

    Parameters
    ----------
    library : "lightgbm" or "xgboost"; `pip install 'taskloss[boosting]'` brings both.
    n_estimators : the number of rounds, each with one tree for each score; none leave the start alone. With the estimator's `warm_start`, a fit adds
        rounds up to this number to those of the last fit.
    learning_rate : what each tree is multiplied with.
    start : None, or another hypothesis or its name: it is fitted first, to the same risk with the estimator's alpha as its
        penalty, and the trees go on from its scores. What is held out for early stopping it does not see. With thresholds or
        transitions the table is fitted with the start, and goes on from there as well. The start reads the same X: one that
        takes no missing values or categories refuses them.
    early_stopping : stop after so many rounds in which the held-out task loss did not improve, and keep the rounds up to its
        best; None takes all rounds. What is held out is `validation` of the estimator's fit or else a share of its examples.
    validation_fraction : that share; whole groups, sequences or matchings are held out, and classes in proportion.
    curvature : second derivatives of the scores. "diagonal" is exact for each score by itself. "bound" is twice that
        where scores are coupled, as in a softmax, whose full second derivative it bounds (Gershgorin). "library" is the
        diagonal times what the library's own softmax has, k / (k - 1) in LightGBM and 2 in XGBoost, which makes fits
        equal to its own. "auto" is "library" where a row has several scores, and "diagonal" elsewhere.
    fit_intercept : without a start, begin with the best constant scores; else with zero.
    random_state : seeds the draw of what is held out, and the library.
    **params : the library's own parameters, under its own names: num_leaves, max_depth, min_child_samples, reg_lambda,
        subsample, colsample_bytree, monotone_constraints, categorical_feature, n_jobs, device, ... A name that the library
        would pass over is refused.

    Notes
    -----
    Missing values and categories are the library's matter: NaN is an input like any other, and columns of pandas
    categories (polars Categorical or Enum) are split as such; a category that the fit has not seen is missing. To XGBoost
    the entries that a sparse matrix leaves out are missing, and to LightGBM they are zero. monotone_constraints speak of
    scores, which rise with the label in all-thresholds and fall with it in a cumulative link.

    Examples
    --------
    >>> import taskloss as tl
    >>> trees = tl.hypotheses.Boosting(n_estimators=50, num_leaves=15, early_stopping=10)
    >>> model = tl.OrdinalClassifier(hypothesis=trees)
    >>> model.get_params()["hypothesis__num_leaves"]
    15
    """

    name = "boosting"
    categories_: dict[int, list[Any]] = {}

    def __init__(
        self,
        library: str = "lightgbm",
        n_estimators: int = 100,
        learning_rate: float = 0.1,
        start: Any = None,
        early_stopping: int | None = None,
        validation_fraction: float = 0.1,
        curvature: str = "auto",
        fit_intercept: bool = True,
        random_state: int = 0,
        **params: Any,
    ):
        self.library = library
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.first = start
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.curvature = curvature
        self.fit_intercept = fit_intercept
        self.random_state = random_state
        self.params = params

    @classmethod
    def examples(cls) -> list[Self]:
        return [
            cls(n_estimators=5, min_child_samples=2),
            cls("xgboost", n_estimators=5),
            cls(n_estimators=5, min_child_samples=2, start="linear"),
        ]

    # -- inputs ------------------------------------------------------------------------------------------------------

    @property
    def allow_nan(self) -> bool:
        return self.begins is None or self.begins.allow_nan

    def read(self, X: Any, estimator: Any, fitting: bool) -> MixedRows:
        return read_mixed(X, estimator, fitting, self.categories_)

    def bind(self, inputs: Inputs, weights: np.ndarray | None = None) -> Self:
        self._check(inputs.shape[1])
        bound = self.with_params()
        bound.categories_ = inputs.categories if isinstance(inputs, MixedRows) else {}
        return bound

    def reads(self, inputs: Inputs) -> Inputs:
        return inputs

    def agrees(self, other: Hypothesis) -> bool:
        if not isinstance(other, Boosting) or self.begins != other.begins:
            return False
        return self.library == other.library and self.categories_ == other.categories_

    def _check(self, n_features: int) -> None:
        library = Library.resolve(self.library)
        check_parameters(self.params)
        if not (isinstance(self.n_estimators, numbers.Integral) and self.n_estimators >= 0):
            raise ValueError(f"n_estimators must be a whole number of rounds, at least 0, got {self.n_estimators!r}.")
        if not (isinstance(self.learning_rate, numbers.Real) and 0 < self.learning_rate < np.inf):
            raise ValueError(f"learning_rate must be a finite number above zero, got {self.learning_rate!r}.")
        self._check_stopping("rounds")
        self._check_start()
        if not (isinstance(self.curvature, str) and self.curvature in _CURVATURES):
            raise ValueError(f"curvature must be one of {', '.join(map(repr, _CURVATURES))}, got {self.curvature!r}.")
        if self.early_stopping is not None and "dart" in (self.params.get("boosting"), self.params.get("boosting_type"), self.params.get("booster")):  # fmt: skip
            raise ValueError(
                "'dart' changes trees after they were grown, so that the rounds up to the best cannot be kept: use early_stopping=None."
            )
        library.check_names(self.params, n_features, self._get_param_names())

    # -- training ----------------------------------------------------------------------------------------------------

    def _factor(self, risk: Any) -> float:
        """What the diagonal curvature is multiplied with."""
        coupled = risk.coupled and self.curvature != "diagonal"
        if not coupled or (self.curvature == "auto" and risk.n_scores == 1):
            return 1.0
        if self.curvature == "bound":
            return 2.0
        return Library.resolve(self.library).softmax_factor(risk.n_scores)

    def _check_risk(self, risk: Any) -> None:
        if not risk.smooth:
            raise ValueError(
                "Boosting takes Newton steps, and this surrogate has no second derivatives: use a smooth one, such as the margins "
                "'logistic', 'squared-hinge' or 'square'."
            )
        if risk.ordered and risk.n_scores > 1:
            raise ValueError(
                "This surrogate is finite for ordered scores only, and ensembles of their own for each threshold let scores cross: share "
                "one (shared=True), or use surrogate='all-thresholds'."
            )

    def _first(self, inputs: Inputs, risk: Any, options: Any) -> Ensemble:
        """The ensemble to add rounds to: the last fit's, or one without trees."""
        last = options.start
        if last is None or (last.n_features, len(last.start)) != (inputs.shape[1], risk.n_scores):
            start, begun = self.begin(inputs, risk, options)
            return Ensemble(self.library, start, begun, inputs.shape[1], sorted(self.categories_))
        if last.rounds > self.n_estimators:
            raise ValueError(
                f"n_estimators={self.n_estimators} is less than the {last.rounds} rounds that a warm start begins with: raise it, or use "
                "warm_start=False."
            )
        return last

    def train(self, inputs: Inputs, risk: Any, options: Any) -> Solution:
        self._check_risk(risk)
        values, monitor, threads = _values(inputs), options.monitor, thread_count(self.params)
        ensemble = self._first(inputs, risk, options)
        held = None if monitor is None else _values(monitor.inputs)
        held_start = None if monitor is None else ensemble.scores(monitor.inputs, threads)
        params = {"seed": self.random_state, **self.params, "learning_rate": self.learning_rate}
        library = Library.resolve(self.library)
        try:
            rounds = library.grow(params, values, ensemble.categorical, risk.n_scores, held)
        except ImportError:
            raise
        except Exception as error:  # the library's own, of whatever type
            given = ", ".join(f"{name}={value!r}" for name, value in self.params.items())
            said = str(error).partition("Stack trace")[0].strip().rstrip(".")
            raise ValueError(
                f"{self.library} cannot be trained on this X with {given or 'its defaults'}: {said}."
            ) from error
        start = ensemble.scores(inputs, threads)
        steps = risk.shifted(start).steps(self._factor(risk))
        step, todo, patience = steps(rounds.scores), self.n_estimators - ensemble.rounds, self.early_stopping
        curve: list[float] = []
        done = idle = best = 0
        status = Status.GROWN
        try:
            while True:
                if monitor is not None and len(curve) == done:
                    curve.append(float(monitor.loss(held_start + rounds.held_out)))
                    best = done if curve[done] < curve[best] else best
                if monitor is not None and patience is not None and done - best >= patience:
                    status = Status.STOPPED_EARLY
                    break
                if done == todo or idle == _IDLE:
                    break
                if options.progress is not None:
                    options.progress.count(done, todo, "rounds")
                if not rounds.step(step.gradient, step.curvature):  # the library keeps no round without a split
                    idle += 1
                    continue
                done, idle = done + 1, 0
                step = steps(rounds.scores)
        except KeyboardInterrupt:
            status = Status.INTERRUPTED
        kept = best if monitor is not None and patience is not None else done
        grown = ensemble.grown(rounds.text(kept) if kept else "", kept, curve)
        if kept < done:  # a table that is fitted beside the trees is to be that of the rounds kept
            step = steps(grown.scores(inputs, threads) - start)
        solution = Solution(grown, step.value, status, grown.rounds, done + 1, np.nan)
        if status is Status.INTERRUPTED:
            raise Interrupted(solution)
        if options.progress is not None:
            options.progress.close(status)
        return solution

    def predict(self, theta: Ensemble, inputs: Inputs) -> np.ndarray:
        return np.array(theta.scores(inputs, thread_count(self.params)))

    def expand(self, theta: Array) -> Array:
        raise AttributeError("Trees have no coefficients: see feature_importances_.")


def _values(inputs: Inputs) -> Any:
    return inputs.values if isinstance(inputs, MixedRows) else inputs
