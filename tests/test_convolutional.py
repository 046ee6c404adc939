"""Convolved surrogates: the inner problem, the excess identity, both decisions and their linear calibration, and fits."""

import pickle
import warnings

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.base import clone

import taskloss as tl
from taskloss import ConsistencyWarning
from taskloss.losses.tabular import Tabular
from taskloss.objectives import PenalisedRisk, Rows, fused
from taskloss.polytopes import Cube, Simplex
from taskloss.surrogates import (
    AllThresholds,
    ConvolutionalFenchelYoung,
    Legendre,
    ListedOutputs,
    MaxEntropy,
    Multinomial,
    Quadratic,
)
from taskloss.surrogates._convolution import convolve
from taskloss.surrogates.legendre import negative_entropy


def tabular_losses():
    kinds = [
        k for k in tl.losses.Loss.registry.values() if issubclass(k, Tabular) and k.__module__.startswith("taskloss")
    ]
    return [(f"{kind.name}-{i}", loss) for kind in kinds for i, loss in enumerate(kind.examples())]


def problems():
    """Every tabular loss of the registry with each potential that fits it."""
    for name, loss in tabular_losses():
        inners = [Multinomial(), Quadratic()] if isinstance(loss.polytope, Simplex) else ["auto", MaxEntropy()]
        for inner in inners:
            part = ConvolutionalFenchelYoung(inner).bind(loss.polytope).bind_outputs(loss)
            yield pytest.param(loss, part, id=f"{name}-{type(part.inner).__name__}-{len(loss.polytope.bounds()[0])}")


every_problem = pytest.mark.parametrize(("loss", "part"), list(problems()))


def draws(loss, part, rng, rows, scale=1.0):
    """Laws over labels, some of few labels, and scores of all sizes."""
    q = rng.dirichlet(np.ones(loss.n_labels), rows) ** rng.choice([1.0, 3.0], (rows, 1))
    q /= q.sum(1, keepdims=True)
    k = loss.polytope.size
    return q, rng.normal(size=(rows, k)) * scale * rng.choice([0.1, 1.0, 4.0], (rows, 1))


# -- the inner problem -------------------------------------------------------------------------------------------------


@every_problem
def test_the_law_is_optimal(loss, part):
    """Every output of the support is as good as the best for mu-hat: with convexity, a proof of the minimum."""
    _, v = draws(loss, part, np.random.default_rng(0), 400)
    pi, mu = part.mixture(v), part.inverse_link(v)
    psi, offsets = loss.psi(loss.outputs()), np.broadcast_to(loss.offset(loss.outputs()), loss.n_outputs)
    assert (pi >= 0).all()
    np.testing.assert_allclose(pi.sum(1), 1, atol=1e-12)
    np.testing.assert_allclose(part.inner.inverse_link(v + pi @ psi), mu, atol=1e-12 * (1 + np.abs(mu).max()))
    g = mu @ psi.T + offsets
    assert ((pi * g).sum(1) - g.min(1)).max() <= 1e-10 * np.abs(g).max()
    assert ((pi > 0).sum(1) <= loss.polytope.size + 1).all()


