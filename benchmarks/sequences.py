"""Sequences beside CRFsuite: OCR letters, CoNLL-2000 chunking, UD EWT tagging, losses over neighbours, and speed.

python -m benchmarks.sequences [ocr|conll2000|ud_ewt|speed ...]; all of them by default.
"""

from __future__ import annotations

import itertools
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

import taskloss as tl
from taskloss.losses import ChainCost

from .common import best_time, write_table
from .datasets import sequences as data

PEERS = ("numba", "python-crfsuite", "sklearn-crfsuite")
SAME = (
    "Both fit a linear-chain CRF with the same features and the same L2 penalty (CRFsuite's c2 = n alpha / 2). MAP decodes the likeliest "
    "sequence, which is all that CRFsuite predicts; marginal decoding takes the likeliest label at each position."
)


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
    """The number of neighbouring pairs that are not both right, and of single wrong letters where a word has one."""
    pair = 1 - np.eye(k * k).reshape(k, k, k, k)
    return ChainCost(1e-3 * (1 - np.eye(k)), pair)


def ocr() -> None:
    rows = []
    for name, large in (("small: train on 1 fold, test on 9", False), ("large: train on 9, test on 1", True)):
        split = data.ocr_letters(large)
        maps = [[{f"p{j}": 1.0 for j in np.flatnonzero(row)} for row in x] for x in split.X]
        maps_test = [[{f"p{j}": 1.0 for j in np.flatnonzero(row)} for row in x] for x in split.X_test]
        seconds, peer = timed(lambda m=maps, s=split: crfsuite(m, s.y, 1.0, max_iterations=150))
        rows.append([name, "CRFsuite, MAP", *shares(peer.predict(maps_test), split.y_test).values(), seconds])
        seconds, model = timed(lambda s=split: ours(s.X, s.y, 1.0, tol=1e-6))
        for decoder, loss in (
            ("MAP", "sequence-zero-one"),
            ("marginal (ChainHamming)", "chain-hamming"),
            ("wrong pairs (ChainCost)", wrong_pairs(26)),
        ):
            rows.append(
                [
                    name,
                    f"taskloss, {decoder}",
                    *shares(model.predict(split.X_test, loss), split.y_test).values(),
                    seconds,
                ]
            )
        with_ends = ours(split.X, split.y, 1.0, fit_intercept=True, boundaries=True)
        rows.append(
            [
                name,
                "taskloss with intercepts and ends, marginal",
                *shares(with_ends.predict(split.X_test), split.y_test).values(),
                "",
            ]
        )
    header = ["split", "method", "% letters wrong", "% pairs wrong", "% words wrong", "fit, s"]
    note = (
        SAME
        + " c2 = 1. One fit serves the three decoders, each of which is best for its column if the fitted law is right. Here it "
    )
    note += "is not (words come from a short list, which pairs of neighbours cannot tell), and MAP, which insists on one whole word, gets more letters right than marginals do."
    write_table("sequences_ocr", "OCR letters", header, rows, PEERS, note)


def chunk_ends(classes: np.ndarray, missed: float = 3.0, spurious: float = 1.0) -> ChainCost:
    """Costs of the places where chunks end: between a tag other than O and one that does not continue its chunk."""
    tags = [str(c).partition("-") for c in classes]
    ends = np.array([[a[0] != "O" and not (b[0] == "I" and b[2] == a[2]) for b in tags] for a in tags])
    z, y = ends[:, :, None, None], ends[None, None]
    return ChainCost(None, missed * (~z & y) + spurious * (z & ~y))


def conll2000() -> None:
    split = data.conll2000()
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
    offsets = np.concatenate([[0], np.cumsum([len(y) for y in split.y_test])])
    truth = model.labels_.encode(split.y_test, offsets)
    from taskloss.polytopes._forest import Forest

    rows = []
    for name, z, took in found:
        accuracy = 100 - shares(z, split.y_test)["positions"]
        cost = ends.packed_loss(
            Forest.chains(np.diff(offsets)), model.labels_.encode([list(row) for row in z], offsets), truth
        )
        rows.append([name, accuracy, 100 * data.chunk_f1(z, split.y_test), float(cost.mean()), took])
    header = ["method", "% tokens right", "chunk F1", "cost of chunk ends per sentence", "fit, s"]
    note = (
        SAME
        + f" c2 = {c2}; {len(split.X)} sentences, {model.n_features_in_} features, {len(model.classes_)} tags. CRFsuite keeps weights for the pairs of feature and tag "
        "that occur together and stops after at most 100 iterations; taskloss has weights for all pairs and stops at a gap of 1e-4. A missed chunk end costs 3 and a spurious "
        "one 1: a loss over neighbours that neither MAP nor marginal decoding knows of."
    )
    write_table("sequences_conll2000", "CoNLL-2000 chunking", header, rows, PEERS, note)


