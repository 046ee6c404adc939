"""The linear-chain conditional random field."""

from __future__ import annotations

from typing import Any, Self, cast

from ..polytopes.base import Polytope
from ..polytopes.chain import Chain
from .maxentropy import MaxEntropy


class ChainCRF(MaxEntropy):
    """The linear-chain CRF, S(v, phi(y)) = A(v) - <v, phi(y)> = -log p(y). Equals MaxEntropy(Chain(n_states, length)).

    h is 1/(2 length - 1)-strongly convex in l2, so that zeta_h(eps) >= eps^2 / (8 (2 length - 1) max|psi|^2), the
    paper's proposition on the calibration of CRFs. Left without a length, it takes the loss's chain.
    """

    name = "chain-crf"
    sized_by = "n_states and length"

    def __init__(self, n_states: int | None = None, length: int | None = None, allowed: Any = None):
        self.n_states = n_states
        self.length = length
        self.allowed = allowed

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(2, 3), cls(3, 2)]

    @property
    def domain(self) -> Polytope | None:
        if self.n_states is None or self.length is None:
            return None
        return Chain(self.n_states, self.length, self.allowed)

    def _sized(self, polytope: Polytope) -> Self:
        if self.domain is not None:
            return self
        chain = cast(Chain, polytope)
        if polytope.name != Chain.name or self.n_states not in (None, chain.n_states):
            raise ValueError(f"{self!r} is for chains over its states, but the loss's labels form {polytope!r}.")
        return self.with_params(n_states=chain.n_states, length=chain.length, allowed=chain.allowed)
