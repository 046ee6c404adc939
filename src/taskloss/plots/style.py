"""One look for every picture: colours that the colour-blind can tell apart, and that still differ without colour, in print."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

# Okabe and Ito's colours, which the colour-blind can tell apart, and tints of them for areas under text.
BLUE, ORANGE, GREEN, RED, PURPLE, GREY = "#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#777777"
INK = "#222222"
COLOURS = [BLUE, RED, GREEN, ORANGE, PURPLE, INK]
TINTS = ["#cfe3f1", "#f6d3c1", "#c5e8dc", "#fbe3b6", "#efd7e6", "#e4e4e4"]
# What tells lines, points and areas apart where colour does not.
DASHES = ["-", (0, (5, 1.5)), (0, (5, 1.5, 1, 1.5)), (0, (1, 1.2)), (0, (8, 2)), (0, (3, 1, 1, 1, 1, 1))]
MARKERS = ["o", "s", "^", "D", "v", "P"]
HATCHES = ["", "///", "...", "\\\\\\", "xx", "--"]
SCALE = "cividis"  # of numbers: it rises in lightness, and looks alike to all


def pyplot() -> Any:
    """matplotlib.pyplot, or the sentence that says how to have it."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("Pictures need matplotlib: pip install 'taskloss[plot]'.") from error
    return plt


def look() -> AbstractContextManager[Any]:
    """The settings of matplotlib within which every picture is drawn; users' own settings are as before afterwards."""
    plt = pyplot()
    cycle = plt.cycler(color=COLOURS, linestyle=DASHES)
    context: AbstractContextManager[Any] = plt.rc_context(
        {
            "axes.axisbelow": True,
            "axes.edgecolor": INK,
            "axes.grid": False,
            "axes.labelcolor": INK,
            "axes.linewidth": 0.8,
            "axes.prop_cycle": cycle,
            "axes.spines.right": False,
            "axes.spines.top": False,
            "axes.titlelocation": "left",
            "axes.titlesize": 11,
            "axes.labelsize": 10,
            "figure.constrained_layout.use": True,
            "figure.facecolor": "white",
            "font.size": 10,
            "hatch.color": "white",
            "hatch.linewidth": 0.6,
            "image.cmap": SCALE,
            "legend.fontsize": 9,
            "legend.frameon": False,
            "lines.linewidth": 1.7,
            "lines.markersize": 5,
            "text.color": INK,
            "xtick.color": INK,
            "ytick.color": INK,
            "xtick.labelsize": 9,
            "ytick.labelsize": 9,
        }
    )
    return context


def styled(draw: Callable[P, R]) -> Callable[P, R]:
    """The function, drawing within the look."""

    @functools.wraps(draw)
    def drawn(*args: P.args, **kwargs: P.kwargs) -> R:
        with look():
            return draw(*args, **kwargs)

    return drawn


def series(number: int) -> dict[str, Any]:
    """Colour, dashes and marker of the line with this number, so that lines differ in print as well."""
    return {
        "color": COLOURS[number % len(COLOURS)],
        "linestyle": DASHES[number % len(DASHES)],
        "marker": MARKERS[(number + number // len(COLOURS)) % len(MARKERS)],
    }
