"""What a solver returns, and how it says where it is."""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from ..progress import Progress
from ..registry import Part

Array = Any

_STALLED_GAP = 1e-4  # the relative gap below which a search that rounding has stopped counts as converged


class Sides(NamedTuple):
    """What the gradient in the parameters that are not penalised stands for, problem by problem.

    step: Newton's, in these parameters alone, in the shape of theta. decrement: the gradient times the step, twice what is left to gain in
    them by Newton's model. bend: how far the step may turn the rest of the gradient at the most, in its norm.
    """

    step: Array
    decrement: np.ndarray
    bend: np.ndarray


class Objective(ABC):
    """A smooth convex function of theta whose columns are independent problems: all that a solver sees.

    refresh: after how many steps the preconditioner is worth making anew. memory: how many steps it leaves worth remembering.
    matrices_pay: whether Newton's steps are worth their price, each solved with `hessian_matrices`.
    """

    refresh: int = 12
    memory: int = 10
    hessian: Any  # theta -> (direction -> second derivative times direction), where there is one

    @abstractmethod
    def value_and_gradient(self, theta: Array) -> tuple[np.ndarray, Array]:
        """One value for each column, and the gradient."""

    def preconditioner(self, theta: Array, evaluations: int = 0) -> Callable[[Array], Array]:
        """An approximate inverse Hessian at theta; it may cost about as much as the evaluations so far."""
        return lambda gradient: gradient

    @property
    def matrices_pay(self) -> bool:
        return False

    def hessian_matrices(self, theta: Array) -> np.ndarray:
        """The Hessian of each column at theta, (columns, parameters, parameters)."""
        raise NotImplementedError

    def coarsen(self) -> bool:
        """Compute in single precision until `refine`; False where that is no quicker."""
        return False

    def refine(self) -> bool:
        """Compute in double precision from now on; False where it does already."""
        return False

    def columns(self, some: np.ndarray) -> Objective | None:
        """The objective of these columns alone; None where they cannot be had for less than all."""
        return None

    def sides(self, theta: Array, gradient: Array) -> Sides | None:
        """What the gradient in the parameters that are not penalised stands for; None where no bound on f - min f is known."""
        return None

    def certified(self, gradient: Array, sides: Sides) -> np.ndarray:
        """A bound on f - min f of each column, where `sides` are known."""
        raise NotImplementedError

    def slack(self, gradient: Array) -> np.ndarray:
        """The bound as it were if nothing were left in the parameters that are not penalised."""
        return np.full(gradient.shape[1], np.inf)


@dataclass(frozen=True)
class RidgeForm:
    """f(A, b) = sum_i w_i |z_i A + b - t_i|^2 / 2 + alpha/2 |A|^2 in principal coordinates z: what a closed form needs.

    The coordinates are uncorrelated under the weights w, which sum to one: their second moments are the diagonal `moments`
    (r,). With an intercept b they have mean zero, and without one b is zero.

    correlations: sum_i w_i z_i (t_i - mean)', (r, k). mean: of the targets t, or zero without an intercept.
    coordinates(rows): z of a block of examples. theta(A, b): the same point as the objective's parameters, and
    pullback(gradient) its adjoint: the derivatives in A and b from those in theta.
    """

    alpha: float
    moments: np.ndarray
    correlations: np.ndarray
    mean: np.ndarray
    targets: np.ndarray
    weights: np.ndarray
    fit_intercept: bool
    coordinates: Callable[[slice], np.ndarray]
    theta: Callable[[np.ndarray, np.ndarray], Array]
    pullback: Callable[[Array], tuple[np.ndarray, np.ndarray]]

    def minimiser(self, alpha: float | None = None) -> Array:
        """theta at A = correlations / (moments + alpha) and b = mean, at the form's own alpha or another."""
        alpha = self.alpha if alpha is None else alpha
        return self.theta(self.correlations / (self.moments + alpha)[:, None], self.mean)


class Status(enum.Enum):
    """How a solver ended; the value is the sentence to show."""

    CONVERGED = "Converged: the estimated gap to the minimum is within tol."
    STALLED = (
        "Stopped: no step decreases the objective any further in this floating-point precision; where the gap is large, scale the "
        "features, give them in double precision, or choose a surrogate without kinks."
    )
    MAX_ITER = (
        "Stopped at max_iter before the gap was within tol: raise max_iter or tol, raise alpha, or scale the features."
    )
    PASSED = "Done: one pass over the data, whose bound is in expectation and needs no check at the end."
    GROWN = "Done: all rounds were taken."
    TRAINED = "Done: all epochs were taken."
    STOPPED_EARLY = "Done: the held-out task loss no longer improved, and the parameters at its best are kept."
    INTERRUPTED = "Interrupted: the best parameters so far are on the exception, as .solution."


_DONE = (Status.CONVERGED, Status.PASSED, Status.GROWN, Status.TRAINED, Status.STOPPED_EARLY)


@dataclass(frozen=True)
class Solution:
    """The best parameters found, and how good they are.

    optimality: an estimate of f - min f, relative to f. bound: a number that f - min f does not exceed, relative to f; infinite where
    none is known.

    Notes
    -----
    f is alpha-strongly convex in what is penalised, w, and so is its least value over the rest, b. Where the gradient in b is zero,

        f(w, b) - min f <= |gradient in w|^2 / (2 alpha).

    A search ends with Newton's step in b where there is anything to gain, and what rounding and the step's error leave is counted by
    Newton's model: to second order, and above 4,096 rows with the curvature of a sample, so that this part is no proof. No bound is known without a penalty (alpha = 0), where the risk is not convex, where b is fitted and the
    curvature in b is not known (sequences with intercepts), after single passes, and of trees and networks.
    """

    theta: Array
    value: float
    status: Status
    iterations: int
    evaluations: int
    optimality: float
    bound: float = np.inf

    def __getstate__(self) -> dict[str, Any]:
        """The status by its name: model files hold no enumerations."""
        return {**self.__dict__, "status": self.status.name}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, status=Status[state["status"]])

    @property
    def converged(self) -> bool:
        stalled_low = self.status is Status.STALLED and self.optimality <= _STALLED_GAP
        return stalled_low or self.status in _DONE


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during a fit; `solution` holds the best parameters so far."""

    def __init__(self, solution: Solution):
        super().__init__(solution.status.value)
        self.solution = solution


class Solver(Part):
    """Minimises an objective from a starting point. A solver is data: tolerances, and what it needs of an objective."""

    needs: ClassVar[tuple[str, ...]] = ("value_and_gradient",)
    streams: ClassVar[bool] = False  # whether it takes examples as they come
    tol: float = 0.0  # the relative gap at which it stops, where it looks for one

    def minimise(self, objective: Objective, theta: Array, progress: Progress | None = None) -> Solution:
        raise NotImplementedError

    def within(self, tol: float, max_iter: int) -> Self:
        """The same solver with these limits, where it has such."""
        return self

    def check(self, objective: Any) -> None:
        """One sentence about what the objective lacks."""
        missing = [need for need in self.needs if not hasattr(objective, need)]
        if missing:
            raise ValueError(
                f"The {self.name} solver needs the objective's {' and '.join(missing)}, which this one does not have."
            )
