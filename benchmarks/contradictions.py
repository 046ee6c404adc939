"""Attempts to contradict tl.theory by a method that shares no code with it: python -m benchmarks.contradictions.

Costs of all kinds, every embedding, every surrogate, eps from 1e-8 of the largest to beyond it. A certificate is
contradicted by a pair (u', u) with a smaller divergence than its lower end, by a witness that is not feasible or does
not have the value, by an infinity where some pair is finite, or by an `excess_risk`, an `envelope`, a `conjugate` or
a bound that such a pair violates. Divergences, feasibility and search are written here from the definitions. One
attempt is one search against one certificate: random pairs, vertices, rays, or one local search (SLSQP) from one start.

A log keeps one line for each certificate, so that a run which stops goes on where it stopped.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import nnls

import taskloss as tl

from .common import write_table
from .independent import KINDS, Case, Search, draw_case, draw_costs, draw_eps, exact_law

# -- one certificate -------------------------------------------------------------------------------------------------


def contradictions(case: Case, eps: float, rng: np.random.Generator, starts: int = 6) -> Iterator[tuple[str, str]]:
    """("attempt", what) for each attempt at the certificate of zeta(eps), and ("contradiction", why) for each success."""
    zeta = tl.theory.calibration(case.loss, case.surrogate)
    found = zeta.exact(eps)
    yield from ((("contradiction"), why) for why in faults(case, eps, found))
    yield "attempt", "witness"
    search = Search(case, eps, rng, strict=np.isinf(found.lower))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plain = [*[search.random_pairs] * 4, search.vertices, *[search.local] * starts]
        for attempt in [search.by_scores] * (4 + starts) if case.rule.scores else plain:
            attempt()
            yield "attempt", attempt.__name__
    best, tolerance = search.best, 1e-6
    if best < found.lower * (1 - tolerance):
        yield "contradiction", f"lower end {found.lower:.9g}, a pair has {best:.9g}"
    if np.isfinite(best) and best > 0 and rng.random() < 0.3:
        z, q, _ = search.pair
        lag = float(case.costs[z] @ q - (case.costs @ q).min())
        yield "attempt", "excess_risk"
        bound = zeta.excess_risk(best)
        if bound < lag * (1 - tolerance):
            yield "contradiction", f"excess_risk({best:.6g}) = {bound:.9g}, a pair has {lag:.9g}"
        yield "attempt", "envelope"
        if zeta.problem.convexity and zeta.lower_bound(lag) > best * (1 + tolerance):
            yield "contradiction", f"lower_bound({lag:.6g}) above the divergence {best:.9g} of a pair"
        if zeta.envelope(min(lag, zeta.eps_max)) > best * (1 + tolerance):
            yield "contradiction", f"envelope({lag:.6g}) above the divergence {best:.9g} of a pair"
    if rng.random() < 0.3 and zeta.upper_bound(eps) < found.lower * (1 - tolerance):
        yield "contradiction", f"upper_bound {zeta.upper_bound(eps):.9g} below the lower end {found.lower:.9g}"


def faults(case: Case, eps: float, found: Any) -> Iterator[str]:
    """What is wrong with a certificate by itself."""
    if np.isnan(found.value) or np.isnan(found.lower) or found.lower > found.value:
        yield f"the ends are [{found.lower}, {found.value}]"
    if found.exact and np.isfinite(found.value) and found.value - found.lower > 2e-6 * found.value:
        yield f"called exact, with ends [{found.lower}, {found.value}]"
    if np.isinf(found.value):
        if found.exact and np.isfinite(found.lower):
            yield "called exact without a witness"
        return
    search = Search(case, eps, np.random.default_rng(0))
    phi = case.phi
    q = nnls(
        np.vstack([(phi - found.u_prime).T / (np.abs(phi).max() or 1.0), np.ones(len(phi))]),
        np.r_[np.zeros(phi.shape[1]), 1.0],
    )[0]
    q = q / q.sum()
    scale = np.abs(phi).max() or 1.0
    if np.abs(q @ phi - found.u_prime).max() > 1e-9 * scale:
        yield "the witness's truth is not in M"
    lag = (found.u_prime @ search.psi.T + search.offset)[found.z] - (found.u_prime @ search.psi.T + search.offset).min()
    slack = 1e-8 * eps + 1e-13 * search.unit
    if lag < eps - slack:
        yield f"the witness is {lag:.12g} behind, not {eps:.12g}"
    risks = found.u @ (search.psi - search.psi[found.z]).T + search.offset - search.offset[found.z]
    if risks.min() < -slack * max(1.0, np.abs(found.u).max() / scale):
        yield f"the witness's estimate does not pick its output, by {-risks.min():.3g}"
    if not case.rule.scores:
        value = float(case.rule.divergence(found.u, found.u_prime - found.u))
        if (
            np.isinf(value) and case.rule.law and len(phi) == phi.shape[1] + 1
        ):  # a weight below 1e-15 is not zero, but known to a rounding of u
            near = exact_law(phi, found.u) + np.spacing(scale)
            value = float(case.rule.divergence(found.u, found.u_prime - found.u, near))
        if not value <= found.value * (1 + 1e-6):
            yield f"the witness has divergence {value:.9g}, not {found.value:.9g}"


class Outcome(NamedTuple):
    """What came of one certificate: how many attempts there were, and a sentence for each that succeeded."""

    case: int
    surrogate: str
    kind: str
    attempts: int
    stories: list[str]


def outcome(seed: int, i: int) -> Outcome:
    """Case i of a seed: its problem, its eps and all attempts at its certificate."""
    rng = np.random.default_rng([seed, i])
    kind = KINDS[i % len(KINDS)]
    case = draw_case(rng, kind, int(rng.integers(100)))
    eps = draw_eps(rng, float((case.costs - case.costs.min(0)).max()))
    try:
        events = list(contradictions(case, eps, rng))
    except Exception as error:
        events = [("contradiction", f"raised {type(error).__name__}: {error}")]
    told = f"[seed {seed}, case {i}] {case.name}, {kind}, eps {eps:.6g}: "
    stories = [told + why for what, why in events if what == "contradiction"]
    return Outcome(i, case.name, kind, sum(what == "attempt" for what, _ in events), stories)


def run(attempts: int, seed: int = 0, report: bool = False, seconds: float = np.inf, log: str = "") -> list[Outcome]:
    """The outcomes of cases 0, 1, ... until there are as many attempts or the time is up; those in the log are not made again."""
    known: dict[int, Outcome] = {}
    if log and pathlib.Path(log).exists():
        lines = pathlib.Path(log).read_text().splitlines()
        known = {found.case: found for found in (Outcome(*json.loads(line)) for line in lines)}
    start, tried, outcomes = time.monotonic(), 0, []
    while tried < attempts and time.monotonic() - start < seconds:
        i = len(outcomes)
        found = known.get(i)
        if found is None:
            found = outcome(seed, i)
            if log:
                with open(log, "a") as file:
                    print(json.dumps(found), file=file)
            if report:
                print(*found.stories, sep="\n", end="\n" if found.stories else "", flush=True)
        outcomes.append(found)
        tried += found.attempts
        if report and len(outcomes) % 500 == 0:
            print(f"{len(outcomes)} certificates, {tried} attempts, {time.monotonic() - start:.0f} s", flush=True)
    return outcomes


def decompositions(count: int, seed: int = 0, seconds: float = np.inf) -> tuple[float, int, int]:
    """The largest relative error of decompose(A).matrix, how often its dimension is not the least rank over constants, and
    how many matrices there was time for.
    """
    worst, wrong, i, start = 0.0, 0, 0, time.monotonic()
    for i in range(count):
        if time.monotonic() - start > seconds:
            return worst, wrong, i
        rng = np.random.default_rng([seed, i])
        table = draw_costs(rng, KINDS[i % len(KINDS)])
        d = tl.theory.decompose(table)
        unit = float(np.abs(table).max()) or 1.0
        worst = max(worst, float(np.abs(d.matrix - table).max()) / unit)
        ranks = [
            np.linalg.matrix_rank(table - c, tol=1e-9 * unit) for c in (0.0, d.constant, *(unit * rng.normal(size=3)))
        ]
        lowest = min(ranks)
        both = all(
            np.linalg.matrix_rank(np.column_stack([a / unit, np.ones(len(a))]), tol=1e-9)
            == np.linalg.matrix_rank(a / unit, tol=1e-9)
            for a in (table, table.T)
        )
        total = float(np.ones(table.shape[1]) @ np.linalg.pinv(table / unit, rcond=1e-9) @ np.ones(len(table)))
        rank = int(np.linalg.matrix_rank(table / unit, tol=1e-9))
        least = min(lowest, rank - 1 if both and rank and abs(total) > 1e-7 else rank)
        wrong += d.k != least
    return worst, wrong, count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--attempts", type=int, default=100_000)
    parser.add_argument(
        "--seed", type=int, default=0, help="of the problems and the searches: a new one makes a new battery"
    )
    parser.add_argument("--seconds", type=float, default=np.inf, help="stop after so long")
    parser.add_argument("--log", default="", help="a file with one line for each certificate, to go on from")
    asked = parser.parse_args()
    outcomes = run(asked.attempts, asked.seed, report=True, seconds=asked.seconds, log=asked.log)
    worst, wrong, matrices = decompositions(min(10_000, asked.attempts), asked.seed, seconds=asked.seconds / 5)
    tried: Counter = Counter()
    failed: Counter = Counter()
    for found in outcomes:
        tried[found.surrogate, found.kind] += found.attempts
        failed[found.surrogate, found.kind] += len(found.stories)
    names = sorted({found.surrogate for found in outcomes})
    rows = []
    for name in names:
        cells = [f"{tried[name, kind]}" + (f" ({failed[name, kind]})" if failed[name, kind] else "") for kind in KINDS]
        rows.append([name, *cells])
    rows.append(["all", *[sum(tried[name, kind] for name in names) for kind in KINDS]])
    write_table(
        "contradictions",
        "Attempts to contradict a certificate, by surrogate and kind of cost",
        ["surrogate", *KINDS],
        rows,
        peers=["clarabel"],
        note=f"Seed {asked.seed}: {sum(tried.values())} attempts at {len(outcomes)} certificates, {sum(failed.values())} contradictions "
        f"(in brackets, where there are any). `decompose` on {matrices} matrices: largest relative error "
        f"{worst:.1e}, dimension other than the least rank over constants {wrong} times.",
    )


if __name__ == "__main__":
    main()
