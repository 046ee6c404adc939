"""Sums over the label sequences of a padded batch of chains, on torch tensors, with a backward pass of their own.

`chain` is one operator with one autograd formula. Scores are `unary` (B, T, K) and `pairwise` [state, next state], one
(K, K) table or (B, T - 1, K, K); -inf forbids. Without tags its value is the log-partition and its other two outputs
the marginals of nodes and pairs; with tags, log p(tags) and its gradients, which are indicators less marginals.
`definition` is the plain recursion in logarithms; `scaled` (any device, products of matrices in batches) and the Triton
kernel in triton_chain.py equal it, by a test. Marginals are differentiable in their turn, through `definition`.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import torch

Tensor = torch.Tensor

VALUE, SUMS, EACH = 0, 1, 2  # what `chain` computes: its value; and marginals, those of pairs summed; or pair by pair

_SPREAD = 230.0  # differences of scores up to which exp stays above 1e-100
_SMALLEST = 1e-100
_MOST_STATES = 256  # of the Triton kernel

_SCHEMA = (
    "(Tensor unary, Tensor pairwise, Tensor? start, Tensor? end, Tensor? lengths, Tensor? tags, int what)"
    " -> (Tensor, Tensor, Tensor)"
)


def chain(
    unary: Tensor,
    pairwise: Tensor,
    start: Tensor | None = None,
    end: Tensor | None = None,
    lengths: Tensor | None = None,
    tags: Tensor | None = None,
    what: int = SUMS,
) -> tuple[Tensor, Tensor, Tensor]:
    """The value (B,), and its gradients in the nodes' scores (B, T, K) and in the pairs'.

    The last is (B, K, K), summed over the positions of a sequence, where the sequences share a table and `what` is
    SUMS, and (B, T - 1, K, K) elsewhere; with VALUE both are empty. Everything is float32, or float64 where an input
    is. Positions beyond a sequence's length have no part in it. The value is NaN where a tag is no state or a length
    no number of positions.
    """
    if torch.compiler.is_compiling():  # a compiler needs an operator, whose own autograd costs 0.1 ms a call
        return torch.ops.taskloss.chain(unary, pairwise, start, end, lengths, tags, what)
    return _Chain.apply(unary, pairwise, start, end, lengths, tags, what)


def _dtype(unary: Tensor, pairwise: Tensor) -> torch.dtype:
    return torch.float64 if torch.float64 in (unary.dtype, pairwise.dtype) else torch.float32


def _empty(unary: Tensor, pairwise: Tensor, what: int, make: Any = torch.empty) -> tuple[Tensor, Tensor, Tensor]:
    """Room for the three outputs."""
    batch, length, states = unary.shape
    options: dict[str, Any] = {"dtype": _dtype(unary, pairwise), "device": unary.device}
    if what == VALUE:
        return torch.empty(batch, **options), torch.empty(0, **options), torch.empty(0, **options)
    each = what == EACH or pairwise.ndim == 4
    pairs = (batch, length - 1, states, states) if each else (batch, states, states)
    return torch.empty(batch, **options), make((batch, length, states), **options), make(pairs, **options)


@functools.cache
def _has_triton() -> bool:
    try:
        import triton  # noqa: F401
    except ImportError:
        return False
    return True


def on_triton(unary: Tensor) -> bool:
    """Whether the kernel serves these scores."""
    return unary.is_cuda and unary.shape[-1] <= _MOST_STATES and _has_triton()


def _chain(
    unary: Tensor, pairwise: Tensor, start: Any, end: Any, lengths: Any, tags: Any, what: int
) -> tuple[Tensor, Tensor, Tensor]:
    if on_triton(unary):
        from . import triton_chain

        full = lengths is None and unary.shape[1] > 1
        out = _empty(unary, pairwise, what, torch.empty if full else torch.zeros)
        triton_chain.chain(unary, pairwise, start, end, lengths, tags, what, out)
        return out
    given = lengths
    lengths = None if given is None else given.clamp(1, unary.shape[1])
    value, nodes, pairs = scaled(unary, pairwise, start, end, lengths, what)
    if given is not None:
        value = torch.where(given == lengths, value, math.nan)
    if tags is not None:
        score = path_score(unary, pairwise, start, end, lengths, tags)
        value = score - value
        if what != VALUE:
            _indicators(nodes.neg_(), pairs.neg_(), lengths, tags)
    kind = _dtype(unary, pairwise)
    return value.to(kind), nodes.to(kind), pairs.to(kind)


def _backward(ctx: Any, by_value: Any, by_nodes: Any, by_pairs: Any) -> tuple:
    unary, pairwise, start, end, lengths, nodes, pairs = ctx.saved_tensors
    inputs = unary, pairwise, start, end
    total: list[Any] = [None] * 4
    if by_value is not None:
        if ctx.what == VALUE:
            raise RuntimeError("The value of a chain was asked for without its gradients: call chain(what=SUMS).")
        total = _first_order(by_value, inputs, lengths, nodes, pairs)
    if by_nodes is not None or by_pairs is not None:
        second = _second_order(by_nodes, by_pairs, inputs, lengths, ctx.what, ctx.sign)
        total = [a if b is None else b if a is None else a + b for a, b in zip(total, second, strict=True)]
    return *total, None, None, None


def _first_order(by: Tensor, inputs: tuple, lengths: Any, nodes: Tensor, pairs: Tensor) -> list[Any]:
    unary, pairwise, start, end = inputs
    by_nodes = by[:, None, None] * nodes
    by_pairs = by.reshape(-1, *[1] * (pairs.ndim - 1)) * pairs
    if pairwise.ndim == 2:
        by_pairs = by_pairs.sum(dim=tuple(range(pairs.ndim - 2)))
    found: list[Any] = [by_nodes.to(unary.dtype), by_pairs.to(pairwise.dtype), None, None]
    if start is not None:
        found[2] = by_nodes[:, 0].sum(0).to(start.dtype)
    if end is not None:
        found[3] = at_ends(by_nodes, lengths).sum(0).to(end.dtype)
    return found


def _second_order(by_nodes: Any, by_pairs: Any, inputs: tuple, lengths: Any, what: int, sign: int) -> list[Any]:
    """Derivatives of the marginals, by differentiating their definition."""
    create = torch.is_grad_enabled()
    with torch.enable_grad():
        leaves: list[Any] = [
            x if x is None or (create and x.requires_grad) else x.detach().requires_grad_(x.requires_grad)
            for x in inputs
        ]
        unary, pairwise, start, end = leaves
        _, nodes, pairs = definition(unary, pairwise, start, end, lengths, what)
        terms = [(b * x).sum() for b, x in ((by_nodes, nodes), (by_pairs, pairs)) if b is not None]
        wanted = [i for i, x in enumerate(leaves) if x is not None and x.requires_grad]
        found = torch.autograd.grad(
            sign * sum(terms), [leaves[i] for i in wanted], create_graph=create, allow_unused=True
        )
    out: list[Any] = [None] * 4
    for i, g in zip(wanted, found, strict=True):
        out[i] = g
    return out


def _save(ctx: Any, inputs: tuple, output: tuple) -> None:
    ctx.set_materialize_grads(False)  # None tells marginals that nobody differentiates from those that somebody does
    *scores, lengths, tags, ctx.what = inputs
    ctx.sign = 1 if tags is None else -1
    ctx.save_for_backward(*scores, lengths, *output[1:])


class _Chain(torch.autograd.Function):
    @staticmethod
    def forward(*inputs: Any) -> tuple[Tensor, Tensor, Tensor]:
        return _chain(*inputs)

    setup_context = staticmethod(_save)
    backward = staticmethod(_backward)


def at_ends(x: Tensor, lengths: Any) -> Tensor:
    """The rows of the last positions."""
    if lengths is None:
        return x[:, -1]
    at = (lengths - 1).clamp(0, x.shape[1] - 1).reshape(-1, *[1] * (x.ndim - 1))
    return x.gather(1, at.expand(-1, 1, *x.shape[2:]))[:, 0]


def inside(x: Tensor, lengths: Any) -> Tensor:
    """Which positions (B, T) belong to a sequence."""
    places = torch.arange(x.shape[1], device=x.device)
    if lengths is None:
        return torch.ones(x.shape[:2], dtype=torch.bool, device=x.device)
    return places < lengths[:, None]


# -- one sequence of tags ---------------------------------------------------------------------------------------------


def path_score(unary: Tensor, pairwise: Tensor, start: Any, end: Any, lengths: Any, tags: Tensor) -> Tensor:
    """<scores, phi(tags)> in float64, NaN where a tag is no state; tags beyond a sequence's length may be anything."""
    keep = inside(unary, lengths)
    tags, unknown = _known(tags, keep, unary.shape[2])
    score = torch.where(keep, unary.gather(2, tags[..., None])[..., 0].double(), 0.0).sum(1)
    score = torch.where(unknown.any(1), math.nan, score)
    before, after = tags[:, :-1], tags[:, 1:]
    if pairwise.ndim == 2:
        steps = pairwise[before, after]
    else:
        steps = pairwise.flatten(2).gather(2, (before * unary.shape[2] + after)[..., None])[..., 0]
    score = score + torch.where(keep[:, 1:], steps.double(), 0.0).sum(1)
    if start is not None:
        score = score + start.double()[tags[:, 0]]
    return score if end is None else score + end.double()[at_ends(tags, lengths)]


