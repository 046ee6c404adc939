"""Compiled passes in place of plain ones, where there are some: the one place that asks parts for their types.

`pointwise` finds the compiled pass over a block of scores for a surrogate, `whole_pass` the one that also makes linear
scores and pulls their gradient back on the way. A law holds each equal to the plain code that it replaces.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..hypotheses.base import Hypothesis
from ..hypotheses.linear import Linear
from ..hypotheses.structured import Structured
from ..hypotheses.thresholds import Thresholds
from ..margins import Logistic
from ..polytopes._infimal import TableConvolution
from ..polytopes.product import Product
from ..polytopes.simplex import Simplex
from ..surrogates.base import Surrogate
from ..surrogates.chaincrf import ChainCRF
from ..surrogates.convolutional import ConvolutionalFenchelYoung
from ..surrogates.coordinatewise import Coordinatewise
from ..surrogates.maxentropy import MaxEntropy

if TYPE_CHECKING:
    from ..parallel import Executor
    from .named_chains import ChainPass
    from .rows import Rows
    from .scores import ScoreRisk

Array = Any

_PASS_ROWS = 512  # BLAS takes half as long again for few scores of more rows than that
_PASS_BYTES = 1 << 19  # of rows and their scores that stay in a core's cache
_SETTLED = 1e-9  # of the size of the outputs' vectors, to which a law is settled in a fit
_LOGISTIC, _SOFTMAX = 0, 1  # the numbers of the kernels in `_compiled.pointwise.risk`


class Pointwise(NamedTuple):
    """(v, phi, w) -> w @ terms of `risk_and_gradient`, and v becomes w * gradient, in one compiled pass.

    kernel: its number in `_compiled.pointwise.risk`. parameter: the lower end of the cube, or the width of a simplex.
    """

    kernel: int
    parameter: float

    @property
    def memory(self) -> int:
        """How many numbers it remembers of each row for the next pass."""
        return 0

    def sums(self, k: int) -> np.ndarray:
        """Room for the sums over examples: one for each score where these are problems of their own."""
        return np.zeros(k if self.kernel == _LOGISTIC else 1)

    def __call__(self, v: np.ndarray, phi: np.ndarray, w: np.ndarray, memory: np.ndarray | None = None) -> np.ndarray:
        from .._compiled.pointwise import risk

        sums = self.sums(v.shape[1])
        risk(self.kernel, self.parameter, v, phi, w, sums)
        return sums

    def linear(self, X: Array, weights: Array, constants: Array, risk: Rows, slopes: Array, sides: Array) -> np.ndarray:
        """The same at the scores X weights + constants; the derivatives in these are added to slopes and sides."""
        from .._compiled.pointwise import linear_risk

        d, k = X.shape[1], len(constants)
        rows = min(_PASS_ROWS, max(64, _PASS_BYTES // (X.itemsize * (d + k))))
        sums, w = self.sums(k), risk.weights.astype(X.dtype, copy=False)
        linear_risk(self.kernel, self.parameter, X, weights, constants, risk.targets, w, rows, sums, slopes, sides)
        return sums


class Convolution(NamedTuple):
    """The same pass for a convolved surrogate. It remembers the law over outputs of each row, from which the next pass starts."""

    table: TableConvolution

    @property
    def memory(self) -> int:
        return len(self.table.psi)

    def __call__(self, v: np.ndarray, phi: np.ndarray, w: np.ndarray, memory: np.ndarray | None = None) -> np.ndarray:
        values, mu, _ = self.table.solve(np.ascontiguousarray(v, dtype=float), memory, _SETTLED)
        values -= np.einsum("nk,nk->n", phi, v)
        mu -= phi
        np.multiply(mu, w[:, None], out=v, casting="same_kind")
        return np.atleast_1d(w @ values)

    def linear(self, X: Array, weights: Array, constants: Array, risk: Rows, slopes: Array, sides: Array) -> np.ndarray:
        from .._compiled.convolution import linear_convolution

        table, sums = self.table, np.zeros(1)
        outputs = table.psi, table.offsets, _SETTLED, risk.memory
        linear_convolution(
            table.kernel,
            table.parameter,
            X,
            weights,
            constants,
            risk.targets,
            risk.weights,
            *outputs,
            sums,
            slopes,
            sides,
        )
        return sums


def pointwise(surrogate: Surrogate) -> Pointwise | Convolution | None:
    """The compiled pass over scores of a surrogate: logistic in each coordinate, softmax over simplices of one size, or a convolution."""
    if isinstance(surrogate, ConvolutionalFenchelYoung):
        table = surrogate.table_convolution()
        return None if table is None else Convolution(table)
    if isinstance(surrogate, Coordinatewise):
        return Pointwise(_LOGISTIC, float(surrogate.low)) if isinstance(surrogate.phi_margin, Logistic) else None
    if not isinstance(surrogate, MaxEntropy):
        return None
    domain = surrogate.domain
    factors = domain.factors if isinstance(domain, Product) else [domain]
    simplices = [f for f in factors if isinstance(f, Simplex)]
    if len(simplices) < len(factors) or len({s.size for s in simplices}) != 1:
        return None
    return Pointwise(_SOFTMAX, float(simplices[0].size))


def whole_pass(hypothesis: Hypothesis, inputs: Any, risk: ScoreRisk) -> Callable[..., tuple[Any, Any]] | None:
    """(coefficients, X, risk) -> sums, and the derivative in the coefficients, of one thread's rows."""
    from .rows import Rows

    node = Hypothesis.resolve(hypothesis.node) if isinstance(hypothesis, Thresholds) else hypothesis
    plain = isinstance(risk, Rows) and not risk.barrier and risk.offset is None
    dense = isinstance(inputs, np.ndarray) and inputs.flags.c_contiguous
    if type(node) is not Linear or not plain or not dense:
        return None
    kernel = risk.kernel  # type: ignore[attr-defined]
    return None if kernel is None else _linear_pass(kernel, hypothesis.shares_weights, node.fit_intercept)


