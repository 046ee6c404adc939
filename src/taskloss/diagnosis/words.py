"""A diagnosis in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..losses.base import Loss
from ..losses.tabular import CostMatrix
from .intervals import Interval

if TYPE_CHECKING:
    from .diagnosis import Diagnosis


def summary(found: Diagnosis) -> str:
    """A few lines: the loss beside others, its parts, the recalibration, margins, and the guarantee."""
    evidence = found.evidence
    lines = [
        f"{evidence.name} on {len(found)} {evidence.unit}, judged by {loss_name(evidence.loss)}",
        "",
        f"  task loss        {found.realised}",
        f"  expected by it   {found.expected:.4g}: {verdict(found.gap)}",
    ]
    for row in found.baseline_rows[1:]:
        more = Interval(row["more"], row["more_low"], row["more_high"])
        lines.append(f"  {row['decisions']:<16} {row['realised']:.4g}, {against(more)}")
    if found.part_rows:
        lines += ["", "Where it comes from"]
        for row in found.part_rows:
            ends = Interval(row["loss"], row["loss_low"], row["loss_high"])
            lines.append(f"  {row['part']:<16} {ends}  {row['meaning']}")
        lines += ["", recalibration_sentence(found)]
    if found.margin_values is not None:
        lines.append(margin_sentence(found))
    lines.append(str(found.guarantee))
    return "\n".join(lines)


def loss_name(loss: Loss) -> str:
    """The loss in a line: a cost matrix by its numbers, where they are few; others as they are written, where that is short."""
    if isinstance(loss, CostMatrix) and loss.matrix().size <= 25:
        return f"CostMatrix({[[float(f'{cost:.4g}') for cost in row] for row in loss.matrix()]})".replace(
            ".0,", ","
        ).replace(".0]", "]")
    said = " ".join(repr(loss).split())
    return said if len(said) <= 160 else type(loss).__name__


def verdict(gap: Interval) -> str:
    """What the gap between realised and expected loss says."""
    if gap.low > 0:
        return f"too sure of itself, by {gap}"
    if gap.high < 0:
        return f"too cautious, by {Interval(-gap.value, -gap.high, -gap.low)}"
    return f"right within its error, {gap}"


def recalibration_sentence(found: Diagnosis) -> str:
    """What recalibration would do."""
    if found.method == "none":
        return "No recalibration has better moments than these: leave them as they are."
    row = next(row for row in found.recalibration_rows if row["method"] == found.method)
    saved = Interval(row["saved"], row["saved_low"], row["saved_high"])
    what = (
        "saves"
        if saved.low > 0
        else "costs"
        if saved.high < 0
        else "changes the loss by nothing that can be told from chance:"
    )
    amount = Interval(-saved.value, -saved.high, -saved.low) if saved.high < 0 else saved
    return (
        f"Recalibrated(model, {found.method!r}) {what} {amount}, with {row['changed']:.1%} of the decisions changed; "
        f"the loss that it will have is {found.foretold}."
    )


def margin_sentence(found: Diagnosis) -> str:
    """How far decisions are from flipping."""
    values = np.asarray(found.margin_values)
    low, middle = np.quantile(values, [0.1, 0.5])
    return (
        f"One decision in ten would flip if its expected losses moved by {low:.3g}, every second one at {middle:.3g}."
    )


def against(more: Interval) -> str:
    """How another way to decide compares."""
    if more.low > 0:
        return f"which is more by {more}"
    if more.high < 0:
        return f"which is less by {Interval(-more.value, -more.high, -more.low)}"
    return f"the same within the error, {more}"
