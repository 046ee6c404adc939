"""Potential, link and loss of surrogates side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from ..margins import Margin
from ..surrogates.base import Surrogate
from ..surrogates.coordinatewise import AllThresholds, OneVsAll
from ..surrogates.cumulative import CumulativeLink, Link
from ..surrogates.maxentropy import Multinomial
from ..surrogates.quadratic import Quadratic
from .base import Display
from .style import BLUE, GREEN, GREY, RED

INSIDE = 0.02  # how far a segment on the boundary of the domain, where links are infinite, is moved inside


class SurrogateCurves(NamedTuple):
    """A surrogate along a segment of moments, from a label at q = 0 to another at q = 1."""

    name: str
    q: np.ndarray
    potential: np.ndarray  # h(mu(q))
    link: np.ndarray  # t(mu(q)) along the direction of scores that is drawn
    score: np.ndarray  # s
    losses: np.ndarray  # S(middle + s * direction, y), a row for each of the two labels


def two_label_surrogates() -> list[tuple[str, Surrogate, np.ndarray]]:
    """Surrogates of every margin and link on two labels, with phi(0) and phi(1) as rows."""
    signs, one_hot = np.array([[-1.0], [1.0]]), np.eye(2)
    found: list[tuple[str, Surrogate, np.ndarray]] = [
        ("quadratic", Quadratic(), signs),
        ("multinomial", Multinomial(2), one_hot),
    ]
    found += [(f"thresholds, {name}", AllThresholds(name, 2), signs) for name in Margin.registry]
    found += [(f"one-vs-all, {name}", OneVsAll(name, 2), one_hot) for name in ("logistic", "exponential")]
    found += [(f"cumulative, {name}", CumulativeLink(name, 2), one_hot) for name in Link.registry]
    return found


def curves(surrogate: Surrogate, phi: Any = None, name: str = "", points: int = 400) -> SurrogateCurves:
    """Potential, link and loss along the segment between two labels, the rows of phi; None is two of the domain's vertices."""
    centre = surrogate.example_domain.center()
    if phi is None:
        vertices = surrogate.example_domain.vertices()
        phi = vertices[[0, int(np.abs(vertices - vertices[0]).sum(1).argmax())]]
    phi = np.asarray(phi, dtype=float)
    q = np.linspace(0.002, 0.998, points)
    mu = (1 - q[:, None]) * phi[0] + q[:, None] * phi[1]
    if phi.shape[1] == len(centre) and not np.allclose(phi.mean(0), centre):
        mu = (1 - INSIDE) * mu + INSIDE * centre
    v = surrogate.link(mu)
    way = v[3 * points // 4] - v[points // 4]
    way = way / np.abs(way).max() if np.abs(way).max() > 0 else np.eye(v.shape[1])[0]
    middle = (v[(points - 1) // 2] + v[points // 2]) / 2
    score = np.linspace(-4, 4, points + 1)
    scores = middle + score[:, None] * way
    with np.errstate(all="ignore"):  # where scores must ascend, the loss is infinite beyond
        losses = np.array([surrogate.value(scores, np.broadcast_to(one, scores.shape[:1] + one.shape)) for one in phi])
    return SurrogateCurves(
        name or surrogate.name, q, surrogate.potential(mu), (v - middle) @ way / (way @ way), score, losses
    )


class SurrogateDisplay(Display):
    """The potential h, the link t and the loss S of surrogates side by side, one row for each.

    A surrogate is these three on all of its moments; the picture shows them along the segment from one label (q = 0) to another
    (q = 1), scores along the direction that the link takes there.

    Parameters
    ----------
    rows : list of SurrogateCurves
        What is drawn, from `from_surrogates`.

    Examples
    --------
    >>> import taskloss as tl
    >>> display = tl.plots.SurrogateDisplay.from_surrogates(["multinomial", tl.surrogates.Quadratic()])
    >>> display.axes_.shape
    (2, 3)
    """

    def __init__(self, rows: Sequence[SurrogateCurves]) -> None:
        self.rows = list(rows)

    @classmethod
    def from_surrogates(cls, surrogates: Any = None, *, names: Sequence[str] | None = None, ax: Any = None) -> Self:
        """Compute the curves and draw them.

        Parameters
        ----------
        surrogates : a surrogate, its name, or a list of them, optional
            Names and surrogates without a size are drawn on their own small examples. None is one of every registered surrogate.
        names : list of str, optional
            What to call them.
        ax : array of matplotlib Axes, shape (rows, 3), optional

        Returns
        -------
        SurrogateDisplay
        """
        if surrogates is None:
            surrogates = list(Surrogate.registry)
        if isinstance(surrogates, str | Surrogate | type):
            surrogates = [surrogates]
        parts = [_example(one) for one in surrogates]
        names = [part.name for part in parts] if names is None else list(names)
        if len(names) != len(parts):
            raise ValueError(f"names must hold one name for each of the {len(parts)} surrogates, got {len(names)}.")
        return cls([curves(part, name=name) for part, name in zip(parts, names, strict=True)]).plot(ax)

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.rows), 3

    @property
    def figure_size(self) -> tuple[float, float]:
        return 8.5, 1.75 * len(self.rows) + 0.5

    def draw(self, ax: Any) -> None:
        for row, (left, middle, right) in zip(self.rows, self.axes_, strict=True):
            left.plot(row.q, row.potential, color=BLUE, linestyle="-")
            middle.plot(row.q, row.link, color=GREEN, linestyle="-")
            for losses, colour, dash, label in zip(row.losses, (GREY, RED), ("--", "-"), "01", strict=True):
                shown = np.where(np.isfinite(losses), losses, np.nan)
                right.plot(row.score, shown, color=colour, linestyle=dash, label=f"y = {label}")
            left.set_ylabel(row.name, fontsize=8)
            middle.set_ylim(-4, 4)
            right.set_ylim(-0.2, 6)
            for one in (left, middle, right):
                one.tick_params(labelsize=7)
                one.margins(x=0)
        titles = ("potential h(q)", "link t(q)", "loss S(v, y)")
        for one, title in zip(self.axes_[0], titles, strict=True):
            one.set_title(title, fontsize=9)
        self.axes_[0][2].legend(fontsize=7, loc="upper right")
        for one, label in zip(self.axes_[-1], "qqv", strict=True):
            one.set_xlabel(label, fontsize=8)


def _example(spec: Any) -> Surrogate:
    """The surrogate itself where its size is known, else its first example."""
    if isinstance(spec, str | type):
        cls = Surrogate.registry.get(spec) if isinstance(spec, str) else spec
        if not (isinstance(cls, type) and issubclass(cls, Surrogate)):
            return Surrogate.resolve(spec)  # which says what there is
        return cls.examples()[0]
    part = Surrogate.resolve(spec)
    try:
        part.example_domain.center()
    except (ValueError, TypeError) as error:
        raise ValueError(
            f"The surrogate {part!r} has no size: give it one, such as {type(part).examples()[0]!r}."
        ) from error
    return part


def surrogates_figure(names: list[str] | None = None) -> Any:
    """Potential, link and loss side by side for surrogates on two labels, q the probability of the second."""
    rows = [row for row in two_label_surrogates() if names is None or row[0] in names]
    if not rows:
        known = ", ".join(name for name, _, _ in two_label_surrogates())
        raise ValueError(f"None of {names} is a surrogate of this picture; choose from: {known}.")
    return SurrogateDisplay([curves(surrogate, phi, name) for name, surrogate, phi in rows]).plot().figure_
