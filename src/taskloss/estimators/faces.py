"""Named faces of the general estimator, for the tasks people know."""

from __future__ import annotations

from typing import Any

from ..data.base import Translator
from ..data.features import column_places
from ..data.labels import labels_for, listed_by
from ..hypotheses.base import Hypothesis
from ..hypotheses.linear import Linear
from ..hypotheses.partial import PartialThresholds
from ..hypotheses.thresholds import Thresholds
from ..losses.base import Loss
from ..surrogates.base import Surrogate
from .base import as_loss, keep
from .general import TaskLossEstimator


class CostSensitiveClassifier(TaskLossEstimator):
    """Classification judged by a cost matrix: costs[z, y] is the cost of output z where the label is y.

    Parameters
    ----------
    costs : array, data frame or Loss, optional
        A matrix; a data frame with labels as columns and outputs as rows; or any loss on labels such as `Abstain(cost=0.2)` or
        `TreeDistance(tree)`. None is 0-1 loss.
    surrogate, hypothesis, alpha, solver, tol, max_iter, class_weight, warm_start, verbose : as in `TaskLossEstimator`

    Examples
    --------
    >>> import taskloss as tl
    >>> X, y = [[0.0], [1.0], [2.0], [3.0]], ["ham", "ham", "spam", "spam"]
    >>> costs = tl.losses.CostMatrix([[0, 1], [9, 0]], labels=["ham", "spam"], outputs=["ham", "spam"])
    >>> tl.CostSensitiveClassifier(costs).fit(X, y).predict([[0.0], [9.0]]).tolist()
    ['ham', 'spam']
    """

    def __init__(
        self,
        costs: Any = None,
        surrogate: Any = "auto",
        hypothesis: Any = "linear",
        *,
        alpha: Any = None,
        solver: Any = "auto",
        tol: float = 1e-8,
        max_iter: int = 1000,
        class_weight: Any = None,
        warm_start: bool = False,
        verbose: bool = False,
    ):
        keep(self, locals())

    def _make_loss(self) -> Loss:
        return as_loss(self.costs)


class OrdinalClassifier(TaskLossEstimator):
    """Ordered labels, judged by how far off a prediction is: absolute error by default.

    Labels are ordered as numbers or strings sort, as an ordered category says, or as `order` lists them.

    Parameters
    ----------
    loss : Loss, str or array, default "absolute"
        The loss on the grades: "absolute", "squared", "zero-one", a matrix of costs, or any other on labels.
    surrogate : Surrogate or str, default "all-thresholds"
        "all-thresholds" or "cumulative-link", or any that fits the loss.
    shared : bool, default True
        All thresholds share one weight vector (proportional odds); without, each has its own.
    nominal : list of str or int, optional
        Columns, by name or place, that have a weight for each threshold while the others share theirs (partial proportional odds).
    order : list, optional
        The labels, lowest first.
    hypothesis, alpha, solver, tol, max_iter, class_weight, warm_start, verbose : as in `TaskLossEstimator`

    Notes
    -----
    With all thresholds a score stands for P(Y > j) and is coef_ @ x + intercept_; with cumulative link it stands for P(Y <= j) and is intercept_ - coef_ @ x. So a
    positive weight means a higher label in both.

    Examples
    --------
    >>> import taskloss as tl
    >>> X, y = [[0.0], [1.0], [2.0], [3.0], [4.0], [5.0]], ["low", "low", "mid", "mid", "top", "top"]
    >>> model = tl.OrdinalClassifier(order=["low", "mid", "top"]).fit(X, y)
    >>> model.predict([[-9.0], [9.0]]).tolist()
    ['low', 'top']
    """

    def __init__(
        self,
        loss: Any = "absolute",
        surrogate: Any = "all-thresholds",
        hypothesis: Any = "linear",
        *,
        shared: bool = True,
        nominal: Any = None,
        order: Any = None,
        alpha: Any = None,
        solver: Any = "auto",
        tol: float = 1e-8,
        max_iter: int = 1000,
        class_weight: Any = None,
        warm_start: bool = False,
        verbose: bool = False,
    ):
        keep(self, locals())

    def _make_hypothesis(self, loss: Loss, surrogate: Surrogate, features: dict[str, Any]) -> Hypothesis:
        hypothesis = super()._make_hypothesis(loss, surrogate, features)
        # Only thresholds, one fewer than the labels, have a direction in common; the scores of a multinomial model do
        # not.
        scores = loss.polytope.size if surrogate.size is None else surrogate.size
        thresholds = scores == len(loss.labels()) - 1
        if self.nominal is not None:
            if not (self.shared and thresholds and type(hypothesis) is Linear):
                raise ValueError(
                    "nominal names columns whose weight differs by threshold, beside those with one for all: it needs shared=True, "
                    "hypothesis='linear' and a surrogate with thresholds, 'cumulative-link' or 'all-thresholds'."
                )
            places = column_places(
                "nominal", self.nominal, features.get("feature_names_in_"), features["n_features_in_"]
            )
            return PartialThresholds(places, hypothesis.fit_intercept, device=hypothesis.device)
        return Thresholds(hypothesis) if self.shared and thresholds and not hypothesis.shares_weights else hypothesis

    def _order(self) -> Any:
        return self.order

    def _make_labels(self, loss: Loss, y: Any, name: str = "y") -> Translator:
        labels = labels_for(loss, y, self.order, ordinal=True, name=name)
        labels.check(listed_by(loss, self.order, name))
        return labels

    def _variants(self, loss: Loss) -> list[Loss]:
        return loss.variants(
            thresholds=True
        )  # every loss here is on ordered labels: the cube of thresholds is a home for it

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = (
            True  # one direction for all thresholds cannot tell apart classes that are not in order
        )
        return tags


class MultilabelClassifier(TaskLossEstimator):
    """A set of labels per example, judged by Hamming loss by default; all labels are fitted in one pass over the
    data.

    y is an indicator matrix, or a sequence of sets of labels, and predictions come in the same form.

    Parameters
    ----------
    loss : Loss or str, default "hamming"
        A loss on label sets: "hamming", `LabelCosts(costs)`, `FBeta()`.
    surrogate, hypothesis, alpha, solver, tol, max_iter, warm_start, verbose : as in `TaskLossEstimator`

    Examples
    --------
    >>> import taskloss as tl
    >>> X, y = [[0.0], [1.0], [8.0], [9.0]] * 5, [set(), set(), {"jazz"}, {"jazz"}] * 5
    >>> tl.MultilabelClassifier().fit(X, y).predict([[0.0], [9.0]])
    [set(), {'jazz'}]
    """

    def __init__(
        self,
        loss: Any = "hamming",
        surrogate: Any = "auto",
        hypothesis: Any = "linear",
        *,
        alpha: Any = None,
        solver: Any = "auto",
        tol: float = 1e-8,
        max_iter: int = 1000,
        warm_start: bool = False,
        verbose: bool = False,
    ):
        keep(self, locals())

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.multi_label = True
        tags.target_tags.single_output = False
        tags.target_tags.multi_output = True
        tags.target_tags.two_d_labels = True
        return tags
