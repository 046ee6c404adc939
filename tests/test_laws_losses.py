"""Laws that every loss assert_obeys."""

import numpy as np
import pytest
from tests.parts import assert_obeys, every_law, every_loss, label

from taskloss.losses import (
    Absolute,
    Abstain,
    ChainCost,
    ChainHamming,
    CostMatrix,
    Hamming,
    LabelCosts,
    Listed,
    Loss,
    MatchingHamming,
    Recall,
    SequenceZeroOne,
    SpanCosts,
    Squared,
    Tabular,
    TreeDistance,
    ZeroOne,
)
from taskloss.testing.losses import LAWS


@every_loss
@every_law(LAWS)
def test_laws(part, law):
    assert_obeys(law, part)


@every_loss
def test_binding_is_idempotent_and_refuses_another_size(part):
    if hasattr(part, "n_rows"):  # tables have two counts
        sizes = (part.n_rows, part.n_columns or part.n_rows)
    else:  # the count among the hyperparameters (labels, states, items, ...), or the labels of a table
        counts = [value for name, value in part.get_params(deep=False).items() if name.startswith("n_") and value]
        sizes = (counts[0] if counts else len(part.labels()) if part.kind == "classes" else part.n_labels,)
    assert part.bind(*sizes) == part
    with pytest.raises(ValueError, match=str(sizes[0] + 1)):
        part.bind(sizes[0] + 1, *sizes[1:])


tabular = pytest.mark.parametrize(
    "loss",
    [p for cls in (ZeroOne, Absolute, Squared, Abstain, CostMatrix, TreeDistance, Listed) for p in cls.examples()],
    ids=label,
)


@tabular
def test_probabilities_invert_the_embedding(loss):
    law = np.random.default_rng(1).dirichlet(np.ones(loss.n_labels), 5)
    if not loss.canonical and not loss.polytope.independent:
        pytest.skip("a law is not fixed by its moments here")
    np.testing.assert_allclose(loss.probabilities(law @ loss.table), law, atol=1e-9)


@tabular
def test_costs_per_example(loss):
    rng = np.random.default_rng(2)
    if not loss.canonical and not loss.polytope.independent:
        pytest.skip("a law is not fixed by its moments here")
    law = rng.dirichlet(np.ones(loss.n_labels), 7)
    mu = law @ loss.table
    full = rng.uniform(0, 5, (7, loss.n_outputs, loss.n_labels))
    np.testing.assert_array_equal(loss.decode(mu, full), np.einsum("nzy,ny->nz", full, law).argmin(1))
    prices = rng.uniform(0, 5, (7, loss.n_outputs))
    np.testing.assert_array_equal(loss.decode(mu, prices), (law @ loss.matrix().T + prices).argmin(1))
    # The same matrix for every example is no change.
    same = np.broadcast_to(loss.matrix(), full.shape)
    np.testing.assert_array_equal(loss.decode(mu, same), (law @ loss.matrix().T).argmin(1))
    with pytest.raises(ValueError, match="costs must have shape"):
        loss.decode(mu, full[:, :-1])
    with pytest.raises(ValueError, match="NaN"):
        loss.decode(mu, np.full(full.shape, np.nan))


def test_absolute_in_the_cube_is_the_papers_hamming():
    """L = (k-1)/2 - <phi(z), phi(y)>/2 with phi_j(y) = 2 1(y > j) - 1; the paper's y >= j is constant in its first coordinate."""
    loss = Absolute(5, embedding="cube")
    y = loss.labels()
    np.testing.assert_allclose(loss.psi(y), -loss.phi(y) / 2, atol=1e-12)
    assert loss.constant == pytest.approx(2)
    labels = np.arange(1, 6)
    papers = 2.0 * (labels[:, None] >= np.arange(1, 5)) - 1
    assert (papers[:, 0] == 1).all()
    assert not np.allclose(2 - papers @ papers.T / 2, loss.matrix())


def test_absolute_decodes_the_median_and_squared_the_rounded_mean():
    law = np.random.default_rng(3).dirichlet(np.ones(6), 50)
    median = (np.cumsum(law, 1) < 0.5).sum(1)
    np.testing.assert_array_equal(Absolute(6).decode(law), median)
    np.testing.assert_array_equal(Squared(6).decode(law), np.rint(law @ np.arange(6)).astype(int))


def test_abstain_is_worth_it_below_its_threshold():
    loss = Abstain(3, cost=0.4)
    assert loss.decode(np.array([[0.61, 0.39, 0], [0.59, 0.41, 0]])).tolist() == [0, 3]


def test_tree_distance_counts_edges():
    loss = TreeDistance({"root": None, "a": "root", "b": "root", "a1": "a", "a2": "a", "b1": "b"})
    names = loss.label_names().tolist()
    table = {(p, q): loss.matrix()[i, j] for i, p in enumerate(names) for j, q in enumerate(names)}
    assert table["a1", "a2"] == 2
    assert table["a1", "b1"] == 4
    assert table["a1", "a1"] == 0
    # networkx-free check: Floyd and Warshall on the edges.
    paths = TreeDistance(["x/1/p", "x/1/q", "x/2", "y"], outputs="nodes")
    nodes = paths.output_names(paths.label_names()).tolist()
    far = np.full((len(nodes) + 1,) * 2, 99.0)  # the last is the common root
    np.fill_diagonal(far, 0)
    for i, node in enumerate(nodes):
        parent = nodes.index(node.rsplit("/", 1)[0]) if "/" in node else len(nodes)
        far[i, parent] = far[parent, i] = 1
    for k in range(len(far)):
        far = np.minimum(far, far[:, [k]] + far[[k]])
    columns = [nodes.index(name) for name in paths.label_names()]
    np.testing.assert_array_equal(paths.matrix(), far[: len(nodes), columns])


