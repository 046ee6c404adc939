"""The layers of taskloss.torch: equal to pytorch-crf, to the NumPy definitions and to enumeration; bad input in a sentence."""

import doctest
import importlib
import itertools
import math

import numpy as np
import pytest
from tests.parts import examples

import taskloss as tl
from taskloss.losses import Loss
from taskloss.losses.sequence import SequenceLoss
from taskloss.losses.tabular import Tabular

torch = pytest.importorskip("torch")

from taskloss.torch import CRF, OrderedThresholds, TaskLoss, checks  # noqa: E402
from taskloss.torch.labellings import Labellings  # noqa: E402

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU"))]
every_device = pytest.mark.parametrize("device", DEVICES)


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


# -- CRF --------------------------------------------------------------------------------------------------------------


def both_layers(batch_first, states=5, device="cpu"):
    torchcrf = pytest.importorskip("torchcrf")
    peer = torchcrf.CRF(states, batch_first=batch_first).to(device)
    ours = CRF(states, batch_first=batch_first).to(device)
    ours.load_state_dict(peer.state_dict())
    return peer, ours


def batch(batch_first=True, shape=(6, 9, 5), device="cpu"):
    b, t, k = shape
    lengths = torch.tensor([t, 1, *torch.randint(1, t + 1, (b - 2,)).tolist()])
    mask = torch.arange(t) < lengths[:, None]
    emissions, tags = torch.randn(b, t, k), torch.randint(k, (b, t))
    parts = (emissions, tags, mask) if batch_first else (x.transpose(0, 1) for x in (emissions, tags, mask))
    return [x.to(device) for x in parts]


@every_device
@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.filterwarnings("ignore:where received a uint8:UserWarning")  # pytorch-crf's
def test_crf_has_the_numbers_of_pytorch_crf(device, batch_first, masked):
    peer, ours = both_layers(batch_first, device=device)
    emissions, tags, mask = batch(batch_first, device=device)
    mask = mask if masked else None
    for reduction in ("none", "sum", "mean", "token_mean"):
        gradients = []
        for layer in (peer, ours):
            layer.zero_grad()
            leaf = emissions.clone().requires_grad_()
            value = layer(leaf, tags, mask=mask, reduction=reduction)
            value.sum().backward()
            gradients.append([value.detach(), leaf.grad, *(p.grad.clone() for p in layer.parameters())])
        for a, b in zip(*gradients, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)
    assert ours.decode(emissions, mask=mask) == peer.decode(emissions, mask=mask)


def crf_law(crf, emissions, n, b):
    """All tag sequences of one chain and their log-probabilities, one by one."""
    rows = list(itertools.product(range(crf.num_tags), repeat=n))
    start, end, steps = crf.start_transitions, crf.end_transitions, crf.transitions
    if crf._step_limits is not None:
        steps = steps + crf._step_limits
    if crf._start_limits is not None:
        start = start + crf._start_limits
    scores = []
    for y in rows:
        score = start[y[0]] + end[y[-1]] + sum(emissions[b, t, a] for t, a in enumerate(y))
        scores.append(score + sum(steps[y[t], y[t + 1]] for t in range(n - 1)))
    return np.array(rows), torch.log_softmax(torch.stack(scores), 0).detach().numpy().astype(float)


@pytest.mark.parametrize("forbidden", [None, [(0, 1), (None, 2), (1, 1)]])
def test_crf_answers_equal_enumeration(forbidden):
    crf = CRF(3, batch_first=True, forbidden=forbidden)
    with torch.no_grad():
        crf.transitions.normal_()
    emissions, lengths = torch.randn(3, 4, 3), [4, 2, 3]
    mu, pairs = crf.marginals(emissions, lengths=lengths, pairs=True)
    entropy = crf.entropy(emissions, lengths=lengths)
    log_p, states = crf.best(emissions, 4, lengths=lengths)
    draws = crf.sample(emissions, 4000, lengths=lengths)
    cost = tl.losses.ChainCost(np.array([[0.0, 3, 1], [1, 0, 2], [1, 1, 0]]), np.random.default_rng(0).random((3,) * 4))
    decoded = {
        loss: crf.decode(emissions, lengths=lengths, loss=loss) for loss in ("chain-hamming", "sequence-zero-one")
    }
    decoded["cost"] = crf.decode(emissions, lengths=lengths, loss=cost)
    risk = crf.expected_loss(emissions, lengths=lengths, loss=cost)
    for b, n in enumerate(lengths):
        rows, logs = crf_law(crf, emissions, n, b)
        p = np.exp(logs)
        unit = np.eye(3)[rows]
        np.testing.assert_allclose(mu[b, :n].detach(), np.einsum("r,rtk->tk", p, unit), atol=1e-6)
        joint = np.einsum("r,rti,rtj->tij", p, unit[:, :-1], unit[:, 1:])
        np.testing.assert_allclose(pairs[b, : n - 1].detach(), joint, atol=1e-6)
        np.testing.assert_allclose(entropy[b].detach(), -(p[p > 0] * logs[p > 0]).sum(), atol=1e-5)
        order = np.argsort(-logs)[:4]
        np.testing.assert_allclose(log_p[b], logs[order], atol=1e-5)
        np.testing.assert_array_equal(states[:2, b, :n], rows[order[:2]])
        shares = (draws[:, b, :n, None].numpy() == np.arange(3)).mean(0)
        np.testing.assert_allclose(shares, mu[b, :n].detach(), atol=0.04)
        allowed = rows[np.isfinite(logs)]
        for name, loss in (("chain-hamming", tl.losses.ChainHamming(3)), ("cost", cost)):
            expected = [(p * loss(np.broadcast_to(z, rows.shape), rows)).sum() for z in allowed]
            np.testing.assert_array_equal(decoded[name][b], allowed[np.argmin(expected)])
            if name == "cost":
                np.testing.assert_allclose(risk[b], min(expected), atol=1e-6)
        np.testing.assert_array_equal(decoded["sequence-zero-one"][b], rows[np.argmax(logs)])


