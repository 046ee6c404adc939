"""The affine decomposition of any finite loss, of minimal dimension and balanced."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .._arguments import explained
from .._checks import check_flag, check_number, real_array
from ..losses.tabular import CostMatrix


@dataclass(frozen=True)
class Decomposition:
    """matrix[z, y] = <psi[z], phi[y]> + constant, of minimal dimension for a scalar constant.

    k: that dimension. r: the dimension of M = hull phi(Y). `balance_gap`: a bound on the excess of max|psi|_2
    max|phi|_2 over its minimum among decompositions with this constant (None where it was not balanced).
    """

    psi: np.ndarray
    phi: np.ndarray
    constant: float
    r: int
    balance_gap: float | None

    @property
    def k(self) -> int:
        return self.psi.shape[1]

    @property
    def full_dimensional(self) -> bool:
        """Whether M is full-dimensional, r = k."""
        return self.r == self.k

    @property
    def matrix(self) -> np.ndarray:
        return self.psi @ self.phi.T + self.constant

    @property
    def c_psi(self) -> dict[str, float]:
        """The largest norm of psi(z), in l1, l2 and linf."""
        return _norms(self.psi)

    @property
    def c_phi(self) -> dict[str, float]:
        """The largest norm of phi(y), in l1, l2 and linf."""
        return _norms(self.phi)

    def loss(self) -> CostMatrix:
        """The loss in this embedding."""
        return CostMatrix(self.matrix, embedding=self.phi)


def _norms(rows: np.ndarray) -> dict[str, float]:
    return {
        name: float(np.linalg.norm(rows, ord=order, axis=1).max(initial=0.0))
        for name, order in (("l1", 1), ("l2", 2), ("linf", np.inf))
    }


@explained
def decompose(matrix: Any, constant: float | None = None, balance: bool = True, tol: float = 1e-11) -> Decomposition:
    """psi, phi and c with matrix[z, y] = <psi(z), phi(y)> + c, of minimal dimension.

    The constant that lowers the rank, where one does, is 1 / (1' L^+ 1); otherwise 0, or the one given. Of all
    factorisations in that dimension, `balance` picks the one with the least max|psi|_2 max|phi|_2, the quantity in the
    paper's bound for conditional random fields: the norm gamma_2 of L - c, whose semidefinite program is solved here by
    its dual, max over laws p, q of the nuclear norm of diag(p)^1/2 (L - c) diag(q)^1/2. Singular values below `tol`
    times the largest cost count as zero. 0-1 loss on n classes: c = 1 - 1/n and k = r = n - 1, full-dimensional, where
    c = 1 takes n coordinates; Hamming loss on n labels: k = r = n.
    """
    check_number("tol", tol, above=0)
    check_number("constant", 0.0 if constant is None else constant)
    check_flag("balance", balance)
    table = real_array("matrix", matrix, "costs")
    if table.ndim != 2 or table.size == 0:
        raise ValueError(f"decompose needs a matrix of costs with two dimensions, got shape {table.shape}.")
    if not np.isfinite(table).all():
        raise ValueError("The cost matrix contains NaN or infinite values: replace them by finite costs.")
    scale = float(np.abs(table).max())
    unit = scale or 1.0
    least = tol * np.sqrt(table.size)
    c = (_constant(table / unit, least) if constant is None else float(constant) / unit) * unit
    left, singular, right = np.linalg.svd((table - c) / unit, full_matrices=False)
    k = int((singular > least * max(1.0, abs(c) / unit)).sum())
    root = np.sqrt(singular[:k])
    psi, phi, gap = left[:, :k] * root, right[:k].T * root, None
    # M has the dimension of the span of differences of the matrix's columns
    r = min(k, int((np.linalg.svd((table - table.mean(1, keepdims=True)) / unit, compute_uv=False) > least).sum()))
    if balance and k:
        psi, phi, gap = _balanced(psi, phi)
        gap *= unit
    psi, phi = psi * np.sqrt(unit), phi * np.sqrt(unit)
    error = float(np.abs(psi @ phi.T + c - table).max())
    if error > 1e-10 * unit and abs(c) > 1e4 * unit:
        raise ValueError(
            f"constant must be comparable to the costs of matrix, at most {unit:.3g} in size, or they are lost in rounding, got {constant!r}."
        )
    if error > 1e-10 * unit:
        raise ValueError(
            f"The decomposition misses the matrix by {error:.1e}: its rank is not clear at tol={tol:g}; give a smaller tol."
        )
    return Decomposition(psi, phi, c, r, gap)


def _constant(table: np.ndarray, least: float) -> float:
    """The c for which L - c 1 1' has a lower rank: 1 must be in both ranges of L, and then c = 1 / (1' L^+ 1).

    The formula's c is used only if the rank does fall.
    """
    left, singular, right = np.linalg.svd(table, full_matrices=False)
    rank = int((singular > least).sum())
    if not rank:
        return 0.0
    # 1' L^+ 1, with L^+ of the numerical rank
    total = float((right[:rank].sum(1) / singular[:rank]) @ left[:, :rank].sum(0))
    if abs(total) < 1e-9 / singular[0]:
        return 0.0
    c = 1 / total
    after = np.linalg.svd(table - c, compute_uv=False)
    return c if int((after > least * max(1.0, abs(c))).sum()) < rank else 0.0


def _balanced(
    psi: np.ndarray, phi: np.ndarray, rounds: int = 3000, gap: float = 1e-7
) -> tuple[np.ndarray, np.ndarray, float]:
    """The factorisation psi A, phi A^-T with the least max|psi| max|phi|, by multiplicative steps on the dual's laws.

    With U S V' the decomposition of diag(p)^1/2 T diag(q)^1/2 for T = psi phi', A = phi' diag(q)^1/2 V S^-1/2 makes
    sum_z p_z |psi(z)|^2 = sum S; at the optimal laws p and q, all rows of positive weight have the same length. sum S
    is a lower bound at every step, which gives the gap. Mixing in a vanishing share of the uniform law keeps A
    invertible when weights go to zero.
    """
    n, m, k = len(psi), len(phi), psi.shape[1]
    p, q = np.full(n, 1 / n), np.full(m, 1 / m)
    best: tuple[float, np.ndarray, np.ndarray] = (np.inf, psi, phi)
    lower, stale = 0.0, 0
    for i in range(rounds):
        share = 1e-2 / (1 + i) ** 2 + 1e-12
        floored = [np.sqrt((1 - share) * law + share / len(law)) for law in (p, q)]
        left, s, right = np.linalg.svd((floored[0][:, None] * psi) @ (phi.T * floored[1]), full_matrices=False)
        root = np.sqrt(np.maximum(s[:k], 1e-300))
        to_psi = (phi.T * floored[1]) @ right[:k].T / root
        to_phi = (psi.T * floored[0]) @ left[:, :k] / root
        trial = psi @ to_psi, phi @ to_phi
        lengths, heights = ((part**2).sum(1) for part in trial)
        lower = max(lower, float(s[:k].sum()))  # valid for the mixed laws as well
        value = float(np.sqrt(lengths.max() * heights.max()))
        # to_phi must be A^-T up to rounding for the step to be a factorisation
        sound = np.abs(to_psi @ to_phi.T - np.eye(k)).max() <= 1e-11
        if value < best[0] and sound:
            stale = 0 if value < best[0] * (1 - 1e-9) else stale + 1
            best = value, *trial
        else:
            stale += 1
        if best[0] - lower <= gap * best[0] or stale > 1000:
            break
        p, q = p * lengths / (p @ lengths), q * heights / (q @ heights)
    value, psi, phi = best if np.isfinite(best[0]) else (_product(psi, phi), psi, phi)
    even = (np.linalg.norm(phi, axis=1).max() / np.linalg.norm(psi, axis=1).max()) ** 0.5
    return psi * even, phi / even, max(value - lower, 0.0)


def _product(psi: np.ndarray, phi: np.ndarray) -> float:
    return float(np.linalg.norm(psi, axis=1).max() * np.linalg.norm(phi, axis=1).max())
