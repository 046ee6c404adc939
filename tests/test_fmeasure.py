"""The F-measure: its decomposition and decoder against enumeration, and fits whose statistics serve other losses too."""

import numpy as np
import pytest
from sklearn.metrics import f1_score, fbeta_score

import taskloss as tl
from taskloss.losses import FBeta, Hamming, ZeroOne
from taskloss.polytopes import SizedSets
from taskloss.surrogates import MaxEntropy, Multinomial, RowMultinomial, automatic


def all_sets(k):
    return (np.arange(2**k)[:, None] >> np.arange(k)[::-1]) & 1


@pytest.mark.parametrize("beta", [0.5, 1.0, 2.0])
def test_loss_equals_scikit_learn(beta):
    rng = np.random.default_rng(0)
    z, y = rng.integers(0, 2, (2, 200, 4))
    expected = fbeta_score(y, z, beta=beta, average="samples", zero_division=1)
    # zero_division matters where both sets are empty.
    assert 1 - FBeta(4, beta)(z, y).mean() == pytest.approx(expected)
    assert FBeta(4, beta)(np.zeros(4), np.zeros(4)) == 0


@pytest.mark.parametrize("k", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("beta", [0.5, 1.0, 2.0])
def test_decomposition_and_decoder_against_enumeration(k, beta):
    loss = FBeta(k, beta)
    sets = all_sets(k)
    matrix = loss.matrix()
    np.testing.assert_allclose(loss.psi(sets) @ loss.phi(sets).T + loss.constant, matrix, atol=1e-12)
    rng = np.random.default_rng(k)
    law = np.concatenate([rng.dirichlet(np.full(2**k, a), 60) for a in (0.02, 0.2, 1.0)])
    mu = law @ loss.phi(sets)
    z = loss.decode(mu)
    risks = law @ matrix.T
    np.testing.assert_allclose(loss.bayes_risk(z, mu), risks.min(1), atol=1e-12)
    np.testing.assert_allclose(risks[np.arange(len(z)), z @ 2 ** np.arange(k)[::-1]], risks.min(1), atol=1e-12)


def test_decoder_is_exact_outside_the_polytope_too():
    """Surrogates with a domain larger than M send moments that belong to no law."""
    loss = FBeta(5, 1.0)
    mu = np.random.default_rng(1).uniform(-1, 1, (50, loss.polytope.size))
    risks = mu @ loss.psi(loss.outputs()).T + 1
    np.testing.assert_allclose(loss.bayes_risk(loss.decode(mu), mu), risks.min(1), atol=1e-12)


def test_sizes_may_be_bounded():
    loss = FBeta(6, 1.0, max_size=2)
    small = loss.labels()
    assert small.sum(1).max() == 2
    np.testing.assert_allclose(loss.psi(loss.outputs()) @ loss.phi(small).T + 1, loss.matrix(), atol=1e-12)
    assert {tuple(r) for r in loss.phi(small)} == {tuple(r) for r in loss.polytope.vertices()}
    # Larger sets than any label may still be the best answer.
    uniform = np.full(len(small), 1 / len(small))
    best = FBeta(6, 2.0, max_size=2)
    assert best.decode(uniform @ best.phi(small)).sum() > 2


def test_every_row_of_the_statistics_is_a_law():
    polytope = SizedSets(4, 3)
    assert polytope.rows * polytope.columns == polytope.size
    tables = polytope.vertices().reshape(-1, polytope.rows, polytope.columns)
    np.testing.assert_array_equal(tables.sum(-1), 1)
    v = np.random.default_rng(2).normal(size=(40, polytope.size))
    best = (v @ polytope.vertices().T).max(-1)
    np.testing.assert_allclose((polytope.maximiser(v) * v).sum(-1), best, atol=1e-12)
    assert automatic(polytope) == RowMultinomial()


def data(rng, n=400, k=5, d=4):
    X = rng.normal(size=(n, d))
    common = rng.normal(size=(n, 1))
    y = (X @ rng.normal(size=(d, k)) + common + 0.5 * rng.normal(size=(n, k)) > 1.0).astype(int)
    return X, y


def test_one_fit_serves_every_beta_and_hamming():
    X, y = data(np.random.default_rng(3))
    model = tl.MultilabelClassifier(loss=FBeta()).fit(X, y)
    assert isinstance(model.surrogate_, RowMultinomial)
    assert model.loss_.max_size == y.sum(1).max()
    f1 = 1 - FBeta(5)(model.predict(X), y).mean()
    assert model.score(X, y) == pytest.approx(f1 - 1)
    hamming = model.predict(X, loss="hamming")
    np.testing.assert_array_equal(hamming, model.predict_proba(X) > 0.5)
    assert f1 > 1 - FBeta(5)(hamming, y).mean()
    assert Hamming(5)(hamming, y).mean() < Hamming(5)(model.predict(X), y).mean()
    two = model.predict(X, loss=FBeta(beta=2.0))
    assert FBeta(5, 2.0)(two, y).mean() < FBeta(5, 2.0)(model.predict(X), y).mean()
    assert two.sum() > model.predict(X).sum()
    expected = model.expected_loss(X, loss="hamming")
    p = model.predict_proba(X)
    np.testing.assert_allclose(expected, np.minimum(p, 1 - p).mean(1), atol=1e-12)


def test_the_surrogate_is_a_multinomial_per_label_over_sizes():
    X, y = data(np.random.default_rng(4))
    model = tl.MultilabelClassifier(loss=FBeta(), alpha=0.01, tol=1e-13).fit(X, y)
    sizes = model.loss_.max_size + 1
    moments = model.predict_moments(X).reshape(len(X), 6, sizes)
    code = np.where(y == 1, y.sum(1, keepdims=True), 0)
    for j in (0, 3):
        single = tl.TaskLossEstimator("zero-one", Multinomial(), alpha=0.01, tol=1e-13).fit(X, code[:, j])
        np.testing.assert_allclose(moments[:, j][:, single.classes_], single.predict_proba(X), atol=2e-4)


def test_label_sets_and_sparse_rows():
    from scipy import sparse

    X, y = data(np.random.default_rng(5), n=120)
    names = np.array(list("abcde"))
    sets = [set(names[row > 0].tolist()) for row in y]
    model = tl.MultilabelClassifier(loss="f-beta").fit(sparse.csr_matrix(X), sets)
    plain = tl.MultilabelClassifier(loss="f-beta").fit(X, y)
    found = np.array([[label in row for label in names] for row in model.predict(sparse.csr_matrix(X))])
    assert (found == plain.predict(X)).mean() > 0.99
    assert f1_score(y, found, average="samples", zero_division=1) == pytest.approx(1 + plain.score(X, y), abs=0.02)


def test_exact_family_on_few_labels():
    """Maximum entropy over the statistics themselves, by enumeration: the same decoder, another surrogate."""
    X, y = data(np.random.default_rng(6), n=150, k=3)
    model = tl.MultilabelClassifier(loss=FBeta(), surrogate=MaxEntropy()).fit(X, y)
    assert model.score(X, y) > tl.MultilabelClassifier().fit(X, y).score(X, y) - 1
    mu = model.predict_moments(X).reshape(len(X), 4, -1)
    # In M, label marginals at size s sum to s times the size's probability.
    np.testing.assert_allclose(mu[:, :3, 1:].sum(1), mu[:, 3, 1:] * np.arange(1, mu.shape[2]), atol=1e-9)


def test_fisher_consistency_where_thresholds_fail():
    """The risk falls to the Bayes risk as n grows; predicting the labels likelier than not stays above it."""
    rng = np.random.default_rng(7)
    k, contexts = 4, 6
    sets = all_sets(k)
    laws = rng.dirichlet(np.full(2**k, 0.15), contexts)
    loss = FBeta(k)
    risks = laws @ loss.matrix().T
    bayes = risks.min(1)
    code = 2 ** np.arange(k)[::-1]

    def excess(z):
        return (risks[np.arange(contexts), z @ code] - bayes).mean()

    marginal = laws @ sets
    threshold = excess((marginal > 0.5).astype(int))
    assert threshold > 0.01
    X, y = np.repeat(np.eye(contexts), 2**k, axis=0), np.tile(sets, (contexts, 1))
    found = []
    for n in (60, 1000, 200_000):
        counts = np.concatenate([rng.multinomial(n // contexts, law) for law in laws]).astype(float)
        model = tl.MultilabelClassifier(loss=FBeta(), alpha=0.02 / n).fit(X, y, counts)
        found.append(excess(model.predict(np.eye(contexts))))
    assert found[-1] < 1e-3 < threshold
    assert found[-1] <= found[0] + 1e-12
    # Decoding the same fit for Hamming loss gives the thresholds.
    np.testing.assert_array_equal(model.predict(np.eye(contexts), loss="hamming"), marginal > 0.5)


def test_binding():
    loss = FBeta().bind(3)
    assert loss == FBeta(3)
    assert loss.bind(3) == loss
    assert loss.bind_codes(np.array([[1, 1, 0]])) == FBeta(3, max_size=2)
    with pytest.raises(ValueError, match="3 labels, but y has 4"):
        loss.bind(4)


def test_clear_sentences():
    X, y = data(np.random.default_rng(8), n=60)
    small = tl.MultilabelClassifier(loss=FBeta(max_size=4)).fit(X[y.sum(1) <= 4], y[y.sum(1) <= 4])
    cases = [
        (lambda: FBeta().polytope, "does not know its number of labels"),
        (lambda: FBeta(3, beta=0.0).polytope, "beta must be"),
        (lambda: FBeta(3, max_size=4).polytope, "max_size must be"),
        (lambda: FBeta(3, max_size=1).phi([[1, 1, 0]]), "larger than max_size=1"),
        (lambda: FBeta(3)([[1, 2, 0]], [[1, 1, 0]]), "0 and 1 only"),
        (lambda: FBeta(3)([[1, 0]], [[1, 1, 0]]), "3 columns"),
        (lambda: FBeta(3).decode(np.zeros((1, 16)), costs=1), "a price for each label"),
        (lambda: small.predict(X, loss=FBeta(max_size=2)), "needs other moments"),
        (lambda: small.predict(X, loss=ZeroOne(5)), "another kind"),
        (lambda: tl.MultilabelClassifier(loss=FBeta(), surrogate="independent").fit(X, y), "does not fit this loss"),
    ]
    for call, sentence in cases:
        with pytest.raises(ValueError, match=sentence):
            call()


def test_a_fit_of_each_label_is_decoded_for_f_as_if_labels_were_independent():
    """Beside all sets, their probabilities products: expected loss and decision, with prices too, for probabilities up to 0 and 1."""
    rng = np.random.default_rng(0)
    k = 5
    p = rng.beta(0.5, 0.7, (40, k))
    p[:6] = rng.integers(0, 2, (6, k))
    p[6:10, 0] = 0.5
    sets = FBeta(k).labels()
    law = np.where(sets[None] > 0, p[:, None], 1 - p[:, None]).prod(-1)
    for beta in (0.5, 1.0, 2.0):
        loss = FBeta(k, beta=beta).embedded_like(Hamming(k))
        risks = law @ loss(sets[:, None], sets[None]).T  # [example, output]
        z = loss.decode(2 * p - 1)
        np.testing.assert_allclose(loss.bayes_risk(z, 2 * p - 1), risks.min(1), atol=1e-12)
        for output, risk in zip(sets, risks.T, strict=True):
            np.testing.assert_allclose(loss.bayes_risk(np.tile(output, (40, 1)), 2 * p - 1), risk, atol=1e-12)
        some = law * (sets.sum(1) >= 2)
        some = some / np.maximum(some.sum(1, keepdims=True), 1e-300)
        several = FBeta(k, beta=beta, min_size=2).embedded_like(Hamming(k))
        least = (some @ loss(sets[:, None], sets[None]).T).min(1)
        there = some.sum(1) > 0.5
        found = several.bayes_risk(several.decode(2 * p - 1), 2 * p - 1)
        np.testing.assert_allclose(found[there], least[there], atol=1e-12)
        prices = rng.uniform(0, 0.3, p.shape)
        z = loss.decode(2 * p - 1, prices)
        found = loss.bayes_risk(z, 2 * p - 1) + (z * prices).sum(1)
        np.testing.assert_allclose(found, (risks + prices @ sets.T).min(1), atol=1e-12)


def test_the_least_size_is_a_number_of_labels():
    with pytest.raises(ValueError, match="min_size must be from 0 to the 3 labels, got 4"):
        FBeta(3, min_size=4).decode(np.zeros((1, FBeta(3).polytope.size)))


def test_hundreds_of_labels_are_decoded_in_tables_of_the_sizes_that_occur():
    rng = np.random.default_rng(1)
    p = rng.beta(0.05, 2, (20, 300))
    loss = FBeta(300).embedded_like(Hamming(300))
    z = loss.decode(2 * p - 1)
    y = (rng.random((4000, *p.shape)) < p).astype(int)
    sampled = np.array([loss(np.tile(a, (4000, 1)), y[:, i]).mean() for i, a in enumerate(z)])
    np.testing.assert_allclose(loss.bayes_risk(z, 2 * p - 1), sampled, atol=0.03)
    for threshold in (0.2, 0.3, 0.5):
        other = (p > threshold).astype(int)
        assert (loss.bayes_risk(z, 2 * p - 1) <= loss.bayes_risk(other, 2 * p - 1) + 1e-12).all()
    X = rng.normal(size=(60, 3))
    labels = (X @ rng.normal(size=(3, 6)) > 0.5).astype(int)
    model = tl.MultilabelClassifier(alpha=1e-2).fit(X, labels)
    assert model.predict(X, loss=FBeta()).shape == labels.shape
    assert (model.expected_loss(X, loss=FBeta()) <= 1).all()
