"""What a surrogate S(v, y) is: a potential h and a link t."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from .._arrays import array_namespace, device
from .._checks import check_floats
from ..polytopes.base import Polytope
from ..polytopes.cube import Cube
from ..registry import Part
from .outputs import Embedding

if TYPE_CHECKING:
    from .form import Form

Array = Any


class Surrogate(Part):
    """S(v, phi) = D_h(phi, t^-1(v)), the excess risk of the score v where the moments are phi.

    Domain: scores v in R^size, moments mu in the domain D that holds the marginal polytope (None: all of R^k).
    A new surrogate gives `potential`, `link` and `inverse_link`, and where its link is not canonical
    `potential_gradient`; the base derives value and gradient. Override for stability or speed. Arrays are batch first,
    coordinates last.

    `canonical`: t is the gradient of h, and then the gradient of S is t^-1(v) - phi.
    `calibrated`: the representation holds for every v (the paper's phi-calibration).
    `smooth`: second derivatives exist.
    `differentiable`: h is, inside D, so that moments leave open no more of their scores than the link does.
    """

    name: ClassVar[str] = ""  # of one that is not registered
    guarded = ("potential", "link", "inverse_link", "divergence", "value", "gradient", "value_and_gradient")
    canonical: ClassVar[bool] = True
    ordered: ClassVar[bool] = False  # S is finite for scores in ascending order only
    squared_distance: ClassVar[bool] = False  # S is |v - phi|^2 / 2, whose risk a closed form minimises

    @property
    def calibrated(self) -> bool:
        return True

    @property
    def smooth(self) -> bool:
        return True

    @property
    def differentiable(self) -> bool:
        return True

    @property
    def convex(self) -> bool:
        """Whether S is convex in v."""
        return True

    @property
    def likelihood(self) -> bool:
        """Whether S(v, phi(y)) is minus the logarithm of a probability of y, so that inverse Hessians are covariances."""
        return False

    @property
    def odds(self) -> bool:
        """Whether differences of scores are logarithms of odds ratios."""
        return False

    @property
    def smoothness(self) -> float | None:
        """beta, where the gradient of S in v is beta-Lipschitz in the l2 norm; None where it is not, or not known."""
        return None

    @property
    def constant_on_vertices(self) -> bool:
        """Whether h is the same at every vertex of the domain, and so at every label."""
        return False

    @property
    def domain(self) -> Polytope | None:
        """The set D on which h is finite; None for the whole space."""
        return None

    @property
    def example_domain(self) -> Polytope:
        """The domain, or, where that is the whole space, a cube whose vertices are labels that the surrogate fits."""
        return Cube(self.size or 3) if self.domain is None else self.domain

    @property
    def size(self) -> int | None:
        """Number of scores; None as long as it is not bound."""
        return None if self.domain is None else self.domain.size

    @property
    def separable(self) -> bool:
        """Whether S is a sum over coordinates, so that each score is a problem of its own."""
        return False

    def diagnose(self, given: dict[str, Any], error: Exception) -> None:
        domain = self.domain
        widths = {"v": self.size}
        shapes = {}
        for name, value in given.items():
            check_floats(name, value)
            width = widths.get(name, self.size if domain is None else domain.size)
            shapes[name] = tuple(value.shape)
            if not shapes[name] or (width is not None and shapes[name][-1] != width):
                of = "its coordinates" if width is None else f"the {width} coordinates of {self!r}"
                raise ValueError(f"{name} must have {of} along its last axis, got shape {shapes[name]}.")
        if len({shape[:-1] for shape in shapes.values()}) > 1 or (domain is None and len(set(shapes.values())) > 1):
            raise ValueError(
                f"{' and '.join(shapes)} must have the same rows, got shapes {' and '.join(map(str, shapes.values()))}."
            )

    # -- binding to a problem ----------------------------------------------------------------------------------------

    def bind(self, polytope: Polytope) -> Self:
        """The same surrogate with its size taken from the marginal polytope of a loss; refuses one that does not fit."""
        bound = self._sized(polytope)
        domain = bound.domain
        if domain is not None and not domain.includes(polytope):
            raise ValueError(
                f"The surrogate {self!r} does not fit this loss: its moments live in {domain!r}, which does not hold the "
                f"loss's {type(polytope).__name__.lower()} in R^{polytope.size}; pass surrogate='auto', or a loss with another embedding."
            )
        return bound

    def fits(self, polytope: Polytope) -> bool:
        """Whether `bind` is worth trying: False where the polytope's box tells that it would refuse."""
        return True

    def _sized(self, polytope: Polytope) -> Self:
        return self

    @classmethod
    def for_loss(cls, loss: Any) -> Self:
        """An instance to compare with others on a loss; one that cannot be built without the loss takes what it needs from it."""
        return cls()

    def bind_outputs(self, embedding: Embedding) -> Self:
        """The same surrogate with the outputs of a loss, where it takes them; refuses other outputs than it has."""
        return self

    def canonical_form(self) -> Surrogate:
        """The surrogate of the same h with the canonical link t = grad h."""
        if self.canonical:
            return self
        from .mixture import Mixture

        return Mixture([self], [1.0])

    # -- the parts ---------------------------------------------------------------------------------------------------

    def potential(self, mu: Array) -> Array:
        """h(mu)."""
        raise NotImplementedError

    def link(self, mu: Array) -> Array:
        """t(mu), the scores that stand for the moments mu."""
        raise NotImplementedError

    def inverse_link(self, v: Array) -> Array:
        """t^-1(v), the moments that the scores v stand for."""
        raise NotImplementedError

    def potential_gradient(self, mu: Array) -> Array:
        """The gradient of h; equals the link where that is canonical."""
        if self.canonical:
            return self.link(mu)
        raise NotImplementedError

    def decide(self, v: Array) -> np.ndarray | None:
        """The outputs that the scores v choose themselves, as codes of the outputs bound; None where moments decide."""
        return None

    # -- for the theory ----------------------------------------------------------------------------------------------

    def form(self, polytope: Polytope) -> Form:
        """D_h as a conic solver takes it, or a jointly convex divergence below it; for M = polytope, once bound."""
        raise NotImplementedError(
            f"No convex form is known for the divergence of {type(self).__name__}: give it a method form(polytope)."
        )

    def strong_convexity(self, polytope: Polytope) -> dict[str, float]:
        """sigma for each norm ("l1", "l2", "linf") in which h is known to be sigma-strongly convex on D."""
        return {}

    def as_function(
        self, phi: Any, loss: Any = None
    ) -> tuple[Callable[[np.ndarray, int], np.ndarray], np.ndarray, int]:
        """S(v, y) for rows of scores and one label's code, phi as rows, and the number of scores; bound to a loss first, if one is given."""
        if phi is None:
            raise ValueError("check needs phi: an array with one row per label, or a loss.")
        bound = self if loss is None else self.bind(loss.polytope).bind_outputs(loss)
        table = np.asarray(phi, dtype=float)
        potentials: dict[int, float] = {}  # h of each label, which may take a numerical optimum, once

        def function(v: np.ndarray, y: int) -> np.ndarray:
            if y not in potentials:
                potentials[y] = float(bound.potential(table[y : y + 1])[0])
            terms, _ = bound.risk_and_gradient(v, np.broadcast_to(table[y], (len(v), table.shape[1])))
            return np.asarray(terms).sum(-1) + potentials[y]

        return function, table, bound.size or table.shape[1]

    # -- what follows ------------------------------------------------------------------------------------------------

    def divergence(self, mu1: Array, mu2: Array) -> Array:
        """D_h(mu1, mu2) = h(mu1) - h(mu2) - <mu1 - mu2, grad h(mu2)>."""
        xp = array_namespace(mu1, mu2)
        gradient = self.potential_gradient(mu2)
        slope = (mu1 - mu2) * xp.where(mu1 == mu2, xp.zeros_like(gradient), gradient)
        return self.potential(mu1) - self.potential(mu2) - xp.sum(slope, axis=-1)

    def value(self, v: Array, phi: Array) -> Array:
        """S(v, phi) >= 0, one number per row."""
        return self.value_and_gradient(v, phi)[0]

    def gradient(self, v: Array, phi: Array) -> Array:
        """The gradient of S in v."""
        return self.value_and_gradient(v, phi)[1]

    def value_and_gradient(self, v: Array, phi: Array) -> tuple[Array, Array]:
        """S and its gradient in v."""
        xp = array_namespace(v)
        terms, gradient = self.risk_and_gradient(v, phi)
        return xp.sum(terms, axis=-1) + self.potential(phi), gradient

    def risk_and_gradient(self, v: Array, phi: Array) -> tuple[Array, Array]:
        """S less h(phi), which no score changes, and its gradient: what a solver loops on.

        The value comes as terms along the last axis, one per coordinate where S is separable and otherwise one. With a
        link of its own the gradient is J' (mu - phi), J the derivative of grad h(t^-1(v)), by central differences.
        """
        xp = array_namespace(v)
        mu = self.inverse_link(v)
        value = xp.expand_dims(self.divergence(phi, mu) - self.potential(phi), axis=-1)
        if self.canonical:
            return value, mu - phi
        step = xp.finfo(v.dtype).eps ** (1 / 3)
        columns = []
        for j in range(v.shape[-1]):
            shift = xp.where(xp.arange(v.shape[-1], device=device(v)) == j, step, xp.zeros_like(v))
            up, down = (self.potential_gradient(self.inverse_link(u)) for u in (v + shift, v - shift))
            columns.append(xp.sum((up - down) * (mu - phi), axis=-1) / (2 * step))
        return value, xp.stack(columns, axis=-1)

    def hessian(self, v: Array, phi: Array) -> Callable[[Array], Array]:
        """The linear map u -> (second derivative of S in v) u; by central differences where a surrogate gives none."""

        def product(u: Array) -> Array:
            step = 1e-5
            up = self.risk_and_gradient(v + step * u, phi)[1]
            return (up - self.risk_and_gradient(v - step * u, phi)[1]) / (2 * step)

        return product

    def hessian_matrices(self, v: Array, phi: Array, gradient: Array | None = None) -> Array:
        """The second derivatives of S in v, (..., k, k); with the gradient, where it is known, some need no second pass."""
        xp = array_namespace(v)
        product, places = self.hessian(v, phi), xp.arange(v.shape[-1], device=device(v))
        units = [xp.astype(places == j, v.dtype) + xp.zeros_like(v) for j in range(v.shape[-1])]
        return xp.stack([product(unit) for unit in units], axis=-2)

    def diagonal(self, v: Array, phi: Array, gradient: Array | None = None) -> Array:
        """The diagonal of the second derivative of S in v; with the gradient, where it is known, some need no second pass."""
        xp = array_namespace(v)
        product = self.hessian(v, phi)
        if self.separable:
            return product(xp.ones_like(v)) + xp.zeros_like(v)
        places = xp.arange(v.shape[-1], device=device(v))
        units = [xp.astype(places == j, v.dtype) + xp.zeros_like(v) for j in range(v.shape[-1])]
        return xp.stack([product(unit)[..., j] for j, unit in enumerate(units)], axis=-1)

    def check_single_steps(self) -> None:
        """Refuse, in one sentence, scores that a step on one example can put out of order."""
        if self.ordered:
            raise ValueError(
                f"{self!r} is finite for ordered scores only, which steps on single examples do not keep: use 'all-thresholds', "
                "or solver='lbfgs' or 'newton'."
            )

    def start(self, mu: np.ndarray) -> np.ndarray:
        """Scores of the best constant prediction, the link at the mean moments; pulled inside the domain where that is not finite."""
        with np.errstate(divide="ignore", invalid="ignore"):
            v = self.link(mu)
        inside = np.isfinite(v).all() and not (self.ordered and (np.diff(v) <= 0).any())
        if self.domain is None or inside:
            return v
        return self.link(0.999 * mu + 0.001 * self.domain.center())


def automatic(polytope: Polytope) -> Surrogate:
    """The surrogate for a marginal polytope when the user names none: maximum entropy where it is cheap."""
    from .coordinatewise import Independent
    from .maxentropy import Multinomial, RowMultinomial
    from .quadratic import Quadratic

    if polytope.name == "simplex":
        return Multinomial()
    if polytope.rows is not None:
        return RowMultinomial()
    independent = Independent()
    return independent if independent.fits(polytope) else Quadratic()


def first_fit(variants: Iterable[Any], surrogate: Any) -> tuple[Any, Surrogate]:
    """The first of a loss's embeddings that a surrogate fits, and the surrogate with its size and outputs.

    surrogate: one, its name, or "auto"; where it fits none, what it says of the first is raised.
    """
    variants = list(variants)
    for variant in variants:
        with contextlib.suppress(ValueError):
            polytope = variant.polytope
            found = _named(surrogate, polytope)
            if found.fits(polytope):
                return variant, found.bind(polytope).bind_outputs(variant)
    first = variants[0]
    return first, _named(surrogate, first.polytope).bind(first.polytope).bind_outputs(first)


def _named(surrogate: Any, polytope: Polytope) -> Surrogate:
    """The surrogate that is meant, for a loss with this polytope."""
    auto = isinstance(surrogate, str) and surrogate == "auto"
    return automatic(polytope) if auto else Surrogate.resolve(surrogate)