def _known(tags: Tensor, keep: Tensor, states: int) -> tuple[Tensor, Tensor]:
    """Tags, 0 where they do not count or are no states, and which are none."""
    unknown = keep & ((tags < 0) | (tags >= states))
    return torch.where(keep & ~unknown, tags, 0), unknown


def _indicators(nodes: Tensor, pairs: Tensor, lengths: Any, tags: Tensor) -> None:
    """Add phi(tags) in place."""
    keep = inside(nodes, lengths)
    tags, _ = _known(tags, keep, nodes.shape[2])
    nodes.scatter_add_(2, tags[..., None], keep[..., None].to(nodes.dtype))
    step, states = keep[:, 1:].to(pairs.dtype), nodes.shape[2]
    code = tags[:, :-1] * states + tags[:, 1:]
    if pairs.ndim == 3:
        pairs.view(len(pairs), -1).scatter_add_(1, code, step)
    else:
        pairs.view(*pairs.shape[:2], -1).scatter_add_(2, code[..., None], step[..., None])


# -- the definition ---------------------------------------------------------------------------------------------------


def _finite(x: Tensor) -> Tensor:
    return torch.where(torch.isfinite(x), x, 0.0)


def _lse(x: Tensor, dim: int) -> Tensor:
    """log sum exp, -inf where nothing is allowed, with derivatives that are zero there."""
    top = _finite(x.detach().amax(dim, keepdim=True))
    total = torch.exp(x - top).sum(dim)
    some = total > 0
    value = torch.where(some, torch.log(torch.where(some, total, 1.0)), -math.inf) + top.squeeze(dim)
    return torch.where(torch.isnan(total), total, value)


