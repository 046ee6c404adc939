"""A fitted model with one threshold, set so that its loss stays below a level."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from .._checks import check_number, count_examples, real_array
from ..data.sequences import Packed
from ..decisions import find
from ..estimators.tuned import TunedDecisionCV
from ..model_files import Portable
from .kinds import knob_for
from .knobs import Knob
from .search import BOUNDS, Promise, grid, is_monotone, least_examples, search, span
from .steps import Steps

_SOME = 0.05  # share of what can be answered, below which a mean loss says little
KNOBS = ("auto", "abstain", "parts", "set")


class Control(NamedTuple):
    """How much is answered, and at which mean loss, on some examples."""

    risk: float
    amount: float
    n: int


class RiskController(Portable, MetaEstimatorMixin, BaseEstimator):
    """A fitted model that answers as much as it can while its loss stays at most at a level.

    One threshold on the expected loss of decisions is set on examples that the model was not fitted to. The model is not fitted again. The
    promise holds whatever the law of the data is and however wrong the model's probabilities are, as long as the examples to come are
    drawn as those of the calibration.

    Parameters
    ----------
    estimator : a fitted estimator of this library, or any fitted classifier with `predict_proba`; bare, in a pipeline, a search or a
        FrozenEstimator.
    loss : a loss, its name or a matrix of costs; None is the loss that the estimator was fitted for, elsewhere 0-1.
    target_level : the largest mean loss that is allowed, in the loss's own unit.
    confidence_level : the probability, over calibration examples, with which the mean loss of what is to come is at most the level; None promises
        the level in expectation, over these, too.
    knob : what the threshold does. "abstain": whole examples are left without an answer where they are expected to cost more; "parts": parts of answers
        are, such as labels of a set, positions and spans of a sequence, rows of a matching, items of a ranking; "set": answers are made larger, until they are
        expected to cost less: sets of outputs, intervals of grades, more labels, longer lists. "auto": the one that the kind of output and of loss
        suggests, see Notes.
    over : where not all is answered, what the mean loss is taken over: "answers", the loss of what is answered per what is answered;
        "examples", where what is not answered counts as no loss.
    bound : the test of a promise with confidence. "auto": the exact binomial test where losses have two values, else "wsr", betting (Waudby-Smith and
        Ramdas); "hoeffding-bentkus".
    predict_params : the thresholds to choose from; None for 1,000, or for conformal risk control all that make a difference.
    bounds : (least, largest) loss, for losses of yours that do not know it.

    Attributes
    ----------
    best_predict_param_ : the threshold that is used.
    predict_params_, risks_, amounts_ : all thresholds from the safest on, with the mean loss on the calibration examples and the mean amount that is
        answered: a share, or for "set" a size.
    valid_predict_params_, p_values_ : the thresholds that keep the promise, and p-values of the hypothesis that they do not, an upper bound where a test was
        stopped early; 1 where it was not made, None where no test is needed.
    risk_, amount_, n_calibration_ : the mean loss and amount at the threshold in use, and the number of examples.
    knob_ : the knob in use.

    Notes
    -----
    A promise in expectation is conformal risk control where the loss can only grow as less is safe ("set", and over="examples"): the mean of n losses and of a worst one
    is at most the level. The loss per answer can go up and down with the threshold; it is kept by a test at nine tenths of the level, whose error is
    so small that the expectation is at most the level. A promise with confidence is "learn then test": the thresholds are tested in a fixed sequence, from the safest on.

    "auto" is "set" for ordered labels (losses that grow with the distance: intervals), for label sets whose loss never grows with more labels (`Recall`)
    and for NDCG (shortlists); "parts" for sums over labels, positions, spans, rows and items (`Hamming`, `ChainHamming`, `SpanCosts`, `MatchingHamming`,
    `PrecisionAt`); "abstain" elsewhere.

    Weights are those of a promise for the weighted mean, of examples that weigh at most as much as the heaviest here. A label that the fit has not seen counts by
    the largest loss.

    References
    ----------
    Angelopoulos, Bates, Fisch, Lei and Schuster, Conformal risk control, 2024. Angelopoulos, Bates, Candès, Jordan and Lei, Learn then test, 2025.
    Waudby-Smith and Ramdas, Estimating means of bounded random variables by betting, 2024. The words are MAPIE's.

    Examples
    --------
    >>> import numpy as np
    >>> import taskloss as tl
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(3000, 2))
    >>> y = np.where(X[:, 0] + 0.5 * rng.normal(size=3000) > 0, "spam", "ham")
    >>> model = tl.CostSensitiveClassifier().fit(X[:1000], y[:1000])
    >>> safe = tl.RiskController(model, target_level=0.1, confidence_level=0.9).calibrate(X[1000:2000], y[1000:2000])
    >>> safe.predict(X[2000:2003]).tolist()
    ['spam', None, 'spam']
    >>> risk, answered, n = safe.evaluate(X[2000:], y[2000:])
    >>> bool(risk < 0.11 and answered > 0.7)
    True
    """

    def __init__(
        self,
        estimator: Any = None,
        loss: Any = None,
        target_level: float = 0.1,
        confidence_level: float | None = None,
        *,
        knob: str = "auto",
        over: str = "answers",
        bound: str = "auto",
        predict_params: Any = None,
        bounds: Any = None,
    ):
        self.estimator = estimator
        self.loss = loss
        self.target_level = target_level
        self.confidence_level = confidence_level
        self.knob = knob
        self.over = over
        self.bound = bound
        self.predict_params = predict_params
        self.bounds = bounds

    def calibrate(self, X: Any, y: Any, sample_weight: Any = None, **params: Any) -> Self:
        """Set the threshold on examples that the estimator was not fitted to.

        params : what else the estimator's own `predict` takes, such as groups or parents.
        """
        promise = self._promise()
        knob, steps = self._steps(X, y, sample_weight, params)
        self._check_level(knob, steps, promise)
        thresholds = self._thresholds(knob, steps, promise)
        choice = search(steps, promise, thresholds)
        if choice is None:
            raise ValueError(self._impossible(knob, steps, promise, thresholds))
        # Nothing can fail from here on: a calibration that fails leaves the earlier one.
        self.predict_params_, self.risks_, self.amounts_ = choice.thresholds, choice.risks, choice.amounts
        self.p_values_, self.valid_predict_params_ = choice.p_values, choice.thresholds[choice.valid]
        self.best_predict_param_ = float(choice.thresholds[choice.best])
        self.risk_, self.amount_ = float(choice.risks[choice.best]), float(choice.amounts[choice.best])
        self.n_calibration_, self.knob_ = len(steps), knob
        return self

    def predict(self, X: Any, **params: Any) -> Any:
        """What is answered, in the users' labels.

        Returns
        -------
        For "abstain" the outputs in an array of objects, None where there is no answer; for "parts" the outputs with None for the parts that are left
        out (for label sets that are sets: pairs of the labels that are present and of those that are open; spans that are left out are O); for "set" a list of sets, an
        array of the lowest and highest grades, label sets, or ranks with None for the items that are not shown.
        """
        self._check_calibrated()
        inputs = self._face(X)[1]
        return self.knob_.at_threshold(self.knob_.read(inputs, params), self.best_predict_param_)

    def evaluate(self, X: Any, y: Any, sample_weight: Any = None, **params: Any) -> Control:
        """(mean loss, mean amount answered, number of examples) on other examples, at the threshold in use."""
        self._check_calibrated()
        inputs = self._face(X)[1]
        steps = self.knob_.steps(self.knob_.read(inputs, params), y, sample_weight)
        cost, amount = (float(steps.weights @ v) for v in steps.at_threshold(self.best_predict_param_))
        over = amount if steps.partial and self.over == "answers" else steps.weights.sum()
        return Control(cost / over if over > 0 else 0.0, float(steps.mean_amount(amount)), len(steps))

    def plot(self, ax: Any = None) -> Any:
        """Mean loss and amount answered by threshold, as a `taskloss.plots.RiskControlDisplay`."""
        from ..plots.control import RiskControlDisplay

        return RiskControlDisplay.from_estimator(self, ax=ax)

    def summary(self) -> str:
        """What is promised and how much is answered, in words."""
        self._check_calibrated()
        sure = (
            "in expectation"
            if self.confidence_level is None
            else f"with a confidence of {self.confidence_level:g} in the calibration"
        )
        what = "per answer" if self.knob_.partial and self.over == "answers" else "per example"
        amount = f"{self.amount_:.1%}" if self.knob_.partial else f"{self.amount_:.2f} on average"
        return (
            f"{self.knob_.loss!r} {what}: at most {self.target_level:g} {sure}.\n"
            f"On {self.n_calibration_} calibration examples: {self.risk_:.4g} at the threshold {self.best_predict_param_:.4g}; "
            f"{self.knob_.word}: {amount}."
        )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "best_predict_param_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags._skip_test = (
            True  # scikit-learn's checks call fit, and a promise is calibrated for a model that was fitted before
        )
        return tags

    def _check_calibrated(self) -> None:
        if not hasattr(self, "best_predict_param_"):
            raise NotFittedError(
                "This RiskController has no threshold yet: call calibrate(X, y) on held-out examples first."
            )

    # -- inside ------------------------------------------------------------------------------------------------------

    def _promise(self) -> Promise:
        check_number("target_level", self.target_level)
        if self.confidence_level is not None:
            check_number("confidence_level", self.confidence_level)
            if not 0 < self.confidence_level < 1:
                raise ValueError(f"confidence_level must be between 0 and 1, or None, got {self.confidence_level!r}.")
        for name, choices in (("knob", KNOBS), ("over", ("answers", "examples")), ("bound", BOUNDS)):
            value = getattr(self, name)
            if not isinstance(value, str) or value not in choices:
                raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}.")
        confidence = None if self.confidence_level is None else float(self.confidence_level)
        return Promise(float(self.target_level), confidence, self.over, self.bound)

    def _steps(self, X: Any, y: Any, sample_weight: Any, params: dict[str, Any]) -> tuple[Knob, Steps]:
        if self.estimator is None or not hasattr(self.estimator, "predict"):
            raise ValueError(f"estimator must be a fitted model, got {self.estimator!r}.")
        if y is None:
            raise ValueError("y must hold the labels of the calibration examples, got None.")
        if X is None or (len(X) if isinstance(X, Packed) else count_examples("X", X)) == 0:
            raise ValueError(
                "X holds no calibration examples: the threshold is set on examples that the model was not fitted to."
            )
        face, inputs, loss = self._face(X)
        if hasattr(face, "_check_fitted"):
            face._check_fitted()
        else:
            check_is_fitted(face)
        knob = knob_for(face, loss, self.knob, self._bounds())
        steps = knob.steps(knob.read(inputs, params), y, sample_weight)
        if self.bounds is not None and not ((steps.dcost >= knob.low) & (steps.dcost <= knob.high)).all():
            raise ValueError(
                f"bounds={self.bounds!r} do not hold: losses go from {steps.dcost.min():g} to {steps.dcost.max():g}."
            )
        return knob, steps

    def _face(self, X: Any) -> tuple[Any, Any, Any]:
        """The estimator that decides, its inputs, and the loss."""
        face, inputs = find(self.estimator, X, self.loss)
        if isinstance(face, TunedDecisionCV) and face.__sklearn_is_fitted__() and face._task.tags:
            return *find(face.estimator_, inputs), face.loss_ if self.loss is None else self.loss
        return face, inputs, self.loss

    def _bounds(self) -> tuple[float, float] | None:
        if self.bounds is None:
            return None
        pair = real_array("bounds", self.bounds, "two numbers")
        if pair.shape != (2,) or not np.isfinite(pair).all() or not pair[0] < pair[1]:
            raise ValueError(f"bounds must be the least and the largest loss, got {self.bounds!r}.")
        return float(pair[0]), float(pair[1])

    def _thresholds(self, knob: Knob, steps: Steps, promise: Promise) -> np.ndarray:
        if self.predict_params is not None:
            given = real_array("predict_params", self.predict_params)
            if given.ndim != 1 or not len(given) or not np.isfinite(given).all():
                raise ValueError(f"predict_params must be a list of finite numbers, got {self.predict_params!r}.")
            return given
        if promise.confidence is None and is_monotone(steps, promise):
            return steps.jumps()
        least = min(knob.low, 0.0)
        return least + grid(knob.top - least)

    def _check_level(self, knob: Knob, steps: Steps, promise: Promise) -> None:
        low, high = span(steps, promise)
        if not low < high:
            raise ValueError(f"{knob.loss!r} is {low:g} whatever is predicted: there is nothing to control.")
        if not promise.level > low:
            raise ValueError(
                f"target_level must be above {low:g}, the least that {knob.loss!r} can be, got {self.target_level!r}."
            )
        if promise.level >= high:
            raise ValueError(
                f"target_level must be below {high:g}, the most that {knob.loss!r} can be, got {self.target_level!r}."
            )

    def _impossible(self, knob: Knob, steps: Steps, promise: Promise, thresholds: np.ndarray) -> str:
        needed = least_examples(steps, promise)
        asked = f"target_level={self.target_level:g}" + (
            "" if promise.confidence is None else f" with confidence_level={promise.confidence:g}"
        )
        if len(steps) < needed:
            return f"{asked} cannot be promised from {len(steps)} calibration examples: even without any loss it takes {needed}."
        first = steps.ordered(thresholds)[0]
        if not steps.partial:
            cost = float(np.average(steps.at_threshold(first)[0], weights=steps.weights))
            return f"{asked} cannot be promised: the largest answers lose {cost:.4g} on the calibration examples; raise target_level, or give more of these."
        ordered = steps.ordered(thresholds)
        costs, amounts = steps.sums(steps.places(ordered), len(ordered))
        shares, some = steps.mean_amount(amounts), steps.mean_amount(amounts) >= _SOME
        if not some.any():
            return f"{asked} cannot be promised at any threshold: next to nothing is answered; raise target_level."
        means = costs[some] / amounts[some]
        if means.min() > promise.level:
            return f"{asked} cannot be promised at any threshold: answers to {_SOME:.0%} or more of what is asked lose {means.min():.4g} each at least on the calibration examples; raise target_level."
        most = shares[some][means <= promise.level].max()
        return (
            f"{asked} cannot be promised at any threshold: with answers to {most:.0%} of what is asked the {len(steps)} calibration examples have that loss, but "
            "too few of them to be sure of it; raise target_level, or give more of these."
        )
