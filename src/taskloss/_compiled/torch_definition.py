"""The recursion over a padded batch of chains, as its definition: in logarithms and float64, position by position."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch

Tensor = torch.Tensor

VALUE, SUMS, EACH = 0, 1, 2  # what to compute: the value; and marginals, those of pairs summed; or pair by pair


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


class Path(NamedTuple):
    """Tags (B, T) made safe to look up: which count, their codes, those of pairs, and the sequences with tags that are no states."""

    keep: Tensor
    tags: Tensor
    pairs: Tensor
    unknown: Tensor

    @classmethod
    def of(cls, tags: Tensor, lengths: Any, states: int) -> Path:
        keep = inside(tags, lengths)
        known = (tags >= 0) & (tags < states)
        tags = torch.where(keep & known, tags, 0)
        return cls(keep, tags, tags[:, :-1] * states + tags[:, 1:], (keep & ~known).any(1))


def path_score(
    unary: Tensor, pairwise: Tensor, start: Any, end: Any, lengths: Any, tags: Tensor, path: Path | None = None
) -> Tensor:
    """<scores, phi(tags)> in float64, NaN where a tag is no state; tags beyond a sequence's length may be anything."""
    keep, tags, pairs, unknown = Path.of(tags, lengths, unary.shape[2]) if path is None else path
    score = torch.where(keep, unary.gather(2, tags[..., None])[..., 0].double(), 0.0).sum(1)
    table = pairwise.flatten(-2)
    steps = table[pairs] if table.ndim == 1 else table.gather(2, pairs[..., None])[..., 0]
    score = score + torch.where(keep[:, 1:], steps.double(), 0.0).sum(1)
    if start is not None:
        score = score + start[tags[:, 0]]
    if end is not None:
        score = score + end[at_ends(tags, lengths)]
    return torch.where(unknown, math.nan, score)


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


def mend(found: list[Tensor], fine: Tensor, scores: tuple[Any, ...], lengths: Any, what: int) -> None:
    """Fill in, by the definition, the sequences that another way could not be sure of."""
    if bool(fine.all()):
        return
    at = torch.nonzero(~fine)[:, 0]
    unary, pairwise, start, end = scores
    some = pairwise if pairwise.ndim == 2 else pairwise[at]
    right = definition(unary[at], some, start, end, None if lengths is None else lengths[at], what)
    for part, wanted in zip(found, right, strict=False):
        part[at] = wanted.to(part.dtype)


def output_type(unary: Tensor, pairwise: Tensor) -> torch.dtype:
    """float32, or float64 where an input is."""
    return torch.float64 if torch.float64 in (unary.dtype, pairwise.dtype) else torch.float32
