"""Kernel and Nyström hypotheses: equal to what they approximate, adjoint, blocked, and kind about bad input."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy import optimize, sparse
from sklearn.base import clone
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics.pairwise import pairwise_kernels, rbf_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks
from tests.parts import label

import taskloss as tl
from taskloss.hypotheses import Kernel, Linear, Nystrom, Thresholds
from taskloss.hypotheses.gram import Gram
from taskloss.objectives import Options, Rows, minimise, objective
from taskloss.objectives.preconditioners import block_diagonal
from taskloss.solvers import LBFGS, ClosedForm, Newton
from taskloss.solvers.closed import left_out
from test_estimators import SETS


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 3))
    y = (X[:, 0] * X[:, 1] > 0).astype(int) + (X[:, 2] > 0.8)
    return X, y


def surrogates():
    return [
        tl.surrogates.Quadratic(),
        tl.surrogates.Multinomial(3),
        tl.surrogates.OneVsAll("logistic", 3),
        tl.surrogates.OneVsAll("square", 3),
        tl.surrogates.MaxEntropy(tl.polytopes.Product([tl.polytopes.Simplex(3)])),
    ]


def fitted(hypothesis, surrogate, X, phi, alpha=1e-3, weights=None, solver=None):
    """The bound hypothesis and the parameters that minimise the risk."""
    weights = np.ones(len(X)) if weights is None else weights
    bound = hypothesis.bind(X, weights)
    options = Options(alpha, solver or Newton(tol=1e-14))
    return bound, minimise(bound, X, Rows(surrogate, phi, weights), options).theta


def penalised(hypothesis, surrogate, X, phi, alpha):
    """The objective of a hypothesis bound to X, all rows alike."""
    return objective(hypothesis.bind(X), X, Rows(surrogate, phi, np.ones(len(X))), alpha)


def scores(hypothesis, surrogate, X, phi, at=None, **options):
    bound, theta = fitted(hypothesis, surrogate, X, phi, **options)
    return bound.predict(theta, X if at is None else at)


# -- the kernel values -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", ["dense", "sparse"])
def test_own_gaussian_kernel_is_scikit_learns(layout):
    rng = np.random.default_rng(1)
    X, C = 3 + rng.normal(size=(40, 5)), 3 + rng.normal(size=(7, 5))
    make = sparse.csr_matrix if layout == "sparse" else np.asarray
    np.testing.assert_allclose(Gram("rbf", make(C), 0.7)(make(X)), rbf_kernel(X, C, gamma=0.7), rtol=0, atol=1e-12)
    np.testing.assert_allclose(Gram("rbf", C, 0.7).diagonal(X), 1.0)


@pytest.mark.parametrize("name", ["linear", "polynomial", "laplacian", "cosine"])
def test_named_kernels_and_their_diagonals(name):
    X = np.random.default_rng(2).normal(size=(100, 4))
    gram = Gram(name, X[:9], 0.3, degree=2, coef0=0.5)
    wanted = pairwise_kernels(X, metric=name, filter_params=True, gamma=0.3, degree=2, coef0=0.5)
    np.testing.assert_allclose(gram(X), wanted[:, :9])
    np.testing.assert_allclose(gram.diagonal(X), np.diag(wanted))


# -- agreement -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kernel", "peer"),
    [
        ({"kernel": "rbf", "gamma": 0.4}, {"kernel": "rbf", "gamma": 0.4}),
        ({"kernel": "laplacian", "gamma": 0.4}, {"kernel": "laplacian", "gamma": 0.4}),
        ({"kernel": "polynomial", "gamma": 0.2, "degree": 2}, {"kernel": "polynomial", "gamma": 0.2, "degree": 2}),
        ({"kernel": lambda A, B: rbf_kernel(A, B, gamma=0.4)}, {"kernel": "rbf", "gamma": 0.4}),
    ],
)
def test_quadratic_is_kernel_ridge(data, kernel, peer):
    X, y = data
    alpha, new = 1e-3, np.random.default_rng(3).normal(size=(30, 3))
    model = tl.TaskLossEstimator("zero-one", "quadratic", Kernel(**kernel, fit_intercept=False), alpha=alpha).fit(X, y)
    ridge = KernelRidge(alpha=alpha * len(X), **peer).fit(X, np.eye(3)[y])
    np.testing.assert_allclose(model.predict_scores(new), ridge.predict(new), atol=1e-8)


def test_precomputed_is_the_kernel_itself(data):
    X, y = data
    new = np.random.default_rng(3).normal(size=(30, 3))
    direct = tl.CostSensitiveClassifier(hypothesis=Kernel(gamma=0.4), alpha=1e-3).fit(X, y)
    given = tl.CostSensitiveClassifier(hypothesis=Kernel("precomputed"), alpha=1e-3).fit(rbf_kernel(X, gamma=0.4), y)
    np.testing.assert_allclose(
        given.predict_scores(rbf_kernel(new, X, gamma=0.4)), direct.predict_scores(new), atol=1e-6
    )


@pytest.mark.parametrize("surrogate", surrogates(), ids=label)
@pytest.mark.parametrize("shared", [False, True])
def test_linear_kernel_is_the_linear_hypothesis(data, surrogate, shared):
    X, y = data
    phi = np.eye(3)[y]
    kernel, linear = (Thresholds(h) if shared else h for h in (Kernel("linear"), Linear()))
    np.testing.assert_allclose(scores(kernel, surrogate, X, phi), scores(linear, surrogate, X, phi), atol=1e-5)


@pytest.mark.parametrize("surrogate", surrogates(), ids=label)
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_nystrom_with_all_centres_is_exact(data, surrogate, fit_intercept):
    X, y = data
    phi, new = np.eye(3)[y], np.random.default_rng(3).normal(size=(30, 3))
    options = {"gamma": 0.4, "fit_intercept": fit_intercept}
    exact = scores(Kernel(**options), surrogate, X, phi, new)
    np.testing.assert_allclose(scores(Nystrom(len(X), **options), surrogate, X, phi, new), exact, atol=1e-6)


def test_ordered_thresholds_in_a_kernel_space(data):
    """The cumulative link is fitted to its minimum: both solvers, and Nyström with all centres, agree."""
    X, y = data
    phi, surrogate = np.eye(3)[y], tl.surrogates.CumulativeLink("logit", 3)
    exact = scores(Thresholds(Kernel(gamma=0.4)), surrogate, X, phi)
    for hypothesis in (Thresholds(Kernel(gamma=0.4)), Thresholds(Nystrom(len(X), gamma=0.4))):
        found = scores(hypothesis, surrogate, X, phi, solver=LBFGS(tol=1e-14))
        np.testing.assert_allclose(found, exact, atol=1e-5)


def test_minimum_over_representer_coefficients(data):
    """An independent solver on a_i, with the penalty a' K a written out, finds the same scores."""
    X, y = data[0][:30], data[1][:30]
    alpha, k = 1e-2, rbf_kernel(X, gamma=0.4)
    phi, surrogate = np.eye(3)[y], tl.surrogates.Multinomial(3)

    def objective(flat):
        a, b = flat[:-3].reshape(-1, 3), flat[-3:]
        value, dv = surrogate.value_and_gradient(k @ a + b, phi)
        gradient = np.concatenate([(k @ dv / len(X) + alpha * k @ a).ravel(), dv.mean(0)])
        return value.mean() + alpha / 2 * np.einsum("ik,ij,jk->", a, k, a), gradient

    found = optimize.minimize(objective, np.zeros(31 * 3), jac=True, method="BFGS", options={"gtol": 1e-10}).x
    v = k @ found[:-3].reshape(-1, 3) + found[-3:]
    mine = scores(Kernel(gamma=0.4), surrogate, X, phi, alpha=alpha)
    np.testing.assert_allclose(mine - mine.mean(1, keepdims=True), v - v.mean(1, keepdims=True), atol=1e-5)


