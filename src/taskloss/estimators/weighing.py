"""Decisions by weights on training labels, for any loss: from its embedding, or from a list of candidates."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from ..data.labels import codes_of, labels_for, listed_by
from ..data.objects import Objects, plain_rows
from ..data.sequences import SequenceLabels
from ..losses.base import Loss, name_array, object_rows
from ..losses.listed import Listed
from ..polytopes._forest import Forest
from ..progress import Progress
from .base import resolve_loss


class Weighing:
    """A loss bound to the training labels, its translator, and their codes.

    decoder and refine are the users' own minimisers, whose outputs need not be on any list.
    """

    def __init__(
        self,
        loss: Any,
        y: Any,
        candidates: Any = None,
        decoder: Callable[..., Any] | None = None,
        refine: Callable[..., Any] | None = None,
        vectorised: bool = False,
        progress: Progress | None = None,
    ):
        self.decoder, self.refine = decoder, refine
        function = callable(loss) and not isinstance(loss, Loss | type)
        self._bind(Listed(loss, vectorised=vectorised) if function else resolve_loss(loss), y)
        if not self.loss.takes_objects and not (candidates is None and decoder is None and self.loss.decodable):
            self._bind(Listed(Table(self.loss, self.translator), candidates=candidates, vectorised=True), y)
        elif candidates is not None:
            self._bind(self.loss.with_params(candidates=candidates), y)
        if self.loss.takes_objects and decoder is None:
            count = None if progress is None else lambda done, total: progress.count(done, total, "pairs")
            self.loss.matrix(count)
            if progress is not None:
                progress.close("All losses are known.")

    def _bind(self, loss: Any, y: Any) -> None:
        self.translator: Any = translator_for(loss, y)
        self.translator.check(listed_by(loss, None))
        self.loss: Any = bound(loss, self.translator)
        self.codes = self.translator.encode(y)

    @cached_property
    def targets(self) -> np.ndarray:
        return self.loss.phi(self.codes, dtype=np.int8 if self.loss.integral_phi else float)

    # -- decisions ---------------------------------------------------------------------------------------------------

    def decide(self, mu: np.ndarray, costs: Any = None) -> Any:
        """The users' outputs of least expected loss."""
        if self.decoder is not None:
            z = object_rows([self.decoder(row, self.translator.classes) for row in mu])
        else:
            z = self.translator.translate(self.loss.decode(mu, costs), self.loss)
        if self.refine is None:
            return z
        return plain_rows([self.refine(one, self._objective(row)) for one, row in zip(z, mu, strict=True)], z)

    def expected(self, mu: np.ndarray, costs: Any = None) -> np.ndarray:
        """The expected loss of what is decided."""
        if self.decoder is None and self.refine is None:
            return self.loss.risk(self.loss.decode(mu, costs), mu, costs)
        return np.array([self._objective(row)(one) for one, row in zip(self.decide(mu), mu, strict=True)])

    def losses(self, z: Any, y: Any, costs: Any = None) -> np.ndarray:
        """The losses of users' outputs against users' labels, row by row."""
        if self.loss.takes_objects and costs is None:
            return self.loss.pairs(z, y)
        return self.translator.losses(self.loss, self.translator.encode_outputs(z, self.loss), y, costs)

    def left_out_losses(self, mu: np.ndarray) -> np.ndarray:
        """The losses at the training points, where each has been left out of its moments mu, before refinement.

        A label that only its own row shows is then no candidate, unless the candidates are given.
        """
        if self.decoder is not None:
            return self.losses([self.decoder(row, self.translator.classes) for row in mu], self._labels)
        if not self.loss.takes_objects or self.loss.candidates is not None or self.translator.size == 1:
            return self.loss(self.loss.decode(mu), self.codes)
        risks = self.loss.expected(mu)
        alone = np.bincount(self.codes)[self.codes] == 1
        risks[alone, self.codes[alone]] = np.inf
        return self.loss(np.argmin(risks, axis=1), self.codes)

    @property
    def _labels(self) -> Any:
        return self.translator.classes[self.codes]

    def _objective(self, mu: np.ndarray) -> Callable[[Any], float]:
        """z -> its expected loss, for any output."""
        if self.loss.takes_objects:
            return lambda z: float(self.loss.against([z])[0] @ mu)
        encode = self.translator.encode_outputs
        return lambda z: float(self.loss.bayes_risk(encode(_one(z), self.loss), mu[None])[0])


