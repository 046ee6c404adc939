"""Rankings: NDCG and precision against enumeration and scikit-learn, the listwise surrogate, and Ranker."""

import itertools
import pickle

import numpy as np
import pytest
import sklearn
from scipy import sparse
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.metrics import ndcg_score
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import taskloss as tl
from taskloss.data.groups import GroupIds
from taskloss.hypotheses import Kernel, Linear, Nystrom
from taskloss.losses import DCG, NDCG, PrecisionAt
from taskloss.objectives import Batch, Groups, PenalisedRisk
from taskloss.polytopes import Gains, Hull, Simplex
from taskloss.surrogates import Listwise, MaxEntropy, OneVsAll, Quadratic

surrogates = pytest.mark.parametrize("surrogate", ["quadratic", "logistic", "listwise"])


def items(rng, n_groups=60, features=4, noise=1.0):
    """Graded items in groups of many sizes, in random order."""
    sizes = rng.integers(1, 12, n_groups)
    groups = rng.permutation(np.repeat(np.arange(n_groups), sizes))
    X = rng.normal(size=(len(groups), features))
    y = np.clip(np.round(X @ np.arange(1, features + 1) / features + noise * rng.normal(size=len(X))), 0, 3)
    return X, y, groups


# -- the losses ------------------------------------------------------------------------------------------------------


def slow_ndcg(order, y, gain, at):
    """NDCG as the textbooks write it: order lists items from the top."""

    def dcg(items):
        return sum(gain(y[j]) / np.log2(2 + i) for i, j in enumerate(items[:at]))

    best = dcg(np.argsort(-y, kind="stable"))
    return dcg(order) / best if best > 0 else None


@pytest.mark.parametrize("at", [None, 1, 3, 10])
@pytest.mark.parametrize("gain", ["exponential", "linear"])
def test_ndcg_is_the_textbooks(at, gain):
    rng = np.random.default_rng(0)
    function = {"exponential": lambda r: 2.0**r - 1, "linear": lambda r: r}[gain]
    for _ in range(20):
        m = int(rng.integers(1, 8))
        y = rng.choice([0, 0, 1, 2.5, 4], m)
        order = rng.permutation(m)
        rank = np.argsort(order)
        expected = slow_ndcg(order, y, function, at)
        for empty in (0.0, 1.0, 0.3):
            loss = NDCG(gain, at=at, empty=empty, n_items=m)
            assert loss(rank, y) == pytest.approx(1 - (empty if expected is None else expected))


def test_ndcg_equals_scikit_learn():
    rng = np.random.default_rng(1)
    y, scores = rng.integers(0, 4, (30, 9)), rng.normal(size=(30, 9))
    for at in (None, 3):
        loss = NDCG("linear", at=at, n_items=9)
        for r, s in zip(y, scores, strict=True):
            assert 1 - loss(loss.decode(s), r) == pytest.approx(ndcg_score(r[None], s[None], k=at))


def test_precision_counts_relevant_items_at_the_top():
    loss = PrecisionAt(2, n_items=4)
    assert loss([0, 1, 2, 3], [3, 0, 1, 1]) == pytest.approx(0.5)
    assert PrecisionAt(5, n_items=2)([0, 1], [1, 1]) == pytest.approx(1 - 2 / 5)


@pytest.mark.parametrize(
    "loss",
    [
        NDCG(n_items=4),
        NDCG("linear", at=2, n_items=4),
        NDCG(lambda r: r**2, lambda i: 1 / (1.0 + i), empty=0.4, n_items=4),
        PrecisionAt(2, n_items=4),
        DCG(top=2.5, n_items=4),
        DCG("linear", at=2, top=2.5, n_items=4),
    ],
    ids=["ndcg", "at-2", "own", "precision", "dcg", "dcg-at-2"],
)
def test_embedding_and_decoding_on_graded_relevance(loss):
    """The affine form is exact for grades, and the sort is the argmin over all orders of the expected loss."""
    rng = np.random.default_rng(2)
    z = loss.outputs()
    y = np.array(list(itertools.product([0, 1, 2.5], repeat=4)))
    table = np.array([[loss(a, b) for b in y[::7]] for a in z])
    np.testing.assert_allclose(loss.psi(z) @ loss.phi(y[::7]).T + loss.constant, table, atol=1e-12)
    law = rng.dirichlet(np.full(len(y[::7]), 0.2), 30)
    mu = law @ loss.phi(y[::7])
    np.testing.assert_allclose(loss.bayes_risk(loss.decode(mu), mu), (law @ table.T).min(1), atol=1e-12)
    # Grades lie in the hull of what binary relevance embeds to.
    assert loss.polytope.contains(loss.phi(y[::5]), tol=1e-7).all()


