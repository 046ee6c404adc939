"""Bad input by machine: every public callable with arguments drawn good and bad; it works, or refuses with a sentence of ours.

python -m benchmarks.draws [number of draws] [seed]
"""

from __future__ import annotations

import copy
import linecache
import pathlib
import sys
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import numpy as np
import sklearn
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator

import taskloss as tl
from taskloss._checks import names_one
from taskloss.solvers import ASGD

from .common import write_table
from .drawing import Draw
from .draws_parts import COSTS, NAMES, PARTS, Call, X, Y

OURS = pathlib.Path(tl.__file__).parent
THEIRS = pathlib.Path(sklearn.__file__).parent

_rng = np.random.default_rng(1)
SETS = (_rng.random((12, 3)) < 0.5).astype(int)
SETS[:2] = [[0, 1, 0], [1, 0, 1]]
WEIGHTS = _rng.uniform(0.5, 2, 12)
GROUPS = np.repeat(np.arange(4), 3)
SEQUENCES = [_rng.normal(size=(3, 2)) for _ in range(5)]
TAGS = [np.array(["N", "V", "N"])[: len(x)] for x in SEQUENCES]
TREES = tl.Packed(np.concatenate(SEQUENCES), 3 * np.arange(6), np.tile([-1, 0, 0], 5))
PAIRS = [_rng.normal(size=(3, 3, 2)) for _ in range(5)]
MATCHINGS = [_rng.permutation(3) for _ in PAIRS]

# name: (estimator, what fit takes)
ESTIMATORS: dict[str, tuple[Any, dict[str, Any]]] = {
    "TaskLossEstimator": (tl.TaskLossEstimator(), {"X": X, "y": Y, "sample_weight": WEIGHTS}),
    "CostSensitiveClassifier": (tl.CostSensitiveClassifier(COSTS), {"X": X, "y": NAMES, "sample_weight": WEIGHTS}),
    "OrdinalClassifier": (tl.OrdinalClassifier(), {"X": X, "y": Y, "sample_weight": WEIGHTS}),
    "MultilabelClassifier": (tl.MultilabelClassifier(), {"X": X, "y": SETS, "sample_weight": WEIGHTS}),
    "DecodedClassifier": (tl.DecodedClassifier(), {"X": X, "y": NAMES, "sample_weight": WEIGHTS}),
    "KernelPredictor": (tl.KernelPredictor(), {"X": X, "y": NAMES, "sample_weight": WEIGHTS}),
    "Ranker": (
        tl.Ranker(tl.losses.DCG(top=2), solver=ASGD(step=0.1)),
        {"X": X, "y": Y, "groups": GROUPS, "sample_weight": WEIGHTS, "propensity": np.linspace(0.2, 1, 12)},
    ),
    "Matcher": (tl.Matcher(), {"X": PAIRS, "y": MATCHINGS, "sample_weight": WEIGHTS[:5]}),
    "TreeTagger": (tl.TreeTagger(), {"X": TREES, "y": TAGS, "sample_weight": WEIGHTS[:5]}),
    "TunedDecisionCV": (
        tl.TunedDecisionCV(tl.CostSensitiveClassifier(), "balanced-accuracy", cv=2),
        {"X": X, "y": NAMES},
    ),
    "Recalibrated": (
        tl.Recalibrated(FrozenEstimator(tl.CostSensitiveClassifier().fit(X, NAMES))),
        {"X": X, "y": NAMES, "sample_weight": WEIGHTS},
    ),
    "SequenceTagger": (tl.SequenceTagger(), {"X": SEQUENCES, "y": TAGS, "sample_weight": WEIGHTS[:5]}),
}
# What predict takes beside X, where an estimator has it.
OF_PREDICT: dict[str, dict[str, Any]] = {
    "Ranker": {"groups": GROUPS, "loss": tl.losses.DCG(top=2, at=1)},
    "Matcher": {"loss": "matching-hamming", "costs": [np.ones((3, 3)) for _ in PAIRS]},
    "SequenceTagger": {"loss": "chain-hamming"},
    "TreeTagger": {"loss": "chain-hamming"},
    "MultilabelClassifier": {"loss": "hamming", "costs": np.ones((12, 3))},
}
PREDICTIONS = ("predict_moments", "predict_proba", "predict_scores", "predict_log_proba", "decision_function")
# By what nouns a sentence may name an argument, where not by its name.
NOUNS: dict[str, tuple[str, ...]] = {
    "n_items": ("item",),
    "X": (
        "each of the [0-9]+ (examples|sequences|rows)",
        "file",
    ),  # where another argument's size does not go with its own
    **dict.fromkeys(["proba", "y_true", "y_pred"], ("each of the [0-9]+ examples",)),  # as X
    "labels": ("the known ones",),  # as classes
    "classes": ("the known ones",),  # where a label of y is not among them
    "costs": ("cost matrix", "The cost of"),
    "n_labels": ("number of labels",),
    "loss": ("cost matrix", "CostMatrix"),
    "factors": ("coordinates",),
    "node": ("hypothesis",),
    "source": ("loss",),
    "surrogates": ("surrogate",),
    "emissions": ("one code for each position", "Emissions", "Scores"),
    **{name: (name.capitalize(), "score matrix") for name in ("scores", "tags", "targets")},
    "order": ("the known ones",),
    "parts": ("surrogate",),
    "size": ("y",),  # of what a loss is bound to
    "y": ("label", "labels", "relevance", "calibration examples"),
    "candidates": ("output", "outputs"),
    "decoder": ("output",),  # which it gave
    "target": ("label's", "features"),
    "data": ("moments",),
    "v": ("scores",),
    "z": ("output", "outputs"),
}


