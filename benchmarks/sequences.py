"""Sequences beside CRFsuite: OCR letters, CoNLL-2000 chunking, UD EWT tagging, losses over neighbours, and speed.

python -m benchmarks.sequences [ocr_small|ocr_large|conll2000|ud_ewt|speed ...]; all of them by default. --sentences N trains on the first N sentences of
CoNLL-2000 and UD EWT; --iterations N times evaluations alone, on a fit of CRFsuite that is cut short.
"""

from __future__ import annotations

import itertools
import os
import tempfile
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

import taskloss as tl
from taskloss._blas import serial_blas
from taskloss.losses import ChainCost

from .common import write_table
from .datasets import sequences as data

PEERS = ("numba", "python-crfsuite", "sklearn-crfsuite")
SAME = (
    "Both fit a linear-chain CRF with the same features and the same L2 penalty (CRFsuite's c2 = n alpha / 2). MAP decodes the likeliest "
    "sequence, which is all that CRFsuite predicts; marginal decoding takes the likeliest label at each position."
)


EVERY = {"all_possible_states": True, "all_possible_transitions": True}


def crfsuite(X: list, y: list, c2: float, **options: Any) -> Any:
    import sklearn_crfsuite

    model = sklearn_crfsuite.CRF(algorithm="lbfgs", c1=0.0, c2=c2, **options)
    return model.fit(X, [[str(label) for label in row] for row in y])


def ours(X: list, y: list, c2: float, **options: Any) -> tl.SequenceTagger:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        options = {"fit_intercept": False, "boundaries": False} | options
        return tl.SequenceTagger(alpha=2 * c2 / len(X), **options).fit(X, y)


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def first(split: data.Split, count: int | None) -> data.Split:
    return split._replace(X=split.X[:count], y=split.y[:count])


def shares(predicted: list, labels: list) -> dict[str, float]:
    """Per cent of positions, of pairs of neighbours and of sequences that are wrong."""
    wrong = [np.asarray(z).astype(str) != np.asarray(y).astype(str) for z, y in zip(predicted, labels, strict=True)]
    pairs = [w[1:] | w[:-1] for w in wrong]
    return {
        "positions": 100 * float(np.concatenate(wrong).mean()),
        "pairs": 100 * float(np.concatenate(pairs).mean()),
        "sequences": 100 * float(np.mean([w.any() for w in wrong])),
    }


def wrong_pairs(k: int) -> ChainCost:
    """The number of neighbouring pairs that are not both right; single letters break ties."""
    pair = 1 - np.eye(k * k).reshape(k, k, k, k)
    return ChainCost(1e-3 * (1 - np.eye(k)), pair)


def ocr(large: bool) -> None:
    split = data.ocr_letters(large)
    maps = [[{f"p{j}": 1.0 for j in np.flatnonzero(row)} for row in x] for x in split.X]
    maps_test = [[{f"p{j}": 1.0 for j in np.flatnonzero(row)} for row in x] for x in split.X_test]
    seconds, peer = timed(lambda: crfsuite(maps, split.y, 1.0, max_iterations=100, **EVERY))
    rows = [["CRFsuite, MAP", *shares(peer.predict(maps_test), split.y_test).values(), seconds]]
    seconds, model = timed(lambda: ours(split.X, split.y, 1.0, tol=1e-6))
    for name, loss in (
        ("MAP", "sequence-zero-one"),
        ("marginal (ChainHamming)", "chain-hamming"),
        ("wrong pairs (ChainCost)", wrong_pairs(26)),
    ):
        rows.append([f"taskloss, {name}", *shares(model.predict(split.X_test, loss), split.y_test).values(), seconds])
    more = ours(split.X, split.y, 1.0, fit_intercept=True, boundaries=True)
    for name, loss in (("MAP", "sequence-zero-one"), ("marginal", "chain-hamming")):
        label = f"taskloss with intercepts and ends, {name}"
        rows.append([label, *shares(more.predict(split.X_test, loss), split.y_test).values(), ""])
    header = ["method", "% letters wrong", "% pairs wrong", "% words wrong", "fit, s"]
    note = (
        f"{SAME} c2 = 1; CRFsuite stops after at most 100 iterations. {len(split.X)} words to train on, {len(split.X_test)} to test on. One fit serves all decoders, each of which is best "
        "for its own column where the fitted law is right. Here it is not: words come from a short list, which pairs of neighbours cannot "
        "tell, and MAP, which settles on one whole word, can get more letters right than marginals do."
    )
    name = "large" if large else "small"
    write_table(f"sequences_ocr_{name}", f"OCR letters, {name} split", header, rows, PEERS, note)