@pytest.mark.parametrize("hypothesis", [Kernel(gamma=0.4), Nystrom(150, gamma=0.4)], ids=label)
def test_weights_are_repeated_rows(data, hypothesis):
    X, y = data
    phi, surrogate = np.eye(3)[y], tl.surrogates.Multinomial(3)
    times = np.random.default_rng(4).integers(1, 3, len(X))
    rows = np.repeat(np.arange(len(X)), times)
    weighted = scores(hypothesis, surrogate, X, phi, weights=times.astype(float))
    again = hypothesis.with_params(n_centres=None) if isinstance(hypothesis, Nystrom) else hypothesis
    np.testing.assert_allclose(scores(again, surrogate, X[rows], phi[rows], X), weighted, atol=1e-5)


@pytest.mark.parametrize("hypothesis", [Kernel(), Nystrom(20), Nystrom(20, centres="leverage")], ids=label)
def test_rows_without_weight_set_neither_the_bandwidth_nor_a_centre(data, hypothesis):
    X, y = data
    far = np.vstack([X, np.full((100, 3), 1e3)])
    weights = np.repeat([1.0, 0.0], [len(X), 100])
    bound = hypothesis.bind(far, weights)
    assert bound.gram_.gamma == pytest.approx(hypothesis.bind(X).gram_.gamma)
    if isinstance(hypothesis, Nystrom):
        assert np.abs(bound.gram_.centres).max() < 10
    both = [
        tl.CostSensitiveClassifier(hypothesis=hypothesis, alpha=1e-3, tol=1e-13).fit(rows, labels, w)
        for rows, labels, w in ((X, y, None), (far, np.concatenate([y, np.zeros(100, int)]), weights))
    ]
    if isinstance(hypothesis, Kernel) and not isinstance(hypothesis, Nystrom):
        a, b = (model.predict_scores(X) for model in both)
        np.testing.assert_allclose(a, b, atol=1e-4)
    with pytest.raises(ValueError, match="n_centres=160 is more than the 150 training points"):
        Nystrom(160).bind(far, weights)


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_matrix], ids=["dense", "sparse"])
def test_bandwidth_counts_a_row_as_often_as_its_weight_says(data, layout):
    X = data[0]
    times = np.random.default_rng(4).integers(0, 3, len(X))
    rows = np.repeat(np.arange(len(X)), times)
    weighted, repeated = Kernel().bind(layout(X), times.astype(float)), Kernel().bind(layout(X[rows]))
    assert weighted.gram_.gamma == pytest.approx(repeated.gram_.gamma)


