"""A monitor of the loss: false alarms on stable streams, and examples until a shift is found: python -m benchmarks.monitoring [stable] [shifts].

Two labels, costs of 5 for a miss and 1 for a false alarm, 5 features of which 3 count, logits with a base rate of a quarter, a linear
fit to 5,000 examples, a reference of 2,000. Streams come in batches of 100 whose labels follow at once. Stable streams are
100 batches from the reference's own law, 1,000 of them; on bankmarketing, where it is present, 60 batches from a random
split of the held-out part, 1,000 times. A shift begins after 20 stable batches. Prior shift: the share of the costly label is three times as large,
x given y as before. Covariate shift: x is drawn nearer to the boundary, y given x as before. Concept shift: a third of the labels
is drawn anew at random, x as before. Delays are medians over 200 streams in examples, with the share of streams in which the
alarm was raised within 200 batches; "-" where it was in fewer than half. The monitor's three alarms share its level of 5 % and are valid for streams of any length.

Three rivals see the realised losses. z-test: of each batch by itself against the reference at 5 %, as a dashboard does. Window: the mean of the last 1,000
examples against the reference's by Hoeffding's inequality, at 5 % for all batches together, the t-th at 5 % times 6 / (pi t)^2. CUSUM: the sum of
(batch mean - reference mean - 0.05) since it was last zero, against a limit that keeps false alarms at 5 % in streams of this many batches; the limit is found by simulating 1,000
stable streams with references of their own from the true law, which no user has.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import expit

import taskloss as tl

from .common import write_table

COSTS = [[0, 5], [1, 0]]
W = np.array([1.2, -0.8, 0.5, 0.0, 0.0])
STABLE, BATCHES, BATCH, BEFORE, WITHIN, STREAMS = 1000, 100, 100, 20, 200, 200
KINDS = ["expected", "realised", "excess"]
Drawn = tuple[np.ndarray, np.ndarray]


def stable(rng: np.random.Generator, n: int) -> Drawn:
    X = rng.normal(size=(n, 5))
    return X, (rng.random(n) < expit(X @ W - 1.5)).astype(int)


def prior(rng: np.random.Generator, n: int) -> Drawn:
    X, y = stable(rng, 8 * n)
    rare = np.flatnonzero(y == 1)
    share = 3 * len(rare) / len(y)
    chosen = rng.random(n) < share
    return tuple(part[np.where(chosen, rng.choice(rare, n), rng.choice(np.flatnonzero(y == 0), n))] for part in (X, y))  # type: ignore[return-value]


def covariate(rng: np.random.Generator, n: int) -> Drawn:
    X = 0.4 * rng.normal(size=(n, 5))
    return X, (rng.random(n) < expit(X @ W - 1.5)).astype(int)


def concept(rng: np.random.Generator, n: int) -> Drawn:
    X, y = stable(rng, n)
    return X, np.where(rng.random(n) < 1 / 3, rng.random(n) < 0.5, y).astype(int)


class Stream:
    """Batches of expected and realised losses of a fixed model; the losses of a reference."""

    def __init__(self, model: Any, reference: Drawn):
        self.model, self.costs = model, np.array(COSTS, dtype=float)
        self.reference = self.losses(reference)

    def losses(self, drawn: Drawn) -> Drawn:
        X, y = drawn
        return self.model.expected_loss(X), self.costs[self.model.predict(X), y]

    def monitor(self) -> tl.LossMonitor:
        return tl.LossMonitor(None, *self.reference, bounds=(0, 5))


def take(monitor: tl.LossMonitor, losses: Drawn) -> None:
    monitor.update(losses[0])
    monitor.label(losses[1])


Make = Callable[[np.random.Generator], tuple[Stream, list[Drawn]]]


def z_tests(reference: np.ndarray, means: np.ndarray) -> np.ndarray:
    """For each batch whether its own test is beyond its limit."""
    error = np.hypot(reference.std() / len(reference) ** 0.5, reference.std() / BATCH**0.5)
    return (means - reference.mean()) / error > 1.645


def windows(reference: np.ndarray, means: np.ndarray, width: int = 10, level: float = 0.05) -> np.ndarray:
    """For each batch whether the mean of the last ones is above the reference's, by Hoeffding's inequality on both."""
    t = np.arange(1, len(means) + 1)
    sums = np.cumsum(means)
    several = np.minimum(t, width)
    mean = (sums - np.concatenate([np.zeros(width), sums])[: len(sums)]) / several
    log = np.log(2 * (np.pi * t) ** 2 / 6 / level)
    slack = np.sqrt(log / (2 * BATCH * several)) + np.sqrt(np.log(2 / level) / (2 * len(reference)))
    return mean - reference.mean() > max(map(max, COSTS)) * slack


def cusum(reference: np.ndarray, means: np.ndarray, allowance: float = 0.05) -> np.ndarray:
    """The sums of what exceeds the reference's mean, from the best start up to each batch."""
    walk = np.concatenate([[0.0], np.cumsum(means - reference.mean() - allowance)])
    return (walk - np.minimum.accumulate(walk))[1:]


def limit_of_cusum(make: Make) -> float:
    """What the largest sum of a stable stream exceeds in 5 % of streams."""
    largest = []
    for seed in range(STABLE):
        stream, batches = make(np.random.default_rng(50_000 + seed))
        largest.append(cusum(stream.reference[1], np.array([b[1].mean() for b in batches])).max())
    return float(np.quantile(largest, 0.95))


RIVALS = ["z-test", "window", "CUSUM"]


