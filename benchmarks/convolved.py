"""Whether a convolved surrogate pays, and what it costs: python -m benchmarks.convolved [speed | figure | folder/name ...].

The convolved surrogate of a potential h stands against the plain surrogate of the same h, both linear. Each chooses its penalty
from the same grid by the task loss on the same three inner folds (see quality.md, which also says how intervals are made). The plain one
decodes its moments, the convolved one takes the likeliest output of its mixture. A win is a 95 % interval of the difference
(convolved less plain) below zero.
"""

from __future__ import annotations

import functools
import sys
import time
import warnings
from typing import Any

import numpy as np

from .common import RESULTS, best_time, measure_all, write_table
from .datasets import root, tabular
from .quality import Losses, Method, evaluate, grid, interval, tabular_losses, verdict

STORE = RESULTS / "convolved.json"
MULTICLASS = ["vowel", "vehicle", "segment", "satimage", "optdigits"]
SHAPES = [(1_000, 20), (10_000, 50), (30_000, 100)]


# -- quality -----------------------------------------------------------------------------------------------------------


def pairs(folder: str, data: tabular.Dataset) -> tuple[str, Losses, dict[str, list[Method]]]:
    """The loss's name, the losses, and for each potential the plain and the convolved surrogate."""
    import taskloss as tl

    if folder == "ordinal":
        labels = np.arange(data.y.max() + 1)

        def ordinal(surrogate: Any) -> Any:
            return lambda n, alpha: tl.OrdinalClassifier(surrogate=surrogate, order=labels, alpha=alpha, tol=1e-5)

        made = {name: (ordinal(name), ordinal(_convolved(name))) for name in ("multinomial", "all-thresholds")}
        return "MAE", lambda z, y: np.abs(np.asarray(z, float) - y), _methods(made)
    loss = tl.losses.CostMatrix(data.extras["costs"]) if folder == "cost_sensitive" else tl.losses.ZeroOne()
    labels = np.unique(data.y)
    bound = loss.bind_names(labels).bind(len(labels))
    names = bound.label_names()

    def classifier(surrogate: Any) -> Any:
        return lambda n, alpha: tl.CostSensitiveClassifier(loss, surrogate, alpha=alpha, tol=1e-5)

    made = {"multinomial": (classifier("multinomial"), classifier(_convolved("multinomial")))}
    losses = tabular_losses(bound.matrix(), labels if names is None else names)
    return "costs 5:1" if folder == "cost_sensitive" else "0-1", losses, _methods(made)


def _convolved(name: str) -> Any:
    import taskloss as tl

    return tl.surrogates.ConvolutionalFenchelYoung(name)


def _methods(made: dict[str, tuple[Any, Any]]) -> dict[str, list[Method]]:
    return {
        name: [Method("plain", plain, grid()), Method("convolved", convolved, grid())]
        for name, (plain, convolved) in made.items()
    }


def measure(folder: str, name: str) -> list[dict[str, Any]]:
    """The rows of one data set: convolved against plain, for each potential."""
    warnings.simplefilter("ignore")
    start = time.perf_counter()
    data = tabular.load(folder, name)
    loss, losses, methods = pairs(folder, data)
    train, test = data.splits[0]
    ratio = len(test) / len(train)
    rows = []
    for potential, pair in methods.items():
        found = evaluate(data, losses, pair)
        plain, convolved = found["plain, by task"], found["convolved, by task"]
        (mean, error, _), (other, other_error, _) = interval(convolved, ratio), interval(plain, ratio)
        difference, _, half = interval([a - b for a, b in zip(convolved, plain, strict=True)], ratio)
        rows.append(
            {
                "data": data.name,
                "loss": loss,
                "h": potential,
                "splits": f"{len(data.splits)} {'official' if data.official else 'seeded'}",
                "convolved": f"{mean:.4f} ± {error:.4f}",
                "plain": f"{other:.4f} ± {other_error:.4f}",
                "difference": f"{difference:+.4f} [{difference - half:+.4f}, {difference + half:+.4f}]",
                "verdict": verdict(difference, half),
                "seconds": round(time.perf_counter() - start, 1),
            }
        )
    return rows


def everything() -> list[str]:
    chosen = {"cost_sensitive": ["german"], "multiclass": MULTICLASS, "ordinal": tabular.names("ordinal")}
    return [f"{folder}/{name}" for folder, names in chosen.items() for name in names]


def render(kept: dict[str, Any]) -> str:
    """The table of every data set that was measured so far."""
    columns = ["data", "loss", "h", "splits", "convolved", "plain", "difference", "verdict"]
    rows = [[r[c] for c in columns] for key in everything() for r in kept.get(key, [])]
    missing = [key for key in everything() if key not in kept]
    counts = {v: sum(r[-1] == v for r in rows) for v in ("win", "tie", "LOSS")}
    text = (__doc__ or "").split("\n\n", 1)[1].replace("\n", " ").strip()
    absent = f" Not measured: {', '.join(missing)}." if missing else ""
    sets = len({r[0] for r in rows})
    note = f"{text}\n\nIn all, on {sets} data sets: {counts['win']} wins, {counts['tie']} ties, {counts['LOSS']} losses.{absent}"
    header = ["data", "loss", "h", "splits", "convolved", "plain", "difference [95 %]", "convolved"]
    return write_table("convolved", "Convolved against plain surrogates on real data", header, rows, [], note)


# -- speed -------------------------------------------------------------------------------------------------------------


def problem(n: int, d: int, k: int = 10) -> tuple[np.ndarray, np.ndarray]:
    """Gaussian features of falling scale, and the largest of k noisy linear scores."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d)) * np.logspace(0, -0.7, d)
    scores = X @ (2 * rng.standard_normal((d, k))) + 1.5 * rng.gumbel(size=(n, k))
    return X, scores.argmax(1)


def speed() -> str:
    """Fits of 10 outputs to the same tolerance: convolved against plain multinomial, each the best of a few."""
    import taskloss as tl

    costs = np.random.default_rng(1).uniform(0, 3, (10, 10)) * (1 - np.eye(10))
    rows = []
    for n, d in SHAPES:
        X, y = problem(n, d)
        for name, loss in (
            ("0-1", tl.losses.ZeroOne()),
            ("absolute", tl.losses.Absolute()),
            ("costs from 0 to 3", tl.losses.CostMatrix(costs)),
        ):
            times, passes = [], []
            for surrogate in ("multinomial", "convolutional-fenchel-young"):
                model = tl.TaskLossEstimator(loss, surrogate)
                taken, _ = best_time(functools.partial(model.fit, X, y), repeats=5)
                times.append(taken)
                passes.append(model.solution_.evaluations)
            rows.append([f"{n} x {d}", name, *times, times[1] / times[0], *passes])
    header = ["rows x features", "loss", "multinomial, s", "convolved, s", "ratio", "its evaluations", "ours"]
    return write_table(
        "convolved_speed", "Fits of a convolved multinomial, 10 outputs", header, rows, [], (speed.__doc__ or "")
    )


def main(chosen: list[str]) -> None:
    if not chosen or "speed" in chosen:
        speed()
    if not chosen or "figure" in chosen:
        from taskloss.plots import convolved_figure

        convolved_figure().savefig(RESULTS / "convolved.png", dpi=100)
    known = everything()
    wanted = [k for k in known if any(k == c or k.startswith(c + "/") for c in chosen)] if chosen else known
    if wanted and root() is None:
        raise SystemExit("The data sets are absent: set TASKLOSS_DATA to their folder.")
    if wanted:
        render(measure_all(STORE, wanted, measure))


if __name__ == "__main__":
    main(sys.argv[1:])
