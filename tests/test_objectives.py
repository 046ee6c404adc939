"""The law of the waist: every layout with every hypothesis and every surrogate that fit together is one objective."""

import numpy as np
import pytest
from scipy import sparse
from tests.parts import assert_obeys, every_law, examples, label
from tests.test_laws_surrogates import domain_of, is_kinked, moments, scores

from taskloss.hypotheses import Hypothesis, Linear, Structured, Thresholds
from taskloss.hypotheses.structured import ForestRows
from taskloss.losses import NDCG, MatchingHamming
from taskloss.objectives import Batch, Forests, Groups, PenalisedRisk, Rows, fused
from taskloss.parallel import Executor
from taskloss.polytopes._forest import Forest
from taskloss.solvers.descent import LBFGS
from taskloss.surrogates import (
    ChainCRF,
    Listwise,
    MaxEntropy,
    OneVsAll,
    Quadratic,
    RowMultinomial,
    Surrogate,
)
from taskloss.testing.hypotheses import WAIST

N, D, ALPHA = 23, 4, 0.05


def dense(rng, n=N, d=D):
    return rng.normal(size=(n, d))


def sparse_rows(rng, n=N, d=D):
    return sparse.csr_matrix(np.where(rng.random((n, d)) < 0.6, rng.normal(size=(n, d)), 0))


# -- problems: (hypothesis, inputs, risk) ------------------------------------------------------------------------------


def rows_problem(surrogate, hypothesis, make=dense):
    rng = np.random.default_rng(0)
    vertices = domain_of(surrogate).vertices()
    targets = moments(surrogate, rng, N)
    targets[::2] = vertices[rng.integers(0, len(vertices), len(targets[::2]))]
    targets[: len(vertices)] = vertices[:N]  # every label occurs
    weights = rng.uniform(0.5, 2, N)
    X = make(rng)
    risk = Rows(surrogate, targets, weights).kept_ordered(hypothesis.shares_weights)
    return hypothesis.bind(X, weights), X, risk


def ranking_problem(surrogate, hypothesis, make=dense):
    rng = np.random.default_rng(1)
    batches = []
    for size, count in ((2, 4), (5, 3)):
        loss = NDCG(n_items=size)
        batches.append(Batch(surrogate.bind(loss.polytope), loss.phi(rng.integers(0, 3, (count, size)))))
    X = make(rng, 2 * 4 + 5 * 3)
    risk = Groups(batches, rng.uniform(0.5, 2, 7))
    return hypothesis.bind(X, risk.row_weights), X, risk


def matching_problem(surrogate, hypothesis, make=dense):
    rng = np.random.default_rng(2)
    batches = []
    for size, count in ((2, 3), (3, 2)):
        loss = MatchingHamming(size, size)
        y = np.array([rng.permutation(size) for _ in range(count)])
        batches.append(Batch(surrogate.bind(loss.polytope), loss.phi(y)))
    X = make(rng, 4 * 3 + 9 * 2)
    risk = Groups(batches, rng.uniform(0.5, 2, 5))
    return hypothesis.bind(X, risk.row_weights), X, risk


def forest_problem(surrogate, hypothesis, make=dense, trees=False):
    rng = np.random.default_rng(3)
    forest = Forest.chains([3, 1, 4, 2])
    if trees:
        parents = np.array([-1, 0, 0, -1, -1, 4, 4, 5, 4, -1])
        forest = Forest(parents, np.array([0, 3, 4, 9, 10]))
    X = make(rng, 10)
    inputs = ForestRows(X, forest)
    risk = Forests(surrogate, forest, rng.integers(0, 3, 10), rng.uniform(0.5, 2, 4), 3)
    return hypothesis.bind(inputs, risk.row_weights), inputs, risk


node_hypotheses = [
    part
    for _, part in examples(Hypothesis)
    if not isinstance(part, Structured) and getattr(part, "kernel", None) != "precomputed" and not part.trained
]
flat = [h for h in node_hypotheses if h.shares_weights is False]
surrogates = [(name, part) for name, part in examples(Surrogate) if not is_kinked(part)]


def fits(surrogate, hypothesis):
    return not surrogate.ordered or hypothesis.fit_intercept