class Table:
    """A loss of the library as a function of users' outputs and labels: all losses of some against some."""

    def __init__(self, loss: Loss, translator: Any):
        self.loss, self.translator = loss, translator

    def __call__(self, z: Any, y: Any) -> np.ndarray:
        z, codes = self.translator.encode_outputs(_stack(z), self.loss), self.translator.encode(_stack(y))
        return np.stack([self.loss(np.repeat(z[i : i + 1], len(codes), axis=0), codes) for i in range(len(z))])


# -- translators of labels with one row each, all of one length --------------------------------------------------------


class StructuredRows:
    """Structured labels, one row of numbers each, which a loss reads as they are: relevances, or the column of each row."""

    def __init__(self, y: Any, loss: Loss):
        self.classes = np.arange(_width(loss, y))

    @property
    def size(self) -> int:
        return len(self.classes)

    def check(self, name: str = "y") -> None:
        if self.size == 0:
            raise ValueError(f"The rows of {name} are empty.")

    def encode(self, y: Any) -> np.ndarray:
        return np.asarray(y)

    def outputs(self, loss: Loss) -> np.ndarray:
        return loss.outputs()

    def encode_outputs(self, z: Any, loss: Loss) -> np.ndarray:
        return np.asarray(z)

    def translate(self, z: np.ndarray, loss: Loss) -> np.ndarray:
        return z

    def losses(self, loss: Loss, z: np.ndarray, y: Any, costs: Any = None) -> np.ndarray:
        return loss.realised(z, self.encode(y), costs)


class SequenceRows:
    """Label sequences of one length, one row each; labels of any type."""

    def __init__(self, y: Any, loss: Loss):
        self.length = _width(loss, y)
        self.names = SequenceLabels(np.asarray(y).tolist())
        self.classes = self.names.classes

    @property
    def size(self) -> int:
        return self.names.size

    def check(self, name: str = "y") -> None:
        if self.length == 0:
            raise ValueError(f"The rows of {name} are empty.")

    def encode(self, y: Any) -> np.ndarray:
        rows = np.asarray(y)
        offsets = self.length * np.arange(len(rows) + 1)
        return self.names.encode(rows.tolist(), offsets).reshape(rows.shape)

    def outputs(self, loss: Loss) -> np.ndarray:
        return self.translate(loss.outputs(), loss)

    def losses(self, loss: Loss, z: np.ndarray, y: Any, costs: Any = None) -> np.ndarray:
        return loss.realised(z, self.encode(y), costs)

    def encode_outputs(self, z: Any, loss: Any) -> np.ndarray:
        z = np.asarray(z)
        return codes_of(name_array(z.ravel().tolist()), loss.output_names(self.classes), "output").reshape(z.shape)

    def translate(self, z: np.ndarray, loss: Any) -> np.ndarray:
        return loss.output_names(self.classes)[z]


_STRUCTURES: dict[str, type] = {"ranking": StructuredRows, "matching": StructuredRows, "sequence": SequenceRows}


def translator_for(loss: Loss, y: Any) -> Any:
    """The translator between y, one row for each example, and a loss's codes."""
    if loss.takes_objects:
        return Objects(y, loss)
    return _STRUCTURES[loss.kind](y, loss) if loss.kind in _STRUCTURES else labels_for(loss, y)


def bound(loss: Any, translator: Any) -> Any:
    """The loss with its sizes, and in the embedding that serves any weights."""
    if loss.kind == "matching":
        return loss.bind(translator.size, loss.n_columns)
    loss = loss.bind_names(translator.classes).bind(translator.size)
    if loss.kind == "sequence":
        fixed = loss.length is not None or loss.parents is not None
        loss = loss if fixed else loss.with_params(length=translator.length)
        loss.check(Forest.chains([translator.length]), translator.classes)
    # Ridge regression on indicators and on any other embedding give the same decisions; only in this one is the
    # constant the same for every output, and the weights need not sum to one.
    return loss.in_indicators()


def _width(loss: Loss, y: Any) -> int:
    """How long every row of y is."""
    with contextlib.suppress(ValueError):  # which NumPy raises for rows of unequal lengths
        if np.ndim(y) == 2:
            return np.shape(y)[1]
    raise ValueError(f"{loss!r} needs y with one row per example, all of one length.")


def _stack(values: Any) -> Any:
    """Outputs that are rows of one length as one array, others as they are."""
    same = len({np.shape(v) for v in values}) == 1 and np.ndim(values[0]) == 1
    return np.stack([np.asarray(v) for v in values]) if same else values


def _one(value: Any) -> Any:
    return np.asarray(value)[None] if np.ndim(value) else object_rows([value])