def test_the_minimum_agrees_with_another_solver():
    """SLSQP over the simplex of outputs, for each conjugate that is compiled and for one that is not."""
    rng = np.random.default_rng(1)
    costs = rng.uniform(0, 3, (5, 4))
    for inner in (Multinomial(4), MaxEntropy(Cube(4)), Quadratic(), Legendre(negative_entropy, Simplex(4))):
        part = ConvolutionalFenchelYoung(inner, ListedOutputs(costs, [0.0, 0.1, -0.2, 0.0, 0.3]))
        v = rng.normal(size=(6, 4))
        found = part.risk_and_gradient(v, np.zeros_like(v))[0][:, 0]
        psi, offsets = part.embedding.table()
        for row, value in zip(v, found, strict=True):

            def objective(pi, row=row, inner=inner, psi=psi, offsets=offsets):
                u = (row + pi @ psi)[None]
                return float(inner.risk_and_gradient(u, np.zeros_like(u))[0].sum() + offsets @ pi)

            constraint = {"type": "eq", "fun": lambda pi: pi.sum() - 1}
            other = minimize(
                objective, np.full(5, 0.2), bounds=[(0, 1)] * 5, constraints=constraint, options={"ftol": 1e-13}
            )
            assert value == pytest.approx(other.fun, abs=1e-7)
            assert value <= other.fun + 1e-8


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_compiled_and_plain_agree_at_all_scales_of_costs(scale):
    rng = np.random.default_rng(2)
    table = scale * rng.uniform(0, 3, (6, 4)).round(1)
    outputs = ListedOutputs(np.vstack([table, table[:2], np.full((1, 4), scale)]))  # with two twins, and one constant
    for inner in (Multinomial(4), MaxEntropy(Cube(4)), Quadratic()):
        part = ConvolutionalFenchelYoung(inner, outputs)
        v = rng.normal(size=(150, 4)) * rng.choice([0.1, 1.0, 30.0], (150, 1))
        values, mu, law = part._convolved(v)
        plain, there, support = convolve(inner, outputs, v)
        size = max(scale, 1.0)
        np.testing.assert_allclose(values, plain, rtol=1e-9, atol=1e-9 * size)
        np.testing.assert_allclose(mu, there, rtol=1e-6, atol=1e-8 * (size if isinstance(inner, Quadratic) else 1))
        np.testing.assert_allclose(support.weights.sum(1), 1, atol=1e-12)
        assert law.shape == (150, 9)


@pytest.mark.parametrize(
    ("loss", "inner"),
    [
        (tl.losses.Hamming(4), "auto"),
        (tl.losses.ChainHamming(2, 3), "chain-crf"),
        (tl.losses.MatchingHamming(3), "auto"),
        (tl.losses.FBeta(3), "quadratic"),
        (tl.losses.NDCG(n_items=3), "quadratic"),
    ],
    ids=lambda x: type(x).__name__ if not isinstance(x, str) else x,
)
def test_an_oracle_and_a_list_agree(loss, inner):
    """The outputs one at a time, as the loss decodes, beside all of them in a table."""
    part = ConvolutionalFenchelYoung(inner).bind(loss.polytope).bind_outputs(loss)
    v = np.random.default_rng(3).normal(size=(40, loss.polytope.size)) * 0.7
    z = loss.outputs()
    listed = ConvolutionalFenchelYoung(
        part.surrogate, ListedOutputs(loss.psi(z), np.broadcast_to(loss.offset(z), len(z)))
    )
    values, mu, support = convolve(part.inner, loss, v)
    np.testing.assert_allclose(values, listed._convolved(v)[0], atol=1e-10)
    np.testing.assert_allclose(mu, listed.inverse_link(v), atol=1e-8)
    np.testing.assert_allclose(part.inverse_link(v), mu, atol=1e-8)
    assert (support.weights[:, 0] >= support.weights.max(1)).all()
    decided = part.decide(v)
    assert decided.shape == (40, *z.shape[1:])
    # what is decided is optimal for mu-hat
    best = (loss.psi(loss.decode(mu)) * mu).sum(1) + loss.offset(loss.decode(mu))
    np.testing.assert_allclose((loss.psi(decided) * mu).sum(1) + loss.offset(decided), best, atol=1e-8)


def test_outputs_too_many_to_list_go_through_the_oracle():
    loss = tl.losses.Hamming(12)
    part = ConvolutionalFenchelYoung().bind(loss.polytope).bind_outputs(loss)
    v = np.random.default_rng(4).normal(size=(30, 12))
    # Each label alone: potentials and losses add up over coordinates, and so do their convolutions.
    single = tl.losses.Hamming(1, weights=[1 / 12])
    one = ConvolutionalFenchelYoung().bind(single.polytope).bind_outputs(single)
    parts = one._convolved(v.reshape(-1, 1))
    np.testing.assert_allclose(part._convolved(v)[0], parts[0].reshape(v.shape).sum(1), atol=1e-10)
    np.testing.assert_allclose(part.inverse_link(v), parts[1].reshape(v.shape), atol=1e-8)
    with pytest.raises(ValueError, match="too many for a table"):
        part.mixture(v)


