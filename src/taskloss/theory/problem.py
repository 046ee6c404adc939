"""A loss and a surrogate bound to each other, as the sets H_0(z), M and D and the divergence D_h."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from .._arguments import explained
from ..losses.base import Loss
from ..polytopes.base import Polytope
from ..surrogates.base import Surrogate, automatic
from ..surrogates.form import Form
from . import exponential
from .separable import Coins, in_coins

DUAL = {"l1": "linf", "l2": "l2", "linf": "l1"}


@explained
def form_of(surrogate: Surrogate, polytope: Polytope) -> Form:
    """The surrogate's divergence as a Form, or as a jointly convex minorant: `surrogate.form(polytope)`."""
    return Surrogate.resolve(surrogate).form(polytope)


@explained
def strong_convexity(surrogate: Surrogate, polytope: Polytope) -> dict[str, float]:
    """sigma for each norm in which h is known to be sigma-strongly convex on D: keys "l1", "l2", "linf"."""
    return Surrogate.resolve(surrogate).strong_convexity(polytope)


class Problem:
    """H_0(z), M and D for a loss and a surrogate, bound to each other.

    The loss is <psi(z), u> + offset(z); offsets that differ by output act as an additional, constant coordinate of u.
    """

    def __init__(self, loss: Any, surrogate: Any):
        loss = Loss.resolve(loss)
        loss, surrogate = matched(loss, surrogate)
        if not surrogate.calibrated:
            raise ValueError(
                f"{surrogate!r} is not phi-calibrated: its excess risk is no Bregman divergence, so zeta_h is not defined; "
                f"use a logistic, exponential or square margin."
            )
        if not surrogate.differentiable:
            raise ValueError(
                f"{surrogate!r} decides from its mixture over outputs and not from moments, so that zeta_h does not describe it; "
                "its calibration function is at least linear: see tl.theory.linear_calibration."
            )
        self.loss: Loss = loss
        self.surrogate: Surrogate = surrogate
        outputs = loss.outputs()
        self.outputs = outputs
        self.psi = np.asarray(loss.psi(outputs), dtype=float)
        self.offset = np.broadcast_to(np.asarray(loss.offset(outputs), dtype=float), (len(outputs),))
        if not (np.isfinite(self.psi).all() and np.isfinite(self.offset).all()):
            raise ValueError("The loss has costs that are not finite: replace them by finite costs.")
        self.polytope: Polytope = loss.polytope
        self.vertices = np.asarray(self.polytope.vertices(), dtype=float)
        self.table = self._table()
        self.convexity = self.surrogate.strong_convexity(self.polytope)

    def _table(self) -> np.ndarray:
        """The costs of each output at M's vertices: the loss's own matrix where it has one, free of rounding."""
        table = self.psi @ self.vertices.T + self.offset[:, None]
        try:
            own = np.asarray(self.loss.matrix(), dtype=float)
        except (NotImplementedError, ValueError):
            return table
        size = np.abs(self.psi) @ np.abs(self.vertices.T) + np.abs(self.offset)[:, None]
        same = own.shape == table.shape and bool((np.abs(own - table) <= 1e-12 * size).all())
        return own if same else table

    @cached_property
    def form(self) -> Form:
        return self.surrogate.form(self.polytope)

    @property
    def domain(self) -> Polytope:
        """D, where it is not all of R^k."""
        domain = self.surrogate.domain
        if domain is None:
            raise ValueError(f"The domain of {self.surrogate!r} is the whole space.")
        return domain

    @property
    def hellinger(self) -> bool:
        """Whether D_h is the exponential margin's, coordinate by coordinate."""
        margin = self.form.margin
        return margin is not None and margin.divergence_form == "hellinger"

    @cached_property
    def kullback(self) -> bool:
        """Whether D_h is Kullback-Leibler on the laws over M's vertices."""
        form = self.form
        if not form.exact or form.curvature or len(form.slope) != len(self.vertices):
            return False
        return bool(np.allclose(self.vertices @ form.slope.T + form.shift, np.eye(len(self.vertices)), atol=1e-9))

    @cached_property
    def coins(self) -> Coins | None:
        """The problem in coordinates of [0, 1], where D_h or its minorant is a sum over these of coins' divergences."""
        return in_coins(self.form, self.polytope.law(), self.psi, self.offset)

    @cached_property
    def reach(self) -> np.ndarray:
        """The largest excess of z over z' at a point of M; entry [z, z']."""
        return np.stack([(row - self.table).max(1) for row in self.table])

    @property
    def eps_max(self) -> float:
        """The largest excess that any output can have at a point of M."""
        return float((self.table - self.table.min(0)).max())

    @cached_property
    def unit(self) -> float:
        """The unit of costs: the largest difference between two outputs on a label, or 1 where there is none."""
        return float(np.ptp(self.table, axis=0).max()) or 1.0

    @cached_property
    def rounding(self) -> float:
        """A bound on the rounding error of an excess."""
        size = np.abs(self.psi) @ np.abs(self.vertices).max(0) + np.abs(self.offset)
        return 8 * float(np.finfo(float).eps * size.max())

    def excess(self, z: int, u: np.ndarray) -> Any:
        """The excess Bayes risk of output z at moments u."""
        risks = u @ (self.psi[z] - self.psi).T + (self.offset[z] - self.offset)
        return risks.max(-1)

    def divergence(self, u1: np.ndarray, u2: np.ndarray) -> Any:
        """D_h(u1, u2) of the surrogate itself."""
        form = self.form
        if form.exact:
            return form.divergence(u1, u2)
        u1, u2 = np.asarray(u1, float), np.asarray(u2, float)
        if self.hellinger:
            width = 1 - form.low
            x, y = ((np.clip(u, form.low, 1.0) - form.low) / width for u in (u1, u2))
            return exponential.divergence(x, y, (u1 - u2) / width).sum(-1)
        with np.errstate(all="ignore"):
            value = self.surrogate.divergence(u1, u2)
        return np.where(np.isnan(value), np.inf, value)

    def ceiling(self, u1: np.ndarray, u2: np.ndarray) -> float:
        """An upper bound on D_h(u1, u2): its value plus a bound on the error of its evaluation.

        A divergence computed as a difference of values and slopes of h inherits their rounding errors.
        """
        value = float(self.divergence(u1, u2))
        if self.form.exact or self.hellinger or not np.isfinite(value):
            return value
        with np.errstate(all="ignore"):
            h = np.abs(self.surrogate.potential(np.stack([u1, u2]))).max()
            slope = np.abs(self.surrogate.potential_gradient(np.asarray(u2, float)[None]))
            slope = np.where(np.isfinite(slope), slope, 0.0).max()
        lost = 1e-14 * (1 + float(h)) + 1e-9 * float(np.abs(u1 - u2).sum() * (1 + slope))
        return max(value, 0.0) + lost

    def differences(self, norm: str) -> np.ndarray:
        """|psi(z) - psi(z')| in a norm, modulo functionals that are constant on D; entry [z, z']."""
        d = self.psi[:, None, :] - self.psi[None, :, :]
        if norm == "l2":
            return np.linalg.norm(d @ self._tangent, axis=-1)
        blocks = self._blocks
        if norm == "linf" and blocks is not None:
            # On a block where u sums to a constant, the least |d + c 1|_inf is half the range of d.
            return np.max([np.ptp(d[..., b], axis=-1) / 2 for b in blocks], axis=0)
        return np.linalg.norm(d, ord={"linf": np.inf, "l1": 1}[norm], axis=-1)

    @cached_property
    def _tangent(self) -> np.ndarray:
        """The orthogonal projection onto the directions of D's affine hull."""
        equal = self.form.equal
        return np.eye(self.psi.shape[1]) - np.linalg.pinv(equal) @ equal

    @cached_property
    def _blocks(self) -> list[np.ndarray] | None:
        """Coordinates that sum to a constant on D, where its equations are such sums and share no coordinate."""
        equal = self.form.equal
        sums = len(equal) and ((equal == 0) | (equal == 1)).all() and (equal.sum(0) == 1).all()
        return [np.flatnonzero(row) for row in equal] if sums else None

    @cached_property
    def curvature(self) -> np.ndarray:
        """kappa[z, z'] with D_h(u', u) >= kappa/2 eps^2 whenever z is optimal at u and eps worse than z' at u'.

        <psi(z) - psi(z'), u' - u> >= eps, so that |u' - u| >= eps / |psi(z) - psi(z')|_*; the best norm is taken.
        """
        best = np.zeros((len(self.psi), len(self.psi)))
        for norm, sigma in self.convexity.items():
            best = np.maximum(best, inverse_square(self.differences(DUAL[norm]), sigma))
        return best


def inverse_square(length: Any, sigma: float) -> Any:
    """sigma / length^2, infinite where the length is zero."""
    length = np.asarray(length, dtype=float)
    return np.where(length > 0, (np.sqrt(sigma) / np.where(length > 0, length, 1.0)) ** 2, np.inf)


def matched(loss: Loss, surrogate: Any) -> tuple[Loss, Surrogate]:
    """The loss in the first embedding that the surrogate takes, and the surrogate bound to it."""
    if isinstance(surrogate, str) and surrogate == "auto":
        return loss, automatic(loss.polytope).bind(loss.polytope)
    surrogate = Surrogate.resolve(surrogate)
    refusal: ValueError | None = None
    for variant in loss.variants():
        try:
            return variant, surrogate.bind(variant.polytope).bind_outputs(variant)
        except ValueError as error:
            refusal = refusal or error
    raise refusal  # type: ignore[misc]
