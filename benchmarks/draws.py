"""Bad input by machine: every public callable with arguments drawn good and bad; it works, or refuses with a sentence of ours.

python -m benchmarks.draws [number of draws] [seed]
"""

from __future__ import annotations

import copy
import io
import linecache
import pathlib
import sys
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import sklearn
from sklearn.base import clone

import taskloss as tl
from taskloss.losses import Loss
from taskloss.solvers import ASGD
from taskloss.surrogates import Surrogate

from .common import write_table
from .drawing import Draw

OURS = pathlib.Path(tl.__file__).parent
THEIRS = pathlib.Path(sklearn.__file__).parent
Call = Callable[[], Any]

_rng = np.random.default_rng(0)
X = _rng.normal(size=(12, 3))
Y = np.arange(12) % 3
NAMES = np.array(["a", "b", "c"])[Y]
SETS = (_rng.random((12, 3)) < 0.5).astype(int)
SETS[:2] = [[0, 1, 0], [1, 0, 1]]
WEIGHTS = _rng.uniform(0.5, 2, 12)
GROUPS = np.repeat(np.arange(4), 3)
SEQUENCES = [_rng.normal(size=(3, 2)) for _ in range(5)]
TAGS = [np.array(["N", "V", "N"])[: len(x)] for x in SEQUENCES]
TREES = tl.Packed(np.concatenate(SEQUENCES), 3 * np.arange(6), np.tile([-1, 0, 0], 5))
PAIRS = [_rng.normal(size=(3, 3, 2)) for _ in range(5)]
MATCHINGS = [_rng.permutation(3) for _ in PAIRS]
COSTS = np.array([[0.0, 1, 2], [3, 0, 1], [1, 1, 0]])
CSV = "p,q,label\n1,2,a\n3,4,b\n5,6,a\n"

# name: (estimator, what fit takes)
ESTIMATORS: dict[str, tuple[Any, dict[str, Any]]] = {
    "TaskLossEstimator": (tl.TaskLossEstimator(), {"X": X, "y": Y, "sample_weight": WEIGHTS}),
    "CostSensitiveClassifier": (tl.CostSensitiveClassifier(COSTS), {"X": X, "y": NAMES, "sample_weight": WEIGHTS}),
    "OrdinalClassifier": (tl.OrdinalClassifier(), {"X": X, "y": Y, "sample_weight": WEIGHTS}),
    "MultilabelClassifier": (tl.MultilabelClassifier(), {"X": X, "y": SETS, "sample_weight": WEIGHTS}),
    "DecodedClassifier": (tl.DecodedClassifier(), {"X": X, "y": NAMES, "sample_weight": WEIGHTS}),
    "KernelPredictor": (tl.KernelPredictor(), {"X": X, "y": NAMES, "sample_weight": WEIGHTS}),
    "Ranker": (tl.Ranker(), {"X": X, "y": Y, "groups": GROUPS, "sample_weight": WEIGHTS}),
    "Matcher": (tl.Matcher(), {"X": PAIRS, "y": MATCHINGS, "sample_weight": WEIGHTS[:5]}),
    "TreeTagger": (tl.TreeTagger(), {"X": TREES, "y": TAGS, "sample_weight": WEIGHTS[:5]}),
    "SequenceTagger": (tl.SequenceTagger(), {"X": SEQUENCES, "y": TAGS, "sample_weight": WEIGHTS[:5]}),
}
# What predict takes beside X, where an estimator has it.
OF_PREDICT: dict[str, dict[str, Any]] = {
    "Ranker": {"groups": GROUPS, "loss": "ndcg"},
    "Matcher": {"loss": "matching-hamming", "costs": [np.ones((3, 3)) for _ in PAIRS]},
    "SequenceTagger": {"loss": "chain-hamming"},
    "TreeTagger": {"loss": "chain-hamming"},
    "MultilabelClassifier": {"loss": "hamming", "costs": np.ones((12, 3))},
}
PREDICTIONS = ("predict_moments", "predict_proba", "predict_scores", "predict_log_proba", "decision_function")


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


def _examples(kind: Any) -> list[Any]:
    return [part for _, cls in sorted(kind.registry.items()) for part in cls.examples()]


def _altered(draw: Draw, part: Any) -> Any:
    """A part, now and then with a hyperparameter that is something else; the constructor only keeps it."""
    names = list(part.get_params(deep=False))
    if not names or draw.rng.random() < 0.6:
        return part
    name = draw.pick(names)
    return part.with_params(**{name: draw.spoil(name, part.get_params(deep=False)[name])})


def _loss(draw: Draw) -> Call:
    part = draw.pick(_examples(Loss))
    z, y = part.outputs()[:4], part.labels()[:4]
    z, y = z[: min(len(z), len(y))], y[: min(len(z), len(y))]
    mu = np.asarray(part.phi(y), dtype=float)
    good = {
        "__call__": {"z": z, "y": y},
        "phi": {"y": y},
        "psi": {"z": z},
        "decode": {"mu": mu},
        "bayes_risk": {"z": z, "mu": mu},
        "worst": {"z": z},
        "matrix": {},
        "bind": {"size": 4},
    }
    method = draw.pick(m for m in good if m != "bind" or part.kind in ("classes", "indicator"))
    part, given = _altered(draw, part), draw.arguments(**good[method])
    draw.said.insert(0, f"{part!r}.{method}")
    return lambda: getattr(part, method)(*given.values())


