"""The paper's figures, remade from computation; each function returns its matplotlib figure. Needs the extra `plot`."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from ..losses.hamming import Hamming
from ..losses.tabular import Absolute, Tabular, ZeroOne
from ..polytopes.simplex import Simplex
from ..surrogates.base import Surrogate
from ..surrogates.coordinatewise import AllThresholds, OneVsAll
from ..surrogates.cumulative import CumulativeLink
from ..surrogates.maxentropy import Multinomial
from .calibration import Calibration, calibration
from .linear import linear_program
from .noise import MarginDistribution
from .problem import Problem

if TYPE_CHECKING:
    from .compare import Comparison

# Okabe and Ito's colours, which the colour-blind can tell apart.
BLUE, ORANGE, GREEN, RED, PURPLE, GREY = "#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#777777"
FILLS = ["#cfe3f1", "#fbe3b6", "#c5e8dc", "#f6d3c1", "#efd7e6"]


def _pyplot() -> Any:
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("Pictures need matplotlib: pip install 'taskloss[plot]'.") from error
    return plt


# -- curves ----------------------------------------------------------------------------------------------------------


def calibration_plot(zeta: Calibration, ax: Any = None, points: int = 41) -> Any:
    """zeta_h between its bounds, with its convex envelope; where zeta_h is an interval, the interval is shaded."""
    if ax is None:
        ax = _pyplot().subplots(figsize=(6, 4.2), layout="constrained")[1]
    eps = np.linspace(0, zeta.eps_max, points)
    found = [zeta.exact(e) for e in eps]
    values, lower = np.array([c.value for c in found]), np.array([c.lower for c in found])
    if zeta.problem.convexity:
        ax.plot(eps, zeta.lower_bound(eps, improved=False), ":", color=GREY, label="lower bound, user-friendly")
        ax.plot(eps, zeta.lower_bound(eps), "--", color=GREEN, label="lower bound, improved")
    ax.plot(eps, zeta.upper_bound(eps), "-.", color=RED, label="upper bound, segment in M")
    exact = all(c.exact for c in found)
    name = r"envelope $\zeta^{**}$" if exact else "convex lower bound"
    ax.plot(eps, zeta.envelope(eps), color=ORANGE, lw=4, alpha=0.55, label=name)
    if not exact:
        ax.fill_between(eps, lower, values, color=BLUE, alpha=0.3, lw=0, label="certified interval")
    ax.plot(
        eps,
        values,
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


def margins_plot(distribution: MarginDistribution, ax: Any = None, points: int = 200) -> Any:
    """The distribution of margins: the share of inputs whose margin is at most t, with its band.

    Both axes are logarithmic, so that the p of the noise condition is the slope at the left end.
    """
    if ax is None:
        ax = _pyplot().subplots(figsize=(6, 4.2), layout="constrained")[1]
    margins = distribution.margins[distribution.margins > 0]
    if not len(margins):
        raise ValueError("All decisions tie: there is no margin to draw.")
    t = np.geomspace(margins[0] / 3, margins[-1] * 1.2, points)
    low, high = distribution.band(t)
    floor = 0.3 / len(distribution)
    ax.fill_between(t, np.maximum(low, floor), np.maximum(high, floor), color=BLUE, alpha=0.2, lw=0)
    share = np.where(distribution.cdf(t) > 0, distribution.cdf(t), np.nan)
    ax.plot(t, share, color=BLUE, label=f"share of {len(distribution)} inputs, {distribution.confidence:.0%} band")
    ax.set(xscale="log", yscale="log", xlim=(t[0], t[-1]), ylim=(floor, 1.3))
    ax.set_xlabel(r"margin $t$: expected loss of the next best output, less that of the best")
    ax.set_ylabel(r"$P(\gamma(X) \leq t)$")
    ax.legend(frameon=False, loc="lower right")
    return ax


def comparison_plot(comparison: Comparison, axes: Any = None) -> Any:
    """Left the calibration functions, each in its surrogate's own units; right the sample sizes, which can be compared."""
    if axes is None:
        axes = _pyplot().subplots(1, 2, figsize=(11, 4.2), layout="constrained")[1]
    eps = np.array(comparison.eps)
    order = np.argsort(eps)
    marks = dict(zip([c.name for c in comparison.candidates], "osD^vP*X<>ph" * 4, strict=False))
    for candidate, colour in zip(
        comparison.candidates, itertools.cycle([BLUE, ORANGE, GREEN, RED, PURPLE, GREY]), strict=False
    ):
        style = {"color": colour, "marker": marks[candidate.name], "ms": 4, "label": candidate.name}
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


