"""Drawn calls of what is no estimator: losses, surrogates, hypotheses, solvers, streams, theory, networks' losses, model files."""

from __future__ import annotations

import io
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

import taskloss as tl
from taskloss.hypotheses import Hypothesis
from taskloss.losses import Loss
from taskloss.margins import Margin
from taskloss.metrics import Metric
from taskloss.polytopes import Polytope
from taskloss.solvers import ASGD
from taskloss.surrogates import Surrogate

from .drawing import Draw

Call = Callable[[], Any]

_rng = np.random.default_rng(0)
X = _rng.normal(size=(12, 3))
Y = np.arange(12) % 3
NAMES = np.array(["a", "b", "c"])[Y]
COSTS = np.array([[0.0, 1, 2], [3, 0, 1], [1, 1, 0]])
CSV = "p,q,label\n1,2,a\n3,4,b\n5,6,a\n"


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
        "bind": {"size": part.n_labels if part.kind in ("classes", "indicator") else 0},
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
    part = draw.pick(part for part in _examples(Hypothesis) if part.name != "structured")  # which only taggers make
    part, given = _altered(draw, part), draw.arguments(X=X, y=NAMES)
    return lambda: tl.CostSensitiveClassifier(hypothesis=part).fit(**given).predict(X)


def _solver(draw: Draw) -> Call:
    part = draw.pick([tl.solvers.LBFGS, tl.solvers.Newton, ASGD])()
    part = _altered(draw, part)
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
    if text != CSV:
        draw.note("file", repr(text))
    good: dict[str, Any] = {"file": io.StringIO(text), "target": "label", "size": 2, "delimiter": ","}
    given = draw.arguments(**good, header=True, labels=str, encoding="utf-8")
    return lambda: list(tl.streams.from_csv(**given))


def _margin(draw: Draw) -> Call:
    part = draw.pick(_examples(Margin))
    method = draw.pick(["value", "derivative", "link", "inverse_link"])
    argument = {"link": "q", "inverse_link": "v"}.get(method, "u")
    given = draw.arguments(**{argument: np.array([0.25, 0.5])})
    draw.said.insert(0, f"{part!r}.{method}")
    return lambda: getattr(part, method)(*given.values())


def _polytope(draw: Draw) -> Call:
    part = draw.pick(_examples(Polytope))
    method = draw.pick(["log_partition", "marginals", "maximiser", "project"])
    part, given = (
        _altered(draw, part),
        draw.arguments(**{"u" if method == "project" else "v": np.zeros((2, part.size))}),
    )
    draw.said.insert(0, f"{part!r}.{method}")
    return lambda: getattr(part, method)(*given.values())


ZERO_ONE, MULTINOMIAL = tl.losses.ZeroOne(3), tl.surrogates.Multinomial(3)
LEARNING = {"loss": ZERO_ONE, "surrogate": "quadratic", "n": 1000.0, "radius": 1.0, "kappa": 1.0, "confidence": 0.05}
# The functions of `taskloss.theory` that users call, and arguments that are good.
THEORY: dict[str, dict[str, Any]] = {
    "decompose": {"matrix": COSTS, "constant": 0.5, "balance": False, "tol": 1e-9},
    "check": {"surrogate": MULTINOMIAL, "phi": ZERO_ONE, "laws": 10, "seed": 0},
    "calibration": {"loss": ZERO_ONE, "surrogate": "quadratic", "verbose": False, "time_limit": None},
    "linear_calibration": {"loss": ZERO_ONE, "surrogate": "convolutional-fenchel-young", "decision": "likeliest"},
    "margin_calibration": {"margin": tl.margins.Logistic(), "eps": np.array([0.25, 0.5])},
    "margin_distribution": {"source": ZERO_ONE, "data": np.full((4, 3), 1 / 3), "confidence": 0.95, "error": 0.0},
    "check_max_margin": {"loss": ZERO_ONE, "kind": "max-margin", "tol": 1e-9},
    "tightened": {"loss": ZERO_ONE, "v": np.zeros((2, 3))},
    "decision_distances": {"loss": ZERO_ONE, "surrogate": MULTINOMIAL},
    "excess_bound": {"loss": ZERO_ONE, "distance": 0.5, "norm": "l2", "improved": True},
    "crf_bound": {"loss": ZERO_ONE, "eps": 0.25, "improved": False},
    "asgd_bound": LEARNING,
    "regularised_bound": LEARNING,
    "sample_size": {"loss": ZERO_ONE, "surrogate": "quadratic", "eps": 0.1, "radius": 1.0, "kappa": 1.0, "p": None},
    "exponential_bound": {"loss": ZERO_ONE, "surrogate": "quadratic", "n": 1000.0, "margin": 0.1, "alpha": 0.01},
    "osokin_comparison": {"matrix": COSTS, "scores": np.eye(3)},
    "compare": {"loss": ZERO_ONE, "surrogates": ["multinomial", "quadratic"], "eps": [0.1], "noise": 0.1, "kappa": 1.0},
    "form_of": {"surrogate": MULTINOMIAL, "polytope": ZERO_ONE.polytope},
    "strong_convexity": {"surrogate": MULTINOMIAL, "polytope": ZERO_ONE.polytope},
}


