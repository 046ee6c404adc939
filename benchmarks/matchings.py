"""Matchings: accuracy on the CMU house, Willow ducks, cars and motorbikes, and the speed of batched assignment.

python -m benchmarks.matchings
"""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

import taskloss as tl
from taskloss.polytopes.assignment import assign

from .common import best_time, write_table
from .datasets.matchings import Pairs, cmu_house, photographs, willow_duck

ALPHAS = (1e-4, 1e-2, 1.0, 1e2, 1e3)
METHODS = {
    "quadratic": {"surrogate": "quadratic"},
    "row softmax": {"surrogate": "row-multinomial"},
    "row softmax, MAP": {"surrogate": "row-multinomial", "decoding": "map"},
}
EXACT = {
    "exact CRF": {"surrogate": "max-entropy"},
    "exact CRF, MAP": {"surrogate": "max-entropy", "decoding": "map"},
}


def plain(pairs: Pairs) -> list[np.ndarray]:
    """Assignment on the summed squared differences of the same features, scaled alike; nothing learned."""
    spread = np.std(np.vstack([np.vstack(x) for x in pairs.X]), axis=0)
    scale = np.where(spread > 0, spread, 1.0)
    out = []
    for a, b in pairs.X:
        rows, columns = linear_sum_assignment((((a[:, None] - b[None]) / scale) ** 2).sum(-1))
        z = np.full(len(a), -1)
        z[rows] = columns
        out.append(z)
    return out


def accuracy(z: list[np.ndarray], y: list[np.ndarray], inliers: bool = False) -> float:
    """The mean share of rows that are right, in per cent; with inliers, of the rows that have a match."""
    shares = [np.mean((a == b)[b >= 0]) if inliers else np.mean(a == b) for a, b in zip(z, y, strict=True)]
    return 100 * float(np.mean(shares))


def tuned(train: Pairs, valid: Pairs, **options: Any) -> tl.Matcher:
    """alpha chosen on the validation pairs."""
    models = [tl.Matcher(alpha=alpha, tol=1e-6, **options).fit(train.X, train.y) for alpha in ALPHAS]
    return max(models, key=lambda m: m.score(valid.X, valid.y))


def house() -> list[list[Any]]:
    rows: list[list[Any]] = []
    for gap in range(0, 100, 10):
        train, valid, test = cmu_house(gap)
        row: list[Any] = [gap, len(train), accuracy(plain(test), test.y)]
        for options in METHODS.values():
            model = tuned(train, valid, **options)
            row.append(accuracy(model.predict(test.X), test.y))
        rows.append(row)
    rows.append(["mean", "", *np.mean([r[2:] for r in rows], axis=0).tolist()])
    return rows


def ducks() -> list[list[Any]]:
    """10 points: small enough for the exact conditional random field."""
    found = []
    for seed in range(5):
        train, test = willow_duck(seed)
        half = np.arange(len(train))
        fit, valid = train.take(half[::2]), train.take(half[1::2])
        row = [accuracy(plain(test), test.y)]
        for options in (METHODS | EXACT).values():
            model = tuned(fit, valid, **options)
            row.append(accuracy(model.fit(train.X, train.y).predict(test.X), test.y))
        found.append(row)
    table = np.array(found)
    return [
        ["willow_duck, 5 splits", *[f"{m:.1f} ± {s:.1f}" for m, s in zip(table.mean(0), table.std(0), strict=True)]]
    ]


def inliers(name: str) -> list[list[Any]]:
    """Only the points that have a match: square tables of many sizes."""
    found = []
    for seed in range(5):
        train, test = photographs(name, seed, outliers=False)
        half = np.arange(len(train))
        row = [accuracy(plain(test), test.y)]
        for options in METHODS.values():
            model = tuned(train.take(half[::2]), train.take(half[1::2]), features="absolute", **options)
            row.append(accuracy(model.fit(train.X, train.y).predict(test.X), test.y))
        found.append(row)
    table = np.array(found)
    cells = [f"{m:.1f} ± {s:.1f}" for m, s in zip(table.mean(0), table.std(0), strict=True)]
    return [[f"{name}, 5 splits", *cells, "too large", "too large"]]


