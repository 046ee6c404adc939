"""Kernel ridge regression for any loss: equal to the embedding, to refitting without an example, and to enumeration."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV
from tests.parts import label

import taskloss as tl
from taskloss.hypotheses import Kernel


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 3))
    codes = (X[:, 0] * 1.5 + 0.4 * rng.normal(size=90) + 2).clip(0, 3).astype(int)
    return X, codes


def losses():
    """Every loss in the library that can be fitted to four classes, or to sets of three labels."""
    found = []
    for kind in tl.losses.Loss.registry.values():
        if not kind.__module__.startswith("taskloss.losses.") or kind.kind not in ("classes", "indicator"):
            continue
        for loss in kind.examples():
            try:
                size = len(loss.labels()) if loss.kind == "classes" else loss.labels().shape[1]
                loss.outputs()
            except (AttributeError, NotImplementedError, ValueError):
                continue
            found.append((loss, size))
    return found


def labels_for(loss, size, X):
    rng = np.random.default_rng(1)
    if loss.kind == "indicator":  # some losses know only sets up to a size
        sets = loss.labels()
        return sets[((X @ rng.normal(size=(3, size)) > 0) @ (1 << np.arange(size))) % len(sets)]
    names = loss.label_names() if hasattr(loss, "label_names") else None
    codes = ((X[:, 0] + 2) / 4 * size).clip(0, size - 1).astype(int)
    codes[:size] = np.arange(size)
    return codes if names is None else np.asarray(names)[codes]


def edit_distance(a, b):
    row = list(range(len(b) + 1))
    for i, x in enumerate(a):
        last, row[0] = row[0], i + 1
        for j, y in enumerate(b):
            last, row[j + 1] = row[j + 1], min(row[j] + 1, row[j + 1] + 1, last + (x != y))
    return row[-1]


# -- agreement -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("loss", "size"), losses(), ids=lambda v: repr(v)[:50])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_decoding_weights_is_decoding_the_embedding(data, loss, size, fit_intercept):
    """Three ways to one decision: ridge regression on phi, weights on phi, and weights on the losses themselves."""
    X = data[0]
    y = labels_for(loss, size, X)
    options = {"gamma": 0.5, "fit_intercept": fit_intercept}
    if loss.constant_by_output and not fit_intercept:  # weights that do not sum to one would count it otherwise
        with pytest.raises(ValueError, match="a constant for each output: use fit_intercept=True"):
            tl.KernelPredictor(loss, alpha=1e-3, **options).fit(X, y)
        return
    new = np.random.default_rng(2).normal(size=(40, 3))
    estimator = tl.TaskLossEstimator(loss, "quadratic", Kernel(**options), alpha=1e-3).fit(X, y)
    predictor = tl.KernelPredictor(loss, alpha=1e-3, **options).fit(X, y)
    weights = predictor.predict_weights(new)
    bound, codes = predictor._fitted.loss, predictor._fitted.codes
    outputs = bound.outputs()
    table = np.stack([bound(np.repeat(outputs[i : i + 1], len(codes), 0), codes) for i in range(len(outputs))])
    risks = weights @ table.T
    chosen = np.asarray(bound.decode(predictor.predict_moments(new)))
    place = [int(np.flatnonzero((outputs == z).reshape(len(outputs), -1).all(1))[0]) for z in chosen]
    np.testing.assert_allclose(risks[np.arange(40), place], risks.min(1), atol=1e-8)
    # A constant for each output is paid once by the embedding and sum(weights) times by the weights: equal where
    # those sum to one.
    if fit_intercept or np.ndim(loss.constant) == 0:
        same = np.asarray(predictor.predict(new)) == np.asarray(estimator.predict(new))
        gap = np.sort(risks, axis=1)
        ties = gap[:, 1] - gap[:, 0] < 1e-8
        assert (same.reshape(40, -1).all(1) | ties).all()
    if fit_intercept:
        np.testing.assert_allclose(weights.sum(1), 1)


def test_weights_are_kernel_ridge_regression(data):
    X, y = data
    new = np.random.default_rng(2).normal(size=(20, 3))
    weights = tl.KernelPredictor("absolute", alpha=1e-2, gamma=0.5, fit_intercept=False).fit(X, y).predict_weights(new)
    targets = np.random.default_rng(3).normal(size=(len(X), 2))
    ridge = KernelRidge(alpha=1e-2 * len(X), kernel="rbf", gamma=0.5).fit(X, targets)
    np.testing.assert_allclose(weights @ targets, ridge.predict(new), atol=1e-10)


def test_callable_and_library_loss_agree(data):
    X, y = data
    options = {"gamma": 0.5, "alpha": 1e-3}
    known = tl.KernelPredictor("absolute", **options).fit(X, y)
    for other in (
        tl.KernelPredictor(lambda z, t: abs(z - t), candidates=range(4), **options),
        tl.KernelPredictor(lambda Z, Y: np.abs(np.subtract.outer(Z, Y)), vectorised=True, **options),
        tl.KernelPredictor("absolute", candidates=range(4), **options),
        tl.KernelPredictor(
            lambda z, t: abs(z - t),
            decoder=lambda w, labels: min(range(4), key=lambda z: w @ np.abs(z - labels)),
            **options,
        ),
    ):
        other.fit(X, y)
        np.testing.assert_array_equal(np.asarray(other.predict(X), int), known.predict(X))
        np.testing.assert_allclose(other.expected_loss(X), known.expected_loss(X), atol=1e-10)
        assert other.score(X, y) == pytest.approx(known.score(X, y))


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("spec", ["absolute", "callable", "singles"])
@pytest.mark.parametrize("weighted", [False, True])
def test_leave_one_out_is_refitting(data, fit_intercept, spec, weighted):
    """The path's risks are those of n refits, labels that only the left-out row shows being no candidates."""
    X, codes = data[0][:25], data[1][:25]
    if spec == "singles":
        y, loss = np.random.default_rng(4).permutation(25) / 3, lambda z, t: abs(z - t)
    else:
        y, loss = codes, "absolute" if spec == "absolute" else lambda z, t: abs(int(z) - int(t))
    alphas = [1e-4, 1e-2, 1.0]
    options = {"kernel": "precomputed", "fit_intercept": fit_intercept}
    k = rbf_kernel(X, gamma=0.5)
    weights = np.random.default_rng(5).uniform(0.5, 2, 25) if weighted else np.ones(25)
    weights *= 25 / weights.sum()
    path = tl.KernelPredictor(loss, alphas=alphas, **options).fit(k, y, weights)
    for alpha, risk in zip(alphas, path.loo_risks_, strict=True):
        total = 0.0
        for i in range(25):
            rest = np.delete(np.arange(25), i)
            # n alpha is what ridge regression adds to the diagonal: the same for n - 1 points at a larger alpha.
            one = tl.KernelPredictor(loss, alpha=alpha * 25 / weights[rest].sum(), **options)
            one.fit(k[np.ix_(rest, rest)], y[rest], weights[rest])
            total -= weights[i] * one.score(k[i : i + 1, rest], y[i : i + 1]) / 25
        assert risk == pytest.approx(total, abs=1e-9)
    assert path.alpha_ == alphas[int(np.flatnonzero(path.loo_risks_ == path.loo_risks_.min())[-1])]


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_weights_are_repeated_rows(data, fit_intercept):
    X, y = data
    counts = np.random.default_rng(4).integers(0, 3, 90)
    options = {"gamma": 0.5, "fit_intercept": fit_intercept}
    rows = np.repeat(np.arange(90), counts)
    weighted = tl.KernelPredictor("absolute", alpha=1e-3, **options).fit(X, y, sample_weight=counts)
    repeated = tl.KernelPredictor("absolute", alpha=1e-3, **options).fit(X[rows], y[rows])
    np.testing.assert_allclose(weighted.predict_moments(X), repeated.predict_moments(X), atol=1e-8)


