"""Distances between H_0(z) and the complement of H_eps(z), and the bounds that they give."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .._arguments import explained
from .._checks import check_number, real_levels
from ..losses.base import Loss
from .linear import linear_program
from .problem import DUAL, Problem

ORDER = {"l1": 1, "l2": 2, "linf": np.inf}


@dataclass(frozen=True)
class DecisionDistances:
    """|psi(z) - psi(z')| and delta[z, z'], the distance from H_0(z) to the moments at which z and z' tie.

    Attributes
    ----------
    lengths : |psi(z) - psi(z')|_2 in the affine hull of the moments.
    delta : 0 where H_0(z) and H_0(z') meet, positive where they do not, infinite where z is never optimal.
    """

    lengths: np.ndarray
    delta: np.ndarray

    def __call__(self, eps: Any) -> np.ndarray:
        """d_2(complement of H_eps(z), H_0(z)) = min over z' of eps / |psi(z) - psi(z')| + delta[z, z'], one per output z.

        Infinite where z is never optimal, or always optimal. Levels eps come first, outputs last.
        """
        levels = real_levels("eps", eps)[..., None, None]
        if not (levels > 0).all():
            raise ValueError(f"eps must be positive, got {eps}.")
        with np.errstate(divide="ignore"):
            reach = np.where(self.lengths > 0, levels / self.lengths, np.inf)
        return (reach + self.delta).min(-1)

    def lower_bound(self, eps: Any, sigma: float = 1.0) -> Any:
        """sigma/2 d_2^2, a lower bound on the calibration function of every potential that is sigma-strongly convex in l2.

        At least the improved bound of `Calibration.lower_bound`, which does not use delta.
        """
        check_number("sigma", sigma, above=0)
        out = sigma / 2 * self(eps).min(-1) ** 2
        return float(out) if out.ndim == 0 else out

    def excess(self, distance: Any) -> Any:
        """The largest excess Bayes risk of decoding moments at most this l2 distance from the true ones.

        The inverse of the distance: max over pairs of |psi(z) - psi(z')| (distance - delta[z, z']). Exact for moments
        in the whole space; `excess_bound`, max |psi(z) - psi(z')| times the distance, is no smaller.
        """
        r = real_levels("distance", distance)[..., None, None]
        out = (self.lengths * np.maximum(r - self.delta, 0.0)).max((-2, -1))
        return float(out) if out.ndim == 0 else out


@explained
def decision_distances(loss: Any, surrogate: Any = None) -> DecisionDistances:
    """The distances of the paper's proposition on l2 distances.

    Parameters
    ----------
    loss : a loss whose outputs can be listed.
    surrogate : one whose moments lie in a domain D, or a name; the distances are then taken in the affine hull of D.
        None: in the whole space R^k.

    Returns
    -------
    DecisionDistances

    Notes
    -----
    With H_eps(z) = {u : <psi(z) - psi(z'), u> + c(z) - c(z') <= eps for all z'},

        d_2(H_eps(z)^c, H_0(z)) = min_{z' != z} eps / |psi(z) - psi(z')|_2 + delta_{z,z'},

    delta_{z,z'} the distance from H_0(z) to the hyperplane on which z and z' tie, one linear program. In the whole space
    and with one constant for all outputs, every H_0(z) contains the origin and delta = 0; in the hull of D, or with
    constants that differ by output, it need not be.

    Examples
    --------
    >>> import taskloss as tl
    >>> d = tl.theory.decision_distances(tl.losses.ZeroOne(3), "multinomial")
    >>> d(0.2).round(4), float(d.delta.max().round(9))
    (array([0.1414, 0.1414, 0.1414]), 0.0)
    """
    psi, offset = _pieces(*_bound(loss, surrogate))
    count = len(psi)
    lengths = np.linalg.norm(psi[:, None] - psi, axis=-1)
    lengths[lengths <= 1e-12 * max(lengths.max(initial=0.0), 1e-300)] = 0.0
    delta = np.zeros((count, count))
    if np.ptp(offset) > 1e-12 * max(1.0, np.abs(offset).max()):  # else every H_0(z) contains the origin
        for z in range(count):
            delta[z] = _deltas(psi, offset, z, lengths[z])
    return DecisionDistances(lengths, delta)


def _bound(loss: Any, surrogate: Any) -> tuple[Loss, np.ndarray | None]:
    """The loss in the embedding that the surrogate takes, and vertices whose affine hull is that of D."""
    if surrogate is None:
        return Loss.resolve(loss), None
    problem = Problem(loss, surrogate)
    domain = problem.surrogate.domain
    flat = domain is not None and domain.dimension < domain.size
    return problem.loss, np.asarray(domain.vertices(), dtype=float) if flat else None  # type: ignore[union-attr]


def _pieces(loss: Loss, points: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """psi and the constants in orthonormal coordinates of the points' hull."""
    outputs = loss.outputs()
    psi = np.asarray(loss.psi(outputs), dtype=float)
    offset = np.broadcast_to(np.asarray(loss.offset(outputs), dtype=float), (len(psi),))
    if points is None:
        return psi, np.array(offset)
    centre = points.mean(0)
    _, singular, rows = np.linalg.svd(points - centre)
    frame = rows[: int((singular > 1e-10 * max(1.0, singular.max(initial=0.0))).sum())].T
    return psi @ frame, offset + psi @ centre


def diameter(points: np.ndarray) -> float:
    gram = points @ points.T
    squares = np.diag(gram)
    return float(np.sqrt(max((squares[:, None] + squares - 2 * gram).max(), 0.0)))


def _deltas(psi: np.ndarray, offset: np.ndarray, z: int, lengths: np.ndarray) -> np.ndarray:
    """The distance from H_0(z) to each tie, by max <psi(z) - psi(z'), u> + c(z) - c(z') over u in H_0(z)."""
    rows, level = psi[z] - psi, offset - offset[z]
    keep = lengths > 0
    if (level[~keep] < -1e-12).any():  # an output with equal psi and a smaller constant always beats z
        return np.full(len(psi), np.inf)
    out = np.zeros(len(psi))
    for other in np.flatnonzero(keep):
        found = linear_program(-rows[other], A_ub=rows[keep], b_ub=level[keep], bounds=(None, None))
        if found.status == 2:
            return np.full(len(psi), np.inf)
        out[other] = max(0.0, (level[other] + found.fun) / lengths[other])
    return out


@explained
def excess_bound(loss: Any, distance: Any, norm: str = "l2", improved: bool = True) -> Any:
    """The lemma on the excess Bayes risk: a bound for decoding moments at most `distance` from the true ones.

    Parameters
    ----------
    loss : a loss whose outputs can be listed.
    distance : |u - mu(q)| in `norm`, "l1", "l2" or "linf".
    improved : False is the paper's 2 max |psi(z)|_* |u - mu|, True has max |psi(z) - psi(z')|_* in its place.

    Notes
    -----
    z optimal at u and z' at mu give excess <psi(z) - psi(z'), mu> <= <psi(z) - psi(z'), mu - u>, and |psi(z) - psi(z')|_*
    is at most 2 max |psi(z)|_*.

    Examples
    --------
    >>> import taskloss as tl
    >>> float(tl.theory.excess_bound(tl.losses.Absolute(5), 0.1, norm="l1", improved=False))
    0.8
    """
    if norm not in ORDER:
        raise ValueError(f"norm must be 'l1', 'l2' or 'linf', got {norm!r}.")
    psi = np.asarray(Loss.resolve(loss).psi(Loss.resolve(loss).outputs()), dtype=float)
    order = ORDER[DUAL[norm]]
    if improved:
        size = np.linalg.norm(psi[:, None] - psi, ord=order, axis=-1).max()
    else:
        size = 2 * np.linalg.norm(psi, ord=order, axis=1).max()
    return size * real_levels("distance", distance)


@explained
def crf_bound(loss: Any, eps: Any, improved: bool = False) -> Any:
    """The proposition on conditional random fields: eps^2 / (8 max|psi|^2 max|phi|^2) <= zeta(eps), all norms l2.

    Parameters
    ----------
    loss : a loss whose outputs and labels can be listed; the random field has its phi as statistics.
    improved : 2 eps^2 / (max |psi(z) - psi(z')|^2 max |phi(y) - phi(y')|^2) instead, which does not change when
        the embeddings are translated.

    Notes
    -----
    The Hessian of the log-partition function is the covariance of phi, at most E |phi|^2 and, by Popoviciu's inequality
    in each direction, at most a quarter of the squared diameter. The paper's form holds in every embedding of the loss,
    and is largest in that of `decompose`, which minimises max|psi| max|phi|.

    Examples
    --------
    >>> import taskloss as tl
    >>> [round(float(tl.theory.crf_bound(tl.losses.ZeroOne(3), 0.5, improved=i)), 5) for i in (False, True)]
    [0.03125, 0.125]
    """
    resolved = Loss.resolve(loss)
    psi = np.asarray(resolved.psi(resolved.outputs()), dtype=float)
    phi = np.asarray(resolved.polytope.vertices(), dtype=float)
    if improved:
        size = diameter(psi) * diameter(phi) / np.sqrt(2)
    else:
        size = np.sqrt(8) * float(np.linalg.norm(psi, axis=1).max() * np.linalg.norm(phi, axis=1).max())
    levels = real_levels("eps", eps)
    if size == 0:  # a loss that does not depend on the output has no excess
        return np.where(levels > 0, np.inf, 0.0)
    with np.errstate(over="ignore"):  # where no excess is that large
        return (levels / size) ** 2