def definition(
    unary: Tensor, pairwise: Tensor, start: Any, end: Any, lengths: Any = None, what: int = SUMS
) -> tuple[Tensor, Tensor, Tensor]:
    """`chain` without tags: the recursion in logarithms and in float64, position by position; differentiable throughout."""
    batch, length, states = unary.shape
    keep = inside(unary, lengths)
    u = torch.where(keep[..., None], unary.double(), 0.0)
    if start is not None:
        u = torch.cat([u[:, :1] + start.double(), u[:, 1:]], dim=1)
    if end is not None:
        last = keep & ~torch.cat([keep[:, 1:], torch.zeros_like(keep[:, :1])], dim=1)
        u = torch.where(last[..., None], u + end.double(), u)
    p = pairwise.double()
    table = [p[None] if p.ndim == 2 else p[:, t] for t in range(length - 1)]

    forward, scale = [u[:, 0]], torch.zeros(batch, dtype=u.dtype, device=u.device)
    for t in range(1, length):
        top = _finite(forward[-1].detach().amax(1))  # what is taken off adds up, so that long chains lose no digits
        step = u[:, t] + _lse(forward[-1][:, :, None] - top[:, None, None] + table[t - 1], 1)
        forward.append(torch.where(keep[:, t, None], step, forward[-1]))
        scale = scale + torch.where(keep[:, t], top, 0.0)
    value = scale + _lse(forward[-1], 1)
    if what == VALUE:
        return value, u.new_empty(0), u.new_empty(0)

    ahead = [torch.zeros_like(u[:, 0])]
    for t in range(length - 1, 0, -1):
        x = u[:, t] + ahead[0]
        x = x - _finite(x.detach().amax(1))[:, None]
        ahead.insert(0, torch.where(keep[:, t, None], _lse(table[t - 1] + x[:, None, :], 2), ahead[0]))
    joint = torch.stack(forward, 1) + torch.stack(ahead, 1)
    nodes = torch.where(keep[..., None], torch.exp(joint - _finite(_lse(joint, 2))[..., None]), 0.0)
    pairs = []
    for t in range(1, length):
        x = forward[t - 1][:, :, None] + table[t - 1] + (u[:, t] + ahead[t])[:, None, :]
        share = torch.exp(x - _finite(_lse(x.flatten(1), 1))[:, None, None])
        pairs.append(torch.where(keep[:, t, None, None], share, 0.0))
    if not pairs:
        shape = (batch, 0, states, states) if what == EACH or p.ndim == 4 else (batch, states, states)
        return value, nodes, u.new_zeros(shape)
    summed = what == SUMS and p.ndim == 2
    return value, nodes, sum(pairs[1:], pairs[0]) if summed else torch.stack(pairs, 1)


