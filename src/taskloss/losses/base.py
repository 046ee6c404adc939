"""What a discrete loss is: L(z, y) = <psi(z), phi(y)> + c(z)."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np

from .._checks import check_whole, is_list, real_array
from ..polytopes.base import Polytope
from ..registry import Part

Array = Any


class Loss(Part):
    """What you are judged by, split into a label's embedding phi and an output's embedding psi.

    Labels y and outputs z are codes: integers from 0, or rows of 0 and 1 for label sets; the estimators translate
    users' own labels. `constant` is the paper's scalar c; an embedding that cannot do with one has a constant for
    each output, and `offset(z)` reads either.

    `kind` says how y looks: "classes" (one label per row), "indicator" (a row of 0 and 1), or the name of a structure
    that has an estimator of its own ("ranking", "matching").
    """

    guarded = ("__call__", "phi", "psi", "decode", "bayes_risk", "risk", "realised", "worst", "matrix", "bind")
    kind: ClassVar[str]
    integral_phi: ClassVar[bool] = True  # phi has small integer entries, which estimators store in one byte each
    signs: ClassVar[bool] = False  # phi is one sign for each label of a set
    coordinatewise: ClassVar[bool] = False  # outputs are all rows of 0 and 1, and each coordinate costs by itself
    constant_by_output: ClassVar[bool] = False  # whether c depends on the output in every embedding that it has
    takes_objects: ClassVar[bool] = False  # labels and outputs may be objects of any type, on a list of their own

    def diagnose(self, given: dict[str, Any], error: Exception) -> None:
        shapes = {}
        for name, value in given.items():
            if name in ("size", "n_columns"):
                check_whole(name, value)
            elif name in ("z", "y", "mu") or (name == "costs" and value is not None):
                if hasattr(value, "columns"):
                    raise ValueError(f"{name} must be an array, got a data frame.")
                what = {"z": "outputs as codes", "y": "labels as codes", "mu": "moments", "costs": "prices"}[name]
                shapes[name] = real_array(name, value, what).shape
        if shapes.get("mu") == ():
            raise ValueError(f"mu must have one row of moments for each example, got the number {given['mu']!r}.")
        size = self._moments_size()
        if size is not None and "mu" in shapes and shapes["mu"][-1:] != (size,):
            raise ValueError(
                f"mu must have the {size} moments of {self!r} along its last axis, got shape {shapes['mu']}."
            )
        raw = isinstance(error, TypeError) or "broadcast" in str(error)
        if shapes and (len({shape[:1] for shape in shapes.values()}) > 1 or raw):
            found = " and ".join(f"{name} of shape {shape}" for name, shape in shapes.items())
            raise ValueError(
                f"{self!r} takes one row for each example, as wide as its outputs and labels are; got {found}."
            )

    def _moments_size(self) -> int | None:
        """How many moments there are; None where the loss waits to be bound to data that tell."""
        try:
            return self.polytope.size
        except ValueError:
            return None

    # -- the decomposition -------------------------------------------------------------------------------------------

    def phi(self, y: Array, dtype: Any = float) -> np.ndarray:
        """The embedding of labels, one row each."""
        raise NotImplementedError

    def psi(self, z: Array) -> np.ndarray:
        """The embedding of outputs, one row each."""
        raise NotImplementedError

    @property
    def constant(self) -> Any:
        """c, a number, or one number per output."""
        raise NotImplementedError

    @property
    def polytope(self) -> Polytope:
        """The marginal polytope M = hull phi(Y)."""
        raise NotImplementedError

    @property
    def table(self) -> np.ndarray | None:
        """phi as rows, one for each label, where labels are a short list; else None."""
        return None

    def in_indicators(self) -> Self:
        """The same loss with labels embedded as indicators, where they are a short list of codes."""
        return self

    def offset(self, z: Array) -> Any:
        """c(z)."""
        return self.constant

    # -- what is asked of it -----------------------------------------------------------------------------------------

    def __call__(self, z: Array, y: Array) -> np.ndarray:
        """L(z, y), row by row."""
        raise NotImplementedError

    def decode(self, mu: Array, costs: Array | None = None) -> np.ndarray:
        """argmin_z of the expected loss <psi(z), mu> + c(z), ties to the first output.

        costs: prices that differ per example, for each output where outputs are listed, else for each part of an output.
        """
        raise NotImplementedError

    def bayes_risk(self, z: Array, mu: Array) -> np.ndarray:
        """The expected loss of predicting z where the moments are mu."""
        return (self.psi(z) * mu).sum(-1) + self.offset(z)

    @property
    def decodable(self) -> bool:
        """Whether moments are few enough to be decoded."""
        return True

    def risk(self, z: Array, mu: Array, costs: Array | None = None) -> np.ndarray:
        """The expected loss of outputs z, with costs that differ per example where they are given, as `decode` takes them."""
        return self.bayes_risk(z, mu) if costs is None else self.bayes_risk(z, mu) + self.price(z, costs)

    def realised(self, z: Array, y: Array, costs: Array | None = None) -> np.ndarray:
        """The loss L(z, y) that outputs had, with costs that differ per example where they are given, as `decode` takes them."""
        return self(z, y) if costs is None else self(z, y) + self.price(z, costs)

    def price(self, z: Array, costs: Array) -> np.ndarray:
        """What outputs cost whatever the label, by the prices of each example's outputs or of their parts."""
        raise ValueError(f"{type(self).__name__} takes no costs per example.")

    def worst(self, z: Array, costs: Array | None = None) -> np.ndarray:
        """The largest loss that each output can have."""
        z, y = np.atleast_1d(z), self.labels()
        worst = np.array([self(np.broadcast_to(one, y.shape), y).max() for one in z])
        return worst if costs is None else worst + self.price(z, costs)

    def range(self) -> tuple[float, float]:
        """The least and the largest loss."""
        table = self.matrix()
        return float(table.min()), float(table.max())

    def by_part(self, z: Array, y: Array) -> np.ndarray:
        """The loss as a sum over the parts of an output, such as the labels of a set: one number for each."""
        raise ValueError(f"{self!r} is no sum over the parts of an output.")

    # -- the users' own names ----------------------------------------------------------------------------------------

    def label_names(self) -> np.ndarray | None:
        """The users' labels in the order of the codes, where the loss fixes them."""
        return None

    def output_names(self, classes: np.ndarray) -> np.ndarray:
        """The users' names of the outputs, where the labels are these."""
        return classes

    # -- sizes and listing -------------------------------------------------------------------------------------------

    def bind(self, size: int) -> Self:
        """The same loss with its number of labels fixed; refuses one that was built for another number."""
        raise NotImplementedError

    def on(self, polytope: Any) -> Self:
        """The same loss on labels whose marginal polytope is given: itself, or for sequences of any length that of one shape."""
        return self

    def bind_names(self, classes: np.ndarray) -> Self:
        """The same loss with what it can learn from the users' own labels, and with its columns in their order."""
        return self

    def bind_codes(self, y: np.ndarray) -> Self:
        """The same loss with what it can learn from the training labels, as codes."""
        return self

    def moments_for(self, other: Loss, mu: Array) -> Array:
        """The moments that another loss on the same labels needs, from this one's."""
        if other.polytope.size != self.polytope.size:
            raise ValueError(
                f"{other!r} needs other moments than those of {self!r}, which were fitted: fit with loss={other!r}."
            )
        return mu

    def variants(self, thresholds: bool = False) -> list[Self]:
        """The same loss in each of its embeddings, the preferred first; with `thresholds` also in that of ordered labels."""
        return [self]

    def _loss_and_moments(self, loss: Any, mu: Any) -> tuple[Loss, Any]:
        """The loss that judges, and the moments it decodes: what an estimator answers for inputs in the place of moments."""
        return self if loss is None else Loss.resolve(loss), mu

    def embedded_like(self, other: Loss) -> Loss:
        """The same loss in another one's embedding, where it has a choice."""
        return self

    def probabilities(self, mu: Array) -> np.ndarray:
        """The law over labels, or for label sets the probability of each label, that the moments mu stand for."""
        raise NotImplementedError

    def moments(self, proba: Array) -> Array:
        """The moments of a law over labels, or for label sets of the probability of each label, where these determine them."""
        raise ValueError(
            f"{self!r} is decided by more than the probability of each label: fit an estimator for this loss, and use its moments."
        )

    def outputs(self) -> np.ndarray:
        """All outputs z, where they are few."""
        raise NotImplementedError

    def labels(self) -> np.ndarray:
        """All labels y, where they are few."""
        raise NotImplementedError

    def matrix(self) -> np.ndarray:
        """matrix[z, y] = L(z, y), where outputs and labels are few."""
        z, y = self.outputs(), self.labels()
        grid = np.indices((len(z), len(y)))
        return self(z[grid[0]], y[grid[1]])

    def scorer(self, costs: Any = None) -> Any:
        """A scikit-learn scorer: minus the mean loss of `predict`, for GridSearchCV and cross_val_score.

        costs: costs that differ per example, as a function of X or a formula on its columns (`taskloss.example_costs`), which
        the scorer reads from the X that a search is given; arrays are passed to the search itself, under metadata routing.
        """
        from ..scoring import TaskScorer

        return TaskScorer(self, costs)