def ud_ewt() -> None:
    split = data.ud_ewt()
    c2 = 0.5
    seconds, peer = timed(lambda: crfsuite(split.X, split.y, c2, max_iterations=100))
    rows = [["CRFsuite, MAP", *shares(peer.predict(split.X_test), split.y_test).values(), seconds]]
    seconds, model = timed(lambda: ours(split.X, split.y, c2, tol=1e-4))
    for name, loss in (("MAP", "sequence-zero-one"), ("marginal (ChainHamming)", "chain-hamming")):
        rows.append([f"taskloss, {name}", *shares(model.predict(split.X_test, loss), split.y_test).values(), seconds])
    header = ["method", "% tokens wrong", "% pairs wrong", "% sentences wrong", "fit, s"]
    note = SAME + (
        f" c2 = {c2}; {len(split.X)} sentences, {model.n_features_in_} features, {len(model.classes_)} tags; stopping and weights as on CoNLL-2000."
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


def speed() -> None:
    import pycrfsuite

    X, offsets, y = synthetic()
    n, c2 = len(offsets) - 1, 1.0
    items = [[str(j) for j in X.indices[X.indptr[t] : X.indptr[t + 1]]] for t in range(X.shape[0])]
    packed = tl.Packed(X, offsets)
    tagger = tl.SequenceTagger(alpha=2 * c2 / n, fit_intercept=False, boundaries=False, tol=1e-6)

    start = time.perf_counter()
    risk = tagger.objective(packed, y)
    theta = 0.1 * np.random.default_rng(0).normal(size=risk.start.shape)
    risk.value_and_gradient(theta)
    first = time.perf_counter() - start
    with risk.split.serial_blas():
        evaluation, _ = best_time(lambda: risk.value_and_gradient(theta), 15)
    fit_time, _ = best_time(lambda: tagger.fit(packed, y), 2)
    solution = tagger.solution_
    marginal, _ = best_time(lambda: tagger.predict_marginals(packed), 5)

    with tempfile.NamedTemporaryFile() as file:
        trainer = pycrfsuite.Trainer(verbose=False, algorithm="lbfgs")
        trainer.set_params({"c1": 0.0, "c2": c2, "max_iterations": 500, "epsilon": 1e-5, "delta": 1e-7})
        trainer.set_params({"feature.possible_states": True, "feature.possible_transitions": True})
        for a, b in itertools.pairwise(offsets):
            trainer.append(items[a:b], [str(label) for label in y[a:b]])
        peer_fit, _ = timed(lambda: trainer.train(file.name))
        log = trainer.logparser
        calls = sum(i["linesearch_trials"] for i in log.iterations)
        model = pycrfsuite.Tagger()
        model.open(file.name)
        labels = model.labels()

        def all_marginals() -> None:
            for a, b in itertools.pairwise(offsets[:401]):
                model.set(pycrfsuite.ItemSequence(items[a:b]))
                for t in range(b - a):
                    for label in labels:
                        model.marginal(label, t)

        peer_marginal = best_time(all_marginals, 2)[0] * n / 400
    iterations = len(log.iterations)
    per_call = peer_fit / calls
    positions = X.shape[0]
    rows = [
        ["one evaluation of value and gradient, ms", 1e3 * per_call, 1e3 * evaluation, per_call / evaluation],
        [
            "one iteration, all in, ms",
            1e3 * peer_fit / iterations,
            1e3 * fit_time / max(solution.iterations, 1),
            peer_fit / iterations / (fit_time / max(solution.iterations, 1)),
        ],
        ["fit, s", peer_fit, fit_time, peer_fit / fit_time],
        ["iterations (evaluations)", f"{iterations} ({calls})", f"{solution.iterations} ({solution.evaluations})", ""],
        ["objective reached (CRFsuite's scale)", f"{log.last_iteration['loss']:.4f}", f"{n * solution.value:.4f}", ""],
        [
            "all marginals, positions/s",
            f"{positions / peer_marginal:.0f}",
            f"{positions / marginal:.0f}",
            peer_marginal / marginal,
        ],
        ["first evaluation in this process, reading and loading kernels included, s", "", first, ""],
    ]
    note = f"{n} sequences, {positions} positions, 26 labels, about 20 active of 5,000 features at each position; c2 = {c2}; marginals of CRFsuite on 400 of the sequences."
    write_table(
        "sequences_speed",
        "Speed beside python-crfsuite",
        ["", "python-crfsuite", "taskloss", "ratio"],
        rows,
        PEERS,
        note,
    )


if __name__ == "__main__":
    tasks = {"ocr": ocr, "conll2000": conll2000, "ud_ewt": ud_ewt, "speed": speed}
    for task in sys.argv[1:] or tasks:
        tasks[task]()