def with_outliers(name: str) -> list[list[Any]]:
    found = []
    for seed in range(3):
        train, test = photographs(name, seed, outliers=True)
        z = plain(test)
        row = [accuracy(z, test.y), accuracy(z, test.y, inliers=True)]
        for surrogate in ("quadratic", "row-multinomial"):
            model = tl.Matcher(surrogate, "absolute", unmatched="both", alpha=1e-3, tol=1e-5).fit(train.X, train.y)
            z = model.predict(test.X)
            row += [accuracy(z, test.y), accuracy(z, test.y, inliers=True)]
        nothing = [np.full(len(y), -1) for y in test.y]
        found.append([accuracy(nothing, test.y), *row])
    return [[f"{name}, 3 splits", *np.mean(found, axis=0).tolist()]]


def speed() -> list[list[Any]]:
    rng = np.random.default_rng(0)
    rows = []
    for count, m in ((10000, 10), (10000, 20), (1000, 60)):
        scores = rng.random((count, m, m))
        compiled, z = best_time(lambda s=scores: assign(s, method="compiled"), 5)
        scipy, other = best_time(lambda s=scores: assign(s, method="scipy"), 2)
        assert (z == other).all()
        row: list[Any] = [f"{count} of {m} x {m}", f"{count / compiled:,.0f}", f"{count / scipy:,.0f}"]
        if importlib.util.find_spec("lap") is not None:
            import lap

            times = [best_time(lambda c=1 - scores, t=t: lap.lapjvh_batch(c, n_threads=t), 3)[0] for t in (1, 2)]
            row.append(f"{count / min(times):,.0f}")
        else:
            row.append("absent")
        rows.append(row)
    return rows


def main() -> None:
    peers = ["numba", *(["lapx"] if importlib.util.find_spec("lap") is not None else [])]
    write_table(
        "matchings_speed",
        "Linear assignments a second",
        ["problems", "taskloss, compiled", "SciPy in a loop", "lapx lapjvh_batch"],
        speed(),
        peers,
        "Uniform random scores in float64; all solvers reach the same matching. The best of a few runs; taskloss and lapx may use both cores.",
    )
    write_table(
        "matchings_house",
        "CMU house: per cent of 30 points matched rightly, by the gap between frames",
        ["gap", "training pairs", "plain assignment", *METHODS],
        house(),
        peers,
        "60 shape-context counts per point, squared differences as features of a pair; a third of the pairs trains, a third chooses alpha, a third tests. "
        "Plain assignment sums the same squared differences, each scaled by its standard deviation.",
    )
    write_table(
        "matchings_images",
        "Willow ducks, cars and motorbikes without outliers: per cent of points matched rightly, mean and deviation over splits",
        ["data", "plain assignment", *METHODS, *EXACT],
        ducks() + inliers("cars") + inliers("motorbikes"),
        peers,
        "Ducks: 10 points with SIFT descriptors, squared differences of their square roots; 20 images train (150 pairs) and 30 test. Cars and motorbikes: "
        "15 to 52 points, positions, edge orientation and a shape context, absolute differences; half of the pairs trains. alpha is chosen on half of the training "
        "pairs. The exact CRF has the log-permanent as its log-partition, and stops at 16 columns.",
    )
    write_table(
        "matchings_outliers",
        "Cars and motorbikes, with outliers on both sides: per cent of rows right, and of the rows that have a match (inliers)",
        [
            "data",
            "all match nothing",
            "plain",
            "plain, inliers",
            "quadratic",
            "quadratic, inliers",
            "row softmax",
            "row softmax, inliers",
        ],
        with_outliers("cars") + with_outliers("motorbikes"),
        peers,
        "Positions, edge orientation and a shape context per point, absolute differences as features of a pair; half of the pairs trains. "
        "A row is right where it gets its match, or nothing where it has none. Plain assignment matches as many rows as it can.",
    )


if __name__ == "__main__":
    main()