problems = {}
for name, surrogate in surrogates:
    for hypothesis in node_hypotheses:
        if fits(surrogate, hypothesis):
            problems[f"rows-{name}-{label(hypothesis)}"] = (rows_problem, surrogate, hypothesis, dense)
    problems[f"rows-{name}-sparse"] = (rows_problem, surrogate, Linear(), sparse_rows)
for hypothesis in flat:
    for surrogate in (Listwise(), Quadratic(), OneVsAll("logistic")):
        problems[f"ranking-{label(surrogate)}-{label(hypothesis)}"] = (ranking_problem, surrogate, hypothesis, dense)
    for surrogate in (RowMultinomial(), MaxEntropy(), Quadratic()):
        problems[f"matching-{label(surrogate)}-{label(hypothesis)}"] = (matching_problem, surrogate, hypothesis, dense)
problems["ranking-sparse"] = (ranking_problem, Listwise(), Linear(), sparse_rows)
for hypothesis in [part for _, part in examples(Hypothesis) if isinstance(part, Structured)]:
    for surrogate in (ChainCRF(), MaxEntropy(), Quadratic()):
        for make in (dense, sparse_rows):
            problems[f"chains-{label(surrogate)}-{label(hypothesis)}-{make.__name__}"] = (
                forest_problem,
                surrogate,
                hypothesis,
                make,
            )
problems["trees"] = (lambda *args: forest_problem(*args, trees=True), MaxEntropy(), Structured(edges=[0]), dense)
every_problem = pytest.mark.parametrize("problem", list(problems.values()), ids=list(problems))


def build(problem):
    make, surrogate, hypothesis, inputs = problem
    return make(surrogate, hypothesis, inputs)


# -- the law -----------------------------------------------------------------------------------------------------------


@every_problem
@every_law(WAIST)
def test_laws(problem, law):
    assert_obeys(law, *build(problem))


# -- compiled passes are taken where they should be --------------------------------------------------------------------

compiled = [(name, part) for name, part in examples(Surrogate) if fused.pointwise(part) is not None]
every_compiled = pytest.mark.parametrize("part", [p for _, p in compiled], ids=[n for n, _ in compiled])


def test_the_common_surrogates_have_compiled_passes():
    names = {name.rsplit("-", 1)[0] for name, _ in compiled}
    assert names >= {"multinomial", "row-multinomial", "max-entropy", "one-vs-all", "independent", "all-thresholds"}


@every_compiled
@pytest.mark.parametrize("order", "CF")
def test_the_compiled_pass_gives_the_same_numbers(part, order):
    """At labels held in bytes and at moments between them, with weights, over more rows than a tile, scores up to 1e3."""
    rng = np.random.default_rng(7)
    rows = 1100
    v = scores(part, rng, rows) * rng.choice([0.1, 1, 100, 500], (rows, 1))
    vertices, w = domain_of(part).vertices(), rng.uniform(0, 2, rows)
    for phi in (moments(part, rng, rows), vertices[rng.integers(0, len(vertices), rows)].astype(np.int8)):
        for dtype, tolerance in ((np.float64, 1e-13), (np.float32, 1e-5)):
            terms, gradient = part.risk_and_gradient(v.astype(dtype), phi.astype(dtype))
            scratch = np.array(v, dtype=dtype, order=order)
            sums = fused.pointwise(part)(scratch, np.array(phi, order=order), w.astype(dtype))
            np.testing.assert_allclose(sums, w @ terms, rtol=tolerance)
            # an inner problem that starts warm is settled to 1e-9 of its vectors
            np.testing.assert_allclose(
                scratch, w[:, None] * gradient, rtol=max(1e-7, tolerance), atol=max(tolerance, 1e-12)
            )


class Counted:
    """Counts the calls of a function."""

    def __init__(self, work):
        self.work, self.calls = work, 0

    def __call__(self, *args):
        self.calls += 1
        return self.work(*args)


