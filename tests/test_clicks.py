"""Click logs: DCG, propensities, and the three forms in which groups are given."""

import numpy as np
import pytest
import sklearn
from scipy.special import expit
from sklearn.metrics import dcg_score
from sklearn.model_selection import GridSearchCV, GroupKFold

import taskloss as tl
from taskloss.losses import DCG, NDCG, PrecisionAt

SEEN = 1 / np.arange(1, 11)  # the chance that a position is looked at


def queries(rng, n, items=10):
    """Features, binary relevance, groups, and the place of each item under a bad old ranking."""
    X = rng.normal(size=(n * items, 4))
    y = (rng.random(len(X)) < expit(X @ [1.5, -1.0, 0.5, 0] - 1)).astype(int)
    groups = np.repeat(np.arange(n), items)
    old = (X @ [-1.0, -1.0, 0, 1] + 0.3 * rng.normal(size=len(X))).reshape(n, items)
    return X, y, groups, (-old).argsort(1).argsort(1).ravel()


def clicks(rng, y, place):
    return y * (rng.random(len(y)) < SEEN[place])


def test_dcg_is_scikit_learns_up_to_scale_and_constant():
    rng = np.random.default_rng(0)
    y, scores = rng.integers(0, 4, (20, 6)), rng.normal(size=(20, 6))
    for at in (None, 3):
        loss = DCG("linear", at=at, top=3, n_items=6)
        for r, s in zip(y, scores, strict=True):
            found = 3 * (loss.weights.sum() - loss(loss.decode(s), r))
            assert found == pytest.approx(dcg_score(r[None], s[None], k=at))
    assert DCG(n_items=2).bind_codes(np.array([0.0, 2.0])).top == 2
    assert DCG(n_items=2).bind_codes(np.zeros(2)).top == 1


@pytest.mark.parametrize("loss", [DCG(n_items=4), DCG("linear", at=2, n_items=4), PrecisionAt(2, n_items=4)])
def test_clicks_over_propensities_are_unbiased_for_the_loss(loss):
    """The mean over all patterns of what was seen is the loss of the relevance."""
    rng = np.random.default_rng(1)
    y, seen, z = np.array([1, 0, 1, 1]), rng.uniform(0.2, 1, 4), rng.permutation(4)
    mean = 0.0
    for pattern in range(16):
        looked = (pattern >> np.arange(4)) & 1
        chance = np.prod(np.where(looked, seen, 1 - seen))
        mean += chance * loss.bayes_risk(z, loss.seen_through(loss.phi(y * looked), seen))
    assert mean == pytest.approx(float(loss(z, y)))


@pytest.mark.parametrize("surrogate", ["quadratic", "logistic", "listwise"])
def test_fits_to_clicks_find_the_ranking_of_the_relevance(surrogate):
    rng = np.random.default_rng(2)
    X, y, groups, place = queries(rng, 1500)
    log = [clicks(rng, y, place) for _ in range(3)]
    X3, groups3, place3 = np.tile(X, (3, 1)), np.concatenate([groups + 1500 * i for i in range(3)]), np.tile(place, 3)
    fit = {"groups": groups3}
    model = tl.Ranker(DCG(), surrogate)
    full = tl.Ranker(DCG(), surrogate).fit(X, y, groups=groups).coef_
    corrected = model.fit(X3, np.concatenate(log), **fit, propensity=SEEN[place3]).coef_
    naive = tl.Ranker(DCG(), surrogate).fit(X3, np.concatenate(log), **fit).coef_

    def angle(w):
        return w @ full / np.linalg.norm(w) / np.linalg.norm(full)

    assert angle(corrected) > 0.99
    assert angle(naive) < 0.95
    # and scores of clicks are those of the relevance
    whole = model.score(X, y, groups)
    estimates = [model.score(X, c, groups, propensity=SEEN[place]) for c in log]
    assert abs(np.mean(estimates) - whole) < 0.05
    assert abs(np.mean([model.score(X, c, groups) for c in log]) - whole) > 0.3


def test_propensities_of_one_change_nothing_and_the_risk_is_linear_in_their_inverse():
    rng = np.random.default_rng(3)
    X, y, groups, _ = queries(rng, 40)
    plain = tl.Ranker(DCG()).fit(X, y, groups)
    np.testing.assert_allclose(tl.Ranker(DCG()).fit(X, y, groups, propensity=np.ones(len(y))).coef_, plain.coef_)
    np.testing.assert_allclose(plain.score(X, y, groups, propensity=1.0), plain.score(X, y, groups))
    graded = tl.Ranker(DCG("linear", top=4), "quadratic").fit(X, 2 * y, groups).coef_
    halves = tl.Ranker(DCG("linear", top=4), "quadratic").fit(X, y, groups, propensity=0.5).coef_
    np.testing.assert_allclose(halves, graded, atol=1e-7)