def test_partial_labels_sum_over_what_is_unknown():
    crf = CRF(3, batch_first=True, ignore_index=-100)
    emissions, tags = torch.randn(2, 4, 3, requires_grad=True), torch.tensor([[0, -100, 2, 1], [1, 1, -100, -100]])
    found = crf(emissions, tags, reduction="none")
    for b in range(2):
        rows, logs = crf_law(crf, emissions, 4, b)
        fits = ((rows == tags[b].numpy()) | (tags[b].numpy() == -100)).all(1)
        np.testing.assert_allclose(found[b].detach(), np.log(np.exp(logs[fits]).sum()), atol=1e-5)
    sets = (tags[..., None] == torch.arange(3)) | (tags[..., None] == -100)
    torch.testing.assert_close(crf(emissions, sets, reduction="none"), found)
    found.sum().backward()
    assert torch.isfinite(emissions.grad).all()


def test_a_single_position_has_no_edges():
    crf = CRF(3, batch_first=True)
    emissions, tags = torch.randn(2, 1, 3, requires_grad=True), torch.tensor([[0], [2]])
    one = crf(emissions, tags, edges=torch.zeros(2, 0, 3, 3), reduction="none")
    torch.testing.assert_close(one, crf(emissions, tags, reduction="none"))
    one.sum().backward()


def test_scores_on_edges_weights_and_lengths():
    crf = CRF(3)
    emissions, tags = torch.randn(5, 2, 3), torch.randint(3, (5, 2))
    edges = torch.randn(4, 2, 3, 3, requires_grad=True)
    none = crf(emissions, tags, edges=edges, reduction="none")
    shared = torch.randn(3, 3)
    moved = CRF(3)
    moved.load_state_dict(crf.state_dict())
    with torch.no_grad():
        moved.transitions += shared
    torch.testing.assert_close(
        crf(emissions, tags, edges=shared.expand(4, 2, 3, 3)), moved(emissions, tags), rtol=1e-5, atol=1e-5
    )
    none.sum().backward()
    assert edges.grad.shape == edges.shape
    weights = torch.tensor([1.0, 3.0])
    torch.testing.assert_close(crf(emissions, tags, edges=edges, weights=weights), (none * weights).sum())
    mean = crf(emissions, tags, edges=edges, weights=weights, reduction="mean")
    torch.testing.assert_close(mean, (none * weights).sum() / 4)
    mask = torch.arange(5)[:, None] < torch.tensor([5, 2])
    torch.testing.assert_close(crf(emissions, tags, mask=mask), crf(emissions, tags, lengths=[5, 2]))


def test_entropy_and_marginals_have_gradients():
    crf = CRF(3, batch_first=True).double()
    emissions = torch.randn(2, 4, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda e: crf.entropy(e, lengths=[4, 2]), [emissions])
    assert torch.autograd.gradcheck(lambda e: crf.marginals(e, lengths=[4, 2]), [emissions])


def test_forbidden_transitions_never_come_out():
    crf = CRF(4, batch_first=True, forbidden=[(0, 1), (None, 3), (2, None)])
    emissions = torch.randn(20, 6, 4)
    answers = [*crf.decode(emissions), *crf.decode(emissions, loss="chain-hamming"), *crf.sample(emissions)[0].tolist()]
    for y in answers:
        assert y[0] != 3
        assert y[-1] != 2
        assert (0, 1) not in itertools.pairwise(y)
    assert list(crf.state_dict()) == ["start_transitions", "end_transitions", "transitions"]


