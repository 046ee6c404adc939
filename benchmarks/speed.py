"""How long fits take next to the peers', each to the same objective: python -m benchmarks.speed [row ...].

Every method gets the loosest tolerance of a ladder at which its objective is within a relative 1e-6 of the least value
that anyone found, and is then timed, best of three, from raw arrays to fitted model. Peers run with one and with two
BLAS threads where they differ, and the better counts. Rows are kept in results/speed.json, so that they can be
measured one at a time; the table has all of them.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import expit, logsumexp
from threadpoolctl import threadpool_limits

import taskloss as tl

from .common import RESULTS, best_time, write_table

GAP = 1e-6
SLOW = 8.0  # seconds above which a fit is timed once and the ladder has coarser steps

Fit = Callable[[float], Any]  # tolerance -> parameters


@dataclass
class Method:
    """A way to fit, with the ladder of tolerances to try."""

    name: str
    fit: Fit
    first: float = 1e-2
    last: float = 1e-12
    threads: tuple[int, ...] = (2,)


@dataclass
class Result:
    """seconds at the loosest tolerance within the gap."""

    method: str
    seconds: float
    tol: float
    gap: float
    threads: int


def measure(method: Method, value: Callable[[Any], float], best: float) -> Result:
    """Walk down the ladder to the gap, then time."""
    results = []
    tol = method.first
    for threads in method.threads:
        with threadpool_limits(threads), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            while True:
                start = time.perf_counter()
                theta = method.fit(tol)
                seconds = time.perf_counter() - start
                gap = value(theta) / best - 1
                print(
                    f"    {method.name}: tol {tol:.1e}, {threads} threads, {seconds:.3f} s, gap {gap:.1e}", flush=True
                )
                if gap <= GAP or tol < method.last:
                    break
                tol /= 10 if seconds > SLOW else np.sqrt(10)
            if seconds <= SLOW:
                seconds = best_time(lambda tol=tol: method.fit(tol))[0]
        results.append(Result(method.name, seconds, tol, gap, threads))
    reached = [r for r in results if r.gap <= GAP]
    return min(reached or results, key=lambda r: r.seconds)


def compare(
    title: str, value: Callable[[Any], float], ours: Method, peers: list[Method], target: float
) -> dict[str, Any]:
    """One row: the best peer's time over ours."""
    print(title, flush=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        best = value(ours.fit(1e-14))
    mine = measure(ours, value, best)
    theirs = [measure(p, value, best) for p in peers]
    able = [r for r in theirs if r.gap <= GAP]
    fastest = min(able or theirs, key=lambda r: r.seconds)
    ratio = fastest.seconds / mine.seconds
    print(f"  {mine.seconds:.3f} s against {fastest.seconds:.3f} s ({fastest.method}): {ratio:.2f} times as fast\n")
    others = ", ".join(f"{r.method} {r.seconds:.3g}" + ("" if r.gap <= GAP else " (gap missed)") for r in theirs)
    return {
        "problem": title,
        "peer": f"{fastest.method} ({fastest.threads} BLAS threads)",
        "peer_s": fastest.seconds,
        "our_s": mine.seconds,
        "ratio": ratio,
        "target": f"{target:g}",
        "met": ratio >= target,
        "all peers, s": others,
    }


# -- data ----------------------------------------------------------------------------------------------------------


def dense(n: int, d: int, condition: float, seed: int = 0) -> np.ndarray:
    """Gaussian rows whose covariance has eigenvalues from 1 down to 1 / condition, in a random basis."""
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.standard_normal((d, d)))[0]
    return (rng.standard_normal((n, d)) * np.logspace(0, -0.5 * np.log10(condition), d)) @ basis.T


def draw(v: np.ndarray, seed: int = 1) -> np.ndarray:
    """Labels from the softmax of the scores."""
    rng = np.random.default_rng(seed)
    return np.argmax(v + rng.gumbel(size=v.shape), axis=1)


CONDITIONS = {"well conditioned (2)": 2.0, "moderately conditioned (30)": 30.0, "ill conditioned (1e3)": 1e3}


# -- objectives, written out once more as a check on all sides ----------------------------------------------------------


def multinomial_value(X: Any, y: np.ndarray, alpha: float) -> Callable[[Any], float]:
    def value(theta: tuple[np.ndarray, np.ndarray]) -> float:
        coef, intercept = theta
        coef = coef - coef.mean(0)  # scores are free up to a constant, and the penalty is least at the mean
        v = X @ coef.T + intercept
        return float(np.mean(logsumexp(v, axis=1) - v[np.arange(len(y)), y]) + alpha / 2 * (coef**2).sum())

    return value


