"""Spans with their probabilities on CoNLL-2000 chunking: python -m benchmarks.spans [speed] [reliability] [precision] [tags] [--sentences N].

Taggers are fitted to the training sentences (features as in benchmarks.sequences), with alpha 1 / n, which is CRFsuite's c2 of one half, and with
twice that; as they are, and recalibrated with method="auto" by a map that is fitted to each fifth of the sentences for a fit to the other four (Recalibrated(tagger, cv=5)), or to the last
fifth alone (cv= with this one split). The map is used with the fit to all sentences; that of the last fifth also with the fit to the first four. What is held out is consecutive, since sentences of one article are alike. Reliability: test spans of
probability 0.05 or more, in twelve bins, and the share of each that is right, with 95 % intervals: Wilson's, as if spans were independent, and that of 2000 bootstrap draws
of sentences for what the share exceeds the mean probability by, added to the latter. Precision that was asked for and had is in spans_precision, and time beside Viterbi's in
spans_speed. The methods were chosen on the training sentences alone.
"""

from __future__ import annotations

import argparse
import itertools
import os
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

import taskloss as tl
from taskloss.losses.spans import Scheme
from taskloss.parallel import Executor
from taskloss.polytopes._max_product import maximise
from taskloss.polytopes._spans import likely_spans
from taskloss.polytopes._sum_product import cell_marginals
from taskloss.wrapped import innermost

from .common import RESULTS, one_thread, write_table
from .datasets.sequences import chunks, conll2000, ud_ewt
from .sequences import first

REST = (
    0.2  # seconds in which the threads of OpenBLAS, which wait for the next product by keeping a core busy, fall asleep
)
BINS = np.array([0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0])


def wilson(right: float, n: float) -> tuple[float, float]:
    """The 95 % interval of a share."""
    z2 = 1.96**2
    middle, half = (right + z2 / 2) / (n + z2), 1.96 * np.sqrt(right * (n - right) / n + z2 / 4) / (n + z2)
    return middle - half, middle + half


def in_turns(work: dict[str, Callable[[], Any]], repeats: int = 15) -> dict[str, np.ndarray]:
    times: dict[str, list[float]] = {name: [] for name in work}
    for _ in range(repeats + 1):
        for name, run in work.items():
            time.sleep(REST)
            start = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - start)
    return {name: np.array(t[1:]) for name, t in times.items()}  # the first compiles


