"""Max-margin verdicts: proofs checked by arithmetic, theorems by linear programs that know nothing of them."""

import itertools

import numpy as np
import pytest
from scipy.optimize import linprog

from taskloss.losses import Absolute, CostMatrix, Hamming, Squared, TreeDistance, ZeroOne
from taskloss.theory import check, check_max_margin, tightened
from taskloss.theory.maxmargin import KINDS, _truth
from taskloss.theory.polyhedral import Cells

STAR = TreeDistance({"a": "m", "b": "m", "c": "m", "m": None}, labels=["a", "b", "c", "m"])
PATHS = ["a", "a/x", "a/y", "a/y/u", "b"]


def weighted_tree(seed, count=5):
    """The distances of a random tree whose nodes are the labels."""
    rng = np.random.default_rng(seed)
    d = np.zeros((count, count))
    for b in range(1, count):
        a = rng.integers(b)
        d[b, :b] = d[:b, b] = d[a, :b] + rng.uniform(0.2, 2)
    return CostMatrix(d)


TREES = [Absolute(4), STAR, TreeDistance(PATHS[:-1]), *map(weighted_tree, range(4))]


def least_risk(matrix, q, pick=None):
    """min over scores (whose argmax holds `pick`) of the max-margin risk, by a program of its own; and the scores."""
    k = len(matrix)
    pairs = list(itertools.product(range(k), repeat=2))
    rows = [np.r_[np.eye(k)[x] - np.eye(k)[y], -np.eye(k)[y]] for x, y in pairs]
    level = [-matrix[x, y] for x, y in pairs]
    if pick is not None:
        rows += [np.r_[np.eye(k)[x] - np.eye(k)[pick], np.zeros(k)] for x in range(k)]
        level += [0.0] * k
    tight = dict.fromkeys(["primal_feasibility_tolerance", "dual_feasibility_tolerance"], 1e-10)
    bounds = [(-50, 50)] * k + [(None, None)] * k
    v = linprog(np.r_[np.zeros(k), q], A_ub=rows, b_ub=level, bounds=bounds, method="highs-ds", options=tight).x[:k]
    return (matrix + v[:, None] - v).max(0) @ q, v


@pytest.mark.parametrize("loss", TREES, ids=lambda loss: repr(loss)[:50])
def test_tree_distances_are_accepted(loss):
    report = check_max_margin(loss)
    assert report
    assert report.verdict == "consistent"
    assert report.tree is not None
    matrix = loss.matrix()
    # the tree is the proof: its path lengths are the loss
    k = len(matrix)
    assert len(report.tree) == k - 1
    path = np.full((k, k), np.inf)
    np.fill_diagonal(path, 0)
    for a, b, length in report.tree:
        path[a, b] = path[b, a] = length
    for via in range(k):
        path = np.minimum(path, path[:, [via]] + path[[via]])
    np.testing.assert_allclose(path, matrix, atol=1e-9)
    degrees = np.bincount(np.array([edge[:2] for edge in report.tree]).ravel())
    assert report.decoding == ("argmax" if degrees.max() <= 2 else "tightened argmax")


@pytest.mark.parametrize("loss", TREES, ids=lambda loss: repr(loss)[:50])
def test_what_the_tree_theorem_says_holds_on_random_laws(loss):
    """The least risk is twice the least expected loss, and tightened minimisers decode to a best output, also on faces."""
    matrix = loss.matrix()
    rng = np.random.default_rng(0)
    for i in range(30):
        q = rng.dirichlet(np.full(len(matrix), 0.5))
        if i % 2:
            q[rng.integers(len(q))] = 0
            q /= q.sum()
        risks = matrix @ q
        least, v = least_risk(matrix, q)
        assert least == pytest.approx(2 * risks.min(), abs=1e-8)
        w = tightened(loss, v)[0]
        assert risks[w.argmax()] == pytest.approx(risks.min(), abs=1e-7)
        # any other decision of tightened scores costs more: the least risk with a wrong one on top
        if check_max_margin(loss).decoding == "argmax":
            for z in np.flatnonzero(risks > risks.min() + 1e-3):
                assert least_risk(matrix, q, pick=z)[0] > least + 1e-6


@pytest.mark.parametrize("loss", [Absolute(4), STAR, weighted_tree(0, 4)], ids=lambda loss: repr(loss)[:50])
def test_cells_agree_with_the_tree_theorem(loss):
    matrix = loss.matrix()
    engine = Cells(matrix / matrix.max(), _truth(matrix, loss), "max-margin", 1e-9)
    assert engine.counterexample() is None
    assert engine.complete


def test_argmax_is_not_enough_at_a_fork_that_never_occurs():
    """One third on each leaf of a star: the centre is the median, and no label raises its score."""
    report = check_max_margin(STAR)
    matrix = STAR.matrix()
    q = report.laws[0]
    assert report.gap(argmax=True) > 0.3
    assert least_risk(matrix, q)[0] == pytest.approx(report.surrogate(report.v)[0] @ q)
    wrong = report.v.argmax()
    assert (matrix @ q)[wrong] > (matrix @ q).min() + 0.3
    assert (matrix @ q)[tightened(STAR, report.v)[0].argmax()] == pytest.approx((matrix @ q).min())