# -- scaled products --------------------------------------------------------------------------------------------------


def scaled(
    unary: Tensor, pairwise: Tensor, start: Any, end: Any, lengths: Any = None, what: int = SUMS
) -> tuple[Tensor, Tensor, Tensor]:
    """`chain` without tags, in float64, by products of matrices over all sequences that are long enough.

    With x = exp(unary) and e = exp(pairwise), each brought to a maximum of one: s_t = a_{t-1} e, a_t = x_t s_t / c_t,
    the sums c_t multiplying up to the partition function; and backwards mu_{t-1} = a_{t-1} (e (mu_t / s_t)), so that a
    pair has the marginal a_{t-1} e (mu_t / s_t)'.

    Nothing may underflow: every number that is not zero stays above 1e-100, and so products of three stay above the
    smallest float64. Scores further below the maximum than that count as forbidden; the sequences that use one weigh
    at most K^T exp(gap), where gap is the largest such score, and where that could be seen, or numbers become small
    otherwise, the sequence is left to `definition`.
    """
    batch, length, states = unary.shape
    order, alive = _by_length(lengths, batch, length)

    x = unary.transpose(0, 1)
    x = (x if order is None else x[:, order]).to(torch.float64, copy=True, memory_format=torch.contiguous_format)
    if start is not None:
        x[0] += start
    if end is not None:
        ends = length - 1 if order is None else lengths[order] - 1
        x[ends, torch.arange(batch, device=x.device)] += end
    outside = None if order is None else ~inside(unary, lengths).T[:, order, None]
    if outside is not None:
        x.masked_fill_(outside, 0.0)
    value, wide = _exponentiate(x, (2,))
    gap = wide.amax((0, 2)) if wide is not None else None
    value = value.sum((0, 2))

    p = pairwise.to(torch.float64, copy=True)
    if p.ndim == 4:
        p = (p if order is None else p[order]).transpose(0, 1).contiguous()
        if outside is not None:
            p.masked_fill_(outside[1:, :, :, None], 0.0)
    top, wide_pairs = _exponentiate(p, (-2, -1))
    if p.ndim == 2:
        value = value + (length - 1 if order is None else lengths[order] - 1) * top.squeeze()
    else:
        value = value + top.sum((0, 2, 3))
    if wide_pairs is not None:
        far = wide_pairs.amax() if p.ndim == 2 else wide_pairs.amax((0, 2, 3))
        gap = far.expand(batch) if gap is None else torch.maximum(gap, far)

    s = torch.zeros_like(x) if order is not None else torch.empty_like(x)
    c = torch.ones((length, batch, 1), dtype=x.dtype, device=x.device)
    _forward(x, s, c, p, alive)
    log_c = torch.log(c).sum((0, 2))
    fine = torch.isfinite(log_c)
    if gap is not None:
        fine &= torch.where(x > 0, x, 1.0).amin((0, 2)) >= _SMALLEST
        count = length if order is None else lengths[order]
        fine &= log_c >= gap + count * math.log(states) + 30
    value = value + log_c
    nodes, pairs = x.new_empty(0), x.new_empty(0)
    if what != VALUE:
        nodes, pairs = _marginals(x, s, p, alive, outside, gap is not None, what)
    if order is not None:
        back = torch.argsort(order)
        value, fine = value[back], fine[back]
        if what != VALUE:
            nodes, pairs = nodes[back], pairs[back]
    if not bool(fine.all()):
        at = torch.nonzero(~fine)[:, 0]
        some = pairwise if pairwise.ndim == 2 else pairwise[at]
        mended = definition(unary[at], some, start, end, None if lengths is None else lengths[at], what)
        value[at] = mended[0]
        if what != VALUE:
            nodes[at], pairs[at] = mended[1:]
    return value, nodes, pairs