def _linear_pass(
    kernel: Pointwise | Convolution, shared: bool, fit_intercept: bool
) -> Callable[[Array, np.ndarray, Rows], tuple[Array, Array]]:
    def work(coefficients: Array, X: np.ndarray, risk: Rows) -> tuple[Any, Any]:
        d, k = X.shape[1], risk.n_scores
        weights, constants = np.ascontiguousarray(coefficients[:d]), coefficients[d:].ravel()
        slopes, sides = np.zeros(weights.shape[::-1]), np.zeros(k)
        sums = kernel.linear(X, weights, constants, risk, slopes, sides)
        sides = sides if fit_intercept else np.zeros(k)
        return sums, np.concatenate([slopes.T, sides[:, None] if shared else sides[None]])

    return work


def chain_pass(
    hypothesis: Hypothesis, inputs: Any, risk: ScoreRisk, free: Array, shape: tuple[int, ...], executor: Executor
) -> ChainPass | None:
    """The pass over chains whose nodes' scores are linear in sparse rows, with one table for all edges, all labels known and all allowed."""
    from .forests import Forests
    from .named_chains import ChainPass

    if not (isinstance(hypothesis, Structured) and isinstance(risk, Forests) and packed(risk.surrogate)):
        return None
    node = Hypothesis.resolve(hypothesis.node)
    linear = type(node) is Linear and node.room is None and hypothesis.edges is None and hypothesis.sparse(inputs)
    chains = (risk.forest.parents[risk.forest.children] == risk.forest.children - 1).all()
    if not (linear and chains and risk.convex and risk.offset is None and not risk.limits):
        return None
    return ChainPass(hypothesis, inputs, risk, free, shape, executor)


def packed(surrogate: Surrogate) -> bool:
    """Whether a surrogate is the maximum entropy of whatever trees it is bound to, which one packed recursion serves."""
    return type(surrogate) in (MaxEntropy, ChainCRF) and surrogate.domain is None
