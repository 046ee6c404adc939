"""Taggers on the waist: every surrogate, hypothesis and solver that fits, streams, prices, and trees against enumeration."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy import sparse
from scipy.optimize import nnls
from scipy.special import logsumexp
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import taskloss as tl
from taskloss.data.features import named_rows
from taskloss.data.trees import read_forest
from taskloss.hypotheses.structured import NodeEdgeScores
from taskloss.losses import ChainCost, ChainHamming, SequenceZeroOne
from taskloss.objectives import Forests
from taskloss.objectives.over_forests import ByShape
from taskloss.parallel import Executor
from taskloss.polytopes import Tree
from taskloss.polytopes._forest import Forest, Limits
from taskloss.polytopes._max_product import max_marginals
from taskloss.polytopes._scaled import scaled
from taskloss.polytopes._sum_product import _plain, covariance_map, marginals
from taskloss.solvers import ASGD
from taskloss.surrogates import ChainCRF, ConvolutionalFenchelYoung, MaxEntropy, Quadratic

LABELS = np.array(["a", "b", "c"])
RNG = np.random.default_rng(3)
COST = ChainCost(RNG.uniform(size=(3, 3)), RNG.uniform(size=(3,) * 4))
ABSTAIN = ChainCost(np.vstack([1 - np.eye(3), np.full(3, 0.3)]), outputs=["a", "b", "c", "?"])


def random_parents(n: int, rng: np.random.Generator) -> np.ndarray:
    """A tree over n nodes in no particular order."""
    place = rng.permutation(n)
    parents = np.full(n, -1)
    for i in range(1, n):
        parents[place[i]] = place[rng.integers(0, i)]
    return parents


def toy(n: int = 25, d: int = 4, seed: int = 0) -> tuple[list, list, list]:
    """Trees of up to five nodes whose labels follow features and parents."""
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(rng.integers(1, 6), d)) for _ in range(n)]
    parents = [random_parents(len(x), rng) for x in X]
    y = []
    for x, above in zip(X, parents, strict=True):
        scores = x[:, :3] + 0.7 * rng.normal(size=(len(x), 3))
        scores = scores + 0.5 * np.where(above[:, None] >= 0, scores[above], 0.0)
        y.append(LABELS[scores.argmax(axis=1)])
    return X, y, parents


def forest_of(kind: str, rng: np.random.Generator, count: int = 12) -> Forest:
    lengths = rng.integers(1, 6, size=count)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    if kind == "chains":
        return Forest.chains(lengths)
    return read_forest(offsets, [random_parents(n, rng) for n in lengths])[0]


# -- the risk as a function of scores ---------------------------------------------------------------------------------


def problem(kind: str, shared: bool, partial: bool, surrogate=None, limits: Limits | None = None):
    rng = np.random.default_rng(7)
    forest = forest_of(kind, rng)
    codes = rng.integers(0, 3, forest.n_nodes)
    if partial:
        codes[rng.random(len(codes)) < 0.3] = -1
    risk = Forests(surrogate or MaxEntropy(), forest, codes, rng.uniform(0.5, 2, len(forest)), 3, limits)

    def draw() -> NodeEdgeScores:
        edges = (3, 3) if shared else (forest.n_edges, 3, 3)
        return NodeEdgeScores(rng.normal(size=(forest.n_nodes, 3)), rng.normal(size=edges))

    return risk, draw


def inner(a: NodeEdgeScores, b: NodeEdgeScores) -> float:
    return float((a.nodes * b.nodes).sum() + (a.edges * b.edges).sum())


STEPS = np.where(np.array([[1, 1, 0], [1, 1, 1], [1, 0, 1]]) > 0, 0.0, -np.inf)
KINDS = pytest.mark.parametrize("kind", ["chains", "trees"])
SHARED = pytest.mark.parametrize("shared", [True, False], ids=["table", "tables"])


@KINDS
@SHARED
@pytest.mark.parametrize("partial", [False, True], ids=["whole", "partial"])
@pytest.mark.parametrize(
    "surrogate",
    [MaxEntropy(), Quadratic(), ConvolutionalFenchelYoung("quadratic", ChainHamming(3))],
    ids=["max-entropy", "quadratic", "convolved"],
)
def test_gradient_hessian_and_parts_of_the_risk(kind, shared, partial, surrogate):
    if partial and not isinstance(surrogate, MaxEntropy):
        pytest.skip("moments cannot be fitted to labels that are missing; the refusal is tested below")
    risk, draw = problem(kind, shared, partial, surrogate)
    v, u, h = draw(), draw(), 1e-5
    value, gradient = risk.value_and_gradient(v)
    up, down = (risk.value_and_gradient(v + u * t) for t in (h, -h))
    np.testing.assert_allclose((up[0] - down[0]) / (2 * h), inner(gradient, u), rtol=1e-6)
    product = risk.hessian(v)
    slope = inner((up[1] + down[1] * -1.0) * (1 / (2 * h)), u)
    if partial:  # the part that makes the risk concave is left out
        assert not risk.convex
        assert inner(product(u), u) >= max(slope, 0.0) - 1e-7
    else:
        np.testing.assert_allclose(inner(product(u), u), slope, rtol=1e-6)
        other = draw()
        np.testing.assert_allclose(inner(product(u), other), inner(product(other), u), rtol=1e-9)
    # Parts add up, views and offsets agree, and threads change nothing.
    for cut in ([slice(0, 5), slice(5, None)], [np.array([9, 0, 3]), np.array([1, 2, 4, 5, 6, 7, 8, 10, 11])]):
        found = [risk.take(some).value_and_gradient(risk.view(v, some)) for some in cut]
        np.testing.assert_allclose(sum(f for f, _ in found), value, rtol=1e-12)
        nodes = np.concatenate([risk.forest.nodes_of(np.arange(12)[some]) for some in cut])
        np.testing.assert_allclose(np.concatenate([g.nodes for _, g in found]), gradient.nodes[nodes], atol=1e-14)
    np.testing.assert_allclose(risk.shifted(u).value_and_gradient(v)[0], risk.value_and_gradient(v + u)[0], rtol=1e-12)
    some = slice(2, 7)
    around, at = risk.shifted(u).shifted(v).take(some), risk.view(v, some)
    whole = risk.view(u + v + v, some)
    np.testing.assert_allclose(
        around.value_and_gradient(at)[0], risk.take(some).value_and_gradient(whole)[0], rtol=1e-12
    )
    threaded = risk.risk_and_gradient(v, executor=Executor(3))
    np.testing.assert_allclose(threaded[0] + risk.constant, value, rtol=1e-12)
    np.testing.assert_allclose(threaded[1].nodes, gradient.nodes, atol=1e-14)
    np.testing.assert_allclose(threaded[1].edges, gradient.edges, atol=1e-14)
    assert [slice(0, 12)] == risk.cut(10**6)
    assert sum(some.stop - some.start for some in risk.cut(4)) == 12


@KINDS
@SHARED
def test_packed_maximum_entropy_is_that_of_each_shape(kind, shared):
    """One recursion over all trees equals the surrogate of each shape's polytope: value, gradient, Hessian and moments."""
    risk, draw = problem(kind, shared, False, ChainCRF() if kind == "chains" else MaxEntropy())
    plain = risk.take(slice(None))
    plain.inference = ByShape(MaxEntropy(), 3)
    v, u = draw(), draw()
    found = risk.value_and_gradient(v), plain.value_and_gradient(v)
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-10)
    for one, two in ((found[0][1], found[1][1]), (risk.hessian(v)(u), plain.hessian(v)(u))):
        np.testing.assert_allclose(one.nodes, two.nodes, atol=1e-12)
        np.testing.assert_allclose(one.edges, two.edges, atol=1e-12)
    for one, two in zip(*(r.inference.moments(r.forest, v, True) for r in (risk, plain)), strict=True):
        np.testing.assert_allclose(one, two, atol=1e-12)
    np.testing.assert_allclose(risk.slopes(), plain.slopes(), rtol=1e-10)


