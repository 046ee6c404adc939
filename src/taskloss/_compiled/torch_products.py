"""The recursion over a padded batch of chains by products of matrices, on any device."""

from __future__ import annotations

import math
from typing import Any

import torch

from .torch_definition import SUMS, VALUE, mend, output_type

Tensor = torch.Tensor

_SPREAD = 230.0  # differences of scores up to which exp stays above 1e-100
_SMALLEST = 1e-100


def scaled(
    unary: Tensor, pairwise: Tensor, start: Any, end: Any, lengths: Any = None, what: int = SUMS
) -> tuple[Tensor, Tensor, Tensor]:
    """`chain` without tags, in float64 inside, by products of matrices over all sequences that are long enough.

    With x = exp(unary) and e = exp(pairwise), each brought to a maximum of one: s_t = a_{t-1} e and a_t = x_t s_t,
    divided by c_t where they get small; the c and the last sum multiply up to the partition function. Backwards
    r_{t-1} = x_{t-1} (e r_t) / c_{t-1}, so that a node has the marginals r_t s_t, and a pair a_{t-1} e r_t'.

    Nothing may underflow: every number that is not zero stays above 1e-100, and so products of three stay above the
    smallest float64. Scores further below the maximum than that count as forbidden; the sequences that use one weigh
    at most K^T exp(gap), where gap is the largest such score, and where that could be seen, or numbers become small
    otherwise, the sequence is left to `definition`.
    """
    batch, length, states = unary.shape
    order, alive = _by_length(lengths, batch, length)
    ends: Any = length - 1
    outside = None
    x = unary
    if order is not None:
        x, ends = x[order], lengths[order] - 1
        outside = (torch.arange(length, device=x.device)[:, None] > ends)[..., None]
    x = x.transpose(0, 1).to(torch.float64, copy=True, memory_format=torch.contiguous_format)
    rows = torch.arange(batch, device=x.device)
    if start is not None:
        x[0] += start
    if end is not None:
        x[ends, rows] += end
    if outside is not None:
        x.masked_fill_(outside, 0.0)
    top, _, gap = exponentiate(x, (2,), (0, 2))
    value = top.sum((0, 2))

    e = pairwise.to(torch.float64, copy=True)
    if e.ndim == 4:
        e = (e if order is None else e[order]).transpose(0, 1).contiguous()
        if outside is not None:
            e.masked_fill_(outside[1:, :, :, None], 0.0)
    top, spread, far = exponentiate(e, (-2, -1), (0, 1) if e.ndim == 2 else (0, 2, 3))
    value += ends * top.squeeze() if e.ndim == 2 else top.sum((0, 2, 3))
    if far is not None:
        gap = far.expand(batch) if gap is None else torch.maximum(gap, far)
    if outside is not None:
        x.masked_fill_(outside, 0.0)

    a, s, scale = _forward(x, e, alive, 1 if gap is not None else _interval(spread, states))
    total = a[ends, rows].sum(1)
    scale += torch.log(total)
    fine = torch.isfinite(scale)
    if gap is not None:
        fine &= torch.where(a > 0, a, 1.0).amin((0, 2)) >= _SMALLEST
        fine &= scale >= gap + (ends + 1) * math.log(states) + 30
    found = [value.add_(scale)]
    kind = output_type(unary, pairwise)
    if what != VALUE:
        x[ends, rows] /= total[:, None]
        _backward(x, e, alive, None if gap is None else s == 0)
        found.append(s.mul_(x).transpose(0, 1).to(kind, memory_format=torch.contiguous_format))
        if what == SUMS and e.ndim == 2:
            by_sequence = a[:-1].transpose(0, 1).contiguous(), x[1:].transpose(0, 1).contiguous()  # twice as fast
            found.append((torch.bmm(by_sequence[0].transpose(1, 2), by_sequence[1]) * e).to(kind))
        else:
            found.append((a[:-1, :, :, None] * e * x[1:, :, None, :]).transpose(0, 1).to(kind))
    if order is not None:
        back = torch.argsort(order)
        *found, fine = (part[back] for part in (*found, fine))
    mend(found, fine, (unary, pairwise, start, end), lengths, what)
    return found[0], *(found[1:] if what != VALUE else (x.new_empty(0), x.new_empty(0)))