def rivals(reference: np.ndarray, means: np.ndarray, limit: float) -> dict[str, np.ndarray]:
    found = z_tests(reference, means), windows(reference, means), cusum(reference, means) > limit
    return dict(zip(RIVALS, found, strict=True))


def false_alarms(make: Make) -> dict[str, float]:
    raised = dict.fromkeys(["any", *KINDS, *RIVALS], 0)
    limit = limit_of_cusum(make)
    for seed in range(STABLE):
        stream, batches = make(np.random.default_rng(seed))
        monitor = stream.monitor()
        for losses in batches:
            take(monitor, losses)
        for kind in monitor.alarms_:
            raised[kind] += 1
        raised["any"] += bool(monitor.alarms_)
        for rival, alarms in rivals(stream.reference[1], np.array([b[1].mean() for b in batches]), limit).items():
            raised[rival] += bool(alarms.any())
    return {kind: count / STABLE for kind, count in raised.items()}


def delays(
    model: Any,
    shift: Callable[[np.random.Generator, int], Drawn],
    limit: float,
    reference: int = 2000,
    streams: int = STREAMS,
) -> list[str]:
    """The rise of the loss, and examples until each alarm."""
    kinds = [*KINDS, "window", "CUSUM"]
    found: dict[str, list[float]] = {kind: [] for kind in kinds}
    rises = []
    for seed in range(streams):
        rng = np.random.default_rng(10_000 + seed)
        stream = Stream(model, stable(rng, reference))
        batches = [stream.losses(stable(rng, BATCH)) for _ in range(BEFORE)]
        batches += [stream.losses(shift(rng, BATCH)) for _ in range(WITHIN)]
        means = np.array([b[1].mean() for b in batches])
        rises.append(means[BEFORE:].mean() - stream.reference[1].mean())
        monitor = stream.monitor()
        for losses in batches:
            take(monitor, losses)
            if len(monitor.alarms_) == len(KINDS):
                break
        after = dict(monitor.alarms_)
        for rival, alarms in rivals(stream.reference[1], means, limit).items():
            if rival in kinds and alarms.any():
                after[rival] = BATCH * (1 + int(alarms.argmax()))
        for kind in kinds:
            delay = after.get(kind, np.inf) - BEFORE * BATCH
            if delay > 0:  # else a false alarm, before the shift
                found[kind].append(delay)
    cells = []
    for kind in kinds:
        share = float(np.isfinite(found[kind]).mean())
        cells.append(f"{np.median(found[kind]):.0f} ({share:.0%})" if share > 0.5 else f"- ({share:.0%})")
    return [f"{np.mean(rises):+.2f}", *cells]


def main(parts: list[str]) -> None:
    rng = np.random.default_rng(0)
    model = tl.CostSensitiveClassifier(COSTS).fit(*stable(rng, 5000))
    note = " ".join((__doc__ or "").split("\n\n", 1)[1].split())

    def simulated(rng: np.random.Generator, reference: int = 2000) -> tuple[Stream, list[Drawn]]:
        stream = Stream(model, stable(rng, reference))
        return stream, [stream.losses(stable(rng, BATCH)) for _ in range(BATCHES)]

    if "stable" in parts:
        rows = []
        for name, make in [("simulated", simulated), *real()]:
            rows.append((name, *(f"{100 * share:.1f} %" for share in false_alarms(make).values())))
        header = ["stable streams", "any alarm (level 5 %)", *KINDS, *RIVALS]
        write_table("monitoring_stable", "Monitoring: false alarms over 1,000 stable streams", header, rows, [], note)
    if "shifts" in parts:
        base = float(np.mean(Stream(model, stable(rng, 50_000)).reference[1]))
        limit = limit_of_cusum(simulated)
        table = [(shift.__name__, *delays(model, shift, limit)) for shift in (prior, covariate, concept)]
        limit = limit_of_cusum(lambda rng: simulated(rng, 20_000))
        table.append(("prior, reference of 20,000", *delays(model, prior, limit, 20_000)))
        header = ["shift", f"rise of the loss (from {base:.2f})", *KINDS, "window", "CUSUM"]
        write_table("monitoring_shifts", "Monitoring: examples until a shift is found", header, table, [], note)


def real() -> list[tuple[str, Callable[[np.random.Generator], tuple[Stream, list[Drawn]]]]]:
    """Streams of bankmarketing, where it is present."""
    from .example_costs import load

    name = "bankmarketing"
    try:
        X, y, _ = load(name)
    except SystemExit:
        return []
    mean, spread = X.mean(0), np.where(X.std(0) > 0, X.std(0), 1.0)
    X = (X - mean) / spread
    order = np.random.default_rng(0).permutation(len(X))
    fit, rest = order[: len(X) // 3], order[len(X) // 3 :]
    model = tl.CostSensitiveClassifier(COSTS).fit(X[fit], y[fit])
    whole = Stream(model, (X[rest], y[rest])).reference

    def make(rng: np.random.Generator) -> tuple[Stream, list[Drawn]]:
        mixed = rng.permutation(len(rest))[: 2000 + 60 * BATCH]
        stream = Stream.__new__(Stream)
        stream.reference = tuple(part[mixed[:2000]] for part in whole)  # type: ignore[assignment]
        return stream, [tuple(part[rows] for part in whole) for rows in np.split(mixed[2000:], 60)]  # type: ignore[misc]

    return [(name, make)]


if __name__ == "__main__":
    main(sys.argv[1:] or ["stable", "shifts"])
