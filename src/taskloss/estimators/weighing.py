"""Outputs of least loss under weights on training labels: from a loss's embedding, or from a list of candidates."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from ..data.labels import codes_of, labels_for
from ..losses.base import Loss, name_array
from ..losses.chain import SequenceZeroOne
from ..losses.tabular import CostMatrix, Tabular
from ..polytopes._forest import Forest
from ..sequences import SequenceLabels
from ..solvers.base import Progress

_SEQUENCES = 1 << 12  # label sequences up to which all are weighed under sequence 0-1 loss


class Embedded:
    """A loss of the library: averages of phi(y), decoded by the loss itself."""

    def __init__(self, loss: Any, y: Any):
        self.translator: Any
        if loss.kind in _STRUCTURES:
            self.translator = _STRUCTURES[loss.kind](loss, y)
            loss = self.translator.bind(loss)
        else:
            self.translator = labels_for(loss, y)
            self.translator.check()
            loss = loss.bind_names(self.translator.classes).bind(self.translator.size)
        # Ridge regression on indicators and on any other embedding give the same decisions; only in this one is the
        # constant the same for every output, and the weights need not sum to one.
        self.loss = loss.with_params(embedding="canonical") if isinstance(loss, Tabular) else loss
        self.codes = self.translator.encode(y)
        self.labels = self.translator.classes

    @property
    def decodes(self) -> bool:
        """Whether the loss can be decoded from its embedding: sequence 0-1 loss only where all sequences can be listed."""
        loss = self.loss
        return not isinstance(loss, SequenceZeroOne) or float(loss.n_labels) ** loss.tree().n_nodes <= _SEQUENCES

    @cached_property
    def targets(self) -> np.ndarray:
        return self.loss.phi(self.codes)

    def decode(self, mu: np.ndarray, costs: Any = None) -> np.ndarray:
        return self.loss.decode(mu, costs)

    def outputs(self, z: np.ndarray) -> Any:
        return self.translator.translate(z, self.loss)

    def losses(self, mu: np.ndarray) -> np.ndarray:
        return self.loss(self.decode(mu), self.codes)

    def expected(self, z: np.ndarray, mu: np.ndarray, costs: Any = None) -> np.ndarray:
        return self.loss.risk(z, mu, costs)

    def objective(self, mu: np.ndarray) -> Callable[[Any], float]:
        encode = self.translator.encode_outputs
        return lambda z: float(self.expected(encode(_one(z), self.loss), mu[None])[0])

    def pairwise(self, z: Any, y: Any) -> np.ndarray:
        return self.loss(self.translator.encode_outputs(z, self.loss), self.translator.encode(y))

    def table(self, z: Any, y: Any) -> np.ndarray:
        """All losses of outputs z against labels y."""
        z, codes = self.translator.encode_outputs(_stack(z), self.loss), self.translator.encode(_stack(y))
        return np.stack([self.loss(np.repeat(z[i : i + 1], len(codes), axis=0), codes) for i in range(len(z))])


class _Rows:
    """Structured labels, one row of numbers each, which a loss reads as they are."""

    def __init__(self, loss: Loss, y: Any):
        self.classes = np.arange(_width(loss, y))

    def bind(self, loss: Any) -> Loss:
        return loss.bind(len(self.classes), *((loss.n_columns,) if loss.kind == "matching" else ()))

    def encode(self, y: Any) -> np.ndarray:
        return np.asarray(y)

    def encode_outputs(self, z: Any, loss: Loss) -> np.ndarray:
        return np.asarray(z)

    def translate(self, z: np.ndarray, loss: Loss) -> np.ndarray:
        return z


class _Sequences:
    """Label sequences of one length, one row each; labels of any type."""

    def __init__(self, loss: Loss, y: Any):
        self.length = _width(loss, y)
        self.names = SequenceLabels(np.asarray(y).tolist())
        self.classes = self.names.classes

    def bind(self, loss: Any) -> Loss:
        loss = loss.bind(self.names.size)
        fixed = loss.length is not None or loss.parents is not None
        loss = loss if fixed else loss.with_params(length=self.length)
        loss.check(Forest.chains([self.length]), self.classes)
        return loss

    def encode(self, y: Any) -> np.ndarray:
        rows = np.asarray(y)
        offsets = self.length * np.arange(len(rows) + 1)
        return self.names.encode(rows.tolist(), offsets).reshape(rows.shape)

    def encode_outputs(self, z: Any, loss: Any) -> np.ndarray:
        z = np.asarray(z)
        return codes_of(name_array(z.ravel().tolist()), loss.output_names(self.classes), "output").reshape(z.shape)

    def translate(self, z: np.ndarray, loss: Any) -> np.ndarray:
        return loss.output_names(self.classes)[z]


_STRUCTURES: dict[str, type] = {"ranking": _Rows, "matching": _Rows, "sequence": _Sequences}


def _width(loss: Loss, y: Any) -> int:
    """How long every row of y is."""
    with contextlib.suppress(ValueError):  # which NumPy raises for rows of unequal lengths
        if np.ndim(y) == 2:
            return np.shape(y)[1]
    raise ValueError(f"{loss!r} needs y with one row per example, all of one length.")


class Listed:
    """A callable loss: weights over the distinct labels, and the losses of each candidate against them in a table."""

    def __init__(
        self,
        loss: Callable,
        y: Any,
        candidates: Any,
        decoder: Callable | None,
        vectorised: bool,
        progress: Progress | None = None,
    ):
        self.loss, self.decoder, self.vectorised = loss, decoder, vectorised
        y = as_rows(y)
        first: dict[Any, int] = {}
        self.codes = np.array([first.setdefault(_key(one), len(first)) for one in y])
        self.labels = y[np.unique(self.codes, return_index=True)[1]]
        self.targets = np.eye(len(first))[self.codes]
        self.alone = np.bincount(self.codes)[self.codes] == 1
        self.chosen = candidates is None
        self.candidates = self.labels if candidates is None else as_rows(candidates)
        if not len(self.candidates):
            raise ValueError("There are no candidates to choose from.")
        self.table = None if decoder is not None else self._table(self.candidates, self.labels, progress)

    def _table(self, z: Any, y: Any, progress: Progress | None = None) -> np.ndarray:
        """All losses L(z, y), checked."""
        if self.vectorised:
            table = np.asarray(self.loss(z, y), dtype=float)
            if table.shape != (len(z), len(y)):
                raise ValueError(
                    f"A vectorised loss must return one number for each output and label, shape {(len(z), len(y))}, but returned {table.shape}."
                )
        else:
            table = np.empty((len(z), len(y)))
            for i, one in enumerate(z):
                table[i] = [_number(self.loss(one, other)) for other in y]
                if progress is not None:
                    progress.count((i + 1) * len(y), len(z) * len(y), "pairs")
            if progress is not None:
                progress.close("All losses are known.")
        if not np.isfinite(table).all():
            i, j = np.argwhere(~np.isfinite(table))[0]
            raise ValueError(
                f"The loss returned {table[i, j]} for the output {z[i]!r} and the label {y[j]!r}; it must be finite."
            )
        return table

    def decode(self, mu: np.ndarray, costs: Any = None, hidden: np.ndarray | None = None) -> Any:
        if self.decoder is not None:
            return as_rows([self.decoder(row, self.labels) for row in mu])
        scores = CostMatrix(self.table).expected(mu, costs)
        if hidden is not None:
            scores[hidden, self.codes[hidden]] = np.inf
        return np.argmin(scores, axis=1)

    def outputs(self, z: Any) -> Any:
        return z if self.decoder is not None else like_rows(self.candidates[z], self.candidates)

    def losses(self, mu: np.ndarray) -> np.ndarray:
        """L at the training points; a label that only its own row shows is no candidate where that row is left out."""
        z = self.decode(mu, hidden=self.alone if self.chosen and len(self.candidates) > 1 else None)
        if self.decoder is not None:
            return self.pairwise(z, self.labels[self.codes])
        assert self.table is not None
        return self.table[z, self.codes]

    def expected(self, z: Any, mu: np.ndarray, costs: Any = None) -> np.ndarray:
        if self.decoder is not None:
            return np.array([self.objective(row)(one) for one, row in zip(z, mu, strict=True)])
        return CostMatrix(self.table).risk(z, mu, costs)

    def objective(self, mu: np.ndarray) -> Callable[[Any], float]:
        return lambda z: float(self._table(as_rows([z]), self.labels)[0] @ mu)

    def pairwise(self, z: Any, y: Any) -> np.ndarray:
        z, y = as_rows(z), as_rows(y)
        return np.array([self._table(z[i : i + 1], y[i : i + 1])[0, 0] for i in range(len(y))])


def as_rows(values: Any) -> np.ndarray:
    """Objects of any type, one per row: numbers and strings as they are, others in an array of objects."""
    if hasattr(values, "shape") and not hasattr(values, "columns"):
        return values if not hasattr(values, "to_numpy") else values.to_numpy()
    if hasattr(values, "to_numpy"):
        return values.to_numpy()
    out = np.empty(len(values), dtype=object)
    out[:] = list(values)
    return out


def _stack(values: Any) -> Any:
    """Outputs that are rows of one length as one array, others as they are."""
    same = len({np.shape(v) for v in values}) == 1 and np.ndim(values[0]) == 1
    return np.stack([np.asarray(v) for v in values]) if same else values


def like_rows(values: Any, template: Any) -> Any:
    """Plain numbers and strings as an array of their own, other outputs as they are."""
    rows = values if isinstance(values, np.ndarray) else as_rows(values)
    if isinstance(template, np.ndarray) and template.dtype != object:
        return np.asarray(rows.tolist()) if rows.dtype == object else rows
    return rows


def _one(value: Any) -> Any:
    return np.asarray(value)[None] if np.ndim(value) else as_rows([value])


def _key(value: Any) -> Any:
    """Something to tell labels apart by."""
    if isinstance(value, np.ndarray):
        return value.shape, value.tobytes()
    if isinstance(value, list):
        return tuple(_key(v) for v in value)
    return frozenset(value) if isinstance(value, set) else value


def _number(value: Any) -> float:
    try:
        if np.ndim(value) == 0:
            return float(value)
    except (TypeError, ValueError):
        pass
    shape = np.shape(value) if hasattr(value, "__len__") and not isinstance(value, str) else ()
    what = f"an array of shape {shape}" if shape else repr(value)
    raise ValueError(
        f"The loss must return one number for an output z and a label y, but returned {what}; or set vectorised=True."
    )
