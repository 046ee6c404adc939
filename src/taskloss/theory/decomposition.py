"""The affine decomposition of any finite loss, smallest and best balanced."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .._checks import check_flag, check_number, real_array
from ..losses.tabular import CostMatrix


@dataclass(frozen=True)
class Decomposition:
    """matrix[z, y] = <psi[z], phi[y]> + constant, in the smallest dimension that a scalar constant allows.

    k: that dimension. r: the dimension of M = hull phi(Y). `balance_gap`: how far max|psi|_2 max|phi|_2 is, at most,
    above the least that any decomposition with this constant has (None where it was not balanced).
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
        """Whether M has the dimension of the space it lives in, r = k."""
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
        """The loss in this embedding, ready for an estimator or for `calibration`."""
        return CostMatrix(self.matrix, embedding=self.phi)


def _norms(rows: np.ndarray) -> dict[str, float]:
    return {
        name: float(np.linalg.norm(rows, ord=order, axis=1).max(initial=0.0))
        for name, order in (("l1", 1), ("l2", 2), ("linf", np.inf))
    }


def decompose(matrix: Any, constant: float | None = None, balance: bool = True, tol: float = 1e-9) -> Decomposition:
    """psi, phi and c with matrix[z, y] = <psi(z), phi(y)> + c and as few coordinates as there can be.

    The constant that lowers the rank, where one does, is 1 / (1' L^+ 1); otherwise 0, or the one given. Of all
    factorisations in that dimension, `balance` picks the one with the least max|psi|_2 max|phi|_2, the quantity in
    the paper's bound for conditional random fields: the norm gamma_2 of L - c, whose semidefinite program is solved
    here by its dual, max over laws p, q of the nuclear norm of diag(p)^1/2 (L - c) diag(q)^1/2. 0-1 loss on n
    classes: c = 1 - 1/n and k = r = n - 1, full-dimensional, where c = 1 takes n coordinates; Hamming loss on n labels: k = r = n.
    """
    matrix = real_array("matrix", getattr(matrix, "values", matrix), "costs")
    check_number("tol", tol, above=0)
    check_number("constant", 0.0 if constant is None else constant)
    check_flag("balance", balance)
    table = np.asarray(getattr(matrix, "values", matrix), dtype=float)
    if table.ndim != 2 or table.size == 0:
        raise ValueError(f"decompose needs a matrix of costs with two dimensions, got shape {table.shape}.")
    if not np.isfinite(table).all():
        raise ValueError("The cost matrix contains NaN or infinite values: replace them by finite costs.")
    scale = max(float(np.abs(table).max()), 1e-300)
    c = _constant(table, tol) if constant is None else float(constant)
    left, singular, right = np.linalg.svd(table - c, full_matrices=False)
    k = int((singular > tol * scale * np.sqrt(table.size)).sum())
    psi, phi = left[:, :k] * np.sqrt(singular[:k]), right[:k].T * np.sqrt(singular[:k])
    r = int((np.linalg.svd(phi - phi.mean(0), compute_uv=False) > tol * np.sqrt(scale * table.size)).sum()) if k else 0
    gap = None
    if balance and k:
        psi, phi, gap = _balanced(psi @ phi.T, k)
    return Decomposition(psi, phi, c, r, gap)


def _constant(table: np.ndarray, tol: float) -> float:
    """The c for which L - c 1 1' has a lower rank: 1 must be in both ranges of L, and then c = 1 / (1' L^+ 1)."""
    inverse = np.linalg.pinv(table, rcond=tol)
    ones_z, ones_y = np.ones(table.shape[0]), np.ones(table.shape[1])
    both = np.allclose(table @ (inverse @ ones_z), ones_z, atol=1e-7) and np.allclose(
        table.T @ (inverse.T @ ones_y), ones_y, atol=1e-7
    )
    total = float(ones_y @ inverse @ ones_z)
    return 1 / total if both and abs(total) > 1e-12 else 0.0


def _balanced(table: np.ndarray, k: int, rounds: int = 3000, gap: float = 1e-7) -> tuple[np.ndarray, np.ndarray, float]:
    """The factorisation with the least max|psi| max|phi|, by multiplicative steps on the dual's laws p and q.

    With U S V' the decomposition of diag(p)^1/2 T diag(q)^1/2, psi = T diag(q)^1/2 V S^-1/2 and phi likewise are a
    factorisation of T with sum_z p_z |psi(z)|^2 = sum S; where the laws are best, all rows that carry weight have the
    same length. sum S is a lower bound at every step, which gives the gap.
    """
    p, q = (np.full(n, 1 / n) for n in table.shape)
    best: tuple[float, np.ndarray, np.ndarray] = (np.inf, table, table)
    lower = 0.0
    for _ in range(rounds):
        left, s, right = np.linalg.svd(np.sqrt(p)[:, None] * table * np.sqrt(q), full_matrices=False)
        root = np.sqrt(np.maximum(s[:k], 1e-300))
        psi = (table * np.sqrt(q)) @ right[:k].T / root
        phi = (table.T * np.sqrt(p)) @ left[:, :k] / root
        lengths, heights = (psi**2).sum(1), (phi**2).sum(1)
        lower = max(lower, float(s[:k].sum()))
        value = float(np.sqrt(lengths.max() * heights.max()))
        if value < best[0]:
            best = value, psi, phi
        if best[0] - lower <= gap * best[0]:
            break
        p, q = p * lengths / (p @ lengths), q * heights / (q @ heights)
    value, psi, phi = best
    even = (np.linalg.norm(phi, axis=1).max() / np.linalg.norm(psi, axis=1).max()) ** 0.5
    return psi * even, phi / even, value - lower
