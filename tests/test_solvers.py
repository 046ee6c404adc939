"""Solvers on functions whose minima are known."""

import io

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize
from sklearn.datasets import load_breast_cancer, load_wine
from tests.parts import label

from taskloss.hypotheses import Linear, Thresholds
from taskloss.hypotheses.base import Moments, Principal
from taskloss.objectives import PenalisedRisk, Rows
from taskloss.objectives.preconditioners import kronecker, low_rank_correction, turned
from taskloss.parallel import Executor
from taskloss.solvers import LBFGS, Newton, Solver, Status
from taskloss.solvers.base import Objective, Progress
from taskloss.solvers.descent import Descent
from taskloss.solvers.lasting import LastingPreconditioner
from taskloss.surrogates import AllThresholds, CumulativeLink, Independent, Multinomial, OneVsAll, Quadratic

exact = {name: cls() for name, cls in Solver.registry.items() if issubclass(cls, Descent)}
every_solver = pytest.mark.parametrize("solver", list(exact.values()), ids=list(exact))


class Columns(Objective):
    """Independent ill-conditioned convex problems, one in each column: sum_i c_ij cosh(theta_ij - m_ij) - c_ij."""

    def __init__(self, rng, shape=(8, 3)):
        self.c, self.m = np.exp(rng.normal(scale=3, size=shape)), rng.normal(size=shape)

    def value_and_gradient(self, theta):
        d = theta - self.m
        return 1e-3 + (self.c * (np.cosh(d) - 1)).sum(0), self.c * np.sinh(d)

    def hessian(self, theta):
        curvature = self.c * np.cosh(theta - self.m)
        return lambda u: curvature * u


@every_solver
def test_columns_reach_their_own_minima(solver):
    problem = Columns(np.random.default_rng(0))
    solution = solver.with_params(tol=1e-14).minimise(problem, np.zeros((8, 3)))
    assert solution.status in (Status.CONVERGED, Status.STALLED)
    np.testing.assert_allclose(solution.theta, problem.m, atol=1e-4)


@every_solver
def test_each_column_is_solved_as_if_alone(solver):
    rng = np.random.default_rng(1)
    problem = Columns(rng)
    together = solver.with_params(tol=1e-12).minimise(problem, np.zeros((8, 3))).theta
    for j in range(3):
        alone = Columns(rng, (8, 1))
        alone.c, alone.m = problem.c[:, [j]], problem.m[:, [j]]
        single = solver.with_params(tol=1e-12).minimise(alone, np.zeros((8, 1))).theta
        np.testing.assert_allclose(together[:, [j]], single, atol=1e-4)


class Counted(Columns):
    """The same, that counts the columns it evaluates, and gives some of them alone."""

    def __init__(self, rng, shape=(8, 3)):
        super().__init__(rng, shape)
        self.counted = [0]

    def value_and_gradient(self, theta):
        self.counted[0] += theta.shape[1]
        return super().value_and_gradient(theta)

    def columns(self, some):
        part = Counted.__new__(type(self))
        part.c, part.m, part.counted = self.c[:, some], self.m[:, some], self.counted
        return part


@every_solver
def test_columns_that_are_done_leave_the_search(solver):
    """The minimum is that with all of them kept, at the price of the columns that are still searched."""
    solver = solver.with_params(tol=1e-9)
    easy = np.where(np.arange(40) < 36, 1e-2, 1.0)  # the curvatures of most columns are nearly equal
    kept, counted = (kind(np.random.default_rng(2), (8, 40)) for kind in (Columns, Counted))
    kept.c, counted.c = kept.c**easy, counted.c**easy
    whole, found = (solver.minimise(problem, np.zeros((8, 40))) for problem in (kept, counted))
    assert found.status is whole.status is Status.CONVERGED
    np.testing.assert_allclose(found.value, 40 * 1e-3, rtol=1e-6)
    assert 0 <= found.optimality <= 1e-9
    assert counted.counted[0] < 0.8 * 40 * found.evaluations


