"""Matchings: the Birkhoff polytope against enumeration, the assignment solvers against each other, and Matcher."""

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from tests.test_structures import StructureLaws, pytest_generate_tests, task  # noqa: F401

import taskloss as tl
from taskloss.losses import FBeta, MatchingHamming
from taskloss.polytopes import Birkhoff, Product, Simplex
from taskloss.polytopes.assignment import assign, assign_with_duals
from taskloss.surrogates import MaxEntropy, Quadratic, RowMultinomial, automatic

shapes = [(1, None, False), (3, None, False), (4, None, False), (2, 4, False), (1, 5, False)]
shapes += [(1, 1, True), (2, 3, True), (3, 2, True), (4, 1, True), (3, 3, True)]
every_shape = pytest.mark.parametrize("shape", shapes, ids=str)


# -- laws of the structure -------------------------------------------------------------------------------------------


class TestBirkhoff(StructureLaws):
    @classmethod
    def instances(cls):
        losses = [MatchingHamming(*shape) for shape in shapes]
        return [(loss.polytope, loss) for loss in losses]


class TestSizedSets(StructureLaws):
    """The F-measure's statistics are a structure too."""

    @classmethod
    def instances(cls):
        return [(loss.polytope, loss) for loss in FBeta.examples()]


@every_shape
def test_geometry(shape):
    polytope = Birkhoff(*shape)
    vertices = polytope.vertices()
    assert len(vertices) == polytope.count == len(np.unique(vertices, axis=0))
    assert polytope.dimension == np.linalg.matrix_rank(vertices - vertices[0])
    assert polytope.contains(vertices).all()
    assert not polytope.contains(np.full((1, polytope.size), 1.01)).any()
    np.testing.assert_allclose(polytope.center(), vertices.mean(0), atol=1e-13)
    # Every row lies in a simplex: the domain of RowMultinomial holds the matchings.
    domain = RowMultinomial().bind(polytope).domain
    assert domain.contains(vertices).all()


def test_the_papers_dimensions_in_m():
    """(m - 1)^2 for the matchings and m^2 - m for the row-stochastic tables; the paper writes k for m."""
    for m in (2, 3, 4):
        assert Birkhoff(m).dimension == (m - 1) ** 2
        assert RowMultinomial().bind(Birkhoff(m)).domain.dimension == m * m - m


def test_larger_matchings_obey_the_laws_without_enumeration():
    """m = 12 has 479 million matchings. All-equal scores count them; a block structure factorises."""
    a, mu = Birkhoff(12).log_partition_and_marginals(np.zeros((1, 144)))
    np.testing.assert_allclose(np.exp(a), 479001600)
    np.testing.assert_allclose(mu, 1 / 12)
    rng = np.random.default_rng(4)
    left, right = rng.normal(size=(2, 5, 5))
    both = np.full((10, 10), -np.inf)
    both[:5, :5], both[5:, 5:] = left, right
    v = np.where(np.isfinite(both), both, -1e3)
    total = sum(Birkhoff(5).log_partition(t.reshape(1, -1)) for t in (left, right))
    np.testing.assert_allclose(Birkhoff(10).log_partition(v.reshape(1, -1)), total, rtol=1e-12)


def test_marginals_beyond_the_limit_are_refused_but_matching_is_not():
    v = np.random.default_rng(5).normal(size=(2, 17 * 17))
    with pytest.raises(ValueError, match="up to 16 columns, and these have 17"):
        Birkhoff(17).marginals(v)
    assert Birkhoff(17).contains(Birkhoff(17).maximiser(v)).all()


