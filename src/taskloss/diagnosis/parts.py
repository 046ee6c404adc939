"""The parts of a task loss, each a table of numbers over the same examples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..losses.base import Loss
from ..recalibration import CrossFitted, Recalibration, cross_fit, folds_of, from_laws, laws_of
from .evidence import Evidence
from .intervals import Interval, loss_interval, mean_interval

Row = dict[str, Any]


@dataclass(frozen=True)
class Redecided:
    """The same examples decided from other moments, each found without the example's own fold."""

    name: str
    error: float  # mean squared error of the moments
    mu: np.ndarray
    z: np.ndarray
    foretold: np.ndarray
    realised: np.ndarray


def recalibrates(evidence: Evidence) -> bool:
    """Whether there are moments of labels that can be recalibrated."""
    return evidence.mu is not None and not evidence.loss.takes_objects


def laws_and_seen(evidence: Evidence) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The laws, indicators of what was seen, and folds of examples that can be recalibrated."""
    loss, codes = evidence.loss, evidence.codes
    seen = laws_of(loss, loss.phi(codes))
    return laws_of(loss, evidence.mu), seen, folds_of(codes if codes.ndim == 1 else codes.sum(1))


def redecide(evidence: Evidence, found: CrossFitted) -> Redecided:
    """The decisions that recalibrated laws would take, with what they cost; the model's own where nothing is recalibrated."""
    loss, costs = evidence.loss, evidence.costs
    if found.name == Recalibration.name:
        return Redecided(found.name, found.error, evidence.mu, evidence.z, evidence.expected, evidence.realised)
    mu = from_laws(loss, found.q)
    z = loss.decode(mu, costs)
    foretold, realised = loss.risk(z, mu, costs), loss.realised(z, evidence.codes, costs)
    return Redecided(found.name, found.error, mu, z, np.asarray(foretold, float), np.asarray(realised, float))


def recalibrations(evidence: Evidence) -> list[Redecided]:
    """By each recalibration, cross-fitted; the first is the model as it is."""
    q, seen, folds = laws_and_seen(evidence)
    return [redecide(evidence, found) for found in cross_fit(q, seen, evidence.weights, folds)]


def with_reference(evidence: Evidence, reference: np.ndarray) -> Redecided:
    """By the moments of the model and a reference together, cross-fitted."""
    q, seen, folds = laws_and_seen(evidence)
    stacked = np.stack([q, laws_of(evidence.loss, reference)], axis=1)
    return redecide(evidence, next(iter(cross_fit(stacked, seen, evidence.weights, folds, ["vector"]))))


# -- the tables --------------------------------------------------------------------------------------------------------


def addends(evidence: Evidence, best: Redecided, together: Redecided | None) -> list[tuple[str, np.ndarray]]:
    """The parts, example by example, which add up to the realised loss."""
    least = best.foretold if together is None else together.foretold
    parts = [("noise", least)]
    if together is not None:
        parts.append(("refinement", best.foretold - together.foretold))
    return [
        *parts,
        ("miscalibration", evidence.realised - best.realised),
        ("unexplained", best.realised - best.foretold),
    ]


def reliability(evidence: Evidence, bins: int) -> list[Row]:
    """Realised loss by bins of the expected one, each with as much weight as another."""
    return [
        {
            "expected": float(np.average(evidence.expected[rows], weights=evidence.weights[rows])),
            **of_losses("realised", evidence, rows),
            **named("gap", mean_interval((evidence.realised - evidence.expected)[rows], evidence.weights[rows])),
            "share": float(evidence.weights[rows].sum()),
            evidence.unit: int(rows.sum()),
        }
        for rows in _bins(evidence.expected, evidence.weights, bins)
    ]


def _bins(values: np.ndarray, weights: np.ndarray, bins: int) -> list[np.ndarray]:
    """Masks of bins of about the same weight, none of weight zero; equal values stay together."""
    order = np.argsort(values, kind="stable")
    place = np.empty(len(order))
    place[order] = np.cumsum(weights[order]) - weights[order] / 2
    _, which = np.unique(values, return_inverse=True)
    first = np.full(which.max() + 1, np.inf)
    np.minimum.at(first, which, place)
    bin_of = np.minimum((first[which] * bins).astype(int), bins - 1)
    return [rows for b in np.unique(bin_of) if weights[rows := bin_of == b].sum() > 0]


def of_losses(name: str, evidence: Evidence, rows: np.ndarray) -> Row:
    """The mean realised loss of some examples with its interval."""
    return named(name, loss_interval(evidence.realised[rows], evidence.weights[rows], evidence.span))


def named(name: str, found: Interval) -> Row:
    """An estimate and the ends of its interval, as three entries of a row."""
    return {name: found.value, f"{name}_low": found.low, f"{name}_high": found.high}