def times_beside_viterbi(tagger: tl.SequenceTagger, X: Any, threads: int) -> list[tuple[Any, ...]]:
    """How long spans above one half take beside the likeliest labelling."""
    examples = tagger._read(X)
    scores, tags = tagger._scores(examples.inputs), Scheme(tagger.classes_, "BIO").tags
    nodes, edges = np.asarray(scores[0]), scores[1]
    forest, executor = examples.forest, Executor(threads, compiled=True)
    blocks = [
        (block, nodes[forest.offsets[trees.start] : forest.offsets[trees.stop]])
        for trees, block in forest.blocks(-(-forest.n_nodes // threads))
    ]

    def spans(block: tuple[Any, np.ndarray]) -> Any:
        return likely_spans(block[0], *cell_marginals(*block, edges, tags.pairs), tags, 0.5)

    with threadpool_limits(threads):
        times = in_turns(
            {
                "Viterbi, from words": lambda: tagger.predict(X, loss="sequence-zero-one"),
                "spans, from words": lambda: tagger.predict_spans(X, threshold=0.5),
                "Viterbi, inference alone": lambda: executor.map(lambda block: maximise(*block, edges), blocks),
                "spans, inference alone": lambda: executor.map(spans, blocks),
            }
        )
    rows = []
    for what in ("from words", "inference alone"):
        ours, theirs = times[f"spans, {what}"], times[f"Viterbi, {what}"]
        least = ours.min(), theirs.min()
        rows.append(
            (
                what,
                threads,
                *(1e3 * float(t) for t in least),
                float(least[0] / least[1]),
                float(np.median(ours / theirs)),
            )
        )
    return rows


def speed(tagger: tl.SequenceTagger, X: Any) -> None:
    rows = [row for threads in (1, 2)[: os.cpu_count()] for row in times_beside_viterbi(tagger, X, threads)]
    header = ["work", "threads", "spans, ms", "Viterbi, ms", "least / least", "median of pairs"]
    note = (
        f"The fit of benchmarks.spans with alpha 1 / n, {len(X)} sentences: spans above one half beside the likeliest labelling (Viterbi), from words to answers and for inference "
        "alone. One process, in turns with a rest between them (see decisions; by `chrt -f 50` on a machine that others use), the least of 15 each."
    )
    write_table("spans_speed", "Spans of CoNLL-2000: time beside Viterbi", header, rows, [], note)


class Bin(NamedTuple):
    """Spans whose probability is in one range."""

    count: int
    mean: float
    right: float
    wilson: tuple[float, float]
    sentences: tuple[float, float]

    def within(self) -> tuple[bool, bool]:
        """Whether the mean probability is in Wilson's interval, and in that over sentences."""
        return self.wilson[0] <= self.mean <= self.wilson[1], self.sentences[0] <= self.mean <= self.sentences[1]


def reliability(counts: Counts, draws: int = 2000) -> list[Bin]:
    """The spans of each bin; the bootstrap's draws of sentences are the same for all."""
    place = np.clip(np.digitize(counts.p, BINS) - 1, 0, len(BINS) - 2)
    n = len(counts.true)
    times = np.random.default_rng(0).multinomial(n, np.full(n, 1 / n), draws)
    bins = []
    for b in range(len(BINS) - 1):
        here = place == b
        p, right, row = counts.p[here], counts.right[here], counts.row[here]
        excess, size = times @ np.bincount(row, right - p, n), times @ np.bincount(row, minlength=n)
        low, high = np.quantile(excess / np.maximum(size, 1), [0.025, 0.975])
        mean, share = float(p.mean()), float(right.mean())
        bins.append(Bin(len(p), mean, share, wilson(float(right.sum()), float(len(p))), (mean + low, mean + high)))
    return bins


class Measured(NamedTuple):
    """What one model says of the test sentences."""

    alpha: str
    which: str
    map: str
    counts: Counts
    quality: float  # F of spans above one half, or the share of tags that are right
    log_loss: float  # of tags
    precision: list[tuple[Any, ...]]


def measure(c: int, sentences: int | None, precise: bool) -> list[Measured]:
    """The taggers of one penalty, as they are and recalibrated."""
    one_thread()
    split = first(conll2000(), sentences)
    n, cut = len(split.X), 4 * len(split.X) // 5
    gold = [set(chunks(row)) for row in split.y_test]
    last = [(np.arange(cut), np.arange(cut, n))]
    crossed = tl.Recalibrated(tl.SequenceTagger(alpha=c / n, tol=1e-5), cv=5).fit(split.X, split.y)
    one = tl.Recalibrated(tl.SequenceTagger(alpha=c / n, tol=1e-5), cv=last).fit(split.X, split.y)
    part = tl.SequenceTagger(alpha=c / cut, tol=1e-5).fit(split.X[:cut], split.y[:cut])
    held = tl.Recalibrated(part).fit(split.X[cut:], split.y[cut:])
    models = {
        ("all sentences", "as it is"): crossed.estimator_,
        ("all sentences", "recalibrated by five folds"): crossed,
        ("all sentences", "recalibrated by the last fifth"): one,
        ("four fifths", "as it is"): part,
        ("four fifths", "recalibrated"): held,
    }
    out = []
    for (rows, how), model in models.items():
        X = tl.Packed(*innermost(model)[0].reader_.read(split.X_test))
        counts = Counts(model.predict_spans(X, threshold=float(BINS[0])), gold)
        controlled = how == "as it is"
        promised = precision(model, X, gold, split.y_test, controlled) if precise and rows == "all sentences" else []
        quality, cost = f_measure(counts), log_loss(model.predict_proba(X), model.classes_, split.y_test)
        out.append(Measured(f"{c} / n", f"{rows}, {how}", described(model), counts, quality, cost, promised))
    return out


def measure_tags(c: int, sentences: int | None) -> list[Measured]:
    """The same for the probability of each tag at each position of UD English EWT."""
    one_thread()
    split = first(ud_ewt(), sentences)
    n = len(split.X)
    held = np.arange(n) * 100 // n % 5 == 4
    cuts = [(np.flatnonzero(~held), np.flatnonzero(held))]
    crossed = tl.Recalibrated(tl.SequenceTagger(alpha=c / n, tol=1e-5), cv=cuts).fit(split.X, split.y)
    X = tl.Packed(*innermost(crossed)[0].reader_.read(split.X_test))
    out = []
    for how, model in (("as it is", crossed.estimator_), ("recalibrated", crossed)):
        laws = model.predict_proba(X)
        truth = np.array(list(itertools.chain.from_iterable(split.y_test)))
        counts = TagCounts(laws, model.classes_, truth, X.offsets)
        right = float((model.classes_[laws.argmax(1)] == truth).mean())
        cost = log_loss(laws, model.classes_, split.y_test)
        out.append(Measured(f"{c} / n", f"all sentences, {how}", described(model), counts, right, cost, []))
    return out


def described(model: Any) -> str:
    """The map of a recalibrated tagger."""
    return f"{model.method_}, {model.map_.nodes:.3f}" if isinstance(model, tl.Recalibrated) else "-"


def log_loss(laws: np.ndarray, classes: np.ndarray, y: list[list[str]]) -> float:
    """The mean of -log p over tags: of the true one at its position."""
    place = {tag: code for code, tag in enumerate(classes.tolist())}
    codes = np.array([place.get(tag, -1) for tag in itertools.chain.from_iterable(y)])
    p = np.where(codes >= 0, laws[np.arange(len(codes)), codes], 0.0)
    return float(-np.log(np.maximum(p, 1e-12)).mean())


def f_measure(counts: Counts) -> float:
    """F of those spans that are above one half."""
    p, recall = counts.at(0.5)
    return 2 * p * recall / (p + recall)


def main(parts: list[str], sentences: int | None = None) -> None:
    if "speed" in parts:
        split = first(conll2000(), sentences)
        speed(tl.SequenceTagger(alpha=1 / len(split.X), tol=1e-5).fit(split.X, split.y), split.X_test)
    with ProcessPoolExecutor(2) as pool:
        if "reliability" in parts or "precision" in parts:
            jobs = [pool.submit(measure, c, sentences, "precision" in parts) for c in (1, 2)]
            found = [one for job in jobs for one in job.result()]
            if "reliability" in parts:
                tables(found)
            if "precision" in parts:
                precision_table(found)
        if "tags" in parts:
            jobs = [pool.submit(measure_tags, c, sentences) for c in (1, 2)]
            tag_table([one for job in jobs for one in job.result()])


def tables(found: list[Measured]) -> None:
    """Reliability by bins and in sum, with a picture."""
    bins = {(one.alpha, one.which): reliability(one.counts) for one in found}
    whole = {(alpha, which.split(", ")[1]): these for (alpha, which), these in bins.items() if which.startswith("all")}
    note = " ".join((__doc__ or "").split("\n\n", 1)[1].split())
    rows = []
    for key, these in whole.items():
        for bin_, ends in zip(these, itertools.pairwise(BINS), strict=True):
            intervals = ("{:.3f} to {:.3f}".format(*pair) for pair in (bin_.wilson, bin_.sentences))
            numbers = (bin_.count, f"{bin_.mean:.3f}", f"{bin_.right:.3f}")
            said = ("yes" if inside else "no" for inside in bin_.within())
            rows.append((*key, f"{ends[0]:.2f} to {ends[1]:.2f}", *numbers, *intervals, *said))
    header = [
        "alpha",
        "tagger",
        "probability",
        "spans",
        "mean probability",
        "share that is right",
        "Wilson",
        "over sentences",
    ]
    header += ["within Wilson's", "within that over sentences"]
    write_table("spans", "Spans of CoNLL-2000: reliability", header, rows, [], note)
    title = "Spans of CoNLL-2000: taggers recalibrated"
    write_table(
        "spans_recalibrated", title, *summary(found, list(bins.values()), "F of those above one half"), [], note
    )
    draw(whole)


def tag_table(found: list[Measured]) -> None:
    """The reliability of the probabilities of tags, in sum."""
    note = (
        "The probability of each tag at each position of the test sentences, where it is 0.05 or more, in the bins of benchmarks.spans and by its intervals; taggers, "
        "penalties and maps as there. Of 100 runs of consecutive training sentences every fifth is held out for the map, since the corpus is sorted by genre. "
        "Nothing was chosen on these data."
    )
    parts = summary(found, [reliability(one.counts) for one in found], "tags that are right")
    write_table("spans_tags", "Tags of UD English EWT: taggers recalibrated", *parts, [], note)


def summary(found: list[Measured], bins: list[list[Bin]], quality: str) -> tuple[list[str], list[tuple[Any, ...]]]:
    """A header, and a row for each model."""
    rows = []
    for one, these in zip(found, bins, strict=True):
        out = [len(these) - sum(column) for column in zip(*(bin_.within() for bin_ in these), strict=True)]
        away = np.array([abs(bin_.right - bin_.mean) for bin_ in these])
        mean = np.average(away, weights=[bin_.count for bin_ in these])
        numbers = (f"{100 * away.max():.1f}", f"{100 * mean:.2f}", f"{one.quality:.4f}", f"{one.log_loss:.4f}")
        rows.append((one.alpha, one.which, one.map, *out, *numbers))
    header = [
        "alpha",
        "tagger",
        "map and its factor of node scores",
        "bins of 12 outside Wilson's interval",
        "outside that over sentences",
    ]
    return [*header, "largest deviation, points", "mean deviation, points", quality, "log-loss of tags"], rows


def precision(
    model: Any, X: tl.Packed, gold: list[set[tuple[int, int, str]]], y: Any, controlled: bool, splits: int = 50
) -> list[tuple[Any, ...]]:
    """Precision that was asked for and that was had, by the model's own probabilities and, where asked, by a threshold set on other sentences."""
    rng, rows = np.random.default_rng(0), []
    cuts = [np.split(rng.permutation(len(X)), [3 * len(X) // 4]) for _ in range(splits)]
    counts = Counts(model.predict_spans(X, threshold=0.5), gold)
    for asked in (0.95, 0.97, 0.99):
        had: dict[str, list[tuple[float, float]]] = {how: [] for how in (PROMISES if controlled else ["predict_spans"])}
        for held, judged in cuts:
            own = model.predict_spans(X[judged], precision=asked)
            had["predict_spans"].append(Counts(own, [gold[i] for i in judged]).at(0.5))
            for how, level in (("expectation", None), ("confidence", 0.9)) if controlled else ():
                threshold = held_out_threshold(model, X[held], [y[i] for i in held], asked, level)
                if threshold is not None:
                    had[how].append(counts.at(threshold, judged))
        for how, found in had.items():
            p, recall = np.array(found).reshape(-1, 2).T
            means = (f"{p.mean():.4f}", f"{recall.mean():.3f}") if found else ("-", "-")
            rows.append(
                (asked, PROMISES[how], *means, f"{int((p >= asked).sum())} of {len(found)}", splits - len(found))
            )
    return rows


def precision_table(found: list[Measured]) -> None:
    rows = [(one.alpha, one.which.split(", ")[1], *row) for one in found for row in one.precision]
    header = ["alpha", "tagger", "asked", "threshold from", "precision, mean", "recall, mean", "kept", "refused"]
    note = (
        f"The fits of benchmarks.spans. The {len(found[0].counts.true)} test sentences are cut at random 50 times; a RiskController with SpanCosts() is "
        "calibrated on three quarters, and all are judged on the last: right spans among those that are reported, and among the true ones. It refuses where so few sentences cannot promise it. "
        "Promises are for the law of sentences; those that judge are few, and their own precision varies by some .4 points from draw to draw. The "
        "controller counts spans by one over the length of their sentence, the table one by one."
    )
    write_table("spans_precision", "Spans of CoNLL-2000: precision that was asked for", header, rows, [], note)


def held_out_threshold(tagger: Any, X: Any, y: Any, asked: float, level: float | None) -> float | None:
    """The least probability of a span that is reported, None where the precision cannot be promised."""
    safe = tl.RiskController(tagger, tl.losses.SpanCosts(), 1 - asked, level)
    try:
        return 1 - safe.calibrate(X, y).best_predict_param_
    except ValueError as error:
        if "cannot be promised" not in str(error):
            raise
        return None


PROMISES = {
    "predict_spans": "its own probabilities (`precision=`)",
    "expectation": "held-out sentences, in expectation",
    "confidence": "held-out sentences, with confidence .9",
}


class Counts:
    """Right spans, reported ones and true ones, sentence by sentence."""

    def __init__(self, found: list[list[Any]], gold: list[set[tuple[int, int, str]]]):
        self.row = np.repeat(np.arange(len(found)), [len(row) for row in found])
        self.p = np.array([s.probability for row in found for s in row])
        self.right = np.array(
            [(s.start, s.end, s.label) in truth for truth, row in zip(gold, found, strict=True) for s in row]
        )
        self.true = np.array([len(truth) for truth in gold])

    def at(self, threshold: float, rows: np.ndarray | None = None) -> tuple[float, float]:
        """Precision and recall of spans of at least this probability."""
        some = np.ones(len(self.true), dtype=bool)
        if rows is not None:
            some[:] = False
            some[rows] = True
        kept = (self.p >= threshold) & some[self.row]
        return float(self.right[kept].mean()), float(self.right[kept].sum() / self.true[some].sum())


class TagCounts(Counts):
    """Probabilities of tags, and whether they are right."""

    def __init__(self, laws: np.ndarray, classes: np.ndarray, truth: np.ndarray, offsets: np.ndarray):
        position, tag = np.nonzero(laws >= BINS[0])
        self.row = np.searchsorted(offsets, position, side="right") - 1
        self.p, self.right = laws[position, tag], classes[tag] == truth[position]
        self.true = np.diff(offsets)


def draw(found: dict[tuple[str, str], list[Bin]]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    alphas = list(dict.fromkeys(alpha for alpha, _ in found))
    figure, axes = pyplot.subplots(1, len(alphas), figsize=(7.6, 3.9), sharey=True)
    for ax, alpha in zip(axes, alphas, strict=True):
        ax.plot([0, 1], [0, 1], color="0.7", lw=1)
        for j, (_, which) in enumerate(key for key in found if key[0] == alpha):
            x, y = np.array([(bin_.mean, bin_.right) for bin_ in found[alpha, which]]).T
            low, high = np.array([bin_.sentences for bin_ in found[alpha, which]]).T
            bars = ax.errorbar(x, y, yerr=[y - low, high - y], fmt="os^"[j], ms=4, lw=1, color=f"C{j}")
            bars.set_label(which)
        ax.set(xlabel="probability of the span", title=f"alpha {alpha}", xlim=(0, 1.02), ylim=(0, 1.02))
        ax.legend(frameon=False)
    axes[0].set_ylabel("share that is right")
    figure.tight_layout()
    figure.savefig(RESULTS / "spans.png", dpi=120)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", nargs="*", help="speed, reliability, precision, tags; none for all")
    parser.add_argument("--sentences", type=int)
    options = parser.parse_args()
    main(options.parts or ["speed", "reliability", "precision", "tags"], options.sentences)
