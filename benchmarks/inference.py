"""Coverage and time of summaries of ordinal fits without a penalty: python -m benchmarks.inference.

Coverage: 1,000 samples of 150 examples with two features and three labels; the share of 95 % intervals that hold the truth, for every link, for partial odds (the
second feature is nominal, 300 examples) and for the sandwich. Time: 50,000 examples with 50 features and five labels, `summary` beside `fit`, interleaved,
best of three.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy import stats

import taskloss as tl
from taskloss.surrogates import CumulativeLink

from .common import best_time, write_table

DRAWS = 1000
LAWS: dict[str, Any] = {
    "logit": stats.logistic,
    "probit": stats.norm,
    "cloglog": stats.gumbel_l,
    "loglog": stats.gumbel_r,
    "cauchit": stats.cauchy,
}
TRUTH = np.array([1.0, -0.5, -1.0, 0.5])
Drawn = tuple[np.ndarray, np.ndarray]


def ordinal(link: str, **options: Any) -> Any:
    return tl.OrdinalClassifier(surrogate=CumulativeLink(link), alpha=0, **options)


def sample(link: str, rng: np.random.Generator) -> Drawn:
    x = rng.normal(size=(150, 2))
    return x, np.digitize(x @ TRUTH[:2] + LAWS[link].rvs(size=150, random_state=rng), TRUTH[2:])


def nominal(rng: np.random.Generator) -> Drawn:
    """P(Y <= j) = F(cut_j - x_1 - w_j x_2) with w = (-0.5, 0.1), x_2 in [0, 1], where thresholds stay in order."""
    x = np.column_stack([rng.normal(size=300), rng.random(300)])
    cuts = TRUTH[2:] - x[:, :1] - x[:, 1:] * [-0.5, 0.1]
    return x, (rng.random(300)[:, None] > stats.logistic.cdf(cuts)).sum(1)


def coverage(draw: Callable[[np.random.Generator], Drawn], model: Any, truth: np.ndarray, **options: Any) -> np.ndarray:
    rng, inside = np.random.default_rng(0), []
    for _ in range(DRAWS):
        x, y = draw(rng)
        try:
            found = model.fit(x, y).summary(x, y, **options)
        except ValueError as refusal:  # labels that a sample separates
            if "separate" not in str(refusal):
                raise
            continue
        inside.append((found["low"] <= truth) & (truth <= found["high"]))
    return np.append(np.mean(inside, axis=0), len(inside))


def main() -> None:
    warnings.simplefilter("ignore")
    rows = []
    cases: list[tuple[str, Any, Any, np.ndarray, dict[str, str]]] = [
        (link, lambda rng, link=link: sample(link, rng), ordinal(link), TRUTH, {}) for link in LAWS
    ]
    cases += [
        ("logit, sandwich", lambda rng: sample("logit", rng), ordinal("logit"), TRUTH, {"covariance": "sandwich"}),
        ("logit, nominal", nominal, ordinal("logit", nominal=[1]), np.array([1, -0.5, 0.1, -1, 0.5]), {}),
    ]
    for name, draw, model, truth, options in cases:
        found = coverage(draw, model, truth, **options)
        rows.append((name, ", ".join(f"{share:.3f}" for share in found[:-1]), int(found[-1])))
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50_000, 50))
    y = np.digitize(X @ rng.normal(size=50) / 4 + rng.logistic(size=50_000), [-2, -0.5, 0.5, 2])
    for name, model in [("shared", ordinal("logit")), ("two nominal", ordinal("logit", nominal=[0, 1]))]:
        times = []
        for _ in range(3):
            fit, _ = best_time(partial(model.fit, X, y), 1)
            times.append((fit, best_time(partial(model.summary, X, y), 1)[0]))
        fit, summary = np.min(times, axis=0)
        rows.append((f"50,000 x 50, {name}", f"fit {fit:.2f} s, summary {summary:.2f} s: {summary / fit:.2f} times", 1))
    note = " ".join((__doc__ or "").split("\n\n", 1)[1].split())
    write_table(
        "inference",
        "Summaries of ordinal fits",
        ["case", "coverage of each parameter, or time", "samples"],
        rows,
        [],
        note,
    )


if __name__ == "__main__":
    main()
