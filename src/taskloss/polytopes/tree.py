"""Marginals of labellings of a tree."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np

from .._arrays import array_namespace, device, log, xlogx
from .._checks import real_array
from .._numpy import like, to_numpy
from ._forest import Forest
from ._max_product import k_best, maximise
from ._sum_product import covariance, marginals, sample
from .base import Array, Polytope, listable


class Tree(Polytope):
    """Labellings of a tree's nodes by n_states states: hull of phi(y) = (1(y_i = a))_{i,a}, (1(y_i = a, y_j = b))_{ij,a,b}.

    `parents` names each node's parent, one that comes before it, and -1 for the first node, the root. Coordinates are
    the nodes' marginals, T x n_states, then the edges', (T - 1) x n_states x n_states with the parent's state first,
    in the order of their lower ends. `allowed[a, b]` says which states may follow each other down an edge; the other
    labellings are no vertices. On a tree, locally consistent marginals are marginals of a law, so that M is {mu >= 0,
    nodes sum to one, edges sum to their ends}.

    A(v) and marginals by sum-product, the maximiser by max-product; entropy = sum over edges H(edge) - sum over nodes
    (degree - 1) H(node). The negative entropy is 1/(2T - 1)-strongly convex in the l2 norm (the paper's calibration
    of CRFs: 1/max|phi|^2). Equals Simplex(n_states) where there is one node.
    """

    name = "tree"
    two_valued = True

    def __init__(self, n_states: int = 2, parents: Sequence[int] = (-1, 0), allowed: Any = None):
        self.n_states = n_states
        self.parents = parents
        self.allowed = allowed

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(2, (-1, 0, 0, 1)), cls(3, (-1, 0, 0), allowed=[[1, 1, 0], [1, 1, 1], [0, 1, 1]])]

    # -- layout ------------------------------------------------------------------------------------------------------

    def _parents(self) -> np.ndarray:
        given = real_array("parents", self.parents, "whole numbers")
        parents = np.where(np.abs(given) < 1e15, given, -2).astype(np.int64)
        below = np.arange(given.size)
        if (
            parents.ndim != 1
            or not len(parents)
            or (parents != given).any()
            or parents[0] != -1
            or (parents[1:] < 0).any()
            or (parents >= below).any()
        ):
            raise ValueError(
                f"parents must be -1 for the first node and, for every other node, a node before it; got {self.parents!r}."
            )
        return parents

    def _log_allowed(self) -> np.ndarray:
        """0 where a transition is allowed, -inf where not."""
        k = self.n_states
        if self.allowed is None:
            return np.zeros((k, k))
        allowed = np.asarray(self.allowed)
        if allowed.shape != (k, k):
            raise ValueError(f"allowed must be a {k} x {k} table of true and false, got shape {allowed.shape}.")
        return np.where(allowed.astype(bool), 0.0, -np.inf)

    @property
    def n_nodes(self) -> int:
        return len(self._parents())

    @property
    def size(self) -> int:
        return self.n_nodes * self.n_states + (self.n_nodes - 1) * self.n_states**2

    def split(self, v: Array) -> tuple[Array, Array]:
        """Coordinates as nodes (..., T, n_states) and edges (..., T - 1, n_states, n_states)."""
        xp = array_namespace(v)
        if v.shape[-1] != self.size:
            raise ValueError(f"{self!r} has {self.size} coordinates, but the last axis has {v.shape[-1]}.")
        t, k, batch = self.n_nodes, self.n_states, v.shape[:-1]
        return xp.reshape(v[..., : t * k], (*batch, t, k)), xp.reshape(v[..., t * k :], (*batch, t - 1, k, k))

    def join(self, nodes: Array, edges: Array) -> Array:
        """The inverse of `split`."""
        xp = array_namespace(nodes)
        batch = nodes.shape[:-2]
        t, k = self.n_nodes, self.n_states
        return xp.concat([xp.reshape(nodes, (*batch, t * k)), xp.reshape(edges, (*batch, (t - 1) * k * k))], axis=-1)

    def _packed(self, v: Array) -> tuple[Forest, Array, Array, tuple[Any, ...]]:
        """A forest with one tree for each score vector, packed scores, and the shape of the batch."""
        xp = array_namespace(v)
        if not xp.isdtype(v.dtype, "real floating"):
            v = xp.astype(v, xp.float64)
        nodes, edges = self.split(v)
        batch = v.shape[:-1]
        k = self.n_states
        if self.allowed is not None:
            edges = edges + xp.asarray(self._log_allowed(), dtype=v.dtype, device=device(v))
        forest = Forest.copies(self._parents(), int(np.prod(batch)))
        return forest, xp.reshape(nodes, (-1, k)), xp.reshape(edges, (forest.n_edges, k, k)), batch

    def embed(self, states: Any) -> np.ndarray:
        """phi(y) for states (..., T)."""
        states = np.asarray(states)
        unit = np.eye(self.n_states)
        edges = unit[states[..., self._parents()[1:]]][..., :, None] * unit[states[..., 1:]][..., None, :]
        return self.join(unit[states], edges)

    # -- inference ---------------------------------------------------------------------------------------------------

    def log_partition_and_marginals(self, v: Array) -> tuple[Array, Array]:
        xp = array_namespace(v)
        forest, unary, pairwise, batch = self._packed(v)
        log_z, mu, pairs = marginals(forest, unary, pairwise)
        t, k = self.n_nodes, self.n_states
        return xp.reshape(log_z, batch), self.join(
            xp.reshape(mu, (*batch, t, k)), xp.reshape(pairs, (*batch, t - 1, k, k))
        )

    def maximiser(self, v: Array) -> Array:
        forest, unary, pairwise, batch = self._packed(v)
        _, states = maximise(forest, to_numpy(unary), to_numpy(pairwise))
        return like(self.embed(states.reshape(*batch, self.n_nodes)), v)

    def best(self, v: Array, k: int) -> tuple[np.ndarray, np.ndarray]:
        """The k largest <v, phi(y)> in falling order, (..., k), and their states, (..., k, T); -inf where there are fewer."""
        forest, unary, pairwise, batch = self._packed(v)
        scores, states = k_best(forest, to_numpy(unary), to_numpy(pairwise), k)
        states = np.moveaxis(states.reshape(k, *batch, self.n_nodes), 0, -2)
        return scores.reshape(*batch, k), states

    def sample(self, v: Array, count: int, random_state: Any = None) -> np.ndarray:
        """States (count, ..., T) drawn from p(y) proportional to exp<v, phi(y)>."""
        rng = np.random.default_rng(random_state)
        forest, unary, pairwise, batch = self._packed(v)
        states = sample(forest, to_numpy(unary), to_numpy(pairwise), count, rng)
        return states.reshape(count, *batch, self.n_nodes)

    def covariance(self, v: Array) -> Callable[[Array], Array]:
        mu = to_numpy(self.marginals(v))
        return lambda u: like(self._covariance(mu, to_numpy(u)), v)

    def _covariance(self, mu: np.ndarray, u: np.ndarray) -> np.ndarray:
        t, k, batch = self.n_nodes, self.n_states, mu.shape[:-1]
        forest = Forest.copies(self._parents(), mu.size // mu.shape[-1])
        given = np.broadcast_to(np.asarray(u, dtype=float), mu.shape)
        packed = [a.reshape(-1, *a.shape[len(batch) + 1 :]) for x in (mu, given) for a in self.split(x)]
        nodes, edges = covariance(forest, *packed)
        return self.join(nodes.reshape(*batch, t, k), edges.reshape(*batch, t - 1, k, k))

    # -- geometry ----------------------------------------------------------------------------------------------------

    def entropy(self, mu: Array) -> Array:
        xp = array_namespace(mu)
        nodes, edges = self.split(mu)
        root = xp.sum(xlogx(nodes[..., 0, :]), axis=-1)
        if self.n_nodes == 1:
            return -root
        ends = nodes[..., self._parents()[1:], :]
        return -root - xp.sum(xlogx(edges), axis=(-3, -2, -1)) + xp.sum(xlogx(ends), axis=(-2, -1))

    def entropy_gradient(self, mu: Array) -> Array:
        # Of the many scores with these marginals: the log-probabilities of the root, and of each child given its
        # parent. None is above zero, so that at the boundary no infinities meet.
        xp = array_namespace(mu)
        nodes, edges = self.split(mu)
        root = xp.concat([log(nodes[..., :1, :]), xp.zeros_like(nodes[..., 1:, :])], axis=-2)
        ends = nodes[..., self._parents()[1:], :, None] if self.n_nodes > 1 else xp.ones_like(edges)
        given = log(edges / xp.where(ends > 0, ends, xp.ones_like(ends)))
        return -self.join(root, given)

    @property
    def dimension(self) -> int:
        k, t = self.n_states, self.n_nodes
        if self.allowed is None:
            return t * (k - 1) + (t - 1) * (k - 1) ** 2
        on = self.center() > 0  # a law of full support is inside: what is zero there is zero everywhere
        return int(on.sum() - np.linalg.matrix_rank(self._constraints()[0][:, on]))

    def _constraints(self) -> tuple[np.ndarray, np.ndarray]:
        """A and b of A mu = b: the root sums to one, and every edge to both its ends."""
        t, k, parents = self.n_nodes, self.n_states, self._parents()
        rows = np.zeros((1 + 2 * k * (t - 1), self.size))
        rows[0, :k] = 1
        eye, one = np.eye(k), np.ones(k)
        for e in range(t - 1):
            block = slice(t * k + e * k * k, t * k + (e + 1) * k * k)
            above, below = slice(1 + 2 * k * e, 1 + 2 * k * e + k), slice(1 + 2 * k * e + k, 1 + 2 * k * (e + 1))
            rows[above, block], rows[below, block] = np.kron(eye, one), np.kron(one, eye)
            rows[above, parents[e + 1] * k : (parents[e + 1] + 1) * k] = -eye
            rows[below, (e + 1) * k : (e + 2) * k] = -eye
        right = np.zeros(len(rows))
        right[0] = 1
        return rows, right

    def contains(self, mu: Array, tol: float = 1e-9) -> Array:
        mu = np.asarray(mu, dtype=float)
        rows, right = self._constraints()
        _, edges = self.split(mu)
        forbidden = np.where(np.isneginf(self._log_allowed()), edges, 0.0)
        return (
            (mu >= -tol).all(-1)
            & (np.abs(mu @ rows.T - right) <= tol).all(-1)
            & (np.abs(forbidden) <= tol).all((-3, -2, -1))
        )

    def project(self, u: Array) -> Array:
        listable(float(self.size), 5000)
        rows, right = self._constraints()
        _, edges = self.split(np.zeros(self.size))
        on = self.join(np.ones((self.n_nodes, self.n_states)), edges + (self._log_allowed() == 0)).astype(bool)
        given, u = u, to_numpy(u).astype(float)
        out = np.zeros((u.size // self.size, self.size))
        for i, row in enumerate(u.reshape(-1, self.size)):
            out[i, on] = _project(row[on], rows[:, on], right)
        return like(out.reshape(u.shape), given)

    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        return np.zeros(self.size), (self.center() > 0).astype(float)

    def labellings(self) -> np.ndarray:
        """All allowed states, as rows."""
        k, t, parents = self.n_states, self.n_nodes, self._parents()
        listable(float(k) ** t)
        states = np.indices((k,) * t).reshape(t, -1).T
        steps = self._log_allowed()[states[:, parents[1:]], states[:, 1:]]
        return states[np.isfinite(steps).all(axis=1)]

    def vertices(self) -> np.ndarray:
        return self.embed(self.labellings())

    def norm(self, order: float) -> float:
        return float(np.linalg.norm(np.ones(2 * self.n_nodes - 1), ord=order))


def _project(u: np.ndarray, rows: np.ndarray, right: np.ndarray) -> np.ndarray:
    """argmin |x - u|^2 / 2 over x >= 0 with rows x = right.

    x = max(u + rows^T l, 0) at the l that minimises |max(u + rows^T l, 0)|^2 / 2 - <right, l>, a convex function that
    is quadratic in pieces: Newton with a line search reaches the right piece.
    """
    multiplier = np.zeros(len(right))

    def value(at: np.ndarray) -> tuple[float, np.ndarray]:
        x = np.maximum(u + rows.T @ at, 0)
        return float(x @ x / 2 - right @ at), x

    f, x = value(multiplier)
    for _ in range(200):
        gradient = rows @ x - right
        size = np.linalg.norm(gradient)
        if size < 1e-13 * max(1.0, float(np.abs(u).max(initial=0.0))):
            break
        active = rows[:, x > 0]
        hessian = active @ active.T + 1e-9 * np.eye(len(right))  # rows depend on each other
        step = -np.linalg.solve(hessian, gradient)
        slope, t = gradient @ step, 1.0
        while t > 1e-10:
            f_new, x_new = value(multiplier + t * step)
            if f_new <= f + 1e-4 * t * slope + 1e-15 * abs(f):
                break
            t /= 2
        multiplier, f, x = multiplier + t * step, f_new, x_new
    return x
