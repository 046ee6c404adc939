"""The chain operator on tensors: every path equals the definition and enumeration, on every device there is."""

import itertools
import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from taskloss._compiled import torch_definition  # noqa: E402
from taskloss._compiled.torch_chain import chain  # noqa: E402
from taskloss._compiled.torch_definition import EACH, SUMS, VALUE, definition, inside, path_score  # noqa: E402
from taskloss._compiled.torch_packed import compiled  # noqa: E402
from taskloss._compiled.torch_products import scaled  # noqa: E402

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU"))]
every_device = pytest.mark.parametrize("device", DEVICES)
both_ways = pytest.mark.parametrize("way", [scaled, compiled], ids=["products", "compiled"])
NAMES = ("unary", "pairwise", "start", "end")


def problem(
    batch=4, length=5, states=3, own=False, ragged=True, ends=True, dtype=torch.float64, device="cpu", scale=1.0
):
    """Random scores, some forbidden, with lengths and tags that are allowed."""
    generator = torch.Generator().manual_seed(batch + 10 * length + 100 * states + 1000 * own)

    def normal(*shape):
        return scale * torch.randn(shape, generator=generator, dtype=torch.float64)

    pairwise = normal(batch, length - 1, states, states) if own else normal(states, states)
    pairwise[..., 0, 1] = -math.inf
    scores = [normal(batch, length, states), pairwise, *((normal(states), normal(states)) if ends else (None, None))]
    lengths = torch.tensor([length, 1, *torch.randint(1, length + 1, (batch - 2,), generator=generator)])
    tags = torch.randint(1, states, (batch, length), generator=generator)
    scores = [x if x is None else x.to(dtype).to(device) for x in scores]
    return scores, lengths.to(device) if ragged else None, tags.to(device)


def enumerate_law(scores, lengths, b):
    """All tag sequences of one chain and their scores."""
    unary = scores[0]
    n = unary.shape[1] if lengths is None else int(lengths[b])
    rows = torch.tensor(list(itertools.product(range(unary.shape[2]), repeat=n)))
    some = [scores[0][b : b + 1, :n].expand(len(rows), -1, -1), scores[1], *scores[2:]]
    if scores[1].ndim == 4:
        some[1] = scores[1][b : b + 1, : n - 1].expand(len(rows), -1, -1, -1)
    return rows, path_score(*some, None, rows)


def leaves(scores):
    return [x if x is None else x.detach().clone().requires_grad_() for x in scores]


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("ragged", [False, True])
def test_the_definition_is_the_sum_over_all_sequences(own, ragged):
    scores, lengths, _ = problem(own=own, ragged=ragged)
    value, nodes, pairs = definition(*scores, lengths, EACH)
    for b in range(len(value)):
        rows, score = enumerate_law(scores, lengths, b)
        torch.testing.assert_close(value[b], torch.logsumexp(score, 0))
        p, n = torch.softmax(score, 0), rows.shape[1]
        unit = torch.eye(3, dtype=p.dtype)[rows]
        torch.testing.assert_close(nodes[b, :n], torch.einsum("r,rtk->tk", p, unit))
        torch.testing.assert_close(pairs[b, : n - 1], torch.einsum("r,rti,rtj->tij", p, unit[:, :-1], unit[:, 1:]))
        assert not nodes[b, n:].any()
        assert not pairs[b, max(n - 1, 0) :].any()
    sums = definition(*scores, lengths, SUMS)[2]
    torch.testing.assert_close(sums, pairs if own else pairs.sum(1))


@every_device
@pytest.mark.parametrize("own", [False, True], ids=["shared", "own"])
@pytest.mark.parametrize("ragged", [False, True], ids=["full", "ragged"])
@pytest.mark.parametrize("ends", [False, True], ids=["free", "ends"])
@pytest.mark.parametrize("what", [VALUE, SUMS, EACH])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
def test_the_operator_equals_the_definition(device, own, ragged, ends, what, dtype):
    scores, lengths, tags = problem(7, 9, 5, own, ragged, ends, dtype, device, scale=3.0)
    wide = [x if x is None else x.double() for x in scores]
    tol = 1e-10 if dtype == torch.float64 else 3e-6
    expected = definition(*wide, lengths, what)
    for found, wanted in zip(chain(*scores, lengths, None, what), expected, strict=True):
        assert found.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
        torch.testing.assert_close(found.double(), wanted, rtol=tol, atol=tol)
    value, nodes, pairs = chain(*scores, lengths, tags, what)
    score = path_score(*wide, lengths, tags)
    torch.testing.assert_close(value.double(), score - expected[0], rtol=tol, atol=10 * tol)
    if what == VALUE:
        return
    # with tags the outputs are the gradient of log p: indicators less marginals
    hot = [leaf for leaf in leaves(wide)]
    total = (path_score(*hot, lengths, tags) - definition(*hot, lengths, VALUE)[0]).sum()
    by_nodes, by_pairs = torch.autograd.grad(total, hot[:2])
    torch.testing.assert_close(nodes.double(), by_nodes, rtol=tol, atol=tol)
    seen = pairs.double() if own else pairs.double().sum(tuple(range(pairs.ndim - 2)))
    torch.testing.assert_close(seen, by_pairs, rtol=tol, atol=10 * tol)


