"""Sums over the label sequences of a padded batch of chains, on torch tensors, with a backward pass of their own.

`chain` is one operator with one autograd formula. Scores are `unary` (B, T, K) and `pairwise` [state, next state], one
(K, K) table or (B, T - 1, K, K); -inf forbids. Without tags its value is the log-partition and its other two outputs
the marginals of nodes and pairs; with tags, log p(tags) and its gradients, which are indicators less marginals.
The plain recursion is in torch_definition.py. A compiled loop over packed sequences (torch_packed.py: CPU, few states),
products of matrices in batches (torch_products.py: any device) and the Triton kernel (triton_chain.py) equal it, by a
test. Marginals are differentiable in their turn, through the definition.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import torch

from .torch_definition import EACH, SUMS, VALUE, Path, at_ends, definition, output_type, path_score
from .torch_packed import compiled
from .torch_products import scaled

Tensor = torch.Tensor

_MOST_STATES = 256  # of the Triton kernel
_COMPILED_STATES = 128  # up to which a compiled loop beats products of matrices on a CPU

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


def _empty(unary: Tensor, pairwise: Tensor, what: int, make: Any = torch.empty) -> tuple[Tensor, Tensor, Tensor]:
    """Room for the three outputs."""
    batch, length, states = unary.shape
    options: dict[str, Any] = {"dtype": output_type(unary, pairwise), "device": unary.device}
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
    found = None
    if unary.device.type == "cpu" and unary.shape[2] <= _COMPILED_STATES:
        found = compiled(unary, pairwise, start, end, lengths, what)
    value, nodes, pairs = found or scaled(unary, pairwise, start, end, lengths, what)
    if given is not None:
        value = torch.where(given == lengths, value, math.nan)
    if tags is not None:
        path = Path.of(tags, lengths, unary.shape[2])
        value = path_score(unary, pairwise, start, end, lengths, tags, path) - value
        if what != VALUE:
            _indicators(nodes.neg_(), pairs.neg_(), path)
    kind = output_type(unary, pairwise)
    return value.to(kind), nodes.to(kind), pairs.to(kind)


def _backward(ctx: Any, by_value: Any, by_nodes: Any, by_pairs: Any) -> tuple[Any, ...]:
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


def _first_order(by: Tensor, inputs: tuple[Any, ...], lengths: Any, nodes: Tensor, pairs: Tensor) -> list[Any]:
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


def _second_order(
    by_nodes: Any, by_pairs: Any, inputs: tuple[Any, ...], lengths: Any, what: int, sign: int
) -> list[Any]:
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


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
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


def _indicators(nodes: Tensor, pairs: Tensor, path: Path) -> None:
    """Add phi(tags) in place."""
    keep = path.keep.to(nodes.dtype)
    nodes.scatter_add_(2, path.tags[..., None], keep[..., None])
    if pairs.ndim == 3:
        pairs.view(len(pairs), -1).scatter_add_(1, path.pairs, keep[:, 1:])
    else:
        pairs.flatten(2).scatter_add_(2, path.pairs[..., None], keep[:, 1:, None])


# -- registration -----------------------------------------------------------------------------------------------------

_operator = torch.library.custom_op("taskloss::chain", _chain, mutates_args=(), schema=_SCHEMA)
_operator.register_fake(lambda unary, pairwise, start, end, lengths, tags, what: _empty(unary, pairwise, what))
_operator.register_autograd(_backward, setup_context=_save)
