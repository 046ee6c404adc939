"""Knobs for labels and label sets."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._checks import check_lengths
from ..data.labels import codes_of
from ..losses.base import Loss, name_array
from .knobs import Abstain, Knob, Read, answers


class AbstainFromLabels(Abstain):
    """The label, or the set of labels, of least expected loss, or none."""

    def __init__(self, face: Any, loss: Loss, bounds: tuple[float, float] | None = None):
        super().__init__(face, loss, bounds)
        self.binary = loss.kind == "classes" and _two_valued(loss.matrix())

    def decided(self, X: Any, params: dict[str, Any]) -> tuple[np.ndarray, Any]:
        loss, z, mu = self.face._decide_for(X, self.loss, None, params.get("class_prior"), params.get("train_prior"))
        return loss.risk(z, mu), z

    def realised(self, more: Any, y: Any) -> np.ndarray:
        check_lengths(len(more), y)
        return self.face.labels_.losses(self.loss, more, y)

    def named(self, more: Any, kept: np.ndarray) -> Any:
        return answers(self.face.labels_.translate(more, self.loss), kept)


class _OfMatrix(Knob):
    """Knobs of losses that a matrix gives."""

    def __init__(self, face: Any, loss: Loss, bounds: tuple[float, float] | None = None):
        super().__init__(face, loss, bounds)
        self.matrix = loss.matrix()
        self.binary = _two_valued(self.matrix)
        self.names = face.labels_.outputs(loss)


class OutputSets(_OfMatrix):
    """All outputs whose expected loss is at most the threshold, and the best one: a set's loss is that of its best output.

    For 0-1 loss the labels of probability at least 1 - threshold (the least ambiguous sets of Sadinle, Lei and Wasserman, 2019).
    """

    word = "outputs in a set"
    partial, rising = False, False

    def read(self, X: Any, params: dict[str, Any]) -> Read:
        loss, mu = self.face._loss_and_moments(self.loss, X)
        risks = loss.expected(mu)
        n, outputs = risks.shape
        risks[np.arange(n), loss.decode(mu)] = -np.inf  # which is never dropped
        order = np.argsort(risks, axis=1, kind="stable")
        at = np.take_along_axis(risks, order, 1)[:, 1:]
        return Read(n, np.repeat(np.arange(n), outputs - 1), at.ravel(), order)

    def losses(self, read: Read, y: Any) -> tuple[Any, Any, np.ndarray, np.ndarray]:
        y, order = _codes(y, self.face.labels_.classes, read.n), read.more
        found = np.minimum.accumulate(self.matrix[order, y[:, None]], axis=1)
        found[y < 0] = self.high
        return found[:, -1], float(order.shape[1]), (found[:, :-1] - found[:, 1:]).ravel(), -np.ones(len(read.row))

    def outputs(self, read: Read, taken: np.ndarray) -> Any:
        kept = np.ones(read.more.shape, dtype=bool)
        kept[:, 1:] = ~taken.reshape(read.n, -1)
        names = self.names.tolist()
        return [{names[j] for j in row[some].tolist()} for row, some in zip(read.more, kept, strict=True)]


class Intervals(_OfMatrix):
    """Intervals of grades around the best one, widened until their expected loss is at most the threshold: that of the nearest grade in them."""

    word = "grades in an interval"
    partial = False

    def read(self, X: Any, params: dict[str, Any]) -> Read:
        loss, mu = self.face._loss_and_moments(self.loss, X)
        p = np.maximum(loss.probabilities(mu), 0.0)
        n, k = p.shape
        below, above = (
            p @ np.tril(self.matrix, -1).T,
            p @ np.triu(self.matrix, 1).T,
        )  # of labels beyond an end at each grade
        rows, ends = np.arange(n), np.empty((k, 2, n), dtype=np.int64)
        at = np.empty((k - 1, n))
        low = high = loss.decode(mu)
        for size in range(k):
            ends[size] = low, high
            if size == k - 1:
                break
            at[size] = below[rows, low] + above[rows, high]
            gain_down = below[rows, low] - below[rows, np.maximum(low - 1, 0)]
            gain_up = above[rows, high] - above[rows, np.minimum(high + 1, k - 1)]
            down = (low > 0) & ((gain_down >= gain_up) | (high == k - 1))
            low, high = low - down, high + ~down
        return Read(n, np.tile(rows, k - 1), at.ravel(), ends)

    def losses(self, read: Read, y: Any) -> tuple[Any, Any, np.ndarray, np.ndarray]:
        y = _codes(y, self.face.labels_.classes, read.n)
        low, high = read.more[:, 0], read.more[:, 1]
        found = self.matrix[np.clip(y, low, high), y]
        found[:, y < 0] = self.high
        steps = (found[:-1] - found[1:]).ravel()
        return found[-1], float(len(self.names)), steps, -np.ones(len(steps))

    def outputs(self, read: Read, taken: np.ndarray) -> np.ndarray:
        """The lowest and the highest grade of each example."""
        size = len(self.names) - 1 - taken.reshape(-1, read.n).sum(0)
        return self.names[read.more[size, :, np.arange(read.n)]]


class LabelSupersets(Knob):
    """All labels but those that are expected to cost at most the threshold where they are left out."""

    word = "labels in a set"
    partial = False

    def read(self, X: Any, params: dict[str, Any]) -> Read:
        q = _label_probabilities(self.face, X)
        n, k = q.shape
        # What a missed label costs where it is the only one.
        price = np.array([self._missed(j) for j in range(k)])
        return Read(n, np.repeat(np.arange(n), k), (q * price).ravel(), q.shape)

    def _missed(self, j: int) -> float:
        y = np.zeros((1, self.loss.n_labels), dtype=np.int64)
        y[0, j] = 1
        return float(self.loss.by_part(0 * y, y)[0, j] - self.loss.by_part(y, y)[0, j])

    def losses(self, read: Read, y: Any) -> tuple[Any, Any, np.ndarray, np.ndarray]:
        codes, known = _sets(self.face.labels_, y, read.n)
        full, none = (self.loss.by_part(np.full_like(codes, there), codes) for there in (1, 0))
        cost, steps = full.sum(1), none - full
        cost[~known], steps[~known] = self.high, 0.0
        return cost, float(codes.shape[1]), steps.ravel(), -np.ones(steps.size)

    def outputs(self, read: Read, taken: np.ndarray) -> Any:
        return self.face.labels_.translate((~taken).reshape(read.more).astype(np.int64), self.loss)


class SomeLabels(Knob):
    """Each label predicted or not, or left open where its expected loss is above the threshold; a label weighs by the loss it can make."""

    word = "labels decided"
    whole = False

    def __init__(self, face: Any, loss: Loss, bounds: tuple[float, float] | None = None):
        super().__init__(face, loss, bounds)
        # table[j, z_j, y_j]: what each label costs
        table = np.array([[loss.by_part(*_both(loss, z, y))[0] for y in (0, 1)] for z in (0, 1)]).transpose(2, 0, 1)
        self.share = table.max((1, 2)) / table.max((1, 2)).sum()
        self.table = table / np.where(self.share > 0, self.share, 1.0)[:, None, None]  # per unit of weight
        self.low, self.high = float(self.table.min()), float(self.table.max())

    def read(self, X: Any, params: dict[str, Any]) -> Read:
        q = _label_probabilities(self.face, X)
        expected = self.table[..., 0] * (1 - q)[..., None] + self.table[..., 1] * q[..., None]
        z = np.argmin(expected, axis=-1)
        n, k = z.shape
        return Read(n, np.repeat(np.arange(n), k), expected.min(-1).ravel(), z)

    def losses(self, read: Read, y: Any) -> tuple[Any, Any, np.ndarray, np.ndarray]:
        codes, known = _sets(self.face.labels_, y, read.n)
        cost = self.table[np.arange(codes.shape[1]), read.more, codes]
        cost[~known] = self.high
        return 0.0, 0.0, (cost * self.share).ravel(), np.tile(self.share, read.n)

    def outputs(self, read: Read, taken: np.ndarray) -> Any:
        """An array of the users' values with None where a label is open; for sets a pair of sets, those present and those open."""
        labels, kept = self.face.labels_, taken.reshape(read.more.shape)
        if not labels.as_sets:
            return np.where(kept, labels.values[read.more], None)
        there, still_open = (read.more == 1) & kept, ~kept
        names = labels.classes
        return [(set(names[a].tolist()), set(names[b].tolist())) for a, b in zip(there, still_open, strict=True)]