@every_solver
def test_columns_that_leave_in_single_precision_are_looked_at_in_double(solver):
    """Where a coarse look takes another point for the minimum."""

    class Rounded(Counted):
        coarse = False

        def coarsen(self):
            self.coarse = True
            return True

        def refine(self):
            was, self.coarse = self.coarse, False
            return was

        def value_and_gradient(self, theta):
            return super().value_and_gradient(theta + 1e-3 * self.coarse)

        def columns(self, some):
            part = super().columns(some)
            part.coarse = self.coarse
            return part

    easy = np.where(np.arange(40) < 36, 1e-2, 1.0)
    problem = Rounded(np.random.default_rng(2), (8, 40))
    problem.c = problem.c**easy
    found = solver.with_params(tol=1e-9).minimise(problem, np.zeros((8, 40)))
    assert found.converged
    assert (problem.value_and_gradient(found.theta)[0] - 1e-3 <= 3e-9 * 40 * 1e-3).all()


def test_columns_that_stay_keep_what_was_made_for_all():
    """The preconditioner that was made for all columns, at those that stay; anew, once they are fewer than a quarter."""
    made = []

    class Scaled(Columns):
        def preconditioner(self, theta, evaluations=0):
            made.append(theta.shape[1])
            scale = np.arange(1.0, 1 + theta.shape[1])
            return lambda g: g * scale

    rng = np.random.default_rng(3)
    lasting, theta = LastingPreconditioner(Scaled(rng, (5, 8)), every=100), rng.normal(size=(5, 8))
    lasting.at(theta, 0)
    expected = theta * np.arange(1.0, 9.0)
    for columns in (np.array([0, 2, 3, 5, 7]), np.array([1, 3])):
        theta, expected = theta[:, columns], expected[:, columns]
        lasting.keep(columns, Scaled(rng, theta.shape))
        lasting.at(theta, 0)
        np.testing.assert_array_equal(lasting(theta), expected)
    lasting.keep(np.array([1]), Scaled(rng, (5, 1)))
    lasting.at(theta[:, 1:], 0)
    np.testing.assert_array_equal(lasting(theta[:, 1:]), theta[:, 1:])
    assert made == [8, 1]


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("alpha", [0.0, 0.3])
def test_moments_by_their_eigenvectors_precondition_alike(alpha, fit_intercept):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(40, 5)) @ rng.normal(size=(5, 5)) + 1
    moments, curvature = Moments(X.mean(0), X.T @ X / 40), np.array([0.2, 1.0, 3.0])
    gradient = rng.normal(size=(6, 3))
    plain, quick = (
        kronecker(some, curvature, alpha, False, fit_intercept)(gradient)
        for some in (moments, turned(moments, fit_intercept))
    )
    np.testing.assert_allclose(quick, plain, rtol=1e-4)


class Kink(Columns):
    """The same, with the sum of |theta| in the first column: its gradient never falls, and no step leaves the kink."""

    def value_and_gradient(self, theta):
        value, gradient = super().value_and_gradient(theta)
        value[0], gradient[:, 0] = 1 + np.abs(theta[:, 0]).sum(), np.where(theta[:, 0] < 0, -1.0, 1.0)
        return value, gradient


def test_a_column_that_is_stuck_does_not_stop_the_others():
    problem = Kink(np.random.default_rng(0))
    solution = LBFGS(tol=1e-14).minimise(problem, np.zeros((8, 3)))
    assert solution.status is Status.STALLED
    assert not solution.converged  # the first column's slope says nothing of a minimum
    np.testing.assert_allclose(solution.theta[:, 1:], problem.m[:, 1:], atol=1e-4)


def penalised(hypothesis, surrogate, X, phi, weights, alpha, **kwargs):
    risk = Rows(surrogate, phi, weights).kept_ordered(hypothesis.shares_weights)
    return PenalisedRisk(hypothesis.bind(X, weights), X, risk, alpha, **kwargs)


def random_risk(surrogate, hypothesis, rng, n=60, d=4, alpha=0.05, sparse=False):
    X = rng.normal(size=(n, d))
    if sparse:
        from scipy.sparse import csr_matrix

        X = csr_matrix(np.where(rng.random((n, d)) < 0.5, X, 0))
    vertices = surrogate.domain.vertices() if surrogate.domain is not None else np.eye(3)
    phi = vertices[rng.integers(0, len(vertices), n)]
    if isinstance(surrogate, AllThresholds):
        phi = (2.0 * np.tri(surrogate.n_classes, surrogate.size, -1) - 1)[rng.integers(0, surrogate.n_classes, n)]
    return penalised(hypothesis, surrogate, X, phi, rng.uniform(0.5, 2, n), alpha)


