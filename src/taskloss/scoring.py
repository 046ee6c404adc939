"""Model selection on the task loss."""

from __future__ import annotations

from typing import Any

import numpy as np

from .data.base import Translator
from .data.labels import Classes, LabelSets, labels_for, ordered_categories
from .data.weights import example_weights
from .losses.base import Loss


class TaskScorer:
    """scorer(estimator, X, y) = minus the mean task loss of estimator.predict(X), for any scikit-learn classifier."""

    def __init__(self, loss: Loss):
        self.loss = loss

    def __call__(self, estimator: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
        losses = losses_of(self.loss, estimator.predict(X), y, _labels_of(estimator, y))
        return -float(np.average(losses, weights=example_weights(sample_weight, len(losses))))

    def __repr__(self) -> str:
        return f"{self.loss!r}.scorer()"


def losses_of(loss: Loss, z: Any, y: Any, order: Any = None) -> np.ndarray:
    """The task loss of users' predictions z against users' labels y, example by example.

    order lists the labels in the order of the loss's columns, where the loss itself does not name them, or is a fitted
    estimator's own translator of them.
    """
    if isinstance(order, LabelSets if loss.kind == "indicator" else Classes):
        labels: Translator = order
    else:
        named = loss.label_names()
        labels = labels_for(loss, y, named if named is not None else order)
    bound = loss.bind_names(labels.classes).bind(labels.size)
    return labels.losses(bound, labels.encode_outputs(z, bound), y)


def _labels_of(estimator: Any, y: Any) -> Any:
    """The labels as an estimator has learned them, which the y of a fold may lack: its translator, or their order."""
    fitted = getattr(estimator, "best_estimator_", estimator)
    fitted = fitted[-1] if hasattr(fitted, "steps") else fitted  # a pipeline's last
    labels = getattr(fitted, "labels_", None)
    if isinstance(labels, Classes | LabelSets):
        return labels
    order = ordered_categories(y)
    return getattr(estimator, "classes_", None) if order is None else order