def recalibration(evidence: Evidence, found: list[Redecided]) -> list[Row]:
    """What each recalibration would cost, and save."""
    return [
        {
            "method": one.name,
            "moment_error": one.error,
            "foretold": float(evidence.weights @ one.foretold),
            **named("realised", loss_interval(one.realised, evidence.weights, evidence.span)),
            **named("saved", mean_interval(evidence.realised - one.realised, evidence.weights)),
            "changed": float(evidence.weights @ changed(evidence.z, one.z)),
        }
        for one in found
    ]


def changed(z: Any, other: Any) -> np.ndarray:
    """Whether decisions differ, example by example."""
    differ = np.asarray(z) != np.asarray(other)
    return differ if differ.ndim == 1 else differ.any(1)


def baselines(evidence: Evidence) -> list[Row]:
    """Other ways to decide the same examples, and how much more they cost than the decisions at hand."""
    rows: list[Row] = [{"decisions": "these", **of_losses("realised", evidence, np.ones(len(evidence), bool))}]
    rows[0] |= named("more", Interval(0.0, 0.0, 0.0))
    for name, z in (("argmax", _argmax(evidence)), ("constant", _constant(evidence))):
        if z is None:
            continue
        losses = np.asarray(evidence.loss.realised(z, evidence.codes, evidence.costs), dtype=float)
        found = loss_interval(losses, evidence.weights, evidence.span)
        more = mean_interval(losses - evidence.realised, evidence.weights)
        rows.append({"decisions": name, **named("realised", found), **named("more", more)})
    return rows


def _argmax(evidence: Evidence) -> np.ndarray | None:
    """The likeliest label, or each label of a set that is likelier than not."""
    if not recalibrates(evidence):
        return None
    if evidence.loss.kind == "indicator":
        return (evidence.loss.probabilities(evidence.mu) > 0.5).astype(np.int64)
    classes, outputs = evidence.labels.classes.tolist(), evidence.labels.outputs(evidence.loss).tolist()
    if not set(classes) <= set(outputs):
        return None
    place = np.array([outputs.index(label) for label in classes])
    return place[laws_of(evidence.loss, evidence.mu)[:, 0].argmax(1)]


def _constant(evidence: Evidence) -> np.ndarray | None:
    """The one output that would have cost least on these examples."""
    if not recalibrates(evidence):
        return None
    loss, n = evidence.loss, len(evidence)
    if loss.kind == "indicator":
        mean = evidence.weights @ loss.phi(evidence.codes)
        return np.repeat(loss.decode(mean[None]), n, axis=0)
    each = [np.full(n, z) for z in range(len(loss.matrix()))]
    return min(each, key=lambda z: float(evidence.weights @ loss.realised(z, evidence.codes, evidence.costs)))


def margins(evidence: Evidence) -> np.ndarray | None:
    """How much more the second best output is expected to cost, for each example; None where outputs are too many to list."""
    if not recalibrates(evidence):
        return None
    loss, mu = evidence.loss, evidence.mu
    if evidence.costs is not None:
        if loss.kind != "classes":
            return None
        least = np.partition(loss.expected(mu, evidence.costs), 1, axis=1)  # type: ignore[attr-defined]
        return least[:, 1] - least[:, 0]
    if loss.kind == "indicator" and not loss.coordinatewise and loss.probabilities(mu).shape[1] > 10:
        return None
    from ..theory.noise import margins_of

    try:
        return margins_of(loss, np.asarray(mu))[0]
    except ValueError:  # no two outputs differ
        return None


def margin_bins(evidence: Evidence, margin: np.ndarray, other: Redecided, bins: int) -> list[Row]:
    """By bins of the margin: what decisions cost, and how many recalibrated moments would change."""
    flips = changed(evidence.z, other.z)
    return [
        {
            "margin_from": float(margin[rows].min()),
            "margin_to": float(margin[rows].max()),
            **of_losses("realised", evidence, rows),
            "changed": float(np.average(flips[rows], weights=evidence.weights[rows])),
            "saved": float(np.average((evidence.realised - other.realised)[rows], weights=evidence.weights[rows])),
            "share": float(evidence.weights[rows].sum()),
        }
        for rows in _bins(margin, evidence.weights, bins)
    ]


def costliest(evidence: Evidence, count: int) -> np.ndarray:
    """The places of the costliest mistakes; of equally costly ones first those least expected."""
    order = np.lexsort([evidence.expected, -evidence.realised])
    least = np.zeros(len(order))
    if recalibrates(evidence):
        loss, codes, costs = evidence.loss, evidence.codes, evidence.costs
        least = np.asarray(loss.realised(loss.decode(loss.phi(codes), costs), codes, costs), dtype=float)
    return order[evidence.realised[order] > least[order] + 1e-12][:count]


def same_moments(evidence: Evidence, loss: Loss, mu: Any) -> np.ndarray:
    """A reference's moments, which must be those of the same examples and labels."""
    mu = np.asarray(mu, dtype=float)
    if len(mu) != len(evidence):
        raise ValueError(
            f"reference has {len(mu)} rows, and there are {len(evidence)} examples: give it for the same ones."
        )
    return mu