def _by_length(lengths: Any, batch: int, length: int) -> tuple[Any, list[int]]:
    """Sequences from long to short, None where all have the same length; and how many reach each position."""
    if lengths is None:
        return None, [batch] * length
    if min(lengths.tolist()) == length:
        return None, [batch] * length
    alive = torch.bincount(lengths.cpu(), minlength=length + 1).flip(0).cumsum(0).flip(0)[1:].tolist()
    return torch.argsort(lengths, descending=True, stable=True), alive


def _exponentiate(x: Tensor, dims: tuple[int, ...]) -> tuple[Tensor, Tensor | None]:
    """exp(x - maximum) in place, zero far below; the maximum, and the scores too far below it (-inf elsewhere), or None."""
    top = x.amax(dims, keepdim=True)
    top = torch.where(torch.isneginf(top), 0.0, top)
    x -= top
    wide = None
    if x.numel() and not bool(x.min() >= -_SPREAD):
        wide = torch.where(x < -_SPREAD, x, -math.inf)
        x.masked_fill_(x < -_SPREAD, -math.inf)
    x.exp_()
    return top, wide


def _forward(x: Tensor, s: Tensor, c: Tensor, e: Tensor, alive: list[int]) -> None:
    """s, c and in the place of x the beliefs a."""
    torch.sum(x[0], 1, keepdim=True, out=c[0])
    x[0] /= c[0]
    for t in range(1, len(x)):
        n = alive[t]
        if n == 0:
            break
        before, here, message, total = x[t - 1, :n], x[t, :n], s[t, :n], c[t, :n]
        if e.ndim == 2:
            torch.mm(before, e, out=message)
        else:
            torch.bmm(before[:, None, :], e[t - 1, :n], out=message[:, None, :])
        here *= message
        torch.sum(here, 1, keepdim=True, out=total)
        here /= total


def _marginals(
    a: Tensor, s: Tensor, e: Tensor, alive: list[int], outside: Any, zeros: bool, what: int
) -> tuple[Tensor, Tensor]:
    """Marginals (B, T, K) and of pairs; s becomes mu / s."""
    if zeros:
        s += s == 0
    mu, turned = a.clone(), e.transpose(-1, -2)
    for t in range(len(a) - 1, 0, -1):
        n = alive[t]
        if n == 0:
            continue
        ratio, before = s[t, :n], mu[t - 1, :n]
        torch.div(mu[t, :n], ratio, out=ratio)
        if e.ndim == 2:
            torch.mm(ratio, turned, out=before)
        else:
            torch.bmm(ratio[:, None, :], turned[t - 1, :n], out=before[:, None, :])
        before *= a[t - 1, :n]
    if outside is not None:
        mu.masked_fill_(outside, 0.0)
        s.masked_fill_(outside, 0.0)
    if what == SUMS and e.ndim == 2:
        pairs = torch.bmm(a[:-1].permute(1, 2, 0), s[1:].permute(1, 0, 2)) * e
    else:
        pairs = (a[:-1, :, :, None] * e * s[1:, :, None, :]).transpose(0, 1)
    return mu.transpose(0, 1), pairs


# -- registration -----------------------------------------------------------------------------------------------------

_operator = torch.library.custom_op("taskloss::chain", _chain, mutates_args=(), schema=_SCHEMA)
_operator.register_fake(lambda unary, pairwise, start, end, lengths, tags, what: _empty(unary, pairwise, what))
_operator.register_autograd(_backward, setup_context=_save)
