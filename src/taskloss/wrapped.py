"""Fitted estimators inside pipelines, searches and FrozenEstimators."""

from __future__ import annotations

from typing import Any

from sklearn.frozen import FrozenEstimator


def innermost(model: Any) -> tuple[Any, list[Any]]:
    """The estimator that decides for a fitted model, and the steps that X goes through before it.

    It is the best of a search, the last step of a pipeline, what a FrozenEstimator holds, a tagger that is recalibrated, or the model itself.
    """
    before: list[Any] = []
    while True:
        if hasattr(model, "best_estimator_"):
            model = model.best_estimator_
        elif hasattr(model, "steps"):
            before += [model[:-1]] if len(model.steps) > 1 else []
            model = model.steps[-1][1]
        elif isinstance(model, FrozenEstimator):
            model = model.estimator
        elif hasattr(model, "_recalibrated_tagger"):
            return model._recalibrated_tagger, before + innermost(model.estimator_)[1]
        else:
            return model, before