def test_binding():
    loss = NDCG(at=3).bind(5)
    assert loss == NDCG(at=3, n_items=5)
    assert loss.bind(5) == loss
    with pytest.raises(ValueError, match="5 items, but the group has 6"):
        loss.bind(6)


def test_gains_equal_the_hull_of_their_vertices():
    polytope = Gains((1.0, 0.7, 0.2, 0.0), empty=0.2)
    hull = Hull(polytope.vertices())
    v = np.random.default_rng(3).normal(size=(40, 4))
    np.testing.assert_allclose((polytope.maximiser(v) * v).sum(-1), (hull.maximiser(v) * v).sum(-1), atol=1e-12)
    # The hull is the ball of the ordered weighted norm: sum_j D_j mu_(j) <= 1.
    mu = np.random.default_rng(4).dirichlet(np.full(16, 0.3), 50) @ polytope.vertices()
    assert (-np.sort(-mu, -1) @ polytope.discounts <= 1 + 1e-12).all()


def test_the_empty_set_is_no_vertex_of_its_own_where_it_counts_as_one():
    for empty, count in ((0.0, 8), (0.3, 8), (1.0, 7)):
        polytope = Gains((1.0, 0.6, 0.5), empty)
        assert len(polytope.vertices()) == len(np.unique(polytope.vertices(), axis=0)) == count
        np.testing.assert_allclose(polytope.log_partition(np.zeros(3)), np.log(count))
    assert len(Gains((1.0,), 1.0).vertices()) == 1


# -- the listwise surrogate ------------------------------------------------------------------------------------------


def test_listwise_is_max_entropy_over_its_corners():
    rng = np.random.default_rng(5)
    m, cap = 4, 1.7
    surrogate = Listwise(m, cap)
    same = MaxEntropy(surrogate.domain)
    v = rng.normal(size=(6, m))
    phi = cap * rng.dirichlet(np.ones(m + 1), 6)[:, :m]
    np.testing.assert_allclose(surrogate.value(v, phi), cap * same.value((v - np.log(m)) / cap, phi), atol=1e-10)
    np.testing.assert_allclose(surrogate.inverse_link(v), same.inverse_link((v - np.log(m)) / cap), atol=1e-12)


def test_listwise_is_listnet_where_gains_sum_to_the_cap():
    """S then differs from the cross-entropy of the softmax by a term that a shift of all scores takes to zero."""
    rng = np.random.default_rng(6)
    phi, v = rng.dirichlet(np.ones(4), 5), rng.normal(size=(5, 4))
    cross = MaxEntropy(Simplex(4)).value(v, phi)
    np.testing.assert_allclose(Listwise(4, 1.0).value(v + 40, phi), cross, atol=1e-12)


def test_listwise_cap_is_the_largest_sum():
    for loss in (NDCG(n_items=5), NDCG(at=2, empty=1.0, n_items=5), PrecisionAt(3, n_items=5)):
        bound = Listwise().bind(loss.polytope)
        assert bound.cap == pytest.approx(loss.polytope.vertices().sum(-1).max())
    with pytest.raises(ValueError, match="less than the largest sum"):
        Listwise(cap=0.5).bind(loss.polytope)
    with pytest.raises(ValueError, match="not negative"):
        Listwise().bind(tl.losses.Hamming(3).polytope)
    with pytest.raises(ValueError, match="no size yet"):
        Listwise().inverse_link(np.zeros((1, 2)))