MISSED, SPURIOUS, WRONG = 3.0, 1.0, 0.1


def is_end(before: str, after: str) -> bool:
    """Whether a chunk ends between two neighbouring tags."""
    return before[0] != "O" and not (after[0] == "I" and after[2:] == before[2:])


def chunk_ends(classes: np.ndarray) -> ChainCost:
    """What missed and spurious ends of chunks and wrong tags cost, as a loss over neighbours."""
    ends = np.array([[is_end(a, b) for b in classes.tolist()] for a in classes.tolist()])
    z, y = ends[:, :, None, None], ends[None, None]
    return ChainCost(WRONG * (1 - np.eye(len(classes))), MISSED * (~z & y) + SPURIOUS * (z & ~y))


def cost_of_ends(predicted: list, labels: list) -> float:
    """The mean of the same cost, also where a test tag was never seen in training."""
    total = 0.0
    for z, y in zip(predicted, labels, strict=True):
        total += WRONG * sum(a != b for a, b in zip(z, y, strict=True))
        for a, b in zip(itertools.pairwise(z), itertools.pairwise(y), strict=True):
            total += MISSED * (is_end(*b) and not is_end(*a)) + SPURIOUS * (is_end(*a) and not is_end(*b))
    return total / len(labels)


def conll2000(sentences: int | None = None) -> None:
    split = first(data.conll2000(), sentences)
    c2 = 0.5
    seconds, peer = timed(lambda: crfsuite(split.X, split.y, c2, max_iterations=100))
    seconds_ours, model = timed(lambda: ours(split.X, split.y, c2, tol=1e-4))
    ends = chunk_ends(model.classes_)
    found = [("CRFsuite, MAP", peer.predict(split.X_test), seconds)]
    decoders = (
        ("MAP", "sequence-zero-one"),
        ("marginal (ChainHamming)", "chain-hamming"),
        ("chunk ends (ChainCost)", ends),
    )
    for name, loss in decoders:
        found.append((f"taskloss, {name}", model.predict(split.X_test, loss), seconds_ours))
    rows = []
    for name, z, took in found:
        accuracy = 100 - shares(z, split.y_test)["positions"]
        rows.append(
            [
                name,
                accuracy,
                100 * data.chunk_f1(z, split.y_test),
                cost_of_ends([list(map(str, row)) for row in z], split.y_test),
                took,
            ]
        )
    header = ["method", "% tokens right", "chunk F1", "cost per sentence", "fit, s"]
    note = (
        SAME
        + f" c2 = {c2}; trained on {len(split.X)} sentences, {model.n_features_in_} features, {len(model.classes_)} tags. CRFsuite keeps weights for the pairs of feature and tag "
        "that occur together and stops after at most 100 iterations; taskloss has weights for all pairs and stops at a gap of 1e-4. A missed chunk end costs 3 and a spurious "
        "one 1, a wrong tag 0.1: a loss over neighbours that neither MAP nor marginal decoding knows of."
    )
    write_table("sequences_conll2000", "CoNLL-2000 chunking", header, rows, PEERS, note)


