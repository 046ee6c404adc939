"""Tasks of `TunedDecisionCV`: moments, tallies and losses for labels, label sets, positions and spans."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from ..data.labels import Classes, LabelSets, codes_of
from ..data.sequences import Packed, SequenceLabels
from ..decisions import find
from ..losses.base import Loss, name_array
from ..losses.chain import ChainCost
from ..losses.hamming import Hamming
from ..losses.label_costs import LabelCosts
from ..losses.spans import Scheme, SpanCosts, law_spans
from ..losses.tabular import CostMatrix, ZeroOne
from ..metrics.base import Metric
from ..metrics.tallies import LabelTally, SetTally, SpanTally, Tally, span_prices
from ..polytopes._forest import Forest, offsets_of
from ..polytopes._spans import Spans
from .base import Decoder
from .decoded import DecodedClassifier
from .kernel import KernelPredictor
from .tagging import Tagger

_LEAST_SPAN = 1e-4  # least probability of a candidate span


class Task:
    """A kind of decision. `labels` encodes the labels; `own` are the costs of the model's own decisions."""

    tags = False  # whether the model labels sequences
    labels: Any
    own: np.ndarray

    def strata(self, y: Any) -> np.ndarray | None:
        """Labels by which folds are stratified."""
        return None

    def moments(self, model: Any, X: Any) -> Any:
        """The moments from which outputs are decided."""
        raise NotImplementedError

    def tally(self, found: list[Any], y: Any, weights: np.ndarray) -> Tally:
        """The tally of moments, a list by fold, with the labels of all examples."""
        raise NotImplementedError

    def loss(self, costs: np.ndarray) -> Loss:
        """The loss with these costs."""
        raise NotImplementedError


class OneLabel(Task):
    """A label for each example."""

    def __init__(self, labels: Classes, own: np.ndarray):
        self.labels, self.own = labels, own

    def strata(self, y: Any) -> np.ndarray:
        return self.labels.encode(y)

    def moments(self, model: Any, X: Any) -> np.ndarray:
        p, classes = laws(model, X)
        out = np.zeros((len(p), self.labels.size))
        out[:, codes_of(name_array(classes), self.labels.classes, "label")] = p
        return out

    def tally(self, found: list[Any], y: Any, weights: np.ndarray) -> Tally:
        return LabelTally(self.labels.encode(y), self.labels.size, weights, np.concatenate(found))

    def loss(self, costs: np.ndarray) -> Loss:
        names = self.labels.classes.tolist()
        return CostMatrix(costs, outputs=names, labels=names)


class LabelSet(Task):
    """A set of labels for each example, each label decided separately."""

    def __init__(self, labels: LabelSets):
        self.labels = labels
        self.own = np.broadcast_to(1 - np.eye(2), (labels.size, 2, 2))

    def moments(self, model: Any, X: Any) -> np.ndarray:
        return laws(model, X)[0]

    def tally(self, found: list[Any], y: Any, weights: np.ndarray) -> Tally:
        return SetTally(self.labels.encode(y).astype(np.int64), weights, np.concatenate(found))

    def loss(self, costs: np.ndarray) -> Loss:
        return LabelCosts(costs)


class Positions(Task):
    """A tagger measured by position."""

    tags = True

    def __init__(self, labels: SequenceLabels):
        self.labels, self.own = labels, 1 - np.eye(labels.size)

    def moments(self, model: Any, X: Any) -> np.ndarray:
        face, inputs = find(model, X)
        p = face.predict_proba(inputs)
        p = p if isinstance(inputs, Packed) else np.concatenate(p)
        out = np.zeros((len(p), self.labels.size))
        out[:, codes_of(face.classes_, self.labels.classes, "label")] = p
        return out

    def tally(self, found: list[Any], y: Any, weights: np.ndarray) -> Tally:
        lengths = [len(row) for row in y]
        codes = self.labels.encode(y, offsets_of(lengths))
        sequence = np.repeat(np.arange(len(lengths)), lengths)
        return PositionTally(codes, self.labels.size, weights[sequence], np.concatenate(found), sequence)

    def loss(self, costs: np.ndarray) -> Loss:
        return ChainCost(costs)


class PositionTally(LabelTally):
    """A tally of positions, indexed by sequences."""

    def __init__(self, y: np.ndarray, k: int, weights: np.ndarray, p: np.ndarray, sequence: np.ndarray):
        super().__init__(y, k, weights, p)
        self.sequence = sequence

    def share(self, rows: np.ndarray) -> float:
        return float(self.weights[np.isin(self.sequence, rows)].sum())

    def contributions(self, slope: np.ndarray, z: np.ndarray) -> np.ndarray:
        """Each sequence's part of <slope, confusion>."""
        _, place = np.unique(self.sequence, return_inverse=True)
        return np.bincount(place, super().contributions(slope, z))

    def take(self, rows: np.ndarray) -> Self:
        some = np.isin(self.sequence, rows)
        return type(self)(self.y[some], self.k, self.weights[some], self.p[some], self.sequence[some])