# -- the risk over groups --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("surrogate", [Quadratic(), OneVsAll("logistic"), Listwise()], ids=["q", "l", "list"])
def test_the_risk_of_groups_is_the_weighted_mean_of_each_alone(surrogate):
    rng = np.random.default_rng(7)
    X, y, ids = items(rng, 20)
    batches, order = [], []
    for size, _, rows in GroupIds(ids, len(X)).by_size():
        loss = NDCG(n_items=size)
        batches.append(Batch(surrogate.bind(loss.polytope), loss.phi(y[rows])))
        order.append(rows.ravel())
    X, weights = X[np.concatenate(order)], rng.uniform(1, 2, 20)
    f = PenalisedRisk(Linear(), X, Groups(batches, weights), 0.3)
    theta = rng.normal(size=f.start.shape)
    by_hand, start, alone = 0.15 * (theta[:-1] ** 2).sum(), 0, []
    for batch in batches:
        for phi in batch.targets:
            v = X[start : start + len(phi)] @ theta[:-1, 0] + theta[-1, 0]
            alone.append(batch.surrogate.value(v[None], phi[None])[0])
            start += len(phi)
    by_hand += np.average(alone, weights=weights)
    np.testing.assert_allclose(f.value_and_gradient(theta)[0], by_hand)


def test_groups_may_stand_in_any_order():
    groups = GroupIds(["b", "a", "b", "c", "b", "a"], 6)
    found = {size: (which.tolist(), rows.tolist()) for size, which, rows in groups.by_size()}
    assert found == {1: ([2], [[3]]), 2: ([0], [[1, 5]]), 3: ([1], [[0, 2, 4]])}


# -- Ranker ----------------------------------------------------------------------------------------------------------


@surrogates
def test_ranker_learns_to_rank(surrogate):
    rng = np.random.default_rng(8)
    X, y, groups = items(rng, 200, noise=0.5)
    model = tl.Ranker(NDCG(at=5), surrogate).fit(X, y, groups=groups)
    assert model.solution_.converged
    ranks = model.predict(X, groups)
    for g in np.unique(groups)[:20]:
        inside = groups == g
        assert sorted(ranks[inside]) == list(range(inside.sum()))
        np.testing.assert_array_equal(np.argsort(ranks[inside]), np.argsort(-model.predict_scores(X)[inside]))
    random = tl.Ranker(NDCG(at=5), surrogate).fit(X, rng.permutation(y), groups=groups)
    assert model.score(X, y, groups) > random.score(X, y, groups) + 0.15
    losses = model.group_losses(X, y, groups)
    assert model.score(X, y, groups) == pytest.approx(-losses.mean())
    assert model.expected_loss(X, groups).shape == losses.shape


@surrogates
def test_the_order_of_rows_and_the_kind_of_ids_do_not_matter(surrogate):
    rng = np.random.default_rng(9)
    X, y, groups = items(rng)
    first = tl.Ranker(surrogate=surrogate, tol=1e-14).fit(X, y, groups=groups)
    mixed = rng.permutation(len(X))
    names = np.array([f"q{g:03d}" for g in groups])
    second = tl.Ranker(surrogate=surrogate, tol=1e-14).fit(X[mixed], y[mixed], groups=names[mixed])
    np.testing.assert_allclose(first.coef_, second.coef_, rtol=1e-5)
    third = tl.Ranker(surrogate=surrogate, tol=1e-14).fit(sparse.csr_matrix(X), y, groups=groups)
    np.testing.assert_allclose(first.coef_, third.coef_, rtol=1e-5)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(first)).predict(X, groups), first.predict(X, groups))


def test_quadratic_ranker_is_ridge_on_normalised_gains():
    X, y, groups = items(np.random.default_rng(10))
    target = np.empty(len(y))
    for size, _, rows in GroupIds(groups, len(y)).by_size():
        target[rows] = NDCG(n_items=size).phi(y[rows])
    n = len(np.unique(groups))
    model = tl.Ranker(surrogate="quadratic", alpha=0.02, tol=1e-15).fit(X, y, groups=groups)
    ridge = Ridge(alpha=0.02 * n).fit(X, target)
    np.testing.assert_allclose(model.coef_, ridge.coef_, rtol=1e-6)
    np.testing.assert_allclose(model.predict_moments(X, groups), ridge.predict(X), atol=1e-7)


