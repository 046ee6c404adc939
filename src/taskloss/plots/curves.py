"""Curves of the theory: calibration functions, margins and comparisons; each function returns its matplotlib axes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from .base import Display
from .style import BLUE, GREEN, GREY, ORANGE, RED, pyplot, series, styled

if TYPE_CHECKING:
    from ..theory.calibration import Calibration
    from ..theory.compare import Comparison
    from ..theory.noise import MarginDistribution


@styled
def calibration_plot(zeta: Calibration, ax: Any = None, points: int = 41) -> Any:
    """zeta_h between its bounds, with its convex envelope; where zeta_h is an interval, the interval is shaded."""
    if ax is None:
        ax = pyplot().subplots(figsize=(6, 4.2))[1]
    eps = np.linspace(0, zeta.eps_max, points)
    found = [zeta.exact(e) for e in eps]
    values, lower = np.array([c.value for c in found]), np.array([c.lower for c in found])
    if zeta.problem.convexity:
        ax.plot(eps, zeta.lower_bound(eps, improved=False), ":", color=GREY, label="lower bound, user-friendly")
        ax.plot(eps, zeta.lower_bound(eps), "--", color=GREEN, label="lower bound, improved")
    ax.plot(eps, zeta.upper_bound(eps), "-.", color=RED, label="upper bound, segment in M")
    exact = all(c.exact for c in found)
    name = r"envelope $\zeta^{**}$" if exact else "convex lower bound"
    ax.plot(eps, zeta.envelope(eps), "-", color=ORANGE, lw=4, alpha=0.55, label=name)
    if not exact:
        ax.fill_between(eps, lower, values, color=BLUE, alpha=0.3, lw=0, label="certified interval")
    ax.plot(
        eps,
        values,
        "-",
        color=BLUE,
        lw=1.6,
        label=r"$\zeta_h$" + (" exact" if exact else " (upper end)"),
    )
    top = values[np.isfinite(values)].max()
    ax.set(xlim=(0, zeta.eps_max), ylim=(0, 1.1 * top), xlabel=r"true excess risk $\varepsilon$")
    ax.set_ylabel(r"surrogate excess risk $\zeta(\varepsilon)$")
    ax.set_title(f"{type(zeta.loss).__name__} loss, {type(zeta.surrogate).__name__}")
    ax.legend(frameon=False, fontsize=8)
    return ax


@styled
def margins_plot(distribution: MarginDistribution, ax: Any = None, points: int = 200) -> Any:
    """The distribution of margins: the share of inputs whose margin is at most t, with its band.

    Both axes are logarithmic, so that the p of the noise condition is the slope at the left end.
    """
    if ax is None:
        ax = pyplot().subplots(figsize=(6, 4.2))[1]
    margins = distribution.margins[distribution.margins > 0]
    if not len(margins):
        raise ValueError("All decisions tie: there is no margin to draw.")
    t = np.geomspace(margins[0] / 3, margins[-1] * 1.2, points)
    low, high = distribution.band(t)
    floor = 0.3 / len(distribution)
    ax.fill_between(t, np.maximum(low, floor), np.maximum(high, floor), color=BLUE, alpha=0.2, lw=0)
    share = np.where(distribution.cdf(t) > 0, distribution.cdf(t), np.nan)
    ax.plot(t, share, "-", color=BLUE, label=f"share of {len(distribution)} inputs, {distribution.confidence:.0%} band")
    ax.set(xscale="log", yscale="log", xlim=(t[0], t[-1]), ylim=(floor, 1.3))
    ax.set_xlabel(r"margin $t$: expected loss of the next best output, less that of the best")
    ax.set_ylabel(r"$P(\gamma(X) \leq t)$")
    ax.legend(frameon=False, loc="lower right")
    return ax


@styled
def comparison_plot(comparison: Comparison, axes: Any = None) -> Any:
    """Left the calibration functions, each in its surrogate's own units; right the sample sizes, which can be compared."""
    if axes is None:
        axes = pyplot().subplots(1, 2, figsize=(11, 4.2))[1]
    eps = np.array(comparison.eps)
    order = np.argsort(eps)
    for number, candidate in enumerate(comparison.candidates):
        style = series(number) | {"ms": 4, "label": candidate.name}
        ends = [found.value if np.isfinite(found.value) else found.lower for found in candidate.certificates]
        axes[0].plot(eps[order], np.array(ends)[order], **style)
        examples = np.array(candidate.examples)
        if np.isfinite(examples).any():
            axes[1].plot(eps[order], examples[order], **style)
    axes[0].set(xscale="log", yscale="log", xlabel=r"true excess risk $\varepsilon$")
    axes[0].set_ylabel(r"$\zeta(\varepsilon)$, in the surrogate's own units")
    how = "in expectation" if comparison.confidence is None else f"with probability {comparison.confidence:g}"
    axes[1].set(xscale="log", yscale="log", xlabel=r"true excess risk $\varepsilon$", ylabel=f"examples, {how}")
    axes[0].figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right center", frameon=False, fontsize=7)
    return axes


class CalibrationFunctionDisplay(Display):
    """The calibration function of a surrogate for a loss: how much surrogate excess risk each true excess risk costs at least.

    Parameters
    ----------
    zeta : Calibration
        From `taskloss.theory.calibration`.
    points : int, default 41

    Examples
    --------
    >>> import taskloss as tl
    >>> loss = tl.losses.Absolute(3)
    >>> display = tl.plots.CalibrationFunctionDisplay.from_loss(loss, tl.surrogates.AllThresholds())
    >>> display.zeta.eps_max
    2.0
    """

    def __init__(self, zeta: Calibration, points: int = 41) -> None:
        self.zeta, self.points = zeta, points

    @classmethod
    def from_loss(cls, loss: Any, surrogate: Any = "auto", *, points: int = 41, ax: Any = None) -> Self:
        """Compute the calibration function and draw it between its bounds.

        Parameters
        ----------
        loss : a loss that knows how many labels there are
        surrogate : a surrogate that fits it, or its name
        points : int, default 41
        ax : matplotlib Axes, optional

        Returns
        -------
        CalibrationFunctionDisplay
        """
        from ..theory.calibration import calibration

        return cls(calibration(loss, surrogate), points).plot(ax)

    def draw(self, ax: Any) -> None:
        calibration_plot(self.zeta, ax, self.points)