def test_nystrom_moments_are_those_of_the_weighted_rows(data):
    X = data[0]
    weights = np.random.default_rng(5).integers(0, 4, len(X)).astype(float)
    bound = Nystrom(30, gamma=0.4).bind(X, weights)
    z, w = bound.coordinates(X), weights / weights.sum()
    np.testing.assert_allclose(w @ z, 0, atol=1e-9)
    np.testing.assert_allclose((z * w[:, None]).T @ z, np.diag(bound.moments_), atol=1e-9)


# -- the closed form, and preconditioners ----------------------------------------------------------------------------


def ridge_cases():
    kinds = [Linear(), Linear(False), *Kernel.examples(), *Nystrom.examples()]
    return [(h, weighted) for h in kinds for weighted in (False, True)]


@pytest.mark.parametrize(("hypothesis", "weighted"), ridge_cases(), ids=label)
def test_closed_form_is_the_minimum(data, hypothesis, weighted):
    """As L-BFGS finds it, rows of weight zero among the others."""
    X, y = data
    weights = np.random.default_rng(1).integers(0, 3, len(X)).astype(float) if weighted else None
    options = {"loss": "zero-one", "surrogate": "quadratic", "hypothesis": hypothesis, "alpha": 1e-3}
    closed = tl.TaskLossEstimator(**options, solver="closed-form").fit(X, y, weights)
    found = tl.TaskLossEstimator(**options, solver="lbfgs", tol=1e-15).fit(X, y, weights)
    np.testing.assert_allclose(closed.predict_scores(X), found.predict_scores(X), atol=1e-6)
    assert closed.solution_.value == pytest.approx(found.solution_.value)
    assert closed.solution_.evaluations == 1
    assert closed.solution_.optimality < 1e-12


def test_closed_form_reads_sparse_rows(data):
    X, y = data
    dense, thin = (
        tl.TaskLossEstimator("zero-one", "quadratic", solver="closed-form").fit(rows, y).predict_scores(rows)
        for rows in (X, sparse.csr_matrix(X))
    )
    np.testing.assert_allclose(thin, dense, atol=1e-10)


def test_closed_form_goes_on_where_rounding_has_left_a_gap(data):
    """Means a million times the spread cost twelve digits of the second moments."""
    X, y = data
    options = {"surrogate": "quadratic", "alpha": 1e-3, "tol": 1e-10}
    shifted = tl.TaskLossEstimator("zero-one", **options, solver="closed-form").fit(X + 1e7, y)
    plain = tl.TaskLossEstimator("zero-one", **options, solver="closed-form").fit(X, y)
    np.testing.assert_allclose(shifted.predict_scores(X + 1e7), plain.predict_scores(X), atol=1e-3)