def name_array(names: Any, argument: str = "labels") -> np.ndarray:
    """Users' names as an array of one dimension, in which tuples stay whole and numbers beside strings stay numbers."""
    if not is_list(names):
        raise ValueError(f"{argument} must be a list of names, got {names!r}.")
    if isinstance(names, np.ndarray):
        return names
    names = list(names)
    if not any(isinstance(name, tuple | list | np.ndarray) for name in names):
        array = np.asarray(names)
        if array.ndim == 1 and (array.dtype.kind not in "US" or all(isinstance(name, str | bytes) for name in names)):
            return array
    out = np.empty(len(names), dtype=object)
    for i, name in enumerate(names):
        out[i] = name
    return out


def object_rows(values: Any) -> np.ndarray:
    """Objects of any type, one per row: arrays and columns of data frames as they are, others in an array of objects."""
    if hasattr(values, "to_numpy"):
        return values.to_numpy()
    if hasattr(values, "shape"):
        return values
    out = np.empty(len(values), dtype=object)
    out[:] = list(values)
    return out


def check_codes(codes: Array, count: int, what: str) -> np.ndarray:
    """Integer codes below count, or one clear sentence."""
    try:
        codes = np.asarray(codes)
    except ValueError as error:
        raise ValueError(f"{what} must be integer codes from 0 to {count - 1} in an array: {error}") from error
    if codes.dtype.kind not in "iu":
        rounded = codes.astype(np.int64) if codes.dtype.kind in "bf" else None
        if rounded is None or not np.array_equal(rounded, codes):
            raise ValueError(f"{what} must be integer codes from 0 to {count - 1}, got dtype {codes.dtype}.")
        codes = rounded
    if codes.size and (codes.min() < 0 or codes.max() >= count):
        raise ValueError(f"{what} must be codes from 0 to {count - 1}, got values from {codes.min()} to {codes.max()}.")
    return codes


