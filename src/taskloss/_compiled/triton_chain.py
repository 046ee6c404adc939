"""The chain's recursions on a GPU: one Triton program for each sequence, in logarithms, with the next scores on their way.

Beliefs are kept relative to their maximum in float32 (float64 where scores are), and what that takes off is added up in
float64. A table of up to 128 states stays in registers; a larger one, and tables of each step, are read in pieces. No
atomic adds: the same inputs give the same bits.

A table in registers whose scores lie within `_NARROW` of each other is kept exponentiated, relative to its peak, so that
a step takes K exponentials in the place of K^2. Nothing is lost by it: the likeliest neighbour contributes at least
exp(-_NARROW) to a sum, and what underflows is below exp(-87) of it. Other tables (forbidden pairs among them) stay in logarithms.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

_RESIDENT = 128  # states whose table fits a program's registers
_PIECE = 16384  # entries of a table that are read together
_NARROW = tl.constexpr(50.0)


@triton.jit
def _floor(x):
    """x, and zero where it is -inf (or NaN, which then stays in what x is taken from)."""
    return tl.where(x > float("-inf"), x, 0.0)


@triton.jit
def _path_score(U, u_t, u_k, P, p_t, START, END, TAGS, y_t, n, K, HAS_START: tl.constexpr, HAS_END: tl.constexpr):
    """<scores, phi(tags)> of one sequence, NaN where a tag is no state."""
    score = tl.full([], 0.0, tl.float64)
    at = tl.arange(0, 128)
    for first in range(0, n, 128):
        t = first + at
        y = tl.load(TAGS + t * y_t, mask=t < n, other=0)
        before = tl.load(TAGS + (t - 1) * y_t, mask=(t < n) & (t > 0), other=0)
        known = (y >= 0) & (y < K)
        step = (t < n) & (t > 0) & known & (before >= 0) & (before < K)
        u = tl.load(U + t * u_t + y * u_k, mask=(t < n) & known, other=0.0).to(tl.float64)
        p = tl.load(P + (t - 1) * p_t + before * K + y, mask=step, other=0.0).to(tl.float64)
        score += tl.sum(tl.where(known, u + p, float("nan")), 0)
    if HAS_START:
        y = tl.load(TAGS)
        score += tl.load(START + y, mask=(y >= 0) & (y < K), other=0.0).to(tl.float64)
    if HAS_END:
        y = tl.load(TAGS + (n - 1) * y_t)
        score += tl.load(END + y, mask=(y >= 0) & (y < K), other=0.0).to(tl.float64)
    return score


@triton.jit
def _length(LENGTHS, b, T, HAS_LENGTHS: tl.constexpr):
    """How many positions sequence b has, and whether it can have so many; one where it cannot."""
    n = tl.full([], 0, tl.int32) + T
    proper = n > 0
    if HAS_LENGTHS:
        given = tl.load(LENGTHS + b)
        proper = (given >= 1) & (given <= T)
        n = tl.where(proper, given, 1).to(tl.int32)
    return n, proper


@triton.jit
def _law(joint):
    """exp(joint) over its sum; zero where there is nothing to sum."""
    w = tl.exp(joint - _floor(tl.max(joint, 0)))
    total = tl.sum(w, 0)
    return w / tl.where(total > 0, total, 1.0)


@triton.jit
def _store_nodes(NODES, w, y, k, real, HAS_TAGS: tl.constexpr):
    """The marginals of a position, or the indicator of its tag less them."""
    if HAS_TAGS:
        w = tl.where(k == y, 1.0, 0.0) - w
    tl.store(NODES + k, w, mask=real)


@triton.jit
def _sums(P, across, along, x, EXCHANGE, k, real, K, BLOCK: tl.constexpr, PIECE: tl.constexpr, REAL: tl.constexpr):
    """log sum_i exp(x(i) + p(i, .)) with the table in memory, a piece of it at a time: i is `across` apart there, and . `along`."""
    for first in range(0, BLOCK, PIECE):
        j = first + tl.arange(0, PIECE)
        inside = real[:, None] & (j < K)[None, :]
        some = tl.load(P + k[:, None] * across + j[None, :] * along, mask=inside, other=float("-inf"))
        z = some.to(REAL) + x[:, None]
        high = _floor(tl.max(z, 0))
        tl.store(EXCHANGE + j, high + tl.log(tl.sum(tl.exp(z - high[None, :]), 0)), mask=j < K)
    tl.debug_barrier()
    found = tl.load(EXCHANGE + k, mask=real, other=float("-inf"))
    tl.debug_barrier()
    return found


@triton.jit
def _held(table, both):
    """A table as it is kept in registers, the score that it is relative to, and whether it is exponentiated."""
    peak = tl.max(tl.max(table, 1), 0)
    least = tl.min(tl.min(tl.where(both, table, peak), 1), 0)
    narrow = peak - least <= _NARROW
    peak = tl.where(narrow, peak, 0.0)
    if narrow:
        table = tl.exp(table - peak)
    return table, peak, narrow


@triton.jit
def _upward(
    U, u_t, u_k, P, p_t, table, peak, narrow, START, END, AHEAD, EXCHANGE, n, K, k, real,
    BLOCK: tl.constexpr, PIECE: tl.constexpr, RESIDENT: tl.constexpr, GRADIENT: tl.constexpr,
    HAS_START: tl.constexpr, HAS_END: tl.constexpr, REAL: tl.constexpr,
):  # fmt: skip
    """a_t = u_t + log sum_i exp(a_{t-1}(i) + p(i, .)), kept relative to its maximum; the last of them, and what was taken off."""
    none = float("-inf")
    taken = tl.full([], 0.0, tl.float64)
    a = tl.load(U + k * u_k, mask=real, other=none).to(REAL)
    if HAS_START:
        a += tl.load(START + k, mask=real, other=0.0).to(REAL)
    coming = tl.load(U + u_t + k * u_k, mask=real & (n > 1), other=none).to(REAL)
    for t in range(1, n):
        u = coming
        coming = tl.load(U + (t + 1) * u_t + k * u_k, mask=real & (t + 1 < n), other=none).to(REAL)
        top = _floor(tl.max(a, 0))
        a -= top
        taken += top.to(tl.float64)
        if GRADIENT:
            tl.store(AHEAD + (t - 1) * K + k, a, mask=real)
        if RESIDENT:
            if narrow:
                a = u + (peak + tl.log(tl.sum(table * tl.exp(a)[:, None], 0)))
            else:
                x = table + a[:, None]
                high = _floor(tl.max(x, 0))
                a = u + (high + tl.log(tl.sum(tl.exp(x - high[None, :]), 0)))
        else:
            a = u + _sums(P + (t - 1) * p_t, K, 1, a, EXCHANGE, k, real, K, BLOCK, PIECE, REAL)
    if HAS_END:
        a += tl.load(END + k, mask=real, other=0.0).to(REAL)
    return a, taken


@triton.jit
def _store_pairs(
    P, PAIRS, x, log_w, EXCHANGE, y, after, begun, k, real, K,
    BLOCK: tl.constexpr, PIECE: tl.constexpr, EACH: tl.constexpr, HAS_TAGS: tl.constexpr, REAL: tl.constexpr,
):  # fmt: skip
    """exp(p + x + log w) of one pair of neighbours, with the table in memory: set, or added to those of later pairs."""
    tl.store(EXCHANGE + k, log_w, mask=real)
    tl.debug_barrier()
    for first in range(0, BLOCK, PIECE):
        i = first + tl.arange(0, PIECE)
        both = (i < K)[:, None] & real[None, :]
        place = i[:, None] * K + k[None, :]
        some = tl.load(P + place, mask=both, other=float("-inf"))
        row = tl.load(EXCHANGE + i, mask=i < K, other=float("-inf"))
        pair = tl.exp(some.to(REAL) + x[None, :] + row[:, None])
        if HAS_TAGS:
            pair = tl.where((i[:, None] == y) & (k[None, :] == after), 1.0, 0.0) - pair
        if not EACH:
            pair += tl.load(PAIRS + place, mask=both & begun, other=0.0)
        tl.store(PAIRS + place, pair, mask=both)
    tl.debug_barrier()


@triton.jit
def _downward(
    U, u_t, u_k, P, p_t, table, peak, narrow, END, TAGS, y_t, AHEAD, EXCHANGE, NODES, PAIRS, w, n, K, k, real,
    BLOCK: tl.constexpr, PIECE: tl.constexpr, RESIDENT: tl.constexpr, EACH: tl.constexpr,
    HAS_END: tl.constexpr, HAS_TAGS: tl.constexpr, REAL: tl.constexpr,
):  # fmt: skip
    """What lies ahead of t is h_t(i) = log sum_j exp(p(i, j) + x(j)), x = u_{t+1} + h_{t+1}; marginals follow from it and AHEAD."""
    none = float("-inf")
    y = tl.full([], -1, tl.int64)
    if HAS_TAGS:
        y = tl.load(TAGS + (n - 1) * y_t)
    _store_nodes(NODES + (n - 1) * K, w, y, k, real, HAS_TAGS)
    x = tl.load(U + (n - 1) * u_t + k * u_k, mask=real, other=none).to(REAL)
    if HAS_END:
        x += tl.load(END + k, mask=real, other=0.0).to(REAL)
    both = real[:, None] & real[None, :]
    place = k[:, None] * K + k[None, :]
    if RESIDENT and not EACH:
        sums = tl.zeros([BLOCK, BLOCK], REAL)
    late = n > 1
    a_coming = tl.load(AHEAD + (n - 2) * K + k, mask=real & late, other=none)
    u_coming = tl.load(U + (n - 2) * u_t + k * u_k, mask=real & late, other=none).to(REAL)
    y_coming = y
    if HAS_TAGS:
        y_coming = tl.load(TAGS + (n - 2) * y_t, mask=late, other=-1)
    for back in range(1, n):
        t = n - 1 - back
        a = a_coming
        u = u_coming
        after = y
        y = y_coming
        a_coming = tl.load(AHEAD + (t - 1) * K + k, mask=real & (t > 0), other=none)
        u_coming = tl.load(U + (t - 1) * u_t + k * u_k, mask=real & (t > 0), other=none).to(REAL)
        if HAS_TAGS:
            y_coming = tl.load(TAGS + (t - 1) * y_t, mask=t > 0, other=-1)
        x -= _floor(tl.max(x, 0))
        if RESIDENT:
            # The law of the pair is e w / s, or, where the table is exponentiated and not divided out, table e w / s.
            unit = tl.full([], 1.0, REAL)
            if narrow:
                e = tl.broadcast_to(tl.exp(x)[None, :], (BLOCK, BLOCK))
                s = tl.sum(table * e, 1)
                h = peak + tl.log(s)
                if HAS_TAGS:
                    known = (y >= 0) & (y < K) & (after >= 0) & (after < K)
                    unit = tl.exp(peak - tl.load(P + y * K + after, mask=known, other=0.0).to(REAL))
            else:
                z = table + x[None, :]
                high = _floor(tl.max(z, 1))
                e = tl.exp(z - high[:, None])
                s = tl.sum(e, 1)
                h = high + tl.log(s)
            w = _law(a + h)
            pair = e * (w / tl.where(s > 0, s, 1.0))[:, None]
            if HAS_TAGS:
                pair = tl.where((k[:, None] == y) & (k[None, :] == after), unit, 0.0) - pair
            if EACH:
                pair = tl.where(narrow, table * pair, pair)
                tl.store(PAIRS + t.to(tl.int64) * K * K + place, pair, mask=both)
            else:
                sums += pair
        else:
            h = _sums(P + t * p_t, 1, K, x, EXCHANGE, k, real, K, BLOCK, PIECE, REAL)
            w = _law(a + h)
            log_w = tl.where(w > 0, tl.log(w) - _floor(h), none)
            OWN = PAIRS + (t.to(tl.int64) * K * K if EACH else 0)
            _store_pairs(
                P + t * p_t, OWN, x, log_w, EXCHANGE, y, after, back > 1, k, real, K, BLOCK, PIECE, EACH, HAS_TAGS, REAL
            )
        _store_nodes(NODES + t * K, w, y, k, real, HAS_TAGS)
        x = u + h
    if RESIDENT and not EACH:
        tl.store(PAIRS + place, tl.where(narrow, table * sums, sums), mask=both)


@triton.jit
def _chain_kernel(
    U, u_b, u_t, u_k, P, p_b, p_t, START, END, LENGTHS, TAGS, y_b, y_t,
    AHEAD, EXCHANGE, VALUE, NODES, PAIRS, T, K,
    BLOCK: tl.constexpr, PIECE: tl.constexpr, RESIDENT: tl.constexpr, EACH: tl.constexpr, GRADIENT: tl.constexpr,
    HAS_START: tl.constexpr, HAS_END: tl.constexpr, HAS_LENGTHS: tl.constexpr, HAS_TAGS: tl.constexpr,
    REAL: tl.constexpr,
):  # fmt: skip
    b = tl.program_id(0).to(tl.int64)
    n, proper = _length(LENGTHS, b, T, HAS_LENGTHS)
    U += b * u_b
    P += b * p_b
    TAGS += b * y_b
    AHEAD += b * T * K
    NODES += b * T * K
    EXCHANGE += b * K
    PAIRS += b * K * K * (T - 1 if EACH else 1)
    k = tl.arange(0, BLOCK)
    real = k < K
    table = k  # in memory, unless it fits the registers
    peak = 0.0
    narrow = False
    if RESIDENT:
        both = real[:, None] & real[None, :]
        table = tl.load(P + k[:, None] * K + k[None, :], mask=both, other=float("-inf")).to(REAL)
        table, peak, narrow = _held(table, both)
    a, value = _upward(
        U, u_t, u_k, P, p_t, table, peak, narrow, START, END, AHEAD, EXCHANGE, n, K, k, real,
        BLOCK, PIECE, RESIDENT, GRADIENT, HAS_START, HAS_END, REAL,
    )  # fmt: skip
    top = _floor(tl.max(a, 0))
    value += top.to(tl.float64) + tl.log(tl.sum(tl.exp(a - top), 0)).to(tl.float64)
    if HAS_TAGS:
        value = _path_score(U, u_t, u_k, P, p_t, START, END, TAGS, y_t, n, K, HAS_START, HAS_END) - value
    tl.store(VALUE + b, tl.where(proper, value, float("nan")))
    if GRADIENT:
        _downward(
            U, u_t, u_k, P, p_t, table, peak, narrow, END, TAGS, y_t, AHEAD, EXCHANGE, NODES, PAIRS, _law(a), n, K, k, real,
            BLOCK, PIECE, RESIDENT, EACH, HAS_END, HAS_TAGS, REAL,
        )  # fmt: skip


@triton.jit
def _viterbi_kernel(
    U, u_b, u_t, u_k, P, p_b, p_t, START, END, LENGTHS, FROM, EXCHANGE, SCORE, STATES, T, K,
    BLOCK: tl.constexpr, PIECE: tl.constexpr,
    HAS_START: tl.constexpr, HAS_END: tl.constexpr, HAS_LENGTHS: tl.constexpr, REAL: tl.constexpr,
):  # fmt: skip
    b = tl.program_id(0).to(tl.int64)
    n, proper = _length(LENGTHS, b, T, HAS_LENGTHS)
    U += b * u_b
    P += b * p_b
    FROM += b * T * K
    EXCHANGE += b * K
    STATES += b * T
    none = float("-inf")
    k = tl.arange(0, BLOCK)
    real = k < K
    piece = tl.arange(0, PIECE)
    score = tl.full([], 0.0, tl.float64)
    a = tl.load(U + k * u_k, mask=real, other=none).to(REAL)
    if HAS_START:
        a += tl.load(START + k, mask=real, other=0.0).to(REAL)
    for t in range(1, n):
        u = tl.load(U + t * u_t + k * u_k, mask=real, other=none).to(REAL)
        top = _floor(tl.max(a, 0))
        a -= top
        score += top.to(tl.float64)
        for first in range(0, BLOCK, PIECE):
            j = first + piece
            some = tl.load(
                P + (t - 1) * p_t + k[:, None] * K + j[None, :], mask=real[:, None] & (j < K)[None, :], other=none
            )
            best, origin = tl.max(some.to(REAL) + a[:, None], 0, return_indices=True)
            tl.store(FROM + t * K + j, origin, mask=j < K)
            tl.store(EXCHANGE + j, best, mask=j < K)
        tl.debug_barrier()
        a = u + tl.load(EXCHANGE + k, mask=real, other=none)
        tl.debug_barrier()
    if HAS_END:
        a += tl.load(END + k, mask=real, other=0.0).to(REAL)
    best, state = tl.max(a, 0, return_indices=True)
    score += best.to(tl.float64)
    tl.store(SCORE + b, tl.where(proper, score, float("nan")))
    tl.store(STATES + n - 1, state.to(tl.int64))
    for back in range(1, n):
        t = n - back
        state = tl.load(FROM + t * K + state)
        tl.store(STATES + t - 1, state.to(tl.int64))


def _shape(unary: torch.Tensor, pairwise: torch.Tensor) -> tuple[int, int, tuple[int, int], Any]:
    """Block, piece, strides of the pairs' scores, and what to compute in."""
    block = max(16, triton.next_power_of_2(unary.shape[2]))
    piece = min(block, max(16, _PIECE // block))
    steps = (0, 0) if pairwise.ndim == 2 else (pairwise.stride(0), pairwise.stride(1))
    double = torch.float64 in (unary.dtype, pairwise.dtype)
    return block, piece, steps, tl.float64 if double else tl.float32


def _warps(block: int) -> int:
    """Warps of a program, as measured on an H200 with narrow tables: one needs no barriers, more have room for larger tables."""
    return 1 if block <= 32 else 8 if block <= _RESIDENT else 16


def chain(
    unary: torch.Tensor,
    pairwise: torch.Tensor,
    start: Any,
    end: Any,
    lengths: Any,
    tags: Any,
    what: int,
    out: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
) -> None:
    """`torch_chain.chain` into the given room."""
    value, nodes, pairs = out
    batch, length, states = unary.shape
    pairwise = pairwise.contiguous()
    block, piece, steps, real = _shape(unary, pairwise)
    resident = pairwise.ndim == 2 and block <= _RESIDENT
    ahead = torch.empty_like(nodes)
    exchange = value if resident else value.new_empty(batch, states)
    code = unary if tags is None else tags
    with torch.cuda.device(unary.device):
        _chain_kernel[(batch,)](
            unary, *unary.stride(), pairwise, *steps, unary if start is None else start.contiguous(),
            unary if end is None else end.contiguous(), unary if lengths is None else lengths, code, *code.stride()[:2],
            ahead, exchange, value, nodes, pairs, length, states,
            BLOCK=block, PIECE=piece, RESIDENT=resident, EACH=pairs.ndim == 4, GRADIENT=what > 0,
            HAS_START=start is not None, HAS_END=end is not None, HAS_LENGTHS=lengths is not None,
            HAS_TAGS=tags is not None, REAL=real, num_warps=_warps(block),
        )  # fmt: skip


def viterbi(
    unary: torch.Tensor, pairwise: torch.Tensor, start: Any, end: Any, lengths: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    """The best score of each sequence (float64) and its states (B, T), zero beyond its length."""
    batch, length, states = unary.shape
    pairwise = pairwise.contiguous()
    block, piece, steps, real = _shape(unary, pairwise)
    options: dict[str, Any] = {"device": unary.device}
    origin = torch.empty((batch, length, states), dtype=torch.int32, **options)
    kind = torch.float64 if real == tl.float64 else torch.float32
    exchange = torch.empty((batch, states), dtype=kind, **options)
    score = torch.empty(batch, dtype=torch.float64, **options)
    path = torch.zeros((batch, length), dtype=torch.int64, **options)
    with torch.cuda.device(unary.device):
        _viterbi_kernel[(batch,)](
            unary, *unary.stride(), pairwise, *steps, unary if start is None else start.contiguous(),
            unary if end is None else end.contiguous(), unary if lengths is None else lengths,
            origin, exchange, score, path, length, states, BLOCK=block, PIECE=piece,
            HAS_START=start is not None, HAS_END=end is not None, HAS_LENGTHS=lengths is not None, REAL=real,
            num_warps=_warps(block),
        )  # fmt: skip
    return score, path
