"""A loss that is only a function: its values on a list of labels and a list of candidate outputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np

from .._checks import said_of
from .base import Loss, object_rows
from .tabular import Tabular


def _absolute_difference(z: float, y: float) -> float:
    return abs(z - y)


class Listed(Tabular):
    """L(z, y) = function(z, y) for outputs and labels of any type: strings, sets, rankings, points on a sphere.

    It is decoded from the law over the labels that are listed, as any loss on a list of labels is: phi(y) = e_y, psi(z) =
    (L(z, y_j))_j, c = 0, M the simplex. With function(z, y) = 1(z != y) it equals `ZeroOne`.

    Parameters
    ----------
    function : L(z, y), a number for one output and one label; with `vectorised`, of sequences Z and Y, all len(Z) x len(Y)
        numbers.
    labels : the labels in the order of their codes; left out, those of y.
    candidates : the outputs to choose from; left out, the labels.
    vectorised : whether function takes sequences.

    Examples
    --------
    >>> import numpy as np
    >>> from taskloss.losses import Listed
    >>> def letters(z, y):
    ...     return len(set(z) ^ set(y))
    >>> loss = Listed(letters, labels=["plum", "plums", "pear"])
    >>> loss.matrix()
    array([[0., 1., 6.],
           [1., 0., 7.],
           [6., 7., 0.]])
    >>> loss.decode(np.array([[0.4, 0.3, 0.3]]))
    array([0])
    """

    name = "listed"
    takes_objects = True
    embedding = "canonical"
    aliases = {"labels": "_labels"}

    def __init__(
        self,
        function: Callable[..., Any] | None = None,
        labels: Sequence[Any] | None = None,
        candidates: Sequence[Any] | None = None,
        vectorised: bool = False,
    ):
        self.function = function
        self._labels = labels
        self.candidates = candidates
        self.vectorised = vectorised

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(_absolute_difference, labels=[0, 1, 3]), cls(_absolute_difference, [0, 1, 3], candidates=[0, 2])]

    # -- labels and outputs ------------------------------------------------------------------------------------------

    def _count(self) -> int:
        if self._labels is None:
            raise ValueError("Listed does not know its labels yet: give labels, or call bind_names(labels).")
        return len(self._labels)

    def bind(self, size: int) -> Self:
        if self._labels is not None and len(self._labels) != size:
            raise ValueError(f"The loss lists {len(self._labels)} labels, but y has {size}.")
        return self

    def bind_names(self, classes: np.ndarray) -> Self:
        if self.function is None:
            raise ValueError("Listed needs its function L(z, y).")
        return self.with_params(labels=classes)

    def label_names(self) -> np.ndarray | None:
        return None if self._labels is None else object_rows(self._labels)

    def output_names(self, classes: np.ndarray) -> np.ndarray:
        return object_rows(classes if self.candidates is None else self.candidates)

    def embedded_like(self, other: Loss) -> Self:
        return self

    # -- the table ---------------------------------------------------------------------------------------------------

    def matrix(self, count: Callable[[int, int], None] | None = None) -> np.ndarray:
        """matrix[z, y], found once; count(done, total) is told how many pairs are known."""
        if "_matrix" not in self.__dict__:
            self._count()
            outputs = self.output_names(object_rows(self._labels))
            if not len(outputs):
                raise ValueError("There are no candidates to choose from.")
            self._matrix = self.against(outputs, count)
        return self._matrix

    def against(self, z: Any, count: Callable[[int, int], None] | None = None) -> np.ndarray:
        """The losses of any outputs, candidates or not, against every label."""
        return self._values(object_rows(z), object_rows(self._labels), count)

    def pairs(self, z: Any, y: Any) -> np.ndarray:
        """The losses of any outputs against any labels, listed or not, row by row."""
        z, y = object_rows(z), object_rows(y)
        return np.array([self._values(z[i : i + 1], y[i : i + 1])[0, 0] for i in range(len(y))])

    def _values(self, z: Any, y: Any, count: Callable[[int, int], None] | None = None) -> np.ndarray:
        if self.function is None:
            raise ValueError("Listed needs its function L(z, y).")
        if self.vectorised:
            table = np.asarray(self.function(z, y), dtype=float)
            if table.shape != (len(z), len(y)):
                raise ValueError(
                    f"A vectorised loss must return one number for each output and label, shape {(len(z), len(y))}, but returned {table.shape}."
                )
        else:
            table = np.empty((len(z), len(y)))
            for i, one in enumerate(z):
                with said_of("function", f"take each of labels and candidates, the output {one!r} among these"):
                    table[i] = [_number(self.function(one, other)) for other in y]
                if count is not None:
                    count((i + 1) * len(y), len(z) * len(y))
        if not np.isfinite(table).all():
            i, j = np.argwhere(~np.isfinite(table))[0]
            raise ValueError(
                f"The loss returned {table[i, j]} for the output {z[i]!r} and the label {y[j]!r}; it must be finite."
            )
        return table


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