def test_path_is_one_decomposition(data):
    """Any strength of the path predicts as a fit at that strength."""
    X, y = data
    path = tl.KernelPredictor("absolute", gamma=0.5).fit(X, y)
    assert len(path.alphas_) == len(path.loo_risks_) > 10
    for alpha in path.alphas_[[3, 9]]:
        one = tl.KernelPredictor("absolute", gamma=0.5, alpha=alpha).fit(X, y)
        np.testing.assert_allclose(path.predict_moments(X, alpha=alpha), one.predict_moments(X), atol=1e-9)
        np.testing.assert_array_equal(path.predict(X, alpha=alpha), one.predict(X))


# -- outputs of every kind -------------------------------------------------------------------------------------------


def test_strings_under_edit_distance():
    rng = np.random.default_rng(5)
    words = np.array(["banana", "bandana", "cabana", "grape", "grapes"])
    noisy = ["".join(c for c in w if rng.uniform() > 0.15) for w in words for _ in range(12)]
    truth = np.repeat(words, 12)

    def kernel(A, B):
        """How many letters and pairs of letters two words share, as a cosine."""
        parts = sorted({w[i : i + n] for w in [*A, *B] for n in (1, 2) for i in range(len(w))})
        a, b = (np.array([[w.count(p) for p in parts] for w in words], float) for words in (A, B))
        return (a @ b.T) / np.outer(np.linalg.norm(a, axis=1), np.linalg.norm(b, axis=1))

    model = tl.KernelPredictor(edit_distance, kernel).fit(noisy, truth)
    assert model.score(noisy, truth) > -0.4
    assert isinstance(model.predict(["banan"])[0], str)
    assert model.predict(["bandna", "grpes"]).tolist() == ["bandana", "grapes"]