def test_weights_are_repetitions_of_groups():
    rng = np.random.default_rng(11)
    X, y, groups = items(rng, 20)
    twice = groups < 10
    model = tl.Ranker(tol=1e-14).fit(X, y, groups=groups, sample_weight=1.0 + twice)
    again = np.concatenate([groups, groups[twice] + 100])
    copy = tl.Ranker(tol=1e-14).fit(np.vstack([X, X[twice]]), np.append(y, y[twice]), groups=again)
    np.testing.assert_allclose(model.coef_, copy.coef_, rtol=1e-5)
    assert model.score(X, y, groups, sample_weight=1.0 + twice) == pytest.approx(
        copy.score(np.vstack([X, X[twice]]), np.append(y, y[twice]), again)
    )


def test_other_losses_on_the_same_moments():
    X, y, groups = items(np.random.default_rng(12))
    model = tl.Ranker(PrecisionAt(3)).fit(X, y, groups=groups)
    np.testing.assert_array_equal(model.predict(X, groups, loss=PrecisionAt(1)), model.predict(X, groups))
    assert model.expected_loss(X, groups, loss=PrecisionAt(1)).shape == (len(np.unique(groups)),)
    with pytest.raises(ValueError, match="needs other moments"):
        model.predict(X, groups, loss=NDCG())
    assert model.group_losses(X, y, groups, loss=NDCG()).shape == (len(np.unique(groups)),)


def test_ranker_in_a_grid_search_over_groups():
    X, y, groups = items(np.random.default_rng(13))
    with sklearn.config_context(enable_metadata_routing=True):
        grid = {"alpha": [1e-3, 1e2], "surrogate": ["quadratic", "listwise"]}
        search = GridSearchCV(tl.Ranker(NDCG(at=5)), grid, cv=GroupKFold(3)).fit(X, y, groups=groups)
        piped = make_pipeline(StandardScaler(), tl.Ranker())
        scores = GridSearchCV(piped, {"ranker__alpha": [1e-3, 1.0]}, cv=GroupKFold(3)).fit(X, y, groups=groups)
    assert search.best_score_ > -0.5
    assert np.isfinite(scores.cv_results_["mean_test_score"]).all()
    # What the search reports is the mean over folds of minus the loss by group.
    best = search.best_params_
    folds = [
        tl.Ranker(NDCG(at=5), **best).fit(X[a], y[a], groups=groups[a]).score(X[b], y[b], groups[b])
        for a, b in GroupKFold(3).split(X, y, groups)
    ]
    assert search.best_score_ == pytest.approx(np.mean(folds))
    assert clone(search.best_estimator_).get_params() == search.best_estimator_.get_params()
    nested = tl.Ranker(NDCG(at=5)).set_params(loss__at=3)
    assert nested.loss.at == 3


def test_a_kernel_ranker_is_the_linear_one_where_the_kernel_is_linear():
    X, y, groups = items(np.random.default_rng(17))
    new = items(np.random.default_rng(18), 10)[0]
    linear = tl.Ranker("ndcg", "auto", alpha=0.05, tol=1e-13).fit(X, y, groups=groups)
    for hypothesis in (Kernel("linear"), Nystrom(30, "linear")):
        model = tl.Ranker(hypothesis=hypothesis, alpha=0.05, tol=1e-13).fit(X, y, groups=groups)
        np.testing.assert_allclose(model.predict_scores(new), linear.predict_scores(new), atol=1e-4)
        assert model.score(X, y, groups) == pytest.approx(linear.score(X, y, groups), abs=1e-3)
    rbf = tl.Ranker(hypothesis="kernel", alpha=1e-3).fit(X.astype(np.float32), y, groups=groups)
    assert rbf.score(X, y, groups) > linear.score(X, y, groups)
    features = rbf.hypothesis_.features(new)
    np.testing.assert_allclose(features @ rbf.coef_ + rbf.intercept_, rbf.predict_scores(new), atol=1e-5)


def test_features_made_in_blocks_change_nothing(monkeypatch):
    X, y, groups = items(np.random.default_rng(19), 80)
    assert len(X) > 256
    one = tl.Ranker(hypothesis="nystrom").fit(X, y, groups=groups)
    monkeypatch.setattr("taskloss.objectives.penalised._HELD_BYTES", 1)
    two = tl.Ranker(hypothesis="nystrom").fit(X, y, groups=groups)
    np.testing.assert_allclose(one.predict_scores(X), two.predict_scores(X), atol=1e-4)


