"""Losses over neighbours in label sequences, and sequence 0-1 loss."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Self

import numpy as np

from .._arrays import log
from ..polytopes._forest import Forest, Limits
from ..polytopes._max_product import max_marginals, maximise
from ..polytopes._sum_product import marginals
from ..polytopes.base import Polytope
from ..polytopes.chain import Chain
from ..polytopes.simplex import Simplex
from ..polytopes.tree import Tree
from .base import Array, check_prices
from .sequence import SequenceLoss

_BLOCK = 1 << 22  # numbers in a block of pairwise costs
_SEQUENCES = 1 << 12  # label sequences up to which a law over all of them can be decoded


class ChainCost(SequenceLoss):
    """Any loss over neighbours: L(z, y) = sum_t unary[z_t, y_t] + sum_t pairwise[z_t, z_{t+1}, y_t, y_{t+1}].

    unary is (Z, K) and pairwise (Z, Z, K, K); either may be left out, and the outputs at a position need not be the
    states (an extra row of unary can be "abstain here"). phi(y) are the chain's indicators, psi(z) the costs at them,
    c = 0. Decoding is Viterbi on the expected costs, which a CRF's marginals give without error: the paper's example
    of a loss that the CRF is calibrated for and MAP is not. `normalise` divides by the sequence's length; `outputs` names
    the rows of unary where they are not the labels.
    """

    name = "chain-cost"
    aliases = {"outputs": "_outputs"}
    _outputs: Sequence[Any] | None = None

    def __init__(
        self,
        unary: Any = None,
        pairwise: Any = None,
        length: int | None = None,
        parents: Sequence[int] | None = None,
        allowed: Any = None,
        normalise: bool = False,
        outputs: Sequence[Any] | None = None,
    ):
        self._outputs = outputs
        self.unary = unary
        self.pairwise = pairwise
        self.length = length
        self.parents = parents
        self.allowed = allowed
        self.normalise = normalise

    @classmethod
    def examples(cls) -> list[Self]:
        rng = np.random.default_rng(0)
        unary, pairwise = rng.uniform(0, 2, (2, 2)).round(2), rng.uniform(0, 2, (2, 2, 2, 2)).round(2)
        wide = rng.uniform(0, 2, (3, 2)).round(2)
        return [cls(unary, pairwise, 3), cls(wide, length=2), cls(None, pairwise, parents=(-1, 0, 0), normalise=True)]

    # -- the tables: what a child overrides --------------------------------------------------------------------------

    def _unary(self) -> np.ndarray:
        if self.unary is None:
            if self.pairwise is None:
                raise ValueError("ChainCost needs unary[z, y] or pairwise[z, z', y, y'], or both.")
            shape = np.shape(self.pairwise)
            return np.zeros((shape[0], shape[-1]))
        unary = np.asarray(self.unary, dtype=float)
        if unary.ndim != 2 or not np.isfinite(unary).all():
            raise ValueError(f"unary must be a table [z, y] of finite costs, got shape {unary.shape}.")
        return unary

    def _pairwise(self) -> np.ndarray | None:
        if self.pairwise is None:
            return None
        pairwise, (z, k) = np.asarray(self.pairwise, dtype=float), self._unary().shape
        if pairwise.shape != (z, z, k, k) or not np.isfinite(pairwise).all():
            raise ValueError(
                f"pairwise must be a table [z, z', y, y'] of finite costs with shape {(z, z, k, k)}, got {pairwise.shape}."
            )
        return pairwise

    def _position_weights(self, forest: Forest) -> np.ndarray:
        """One factor for each position, which its unary cost and the pairwise cost of the edge above it share."""
        return 1 / forest.lengths[forest.tree_of] if self.normalise else np.ones(forest.n_nodes)

    @property
    def n_labels(self) -> int:
        return self._unary().shape[1]

    @property
    def n_outputs(self) -> int:
        return self._unary().shape[0]

    @property
    def needs_edges(self) -> bool:  # type: ignore[override]
        return self.pairwise is not None

    def bind(self, size: int) -> Self:
        if self.n_labels != size:
            raise ValueError(f"The costs are tables over {self.n_labels} states, but y has {size}.")
        return self

    # -- the decomposition -------------------------------------------------------------------------------------------

    def phi(self, y: Array, dtype: Any = float) -> np.ndarray:
        y = self._codes(y, self.n_labels, "labels")
        tree = self.tree(y.shape[-1])
        if np.isneginf(tree._log_allowed()[y[..., tree._parents()[1:]], y[..., 1:]]).any():
            raise ValueError("labels hold a sequence with a forbidden transition: correct it, or allow it.")
        return tree.embed(y).astype(dtype)

    def psi(self, z: Array) -> np.ndarray:
        z = self._codes(z, self.n_outputs, "outputs")
        tree = self.tree(z.shape[-1])
        parents = tree._parents()
        weights = self._position_weights(Forest.copies(parents, z.size // z.shape[-1])).reshape(z.shape)
        pairwise, k = self._pairwise(), self.n_labels
        above, below = z[..., parents[1:]], z[..., 1:]
        edges = np.zeros((*below.shape, k, k)) if pairwise is None else pairwise[above, below]
        return tree.join(weights[..., None] * self._unary()[z], weights[..., 1:, None, None] * edges)

    @property
    def constant(self) -> float:
        return 0.0

    @property
    def polytope(self) -> Polytope:
        return self.tree()

    def decode(self, mu: Array, costs: Array | None = None) -> np.ndarray:
        """costs: prices (..., T, Z) of the outputs at each position, added to the loss."""
        mu = np.asarray(mu, dtype=float)
        tree = self.tree(None if self.parents is not None else Chain.length_of(mu.shape[-1], self.n_labels))
        nodes, edges = tree.split(mu.reshape(-1, mu.shape[-1]))
        k, shape = self.n_labels, (*mu.shape[:-1], tree.n_nodes)
        forest, prices = Forest.copies(tree._parents(), len(nodes)), None
        if costs is not None:
            prices = check_prices(costs, (*shape, self.n_outputs), "output at each position").reshape(
                -1, self.n_outputs
            )
        return self.packed_decode(forest, nodes.reshape(-1, k), edges.reshape(-1, k, k), None, prices).reshape(shape)

    def risk(self, z: Array, mu: Array, costs: Array | None = None) -> np.ndarray:
        risks = self.bayes_risk(z, mu)
        if costs is None:
            return risks
        prices = check_prices(costs, (*np.shape(z), self.n_outputs), "output at each position")
        return risks + np.take_along_axis(prices, np.asarray(z)[..., None], axis=-1).sum((-1, -2))

    def outputs(self) -> np.ndarray:
        if self.n_outputs == self.n_labels:
            return self.labels()
        return Tree(self.n_outputs, self.tree()._parents().tolist()).labellings()

    def output_names(self, classes: np.ndarray) -> np.ndarray:
        """The users' names of the outputs at a position."""
        if self._outputs is None:
            return classes if self.n_outputs == len(classes) else np.arange(self.n_outputs)
        if len(self._outputs) != self.n_outputs:
            raise ValueError(f"{len(self._outputs)} names were given for {self.n_outputs} outputs.")
        names = np.asarray(self._outputs)
        if len(set(names.tolist())) != len(names):
            raise ValueError(f"outputs must name every row of unary differently, got {list(self._outputs)!r}.")
        return names

    def check(self, forest: Forest, classes: np.ndarray) -> None:
        self.output_names(classes)
        self._pairwise()
        self._position_weights(forest)
        super().check(forest, classes)

    def range(self) -> tuple[float, float]:
        if not self.normalise or self.length is not None or self.parents is not None:
            return super().range()
        unary, pairwise = self._unary(), self._pairwise()
        low, high = float(unary.min()), float(unary.max())
        if pairwise is not None:  # T - 1 edges of T are less than one
            low, high = low + min(float(pairwise.min()), 0.0), high + max(float(pairwise.max()), 0.0)
        return low, high

    # -- packed ------------------------------------------------------------------------------------------------------

    def packed_loss(self, forest: Forest, z: np.ndarray, y: np.ndarray) -> np.ndarray:
        weights, pairwise, unary = self._position_weights(forest), self._pairwise(), self._unary()
        cost = np.where(y >= 0, unary[z, y], unary.max(axis=1)[z])
        if pairwise is not None:
            i, p = forest.children, forest.parents[forest.children]
            known = (y[i] >= 0) & (y[p] >= 0)
            cost[i] += np.where(known, pairwise[z[p], z[i], y[p], y[i]], pairwise.max(axis=(2, 3))[z[p], z[i]])
        return np.add.reduceat(weights * cost, forest.offsets[:-1])

    def packed_decode(
        self, forest: Forest, nodes: np.ndarray, edges: Any, limits: Limits | None = None, prices: Any = None
    ) -> np.ndarray:
        cost, limits = self._expected(forest, nodes, prices), self.output_limits() if limits is None else limits
        if self.pairwise is None and not limits:
            return cost.argmin(axis=1)
        states = np.empty(forest.n_nodes, dtype=np.int64)
        for some, at, steps in self._steps(forest, edges):
            states[at] = maximise(some, *limits.apply(some, -cost[at], steps))[1]
        return states

    def packed_values(
        self, forest: Forest, nodes: np.ndarray, edges: Any, limits: Limits | None = None, prices: Any = None
    ) -> np.ndarray:
        cost, limits = self._expected(forest, nodes, prices), self.output_limits() if limits is None else limits
        values = np.empty_like(cost)
        for some, at, steps in self._steps(forest, edges):
            values[at] = max_marginals(some, *limits.apply(some, -cost[at], steps))
        return values

    def _expected(self, forest: Forest, nodes: np.ndarray, prices: Any) -> np.ndarray:
        """The expected unary cost of each output at each node."""
        cost = self._position_weights(forest)[:, None] * (nodes @ self._unary().T)
        return cost if prices is None else cost + prices

    def _steps(self, forest: Forest, edges: Any) -> Iterator[tuple[Forest, Any, np.ndarray]]:
        """(trees, their nodes, minus the expected pairwise costs of their edges) for blocks of trees."""
        pairwise, z = self._pairwise(), self.n_outputs
        if pairwise is None:
            yield forest, slice(None), np.zeros((z, z))
            return
        # Pairs of outputs that cost the same whatever the labels share one product with the marginals.
        rows, group = np.unique(pairwise.reshape(z * z, -1), axis=0, return_inverse=True)
        expected = edges.reshape(-1, rows.shape[1]) @ rows.T
        expected *= self._position_weights(forest)[forest.children, None]
        for trees in _tree_blocks(forest, z * z):
            some, at = forest.take(trees), forest.nodes_of(trees)
            yield some, at, -expected[forest.edge_of[at[some.parents >= 0]]][:, group.ravel()].reshape(-1, z, z)

    def packed_risk(self, forest: Forest, z: np.ndarray, nodes: np.ndarray, edges: Any) -> np.ndarray:
        weights, pairwise = self._position_weights(forest), self._pairwise()
        cost = (nodes * self._unary()[z]).sum(1)
        if pairwise is not None:
            i = forest.children
            cost[i] += np.einsum("eab,eab->e", edges, pairwise[z[forest.parents[i]], z[i]])
        return np.add.reduceat(weights * cost, forest.offsets[:-1])