@pytest.mark.filterwarnings("ignore:Guards may run slower on Python 3.13.0:RuntimeWarning")  # which 3.13.1 mends
@pytest.mark.parametrize("ragged", [False, True])
def test_crf_compiles_in_one_graph(ragged):
    crf = CRF(4, batch_first=True, forbidden=[(0, 1)])
    emissions, tags, mask = batch(shape=(4, 5, 4))
    tags[:] = 2
    compiled = torch.compile(crf, fullgraph=True, backend="aot_eager")
    mask = mask if ragged else None
    one, other = (emissions.clone().requires_grad_() for _ in range(2))
    compiled(one, tags, mask=mask).backward()
    crf(other, tags, mask=mask).backward()
    torch.testing.assert_close(one.grad, other.grad)


@every_device
def test_half_precision_emissions(device):
    crf = CRF(5, batch_first=True).to(device)
    emissions, tags, mask = batch(device=device)
    half = emissions.bfloat16().requires_grad_()
    value = crf(half, tags, mask=mask)
    value.backward()
    assert value.dtype == torch.float32
    assert half.grad.dtype == torch.bfloat16
    torch.testing.assert_close(value, crf(half.float(), tags, mask=mask))


def crf_call(**changes):
    crf = changes.pop("crf", None) or CRF(3, batch_first=True)
    emissions, tags = torch.zeros(2, 4, 3), torch.zeros(2, 4, dtype=torch.long)
    call = {"emissions": emissions, "tags": tags, **changes}
    return crf(call.pop("emissions"), call.pop("tags"), **call)


def with_value(x, place, value):
    x = x.clone()
    x[place] = value
    return x


ZEROS, TAGS = torch.zeros(2, 4, 3), torch.zeros(2, 4, dtype=torch.long)
MASK = torch.ones(2, 4, dtype=torch.bool)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"emissions": torch.zeros(2, 4, 5)},
            "Emissions must have shape .batch, length, tags. with 3 tags, got .2, 4, 5.",
        ),
        ({"emissions": torch.zeros(8, 3)}, "Emissions must have shape"),
        ({"emissions": torch.zeros(2, 4, 3, dtype=torch.long)}, "must be a tensor of real numbers, got torch.int64"),
        ({"emissions": torch.zeros(2, 4, 3, device="meta")}, "Emissions are on meta, but the CRF on cpu: move it"),
        ({"tags": torch.zeros(2, 4, dtype=torch.long, device="meta")}, "Scores are on cpu, but tags on meta"),
        (
            {"tags": torch.zeros(2, 3, dtype=torch.long)},
            "Tags must have one code for each position, .2, 4., got .2, 3.",
        ),
        ({"tags": torch.zeros(2, 4)}, "Tags must be whole numbers, got torch.float32"),
        ({"tags": with_value(TAGS, (1, 2), 3)}, "from 0 to 2, got 3 at position 2 of sequence 1"),
        ({"tags": with_value(TAGS, (1, 2), -1)}, "from 0 to 2, got -1 at position 2 of sequence 1"),
        ({"mask": with_value(MASK, (1, 1), False)}, "The mask of sequence 1 has a hole"),
        ({"mask": with_value(MASK, 1, False)}, "Sequence 1 is empty"),
        ({"mask": torch.ones(2, 3)}, "The mask must have one entry for each position"),
        ({"lengths": [4, 0]}, "Sequence 1 has length 0"),
        ({"lengths": [5, 1]}, "Sequence 0 has length 5"),
        ({"lengths": [4, 1, 1]}, "lengths must be 2 whole numbers"),
        ({"lengths": [4, 1], "mask": MASK}, "Give mask or lengths, not both"),
        ({"emissions": with_value(ZEROS, (0, 1, 2), math.nan)}, "those at position 1 of sequence 0 hold NaN or inf"),
        ({"emissions": with_value(ZEROS, (0, 1, 2), math.inf)}, "those at position 1 of sequence 0 hold NaN or inf"),
        (
            {"emissions": with_value(ZEROS, (0, 1), -math.inf)},
            "No assignment of states is allowed on sequence or tree 0",
        ),
        ({"tags": with_value(TAGS, (1, 2), -100)}, "from 0 to 2, got -100 at position 2 of sequence 1"),
        ({"edges": torch.zeros(2, 4, 3, 3)}, "edges must hold a table of 3 x 3 scores for each step"),
        ({"weights": torch.ones(3)}, "weights must be one number for each of the 2 sequences"),
        ({"reduction": "max"}, "reduction must be 'none', 'sum', 'mean' or 'token_mean', got 'max'"),
        ({"tags": torch.zeros(2, 4, 3, dtype=torch.bool)}, "The sets of tags of sequence 0 leave no sequence"),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
