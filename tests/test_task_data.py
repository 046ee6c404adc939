"""The real data of rankings and matchings: what the loaders promise, and that learning helps on it."""

import numpy as np
import pytest
from benchmarks.datasets import root

import taskloss as tl

pytestmark = pytest.mark.skipif(root() is None, reason="the data sets are absent")


def test_mq2008_has_five_folds_that_share_no_query():
    from benchmarks.datasets.rankings import mq2008

    folds = mq2008()
    assert len(folds) == 5
    tests = [set(test.groups.tolist()) for _, _, test in folds]
    assert len(set.union(*tests)) == sum(map(len, tests)) == 784
    for train, valid, test in folds:
        assert train.X.shape[1] == 46
        assert not set(train.groups) & set(valid.groups) | set(train.groups) & set(test.groups)
        assert train.sizes.sum() == len(train.y)


def test_ranker_beats_a_random_order_on_lightgbms_example():
    from benchmarks.datasets.rankings import lightgbm_rank

    train, test = lightgbm_rank()
    assert (len(np.unique(train.groups)), len(np.unique(test.groups))) == (201, 50)
    loss = tl.losses.NDCG(at=10)
    model = tl.Ranker(loss, alpha=0.1).fit(train.X, train.y, groups=train.groups)
    shuffled = np.random.default_rng(0).permutation(train.y)
    blind = tl.Ranker(loss, alpha=0.1).fit(train.X, shuffled, groups=train.groups)
    assert model.score(test.X, test.y, test.groups) > blind.score(test.X, test.y, test.groups) + 0.05


def test_matcher_beats_plain_assignment_on_the_house():
    from benchmarks.datasets.matchings import cmu_house
    from benchmarks.matchings import accuracy, plain

    train, valid, test = cmu_house(80)
    assert len(train) + len(valid) + len(test) == 31
    for (a, b), y in zip(test.X, test.y, strict=True):
        assert a.shape == b.shape == (30, 60)
        assert sorted(y) == list(range(30))
    model = tl.Matcher(alpha=1e-4, tol=1e-6).fit(train.X, train.y)
    assert accuracy(model.predict(test.X), test.y) > accuracy(plain(test), test.y) + 5


def test_matches_of_the_photographs_point_at_the_same_node():
    from benchmarks.datasets.matchings import photographs

    with_outliers, _ = photographs("cars", 0, outliers=True)
    without, _ = photographs("cars", 0, outliers=False)
    assert any((y == -1).any() for y in with_outliers.y)
    assert all(sorted(y) == list(range(len(y))) for y in without.y)
    # Matched points lie near each other once both images are centred; random ones do not.
    near = np.mean([np.abs(a[:, :2] - b[y][:, :2]).mean() for (a, b), y in zip(without.X, without.y, strict=True)])
    far = np.mean([np.abs(a[:, :2] - b[:, :2]).mean() for a, b in without.X])
    assert near < far / 2
