"""Line-search descent for smooth convex functions: limited-memory BFGS, and Newton by conjugate gradients.

Both are one loop that differs in its direction. Every column of theta is a problem of its own with its own curvature
and step, and all columns share each evaluation: a hundred labels cost one pass over the data. Columns that are done leave
the search, and a step is tried again for those that refused it alone, where the objective gives these columns. The functions are
convex, so that a step is judged by its slope. SciPy's L-BFGS-B has neither columns nor a preconditioner.
"""

from __future__ import annotations

from typing import Self

import numpy as np

from ..progress import Progress
from .base import Array, Interrupted, Objective, Sides, Solution, Solver, Status
from .lasting import LastingPreconditioner
from .pairs import USEFUL, Pairs
from .stopping import Trend, shares

_COARSE = 1e-5  # the relative gap down to which single precision tells a search its way
_FEW = 0.7  # the share of columns below which a search goes on with these alone
_NOISE = 8 * float(np.finfo(float).eps)  # of values, beside them
_SETTLED = 1e-2  # the share of the tolerated gap that may be left in what is not penalised
_POLISHES = 1  # steps in that alone, at the most


def dot(a: Array, b: Array) -> np.ndarray:
    """Inner products of columns."""
    if a.shape[1] == 1:  # one long column: BLAS, five times as fast
        return np.atleast_1d(a.ravel() @ b.ravel())
    return np.einsum("pb,pb->b", a, b)


class Descent(Solver):
    """theta <- theta + t d until the estimated gap is within tol of the objective's value, column by column.

    The estimate is -<g, d>/2, that of Newton's model, or what the trend of the values says, whichever is larger; where directions are exact
    and the last step was whole, the model alone.
    """

    tol: float
    max_iter: int

    def within(self, tol: float, max_iter: int) -> Self:
        return self.with_params(tol=tol, max_iter=max_iter)

    def minimise(self, objective: Objective, theta: Array, progress: Progress | None = None) -> Solution:
        self.check(objective)
        objective.coarsen()
        search = _Search(objective, theta, tol=self.tol)
        status, iteration = Status.MAX_ITER, 0
        try:
            direction, trend = self._directions(objective), Trend()
            for iteration in range(self.max_iter + 1):
                d = direction(search)
                slope = dot(search.gradient, d)
                # Exact directions are doubted only where the model behind them did not hold for a whole step, and where rounding allows
                # no decrease, earlier ones say nothing of what is left.
                doubted = ~search.stuck & ((search.length < 1) | (not direction.exact))
                model = np.abs(slope) / 2  # a direction that rounding has made one of ascent tells as much
                some = bool(doubted.any())
                left = trend.gaps(search.value, some)
                search.gap = np.maximum(model, left * doubted) * (slope != 0) if some else model
                if not direction.exact and search.confirm(model):
                    continue
                search.gap = np.minimum(search.gap, search.bound)
                values, gaps = search.of_all("value"), search.of_all("gap")
                if progress is not None:
                    progress.update(iteration, float(values.sum()), search.relative_gap)
                if self.tol < _COARSE and search.relative_gap <= _COARSE and search.refine(trend):
                    continue
                done = gaps <= self.tol * shares(values) + 1e-300
                # columns that left in single precision are looked at once more
                if done.all() and (self.tol >= _COARSE or not objective.refine()):
                    status = Status.CONVERGED
                    break
                if iteration == self.max_iter:
                    break
                done = done[search.here]
                if done.all():  # but the mean has fallen since others left, or these are to be looked at
                    search = _Search(objective, search.of_all("theta"), search.evaluations, self.tol)
                    direction, trend = self._directions(objective), Trend(gaps)
                    continue
                live = np.flatnonzero(~done)
                if len(live) < _FEW * len(done) and search.keep(live):
                    direction.keep(live, search.objective)
                    trend.keep(live)
                    d, slope, done = d[:, live], slope[live], done[live]
                stuck = search.stuck.copy()
                moved = search.step(d, np.where(done | stuck, 0.0, slope), direction.newton)
                if not moved and (search.stuck == stuck).all() and not search.refine(trend):
                    status = Status.STALLED
                    break
        except KeyboardInterrupt as interrupt:
            raise Interrupted(self._end(search, Status.INTERRUPTED, iteration, progress)) from interrupt
        return self._end(search, status, iteration, progress)

    def _end(self, search: _Search, status: Status, iteration: int, progress: Progress | None) -> Solution:
        if progress is not None:
            progress.close(status)
        if status is not Status.INTERRUPTED:
            search.certify(np.isinf(search.bound))
        theta, value = search.of_all("theta"), float(search.of_all("value").sum())
        bound = float(search.of_all("bound").sum()) / max(value, 1e-300)
        return Solution(theta, value, status, iteration, search.evaluations, search.relative_gap, bound)

    def _directions(self, objective: Objective) -> _Directions:
        raise NotImplementedError


