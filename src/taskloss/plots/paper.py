"""The paper's figures, remade from computation; each function returns its matplotlib figure."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from ..losses.hamming import Hamming
from ..losses.tabular import Absolute, Tabular, ZeroOne
from ..polytopes.simplex import Simplex
from ..surrogates.coordinatewise import AllThresholds, OneVsAll
from ..surrogates.cumulative import CumulativeLink
from ..surrogates.maxentropy import Multinomial
from ..theory.calibration import calibration
from ..theory.linear import linear_program
from ..theory.problem import Problem
from .style import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, TINTS, pyplot, styled


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


@styled
def consistency_figure(points: int = 41) -> Any:
    """Calibration functions for 0-1 loss on three classes: fast and consistent, slow and consistent, not consistent."""
    fig, ax = pyplot().subplots(figsize=(6, 4.2))
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


@styled
def thresholds_figure(n_classes: int = 5, points: int = 41) -> Any:
    """All thresholds against cumulative link for absolute error, exact: the comparison of Pedregosa et al., explained.

    zeta is (k-1) f(eps/(k-1)) against f(eps/(k-1)) with f(e) = log 2 - Ent((1+e)/2): k - 1 times apart.
    """
    fig, ax = pyplot().subplots(figsize=(6, 4.2))
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


@styled
def hamming_figure(eps: float = 0.1, resolution: int = 801) -> Any:
    """H_0((1,1)) and the complement of H_eps((1,1)) in the square, for Hamming loss on two labels."""
    fig, ax = pyplot().subplots(figsize=(5, 5))
    loss = Hamming(2)
    problem = Problem(loss, "auto")
    axis = np.linspace(-1, 1, resolution)
    grid = np.stack(np.meshgrid(axis, axis), axis=-1)
    z = int((problem.outputs == 1).all(1).argmax())
    excess = problem.excess(z, grid)
    ax.contourf(axis, axis, excess, levels=[-1, 1e-9, eps, 9], colors=[TINTS[1], "white", TINTS[0]])
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
    ax.plot(*np.vstack([corners, corners[:1]]).T, "-", color="black", lw=2)
    centre = corners.mean(0)
    for corner, name in zip(corners, names, strict=True):
        ax.text(*(corner + 0.08 * (corner - centre) / np.linalg.norm(corner - centre)), name, ha="center", va="center")
    ax.set_aspect("equal")
    ax.axis("off")
    return laws, Triangulation(*place.T)


@styled
def zero_one_figure(eps: float = 0.15) -> Any:
    """H_0(1) and the complement of H_eps(1) in the simplex, for 0-1 loss on three classes, and the band between them."""
    fig, ax = pyplot().subplots(figsize=(5, 4.6))
    laws, mesh = _triangle(ax, CORNERS[[2, 0, 1]], ["y = 1", "y = 2", "y = 3"])
    excess = Problem(ZeroOne(3), Multinomial()).excess(0, laws)
    ax.tricontourf(mesh, excess, levels=[-1, 1e-9, eps, 9], colors=[TINTS[1], "white", TINTS[0]])
    ax.tricontour(mesh, excess, levels=[1e-9, eps], colors=[RED, BLUE], linewidths=1.2)
    ax.text(0.5, 0.52, r"$H_0(1) \cap \Delta_3$", color=RED, ha="center", fontsize=12)
    ax.text(0.5, 0.1, r"$H_\varepsilon(1)^c \cap \Delta_3$", color=BLUE, ha="center", fontsize=12)
    tie, behind = np.array([0.5, 0.5, 0.0]), np.array([(1 - eps) / 2, (1 + eps) / 2, 0.0])
    start, stop = (point @ CORNERS[[2, 0, 1]] + np.array([-0.04, 0.02]) for point in (tie, behind))
    ax.annotate("", stop, start, arrowprops={"arrowstyle": "<->", "lw": 0.8})
    ax.text(*((start + stop) / 2 + np.array([-0.035, 0.015])), r"$\varepsilon$", ha="center")
    return fig


@styled
def partition_figure(loss: Tabular | None = None, ax: Any = None) -> Any:
    """The simplex split into the sets H_0(z) of a loss on three labels; by default absolute error."""
    loss = Absolute(3) if loss is None else loss
    if ax is None:
        ax = pyplot().subplots(figsize=(5, 4.6))[1]
    problem = Problem(loss, Multinomial())
    if problem.vertices.shape != (3, 3):
        raise ValueError(f"The picture is of three labels, and {loss!r} has {len(problem.vertices)}.")
    laws, mesh = _triangle(ax, CORNERS[[0, 2, 1]], [f"y = {y + 1}" for y in range(3)])
    colours = [BLUE, RED, GREEN, ORANGE, PURPLE]
    for z in range(len(problem.psi)):
        excess = problem.excess(z, laws)
        if (excess <= 1e-12).sum() < 3:
            continue
        ax.tricontourf(mesh, excess, levels=[-1, 1e-9], colors=[TINTS[z % 5]])
        ax.tricontour(mesh, excess, levels=[1e-9], colors="black", linewidths=0.6)
        place = laws[excess <= 1e-12].mean(0) @ CORNERS[[0, 2, 1]]
        ax.text(*place, rf"$H_0({z + 1})$", color=colours[z % 5], ha="center", va="center", fontsize=12)
    return ax.figure


@styled
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
    ax.plot(*(path @ corners).T, "-", color="black", lw=1.4)
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


@styled
def method_figure(loss: Tabular | None = None, resolution: int = 240, reach: float = 4.0) -> Any:
    """Scores, moments, outputs: on the left scores (v1, v2, 0), on the right the simplex; both split by what is decided.

    Points of a lattice of scores are drawn in both panels, at v and at t^-1(v), with the mark of their output.
    """
    loss = Absolute(3) if loss is None else loss
    surrogate = Multinomial(3)
    fig, (left, right) = pyplot().subplots(1, 2, figsize=(9.5, 4.4))
    partition_figure(loss, right)

    def decide(v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        mu = surrogate.inverse_link(np.column_stack([v, np.zeros(len(v))]))
        return mu, loss.decode(mu)

    axis = np.linspace(-reach, reach, resolution)
    mesh = np.column_stack([one.ravel() for one in np.meshgrid(axis, axis)])
    regions = decide(mesh)[1].reshape(resolution, resolution)
    for output in range(3):
        left.contourf(axis, axis, regions == output, levels=[0.5, 1.5], colors=[TINTS[output]])
        left.contour(axis, axis, regions == output, levels=[0.5], colors="black", linewidths=0.6)
    steps = np.linspace(-0.8 * reach, 0.8 * reach, 6)
    lattice = np.column_stack([one.ravel() for one in np.meshgrid(steps, steps)])
    mu, z = decide(lattice)
    for code, (colour, mark) in enumerate(zip((BLUE, RED, GREEN), "os^", strict=True)):
        look_of = {"color": colour, "marker": mark, "linestyle": "none", "ms": 5, "label": f"z = {code + 1}"}
        left.plot(*lattice[z == code].T, **look_of)
        right.plot(*(mu[z == code] @ CORNERS[[0, 2, 1]]).T, **look_of)
    left.set(xlabel=r"$v_1$", ylabel=r"$v_2$", title=r"scores $v = g(x)$", aspect="equal")
    right.set_title(r"moments $\mu = t^{-1}(v)$")
    left.legend(loc="upper left", framealpha=0.8, frameon=True)
    return fig