def multilabel_value(X: np.ndarray, Y: np.ndarray, alpha: float) -> Callable[[Any], float]:
    def value(theta: tuple[np.ndarray, np.ndarray]) -> float:
        coef, intercept = theta
        total = 0.0
        for j in range(Y.shape[1]):
            v = (X @ coef[j] + intercept[j]) * (2 * Y[:, j] - 1)
            total += float(np.mean(np.logaddexp(0, -v)) + alpha / 2 * coef[j] @ coef[j])
        return total

    return value


def thresholds_value(X: np.ndarray, y: np.ndarray, k: int, alpha: float) -> Callable[[Any], float]:
    signs = 2.0 * (y[:, None] > np.arange(k - 1)) - 1

    def value(theta: tuple[np.ndarray, np.ndarray]) -> float:
        coef, cuts = theta  # P(Y > j) = expit(coef x - cuts_j)
        v = (X @ coef)[:, None] - cuts
        return float(np.mean(np.logaddexp(0, -signs * v).sum(1)) + alpha / 2 * coef @ coef)

    return value


def cumulative_value(X: np.ndarray, y: np.ndarray) -> Callable[[Any], float]:
    def value(theta: tuple[np.ndarray, np.ndarray]) -> float:
        coef, cuts = theta  # P(Y <= j) = expit(cuts_j - coef x)
        padded = np.concatenate([[-np.inf], cuts, [np.inf]])
        v = X @ coef
        return float(-np.mean(np.log(expit(padded[y + 1] - v) - expit(padded[y] - v))))

    return value


# -- rows ----------------------------------------------------------------------------------------------------------


def sklearn_logistic(X: Any, y: np.ndarray, alpha: float, solver: str) -> Fit:
    from sklearn.linear_model import LogisticRegression

    def fit(tol: float) -> Any:
        model = LogisticRegression(C=1 / (len(y) * alpha), solver=solver, tol=tol, max_iter=2000).fit(X, y)
        return model.coef_, model.intercept_

    return fit


def taskloss_fit(make: Callable[[float], Any], X: Any, y: np.ndarray, sign: float | None = None) -> Fit:
    """sign: for ordinal models, that of the intercepts in the scores of Y > j, of which cuts are the negatives."""

    def fit(tol: float) -> Any:
        model = make(tol).fit(X, y)
        if sign is None:
            return model.coef_, model.intercept_
        return model.coef_[0], -sign * model.intercept_

    return fit


def multinomial_data(condition: float, n: int = 100_000, d: int = 100, k: int = 10) -> tuple[np.ndarray, np.ndarray]:
    X = dense(n, d, condition)
    return X, draw(X @ np.random.default_rng(2).standard_normal((d, k)) * (0.3 if condition < 10 else 1.0))


def row_multinomial() -> Iterator[dict[str, Any]]:
    for label, condition in CONDITIONS.items():
        X, y = multinomial_data(condition)
        alpha = 1 / len(y)
        ours = Method(
            "taskloss", taskloss_fit(lambda tol, a=alpha: tl.CostSensitiveClassifier(alpha=a, tol=tol), X, y), 1e-4
        )
        # newton-cholesky, with a Hessian of a million entries, took 15 s where lbfgs took 0.7.
        peers = [
            Method("scikit-learn lbfgs", sklearn_logistic(X, y, alpha, "lbfgs"), 1e-4, threads=(1, 2)),
            Method("scikit-learn newton-cg", sklearn_logistic(X, y, alpha, "newton-cg"), 1e-4),
        ]
        title = f"multinomial, dense, n=100k, d=100, k=10, {label}"
        yield compare(title, multinomial_value(X, y, alpha), ours, peers, 4)