def ud_ewt(sentences: int | None = None) -> None:
    split = first(data.ud_ewt(), sentences)
    c2 = 0.5
    seconds, peer = timed(lambda: crfsuite(split.X, split.y, c2, max_iterations=100))
    rows = [["CRFsuite, MAP", *shares(peer.predict(split.X_test), split.y_test).values(), seconds]]
    seconds, model = timed(lambda: ours(split.X, split.y, c2, tol=1e-4))
    for name, loss in (("MAP", "sequence-zero-one"), ("marginal (ChainHamming)", "chain-hamming")):
        rows.append([f"taskloss, {name}", *shares(model.predict(split.X_test, loss), split.y_test).values(), seconds])
    header = ["method", "% tokens wrong", "% pairs wrong", "% sentences wrong", "fit, s"]
    note = SAME + (
        f" c2 = {c2}; trained on {len(split.X)} sentences, {model.n_features_in_} features, {len(model.classes_)} tags; stopping and weights as on CoNLL-2000."
    )
    write_table("sequences_ud_ewt", "UD English EWT, universal part of speech", header, rows, PEERS, note)


# -- speed ------------------------------------------------------------------------------------------------------------


def synthetic(n: int = 2000, length: int = 20, k: int = 26, d: int = 5000, active: int = 20) -> tuple:
    """Sequences with 20 active of 5,000 features per position, two in five of which tell of the label."""
    rng = np.random.default_rng(0)
    positions = n * length
    y = np.concatenate([np.cumsum(rng.integers(0, 4, length)) % k for _ in range(n)])
    telling = rng.integers(0, d, (k, 60))[y[:, None], rng.integers(0, 60, (positions, active))]
    chosen = np.where(rng.random((positions, active)) < 0.1, telling, rng.integers(0, d, (positions, active)))
    X = sparse.csr_matrix(
        (np.ones(chosen.size), chosen.ravel(), active * np.arange(positions + 1)), shape=(positions, d)
    )
    X.sum_duplicates()
    X.data[:] = 1.0
    return X, length * np.arange(n + 1), y


class Measured(NamedTuple):
    """Seconds of one evaluation and of all marginals, as (wall, CPU of all threads), and how a fit went."""

    evaluation: tuple[float, float]
    marginals: tuple[float, float]
    fit: float
    iterations: int
    evaluations: int
    objective: float


def least(work: Callable[[], Any], repeats: int) -> tuple[float, float]:
    """The least wall-clock time and the least CPU time of a few runs."""
    found = []
    for _ in range(repeats):
        wall, cpu = time.perf_counter(), time.process_time()
        work()
        found.append((time.perf_counter() - wall, time.process_time() - cpu))
    return min(w for w, _ in found), min(c for _, c in found)


def crfsuite_speed(X: Any, offsets: np.ndarray, y: np.ndarray, c2: float, iterations: int) -> Measured:
    import pycrfsuite

    items = [[str(j) for j in X.indices[X.indptr[t] : X.indptr[t + 1]]] for t in range(X.shape[0])]
    trainer = pycrfsuite.Trainer(verbose=False, algorithm="lbfgs")
    trainer.set_params({"c1": 0.0, "c2": c2, "max_iterations": iterations, "epsilon": 1e-5, "delta": 1e-7})
    trainer.set_params({"feature.possible_states": True, "feature.possible_transitions": True})
    for a, b in itertools.pairwise(offsets):
        trainer.append(items[a:b], [str(label) for label in y[a:b]])
    model = pycrfsuite.Tagger()
    with tempfile.NamedTemporaryFile() as file:
        wall, cpu = least(lambda: trainer.train(file.name), 1)
        model.open(file.name)
        few, labels = 100, model.labels()

        def all_marginals() -> None:
            for a, b in itertools.pairwise(offsets[: few + 1]):
                model.set(pycrfsuite.ItemSequence(items[a:b]))
                for t, label in itertools.product(range(b - a), labels):
                    model.marginal(label, t)

        scale = (len(offsets) - 1) / few
        marginals = least(all_marginals, 3)
    log = trainer.logparser
    calls = sum(i["linesearch_trials"] for i in log.iterations)
    scaled = marginals[0] * scale, marginals[1] * scale
    inside = sum(i["time"] for i in log.iterations)  # CRFsuite's own count of CPU seconds, without reading the data
    evaluation = wall * inside / cpu / calls, inside / calls
    return Measured(evaluation, scaled, wall, len(log.iterations), calls, log.last_iteration["loss"])


