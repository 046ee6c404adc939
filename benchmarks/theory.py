"""How long an exact calibration function takes: python -m benchmarks.theory."""

from __future__ import annotations

import numpy as np

import taskloss as tl

from .common import best_time, write_table


def cases() -> list[tuple]:
    """Name, loss, surrogate, eps, and the limit in seconds that was set before the first line was written."""
    costs = tl.losses.CostMatrix(np.random.default_rng(0).uniform(0, 1, (30, 30)))
    many = tl.losses.CostMatrix(np.random.default_rng(0).uniform(0, 1, (100, 100)))
    return [
        ("0-1, 100 classes", tl.losses.ZeroOne(100), tl.surrogates.Multinomial(), 0.3, 60),
        ("0-1, 100 classes", tl.losses.ZeroOne(100), tl.surrogates.OneVsAll(), 0.3, 60),
        ("0-1, 100 classes", tl.losses.ZeroOne(100), tl.surrogates.Quadratic(), 0.3, 60),
        ("absolute, 20 classes", tl.losses.Absolute(20), tl.surrogates.CumulativeLink(), 3.0, 60),
        ("absolute, 20 classes", tl.losses.Absolute(20), tl.surrogates.AllThresholds(), 3.0, 60),
        ("absolute, 20 classes", tl.losses.Absolute(20), tl.surrogates.OneVsAll(), 3.0, 60),
        ("absolute, 20 classes", tl.losses.Absolute(20), tl.surrogates.Quadratic(), 3.0, 60),
        ("Hamming, 8 labels", tl.losses.Hamming(8), tl.surrogates.Independent(), 0.3, 60),
        ("Hamming, 8 labels", tl.losses.Hamming(8), tl.surrogates.Quadratic(), 0.3, 60),
        ("matching, m = 4", tl.losses.MatchingHamming(4), tl.surrogates.RowMultinomial(), 0.3, 60),
        ("uniform costs 30 x 30", costs, tl.surrogates.Multinomial(), 0.3, 120),
        ("uniform costs 30 x 30", costs, tl.surrogates.OneVsAll(), 0.3, 120),
        ("uniform costs 30 x 30", costs, tl.surrogates.OneVsAll("exponential"), 0.3, 120),
        ("uniform costs 30 x 30", costs, tl.surrogates.Quadratic(), 0.3, 120),
        ("uniform costs 100 x 100", many, tl.surrogates.Multinomial(), 0.3, 60),
        ("uniform costs 100 x 100", many, tl.surrogates.OneVsAll(), 0.3, 60),
        ("uniform costs 100 x 100", many, tl.surrogates.Quadratic(), 0.3, 60),
    ]


def main() -> None:
    rows = []
    for name, loss, surrogate, eps, limit in cases():
        # numeric: from the exact formula, also where a closed form is known; each run starts from nothing
        seconds, found = best_time(lambda pair=(loss, surrogate), e=eps: tl.theory.calibration(*pair).numeric(e), 2)
        margin = getattr(surrogate, "margin", "logistic")
        kind = type(surrogate).__name__ + ("" if margin == "logistic" else f"({margin})")
        rows.append([name, kind, eps, found.value, f"{found.gap:.1e}", found.programs, f"{seconds:.2f}", limit])
    write_table(
        "theory",
        "Calibration functions: one exact value, symmetries and pruning included",
        ["loss", "surrogate", "eps", "zeta", "gap", "programs", "seconds", "limit"],
        rows,
        peers=["clarabel"],
        note="The gap is value (a witness, evaluated anew) less lower end (dual value or proved formula). The exponential "
        "margin's divergence is not jointly convex: branch and bound, stopped at a gap of 1e-4 of the value.",
    )


if __name__ == "__main__":
    main()