def keep_weights(risk, theta):
    """theta without intercepts."""
    full = risk.unflatten(theta).copy()
    full *= risk.penalised
    return risk.flatten(full)


problems = pytest.mark.parametrize(
    ("surrogate", "hypothesis"),
    [
        (Multinomial(3), Linear()),
        (Multinomial(3), Linear(fit_intercept=False)),
        (OneVsAll("logistic", 3), Linear()),
        (Independent("exponential", 3), Linear()),
        (Quadratic(), Linear()),
        (AllThresholds("logistic", 4), Thresholds()),
        (AllThresholds("square", 4), Linear()),
        (CumulativeLink("logit", 4), Thresholds()),
        (CumulativeLink("probit", 4), Thresholds()),
        (CumulativeLink("cloglog", 4), Thresholds()),
        (CumulativeLink("logit", 4), Linear()),
    ],
    ids=label,
)


@problems
@pytest.mark.parametrize("sparse", [False, True])
def test_risk_has_the_right_gradient_hessian_and_value(surrogate, hypothesis, sparse):
    rng = np.random.default_rng(2)
    risk = random_risk(surrogate, hypothesis, rng, sparse=sparse)
    theta = risk.flatten(risk.start) + 0.02 * rng.normal(size=risk.flatten(risk.start).shape)
    if not hypothesis.fit_intercept:
        theta = keep_weights(risk, theta)
    value, gradient = risk.value_and_gradient(theta)
    direction = rng.normal(size=theta.shape)
    if not hypothesis.fit_intercept:
        direction = keep_weights(risk, direction)
    step = 1e-6
    up, down = (risk.value_and_gradient(theta + s * direction) for s in (step, -step))
    np.testing.assert_allclose((gradient * direction).sum(0), (up[0] - down[0]) / (2 * step), rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(risk.hessian(theta)(direction), (up[1] - down[1]) / (2 * step), rtol=1e-5, atol=1e-7)
    full = risk.unflatten(theta)
    v = hypothesis.scores(full, risk.inputs)
    by_hand = risk.weights @ surrogate.value(v, risk.risk.moments(float)) + 0.025 * (risk.penalised * full**2).sum()
    assert value.sum() == pytest.approx(by_hand)


@problems
@every_solver
def test_solvers_agree_with_scipy(surrogate, hypothesis, solver):
    rng = np.random.default_rng(3)
    risk = random_risk(surrogate, hypothesis, rng)
    start = risk.flatten(risk.start)
    solution = solver.with_params(tol=1e-13).minimise(risk, start)

    def objective(flat):
        value, gradient = risk.value_and_gradient(flat.reshape(start.shape))
        return value.sum(), np.nan_to_num(gradient.ravel())

    found = minimize(
        objective, start.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": 5000, "ftol": 1e-15, "gtol": 1e-9}
    )
    assert solution.value <= found.fun + 1e-9
    assert np.abs(risk.value_and_gradient(solution.theta)[1]).max() < 1e-4  # convex: a flat point is a minimum
    if not risk.risk.barrier:  # SciPy's line search stops short at the barrier
        assert solution.value == pytest.approx(found.fun, abs=1e-7)


def test_the_preconditioner_is_the_inverse_hessian_of_the_quadratic_surrogate():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(200, 6)) @ rng.normal(size=(6, 6)) + 3
    for hypothesis in (Linear(), Linear(fit_intercept=False), Thresholds()):
        risk = penalised(hypothesis, Quadratic(), X, rng.normal(size=(200, 3)), rng.uniform(1, 2, 200), 0.3)
        theta = risk.flatten(risk.start)
        direction = rng.normal(size=theta.shape)
        if not hypothesis.fit_intercept:
            direction = keep_weights(risk, direction)
        np.testing.assert_allclose(risk.preconditioner(theta)(risk.hessian(theta)(direction)), direction, atol=1e-6)
        assert LBFGS().minimise(risk, theta).iterations == 1


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_the_low_rank_correction_is_the_inverse_hessian_on_the_span_of_the_weights(fit_intercept):
    """With as many classes as features and a constant that span is everything; with few directions the inverse stays symmetric and positive."""
    rng, alpha = np.random.default_rng(16), 1e-3
    X, k = rng.normal(size=(200, 4)) ** 2, 6
    phi = np.eye(k)[rng.integers(0, k, 200)]
    risk = penalised(Linear(fit_intercept), Multinomial(k), X, phi, rng.uniform(0.5, 2, 200), alpha)
    assert risk.corrects
    theta = 2 * rng.normal(size=risk.start.shape)
    theta[-1] *= fit_intercept
    flat = risk.flatten(theta)
    curvature = risk.risk.curvature(Linear(fit_intercept).scores(theta, X))
    moments = Linear().moments(X, curvature.weights)
    mean = np.tensordot(curvature.weights, curvature.matrices, 1)
    model = kronecker(moments, mean, alpha, False, fit_intercept)
    args = (model, theta, X, curvature, moments, alpha, fit_intercept)
    inverse = low_rank_correction(*args, directions=k - 1, ridge=0.0)
    direction = rng.normal(size=theta.shape)
    direction[-1] *= fit_intercept
    difference = inverse(risk.unflatten(risk.hessian(flat)(risk.flatten(direction)))) - direction
    difference[-1] -= difference[-1].mean()  # no class gains by the same constant for all
    np.testing.assert_allclose(difference, 0, atol=1e-7)
    for directions in (1, 3):
        inverse = low_rank_correction(*args, directions=directions)
        matrix = np.column_stack([inverse(e.reshape(theta.shape)).ravel() for e in np.eye(theta.size)])
        np.testing.assert_allclose(matrix, matrix.T, atol=1e-9)
        assert np.linalg.eigvalsh(matrix).min() > -1e-9