@pytest.mark.parametrize(
    ("surrogate", "hypothesis"), [("multinomial", Linear()), ("quadratic", Thresholds(Kernel()))], ids=label
)
def test_closed_form_says_what_it_needs(data, surrogate, hypothesis):
    with pytest.raises(ValueError, match="The closed-form solver minimises quadratic risks"):
        tl.TaskLossEstimator("zero-one", surrogate, hypothesis, solver="closed-form").fit(*data)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("kind", [Linear(), Kernel(gamma=0.4), Nystrom(9, gamma=0.4)], ids=label)
def test_left_out_scores_are_those_of_fits_without_the_example(data, kind, fit_intercept):
    X, y = data[0][:25], data[1][:25]
    phi, alphas = np.eye(3)[y], np.array([1e-6, 1e-2])
    weights = np.random.default_rng(2).uniform(0.5, 2, 25)
    weights[3], weights = 0.0, weights / weights.sum()
    weights /= weights.sum()
    bound = kind.with_params(fit_intercept=fit_intercept).bind(X, weights)
    form = ClosedForm().form(objective(bound, X, Rows(tl.surrogates.Quadratic(), phi, weights), 1.0))
    z = np.column_stack([bound.coordinates(X), np.full(25, float(fit_intercept))])
    for alpha, found in zip(alphas, left_out(form, alphas), strict=True):
        penalty = alpha * np.eye(z.shape[1])
        penalty[-1, -1] = 0.0
        for i in range(25):
            w = np.where(np.arange(25) == i, 0.0, weights)
            wanted = z[i] @ np.linalg.pinv(z.T @ (w[:, None] * z) + penalty, rcond=1e-14) @ (z.T @ (w[:, None] * phi))
            np.testing.assert_allclose(found[i], wanted, atol=1e-6)


@pytest.mark.parametrize("hypothesis", [Linear(), Kernel(gamma=0.4), Kernel(gamma=0.4, fit_intercept=False)], ids=label)
@pytest.mark.parametrize("shared", [False, True])
def test_blocks_are_the_hessians_own(data, hypothesis, shared):
    """Exact where each score is a problem of its own, and where all share their weights; elsewhere block by block."""
    X, y = data
    hypothesis = Thresholds(hypothesis) if shared else hypothesis
    rng, alpha = np.random.default_rng(3), 1e-2
    for surrogate in (tl.surrogates.OneVsAll("logistic", 3), tl.surrogates.Multinomial(3)):
        problem = penalised(hypothesis, surrogate, X, np.eye(3)[y], alpha)
        shape = problem.start.shape
        theta = problem.flatten(rng.normal(size=shape))
        v = problem.hypothesis.predict(problem.unflatten(theta), X)
        curvature = problem.risk.curvature(v)
        z = problem.hypothesis.coordinates(X)
        apply = block_diagonal(z, curvature, alpha, shared, hypothesis.fit_intercept)
        free = np.ones((len(problem.start), 1)) if hypothesis.fit_intercept else problem.penalised
        g = free * rng.normal(size=shape)
        if surrogate.separable or (shared and hypothesis.fit_intercept):
            back = problem.unflatten(problem.hessian(theta)(problem.flatten(g)))
            if shared and not surrogate.separable:  # all thresholds alike are the function's own constant
                g[-3:] -= g[-3:].mean()
                back = problem.unflatten(problem.hessian(theta)(problem.flatten(g)))
            np.testing.assert_allclose(apply(back), g, atol=1e-3 * np.abs(g).max())
        elif not shared:
            g -= g.mean(axis=1, keepdims=True)
            products = [
                problem.unflatten(problem.hessian(theta)(problem.flatten(g * (np.arange(3) == j))))[:, j]
                for j in range(3)
            ]
            found = apply(np.stack(products, axis=1))
            assert np.isfinite(found).all()
            assert (found * np.stack(products, axis=1)).sum() > 0


@pytest.mark.parametrize("hypothesis", [Nystrom(80, gamma=1.0), Kernel(gamma=1.0)], ids=label)
def test_passes_grow_little_as_the_penalty_falls(hypothesis):
    """Four decades of the penalty cost less than five times the evaluations."""
    rng = np.random.default_rng(14)
    X = rng.normal(size=(500, 2))
    ring = np.digitize(np.hypot(*X.T), [0.8, 1.3, 1.9])
    counts = [
        tl.CostSensitiveClassifier(hypothesis=hypothesis, alpha=alpha, tol=1e-6).fit(X, ring).solution_.evaluations
        for alpha in (1e-3, 1e-7)
    ]
    assert counts[1] < 5 * counts[0]