@pytest.mark.parametrize(
    "hypothesis",
    [Linear(), Linear(fit_intercept=False), Thresholds(), Thresholds(Linear(fit_intercept=False))],
    ids=label,
)
@every_compiled
def test_large_dense_risks_go_by_one_fused_pass_and_agree(part, hypothesis):
    """Over more rows than a block, with weights, in both precisions; rows that do not lie in C order go the other way."""
    rng = np.random.default_rng(14)
    X, vertices = rng.normal(size=(1300, 7)), domain_of(part).vertices()
    phi, weights = vertices[rng.integers(0, len(vertices), 1300)].astype(np.int8), rng.uniform(0, 2, 1300)

    def objective(X, executor=None):
        return PenalisedRisk(hypothesis, X, Rows(part, phi, weights), 0.1, executor)

    small = objective(X)
    assert small.fused is None  # too small to pay
    # Somewhere, and at the start, where there are no weights yet.
    points = [small.flatten(theta) for theta in (rng.normal(size=small.start.shape), small.start)]
    expected = [small.value_and_gradient(theta) for theta in points]
    for threads, order, dtype, tolerance in (
        (1, "C", np.float64, 1e-12),
        (3, "C", np.float64, 1e-12),
        (2, "F", np.float64, 1e-12),
        (2, "C", np.float32, 1e-5),
    ):
        large = objective(np.array(X, dtype=dtype, order=order), Executor(threads, compiled=True))
        assert (large.fused is not None) == (order == "C")
        if large.fused is not None:
            large.fused = Counted(large.fused)
        for theta, (value, gradient) in zip(points, expected, strict=True):
            found = large.value_and_gradient(theta)
            np.testing.assert_allclose(found[0], value, rtol=tolerance)
            np.testing.assert_allclose(found[1], gradient, atol=tolerance)
        if large.fused is not None:
            assert large.fused.calls == len(points) * threads  # once for each thread and evaluation


