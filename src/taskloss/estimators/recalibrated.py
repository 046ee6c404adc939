"""A fitted model recalibrated on labelled examples that it was not fitted to."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import MetaEstimatorMixin
from sklearn.frozen import FrozenEstimator
from sklearn.utils import indexable

from .._arguments import check_hyperparameters
from .._checks import check_lengths
from ..data.sequences import Packed
from ..data.weights import example_weights
from ..decisions import moments_of
from ..metrics.examples import rows_of
from ..objectives import rescaling
from ..recalibration import METHODS, choose, folds_of, from_laws, laws_of
from ..wrapped import innermost
from .base import Decoder
from .folds import count, refitted, splits, take
from .labelling import Labeller
from .lazily import refuse_collections
from .rescaled import of_tagger, or_tagger, scored, tagger_of
from .sequence import SequenceTagger
from .tuned import TunedDecisionCV


class Held(NamedTuple):
    """Examples, and a model that was not fitted to them."""

    model: Any
    X: Any
    y: Any
    weights: np.ndarray
    parents: Any


class Recalibrated(MetaEstimatorMixin, Decoder):
    """A model with its probabilities recalibrated, and any loss decided by these.

    Parameters
    ----------
    estimator : an estimator on labels, label sets, sequences or trees: one of this library or any classifier with `predict_proba`,
        bare or inside a pipeline, a search or a FrozenEstimator. With cv="prefit" it is fitted, and is not fitted again; where this is
        cloned, as in a search, wrap it in a FrozenEstimator.
    method : for labels and label sets "temperature" (one power for all laws), "vector" (a power and a factor for each label),
        "isotonic" (a non-decreasing function for each label), "none", or "auto", that of least cross-fitted squared error of the
        moments, which is proper whatever the loss. For taggers "temperature" (one power of the law over whole labellings), "vector"
        (a factor for the scores of nodes, another for those of edges, and an offset for each label), "none", or "auto", that of
        least cross-fitted log-loss of whole labellings.
    loss : another loss on the same labels, to be decided and judged by; None is the estimator's own, or 0-1.
    cv : "prefit", the estimator was fitted on other examples; or folds as scikit-learn takes them, None for five, or a share
        between 0 and 1 that is held out: the map is fitted to examples that fits on the others have not seen, and is used with the
        estimator refitted on all.

    Attributes
    ----------
    estimator_, method_, map_ : the fitted estimator, the method in use, and the fitted map, of laws or of scores.
    loss_, labels_, classes_ : the loss, and the labels.

    Notes
    -----
    The map has few numbers, and few examples are enough for it. Over one label the moments stand for a law; for label sets there is
    one for each label, and for `FBeta` one for each label over the sizes of the sets that it is in.

    A tagger's map acts on the scores of its conditional random field, which leaves it one: marginals, spans, the likeliest labellings, samples
    and decisions for any loss are those of one law, exact and in accord with each other, and a temperature leaves the order of whole
    labellings as it is. Finding it is a convex problem where no label is missing. A function of each marginal, as "isotonic" is, has no such law, and is not for taggers.

    Examples that are much alike, as sentences of one document, belong in one fold: the map is else fitted to examples that are easier
    than those to come. Folds are consecutive where labels are not single ones, and `groups` in `fit` are kept together by a splitter such as GroupKFold.

    Examples
    --------
    >>> import numpy as np, taskloss as tl
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(900, 2))
    >>> y = (X[:, 0] + rng.normal(size=900) > 0).astype(int)
    >>> model = tl.CostSensitiveClassifier([[0, 5], [1, 0]]).fit(X[:300], y[:300])
    >>> tl.Recalibrated(model, "temperature").fit(X[300:600], y[300:600]).predict(X[600:]).shape
    (300,)
    >>> words = [[["sun"], ["rain"], ["rain"]], [["rain"], ["sun"]]] * 5
    >>> tags = [["dry", "wet", "wet"], ["wet", "dry"]] * 5
    >>> tl.Recalibrated(tl.SequenceTagger(), "temperature", cv=2).fit(words, tags).predict(words[:1])[0].tolist()
    ['dry', 'wet', 'wet']
    """

    def __init__(self, estimator: Any = None, method: str = "auto", *, loss: Any = None, cv: Any = "prefit"):
        self.estimator = estimator
        self.method = method
        self.loss = loss
        self.cv = cv

    # -- fitting -----------------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None, *, parents: Any = None) -> Self:
        """Fit the map to labelled examples, which a fitted estimator has not seen; parents as a `TreeTagger` takes them.

        groups: passed to the splitter.
        """
        refuse_collections(self, X, y)
        self._check()
        n = count(X)
        if n < 2:
            raise ValueError(f"A map is fitted to at least two examples, and X has {n}.")
        y = rows_of(X, y)
        check_lengths(n, y)
        weights = example_weights(sample_weight, n)
        if isinstance(self.cv, str):
            model, held = self.estimator, [Held(self.estimator, X, y, weights, parents)]
        else:
            model, held = self._out_of_fold(X, y, None if sample_weight is None else weights, groups, parents)
        total = sum(part.weights.sum() for part in held)
        if not total > 0:
            raise ValueError("No example that counts is held out: there is nothing to fit a map to.")
        held = [part._replace(weights=part.weights / total) for part in held]
        found = (self._of_laws if tagger_of(model) is None else self._of_scores)(model, held)
        # Nothing can fail from here on: a fit that fails leaves the earlier one.
        self.__dict__.pop("class_prior_", None)
        self.__dict__.update(
            estimator_=model, n_features_in_=getattr(model, "n_features_in_", None), _asked=self.loss, **found
        )
        return self

    def _check(self) -> None:
        check_hyperparameters(self)
        prefit = isinstance(self.cv, str)
        if prefit and self.cv != "prefit":
            raise ValueError(f"cv must be folds, a share that is held out, or 'prefit', got {self.cv!r}.")
        if self.estimator is None or not hasattr(self.estimator, "predict"):
            raise ValueError(f"Recalibrated needs {'a fitted' if prefit else 'an'} estimator, got {self.estimator!r}.")
        face = innermost(self.estimator)[0]
        if isinstance(face, TunedDecisionCV) and tagger_of(face.estimator) is not None:
            raise ValueError(
                "Recalibrate the tagger, and tune the decisions of that: TunedDecisionCV(Recalibrated(tagger, cv=5), metric)."
            )
        if not prefit and isinstance(self.estimator, FrozenEstimator):
            raise ValueError(
                "cv fits the estimator to each fold's examples, and a FrozenEstimator is not fitted again: use cv='prefit'."
            )
        methods, of = (METHODS, "") if tagger_of(self.estimator) is None else (rescaling.METHODS, " for a tagger")
        if not (isinstance(self.method, str) and self.method in ("auto", *methods)):
            raise ValueError(f"method must be 'auto' or one of {list(methods)}{of}, got {self.method!r}.")

    def _out_of_fold(
        self, X: Any, y: Any, weights: np.ndarray | None, groups: Any, parents: Any
    ) -> tuple[Any, list[Held]]:
        """The estimator fitted to all examples, and for each fold a fit to the others."""
        if isinstance(X, Packed) and parents is not None:
            X, parents = Packed(X.rows, X.offsets, parents), None
        X, y = indexable(X)[0], indexable(y)[0]

        def some(rows: np.ndarray) -> tuple[Any, Any, np.ndarray | None, Any]:
            parts = (None if values is None else take(values, rows) for values in (weights, parents))
            return take(X, rows), take(y, rows), *parts

        def fit(rows: np.ndarray) -> Any:
            X_some, y_some, w, above = some(rows)
            return refitted(self.estimator, X_some, y_some, w, **({} if above is None else {"parents": above}))

        def hold(train: np.ndarray, rows: np.ndarray) -> Held:
            X_some, y_some, w, above = some(rows)
            return Held(fit(train), X_some, y_some, np.ones(len(rows)) if w is None else w, above)

        every = np.arange(count(X))
        model, strata = fit(every), None
        if tagger_of(model) is None:
            codes = moments_of(model, self.loss, take(X, every[:1])).labels.encode(y)
            strata = codes if codes.ndim == 1 else None
        return model, [hold(*fold) for fold in splits(self.cv, len(every), strata, groups)]

    def _of_laws(self, model: Any, held: list[Held]) -> dict[str, Any]:
        """What is found for labels and label sets."""
        moments = [moments_of(part.model, self.loss, part.X) for part in held]
        prefit = held[0].model is model
        _, loss, labels = moments[0] if prefit else moments_of(model, self.loss, take(held[0].X, np.arange(1)))
        if loss.takes_objects:
            raise ValueError(
                f"{loss!r} is on objects that have no list of labels, and moments of labels are recalibrated."
            )
        for found in moments:
            if found.labels.classes.tolist() != labels.classes.tolist():
                lacking = sorted(set(labels.classes.tolist()) - set(found.labels.classes.tolist()), key=str)
                raise ValueError(
                    f"A fold's fit has seen no example of {lacking[0]!r}: choose folds whose other examples have every label, or hold out "
                    "examples yourself and leave cv at 'prefit'."
                )
        q = np.concatenate([laws_of(loss, found.loss.moments_for(loss, found.mu)) for found in moments])
        codes, weights = (
            np.concatenate(part) for part in zip(*((labels.encode(h.y), h.weights) for h in held), strict=True)
        )
        seen, method = laws_of(loss, loss.phi(codes)), self.method
        if method == "auto":
            method = choose(q, seen, weights, folds_of(codes if codes.ndim == 1 else codes.sum(1)))
        fitted = METHODS[method]().fit(q, seen, weights)
        prior = {"class_prior_": np.bincount(codes, weights, labels.size)} if codes.ndim == 1 else {}
        return {"loss_": loss, "labels_": labels, "method_": method, "map_": fitted, **prior}

    def _of_scores(self, model: Any, held: list[Held]) -> dict[str, Any]:
        """What is found for sequences and trees."""
        face = tagger_of(model)
        loss = face._loss_for(self.loss)
        parts = [scored(part.model, part.X, part.y, part.weights, part.parents, face.labels_) for part in held]
        parts = [part for part in parts if part.risk.n_examples]
        if sum(part.risk.n_examples for part in parts) < 2:
            raise ValueError(
                "A map is fitted to at least two examples that are held out, with labels that a fit has seen."
            )
        parts = rescaling.split(parts[0]) if len(parts) == 1 else parts
        method = rescaling.choose(parts) if self.method == "auto" else self.method
        fitted = rescaling.rescale(method, parts)
        return {"loss_": loss, "labels_": face.labels_, "method_": method, "map_": fitted}

    # -- predicting --------------------------------------------------------------------------------------------------

    @property
    def _recalibrated_tagger(self) -> Labeller:
        """The tagger with its scores rescaled."""
        face = tagger_of(self.__dict__.get("estimator_"))
        if face is None:
            raise AttributeError(f"{type(self).__name__} holds no fitted tagger.")
        return face._rescaled(self.map_, self.loss_)

    predict = or_tagger(Decoder.predict)
    expected_loss = or_tagger(Decoder.expected_loss)
    score = or_tagger(Decoder.score)
    predict_log_proba = or_tagger(Decoder.predict_log_proba)

    @or_tagger
    def predict_moments(self, X: Any) -> Any:
        """The recalibrated moments."""
        mu = moments_of(self.estimator_, self._asked, X).mu
        return from_laws(self.loss_, self.map_(laws_of(self.loss_, mu)))

    @or_tagger
    def predict_proba(self, X: Any) -> Any:
        """The law over labels, for label sets the probability of each label, and for sequences and trees the law at each position."""
        mu = self.predict_moments(X)
        return np.clip(self.loss_.probabilities(mu), 0, 1)

    predict_marginals = of_tagger(Labeller.predict_marginals)
    predict_spans = of_tagger(SequenceTagger.predict_spans)
    predict_best = of_tagger(Labeller.predict_best)
    sample = of_tagger(Labeller.sample)
    decision_function = of_tagger(Labeller.decision_function)
    losses = of_tagger(Labeller.losses)

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
