"""Averaged projected stochastic gradient descent, as the paper analyses it: one pass, one step for each few examples."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

import numpy as np
from sklearn.utils import check_random_state

from .._arguments import check_hyperparameters
from ..progress import Progress
from .base import Array, Interrupted, Objective, Solution, Solver, Status


class Examples(Protocol):
    """A chunk of examples: gradients on some of them, and what bounds those."""

    kappa: float

    @property
    def smoothness(self) -> float | None: ...

    @property
    def slope(self) -> float: ...

    def __len__(self) -> int: ...

    def gradient(self, theta: Array, rows: slice) -> Array: ...


class ASGD(Solver):
    """theta_i = P(theta_(i-1) - eta grad), averaged over i, where P projects onto the ball |theta| <= radius: one pass.

    The radius D takes the place of the penalty: the risk is minimised over the ball, whatever alpha is. With the
    theorem's constant step eta = 2 D / (M sqrt(n)) over n steps, M = kappa (kappa beta D + c), the expected surrogate
    risk of the average exceeds that of any theta in the ball by at most 2 D M / sqrt(n). beta is the surrogate's
    smoothness, c the largest slope at the score zero and kappa the largest norm of the features (with the intercept's
    constant one), both as seen so far. The guarantee starts from zero, as without an intercept.

    radius : D. batch_size : examples per step. step : eta, in the place of the theorem's. horizon : the number of steps
    n for streams of known length; without it a stream takes eta_i = 2 D / (M sqrt(i)). random_state : of the order in
    which `minimise` draws the examples.
    """

    name = "asgd"
    needs = ("value_and_gradient", "chunks")
    streams = True

    def __init__(
        self,
        radius: float = 10.0,
        batch_size: int = 1,
        step: float | None = None,
        horizon: int | None = None,
        random_state: Any = 0,
    ):
        self.radius = radius
        self.batch_size = batch_size
        self.step = step
        self.horizon = horizon
        self.random_state = random_state

    def minimise(self, objective: Objective, theta: Array, progress: Progress | None = None) -> Solution:
        self.check(objective)
        self.validate()
        weights = objective.weights  # type: ignore[attr-defined]
        order = check_random_state(self.random_state).permutation(np.flatnonzero(weights))
        steps = -(-len(order) // self.batch_size)
        state = Iterates(self.with_params(horizon=self.horizon or steps), theta)
        try:
            for chunk in objective.chunks(order):  # type: ignore[attr-defined]
                state.take(chunk)
                if progress is not None:
                    progress.count(state.seen, len(order), "examples")
        except KeyboardInterrupt as interrupt:
            if progress is not None:
                progress.close(Status.INTERRUPTED)
            so_far = Solution(state.mean, np.nan, Status.INTERRUPTED, state.steps, 0, np.nan)
            raise Interrupted(so_far) from interrupt
        value = float(np.sum(objective.value_and_gradient(state.mean)[0]))
        if progress is not None:
            progress.close(Status.PASSED)
        return Solution(state.mean, value, Status.PASSED, state.steps, 1, np.nan)

    def for_stream(self, n_samples: int | None) -> ASGD:
        """The same solver for a stream of so many examples, if that is known."""
        self.validate()
        return self if n_samples is None else self.with_params(horizon=-(-n_samples // self.batch_size))

    def validate(self) -> None:
        """Hyperparameters that make sense, or one sentence."""
        check_hyperparameters(self)


class Bounds:
    """The step size, from the bound M on the gradients seen so far."""

    def __init__(self, solver: ASGD):
        solver.validate()
        self.solver = solver
        self.kappa = self.slope = 0.0
        self.smoothness: float | None = None

    def see(self, chunk: Examples) -> None:
        if self.solver.step is not None:
            return
        self.smoothness = chunk.smoothness
        if self.smoothness is None:
            raise ValueError(
                "The surrogate's gradient has no Lipschitz constant, from which asgd takes its step: give one with ASGD(step=...)."
            )
        self.kappa, self.slope = max(self.kappa, chunk.kappa), max(self.slope, chunk.slope)

    def step(self, i: int) -> float:
        """eta_i."""
        if self.solver.step is not None:
            return self.solver.step
        d = self.solver.radius
        bound = self.kappa * (self.kappa * self.smoothness * d + self.slope)  # type: ignore[operator]
        return 2 * d / (max(bound, 1e-300) * np.sqrt(self.solver.horizon or i))


class Iterates:
    """theta_i and the mean of those so far, for explicit features; examples come in chunks, as long as one likes."""

    def __init__(self, solver: ASGD, theta: Array):
        self.solver, self.bounds = solver, Bounds(solver)
        self.theta = _shrink(np.array(theta, dtype=float), solver.radius)
        self.mean = self.theta.copy()
        self.steps = self.seen = 0

    def take(self, chunk: Examples) -> None:
        self.bounds.see(chunk)
        for rows in batches(len(chunk), self.solver.batch_size):
            self.steps += 1
            theta = self.theta - self.bounds.step(self.steps) * chunk.gradient(self.theta, rows)
            self.theta = _shrink(theta, self.solver.radius)
            self.mean += (self.theta - self.mean) / self.steps
            self.seen += rows.stop - rows.start


class Expansion:
    """The same iterates in a Hilbert space of functions, g = s sum_j K(x_j, .) c_j, where the points come one by one.

    K = k A + b I with b the constant feature of the intercepts (or zero), and A the identity; where all scores share one
    function and only the intercepts are their own, A is all ones.

    The factor s takes up the projections, so that a step only adds its own coefficients; the sum of the iterates has
    coefficients c_j times the sum of s over the steps since j. Before s is so small that those sums lose digits, both
    are settled and s starts again at one.
    """

    def __init__(self, solver: ASGD, size: int, constant: float, shared: bool):
        self.solver, self.bounds = solver, Bounds(solver)
        self.constant, self.shared = constant, shared
        self.c = np.zeros((0, size))
        self.settled = np.zeros((0, size))  # coefficients of the sum of the iterates, up to the last settlement
        self.sums = np.zeros(size)  # of c over its points
        self.past = np.zeros(0)  # the sum of s, since then, over the steps before each point came
        self.scale, self.total, self.squared_norm = 1.0, 0.0, 0.0
        self.steps = self.seen = 0

    def take(self, chunk: Any, k: np.ndarray) -> None:
        """k: kernel values of the chunk's points (rows) at all points so far and then the chunk's own (columns)."""
        self.bounds.see(chunk)
        old, d = len(self.c), self.solver.radius
        self.c, self.settled = (np.vstack([a, np.zeros((len(chunk), a.shape[1]))]) for a in (self.c, self.settled))
        self.past = np.concatenate([self.past, np.zeros(len(chunk))])
        for rows in batches(len(chunk), self.solver.batch_size):
            here, count = slice(old + rows.start, old + rows.stop), rows.stop - rows.start
            v = self.scale * (k[rows, : here.start] @ self.mixed(self.c[: here.start]) + self.constant * self.sums)
            dv = chunk.score_gradient(v, rows)
            self.steps += 1
            eta = self.bounds.step(self.steps) / count
            mixed, total = self.mixed(dv), dv.sum(axis=0)
            own = np.einsum("ij,ik,jk->", k[rows, here], mixed, mixed) + self.constant * (total @ total)
            self.squared_norm += eta**2 * own - 2 * eta * (dv * v).sum()
            self.c[here] = -eta / self.scale * dv
            self.sums -= eta / self.scale * total
            self.past[here] = self.total
            if self.squared_norm > d**2:
                self.scale *= d / np.sqrt(self.squared_norm)
                self.squared_norm = d**2
            self.total += self.scale
            self.seen += count
            if self.scale < 1e-3:
                self._settle()

    def _settle(self) -> None:
        self.settled += self.c * (self.total - self.past)[:, None]
        self.c *= self.scale
        self.sums *= self.scale
        self.past[:] = 0.0
        self.scale, self.total = 1.0, 0.0

    def mixed(self, c: np.ndarray) -> np.ndarray:
        """The coefficients on k alone, one column for each function."""
        return c.sum(axis=1, keepdims=True) if self.shared else c

    @property
    def mean(self) -> np.ndarray:
        """The coefficients of the mean of the iterates."""
        return (self.settled + self.c * (self.total - self.past)[:, None]) / max(self.steps, 1)


def batches(n: int, size: int) -> Iterable[slice]:
    return (slice(i, min(i + size, n)) for i in range(0, n, size))


def _shrink(theta: Array, radius: float) -> Array:
    norm = np.sqrt(np.vdot(theta, theta))
    return theta if norm <= radius else theta * (radius / norm)