@pytest.mark.parametrize("unit", [True, False])
@pytest.mark.parametrize(
    "layout",
    [
        Structured(),
        Structured(Linear(fit_intercept=False), ends=False, all_states=False),
        Structured(all_states=False, all_transitions=False),
    ],
    ids=label,
)
def test_chains_over_sparse_rows_go_by_one_pass_and_agree(layout, unit):
    """On any number of threads, with weights, in both precisions; and so do the solver's own numbers of the diagonal."""
    rng = np.random.default_rng(3)
    lengths, k = rng.integers(1, 9, 150), 5
    X = sparse.csr_matrix((rng.random((lengths.sum(), 40)) < rng.uniform(0.001, 0.4, 40)).astype(float))
    X.data = X.data if unit else rng.uniform(-1, 1, X.nnz)
    inputs = ForestRows(X, Forest.chains(lengths))
    codes = rng.integers(0, k, lengths.sum())
    risk = Forests(ChainCRF(), inputs.forest, codes, rng.uniform(0, 2, 150), k)
    small = PenalisedRisk(layout, inputs, risk, 0.1)
    assert small.chains is None  # too small to pay
    theta = small.flatten(rng.normal(size=small.start.shape))
    value, gradient = small.value_and_gradient(theta)
    mu = risk.inference.moments(inputs.forest, layout.predict(small.unflatten(theta), inputs), False)[0]
    spread = risk.row_weights[:, None] * mu * (1 - mu)
    for threads in (1, 3):
        large = PenalisedRisk(layout, inputs, risk, 0.1, Executor(threads, compiled=True))
        found = large.value_and_gradient(theta)
        np.testing.assert_allclose(found[0], value, rtol=1e-13)
        np.testing.assert_allclose(found[1], gradient, atol=1e-14)
        diagonal = large.unflatten(large.chains(theta, squared=True)[1])
        free = large.unflatten(np.ones_like(theta))[:40] > 0
        np.testing.assert_allclose(diagonal[:40][free], (X.multiply(X).T @ spread)[free], atol=1e-14)
        large.coarsen()
        found = large.value_and_gradient(theta)
        np.testing.assert_allclose(found[0], value, rtol=1e-6)
        np.testing.assert_allclose(found[1], gradient, atol=1e-6)
        apart = large.unflatten(theta.copy())
        layout.parts(apart)["transition"][0] -= 60  # beyond what single precision holds
        apart = large.flatten(apart)
        in_single = large.value_and_gradient(apart)
        assert large.refine()
        assert not large.refine()
        for a, b in zip(in_single, large.value_and_gradient(apart), strict=True):
            np.testing.assert_array_equal(a, b)
        far = large.unflatten(theta.copy())
        layout.parts(far)["transition"][0] -= 1e3  # beyond what probabilities can hold: the plain way
        far = large.flatten(far)
        for a, b in zip(large.value_and_gradient(far), small.value_and_gradient(far), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("hypothesis", [Linear(), Thresholds(), Linear(fit_intercept=False)], ids=label)
@pytest.mark.parametrize("threads", [1, 3])
def test_sparse_rows_go_by_passes_in_single_precision_until_more_is_asked_for(hypothesis, threads):
    rng = np.random.default_rng(5)
    X = sparse.random(400, 60, 0.1, format="csr", random_state=6)
    surrogate = OneVsAll("logistic", 4)
    risk = Rows(surrogate, surrogate.domain.vertices()[rng.integers(0, 4, 400)], rng.uniform(0, 2, 400))
    problem = PenalisedRisk(hypothesis, X, risk, 0.1, Executor(threads, compiled=True))
    theta = problem.flatten(rng.normal(size=problem.start.shape))
    value, gradient = problem.value_and_gradient(theta)
    assert problem.coarsen()
    found = problem.value_and_gradient(theta)
    np.testing.assert_allclose(found[0], value, rtol=1e-6)
    np.testing.assert_allclose(found[1], gradient, atol=1e-6)
    assert (found[1] != gradient).any()
    part = problem.columns(np.array([2, 0]))
    if part is not None:
        some = part.value_and_gradient(np.ascontiguousarray(theta[:, [2, 0]]))
        np.testing.assert_array_equal(some[1], found[1][:, [2, 0]])
        assert part.refine()
        np.testing.assert_allclose(part.value_and_gradient(theta[:, [2, 0]])[1], gradient[:, [2, 0]], rtol=1e-13)
    assert problem.refine()
    for a, b in zip(problem.value_and_gradient(theta), (value, gradient), strict=True):
        np.testing.assert_array_equal(a, b)
    huge = PenalisedRisk(hypothesis, X * 1e30, risk, 0.1, Executor(threads, compiled=True))
    assert not huge.coarsen()


@pytest.mark.parametrize("tol", [1e-3, 1e-7])
def test_a_search_begins_in_single_precision_and_ends_where_tol_asks_for(tol):
    rng = np.random.default_rng(4)
    lengths, k = rng.integers(1, 9, 300), 4
    X = sparse.csr_matrix((rng.random((lengths.sum(), 30)) < 0.2).astype(float))
    inputs = ForestRows(X, Forest.chains(lengths))
    scores = X @ rng.normal(size=(30, k)) + rng.gumbel(size=(lengths.sum(), k))
    risk = Forests(ChainCRF(), inputs.forest, scores.argmax(1), np.ones(300), k)
    small = PenalisedRisk(Structured(), inputs, risk, 1e-3)
    large = PenalisedRisk(Structured(), inputs, risk, 1e-3, Executor(1, compiled=True))
    least = LBFGS(1e-11).minimise(small, small.flatten(small.start)).value
    found = LBFGS(tol).minimise(large, large.flatten(large.start))
    assert found.converged
    assert small.value_and_gradient(found.theta)[0].sum() - least <= 3 * tol * least
    assert large.single == (tol >= 1e-5)


def test_the_fused_pass_is_taken_by_a_fit_that_is_large_enough(monkeypatch):
    import taskloss as tl
    from taskloss.objectives import penalised

    found = []
    monkeypatch.setattr(penalised, "whole_pass", lambda *args: found.append(fused.whole_pass(*args)) or found[-1])
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60_000, 80))
    y = rng.integers(0, 5, 60_000)
    tl.CostSensitiveClassifier(tol=1e-2).fit(X, y)
    tl.OrdinalClassifier(tol=1e-2).fit(X, y)
    assert len(found) == 2
    assert all(f is not None for f in found)
    tl.CostSensitiveClassifier(tol=1e-2).fit(X[:100], y[:100])
    assert len(found) == 2