def check_sets(y: Array, count: int, what: str) -> np.ndarray:
    """Rows of 0 and 1, one column per label, or one clear sentence."""
    y = y if isinstance(y, np.ndarray) and y.dtype.kind in "biuf" else real_array(what, y, "rows of 0 and 1")
    if y.shape[-1:] != (count,):
        raise ValueError(f"{what} must have {count} columns of 0 and 1, got shape {y.shape}.")
    if not ((y == 0) | (y == 1)).all():
        raise ValueError(f"{what} must hold 0 and 1 only.")
    return y


def check_prices(costs: Array, shape: tuple[int, ...], what: str) -> np.ndarray:
    """Finite prices of this shape, or one clear sentence."""
    costs = real_array("costs", costs, "prices")
    if costs.shape != shape:
        raise ValueError(
            f"costs must have shape {shape}, a price for each {what}, for each of the {shape[0]} examples, got {costs.shape}."
        )
    if not (np.abs(costs) <= 1e299).all():  # so that sums of them are finite, and scores that can be matched
        raise ValueError("costs contains NaN or infinite values, or some above 1e299.")
    return costs


def price_of_sets(z: Array, costs: Array) -> np.ndarray:
    """The prices of the labels that are predicted, added up."""
    z = np.asarray(z)
    return (check_prices(costs, z.shape, "label that is predicted") * z).sum(-1)