def row_sparse() -> Iterator[dict[str, Any]]:
    n, d, k = 20_000, 50_000, 20
    rng = np.random.default_rng(0)
    signal = rng.standard_normal((d, k))
    rows = np.repeat(np.arange(n), d // 1000)

    def counts(columns: np.ndarray) -> Any:
        return sparse.csr_matrix((np.ones(len(rows)), (rows, columns)), shape=(n, d))

    uniform = counts(rng.integers(0, d, len(rows)))
    uniform.data[:] = rng.standard_normal(uniform.nnz)
    # Words as in text: column j is drawn about as often as 1 / j, and counts are logarithms.
    text = counts(np.minimum((d ** rng.uniform(size=len(rows))).astype(int), d - 1))
    text.data[:] = np.log1p(text.data)
    for label, X, scale in (("Gaussian entries", uniform, 0.5), ("word counts", text, 0.7)):
        y = draw(X @ signal * scale)
        alpha = 1 / n
        ours = Method(
            "taskloss",
            taskloss_fit(lambda tol, a=alpha: tl.CostSensitiveClassifier(alpha=a, tol=tol), X, y),
            1e-4,
        )
        # lbfgs took 16 s where newton-cg took 2.
        peers = [Method("scikit-learn newton-cg", sklearn_logistic(X, y, alpha, "newton-cg"), 1e-4, threads=(1, 2))]
        density = X.nnz / (n * d)
        title = f"multinomial, CSR, n=20k, d=50k, {100 * density:.2g} % dense, k=20, {label}"
        yield compare(title, multinomial_value(X, y, alpha), ours, peers, 2)


def label_sets(title: str, X: Any, Y: np.ndarray, solvers: tuple[str, ...], target: float) -> dict[str, Any]:
    """One fit of all labels beside one logistic regression for each."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.multiclass import OneVsRestClassifier

    alpha = 1 / len(Y)

    def peer(solver: str) -> Fit:
        def fit(tol: float) -> Any:
            one = LogisticRegression(C=1.0, tol=tol, max_iter=2000, solver=solver)
            parts = OneVsRestClassifier(one, n_jobs=2).fit(X, Y).estimators_
            return np.vstack([e.coef_ for e in parts]), np.array([e.intercept_[0] for e in parts])

        return fit

    ours = Method("taskloss", taskloss_fit(lambda tol: tl.MultilabelClassifier(alpha=alpha, tol=tol), X, Y), 1e-4)
    peers = [Method(f"OneVsRest(LogisticRegression), {s}, n_jobs=2", peer(s), 1e-4) for s in solvers]
    return compare(title, multilabel_value(X, Y, alpha), ours, peers, target)


def row_multilabel() -> Iterator[dict[str, Any]]:
    n, d, k = 50_000, 100, 100
    for label, condition in CONDITIONS.items():
        X = dense(n, d, condition)
        scores = X @ np.random.default_rng(2).standard_normal((d, k)) * (0.3 if condition < 10 else 1.0)
        Y = (scores - 1 + np.random.default_rng(3).logistic(size=scores.shape) > 0).astype(int)
        yield label_sets(f"multilabel logistic, n=50k, d=100, 100 labels, {label}", X, Y, ("lbfgs",), 20)


def row_text_labels() -> Iterator[dict[str, Any]]:
    """Labels of texts, many of them rare: all rows, and all labels that occur."""
    from .datasets.tabular import multilabel

    for name in ("bibtex", "enron"):
        data = multilabel(name)
        X, Y = sparse.csr_matrix(data.X, dtype=float), data.y.astype(int)
        Y = Y[:, (Y.min(0) < Y.max(0))]
        title = f"label sets, {name}, n={len(Y)}, d={X.shape[1]}, {Y.shape[1]} labels"
        yield label_sets(title, X, Y, ("lbfgs", "newton-cg"), 10)


def ordinal_data(condition: float, n: int = 50_000, d: int = 50, k: int = 10) -> tuple[np.ndarray, np.ndarray]:
    X = dense(n, d, condition)
    score = X @ np.random.default_rng(2).standard_normal(d) * (0.3 if condition < 10 else 1.0)
    score += np.random.default_rng(3).logistic(size=n)
    return X, np.searchsorted(np.quantile(score, np.arange(1, k) / k), score)


def row_thresholds() -> Iterator[dict[str, Any]]:
    from mord.threshold_based import threshold_fit

    k = 10
    for label, condition in CONDITIONS.items():
        X, y = ordinal_data(condition)
        alpha = 1 / len(y)
        ours = Method(
            "taskloss",
            taskloss_fit(lambda tol, a=alpha: tl.OrdinalClassifier(alpha=a, tol=tol), X, y, sign=1),
            1e-4,
        )
        # The function inside mord.LogisticAT, which does not let its tolerance of 1e-12 be changed.
        peer = Method(
            "mord.LogisticAT", lambda tol, X=X, y=y: threshold_fit(X, y, 1.0, k, tol=tol), 1e-5, threads=(1, 2)
        )
        title = f"ordinal all-thresholds, n=50k, d=50, k=10, {label}"
        yield compare(title, thresholds_value(X, y, k, alpha), ours, [peer], 8)


def row_cumulative() -> Iterator[dict[str, Any]]:
    from statsmodels.miscmodels.ordinal_model import OrderedModel

    for label, condition in CONDITIONS.items():
        X, y = ordinal_data(condition)

        def make(tol: float) -> Any:
            # statsmodels has no penalty; 1e-10 is as good as none.
            return tl.OrdinalClassifier(surrogate="cumulative-link", alpha=1e-10, tol=tol)

        def peer(tol: float, X: Any = X, y: Any = y) -> Any:
            model = OrderedModel(y, X, distr="logit")
            # Its gradient is by finite differences; the covariance of the estimates is left out.
            result = model.fit(method="bfgs", gtol=tol, maxiter=500, disp=0, skip_hessian=True)
            return result.params[: X.shape[1]], model.transform_threshold_params(result.params)[1:-1]

        ours = Method("taskloss", taskloss_fit(make, X, y, sign=-1), 1e-4)
        title = f"ordinal cumulative logit, n=50k, d=50, k=10, {label}"
        yield compare(title, cumulative_value(X, y), ours, [Method("statsmodels OrderedModel bfgs", peer, 1e-4)], 50)


def row_gradient() -> Iterator[dict[str, Any]]:
    """One value and gradient of the first row against X W and X^T V, the products that it cannot do without."""
    from taskloss._blas import serial_blas
    from taskloss.objectives import PenalisedRisk, Rows
    from taskloss.parallel import Executor

    n, d, k = 100_000, 100, 10
    X = dense(n, d, 2.0)
    y = draw(X @ np.random.default_rng(2).standard_normal((d, k)) * 0.3)
    loss = tl.losses.ZeroOne(k)
    rows = Rows(tl.surrogates.Multinomial(k), loss.phi(y, dtype=np.int8), np.ones(n))
    risk = PenalisedRisk(tl.hypotheses.Linear(), X, rows, 1 / n)
    theta = risk.flatten(np.random.default_rng(4).standard_normal((d + 1, k)) * 0.1)
    W, V = np.ascontiguousarray(theta.reshape(d + 1, k)[:-1]), np.empty((n, k))
    blocks = [slice(i, i + 2048) for i in range(0, n, 2048)]

    def ours() -> None:
        risk.value_and_gradient(theta)

    def whole() -> None:
        np.matmul(X, W, out=V)
        X.T @ V

    def blocked() -> None:
        for rows in blocks:
            X[rows].T @ (W.T @ X[rows].T).T

    for threads in (2, 1):
        with threadpool_limits(threads):
            risk = PenalisedRisk(tl.hypotheses.Linear(), X, rows, 1 / n, Executor(threads, compiled=True))
            with serial_blas(threads > 1):
                mine = best_time(ours, 15)[0]
            theirs = min(best_time(whole, 15)[0], best_time(blocked, 15)[0])
        print(f"value and gradient on {threads} threads: {mine:.4f} s, products {theirs:.4f} s", flush=True)
        yield {
            "problem": f"value and gradient, first row, {threads} threads",
            "peer": "the two matrix products alone",
            "peer_s": theirs,
            "our_s": mine,
            "ratio": theirs / mine,
            "target": f"{1 / 1.5:.2f}",
            "met": mine <= 1.5 * theirs,
            "all peers, s": "",
        }


ROWS = {
    "multinomial": row_multinomial,
    "sparse": row_sparse,
    "multilabel": row_multilabel,
    "text-labels": row_text_labels,
    "thresholds": row_thresholds,
    "cumulative": row_cumulative,
    "gradient": row_gradient,
}
STORE = RESULTS / "speed.json"


def main(chosen: list[str]) -> None:
    unknown = set(chosen) - set(ROWS)
    if unknown:
        raise SystemExit(f"There is no row {sorted(unknown)[0]!r}; choose from: {', '.join(ROWS)}.")
    RESULTS.mkdir(exist_ok=True)
    kept: dict[str, Any] = {}
    for name in chosen or ROWS:
        measured = list(ROWS[name]())
        kept = {**(json.loads(STORE.read_text()) if STORE.exists() else {}), name: measured}
        STORE.write_text(json.dumps(kept, indent=1, default=float))
    rows = [
        [
            r["problem"],
            r["peer"],
            r["peer_s"],
            r["our_s"],
            r["ratio"],
            r["target"],
            "yes" if r["met"] else "NO",
            r["all peers, s"],
        ]
        for name in ROWS
        for r in kept.get(name, [])
    ]
    write_table(
        "speed",
        "Speed next to the peers",
        ["problem", "best peer", "its s", "our s", "times as fast", "target", "met", "all peers, s"],
        rows,
        ["numba", "mord", "statsmodels"],
        (__doc__ or "").split("\n\n", 1)[1].replace("\n", " ").strip(),
    )


if __name__ == "__main__":
    main(sys.argv[1:])
