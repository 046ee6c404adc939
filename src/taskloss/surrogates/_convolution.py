"""Infimal convolution with outputs that an oracle gives, all rows at once: the plain form of `_compiled.convolution`.

min over laws pi on outputs of F(pi) = h*(v + sum_z pi_z psi(z)) + sum_z pi_z c(z). A fully corrective Frank-Wolfe
method: the oracle names the output of least gradient, and Newton steps settle the weights of those named so far; an output
whose weight falls to zero leaves. So it needs as many outputs as the optimum does, at most one more than h* has
directions, and it ends at rounding where plain or away steps approach linearly.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from .base import Surrogate
from .outputs import Embedding

_TOLERANCE = 1e-13  # of the size of the terms that the gradient in pi is made of
_MOST_STEPS = 300


class Support(NamedTuple):
    """Laws on few outputs, row by row: weights (n, a), the outputs (n, a, ...), their vectors (n, a, k) and offsets (n, a)."""

    weights: np.ndarray
    outputs: np.ndarray
    vectors: np.ndarray
    offsets: np.ndarray


def convolve(surrogate: Surrogate, embedding: Embedding, v: np.ndarray) -> tuple[np.ndarray, np.ndarray, Support]:
    """F at its minimum, the moments grad h* there, and the law, for each row of v; `surrogate` gives h*."""
    vectors = embedding.psi(embedding.decode(conjugate(surrogate, v)[1]))  # a guess of the outputs' reach
    z = embedding.decode(conjugate(surrogate, v + vectors / 2)[1])
    law = Support(np.ones((len(v), 1)), z[:, None], *_described(embedding, z[:, None]))
    values, mu = np.empty(len(v)), np.empty_like(v)
    search = _Search(surrogate, embedding, v, law)
    rows = np.arange(len(v))
    for _ in range(_MOST_STEPS):
        going = search.step()
        values[rows], mu[rows] = search.value, search.mu
        law = _store(law, rows, search.law)
        rows = rows[going]
        if not len(rows):
            break
        search.keep(going)
    order = np.argsort(-law.weights, axis=1, kind="stable")[:, : (law.weights > 0).sum(1).max(initial=1)]
    return values, mu, Support(*(_pick(part, order) for part in law))


def conjugate(surrogate: Surrogate, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """h*(u) and its gradient: with the canonical link, S at the moments zero less h(0)."""
    terms, mu = surrogate.risk_and_gradient(u, np.zeros_like(u))
    return terms.sum(-1), mu


def curvature(surrogate: Surrogate, v: np.ndarray, law: Support) -> Callable[[np.ndarray], np.ndarray]:
    """The second derivative of min_pi F in v, where the support does not change: H - H D^T (D H D^T)^-1 D H.

    H is that of h* at u = v + sum pi psi, and the rows of D are differences of the support's vectors. The weights answer
    a move of v by a move of u back into H-orthogonality with D; where D spans all of H, moments stay as they are.
    """
    product = surrogate.hessian(v + np.einsum("na,nak->nk", law.weights, law.vectors), np.zeros_like(v))
    active = law.weights > 0
    active[:, 0] = False  # the likeliest output is the reference
    if not active.any():
        return product
    differences = np.where(active[..., None], law.vectors - law.vectors[:, :1], 0.0)
    moved = np.stack([product(differences[:, i]) for i in range(differences.shape[1])], axis=1)
    weights = _inverse(moved @ differences.swapaxes(1, 2), active) @ moved  # how these answer a move of v

    def corrected(x: np.ndarray) -> np.ndarray:
        return product(x) - np.einsum("ni,nik->nk", np.einsum("nik,nk->ni", weights, x), moved)

    return corrected


def _inverse(gram: np.ndarray, active: np.ndarray) -> np.ndarray:
    """The inverse within the active rows and columns, zero elsewhere, of positive semidefinite matrices."""
    scale = np.sqrt(np.maximum(np.einsum("nii->ni", gram), 1e-300))
    pairs = active[:, :, None] & active[:, None, :]
    unit = np.where(pairs, gram / (scale[:, :, None] * scale[:, None, :]), 0.0)
    unit += np.where(active, 1e-13, 1.0)[..., None] * np.eye(gram.shape[1])
    return np.where(pairs, np.linalg.inv(unit) / (scale[:, :, None] * scale[:, None, :]), 0.0)


def _described(embedding: Embedding, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The vectors and offsets of outputs (n, a, ...)."""
    flat = z.reshape(-1, *z.shape[2:])
    psi = embedding.psi(flat)
    return psi.reshape(*z.shape[:2], -1), np.broadcast_to(embedding.offset(flat), len(flat)).reshape(z.shape[:2])


