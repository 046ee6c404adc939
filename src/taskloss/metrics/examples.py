"""Labels, label sets and tagged sequences with predictions, and their confusion."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy import sparse

from .._checks import check_names, said_of
from ..data.labels import LabelSets, _column, _is_sets, _unique, codes_of, family
from ..data.sequences import Packed, SequenceLabels, _flat
from ..data.weights import example_weights
from ..losses.base import name_array
from ..losses.hamming import Hamming
from ..losses.spans import Scheme, matches
from ..polytopes._forest import Forest, offsets_of

if TYPE_CHECKING:
    from .base import Metric


class Examples:
    """Known labels, as codes, with weights that sum to one; outputs are codes of the same shape.

    A subclass defines the contribution of each example to the cells of the confusion, of shape `shape`.
    """

    shape: tuple[int, ...]
    weights: np.ndarray

    def __len__(self) -> int:
        return len(self.weights)

    def share(self, rows: np.ndarray) -> float:
        """The total weight of some of the examples."""
        return float(self.weights[rows].sum())

    def statistics(self, z: np.ndarray) -> Any:
        """The contribution of each example to each cell, sparse, (examples, cells)."""
        raise NotImplementedError

    def take(self, rows: np.ndarray) -> Self:
        """The examples at these rows."""
        raise NotImplementedError

    def confusion(self, z: np.ndarray) -> np.ndarray:
        """The confusion of outputs and labels."""
        return np.asarray(self.weights @ self.statistics(z)).reshape(self.shape)

    def resampled(self, z: np.ndarray, rng: np.random.Generator, size: int) -> np.ndarray:
        """The confusions of `size` bootstrap samples."""
        n = len(self)
        counts = rng.multinomial(n, np.full(n, 1 / n), size) * (self.weights * n)
        return np.asarray(counts @ self.statistics(z)).reshape(size, *self.shape)

    def value(self, metric: Metric, confusion: np.ndarray) -> np.ndarray:
        return metric.value_of_sets(confusion)

    def gradient(self, metric: Metric, confusion: np.ndarray) -> np.ndarray:
        return metric.gradient_of_sets(confusion)

    def number(self, metric: Metric, z: np.ndarray) -> float:
        """The measure of outputs."""
        return metric.number(self.value(metric, self.confusion(z)))


class Labelled(Examples):
    """One label for each example, a code below k."""

    def __init__(self, y: np.ndarray, k: int, weights: np.ndarray):
        self.y, self.k, self.weights = y, k, weights / weights.sum()
        self.shape = (k, k)

    def take(self, rows: np.ndarray) -> Self:
        return type(self)(self.y[rows], self.k, self.weights[rows])

    def statistics(self, z: np.ndarray) -> Any:
        return _ones((z * self.k + self.y)[:, None], self.k**2)

    def confusion(self, z: np.ndarray) -> np.ndarray:
        return np.bincount(z * self.k + self.y, self.weights, self.k**2).reshape(self.shape)

    def resampled(self, z: np.ndarray, rng: np.random.Generator, size: int) -> np.ndarray:
        if np.ptp(self.weights) > 1e-12 * self.weights.max():
            return super().resampled(z, rng, size)
        # With equal weights, the counts of cells in a bootstrap sample are multinomial.
        cells = self.confusion(z).ravel()
        return rng.multinomial(len(self), cells / cells.sum(), size).reshape(size, *self.shape)

    def value(self, metric: Metric, confusion: np.ndarray) -> np.ndarray:
        return metric.value(confusion)

    def gradient(self, metric: Metric, confusion: np.ndarray) -> np.ndarray:
        return metric.gradient(confusion)


class Sets(Examples):
    """A row of 0 and 1 for each example."""

    def __init__(self, y: np.ndarray, weights: np.ndarray):
        self.y, self.weights = y, weights / weights.sum()
        self.shape = (y.shape[1], 2, 2)

    def take(self, rows: np.ndarray) -> Self:
        return type(self)(self.y[rows], self.weights[rows])

    def statistics(self, z: np.ndarray) -> Any:
        return _ones(4 * np.arange(self.y.shape[1]) + 2 * z + self.y, 4 * self.y.shape[1])


class Tagged(Examples):
    """Sequences of tags, as codes of packed nodes, and their spans; true negatives are not counted."""

    def __init__(self, forest: Forest, y: np.ndarray, scheme: Scheme, weights: np.ndarray):
        self.forest, self.y, self.scheme, self.weights = forest, y, scheme, weights / weights.sum()
        self.shape = (len(scheme.kinds), 2, 2)

    def statistics(self, z: np.ndarray) -> Any:
        forest, kinds = self.forest, self.shape[0]
        found, true = self.scheme.spans(forest, z), self.scheme.spans(forest, self.y)
        right, known = matches(found, true, forest.n_nodes), matches(true, found, forest.n_nodes)
        rows = forest.tree_of[np.concatenate([found.first, true.first[~known]])]
        cells = np.concatenate([4 * found.kind + np.where(right, 3, 2), 4 * true.kind[~known] + 1])
        return sparse.csr_array((np.ones(len(rows)), (rows, cells)), shape=(len(forest), 4 * kinds))


def _ones(cells: np.ndarray, width: int) -> Any:
    """A sparse matrix with a one in each of these cells, by row."""
    n, per_row = cells.shape
    return sparse.csr_array((np.ones(cells.size), cells.ravel(), per_row * np.arange(n + 1)), shape=(n, width))


# -- from users' own labels ------------------------------------------------------------------------------------------


def read(
    metric: Metric, y_true: Any, y_pred: Any, sample_weight: Any = None, labels: Any = None, name: str = "y_true"
) -> tuple[Metric, Examples, np.ndarray]:
    """The measure bound to the labels, the known labels, and the predictions as codes; `name` is the argument of the known ones."""
    if metric.scheme() is not None:
        return _read_tags(metric, y_true, y_pred, sample_weight, name)
    with said_of(name, "hold a label, or a set of labels, for each example"):
        sets = is_sets(y_true)
    if sets:
        return _read_sets(metric, y_true, y_pred, sample_weight, name)
    y, z = _column(y_true, name), _column(y_pred, "y_pred")
    _check_alike(len(y), len(z), name)
    if labels is None:
        if family(y) != family(z) and "O" not in (y.dtype.kind, z.dtype.kind):
            raise ValueError(
                f"{name} and y_pred must hold labels of one type, got {y.dtype} and {z.dtype}: make them all strings or all numbers."
            )
        known = name_array(_unique(np.concatenate([y, z]), f"{name} and y_pred"))
    else:
        check_names("labels", labels)
        known = name_array(labels)
    weights = example_weights(sample_weight, len(y))
    examples = Labelled(codes_of(y, known, "label", name), len(known), weights)
    return metric.bind_names(known), examples, codes_of(z, known, "output", "y_pred")


def _check_alike(known: int, predicted: int, name: str) -> None:
    if known != predicted:
        raise ValueError(f"{name} and y_pred have different lengths: {known} and {predicted}.")
    if not known:
        raise ValueError(f"{name} is empty: a measure needs examples.")


def _read_sets(
    metric: Metric, y_true: Any, y_pred: Any, sample_weight: Any, name: str
) -> tuple[Metric, Examples, np.ndarray]:
    both = f"{name} and y_pred"
    form = "be two indicator matrices with the same columns, or two lists of sets of labels"
    order = None
    with said_of(both, form):
        if _is_sets(y_true) != _is_sets(y_pred):
            raise ValueError(f"{both} must {form}: one of them is a list of sets.")
        if _is_sets(y_true):
            order = _unique(name_array([label for rows in (y_true, y_pred) for row in rows for label in row]), both)
        elif (shapes := (np.shape(y_true)[1:], np.shape(y_pred)[1:]))[0] != shapes[1]:
            raise ValueError(f"{both} must {form}: got shapes {np.shape(y_true)} and {np.shape(y_pred)}.")
        translator = LabelSets(y_true, Hamming(), order)
        y, z = translator.encode(y_true, name), translator.encode(y_pred, "y_pred")
    _check_alike(len(y), len(z), name)
    return metric.bind_names(translator.classes), Sets(y, example_weights(sample_weight, len(y))), z.astype(np.int64)


def _read_tags(
    metric: Metric, y_true: Any, y_pred: Any, sample_weight: Any, name: str
) -> tuple[Metric, Examples, np.ndarray]:
    both = f"{name} and y_pred"
    with said_of(both, "be two lists of sequences of tags"):
        lengths = [[len(row) for row in rows] for rows in (y_true, y_pred)]
        if lengths[0] != lengths[1]:
            raise ValueError(f"{both} must be sequences of tags of the same lengths.")
        if not lengths[0]:
            raise ValueError(f"{name} is empty: a measure needs examples.")
        names = name_array(sorted({*_flat(y_true), *_flat(y_pred), "O"}))
    scheme = Scheme(names, metric.scheme() or "BIO")
    forest, offsets = Forest.chains(lengths[0]), offsets_of(lengths[0])
    translator = SequenceLabels([], names)
    y, z = (translator.encode(rows, offsets) for rows in (y_true, y_pred))
    return metric, Tagged(forest, y, scheme, example_weights(sample_weight, len(forest), "sequences")), z


def is_sets(y: Any) -> bool:
    """Whether y holds a set of labels for each example, and not one label."""
    return _is_sets(y) or (hasattr(y, "shape") and len(y.shape) == 2 and y.shape[1] != 1)


def flat(y: Any) -> np.ndarray:
    """The labels of all positions, as one list of labels."""
    return name_array(_flat(y).tolist())


def rows_of(X: Any, y: Any) -> Any:
    """Labels of packed sequences, one array per sequence."""
    if isinstance(X, Packed) and np.ndim(y) == 1:
        return np.split(np.asarray(y), np.asarray(X.offsets)[1:-1])
    return y