class Entities(Task):
    """A tagger measured by the spans of its tags."""

    tags = True

    def __init__(self, labels: SequenceLabels, scheme: str):
        self.labels, self.scheme = labels, Scheme(labels.classes, scheme)
        self.own = np.broadcast_to([[0.0, 1.0], [1.0, 0.0]], (len(self.scheme.kinds), 2, 2))

    def moments(self, model: Any, X: Any) -> tuple[Forest, Spans, np.ndarray]:
        face, inputs = find(model, X)
        forest, unary, pairwise = face._law_scores(face._read(inputs))
        scheme = Scheme(face.classes_, self.scheme.scheme)
        kinds = np.array([self.scheme.kinds.index(name) for name in scheme.kinds])
        blocks = [
            (block, Spans(spans.first, spans.stop, kinds[spans.kind]), q)
            for block, spans, q in law_spans(forest, unary, pairwise, scheme, _LEAST_SPAN)
        ]
        return joined_spans(blocks)

    def tally(self, found: list[Any], y: Any, weights: np.ndarray) -> Tally:
        forest, spans, q = joined_spans(found)
        codes = self.labels.encode(y, forest.offsets)
        return SpanTally.of(forest, codes, self.scheme, weights, spans, q)

    def loss(self, costs: np.ndarray) -> Loss:
        missed, spurious = span_prices(costs)
        return SpanCosts(missed.tolist(), spurious.tolist(), self.scheme.scheme, self.labels.classes.tolist())


def joined_spans(parts: list[tuple[Forest, Spans, np.ndarray]]) -> tuple[Forest, Spans, np.ndarray]:
    """The concatenation of sequences and of their spans."""
    first_nodes = np.cumsum([0] + [forest.n_nodes for forest, _, _ in parts])
    spans = [
        Spans(s.first + first, s.stop + first, s.kind) for (_, s, _), first in zip(parts, first_nodes, strict=False)
    ]
    joined = Spans(*(np.concatenate(column) for column in zip(*spans, strict=True)))
    lengths = np.concatenate([forest.lengths for forest, _, _ in parts])
    return Forest.chains(lengths), joined, np.concatenate([q for _, _, q in parts])


def task_for(face: Any, y: Any, metric: Metric, order: Any) -> Task:
    """The task of a measure and an estimator; order: the labels as the user lists them, or None."""
    scheme = metric.scheme()
    if isinstance(face, Tagger):
        tags = SequenceLabels(y, face.classes_)
        return Positions(tags) if scheme is None else Entities(tags, scheme)
    if scheme is not None:
        raise ValueError(f"{metric!r} judges spans of tags, and {type(face).__name__} predicts none: use a tagger.")
    if (
        isinstance(face, DecodedClassifier) and face.prefit and not hasattr(face, "labels_")
    ):  # a model of another library
        if np.ndim(y) == 2 and np.shape(y)[1] > 1:
            return LabelSet(LabelSets(y, Hamming()))
        known, own = name_array(face.estimator.classes_), None
    elif isinstance(face, Decoder):
        if isinstance(face.labels_, LabelSets):
            return LabelSet(face.labels_)
        known = face.labels_.classes
        own = face.loss_.matrix() if face.outputs_.tolist() == known.tolist() else None
    elif isinstance(face, KernelPredictor) and face._fitted.loss.kind == "classes":
        known, own = name_array(face.classes_), None
    else:
        raise ValueError(
            f"{type(face).__name__} predicts no labels that a confusion could count: measures are for labels, label sets and tags."
        )
    labels = Classes(known, ZeroOne(), known if order is None else name_array(order, "order"))
    places = labels.encode(known)
    if own is None or own.shape != (labels.size, labels.size) or labels.size != len(places):
        return OneLabel(labels, 1 - np.eye(labels.size))
    return OneLabel(labels, own[np.ix_(np.argsort(places), np.argsort(places))])


def laws(model: Any, X: Any) -> tuple[np.ndarray, Any]:
    """A fitted model's probabilities of labels, or of each label of a set, and the labels; also in a pipeline."""
    face, inputs = find(model, X)
    if isinstance(face, KernelPredictor):
        p = np.maximum(face._fitted.loss.probabilities(face.predict_moments(inputs)), 0.0)
        total = p.sum(-1, keepdims=True)
        return np.where(total > 0, p / np.where(total > 0, total, 1.0), 1 / p.shape[1]), face.classes_
    whole = isinstance(face, DecodedClassifier) and face.estimator is model  # a model of another library
    found = model.predict_proba(X) if whole else face.predict_proba(inputs)
    if isinstance(found, list):  # multioutput classifiers return a table for each label
        return np.stack([np.asarray(part)[:, -1] for part in found], axis=1), None
    return np.asarray(found, dtype=float), (model if whole else face).classes_
