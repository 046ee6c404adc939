"""A preconditioner that serves several steps of a search."""

from __future__ import annotations

import numpy as np

from .base import Array, Objective


class LastingPreconditioner:
    """The objective's preconditioner, made at the start and anew after `every` iterations, then after twice as many, and so on.

    Curvature changes on the way: a problem that is still not solved is worth a better guess of it. When columns leave, those that stay
    go on with what was made for all, and as soon as they are fewer than a quarter of these it is made for them alone.
    """

    def __init__(self, objective: Objective, every: int):
        self.make = objective.preconditioner
        self.next, self.every, self.iteration = 0, every, 0
        self.here: np.ndarray | None = None  # the columns that stay, of those it was made for

    def at(self, theta: Array, evaluations: int) -> None:
        if self.iteration == self.next:
            self.apply, self.here, self.of = self.make(theta, evaluations), None, theta.shape[1]
            self.next = max(self.every, 2 * self.iteration)
        self.iteration += 1

    def keep(self, columns: np.ndarray, objective: Objective) -> None:
        self.make = objective.preconditioner
        self.here = columns if self.here is None else self.here[columns]
        if 4 * len(columns) < self.of:
            self.next = self.iteration

    def __call__(self, gradient: Array) -> Array:
        if self.here is None:
            return self.apply(gradient)
        full = np.zeros((len(gradient), self.of))
        full[:, self.here] = gradient
        return self.apply(full)[:, self.here]
