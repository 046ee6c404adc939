"""What `Recalibrated` does for taggers: held-out scores for a map of few numbers, and answers by the tagger with its scores rescaled."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
from sklearn.utils.metaestimators import available_if

from ..data.labels import codes_of
from ..data.sequences import SequenceLabels, as_labels
from ..data.transitions import check_transitions
from ..decisions import find
from ..objectives import Forests
from ..objectives.rescaling import Scored
from ..wrapped import innermost
from .labelling import Labeller, no_priors

F = TypeVar("F", bound=Callable[..., Any])


def tagger_of(model: Any) -> Any:
    """The tagger that decides for a model, bare or inside a pipeline or a search; None where something else does."""
    face = innermost(model)[0]
    return face if isinstance(face, Labeller) else None


def scored(model: Any, X: Any, y: Any, weights: np.ndarray, parents: Any, labels: SequenceLabels) -> Scored:
    """Labelled examples with a fitted tagger's scores. Those with a label of `labels` that this tagger has not seen are left out."""
    face, inputs = find(model, X)
    face._check_law("to recalibrate it")
    examples = face._read(inputs, parents)
    forest, y = examples.forest, as_labels(inputs, y)
    codes, whole = (
        known.encode(y, forest.offsets, partial=True, unseen=known is not labels)[examples.order]
        for known in (face.labels_, labels)
    )
    check_transitions(face.limits_, forest, codes, face.classes_)
    risk = Forests(face.surrogate_, forest, codes, weights, face.labels_.size, face.limits_, part=True)
    states = codes_of(face.classes_, labels.classes, "label")
    found = Scored(risk, face._free_scores(examples.inputs), states, labels.size)
    unseen = np.unique(forest.tree_of[(codes < 0) & (whole >= 0)])
    return found.take(np.setdiff1d(np.arange(len(forest)), unseen)) if len(unseen) else found


def or_tagger(method: F) -> F:
    """A method that a recalibrated tagger answers itself."""

    @functools.wraps(method)
    def call(self: Any, X: Any, *arguments: Any, **options: Any) -> Any:
        self._check_fitted()
        if tagger_of(self) is None:
            return method(self, X, *arguments, **options)
        no_priors(*(options.pop(name, None) for name in ("class_prior", "train_prior")))
        face, inputs = find(self, X)
        return getattr(face, method.__name__)(inputs, *arguments, **options)

    return cast(F, call)


def of_tagger(method: F) -> F:
    """A method that taggers alone have."""

    def has(self: Any) -> bool:
        return hasattr(tagger_of(self.estimator), method.__name__)

    return cast(F, available_if(has)(or_tagger(method)))
