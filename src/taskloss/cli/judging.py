"""What decisions cost on rows with known labels, beside simpler ones, with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..diagnosis.intervals import Interval, loss_interval, mean_interval
from ..losses.base import name_array
from .output import Output
from .tasks import Task


def span(loss: Any, labels: Sequence[Any]) -> tuple[float, float]:
    """The least and the largest loss of a row."""
    if loss.kind != "classes":
        return 0.0, 1.0
    matrix = loss.bind_names(name_array(labels)).bind(len(labels)).matrix()
    return min(0.0, float(matrix.min())), float(matrix.max())


def compared(losses: dict[str, np.ndarray], ends: tuple[float, float]) -> dict[str, dict[str, float]]:
    """Mean loss of each way to decide with its 95 % interval, and what the model saves on the same rows."""
    found = {}
    for name, values in losses.items():
        weights = np.ones(len(values))
        found[name] = _said("", loss_interval(values, weights, ends))
        if name != "model":
            found[name] |= _said("saved_", mean_interval(values - losses["model"], weights))
    return found


def _said(prefix: str, found: Interval) -> dict[str, float]:
    return {prefix + "mean": found.value, prefix + "low": found.low, prefix + "high": found.high}


def show(found: dict[str, dict[str, float]], task: Task, out: Output, loss: str) -> None:
    """The comparison as a table, and in a sentence whether the model saves anything."""
    names = {"model": "decisions of least expected cost", "likeliest": task.likeliest, "constant": task.constant}
    if task.losses == "ranking":
        names["model"] = "rankings of least expected loss"
    rows = [
        [names.get(name, name), f"{one['mean']:.4g}", _between(one["low"], one["high"])] for name, one in found.items()
    ]
    out.table([f"{loss} a {task.unit}", "mean", "95 % interval"], rows)
    for name in [name for name in found if name != "model"]:
        saved, beside = found[name], names.get(name, name)
        if saved["saved_low"] == saved["saved_high"] == 0:
            out.say(f"  They cost what {beside} costs in every row.")
            continue
        if saved["saved_low"] > 0:
            share = f", {saved['saved_mean'] / saved['mean']:.0%} of it" if saved["mean"] > 0 else ""
            out.say(
                f"  Saved beside {beside}: {saved['saved_mean']:.4g} a {task.unit} ({_between(saved['saved_low'], saved['saved_high'])}){share}."
            )
        elif saved["saved_high"] < 0:
            out.say(
                f"  Lost beside {beside}: {-saved['saved_mean']:.4g} a {task.unit} ({_between(-saved['saved_high'], -saved['saved_low'])})."
            )
        else:
            out.say(
                f"  Beside {beside}: no difference that these rows can tell ({_between(saved['saved_low'], saved['saved_high'])})."
            )


def _between(low: float, high: float) -> str:
    return f"{low:.3g} to {high:.3g}"


def name_of(loss: Any) -> str:
    """What a number is: a cost, or the loss by its name."""
    return "cost" if loss.name == "cost-matrix" else f"{loss.name} loss"


def merged(parts: list[tuple[np.ndarray, dict[str, np.ndarray]]], n: int) -> dict[str, np.ndarray]:
    """The losses of held-out parts, each with the places of its rows or groups, as one."""
    found = {name: np.empty(n) for name in parts[0][1]}
    for places, losses in parts:
        for name, values in losses.items():
            found[name][places] = values
    return found
