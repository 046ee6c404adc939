"""The benchmarks' own arithmetic, on data small enough to check it."""

import json

import numpy as np
import pytest
from benchmarks import footprint, passes, quality, speed
from benchmarks.datasets import tabular

import taskloss as tl


@pytest.fixture(scope="module")
def problem():
    X = speed.dense(400, 5, 10.0)
    y = speed.draw(X @ np.random.default_rng(2).standard_normal((5, 4)))
    return X, y


def parameters(model):
    return model.coef_, model.intercept_


def test_dense_data_have_the_condition_they_are_named_after():
    X = speed.dense(200_000, 4, 100.0)
    values = np.linalg.eigvalsh(np.cov(X.T))
    assert values[-1] / values[0] == pytest.approx(100, rel=0.05)


@pytest.mark.filterwarnings("ignore:coef_ of a cumulative link")
def test_objectives_equal_those_that_are_minimised(problem):
    X, y = problem
    model = tl.CostSensitiveClassifier(alpha=0.1, tol=1e-12).fit(X, y)
    assert speed.multinomial_value(X, y, 0.1)(parameters(model)) == pytest.approx(model.solution_.value, rel=1e-9)
    Y = (X[:, :3] > 0.3).astype(int)
    model = tl.MultilabelClassifier(alpha=0.1, tol=1e-12).fit(X, Y)
    assert speed.multilabel_value(X, Y, 0.1)(parameters(model)) == pytest.approx(model.solution_.value, rel=1e-9)
    fit = speed.taskloss_fit(lambda tol: tl.OrdinalClassifier(alpha=0.1, tol=tol), X, y, sign=1)
    model = tl.OrdinalClassifier(alpha=0.1, tol=1e-12).fit(X, y)
    assert speed.thresholds_value(X, y, 4, 0.1)(fit(1e-12)) == pytest.approx(model.solution_.value, rel=1e-9)
    make = {"surrogate": "cumulative-link", "alpha": 1e-10}
    fit = speed.taskloss_fit(lambda tol: tl.OrdinalClassifier(**make, tol=tol), X, y, sign=-1)
    model = tl.OrdinalClassifier(**make, tol=1e-12).fit(X, y)
    assert speed.cumulative_value(X, y)(fit(1e-12)) == pytest.approx(model.solution_.value, rel=1e-6)


def test_a_gap_is_reached_before_anything_is_timed(problem):
    X, y = problem
    value = speed.multinomial_value(X, y, 0.1)
    method = speed.Method("ours", speed.taskloss_fit(lambda tol: tl.CostSensitiveClassifier(alpha=0.1, tol=tol), X, y))
    best = value(method.fit(1e-14))
    result = speed.measure(method, value, best)
    assert value(method.fit(result.tol)) / best - 1 == pytest.approx(result.gap, abs=1e-12)
    assert result.gap <= speed.GAP


def test_the_interval_holds_the_mean_as_often_as_it_says():
    rng = np.random.default_rng(0)
    inside = [
        abs(mean) <= half for mean, _, half in (quality.interval([rng.standard_normal(50)], 0.3) for _ in range(2000))
    ]
    assert np.mean(inside) == pytest.approx(0.95, abs=0.02)
    parts = [rng.standard_normal(40) for _ in range(10)]
    assert quality.interval(parts, 1 / 3)[2] > quality.interval(parts, 0.0)[2]  # overlap widens it


def test_verdicts():
    assert [quality.verdict(*pair) for pair in ((-1, 0.5), (0.2, 0.5), (1, 0.5))] == ["win", "tie", "LOSS"]


def test_selection_is_nested_and_on_the_criterion(problem):
    X, y = problem

    class Constant:
        """Predicts one label; only the held-out rows can tell which is best."""

        def __init__(self, n, label):
            self.label = label

        def fit(self, X, y):
            return self

        def predict(self, X):
            return np.full(len(X), self.label)

    common = np.bincount(y).argmax()
    splits = [(np.arange(300), np.arange(300, 400))]
    data = tabular.Dataset("synthetic", X, y, splits)
    grid = [{"label": label} for label in range(4)]
    method = quality.Method("constant", Constant, grid, {"task": None, "zero": lambda z, y: np.abs(z).astype(float)})
    found = quality.evaluate(data, quality.wrong, [method])
    np.testing.assert_array_equal(found["constant, by task"][0], y[300:] != common)
    np.testing.assert_array_equal(found["constant, by zero"][0], y[300:] != 0)


def test_a_preconditioner_without_correction_takes_more_passes():
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    with passes.one_model():
        one = passes.evaluations(X, y, 1e-4, 1e-6)[0]
    assert one > passes.evaluations(X, y, 1e-4, 1e-6)[0]


def test_footprint_measures_the_compiled_way():
    """Its rehearsal on a corner goes by compiled code, and the usual threshold is back after it."""
    from taskloss import parallel

    names: dict = {}
    exec(footprint.COMPILED, names)
    try:
        assert parallel.Executor.for_work(1).compiled
    finally:
        parallel.THREAD_WORK = names["usual"]
    assert not parallel.Executor.for_work(1).compiled


def test_splits_in_parallel_are_those_of_one_process(tmp_path, monkeypatch):
    """A run that is cut short goes on from the splits it has kept, and joins them in the table."""
    pytest.importorskip("lightgbm")
    pytest.importorskip("mord")
    from benchmarks import boosting

    rng = np.random.default_rng(0)
    X, splits = rng.normal(size=(60, 3)), [(np.arange(i, i + 40), np.setdiff1d(np.arange(60), np.arange(i, i + 40))) for i in (0, 20)]  # fmt: skip
    data = tabular.Dataset("small", X, np.digitize(X[:, 0] * X[:, 1], [-0.5, 0.5]), splits)
    monkeypatch.setattr(tabular, "load", lambda folder, name: data)
    monkeypatch.setattr(boosting, "STORE", tmp_path / "boosting.json")
    monkeypatch.setattr(boosting, "RESULTS", tmp_path)
    for name, value in {"ROUNDS": 10, "CHECKS": np.array([0, 5, 10]), "STRENGTHS": (1e-3,)}.items():
        monkeypatch.setattr(boosting, name, value)
    key, parts = "ordinal/ESL", tmp_path / "parts"
    boosting.run([key], 1, -1.0, parts)  # too late to begin
    assert not list(parts.iterdir())
    boosting.work(key, 0, boosting.file_of(parts, key, 0), np.inf)
    first = boosting.file_of(parts, key, 0).stat().st_mtime_ns
    boosting.run([key], 1, 5.0, parts)
    assert boosting.file_of(parts, key, 0).stat().st_mtime_ns == first
    row = json.loads((tmp_path / "boosting.json").read_text())[key]
    each = [boosting.measure_split("ordinal", "ESL", i)["losses"] for i in range(2)]
    for method, (mean, *_) in row["rows"].items():
        assert mean == pytest.approx(np.mean([found[method].mean() for found in each]))
    assert sum(row["starts"]) == 6
    assert "| ESL | MAE | 2 |" in (tmp_path / "boosting.md").read_text()
