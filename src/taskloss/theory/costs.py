"""The cost of a surrogate in operations per example."""

from __future__ import annotations

from functools import singledispatch
from typing import NamedTuple

from .._checks import check_whole
from ..polytopes.base import Polytope
from ..polytopes.birkhoff import Birkhoff
from ..polytopes.cube import Cube
from ..polytopes.product import Product
from ..polytopes.simplex import Simplex
from ..polytopes.tree import Tree
from ..surrogates.base import Surrogate
from ..surrogates.convolutional import ConvolutionalFenchelYoung
from ..surrogates.coordinatewise import Coordinatewise
from ..surrogates.cumulative import CumulativeLink
from ..surrogates.legendre import Legendre
from ..surrogates.listwise import Listwise
from ..surrogates.maxentropy import MaxEntropy
from ..surrogates.quadratic import Quadratic

EXP = 10  # an exponential or a logarithm counts as this many additions
NEWTON = 10  # typical number of steps of an inverse link without a formula
STEPS = 4  # iterations of a convolved surrogate's inner problem, warm-started


class Cost(NamedTuple):
    """Operations for S and its gradient in the scores, for one example: a formula and its value.

    k: scores. exp: an exponential or logarithm, counted as ten additions.
    """

    formula: str
    operations: float


@singledispatch
def pass_cost(surrogate: Surrogate, size: int | None = None) -> Cost | None:
    """The cost of S and its gradient for one example, given its scores; None where unknown.

    size: the number of scores, for surrogates of any size. A linear model with d features adds 4 d k for scores and
    gradient. Register a new kind of surrogate with `pass_cost.register`.

    >>> import taskloss as tl
    >>> tl.theory.pass_cost(tl.surrogates.Multinomial(10))
    Cost(formula='k exp + 4 k', operations=140.0)
    """
    return None


def _scores(surrogate: Surrogate, size: int | None) -> int | None:
    """The number of scores, None where neither knows it."""
    if size is not None:
        check_whole("size", size)
    return surrogate.size or size


@pass_cost.register
def _(surrogate: Quadratic, size: int | None = None) -> Cost | None:
    k = _scores(surrogate, size)
    return None if k is None else Cost("3 k", 3.0 * k)


@pass_cost.register
def _(surrogate: Coordinatewise, size: int | None = None) -> Cost | None:
    k = _scores(surrogate, size)
    return None if k is None else Cost("2 k exp + 4 k", float((2 * EXP + 4) * k))


@pass_cost.register
def _(surrogate: CumulativeLink, size: int | None = None) -> Cost | None:
    k = _scores(surrogate, size)
    return (
        None if k is None else Cost("8 exp + 4 k", 8.0 * EXP + 4 * k)
    )  # a label's loss depends on the two thresholds around it


@pass_cost.register
def _(surrogate: Listwise, size: int | None = None) -> Cost | None:
    k = _scores(surrogate, size)
    return None if k is None else Cost("k exp + 5 k", float((EXP + 5) * k))


@pass_cost.register
def _(surrogate: Legendre, size: int | None = None) -> Cost | None:
    k = _scores(surrogate, size)
    if k is None:
        return None
    return Cost(
        f"{NEWTON} Newton steps of k^3/3 + 4 k^2 evaluations of h", NEWTON * (k**3 / 3 + 4 * k**2 * (EXP + 2) * k)
    )


@pass_cost.register
def _(surrogate: ConvolutionalFenchelYoung, size: int | None = None) -> Cost | None:
    inner, k = pass_cost(surrogate.inner, size), _scores(surrogate, size)
    if inner is None or k is None or surrogate.embedding is None:
        return None
    outputs = len(surrogate.embedding.outputs())
    return Cost(f"{STEPS} ({inner.formula} + 2 |Z| k)", STEPS * (inner.operations + 2.0 * outputs * k))


@pass_cost.register
def _(surrogate: MaxEntropy, size: int | None = None) -> Cost | None:
    return None if surrogate.domain is None else inference_cost(surrogate.domain)


@singledispatch
def inference_cost(polytope: Polytope) -> Cost | None:
    """The cost of the log-partition function and marginals for one score vector; by default, a sum over vertices."""
    try:
        count, k = len(polytope.vertices()), polytope.size
    except (ValueError, NotImplementedError):
        return None
    return Cost("|Y| (4 k + exp)", float(count * (4 * k + EXP)))


@inference_cost.register
def _(polytope: Simplex) -> Cost:
    return Cost("k exp + 4 k", float((EXP + 4) * polytope.size))


@inference_cost.register
def _(polytope: Cube) -> Cost:
    return Cost("2 k exp + 4 k", float((2 * EXP + 4) * polytope.size))


@inference_cost.register
def _(polytope: Product) -> Cost | None:
    parts = [inference_cost(factor) for factor in polytope.factors]
    known = [part for part in parts if part is not None]
    if len(known) < len(parts) or not known:
        return None
    same = len({part.formula for part in known}) == 1
    formula = known[0].formula if same else " + ".join(part.formula for part in known)
    return Cost(formula, sum(part.operations for part in known))


@inference_cost.register
def _(polytope: Tree) -> Cost:
    nodes, states = polytope.n_nodes, polytope.n_states
    per_edge = states**2 * (EXP + 8)
    return Cost(
        "(nodes - 1) states^2 (exp + 8) + nodes states (exp + 4)",
        float((nodes - 1) * per_edge + nodes * states * (EXP + 4)),
    )


@inference_cost.register
def _(polytope: Birkhoff) -> Cost:
    rows, columns = polytope.n_rows, polytope.columns
    return Cost("4 rows columns 2^columns", 4.0 * rows * columns * 2.0**columns)