def test_moments_need_every_label():
    with pytest.raises(ValueError, match="needs every label, and some are missing"):
        problem("chains", True, True, Quadratic())


@KINDS
def test_slopes_are_the_norms_of_single_gradients(kind):
    risk, _ = problem(kind, True, False)
    alone = [risk.take(slice(i, i + 1)) for i in range(12)]
    for r in alone:
        edges = np.zeros((r.forest.n_edges, 3, 3))
        gradient = r.risk_and_gradient(NodeEdgeScores(np.zeros((r.n_rows, 3)), edges))[1]
        np.testing.assert_allclose(r.slopes()[0], np.sqrt(inner(gradient, gradient)))
    np.testing.assert_allclose(risk.slopes(), np.concatenate([r.slopes() for r in alone]))


@pytest.mark.parametrize("kind", ["chains", "trees", "one chain", "one node"])
@SHARED
@pytest.mark.parametrize("scale", [1.0, 300.0])
def test_recursions_agree(kind, shared, scale):
    """Compiled, in probabilities and in logarithms; and covariances under what is forbidden."""
    rng = np.random.default_rng(1)
    lengths = {"one chain": [300], "one node": [1]}.get(kind)
    forest = forest_of(kind, rng, 30) if lengths is None else Forest.chains(lengths)
    unary = scale * rng.normal(size=(forest.n_nodes, 4))
    pairwise = scale * rng.normal(size=(() if shared else (forest.n_edges,)) + (4, 4))
    pairwise = np.where(rng.random(pairwise.shape) < 0.2, -np.inf, pairwise)
    np.einsum("...ii->...i", pairwise)[...] = 0.0
    weights = rng.uniform(size=len(forest))
    for pairs in ("all", "sum", "none"):
        slow = _plain(forest, unary, pairwise, weights, pairs)
        fast = scaled(forest, unary, pairwise, weights, pairs)
        assert (fast is not None) == (scale == 1.0)
        for one, two in zip(slow, fast or slow, strict=True):
            assert (one is None) == (two is None)
            if one is not None:
                np.testing.assert_allclose(two, one, rtol=1e-10, atol=1e-12)
    for own in (True, False):
        u = rng.normal(size=unary.shape), rng.normal(size=(() if own else (forest.n_edges,)) + (4, 4))
        plain, compiled = (covariance_map(forest, unary, pairwise, weights, c)(*u) for c in (False, True))
        for one, two in zip(plain, compiled, strict=True):
            np.testing.assert_allclose(two, one, rtol=1e-8, atol=1e-10)