def _pick(part: np.ndarray, order: np.ndarray) -> np.ndarray:
    return np.take_along_axis(part, order.reshape(order.shape + (1,) * (part.ndim - 2)), axis=1)


def _widen(part: np.ndarray, width: int) -> np.ndarray:
    """More room for outputs; a weight of zero makes what stands there of no account."""
    return np.concatenate([part, np.repeat(part[:, :1] * 0, width - part.shape[1], axis=1)], axis=1)


def _store(law: Support, rows: np.ndarray, found: Support) -> Support:
    width = max(law.weights.shape[1], found.weights.shape[1])
    law = Support(*(_widen(part, width) for part in law))
    for part, new in zip(law, found, strict=True):
        part[rows] = _widen(new, width)
    return law


class _Search:
    """The rows that have not settled, and one step for all of them."""

    def __init__(self, surrogate: Surrogate, embedding: Embedding, v: np.ndarray, law: Support):
        self.surrogate, self.embedding = surrogate, embedding
        self.v, self.law = v, Support(*(np.array(part) for part in law))
        self.value, self.mu = self._evaluate(self.law.weights)

    def keep(self, rows: np.ndarray) -> None:
        self.v, self.value, self.mu = self.v[rows], self.value[rows], self.mu[rows]
        self.law = Support(*(part[rows] for part in self.law))

    def _evaluate(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        law = self.law
        value, mu = conjugate(self.surrogate, self.v + np.einsum("na,nak->nk", weights, law.vectors))
        return value + (weights * law.offsets).sum(1), mu

    def _gradient(self, mu: np.ndarray) -> np.ndarray:
        return np.einsum("nak,nk->na", self.law.vectors, mu) + self.law.offsets

    def step(self) -> np.ndarray:
        """Move every row once; which rows are not at their minimum yet."""
        rows = np.arange(len(self.v))
        z = self.embedding.decode(self.mu)
        vectors, offsets = _described(self.embedding, z[:, None])
        g, active = self._gradient(self.mu), self.law.weights > 0
        low, high = np.where(active, g, np.inf).min(1), np.where(active, g, -np.inf).max(1)
        best = np.einsum("nk,nk->n", vectors[:, 0], self.mu) + offsets[:, 0]
        spread, lack = high - low, low - best
        size = np.maximum(np.abs(self.law.vectors).max((1, 2)), np.abs(vectors).max((1, 2)))
        size = np.maximum(size, np.maximum(np.abs(self.law.offsets).max(1), np.abs(offsets).max(1)))
        tolerance = _TOLERANCE * size * (1 + np.abs(self.mu).sum(1))
        going = (spread > tolerance) | (lack > tolerance)
        entering = going & (lack > tolerance) & (lack >= 3 * spread)
        slot = self._enter(entering, z, vectors[:, 0], offsets[:, 0])
        g = self._gradient(self.mu)
        active = self.law.weights > 0
        active[rows[entering], slot[entering]] = True
        d = self._newton(g, active, size)
        slope = (d * g).sum(1)
        stray = (entering & (d[rows, slot] <= 0)) | ~(slope < 0)
        d = np.where(stray[:, None], self._exchange(g, active, size), d)
        return going & self._move(np.where(going[:, None], d, 0.0), g)

    def _enter(self, entering: np.ndarray, z: np.ndarray, vectors: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """Put the oracle's outputs where the weight is zero; the place for each row."""
        if entering.any() and (self.law.weights[entering] > 0).all(1).any():
            width = 2 * self.law.weights.shape[1]
            self.law = Support(*(_widen(part, width) for part in self.law))
        slot = np.argmin(self.law.weights > 0, axis=1)
        rows = np.flatnonzero(entering)
        for part, new in zip(self.law[1:], (z, vectors, offsets), strict=True):
            part[rows, slot[rows]] = new[rows]
        return slot

    def _newton(self, g: np.ndarray, active: np.ndarray, size: np.ndarray) -> np.ndarray:
        """The Newton step among laws on the active outputs; the heaviest takes up what the others leave."""
        law, rows = self.law, np.arange(len(g))
        heaviest = law.weights.argmax(1)
        others = active.copy()
        others[rows, heaviest] = False
        base = law.vectors[rows, heaviest]
        differences = np.where(others[..., None], law.vectors - base[:, None], 0.0)
        product = self.surrogate.hessian(
            self.v + np.einsum("na,nak->nk", law.weights, law.vectors), np.zeros_like(self.v)
        )
        moved = np.stack([product(differences[:, i]) for i in range(g.shape[1])], axis=1)
        gram = moved @ differences.swapaxes(1, 2)
        gram += (1e-14 * size**2 + 1e-13 * np.einsum("nii->ni", gram).max(1))[:, None, None] * np.eye(g.shape[1])
        d = np.einsum("nij,nj->ni", _inverse(gram, others), np.where(others, g[rows, heaviest][:, None] - g, 0.0))
        d[rows, heaviest] = -d.sum(1)
        return d

    def _exchange(self, g: np.ndarray, active: np.ndarray, size: np.ndarray) -> np.ndarray:
        """Weight from the worst active output to the best: always a way down."""
        law, rows = self.law, np.arange(len(g))
        worst = np.where(law.weights > 0, g, -np.inf).argmax(1)
        best = np.where(active, g, np.inf).argmin(1)
        difference = law.vectors[rows, best] - law.vectors[rows, worst]
        u = self.v + np.einsum("na,nak->nk", law.weights, law.vectors)
        bend = (self.surrogate.hessian(u, np.zeros_like(u))(difference) * difference).sum(1)
        d = np.zeros_like(g)
        d[rows, best] = (g[rows, worst] - g[rows, best]) / np.maximum(bend, 1e-14 * size**2)
        d[rows, worst] -= d[rows, best]
        return d

    def _move(self, d: np.ndarray, g: np.ndarray) -> np.ndarray:
        """Along d as far as weights stay and F falls; which rows moved."""
        start, slope = self.law.weights.copy(), (d * g).sum(1)
        with np.errstate(divide="ignore", invalid="ignore"):
            room = np.where(d < 0, start / -d, np.inf)
        most = np.minimum(1.0, room.min(1))
        t, moving, moved = most.copy(), slope < 0, np.zeros(len(d), dtype=bool)
        value, mu, weights = self.value.copy(), self.mu.copy(), start.copy()
        for _ in range(60):
            if not moving.any():
                break
            trial = np.maximum(start + t[:, None] * d, 0.0)
            trial[(t == most)[:, None] & (room <= most[:, None])] = 0.0
            trial /= trial.sum(1, keepdims=True)
            new, at = self._evaluate(trial)
            end = (d * self._gradient(at)).sum(1)
            good = moving & (new <= self.value + 1e-14 * (1 + np.abs(self.value))) & (end <= -0.9 * slope)
            value[good], mu[good], weights[good] = new[good], at[good], trial[good]
            moved |= good
            moving &= ~good
            with np.errstate(divide="ignore", invalid="ignore"):
                t = np.where(moving, t * np.where(end > 0, np.clip(slope / (slope - end), 0.1, 0.5), 0.5), t)
        self.value, self.mu, self.law = value, mu, self.law._replace(weights=weights)
        return moved
