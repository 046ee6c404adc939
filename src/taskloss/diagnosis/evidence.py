"""What a diagnosis is made from: decisions, what they were expected to cost, and what they did cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .._checks import check_lengths, count_examples, real_array
from ..data.base import Translator
from ..data.costs import example_costs
from ..data.sequences import Packed
from ..data.weights import example_weights
from ..decisions import find, moments_of
from ..estimators.base import Decoder
from ..estimators.kernel import KernelPredictor
from ..estimators.labelling import Labeller
from ..estimators.matching import Matcher
from ..estimators.ranking import Ranker
from ..estimators.tuned import TunedDecisionCV
from ..losses.base import Loss
from ..losses.fbeta import FBeta
from ..metrics.examples import is_sets
from ..wrapped import innermost

_FEWEST = 10  # examples


@dataclass(frozen=True)
class Evidence:
    """Decisions on labelled examples. Where they are of single labels or label sets, also the moments and the codes."""

    name: str
    model: Any  # the estimator of this library that decided, or None for probabilities
    loss: Loss
    expected: np.ndarray
    realised: np.ndarray
    weights: np.ndarray  # they sum to one
    unit: str = "examples"
    mu: Any = None
    codes: Any = None
    z: Any = None
    labels: Any = None  # their translator
    costs: np.ndarray | None = None
    X: Any = None

    def __len__(self) -> int:
        return len(self.realised)

    @property
    def span(self) -> tuple[float, float]:
        """The least and the largest loss that can be, as far as is known."""
        found = np.concatenate([self.expected, self.realised])
        low, high = min(0.0, float(found.min())), float(found.max())
        if self.mu is not None and self.loss.kind == "classes" and self.costs is None:
            matrix = self.loss.matrix()
            return min(0.0, float(matrix.min())), float(matrix.max())
        if self.z is not None:
            high = max(high, float(np.max(self.loss.worst(self.z, self.costs))))
        return low, high


def read(
    model: Any,
    X: Any,
    y: Any,
    loss: Any = None,
    *,
    costs: Any = None,
    labels: Any = None,
    sample_weight: Any = None,
    **params: Any,
) -> Evidence:
    """The evidence of a fitted model with X and y, or of probabilities with y."""
    if y is None:
        raise ValueError("y is missing: a diagnosis compares decisions with known labels; pass y=...")
    if hasattr(model, "predict"):
        found = _of_model(model, X, y, loss, costs, labels, sample_weight, params)
    else:
        if params:
            raise ValueError(f"{next(iter(params))}=... is for a fitted model, and {_kind(model)} was given.")
        found = _of_probabilities(model, X, y, loss, costs, labels, sample_weight)
    if len(found) < _FEWEST:
        raise ValueError(f"y has {len(found)} {found.unit}, too few for a diagnosis: at least {_FEWEST} are needed.")
    for name, values in (("expected", found.expected), ("realised", found.realised)):
        if not np.isfinite(values).all():
            raise ValueError(f"The {name} loss of {found.loss!r} is not finite for some {found.unit}.")
    return found


def row_names(X: Any) -> Any:
    """The names that a data frame of pandas gives its rows, where they are more than their places."""
    index = X.index if hasattr(X, "iloc") else None
    return None if type(index).__name__ == "RangeIndex" else index


def _kind(value: Any) -> str:
    return "an array of probabilities" if hasattr(value, "shape") else type(value).__name__


def _of_probabilities(proba: Any, X: Any, y: Any, loss: Any, costs: Any, labels: Any, sample_weight: Any) -> Evidence:
    if loss is None and is_sets(y):
        loss = "hamming"  # each label of a set has a probability of its own
    mu, loss, names = moments_of(proba, loss, labels=labels, name="model")
    nameless = labels is None and not hasattr(proba, "columns") and loss.label_names() is None
    first = np.asarray(y, dtype=object).ravel()[:1].tolist()
    if nameless and loss.kind == "classes" and first and isinstance(first[0], str):
        raise ValueError(
            f"y has names of labels, and the columns of the probabilities have none: pass labels=[...], the {mu.shape[1]} labels in the order of the columns."
        )
    return _listed("probabilities", None, loss, mu, names, None, X, y, costs, sample_weight)


def _of_model(
    model: Any, X: Any, y: Any, loss: Any, costs: Any, labels: Any, sample_weight: Any, params: dict[str, Any]
) -> Evidence:
    face, inputs = find(model, X, loss, labels)
    name = type(innermost(model)[0]).__name__
    if isinstance(face, TunedDecisionCV) and not isinstance(getattr(face, "loss_", None), Loss):
        face._check_fitted()
    if isinstance(face, TunedDecisionCV) and face._task.tags:
        loss = face.loss_ if loss is None else loss
        face, inputs = find(face.estimator_, inputs)
    if isinstance(face, Labeller | Ranker | Matcher):
        return _of_structures(face, name, inputs, y, loss, costs, sample_weight, params)
    if params:
        raise ValueError(f"{type(face).__name__} takes no {next(iter(params))}=...: leave it out.")
    if isinstance(face, KernelPredictor) and not face.lists_labels:
        task, mu = face._weigh(inputs, loss, None, costs)
        z = task.decide(mu, costs)
        check_lengths(len(z), y)
        weights = example_weights(sample_weight, len(z))
        expected, realised = task.expected(mu, costs), task.losses(z, y, costs)
        return Evidence(name, face, task.loss, expected, realised, weights / weights.sum(), X=X)
    if isinstance(face, Decoder):
        costs = face._costs(costs, X, loss)
        bound, z, mu = face._decide(inputs, loss, costs)
        translator = face.labels_
    else:
        mu, bound, translator = moments_of(model, loss, X, labels)
        z = bound.decode(mu, costs)
    return _listed(name, face, bound, mu, translator, z, X, y, costs, sample_weight)


def _listed(
    name: str,
    face: Any,
    loss: Loss,
    mu: np.ndarray,
    labels: Translator,
    z: Any,
    X: Any,
    y: Any,
    costs: Any,
    sample_weight: Any,
) -> Evidence:
    """Of labels and label sets, decided by moments."""
    if count_examples("y", y) != len(mu):
        of = "model" if face is None else "X"
        raise ValueError(f"{of} and y have different lengths: {len(mu)} and {count_examples('y', y)}.")
    if costs is not None and not isinstance(costs, np.ndarray):
        costs = real_array("costs", example_costs(X, costs, labels.classes, labels.outputs(loss)), "prices")
    codes = labels.encode(y)
    if isinstance(loss, FBeta) and (largest := int(codes.sum(1).max(initial=1))) > loss.polytope.sizes:
        wider = loss.with_params(max_size=largest)  # sets larger than any that was fitted
        loss, mu = wider, loss.moments_for(wider, mu)
    z = loss.decode(mu, costs) if z is None else z
    weights = example_weights(sample_weight, len(mu))
    return Evidence(
        name,
        face,
        loss,
        np.asarray(loss.risk(z, mu, costs), dtype=float),
        np.asarray(loss.realised(z, codes, costs), dtype=float),
        weights / weights.sum(),
        mu=np.asarray(mu, dtype=float),
        codes=codes,
        z=z,
        labels=labels,
        costs=costs,
        X=X,
    )


def _of_structures(
    face: Any, name: str, X: Any, y: Any, loss: Any, costs: Any, sample_weight: Any, params: dict[str, Any]
) -> Evidence:
    """Of sequences, trees, rankings and matchings: one loss for each, and no moments of single labels."""
    takes = {"Ranker": {"groups"}, "TreeTagger": {"parents"}, "SequenceTagger": {"parents"}}.get(
        type(face).__name__, set()
    )
    if wrong := sorted(set(params) - takes):
        raise ValueError(f"{type(face).__name__} takes no {wrong[0]}=...: leave it out.")
    if isinstance(face, Ranker):
        if costs is not None:
            raise ValueError("Ranker takes no costs per example: leave out costs=...")
        groups = params.get("groups")
        expected, realised, weights = _ranked(face, X, y, groups, loss, sample_weight)
        return Evidence(name, face, face._loss_for(loss), expected, realised, weights, "groups")
    given = {"loss": loss, "costs": costs, **params}
    expected, realised = face.expected_loss(X, **given), face.losses(X, y, **given)
    unit = "matchings" if isinstance(face, Matcher) else "sequences"
    count = len(X) if isinstance(X, Packed) else len(realised)
    weights = example_weights(sample_weight, count, unit)
    return Evidence(name, face, face._loss_for(loss), expected, realised, weights / weights.sum(), unit)


def _ranked(
    face: Ranker, X: Any, y: Any, groups: Any, loss: Any, sample_weight: Any
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Expected and realised losses of rankings, and their weights, in the order of the sorted ids."""
    n = count_examples("X", X)
    ids, y = face._groups(groups, n, needed=True), face._relevance(y, n)
    expected, realised = np.empty(len(ids)), np.empty(len(ids))
    for bound, which, rows, mu, z in face._by_size(X, groups, loss):
        expected[which], realised[which] = bound.bayes_risk(z, mu), bound(z, y[rows])
    weights = np.ones(len(ids))
    if sample_weight is not None:
        weights = ids.means(example_weights(sample_weight, n, "rows"))
    return expected, realised, weights / weights.sum()