@KINDS
def test_max_marginals_are_best_scores_with_a_state_held(kind):
    rng = np.random.default_rng(2)
    forest = forest_of(kind, rng, 6)
    unary, pairwise = rng.normal(size=(forest.n_nodes, 3)), rng.normal(size=(3, 3)) + STEPS
    found = max_marginals(forest, unary, pairwise)
    for low, high in itertools.pairwise(forest.offsets):
        every = np.array(list(itertools.product(range(3), repeat=high - low)))
        above = forest.parents[low:high] - low
        value = unary[np.arange(low, high), every].sum(1)
        value += pairwise[every[:, above[1:]], every[:, 1:]].sum(1)
        for t in range(high - low):
            best = [value[every[:, t] == a].max() for a in range(3)]
            np.testing.assert_allclose(found[low + t], best)
    forbidden = np.full((3, 3), -np.inf)
    with pytest.raises(ValueError, match="No assignment of states is allowed"):
        max_marginals(forest, unary, forbidden)


# -- what falls out ---------------------------------------------------------------------------------------------------


def faces() -> dict:
    X, y, parents = toy(40)
    return {
        "sequences": (tl.SequenceTagger, (X, y), {}),
        "trees": (tl.TreeTagger, (X, y), {"parents": parents}),
    }


@pytest.fixture(params=["sequences", "trees"])
def face(request):
    return faces()[request.param]


def test_newton_reaches_the_minimum(face):
    kind, data, shape = face
    for options in (
        {},
        {"hypothesis": tl.hypotheses.Nystrom(20), "alpha": 1e-3},
        {"transition_features": [1]},
        {"surrogate": "quadratic"},
    ):
        one, two = (kind(solver=solver, tol=1e-10, **options).fit(*data, **shape) for solver in ("newton", "lbfgs"))
        np.testing.assert_allclose(one.solution_.value, two.solution_.value, rtol=1e-8)
        np.testing.assert_allclose(one.theta_, two.theta_, atol=2e-3)
    assert one.solution_.iterations < two.solution_.iterations


def test_newton_takes_partial_labels(face):
    kind, (X, y), shape = face
    rng = np.random.default_rng(0)
    holes = [[None if rng.random() < 0.3 else label for label in row] for row in y]
    one, two = (kind(solver=solver, alpha=0.05).fit(X, holes, **shape) for solver in ("newton", "lbfgs"))
    assert one.solution_.value == pytest.approx(two.solution_.value, rel=1e-4)


def test_kernels_score_nodes(face):
    """A linear kernel is the linear hypothesis, and Nyström with all points the exact kernel."""
    kind, (X, y), shape = face
    linear = kind(tol=1e-11, alpha=0.05).fit(X, y, **shape)
    kernel = kind(hypothesis=tl.hypotheses.Kernel("linear"), tol=1e-11, alpha=0.05).fit(X, y, **shape)
    rows = sum(len(x) for x in X)
    full = kind(hypothesis=tl.hypotheses.Nystrom(rows, "linear"), tol=1e-11, alpha=0.05).fit(X, y, **shape)
    for other in (kernel, full):
        assert other.solution_.value == pytest.approx(linear.solution_.value, rel=1e-7)
        for a, b in zip(linear.predict_proba(X, **shape), other.predict_proba(X, **shape), strict=True):
            np.testing.assert_allclose(a, b, atol=1e-4)
    with pytest.raises(ValueError, match="builds its own rows of features"):
        kind(hypothesis=tl.hypotheses.Kernel("precomputed")).fit(X, y, **shape)


@pytest.mark.parametrize("name", ["chain-crf", "max-entropy", "quadratic", "one-vs-all", "listwise"])
def test_surrogates_that_fit(face, name):
    """Moments in and outside the polytope are decoded, priced and turned into laws."""
    kind, (X, y), shape = face
    tagger = kind(surrogate=name, alpha=0.01).fit(X, y, **shape)
    assert tagger.score(X, y, **shape) > -0.5
    for law in tagger.predict_proba(X, **shape):
        assert (law >= 0).all()
        np.testing.assert_allclose(law.sum(1), 1)
    for loss in (ChainHamming(), COST, ABSTAIN, SequenceZeroOne()):
        values, risks = tagger.decision_function(X, loss, **shape), tagger.expected_loss(X, loss, **shape)
        names = loss.bind(3).output_names(LABELS)
        for value, risk, z in zip(values, risks, tagger.predict(X, loss, **shape), strict=True):
            np.testing.assert_allclose(value.max(axis=1), -risk, atol=1e-9)
            assert names[value.argmax(axis=1)].tolist() == z.tolist()
    if name in ("quadratic", "one-vs-all", "listwise"):
        for call in (lambda: tagger.sample(X, **shape), lambda: tagger.predict_best(X, 2, **shape)):
            with pytest.raises(ValueError, match="fits moments and no law over whole labellings"):
                call()
        two = {"parents": [[-1, 0]] * 2} if shape else {}
        with pytest.raises(ValueError, match="knows no forbidden transitions"):
            kind(surrogate=name, forbidden=[("c", "a")]).fit([np.eye(2)] * 2, [["a", "b"], ["b", "c"]], **two)


