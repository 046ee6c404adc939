"""Losses over a short list of labels, given by a table."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils.validation import check_array

from .._checks import check_number, real_array, said_of
from ..polytopes.base import Polytope
from ..polytopes.hull import Hull
from ..polytopes.simplex import Simplex
from ._minimum import least
from .base import Array, Loss, check_codes, name_array

_KEPT_SIZE = 1 << 12  # entries of a cost matrix up to which its decomposition is kept
_Stored = tuple[bytes, tuple[int, ...]]


class Tabular(Loss):
    """matrix[z, y] over labels 0..k-1, with a choice of embedding. A new one gives `matrix` and, if its labels are
    counted, `n_classes`.

    embedding "canonical" (the default, "auto", starts there): phi(y) = e_y, psi(z) = row z, M the simplex. embedding
    "cube": phi(y) in {-1, 1}^r, in which a few coordinates order the labels; the thresholds 2 1(y > j) - 1 of the
    paper's ordinal section. An array with one row per label is used as it is. Any loss on k labels is affine in an
    embedding whose rows are affinely independent, though its constant may then depend on the output.
    """

    kind = "classes"
    base_constant: ClassVar[float] = 0.0  # the scalar c in the canonical embedding
    ordered: ClassVar[bool] = False  # whether the cube is a natural home of the labels

    embedding: Any = "auto"
    n_classes: int | None

    def __init__(self, n_classes: int | None = None, embedding: Any = "auto"):
        self.n_classes = n_classes
        self.embedding = embedding

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(4), cls(4, embedding="cube")]

    @property
    def n_labels(self) -> int:
        return self._count()

    def _count(self) -> int:
        if self.n_classes is None:
            raise ValueError(
                f"{self!r} does not know its number of labels yet: give n_classes, or call bind(n_classes)."
            )
        return self.n_classes

    @property
    def n_outputs(self) -> int:
        return len(self.matrix())

    def bind(self, size: int) -> Self:
        if self.n_classes is None:
            return self.with_params(n_classes=size)
        if self.n_classes != size:
            raise ValueError(f"{self!r} is a loss over {self.n_classes} labels, but y has {size} classes.")
        return self

    @property
    def canonical(self) -> bool:
        return isinstance(self.embedding, str) and self.embedding in ("auto", "canonical")

    def variants(self, thresholds: bool = False) -> list[Self]:
        choices = ["canonical", "cube"] if self.ordered or thresholds else ["canonical"]
        if not (isinstance(self.embedding, str) and self.embedding == "auto"):
            return [self]
        return [self.with_params(embedding=choice) for choice in choices]

    # -- the embedding -----------------------------------------------------------------------------------------------

    @property
    def table(self) -> np.ndarray:
        """phi(y) as rows."""
        if not isinstance(self.embedding, str):
            with said_of("embedding", "have one row of numbers for each label"):
                table = check_array(self.embedding, dtype=float, input_name="embedding")
            if len(table) != self.n_labels:
                raise ValueError(f"The embedding has {len(table)} rows, but the loss has {self.n_labels} labels.")
            return table
        if self.canonical:
            return np.eye(self.n_labels)
        if self.embedding == "cube":
            return self._cube()
        raise ValueError(f"embedding must be 'canonical', 'cube' or an array, got {self.embedding!r}.")

    def _cube(self) -> np.ndarray:
        return 2.0 * np.tri(self.n_labels, self.n_labels - 1, -1) - 1

    @property
    def polytope(self) -> Polytope:
        if self.canonical:
            return Simplex(self.n_labels)
        return Hull(self.table)

    def probabilities(self, mu: Array) -> np.ndarray:
        """The law over labels that the moments mu stand for; outside M, some entries are negative."""
        return mu if self.canonical else Hull(self.table).weights(mu)

    def in_indicators(self) -> Self:
        return self if self.takes_objects else self.with_params(embedding="canonical")

    def moments(self, proba: Array) -> Array:
        return proba if self.canonical else np.asarray(proba) @ self.table

    def _decomposition(self) -> tuple[np.ndarray, Any]:
        """psi as rows, and the constant: a number where one does."""
        matrix, table = self.matrix(), self.table
        if self.canonical:
            return matrix - self.base_constant, self.base_constant
        if matrix.size <= _KEPT_SIZE:  # a decision on few examples takes less than this does
            tables = (np.ascontiguousarray(x, dtype=float) for x in (matrix, table))
            solution = _kept_solution(*((x.tobytes(), x.shape) for x in tables))
        else:
            solution = _affine_solution(matrix, table)
        if solution is None:
            raise ValueError(f"{type(self).__name__} is not affine in this embedding: use embedding='canonical'.")
        psi, constant = solution[:-1].T, solution[-1]
        return psi, float(constant[0]) if np.ptp(constant) < 1e-9 * max(1.0, np.abs(constant).max()) else constant

    def moments_for(self, other: Loss, mu: Array) -> Array:
        if isinstance(other, Tabular) and other.canonical:
            return self.probabilities(mu)
        return super().moments_for(other, mu)

    def embedded_like(self, other: Loss) -> Self:
        """The same loss in another one's embedding, or in the canonical one where that is the other's own."""
        assert isinstance(other, Tabular)
        same = self.with_params(embedding=other.embedding)
        return same if np.array_equal(same.table, other.table) else self.with_params(embedding="canonical")

    # -- the loss ----------------------------------------------------------------------------------------------------

    def phi(self, y: Array, dtype: Any = float) -> np.ndarray:
        return self.table.astype(dtype)[check_codes(y, self.n_labels, "labels")]

    def psi(self, z: Array) -> np.ndarray:
        return self._decomposition()[0][check_codes(z, self.n_outputs, "outputs")]

    @property
    def constant(self) -> Any:
        return self._decomposition()[1]

    def offset(self, z: Array) -> Any:
        constant = self.constant
        return constant if np.ndim(constant) == 0 else constant[check_codes(z, len(constant), "outputs")]

    def __call__(self, z: Array, y: Array) -> np.ndarray:
        matrix = self.matrix()
        return matrix[check_codes(z, matrix.shape[0], "outputs"), check_codes(y, matrix.shape[1], "labels")]

    def expected(self, mu: Array, costs: Array | None = None) -> np.ndarray:
        """The expected loss of every output, one column each.

        costs that differ per example: an array (n, Z, Y) takes the place of the matrix, and an array (n, Z) is added
        to the expected loss, as a price of its own for each output.
        """
        mu = np.asarray(mu)
        if costs is None:
            psi, constant = self._decomposition()
            return mu @ psi.T + constant
        costs = self._check_costs(costs, len(mu))
        if costs.ndim == 3:
            return np.einsum("nzy,ny->nz", costs, self.probabilities(mu))
        return self.expected(mu) + costs

    def _check_costs(self, costs: Array, n: int) -> np.ndarray:
        costs = real_array("costs", costs, "prices")
        shape = (n, *self.matrix().shape)
        if costs.shape not in (shape, shape[:2]):
            raise ValueError(
                f"costs must have shape {shape} or {shape[:2]}, prices for each of the {n} examples, got {costs.shape}."
            )
        if not np.isfinite(costs).all():
            raise ValueError("costs contains NaN or infinite values.")
        return costs

    def _of_outputs(self, z: Array, costs: Array) -> np.ndarray:
        """The costs of the outputs z: (n, Y) where they depend on the label, (n,) where they are prices added to the loss."""
        costs = self._check_costs(costs, len(z))
        return costs[np.arange(len(costs)), check_codes(z, self.n_outputs, "outputs")]

    def decode(self, mu: Array, costs: Array | None = None) -> np.ndarray:
        if costs is None:
            return least(np.asarray(mu), *self._decomposition())
        return np.argmin(self.expected(mu, costs), axis=-1)

    def risk(self, z: Array, mu: Array, costs: Array | None = None) -> np.ndarray:
        if costs is None:
            return self.bayes_risk(z, mu)
        return np.take_along_axis(self.expected(mu, costs), np.asarray(z)[:, None], axis=1)[:, 0]

    def realised(self, z: Array, y: Array, costs: Array | None = None) -> np.ndarray:
        if costs is None:
            return self(z, y)
        costs = self._of_outputs(z, costs)
        if costs.ndim == 1:
            return self(z, y) + costs
        return costs[np.arange(len(costs)), check_codes(y, self.n_labels, "labels")]

    def worst(self, z: Array, costs: Array | None = None) -> np.ndarray:
        worst = self.matrix().max(axis=1)[check_codes(z, self.n_outputs, "outputs")]
        if costs is None:
            return worst
        costs = self._of_outputs(z, costs)
        return worst + costs if costs.ndim == 1 else costs.max(axis=1)

    def outputs(self) -> np.ndarray:
        return np.arange(self.n_outputs)

    def labels(self) -> np.ndarray:
        return np.arange(self.n_labels)

    # -- the users' own names ----------------------------------------------------------------------------------------

    def _places(self, classes: np.ndarray) -> list[int] | None:
        """The column of each of these labels, where the loss names the same ones in another order."""
        names = self.label_names()
        if names is None or names.tolist() == classes.tolist():
            return None
        place = {name: j for j, name in enumerate(names.tolist())}
        if place.keys() != set(classes.tolist()):
            raise ValueError(
                f"{type(self).__name__} names its labels {names.tolist()}, but the labels in use are {classes.tolist()}: name the same ones."
            )
        return [place[label] for label in classes.tolist()]


class ZeroOne(Tabular):
    """L(z, y) = 1(z != y) = 1 - <e_z, e_y>; decoding is the argmax of the probabilities."""

    name = "zero-one"
    base_constant = 1.0

    def matrix(self) -> np.ndarray:
        return 1.0 - np.eye(self.n_labels)


class Absolute(Tabular):
    """L(z, y) = |z - y| on ordered labels; decoding is the median. In the cube it is (k-1)/2 - <phi(z), phi(y)>/2, a Hamming loss."""

    name = "absolute"
    ordered = True

    def matrix(self) -> np.ndarray:
        codes = np.arange(float(self.n_labels))
        return np.abs(codes[:, None] - codes)


class Squared(Tabular):
    """L(z, y) = (z - y)^2 on ordered labels; decoding is the label nearest to the mean."""

    name = "squared"
    ordered = True

    def matrix(self) -> np.ndarray:
        codes = np.arange(float(self.n_labels))
        return (codes[:, None] - codes) ** 2


class Abstain(Tabular):
    """0-1 loss with one more output, the last, that costs `cost` whatever the label (worth it where no label is more
    likely than 1 - cost).

    In predictions the output is called `output`, by default "abstain", or -1 where labels are numbers.
    """

    name = "abstain"
    base_constant = 1.0

    def __init__(self, n_classes: int | None = None, cost: float = 0.5, output: Any = None, embedding: Any = "auto"):
        self.n_classes = n_classes
        self.cost = cost
        self.output = output
        self.embedding = embedding

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(4, 0.3), cls(4, 0.3, embedding="cube")]

    def bind(self, size: int) -> Self:
        self._check_cost()
        return super().bind(size)

    def _check_cost(self) -> None:
        check_number("The cost of abstaining", self.cost)

    def matrix(self) -> np.ndarray:
        self._check_cost()
        return np.vstack([1.0 - np.eye(self.n_labels), np.full(self.n_labels, float(self.cost))])

    def output_names(self, classes: np.ndarray) -> np.ndarray:
        name = self.output
        if name is None:
            name = -1 if classes.dtype.kind in "iuf" else "abstain"
        if name in classes.tolist():
            raise ValueError(f"{name!r} is a label already: give Abstain another output name with output=...")
        return _append(classes, name)


class CostMatrix(Tabular):
    """Any costs: matrix[z, y] is the cost of output z where the label is y; outputs and labels may differ.

    A pandas DataFrame brings its own names (rows outputs, columns labels); `outputs` and `labels` name them
    otherwise; its default 0, 1, ... names nothing. Without names the columns stand for the sorted classes of y, and the
    outputs are the classes where the matrix is square and 0, 1, ... where not.
    """

    name = "cost-matrix"

    def __init__(
        self,
        matrix: Any = None,
        outputs: Sequence[Any] | None = None,
        labels: Sequence[Any] | None = None,
        embedding: Any = "auto",
    ):
        self._matrix = matrix
        self._outputs = outputs
        self._labels = labels
        self.embedding = embedding

    aliases = {"matrix": "_matrix", "outputs": "_outputs", "labels": "_labels"}

    @classmethod
    def examples(cls) -> list[Self]:
        rectangular = np.random.default_rng(0).uniform(0, 3, (5, 3)).round(2)
        return [cls([[0, 1, 4], [5, 0, 1], [2, 2, 0]]), cls(rectangular), cls(rectangular, embedding="cube")]

    def matrix(self) -> np.ndarray:
        if self._matrix is None:
            raise ValueError("CostMatrix needs its matrix[z, y] of costs.")
        try:
            matrix = np.asarray(self._matrix, dtype=float)
        except (TypeError, ValueError) as error:
            raise ValueError(f"The cost matrix must be numbers in two dimensions: {error}.") from error
        if matrix.ndim != 2 or matrix.size == 0:
            raise ValueError(f"The cost matrix must have two dimensions and not be empty, got shape {matrix.shape}.")
        if not np.isfinite(matrix).all():
            raise ValueError("The cost matrix contains NaN or infinite values: replace them by finite costs.")
        return matrix

    def _count(self) -> int:
        return self.matrix().shape[1]

    def bind(self, size: int) -> Self:
        shape = self.matrix().shape
        if shape[1] != size:
            raise ValueError(f"The cost matrix has shape {shape}, one column per label, but y has {size} classes.")
        self._names(self._outputs, "index", shape[0])
        return self

    def bind_names(self, classes: np.ndarray) -> Self:
        places = self._places(classes)
        if places is None:
            return self
        return self.with_params(
            matrix=self.matrix()[:, places],
            outputs=self.output_names(self.label_names()),
            labels=classes,
            embedding=self.embedding if isinstance(self.embedding, str) else np.asarray(self.embedding)[places],
        )

    def _names(self, given: Sequence[Any] | None, axis: str, count: int) -> np.ndarray | None:
        names = given
        if names is None and hasattr(self._matrix, "columns"):  # a data frame; polars has no row names
            names = getattr(self._matrix, axis, None)
            if type(names).__name__ == "RangeIndex":  # pandas' own numbers, which nobody gave
                names = None
        if names is None:
            return None
        if len(names) != count:
            raise ValueError(
                f"{len(names)} names were given for the {count} {'rows' if axis == 'index' else 'columns'} of the cost matrix."
            )
        return name_array(names)

    def label_names(self) -> np.ndarray | None:
        return self._names(self._labels, "columns", self.n_labels)

    def output_names(self, classes: Any) -> np.ndarray:
        rows = self.n_outputs
        names = self._names(self._outputs, "index", rows)
        if names is not None:
            return names
        return classes if rows == len(classes) else np.arange(rows)


def _affine_solution(matrix: np.ndarray, table: np.ndarray) -> np.ndarray | None:
    """The rows psi' and the constants with matrix = psi table' + constant, or None where there are none."""
    design = np.hstack([table, np.ones((len(table), 1))])
    solution = np.linalg.lstsq(design, matrix.T, rcond=None)[0]
    fits = np.allclose(design @ solution, matrix.T, atol=1e-8 * max(1.0, np.abs(matrix).max()))
    solution.setflags(write=False)
    return solution if fits else None


@lru_cache(maxsize=32)
def _kept_solution(matrix: _Stored, table: _Stored) -> np.ndarray | None:
    return _affine_solution(*(np.frombuffer(data).reshape(shape) for data, shape in (matrix, table)))


def _append(classes: np.ndarray, name: Any) -> np.ndarray:
    """classes and one more, in a dtype that holds both."""
    if classes.dtype.kind == "O" or (isinstance(name, str) and classes.dtype.kind not in "US"):
        out = np.empty(len(classes) + 1, dtype=object)
        out[:-1], out[-1] = classes, name
        return out
    return np.append(classes, np.asarray([name]))
