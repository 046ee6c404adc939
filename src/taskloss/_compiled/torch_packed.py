"""The recursion over a padded batch of chains by the compiled loop over packed sequences, on a CPU."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from .._blas import pool
from .torch_definition import SUMS, VALUE, inside, mend, output_type
from .torch_products import exponentiate

Tensor = torch.Tensor

_THREAD_WORK = 1 << 20  # products of messages from which a second thread pays


def compiled(
    unary: Tensor, pairwise: Tensor, start: Any, end: Any, lengths: Any = None, what: int = SUMS
) -> tuple[Tensor, Tensor, Tensor] | None:
    """`chain` without tags, in float64 inside; None where scores hold NaN or inf, which the loop must not see.

    Scores of pairs further below their maximum than exp can reach count as forbidden, as in `torch_products.scaled`, and
    under the same condition; the other sequences where something may underflow are left to the definition.
    """
    from ..polytopes._forest import Forest

    batch, length, states = unary.shape
    full = lengths is None
    ends: Any = length - 1 if full else lengths - 1
    u = unary.to(torch.float64, copy=True, memory_format=torch.contiguous_format)
    if start is not None:
        u[:, 0] += start
    if end is not None:
        u[torch.arange(batch), ends] += end
    keep = None if full else inside(unary, lengths)
    x = (u.view(-1, states) if keep is None else u[keep]).numpy()
    e = pairwise.to(torch.float64, copy=True, memory_format=torch.contiguous_format)
    if e.ndim == 4:
        e = e.view(-1, states, states) if keep is None else e[keep[:, 1:]]
    if not (x.sum() < math.inf and float(e.sum()) < math.inf):
        return None

    forest = Forest.chains([length] * batch if full else lengths.tolist())
    fine = np.ones(batch, dtype=bool)
    top, _, far = exponentiate(e, (-2, -1), (-2, -1))
    if (
        e.ndim == 3 and far is not None
    ):  # each step has its own maximum: no telling what a forbidden one would have weighed
        fine[forest.tree_of[forest.children[(far > -math.inf).numpy()]]] = False
    log_z, mu = np.zeros(batch), np.empty_like(x)
    each = what != VALUE and not (what == SUMS and e.ndim == 2)
    shape = (0 if what == VALUE else forest.n_edges if each else batch, states, states)
    pairs = np.zeros(shape)
    tables = e.reshape(-1, states, states)
    args = tables.numpy(), tables.transpose(1, 2).contiguous().numpy(), 0 if e.ndim == 2 else 1
    _run(forest, x, args, mu, 0 if what == VALUE else 2 if each else 1, pairs, log_z, fine)

    if e.ndim == 2:
        if far is not None and float(far) > -math.inf:
            most = np.add.reduceat(x.max(1), forest.offsets[:-1]) + forest.lengths * math.log(states)
            fine &= log_z >= float(far) + most + 30
        log_z += (forest.lengths - 1) * float(top)
    elif forest.n_edges:
        np.add.at(log_z, forest.tree_of[forest.children], top.numpy().ravel())
    found = [torch.from_numpy(log_z)]
    if what != VALUE:
        kind = output_type(unary, pairwise)
        nodes = torch.from_numpy(mu).to(kind)
        steps = torch.from_numpy(pairs)
        steps = (steps if each else steps * e).to(kind)
        found += [
            nodes.view(batch, length, states) if keep is None else _spread(nodes, keep, unary.shape),
            steps if not each else _spread(steps, inside(u, lengths)[:, 1:], (batch, length - 1, states, states)),
        ]
    mend(found, torch.from_numpy(fine), (unary, pairwise, start, end), lengths, what)
    return found[0], *(found[1:] if what != VALUE else (u.new_empty(0), u.new_empty(0)))


def _spread(packed: Tensor, keep: Tensor, shape: Any) -> Tensor:
    """Rows in their places of a padded batch, zero elsewhere."""
    out = packed.new_zeros(shape)
    out[keep] = packed
    return out


def _run(forest: Any, x: Any, args: tuple[Any, ...], mu: Any, mode: int, pairs: Any, log_z: Any, fine: Any) -> None:
    """The loop, on as many threads as torch may use."""
    from .forest import NO_CELLS, sum_product

    tables, turned, stride = args
    threads = min(torch.get_num_threads(), len(forest)) if x.size * x.shape[1] >= _THREAD_WORK else 1
    weights = np.ones(len(forest))

    def run(block: tuple[slice, Any]) -> None:
        trees, some = block
        low, high = forest.offsets[trees.start], forest.offsets[trees.stop]
        steps = slice(low - trees.start, high - trees.stop)
        own = (tables[steps], turned[steps]) if stride else (tables, turned)
        room = pairs[steps] if mode == 2 else pairs[trees]
        shape = some.edge_of, some.parents, some.offsets
        found = log_z[trees], fine[trees], NO_CELLS
        sum_product(x[low:high], *own, stride, *shape, weights[trees], mu[low:high], mode, room, *found)

    if threads == 1:
        run((slice(0, len(forest)), forest))
    else:
        list(pool().map(run, forest.blocks(-(-forest.n_nodes // threads))))