@cache
def _fitted(name: str) -> Any:
    estimator, data = ESTIMATORS[name]
    return clone(estimator).fit(**data)


def _fit(name: str, draw: Draw) -> Call:
    """A fit with bad data, with a bad hyperparameter, or both."""
    estimator, data = ESTIMATORS[name]
    estimator = clone(estimator)
    if draw.rng.random() < 0.5:
        parameter = draw.pick(estimator.get_params(deep=False))
        estimator.set_params(**{parameter: draw.spoil(parameter, getattr(estimator, parameter))})
    given = draw.arguments(**data)
    return lambda: estimator.fit(**given)


def _partial_fit(name: str, draw: Draw) -> Call:
    estimator, data = ESTIMATORS[name]
    model = copy.deepcopy(_fitted(name)) if draw.rng.random() < 0.5 else clone(estimator)
    if "classes" in model.partial_fit.__code__.co_varnames:
        names = {"CostSensitiveClassifier": ["a", "b", "c"], "SequenceTagger": ["N", "V"], "TreeTagger": ["N", "V"]}
        data = {**data, "classes": names.get(name, [0, 1, 2])}
    given = draw.arguments(**data)
    return lambda: model.partial_fit(**given)


def _fit_stream(name: str, draw: Draw) -> Call:
    estimator, data = ESTIMATORS[name]
    given = draw.arguments(**data)
    batches = draw.arguments(batches=[tuple(given.values())] * 2, n_samples=24)
    return lambda: clone(estimator).fit_stream(batches["batches"], classes=[0, 1, 2], n_samples=batches["n_samples"])


def _score(name: str, draw: Draw) -> Call:
    given = draw.arguments(**ESTIMATORS[name][1])
    return lambda: _fitted(name).score(**given)


def _predict(name: str, draw: Draw) -> Call:
    method = draw.pick(["predict", "expected_loss", *(m for m in PREDICTIONS if hasattr(_fitted(name), m))])
    good = {"X": ESTIMATORS[name][1]["X"]}
    if method in ("predict", "expected_loss"):
        good |= OF_PREDICT.get(name, {"loss": "zero-one", "costs": np.ones((12, 3))})
    given = draw.arguments(**good)
    draw.said.insert(0, method)
    return lambda: getattr(_fitted(name), method)(**given)


