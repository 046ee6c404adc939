"""Spans with their probabilities on CoNLL-2000 chunking: python -m benchmarks.spans [--sentences N].

A tagger is fitted to the training sentences (features as in benchmarks.sequences, alpha 1 / n as CRFsuite's c2 of one half). Reliability: test
spans of probability 0.05 or more, in ten bins, and the share of each that is right, with 95 % intervals (Wilson). Precision: see
spans_precision. Times, taken in turns in one process, on one thread and on two: spans above one half beside the likeliest labelling (Viterbi), from words to
answers and for inference alone.
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

REST = 0.2  # seconds in which the threads of OpenBLAS, which wait for the next product by keeping a core busy, fall asleep
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


def times_beside_viterbi(tagger: tl.SequenceTagger, X: Any, threads: int) -> list[str]:
    """How long spans above one half take beside the likeliest labelling, in sentences."""
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
    on = "one thread" if threads == 1 else f"{threads} threads"
    return [
        f"{what}, on {on}: spans take {np.median(times[f'spans, {what}'] / times[f'Viterbi, {what}']):.2f} times as long as Viterbi (median of 15 pairs)"
        for what in ("from words", "inference alone")
    ]


def main(sentences: int | None = None) -> None:
    split = first(conll2000(), sentences)
    tagger = tl.SequenceTagger(alpha=1 / len(split.X), tol=1e-5).fit(split.X, split.y)
    gold = [set(chunks(row)) for row in split.y_test]
    found = tagger.predict_spans(split.X_test, threshold=float(BINS[0]))
    pairs = [
        ((s.start, s.end, s.label) in truth, s.probability) for truth, row in zip(gold, found, strict=True) for s in row
    ]
    right, p = np.array(pairs, dtype=float).T
    place = np.clip(np.digitize(p, BINS) - 1, 0, len(BINS) - 2)
    rows, points = [], []
    for b in range(len(BINS) - 1):
        here = place == b
        n, hits = float(here.sum()), float(right[here].sum())
        low, high = wilson(hits, n)
        points.append((p[here].mean(), hits / n, low, high))
        rows.append(
            (
                f"{BINS[b]:.2f} to {BINS[b + 1]:.2f}",
                int(n),
                f"{p[here].mean():.3f}",
                f"{hits / n:.3f}",
                f"{low:.3f} to {high:.3f}",
            )
        )
    total = sum(map(len, gold))
    ratios = [ratio for threads in (1, 2)[: os.cpu_count()] for ratio in times_beside_viterbi(tagger, split.X_test, threads)]
    note = " ".join((__doc__ or "").split("\n\n", 1)[1].split())
    note += (
        f"\n\n{len(split.X)} sentences to fit, {len(split.X_test)} to test, {total} chunks. "
        + "; ".join(ratios)
        + "."
    )
    header = ["probability", "spans", "mean probability", "share that is right", "its 95 % interval"]
    write_table("spans", "Spans of CoNLL-2000: reliability", header, rows, [], note)
    draw(np.array(points))
    precision(tagger, split.X_test, gold, split.y_test)


def precision(tagger: tl.SequenceTagger, X: Any, gold: list[set[tuple[int, int, str]]], y: Any, splits: int = 50) -> None:
    """Precision that was asked for and that was had, by the model's own probabilities and by a threshold set on other sentences."""
    counts = Counts(tagger.predict_spans(X, threshold=0.5), gold)
    rng, rows = np.random.default_rng(0), []
    cuts = [np.split(rng.permutation(len(X)), [3 * len(X) // 4]) for _ in range(splits)]
    for asked in (0.95, 0.97, 0.99):
        had: dict[str, list[tuple[float, float]]] = {how: [] for how in ("predict_spans", "expectation", "confidence")}
        for held, judged in cuts:
            own = tagger.predict_spans([X[i] for i in judged], precision=asked)
            had["predict_spans"].append(Counts(own, [gold[i] for i in judged]).at(0.5))
            for how, level in (("expectation", None), ("confidence", 0.9)):
                safe = tl.RiskController(tagger, tl.losses.SpanCosts(), 1 - asked, level)
                try:
                    safe.calibrate([X[i] for i in held], [y[i] for i in held])
                except ValueError as error:
                    if "cannot be promised" not in str(error):
                        raise
                    continue
                had[how].append(counts.at(1 - safe.best_predict_param_, judged))
        for how, found in had.items():
            p, recall = np.array(found or [(np.nan, np.nan)]).T
            kept = f"{int((p >= asked).sum())} of {len(found)}"
            rows.append((asked, PROMISES[how], f"{p.mean():.4f}", f"{recall.mean():.3f}", kept, splits - len(found)))
    header = ["asked", "threshold from", "precision, mean", "recall, mean", "kept", "refused"]
    note = (
        f"The fit of benchmarks.spans. The {len(X)} test sentences are cut at random {splits} times; a RiskController with SpanCosts() is "
        "calibrated on three quarters, and all are judged on the last: right spans among those that are reported, and among the true ones. It refuses where so few sentences cannot promise it. The "
        "controller counts spans by one over the length of their sentence, the table one by one."
    )
    write_table("spans_precision", "Spans of CoNLL-2000: precision that was asked for", header, rows, [], note)


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


def draw(points: np.ndarray) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(4.2, 4.2))
    x, y, low, high = points.T
    axes.plot([0, 1], [0, 1], color="0.7", lw=1)
    axes.errorbar(x, y, yerr=[y - low, high - y], fmt="o", ms=4, lw=1, color="C0")
    axes.set(xlabel="probability of the span", ylabel="share that is right", xlim=(0, 1.02), ylim=(0, 1.02))
    figure.tight_layout()
    figure.savefig(RESULTS / "spans.png", dpi=120)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--sentences", type=int)
    main(parser.parse_args().sentences)
