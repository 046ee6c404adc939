"""Screening: lower bounds for all pairs of outputs at once, where D_h is Kullback-Leibler on laws over the labels.

With multipliers s of the excess and w of the optimality of z, the minimum of the Lagrangian over both laws is

    s eps + min_y log(1 + sum_i w_i (L_zy - L_iy)) - s (L_zy - L_z'y),

as with the tangent at ratio r_y = 1 + sum_i w_i (L_zy - L_iy) the estimate cancels. It is concave in the multipliers, and
a bound for any of them. Newton's method maximises it for all pairs together over few w_i each, by column generation: the
outputs added are those that beat z at the current estimate.
"""

from __future__ import annotations

import numpy as np

from .scaled import ROUNDING

FEW = 64  # pairs up to which solving their programs is as fast
ROUNDS, MORE = 8, 2  # rounds of column generation, and outputs added in each
TEMPERATURES = (0.6, 0.2, 0.06, 0.02)  # of the soft minimum over labels, relative to the initial bound
BARRIER = 1e-2  # weight of the logarithmic barrier of the multipliers, relative to the temperature
ENTRIES = 1_000_000  # of the largest array: pairs are processed in blocks that fit the cache


def kullback_bounds(
    table: np.ndarray, eps: float, z: np.ndarray, other: np.ndarray, first: np.ndarray, ceiling: float
) -> np.ndarray:
    """A lower bound on the divergence of each pair (z, other), costs as table[output, label].

    first: known positive bounds. ceiling: bounds beyond it are not improved further.
    """
    unit = float(np.ptp(table, axis=0).max()) or 1.0
    block = max(1, ENTRIES // table.size)
    out = first.copy()
    for start in range(0, len(z), block):
        part = slice(start, start + block)
        out[part] = _raised(table / unit, eps / unit, z[part], other[part], first[part], ceiling)
    return out


def _raised(
    costs: np.ndarray, eps: float, z: np.ndarray, other: np.ndarray, first: np.ndarray, ceiling: float
) -> np.ndarray:
    best, left = first.copy(), np.arange(len(z))
    behind = costs[z][:, None] - costs  # [pair, output, label]: L_zy - L_iy
    chosen = other[:, None]
    x = np.repeat((first / eps)[:, None], 2, axis=1)
    for _ in range(ROUNDS):
        short = eps - np.take_along_axis(behind, other[left, None, None], 1)[:, 0]
        dual = _Dual(np.take_along_axis(behind, chosen[:, :, None], 1), short, first[left])
        x, found = dual.maximise(x)
        best[left] = np.maximum(best[left], found)
        # column generation: the outputs that beat z the most at the current estimate
        risks = np.einsum("niy,ny->ni", behind, dual.estimate(x))
        np.put_along_axis(risks, chosen, -np.inf, 1)
        fresh = np.argsort(-risks, axis=1)[:, : min(MORE, len(costs) - chosen.shape[1])]
        open_ = (best[left] < ceiling) & (risks.max(1) > 0)
        if not open_.any() or not fresh.shape[1]:
            break
        left, behind, fresh = left[open_], behind[open_], fresh[open_]
        chosen = np.hstack([chosen[open_], fresh])
        x = np.hstack([x[open_], np.broadcast_to(1e-2 * x[open_, :1], fresh.shape)])
    return best


class _Dual:
    """The Lagrangian of many pairs as a function of their multipliers x = (s, w)."""

    def __init__(self, behind: np.ndarray, short: np.ndarray, unit: np.ndarray):
        self.behind, self.short, self.unit = behind, short, unit

    def heights(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The terms whose minimum over labels is the bound, and the ratios r_y."""
        above = np.einsum("nk,nky->ny", x[:, 1:], self.behind)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(above > -1, np.log1p(above), -np.inf) + x[:, :1] * self.short, 1 + above

    def value(self, heights: np.ndarray, x: np.ndarray) -> np.ndarray:
        """The minimum over labels, minus a bound on rounding."""
        return heights.min(1) - ROUNDING * x.sum(1)

    def truth(self, heights: np.ndarray, temperature: np.ndarray) -> np.ndarray:
        """q, the weights of the soft minimum."""
        q = np.exp(-(heights - heights.min(1, keepdims=True)) / temperature[:, None])
        return q / q.sum(1, keepdims=True)

    def estimate(self, x: np.ndarray) -> np.ndarray:
        """p_y = q_y / r_y."""
        heights, ratio = self.heights(x)
        return self.truth(heights, TEMPERATURES[-1] * self.unit) / ratio

    def maximise(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The multipliers after damped Newton steps at decreasing temperatures, and the largest value met."""
        x = self._inside(x)
        heights, ratio = self.heights(x)
        best = self.value(heights, x)
        for temperature in (share * self.unit for share in TEMPERATURES):
            soft = self._soft(heights, x, temperature)
            for _ in range(6):
                step = self._step(x, heights, ratio, temperature)
                size = np.minimum(1.0, 0.9 / np.maximum((-step / x).max(1), 1e-300))
                for _ in range(12):
                    trial = x + size[:, None] * step
                    new_heights, new_ratio = self.heights(trial)
                    new = self._soft(new_heights, trial, temperature)
                    worse = ~(new >= soft)
                    if not worse.any():
                        break
                    size = np.where(worse, size / 3, size)
                keep = worse[:, None]
                x, soft = np.where(keep, x, trial), np.where(worse, soft, new)
                heights, ratio = np.where(keep, heights, new_heights), np.where(keep, ratio, new_ratio)
                best = np.maximum(best, self.value(heights, x))
        return x, best

    def _inside(self, x: np.ndarray) -> np.ndarray:
        """The multipliers, scaled down where a ratio would not be positive."""
        above = np.einsum("nk,nky->ny", x[:, 1:], self.behind)
        return x * np.minimum(1.0, 0.5 / np.maximum(-above.min(1), 1e-300))[:, None]

    def _soft(self, heights: np.ndarray, x: np.ndarray, temperature: np.ndarray) -> np.ndarray:
        low = heights.min(1)
        with np.errstate(invalid="ignore"):
            value = low - temperature * np.log(np.exp(-(heights - low[:, None]) / temperature[:, None]).sum(1))
            value = value + BARRIER * temperature * np.log(x).sum(1)
        return np.where(np.isfinite(value), value, -np.inf)

    def _step(self, x: np.ndarray, heights: np.ndarray, ratio: np.ndarray, temperature: np.ndarray) -> np.ndarray:
        q = self.truth(heights, temperature)
        slopes = np.concatenate([self.short[:, None], self.behind / ratio[:, None]], axis=1)
        mean = np.einsum("nky,ny->nk", slopes, q)
        second = (slopes * q[:, None]) @ np.swapaxes(slopes, 1, 2)
        curve = (second - mean[:, :, None] * mean[:, None]) / temperature[:, None, None]
        curve[:, 1:, 1:] += second[:, 1:, 1:]
        pull = BARRIER * temperature[:, None] / x
        k = np.arange(x.shape[1])
        curve[:, k, k] += pull / x + 1e-12
        return np.linalg.solve(curve, (mean + pull)[..., None])[..., 0]