def test_neither_parameters_set_later_nor_a_failed_fit_change_predictions():
    X, y, groups = items(np.random.default_rng(20))
    surrogate = OneVsAll("logistic")
    model = tl.Ranker(PrecisionAt(3), surrogate).fit(X, y, groups=groups)
    before = model.predict_moments(X, groups)
    for wide, bad in ((np.hstack([X, X]), -y), (np.hstack([X, X]), y[:-1])):
        with pytest.raises(ValueError):
            model.fit(wide, bad, groups=groups)
    assert model.n_features_in_ == 4
    surrogate.set_params(margin="square")
    model.set_params(surrogate="listwise", loss="ndcg", hypothesis="kernel")
    np.testing.assert_array_equal(model.predict_moments(X, groups), before)


def test_fisher_consistency_where_regression_on_relevance_fails():
    """With unlimited data the normalised gains rank as the Bayes rule does; the mean relevance does not."""
    rng = np.random.default_rng(14)
    y = np.array(list(itertools.product([0, 1, 2], repeat=3)))
    # Alone at the top in 45 % of cases beats always coming second to another: N is larger there.
    special = np.zeros(27)
    special[y.tolist().index([2, 0, 0])], special[y.tolist().index([0, 2, 2])] = 0.45, 0.55
    laws = np.array([special, *rng.dirichlet(np.full(27, 0.15), 5)])
    loss = NDCG(n_items=3)
    table = 1 - (-loss.psi(loss.outputs())) @ loss.phi(y).T
    bayes = (laws @ table.T).min(1)

    def risk(ranks):
        return np.array([laws[c] @ loss(np.broadcast_to(r, y.shape), y) for c, r in enumerate(ranks)])

    # One group per context and relevance; every item of every context has a feature of its own.
    features = np.eye(18).reshape(6, 3, 18)
    X = np.repeat(features, 27, axis=0).reshape(-1, 18)
    groups = np.repeat(np.arange(6 * 27), 3)
    target = np.tile(y, (6, 1)).ravel()
    plain = loss.decode(laws @ (2.0**y - 1))
    assert (risk(plain) - bayes)[0] > 0.01
    for surrogate in ("quadratic", "logistic", "listwise"):
        excess = []
        for n in (60, 600, 200_000):
            counts = np.concatenate([rng.multinomial(n // 6, law) for law in laws]).astype(float)
            model = tl.Ranker(surrogate=surrogate, alpha=0.1 / n).fit(
                X, target, groups=groups, sample_weight=np.repeat(counts, 3)
            )
            ranks = model.predict(np.eye(18), np.repeat(np.arange(6), 3)).reshape(6, 3)
            excess.append((risk(ranks) - bayes).mean())
        assert excess[-1] < 1e-3 < (risk(plain) - bayes).mean()
        assert excess[-1] <= excess[0] + 1e-12
        # The moments themselves are right, where the features can express any.
        mu = model.predict_moments(np.eye(18), np.repeat(np.arange(6), 3)).reshape(6, 3)
        np.testing.assert_allclose(mu, laws @ loss.phi(y), atol=0.03)


# -- bad input -------------------------------------------------------------------------------------------------------


def test_clear_sentences():
    X, y, groups = items(np.random.default_rng(15), 10)
    fitted = tl.Ranker().fit(X, y, groups=groups)
    cases = [
        (lambda: tl.Ranker().fit(X, y), "needs groups, one id per row.*enable_metadata_routing"),
        (lambda: tl.Ranker().fit(X, y, groups=[3, 4]), "np.repeat"),
        (lambda: tl.Ranker().fit(X, y, groups=np.full(len(X), np.nan)), "groups contains NaN"),
        (lambda: tl.Ranker().fit(X, y, groups=["q", None] + ["q"] * (len(X) - 2)), "groups contains NaN or None"),
        (lambda: tl.Ranker().fit(X, y, groups=np.array(["q"] + [1] * (len(X) - 1), object)), "cannot be sorted"),
        (lambda: fitted.score(X, y), "needs groups, one id per row"),
        (lambda: fitted.group_losses(X, y), "needs groups, one id per row"),
        (lambda: fitted.score(X, y, groups, np.ones(3)), "one number for each of the [0-9]+ rows"),
        (lambda: fitted.score(X, y, groups, -np.ones(len(X))), "not negative"),
        (lambda: fitted.score(X, y, groups, np.zeros(len(X))), "at least one must count"),
        (lambda: tl.Ranker(PrecisionAt(None)).fit(X, y, groups=groups), "PrecisionAt needs the number of positions"),
        (lambda: tl.Ranker(NDCG(at="3")).fit(X, y, groups=groups), "at must be a whole number"),
        (lambda: tl.Ranker(NDCG(at=2.5)).fit(X, y, groups=groups), "at must be a whole number"),
        (lambda: tl.Ranker(NDCG(lambda y: 1.0)).fit(X, y, groups=groups), "gain must give a number for each relevance"),
        (
            lambda: tl.Ranker(hypothesis=Kernel("precomputed")).fit(X, y, groups=groups),
            "the kernel itself, not its matrix",
        ),
        (lambda: tl.Ranker().fit(X[:0], y[:0], groups=groups[:0]), "0 sample"),
        (lambda: tl.Ranker().fit(X, y - 1, groups=groups), "must not be negative, got -1"),
        (lambda: tl.Ranker().fit(X, y * np.nan, groups=groups), "NaN"),
        (lambda: tl.Ranker().fit(X, None, groups=groups), "target y is None"),
        (lambda: tl.Ranker().fit(X, ["good"] * len(X), groups=groups), "one number for each item"),
        (lambda: tl.Ranker().fit(X, y[:-1], groups=groups), "different lengths"),
        (lambda: tl.Ranker("hamming").fit(X, y, groups=groups), "no loss on rankings"),
        (lambda: tl.Ranker(alpha=-1).fit(X, y, groups=groups), "alpha must be"),
        (
            lambda: tl.Ranker(surrogate="multinomial").fit(X, y, groups=groups),
            "does not fit this loss.*surrogate='auto'",
        ),
        (
            lambda: tl.Ranker().fit(X, y, groups=groups, sample_weight=np.zeros(len(X))),
            "at least one must count",
        ),
        (lambda: tl.Ranker().fit(X, 2000 + y, groups=groups), "gains of this relevance"),
        (lambda: fitted.predict(X[:, :2], groups), "features"),
        (lambda: fitted.predict(X, groups[:3]), "group of each"),
        (lambda: NDCG().weights, "does not know its number of items"),
        (lambda: NDCG(n_items=0).weights, "n_items must be at least one"),
        (lambda: NDCG(at=0, n_items=2).weights, "at must be"),
        (lambda: NDCG(gain="cubic", n_items=2).phi([0, 1]), "gain must be"),
        (lambda: NDCG(discount="log3", n_items=2).weights, "discount must be"),
        (lambda: NDCG(discount=lambda i: i + 1.0, n_items=2).weights, "never increasing"),
        (lambda: NDCG(empty=2, n_items=2).phi([0, 1]), "empty must be"),
        (lambda: NDCG(n_items=3).phi([0, 1]), "3 columns"),
        (lambda: NDCG(n_items=3)([0, 0, 1], [1, 0, 0]), "a rank of its own"),
        (lambda: NDCG(n_items=3).decode([0, 0, 1], costs=1), "no costs per example"),
        (lambda: NDCG().scorer(), "Ranker.score"),
        (lambda: tl.CostSensitiveClassifier(NDCG()).fit(X, y), "use Ranker"),
        (lambda: NDCG(n_items=40).labels(), "too many to list"),
    ]
    for call, sentence in cases:
        with pytest.raises(ValueError, match=sentence):
            call()
    with pytest.raises(sklearn.exceptions.NotFittedError):
        tl.Ranker().predict(X, groups)


def test_verbose_shows_progress(capsys):
    X, y, groups = items(np.random.default_rng(16), 10)
    tl.Ranker(verbose=True).fit(X, y, groups=groups)
    assert "iterations, objective" in capsys.readouterr().err