def _both(loss: Any, z: int, y: int) -> tuple[np.ndarray, np.ndarray]:
    shape = (1, loss.n_labels)
    return np.full(shape, z), np.full(shape, y)


def _label_probabilities(face: Any, X: Any) -> np.ndarray:
    """The probability of each label of a set, whatever loss the estimator was fitted for."""
    return np.clip(face.loss_.probabilities(face.predict_moments(X)), 0.0, 1.0)


def _codes(y: Any, classes: np.ndarray, n: int) -> np.ndarray:
    """Codes of labels, -1 for those that no fit has seen."""
    check_lengths(n, y)
    values = name_array(y, "y") if isinstance(y, list) else np.asarray(y)
    return codes_of(values, classes, None)


def _sets(labels: Any, y: Any, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Indicators of label sets, and whether all labels of each are known."""
    check_lengths(n, y)
    if labels.as_sets:
        codes, known = labels._encode_sets(y, None)
    else:
        codes, known = labels.encode(y), np.ones(n, dtype=bool)
    return codes.astype(np.int64), known


def grows(loss: Any) -> bool:
    """Whether outputs are at least three grades and losses grow on both sides of the label."""
    matrix = loss.matrix()
    k = len(matrix)
    if matrix.shape != (k, k) or k < 3 or (np.diag(matrix) != matrix.min(axis=0)).any():
        return False
    rise = np.diff(matrix, axis=0)
    z, y = np.indices(rise.shape)
    return bool((rise[z >= y] > 0).all() and (rise[z < y] < 0).all())


def falls_with_labels(loss: Any) -> bool:
    """Whether more labels never cost more."""
    try:
        return all((loss.by_part(*_both(loss, 1, y)) <= loss.by_part(*_both(loss, 0, y))).all() for y in (0, 1))
    except ValueError:
        return False


def _two_valued(matrix: np.ndarray) -> bool:
    return len(np.unique(matrix)) <= 2