# -- the contract ----------------------------------------------------------------------------------------------------


def examples():
    return [h for kind in (Linear, Kernel, Nystrom, Thresholds) for h in kind.examples()]


@pytest.mark.parametrize("hypothesis", examples(), ids=label)
def test_maps_are_linear_and_adjoint(data, hypothesis):
    X, rng = data[0], np.random.default_rng(5)
    bound = hypothesis.bind(X)
    theta = rng.normal(size=bound.start(X, np.zeros(2)).shape)
    if not hypothesis.fit_intercept:
        theta[bound.rank(X) :] = 0
    f, dv = bound.features(X), rng.normal(size=(len(X), 2))
    back = bound.contract(bound.pullback(f, dv))
    v = bound.scores(bound.expand(theta), f)
    assert back.shape == theta.shape
    np.testing.assert_allclose((v * dv).sum(), (theta * back).sum(), rtol=1e-9)
    np.testing.assert_allclose(bound.predict(theta, X), v, atol=1e-10)
    z = bound.coordinates(X)
    np.testing.assert_allclose(bound.scores(theta, z), v, atol=1e-7)
    np.testing.assert_allclose(bound.pullback(z, dv), back, atol=1e-7)


@pytest.mark.parametrize("hypothesis", examples(), ids=label)
def test_risk_derivatives(data, hypothesis):
    X, y = data
    risk = penalised(hypothesis, tl.surrogates.Multinomial(3), X, np.eye(3)[y], 0.05)
    rng = np.random.default_rng(6)
    free = np.ones((len(risk.start), 1)) if hypothesis.fit_intercept else risk.penalised
    theta = risk.flatten(0.3 * free * rng.normal(size=risk.start.shape))
    d = risk.flatten(free * rng.normal(size=risk.start.shape))
    up, down = (risk.value_and_gradient(theta + s * 1e-5 * d) for s in (1, -1))
    gradient = risk.value_and_gradient(theta)[1]
    np.testing.assert_allclose((up[0] - down[0]).sum() / 2e-5, (gradient * d).sum(), rtol=1e-6)
    np.testing.assert_allclose((up[1] - down[1]) / 2e-5, risk.hessian(theta)(d), rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize(
    "hypothesis", [Kernel(gamma=0.4), Nystrom(60, gamma=0.4), Nystrom(60, gamma=0.4, centres="leverage")], ids=label
)
def test_theta_is_euclidean_and_uncorrelated(data, hypothesis):
    """|theta|^2 is the squared norm in the Hilbert space, and the features in coordinates have diagonal moments."""
    X = data[0]
    bound = hypothesis.bind(X)
    theta = np.random.default_rng(7).normal(size=bound.start(X, np.zeros(1)).shape)
    a = bound.expand(theta)[:-1]
    k = bound.gram_(bound.gram_.centres)
    np.testing.assert_allclose((a.T @ k @ a).item(), (theta[:-1] ** 2).sum(), rtol=1e-6)
    z = bound.coordinates(X)
    np.testing.assert_allclose(z.mean(0), 0, atol=1e-9)
    np.testing.assert_allclose(z.T @ z / len(X), np.diag(bound.moments_), atol=1e-9)


@pytest.mark.parametrize(
    "hypothesis", [Kernel(gamma=0.4), Nystrom(60, gamma=0.4), Thresholds(Nystrom(60, gamma=0.4))], ids=label
)
def test_preconditioner_is_the_inverse_hessian_of_the_quadratic(data, hypothesis):
    X, y = data
    risk = penalised(hypothesis, tl.surrogates.Quadratic(), X, np.eye(3)[y], 1e-4)
    g = np.random.default_rng(8).normal(size=risk.flatten(risk.start).shape)
    np.testing.assert_allclose(risk.preconditioner(risk.flatten(risk.start))(risk.hessian(risk.start)(g)), g, atol=1e-7)


def test_kernel_values_are_made_in_blocks(monkeypatch):
    """However many rows there are, only so many kernel values exist at one time, in fitting and in predicting."""
    rng = np.random.default_rng(9)
    X = rng.normal(size=(60_000, 2))
    y = (X[:, 0] > 0).astype(int)
    sizes = []
    call = Gram.__call__
    monkeypatch.setattr(Gram, "__call__", lambda self, X: sizes.append(X.shape[0] * self.size) or call(self, X))
    model = tl.CostSensitiveClassifier(hypothesis=Nystrom(200), tol=1e-3).fit(X, y)
    model.predict(X)
    assert sum(sizes) > 3 * X.shape[0] * 200
    assert max(sizes) <= 1 << 24
    assert model.score(X, y) > -0.05


def test_leverage_finds_what_is_rare():
    """A few points that the others do not explain are centres far more often than by a uniform draw."""
    rng = np.random.default_rng(10)
    X = np.vstack([0.3 * rng.normal(size=(1990, 2)), 5 + 3 * rng.normal(size=(10, 2))])

    def rare(centres):
        drawn = [Nystrom(30, gamma=1.0, centres=centres, random_state=s).bind(X).gram_.centres for s in range(10)]
        return sum((c > 2).any(axis=1).sum() for c in drawn) / 10

    assert rare("leverage") > 5 * max(rare("uniform"), 0.5)


def test_newton_and_lbfgs_agree_on_large_scores():
    """Nearly separable data, where the mean curvature is a poor guide."""
    rng = np.random.default_rng(11)
    X = rng.normal(size=(300, 2))
    phi = np.eye(2)[(np.hypot(*X.T) > 1.2).astype(int)]
    for hypothesis in (Kernel(gamma=1.0), Nystrom(80, gamma=1.0)):
        a, b = (
            scores(hypothesis, tl.surrogates.Multinomial(2), X, phi, alpha=1e-5, solver=s)
            for s in (Newton(tol=1e-13), LBFGS(tol=1e-13, max_iter=3000))
        )
        assert np.abs(a).max() > 10
        np.testing.assert_allclose(a, b, atol=1e-3)


# -- faces -----------------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:coef_ of a cumulative link")
@pytest.mark.parametrize("name", ["kernel", "nystrom"])
def test_every_face_takes_a_kernel_by_name(name):
    rng = np.random.default_rng(12)
    X = rng.normal(size=(300, 2))
    ring = np.digitize(np.hypot(*X.T), [0.8, 1.3, 1.9])
    sets = np.stack([ring > 1, X[:, 0] * X[:, 1] > 0], axis=1).astype(int)
    words = np.array(["in", "near", "off", "out"])[ring]
    faces = [
        (tl.TaskLossEstimator("zero-one"), words),
        (tl.CostSensitiveClassifier([[0, 1, 2, 9], [1, 0, 1, 2], [2, 1, 0, 1], [3, 2, 1, 0]]), words),
        (tl.CostSensitiveClassifier(tl.losses.Abstain(cost=0.3)), words),
        (tl.OrdinalClassifier(), ring),
        (tl.OrdinalClassifier(shared=False), ring),
        (tl.OrdinalClassifier(surrogate="cumulative-link"), ring),
        (tl.MultilabelClassifier(), sets),
    ]
    for face, y in faces:
        model = clone(face).set_params(hypothesis=name, alpha=1e-4).fit(X, y)
        linear = clone(face).fit(X, y)
        assert model.score(X, y) > 0.4 * linear.score(X, y)
        again = pickle.loads(pickle.dumps(model))
        np.testing.assert_array_equal(again.predict(X), model.predict(X))
        sign = -1 if model.surrogate_.ordered else 1  # of which scores fall as labels rise, but weights do not
        v = sign * model.hypothesis_.features(X) @ model.coef_.T + model.intercept_
        np.testing.assert_allclose(v, model.predict_scores(X), atol=1e-6)


LEAVE_ONE_OUT = "gamma is scaled to all rows alike, and leave-one-out risk leaves out a row with all its weight"


def exceptions(estimator):
    """The checks that an estimator may fail, each with its reason."""
    if isinstance(estimator, tl.KernelPredictor) and estimator.alpha == "auto":
        return {
            "check_sample_weight_equivalence_on_dense_data": LEAVE_ONE_OUT,
            "check_sample_weight_equivalence_on_sparse_data": LEAVE_ONE_OUT,
        }
    return SETS if isinstance(estimator, tl.MultilabelClassifier) else {}


@parametrize_with_checks(
    [
        tl.CostSensitiveClassifier(hypothesis=Kernel(gamma=0.5), alpha=1e-3, solver="newton", tol=1e-20),
        tl.CostSensitiveClassifier(hypothesis=Nystrom(gamma=0.5), alpha=1e-3, solver="newton", tol=1e-20),
        # as smooth as that, no two points are so far from all others that their scores are equal but for rounding
        tl.MultilabelClassifier(hypothesis=Kernel(gamma=0.05), alpha=1e-3, solver="newton", tol=1e-20),
        tl.KernelPredictor(),
        tl.KernelPredictor(gamma=0.5, alpha=1e-3),
    ],
    expected_failed_checks=exceptions,
    xfail_strict=True,
)
@pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning"
)  # a tolerance of 1e-20, for bit-equal fits, is out of reach
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_model_selection_by_names_and_on_a_precomputed_kernel(data):
    X, y = data
    search = GridSearchCV(
        tl.CostSensitiveClassifier(hypothesis=Nystrom(20)), {"hypothesis__gamma": [1e-4, 0.5], "alpha": [1e-4]}, cv=3
    ).fit(X, y)
    assert search.best_params_["hypothesis__gamma"] == 0.5
    k = rbf_kernel(X, gamma=0.5)
    given = GridSearchCV(
        tl.CostSensitiveClassifier(hypothesis=Kernel("precomputed")), {"alpha": [1e-4, 1e-2]}, cv=3, error_score="raise"
    ).fit(k, y)
    assert given.score(k, y) > -0.3