def test_sets_of_labels_and_their_symmetric_difference(data):
    X = data[0]
    y = [{w for w, on in zip("abc", row > 0, strict=True) if on} for row in X]
    model = tl.KernelPredictor(lambda z, t: len(z ^ t), gamma=0.5).fit(X, y)
    assert isinstance(model.predict(X)[0], set)
    assert model.score(X, y) > -0.5
    hamming = tl.KernelPredictor(tl.losses.Hamming(), gamma=0.5, alpha=model.alpha_).fit(X, y)
    assert 3 * hamming.score(X, y) == pytest.approx(model.score(X, y), abs=0.15)


def test_points_on_a_circle_with_a_local_minimiser():
    """With the squared chord the best point is the direction of the weighted mean, which refinement finds."""
    from scipy.optimize import minimize_scalar

    rng = np.random.default_rng(6)
    X = rng.uniform(-2, 2, size=(80, 1))
    angles = 2 * X[:, 0] + 0.2 * rng.normal(size=80)

    def refine(z, objective):
        return minimize_scalar(objective, bounds=(z - 0.5, z + 0.5), method="bounded", options={"xatol": 1e-8}).x

    model = tl.KernelPredictor(lambda z, t: 2 - 2 * np.cos(z - t), refine=refine, gamma=2.0, alpha=1e-3).fit(X, angles)
    weights = model.predict_weights(X[:20])
    mean = np.arctan2(weights @ np.sin(angles), weights @ np.cos(angles))
    found = model.predict(X[:20])
    assert found.dtype == float
    np.testing.assert_allclose(np.exp(1j * found), np.exp(1j * mean), atol=1e-5)
    rough = clone(model).set_params(refine=None).fit(X, angles)
    assert (model.expected_loss(X) <= rough.expected_loss(X) + 1e-9).all()


def test_another_loss_on_the_same_weights(data):
    X, y = data
    model = tl.KernelPredictor("absolute", gamma=0.5, alpha=1e-3).fit(X, y)
    squared = tl.KernelPredictor("squared", gamma=0.5, alpha=1e-3).fit(X, y)
    np.testing.assert_array_equal(model.predict(X, loss="squared"), squared.predict(X))
    np.testing.assert_array_equal(model.predict(X, loss=lambda z, t: float((z - t) ** 2)), squared.predict(X))
    np.testing.assert_allclose(model.expected_loss(X, loss="squared"), squared.expected_loss(X))


def structured():
    """Every loss of the library on rankings, matchings and sequences that can list its outputs once it is fitted to rows of four."""
    rankings = [tl.losses.NDCG(), tl.losses.DCG(top=3.0), tl.losses.PrecisionAt(2)]
    given = [*rankings, tl.losses.MatchingHamming(), tl.losses.MatchingHamming(4, 5)]
    sequences = [
        loss for kind in tl.losses.Loss.registry.values() if kind.kind == "sequence" for loss in kind.examples()
    ]
    assert {type(loss) for loss in given + sequences} == {
        kind
        for kind in tl.losses.Loss.registry.values()
        if kind.kind not in ("classes", "indicator") and kind.__module__.startswith("taskloss.losses.")
    }
    return given + sequences