class _Search:
    """The current point, its value and gradient, and the last step taken, of the columns that are still in the search."""

    def __init__(self, objective: Objective, theta: Array, evaluations: int = 0, tol: float = 0.0):
        self.objective, self.theta, self.tol = objective, theta, tol
        self.value, self.gradient = objective.value_and_gradient(theta)
        self.evaluations = evaluations + 1
        self.gap = np.full(len(self.value), np.inf)  # estimated
        self.bound = np.full(len(self.value), np.inf)  # on the gap, where one was looked for
        self.polishes = np.zeros(len(self.value), dtype=int)  # steps in what is not penalised alone
        self.here = np.arange(len(self.value))  # the columns in the search, of all
        self.left: dict[str, Array] = {}  # theta, values and gaps of all columns, as they were when some left
        self.stuck = np.zeros(len(self.value), dtype=bool)  # columns that no step decreases any further
        self.length = np.ones(len(self.value))  # of the last step; where it was short, the next one is tried short
        self.change: Array | None = None
        self.gradient_change: Array | None = None
        if not np.isfinite(self.value).all():
            raise ValueError(
                "The objective is not finite at the starting point: check the scale of the features and warm-started parameters."
            )

    def of_all(self, name: str) -> Array:
        """theta, the values or the gaps with those of columns that have left."""
        now = getattr(self, name)
        if not self.left:
            return now
        self.left[name][..., self.here] = now
        return self.left[name]

    @property
    def relative_gap(self) -> float:
        return float(self.of_all("gap").sum() / max(self.of_all("value").sum(), 1e-300))

    def keep(self, columns: np.ndarray) -> bool:
        """Go on with these columns alone; False where that saves nothing."""
        part = self.objective.columns(columns)
        if part is None:
            return False
        leave = np.isinf(self.bound)
        leave[columns] = False
        self.certify(leave)
        kept: dict[str, object] = {"objective": part, "here": self.here[columns]}
        kept["left"] = {name: np.array(self.of_all(name)) for name in ("theta", "value", "gap", "bound")}
        for name in (
            "value",
            "gap",
            "bound",
            "polishes",
            "stuck",
            "length",
            "theta",
            "gradient",
            "change",
            "gradient_change",
        ):
            columnwise = getattr(self, name)
            kept[name] = None if columnwise is None else np.ascontiguousarray(columnwise[..., columns])
        self.__dict__.update(kept)  # at once, so that an interrupt finds all of it or nothing
        return True

    def refine(self, trend: Trend) -> bool:
        """Look at the point in double precision; False where it was looked at so."""
        if not self.objective.refine():
            return False
        value, self.gradient = self.objective.value_and_gradient(self.theta)
        self.evaluations += 1
        trend.shift(value - self.value)
        self.value, self.stuck[:] = value, False
        self.change = self.gradient_change = None
        return True

    @property
    def level(self) -> np.ndarray:
        """The gap at which each column is done."""
        return self.tol * shares(self.of_all("value"))[self.here]

    def confirm(self, model: np.ndarray) -> bool:
        """Bound the gap of columns that may be done; True where some took a step in what is not penalised, and are to be looked at again.

        A direction that is wrong about the curvature of intercepts takes them to be solved; such a step is short, and shows it.
        """
        level = self.level
        claims = np.isinf(self.bound) & (
            (self.gap <= level) | ((model <= level) & (self._slack(model, level) <= level))
        )
        sides = self.certify(claims) if claims.any() else None
        if sides is None:
            return False
        open = claims & (sides.decrement / 2 > _SETTLED * level) & (self.polishes < _POLISHES)
        if not open.any():
            return False
        self.polishes += open
        self.bound[open] = np.inf
        change = np.where(open, sides.step, 0.0)
        value, gradient = self._evaluate(self.theta + change, open, self.value, self.gradient)
        better = open & (value <= self.value)
        self.change = np.where(better, change, 0.0)
        self.gradient_change = np.where(better, gradient - self.gradient, 0.0)
        self.theta, self.value = self.theta + self.change, np.where(better, value, self.value)
        self.gradient = np.where(better, gradient, self.gradient)
        return bool(better.any())

    def _slack(self, model: np.ndarray, level: np.ndarray) -> np.ndarray:
        """The bound as it were if nothing were left in what is not penalised."""
        return self.objective.slack(self.gradient) if (model <= level).any() else np.full_like(level, np.inf)

    def certify(self, columns: np.ndarray) -> Sides | None:
        """Bound the gap of these columns."""
        sides = self.objective.sides(self.theta, self.gradient) if columns.any() else None
        if sides is not None:
            self.bound[columns] = self.objective.certified(self.gradient, sides)[columns]
        return sides

    def _evaluate(self, trial: Array, open: np.ndarray, value: np.ndarray, gradient: Array) -> tuple[np.ndarray, Array]:
        """The value and gradient at trial, whose open columns alone differ from the point of those given."""
        self.evaluations += 1
        columns = np.flatnonzero(open) if len(open) > 1 else open
        part = self.objective.columns(columns) if len(columns) < _FEW * len(open) else None
        if part is None:
            return self.objective.value_and_gradient(trial)
        if gradient is self.gradient:  # which the next step compares
            value, gradient = value.copy(), gradient.copy()
        value[columns], gradient[:, columns] = part.value_and_gradient(np.ascontiguousarray(trial[:, columns]))
        return value, gradient

    def step(self, d: Array, slope: np.ndarray, newton: bool = False) -> bool:
        """Move along d by a step that decreases each column and flattens its slope; False where none does.

        Newton's directions need no changes of the gradient that tell of curvature, so that any decrease will do: to go on until
        the slope is flat would lead right up to a barrier.

        For a convex function the slope along d grows with the step: negative slopes bracket the minimiser from below
        and positive ones from above. A column whose bracket is exhausted takes its lower end; one that does not decrease
        is stuck, and left where it is from then on.
        """
        down = slope < 0
        if not down.any():
            return False
        t = np.where(down, np.minimum(1.0, 2 * self.length), 0.0)
        noise = _NOISE * np.abs(self.value)
        exhausted: np.ndarray = np.False_  # type: ignore[assignment]  # of each column, once a bracket is looked at
        still = ~down
        accept, value, gradient = still, self.value, self.gradient
        for attempt in range(30):
            change = t * d
            trial = self.theta + change
            with np.errstate(over="ignore", invalid="ignore"):
                value, gradient = self._evaluate(trial, ~accept, value, gradient)
                new_slope = dot(gradient, d)
                accept = value <= self.value + 1e-4 * t * slope + noise
                decreases = accept
                if not newton:
                    accept = accept & (np.abs(new_slope) <= 0.9 * np.abs(slope) + noise)
            accept = accept | still | exhausted
            if accept.all():
                break
            if attempt == 0:
                low, high, low_slope, low_value = np.zeros_like(t), np.full_like(t, np.inf), slope, self.value
            long = ~accept & (~decreases | (new_slope > 0) | ~np.isfinite(new_slope))
            short = ~accept & ~long
            with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
                secant = np.where(np.isfinite(value), t - new_slope * (t - low) / (new_slope - low_slope), np.nan)
                cubic = _cubic(low, low_value, low_slope, t, value, new_slope)
                high = np.where(long, t, high)
                low_slope, low_value = np.where(short, new_slope, low_slope), np.where(short, value, low_value)
                low = np.where(short, t, low)
                inside = np.where(long & np.isfinite(cubic), cubic, secant)
                inside = np.clip(inside, 0.9 * low + 0.1 * high, 0.1 * low + 0.9 * high)
                bracketed = np.where(np.isfinite(inside), inside, (low + high) / 2)
                outside = np.clip(np.where(np.isfinite(secant), secant, 10 * t), 2 * t, 10 * t)
            t = np.where(accept, t, np.where(np.isfinite(high), bracketed, outside))
            exhausted = exhausted | ~accept & (high - low <= 1e-14 * np.maximum(t, 1e-300))
            t = np.where(exhausted, low, t)
            still = t == 0
        else:
            change = np.where(accept, t, low) * d
            trial = self.theta + change
            value, gradient = self._evaluate(trial, ~accept, value, gradient)
        self.length = np.where(down, t, 1.0)
        self.bound = np.where(down, np.inf, self.bound)
        decreased = value < self.value
        self.stuck |= down & ~decreased
        self.change, self.gradient_change = change, gradient - self.gradient
        self.theta, self.value, self.gradient = trial, value, gradient
        return bool(decreased.any())