def _targets() -> dict[str, Callable[[Draw], Call]]:
    found: dict[str, Callable[[Draw], Call]] = {}
    for name, (estimator, _) in ESTIMATORS.items():
        methods = {"fit": _fit, "score": _score, "predict": _predict, "partial_fit": _partial_fit}
        if name == "TaskLossEstimator":
            methods["fit_stream"] = _fit_stream
        for method, make in methods.items():
            if hasattr(estimator, method):
                found[f"{name}.{method}"] = lambda draw, make=make, name=name: make(name, draw)  # type: ignore[misc]
    return {**found, **PARTS}


TARGETS = _targets()
# Public, and not drawn: what they are given.
NOT_DRAWN = {
    "ConsistencyWarning": "a warning",
    "Diagnosis": "what `diagnose` returns, which is drawn",
    "Packed": "by itself: it keeps what it is given, and the taggers that read it are drawn with it",
    "Formula": "a transformer of data frames, whose formulas formulaic reads",
    "distributed": "what it gives is for Dask collections, which have their own tests of bad input",
    "progress": "what shows the iterations of fits",
    "theory.pass_cost": "dispatched on the surrogate's type, None for others",
}


def outcome(target: str, seed: Any) -> tuple[str, str]:
    """ "accepted", "refused" or what else came of a drawn call, and the call in words."""
    draw = Draw(seed)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            call = TARGETS[target](draw)
            call()
        return "accepted", "; ".join(draw.said)
    except Exception as error:
        said = f"{'; '.join(draw.said)} -> {type(error).__name__}: {error}"
        return ("refused" if refusal(error) and named(str(error), draw.spoilt) else "else"), said


def named(sentence: str, arguments: Iterable[str]) -> bool:
    """Whether a sentence names one of these arguments, by its own name or by a noun that can mean no other."""
    return names_one(sentence, [noun for name in arguments for noun in (name, *NOUNS.get(name, ()))])


def refusal(error: Exception) -> bool:
    """Whether an error is a sentence that somebody wrote for users: of ours, or of scikit-learn's checks.

    Errors of NumPy's and Python's own surface in whatever line of ours called them; a refusal surfaces in a `raise`.
    """
    if isinstance(error, FileNotFoundError):  # Python's own sentence, which names the file
        return True
    if not isinstance(error, ValueError | TypeError):
        return False
    frames = traceback.extract_tb(error.__traceback__)
    last = frames[-1]
    raised = linecache.getline(last.filename, last.lineno or 0).strip().startswith("raise")
    if pathlib.Path(last.filename).is_relative_to(OURS):
        sentence = str(error).strip()
        return raised and sentence[-1:] in ".)" and len(sentence.split()) >= 4
    theirs = [frame for frame in frames if pathlib.Path(frame.filename).is_relative_to(THEIRS)]
    own = any("linear_model" in frame.filename for frame in theirs)  # the classifier that DecodedClassifier decodes
    return bool(theirs) and (raised or own)


def main(count: int = 10_000, seed: int = 0) -> None:
    tables: dict[str, Counter] = {target: Counter() for target in TARGETS}
    kinds = list(TARGETS)
    for i in range(count):
        target = kinds[i % len(kinds)]
        result, said = outcome(target, [seed, i])
        tables[target][result] += 1
        if result == "else":
            print(f"[{seed}, {i}] {target}: {said}"[:400], flush=True)
    rows = [[t, c.total(), c["accepted"], c["refused"], c["else"]] for t, c in tables.items()]
    rows.append(["all", *(sum(row[j] for row in rows) for j in range(1, 5))])
    note = (
        "Each call is of a public callable with none, one or two of its arguments or hyperparameters replaced at random. It must work, or "
        "raise a ValueError or TypeError whose sentence, written here or by scikit-learn's checks, names an argument that was replaced; anything else is a bug."
    )
    header = ["callable", "calls", "accepted", "refused with a sentence", "anything else"]
    left = "; ".join(f"`{name}` ({why})" for name, why in NOT_DRAWN.items())
    note += f" Seed {seed}. Public names that are not drawn: {left}; and the pictures of `plots`."
    print(write_table("draws", "Bad input by machine", header, rows, note=note))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