def rows_for(loss, X):
    """Rows of labels that depend on X."""
    rng = np.random.default_rng(3)
    order = np.argsort(X @ rng.normal(size=(3, 5)), axis=1)[:, :4]
    if loss.kind != "sequence":
        return order if loss.kind == "matching" and loss.n_columns else order.argsort(axis=1)
    labels = loss.labels()
    return labels[((X @ rng.normal(size=(3, 10)) > 0) @ (1 << np.arange(10))) % len(labels)]


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("loss", structured(), ids=label)
def test_structures_are_decoded_from_their_embedding(data, loss, fit_intercept):
    """As the same loss given as a callable would be, with every output a candidate; and as the weights say."""
    X = data[0]
    y = rows_for(loss, X)
    options = {"gamma": 0.5, "alpha": 1e-3, "fit_intercept": fit_intercept}
    model = tl.KernelPredictor(loss, **options).fit(X, y)
    bound = model._fitted.loss

    def pairs(z, t):
        return bound(np.asarray(z)[None], np.asarray(t)[None])[0]

    listed = tl.KernelPredictor(pairs, candidates=bound.outputs(), **options).fit(X, y)
    table = np.stack([bound(np.repeat(z[None], len(y), 0), y) for z in bound.outputs()])
    least = (model.predict_weights(X) @ table.T).min(axis=1)
    np.testing.assert_allclose(listed.expected_loss(X), least, atol=1e-8)
    if fit_intercept or not np.any(bound.constant):
        np.testing.assert_allclose(model.expected_loss(X), least, atol=1e-8)
    assert model.predict(X).shape == (90, y.shape[1])
    chosen = model.predict(X)
    reached = np.einsum(
        "ni,ni->n", model.predict_weights(X), np.stack([bound(np.repeat(z[None], 90, 0), y) for z in chosen])
    )
    np.testing.assert_allclose(reached, least, atol=1e-8)
    given = tl.KernelPredictor(loss, candidates=bound.outputs(), **options).fit(X, y)
    np.testing.assert_allclose(given.expected_loss(X), least, atol=1e-8)
    if fit_intercept:
        assert model.score(X, y) == pytest.approx(listed.score(X, y))


def test_sequences_of_words(data):
    """Labels of any type, named outputs, another loss on the same weights, and more sequences than can be listed."""
    X = data[0]
    words = np.array(["a", "b", "c"])
    y = words[(np.cumsum(X @ np.random.default_rng(4).normal(size=(3, 9)), axis=1) > 0).astype(int) + (X[:, :1] > 1)]
    model = tl.KernelPredictor("chain-hamming", gamma=0.5, alpha=1e-3).fit(X, y)
    assert model.score(X, y) == pytest.approx(-(model.predict(X) != y).mean())
    assert model.classes_.tolist() == ["a", "b", "c"]
    each = [tl.KernelPredictor(gamma=0.5, alpha=1e-3).fit(X, y[:, t]).predict(X) for t in range(9)]
    np.testing.assert_array_equal(model.predict(X), np.stack(each, axis=1))
    whole = tl.KernelPredictor("sequence-zero-one", gamma=0.5, alpha=1e-3).fit(X, y)  # 3^9 sequences
    joined = np.array(["".join(row) for row in y])
    same = tl.KernelPredictor(gamma=0.5, alpha=1e-3).fit(X, joined).predict(X)
    assert ["".join(row) for row in whole.predict(X)] == same.tolist()
    assert ["".join(row) for row in model.predict(X, loss="sequence-zero-one")] == same.tolist()
    skip = tl.losses.ChainCost(np.vstack([1 - np.eye(3), np.full((1, 3), 0.3)]), outputs=["a", "b", "c", "?"])
    found = tl.KernelPredictor(skip, gamma=0.5, alpha=0.1).fit(X, y)
    assert "?" in found.predict(X)
    right = np.where(found.predict(X) == "?", 0.3, found.predict(X) != y)
    assert found.score(X, y) == pytest.approx(-right.sum(axis=1).mean())
    with pytest.raises(ValueError, match="one row per example, all of one length"):
        tl.KernelPredictor("chain-hamming").fit(X, [["a"] * (1 + i % 2) for i in range(90)])
    with pytest.raises(ValueError, match="Unknown label 'd'"):
        model.score(X, np.where(y == "a", "d", y))
    with pytest.raises(ValueError, match="rows of 4 codes"):
        tl.KernelPredictor(tl.losses.ChainHamming(length=4)).fit(X, y)


def test_losses_as_classes_and_matrices(data):
    X, y = data
    matrix = tl.losses.Absolute(4).matrix()
    expected = tl.KernelPredictor("absolute", alpha=1e-3).fit(X, y).predict(X)
    np.testing.assert_array_equal(tl.KernelPredictor(tl.losses.Absolute, alpha=1e-3).fit(X, y).predict(X), expected)
    np.testing.assert_array_equal(tl.KernelPredictor(matrix, alpha=1e-3).fit(X, y).predict(X), expected)
    np.testing.assert_array_equal(tl.KernelPredictor(alpha=1e-3).fit(X, y).predict(X, loss=matrix), expected)