def crammer_singer_calibration(eps: np.ndarray, steps: int = 40) -> np.ndarray:
    """zeta of the multiclass hinge for 0-1 loss on three classes, from its definition, as it has no Bregman divergence.

    For each law q on a grid, ordered by symmetry, and each wrong output z: the least risk of scores that pick z, less
    the least risk of all, two linear programs. On the grid's laws the values are exact.
    """
    pairs = list(itertools.permutations(range(3), 2))
    # variables (v, xi): xi_y >= 1 + v_j - v_y for j != y, xi >= 0
    slack = np.array([np.eye(3)[j] - np.eye(3)[y] for j, y in pairs])
    rows = np.c_[slack, [-np.eye(3)[y] for _, y in pairs]]

    def least(q: np.ndarray, pick: int | None) -> float:
        wanted = (
            [] if pick is None else [np.r_[np.eye(3)[j] - np.eye(3)[pick], np.zeros(3)] for j in range(3) if j != pick]
        )
        matrix, level = np.vstack([rows, *wanted]), np.r_[-np.ones(6), np.zeros(len(wanted))]
        bounds = [(0, 0), (-9, 9), (-9, 9)] + [(0, None)] * 3
        return float(linear_program(np.r_[np.zeros(3), q], A_ub=matrix, b_ub=level, bounds=bounds).fun)

    excess, price = [], []
    for a, b in itertools.product(range(steps + 1), repeat=2):
        q = np.array([a, b, steps - a - b]) / steps
        if q[0] >= q[1] >= q[2] >= 0:
            base = least(q, None)
            for z in (1, 2):
                excess.append(q[0] - q[z])
                price.append(least(q, z) - base)
    reach, cost = np.array(excess), np.array(price)
    return np.array([cost[reach >= e - 1e-9].min(initial=np.inf) for e in np.atleast_1d(eps)])


def consistency_figure(points: int = 41) -> Any:
    """Calibration functions for 0-1 loss on three classes: fast and consistent, slow and consistent, not consistent."""
    fig, ax = _pyplot().subplots(figsize=(6, 4.2), layout="constrained")
    eps = np.linspace(0, 1, points)
    for surrogate, colour, name in (
        (OneVsAll("square"), BLUE, "one-vs-all square: fast, consistent"),
        (Multinomial(), RED, "multinomial: slow, consistent"),
    ):
        ax.plot(eps, calibration(ZeroOne(3), surrogate)(eps), color=colour, label=name)
    ax.plot(eps, crammer_singer_calibration(eps), color=ORANGE, label="multiclass hinge: not consistent")
    ax.set(xlim=(0, 1), ylim=(-0.02, 1.2), xlabel=r"true excess risk $\varepsilon$", ylabel=r"$\zeta(\varepsilon)$")
    ax.legend(frameon=False)
    return fig


