"""Model selection on the task loss."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.metadata_routing import UNUSED

from .data.base import Translator
from .data.costs import example_costs, warn_of_alphabet
from .data.labels import Classes, LabelSets, labels_for, ordered_categories
from .data.weights import example_weights
from .losses.base import Loss
from .wrapped import innermost


class TaskScorer(BaseEstimator):
    """scorer(estimator, X, y) = minus the mean task loss of estimator.predict(X), for any scikit-learn classifier.

    With costs per example, given here as a function of X or a formula on its columns, or passed on by a search, estimators
    of this library decide for this loss with these costs, wherever they sit; those of others are judged by what they predict.
    """

    __metadata_request__score: ClassVar[dict[str, Any]] = {"costs": True, "estimator": UNUSED}

    def __init__(self, loss: Loss, costs: Any = None):
        self.loss = loss
        self.costs = costs

    def score(self, estimator: Any, X: Any, y: Any, sample_weight: Any = None, costs: Any = None) -> float:
        """Minus the mean task loss."""
        from .decisions import decide, holds_own

        labels, costs = _labels_of(estimator, y), self.costs if costs is None else costs
        if costs is None:
            losses = losses_of(self.loss, estimator.predict(X), y, labels)
        else:
            labels, loss = _bound(self.loss, y, labels)
            names = labels.classes, labels.outputs(loss)
            if loss.label_names() is None:
                warn_of_alphabet(costs, *names)
            costs = example_costs(X, costs, *names)
            z = decide(estimator, loss, costs, X=X) if holds_own(estimator) else estimator.predict(X)
            losses = labels.losses(loss, labels.encode_outputs(z, loss), y, costs)
        return -float(np.average(losses, weights=example_weights(sample_weight, len(losses))))

    __call__ = score

    def __repr__(self) -> str:
        return f"{self.loss!r}.scorer({'' if self.costs is None else repr(self.costs)})"


def losses_of(loss: Loss, z: Any, y: Any, order: Any = None) -> np.ndarray:
    """The task loss of users' predictions z against users' labels y, example by example.

    order lists the labels in the order of the loss's columns, where the loss itself does not name them, or is a fitted
    estimator's own translator of them.
    """
    labels, bound = _bound(loss, y, order)
    return labels.losses(bound, labels.encode_outputs(z, bound), y)


def _bound(loss: Loss, y: Any, order: Any) -> tuple[Translator, Loss]:
    """The translator of the labels, and the loss brought to them."""
    if isinstance(order, LabelSets if loss.kind == "indicator" else Classes):
        labels: Translator = order
    else:
        named = loss.label_names()
        labels = labels_for(loss, y, named if named is not None else order)
    return labels, loss.bind_names(labels.classes).bind(labels.size)


def _labels_of(estimator: Any, y: Any) -> Any:
    """The labels as an estimator has learned them, which the y of a fold may lack: its translator, or their order."""
    labels = getattr(innermost(estimator)[0], "labels_", None)
    if isinstance(labels, Classes | LabelSets):
        return labels
    order = ordered_categories(y)
    return getattr(estimator, "classes_", None) if order is None else order