def test_two_labels_tie_where_scores_are_less_than_one_apart():
    part = ConvolutionalFenchelYoung(Multinomial(2), tl.losses.ZeroOne(2))
    gap = np.linspace(-3, 3, 61)
    v = np.c_[gap, 0 * gap]
    mu, pi = part.inverse_link(v), part.mixture(v)
    np.testing.assert_allclose(mu[np.abs(gap) <= 1], 0.5, atol=1e-12)
    assert (np.abs(mu[np.abs(gap) > 1.05, 0] - 0.5) > 0.01).all()
    np.testing.assert_allclose(pi[:, 0], np.clip((1 + gap) / 2, 0, 1), atol=1e-12)
    np.testing.assert_array_equal(part.decide(v)[gap > 1e-9], 0)


def test_a_constant_loss_changes_nothing():
    part = ConvolutionalFenchelYoung(Multinomial(3), ListedOutputs(np.full((2, 3), 0.7)))
    rng = np.random.default_rng(5)
    v, q = rng.normal(size=(20, 3)), rng.dirichlet(np.ones(3), 20)
    np.testing.assert_allclose(part.value(v, q), Multinomial(3).value(v, q), atol=1e-12)
    np.testing.assert_allclose(part.inverse_link(v), Multinomial(3).inverse_link(v), atol=1e-12)


def test_a_warm_start_changes_no_number():
    part = ConvolutionalFenchelYoung.examples()[0]
    rng = np.random.default_rng(6)
    kernel, w = fused.pointwise(part), rng.uniform(0, 1, 300)
    laws = np.zeros((300, kernel.memory))
    phi = np.eye(3)[rng.integers(0, 3, 300)]
    v = rng.normal(size=(300, 3))
    for step in (0.0, 0.01, 0.5, 5.0, 100.0):  # the laws kept are of scores as far away
        v = v + step * rng.normal(size=v.shape)
        terms, gradient = part.risk_and_gradient(v, phi)
        dv = v.copy()
        sums = kernel(dv, phi, w, laws)
        np.testing.assert_allclose(sums, w @ terms, rtol=1e-12)
        np.testing.assert_allclose(dv, w[:, None] * gradient, atol=1e-8)
        np.testing.assert_allclose(laws, part.mixture(v), atol=1e-6)


# -- the theory --------------------------------------------------------------------------------------------------------


@every_problem
def test_excess_identity(loss, part):
    """Excess of S = D_h(mu, mu-hat) + the excess task risk of an output drawn from the mixture."""
    rng = np.random.default_rng(7)
    q, v = draws(loss, part, rng, 300)
    phi = loss.phi(loss.labels())
    mu = q @ phi
    best = part.link(mu)
    surrogate = sum(
        q[:, y] * (part.value(v, np.tile(p, (len(v), 1))) - part.value(best, np.tile(p, (len(v), 1))))
        for y, p in enumerate(phi)
    )
    risks = q @ loss.matrix().T
    pi = part.mixture(v)
    task = (pi * risks).sum(1) - risks.min(1)
    # D_h(mu, mu-hat) is the plain surrogate at the score of mu-hat: moments near a face have lost their digits
    divergence = part.inner.value(v + pi @ loss.psi(loss.outputs()), mu)
    np.testing.assert_allclose(surrogate, divergence + task, atol=1e-8 * (1 + np.abs(surrogate).max()))
    near = np.abs(v).max(1) < 3
    moments = part.inverse_link(v[near])
    np.testing.assert_allclose(part.inner.divergence(mu[near], moments), divergence[near], rtol=1e-6, atol=1e-6)


def lower_bound_on_surrogate_excess(loss, part, v, q):
    """<v, u> - h_L(u) - <v, mu> + h_L(mu) for one u: below the surrogate's excess whatever u, by Fenchel and Young.

    With h from its formula: nothing of the solver but the point u.
    """

    def potential(mu, least):
        with np.errstate(divide="ignore", invalid="ignore"):
            entropy = {
                "Quadratic": lambda m: (m**2).sum(1) / 2,
                "Simplex": lambda m: np.where(m > 0, m * np.log(m), 0).sum(1),
                "Cube": lambda m: sum(np.where(p > 0, p * np.log(p), 0).sum(1) for p in ((1 + m) / 2, (1 - m) / 2)),
            }
            kind = "Quadratic" if part.domain is None else type(part.domain).__name__
            return entropy[kind](mu) - least

    psi, offsets = loss.psi(loss.outputs()), loss.offset(loss.outputs())
    u, mu = part.inverse_link(v), q @ loss.phi(loss.labels())
    there, here = (potential(m, (m @ psi.T + offsets).min(1)) for m in (u, mu))
    return ((u - mu) * v).sum(1) - there + here


