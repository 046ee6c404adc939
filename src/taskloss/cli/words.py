"""Costs in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..losses import Loss
from .implications import Implications

_FEW = 6  # costs that are said one by one
_LABELS = 12  # labels up to which each decision's range is computed and said


def sentences_of_costs(loss: Loss, labels: Sequence[Any]) -> list[str]:
    """What a cost matrix says, in the few words that show whether it was read the right way round; nothing for other losses."""
    if loss.name != "cost-matrix":
        return []
    found = Implications(loss.matrix(), loss.output_names(np.array(labels)).tolist(), list(labels))
    return [*costs(found)[:_FEW], *thresholds(found)]


def costs(found: Implications) -> list[str]:
    return [
        f"Deciding {found.outputs[z]!r} where it is {found.labels[y]!r} costs {found.matrix[z, y]:g}."
        for y in range(len(found.labels))
        for z in range(len(found.outputs))
        if found.matrix[z, y]
    ]


def thresholds(found: Implications) -> list[str]:
    """For two labels: what is decided from which probability on."""
    if not found.thresholds:
        return []
    if len(found.thresholds) == 1:
        return [f"{found.outputs[found.thresholds[0][0]]!r} is decided whatever the probabilities."]
    second, (first, *rest) = found.labels[1], found.thresholds
    parts = [f"{found.outputs[z]!r} from {low:.4g} on" for z, low, _ in rest]
    return [f"By the probability of {second!r}: {found.outputs[first[0]]!r} from 0 on, {', '.join(parts)}."]


def explanation(found: Implications) -> dict[str, list[str]]:
    """All that is said of a cost matrix, under headings."""
    said = {"What mistakes cost": costs(found)}
    if len(said["What mistakes cost"]) > 2 * _FEW:
        low, high = found.matrix.min(), found.matrix.max()
        said["What mistakes cost"] = [
            f"Costs run from {low:g} to {high:g}, {len(found.outputs)} decisions by {len(found.labels)} labels."
        ]
    said["What is decided"] = [*_certain(found), *(thresholds(found) or _ranges(found))]
    said["What is never decided"] = [f"{found.outputs[z]!r}: {why}." for z, why in found.never.items()]
    said["What makes no difference"] = _indifferent(found)
    return {heading: sentences for heading, sentences in said.items() if sentences}


def _certain(found: Implications) -> list[str]:
    out = []
    for y, best in enumerate(found.certain):
        label, names = found.labels[y], [found.outputs[z] for z in best]
        if str(label) in map(str, found.outputs) and str(label) not in map(str, names):
            out.append(
                f"Even where {label!r} is certain, {names[0]!r} is decided, which costs less; is the table the right way round (--truth-in-rows)?"
            )
    return out


def _ranges(found: Implications) -> list[str]:
    if found.known_as == "zero-one":
        return ["The likeliest label is decided: these costs are those of 0-1 loss."]
    if len(found.labels) > _LABELS:
        return []
    return [
        f"{found.outputs[z]!r} can be decided from a probability of {least:.4g} on, and always is above {most:.4g}."
        for z, (least, most) in found.ranges.items()
    ]


def _indifferent(found: Implications) -> list[str]:
    out = [
        f"{found.outputs[j]!r} costs the same as {found.outputs[i]!r}, which is taken in its place."
        for i, j in found.twins
    ]
    out += [f"Whether it is {found.labels[i]!r} or {found.labels[j]!r} changes no decision." for i, j in found.alike]
    if found.known_as:
        out.append(f"Up to a factor, and a constant for each label, these are the costs of the {found.known_as} loss.")
    scaled = "the same decisions follow from costs times any number above zero, and with any constant added to a label's column"
    out.append(f"{scaled[0].upper()}{scaled[1:]}.")
    d = found.decomposition
    if len(found.alike) == len(found.labels) - 1:  # all labels are alike
        return out
    out.append(
        f"The costs need {d.k} number{'s' * (d.k != 1)} about an example's label, of the {len(found.labels) - 1} probabilities that say all."
        if d.k < len(found.labels) - 1
        else f"The costs need all there is to know about an example's label, {len(found.labels) - 1} probabilit{'ies' if len(found.labels) > 2 else 'y'}."
    )
    return out
