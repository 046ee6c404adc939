"""Compile ahead: run every compiled kernel once, as estimators call it, so that its machine code is in the cache.

A kernel's signature has the types of its arguments and how they lie in memory. What estimators pass is best known to
them, so the rehearsal fits them, each on random data just large enough for the compiled path.
"""

from __future__ import annotations

import importlib
import pkgutil
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

_WORK = 1 << 24  # multiplications in a pass from which every compiled path is taken


def kernels() -> dict[str, Any]:
    """Every compiled function by its name, module.function."""
    from . import _compiled

    found = {}
    for info in pkgutil.iter_modules(_compiled.__path__):
        if info.name.startswith(("torch_", "triton_")):  # torch and Triton compile their own
            continue
        module = importlib.import_module(f"{_compiled.__name__}.{info.name}")
        for name, value in vars(module).items():
            if hasattr(value, "py_func") and value.py_func.__module__ == module.__name__:
                found[f"{info.name}.{name}"] = value
    return found


def rehearse(report: Callable[[str], Any] = lambda line: None) -> dict[str, tuple[int, int]]:
    """Compile every kernel for the types that estimators use, in double and single precision.

    Returns
    -------
    counts : for each kernel how many signatures were compiled now, and how many were in the cache already.
    """
    for name, fit in _fits():
        report(name)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Stopped")  # a rehearsal need not converge
            fit()
    return {
        name: (sum(kernel.stats.cache_misses.values()), sum(kernel.stats.cache_hits.values()))
        for name, kernel in kernels().items()
    }


def _fits() -> Iterator[tuple[str, Callable[[], Any]]]:
    from . import estimators
    from .hypotheses import Linear

    rng = np.random.default_rng(0)
    d, k = 64, 8
    n = _WORK // (d * k)
    codes, sets = rng.integers(0, k, n), rng.random((n, k)) < 0.5
    short: dict[str, Any] = {"max_iter": 2}
    tall = rng.normal(size=(n, d))
    words = sparse.random(n, 8 * d, 1 / 8, "csr", random_state=rng)
    for dtype in (np.float64, np.float32):
        for order in ("C", "F"):
            X = np.asarray(tall, dtype=dtype, order=order)
            where = f"{np.dtype(dtype).name}, dense in {'rows' if order == 'C' else 'columns'}"
            yield f"labels, {where}", partial(_use, estimators.CostSensitiveClassifier(**short), X, codes)
            convolved = estimators.CostSensitiveClassifier(surrogate="convolutional-fenchel-young", **short)
            yield f"labels, convolved, {where}", partial(_use, convolved, X, codes)
            yield f"label sets, {where}", partial(_use, estimators.MultilabelClassifier(**short), X, sets)
            for shared in (True, False):
                ordinal = estimators.OrdinalClassifier(shared=shared, **short)
                yield f"ordered labels, {where}", partial(_use, ordinal, X, codes)
        for index in (np.int32, np.int64):
            X = words.astype(dtype)
            X.indices, X.indptr = X.indices.astype(index), X.indptr.astype(index)
            model = estimators.CostSensitiveClassifier(hypothesis=Linear(), **short)
            where = f"{np.dtype(dtype).name}, sparse with {np.dtype(index).name} places"
            yield f"labels, {where}", partial(_use, model, X, codes)
    many = sparse.random(1000, _WORK // 1024, 1e-2, "csr", random_state=rng)
    yield "label sets, many features", partial(_use, estimators.MultilabelClassifier(**short), many, sets[:1000])
    yield "sequences", partial(_sequences, rng)
    yield "matchings", partial(_matchings, rng)
    yield "risk control", partial(_control, rng)
    yield "decisions", partial(_decisions, rng)


def _use(model: Any, X: Any, y: Any) -> None:
    model.fit(X, y).predict(X[:10])


def _decisions(rng: np.random.Generator) -> None:
    from .decisions import decide

    decide(rng.dirichlet(np.ones(16), _WORK // 16 // 8), rng.random((16, 16)))


def _sequences(rng: np.random.Generator) -> None:
    from .data.sequences import Packed
    from .estimators import SequenceTagger
    from .polytopes import PackedChains

    states, length, count = 16, 20, 500
    X = [rng.normal(size=(length, 4)) for _ in range(count)]
    y = [rng.integers(0, states, length) for _ in range(count)]
    moving = SequenceTagger(transition_features=[0, 1], max_iter=2)
    for model in (SequenceTagger(max_iter=2), moving, SequenceTagger(solver="newton", max_iter=1)):
        fitted = model.fit(X, y)
        fitted.predict(X)
        fitted.predict(X, loss="sequence-zero-one")
    tags = [np.array(["O", "B-a", "I-a"])[part % 3] for part in y]
    SequenceTagger(max_iter=2).fit(X, tags).predict_spans(X, threshold=0.5)
    values = sparse.random(length * count, _WORK // (length * count * states) * 12, 0.1, "csr", random_state=rng)
    for words in (values, values.sign()):
        for tol in (1e-3, 1e-7):  # in single precision, and in double
            SequenceTagger(tol=tol, max_iter=2).fit(Packed(words, np.arange(count + 1) * length), np.concatenate(y))
    chains = PackedChains(states, np.arange(count + 1) * length)
    unary = rng.normal(size=(count * length, states))
    for shape in ((states, states), (count * (length - 1), states, states)):
        chains.maximiser(unary, rng.normal(size=shape))
        chains.log_partition_and_marginals(unary, rng.normal(size=shape))


def _matchings(rng: np.random.Generator) -> None:
    from .polytopes import Birkhoff
    from .polytopes.assignment import assign

    for outliers in (False, True):
        assign(rng.normal(size=(2000, 5, 5 + outliers)), outliers, method="compiled")
        polytope = Birkhoff(3, outliers=outliers)
        v = rng.normal(size=(4, polytope.size))
        polytope.log_partition_and_marginals(v)
        polytope.covariance(v)(v)
        polytope.sample(v, random_state=0)


def _control(rng: np.random.Generator) -> None:
    from .control import RiskController
    from .estimators import CostSensitiveClassifier

    X, y = rng.normal(size=(200, 2)), rng.integers(0, 2, 200)
    model = CostSensitiveClassifier().fit(X, y)
    RiskController(model, "zero-one", 0.9, 0.9, knob="abstain", bound="wsr").calibrate(X, y)
