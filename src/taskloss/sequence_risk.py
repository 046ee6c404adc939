"""The regularised risk of sequences: where linear chain scores and the chain's maximum entropy meet."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from ._threads import blas_threads, pool, serial_blas, total
from .hypotheses.chain import ChainFeatures, ChainLinear
from .polytopes._forest import Forest, Limits, marginals

_ROOM = 1 << 17  # scores of a block from which their memory is kept
_THREAD_WORK = 1 << 22  # multiplications of one pass below which threads cost more than they give


class Block(NamedTuple):
    """Some sequences: their features, codes (-1 where missing) and weights."""

    features: ChainFeatures
    codes: np.ndarray
    weights: np.ndarray

    @property
    def forest(self) -> Forest:
        return self.features.forest


class Blocks:
    """Sequences cut into as many blocks as threads, each worked off on a thread of its own."""

    def __init__(self, X: Any, offsets: np.ndarray, n_states: int, size: int | None = None):
        n = len(offsets) - 1
        stored = X.nnz if sparse.issparse(X) else X.size
        work = stored * n_states + X.shape[0] * n_states**2
        self.threads = min(blas_threads(), n) if work >= _THREAD_WORK else 1
        count = self.threads if size is None else max(self.threads, -(-X.shape[0] // size))
        targets = X.shape[0] * np.arange(1, count) / count
        cuts = np.unique(np.concatenate([[0], np.searchsorted(offsets[:-1], targets), [n]]))
        self.slices = [slice(int(a), int(b)) for a, b in itertools.pairwise(cuts)]
        self.offsets = offsets

    def cut(self, X: Any, sequences: slice) -> tuple[Any, Forest]:
        """The rows and the shape of some sequences."""
        bounds = self.offsets[sequences.start : sequences.stop + 1]
        return X[bounds[0] : bounds[-1]], Forest.chains(np.diff(bounds), np.arange(sequences.start, sequences.stop))

    def map(self, work: Callable[[Any], Any], items: list) -> list:
        if self.threads == 1 or len(items) == 1:
            return [work(item) for item in items]
        with serial_blas():
            return list(pool().map(work, items))


class SequenceRisk:
    """f(theta) = sum_i w_i (A(v_i) - <v_i, phi(y_i)>) + alpha/2 |theta|^2, w normalised to sum to one.

    Where labels are missing, -log p(y_i) becomes that of what was observed, A(v_i) - A(v_i | observed): phi(y_i)
    is replaced by its mean given the observed labels. f is then no longer convex, as with any latent variable.
    """

    def __init__(
        self,
        hypothesis: ChainLinear,
        X: Any,
        offsets: np.ndarray,
        codes: np.ndarray,
        weights: np.ndarray,
        alpha: float,
        limits: Limits,
    ):
        self.hypothesis, self.alpha, self.limits = hypothesis, alpha, limits
        weights = weights / weights.sum()
        self.split = Blocks(X, offsets, hypothesis.n_states)
        self.blocks = []
        for part in self.split.slices:
            rows, forest = self.split.cut(X, part)
            first = offsets[part.start]
            features = hypothesis.features(rows, forest)
            self.blocks.append(Block(features, codes[first : first + forest.n_nodes], weights[part]))
        self.gold = [self._gold(block) for block in self.blocks]
        # Room for scores and marginals, kept between evaluations: the system takes long to hand out fresh memory.
        k = hypothesis.n_states
        self.room = [np.empty((2, b.forest.n_nodes, k)) if b.forest.n_nodes * k >= _ROOM else None for b in self.blocks]
        self.mask = hypothesis.penalised()
        self.start = np.zeros((hypothesis.size, 1))

    @property
    def _pairs(self) -> str:
        return "sum" if self.hypothesis.columns is None else "all"

    def _gold(self, block: Block) -> tuple:
        """What the labels say, once: the places of observed states in the unary scores, observed edges, their weights, and the partly labelled sequences."""
        forest, codes = block.forest, block.codes
        per_node = block.weights[forest.tree_of]
        partial = np.unique(forest.tree_of[codes < 0])
        whole = ~np.isin(forest.tree_of, partial)
        nodes = np.flatnonzero(whole)
        places = nodes * self.hypothesis.n_states + codes[nodes]
        edges = np.flatnonzero(whole[forest.children])
        i = forest.children[edges]
        steps = (codes[forest.parents[i]], codes[i])
        if self._pairs == "sum":
            k = self.hypothesis.n_states
            counts = np.zeros((k, k))
            np.add.at(counts, steps, per_node[i])
            return places, per_node[nodes], counts, partial
        return places, per_node[nodes], (edges, *steps, per_node[i]), partial

    def value_and_gradient(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """f, as one column, and its gradient."""
        flat = theta[:, 0]
        work = self.split.map(
            lambda i: self._block(flat, self.blocks[i], self.gold[i], self.room[i]), list(range(len(self.blocks)))
        )
        value, gradient = total(work)
        penalty = self.mask * flat
        gradient += self.alpha * penalty
        return np.atleast_1d(value + self.alpha / 2 * (penalty @ flat)), gradient[:, None]

    def _block(self, theta: np.ndarray, block: Block, gold: tuple, room: Any) -> tuple[float, np.ndarray]:
        forest = block.forest
        first, second = (None, None) if room is None else room
        unary, pairwise = self.limits.apply(forest, *self.hypothesis.scores(theta, block.features, first))
        log_z, d_nodes, d_edges = marginals(forest, unary, pairwise, self._pairs, block.weights, out=second)
        value = float(block.weights @ log_z)
        places, weights, steps, partial = gold
        value -= float(weights @ unary.ravel().take(places))
        flat = d_nodes.ravel()
        flat[places] = flat.take(places) - weights
        if self._pairs == "sum":
            value -= float((pairwise[steps > 0] * steps[steps > 0]).sum())
            d_edges -= steps
        else:
            edges, above, below, w = steps
            value -= float(w @ pairwise[edges, above, below])
            d_edges[edges, above, below] -= w
        if len(partial):
            value -= self._observed(block, partial, unary, pairwise, d_nodes, d_edges)
        return value, self.hypothesis.pullback(block.features, d_nodes, d_edges)

    def _observed(
        self, block: Block, trees: np.ndarray, unary: Any, pairwise: Any, d_nodes: Any, d_edges: Any
    ) -> float:
        """Take the observed part of the partly labelled sequences off the gradients, and return its log-probability weight."""
        forest = block.forest
        some, nodes = forest.subset(trees), forest.nodes_of(trees)
        edges = forest.edge_of[nodes[some.parents >= 0]]
        codes, weights = block.codes[nodes], block.weights[trees]
        other = (codes[:, None] >= 0) & (np.arange(unary.shape[1]) != codes[:, None])
        clamped = np.where(other, -np.inf, unary[nodes])
        step = pairwise if pairwise.ndim == 2 else pairwise[edges]
        log_z, mu, pair = marginals(some, clamped, step, self._pairs, weights)
        d_nodes[nodes] -= mu
        if self._pairs == "sum":
            d_edges -= pair
        else:
            d_edges[edges] -= pair
        return float(weights @ log_z)