@pytest.mark.parametrize("loss", [ChainHamming(), COST], ids=["hamming", "costs"])
def test_a_convolved_surrogate_decides_by_its_law(face, loss):
    """Its moments are those of a quadratic program over all labellings, and what it decides is optimal for them."""
    kind, (X, y), shape = face
    few = [i for i, labels in enumerate(y) if len(labels) <= 3]
    trees = {"parents": [shape["parents"][i] for i in few]} if shape else {}
    X, y = [X[i] for i in few], [y[i] for i in few]
    tagger = kind(loss, surrogate="convolutional-fenchel-young", alpha=0.01).fit(X, y, **trees)
    z, risks, moments = (f(X, **trees) for f in (tagger.predict, tagger.expected_loss, tagger.predict_moments))
    inputs = tagger._read(X, trees.get("parents")).inputs
    v = tagger.hypothesis_.predict(tagger.theta_, inputs)
    for i in range(8):
        nodes = slice(inputs.forest.offsets[i], inputs.forest.offsets[i + 1])
        order = np.arange(len(y[i])) if not trees else read_forest(np.array([0, len(y[i])]), [trees["parents"][i]])[1]
        parents = inputs.forest.parents[nodes] - nodes.start
        one = loss.bind(3).on(Tree(3, np.maximum(parents, -1).tolist()))
        outputs = one.outputs()
        psi, scores = one.psi(outputs), one.tree().join(v.nodes[nodes], np.repeat(v.edges[None], len(parents) - 1, 0))
        # min |scores + psi^T pi|^2 / 2 over laws pi: a large weight on the row that sums to one
        found = nnls(np.vstack([psi.T, np.full(len(psi), 1e4)]), np.append(-scores, 1e4))[0]
        mu = scores + psi.T @ (found / found.sum())
        codes = np.searchsorted(one.output_names(LABELS), np.asarray(z[i])[order])
        risk = psi @ mu
        np.testing.assert_allclose(risk[(outputs == codes).all(1)], risk.min(), atol=1e-5)
        np.testing.assert_allclose(risks[i], risk.min(), atol=1e-5)
        np.testing.assert_allclose(np.sort(moments[i]), np.sort(mu), atol=1e-5)
    with pytest.raises(ValueError, match="no sum over neighbours: use ChainHamming or ChainCost"):
        kind(SequenceZeroOne(), surrogate="convolutional-fenchel-young").fit(X, y, **trees)
    with pytest.warns(tl.ConsistencyWarning, match="was fitted for"):
        tagger.predict(X, ABSTAIN, **trees)


@pytest.mark.parametrize("name", ["multinomial", "cumulative-link", "independent", "all-thresholds", "row-multinomial"])
def test_surrogates_that_do_not_fit_are_refused(face, name):
    kind, (X, y), shape = face
    with pytest.raises(ValueError, match=r"does not fit this loss.*pass surrogate='auto'"):
        kind(surrogate=name).fit(X, y, **shape)


def test_streams(face):
    """One pass in batches equals the same pass over all, and a batch is a step on whole examples."""
    kind, (X, y), shape = face
    offsets = np.concatenate([[0], np.cumsum([len(x) for x in X])])
    above = np.concatenate(shape["parents"]) if shape else None
    packed = tl.Packed(np.concatenate(X), offsets, above)
    solver = ASGD(radius=5.0, step=0.2)
    whole, parts = kind(solver=solver), kind(solver=solver)
    whole.partial_fit(packed, y, classes=LABELS)
    parts.fit_stream(((packed[i : i + 7], y[i : i + 7]) for i in range(0, 40, 7)), classes=LABELS)
    np.testing.assert_allclose(parts.theta_, whole.theta_, atol=1e-12)
    assert whole.n_iter_ == 40
    mixed = kind(solver=ASGD(radius=5.0, step=0.2, random_state=0)).fit(packed, y)  # the same steps in another order
    assert mixed.theta_.shape == whole.theta_.shape
    assert np.linalg.norm(mixed.theta_ - whole.theta_) < 0.7 * np.linalg.norm(whole.theta_)
    assert whole.score(packed, y) > -0.45  # of three labels, drawn at random two thirds are wrong
    once = kind().partial_fit(packed, y, classes=LABELS)
    assert np.isfinite(once.theta_).all()
    seen = once.theta_.copy()
    assert not np.allclose(seen, once.partial_fit(packed, y).theta_)
    nystrom = kind(hypothesis=tl.hypotheses.Nystrom(10), solver=solver).partial_fit(packed, y, classes=LABELS)
    assert nystrom.score(packed, y) > -0.6
    after = kind().fit(packed, y)
    fitted = after.theta_.copy()
    assert not np.allclose(fitted, after.partial_fit(packed[:5], y[:5]).theta_)
    with pytest.raises(ValueError, match="The first call needs classes"):
        kind().partial_fit(packed, y)
    with pytest.raises(ValueError, match="needs a fixed number of features: use hypothesis='nystrom'"):
        kind(hypothesis="kernel").partial_fit(packed, y, classes=LABELS)
    with pytest.raises(AttributeError, match=r"no attribute 'partial_fit'"):
        kind(solver="lbfgs").partial_fit(packed, y, classes=LABELS)


