"""Screening where D_h is a sum over coordinates in [0, 1] of the divergence of coins: lower bounds for all pairs at once.

With multipliers s of the excess, t of the other rows of M and w of the optimality of z, the Lagrangian is a constant and a
sum over coordinates of d(x, y) - c x + b y, where c and b are linear in the multipliers. Minimised over x this is
b y - log(1 + y m), m = e^c - 1, convex in y and least at y = 1/b - 1/m, cut off at 0 and 1. So the dual is a sum of terms

    log r - (r - 1)   with r = b/m,   where 0 < y < 1,       0 at y = 0,       b - c at y = 1,

concave in the multipliers, and a bound for any of them. Newton's method maximises it for all pairs together, over few
rows each, by column generation: the rows added are those that x and y violate the most.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..surrogates.form import Form

ROUNDING = 64 * np.finfo(float).eps
MORE = 3  # rows added for the truth, and for the estimate, in each round
BARRIERS = (
    1e-1,
    1e-2,
    1e-3,
    1e-4,
)  # weights of the logarithmic barrier of the multipliers, relative to the bound so far
ROUNDS = 12  # of column generation: the last barrier is used for all after the first few
STEPS = 12  # of Newton's method in each round, at the most
ENTRIES = 400_000  # of the largest array: pairs are processed in blocks that fit the cache


class Coins(NamedTuple):
    """A problem in the coordinates q in [0, 1]^k, u = low + width q.

    M is {equal q = level, rows q >= least} in the cube, or contained in it. The risk of an output is costs q + offset.
    """

    costs: np.ndarray
    offset: np.ndarray
    equal: np.ndarray
    level: np.ndarray
    rows: np.ndarray
    least: np.ndarray


def in_coins(form: Form, law: Any, psi: np.ndarray, offset: np.ndarray) -> Coins | None:
    """The problem in these coordinates, where the form is a sum of divergences of coins; else None. law: of M."""
    k = psi.shape[1]
    if form.curvature or form.points is not None or len(form.equal) or form.slope.shape != (2 * k, k):
        return None
    rising, falling = (np.flatnonzero((sign * form.slope > 0).any(1)) for sign in (1, -1))
    if len(rising) != k or len(falling) != k or ((form.slope != 0).sum(1) != 1).any():
        return None
    rising, falling = (rows[np.abs(form.slope[rows]).argmax(1).argsort()] for rows in (rising, falling))
    slope = form.slope[rising].sum(1)
    if not (
        np.array_equal(form.slope[rising], np.diag(slope))
        and np.allclose(form.slope[falling], -np.diag(slope), rtol=1e-14)
        and np.allclose(form.shift[rising] + form.shift[falling], 1, rtol=1e-14)
    ):
        return None
    width, low = 1 / slope, -form.shift[rising] / slope
    equal, level = np.zeros((0, k)), np.zeros(0)
    rows, least = equal, level
    if law is not None:
        equal, level = law.equal * width, law.level - law.equal @ low
        rows, least = law.slope * width, -(law.shift + law.slope @ low)
        binding = np.minimum(rows, 0).sum(1) < least - 1e-12 * np.abs(rows).max(1)  # not implied by the cube
        rows, least = rows[binding], least[binding]
    return Coins(psi * width, offset + psi @ low, equal, level, rows, least)


def coin_bounds(
    coins: Coins,
    z: np.ndarray,
    other: np.ndarray,
    first: np.ndarray,
    ceiling: float,
    eps: float | None,
    reward: float = 0.0,
) -> np.ndarray:
    """A lower bound on the program of each pair (z, other): on D_h at an excess of eps, or on D_h less reward times the excess.

    first: known bounds. ceiling: bounds beyond it are not improved further.
    """
    size = max(len(coins.equal) + 2 + 2 * MORE, 8) * coins.costs.shape[1]
    block = max(1, ENTRIES // size)
    order = np.argsort(first, kind="stable")  # pairs of one block then need as many rounds
    out = first.copy()
    for start in range(0, len(z), block):
        part = order[start : start + block]
        with np.errstate(all="ignore"):  # multipliers that overflow prove nothing, and are not taken
            out[part] = _Screen(coins, z[part], other[part], eps, reward).raised(first[part], ceiling)
    return out


class _Screen:
    """The pairs of one block, with the rows that are in their duals so far."""

    def __init__(self, coins: Coins, z: np.ndarray, other: np.ndarray, eps: float | None, reward: float):
        self.coins, self.z, self.eps, self.reward = coins, z, eps, reward
        n = len(z)
        gain, offset = coins.costs[z] - coins.costs[other], coins.offset[z] - coins.offset[other]
        target = -offset if eps is None else eps - offset
        # the truth's rows: the excess, M's equations, then rows of M that were added; the estimate's: risks of z over others
        self.head = np.concatenate([gain[:, None], np.broadcast_to(coins.equal, (n, *coins.equal.shape))], axis=1)
        self.head_level = np.concatenate([target[:, None], np.broadcast_to(coins.level, (n, len(coins.level)))], axis=1)
        self.tail, self.tail_level = gain[:, None], -offset[:, None]
        self.taken = np.zeros((n, len(coins.rows)), dtype=bool)
        self.beaten = np.zeros((n, len(coins.costs)), dtype=bool)
        self.beaten[np.arange(n), other] = self.beaten[np.arange(n), z] = True
        self.free = 1 + len(coins.equal)  # up to here the multipliers are of equations, but for the first

    def raised(self, first: np.ndarray, ceiling: float) -> np.ndarray:
        """The bounds after rounds of column generation, each from the multipliers of the one before."""
        best, left = first.copy(), np.arange(len(first))
        start = np.full(len(first), self.reward) if self.eps is None else 2 * np.maximum(first, 1e-300) / self.eps
        multipliers = np.zeros((len(first), self.free + 1))
        multipliers[:, 0] = multipliers[:, -1] = start
        for i in range(ROUNDS):
            unit = np.maximum(np.abs(best[left]), 1e-300)
            multipliers, found = self._maximise(multipliers, unit * BARRIERS[min(i, len(BARRIERS) - 1)])
            gained = found - best[left]
            best[left] = np.maximum(best[left], found)
            violated = self._violated(*_Dual(self, np.arange(len(left)), multipliers).moments())
            going = (best[left] < ceiling) & (violated | (i + 1 < len(BARRIERS)) | (gained > 1e-6 * unit))
            if not going.any():
                break
            self._keep(going)
            left, multipliers, cut = left[going], multipliers[going], self.head.shape[1]
            new = [np.broadcast_to(1e-2 * start[left, None], (len(left), count)) for count in self._add()]
            multipliers = np.hstack([multipliers[:, :cut], new[0], multipliers[:, cut:], new[1]])
        return best

    # -- rows --------------------------------------------------------------------------------------------------------

    def _violated(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Whether each pair's x and y violate a row that is not in its dual."""
        self.short = np.where(self.taken, -np.inf, self.coins.least - x @ self.coins.rows.T)
        risks = y @ self.coins.costs.T + self.coins.offset
        self.ahead = np.where(self.beaten, -np.inf, risks[np.arange(len(y)), self.z][:, None] - risks)
        return np.asarray((self.short > 0).any(1) | (self.ahead > 0).any(1))

    def _keep(self, going: np.ndarray) -> None:
        for name in ("z", "head", "head_level", "tail", "tail_level", "taken", "beaten", "short", "ahead"):
            setattr(self, name, getattr(self, name)[going])

    def _add(self) -> tuple[int, int]:
        """Add the rows that are violated the most; how many to the truth and to the estimate."""
        coins, n = self.coins, np.arange(len(self.z))[:, None]
        more = []
        for over, taken in ((self.short, self.taken), (self.ahead, self.beaten)):
            count = min(MORE, int((~taken).sum(1).min())) if (over > 0).any() else 0
            chosen = np.argpartition(-over, count - 1, axis=1)[:, :count] if count else np.zeros((len(n), 0), int)
            taken[n, chosen] = True
            more.append(chosen)
        rows, outputs = more
        self.head = np.concatenate([self.head, coins.rows[rows]], axis=1)
        self.head_level = np.concatenate([self.head_level, coins.least[rows]], axis=1)
        self.tail = np.concatenate([self.tail, coins.costs[self.z][:, None] - coins.costs[outputs]], axis=1)
        self.tail_level = np.concatenate(
            [self.tail_level, coins.offset[outputs] - coins.offset[self.z][:, None]], axis=1
        )
        return rows.shape[1], outputs.shape[1]

    # -- the dual ----------------------------------------------------------------------------------------------------

    def _maximise(self, x: np.ndarray, barrier: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The multipliers (of the truth, then of the estimate) after damped Newton steps, and the largest value met."""
        signed = np.ones(x.shape[1], dtype=bool)  # those with a sign, and with a barrier
        signed[1 : self.free] = False
        signed[0] = self.eps is not None
        x, best, live = x.copy(), np.full(len(x), -np.inf), np.arange(len(x))
        for _ in range(STEPS):
            dual = _Dual(self, live, x[live])
            best[live] = np.maximum(best[live], dual.value)
            step, rise = self._newton(dual, x[live], signed, barrier[live])
            size = np.minimum(1.0, 0.9 / np.maximum(np.where(signed, -step / x[live], 0.0).max(1), 1e-300))
            now, before = x[live], dual.value + barrier[live] * np.log(x[live][:, signed]).sum(1)
            open_ = np.arange(len(live))
            for _ in range(12):
                trial, part = now[open_] + size[open_, None] * step[open_], live[open_]
                value = _Dual(self, part, trial).value
                best[part] = np.maximum(best[part], value)
                after = value + barrier[part] * np.log(trial[:, signed]).sum(1)
                better = after >= before[open_] + 1e-4 * size[open_] * rise[open_]
                better &= np.isfinite(after)
                x[part[better]] = trial[better]
                open_ = open_[~better]
                if not len(open_):
                    break
                size[open_] /= 3
            moved = rise > 0.1 * barrier[live]
            moved[open_] = False
            live = live[moved]
            if not len(live):
                break
        return x, best

    def _newton(
        self, dual: _Dual, x: np.ndarray, signed: np.ndarray, barrier: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Newton's step on the dual with its barrier, and the slope along it."""
        inverse = np.where(signed, 1 / np.where(signed, x, 1.0), 0.0)
        gradient, curve, k = dual.gradient + barrier[:, None] * inverse, dual.curve, np.arange(x.shape[1])
        curve[:, k, k] += barrier[:, None] * inverse**2 + 1e-300
        if self.eps is None:  # the first multiplier is given
            curve[:, 0, :] = curve[:, :, 0] = gradient[:, 0] = 0.0
            curve[:, 0, 0] = 1.0
        unit = 1 / np.sqrt(curve[:, k, k])
        curve *= unit[:, :, None] * unit[:, None]
        curve[:, k, k] += 1e-10
        step = unit * np.linalg.solve(curve, (unit * gradient)[..., None])[..., 0]
        return step, (gradient * step).sum(1)


class _Dual:
    """The Lagrangian's minimum over all x and y, of some pairs at their multipliers."""

    def __init__(self, screen: _Screen, pairs: np.ndarray, x: np.ndarray):
        self.head, self.tail = screen.head[pairs], screen.tail[pairs]
        cut = self.head.shape[1]
        first, second = x[:, :cut], x[:, cut:]
        self.levels = np.concatenate([screen.head_level[pairs], -screen.tail_level[pairs]], axis=1)
        self.c = np.matmul(first[:, None], self.head)[:, 0]
        self.b = np.matmul(second[:, None], self.tail)[:, 0]
        self.m = np.expm1(self.c)
        # where b/m is not between the ends of the range, y is 0 or 1
        self.low, self.high = self.b >= self.m, self.b <= -np.expm1(-self.c)
        self.inside = ~(self.low | self.high)
        ratio = self.b / self.m
        drop = (self.m - self.b) / self.m
        small = np.abs(drop) < 1e-2
        term = np.where(small, _log_drop(np.where(small, drop, 0.0)), drop + np.log(ratio))
        term = np.where(self.low, 0.0, np.where(self.high, self.b - self.c, term))
        total = (self.levels * x).sum(1) + term.sum(1)
        weight = (np.abs(self.levels) * np.abs(x)).sum(1)
        weight += np.matmul(np.abs(first)[:, None], np.abs(self.head))[:, 0].sum(1)
        weight += np.matmul(np.abs(second)[:, None], np.abs(self.tail))[:, 0].sum(1)
        value = total - ROUNDING * weight
        self.value = np.where(np.isfinite(value), value, -np.inf)

    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """The minimising x and y."""
        y = np.where(self.inside, 1 / self.b - 1 / self.m, np.where(self.low, 0.0, 1.0))
        x = np.where(self.inside, y * (self.m + 1) * self.b / self.m, y)
        return x, y

    @property
    def gradient(self) -> np.ndarray:
        x, y = self.moments()
        return self.levels + np.concatenate(
            [-np.matmul(self.head, x[..., None])[..., 0], np.matmul(self.tail, y[..., None])[..., 0]], axis=1
        )

    @property
    def curve(self) -> np.ndarray:
        """Minus the Hessian."""
        m, b = self.m, self.b
        cc = -(m + 1) * (m - b * m - 2 * b) / m**3
        cb = -(m + 1) / m**2
        bb = 1 / b**2
        cc, cb, bb = (np.where(self.inside & np.isfinite(part), part, 0.0) for part in (cc, cb, bb))
        cross = np.matmul(self.head * cb[:, None], np.swapaxes(self.tail, 1, 2))
        return np.block(
            [
                [np.matmul(self.head * cc[:, None], np.swapaxes(self.head, 1, 2)), cross],
                [np.swapaxes(cross, 1, 2), np.matmul(self.tail * bb[:, None], np.swapaxes(self.tail, 1, 2))],
            ]
        )


def _log_drop(t: np.ndarray) -> np.ndarray:
    """t + log(1 - t) by its series."""
    return -(t**2) * (1 / 2 + t * (1 / 3 + t * (1 / 4 + t * (1 / 5 + t * (1 / 6 + t / 7)))))