def our_speed(X: Any, offsets: np.ndarray, y: np.ndarray, c2: float) -> Measured:
    n, packed = len(offsets) - 1, tl.Packed(X, offsets)
    tagger = tl.SequenceTagger(alpha=2 * c2 / n, fit_intercept=False, boundaries=False, tol=1e-7)
    risk = tagger.objective(packed, y)
    theta = 0.1 * np.random.default_rng(0).normal(size=risk.start.shape)
    risk.value_and_gradient(theta)
    with serial_blas():
        evaluation = least(lambda: risk.value_and_gradient(theta), 20)
    fit, _ = least(lambda: tagger.fit(packed, y), 2)
    marginals = least(lambda: tagger.predict_marginals(packed), 10)
    found = tagger.solution_
    return Measured(evaluation, marginals, fit, found.iterations, found.evaluations, n * found.value)


def speed(iterations: int | None = None) -> None:
    X, offsets, y = synthetic()
    c2, n = 1.0, X.shape[0]
    us = our_speed(X, offsets, y, c2)
    peer = crfsuite_speed(X, offsets, y, c2, iterations or 500)
    rows: list[list[Any]] = []
    for i, clock in enumerate(("wall clock", "CPU of all threads")):
        a, b = peer.evaluation[i], us.evaluation[i]
        rows.append([f"one evaluation of value and gradient, ms, {clock}", 1e3 * a, 1e3 * b, a / b])
        a, b = peer.marginals[i], us.marginals[i]
        rows.append([f"all marginals, positions/s, {clock}", f"{n / a:.0f}", f"{n / b:.0f}", a / b])
    if iterations is None:
        a, b = peer.fit / peer.iterations, us.fit / us.iterations
        rows.append(["one iteration of a fit, all in, ms", 1e3 * a, 1e3 * b, a / b])
        rows.append(["fit, s", peer.fit, us.fit, peer.fit / us.fit])
        counts = [f"{m.iterations} ({m.evaluations})" for m in (peer, us)]
        rows.append(["iterations (evaluations)", *counts, ""])
        rows.append(["objective reached, on CRFsuite's scale", f"{peer.objective:.4f}", f"{us.objective:.4f}", ""])
    note = (
        f"{len(offsets) - 1} sequences, {n} positions, 26 labels, about 20 active of 5,000 features at each position; c2 = {c2}; both have a weight for every "
        f"feature and label; python-crfsuite runs on one thread, taskloss on as many as there are cores; CRFsuite's marginals on 100 of the sequences. "
        f"{os.getloadavg()[0]:.1f} processes wanted to run at the end of the measurement."
    )
    name = "sequences_speed" if iterations is None else "sequences_speed_short"
    header = ["", "python-crfsuite", "taskloss", "ratio"]
    write_table(name, "Speed beside python-crfsuite", header, rows, PEERS, note)


if __name__ == "__main__":
    import argparse

    tasks: dict[str, Callable[..., None]] = {
        "ocr_small": lambda: ocr(large=False),
        "ocr_large": lambda: ocr(large=True),
        "conll2000": conll2000,
        "ud_ewt": ud_ewt,
        "speed": speed,
    }
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tasks", nargs="*", choices=[*tasks, []], default=[])
    parser.add_argument("--sentences", type=int)
    parser.add_argument("--iterations", type=int)
    asked = parser.parse_args()
    given = {"conll2000": (asked.sentences,), "ud_ewt": (asked.sentences,), "speed": (asked.iterations,)}
    for task in asked.tasks or tasks:
        tasks[task](*given.get(task, ()))
