"""Promises of risk controllers on real data: python -m benchmarks.control [promises|mapie|speed ...].

For each pair of data set and loss a model is fitted once, to at most 1,500 examples; the others, at most 3,000, are the pool. "in expectation": 1,000 seeded resplits of the
pool in halves, one (at most 1,000 examples) to calibrate and one to test; the mean over them of the loss on the test part may be above the level by no more than
chance, three standard errors. "with confidence .9": 1,000 seeded samples of as many examples, drawn from the pool with repetition, so that the risk at every threshold is
known, that of the pool; the promise may be broken in no more than a tenth of them and the binomial error at .999, which is 130. A calibration that is refused breaks nothing and answers
nothing. "answered" is a share, or for sets, intervals and lists a mean size. Levels are a part of the loss of the plain decisions, rounded. Losses are per answer.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.stats import binom

import taskloss as tl
from taskloss.control.bounds import betting
from taskloss.control.search import Choice, Promise, grid, is_monotone, search
from taskloss.control.steps import Steps

from .common import RESULTS, best_time, write_table
from .datasets import matchings, rankings, sequences, tabular

ROWS, POOL, MOST, DRAWS = 1500, 3000, 1000, 1000
STORE = RESULTS / "control.json"
Pool = tuple[Any, Any, Any, dict[str, Any]]  # a fitted model, and X, y and what else of the pool


def split(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows to fit and rows of the pool."""
    order = np.random.default_rng(0).permutation(n)
    fit = min(ROWS, n // 3)
    return order[:fit], order[fit : fit + POOL]


def table(folder: str, name: str) -> Callable[[], Pool]:
    """A linear model of this library on a table."""

    def load() -> Pool:
        data = tabular.load(folder, name)
        fit, pool = split(len(data.y))
        dense = data.X.toarray() if hasattr(data.X, "toarray") else np.asarray(data.X, dtype=float)
        X = (dense - dense[fit].mean(0)) / np.where(dense[fit].std(0) > 0, dense[fit].std(0), 1.0)
        if folder == "multilabel":
            model: Any = tl.MultilabelClassifier(alpha=1e-2, tol=1e-4)
        elif folder == "ordinal":
            model = tl.OrdinalClassifier(order=np.arange(data.y.max() + 1), alpha=1e-3, tol=1e-4)
        else:
            known = {
                "costs": lambda: tl.losses.CostMatrix(data.extras["costs"]),
                "tree": lambda: tl.losses.TreeDistance(data.extras["tree"]),
            }
            loss = next((make() for key, make in known.items() if key in data.extras), "zero-one")
            model = tl.CostSensitiveClassifier(loss, alpha=1e-3, tol=1e-4)
        return model.fit(X[fit], data.y[fit]), X[pool], data.y[pool], {}

    return load


def words() -> Pool:
    data = sequences.ocr_letters(False)
    return (
        tl.SequenceTagger(alpha=1e-3, tol=1e-3).fit(data.X[:400], data.y[:400]),
        data.X_test[:2000],
        data.y_test[:2000],
        {},
    )


def chunks() -> Pool:
    data = sequences.conll2000()
    model = tl.SequenceTagger(tl.losses.SpanCosts(), alpha=1e-3, tol=1e-2).fit(data.X[:1000], data.y[:1000])
    known = set(model.classes_)
    some = [i for i in range(len(data.y_test)) if known.issuperset(data.y_test[i])]
    return model, [data.X_test[i] for i in some], [data.y_test[i] for i in some], {}


def queries(loss: Any, surrogate: str) -> Callable[[], Pool]:
    def load() -> Pool:
        folds = rankings.mq2008()
        parts = [part for part in folds[0]]
        X, y = np.concatenate([p.X for p in parts]), np.concatenate([p.y for p in parts])
        groups = np.concatenate([p.groups for p in parts])
        ids = np.random.default_rng(0).permutation(np.unique(groups))
        fit = np.isin(groups, ids[: len(ids) // 3])
        model = tl.Ranker(loss, surrogate, alpha=1e-3, tol=1e-4).fit(X[fit], y[fit], groups=groups[fit])
        return model, X[~fit], y[~fit], {"groups": groups[~fit]}

    return load


def ducks() -> Pool:
    """All pairs of 30 images; 150 pairs of 20 others to fit."""
    train, _ = matchings.willow_duck(0)
    test = matchings.willow_duck(0, pairs=435)[1]
    return tl.Matcher(alpha=0.1, tol=1e-4).fit(train.X, train.y), test.X, test.y, {}


FULL = 0.6  # of the plain decisions' loss
# (data, loss, knob, what makes the pool, level in units of the plain decisions' loss)
TASKS: list[tuple[str, Any, str, Callable[[], Pool], float]] = [
    ("german", None, "abstain", table("cost_sensitive", "german"), 0.8),
    ("bankmarketing", [[0, 5], [1, 0]], "abstain", table("cost_sensitive", "bankmarketing"), FULL),
    ("optdigits", None, "abstain", table("multiclass", "optdigits"), FULL),
    ("satimage", None, "abstain", table("multiclass", "satimage"), FULL),
    ("dna", None, "abstain", table("multiclass", "dna"), FULL),
    ("segment", None, "abstain", table("multiclass", "segment"), FULL),
    ("imclef07a", None, "abstain", table("hierarchical", "imclef07a"), FULL),
    ("satimage", None, "set", table("multiclass", "satimage"), 0.4),
    ("letter", None, "set", table("multiclass", "letter"), 0.4),
    ("imclef07a", None, "set", table("hierarchical", "imclef07a"), 0.4),
    ("abalone", "absolute", "set", table("ordinal", "abalone"), 0.3),
    ("computer", "absolute", "set", table("ordinal", "computer"), 0.4),
    ("bank32nh", "squared", "set", table("ordinal", "bank32nh"), 0.2),
    ("computer", "absolute", "abstain", table("ordinal", "computer"), 0.8),
    ("yeast", "hamming", "parts", table("multilabel", "yeast"), FULL),
    ("scene", "hamming", "parts", table("multilabel", "scene"), FULL),
    ("scene", "hamming", "abstain", table("multilabel", "scene"), FULL),
    ("yeast", "recall", "set", table("multilabel", "yeast"), 0.3),
    ("scene", "recall", "set", table("multilabel", "scene"), 0.3),
    ("enron", "recall", "set", table("multilabel", "enron"), 0.4),
    ("OCR letters", "chain-hamming", "parts", words, FULL),
    ("OCR letters", "sequence-zero-one", "abstain", words, FULL),
    ("CoNLL-2000", None, "parts", chunks, FULL),
    ("MQ2008", None, "set", queries(tl.losses.NDCG(at=10), "listwise"), 1.15),
    ("MQ2008", None, "abstain", queries(tl.losses.NDCG(at=10), "listwise"), 0.9),
    ("MQ2008", None, "parts", queries(tl.losses.PrecisionAt(5), "logistic"), 0.9),
    ("willow_duck", None, "parts", ducks, 0.8),
    ("willow_duck", None, "abstain", ducks, 0.85),
]


# -- promises ----------------------------------------------------------------------------------------------------------


def pool_of(task: tuple[str, Any, str, Callable[[], Pool], float]) -> tuple[Steps, float, str, float]:
    """The losses of the pool, the largest threshold, the loss, and the level."""
    _, loss, knob, make, part = task
    model, X, y, params = make()
    controller = tl.RiskController(model, loss, knob=knob)
    found, steps = controller._steps(X, y, None, params)
    plain = plain_risk(steps)
    if not steps.partial and found.loss.kind == "indicator":  # at the cut of one half
        z = (model.predict_proba(X) > 0.5).astype(np.int64)
        plain = float(found.loss(z, y).mean())
    if found.loss.kind == "ranking" and not steps.partial:  # all items shown
        plain = float(steps.cost.mean())
    return steps, found.top, type(found.loss).__name__, float(f"{part * plain:.2g}")


def plain_risk(steps: Steps) -> float:
    """The loss of the boldest decisions."""
    cost, amount = steps.at_threshold(np.inf if steps.rising else -np.inf)
    return float(cost.mean() / (amount.mean() if steps.partial else 1.0))


class Redraw:
    """Samples of examples with repetition."""

    def __init__(self, steps: Steps):
        order = np.argsort(steps.row, kind="stable")
        self.steps = replace(
            steps, row=steps.row[order], at=steps.at[order], dcost=steps.dcost[order], damount=steps.damount[order]
        )
        self.first = np.searchsorted(self.steps.row, np.arange(len(steps) + 1))

    def __call__(self, rows: np.ndarray) -> Steps:
        s, sizes = self.steps, np.diff(self.first)[rows]
        starts = np.repeat(self.first[rows] - np.concatenate([[0], np.cumsum(sizes)[:-1]]), sizes)
        every = starts + np.arange(sizes.sum())
        parts = {name: getattr(s, name)[rows] for name in ("cost", "amount", "weights")}
        parts |= {name: getattr(s, name)[every] for name in ("at", "dcost", "damount")}
        return replace(s, row=np.repeat(np.arange(len(rows)), sizes), **parts)


def achieved(steps: Steps, choice: Choice | None) -> tuple[float, float]:
    """The risk and the amount on some examples."""
    if choice is None:
        return 0.0, 0.0
    cost, amount = (part.sum() for part in steps.at_threshold(choice.thresholds[choice.best]))
    risk = cost / (amount if steps.partial else len(steps))
    return float(risk) if amount > 0 else 0.0, float(steps.mean_amount(amount))


def measure(task: tuple[str, Any, str, Callable[[], Pool], float]) -> dict[str, Any]:
    steps, top, loss, level = pool_of(task)
    rng, n = np.random.default_rng(1), min(MOST, len(steps) // 2)
    draw, cuts = Redraw(steps), grid(top)
    out: dict[str, Any] = {"loss": loss, "level": level, "n": n, "plain": plain_risk(steps)}
    sizes = np.array([achieved(steps, Choice(cuts, cuts, cuts, None, cuts, -1 if steps.rising else 0))[1]])
    out["partial"], out["all"] = steps.partial, float(sizes[0])
    for name, confidence in (("expectation", None), ("confidence", 0.9)):
        promise = Promise(level, confidence)
        found, start = [], time.process_time()
        for _ in range(DRAWS):
            order = rng.permutation(len(steps))
            held = draw(order[:n]) if confidence is None else draw(rng.integers(0, len(steps), n))
            exact = confidence is None and is_monotone(steps, promise)
            choice = search(held, promise, held.jumps() if exact else cuts)
            found.append((*achieved(draw(order[n:]) if confidence is None else steps, choice), choice is None))
        seconds = (time.process_time() - start) / DRAWS
        risks, amounts, refused = (np.array(part, dtype=float) for part in zip(*found, strict=True))
        out[name] = {
            "risk": risks.mean(),
            "error": risks.std() / np.sqrt(DRAWS),
            "above": int((risks > level + 1e-9).sum()),
            "amount": amounts.mean(),
            "refused": int(refused.sum()),
            "seconds": seconds,
        }
    return out


def promises() -> None:
    kept = json.loads(STORE.read_text()) if STORE.exists() else {}
    rows = []
    broken = 0
    for task in TASKS:
        key = f"{task[0]}/{task[1]}/{task[2]}/{task[4]}"
        if key not in kept:
            kept[key] = measure(task)
            STORE.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")
            print(key, kept[key], flush=True)
        f = kept[key]
        e, c = f["expectation"], f["confidence"]
        held = e["risk"] <= f["level"] + 3 * e["error"] and c["above"] <= binom.ppf(0.999, DRAWS, 0.1)
        broken += not held

        def amount(x: float, f: dict[str, Any] = f) -> str:
            return f"{x:.1%}" if f["partial"] else f"{x:.2f}"

        rows.append(
            [
                task[0],
                f["loss"],
                task[2],
                f["n"],
                f"{f['plain']:.3f}",
                f"{f['level']:g}",
                f"{e['risk']:.4f} ± {e['error']:.4f}",
                amount(e["amount"]),
                e["refused"],
                c["above"],
                f"{c['risk']:.4f}",
                amount(c["amount"]),
                c["refused"],
                "yes" if held else "NO",
            ]
        )
    note = " ".join((__doc__ or "").split("\n\n", 1)[1].split())
    note += f'\n\nKept on {len(rows) - broken} of {len(rows)} pairs. For "set" the boldest decisions are no lists, intervals or sets of more than the best output, for recall and NDCG empty ones.'
    header = ["data", "loss", "knob", "n", "boldest", "level", "expected: loss", "answered", "refused of 1,000"]
    header += ["confidence: above of 1,000", "loss", "answered", "refused of 1,000", "kept"]
    write_table("control", "Promises of risk controllers", header, rows, (), note)


def betting_bounds(n: int = 300, mean: float = 0.15, draws: int = 1500) -> tuple[float, float]:
    """How often MAPIE's betting bound of confidence .9 is below the mean of binary losses, and how often our test rejects at the mean itself."""
    from mapie.risk_control.methods import get_r_hat_plus

    losses = (np.random.default_rng(3).random((n, draws)) < mean).astype(float)
    cuts, columns = np.arange(0, 1, 0.01), range(0, draws, 100)
    upper = [get_r_hat_plus(losses[:, i : i + 100], cuts, "rcps", "wsr", 0.1, 0.25)[1] for i in columns]
    ours = [betting(mean - column, 1.0, mean * (1 - mean), 0.1) <= 0.1 for column in losses.T]
    return float((np.concatenate(upper) <= mean - 1e-9).mean()), float(np.mean(ours))


# -- beside MAPIE ------------------------------------------------------------------------------------------------------


def mapie(splits: int = 30) -> None:
    """Sets for 0-1 loss, supersets for recall, abstention from labels: the same model, splits and promise."""
    from mapie.classification import SplitConformalClassifier
    from mapie.risk_control import BinaryRisk, MultiClassificationLTTController, MultiLabelClassificationController

    right = BinaryRisk(
        risk_occurrence=lambda y, z: np.asarray(y == z), risk_condition=lambda y, z: z == z, higher_is_better=True
    )
    rows: list[list[Any]] = []

    def compare(
        name: str, what: str, level: float, n: int, ours: Any, theirs: Any, X: Any, y: Any, smaller: bool
    ) -> None:
        rng, found = np.random.default_rng(2), []
        for _ in range(splits):
            order = rng.permutation(len(y))
            held, test = order[:n], order[n:]
            row = []
            for run in (ours, theirs):
                start = time.process_time()
                risk, amount = run(X[held], y[held], X[test], y[test])
                row += [risk, amount, time.process_time() - start]
            found.append(row)
        m = np.mean(found, axis=0)
        gap = np.array([r[1] - r[4] for r in found])
        error = 1.96 * gap.std() / np.sqrt(splits)
        verdict = "even" if abs(gap.mean()) <= error + 1e-12 else "better" if (gap.mean() < 0) == smaller else "WORSE"
        rows.append(
            [
                name,
                what,
                f"{level:g}",
                n,
                f"{m[0]:.4f}",
                f"{m[1]:.3f}",
                f"{m[3]:.4f}",
                f"{m[4]:.3f}",
                f"{gap.mean():+.3f} ± {error:.3f}",
                verdict,
                f"{1000.0 * m[2]:.0f} ms",
                f"{1000.0 * m[5]:.0f} ms",
            ]
        )
        print(rows[-1], flush=True)

    for name, level in (("satimage", 0.06), ("letter", 0.1), ("optdigits", 0.02), ("dna", 0.03)):
        model, X, y, _ = table("multiclass", name)()

        def sets(A: Any, a: Any, B: Any, b: Any, model: Any = model, level: float = level) -> tuple[float, float]:
            z = tl.RiskController(model, None, level, knob="set").calibrate(A, a).predict(B)
            return float(np.mean([t not in s for t, s in zip(b, z, strict=True)])), float(np.mean([len(s) for s in z]))

        def lac(A: Any, a: Any, B: Any, b: Any, model: Any = model, level: float = level) -> tuple[float, float]:
            peer = SplitConformalClassifier(model, confidence_level=1 - level, conformity_score="lac", prefit=True)
            z = peer.conformalize(A, a).predict_set(B)[1][:, :, 0]
            place = np.searchsorted(model.classes_, b)
            return float(1 - z[np.arange(len(b)), place].mean()), float(z.sum(1).mean())

        compare(name, "sets, expectation", level, 500, sets, lac, X, y, True)

        def abstain(A: Any, a: Any, B: Any, b: Any, model: Any = model, level: float = level) -> tuple[float, float]:
            try:
                risk, amount, _ = tl.RiskController(model, None, level, 0.9).calibrate(A, a).evaluate(B, b)
            except ValueError:
                return 0.0, 0.0
            return risk, amount

        def holm(A: Any, a: Any, B: Any, b: Any, model: Any = model, level: float = level) -> tuple[float, float]:
            codes = lambda v: np.searchsorted(model.classes_, v)  # noqa: E731
            peer = MultiClassificationLTTController(
                model.predict_proba, [right], [1 - level], 0.9, classes=np.arange(len(model.classes_))
            )
            peer.calibrate(A, codes(a))
            if peer.best_predict_param is None:
                return 0.0, 0.0
            # The boldest of its valid thresholds: its own choice among them is for another goal.
            cut, p = float(np.min(peer.valid_predict_params)), model.predict_proba(B)
            kept = p.max(1) >= cut
            return float((p.argmax(1) != codes(b))[kept].mean()) if kept.any() else 0.0, float(kept.mean())

        compare(name, "abstain, confidence .9", level, 500, abstain, holm, X, y, False)
    for name, level in (("yeast", 0.15), ("scene", 0.1), ("emotions", 0.15)):
        model, X, y, _ = table("multilabel", name)()
        some = y.sum(1) > 0
        X, y = X[some], y[some]
        for confidence, what in ((None, "recall, expectation"), (0.9, "recall, confidence .9")):

            def supersets(
                A: Any, a: Any, B: Any, b: Any, model: Any = model, level: float = level, c: Any = confidence
            ) -> tuple[float, float]:
                try:
                    risk, amount, _ = tl.RiskController(model, "recall", level, c).calibrate(A, a).evaluate(B, b)
                except ValueError:
                    return 0.0, float(b.shape[1])
                return risk, amount

            def peer(
                A: Any, a: Any, B: Any, b: Any, model: Any = model, level: float = level, c: Any = confidence
            ) -> tuple[float, float]:
                one = MultiLabelClassificationController(
                    model.predict_proba,
                    method="crc" if c is None else "rcps",
                    target_level=1 - level,
                    confidence_level=c,
                    rcps_bound=None if c is None else "wsr",
                )
                z = one.calibrate(A, a).predict(B)[:, :, 0]
                return float(tl.losses.Recall(b.shape[1])(z.astype(int), b).mean()), float(z.sum(1).mean())

            compare(name, what, level, min(300, len(y) // 2), supersets, peer, X, y, True)
    note = (
        f"{splits} seeded splits; the same models, calibration parts and promises. Less is better for sizes of sets, more for shares answered; the difference is ours less MAPIE's, with its 95 % error over "
        "splits. Sets are split conformal prediction's least ambiguous ones (MAPIE's may be empty, ours have the best label at least). Abstention from labels: MAPIE's learn-then-test controller with 100 thresholds "
        "and Bonferroni-Holm, its default; of its valid thresholds the boldest. Recall: conformal risk control, and risk-controlling sets by the betting bound. Times are of processor time for calibration and prediction. The machine was busy with other work."
    )
    header = [
        "data",
        "task",
        "level",
        "n",
        "loss",
        "answered",
        "MAPIE: loss",
        "answered",
        "difference",
        "",
        "time",
        "MAPIE's",
    ]
    write_table("control_mapie", "Risk control beside MAPIE", header, rows, ["MAPIE"], note)


# -- time --------------------------------------------------------------------------------------------------------------


def speed(n: int = 100_000) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    y = np.digitize(X[:, 0] + rng.normal(size=n), np.linspace(-1.5, 1.5, 9))
    tags = (X @ rng.normal(size=(3, 10)) + rng.normal(size=(n, 10)) > 1).astype(int)
    grades, sets = tl.OrdinalClassifier().fit(X[:2000], y[:2000]), tl.MultilabelClassifier().fit(X[:2000], tags[:2000])
    rows = []
    for name, model, loss, target, level, confidence, knob in (
        ("abstain from ten labels, exact", grades, "zero-one", y, 0.5, 0.9, "abstain"),
        ("abstain from ten grades, betting", grades, "absolute", y, 0.9, 0.9, "abstain"),
        ("sets of ten labels, exact", grades, "zero-one", y, 0.2, 0.9, "set"),
        ("intervals of ten grades, betting", grades, "absolute", y, 0.5, 0.9, "set"),
        ("ten labels left open, betting", sets, "hamming", tags, 0.05, 0.9, "parts"),
        ("recall of ten labels, expectation", sets, "recall", tags, 0.1, None, "set"),
    ):
        controller = tl.RiskController(model, loss, level, confidence, knob=knob)
        controller.calibrate(X[:200], target[:200]) if confidence is None else None
        whole, _ = best_time(lambda c=controller, t=target: c.calibrate(X, t), 3)
        model_time, _ = best_time(lambda m=model: m.predict_proba(X), 3)
        rows.append(
            [
                name,
                f"{whole:.2f} s",
                f"{model_time:.2f} s",
                len(controller.predict_params_),
                f"{controller.amount_:.3g}",
            ]
        )
    note = f"calibrate(X, y) on {n:,} examples, the model's own work included, which is that of predict_proba or more; best of three on 2 threads."
    header = ["knob", "calibration", "of it predict_proba", "thresholds", "answered"]
    write_table("control_speed", "Time of a calibration", header, rows, (), note)


TABLES = {"promises": promises, "mapie": mapie, "speed": speed}


def main(chosen: list[str]) -> None:
    warnings.simplefilter("ignore")
    for name in chosen or TABLES:
        TABLES[name]()


if __name__ == "__main__":
    main(sys.argv[1:])
