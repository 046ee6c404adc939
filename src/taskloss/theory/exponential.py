"""The exponential margin, whose divergence is not jointly convex: lower bounds by Lagrangian duality in boxes of u.

The divergence is a sum over coordinates and the constraints are linear, so that the Lagrangian separates: each
coordinate is a problem in one dimension, solved with a proof. The dual value is that of the relaxation by each
coordinate's convex envelope, which splitting the range of u tightens.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from .problem import Problem

FAR = 1e8  # |h'(y)| beyond this counts as infinite: y is within 1e-16 of 0 or 1
GRID = np.array([0.03, 0.15, 0.5, 0.9])  # initial points of the estimate and, with 0 and 1, of the truth


def divergence(x: np.ndarray, y: np.ndarray, move: Any = None) -> np.ndarray:
    """D(x, y) = (sqrt(x(1-y)) - sqrt(y(1-x)))^2 / sqrt(y(1-y)) of h(q) = -2 sqrt(q(1-q)), element by element.

    The difference of roots is (x - y) over their sum; `move` is x - y, where known more precisely.
    """
    move = x - y if move is None else move
    with np.errstate(divide="ignore", invalid="ignore"):
        value = (move / (np.sqrt(x * (1 - y)) + np.sqrt(y * (1 - x)))) ** 2 / np.sqrt(y * (1 - y))
    return np.where(move == 0, 0.0, value)


def moment(slope: np.ndarray) -> np.ndarray:
    """The q with h'(q) = slope; 0 and 1 at the infinities."""
    return (1 + np.sin(np.arctan(slope / 2))) / 2


def slope(y: np.ndarray) -> np.ndarray:
    """h'(y), infinite at the ends."""
    with np.errstate(divide="ignore"):
        return (2 * y - 1) / np.sqrt(y * (1 - y))


# -- one coordinate --------------------------------------------------------------------------------------------------


