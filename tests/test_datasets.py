"""The loaders of the real data sets; skipped where the data are absent."""

import numpy as np
import pytest
from benchmarks.datasets import root, tabular
from scipy import sparse

FOLDERS = ("cost_sensitive", "hierarchical", "multiclass", "multilabel", "ordinal")
CASES = [(folder, name) for folder in FOLDERS for name in tabular.names(folder)]

pytestmark = pytest.mark.skipif(root() is None, reason="the data sets are absent")


@pytest.mark.parametrize(("folder", "name"), CASES)
def test_shapes_and_splits(folder, name):
    data = tabular.load(folder, name)
    n = data.X.shape[0]
    assert len(data.y) == n > 30
    assert np.isfinite(data.X.data if sparse.issparse(data.X) else data.X).all()
    assert len(data.splits) == (1 if data.official and folder != "ordinal" else tabular.N_SPLITS)
    for train, test in data.splits:
        assert np.intersect1d(train, test).size == 0
        np.testing.assert_array_equal(np.sort(np.concatenate([train, test])), np.arange(n))
        assert len(test) < len(train) or name == "medical"
    if folder in ("cost_sensitive", "multiclass"):
        assert data.y.ndim == 1
        assert np.unique(data.y).size < 30
    if folder == "multilabel":
        assert data.y.shape[1] == len(data.extras["labels"])
        assert set(np.unique(data.y)) == {0, 1}


@pytest.mark.parametrize("name", tabular.names("ordinal"))
def test_ordinal_labels_count_from_zero(name):
    variants = [{"bins": b, "ties": t} for b in (5, 10) for t in (False, True)] if tabular.binned(name) else [{}]
    for options in variants:
        y = tabular.ordinal(name, **options).y
        np.testing.assert_array_equal(np.unique(y), np.arange(y.max() + 1))


def test_no_feature_gives_the_label_away():
    for name in tabular.names("ordinal"):
        data = tabular.ordinal(name)
        for column in data.X.T:
            assert abs(np.corrcoef(column, data.y)[0, 1]) < 0.97 if np.ptp(column) > 0 else True


def test_german_costs_are_outputs_by_labels():
    data = tabular.cost_sensitive("german")
    assert np.unique(data.y).tolist() == ["bad", "good"]
    # calling a bad customer good is the expensive error
    np.testing.assert_array_equal(data.extras["costs"], [[0, 1], [5, 0]])


def test_taxonomies():
    for name in ("diatoms", "imclef07a"):
        data = tabular.hierarchical(name)
        assert set(data.y) == set(data.extras["tree"])
        assert max(path.count("/") for path in data.extras["tree"]) >= 1
    data = tabular.hierarchical("enron_corr")
    nodes = data.extras["labels"]
    for j, node in enumerate(nodes):
        if "/" in node:
            parent = nodes.index(node.rsplit("/", 1)[0])
            assert (data.y[:, j] <= data.y[:, parent]).all()


def test_soup_respondents_stay_whole():
    data = tabular.ordinal("r_soup")
    for train, test in data.splits:
        assert np.intersect1d(data.extras["groups"][train], data.extras["groups"][test]).size == 0
