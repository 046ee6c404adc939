"""F over a corpus: of labels, of label sets, and of entities."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from .._checks import check_beta, check_names
from .base import Metric
from .confusion import _table, ratio


class FMeasure(Metric):
    """F over all examples: (1 + b^2) tp / ((1 + b^2) tp + b^2 fn + fp), averaged over labels, or of the summed counts.

    "macro" is the mean of the labels' own F, "micro" F of the counts of all labels together: a ratio of linear functions
    of the confusion. A label that neither occurs nor is predicted has F = 0. It equals sklearn's fbeta_score with that
    average. `losses.FBeta` differs: it is the mean over examples of each example's F.

    Parameters
    ----------
    beta : weight of recall.
    average : "macro" or "micro".
    without : negative labels, left out of the counts, such as "none" or "other". With one label per example, "micro"
        without it is accuracy. Of two labels, the negative one.
    """

    name = "f-measure"

    def __init__(self, beta: float = 1.0, average: str = "macro", without: Any = ()):
        self.beta = beta
        self.average = average
        self.without = without

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(), cls(2.0, "micro"), cls(0.5)]

    # Mask of the labels that count, set by bind_names; None for all.
    places: np.ndarray | None = None

    def bind_names(self, labels: np.ndarray) -> FMeasure:
        """The measure with the mask of the labels that count."""
        if not isinstance(self.without, str):
            check_names("without", self.without)
        without = [self.without] if isinstance(self.without, str) else list(self.without)
        unknown = [label for label in without if label not in labels.tolist()]
        if unknown:
            raise ValueError(f"without names {unknown[0]!r}, which is not among the labels {labels.tolist()}.")
        other = self.with_params()
        other.places = np.array([label not in without for label in labels.tolist()])
        if not other.places.any():
            raise ValueError("without leaves no label that counts.")
        return other

    def _square(self) -> float:
        square = check_beta(self.beta)
        if not (isinstance(self.average, str) and self.average in ("macro", "micro")):
            raise ValueError(f"average must be 'macro' or 'micro', got {self.average!r}.")
        return square

    def _f(self, right: np.ndarray, predicted: np.ndarray, true: np.ndarray) -> np.ndarray:
        """F from counts with labels along the last axis."""
        square, places = self._square(), slice(None) if self.places is None else self.places
        right, predicted, true = (x[..., places] for x in (right, predicted, true))
        if self.average == "micro":
            right, predicted, true = (x.sum(-1, keepdims=True) for x in (right, predicted, true))
        return ratio((1 + square) * right, square * true + predicted).mean(-1)

    def _slopes(self, right: np.ndarray, predicted: np.ndarray, true: np.ndarray) -> tuple[np.ndarray, ...]:
        """d F / d right, predicted and true, label by label."""
        square, k = self._square(), right.shape[-1]
        places = np.ones(k, dtype=bool) if self.places is None else self.places
        right, predicted, true = (np.where(places, x, 0.0) for x in (right, predicted, true))
        if self.average == "micro":
            right, predicted, true = (x.sum(-1, keepdims=True) for x in (right, predicted, true))
        size = square * true + predicted
        one = np.broadcast_to(ratio(1.0, size), (*right.shape[:-1], k)) * places
        one = one if self.average == "micro" else one / places.sum()
        f = ratio((1 + square) * right, size)
        return (1 + square) * one, -f * one, -square * f * one

    def value(self, confusion: Any) -> np.ndarray:
        table = _table(confusion)
        return self._f(np.diagonal(table, axis1=-2, axis2=-1), table.sum(-1), table.sum(-2))

    def gradient(self, confusion: Any) -> np.ndarray:
        table = _table(confusion)
        right, predicted, true = self._slopes(np.diagonal(table, axis1=-2, axis2=-1), table.sum(-1), table.sum(-2))
        return right[..., None, :] * np.eye(table.shape[-1]) + predicted[..., :, None] + true[..., None, :]

    def value_of_sets(self, tables: Any) -> np.ndarray:
        t = _table(tables)
        return self._f(t[..., 1, 1], t[..., 1, :].sum(-1), t[..., :, 1].sum(-1))

    def gradient_of_sets(self, tables: Any) -> np.ndarray:
        t = _table(tables)
        right, predicted, true = self._slopes(t[..., 1, 1], t[..., 1, :].sum(-1), t[..., :, 1].sum(-1))
        rows = [[np.zeros_like(right), true], [predicted, right + predicted + true]]
        return np.stack([np.stack(row, -1) for row in rows], -2)


class EntityF(FMeasure):
    """F of spans in sequences of tags: a span is right if its first and last position and its kind are.

    As conlleval counts: "micro" over all kinds, or the "macro" mean over kinds. y is a list of tag sequences.

    Parameters
    ----------
    scheme : "BIO" or "BIOES" (BILOU's letters are accepted).
    beta, average : as in `FMeasure`.

    Examples
    --------
    >>> EntityF()([["B-PER", "I-PER", "O", "B-LOC"]], [["B-PER", "I-PER", "O", "O"]])
    0.6666666666666666
    """

    name = "entity-f"
    kinds = ("spans",)

    def __init__(self, scheme: str = "BIO", beta: float = 1.0, average: str = "micro"):
        self._scheme = scheme
        self.beta = beta
        self.average = average

    aliases = {"scheme": "_scheme"}
    without: Any = ()

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(), cls("BIOES", 2.0, "macro")]

    def scheme(self) -> str:
        return self._scheme

    def bind_names(self, labels: np.ndarray) -> EntityF:
        return self