def _tree_blocks(forest: Forest, width: int) -> list[np.ndarray]:
    """Consecutive trees whose nodes times width fill a block."""
    block = forest.offsets[1:] * width // _BLOCK
    return np.split(np.arange(len(forest)), np.flatnonzero(np.diff(block)) + 1)


class ChainHamming(ChainCost):
    """L(z, y) = sum_t w_t s[y_t] 1(z_t != y_t) / T: the share of wrong positions, where all weights are one.

    `weights` w, one per position (at least as many as the longest sequence has); `state_weights` s, one per true
    state, make errors on some states dearer. Without `normalise` it is a sum. Decoding takes at each position the
    state of largest s[y] P(y_t = y), which needs the nodes' marginals alone; under `allowed`, the best such sequence.
    Equals ChainCost with unary costs s[y] 1(z != y).
    """

    name = "chain-hamming"
    aliases = {}
    pairwise = None

    def __init__(
        self,
        n_states: int | None = None,
        length: int | None = None,
        weights: Any = None,
        state_weights: Any = None,
        parents: Sequence[int] | None = None,
        allowed: Any = None,
        normalise: bool = True,
    ):
        self.n_states = n_states
        self.length = length
        self.weights = weights
        self.state_weights = state_weights
        self.parents = parents
        self.allowed = allowed
        self.normalise = normalise

    @classmethod
    def examples(cls) -> list[Self]:
        order = [[1, 1, 0], [0, 1, 1], [1, 1, 1]]
        return [
            cls(3, 3),
            cls(2, 3, weights=[1.0, 2.0, 0.5], state_weights=[1.0, 3.0]),
            cls(3, 3, allowed=order),
            cls(2, parents=(-1, 0, 0)),
        ]

    n_labels = SequenceLoss.n_labels
    bind = SequenceLoss.bind

    @property
    def n_outputs(self) -> int:
        return len(self._scale())

    def _unary(self) -> np.ndarray:
        return (1 - np.eye(self.n_labels)) * self._scale()

    def _scale(self) -> np.ndarray:
        """s, one for each state."""
        k = self.n_labels
        if self.state_weights is None:
            return np.ones(k)
        scale = np.asarray(self.state_weights, dtype=float)
        if scale.shape != (k,) or not np.isfinite(scale).all() or (scale < 0).any():
            raise ValueError(f"state_weights must be {k} finite numbers that are not negative, one per state.")
        return scale

    def packed_decode(
        self, forest: Forest, nodes: np.ndarray, edges: Any, limits: Limits | None = None, prices: Any = None
    ) -> np.ndarray:
        limits = self.output_limits() if limits is None else limits
        if limits or prices is not None or self.weights is not None:
            return super().packed_decode(forest, nodes, edges, limits, prices)
        return (nodes * self._scale()).argmax(axis=1)

    def range(self) -> tuple[float, float]:
        low, high = super().range()
        if self.weights is None or self.length is not None or self.parents is not None:
            return low, high
        return low, high * float(np.max(self.weights))

    def _position_weights(self, forest: Forest) -> np.ndarray:
        base = super()._position_weights(forest)
        if self.weights is None:
            return base
        weights, longest = np.asarray(self.weights, dtype=float), int(forest.lengths.max(initial=0))
        if weights.ndim != 1 or len(weights) < longest or not np.isfinite(weights).all() or (weights < 0).any():
            raise ValueError(
                f"weights must be finite numbers that are not negative, one per position; the longest sequence has {longest} positions, weights has shape {weights.shape}."
            )
        return base * weights[np.arange(forest.n_nodes) - forest.offsets[forest.tree_of]]