def test_second_moments_are_taken_in_double_precision():
    """Far from the origin the covariance is a small difference of large numbers, which single precision would lose."""
    rng = np.random.default_rng(17)
    X = (rng.normal(size=(3000, 4)) + 3000).astype(np.float32)
    for weights in (np.full(3000, 1 / 3000), rng.dirichlet(np.ones(3000))):
        mean, second = Linear().moments(X, weights, Executor(2))
        expected = np.cov(X.astype(float).T, aweights=weights, bias=True)
        np.testing.assert_allclose(second - np.outer(mean, mean), expected, atol=1e-5)


def test_a_bracketed_step_goes_to_the_minimum_of_the_cubic_through_its_ends():
    from taskloss.solvers.descent import _cubic

    cubic = np.polynomial.Polynomial([3.0, -5.0, 0.5, 1.0])
    slope = cubic.deriv()
    ends = np.array([0.0, 0.4]), np.array([3.0, 2.0])
    found = _cubic(ends[0], cubic(ends[0]), slope(ends[0]), ends[1], cubic(ends[1]), slope(ends[1]))
    np.testing.assert_allclose(found, max(slope.roots()))
    with np.errstate(invalid="ignore"):
        assert np.isnan(_cubic(np.zeros(1), np.zeros(1), -np.ones(1), np.ones(1), np.full(1, np.inf), np.ones(1)))


def some_moments(kind, rng, d=8):
    """Moments of random rows as they come, and the second moments that they stand for."""
    X, weights = rng.normal(size=(300, d)) @ rng.normal(size=(d, d)) + 1, rng.dirichlet(np.ones(300))
    mean, second = weights @ X, (weights[:, None] * X).T @ X
    if kind == "matrix":
        return Moments(mean, second), second
    if kind == "diagonal":
        return Moments(np.zeros(d), np.diag(second)), np.diag(np.diag(second))
    values, vectors = np.linalg.eigh(second - np.outer(mean, mean))
    found = Principal(values[-3:], vectors[:, -3:], rng.uniform(0.1, 1, d))
    covariance = (found.vectors * found.values) @ found.vectors.T + np.diag(found.rest)
    return Moments(mean, found), covariance + np.outer(mean, mean)