def test_costs_per_example_and_weights_in_score(data):
    X, y = data
    model = tl.KernelPredictor("absolute", alpha=1e-3).fit(X, y)
    listed = tl.KernelPredictor(lambda z, t: abs(z - t), alpha=1e-3, candidates=[0, 1, 2, 3]).fit(X, y)
    order = listed.labels_.astype(int)
    costs = np.random.default_rng(0).uniform(0, 3, (90, 4, 4))
    expected = np.einsum("nzy,ny->nz", costs, model.predict_moments(X))
    for one, table in ((model, costs), (listed, costs[:, :, order])):
        np.testing.assert_array_equal(one.predict(X, costs=table).astype(int), expected.argmin(1))
        np.testing.assert_allclose(one.expected_loss(X, costs=table), expected.min(1))
    price = np.zeros((90, 4))
    price[:, 0] = 100
    assert (model.predict(X, costs=price) > 0).all()
    assert model.score(X, y, sample_weight=y == 1) == pytest.approx(-np.abs(model.predict(X) - y)[y == 1].mean())
    with pytest.raises(ValueError, match="outputs that can be listed"):
        tl.KernelPredictor("absolute", refine=lambda z, f: z).fit(X, y).predict(X, costs=price)


def test_behaves_as_an_estimator(data, capsys):
    X, y = data
    model = tl.KernelPredictor("absolute", verbose=True).fit(X, y)
    assert "strengths" in capsys.readouterr().err
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    search = GridSearchCV(tl.KernelPredictor("absolute"), {"gamma": [1e3, 0.5]}, cv=3, error_score="raise").fit(X, y)
    assert search.best_params_ == {"gamma": 0.5}
    import pandas as pd

    sizes = pd.Series(
        pd.Categorical(np.array(["small", "mid", "large"])[y.clip(0, 2)], ["small", "mid", "large"], ordered=True)
    )
    ordered = tl.KernelPredictor("absolute").fit(pd.DataFrame(X, columns=["a", "b", "c"]), sizes)
    assert ordered.labels_.tolist() == ["small", "mid", "large"]
    assert ordered.feature_names_in_.tolist() == ["a", "b", "c"]


def test_a_callable_is_a_loss_for_every_estimator(data):
    """Listed makes the decisions of the table of its values, in any estimator, and on any fit with labels of its own."""
    X, codes = data
    words = np.array(["banana", "bandana", "cabana", "grape"])
    y, loss = words[codes], tl.losses.Listed(edit_distance)
    table = np.array([[edit_distance(z, t) for t in words] for z in words])
    listed = tl.TaskLossEstimator(loss).fit(X, y)
    np.testing.assert_array_equal(
        listed.predict(X), tl.TaskLossEstimator(tl.losses.CostMatrix(table)).fit(X, y).predict(X)
    )
    plain = tl.CostSensitiveClassifier().fit(X, y)
    np.testing.assert_array_equal(plain.predict(X, loss=loss), listed.predict(X))
    np.testing.assert_allclose(plain.expected_loss(X, loss=loss), listed.expected_loss(X))
    price = np.zeros((90, 4))
    price[:, 0] = 100
    assert "banana" not in listed.predict(X, costs=price)
    some = tl.TaskLossEstimator(loss.with_params(candidates=["grapes", "banana"])).fit(X, y)
    assert set(some.predict(X)) <= {"grapes", "banana"}
    assert some.score(X, y) == pytest.approx(
        -np.mean([edit_distance(z, t) for z, t in zip(some.predict(X), y, strict=True)])
    )
    kernel = tl.KernelPredictor(loss, alpha=1e-3).fit(X, y)
    np.testing.assert_array_equal(kernel.predict(X), tl.KernelPredictor(edit_distance, alpha=1e-3).fit(X, y).predict(X))
    with pytest.raises(ValueError, match="Listed needs its function"):
        tl.TaskLossEstimator("listed").fit(X, y)


def test_scores_labels_that_training_never_saw(data):
    X, codes = data
    model = tl.KernelPredictor(lambda z, t: abs(float(z) - float(t)), alpha=1e-3).fit(X, codes)
    assert model.score(X, codes + 100) == pytest.approx(-np.abs(model.predict(X) - codes - 100).mean())