@pytest.mark.parametrize(
    "loss",
    [
        ZeroOne(3),
        ZeroOne(6),
        Squared(3),
        Hamming(3),
        TreeDistance(["a/x", "a/y", "b/x", "b/y"]),
        CostMatrix(1e6 * ZeroOne(4).matrix()),
        CostMatrix(1e-6 * ZeroOne(4).matrix()),
    ],
    ids=lambda loss: repr(loss)[:50],
)
def test_other_losses_are_refused_with_a_counterexample(loss):
    """A score that is best for laws which no output serves; programs of their own confirm that it is best."""
    report = check_max_margin(loss)
    matrix = loss.matrix()
    scale = np.abs(matrix).max()
    assert not report
    assert report.verdict == "inconsistent"
    assert report.gap() > 1e-6 * scale
    if scale < 1e3:
        for q in report.laws:
            assert np.isclose(q.sum(), 1)
            assert (q >= 0).all()
            assert report.surrogate(report.v)[0] @ q == pytest.approx(least_risk(matrix, q)[0], abs=1e-7)
    wrong = report.laws @ matrix.T
    assert ((wrong - wrong.min(1, keepdims=True)).max(0) > 1e-7 * scale).all()


def test_a_counterexample_that_does_not_hold_is_seen():
    from dataclasses import replace

    report = check_max_margin(ZeroOne(3))
    moved = replace(report, v=report.v + np.array([0.0, 0.3, 0.0]))
    with pytest.raises(ArithmeticError, match="does not hold"):
        moved.gap()


def test_leaves_of_a_tree_without_its_forks_are_no_tree():
    """0-1 loss satisfies the four-point condition, as a distance between the leaves of a star."""
    d = ZeroOne(4).matrix()
    for a, b, c, e in itertools.permutations(range(4)):
        assert d[a, b] + d[c, e] <= max(d[a, c] + d[b, e], d[a, e] + d[b, c])
    assert check_max_margin(ZeroOne(4)).tree is None


def test_outputs_beyond_the_labels():
    """Answers at inner nodes make the taxonomy's leaves a tree again."""
    paths = ["a/x", "a/y", "b/x", "b/y"]
    assert check_max_margin(TreeDistance(paths)).verdict == "inconsistent"
    report = check_max_margin(TreeDistance(paths, outputs="nodes"))
    assert report.verdict == "consistent"
    assert len(report.tree) == len(report.matrix) - 1


@pytest.mark.parametrize("seed", range(2))
def test_max_min_is_consistent_with_every_cost(seed):
    costs = CostMatrix(np.random.default_rng(seed).uniform(0.2, 1, (4, 4)) * (1 - np.eye(4)))
    assert check_max_margin(costs).verdict == "inconsistent"
    assert check_max_margin(costs, "max-min").verdict == "consistent"


def test_restricted_max_margin_mends_zero_one():
    assert check_max_margin(ZeroOne(3), "restricted").verdict == "consistent"
    assert check_max_margin(ZeroOne(4), "restricted").verdict == "consistent"
    assert check_max_margin(Squared(3), "restricted").gap() > 0.1  # not everything, though


def test_what_is_neither_proved_nor_refuted_is_called_undecided():
    """City-block distances on a grid: no tree, too many labels to list the cells, no counterexample."""
    points = np.array(list(itertools.product(range(2), range(3))))
    report = check_max_margin(CostMatrix(np.abs(points[:, None] - points).sum(-1)))
    assert report.verdict == "undecided"
    assert not report


def test_two_labels_are_the_hinge():
    report = check_max_margin(ZeroOne(2))
    assert report.decoding == "argmax"
    v = np.random.default_rng(0).normal(size=(20, 2))
    gap = v[:, 1] - v[:, 0]
    np.testing.assert_allclose(report.surrogate(v), np.maximum(0, 1 + np.c_[gap, -gap]))


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="kind must be one of max-margin, restricted, max-min"):
        check_max_margin(ZeroOne(3), "hinge")
    with pytest.raises(ValueError, match="one best output for each label"):
        check_max_margin(CostMatrix([[0, 0, 1], [1, 0, 0]]))
    with pytest.raises(ValueError, match="at most 6 labels"):
        check_max_margin(ZeroOne(7), "restricted")
    with pytest.raises(ValueError, match="one column per output, 3"):
        tightened(ZeroOne(3), [[0.0, 1.0]])
    with pytest.raises(ValueError, match="no counterexample"):
        check_max_margin(Absolute(3)).gap()
    assert KINDS[0] == "max-margin"


def test_check_knows_the_max_margin_losses_by_name():
    assert check("max-margin", Absolute(4)).verdict == "consistent"
    assert check("max-margin", ZeroOne(3)).verdict == "inconsistent"