@both_ways
@pytest.mark.parametrize("own", [False, True], ids=["shared", "own"])
@pytest.mark.parametrize("ragged", [False, True], ids=["full", "ragged"])
@pytest.mark.parametrize("what", [VALUE, SUMS, EACH])
@pytest.mark.parametrize("scale", [1.0, 30.0, 1e3])
def test_each_way_on_a_cpu_equals_the_definition(way, own, ragged, what, scale):
    scores, lengths, _ = problem(7, 9, 5, own, ragged, scale=scale)
    for found, wanted in zip(way(*scores, lengths, what), definition(*scores, lengths, what), strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-9)


@every_device
@pytest.mark.parametrize("states", [16, 17, 40, 100, 128, 130, 256, 300])
def test_every_number_of_states(device, states):
    scores, lengths, tags = problem(3, 4, states, dtype=torch.float32, device=device, scale=2.0)
    wide = [x.double() for x in scores]
    value, nodes, pairs = definition(*wide, lengths, SUMS)
    for found, wanted in zip(chain(*scores, lengths, None, SUMS), (value, nodes, pairs), strict=True):
        torch.testing.assert_close(found.double(), wanted, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(
        chain(*scores, lengths, tags, VALUE)[0].double(), path_score(*wide, lengths, tags) - value, rtol=1e-5, atol=1e-4
    )


@every_device
@pytest.mark.parametrize("own", [False, True], ids=["shared", "own"])
@pytest.mark.parametrize("tagged", [False, True])
def test_gradients_of_the_first_two_orders(device, own, tagged):
    scores, lengths, tags = problem(3, 4, 3, own, device=device)
    scores[1] = torch.where(torch.isfinite(scores[1]), scores[1], -1.0)
    tags = tags if tagged else None
    leaf = leaves(scores)

    def value(*inputs):
        return chain(*inputs, lengths, tags, SUMS)[0]

    def both(*inputs):
        _, nodes, pairs = chain(*inputs, lengths, tags, SUMS)
        return nodes, pairs

    if device == "cpu":
        assert torch.autograd.gradcheck(value, leaf, fast_mode=True)
        assert torch.autograd.gradgradcheck(value, leaf, fast_mode=True)
        assert torch.autograd.gradcheck(both, leaf, fast_mode=True)
    weight = torch.linspace(-1, 2, 3, dtype=torch.float64, device=device)
    sign = -1 if tagged else 1
    (g,) = torch.autograd.grad((value(*leaf) * weight).sum(), leaf[:1], create_graph=True)
    second = torch.autograd.grad((g**3).sum(), leaf)
    mu = sign * definition(*leaf, lengths, SUMS)[1]
    if tagged:
        keep = inside(mu, lengths)[..., None]
        mu = mu + torch.nn.functional.one_hot(tags, 3) * keep
    expected = torch.autograd.grad(((weight[:, None, None] * mu) ** 3).sum(), leaf)
    for a, b in zip(second, expected, strict=True):
        torch.testing.assert_close(a, b)


@every_device
@pytest.mark.parametrize("scale", [1e2, 1e3, 1e4])
@pytest.mark.parametrize("own", [False, True], ids=["shared", "own"])
def test_large_scores(device, scale, own):
    """Relative accuracy 1e-5 where nothing that is exponentiated would survive, in float32 as in float64."""
    scores, lengths, _ = problem(6, 12, 4, own, dtype=torch.float32, device=device)
    scores = [x / x[torch.isfinite(x)].abs().max() * scale for x in scores]
    wanted = definition(*[x.double() for x in scores], lengths, SUMS)
    value, nodes, pairs = chain(*scores, lengths, None, SUMS)
    torch.testing.assert_close(value.double(), wanted[0], rtol=1e-5, atol=0)
    for found, right in ((nodes, wanted[1]), (pairs, wanted[2])):
        assert torch.isfinite(found).all()
        torch.testing.assert_close(found.double(), right, rtol=0, atol=1e-5 + scale * 1e-6)


@both_ways
def test_what_is_forbidden_by_large_numbers_needs_no_logarithms(way, monkeypatch):
    """-10000 in the place of -inf, as users write, is certified without the definition."""
    scores, lengths, _ = problem(4, 6, 4)
    scores[1] = torch.where(torch.isinf(scores[1]), -1e4, scores[1])
    wanted = definition(*scores, lengths, SUMS)
    monkeypatch.setattr(torch_definition, "definition", None)
    for found, right in zip(way(*scores, lengths, SUMS), wanted, strict=True):
        torch.testing.assert_close(found, right)


@both_ways
def test_a_state_that_only_the_future_favours_is_not_lost(way):
    """Where a belief would underflow that later scores bring back, the sequence is left to the definition."""
    unary = torch.zeros(2, 8, 2, dtype=torch.float64)
    unary[:, 0, 1] = unary[:, 7, 1] = -800.0
    unary[:, 1:7, 1] = 290.0
    stay = torch.tensor([[0.0, -math.inf], [-math.inf, 0.0]], dtype=torch.float64)
    value, nodes, _ = way(unary, stay, None, None)
    torch.testing.assert_close(value, torch.full((2,), 6 * 290.0 - 1600.0, dtype=torch.float64))
    torch.testing.assert_close(nodes[0, :, 1], torch.ones(8, dtype=torch.float64))


@every_device
def test_runs_give_the_same_bits(device):
    scores, lengths, tags = problem(16, 30, 26, dtype=torch.float32, device=device)
    first, second = (chain(*scores, lengths, tags, SUMS) for _ in range(2))
    for a, b in zip(first, second, strict=True):
        assert torch.equal(a, b)


@every_device
def test_nothing_allowed_and_unknown_tags_show_in_the_value(device):
    scores, lengths, tags = problem(device=device)
    none = torch.full_like(scores[1], -math.inf)
    value = chain(scores[0], none, None, None, None, None, VALUE)[0]
    assert torch.isneginf(value).all()
    tags[0, 0] = 3
    assert torch.isnan(chain(*scores, lengths, tags, VALUE)[0]).tolist() == [True, False, False, False]


@every_device
def test_padding_may_hold_anything(device):
    scores, lengths, tags = problem(own=True, device=device)
    value, nodes, pairs = chain(*scores, lengths, tags, SUMS)
    outside = ~inside(scores[0], lengths)
    scores[0][outside] = math.nan
    scores[1][outside[:, 1:]] = math.inf
    tags[outside] = -100
    for found, wanted in zip(chain(*scores, lengths, tags, SUMS), (value, nodes, pairs), strict=True):
        assert torch.equal(found, wanted)


@every_device
def test_compiles_in_one_graph(device):
    scores, lengths, tags = problem(dtype=torch.float32, device=device)

    def loss(*inputs):
        return chain(*inputs, lengths, tags, SUMS)[0].sum()

    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    one, other = leaves(scores), leaves(scores)
    compiled(*one).backward()
    loss(*other).backward()
    for name, a, b in zip(NAMES, one, other, strict=True):
        assert torch.equal(a.grad, b.grad), name


@every_device
def test_strides_do_not_matter(device):
    scores, lengths, tags = problem(own=True, device=device)
    wanted = chain(*scores, lengths, tags, SUMS)
    turned = [
        scores[0].transpose(0, 1).contiguous().transpose(0, 1),
        scores[1].transpose(2, 3).contiguous().transpose(2, 3),
    ]
    for a, b in zip(chain(*turned, *scores[2:], lengths, tags.T.contiguous().T, SUMS), wanted, strict=True):
        torch.testing.assert_close(a, b)


@every_device
@pytest.mark.parametrize("own", [False, True], ids=["shared", "own"])
@pytest.mark.parametrize("states", [3, 20, 70, 200])
def test_viterbi(device, own, states):
    from taskloss.torch.labellings import Labellings

    scores, lengths, _ = problem(5, 6, states, own, device=device, dtype=torch.float32)
    law = Labellings(*scores, lengths=lengths)
    score, path = law.maximise()
    torch.testing.assert_close(path_score(*scores, lengths, path), score.double(), rtol=1e-5, atol=1e-5)
    wanted = law.best(1)[0][:, 0] + law.log_partition()
    torch.testing.assert_close(score, wanted, rtol=1e-5, atol=1e-4)
    if states == 3:
        for b in range(len(score)):
            rows, all_scores = enumerate_law([x.cpu() for x in scores], None if lengths is None else lengths.cpu(), b)
            np.testing.assert_array_equal(path[b, : rows.shape[1]].cpu(), rows[all_scores.argmax()])


@every_device
@pytest.mark.parametrize("own", [False, True], ids=["shared", "own"])
@pytest.mark.parametrize("lengths", [[4, 4, 4], [4, 1, 2]], ids=["even", "ragged"])
@pytest.mark.parametrize("pairs", ["all", "sum", "none"])
@pytest.mark.parametrize("weighted", [False, True])
def test_packed_chains_of_tensors_equal_numpy(device, own, lengths, pairs, weighted):
    from taskloss.polytopes._forest import Forest, marginals

    forest, rng = Forest.chains(lengths), np.random.default_rng(0)
    unary, table = rng.normal(size=(sum(lengths), 3)), rng.normal(size=(forest.n_edges, 3, 3) if own else (3, 3))
    weights = np.array([1.0, 2.0, 0.5]) if weighted else None
    wanted = marginals(forest, unary, table, pairs, weights, compiled=False)
    tensors = [torch.from_numpy(x).to(device) for x in (unary, table)]
    weights = torch.from_numpy(weights).to(device) if weighted else None
    for a, b in zip(marginals(forest, *tensors, pairs, weights), wanted, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            np.testing.assert_allclose(a.cpu(), b, atol=1e-12)
