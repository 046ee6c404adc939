"""`tol` is about the gap that is left: true gaps beside fits run to the end."""

import numpy as np
import pytest
from scipy import sparse

import taskloss as tl
from taskloss.solvers.stopping import Trend


def _fits_to_compare():
    from sklearn.datasets import load_breast_cancer, load_wine
    from sklearn.preprocessing import StandardScaler

    for load in (load_breast_cancer, load_wine):
        X, y = load(return_X_y=True)
        yield tl.CostSensitiveClassifier(alpha=1e-3), X, y
        yield tl.OrdinalClassifier(alpha=1e-3), StandardScaler().fit_transform(X), y
        yield tl.OrdinalClassifier(surrogate="cumulative-link", alpha=1e-3), X, y
        yield tl.MultilabelClassifier(alpha=1e-4), X, np.eye(3, dtype=int)[y] | (X[:, :3] > X[:, :3].mean(0))
        yield tl.CostSensitiveClassifier(hypothesis=tl.hypotheses.Nystrom(50), alpha=1e-5), X, y
    rng = np.random.default_rng(0)
    words = rng.zipf(1.3, (60, 12, 6)) % 500
    X = [[[f"w{w}" for w in here] for here in sequence] for sequence in words]
    y = [(words[i].min(axis=1) + rng.integers(0, 2, 12)) % 5 for i in range(60)]
    yield tl.SequenceTagger(alpha=1e-2, all_possible_states=False), X, y


@pytest.mark.parametrize("number", range(11))
def test_tol_is_about_the_gap_that_is_left(number):
    """Beside fits run to the end: within a factor of three, or below, where the last steps went further than could be told."""
    model, X, y = list(_fits_to_compare())[number]
    least = model.set_params(tol=1e-12).fit(X, y).solution_.value
    for tol in (1e-3, 1e-5):
        found = model.set_params(tol=tol).fit(X, y).solution_
        assert found.value / least - 1 <= 3 * tol
        assert found.optimality <= tol


def _sparse_label_sets(seed):
    """Rows of words whose frequencies fall as a power, and labels of which most are rare, and one that never occurs."""
    rng, n, d, k = np.random.default_rng(seed), 1200, 5000, 16
    share = np.arange(1.0, d + 1) ** -0.9
    words = rng.choice(d, (n, 50), p=share / share.sum())
    X = sparse.csr_matrix((np.ones(words.size), (np.repeat(np.arange(n), 50), words.ravel())), (n, d))
    X.sum_duplicates()
    X.data = np.log1p(X.data)
    X = sparse.csr_matrix(X.multiply(1 / np.sqrt(X.multiply(X).sum(1))))
    scores = X @ (rng.normal(size=(d, k)) * (rng.random((d, k)) < 0.02))
    scores = scores / scores.std(0) + 0.5 * rng.normal(size=scores.shape)
    rare = np.maximum(0.4 * np.arange(1.0, k + 1) ** -1.2, 3 / n)
    y = np.stack([column > np.quantile(column, 1 - q) for column, q in zip(scores.T, rare, strict=True)], axis=1)
    y[:, -1] = False
    return X, y.astype(int)


@pytest.mark.parametrize("alpha", [1e-3, 1e-5])
@pytest.mark.parametrize("seed", [0, 1])
def test_tol_is_about_the_gap_of_sparse_label_sets(seed, alpha):
    assert _worst(tl.MultilabelClassifier(alpha=alpha, solver="lbfgs"), *_sparse_label_sets(seed)) <= 3


@pytest.mark.parametrize("alpha", [1e-3, 1e-4])
@pytest.mark.parametrize("name", ["medical", "enron"])
def test_tol_is_about_the_gap_of_real_label_sets(name, alpha):
    from benchmarks.datasets import tabular

    if name not in tabular.names("multilabel"):
        pytest.skip("needs the public data sets")
    data = tabular.load("multilabel", name)
    rows = data.splits[0][0]
    assert _worst(tl.MultilabelClassifier(alpha=alpha, solver="lbfgs"), data.X[rows], data.y[rows]) <= 3


def _worst(model, X, y):
    """The largest true gap of a fit, in units of its tol."""
    least = model.set_params(tol=1e-10, max_iter=5000).fit(X, y).solution_.value
    gaps = []
    for tol in (1e-3, 1e-5):
        found = model.set_params(tol=tol).fit(X, y).solution_
        assert found.optimality <= tol
        gaps.append((found.value / least - 1) / tol)
    return max(gaps)


def test_a_trend_tells_what_is_left_of_values_that_fall_geometrically():
    """Twice that, by caution; and two rates are told by the slower one, once it is all that is left."""
    trend = Trend()
    for i in range(40):
        left = trend.gaps(np.array([0.5**i, 0.3**i + 1e-3 * 0.8**i]))
    rest = np.array([0.5**39, 1e-3 * 0.8**39])
    assert (left >= rest).all()
    assert (left <= 4 * rest).all()


def test_a_trend_that_goes_on_from_another_search_believes_its_gaps_until_it_has_seen_some_steps():
    trend, known = Trend(np.array([0.2, 0.1])), np.array([0.2, 0.1])
    np.testing.assert_array_equal(trend.gaps(np.array([1.0, 1.0])), known)
    trend.keep(np.array([1]))
    np.testing.assert_array_equal(trend.gaps(np.array([0.5])), known[1:])
    assert trend.gaps(np.array([0.5])) == 0