def test_prices_are_added_to_the_loss(face):
    kind, (X, y), shape = face
    tagger = kind(alpha=0.05).fit(X, y, **shape)
    rng = np.random.default_rng(0)
    for loss in (ChainHamming(), COST, ABSTAIN):
        bound = loss.bind(3)
        costs = [rng.uniform(0, 0.7, (len(x), bound.n_outputs)) for x in X]
        names = bound.output_names(LABELS)
        found, risks = tagger.predict(X, loss, costs, **shape), tagger.expected_loss(X, loss, costs, **shape)
        values = tagger.decision_function(X, loss, costs, **shape)
        moments = tagger.predict_moments(X, **shape)
        for i, x in enumerate(X):
            above = shape["parents"][i] if shape else np.arange(-1, len(x) - 1)
            every = np.array(list(itertools.product(range(bound.n_outputs), repeat=len(x))))
            nodes, edges = moments[i][: 3 * len(x)].reshape(-1, 3), moments[i][3 * len(x) :].reshape(-1, 3, 3)
            scale = 1 / len(x) if getattr(loss, "normalise", False) else 1.0
            risk = scale * (nodes @ bound._unary().T)[np.arange(len(x)), every].sum(1)
            if bound.needs_edges:
                lower = np.flatnonzero(above >= 0)
                table = np.einsum("eab,zwab->ezw", edges, bound._pairwise())
                risk += table[np.arange(len(lower)), every[:, above[lower]], every[:, lower]].sum(1)
            risk = risk + costs[i][np.arange(len(x)), every].sum(1)
            assert risks[i] == pytest.approx(risk.min())
            assert names[every[risk.argmin()]].tolist() == found[i].tolist()
            np.testing.assert_allclose(values[i].max(axis=1), -risks[i])
    free = [np.where(LABELS == "b", -9.0, 0.0) + np.zeros((len(x), 3)) for x in X]
    assert all((row == "b").all() for row in tagger.predict(X, costs=free, **shape))
    for loss, costs, sentence in (
        (None, free[:-1], "costs must have one array for each example"),
        (None, [c[:, :2] for c in free], "a column for each of the 3 outputs"),
        (None, [np.full_like(c, np.nan) for c in free], "costs must be finite prices"),
        ("sequence-zero-one", free, "is no sum over positions"),
    ):
        with pytest.raises(ValueError, match=sentence):
            tagger.predict(X, loss, costs, **shape)


def test_prices_of_rows():
    mu = Tree(3, (-1, 0, 0)).marginals(np.random.default_rng(0).normal(size=(4, 27)))
    loss = ChainCost(1 - np.eye(3), COST.pairwise, parents=(-1, 0, 0))
    prices = np.random.default_rng(1).uniform(size=(4, 3, 3))
    z = loss.decode(mu, prices)
    every = loss.outputs()
    risks = np.array([loss.risk(np.broadcast_to(one, (4, 3)), mu, prices) for one in every])
    np.testing.assert_array_equal(every[risks.argmin(0)], z)
    np.testing.assert_allclose(loss.risk(z, mu, prices), risks.min(0))


def test_probabilities_and_warm_starts(face):
    kind, (X, y), shape = face
    tagger = kind(alpha=0.05, warm_start=True, tol=1e-10).fit(X, y, **shape)
    proba, logs = tagger.predict_proba(X, **shape), tagger.predict_log_proba(X, **shape)
    for p, q, mu in zip(proba, logs, tagger.predict_marginals(X, **shape), strict=True):
        np.testing.assert_allclose(p, mu, atol=1e-12)
        np.testing.assert_allclose(np.exp(q), p)
    first = tagger.solution_.evaluations
    assert tagger.fit(X, y, **shape).solution_.evaluations < first


def test_old_names_warn():
    for name in ("SequenceLabels", "SequenceReader", "SequenceScorer", "Packed"):
        with pytest.warns(FutureWarning, match=f"taskloss.sequences.{name} is now"):
            assert getattr(tl.sequences, name) is getattr(tl.data.sequences, name)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        tl.sequences.nothing  # noqa: B018


# -- trees ------------------------------------------------------------------------------------------------------------