@pytest.mark.parametrize("waits", [False, True])
def test_bad_input_of_a_crf(changes, sentence, waits, monkeypatch):
    """At once, and on a device that would have to be waited for, before the backward pass has returned."""
    monkeypatch.setattr(checks, "waits", lambda x: waits)
    with pytest.raises(ValueError, match=sentence):
        crf_call(**changes).sum().backward()


def test_on_a_device_that_works_by_itself_a_likelihood_waits_for_nothing(monkeypatch):
    monkeypatch.setattr(checks, "waits", lambda x: True)
    broken, fine = (with_value(ZEROS, (0, 1, 2), x).requires_grad_() for x in (math.nan, 1.0))
    value = crf_call(emissions=broken)
    assert torch.isnan(value)
    with pytest.raises(ValueError, match="those at position 1 of sequence 0 hold NaN"):
        value.backward()
    crf_call(emissions=fine).backward()  # the sentence of another call is not heard here
    late, loss = with_value(ZEROS, (0, 1, 2), math.nan).requires_grad_(), TaskLoss("zero-one", n_labels=3)
    value = loss(late, TAGS)
    with pytest.raises(ValueError, match="Scores hold NaN"):
        value.backward()
    with torch.no_grad(), pytest.raises(ValueError, match="Scores hold NaN"):
        loss(late, TAGS)


def test_bad_parameters_of_a_crf():
    every = [(a, b) for a in range(3) for b in range(3)]
    with pytest.raises(ValueError, match="No assignment of states is allowed on sequence or tree 0"):
        crf_call(crf=CRF(3, batch_first=True, forbidden=every))
    with pytest.raises(ValueError, match="No assignment of states is allowed"):
        CRF(3, batch_first=True, forbidden=every).decode(ZEROS)
    with pytest.raises(ValueError, match="tags of sequence 0 are forbidden by emissions"):
        crf_call(crf=CRF(3, batch_first=True, forbidden=[(0, 0)]))
    broken = CRF(3, batch_first=True)
    with torch.no_grad():
        broken.transitions[0, 0] = math.nan
    with pytest.raises(ValueError, match="Scores of pairs must be finite"):
        crf_call(crf=broken)
    with pytest.raises(ValueError, match="num_tags must be a whole number of at least one, got 0"):
        CRF(0)
    with pytest.raises(ValueError, match="forbidden must list pairs"):
        CRF(3, forbidden=[(None, None)])
    with pytest.raises(ValueError, match="forbidden names the tag 3, but tags go from 0 to 2"):
        CRF(3, forbidden=[(0, 3)])
    with pytest.raises(ValueError, match="is no loss on sequences"):
        CRF(3).decode(ZEROS, loss="zero-one")
    with pytest.raises(ValueError, match="k must be at least 1"):
        CRF(3).best(ZEROS, 0)


# -- TaskLoss ---------------------------------------------------------------------------------------------------------


def task_data(loss, rng, n=6):
    """Labels of a loss as codes, n of them."""
    labels = loss.labels()
    return labels[rng.integers(len(labels), size=n)]


ROWS = [(name, loss) for name, loss in examples(Loss) if loss.kind in ("classes", "indicator")]


@every_device
@pytest.mark.parametrize("loss", [p for _, p in ROWS], ids=[i for i, _ in ROWS])
@pytest.mark.parametrize("surrogate", ["auto", "quadratic"])
def test_rows_equal_the_numpy_parts(device, loss, surrogate):
    rng = np.random.default_rng(0)
    module = TaskLoss(loss, surrogate, reduction="none")
    y = task_data(module.loss, rng)
    v = rng.normal(size=(len(y), module.size))
    scores = torch.from_numpy(v).to(device).requires_grad_()
    phi = module.loss.phi(y)
    value, gradient = module.surrogate.value_and_gradient(v, phi)
    found = module(scores, torch.from_numpy(y).to(device))
    found.sum().backward()
    np.testing.assert_allclose(found.detach().cpu(), value, atol=1e-10)
    np.testing.assert_allclose(scores.grad.cpu(), gradient, atol=1e-8)
    mu = module.surrogate.inverse_link(v)
    np.testing.assert_allclose(module.moments(scores).detach().cpu(), mu, atol=1e-10)
    z = module.loss.decode(mu)
    np.testing.assert_array_equal(module.predict(scores).cpu(), z)
    np.testing.assert_allclose(module.expected_loss(scores).cpu(), module.loss.bayes_risk(z, mu), atol=1e-10)
    assert module.score(scores, torch.from_numpy(y).to(device)) == pytest.approx(-module.loss(z, y).mean())


