"""Marginals of label sequences."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from .tree import Tree


class Chain(Tree):
    """Sequences of `length` labels out of n_states: hull of phi(y) = (1(y_t = a))_{t,a}, (1(y_t = a, y_{t+1} = b))_{t,a,b}.

    The Tree whose nodes are in a row: its log-partition and marginals are the linear-chain CRF's, its maximiser is
    Viterbi's. Coordinates are length x n_states, then (length - 1) x n_states x n_states, the earlier state first.
    """

    name = "chain"

    def __init__(self, n_states: int = 2, length: int = 2, allowed: Any = None):
        self.n_states = n_states
        self.length = length
        self.allowed = allowed

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(3, 3), cls(2, 4), cls(3, 3, allowed=[[1, 1, 0], [1, 1, 1], [1, 0, 1]])]

    def _parents(self) -> np.ndarray:
        if self.length < 1:
            raise ValueError(f"A chain has at least one position, got length {self.length}.")
        return np.arange(-1, self.length - 1)

    @classmethod
    def length_of(cls, size: int, n_states: int) -> int:
        """The length of a chain with so many coordinates."""
        length, rest = divmod(size + n_states**2, n_states + n_states**2)
        if rest or length < 1:
            raise ValueError(f"No chain over {n_states} states has {size} coordinates.")
        return length
