"""Model selection on the task loss."""

from __future__ import annotations

from typing import Any

import numpy as np

from .labels import labels_for
from .losses.base import Loss


class TaskScorer:
    """scorer(estimator, X, y) = minus the mean task loss of estimator.predict(X), for any scikit-learn classifier; higher is better."""

    def __init__(self, loss: Loss):
        self.loss = loss

    def __call__(self, estimator: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
        order = getattr(estimator, "classes_", None) if self.loss.kind == "classes" else None
        return -mean_loss(self.loss, estimator.predict(X), y, sample_weight, order)

    def __repr__(self) -> str:
        return f"{self.loss!r}.scorer()"


def mean_loss(loss: Loss, z: Any, y: Any, sample_weight: Any = None, order: Any = None) -> float:
    """The mean task loss of users' predictions z against users' labels y."""
    named = loss.label_names() if hasattr(loss, "label_names") else None
    labels = labels_for(loss, y, named if named is not None else order)
    bound = loss.bind_names(labels.classes).bind(labels.size)
    losses = bound(labels.encode_outputs(z, bound), labels.encode(y))
    return float(np.average(losses, weights=sample_weight))