def searched_ratio(loss, part, likeliest, rng, rows=300, rounds=60):
    """The least ratio of surrogate to task excess that an evolving population of laws and scores finds."""
    matrix = loss.matrix()
    q, v = draws(loss, part, rng, rows)

    def ratio(q, v):
        risks = q @ matrix.T
        excess = risks - risks.min(1, keepdims=True)
        pi = part.mixture(v)
        task = excess[np.arange(len(q)), pi.argmax(1)] if likeliest else (pi * excess).sum(1)
        size = 1e-4 * np.abs(matrix).max()  # below that a ratio is rounding
        return np.where(task > size, lower_bound_on_surrogate_excess(loss, part, v, q) / np.maximum(task, size), np.inf)

    best = ratio(q, v)
    for step in np.geomspace(1.0, 1e-3, rounds):
        bad = ~np.isfinite(best)  # start again beside one that is some good
        if bad.any() and not bad.all():
            source = rng.choice(np.flatnonzero(~bad), bad.sum())
            q[bad], v[bad], best[bad] = q[source], v[source], best[source]
        move = q * np.exp(step * rng.normal(size=q.shape))
        new_q, new_v = move / move.sum(1, keepdims=True), v + step * rng.normal(size=v.shape)
        new_q = np.where(rng.random((rows, 1)) < 0.2, q, new_q)
        new = ratio(new_q, new_v)
        better = new < best
        q[better], v[better], best[better] = new_q[better], new_v[better], new[better]
    return best.min()


@pytest.mark.parametrize("decision", ["drawn", "likeliest"])
@every_problem
def test_no_search_contradicts_the_linear_calibration(loss, part, decision):
    if isinstance(part.inner, MaxEntropy) and not isinstance(part.domain, Simplex | Cube):
        return  # entropy over a hull is the multinomial's in other coordinates
    zeta = tl.theory.linear_calibration(loss, part, decision)
    share = float(zeta.lower_bound(1e-9) / 1e-9)
    assert share == pytest.approx(1.0 if decision == "drawn" else 1 / loss.n_outputs)
    found = searched_ratio(loss, part, decision == "likeliest", np.random.default_rng(8))
    assert found >= share - 1e-6
    # and the search comes near what is possible, so that it could contradict: with two outputs in a tie, the half
    assert found <= (1.5 if decision == "drawn" else 0.9)


def test_both_constants_are_the_best_for_two_labels():
    """zeta(eps) = share eps + D_h((1 +- eps)/2, 1/2) for 0-1 loss: the linear term, and the plain surrogate's own."""
    loss = tl.losses.ZeroOne(2)
    part = ConvolutionalFenchelYoung(Multinomial(2), loss)
    gap, q = np.meshgrid(np.linspace(-4, 4, 1601), np.linspace(0, 1, 201), indexing="ij")
    v, law = np.c_[gap.ravel(), 0 * gap.ravel()], np.c_[q.ravel(), 1 - q.ravel()]
    surrogate, pi = part.value(v, law), part.mixture(v)
    excess = np.maximum(law[:, ::-1] - law, 0)  # of either output
    eps = 0.4
    plain = Multinomial(2).divergence(np.array([(1 + eps) / 2, (1 - eps) / 2]), np.array([0.5, 0.5]))
    drawn, likeliest = (pi * excess).sum(1), excess[np.arange(len(v)), pi.argmax(1)]
    for task, share in ((drawn, 1.0), (likeliest, 0.5)):
        assert surrogate[task >= eps - 1e-9].min() == pytest.approx(share * eps + plain, rel=2e-2)


def test_linear_calibration_sentences():
    with pytest.raises(ValueError, match="not convolved"):
        tl.theory.linear_calibration(tl.losses.ZeroOne(3), "multinomial")
    with pytest.raises(ValueError, match="'likeliest' or 'drawn'"):
        tl.theory.linear_calibration(tl.losses.ZeroOne(3), decision="argmax")
    with pytest.raises(ValueError, match="linear_calibration"):
        tl.theory.calibration(tl.losses.ZeroOne(3), "convolutional-fenchel-young")
    zeta = tl.theory.linear_calibration(tl.losses.Absolute(4))
    assert zeta.eps_max == 3
    assert zeta.lower_bound(3.1) == np.inf
    np.testing.assert_allclose(zeta.excess_risk([0.1, 5.0]), [0.4, 3.0])