@cache
def theory_objects() -> dict[str, Any]:
    """What the functions of `taskloss.theory` return, one for each kind of it that has methods which take numbers."""
    laws = _rng.dirichlet(np.ones(3), 20)
    return {
        "calibration": tl.theory.calibration(ZERO_ONE, "one-vs-all"),
        "linear_calibration": tl.theory.linear_calibration(ZERO_ONE),
        "decision_distances": tl.theory.decision_distances(ZERO_ONE, MULTINOMIAL),
        "margin_distribution": tl.theory.margin_distribution(ZERO_ONE, laws),
        "check_max_margin": tl.theory.check_max_margin(ZERO_ONE),
    }


# Their methods, and arguments that are good.
THEORY_METHODS: dict[str, dict[str, Any]] = {
    **{f"calibration.{name}": {"eps": 0.25} for name in ("exact", "numeric")},
    **{f"calibration.{name}": {"eps": np.array([0.25, 0.5])} for name in ("__call__", "upper_bound", "envelope")},
    "calibration.lower_bound": {"eps": 0.25, "norm": "l2", "improved": False},
    "calibration.conjugate": {"slope": 0.5},
    "calibration.excess_risk": {"delta": np.array([0.1, 0.2])},
    "calibration.hard_margin": {"delta": 0.25},
    "calibration.low_noise": {"p": 2.0, "gamma_p": 3.0},
    "linear_calibration.lower_bound": {"eps": 0.25},
    "linear_calibration.excess_risk": {"delta": 0.1},
    "decision_distances.__call__": {"eps": 0.25},
    "decision_distances.lower_bound": {"eps": 0.25, "sigma": 0.5},
    "decision_distances.excess": {"distance": np.array([0.1, 0.2])},
    **{f"margin_distribution.{name}": {"t": np.array([0.1, 0.2])} for name in ("cdf", "band")},
    **{f"margin_distribution.{name}": {"p": 0.5} for name in ("gamma_p", "gamma_p_lower")},
    "margin_distribution.exponent": {"share": 0.2},
    "margin_distribution.excess_risk": {"zeta": None, "delta": 0.1, "points": 10},
    "check_max_margin.surrogate": {"v": np.zeros((2, 3))},
    "check_max_margin.gap": {"argmax": True},
}


def theory_method(name: str, **given: Any) -> Any:
    """A call of one of these; a calibration function that is asked for is given, and the function that comes of `low_noise` is called."""
    of, _, method = name.partition(".")
    if "zeta" in given:
        given["zeta"] = theory_objects()["calibration"]
    found = getattr(theory_objects()[of], method)(**given)
    return found(0.25) if method == "low_noise" else found


def _theory_method(draw: Draw) -> Call:
    name = draw.pick(THEORY_METHODS)
    good = {key: value for key, value in THEORY_METHODS[name].items() if key != "zeta"}
    given = draw.arguments(**good) | {key: None for key in THEORY_METHODS[name] if key == "zeta"}
    draw.said.insert(0, name)
    return lambda: theory_method(name, **given)


def _theory(draw: Draw) -> Call:
    if draw.rng.random() < 0.4:
        return _theory_method(draw)
    name = draw.pick(THEORY)
    given = draw.arguments(**THEORY[name])
    draw.said.insert(0, name)
    if name == "calibration":
        given["eps"] = draw.arguments(eps=0.25)["eps"]
        return lambda: tl.theory.calibration(*list(given.values())[:-1])(given["eps"])
    return lambda: getattr(tl.theory, name)(**given)


def _network(draw: Draw) -> Call:
    """Losses and layers for networks; arrays that were spoilt are tensors where they can be."""
    import torch

    from taskloss.torch import CRF, OrderedThresholds, TaskLoss

    def tensor(value: Any) -> Any:
        try:
            return torch.as_tensor(np.ascontiguousarray(value)) if isinstance(value, np.ndarray) else value
        except TypeError:
            return value

    which = draw.pick(["TaskLoss", "CRF", "OrderedThresholds"])
    draw.said.insert(0, which)
    made, given = {
        "TaskLoss": ({"loss": "zero-one", "n_labels": 3, "reduction": "mean"}, {"scores": X, "targets": Y}),
        "CRF": ({"num_tags": 3, "batch_first": True}, {"emissions": X.reshape(2, 6, 3), "tags": Y.reshape(2, 6)}),
        "OrderedThresholds": ({"in_features": 3, "n_classes": 4, "rising": False}, {"x": X.astype(np.float32)}),
    }[which]
    layer = {"TaskLoss": TaskLoss, "CRF": CRF, "OrderedThresholds": OrderedThresholds}[which]
    made = draw.arguments(**made) if draw.rng.random() < 0.4 else made
    given = {name: tensor(value) for name, value in draw.arguments(**given).items()}
    return lambda: layer(**made)(*given.values())