@pytest.mark.parametrize("kind", ["matrix", "diagonal", "principal"])
@pytest.mark.parametrize("curved", ["full", "diagonal"])
@pytest.mark.parametrize("hypothesis", [Linear(), Thresholds(), Linear(fit_intercept=False)], ids=label)
def test_the_preconditioner_inverts_the_hessian_of_a_mean_curvature(hypothesis, kind, curved):
    rng = np.random.default_rng(6)
    (moments, second), k, alpha = some_moments(kind, rng), 3, 0.1
    if kind == "principal" and not hypothesis.fit_intercept:  # then they are not centred
        second = second - np.outer(moments.mean, moments.mean)
    d, A = len(second), np.cov(rng.normal(size=(k, 50)))
    A, given = (A, A) if curved == "full" else (np.diag(np.diag(A)), np.diag(A))
    mean = moments.mean * hypothesis.fit_intercept
    whole = np.block([[second, mean[:, None]], [mean[None], np.ones((1, 1))]])
    if hypothesis.shares_weights:
        hessian = np.block(
            [[A.sum() * second, np.outer(mean, A.sum(0))], [np.outer(A.sum(0), mean), A]]
        ) + alpha * np.diag(np.repeat([1.0, 0.0], [d, k]))
        shape = (d + k, 1)
    else:
        hessian = np.kron(whole, A) + alpha * np.diag(np.repeat([1.0, 0.0], [d * k, k]))
        shape = (d + 1, k)
    found = kronecker(moments, given, alpha, hypothesis.shares_weights, hypothesis.fit_intercept)
    step = rng.normal(size=shape)
    np.testing.assert_allclose(found((hessian @ step.ravel()).reshape(shape)), step, atol=1e-8)


def test_wide_inputs_are_preconditioned_along_their_principal_directions():
    """Variances are exact, and what no direction holds lies beside them."""
    rng = np.random.default_rng(6)
    X = sparse.random(300, 1600, 0.05, format="csr", random_state=0) @ sparse.diags(np.arange(1, 1601) ** -0.5)
    phi, weights = np.eye(3)[rng.integers(0, 3, 300)], rng.dirichlet(np.ones(300))
    dense = X.toarray()
    covariance = np.cov(dense.T, aweights=weights, ddof=0)
    for rows in (X, dense):
        moments = Linear().moments(rows, weights)
        values, vectors, rest = moments.second
        np.testing.assert_allclose(moments.mean, weights @ dense)
        np.testing.assert_allclose(vectors.T @ vectors, np.eye(len(values)), atol=1e-10)
        np.testing.assert_allclose(rest + vectors**2 @ values, np.diag(covariance), atol=1e-10)
        assert values[-1] >= 0.95 * np.linalg.eigvalsh(covariance)[-1]
    even = sparse.random(2000, 1600, 0.02, format="csr", random_state=0, data_rvs=rng.standard_normal)
    squares = np.asarray(even.multiply(even).mean(0)).ravel()
    np.testing.assert_allclose(Linear().moments(even, np.full(2000, 1 / 2000)).second, squares)  # none stands out
    for hypothesis in (Linear(), Thresholds()):
        risk = penalised(hypothesis, Quadratic(), X, phi, np.ones(300), 0.1)
        assert LBFGS(tol=1e-8).minimise(risk, risk.flatten(risk.start)).iterations <= 25


def test_curvature_is_taken_anew_where_a_problem_is_hard():
    """Separable classes under a weak penalty: far from the start most terms are flat."""
    X, y = load_wine(return_X_y=True)
    X = (X - X.mean(0)) / X.std(0)
    risk = penalised(Linear(), Multinomial(3), X, np.eye(3)[y], np.ones(len(y)), 1e-6)
    theta = risk.flatten(risk.start)
    solution = LBFGS(tol=1e-7).minimise(risk, theta)
    assert solution.converged
    assert solution.iterations < 120  # 564 with the curvature at the start alone, and not yet at the minimum
    assert solution.value == pytest.approx(Newton(tol=1e-12).minimise(risk, theta).value, rel=1e-5)


def test_convergence_is_reported():
    rng = np.random.default_rng(6)
    risk = random_risk(Multinomial(3), Linear(), rng)
    start = risk.flatten(risk.start)
    done = LBFGS(tol=1e-10).minimise(risk, start)
    assert done.status is Status.CONVERGED
    assert done.converged
    assert done.optimality <= 1e-10
    short = LBFGS(tol=1e-10, max_iter=1).minimise(risk, start)
    assert short.status is Status.MAX_ITER
    assert "max_iter" in short.status.value
    again = LBFGS(tol=1e-9).minimise(risk, done.theta)
    assert again.iterations <= 1  # a warm start at the minimum has nothing to do