def least_remainder(
    a: np.ndarray, b: np.ndarray, low: Any = 0.0, high: Any = 1.0, tolerance: float = 1e-11
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(bound, x, y): a lower bound on min D(x, y) - a x + b y over x in [0, 1] and y in [low, high], and its minimiser.

    Minimising over x leaves F(g) = h*(g) - h*(g + a) + b y(g), with g = h'(y) and h*(g) = max(g, 0) + bulge(g). Each
    term is linear, convex or concave between the points 0 and -a. On an interval of g with neither inside, tangents of
    the convex terms and chords of the concave ones sum to a line below F, whose lower end is a bound; intervals are
    halved until no bound lies more than `tolerance` (1 + |a| + |b|) below the best value. A margin for rounding is
    subtracted.
    """
    a, b, low, high = np.broadcast_arrays(np.asarray(a, float), b, low, high)
    scale = 1 + np.abs(a) + np.abs(b)
    first, last = (np.clip(slope(np.asarray(y, float)), -FAR, FAR)[:, None] for y in (low, high))
    spread = np.sinh(np.linspace(0, np.arcsinh(2 * FAR), 24))
    spread = np.concatenate([-spread[:0:-1], spread])
    nodes = np.sort(np.clip(np.concatenate([spread - a[:, None], spread + 0 * a[:, None]], axis=1), first, last))
    # Beyond FAR the value is, up to rounding, that at x = y = 0 or x = y = 1.
    ends = (
        np.where(low > 0, _remainder(first[:, 0], a, b), 0.0),
        np.where(high < 1, _remainder(last[:, 0], a, b), b - a),
    )
    best, at = np.minimum(*ends), np.where(ends[0] < ends[1], slope(low), slope(high))
    bound = best.copy()
    row = np.repeat(np.arange(len(a)), nodes.shape[1] - 1)
    left, right = nodes[:, :-1].ravel(), nodes[:, 1:].ravel()
    while len(row):
        middle = (left + right) / 2
        value = _remainder(middle, a[row], b[row])
        below = _minorant(left, middle, right, a[row], b[row])
        starts = np.flatnonzero(np.diff(row, prepend=-1))
        rows, least = row[starts], np.minimum.reduceat(value, starts)
        better = least < best[rows]
        winners = np.flatnonzero((value == np.repeat(least, np.diff(starts, append=len(row)))) & (value < best[row]))
        at[row[winners]] = middle[winners]
        best[rows[better]] = least[better]
        open_ = (below < best[row] - tolerance * scale[row]) & (left < middle) & (middle < right)
        np.minimum.at(bound, row[~open_], below[~open_])
        row = np.repeat(row[open_], 2)
        left, right = (
            np.stack([pair[0][open_], pair[1][open_]], axis=1).ravel() for pair in ((left, middle), (middle, right))
        )
    return np.minimum(bound, best) - 1e-14 * scale, moment(at + a), moment(at)


def _bulge(g: np.ndarray) -> np.ndarray:
    """h*(g) - max(g, 0), without cancellation."""
    g = np.abs(g)
    return 2 / (g + np.sqrt(4 + g * g))


def _ramp(g: np.ndarray, a: np.ndarray) -> np.ndarray:
    """max(g, 0) - max(g + a, 0)."""
    return np.where(g >= 0, np.where(g + a >= 0, -a, g), np.where(g + a >= 0, -(g + a), 0.0))


def _remainder(g: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return _ramp(g, a) + _bulge(g) - _bulge(g + a) + b * moment(g)


def _minorant(left: np.ndarray, middle: np.ndarray, right: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The minimum on [left, right] of a line below F: the bulge is convex, y(g) convex below 0 and concave above."""
    side, half = np.where(middle >= 0, 1.0, -1.0), (right - left) / 2
    root = np.sqrt(4 + middle**2)
    level, steepness = _bulge(middle), -side * _bulge(middle) / root
    convex = b * side < 0
    level, steepness = (
        level + np.where(convex, b * moment(middle), 0.0),
        steepness + np.where(convex, 2 * b / root**3, 0.0),
    )
    chords = (_ramp(g, a) - _bulge(g + a) + np.where(convex, 0.0, b * moment(g)) for g in (left, right))
    return level + np.minimum(*(chord + sign * half * steepness for chord, sign in zip(chords, (-1, 1), strict=True)))


# -- one pair --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Node:
    """A box low <= y <= high of the estimate, in units of [0, 1], with a bound on the pair's program in it.

    `points` are the (coordinate, x, y) of the cutting planes. `truth` and `estimate` solve the relaxed program and are
    feasible for the pair up to the solver's tolerance; `loose` is the gap between divergence and envelope there, by
    coordinate.
    """

    low: np.ndarray
    high: np.ndarray
    bound: float
    points: np.ndarray
    truth: Any = None
    estimate: Any = None
    loose: Any = None


class Dual:
    """The Lagrangian dual of one pair's program.

    For any a, w >= 0, s >= 0 and b = sum_i w_i (psi(z) - psi(i)),
      D >= s (eps - c) + <w, c(z) - c> + min over M of <a - s d, u'> + sum_j min over (x, y) of D(x, y) - a_j x + b_j y
    where d and c are the differences of psi and of the offsets between z and z'. Multipliers come from a linear
    master program over the points so far; each bound is then evaluated from its multipliers alone.
    """

    def __init__(self, problem: Problem, z: int, other: int, eps: float):
        import clarabel
        import scipy.sparse as sparse

        self.clarabel, self.sparse, self.problem = clarabel, sparse, problem
        self.start, self.width = problem.form.low, 1 - problem.form.low
        # Rows of length one: multipliers then have the size of the divergence, whatever costs are measured in.
        rows = np.c_[problem.psi[z] - problem.psi, problem.offset[z] - problem.offset]
        lengths = np.linalg.norm(rows[:, :-1], axis=1)
        kept = lengths > 1e-13 * np.abs(problem.psi).max()
        rows = np.unique(rows[kept] / lengths[kept, None], axis=0)
        self.rows, self.levels = rows[:, :-1], rows[:, -1]
        self.d = (problem.psi[z] - problem.psi[other]) / lengths[other]
        self.target = (eps - (problem.offset[z] - problem.offset[other])) / lengths[other]
        n, k = self.rows.shape
        # x = (a, b, w, s, minimum over M, minimum of each coordinate)
        self.size = 3 * k + n + 2
        self.a, self.b, self.w = np.arange(k), np.arange(k, 2 * k), np.arange(2 * k, 2 * k + n)
        self.s, self.over, self.each = 2 * k + n, 2 * k + n + 1, np.arange(2 * k + n + 2, self.size)
        self.objective = np.zeros(self.size)
        self.objective[self.w], self.objective[self.s], self.objective[self.over], self.objective[self.each] = (
            -self.levels,
            -self.target,
            -1,
            -1,
        )
        vertices = problem.vertices
        equal = np.zeros((k, self.size))
        equal[:, self.w], equal[:, self.b] = self.rows.T, -np.eye(k)
        inside = np.zeros((len(vertices), self.size))
        inside[:, self.a], inside[:, self.s], inside[:, self.over] = -vertices, vertices @ self.d, 1.0
        box = np.eye(self.size)[np.r_[self.a, self.w, self.s]]
        self.fixed = sparse.csr_matrix(np.vstack([equal, inside, box, -box]))
        largest = np.full(len(box), 1e5)  # bound on the multipliers
        least = np.where(np.arange(len(box)) < k, largest, 0.0)
        self.fixed_levels = np.concatenate([np.zeros(k + len(vertices)), largest, least])

    def root(self, truth: np.ndarray, estimate: np.ndarray, cutoff: float) -> Node:
        """The root node, all u, with initial points around the pair (u', u)."""
        k = len(self.a)
        x, y = (np.clip((u - self.start) / self.width, 1e-9, 1 - 1e-9) for u in (truth, estimate))
        points = np.vstack(
            [_points(np.arange(k), np.r_[0.0, GRID, 1.0], np.r_[1e-6, GRID]), np.stack([np.arange(k), x, y], axis=1)]
        )
        return self._tighten(Node(np.zeros(k), np.ones(k), 0.0, points), cutoff)

    def branch(self, node: Node, cutoff: float) -> list[Node]:
        """The node's two children: its box split in the coordinate where the envelope is loosest."""
        j = int(node.loose.argmax())
        low, high = node.low[j], node.high[j]
        middle = (node.estimate[j] - self.start) / self.width
        cut = float(np.clip(middle, low + 0.05 * (high - low), high - 0.05 * (high - low)))
        out = []
        for first, last in ((low, cut), (cut, high)):
            box_low, box_high = node.low.copy(), node.high.copy()
            box_low[j], box_high[j] = first, last
            y = node.points[:, 2]
            kept = node.points[(node.points[:, 0] != j) | ((y >= first) & (y <= last))]
            more = _points(
                np.array([j]), np.r_[0.0, GRID, 1.0], np.clip([first, (first + last) / 2, last], 1e-9, 1 - 1e-9)
            )
            child = replace(node, low=box_low, high=box_high, points=np.vstack([kept, more]))
            out.append(self._tighten(child, cutoff))
        return out

    def _tighten(self, node: Node, cutoff: float, rounds: int = 30) -> Node:
        """The node with the bound raised by cutting planes, until it reaches `cutoff`."""
        points, tolerance, k = node.points, 1e-3, len(self.a)
        for _ in range(rounds):
            solution, heights = self._master(points, tolerance)
            multipliers, duals = np.asarray(solution.x), np.maximum(np.asarray(solution.z), 0.0)
            law, shares = duals[k : k + len(self.problem.vertices)], duals[-len(points) :]
            index = points[:, 0].astype(int)
            total = np.bincount(index, shares, k)
            if not (np.isfinite(multipliers).all() and law.sum() > 0 and (total > 0).all()):
                break  # no feasible point in the box, or the solver failed: keep the bound
            value, new = self._evaluate(multipliers, node, 1e-3 * tolerance)
            x, y, envelope = (np.bincount(index, shares * part, k) / total for part in (*points[:, 1:].T, heights))
            node = replace(
                node,
                bound=max(node.bound, value),
                points=points,
                truth=law / law.sum() @ self.problem.vertices,
                estimate=self.start + self.width * y,
                loose=divergence(x, y) - envelope,
            )
            gap = -float(solution.obj_val_dual) - node.bound
            if node.bound >= cutoff or gap <= 1e-5 * node.bound:
                break
            points, tolerance = np.vstack([points, new]), float(np.clip(gap / 10, 1e-8, tolerance))
        return node

    def _master(self, points: np.ndarray, tolerance: float) -> tuple[Any, np.ndarray]:
        """The solution of the master program over the given points, and the divergence at these."""
        clarabel, sparse = self.clarabel, self.sparse
        index, (x, y) = points[:, 0].astype(int), points[:, 1:].T
        heights, k, count = divergence(x, y), len(self.a), len(points)
        entries = np.concatenate([self.start + self.width * x, -self.start - self.width * y, np.ones(count)])
        columns = np.concatenate([self.a[index], self.b[index], self.each[index]])
        cuts = sparse.csr_matrix((entries, (np.tile(np.arange(count), 3), columns)), shape=(count, self.size))
        settings = clarabel.DefaultSettings()
        settings.verbose, settings.max_threads = False, 1
        # Stopped early, an interior point method stays away from vertices, which saves rounds.
        settings.tol_gap_abs = settings.tol_gap_rel = tolerance / 10
        matrix = sparse.csc_matrix(sparse.vstack([self.fixed, cuts]))
        levels = np.concatenate([self.fixed_levels, heights])
        cones = [clarabel.ZeroConeT(k), clarabel.NonnegativeConeT(len(levels) - k)]
        quadratic = sparse.csc_matrix((self.size, self.size))
        return clarabel.DefaultSolver(quadratic, self.objective, matrix, levels, cones, settings).solve(), heights

    def _evaluate(self, multipliers: np.ndarray, node: Node, tolerance: float) -> tuple[float, np.ndarray]:
        """The dual bound of the multipliers in the node's box, and each coordinate's minimiser."""
        a, w, s = multipliers[self.a], np.maximum(multipliers[self.w], 0.0), max(float(multipliers[self.s]), 0.0)
        b = w @ self.rows
        least, x, y = least_remainder(self.width * a, self.width * b, node.low, node.high, tolerance)
        over = float((self.problem.vertices @ (a - s * self.d)).min())
        value = s * self.target + float(w @ self.levels) + over + float(least.sum()) + self.start * float((b - a).sum())
        return value, np.stack([np.arange(len(a)), x, y], axis=1)


def _points(coordinates: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Rows (j, x, y) of a grid in each coordinate."""
    return np.stack([part.ravel() for part in np.meshgrid(coordinates, x, y)], axis=1)