def listed(tagger: tl.TreeTagger, x: np.ndarray, above: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All labellings of a tree, and their log-probabilities under the fitted parameters."""
    every = np.array(list(itertools.product(range(3), repeat=len(x))))
    unary = x @ tagger.state_weights_ + tagger.intercept_
    unary[above < 0] += tagger.start_weights_
    unary[np.setdiff1d(np.arange(len(x)), above)] += tagger.end_weights_
    lower = np.flatnonzero(above >= 0)
    value = unary[np.arange(len(x)), every].sum(1)
    value += tagger.transition_weights_[every[:, above[lower]], every[:, lower]].sum(1)
    if tagger.transition_features is not None:
        steps = np.einsum("tf,fab->tab", x[:, tagger.transition_features], tagger.feature_transition_weights_)
        value += steps[lower, every[:, above[lower]], every[:, lower]].sum(1)
    return every, value - logsumexp(value)


@pytest.mark.parametrize("options", [{}, {"transition_features": [2, 0]}])
def test_trees_against_enumeration(options):
    X, y, parents = toy(30)
    weights = np.random.default_rng(0).uniform(size=30)
    tagger = tl.TreeTagger(alpha=0.05, **options).fit(X, y, weights, parents=parents)
    total = 0.0
    moments, marginal = tagger.predict_moments(X, parents=parents), tagger.predict_proba(X, parents=parents)
    maps, hamming = tagger.predict(X, "sequence-zero-one", parents=parents), tagger.predict(X, parents=parents)
    costs, risks = tagger.predict(X, COST, parents=parents), tagger.expected_loss(X, COST, parents=parents)
    log_p, best = tagger.predict_best(X, 2, parents=parents)
    draws = tagger.sample(X, 3000, random_state=0, parents=parents)
    for i, (x, above) in enumerate(zip(X, parents, strict=True)):
        every, log_law = listed(tagger, x, above)
        law, lower = np.exp(log_law), np.flatnonzero(above >= 0)
        total += weights[i] / weights.sum() * -log_law[(LABELS[every] == y[i]).all(1)].item()
        nodes = np.eye(3)[every]
        edges = nodes[:, above[lower], :, None] * nodes[:, lower, None, :]
        phi = np.concatenate([nodes.reshape(len(every), -1), edges.reshape(len(every), -1)], axis=1)
        np.testing.assert_allclose(moments[i], law @ phi, atol=1e-10)
        np.testing.assert_allclose(marginal[i], np.tensordot(law, nodes, 1), atol=1e-10)
        assert maps[i].tolist() == best[i][0].tolist() == LABELS[every[law.argmax()]].tolist()
        np.testing.assert_allclose(log_p[i], np.sort(log_law)[::-1][:2])
        assert hamming[i].tolist() == LABELS[marginal[i].argmax(1)].tolist()
        unary = COST._unary()[every[:, None], every[None]].sum(-1)
        pair = COST._pairwise()[
            every[:, None, above[lower]], every[:, None, lower], every[None][..., above[lower]], every[None][..., lower]
        ]
        expected = (unary + pair.sum(-1)) @ law
        assert costs[i].tolist() == LABELS[every[expected.argmin()]].tolist()
        assert risks[i] == pytest.approx(expected.min())
        np.testing.assert_allclose((draws[i][:, :, None] == LABELS).mean(0), marginal[i], atol=0.05)
    penalty = (tagger.theta_**2).sum() - (tagger.intercept_**2).sum()
    assert tagger.solution_.value == pytest.approx(total + 0.05 / 2 * penalty, rel=1e-9)


def test_chains_as_trees_are_sequences():
    X, y, _ = toy()
    chains = [np.arange(-1, len(x) - 1) for x in X]
    one, two = tl.SequenceTagger(alpha=0.05).fit(X, y), tl.TreeTagger(alpha=0.05).fit(X, y, parents=chains)
    np.testing.assert_array_equal(one.theta_, two.theta_)
    assert one.score(X, y) == two.score(X, y, parents=chains)


def test_the_order_of_nodes_does_not_matter():
    X, y, parents = toy(20)
    rng = np.random.default_rng(1)
    tagger = tl.TreeTagger(alpha=0.05, tol=1e-12).fit(X, y, parents=parents)
    orders = [rng.permutation(len(x)) for x in X]
    moved = []
    for above, order in zip(parents, orders, strict=True):
        place = np.argsort(order)
        moved.append(np.where(above[order] < 0, -1, place[above[order]]))
    X2, y2 = [x[o] for x, o in zip(X, orders, strict=True)], [row[o] for row, o in zip(y, orders, strict=True)]
    again = tl.TreeTagger(alpha=0.05, tol=1e-12).fit(X2, y2, parents=moved)
    np.testing.assert_allclose(again.theta_, tagger.theta_, atol=1e-5)
    for a, b, order in zip(
        tagger.predict_proba(X, parents=parents), tagger.predict_proba(X2, parents=moved), orders, strict=True
    ):
        np.testing.assert_allclose(a[order], b, atol=1e-10)


def test_forms_of_trees_agree():
    X, y, parents = toy()
    names = [f"f{j}" for j in range(4)]
    offsets = np.concatenate([[0], np.cumsum([len(x) for x in X])])
    flat = np.concatenate(parents)
    forms = [
        (X, {"parents": parents}),
        ([sparse.csr_matrix(x) for x in X], {"parents": [row.tolist() for row in parents]}),
        ([pd.DataFrame(x, columns=names) for x in X], {"parents": [pd.Series(row) for row in parents]}),
        ([[dict(zip(names, row, strict=True)) for row in x] for x in X], {"parents": parents}),
        (tl.Packed(np.concatenate(X), offsets), {"parents": flat}),
        (tl.Packed(np.concatenate(X), offsets, flat), {}),
    ]
    first = None
    for form, shape in forms:
        tagger = tl.TreeTagger(alpha=0.05, tol=1e-12).fit(form, y, **shape)
        first = first or tagger
        np.testing.assert_allclose(tagger.theta_, first.theta_, atol=1e-5)
        z = tagger.predict(form, **shape)
        assert (z if isinstance(form, tl.Packed) else np.concatenate(z)).tolist() == np.concatenate(
            first.predict(X, parents=parents)
        ).tolist()
        assert tagger.score(form, y, **shape) == pytest.approx(first.score(X, y, parents=parents))
        assert ChainHamming().scorer()(tagger, form, y, **shape) == pytest.approx(tagger.score(form, y, **shape))
        assert (
            COST.scorer()(tagger, form, y, **shape)
            <= COST.scorer()(clone(tagger).set_params(loss=COST).fit(form, y, **shape), form, y, **shape) + 1e-9
        )


def test_forbidden_steps_down_a_tree():
    X, y, parents = toy(80)

    def allowed(row, above):
        steps = [(row[p], label) for label, p in zip(row, above, strict=True) if p >= 0]
        leaves = np.setdiff1d(np.arange(len(row)), above)
        return ("a", "b") not in steps and row[np.flatnonzero(above < 0)[0]] != "c" and "a" not in row[leaves]

    keep = [i for i in range(80) if allowed(y[i], parents[i])]
    assert 10 < len(keep) < 60
    X2, y2, parents2 = ([part[i] for i in keep] for part in (X, y, parents))
    rules = [("a", "b"), (None, "c"), ("a", None)]
    tagger = tl.TreeTagger(alpha=0.05, forbidden=rules).fit(X2, y2, parents=parents2)
    for loss in ("chain-hamming", "sequence-zero-one", COST):
        assert all(map(allowed, tagger.predict(X, loss, parents=parents), parents))
    with pytest.raises(ValueError, match="The training data go from"):
        tl.TreeTagger(forbidden=rules).fit(X, y, parents=parents)


def test_trees_in_cross_validation():
    X, y, parents = toy(30)
    offsets = np.concatenate([[0], np.cumsum([len(x) for x in X])])
    packed = tl.Packed(np.concatenate(X), offsets, np.concatenate(parents))
    grid = {"alpha": [1e-3, 1.0]}
    one = GridSearchCV(tl.TreeTagger(), grid, cv=3).fit(packed, y)
    with sklearn.config_context(enable_metadata_routing=True):
        two = GridSearchCV(tl.TreeTagger(), grid, cv=3).fit(X, y, parents=parents)
    np.testing.assert_allclose(one.cv_results_["mean_test_score"], two.cv_results_["mean_test_score"], atol=1e-6)


@pytest.mark.parametrize(
    ("parents", "sentence"),
    [
        (None, "TreeTagger needs parents=..."),
        ([[-1, 0]], "X has 2 trees, but parents has 1"),
        ([[-1, 0], [-1, 0]], "Tree 1 has 3 nodes in X, but its parents have shape"),
        ([[-1, 0], [-1, 0, 3]], "The parents of tree 1: the array names a node that the tree does not have"),
        ([[-1, 0], [-1, -1, 0]], "The parents of tree 1: the array must have one root"),
        ([[-1, 0], [-1, 2, 1]], "The parents of tree 1: the array goes round in a circle"),
        ([[-1, 0], [-1, 0, 0.5]], "parents must be integers"),
        ([-1, 0, -1, 0], "X has 5 nodes, but parents has 4"),
        (7, "X has 5 nodes, but parents has 1"),
    ],
)
def test_bad_parents(parents, sentence):
    X, y = [np.eye(3)[:2], np.eye(3)], [["a", "b"], ["a", "b", "a"]]
    with pytest.raises(ValueError, match=sentence):
        tl.TreeTagger().fit(X, y, parents=parents)


def test_sequences_have_no_parents():
    X, y, parents = toy(5)
    with pytest.raises(ValueError, match="use TreeTagger"):
        tl.SequenceTagger().fit(X, y, parents=parents)
    tagger = tl.SequenceTagger().fit(X, y)
    with pytest.raises(ValueError, match="use TreeTagger"):
        tagger.predict(tl.Packed(np.concatenate(X), np.cumsum([0, *map(len, X)]), np.concatenate(parents)))


def test_long_trees_are_read_in_any_order():
    rng = np.random.default_rng(0)
    n = 3000
    place = rng.permutation(n)
    parents = np.full(n, -1)
    parents[place[1:]] = place[:-1]  # a chain, shuffled
    forest, order = read_forest(np.array([0, n]), [parents])
    np.testing.assert_array_equal(order, place)
    np.testing.assert_array_equal(forest.parents, np.arange(-1, n - 1))
    np.testing.assert_allclose(marginals(forest, np.zeros((n, 2)), np.zeros((2, 2)))[0], n * np.log(2))


# -- weights of pairs that occur ---------------------------------------------------------------------------------------


def sparse_toy(hidden: bool) -> tuple[list, list]:
    """Sequences with few of many features at each position; some labels may be missing."""
    rng = np.random.default_rng(5)
    X = [sparse.random(rng.integers(2, 7), 40, 0.1, "csr", random_state=rng) for _ in range(30)]
    y = [LABELS[rng.integers(0, 3, x.shape[0])].astype(object) for x in X]
    if hidden:
        y[3][1] = None
    return X, y


@pytest.mark.parametrize("hidden", [False, True])
def test_weights_of_pairs_that_never_occur_stay_zero_and_the_others_are_the_same_problem(hidden):
    X, y = sparse_toy(hidden)
    tagger = tl.SequenceTagger(alpha=1e-2, all_possible_states=False, tol=1e-12)
    some, every = tagger.objective(X, y), tl.SequenceTagger(alpha=1e-2).objective(X, y)
    rows, codes = sparse.vstack(X).toarray(), [LABELS.tolist().index(t) if t else None for t in np.concatenate(y)]
    occurs = np.zeros((40, 3), dtype=bool)
    for row, code in zip(rows, codes, strict=True):
        occurs[np.ix_(row != 0, range(3) if code is None else [code])] = True
    assert 0 < occurs.sum() < occurs.size
    theta = some.unflatten(np.random.default_rng(0).normal(size=(some.flatten(some.start).shape)))
    np.testing.assert_array_equal(theta[:40] != 0, occurs)
    value, gradient = some.value_and_gradient(some.flatten(theta))
    full_value, full_gradient = every.value_and_gradient(every.flatten(theta))
    np.testing.assert_allclose(value, full_value, rtol=1e-13)
    np.testing.assert_allclose(gradient, some.flatten(every.unflatten(full_gradient)), atol=1e-14)
    if not hidden:
        u = some.flatten(theta)
        direction = np.random.default_rng(1).normal(size=u.shape)
        expected = every.hessian(every.flatten(theta))(every.flatten(some.unflatten(direction)))
        np.testing.assert_allclose(some.hessian(u)(direction), some.flatten(every.unflatten(expected)), atol=1e-13)
    fitted = tagger.fit(X, y)
    assert not fitted.theta_[:40][~occurs].any()
    assert np.abs(some.value_and_gradient(some.flatten(fitted.theta_))[1]).max() < 1e-5
    if not hidden:
        newton = clone(tagger).set_params(solver="newton").fit(X, y)
        np.testing.assert_allclose(newton.theta_, fitted.theta_, atol=1e-4)
        streamed = clone(tagger).set_params(solver="asgd", max_iter=1).fit(X, y)
        assert streamed.theta_[:40][~occurs].any()  # one pass over the data cannot know what will occur


@pytest.mark.parametrize("hidden", [False, True])
def test_transitions_that_never_occur_may_have_no_weight(hidden):
    X = [np.ones((3, 1)), np.ones((2, 1))]
    y = [["a", None if hidden else "b", "b"], ["a", "c"]]
    tagger = tl.SequenceTagger(all_possible_transitions=False, alpha=1e-2).fit(X, y)
    # what stands beside a label that was not observed may be any transition to "b", and from "a"
    expected = [[True] * 3, [False, True, False], [False, True, False]] if hidden else [[0, 1, 1], [0, 1, 0], [0, 0, 0]]
    np.testing.assert_array_equal(tagger.transition_weights_ != 0, expected)


def test_named_features_that_are_rare_are_left_out():
    X = [[{"w": "a", "n": 1.0}, {"w": "b"}], [{"w": "a"}, {"w": b"a"}]]
    y = [["x", "y"], ["x", "y"]]
    assert tl.SequenceTagger(min_frequency=2).fit(X, y).feature_names_in_.tolist() == ["w=a"]
    assert tl.SequenceTagger().fit(X, y).feature_names_in_.tolist() == ["n", "w=a", "w=b"]
    numbers = [[{"n": 1.0, "m": 1.0}, {"n": 2.0}], [{"n": 3.0}, {"n": 4.0}]]  # a name counts, not its values
    assert tl.SequenceTagger(min_frequency=4).fit(numbers, y).feature_names_in_.tolist() == ["n"]
    with pytest.raises(ValueError, match="No feature in X occurs min_frequency=9 times: lower it"):
        tl.SequenceTagger(min_frequency=9).fit(X, y)
    with pytest.raises(ValueError, match="The feature 'n' in X is nan: give it a finite number, or leave it out"):
        tl.SequenceTagger().fit([[{"w": "a", "n": np.nan}, {"w": "b"}], [{"w": "a"}, {"w": "a"}]], y)


def test_entries_read_once_are_those_read_one_by_one():
    """Names and values of all kinds; mixed with what cannot be looked up, they are read position by position."""
    rng = np.random.default_rng(0)
    words = [f"w{i}" for i in range(9)]
    fast = [
        {"w": words[rng.integers(9)], "n": float(rng.integers(3)), "up": bool(rng.integers(2)), "w=w1": 2}
        for _ in range(50)
    ]
    slow = [item | {"empty": []} for item in fast]
    lists = [[words[i] for i in rng.integers(0, 9, 4)] for _ in range(50)]
    for quick, plain in ((fast, slow), (lists, [set(item) if len(set(item)) == 4 else list(item) for item in lists])):
        (a, names), (b, others) = named_rows(quick, None), named_rows(plain, None)
        assert names == others
        np.testing.assert_array_equal(a.toarray(), b.toarray())
        for rows in (a, b):  # each name of a position once, in order
            assert type(rows)((rows.data, rows.indices, rows.indptr), rows.shape).has_canonical_format
    odd = [{1: "x"}, {True: "x"}, {"1": "x"}]  # equal as keys, not as names
    assert list(named_rows(odd, None)[1]) == ["1=x", "True=x"]
