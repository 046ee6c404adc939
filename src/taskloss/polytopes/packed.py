"""Inference on label sequences of any lengths, packed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..parallel import Executor
from ._forest import Forest, check_offsets
from ._max_product import k_best, maximise
from ._sum_product import marginals, sample
from .chain import Chain

_MESSAGE = 4  # multiplications that a product of messages counts for


class PackedChains:
    """The verbs of `Chain` on sequences of unequal lengths: all positions in one array, and offsets that tell where each begins.

    Scores are `unary`, (positions, n_states), and `pairwise` with the earlier state first: one matrix (n_states,
    n_states) for all steps, or one for each step in order, (positions - sequences, n_states, n_states); -inf forbids,
    as `allowed` does for all steps. Many sequences are worked off on threads. Equals `Chain` where there is one.

    >>> chains = PackedChains(2, offsets=[0, 3, 4])
    >>> log_z, nodes, steps = chains.log_partition_and_marginals(np.zeros((4, 2)), np.zeros((2, 2)))
    >>> np.exp(log_z).round().tolist(), nodes.shape, steps.shape
    ([8.0, 2.0], (4, 2), (2, 2, 2))
    """

    def __init__(self, n_states: int, offsets: Any, allowed: Any = None):
        self.n_states, self.allowed = n_states, allowed
        self.offsets = check_offsets(offsets)
        self._forest = Forest.chains_at(self.offsets)
        self._log_allowed = None if allowed is None else Chain(n_states, 1, allowed)._log_allowed()

    def __len__(self) -> int:
        return len(self._forest)

    def log_partition(self, unary: Any, pairwise: Any) -> np.ndarray:
        """A(v) of each sequence."""
        return np.concatenate(self._map(lambda f, u, p: marginals(f, u, p, "none")[0], unary, pairwise))

    def log_partition_and_marginals(self, unary: Any, pairwise: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """A(v) of each sequence, and the marginals of all positions and of all steps."""
        parts = self._map(marginals, unary, pairwise)
        log_z, nodes, steps = (np.concatenate(part) for part in zip(*parts, strict=True))
        return log_z, nodes, steps

    def maximiser(self, unary: Any, pairwise: Any) -> tuple[np.ndarray, np.ndarray]:
        """The best score of each sequence, and its states at all positions, ties to the first."""
        parts = self._map(maximise, unary, pairwise)
        scores, states = (np.concatenate(part) for part in zip(*parts, strict=True))
        return scores, states

    def best(self, unary: Any, pairwise: Any, k: int) -> tuple[np.ndarray, np.ndarray]:
        """The k best scores of each sequence, (sequences, k) in falling order, and their states, (k, positions); -inf where there are fewer."""
        return k_best(self._forest, *self._check(unary, pairwise), k)

    def sample(self, unary: Any, pairwise: Any, count: int, random_state: Any = None) -> np.ndarray:
        """States (count, positions) drawn from the law of each sequence."""
        return sample(self._forest, *self._check(unary, pairwise), count, np.random.default_rng(random_state))

    def _check(self, unary: Any, pairwise: Any) -> tuple[np.ndarray, np.ndarray]:
        unary, pairwise = np.asarray(unary, dtype=float), np.asarray(pairwise, dtype=float)
        k, forest = self.n_states, self._forest
        if unary.shape != (forest.n_nodes, k):
            raise ValueError(
                f"unary must have a row for each of the {forest.n_nodes} positions and a column for each of the {k} states, got shape {unary.shape}."
            )
        if pairwise.shape not in ((k, k), (forest.n_edges, k, k)):
            raise ValueError(
                f"pairwise must be one matrix {(k, k)}, or one for each step, {(forest.n_edges, k, k)}; got shape {pairwise.shape}."
            )
        if (
            np.isnan(unary.sum())
            or np.isnan(pairwise.sum())
            or unary.max() == np.inf
            or pairwise.max(initial=0) == np.inf
        ):
            raise ValueError("Scores must be finite, or -inf where a state or a step is forbidden.")
        return unary, pairwise if self._log_allowed is None else pairwise + self._log_allowed

    def _map(self, work: Callable[..., Any], unary: Any, pairwise: Any) -> list[Any]:
        """work(forest, unary, pairwise) on blocks of consecutive sequences, one for each thread where that pays."""
        unary, pairwise = self._check(unary, pairwise)
        forest = self._forest
        executor = Executor.for_work(_MESSAGE * forest.n_nodes * self.n_states**2, len(forest))
        if executor.threads == 1:
            return [work(forest, unary, pairwise)]

        def run(block: tuple[slice, Forest]) -> Any:
            trees, some = block
            nodes = slice(forest.offsets[trees.start], forest.offsets[trees.stop])
            steps = pairwise if pairwise.ndim == 2 else pairwise[nodes.start - trees.start : nodes.stop - trees.stop]
            return work(some, unary[nodes], steps)

        return executor.map(run, forest.blocks(-(-forest.n_nodes // executor.threads)))