def thresholds_figure(n_classes: int = 5, points: int = 41) -> Any:
    """All thresholds against cumulative link for absolute error, exact: the comparison of Pedregosa et al., explained.

    zeta is (k-1) f(eps/(k-1)) against f(eps/(k-1)) with f(e) = log 2 - Ent((1+e)/2): k - 1 times apart.
    """
    fig, ax = _pyplot().subplots(figsize=(6, 4.2), layout="constrained")
    eps = np.linspace(0, n_classes - 1, points)
    for surrogate, colour, name in (
        (AllThresholds(), BLUE, "all thresholds"),
        (CumulativeLink(), RED, "cumulative link"),
    ):
        zeta = calibration(Absolute(n_classes), surrogate)
        ax.plot(eps, zeta(eps), color=colour, label=f"{name}, exact")
    ax.plot(eps, eps**2 / (8 * (n_classes - 1) ** 2), ":", color=RED, label="cumulative link, the paper's bound")
    ax.set(
        xlim=(0, n_classes - 1),
        ylim=(0, None),
        xlabel=r"true excess risk $\varepsilon$",
        ylabel=r"$\zeta(\varepsilon)$",
    )
    ax.set_title(f"Absolute error on {n_classes} classes, logistic")
    ax.legend(frameon=False)
    return fig


# -- sets ------------------------------------------------------------------------------------------------------------


def hamming_figure(eps: float = 0.1, resolution: int = 801) -> Any:
    """H_0((1,1)) and the complement of H_eps((1,1)) in the square, for Hamming loss on two labels."""
    fig, ax = _pyplot().subplots(figsize=(5, 5), layout="constrained")
    loss = Hamming(2)
    problem = Problem(loss, "auto")
    axis = np.linspace(-1, 1, resolution)
    grid = np.stack(np.meshgrid(axis, axis), axis=-1)
    z = int((problem.outputs == 1).all(1).argmax())
    excess = problem.excess(z, grid)
    ax.contourf(axis, axis, excess, levels=[-1, 1e-9, eps, 9], colors=[FILLS[3], "white", FILLS[0]])
    ax.contour(axis, axis, excess, levels=[1e-9, eps], colors=[RED, BLUE], linewidths=1.2)
    for other in range(4):
        if other != z:  # the lines <psi(z) - psi(z'), u> = eps that bound H_eps
            d = (problem.psi[z] - problem.psi[other]) @ np.moveaxis(grid, -1, 0).reshape(2, -1)
            ax.contour(
                axis, axis, d.reshape(excess.shape), levels=[eps], colors=GREY, linewidths=0.7, linestyles="dashed"
            )
    ax.text(0.5, 0.5, r"$H_0((1,1)) \cap M$", color=RED, ha="center", fontsize=12)
    ax.text(-0.6, -0.6, r"$H_\varepsilon((1,1))^c \cap M$", color=BLUE, ha="center", fontsize=12)
    for corner in itertools.product((0, 1), repeat=2):
        place = 2 * np.array(corner) - 1
        ax.annotate(
            f"y = {corner}", place, xytext=(0, 9 * place[1]), textcoords="offset points", ha="center", va="center"
        )
    ax.annotate("", (0.85, 0), (0.85, -2 * eps), arrowprops={"arrowstyle": "<->", "lw": 0.8})
    ax.text(0.88, -eps, r"$2\varepsilon$", va="center")
    ax.set(xlim=(-1, 1), ylim=(-1, 1), aspect="equal", xticks=[-1, 0, 1], yticks=[-1, 0, 1])
    ax.tick_params(labelbottom=False, labelleft=False)
    ax.spines[:].set_linewidth(1.5)
    return fig


CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(3) / 2]])


def _triangle(ax: Any, corners: np.ndarray, names: list[str], resolution: int = 240) -> tuple[np.ndarray, Any]:
    """Laws on three labels over a fine mesh of the triangle, and the mesh; draws the frame."""
    from matplotlib.tri import Triangulation

    laws = np.array([(a, b, resolution - a - b) for a in range(resolution + 1) for b in range(resolution + 1 - a)])
    laws = laws / resolution
    place = laws @ corners
    ax.plot(*np.vstack([corners, corners[:1]]).T, color="black", lw=2)
    centre = corners.mean(0)
    for corner, name in zip(corners, names, strict=True):
        ax.text(*(corner + 0.08 * (corner - centre) / np.linalg.norm(corner - centre)), name, ha="center", va="center")
    ax.set_aspect("equal")
    ax.axis("off")
    return laws, Triangulation(*place.T)