def test_a_file_holds_no_matrix_of_all_pairs(data):
    """Another alpha, another loss and the weights themselves are there after loading, at the cost of their computation."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(600, 5))
    y = (X[:, 0] > 0).astype(int) + (X[:, 1] > 0)
    model = tl.KernelPredictor("absolute").fit(X, y, rng.integers(0, 3, 600))
    file = pickle.dumps(model)
    assert len(file) < 5 * X.nbytes
    again = pickle.loads(file)
    new = rng.normal(size=(40, 5))
    np.testing.assert_array_equal(again.predict(new), model.predict(new))
    np.testing.assert_allclose(
        again.predict_moments(new, alpha=1e-2), model.predict_moments(new, alpha=1e-2), atol=1e-8
    )
    np.testing.assert_allclose(again.predict_weights(new), model.predict_weights(new), atol=1e-8)
    np.testing.assert_array_equal(again.predict(new, loss="squared"), model.predict(new, loss="squared"))


@pytest.mark.parametrize(
    "change",
    [
        {"y": "short"},
        {"weights": "negative"},
        {"kernel": "gaussian"},
        {"kernel": lambda A, B: np.full((len(A), len(B)), np.nan)},
        {"alpha": -1.0},
        {"candidates": []},
    ],
    ids=lambda c: "-".join(c),
)
def test_a_fit_that_fails_leaves_the_earlier_one(data, change):
    X, y = data
    model = tl.KernelPredictor("absolute").fit(X, y)
    before = model.predict(X), model.alpha_, model.n_features_in_
    old = model.get_params()
    weights = -np.ones(50) if change.get("weights") else None
    labels = y[:49] if change.get("y") else y[:50]
    model.set_params(**{key: value for key, value in change.items() if key not in ("y", "weights")})
    with pytest.raises(ValueError, match=r"\w+"):
        model.fit(X[:50, :2], labels, weights)
    model.set_params(**old)
    np.testing.assert_array_equal(model.predict(X), before[0])
    assert (model.alpha_, model.n_features_in_) == before[1:]


# -- bad input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"alpha": 0.0}, "alpha must be finite and above zero, got"),
        ({"alphas": [0.0, 1.0]}, "alphas must be finite and above zero, got"),
        ({"alphas": []}, "alphas must be finite and above zero, got"),
        ({"alpha": "best"}, "alpha must be a number above zero or 'auto'"),
        ({"loss": lambda z, y: np.zeros(3)}, "must return one number for an output z and a label y, but returned an array of shape"),
        ({"loss": lambda z, y: "far"}, "must return one number for an output z and a label y, but returned 'far'"),
        ({"loss": lambda z, y: np.nan}, "The loss returned nan for the output"),
        ({"loss": lambda Z, Y: np.zeros(2), "vectorised": True}, "A vectorised loss must return one number for each output and label"),
        ({"loss": "nearest"}, "There is no loss named 'nearest'"),
        ({"loss": lambda z, y: 0.0, "candidates": []}, "There are no candidates to choose from"),
        ({"kernel": "gaussian"}, "There is no kernel named 'gaussian'"),
        ({"kernel": lambda A, B: -((A[:, None] - B) ** 2).sum(-1), "fit_intercept": False}, "The kernel is not positive definite"),
        ({"kernel": "precomputed"}, "must be square"),
    ],
    ids=lambda v: v if isinstance(v, str) else "-".join(v),
)  # fmt: skip
def test_bad_input_gets_one_sentence(data, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        tl.KernelPredictor(**{"loss": "absolute", **options}).fit(*data)


def test_lengths_and_use_before_fitting(data):
    X, y = data
    with pytest.raises(ValueError, match="X and y have different lengths: 90 and 89"):
        tl.KernelPredictor().fit(X, y[:-1])
    with pytest.raises(ValueError, match="At least two examples are needed"):
        tl.KernelPredictor().fit(X[:1], y[:1])
    for use in (lambda model: model.predict(X), lambda model: model.score(X, y)):
        with pytest.raises(Exception, match="is not fitted yet"):
            use(tl.KernelPredictor())
    model = tl.KernelPredictor(alpha=1e-3).fit(X, y)
    for bad in (np.ones(3), -np.ones(90), np.zeros(90), np.full(90, np.nan)):
        for use in (model.score, model.fit):
            with pytest.raises(ValueError, match=r"^sample_weight (must be|contains|is zero)"):
                use(X, y, sample_weight=bad)
    with pytest.raises(ValueError, match="alpha must be finite and above zero, got -1"):
        tl.KernelPredictor().fit(X, y).predict(X, alpha=-1)
