"""Which knob serves an estimator and a loss."""

from __future__ import annotations

from typing import Any

from ..estimators.base import resolve_loss
from ..estimators.kernel import KernelPredictor
from ..estimators.tagging import Tagger
from ..losses.base import Loss
from ..losses.ndcg import NDCG
from ..losses.spans import SpanCosts
from . import labels, structures
from .knobs import AbstainFromRows, Knob


def knob_for(face: Any, loss: Any, word: str, bounds: tuple[float, float] | None = None) -> Knob:
    """The knob of this word for an estimator and a loss."""
    if isinstance(face, KernelPredictor):
        return _of("abstain", word, {"abstain": AbstainFromRows}, face, loss, bounds)
    if isinstance(face, Tagger):
        loss = face._loss_for(loss)
        some: dict[str, type[Knob]] = {"abstain": structures.AbstainFromSequences}
        if isinstance(loss, SpanCosts):
            some["parts"] = structures.SomeSpans
        elif hasattr(loss, "pairwise") and loss.pairwise is None:
            some["parts"] = structures.SomePositions
        return _of("parts" if "parts" in some else "abstain", word, some, face, loss, bounds)
    kind = face._loss_for(None).kind if hasattr(face, "_loss_for") else "object"
    loss = _loss_of(face, loss, kind)
    if kind == "ranking":
        some = {"abstain": structures.AbstainFromGroups}
        some |= {"set": structures.Shortlists} if isinstance(loss, NDCG) else {"parts": structures.SomeItems}
        return _of("set" if "set" in some else "parts", word, some, face, loss, bounds)
    if kind == "matching":
        some = {"abstain": structures.AbstainFromMatchings, "parts": structures.SomeRows}
        return _of("parts", word, some, face, loss, bounds)
    if kind == "classes":
        ordered = labels.grows(loss)
        some = {"abstain": labels.AbstainFromLabels, "set": labels.Intervals if ordered else labels.OutputSets}
        return _of("set" if ordered else "abstain", word, some, face, loss, bounds)
    some = {"abstain": labels.AbstainFromLabels}
    if labels.falls_with_labels(loss):
        some["set"] = labels.LabelSupersets
    elif loss.coordinatewise:
        some["parts"] = labels.SomeLabels
    default = next((w for w in ("set", "parts") if w in some), "abstain")
    return _of(default, word, some, face, loss, bounds)


def _loss_of(face: Any, loss: Any, kind: str) -> Loss:
    """The fitted loss, or another one brought to the estimator's labels."""
    if loss is not None and kind == "indicator":  # judged by any loss: only probabilities of labels are needed
        loss = resolve_loss(loss)
        if loss.kind == kind:
            return loss.bind_names(face.labels_.classes).bind(face.labels_.size)
    return face._loss_for(loss)


def _of(default: str, word: str, some: dict[str, Any], face: Any, loss: Any, bounds: Any) -> Knob:
    word = default if word == "auto" else word
    if word not in some:
        raise ValueError(
            f"knob={word!r} is not for {type(face).__name__} with {loss!r}: choose from {', '.join(map(repr, some))}."
        )
    return some[word](face, loss, bounds)
