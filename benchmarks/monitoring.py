"""A monitor of the loss: false alarms on stable streams, and examples until a shift is found: python -m benchmarks.monitoring.

Two labels, costs of 5 for a miss and 1 for a false alarm, 5 features of which 3 count, logits with a base rate of a quarter, a linear
fit to 5,000 examples, a reference of 2,000. Streams come in batches of 100 whose labels follow at once. Stable streams are
100 batches from the reference's own law, 1,000 of them; on bankmarketing, where it is present, 60 batches from a random
split of the held-out part, 1,000 times. A shift begins after 20 stable batches. Prior shift: the share of the costly label is three times as large,
x given y as before. Covariate shift: x is drawn nearer to the boundary, y given x as before. Concept shift: a third of the labels
is drawn anew at random, x as before. Delays are medians over 200 streams in examples, with the share of streams in which the
alarm was raised within 200 batches; "-" where it was in fewer than half. A test of each batch by itself, a z-test of its mean realised loss against the
reference at the same level of 5 %, is what a dashboard does.
"""

from __future__ import annotations

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


def false_alarms(make: Callable[[np.random.Generator], tuple[Stream, list[Drawn]]]) -> dict[str, float]:
    raised = dict.fromkeys(["any", *KINDS, "z-test of each batch"], 0)
    for seed in range(STABLE):
        stream, batches = make(np.random.default_rng(seed))
        monitor = stream.monitor()
        for losses in batches:
            take(monitor, losses)
        for kind in monitor.alarms_:
            raised[kind] += 1
        raised["any"] += bool(monitor.alarms_)
        known = stream.reference[1]
        error = np.hypot(known.std() / len(known) ** 0.5, known.std() / BATCH**0.5)
        raised["z-test of each batch"] += any((b[1].mean() - known.mean()) / error > 1.645 for b in batches)
    return {kind: count / STABLE for kind, count in raised.items()}


def delays(
    model: Any, shift: Callable[[np.random.Generator, int], Drawn], reference: int = 2000, streams: int = STREAMS
) -> tuple[str, list[str]]:
    found: dict[str, list[float]] = {kind: [] for kind in KINDS}
    rises = []
    for seed in range(streams):
        rng = np.random.default_rng(10_000 + seed)
        stream = Stream(model, stable(rng, reference))
        monitor = stream.monitor()
        for _ in range(BEFORE):
            take(monitor, stream.losses(stable(rng, BATCH)))
        early = set(monitor.alarms_)
        for _ in range(WITHIN):
            losses = stream.losses(shift(rng, BATCH))
            rises.append(losses[1].mean() - stream.reference[1].mean())
            take(monitor, losses)
            if len(monitor.alarms_) == len(KINDS):
                break
        for kind in set(KINDS) - early:
            found[kind].append(monitor.alarms_.get(kind, np.inf) - BEFORE * BATCH)
    cells = []
    for kind in KINDS:
        share = float(np.isfinite(found[kind]).mean())
        cells.append(f"{np.median(found[kind]):.0f} ({share:.0%})" if share > 0.5 else f"- ({share:.0%})")
    return f"{np.mean(rises):+.2f}", cells


def flat(found: tuple[str, list[str]]) -> list[str]:
    return [found[0], *found[1]]


def main() -> None:
    rng = np.random.default_rng(0)
    model = tl.CostSensitiveClassifier(COSTS).fit(*stable(rng, 5000))

    def simulated(rng: np.random.Generator) -> tuple[Stream, list[Drawn]]:
        stream = Stream(model, stable(rng, 2000))
        return stream, [stream.losses(stable(rng, BATCH)) for _ in range(BATCHES)]

    rows = []
    for name, make in [("simulated", simulated), *real()]:
        alarms = false_alarms(make)
        rows.append((name, *(f"{100 * share:.1f} %" for share in alarms.values())))
    base = float(np.mean(Stream(model, stable(rng, 50_000)).reference[1]))
    header = ["stable streams", "any alarm (level 5 %)", *KINDS, "z-test of each batch"]
    note = " ".join((__doc__ or "").split("\n\n", 1)[1].split())
    write_table("monitoring_stable", "Monitoring: false alarms over 1,000 stable streams", header, rows, [], note)
    table = []
    for shift in (prior, covariate, concept):
        rise, cells = delays(model, shift)
        table.append((shift.__name__, rise, *cells))
    table.append(("prior, reference of 20,000, 50 streams", *flat(delays(model, prior, 20_000, 50))))
    header = ["shift", f"rise of the loss (from {base:.2f})", *KINDS]
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
    main()