def test_auto_on_labels_is_cross_entropy():
    scores, targets = torch.randn(7, 3, 4, requires_grad=True), torch.randint(4, (7, 3))
    targets[0, 0] = -100
    loss = TaskLoss("zero-one", n_labels=4)
    wanted = torch.nn.functional.cross_entropy(scores.flatten(0, 1), targets.flatten())
    torch.testing.assert_close(loss(scores, targets), wanted)
    mask = torch.rand(7, 3) < 0.5
    weights = torch.rand(7, 3)
    each = TaskLoss("zero-one", n_labels=4, reduction="none")(scores, targets, mask=mask)
    kept = mask & (targets != -100)
    assert not each[~kept].any()
    torch.testing.assert_close(loss(scores, targets, weights, mask=mask), (each * weights).sum() / weights[kept].sum())
    total = TaskLoss("zero-one", n_labels=4, reduction="sum")(scores, targets, weights, mask=mask)
    torch.testing.assert_close(total, (each * weights).sum())


def test_unknown_labels_of_a_set_leave_the_sum():
    scores, sets = torch.randn(5, 3), torch.randint(2, (5, 3))
    loss = TaskLoss("hamming", n_labels=3, reduction="none")
    wanted = torch.nn.functional.binary_cross_entropy_with_logits(scores, sets.float(), reduction="none")
    torch.testing.assert_close(loss(scores, sets), wanted.sum(1))
    sets[0, 1] = sets[3, 2] = -100
    torch.testing.assert_close(loss(scores, sets), torch.where(sets == -100, 0.0, wanted).sum(1))


def test_another_loss_and_costs_of_each_example():
    scores = torch.randn(5, 3)
    loss = TaskLoss(tl.losses.Absolute(3), "all-thresholds")
    assert loss.size == 2
    mu = loss.moments(scores[:, :2]).double().numpy()
    p = loss.loss.probabilities(mu)
    abstain = tl.losses.Abstain(3, 0.2)
    np.testing.assert_array_equal(loss.predict(scores[:, :2], loss=abstain), abstain.decode(p))
    costs = np.random.default_rng(0).random((5, 3, 3))
    found = loss.predict(scores[:, :2], costs=torch.from_numpy(costs))
    expected = np.einsum("nzy,ny->nz", costs, p)
    np.testing.assert_array_equal(found, expected.argmin(1))
    risk = loss.expected_loss(scores[:, :2], costs=costs)
    np.testing.assert_allclose(risk, expected.min(1), atol=1e-10)


@every_device
@pytest.mark.parametrize("surrogate", ["auto", "quadratic"])
@pytest.mark.parametrize("loss", ["ndcg", tl.losses.PrecisionAt(2)], ids=["ndcg", "precision"])
def test_rankings_by_groups_and_by_mask(device, loss, surrogate):
    sizes = [3, 1, 4, 3]
    groups = np.repeat(np.arange(4), sizes)
    rng = np.random.default_rng(0)
    order = rng.permutation(len(groups))
    groups, flat, relevance = groups[order], rng.normal(size=len(order)), rng.integers(0, 3, len(order)).astype(float)
    module = TaskLoss(loss, surrogate, reduction="none")
    scores = torch.from_numpy(flat).to(device).requires_grad_()
    layout = {"groups": torch.from_numpy(groups).to(device)}
    targets = torch.from_numpy(relevance).to(device)
    found, mu = module(scores, targets, **layout), module.moments(scores, **layout)
    ranks, risk = module.predict(scores, **layout), module.expected_loss(scores, **layout)
    part = Loss.resolve(loss)
    losses = []
    for g in range(4):
        at = groups == g
        bound = part.bind(at.sum())
        fitted = module.surrogate.bind(bound.polytope)
        np.testing.assert_allclose(found[g].item(), fitted.value(flat[None, at], bound.phi(relevance[None, at]))[0])
        moments = fitted.inverse_link(flat[None, at])
        np.testing.assert_allclose(mu[at].detach().cpu(), moments[0])
        z = bound.decode(moments)
        np.testing.assert_array_equal(ranks[at].cpu(), z[0])
        np.testing.assert_allclose(risk[g].item(), bound.bayes_risk(z, moments)[0])
        losses.append(bound(z, relevance[None, at])[0])
    assert module.score(scores, targets, **layout) == pytest.approx(-np.mean(losses))
    # the same groups, padded
    table, grades, mask = torch.zeros(4, 4), torch.zeros(4, 4), torch.zeros(4, 4, dtype=torch.bool)
    for g in range(4):
        at = np.flatnonzero(groups == g)
        table[g, -len(at) :], grades[g, -len(at) :] = (
            torch.from_numpy(flat[at]).float(),
            torch.from_numpy(relevance[at]).float(),
        )
        mask[g, -len(at) :] = True
    padded = module(table.to(device), grades.to(device), mask=mask.to(device))
    torch.testing.assert_close(padded.double(), found, rtol=1e-5, atol=1e-5)
    found.sum().backward()
    assert scores.grad.abs().sum() > 0


