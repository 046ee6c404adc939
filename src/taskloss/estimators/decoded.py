"""Decoding for classifiers that others fitted."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from .._arguments import check_hyperparameters
from .._checks import check_lengths, count_examples, said_of
from ..data.base import Translator
from ..data.labels import codes_of, labels_for, listed_by, ordered_categories
from ..data.weights import example_weights
from ..losses.base import Loss, name_array
from .base import OF_FEATURES, Decoder, as_loss, keep_found
from .lazily import lazily, refuse_collections


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
    order : the labels in their order, for losses on ordered labels; None is the order of the loss's own names, of y's
        ordered category, or of the estimator's `classes_`.
    """

    def __init__(
        self,
        estimator: Any = None,
        loss: Any = "zero-one",
        *,
        calibration: str | None = None,
        cv: Any = 5,
        prefit: bool = False,
        order: Any = None,
    ):
        self.estimator = estimator
        self.loss = loss
        self.calibration = calibration
        self.cv = cv
        self.prefit = prefit
        self.order = order

    def fit(self, X: Any, y: Any, sample_weight: Any = None, **fit_params: Any) -> Self:
        """Fit the estimator (a copy of it, unless prefit), and the calibration if asked."""
        refuse_collections(self, X, y)
        check_hyperparameters(self)
        loss = as_loss(self.loss)
        labels = labels_for(loss, y, self.order)
        labels.check(listed_by(loss, self.order))
        labels.encode(y)
        check_lengths(count_examples("X", X), y)
        if sample_weight is not None:
            fit_params["sample_weight"] = example_weights(sample_weight, count_examples("y", y))
        estimator = self._make_estimator()
        if self.calibration is not None or not self.prefit:
            with said_of("X and y", f"be what {type(estimator).__name__} takes"):
                estimator.fit(X, y, **fit_params)
        self._settle(estimator, ordered_categories(y))
        if not self.prefit:  # whose own labels nobody has shown
            codes = self.labels_.encode(y)
            weights = example_weights(sample_weight, len(codes))
            self.class_prior_ = np.bincount(codes, weights, self.labels_.size) / weights.sum()
        return self

    def _make_estimator(self) -> Any:
        from sklearn.linear_model import LogisticRegression

        if self.estimator is None and self.prefit:
            raise ValueError("prefit=True needs a fitted estimator.")
        base = LogisticRegression() if self.estimator is None else self.estimator
        if self.prefit and not hasattr(base, "classes_"):
            raise NotFittedError(
                f"prefit=True needs a fitted estimator, and this {type(base).__name__} is not: fit it first, or leave prefit=False."
            )
        if self.calibration is None:
            if not hasattr(base, "predict_proba"):
                raise ValueError(
                    f"estimator {type(base).__name__} has no predict_proba: decoding needs probabilities; pass calibration='sigmoid'."
                )
            return base if self.prefit else clone(base)
        from sklearn.calibration import CalibratedClassifierCV
        from sklearn.frozen import FrozenEstimator
        from sklearn.model_selection import check_cv

        with said_of("cv", "be a number of folds or a splitter of scikit-learn's"):
            check_cv(self.cv)
        return CalibratedClassifierCV(
            FrozenEstimator(base) if self.prefit else clone(base), method=self.calibration, cv=self.cv
        )

    def _settle(self, estimator: Any, categories: np.ndarray | None = None) -> None:
        """Take labels from the fitted estimator, their order from what knows it, and fit the loss to them."""
        bound, labels, columns = settled(as_loss(self.loss), name_array(estimator.classes_), self.order, categories)
        keep_found(self, {name: getattr(estimator, name, None) for name in OF_FEATURES})
        self._columns, self.loss_, self.labels_, self.estimator_ = columns, bound, labels, estimator

    @lazily
    def predict_proba(self, X: Any) -> np.ndarray:
        """The probabilities of the labels, in the order of the loss's columns."""
        self._check_fitted()
        with said_of("X", f"be what {type(self.estimator_).__name__} takes"):
            found = np.asarray(self.estimator_.predict_proba(X), dtype=float)
        return arranged(found, self._columns, self.labels_.size)

    @lazily
    def predict_moments(self, X: Any) -> np.ndarray:
        """The moments that the probabilities of the labels stand for: these themselves, unless the loss has another embedding."""
        proba = self.predict_proba(X)  # which settles a fitted estimator's labels
        return self.loss_.moments(proba)

    def _check_fitted(self) -> None:
        check_is_fitted(self)
        if not hasattr(self, "estimator_"):
            self._settle(self._make_estimator())

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "estimator_") or (self.prefit and self.calibration is None)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if self.estimator is not None and hasattr(self.estimator, "__sklearn_tags__"):
            tags.input_tags = self.estimator.__sklearn_tags__().input_tags
        else:
            tags.input_tags.sparse = True
        return tags


def settled(
    loss: Loss, known: np.ndarray, order: Any = None, categories: np.ndarray | None = None, name: str = "y"
) -> tuple[Loss, Translator, np.ndarray]:
    """A loss brought to the labels of columns of probabilities, in the order of what knows it, and the code of each column."""
    names = loss.label_names()
    if order is None and names is not None and (unknown := codes_of(known, names, None) < 0).any():
        label = known[unknown].tolist()[0]
        raise ValueError(f"Unknown label {label!r} in {name}: those that the loss names are {names.tolist()}.")
    orders = (order, names, categories, known)
    labels = labels_for(loss, known, next(order for order in orders if order is not None), name=name)
    return loss.bind_names(labels.classes).bind(labels.size), labels, labels.encode(known)


def arranged(proba: np.ndarray, columns: np.ndarray, size: int) -> np.ndarray:
    """Columns of probabilities in the order of codes; labels without a column have probability zero."""
    if np.array_equal(columns, np.arange(size)):
        return proba
    law = np.zeros((len(proba), size))
    law[:, columns] = proba
    return law
