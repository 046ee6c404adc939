"""Outputs as a surrogate may see them: vectors with offsets, and the best of them for given moments."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_array

from ..polytopes.base import Polytope

Array = Any

_MOST_LISTED = 256  # outputs up to which a list is quicker than asking for one at a time


@runtime_checkable
class Embedding(Protocol):
    """What a surrogate asks of the outputs z that it is bound to; every loss answers it."""

    def psi(self, z: Array) -> np.ndarray:
        """The embedding of outputs, one row each."""

    def offset(self, z: Array) -> Any:
        """c(z)."""

    def decode(self, mu: Array) -> np.ndarray:
        """argmin_z <psi(z), mu> + c(z), one output for each row of moments."""

    def outputs(self) -> np.ndarray:
        """All outputs; a ValueError or NotImplementedError where they are too many to list."""

    def on(self, polytope: Polytope) -> Embedding:
        """The same outputs for labels whose marginal polytope is given: itself, or for sequences those of one shape."""


class ListedOutputs(BaseEstimator):
    """Outputs 0, ..., m - 1 given by their vectors, and offsets where these are not zero.

    Parameters
    ----------
    vectors : array (m, k). psi(z) as rows.
    offsets : array (m,), a number, or None for zero. c(z).

    Examples
    --------
    >>> from taskloss.surrogates import ListedOutputs
    >>> outputs = ListedOutputs([[0.0, 1.0], [1.0, 0.0]])  # 0-1 loss on two labels
    >>> outputs.decode([[0.3, 0.7]])
    array([1])
    """

    def __init__(self, vectors: Any, offsets: Any = None):
        self.vectors = vectors
        self.offsets = offsets

    @classmethod
    def of(cls, embedding: Embedding | ListedOutputs) -> ListedOutputs | None:
        """The list of an embedding's outputs, in their own order; None where it is too long."""
        if isinstance(embedding, ListedOutputs):
            return embedding
        try:
            z = embedding.outputs()
        except (ValueError, NotImplementedError):
            return None
        if len(z) > _MOST_LISTED:
            return None
        return cls(embedding.psi(z), np.broadcast_to(embedding.offset(z), len(z)).astype(float))

    def table(self) -> tuple[np.ndarray, np.ndarray]:
        """psi (m, k) and c (m,) as arrays of floats."""
        vectors = check_array(self.vectors, dtype=float, order="C", input_name="vectors")
        offsets = np.zeros(1) if self.offsets is None else np.asarray(self.offsets, dtype=float)
        if offsets.shape not in ((), (1,), (len(vectors),)) or not np.isfinite(offsets).all():
            raise ValueError(
                f"offsets must be one finite number for each of the {len(vectors)} outputs, got shape {offsets.shape}."
            )
        return vectors, np.array(np.broadcast_to(offsets, len(vectors)))

    def psi(self, z: Array) -> np.ndarray:
        return self.table()[0][np.asarray(z)]

    def offset(self, z: Array) -> np.ndarray:
        return self.table()[1][np.asarray(z)]

    def decode(self, mu: Array) -> np.ndarray:
        psi, offsets = self.table()
        return np.argmin(np.asarray(mu) @ psi.T + offsets, axis=-1)

    def outputs(self) -> np.ndarray:
        return np.arange(len(self.table()[0]))

    def on(self, polytope: Polytope) -> ListedOutputs:
        return self

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ListedOutputs):
            return NotImplemented
        return all(np.array_equal(a, b) for a, b in zip(self.table(), other.table(), strict=True))

    __hash__ = None  # type: ignore[assignment]