@every_device
@pytest.mark.parametrize("outliers", [False, True])
@pytest.mark.parametrize("surrogate", ["auto", "quadratic", "max-entropy"])
def test_matchings(device, outliers, surrogate):
    rng = np.random.default_rng(0)
    module = TaskLoss(tl.losses.MatchingHamming(outliers=outliers), surrogate, reduction="none")
    bound = tl.losses.MatchingHamming(3, 4, outliers)
    y = task_data(bound, rng, 5)
    v = rng.normal(size=(5, 3, bound.polytope.width))
    scores, targets = torch.from_numpy(v).to(device).requires_grad_(), torch.from_numpy(y).to(device)
    fitted = module.surrogate.bind(bound.polytope)
    value, gradient = fitted.value_and_gradient(v.reshape(5, -1), bound.phi(y))
    found = module(scores, targets)
    found.sum().backward()
    np.testing.assert_allclose(found.detach().cpu(), value, atol=1e-9)
    np.testing.assert_allclose(scores.grad.cpu().flatten(1), gradient, atol=1e-8)
    mu = fitted.inverse_link(v.reshape(5, -1))
    z = bound.decode(mu)
    np.testing.assert_array_equal(module.predict(scores).cpu(), z)
    np.testing.assert_allclose(module.expected_loss(scores).cpu(), bound.bayes_risk(z, mu), atol=1e-9)
    assert module.score(scores, targets) == pytest.approx(-bound(z, y).mean())


SEQUENCES = [(name, loss) for name, loss in examples(Loss) if isinstance(loss, SequenceLoss)]


@every_device
@pytest.mark.parametrize("loss", [p for _, p in SEQUENCES], ids=[i for i, _ in SEQUENCES])
@pytest.mark.parametrize("shared", [False, True])
def test_sequences_and_trees_equal_enumeration(device, loss, shared):
    rng = np.random.default_rng(0)
    module = TaskLoss(loss, reduction="none")
    labels = loss.labels()
    tree, (t, k) = loss.tree(), (labels.shape[1], loss.n_labels)
    y = task_data(loss, rng)
    nodes = rng.normal(size=(len(y), t, k))
    pairs = rng.normal(size=(k, k) if shared else (len(y), t - 1, k, k))
    scores = [torch.from_numpy(x).to(device).requires_grad_() for x in (nodes, pairs)]
    full = tree.join(nodes, np.broadcast_to(pairs, (len(y), t - 1, k, k)))
    log_p = full @ tree.embed(labels).T
    log_p -= np.logaddexp.reduce(log_p, axis=1, keepdims=True)
    at = [int(np.flatnonzero((labels == row).all(1))[0]) for row in y]
    found = module(tuple(scores), torch.from_numpy(y).to(device))
    np.testing.assert_allclose(found.detach().cpu(), -log_p[np.arange(len(y)), at], atol=1e-10)
    mu = np.exp(log_p) @ tree.embed(labels)
    one, joint = module.moments(tuple(scores))
    np.testing.assert_allclose(tree.join(one.detach().cpu().numpy(), joint.detach().cpu().numpy()), mu, atol=1e-10)
    found.sum().backward()
    gradient = tree.split(mu - tree.embed(y))
    np.testing.assert_allclose(scores[0].grad.cpu(), gradient[0], atol=1e-9)
    np.testing.assert_allclose(scores[1].grad.cpu(), gradient[1].sum((0, 1)) if shared else gradient[1], atol=1e-9)
    outputs = loss.outputs()
    expected = np.stack([(np.exp(log_p) * loss(np.broadcast_to(z, labels.shape), labels)).sum(1) for z in outputs])
    z = module.predict(tuple(scores)).cpu().numpy()
    where = [int(np.flatnonzero((outputs == row).all(1))[0]) for row in z]
    np.testing.assert_allclose(expected[where, np.arange(len(y))], expected.min(0), atol=1e-9)
    np.testing.assert_allclose(module.expected_loss(tuple(scores)).cpu(), expected.min(0), atol=1e-9)
    assert module.score(tuple(scores), torch.from_numpy(y).to(device)) == pytest.approx(-loss(z, y).mean())


def test_task_loss_of_sequences_is_the_crf_layer():
    crf = CRF(4, batch_first=True)
    with torch.no_grad():
        crf.start_transitions.zero_()
        crf.end_transitions.zero_()
    emissions, tags, mask = batch(shape=(5, 6, 4))
    loss = TaskLoss("chain-hamming", n_labels=4, reduction="sum")
    torch.testing.assert_close(loss((emissions, crf.transitions), tags, mask=mask), -crf(emissions, tags, mask=mask))
    assert loss(emissions, tags, mask=mask) > 0  # without scores of pairs, positions are independent