def _by_length(lengths: Any, batch: int, length: int) -> tuple[Any, list[int]]:
    """Sequences from long to short, None where all have the same length; and how many reach each position."""
    found = [length] if lengths is None else lengths.tolist()
    if min(found) == length:
        return None, [batch] * length
    order = sorted(range(batch), key=lambda i: -found[i])
    alive = [0] * length
    for n in found:
        alive[n - 1] += 1
    for t in range(length - 1, 0, -1):
        alive[t - 1] += alive[t]
    return torch.tensor(order, device=lengths.device), alive


def exponentiate(x: Tensor, dims: tuple[int, ...], each: tuple[int, ...]) -> tuple[Tensor, float, Tensor | None]:
    """exp(x - maximum over dims) in place, zero far below: the maximum, the spread of what is left, and the largest
    score too far below (over the axes in `each`), None where none is.
    """
    top = x.amax(dims, keepdim=True)
    top = torch.where(torch.isneginf(top), 0.0, top)
    x -= top
    spread = -float(x.min()) if x.numel() else 0.0
    far = None
    if not spread <= _SPREAD:
        low = x < -_SPREAD
        far = torch.where(low, x, -math.inf).amax(each)
        x.masked_fill_(low, -math.inf)
    x.exp_()
    return top, spread, far


def _interval(spread: float, states: int) -> int:
    """Steps between two divisions. Some x is one: the largest a shrinks at most by the spread of e in a step, and grows
    at most by the number of states.
    """
    return max(1, int(200 / max(spread, math.log(states), 1e-3)))


def _forward(x: Tensor, e: Tensor, alive: list[int], interval: int) -> tuple[Tensor, Tensor, Tensor]:
    """a, s and the sum of log c; x is divided by c. Beyond a sequence's end x is zero, and so is a."""
    batch = x.shape[1]
    make = torch.empty_like if alive[-1] == batch else torch.zeros_like
    a, s = make(x), make(x)
    a[0], s[0] = x[0], 1.0
    scale = torch.zeros(batch, dtype=x.dtype, device=x.device)
    beliefs, messages, scores = a.unbind(0), s.unbind(0), x.unbind(0)
    for t in range(1, len(x)):
        n = alive[t]
        before, here, message, score = beliefs[t - 1], beliefs[t], messages[t], scores[t]
        if n < 0.7 * batch:  # up to there products of zeros cost less than views
            if n == 0:
                break
            before, here, message, score = before[:n], here[:n], message[:n], score[:n]
        if e.ndim == 2:
            torch.mm(before, e, out=message)
        else:
            torch.bmm(before[:, None, :], e[t - 1, : len(before)], out=message[:, None, :])
        torch.mul(score, message, out=here)
        if t % interval == 0:
            c = here.sum(1, keepdim=True)
            c += c == 0
            here /= c
            score /= c
            scale[: len(c)] += torch.log(c)[:, 0]
    return a, s, scale


def _backward(x: Tensor, e: Tensor, alive: list[int], dead: Tensor | None) -> None:
    """r in the place of x / c. States that no sequence reaches are kept at zero: nothing bounds what lies ahead of them."""
    turned, room, rows = e.transpose(-1, -2), torch.empty_like(x[0]), x.unbind(0)
    for t in range(len(x) - 1, 0, -1):
        n = alive[t]
        if n == 0:
            continue
        here, before, product = rows[t], rows[t - 1], room
        if dead is not None:
            here.masked_fill_(dead[t], 0.0)
        if n < x.shape[1]:
            here, before, product = here[:n], before[:n], room[:n]
        if e.ndim == 2:
            torch.mm(here, turned, out=product)
        else:
            torch.bmm(here[:, None, :], turned[t - 1, :n], out=product[:, None, :])
        before *= product