def test_sparse_rows_are_dense_rows():
    rng = np.random.default_rng(13)
    X = rng.normal(size=(120, 6)) * (rng.uniform(size=(120, 6)) < 0.4)
    y = (X[:, 0] > X[:, 1]).astype(int)
    for hypothesis in (Kernel(gamma=0.5), Nystrom(40, gamma=0.5), Kernel("linear")):
        a, b = (
            tl.CostSensitiveClassifier(hypothesis=hypothesis, tol=1e-13).fit(rows, y).predict_scores(rows)
            for rows in (X, sparse.csr_matrix(X))
        )
        np.testing.assert_allclose(a, b, atol=1e-4)


def test_single_precision_inputs_are_fitted_in_double(data):
    X, y = data
    a, b = (
        tl.CostSensitiveClassifier(hypothesis=Kernel(gamma=0.4)).fit(rows, y).predict_scores(rows)
        for rows in (X.astype(np.float32), X.astype(np.float32).astype(float))
    )
    np.testing.assert_array_equal(a, b)


def test_warm_start_does_not_mistake_other_coordinates(data):
    X, y = data
    model = tl.CostSensitiveClassifier(hypothesis=Kernel(gamma=0.4), warm_start=True).fit(X, y)
    fresh = tl.CostSensitiveClassifier(hypothesis=Kernel(gamma=0.4)).fit(X[::-1], y[::-1])
    np.testing.assert_allclose(model.fit(X[::-1], y[::-1]).predict_scores(X), fresh.predict_scores(X), atol=1e-9)