def test_tree_distance_may_stop_at_an_inner_node():
    loss = TreeDistance(["a/1", "a/2", "a/3", "b/1"], outputs="nodes")
    nodes = loss.output_names(loss.label_names())
    assert nodes[loss.decode(np.array([[1 / 3, 1 / 3, 1 / 3, 0]]))[0]] == "a"


def test_tree_distance_on_a_path_is_absolute_error():
    path = TreeDistance({i: i - 1 if i else None for i in range(5)}, labels=range(5))
    np.testing.assert_array_equal(path.matrix(), Absolute(5).matrix())


def test_clear_sentences():
    cases = [
        (lambda: CostMatrix([[0, np.nan], [1, 0]]).matrix(), "NaN"),
        (lambda: CostMatrix([0, 1]).matrix(), "two dimensions"),
        (lambda: CostMatrix([["a", "b"]]).matrix(), "must be numbers"),
        (lambda: CostMatrix([[0, 1], [1, 0]]).bind(3), r"shape \(2, 2\).*3 classes"),
        (lambda: CostMatrix([[0, 1], [1, 0]], labels=["a"]).label_names(), "1 names"),
        (lambda: ZeroOne().matrix(), "number of labels"),
        (lambda: ZeroOne(3)([0], [3]), "codes from 0 to 2"),
        (lambda: ZeroOne(3)([0.5], [1]), "integer codes"),
        (lambda: Hamming(3)([[0, 1, 1]], [[0, 2, 1]]), "0 and 1 only"),
        (lambda: Hamming(3)([[0, 1]], [[0, 1]]), "3 columns"),
        (lambda: Hamming(2, weights=[1, -1]).constant, "not negative"),
        (lambda: Hamming(2).decode(np.zeros((1, 2)), costs=np.zeros((1, 3))), "a price for each label"),
        (lambda: TreeDistance({"a": "b", "b": "a"}).matrix(), "cycle"),
        (lambda: TreeDistance(["a/b"], labels=["c"]).matrix(), "not a node"),
        (lambda: TreeDistance().matrix(), "needs a tree"),
        (lambda: Abstain(3, cost=np.inf).matrix(), "finite"),
        (lambda: ZeroOne(3, embedding="circle").table, "embedding must be"),
        (lambda: ZeroOne(3, embedding=np.eye(4)).table, "4 rows"),
        (lambda: ZeroOne(3, embedding=[[0.0], [1.0], [2.0]]).psi([0]), "not affine"),
    ]
    for call, sentence in cases:
        with pytest.raises(ValueError, match=sentence):
            call()


def test_every_tabular_loss_is_in_the_battery():
    assert {type(p) for p in tabular.args[1]} == {kind for kind in Loss.registry.values() if issubclass(kind, Tabular)}


def test_names_keep_their_types():
    """Numbers beside strings stay numbers, tuples stay whole, and taxonomies may have nodes of every type."""
    from taskloss.losses.base import name_array

    assert name_array([1, "a", (2, "b")]).tolist() == [1, "a", (2, "b")]
    assert name_array([1, "a"]).tolist() == [1, "a"]
    assert name_array([3, 1]).dtype.kind == "i"
    assert name_array(["x", "yy"]).dtype.kind == "U"
    tree = {1: "root", "a": "root", (2, "b"): "root"}
    loss = TreeDistance(tree)
    assert set(loss.label_names().tolist()) == {1, "a", (2, "b")}


def test_ranges_of_sequences_of_any_length():
    """Where losses are normalised they have bounds without a length, which hold for every length; where not, there are none."""
    rng = np.random.default_rng(0)
    unary, pairwise = rng.normal(size=(2, 2)), rng.normal(size=(2, 2, 2, 2))
    for make in (
        lambda length: ChainCost(unary, pairwise, length, normalise=True),
        lambda length: ChainHamming(2, length, weights=[1.0, 3.0, 0.5], state_weights=[1.0, 2.0]),
        lambda length: ChainHamming(2, length),
        lambda length: SequenceZeroOne(2, length),
    ):
        low, high = make(None).range()
        for length in (1, 2, 3):
            found = make(length).matrix()
            assert low - 1e-12 <= found.min()
            assert found.max() <= high + 1e-12
    for loss in (ChainCost(unary), ChainHamming(2, normalise=False), SpanCosts(labels=["B-a", "O"])):
        with pytest.raises(ValueError, match="has no bound"):
            loss.range()


@pytest.mark.parametrize(
    "loss", [*Hamming.examples(), *LabelCosts.examples(), *Recall.examples(), *MatchingHamming.examples()], ids=label
)
def test_parts_add_up_to_the_loss(loss):
    z, y = loss.outputs(), loss.labels()
    i, j = np.indices((len(z), len(y))).reshape(2, -1)
    np.testing.assert_allclose(loss.by_part(z[i], y[j]).sum(-1), loss(z[i], y[j]), atol=1e-12)


def test_recall_is_scikit_learns():
    from sklearn.metrics import recall_score

    rng = np.random.default_rng(0)
    z, y = rng.integers(0, 2, (2, 50, 4))
    y[0] = 0
    found = Recall(4)(z, y)
    assert found[0] == 0
    assert found.mean() == pytest.approx(1 - recall_score(y, z, average="samples", zero_division=1))