@every_solver
def test_interruption_keeps_the_best_so_far(solver):
    class Stopped:
        calls = 0

        def __init__(self, risk):
            self.risk = risk

        def __getattr__(self, name):
            return getattr(self.risk, name)

        def value_and_gradient(self, theta):
            self.calls += 1
            if self.calls == 4:
                raise KeyboardInterrupt
            return self.risk.value_and_gradient(theta)

    risk = random_risk(Multinomial(3), Linear(), np.random.default_rng(7))
    start = risk.flatten(risk.start)
    with pytest.raises(KeyboardInterrupt) as stop:
        solver.minimise(Stopped(risk), start)
    solution = stop.value.solution
    assert solution.status is Status.INTERRUPTED
    assert solution.value < risk.value_and_gradient(start)[0].sum()


def test_a_solver_says_what_it_lacks():
    class NoHessian:
        def value_and_gradient(self, theta):
            return np.ones(1), np.zeros_like(theta)

    with pytest.raises(ValueError, match=r"newton solver needs the objective's hessian"):
        Newton().minimise(NoHessian(), np.zeros((2, 1)))
    risk = random_risk(OneVsAll("hinge", 3), Linear(), np.random.default_rng(8))
    with pytest.raises(ValueError, match=r"no second derivative.*lbfgs"):
        Newton().minimise(risk, risk.flatten(risk.start))


def test_a_start_that_is_not_finite_says_so():
    class Bad(Objective):
        def value_and_gradient(self, theta):
            return np.array([np.inf]), theta

    with pytest.raises(ValueError, match="not finite at the starting point"):
        LBFGS().minimise(Bad(), np.zeros((2, 1)))


def test_progress_is_one_line_that_ends_with_the_status():
    stream = io.StringIO()
    stream.isatty = lambda: True
    risk = random_risk(Multinomial(3), Linear(), np.random.default_rng(9))
    LBFGS(tol=1e-8).minimise(risk, risk.flatten(risk.start), Progress("fit", 1e-8, stream))
    text = stream.getvalue()
    assert text.count("\r") >= 3
    assert "·" in text
    assert text.endswith(Status.CONVERGED.value + "\n")


def test_compiled_sparse_products_equal_scipys():
    from scipy.sparse import random

    from taskloss.hypotheses.sparse_products import ThreadedSparse

    rng = np.random.default_rng(10)
    for shape, dtype in (((301, 50), np.float64), ((50, 301), np.float32), ((7, 3), np.float64)):
        X = random(*shape, density=0.1, format="csr", random_state=0, dtype=dtype)
        X.data[:1] = 3
        for threads in (1, 2, 5):
            ours = ThreadedSparse(X, Executor(threads))
            w, v = rng.normal(size=(shape[1], 4)).astype(dtype), rng.normal(size=(shape[0], 4)).astype(dtype)
            np.testing.assert_allclose(ours @ w, X @ w, rtol=1e-5, atol=1e-6)
            np.testing.assert_allclose(ours.T @ v, X.T @ v, rtol=1e-5, atol=1e-6)


def test_inner_products_of_columns():
    from taskloss.solvers.descent import dot

    rng = np.random.default_rng(13)
    for width in (1, 3):
        a, b = rng.normal(size=(50, width)), rng.normal(size=(50, width))
        np.testing.assert_allclose(dot(a, b), (a * b).sum(0))


def test_newton_goes_down_where_the_risk_is_not_convex():
    """At the start the cauchit's second derivative is indefinite: a step along it was none, and the start was called a minimum."""
    X = load_breast_cancer().data
    X = (X - X.mean(0)) / X.std(0)
    grades = np.digitize(X[:, 0], np.quantile(X[:, 0], [0.2, 0.4, 0.6, 0.8]))
    inputs, surrogate, hypothesis = X[:, 1:], CumulativeLink("cauchit", 5), Thresholds()
    rows = Rows(surrogate, np.eye(5)[grades], np.full(len(X), 1 / len(X))).kept_ordered(hypothesis.shares_weights)
    risk = PenalisedRisk(hypothesis, inputs, rows, 1e-3)
    start = risk.flatten(risk.start)
    values = [solver(tol=1e-8).minimise(risk, start).value for solver in (LBFGS, Newton)]
    assert values[1] == pytest.approx(values[0], rel=1e-6)
    assert values[1] < 0.9 * risk.value_and_gradient(start)[0].sum()