def zero_one_figure(eps: float = 0.15) -> Any:
    """H_0(1) and the complement of H_eps(1) in the simplex, for 0-1 loss on three classes, and the band between them."""
    fig, ax = _pyplot().subplots(figsize=(5, 4.6), layout="constrained")
    laws, mesh = _triangle(ax, CORNERS[[2, 0, 1]], ["y = 1", "y = 2", "y = 3"])
    excess = Problem(ZeroOne(3), Multinomial()).excess(0, laws)
    ax.tricontourf(mesh, excess, levels=[-1, 1e-9, eps, 9], colors=[FILLS[3], "white", FILLS[0]])
    ax.tricontour(mesh, excess, levels=[1e-9, eps], colors=[RED, BLUE], linewidths=1.2)
    ax.text(0.5, 0.52, r"$H_0(1) \cap \Delta_3$", color=RED, ha="center", fontsize=12)
    ax.text(0.5, 0.1, r"$H_\varepsilon(1)^c \cap \Delta_3$", color=BLUE, ha="center", fontsize=12)
    tie, behind = np.array([0.5, 0.5, 0.0]), np.array([(1 - eps) / 2, (1 + eps) / 2, 0.0])
    start, stop = (point @ CORNERS[[2, 0, 1]] + np.array([-0.04, 0.02]) for point in (tie, behind))
    ax.annotate("", stop, start, arrowprops={"arrowstyle": "<->", "lw": 0.8})
    ax.text(*((start + stop) / 2 + np.array([-0.035, 0.015])), r"$\varepsilon$", ha="center")
    return fig


def partition_figure(loss: Tabular | None = None, ax: Any = None) -> Any:
    """The simplex split into the sets H_0(z) of a loss on three labels; by default absolute error."""
    loss = Absolute(3) if loss is None else loss
    if ax is None:
        ax = _pyplot().subplots(figsize=(5, 4.6), layout="constrained")[1]
    problem = Problem(loss, Multinomial())
    if problem.vertices.shape != (3, 3):
        raise ValueError(f"The picture is of three labels, and {loss!r} has {len(problem.vertices)}.")
    laws, mesh = _triangle(ax, CORNERS[[0, 2, 1]], [f"y = {y + 1}" for y in range(3)])
    colours = [BLUE, RED, GREEN, ORANGE, PURPLE]
    for z in range(len(problem.psi)):
        excess = problem.excess(z, laws)
        if (excess <= 1e-12).sum() < 3:
            continue
        ax.tricontourf(mesh, excess, levels=[-1, 1e-9], colors=[FILLS[[0, 3, 2, 1, 4][z % 5]]])
        ax.tricontour(mesh, excess, levels=[1e-9], colors="black", linewidths=0.6)
        place = laws[excess <= 1e-12].mean(0) @ CORNERS[[0, 2, 1]]
        ax.text(*place, rf"$H_0({z + 1})$", color=colours[z % 5], ha="center", va="center", fontsize=12)
    return ax.figure


