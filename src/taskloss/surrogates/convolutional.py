"""Convolutional Fenchel-Young losses: smooth surrogates whose excess bounds the task's linearly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np

from .._arrays import array_namespace, device
from .._numpy import like, to_numpy, with_gradient
from ..polytopes._infimal import TableConvolution
from ..polytopes.base import Polytope
from ..polytopes.cube import Cube
from ._convolution import Support, convolve, curvature
from .base import Array, Surrogate, automatic
from .maxentropy import MaxEntropy, Multinomial
from .outputs import Embedding, ListedOutputs
from .quadratic import Quadratic


class ConvolutionalFenchelYoung(Surrogate):
    """The surrogate of h_L = h - (least expected loss), for another surrogate's h and the outputs of a loss.

    Smooth as that of h, and past the square root: its excess risk is no less than the task's own excess risk where
    the output is drawn from `mixture(v)`, and no less than a fixed share of it for the likeliest output.

    Parameters
    ----------
    surrogate : "auto", a surrogate or its name. Its potential h is taken, with the canonical link. "auto" is what
        estimators choose for the loss.
    embedding : what gives psi(z), c(z) and argmin_z <psi(z), mu> + c(z): a loss, or `ListedOutputs`. None: that of the
        loss it is bound to.

    Notes
    -----
    h_L(mu) = h(mu) + max_z (-<psi(z), mu> - c(z)) on the domain of h. Its conjugate is the infimal convolution

        h_L*(v) = min_pi h*(v + sum_z pi_z psi(z)) + sum_z pi_z c(z)

    over laws pi on outputs, and the inverse link is mu-hat = grad h* at the minimum. There

        S(v, mu) = D_h(mu, mu-hat) + (expected loss of z ~ pi at mu) - (least expected loss at mu).

    h_L is as strongly convex as h, so that the gradient of S is as smooth. It is not differentiable where outputs tie: the scores
    of one tie fill an open set, on which mu-hat stands still and pi moves. So a decision is read from pi, `decide(v)`, and not from
    mu-hat. Every output with pi_z > 0 is optimal for mu-hat. pi has at most one more output than h has directions. Second
    derivatives exist except where the support of pi changes. With a constant loss it is the surrogate of h.

    References
    ----------
    Cao, Bao, Feng and An (2025), Establishing linear surrogate regret bounds for convex smooth losses via convolutional
    Fenchel-Young losses.

    Examples
    --------
    >>> import numpy as np
    >>> import taskloss as tl
    >>> part = tl.surrogates.ConvolutionalFenchelYoung("multinomial", tl.losses.ZeroOne(2))
    >>> part = part.bind(tl.losses.ZeroOne(2).polytope)
    >>> v = np.array([[0.5, 0.0]])
    >>> part.inverse_link(v)  # a tie, as for all |v_0 - v_1| < 1
    array([[0.5, 0.5]])
    >>> part.mixture(v)
    array([[0.75, 0.25]])
    """

    name = "convolutional-fenchel-young"

    def __init__(self, surrogate: Any = "auto", embedding: Any = None):
        self.surrogate = surrogate
        self.embedding = embedding

    @classmethod
    def examples(cls) -> list[Self]:
        costs = np.array([[0.0, 1.0, 3.0], [2.0, 0.0, 1.0], [1.0, 2.0, 0.0], [0.6, 0.6, 0.6]])
        cube = np.array([[0.5, 0.5], [0.5, -0.5], [-0.5, 0.5], [-0.5, -0.5]])
        return [
            cls(Multinomial(3), ListedOutputs(costs)),
            cls(MaxEntropy(Cube(2)), ListedOutputs(cube, [0.0, 0.1, 0.0, -0.2])),
            cls(Quadratic(), ListedOutputs(costs)),
        ]

    # -- what it is made of --------------------------------------------------------------------------------------------

    @property
    def inner(self) -> Surrogate:
        """The surrogate of h, with the canonical link."""
        if isinstance(self.surrogate, str) and self.surrogate == "auto":
            raise ValueError(f"{self!r} has no potential yet: bind it to a loss's polytope, or give it a surrogate.")
        return Surrogate.resolve(self.surrogate).canonical_form()

    @property
    def outputs(self) -> Embedding:
        if self.embedding is None:
            raise ValueError(f"{self!r} has no outputs yet: give it an embedding, such as a loss.")
        if not isinstance(self.embedding, Embedding):
            raise ValueError(f"embedding must be a loss or ListedOutputs, got {self.embedding!r}.")
        return self.embedding

    def _listed(self) -> ListedOutputs | None:
        """The outputs as a table, made once for each embedding; None where they are too many."""
        kept = self.__dict__.get("_list")
        if kept is None or kept[0] is not self.outputs:
            listed = ListedOutputs.of(self.outputs)
            kept = (self.outputs, None if listed is None else ListedOutputs(*listed.table()))
            self.__dict__["_list"] = kept
        return kept[1]

    @property
    def domain(self) -> Polytope | None:
        unbound = isinstance(self.surrogate, str) and self.surrogate == "auto"
        return None if unbound else self.inner.domain

    @property
    def size(self) -> int | None:
        if self.domain is not None:
            return self.domain.size
        listed = None if self.embedding is None else self._listed()
        return None if listed is None else listed.table()[0].shape[1]

    @property
    def calibrated(self) -> bool:
        return self.inner.calibrated

    @property
    def differentiable(self) -> bool:
        return False

    @property
    def smooth(self) -> bool:
        return self.inner.smooth

    @property
    def smoothness(self) -> float | None:
        return self.inner.smoothness

    def _sized(self, polytope: Polytope) -> Self:
        auto = isinstance(self.surrogate, str) and self.surrogate == "auto"
        inner = automatic(polytope) if auto else Surrogate.resolve(self.surrogate)
        embedding = None if self.embedding is None else self.embedding.on(polytope)
        return self.with_params(surrogate=inner.bind(polytope).canonical_form(), embedding=embedding)

    def bind_outputs(self, embedding: Embedding) -> Self:
        if self.embedding is not None and (self._listed() or self.embedding) != (
            ListedOutputs.of(embedding) or embedding
        ):
            raise ValueError(
                f"{type(self).__name__} was given the outputs of another loss than the one to fit, {embedding!r}: leave its embedding out."
            )
        return self.with_params(embedding=embedding)

    # -- the inner problem ---------------------------------------------------------------------------------------------

    def _convolved(self, v: Array) -> tuple[np.ndarray, np.ndarray, np.ndarray | Support]:
        """h_L*(v), mu-hat and the law, as pi where outputs are listed, for rows of v."""
        flat = np.ascontiguousarray(to_numpy(v).reshape(-1, v.shape[-1]), dtype=float)
        table = self.table_convolution()
        if table is None:
            return convolve(self.inner, self._listed() or self.outputs, flat)
        return table.solve(flat)

    def table_convolution(self) -> TableConvolution | None:
        """The inner problem with its outputs in a table; None where they cannot be listed, or h* has no compiled solver."""
        listed, inner = self._listed(), self.inner
        if listed is None or not isinstance(inner, Quadratic | MaxEntropy):
            return None
        return TableConvolution.of(inner.domain, listed.vectors, listed.offsets)

    def support(self, v: Array) -> Support:
        """The law over outputs that the scores v stand for, by the few outputs that have weight, the likeliest first.

        Outputs are numbered as in `embedding.outputs()` where they can be listed.
        """
        law = self._convolved(v)[2]
        if isinstance(law, Support):
            return law
        psi, offsets = self._table()
        order = np.argsort(-law, axis=1, kind="stable")[:, : (law > 0).sum(1).max(initial=1)]
        return Support(np.take_along_axis(law, order, 1), order, psi[order], offsets[order])

    def mixture(self, v: Array) -> Array:
        """pi, the law over outputs that the scores v stand for, one column for each of `embedding.outputs()`."""
        law = self._convolved(v)[2]
        count = len(self._table()[0])
        if isinstance(law, Support):
            pi = np.zeros((len(law.weights), count))
            np.add.at(pi, (np.arange(len(pi))[:, None], law.outputs), law.weights)
            law = pi
        return like(law.reshape(*v.shape[:-1], count), v)

    def _table(self) -> tuple[np.ndarray, np.ndarray]:
        listed = self._listed()
        if listed is None:
            raise ValueError(f"The outputs of {self.outputs!r} are too many for a table: use `support` or `decide`.")
        return listed.table()

    def decide(self, v: Array, rng: np.random.Generator | None = None) -> np.ndarray:
        """The likeliest output under the law that each row of scores stands for, or with a generator one drawn from it."""
        law = self.support(v)
        which = np.zeros(len(law.weights), dtype=int)
        if rng is not None:
            which = (np.cumsum(law.weights, axis=1) < rng.random((len(which), 1))).sum(1)
        z = law.outputs[np.arange(len(which)), np.minimum(which, law.weights.shape[1] - 1)]
        return z if self._listed() is None else self.outputs.outputs()[z]

    # -- the surrogate -------------------------------------------------------------------------------------------------

    def potential(self, mu: Array) -> Array:
        return self.inner.potential(mu) - self._least(mu)

    def _least(self, mu: Array) -> Array:
        """The least expected loss at mu."""
        xp = array_namespace(mu)
        listed = self._listed()
        if listed is not None:
            psi, offsets = (xp.asarray(a, dtype=mu.dtype, device=device(mu)) for a in listed.table())
            return xp.min(mu @ psi.T + offsets, axis=-1)
        flat = to_numpy(mu).reshape(-1, mu.shape[-1])
        z = self.outputs.decode(flat)
        least = (self.outputs.psi(z) * flat).sum(-1) + self.outputs.offset(z)
        return like(least.reshape(mu.shape[:-1]), mu)

    def link(self, mu: Array) -> Array:
        """The score at which the best output for mu, of several the first, has all the weight."""
        outputs = self._listed() or self.outputs
        psi = outputs.psi(outputs.decode(to_numpy(mu).reshape(-1, mu.shape[-1])))
        return self.inner.link(mu) - _shaped(psi, mu, mu.shape)

    def inverse_link(self, v: Array) -> Array:
        return _shaped(self._convolved(v)[1], v, v.shape)

    def risk_and_gradient(self, v: Array, phi: Array) -> tuple[Array, Array]:
        xp = array_namespace(v)
        values, mu, _ = self._convolved(v)
        moments = _shaped(mu, v, v.shape)
        conjugate = with_gradient(_shaped(values, v, v.shape[:-1]), moments, v)
        return (conjugate - xp.sum(phi * v, axis=-1))[..., None], moments - phi

    def hessian(self, v: Array, phi: Array) -> Callable[[Array], Array]:
        flat = to_numpy(v).reshape(-1, v.shape[-1]).astype(float)
        product = curvature(self.inner, flat, self.support(v))
        return lambda u: _shaped(product(to_numpy(u).reshape(flat.shape).astype(float)), v, v.shape)


def _shaped(result: np.ndarray, v: Array, shape: tuple[int, ...]) -> Array:
    """A result of rows in v's own kind of array, dtype and shape."""
    result = result.reshape(shape)
    return result.astype(v.dtype, copy=False) if isinstance(v, np.ndarray) else like(result, v)