LAWS = _rng.dirichlet(np.ones(3), 12)
CLEAR = np.stack([_rng.dirichlet(0.5 + 20 * np.eye(3)[y]) for y in np.tile(Y, 5)])  # enough to tell shares from
DECISIONS: dict[str, dict[str, Any]] = {
    "decide": {"proba": LAWS, "loss": "absolute", "costs": np.ones((12, 3)), "labels": [1, 2, 3]},
    "expected_loss": {"proba": LAWS, "loss": COSTS, "labels": ["a", "b", "c"], "class_prior": [0.2, 0.3, 0.5]},
    "diagnose": {
        "model": LAWS,
        "y": Y,
        "loss": COSTS,
        "labels": [0, 1, 2],
        "sample_weight": np.ones(12),
        "reference": LAWS,
        "bins": 4,
    },
    "reweigh": {"proba": LAWS, "class_prior": [0.2, 0.3, 0.5], "train_prior": [0.5, 0.3, 0.2]},
    "estimate_prior": {
        "proba": CLEAR,
        "proba_ref": CLEAR,
        "y_ref": np.tile(Y, 5),
        "method": "em",
        "train_prior": [1 / 3, 1 / 3, 1 / 3],
        "level": 0.9,
    },
    "example_costs": {
        "X": pd.DataFrame(X, columns=list("pqr")),
        "costs": {"miss": "p", "review": 10},
        "labels": (0, 1),
    },
}


def _decision(name: str) -> Callable[[Draw], Call]:
    def made(draw: Draw) -> Call:
        given = draw.arguments(**DECISIONS[name])
        if name == "expected_loss":  # without shares that the fit saw, others have nothing to be compared with
            given["train_prior"] = [0.4, 0.3, 0.3]
        return lambda: getattr(tl, name)(**given)

    return made


def _monitor(draw: Draw) -> Call:
    model = _model()
    rows = np.tile(X, (4, 1))
    made = {"X_ref": rows, "y_ref": np.tile(NAMES, 4), "level": 0.05, "bounds": (0, 1), "keep": 9}
    made, good = draw.arguments(**made), draw.arguments(X=X[:4], ids=["p", "q", "r", "s"])
    labelled = draw.arguments(y=NAMES[:4]) if draw.rng.random() < 0.5 else {"y": NAMES[:4]}

    def call() -> None:
        monitor = tl.LossMonitor(model, made.pop("X_ref"), made.pop("y_ref"), **made)
        monitor.update(**good)
        monitor.label(**labelled)

    return call


def _controller(draw: Draw) -> Call:
    rows, names = np.tile(X, (20, 1)), np.tile(NAMES, 20)
    made = {
        "loss": "zero-one",
        "target_level": 0.8,
        "confidence_level": 0.9,
        "knob": "abstain",
        "over": "answers",
        "bound": "wsr",
    }
    made = draw.arguments(**made) if draw.rng.random() < 0.6 else made
    given = draw.arguments(X=rows, y=names, sample_weight=np.ones(len(rows)))
    return lambda: tl.RiskController(_model(), **made).calibrate(**given).predict(X)


@cache
def _model() -> Any:
    return tl.CostSensitiveClassifier().fit(X, NAMES)


def _metric(draw: Draw) -> Call:
    part = _altered(draw, draw.pick(m for m in _examples(Metric) if "classes" in m.kinds))
    given = draw.arguments(y_true=Y, y_pred=Y[::-1].copy(), sample_weight=np.ones(12), labels=[0, 1, 2])
    draw.said.insert(0, repr(part))
    return lambda: part(**given)


@cache
def _stored() -> bytes:
    file = io.BytesIO()
    tl.model_files.save(tl.CostSensitiveClassifier().fit(X, NAMES), file)
    return file.getvalue()


def _model_file(draw: Draw) -> Call:
    given = draw.arguments(file=io.BytesIO(_stored()), trusted=[])
    return lambda: tl.model_files.load(**given)


PARTS: dict[str, Callable[[Draw], Call]] = {
    "LossMonitor": _monitor,
    "RiskController": _controller,
    "losses": _loss,
    "surrogates": _surrogate,
    "margins": _margin,
    "polytopes": _polytope,
    "hypotheses": _hypothesis,
    "solvers": _solver,
    "streams": _stream,
    "theory": _theory,
    "torch": _network,
    "model_files.load": _model_file,
    "metrics": _metric,
    **{name: _decision(name) for name in DECISIONS},
}