@pytest.mark.parametrize("hypothesis", [Kernel(gamma=0.4), Nystrom(30, gamma=0.4)], ids=label)
def test_warm_start_goes_on_where_the_inputs_are_the_same(data, hypothesis):
    X, y = data
    model = tl.CostSensitiveClassifier(hypothesis=hypothesis, warm_start=True, tol=1e-12).fit(X, y)
    first = model.n_iter_
    assert model.fit(X, y).n_iter_ <= 1 < first
    found = model.predict_scores(X)
    model.partial_fit(X, y)
    model.fit(X, y)
    if hypothesis.grows:  # a stream's theta are then coefficients of another kind
        assert model.n_iter_ == first
    np.testing.assert_allclose(model.predict_scores(X), found, atol=1e-3)


def test_a_sparse_precomputed_kernel_is_a_dense_one(data):
    X, y = data
    k = rbf_kernel(X, gamma=0.4)
    dense, thin = (
        tl.CostSensitiveClassifier(hypothesis=Kernel("precomputed")).fit(a, y).predict_proba(a)
        for a in (k, sparse.csr_matrix(k))
    )
    np.testing.assert_allclose(thin, dense, atol=1e-8)
    predictor = tl.KernelPredictor(kernel="precomputed").fit(sparse.csr_matrix(k), y)
    np.testing.assert_array_equal(
        predictor.predict(sparse.csr_matrix(k)), tl.KernelPredictor(kernel="precomputed").fit(k, y).predict(k)
    )


# -- bad input -------------------------------------------------------------------------------------------------------


