"""Linear scores of label sequences."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from ..polytopes._forest import Forest
from ._sparse import ThreadedSparse

_COMPILED_WORK = 1 << 20  # multiplications of a product below which compiling is not worth it


class ChainFeatures(NamedTuple):
    """The packed rows of some sequences, ready for products; their shape; and the rows that move each transition, if any do."""

    X: Any
    forest: Forest
    moving: Any = None


class ChainLinear:
    """v = unary scores W x_t + b, plus start and end scores, and transition scores T + P x_{t+1}; on packed rows.

    theta is one vector: `parts` names its pieces. b, start and end may be absent; P, (columns, K * K), is there for
    the `columns` of X on which transitions depend. All but b are penalised. Scores are linear in theta and
    `pullback` is their adjoint, as for every hypothesis.
    """

    def __init__(
        self, n_features: int, n_states: int, intercept: bool = True, boundaries: bool = True, columns: Any = None
    ):
        self.n_features, self.n_states = n_features, n_states
        self.columns = columns
        k = n_states
        self.shapes: dict[str, tuple[int, ...]] = {"state": (n_features, k), "transition": (k, k)}
        if boundaries:
            self.shapes |= {"start": (k,), "end": (k,)}
        if columns is not None:
            self.shapes["feature_transition"] = (len(columns), k * k)
        if intercept:
            self.shapes["intercept"] = (k,)
        self.size = sum(int(np.prod(shape)) for shape in self.shapes.values())

    def parts(self, theta: np.ndarray) -> dict[str, np.ndarray]:
        """Views of the pieces of theta, by name."""
        out, start = {}, 0
        for name, shape in self.shapes.items():
            stop = start + int(np.prod(shape))
            out[name] = theta[start:stop].reshape(shape)
            start = stop
        return out

    def penalised(self) -> np.ndarray:
        """Ones where the penalty acts, zeros for the intercepts."""
        mask = np.ones(self.size)
        if "intercept" in self.shapes:
            self.parts(mask)["intercept"][:] = 0
        return mask

    def features(self, X: Any, forest: Forest) -> ChainFeatures:
        """What scores and pullbacks read."""
        moving = None if self.columns is None else X[:, self.columns][forest.children]
        large = sparse.issparse(X) and X.nnz * self.n_states >= _COMPILED_WORK
        return ChainFeatures(ThreadedSparse(X, 1) if large else X, forest, moving)

    def scores(
        self, theta: np.ndarray, features: ChainFeatures, out: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Unary scores of all positions, and pairwise scores: one matrix, or one for each edge. `out` is room for the unary ones."""
        parts, (X, forest, moving) = self.parts(theta), features
        unary = _product(X, parts["state"], out)
        if "intercept" in parts:
            unary += parts["intercept"]
        if "start" in parts:
            unary[forest.offsets[:-1]] += parts["start"]
            unary[forest.offsets[1:] - 1] += parts["end"]
        if moving is None:
            return unary, parts["transition"]
        moved = moving @ parts["feature_transition"]
        return unary, parts["transition"] + moved.reshape(-1, self.n_states, self.n_states)

    def pullback(self, features: ChainFeatures, nodes: np.ndarray, edges: np.ndarray) -> np.ndarray:
        """The derivative in theta of <nodes, unary> + <edges, pairwise>; edges may be summed where no feature moves them."""
        out, (X, forest, moving) = np.empty(self.size), features
        parts = self.parts(out)
        _product(X.T, nodes, parts["state"])
        parts["transition"][:] = edges if edges.ndim == 2 else edges.sum(axis=0)
        if "intercept" in parts:
            parts["intercept"][:] = nodes.sum(axis=0)
        if "start" in parts:
            parts["start"][:] = nodes[forest.offsets[:-1]].sum(axis=0)
            parts["end"][:] = nodes[forest.offsets[1:] - 1].sum(axis=0)
        if moving is not None:
            parts["feature_transition"][:] = moving.T @ edges.reshape(len(edges), -1)
        return out


def _product(X: Any, w: np.ndarray, out: np.ndarray | None) -> np.ndarray:
    """X @ w, in the memory of out where that is given: fresh memory costs as much as the product."""
    if out is None:
        return X @ w
    if isinstance(X, ThreadedSparse):
        return X.multiply(w, out)
    if isinstance(X, np.ndarray):
        return np.matmul(X, w, out=out)
    out[:] = X @ w
    return out
