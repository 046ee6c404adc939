"""Matchings: accuracy on the CMU house, Willow ducks, cars and motorbikes, and the speed of batched assignment.

python -m benchmarks.matchings [speed] [house] [images] [outliers]
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.base import clone

import taskloss as tl
from taskloss.polytopes.assignment import assign

from .common import best_time, write_table
from .datasets.matchings import Pairs, cmu_house, photographs, willow_duck

ALPHAS = (1e-4, 1e-2, 1.0, 1e2, 1e3)
METHODS = {  # surrogate and decoding
    "quadratic": ("quadratic", "moments"),
    "row softmax": ("row-multinomial", "moments"),
    "row softmax, MAP": ("row-multinomial", "map"),
}
EXACT = {"exact CRF": ("max-entropy", "moments"), "exact CRF, MAP": ("max-entropy", "map")}


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


def learned(
    methods: dict[str, tuple[str, str]],
    train: Pairs,
    valid: Pairs,
    test: Pairs,
    refit: Pairs | None = None,
    **options: Any,
) -> list[float]:
    """The test accuracy of each method, alpha chosen on the validation pairs; refit: pairs to fit again on then."""
    fits: dict[str, list[tl.Matcher]] = {}
    out = []
    for surrogate, decoding in methods.values():
        if surrogate not in fits:  # one fit serves both decodings
            fits[surrogate] = [
                tl.Matcher(surrogate, alpha=alpha, tol=1e-6, **options).fit(train.X, train.y) for alpha in ALPHAS
            ]
        best = max(fits[surrogate], key=lambda m, d=decoding: m.set_params(decoding=d).score(valid.X, valid.y))
        model = clone(best).fit(refit.X, refit.y) if refit is not None else best
        out.append(accuracy(model.set_params(decoding=decoding).predict(test.X), test.y))
    return out


def house() -> list[list[Any]]:
    rows: list[list[Any]] = []
    for gap in range(0, 100, 10):
        train, valid, test = cmu_house(gap)
        rows.append([gap, len(train), accuracy(plain(test), test.y), *learned(METHODS, train, valid, test)])
    rows.append(["mean", "", *np.mean([r[2:] for r in rows], axis=0).tolist()])
    return rows


def over_splits(name: str, found: list[list[float]]) -> list[Any]:
    table = np.array(found)
    cells = [f"{m:.1f} ± {s:.1f}" for m, s in zip(table.mean(0), table.std(0), strict=True)]
    return [f"{name}, {len(found)} splits", *cells]


def halves(pairs: Pairs) -> tuple[Pairs, Pairs]:
    index = np.arange(len(pairs))
    return pairs.take(index[::2]), pairs.take(index[1::2])


def ducks() -> list[list[Any]]:
    """10 points: small enough for the exact conditional random field."""
    found = []
    for seed in range(5):
        train, test = willow_duck(seed)
        row = learned(METHODS | EXACT, *halves(train), test, refit=train)
        found.append([accuracy(plain(test), test.y), *row])
    return [over_splits("willow_duck", found)]


def inliers(name: str) -> list[list[Any]]:
    """Only the points that have a match: square tables of many sizes."""
    found = []
    for seed in range(5):
        train, test = photographs(name, seed, outliers=False)
        row = learned(METHODS, *halves(train), test, refit=train, features="absolute")
        found.append([accuracy(plain(test), test.y), *row])
    return [[*over_splits(name, found), "too large", "too large"]]


def with_outliers(name: str) -> list[list[Any]]:
    found = []
    for seed in range(3):
        train, test = photographs(name, seed, outliers=True)
        outputs = [[np.full(len(y), -1) for y in test.y], plain(test)]
        for surrogate, decoding in METHODS.values():
            model = tl.Matcher(surrogate, "absolute", unmatched="both", decoding=decoding, tol=1e-5)
            outputs.append(model.fit(train.X, train.y).predict(test.X))
        found.append([[accuracy(z, test.y), accuracy(z, test.y, inliers=True)] for z in outputs])
    means = np.mean(found, axis=0)
    return [[f"{name}, 3 splits", *[f"{every:.1f} ({matched:.1f})" for every, matched in means]]]


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


def tables() -> dict[str, Callable[[], tuple]]:
    """Each table's title, header, rows and note, by name; computed when called."""
    return {
        "speed": lambda: (
            "Linear assignments a second",
            ["problems", "taskloss, compiled", "SciPy in a loop", "lapx lapjvh_batch"],
            speed(),
            "Uniform random scores in float64; all solvers reach the same matching. The best of a few runs; taskloss and lapx may use both cores.",
        ),
        "house": lambda: (
            "CMU house: per cent of 30 points matched rightly, by the gap between frames",
            ["gap", "training pairs", "plain assignment", *METHODS],
            house(),
            "60 shape-context counts per point, squared differences as features of a pair; a third of the pairs trains, a third chooses alpha, a third tests. "
            "Plain assignment sums the same squared differences, each scaled by its standard deviation. MAP assigns on the scores, the others on the moments.",
        ),
        "images": lambda: (
            "Willow ducks, cars and motorbikes without outliers: per cent of points matched rightly, mean and deviation over splits",
            ["data", "plain assignment", *METHODS, *EXACT],
            ducks() + inliers("cars") + inliers("motorbikes"),
            "Ducks: 10 points with SIFT descriptors, squared differences of their square roots; 20 images train (150 pairs) and 30 test. Cars and motorbikes: "
            "15 to 52 points, positions, edge orientation and a shape context, absolute differences; half of the pairs trains. alpha is chosen on half of the "
            "training pairs. The exact CRF has the log-permanent as its log-partition, and stops at 16 columns.",
        ),
        "outliers": lambda: (
            "Cars and motorbikes with outliers on both sides: per cent of rows right, and in brackets of the rows that have a match",
            ["data", "match nothing", "plain assignment", *METHODS],
            with_outliers("cars") + with_outliers("motorbikes"),
            "Positions, edge orientation and a shape context per point, absolute differences as features of a pair; half of the pairs trains. "
            "A row is right where it gets its match, or nothing where it has none. Plain assignment matches as many rows as it can.",
        ),
    }


def main(names: list[str]) -> None:
    peers = ["numba", *(["lapx"] if importlib.util.find_spec("lap") is not None else [])]
    for name, table in tables().items():
        if name in names or not names:
            title, header, rows, note = table()
            write_table(f"matchings_{name}", title, header, rows, peers, note)


if __name__ == "__main__":
    main(sys.argv[1:])