def _cubic(a: Array, fa: Array, da: Array, b: Array, fb: Array, db: Array) -> Array:
    """The minimiser of the cubic with these values and slopes at a and b; NaN where there is none."""
    z = da + db - 3 * (fb - fa) / (b - a)
    w = np.sqrt(z * z - da * db)
    return b - (b - a) * (db + w - z) / (db - da + 2 * w)


class _Directions:
    """The direction at a point of the search, and what it remembers of the points before.

    newton: whether it is made of the Hessian. exact: whether so without error, so that its slope alone tells the gap that is left.
    """

    newton = exact = False

    def __init__(self, objective: Objective, every: int):
        self.objective, self.precondition = objective, LastingPreconditioner(objective, every)

    def __call__(self, search: _Search) -> Array:
        raise NotImplementedError

    def keep(self, columns: np.ndarray, objective: Objective) -> None:
        """Go on with these columns alone, whose objective this is."""
        self.objective = objective
        self.precondition.keep(columns, objective)


class _LBFGSDirections(_Directions):
    def __init__(self, objective: Objective, memory: int | None):
        super().__init__(objective, objective.refresh)
        self.memory = objective.memory if memory is None else memory
        self.pairs: Pairs | None = None
        self.scale: np.ndarray | None = None  # of each column

    def keep(self, columns: np.ndarray, objective: Objective) -> None:
        super().keep(columns, objective)
        self.pairs = None if self.pairs is None else self.pairs.keep(columns)
        self.scale = None if self.scale is None else self.scale[columns]

    def __call__(self, search: _Search) -> Array:
        precondition = self.precondition
        precondition.at(search.theta, search.evaluations)
        if search.change is not None:
            self._remember(search.change, search.gradient_change)
        if self.pairs is None:
            return -precondition(search.gradient)
        return self.pairs.direction(search.gradient, lambda q: precondition(q) * self.scale)

    def _remember(self, s: Array, y: Array) -> None:
        if self.pairs is None:
            self.pairs = Pairs(s.shape, self.memory)
        curvature, norm = dot(s, y), dot(y, self.precondition(y))
        useful = (curvature > USEFUL) & (norm > 0)
        last = 1.0 if self.scale is None else self.scale
        self.scale = np.where(useful, curvature / np.where(useful, norm, 1.0), last)
        self.pairs.add(s, y, curvature)