class SequenceZeroOne(SequenceLoss):
    """L(z, y) = 1(z != y), one for any mistake anywhere: decoding it is MAP, the most likely sequence as a whole.

    It is not a sum over neighbours, so that its embedding is phi(y) = e_y over all sequences, psi(z) = -e_z, c = 1, M
    the simplex over them. Marginals of nodes and edges do not fix the law in general, but they fix the Markov law
    that the CRF fits: `packed_decode` is Viterbi on its conditional log-probabilities. Where the CRF's own scores are
    at hand, the maximiser on those is the same and does not underflow.
    """

    name = "sequence-zero-one"
    reads_law = True

    def __init__(
        self,
        n_states: int | None = None,
        length: int | None = None,
        parents: Sequence[int] | None = None,
        allowed: Any = None,
    ):
        self.n_states = n_states
        self.length = length
        self.parents = parents
        self.allowed = allowed

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(2, 3), cls(2, parents=(-1, 0, 0))]

    def _index(self, rows: Array, what: str) -> np.ndarray:
        rows = self._codes(rows, self.n_labels, what)
        powers = self.n_labels ** np.arange(rows.shape[-1])[::-1]
        place = np.searchsorted(known := self.labels() @ powers, rows @ powers)
        if (known[np.minimum(place, len(known) - 1)] != rows @ powers).any():
            raise ValueError(f"{what} holds a sequence with a forbidden transition.")
        return place

    def range(self) -> tuple[float, float]:
        return 0.0, 1.0

    def phi(self, y: Array, dtype: Any = float) -> np.ndarray:
        return np.eye(len(self.labels()), dtype=dtype)[self._index(y, "labels")]

    def psi(self, z: Array) -> np.ndarray:
        return -np.eye(len(self.labels()))[self._index(z, "outputs")]

    @property
    def constant(self) -> float:
        return 1.0

    @property
    def polytope(self) -> Polytope:
        return Simplex(len(self.labels()))

    @property
    def decodable(self) -> bool:
        return float(self.n_labels) ** self.tree().n_nodes <= _SEQUENCES

    def decode(self, mu: Array, costs: Array | None = None) -> np.ndarray:
        if costs is not None:
            raise ValueError("Sequence 0-1 loss is no sum over positions, to which prices could be added.")
        return self.labels()[np.argmax(mu, axis=-1)]

    def packed_loss(self, forest: Forest, z: np.ndarray, y: np.ndarray) -> np.ndarray:
        return (np.add.reduceat(z != y, forest.offsets[:-1]) > 0).astype(float)

    def law_decode(self, forest: Forest, unary: np.ndarray, pairwise: np.ndarray, limits: Limits) -> np.ndarray:
        """The maximiser of the scores themselves: on long sequences marginals underflow."""
        return maximise(forest, *limits.apply(forest, unary, pairwise))[1]

    def law_risk(self, forest: Forest, z: np.ndarray, unary: np.ndarray, pairwise: np.ndarray) -> np.ndarray:
        i = forest.children
        score = unary[np.arange(len(z)), z]
        steps = np.broadcast_to(pairwise, (len(i), *pairwise.shape[-2:]))
        score[i] += steps[np.arange(len(i)), z[forest.parents[i]], z[i]]
        log_z = marginals(forest, unary, pairwise, "none")[0]
        return -np.expm1(np.minimum(np.add.reduceat(score, forest.offsets[:-1]) - log_z, 0.0))

    def law_values(self, forest: Forest, unary: np.ndarray, pairwise: np.ndarray, limits: Limits) -> np.ndarray:
        log_z = marginals(forest, unary, pairwise, "none")[0]
        best = max_marginals(forest, *limits.apply(forest, unary, pairwise))
        return np.expm1(np.minimum(best - log_z[forest.tree_of][:, None], 0.0))

    def law_of(self, forest: Forest, nodes: np.ndarray, edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Log-probabilities of each root, and of each child given its parent: what marginals say of a Markov law.

        A parent's state that no edge goes down from leaves its children undecided.
        """
        unary = np.zeros_like(nodes)
        unary[forest.roots] = log(nodes[forest.roots])
        above = edges.sum(axis=-1, keepdims=True)
        return unary, log(np.where(above > 0, edges / np.where(above > 0, above, 1.0), 1 / edges.shape[-1]))

    def packed_decode(
        self, forest: Forest, nodes: np.ndarray, edges: Any, limits: Limits | None = None, prices: Any = None
    ) -> np.ndarray:
        limits = self.output_limits() if limits is None else limits
        return self.law_decode(forest, *self.law_of(forest, nodes, edges), limits)

    def packed_values(
        self, forest: Forest, nodes: np.ndarray, edges: Any, limits: Limits | None = None, prices: Any = None
    ) -> np.ndarray:
        limits = self.output_limits() if limits is None else limits
        return self.law_values(forest, *self.law_of(forest, nodes, edges), limits)

    def packed_risk(self, forest: Forest, z: np.ndarray, nodes: np.ndarray, edges: Any) -> np.ndarray:
        return self.law_risk(forest, z, *self.law_of(forest, nodes, edges))
