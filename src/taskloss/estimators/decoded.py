"""Decoding for classifiers that others fitted."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from ..labels import labels_for
from .base import Decoder, as_loss


class DecodedClassifier(Decoder):
    """Any classifier with `predict_proba`, decoded for any loss on its labels: cost matrix, abstention, taxonomy,
    costs per example.

    Parameters
    ----------
    estimator : a scikit-learn classifier; None is logistic regression.
    loss : a loss, its name, or a cost matrix as `CostSensitiveClassifier` takes it.
    calibration : None, or how to calibrate the probabilities first: "sigmoid", "isotonic" or "temperature".
    cv : folds for the calibration.
    prefit : the estimator is fitted already: it is used as it is, and `fit` is needed only for calibration.
    """

    def __init__(
        self,
        estimator: Any = None,
        loss: Any = "zero-one",
        *,
        calibration: str | None = None,
        cv: Any = 5,
        prefit: bool = False,
    ):
        self.estimator = estimator
        self.loss = loss
        self.calibration = calibration
        self.cv = cv
        self.prefit = prefit

    def fit(self, X: Any, y: Any, sample_weight: Any = None, **fit_params: Any) -> Self:
        """Fit the estimator (a copy of it, unless prefit), and the calibration if asked."""
        loss = as_loss(self.loss)
        labels = labels_for(loss, y)
        labels.check()
        labels.encode(y)
        if sample_weight is not None:
            fit_params["sample_weight"] = sample_weight
        self.estimator_ = self._make_estimator()
        if self.calibration is not None or not self.prefit:
            self.estimator_.fit(X, y, **fit_params)
        self._settle()
        return self

    def _make_estimator(self) -> Any:
        from sklearn.linear_model import LogisticRegression

        if self.estimator is None and self.prefit:
            raise ValueError("prefit=True needs a fitted estimator.")
        base = LogisticRegression() if self.estimator is None else self.estimator
        if not hasattr(base, "predict_proba"):
            raise ValueError(
                f"{type(base).__name__} has no predict_proba: decoding needs probabilities; wrap it in CalibratedClassifierCV first."
            )
        if self.calibration is None:
            return base if self.prefit else clone(base)
        from sklearn.calibration import CalibratedClassifierCV
        from sklearn.frozen import FrozenEstimator

        return CalibratedClassifierCV(
            FrozenEstimator(base) if self.prefit else clone(base), method=self.calibration, cv=self.cv
        )

    def _settle(self) -> None:
        """Take labels from the fitted estimator, and fit the loss to them."""
        loss = as_loss(self.loss)
        known = np.asarray(self.estimator_.classes_)
        names = loss.label_names()
        self.labels_ = labels_for(loss, known, names if names is not None else known)
        self._columns = self.labels_.encode(known)
        self.loss_ = loss.bind_names(self.labels_.classes).bind(self.labels_.size)
        if hasattr(self.estimator_, "n_features_in_"):
            self.n_features_in_ = self.estimator_.n_features_in_
        if hasattr(self.estimator_, "feature_names_in_"):
            self.feature_names_in_ = self.estimator_.feature_names_in_

    def predict_moments(self, X: Any) -> np.ndarray:
        """The probabilities of the labels, in the order of the loss's columns."""
        check_is_fitted(self)
        if not hasattr(self, "estimator_"):
            self.estimator_ = self._make_estimator()
            self._settle()
        found = np.asarray(self.estimator_.predict_proba(X), dtype=float)
        mu = np.zeros((len(found), self.labels_.size))
        mu[:, self._columns] = found
        return mu

    predict_proba = predict_moments

    @property
    def outputs_(self) -> np.ndarray:
        """What may be predicted, in the order of the loss's rows."""
        check_is_fitted(self)
        return self.labels_.outputs(self.loss_)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "estimator_") or (self.prefit and self.calibration is None)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if self.estimator is not None and hasattr(self.estimator, "__sklearn_tags__"):
            tags.input_tags = self.estimator.__sklearn_tags__().input_tags
        else:
            tags.input_tags.sparse = True
        return tags