def test_torch_gets_the_gradient_of_the_field():
    torch = pytest.importorskip("torch")
    surrogate, loss = MaxEntropy(Birkhoff(3)), MatchingHamming(3)
    v = np.random.default_rng(20).normal(size=(6, 9))
    leaf = torch.asarray(v).requires_grad_()
    value, gradient = surrogate.value_and_gradient(leaf, torch.asarray(loss.phi(loss.labels())))
    value.sum().backward()
    expected = surrogate.value_and_gradient(v, loss.phi(loss.labels()))
    np.testing.assert_allclose(value.detach().numpy(), expected[0], atol=1e-12)
    np.testing.assert_allclose(leaf.grad.numpy(), expected[1], atol=1e-12)
    np.testing.assert_allclose(gradient.detach().numpy(), expected[1], atol=1e-12)


# -- the assignment solvers ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("m", "n"), [(1, 1), (5, 5), (20, 20), (7, 12), (30, 31)])
@pytest.mark.parametrize("kind", ["real", "ties", "constant", "low-rank"])
def test_compiled_assignment_equals_scipy(m, n, kind):
    rng = np.random.default_rng(6)
    scores = {
        "real": rng.normal(size=(40, m, n)),
        "ties": rng.integers(0, 3, size=(40, m, n)).astype(float),
        "constant": np.full((2, m, n), 0.1),
        "low-rank": rng.normal(size=(40, m, 1)) * rng.normal(size=(40, 1, n)),
    }[kind]
    for outliers in (False, True):
        tables = np.concatenate([scores, rng.normal(size=(len(scores), m, 1))], -1) if outliers else scores
        found = {method: assign(tables, outliers, method) for method in ("compiled", "scipy", "auto")}
        values = {k: np.take_along_axis(tables, z[..., None], 2).sum((1, 2)) for k, z in found.items()}
        np.testing.assert_allclose(values["compiled"], values["scipy"], rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(values["auto"], values["scipy"], rtol=1e-12, atol=1e-12)
        for z in found["compiled"]:
            used = z[z < n]
            assert len(set(used.tolist())) == len(used)
        # Duals that are feasible and as large as the matching prove that it is best.
        _, u, w = assign_with_duals(tables, outliers)
        slack = u[..., None] + np.pad(w, [(0, 0), (0, int(outliers))])[:, None, :] - tables
        assert slack.min() > -1e-10
        assert w.min() >= 0
        np.testing.assert_allclose(u.sum(-1) + w.sum(-1), values["compiled"], rtol=1e-10, atol=1e-10)


def test_assignment_with_outliers_by_hand():
    scores = np.array([[[3.0, 1.0, 0.5], [2.9, -5.0, 0.0]]])  # two rows, two columns and "nothing"
    assert assign(scores, True, "compiled").tolist() == assign(scores, True, "scipy").tolist() == [[1, 0]]
    scores[0, 0, 2] = 2.0
    assert assign(scores, True, "compiled").tolist() == [[2, 0]]


# -- the loss --------------------------------------------------------------------------------------------------------


def test_the_embedding_is_exact_on_random_matchings():
    rng = np.random.default_rng(8)
    loss = MatchingHamming(12, 15)
    z, y = (np.stack([rng.permutation(15)[:12] for _ in range(20)]) for _ in range(2))
    inner = (loss.psi(z) * loss.phi(y)).sum(-1) + loss.constant
    np.testing.assert_allclose(inner, loss(z, y), atol=1e-12)
    np.testing.assert_allclose(inner, (z != y).mean(1), atol=1e-12)


def test_binding():
    loss = MatchingHamming().bind(3)
    assert loss == MatchingHamming(3, 3)
    assert loss.bind(3) == loss
    with pytest.raises(ValueError, match="other tables than 4 rows"):
        loss.bind(4)


def test_row_multinomial_is_max_entropy_on_a_product_of_simplices():
    rng = np.random.default_rng(9)
    bound = RowMultinomial().bind(Birkhoff(3))
    same = MaxEntropy(Product([Simplex(3)] * 3))
    v, phi = rng.normal(size=(5, 9)), MatchingHamming(3).phi(MatchingHamming(3).labels()[:5])
    for mine, theirs in zip(bound.value_and_gradient(v, phi), same.value_and_gradient(v, phi), strict=True):
        np.testing.assert_allclose(mine, theirs)
    assert automatic(Birkhoff(3)) == RowMultinomial()
    with pytest.raises(ValueError, match="no table whose rows are laws"):
        RowMultinomial().bind(Simplex(3))
    with pytest.raises(ValueError, match="4 rows and 4 columns"):
        bound.bind(Birkhoff(4))


def test_row_entropy_is_strongly_convex_with_one_over_m():
    """zeta(eps) >= m eps^2 / 8; the paper's m^2 eps^2 / 8 fails from m = 5 on, at the two-permutation mixture below."""
    m, eps = 6, 0.1
    surrogate = RowMultinomial().bind(Birkhoff(m))
    loss = MatchingHamming(m)
    z, other = np.arange(m), np.roll(np.arange(m), 1)
    # Moments (1 + eps)/2 and (1 - eps)/2 against the tie: the better matching wins by eps in expected loss.
    law = np.array([(1 + eps) / 2, (1 - eps) / 2])
    phi = loss.phi(np.stack([z, other]))
    inner = 1e-9 * np.full(m * m, 1 / m)  # off the boundary, where the gradient is infinite
    mu, tie = law @ phi + inner, phi.mean(0) + inner
    excess = loss.bayes_risk(other, mu) - loss.bayes_risk(z, mu)
    np.testing.assert_allclose(excess, eps, rtol=1e-6)
    divergence = surrogate.divergence(mu[None], tie[None])[0]
    assert m * eps**2 / 8 <= divergence < m**2 * eps**2 / 8


# -- Matcher ---------------------------------------------------------------------------------------------------------


def noisy_pairs(rng, count, sizes, noise, features=4):
    """Node features, copied in another order with noise that grows from feature to feature."""
    X, y = [], []
    for _ in range(count):
        m = int(rng.integers(*sizes))
        a, order = rng.normal(size=(m, features)), rng.permutation(m)
        b = np.empty_like(a)
        b[order] = a + noise * rng.normal(size=a.shape) * 3.0 ** np.arange(features)
        X.append((a, b))
        y.append(order)
    return X, y


@pytest.mark.parametrize("surrogate", ["auto", "quadratic", "logistic", "max-entropy"])
def test_matcher_learns_which_features_to_trust(surrogate):
    rng = np.random.default_rng(10)
    X, y = noisy_pairs(rng, 40, (4, 8), 0.15)
    test, truth = noisy_pairs(rng, 60, (4, 8), 0.15)
    model = tl.Matcher(surrogate).fit(X, y)
    plain = [linear_sum_assignment(((a[:, None] - b[None]) ** 2).sum(-1))[1] for a, b in test]
    accuracy = np.mean([(z == t).mean() for z, t in zip(plain, truth, strict=True)])
    assert 1 + model.score(test, truth) > accuracy + 0.1
    assert abs(model.coef_[0]) > abs(model.coef_[-1])
    for z, mu in zip(model.predict(test), model.predict_moments(test), strict=True):
        assert sorted(z) == list(range(len(z)))
        assert mu.shape == (len(z), len(z))
    losses = [np.mean(z != t) for z, t in zip(model.predict(test), truth, strict=True)]
    assert model.score(test, truth) == pytest.approx(-np.mean(losses))
    assert model.expected_loss(test).shape == (60,)


def test_the_forms_of_input_agree_and_row_order_does_not_matter():
    rng = np.random.default_rng(11)
    X, y = noisy_pairs(rng, 12, (5, 6), 0.2)
    tables = np.stack([(a[:, None] - b[None]) ** 2 for a, b in X])
    models = [tl.Matcher(tol=1e-14).fit(data, y) for data in (X, tables, list(tables), tables[::-1][::-1])]
    for model in models[1:]:
        np.testing.assert_allclose(model.coef_, models[0].coef_, rtol=1e-6)
    shuffled = rng.permutation(5)
    model = tl.Matcher(tol=1e-14).fit([(a[shuffled], b) for a, b in X], [row[shuffled] for row in y])
    np.testing.assert_allclose(model.coef_, models[0].coef_, rtol=1e-6)


def test_quadratic_matcher_is_ridge_regression_on_the_tables():
    from sklearn.linear_model import Ridge

    X, y = noisy_pairs(np.random.default_rng(12), 10, (4, 5), 0.3)
    model = tl.Matcher("quadratic", scale=False, alpha=0.1, tol=1e-14).fit(X, y)
    rows = np.concatenate([((a[:, None] - b[None]) ** 2).reshape(16, -1) for a, b in X])
    target = np.concatenate([MatchingHamming(4).phi(row) for row in y])
    ridge = Ridge(alpha=0.1 * len(X)).fit(rows, target)
    np.testing.assert_allclose(model.coef_, ridge.coef_, rtol=1e-6)
    assert model.intercept_ == pytest.approx(ridge.intercept_)


@pytest.mark.parametrize("surrogate", ["auto", "quadratic", "max-entropy"])
def test_outliers_match_nothing(surrogate):
    rng = np.random.default_rng(13)
    X, y = [], []
    for _ in range(40):
        m, n, inliers = rng.integers(4, 7), rng.integers(4, 7), 3
        a, b = rng.normal(size=(m, 3)), rng.normal(size=(n, 3))
        rows, columns = rng.permutation(m)[:inliers], rng.permutation(n)[:inliers]
        b[columns] = a[rows] + 0.05 * rng.normal(size=(inliers, 3))
        label = np.full(m, -1)
        label[rows] = columns
        X.append((a, b))
        y.append(label)
    model = tl.Matcher(surrogate, features="absolute", unmatched="both", alpha=1e-4).fit(X[:20], y[:20])
    z = model.predict(X[20:])
    assert 1 + model.score(X[20:], y[20:]) > (0.8 if surrogate == "quadratic" else 0.9)
    assert any((row < 0).any() for row in z)
    assert model.predict_moments(X[:1])[0].shape == (len(X[0][0]), len(X[0][1]) + 1)


def test_columns_may_be_left_over():
    rng = np.random.default_rng(14)
    X, y = noisy_pairs(rng, 20, (6, 7), 0.05)
    X = [(a[:4], b) for a, b in X]
    y = [row[:4] for row in y]
    model = tl.Matcher("max-entropy", unmatched="columns").fit(X, y)
    assert model.score(X, y) > -0.2


def test_matcher_in_scikit_learn():
    X, y = noisy_pairs(np.random.default_rng(15), 20, (4, 6), 0.2)
    search = GridSearchCV(tl.Matcher(), {"alpha": [1e-3, 1e2], "surrogate": ["auto", "quadratic"]}, cv=3).fit(X, y)
    assert len(search.predict(X)) == 20
    assert clone(search.best_estimator_).get_params() == search.best_estimator_.get_params()


def test_a_matcher_can_be_fitted_again_to_other_features():
    X, y = noisy_pairs(np.random.default_rng(23), 12, (4, 6), 0.2)
    model = tl.Matcher().fit(X, y)
    narrow = [(a[:, :2], b[:, :2]) for a, b in X]
    again = model.fit(narrow, y)
    np.testing.assert_array_equal(again.coef_, tl.Matcher().fit(narrow, y).coef_)
    assert again.n_features_in_ == 2


def test_neither_parameters_set_later_nor_a_failed_fit_change_predictions():
    X, y = noisy_pairs(np.random.default_rng(24), 12, (4, 6), 0.2)
    model = tl.Matcher("quadratic").fit(X, y)
    before, matched = model.predict_moments(X), model.predict(X)
    with pytest.raises(ValueError, match="two rows"):
        model.fit([(a[:, :2], b[:, :2]) for a, b in X], [0 * row for row in y])
    model.set_params(surrogate="auto", features="absolute", unmatched="both", scale=False)
    for mu, z, old, older in zip(model.predict_moments(X), model.predict(X), before, matched, strict=True):
        np.testing.assert_array_equal(mu, old)
        np.testing.assert_array_equal(z, older)


def test_sparse_nodes_and_kernels():
    from scipy import sparse

    X, y = noisy_pairs(np.random.default_rng(25), 12, (4, 6), 0.2)
    model = tl.Matcher(alpha=0.05, tol=1e-13).fit(X, y)
    thin = tl.Matcher(alpha=0.05, tol=1e-13).fit([(sparse.csr_matrix(a), sparse.csr_matrix(b)) for a, b in X], y)
    np.testing.assert_array_equal(model.coef_, thin.coef_)
    kernel = tl.Matcher(hypothesis=tl.hypotheses.Kernel("linear"), alpha=0.05, tol=1e-13).fit(X, y)
    for one, other in zip(model.predict_moments(X), kernel.predict_moments(X), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-4)
    assert tl.Matcher(hypothesis="kernel").fit(X, y).score(X, y) > -0.5


class FirstRowFirst(MatchingHamming):
    """A mistake in the first row costs all, and any other nothing."""

    def psi(self, z):
        table = self.phi(z).reshape(*np.shape(z), -1)
        table[..., 1:, :] = 0
        return -table.reshape(*np.shape(z)[:-1], -1)

    def __call__(self, z, y):
        return (np.asarray(z)[..., 0] != np.asarray(y)[..., 0]).astype(float)

    def decode(self, mu, costs=None):
        table = np.array(mu, dtype=float).reshape(*np.shape(mu)[:-1], self.n_rows, -1)
        table[..., 1:, :] = 0
        return super().decode(table.reshape(np.shape(mu)), costs)


def test_another_loss_on_matchings_changes_the_decision_alone():
    X, y = noisy_pairs(np.random.default_rng(26), 40, (4, 6), 0.6)
    model = tl.Matcher().fit(X, y)
    assert all((a == b).all() for a, b in zip(model.predict(X, "matching-hamming"), model.predict(X), strict=True))
    loss = FirstRowFirst()
    z = model.predict(X, loss)
    assert [row[0] for row in z] == [mu[0].argmax() for mu in model.predict_moments(X)]
    assert any((a != b).any() for a, b in zip(z, model.predict(X), strict=True))
    np.testing.assert_allclose(model.expected_loss(X, loss), [1 - mu[0].max() for mu in model.predict_moments(X)])
    np.testing.assert_array_equal(model.losses(X, y, loss), [float(a[0] != b[0]) for a, b in zip(z, y, strict=True)])


def test_map_is_the_likeliest_matching_of_the_field():
    X, y = noisy_pairs(np.random.default_rng(22), 25, (4, 5), 0.4)
    model = tl.Matcher("max-entropy", decoding="map").fit(X, y)
    vertices = Birkhoff(4).matchings()
    for (a, b), z in zip(X, model.predict(X), strict=True):
        scores = ((a[:, None] - b[None]) ** 2) / model.scale_ @ model.coef_
        totals = scores[np.arange(4), vertices].sum(1)
        np.testing.assert_array_equal(vertices[totals.argmax()], z)
    # On the exact field the moments decide better in its own expectation, by definition.
    moments = tl.Matcher("max-entropy").fit(X, y)
    assert (moments.expected_loss(X) <= model.expected_loss(X) + 1e-9).all()
    assert (moments.expected_loss(X) < model.expected_loss(X) - 1e-9).any()


def table_law(rng, laws):
    """One example of pairwise indicator features for each context and matching: any table of scores is linear in them."""
    m, contexts = 3, len(laws)
    z = Birkhoff(m).matchings()
    X, y, p = [], [], []
    for c, law in enumerate(laws):
        features = np.zeros((m, m, contexts * m * m))
        features[np.arange(9) // 3, np.arange(9) % 3, c * 9 + np.arange(9)] = 1
        X += [features] * len(z)
        y += list(z)
        p += list(law / contexts)
    return X, y, np.array(p)


def test_fisher_consistency_where_the_mode_and_the_rows_fail():
    """The risk falls to the Bayes risk for every surrogate; the likeliest matching and the rows' argmax stay above it."""
    z = Birkhoff(3).matchings().tolist()
    mode = np.zeros(6)
    # The likeliest matching shares no row with the two rotations, but (1, 0, 2) shares one with each of the three.
    for matching, q in (([0, 1, 2], 0.34), ([1, 2, 0], 0.2), ([2, 0, 1], 0.2), ([1, 0, 2], 0.26)):
        mode[z.index(matching)] = q
    rng = np.random.default_rng(16)
    laws = [mode, *rng.dirichlet(np.full(6, 0.7), 4)]
    X, y, p = table_law(rng, laws)
    loss = MatchingHamming(3)
    matrix = loss.matrix()
    risks = np.array(laws) @ matrix.T
    bayes = risks.min(1)
    modal = risks[np.arange(5), np.argmax(laws, 1)]
    assert (modal - bayes).mean() > 0.005
    rows = (np.array(laws) @ loss.phi(loss.labels())).reshape(5, 3, 3).argmax(-1)
    assert any(len(set(row)) < 3 for row in rows.tolist())  # no matching at all
    for surrogate in ("row-multinomial", "quadratic", "max-entropy"):
        excess = []
        for n in (30, 300, 100_000):
            counts = rng.multinomial(n, p).astype(float)
            model = tl.Matcher(surrogate, scale=False, alpha=0.1 / n).fit(X, y, counts)
            predicted = model.predict(X[::6])
            risk = [risks[c, z.index(row.tolist())] for c, row in enumerate(predicted)]
            excess.append(np.mean(risk - bayes))
        assert excess[-1] <= 1e-3 < (modal - bayes).mean()
        assert excess[-1] <= excess[0] + 1e-12


# -- bad input -------------------------------------------------------------------------------------------------------


def test_clear_sentences():
    rng = np.random.default_rng(17)
    X, y = noisy_pairs(rng, 4, (4, 5), 0.1)
    fitted = tl.Matcher().fit(X, y)
    cases = [
        (lambda: tl.Matcher().fit([], []), "no examples"),
        (lambda: tl.Matcher().fit(X, None), "target y is None"),
        (lambda: tl.Matcher().fit(X, 5), "a matching for each example"),
        (lambda: tl.Matcher().fit(5, y), "a list of examples"),
        (lambda: tl.Matcher().fit(X, y[:3]), "different lengths: 4 and 3"),
        (lambda: tl.Matcher().fit(X, [r[:3] for r in y]), "Example 0 has 4 rows to match"),
        (lambda: tl.Matcher().fit([(a, b[:3]) for a, b in X], y), "4 rows and 3 columns.*unmatched='both'"),
        (lambda: tl.Matcher(unmatched="columns").fit([(a, b[:3]) for a, b in X], y), "4 rows and 3 columns"),
        (lambda: tl.Matcher(unmatched="some").fit(X, y), "unmatched must be"),
        (lambda: tl.Matcher(decoding="best").fit(X, y), "decoding must be"),
        (lambda: tl.Matcher(features="cubic").fit(X, y), "features must be one of squared"),
        (lambda: tl.Matcher().fit(X, [np.zeros(4, int)] * 4), "two rows to the same column"),
        (lambda: tl.Matcher().fit(X, [np.array([0, 1, 2, -1])] * 4), "Example 0.*need unmatched='both'"),
        (lambda: tl.Matcher().fit(X, [np.array([0, 1, 2, 9])] * 4), "columns from 0 to 3"),
        (lambda: tl.Matcher().fit(X, [np.array([0, 1, 2, 0.5])] * 4), "numbers of columns"),
        (lambda: tl.Matcher().fit([(a * np.nan, b) for a, b in X], y), "Example 0 of X contains NaN"),
        (lambda: tl.Matcher().fit([*X[:3], (X[3][0][:, :2], X[3][1][:, :2])], y), "Example 3 of X has 2 features"),
        (lambda: tl.Matcher().fit([(a, b[:, :2]) for a, b in X], y), "4 and 2 features"),
        (lambda: tl.Matcher().fit([a for a, _ in X], y), r"Example 0 of X must be a pair"),
        (lambda: tl.Matcher(alpha=0).fit(X, y), "alpha must be"),
        (lambda: tl.Matcher().fit(X, y, [-1, 1, 1, 1]), "not negative"),
        (lambda: fitted.score(X, y, [-1, 1, 1, 1]), "not negative"),
        (lambda: fitted.score(X, y, np.zeros(4)), "at least one must count"),
        (lambda: fitted.score(X, y, np.ones(3)), "one number for each of the 4 examples"),
        (lambda: tl.Matcher().fit(X, [*y[:2], [0, 1, 2, -1], y[3]]), "Example 2.*need unmatched='both'"),
        (lambda: tl.Matcher().fit(X, [*y[:3], [0, 1, 1, 2]]), "Example 3: its y matches two rows to the same column"),
        (lambda: tl.Matcher().fit(X, [list("abcd")] * 4), "Example 0: its y must be numbers of columns"),
        (lambda: tl.Matcher().fit(X, [[0, 1, None, 2]] * 4), "Example 0: its y must be numbers of columns"),
        (lambda: tl.Matcher().fit(X, [None] * 4), "Example 0: its y must be numbers of columns"),
        (lambda: fitted.predict(X, loss="hamming"), "no loss on matchings"),
        (lambda: fitted.predict([(a[:, :2], b[:, :2]) for a, b in X]), "fitted on 4"),
        (lambda: MatchingHamming().polytope, "does not know its sizes"),
        (lambda: Birkhoff(3, 2).size, "n_rows=3 rows cannot all be matched to n_columns=2"),
        (lambda: assign(np.zeros((1, 3, 2))), "3 rows cannot all be matched"),
        (lambda: assign(np.full((1, 2, 2), np.nan)), "NaN"),
        (lambda: assign(np.zeros((2, 2))), "one table"),
        (lambda: assign(np.zeros((1, 2, 2)), method="magic"), "method must be"),
        (lambda: MatchingHamming(2).decode(np.zeros((1, 4)), costs=1), "a price for each pair"),
        (lambda: MatchingHamming(2).scorer(), "Matcher.score"),
        (lambda: tl.TaskLossEstimator(MatchingHamming()).fit(np.zeros((2, 1)), [0, 1]), "use Matcher"),
        (lambda: tl.Matcher("max-entropy").fit(*noisy_pairs(rng, 2, (17, 18), 0.1)), "up to 16 columns"),
    ]
    for call, sentence in cases:
        with pytest.raises(ValueError, match=sentence):
            call()


def test_quadratic_moments_may_leave_the_polytope_and_still_decode():
    loss = MatchingHamming(3)
    mu = np.random.default_rng(18).normal(size=(6, 9))
    assert Quadratic().bind(loss.polytope) == Quadratic()
    z = loss.decode(mu)
    assert (np.sort(z, -1) == np.arange(3)).all()


def test_verbose_shows_progress(capsys):
    X, y = noisy_pairs(np.random.default_rng(19), 4, (4, 5), 0.1)
    tl.Matcher(verbose=True).fit(X, y)
    assert "iterations, objective" in capsys.readouterr().err


def test_one_fit_serves_both_decodings():
    """Row softmax knows nothing of columns: MAP takes the best assignment of its scores, moments that of its probabilities."""
    X, y = noisy_pairs(np.random.default_rng(26), 30, (5, 7), 0.8)
    model = tl.Matcher("row-multinomial").fit(X, y)
    moments = model.predict(X)
    switched = model.set_params(decoding="map").predict(X)
    refitted = tl.Matcher("row-multinomial", decoding="map").fit(X, y).predict(X)
    np.testing.assert_array_equal(np.concatenate(switched), np.concatenate(refitted))
    assert (np.concatenate(switched) != np.concatenate(moments)).any()