def indefinite(A, B):
    return -((A[:, None] - B) ** 2).sum(-1)


@pytest.mark.parametrize(
    ("hypothesis", "sentence"),
    [
        (Kernel("gaussian"), "There is no kernel named 'gaussian'; choose one of:"),
        (Kernel(indefinite, fit_intercept=False), "The kernel is not positive definite: its matrix"),
        (Nystrom(20, indefinite), "The kernel is not positive definite: its matrix"),
        (Kernel(lambda A, B: A @ np.triu(np.ones((3, 3))) @ B.T), "The kernel is not symmetric"),
        (Kernel(lambda A, B: np.zeros(len(A))), "one number for each pair of its two blocks"),
        (Kernel(lambda A, B: np.full((len(A), len(B)), np.nan)), "The kernel returned NaN or infinite values"),
        (Kernel(gamma=-1.0), "gamma must be a finite number above zero"),
        (Kernel(gamma="wide"), "gamma must be a number above zero, 'scale', 'auto' or None"),
        (Kernel("precomputed"), "The kernel matrix of the training points must be square"),
        (Nystrom(500), "n_centres=500 is more than the 150 training points"),
        (Nystrom(0), "n_centres must be a whole number, at least 1"),
        (Nystrom(20.5), "n_centres must be a whole number, at least 1, got 20.5"),
        (Nystrom(10, centres="best"), "centres must be 'uniform' or 'leverage'"),
        (Nystrom(10, kernel="precomputed"), "Nystrom makes kernel values as it needs them"),
    ],
    ids=lambda value: value if isinstance(value, str) else repr(value)[:30],
)
def test_bad_kernels_get_one_sentence(data, hypothesis, sentence):
    with pytest.raises(ValueError, match=sentence.replace("(", r"\(")):
        tl.CostSensitiveClassifier(hypothesis=hypothesis).fit(*data)


@pytest.mark.parametrize(
    "hypothesis",
    ["kernel", "nystrom", Kernel("linear"), Nystrom(centres="leverage"), Nystrom(5, centres="leverage")],
    ids=label,
)
def test_inputs_that_say_nothing_leave_the_intercept(hypothesis):
    X, y = np.zeros((30, 2)), np.arange(30) % 3
    model = tl.CostSensitiveClassifier(hypothesis=hypothesis, tol=1e-12).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X), 1 / 3, atol=1e-5)
    predictor = tl.KernelPredictor("zero-one", "rbf").fit(X, np.repeat([0, 1, 1], 10))
    assert predictor.predict(X[:2]).tolist() == [1, 1]


def test_no_penalty_and_too_many_points(data):
    with pytest.raises(ValueError, match="alpha must be a finite number above zero, got 0"):
        tl.CostSensitiveClassifier(hypothesis="kernel", alpha=0).fit(*data)
    X = np.zeros((30_000, 1))
    with pytest.raises(ValueError, match="n = 30000 is above 20000; use hypothesis='nystrom'"):
        tl.CostSensitiveClassifier(hypothesis="kernel").fit(X, np.arange(30_000) % 2)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("hypothesis", [*Kernel.examples(), Thresholds(Kernel())], ids=repr)
def test_a_fit_on_tabulated_coordinates_is_the_same_problem(hypothesis, weighted):
    """The same value and gradient at any parameters, on all training points and on some."""
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(40, 3)), rng.integers(0, 4, 40)
    weights = rng.uniform(size=40) * (rng.random(40) > 0.2) if weighted else np.ones(40)
    bound = hypothesis.bind(x, weights)
    surrogate = tl.surrogates.Multinomial(4)
    risk = Rows(surrogate, np.eye(4)[y], weights / weights.sum())
    if isinstance(hypothesis, Thresholds):
        risk = Rows(
            tl.surrogates.AllThresholds("logistic", 4), 2.0 * (y[:, None] > np.arange(3)) - 1, weights / weights.sum()
        )
    other, table = bound.tabulated(x)
    assert other is not bound
    for rows in (np.arange(40), np.arange(0, 40, 3)):
        one = objective(bound, bound.piece(x, rows), risk.take(rows), 0.1)
        two = objective(other, other.piece(table, rows), risk.take(rows), 0.1)
        theta = rng.normal(size=one.start.shape)
        for a, b in zip(one.value_and_gradient(theta), two.value_and_gradient(theta), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-9)
    assert bound.tabulated(x.copy())[0] is bound  # other points have no table