class LBFGS(Descent):
    """Limited-memory BFGS whose first guess of the inverse Hessian is the objective's preconditioner.

    memory: how many steps it remembers; None leaves it to the objective, which knows how good its preconditioner is.
    """

    name = "lbfgs"

    def __init__(self, tol: float = 1e-8, max_iter: int = 1000, memory: int | None = None):
        self.tol = tol
        self.max_iter = max_iter
        self.memory = memory

    def _directions(self, objective: Objective) -> _Directions:
        return _LBFGSDirections(objective, self.memory)


class _NewtonDirections(_Directions):
    newton = True

    def __init__(self, objective: Objective, tol: float, max_inner: int):
        super().__init__(objective, 2)
        self.tol, self.max_inner = tol, max_inner
        self.first: np.ndarray | None = None  # |g|^2 at the start, in the preconditioner's norm
        self.products = 0

    def keep(self, columns: np.ndarray, objective: Objective) -> None:
        super().keep(columns, objective)
        self.first = None if self.first is None else self.first[columns]

    def __call__(self, search: _Search) -> Array:
        precondition = self.precondition
        precondition.at(search.theta, search.evaluations + self.products)
        product = self.objective.hessian(search.theta)
        r = -search.gradient
        z = precondition(r)
        size = dot(r, z)
        self.first = np.maximum(size, 1e-300) if self.first is None else self.first
        # Solve to a residual that shrinks with the gradient, for superlinear convergence, and no further than tol
        # can tell: otherwise the last system, solved only to see that the end is reached, costs the most.
        target = np.maximum(
            np.minimum(0.25, np.sqrt(size / self.first)) ** 2 * size, 1e-3 * self.tol * np.abs(search.value)
        )
        d, p, work = np.zeros_like(r), z.copy(), np.empty_like(r)
        for inner in range(self.max_inner):
            hp = product(p)
            self.products += 1
            curvature = dot(p, hp)
            live = (curvature > 0) & (
                (size > target) | (inner == 0)
            )  # a preconditioner that is wrong here must not end the search
            if not live.any():
                break
            t = np.where(live, size / np.where(live, curvature, 1.0), 0.0)
            d += np.multiply(t, p, out=work)
            r -= np.multiply(t, hp, out=work)
            z = precondition(r)
            new = dot(r, z)
            p *= np.where(live, new / np.where(size > 0, size, 1.0), 0.0)
            p += z
            size = np.where(live, new, size)
        return d


class Newton(Descent):
    """Newton's method; each step solved by preconditioned conjugate gradients on Hessian products, as far as is worth it."""

    name = "newton"
    needs = ("value_and_gradient", "hessian")

    def __init__(self, tol: float = 1e-8, max_iter: int = 100, max_inner: int = 200):
        self.tol = tol
        self.max_iter = max_iter
        self.max_inner = max_inner

    def _directions(self, objective: Objective) -> _Directions:
        return _NewtonDirections(objective, self.tol, self.max_inner)