def test_the_figure_has_pairs_under_both_bounds():
    pytest.importorskip("matplotlib")
    from taskloss.theory import plots_convolved

    fig = plots_convolved.convolved_figure()
    left, right = fig.axes
    s, e = left.get_lines()[0].get_data()
    zeta = tl.theory.calibration(tl.losses.ZeroOne(3), "multinomial")
    for i in np.argsort(-e / np.sqrt(s + 1e-12))[:5]:
        assert e[i] <= zeta.excess_risk(s[i]) + 1e-6
    for line, slope in ((0, 3.0), (1, 1.0)):
        s, e = right.get_lines()[line].get_data()
        assert (e <= slope * s + 1e-9).all()
        assert (e > 0.5 * slope * s).any()


# -- fits --------------------------------------------------------------------------------------------------------------


def data(n=300, k=4):
    rng = np.random.default_rng(9)
    X = rng.normal(size=(n, 3))
    return X, np.digitize(X[:, 0] + 0.7 * rng.normal(size=n), np.linspace(-1, 1, k - 1))


@pytest.mark.parametrize(
    "model",
    [
        tl.CostSensitiveClassifier(np.array([[0, 1, 4, 9], [2, 0, 1, 4], [5, 1, 0, 1], [9, 4, 1, 0], [1, 1, 1, 1]])),
        tl.OrdinalClassifier(),
        tl.TaskLossEstimator("squared"),
        tl.CostSensitiveClassifier(tl.losses.Abstain(cost=0.3)),
    ],
    ids=["costs", "ordinal", "squared", "abstain"],
)
@pytest.mark.parametrize("solver", ["lbfgs", "newton"])
def test_fits_find_the_minimum_and_decide_from_the_mixture(model, solver):
    X, y = data()
    inner = "all-thresholds" if isinstance(model, tl.OrdinalClassifier) else "auto"
    model = clone(model).set_params(surrogate=ConvolutionalFenchelYoung(inner), solver=solver, alpha=1e-2).fit(X, y)
    assert model.solution_.converged
    v = model.predict_scores(X)
    z = model.surrogate_.decide(v)
    np.testing.assert_array_equal(model.predict(X), model.outputs_[z])
    np.testing.assert_array_equal(z, model.surrogate_.mixture(v).argmax(1))
    assert model.score(X, y) == pytest.approx(-model.loss_(z, model.labels_.encode(y)).mean())
    # every output decided is optimal for the moments, though others may be as well
    risks = model.loss_.expected(model.predict_moments(X))
    np.testing.assert_allclose(model.expected_loss(X), risks.min(1), atol=1e-8)
    # a minimum: no gradient is left but the penalty's
    targets = model.loss_.phi(model.labels_.encode(y))
    risk = PenalisedRisk(model.hypothesis_, X, Rows(model.surrogate_, targets, np.ones(len(y))), 1e-2)
    assert np.abs(risk.value_and_gradient(risk.flatten(model.theta_))[1]).max() < 1e-3
    assert np.array_equal(pickle.loads(pickle.dumps(model)).predict(X), model.predict(X))


def test_where_labels_are_certain_the_fit_is_right_and_better_than_chance_elsewhere():
    X, y = data()
    for loss in ("zero-one", "absolute"):
        plain = tl.TaskLossEstimator(loss, "multinomial").fit(X, y)
        convolved = tl.TaskLossEstimator(loss, "convolutional-fenchel-young").fit(X, y)
        assert convolved.score(X, y) > 1.5 * plain.score(X, y)  # scores are minus losses
    easy = np.sign(X[:, :1])
    model = tl.TaskLossEstimator("zero-one", "convolutional-fenchel-young").fit(easy, easy[:, 0])
    assert model.score(easy, easy[:, 0]) == 0