def map_figure(score: Any = (0.9, 0.0, 0.75), loss: Tabular | None = None) -> Any:
    """MAP against marginal decoding: the moments grad h*(gamma g) as gamma grows, over the partition of the simplex.

    Decoding takes the set in which the moments lie at gamma = 1; MAP takes the vertex that they tend to, which knows
    nothing of the loss.
    """
    loss = Absolute(3) if loss is None else loss
    fig = partition_figure(loss)
    ax = fig.axes[0]
    g = np.asarray(score, dtype=float)
    gammas = np.r_[np.linspace(0, 1, 40), np.geomspace(1, 400, 160)]
    simplex = Simplex(3)
    path = simplex.marginals(gammas[:, None] * g)
    here = simplex.marginals(g)
    decoded, best = int(loss.decode(here[None])[0]), int(g.argmax())
    corners = CORNERS[[0, 2, 1]]
    ax.plot(*(path @ corners).T, color="black", lw=1.4)
    ax.plot(*(here @ corners), "o", color="black")
    ax.annotate(
        rf"$\nabla h^*(g)$: decoded as {decoded + 1}",
        here @ corners,
        xytext=(-6, 46),
        textcoords="offset points",
        ha="center",
        arrowprops={"arrowstyle": "-", "lw": 0.6},
        fontsize=9,
    )
    ax.plot(*(np.eye(3)[best] @ corners), "s", color=ORANGE, ms=9, zorder=5)
    ax.annotate(
        rf"$\gamma \to \infty$: MAP is {best + 1}",
        np.eye(3)[best] @ corners,
        xytext=(14, 8),
        textcoords="offset points",
        fontsize=9,
    )
    return fig


# -- surrogates ------------------------------------------------------------------------------------------------------


def two_label_surrogates() -> list[tuple[str, Surrogate, np.ndarray]]:
    """Every registered surrogate on two labels, with phi(0) and phi(1) as rows."""
    from ..margins import Margin
    from ..surrogates.cumulative import Link
    from ..surrogates.quadratic import Quadratic

    signs, one_hot = np.array([[-1.0], [1.0]]), np.eye(2)
    found: list[tuple[str, Surrogate, np.ndarray]] = [
        ("quadratic", Quadratic(), signs),
        ("multinomial", Multinomial(2), one_hot),
    ]
    found += [(f"thresholds, {name}", AllThresholds(name, 2), signs) for name in Margin.registry]
    found += [(f"one-vs-all, {name}", OneVsAll(name, 2), one_hot) for name in ("logistic", "exponential")]
    found += [(f"cumulative, {name}", CumulativeLink(name, 2), one_hot) for name in Link.registry]
    return found


def surrogates_figure(names: list[str] | None = None) -> Any:
    """Potential, link and loss side by side for surrogates on two labels, q the probability of the second."""
    rows = [row for row in two_label_surrogates() if names is None or row[0] in names]
    if not rows:
        known = ", ".join(name for name, _, _ in two_label_surrogates())
        raise ValueError(f"None of {names} is a surrogate of this picture; choose from: {known}.")
    fig, axes = _pyplot().subplots(
        len(rows), 3, figsize=(8.5, 1.7 * len(rows) + 0.4), squeeze=False, layout="constrained"
    )
    q = np.linspace(0.002, 0.998, 400)
    for (name, surrogate, phi), (left, middle, right) in zip(rows, axes, strict=True):
        mu = (1 - q[:, None]) * phi[0] + q[:, None] * phi[1]
        v = surrogate.link(mu)
        way = v[300] - v[100]
        way = way / np.abs(way).max() if np.abs(way).max() > 0 else np.eye(v.shape[1])[0]
        left.plot(q, surrogate.potential(mu), color=BLUE)
        middle.plot(q, v @ way / (way @ way), color=GREEN)
        score = np.linspace(-4, 4, 401)
        scores = score[:, None] * way
        for label, colour in ((1, RED), (0, GREY)):
            right.plot(score, surrogate.value(scores, np.broadcast_to(phi[label], (401, phi.shape[1]))), color=colour)
        left.set_ylabel(name, fontsize=8)
        middle.set_ylim(-4, 4)
        right.set_ylim(-0.2, 6)
        for ax in (left, middle, right):
            ax.tick_params(labelsize=7)
            ax.margins(x=0)
    for ax, title in zip(axes[0], ("potential h(q)", "link t(q)", "loss S(v, y): y = 1 red, y = 0 grey"), strict=True):
        ax.set_title(title, fontsize=9)
    axes[-1][0].set_xlabel("q", fontsize=8)
    axes[-1][1].set_xlabel("q", fontsize=8)
    axes[-1][2].set_xlabel("v", fontsize=8)
    return fig