def test_ordered_thresholds():
    for rising in (False, True):
        head = OrderedThresholds(3, 5, rising=rising)
        with torch.no_grad():
            head.gaps.fill_(-200.0)
        v = head(torch.randn(4, 3))
        steps = v.diff(dim=-1)
        assert ((steps > 0) if rising else (steps < 0)).all()
    x = torch.randn(200, 3)
    y = torch.bucketize(x[:, 0].contiguous(), torch.tensor([-1.0, 0.0, 0.7, 1.2]))
    for name, rising in (("cumulative-link", True), ("all-thresholds", False)):
        torch.manual_seed(0)
        head, loss = OrderedThresholds(3, 5, rising=rising), TaskLoss(tl.losses.Absolute(5), name)
        optimizer = torch.optim.LBFGS(head.parameters(), max_iter=50, line_search_fn="strong_wolfe")

        def closure(head=head, loss=loss, optimizer=optimizer):
            optimizer.zero_grad()
            value = loss(head(x), y)
            value.backward()
            return value

        optimizer.step(closure)
        assert loss.score(head(x), y) > -0.05
    with pytest.raises(ValueError, match="n_classes must be a whole number of at least 2, got 1"):
        OrderedThresholds(3, 1)
    with pytest.raises(ValueError, match="in_features must be 1, got 3"):
        OrderedThresholds(3, 4, weight=False)
    plain = OrderedThresholds(1, 4, weight=False)
    assert plain(torch.zeros(2, 1)).shape == (2, 3)