def test_sizes_and_qid_and_groups_say_the_same():
    rng = np.random.default_rng(4)
    X, y, groups, _ = queries(rng, 30)
    models = [
        tl.Ranker(DCG()).fit(X, y, **given) for given in ({"groups": groups}, {"qid": groups}, {"group": [10] * 30})
    ]
    for model, given in zip(models, ({"groups": groups}, {"qid": groups}, {"group": np.full(30, 10)}), strict=True):
        np.testing.assert_array_equal(model.coef_, models[0].coef_)
        for method in ("predict", "predict_moments", "expected_loss"):
            np.testing.assert_array_equal(getattr(model, method)(X, **given), getattr(models[0], method)(X, groups))
        assert model.score(X, y, **given) == models[0].score(X, y, groups)
        np.testing.assert_array_equal(model.group_losses(X, y, **given), models[0].group_losses(X, y, groups))
    stream = tl.Ranker(DCG(top=1), solver=tl.solvers.ASGD(step=0.1))
    stream.partial_fit(X, y, group=[10] * 30)
    again = tl.Ranker(DCG(top=1), solver=tl.solvers.ASGD(step=0.1)).partial_fit(X, y, groups)
    np.testing.assert_array_equal(stream.coef_, again.coef_)


def test_searches_route_qid_and_propensities():
    rng = np.random.default_rng(5)
    X, y, groups, place = queries(rng, 60)
    c, seen = clicks(rng, y, place), SEEN[place]
    with sklearn.config_context(enable_metadata_routing=True):
        grid = GridSearchCV(tl.Ranker(DCG()), {"alpha": [1e-3, 10.0]}, cv=GroupKFold(3))
        grid.fit(X, c, groups=groups, propensity=seen)
    folds = GroupKFold(3).split(X, c, groups)
    scores = [
        tl.Ranker(DCG(), alpha=1e-3)
        .fit(X[a], c[a], groups[a], propensity=seen[a])
        .score(X[b], c[b], groups[b], propensity=seen[b])
        for a, b in folds
    ]
    np.testing.assert_allclose(grid.cv_results_["mean_test_score"][0], np.mean(scores))


def test_trees_learn_from_clicks():
    pytest.importorskip("lightgbm")
    rng = np.random.default_rng(6)
    X, y, groups, place = queries(rng, 1500)
    trees = tl.hypotheses.Boosting(n_estimators=30, learning_rate=0.2, num_leaves=7)
    model = tl.Ranker(DCG(), "logistic", hypothesis=trees)
    corrected = model.fit(X, clicks(rng, y, place), groups, propensity=SEEN[place]).score(X, y, groups)
    naive = model.fit(X, clicks(rng, y, place), groups).score(X, y, groups)
    assert corrected > naive + 0.02


def test_bad_input_is_refused_in_a_sentence():
    rng = np.random.default_rng(7)
    X, y, groups, _ = queries(rng, 12)
    ones = np.ones(len(y))
    for loss, fit, words in [
        (
            DCG(),
            {"groups": groups, "propensity": 0 * ones},
            "propensity must be above zero and at most one, got 0: leave out",
        ),
        (DCG(), {"groups": groups, "propensity": 2 * ones}, "propensity must be above zero and at most one, got 2"),
        (DCG(), {"groups": groups, "propensity": np.nan * ones}, "propensity must be above zero"),
        (DCG(), {"groups": groups, "propensity": ones[:3]}, "propensity must be one chance for each of the 120 items"),
        (NDCG(), {"groups": groups, "propensity": ones}, "divides these by the best DCG of the group"),
        (DCG(), {"groups": groups, "qid": groups}, "groups and qid say the same thing"),
        (DCG(), {"group": [10] * 11}, "sum to the 120 rows, got 11 of them, which sum to 110"),
        (DCG(), {"group": [119.5, 0.5]}, "group must be the sizes of the groups, whole numbers"),
        (DCG(), {}, "Ranker needs groups, one id per row, or group, their sizes"),
        (DCG(top=-1), {"groups": groups}, "top must be a finite number above zero"),
        (DCG(), {"groups": groups, "propensity": ones, "validation": (X, y, groups)}, "validation has no propensities"),
    ]:
        with pytest.raises(ValueError, match=words):
            tl.Ranker(loss).fit(X, y, **fit)
    with pytest.raises(ValueError, match="no convex risk of clicks over propensities"):
        tl.Ranker(DCG(), tl.surrogates.OneVsAll("exponential")).fit(X, y, groups, propensity=ones)
    with pytest.raises(ValueError, match=r"for a stream give it, as top="):
        tl.Ranker(DCG(), solver=tl.solvers.ASGD(step=0.1)).partial_fit(X, y, groups)
    with pytest.raises(ValueError, match="divides these by the best DCG"):
        tl.Ranker(NDCG()).fit(X, y, groups).score(X, y, groups, propensity=ones)
