"""A fitted model whose moments are recalibrated on labelled examples."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import MetaEstimatorMixin

from .._arguments import check_hyperparameters
from .._checks import check_lengths
from ..data.weights import example_weights
from ..decisions import moments_of
from ..recalibration import METHODS, choose, folds_of, from_laws, laws_of
from .base import Decoder


class Recalibrated(MetaEstimatorMixin, Decoder):
    """A fitted model with its moments recalibrated, and any loss decided by these.

    Parameters
    ----------
    estimator : a fitted estimator on labels or label sets: one of this library or any classifier with `predict_proba`, bare
        or inside a pipeline, a search or a FrozenEstimator. It is not fitted again; where this is cloned, as in a search,
        wrap it in a FrozenEstimator.
    method : "temperature" (one power for all laws), "vector" (a power and a factor for each label), "isotonic" (a
        non-decreasing function for each label), "none", or "auto", that of least cross-fitted squared error of the moments,
        which is proper whatever the loss.
    loss : another loss on the same labels, to be decided and judged by; None is the estimator's own, or 0-1.

    Attributes
    ----------
    estimator_, method_, map_ : the fitted estimator, the method in use, and the fitted map of laws.
    loss_, labels_, classes_ : the loss, and the labels.

    Notes
    -----
    The map is fitted to pairs of moments and labels, and may be fitted on few examples, which the estimator must not have
    been fitted on. Over one label the moments stand for a law; for label sets there is one for each label, and for
    `FBeta` one for each label over the sizes of the sets that it is in.

    Examples
    --------
    >>> import numpy as np, taskloss as tl
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(900, 2))
    >>> y = (X[:, 0] + rng.normal(size=900) > 0).astype(int)
    >>> model = tl.CostSensitiveClassifier([[0, 5], [1, 0]]).fit(X[:300], y[:300])
    >>> tl.Recalibrated(model, "temperature").fit(X[300:600], y[300:600]).predict(X[600:]).shape
    (300,)
    """

    def __init__(self, estimator: Any = None, method: str = "auto", *, loss: Any = None):
        self.estimator = estimator
        self.method = method
        self.loss = loss

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the map to labelled examples that the estimator was not fitted on."""
        check_hyperparameters(self)
        if self.estimator is None or not hasattr(self.estimator, "predict"):
            raise ValueError(f"Recalibrated needs a fitted estimator, got {self.estimator!r}.")
        if not (isinstance(self.method, str) and self.method in ("auto", *METHODS)):
            raise ValueError(f"method must be 'auto' or one of {list(METHODS)}, got {self.method!r}.")
        mu, loss, labels = moments_of(self.estimator, self.loss, X)
        if loss.takes_objects:
            raise ValueError(
                f"{loss!r} is on objects that have no list of labels, and moments of labels are recalibrated."
            )
        check_lengths(len(mu), y)
        if len(mu) < 2:
            raise ValueError(f"A map is fitted to at least two examples, and X has {len(mu)}.")
        codes = labels.encode(y)
        weights = example_weights(sample_weight, len(mu))
        q, seen, weights = laws_of(loss, mu), laws_of(loss, loss.phi(codes)), weights / weights.sum()
        method = self.method
        if method == "auto":
            method = choose(q, seen, weights, folds_of(codes if codes.ndim == 1 else codes.sum(1)))
        fitted = METHODS[method]().fit(q, seen, weights)
        self.estimator_, self._asked = self.estimator, self.loss
        self.loss_, self.labels_, self.method_, self.map_ = loss, labels, method, fitted
        self.n_features_in_ = getattr(self.estimator, "n_features_in_", None)
        if codes.ndim == 1:
            self.class_prior_ = np.bincount(codes, weights, labels.size)
        return self

    def predict_moments(self, X: Any) -> np.ndarray:
        """The recalibrated moments."""
        self._check_fitted()
        mu = moments_of(self.estimator_, self._asked, X).mu
        return from_laws(self.loss_, self.map_(laws_of(self.loss_, mu)))

    def predict_proba(self, X: Any) -> np.ndarray:
        """The law over labels, or for label sets the probability of each label."""
        mu = self.predict_moments(X)
        return np.clip(self.loss_.probabilities(mu), 0, 1)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "map_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if hasattr(self.estimator, "__sklearn_tags__"):
            inner = self.estimator.__sklearn_tags__()
            tags.input_tags, tags.target_tags = inner.input_tags, inner.target_tags
            tags.classifier_tags = inner.classifier_tags
        tags._skip_test = (
            True  # scikit-learn's checks have no model that was fitted before, which is what is recalibrated
        )
        return tags