def test_bfloat16_scores_are_added_up_in_float32():
    scores = torch.randn(6, 4).bfloat16().requires_grad_()
    targets = torch.randint(4, (6,))
    value = TaskLoss("zero-one", n_labels=4)(scores, targets)
    assert value.dtype == torch.float32
    value.backward()
    assert scores.grad.dtype == torch.bfloat16


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: TaskLoss("zero-one"), "does not know its number of labels yet"),
        (
            lambda: TaskLoss("zero-one", n_labels=3, reduction="max"),
            "reduction must be 'mean', 'sum' or 'none', got 'max'",
        ),
        (lambda: TaskLoss("zero-one", "all-thresholds", n_labels=3), "does not fit this loss"),
        (lambda: TaskLoss("chain-hamming", "quadratic", n_labels=3), "is no surrogate on sequences here"),
        (lambda: rows(torch.zeros(2, 4)), r"Scores must have 3 numbers along the last axis .*got shape \(2, 4\)"),
        (lambda: rows(torch.zeros(2, 3, dtype=torch.long)), "must be a tensor of real numbers, got torch.int64"),
        (lambda: rows(targets=torch.zeros(3, dtype=torch.long)), r"Targets must have shape \(2,\).*got \(3,\)"),
        (lambda: rows(targets=torch.tensor([0, 3])), r"Targets must be labels of .*got 3 at \[1\]"),
        (lambda: rows(targets=torch.tensor([0.0, 1.5])), r"Targets must be labels of .*got 1.5 at \[1\]"),
        (
            lambda: rows(targets=torch.zeros(2, dtype=torch.long, device="meta")),
            "Scores are on cpu, but targets on meta",
        ),
        (lambda: rows(torch.full((2, 3), math.nan)), "Scores hold NaN or infinite values"),
        (lambda: rows(weights=torch.ones(3)), r"weights must have one number for each example, \(2,\), got \(3,\)"),
        (lambda: rows(mask=torch.ones(3)), "The mask must have shape"),
        (lambda: rows(groups=[0, 1]), "takes no groups"),
        (
            lambda: TaskLoss(tl.losses.Absolute(4), "cumulative-link")(
                torch.tensor([[1.0, 0.0, 2.0]]), torch.tensor([1])
            ),
            "scores are out of order .* OrderedThresholds",
        ),
        (
            lambda: TaskLoss("hamming", n_labels=2)(torch.zeros(1, 2), torch.tensor([[0, 2]])),
            "Targets must be labels of",
        ),
        (lambda: TaskLoss("ndcg")(torch.zeros(3), torch.zeros(3)), "Scores of rankings must have shape"),
        (lambda: TaskLoss("ndcg")(torch.zeros(2, 3), torch.zeros(2, 4)), "Targets must have the scores' shape"),
        (lambda: TaskLoss("ndcg")(torch.zeros(2, 3), -torch.ones(2, 3)), "must not be negative"),
        (
            lambda: TaskLoss("ndcg")(torch.zeros(2, 3), torch.zeros(2, 3), mask=torch.tensor([[1, 1, 1], [0, 0, 0]])),
            "Group 1 has no items",
        ),
        (
            lambda: TaskLoss("matching-hamming")(torch.zeros(2, 9), torch.zeros(2, 3)),
            "Scores of matchings must have shape",
        ),
        (
            lambda: TaskLoss("matching-hamming")(torch.zeros(1, 2, 2), torch.zeros(1, 2, dtype=torch.long)),
            "match two rows to the same column",
        ),
        (lambda: chains(torch.zeros(2, 4, 5)), "with 3 states, got"),
        (lambda: chains((torch.zeros(2, 4, 3), torch.zeros(3, 4))), "Scores of pairs must be one table"),
        (lambda: chains(groups=[0, 1]), "takes no groups"),
        (lambda: TaskLoss("zero-one", n_labels=3).predict(torch.zeros(2, 3), loss="hamming"), "labels of another kind"),
        (
            lambda: TaskLoss("chain-hamming", n_labels=3).predict(torch.zeros(2, 4, 3), costs=torch.ones(2)),
            "take no costs per example",
        ),
        (lambda: trees(mask=torch.ones(2, 3)), "Trees of one shape have no positions to mask"),
        (lambda: trees(torch.zeros(2, 4, 2)), "The tree has 3 nodes, but the scores have 4 positions"),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_bad_input_of_a_task_loss(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()


def rows(scores=None, targets=None, **keywords):
    scores = torch.zeros(2, 3) if scores is None else scores
    targets = torch.zeros(2, dtype=torch.long) if targets is None else targets
    return TaskLoss("zero-one", n_labels=3)(scores, targets, **keywords)


def chains(scores=None, **keywords):
    scores = torch.zeros(2, 4, 3) if scores is None else scores
    return TaskLoss("chain-hamming", n_labels=3)(scores, TAGS, **keywords)


def trees(scores=None, **keywords):
    scores = torch.zeros(2, 3, 2) if scores is None else scores
    loss = TaskLoss(tl.losses.ChainHamming(2, parents=(-1, 0, 0)))
    return loss(scores, torch.zeros(scores.shape[:2], dtype=torch.long), **keywords)


def test_modules_pickle_and_print():
    import pickle

    for module in (CRF(3, forbidden=[(0, 1)]), TaskLoss(tl.losses.Absolute(4)), OrderedThresholds(2, 3)):
        again = pickle.loads(pickle.dumps(module))
        assert repr(again) == repr(module)


@pytest.mark.parametrize("name", ["crf", "loss", "heads"])
def test_examples_in_docstrings(name):
    assert doctest.testmod(importlib.import_module(f"taskloss.torch.{name}")).failed == 0


def test_labellings_know_their_tabular_siblings():
    """A chain of one position is one label: the CRF's likelihood is then the softmax."""
    scores, tags = torch.randn(4, 1, 3), torch.randint(3, (4, 1))
    law = Labellings(scores, torch.zeros(3, 3))
    wanted = torch.log_softmax(scores[:, 0], 1).gather(1, tags)[:, 0]
    torch.testing.assert_close(law.log_likelihood(tags), wanted)
    assert isinstance(TaskLoss("zero-one", n_labels=3).loss, Tabular)


def test_a_mean_over_nothing_is_no_silent_nan():
    scores, targets = torch.randn(2, 3, requires_grad=True), torch.tensor([0, 2])
    loss, nothing = TaskLoss("zero-one", n_labels=3), torch.zeros(2)
    ignored = torch.full((2,), -100)
    assert TaskLoss("zero-one", n_labels=3, reduction="sum")(scores, ignored) == 0
    for call in (
        lambda: loss(scores, ignored),
        lambda: loss(scores, targets, nothing),
        lambda: loss(scores, targets, mask=torch.zeros(2, dtype=torch.bool)),
        lambda: loss(scores[:0], targets[:0]),
        lambda: loss.score(scores, ignored),
    ):
        with pytest.raises(ValueError, match="Nothing counts"):
            call()
    with pytest.raises(ValueError, match="weights hold NaN"):
        loss(scores, targets, torch.tensor([1.0, torch.nan]))
    crf, emissions, tags = CRF(3, batch_first=True), torch.randn(2, 4, 3), torch.zeros(2, 4, dtype=torch.long)
    for reduction in ("mean", "token_mean"):
        with pytest.raises(ValueError, match="Nothing counts"):
            crf(emissions, tags, weights=nothing, reduction=reduction)
    assert crf(emissions, tags, weights=nothing) == 0
    with pytest.raises(ValueError, match="weights hold NaN"):
        crf(emissions, tags, weights=torch.tensor([1.0, torch.inf]))
    with pytest.raises(ValueError, match="leave empty batches out"):
        crf(emissions[:0], tags[:0])