def test_sample_weights_repeat_rows():
    X, y = data(80)
    weights = np.arange(80) % 3
    settings = {"surrogate": "convolutional-fenchel-young", "alpha": 1e-2, "tol": 1e-12}
    weighted = tl.OrdinalClassifier(**settings).fit(X, y, sample_weight=weights)
    repeated = tl.OrdinalClassifier(**settings).fit(np.repeat(X, weights, axis=0), np.repeat(y, weights))
    np.testing.assert_allclose(weighted.theta_, repeated.theta_, atol=1e-4)


def test_another_loss_or_costs_decide_from_moments_with_a_warning():
    X, y = data()
    model = tl.CostSensitiveClassifier("zero-one", "convolutional-fenchel-young").fit(X, y)
    with pytest.warns(ConsistencyWarning, match="outputs tie for that loss"):
        other = model.predict(X, loss="absolute")
    np.testing.assert_array_equal(other, tl.losses.Absolute(4).decode(model.predict_moments(X)))
    with pytest.warns(ConsistencyWarning, match="outputs tie"):
        model.predict(X, costs=np.ones((len(X), 4, 4)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tl.CostSensitiveClassifier("zero-one", "multinomial").fit(X, y).predict(X, loss="absolute")


def test_structured_estimators_take_it():
    rng = np.random.default_rng(10)
    X = rng.normal(size=(60, 2))
    Y = (X @ rng.normal(size=(2, 3)) + 0.5 * rng.normal(size=(60, 3)) > 0).astype(int)
    sets = tl.MultilabelClassifier(surrogate="convolutional-fenchel-young").fit(X, Y)
    plain = tl.MultilabelClassifier().fit(X, Y)
    assert sets.score(X, Y) > 1.5 * plain.score(X, Y)
    groups = np.repeat(np.arange(12), 5)
    relevance = np.digitize(X[:, 0] + 0.3 * rng.normal(size=60), [0, 1])
    convolved = ConvolutionalFenchelYoung("quadratic")
    ranker = tl.Ranker(surrogate=convolved).fit(X, relevance, groups)
    assert ranker.score(X, relevance, groups) > -0.2
    tables = [rng.normal(size=(4, 4, 2)) for _ in range(15)]
    matched = [tl.losses.MatchingHamming(4).decode(t[..., 0].reshape(1, -1))[0] for t in tables]
    matcher = tl.Matcher(features=None, surrogate=ConvolutionalFenchelYoung("row-multinomial")).fit(tables, matched)
    assert matcher.score(tables, matched) > -0.2


# -- sentences ---------------------------------------------------------------------------------------------------------


def test_sentences():
    with pytest.raises(ValueError, match="no outputs yet: give it an embedding"):
        ConvolutionalFenchelYoung(Multinomial(3)).value(np.zeros((1, 3)), np.eye(3)[:1])
    with pytest.raises(ValueError, match="no potential yet"):
        ConvolutionalFenchelYoung(embedding=tl.losses.ZeroOne(3)).value(np.zeros((1, 3)), np.eye(3)[:1])
    with pytest.raises(ValueError, match="outputs of another loss"):
        tl.CostSensitiveClassifier("zero-one", ConvolutionalFenchelYoung("auto", tl.losses.Absolute(4))).fit(*data())
    with pytest.raises(ValueError, match="one finite number for each of the 2 outputs"):
        ListedOutputs(np.eye(2), [1.0, 2.0, 3.0]).table()
    same = ConvolutionalFenchelYoung("multinomial", tl.losses.ZeroOne(4))
    assert tl.CostSensitiveClassifier("zero-one", same).fit(*data()).solution_.converged


def test_a_margins_surrogate_is_taken_by_its_potential():
    """All-thresholds with the logistic margin has the cube's entropy; its scores are twice the canonical ones."""
    loss = tl.losses.Absolute(4, embedding="cube")
    part = ConvolutionalFenchelYoung(AllThresholds()).bind(loss.polytope).bind_outputs(loss)
    assert part.inner == MaxEntropy(Cube(3))
    square = ConvolutionalFenchelYoung(AllThresholds("square")).bind(loss.polytope).bind_outputs(loss)
    rng = np.random.default_rng(11)
    mu = rng.dirichlet(np.ones(4), 5) @ loss.table
    np.testing.assert_allclose(square.inverse_link(square.link(mu)), mu, atol=1e-7)