def _surrogate(draw: Draw) -> Call:
    part = draw.pick(_examples(Surrogate))
    size = part.size or 3
    centre = part.domain.center() if part.domain is not None else np.full(size, 0.5)
    mu = np.tile(centre, (2, 1))
    v = part.link(mu)
    good = {
        "value": {"v": v, "phi": mu},
        "gradient": {"v": v, "phi": mu},
        "value_and_gradient": {"v": v, "phi": mu},
        "divergence": {"mu1": mu, "mu2": mu},
        "potential": {"mu": mu},
        "link": {"mu": mu},
        "inverse_link": {"v": v},
    }
    if isinstance(part, tl.surrogates.Legendre):
        del good["potential"]  # a function of the user's own
    method = draw.pick(good)
    part, given = _altered(draw, part), draw.arguments(**good[method])
    draw.said.insert(0, f"{part!r}.{method}")
    return lambda: getattr(part, method)(*given.values())


def _hypothesis(draw: Draw) -> Call:
    """Hypotheses hold hyperparameters only: the fit is where they are read."""
    cls = draw.pick([tl.hypotheses.Linear, tl.hypotheses.Kernel, tl.hypotheses.Nystrom])
    part = cls(n_centres=5) if cls is tl.hypotheses.Nystrom else cls()
    name = draw.pick(part.get_params(deep=False))
    part = part.with_params(**{name: draw.spoil(name, part.get_params(deep=False)[name])})
    given = draw.arguments(X=X, y=NAMES)
    return lambda: tl.CostSensitiveClassifier(hypothesis=part).fit(**given).predict(X)


def _solver(draw: Draw) -> Call:
    part = draw.pick([tl.solvers.LBFGS, tl.solvers.Newton, ASGD])()
    name = draw.pick(part.get_params(deep=False))
    part = part.with_params(**{name: draw.spoil(name, part.get_params(deep=False)[name])})
    return lambda: tl.CostSensitiveClassifier(solver=part).fit(X, NAMES)


def _stream(draw: Draw) -> Call:
    if draw.rng.random() < 0.4:
        given = draw.arguments(X=X, y=Y, size=5)
        return lambda: list(tl.streams.from_arrays(**given))
    if draw.rng.random() < 0.3:
        import pyarrow
        import pyarrow.parquet

        file = io.BytesIO()
        frame = pd.DataFrame(X, columns=["p", "q", "r"]).assign(label=NAMES)
        pyarrow.parquet.write_table(pyarrow.table(frame), file)
        given = draw.arguments(file=file, target="label", size=5)
        return lambda: list(tl.streams.from_parquet(**given))
    text = draw.pick(
        [CSV, CSV, CSV.replace("5", "x"), CSV + "1,2\n", CSV + '"1,2,a\n', "", "p,q\n", CSV.replace("a", "")]
    )
    good: dict[str, Any] = {"file": io.StringIO(text), "target": "label", "size": 2, "delimiter": ","}
    given = draw.arguments(**good, header=True, labels=str, encoding="utf-8")
    return lambda: list(tl.streams.from_csv(**given))


def _theory(draw: Draw) -> Call:
    which = draw.pick(["decompose", "calibration", "check"])
    if which == "decompose":
        given = draw.arguments(matrix=COSTS, constant=0.5, balance=False, tol=1e-9)
        return lambda: tl.theory.decompose(**given)
    if which == "check":
        given = draw.arguments(surrogate=tl.surrogates.Multinomial(3), phi=tl.losses.ZeroOne(3), laws=10, seed=0)
        return lambda: tl.theory.check(**given)
    given = draw.arguments(loss=tl.losses.ZeroOne(3), surrogate="quadratic", eps=0.25)
    return lambda: tl.theory.calibration(given["loss"], given["surrogate"])(given["eps"])


def _targets() -> dict[str, Callable[[Draw], Call]]:
    found: dict[str, Callable[[Draw], Call]] = {}
    for name, (estimator, _) in ESTIMATORS.items():
        methods = {"fit": _fit, "score": _score, "predict": _predict, "partial_fit": _partial_fit}
        if name == "TaskLossEstimator":
            methods["fit_stream"] = _fit_stream
        for method, make in methods.items():
            if hasattr(estimator, method):
                found[f"{name}.{method}"] = lambda draw, make=make, name=name: make(name, draw)  # type: ignore[misc]
    parts = {"losses": _loss, "surrogates": _surrogate, "hypotheses": _hypothesis, "solvers": _solver}
    return {**found, **parts, "streams": _stream, "theory": _theory}


TARGETS = _targets()


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
        return ("refused" if refusal(error) else "else"), said


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
        "raise a ValueError or TypeError that was written for users, here or by scikit-learn's checks; anything else is a bug."
    )
    header = ["callable", "calls", "accepted", "refused with a sentence", "anything else"]
    print(write_table("draws", "Bad input by machine", header, rows, note=note))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
