"""Spans with their probabilities on CoNLL-2000 chunking: python -m benchmarks.spans [speed] [reliability] [precision] [--sentences N].

Two taggers are fitted to the training sentences (features as in benchmarks.sequences), with alpha 1 / n, which is CRFsuite's c2 of one half, and with
twice that. Reliability: test
spans of probability 0.05 or more, in ten bins, and the share of each that is right, with 95 % intervals (Wilson). Precision that was asked for and had is in
spans_precision, and time beside Viterbi's in spans_speed.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import taskloss as tl
from taskloss.losses.spans import Scheme
from taskloss.parallel import Executor
from taskloss.polytopes._max_product import maximise
from taskloss.polytopes._spans import likely_spans
from taskloss.polytopes._sum_product import cell_marginals

from .common import RESULTS, write_table
from .datasets.sequences import chunks, conll2000
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


def reliability(
    tagger: tl.SequenceTagger, X: Any, gold: list[set[tuple[int, int, str]]]
) -> list[tuple[int, float, float, float, float]]:
    """For each bin: spans, their mean probability, the share that is right, and its interval."""
    counts = Counts(tagger.predict_spans(X, threshold=float(BINS[0])), gold)
    place = np.clip(np.digitize(counts.p, BINS) - 1, 0, len(BINS) - 2)
    bins = []
    for b in range(len(BINS) - 1):
        here = place == b
        n, hits = float(here.sum()), float(counts.right[here].sum())
        bins.append((int(n), float(counts.p[here].mean()), hits / n, *wilson(hits, n)))
    return bins


def main(parts: list[str], sentences: int | None = None) -> None:
    split = first(conll2000(), sentences)
    gold = [set(chunks(row)) for row in split.y_test]
    n, penalties = len(split.X), (1,) if parts == ["speed"] else (1, 2)
    taggers = {f"{c} / n": tl.SequenceTagger(alpha=c / n, tol=1e-5).fit(split.X, split.y) for c in penalties}
    if "speed" in parts:
        speed(taggers["1 / n"], split.X_test)
    if "reliability" in parts:
        table(taggers, split, gold)
    if "precision" in parts:
        precision(taggers, split.X_test, gold, split.y_test)


def table(taggers: dict[str, tl.SequenceTagger], split: Any, gold: list[set[tuple[int, int, str]]]) -> None:
    """Reliability by bins, with a picture."""
    found = {alpha: reliability(tagger, split.X_test, gold) for alpha, tagger in taggers.items()}
    rows = [
        (
            alpha,
            f"{BINS[b]:.2f} to {BINS[b + 1]:.2f}",
            count,
            f"{p:.3f}",
            f"{right:.3f}",
            f"{low:.3f} to {high:.3f}",
            "yes" if low <= p <= high else "no",
        )
        for alpha, bins in found.items()
        for b, (count, p, right, low, high) in enumerate(bins)
    ]
    note = " ".join((__doc__ or "").split("\n\n", 1)[1].split())
    f1 = [f"alpha {alpha}: {f_measure(tagger, split.X_test, gold):.4f}" for alpha, tagger in taggers.items()]
    note += f"\n\n{len(split.X)} sentences to fit, {len(split.X_test)} to test, {sum(map(len, gold))} chunks. F of spans above one half: {', '.join(f1)}."
    header = ["alpha", "probability", "spans", "mean probability", "share that is right", "its 95 % interval", "within"]
    write_table("spans", "Spans of CoNLL-2000: reliability", header, rows, [], note)
    draw(found)


def f_measure(tagger: tl.SequenceTagger, X: Any, gold: list[set[tuple[int, int, str]]]) -> float:
    p, recall = Counts(tagger.predict_spans(X, threshold=0.5), gold).at(0.5)
    return 2 * p * recall / (p + recall)


def precision(
    taggers: dict[str, tl.SequenceTagger], X: Any, gold: list[set[tuple[int, int, str]]], y: Any, splits: int = 50
) -> None:
    """Precision that was asked for and that was had, by the model's own probabilities and by a threshold set on other sentences."""
    rng, rows = np.random.default_rng(0), []
    cuts = [np.split(rng.permutation(len(X)), [3 * len(X) // 4]) for _ in range(splits)]
    for alpha, tagger in taggers.items():
        counts = Counts(tagger.predict_spans(X, threshold=0.5), gold)
        for asked in (0.95, 0.97, 0.99):
            had: dict[str, list[tuple[float, float]]] = {how: [] for how in PROMISES}
            for held, judged in cuts:
                own = tagger.predict_spans([X[i] for i in judged], precision=asked)
                had["predict_spans"].append(Counts(own, [gold[i] for i in judged]).at(0.5))
                for how, level in (("expectation", None), ("confidence", 0.9)):
                    threshold = held_out_threshold(tagger, [X[i] for i in held], [y[i] for i in held], asked, level)
                    if threshold is not None:
                        had[how].append(counts.at(threshold, judged))
            for how, found in had.items():
                p, recall = np.array(found).reshape(-1, 2).T
                means = (f"{p.mean():.4f}", f"{recall.mean():.3f}") if found else ("-", "-")
                kept = f"{int((p >= asked).sum())} of {len(found)}"
                rows.append((alpha, asked, PROMISES[how], *means, kept, splits - len(found)))
    header = ["alpha", "asked", "threshold from", "precision, mean", "recall, mean", "kept", "refused"]
    note = (
        f"The fits of benchmarks.spans. The {len(X)} test sentences are cut at random {splits} times; a RiskController with SpanCosts() is "
        "calibrated on three quarters, and all are judged on the last: right spans among those that are reported, and among the true ones. It refuses where so few sentences cannot promise it. "
        "Promises are for the law of sentences; those that judge are few, and their own precision varies by some .4 points from draw to draw. The "
        "controller counts spans by one over the length of their sentence, the table one by one."
    )
    write_table("spans_precision", "Spans of CoNLL-2000: precision that was asked for", header, rows, [], note)


def held_out_threshold(tagger: tl.SequenceTagger, X: Any, y: Any, asked: float, level: float | None) -> float | None:
    """The least probability of a span that is reported, None where the precision cannot be promised."""
    safe = tl.RiskController(tagger, tl.losses.SpanCosts(), 1 - asked, level)
    try:
        return 1 - safe.calibrate(X, y).best_predict_param_
    except ValueError as error:
        if "cannot be promised" not in str(error):
            raise
        return None


PROMISES = {
    "predict_spans": "the model's probabilities (`precision=`)",
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


def draw(found: dict[str, list[tuple[int, float, float, float, float]]]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(4.2, 4.2))
    axes.plot([0, 1], [0, 1], color="0.7", lw=1)
    for j, (alpha, bins) in enumerate(found.items()):
        _, x, y, low, high = np.array(bins).T
        axes.errorbar(x, y, yerr=[y - low, high - y], fmt="os"[j], ms=4, lw=1, color=f"C{j}", label=f"alpha {alpha}")
    axes.set(xlabel="probability of the span", ylabel="share that is right", xlim=(0, 1.02), ylim=(0, 1.02))
    axes.legend(frameon=False)
    figure.tight_layout()
    figure.savefig(RESULTS / "spans.png", dpi=120)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", nargs="*", help="speed, reliability, precision; none for all")
    parser.add_argument("--sentences", type=int)
    options = parser.parse_args()
    main(options.parts or ["speed", "reliability", "precision"], options.sentences)
