"""The base class of hypotheses with a training loop of their own: boosted trees and networks."""

from __future__ import annotations

import copy
import numbers
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from .base import Holdout, Hypothesis, Inputs


@dataclass
class Start:
    """A fitted hypothesis from whose scores another one goes on."""

    hypothesis: Hypothesis
    theta: Any

    def scores(self, inputs: Inputs) -> np.ndarray:
        """At rows that the other one has read."""
        return np.asarray(self.hypothesis.predict(self.theta, self.hypothesis.reads(inputs)), dtype=float)

    def __getstate__(self) -> dict[str, Any]:
        """What predictions need: a kernel's eigenvectors are made anew by a fit."""
        expanded = self.hypothesis.expanded()
        if expanded is self.hypothesis:
            return self.__dict__
        return {"hypothesis": expanded, "theta": self.hypothesis.expand(self.theta)}


class Trained:
    """The fitted parameters of such a hypothesis, in the place of an array theta.

    start: the initial, constant scores. begun: the fit from whose scores it goes on, where there is one. curve: the held-out
    task loss before each round or epoch, and after the last; empty where nothing was held out.
    """

    start: np.ndarray
    begun: Start | None = None
    curve: np.ndarray

    def before(self, inputs: Inputs) -> np.ndarray:
        """The scores at round or epoch zero; constants alone take no memory."""
        if self.begun is not None:
            return self.begun.scores(inputs)
        return np.broadcast_to(self.start, (inputs.shape[0], len(self.start)))


class SelfTrained(Hypothesis):
    """A hypothesis with its own training loop on the risk of scores, and early stopping by held-out task loss.

    `params` are passed on to the underlying library; their names differ from the hyperparameters' own.
    """

    aliases = {"start": "first"}  # Hypothesis.start is a method
    first: Any = None
    fit_intercept: bool
    early_stopping: int | None
    validation_fraction: float
    random_state: int
    params: dict[str, Any]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return {**super().get_params(deep), **self.params}

    def set_params(self, **params: Any) -> Self:
        own = self._get_param_names()
        for name in own:
            if name in params:
                setattr(self, self.aliases.get(name, name), params.pop(name))
        of_start = {name: params.pop(name) for name in list(params) if name.startswith("start__")}
        if of_start and not isinstance(self.first, Hypothesis):
            raise ValueError(
                f"start={self.first!r} is no hypothesis that has parameters: set start to one, such as taskloss.hypotheses.Linear(), before "
                f"{min(of_start)}."
            )
        if of_start:
            self.first.set_params(**{name.removeprefix("start__"): value for name, value in of_start.items()})
        self.params = {**self.params, **params}
        return self

    @property
    def trained(self) -> bool:
        return True

    @property
    def holdout(self) -> Holdout | None:
        if self.early_stopping is not None:
            return Holdout(self.validation_fraction, self.random_state)
        return None if self.begins is None else self.begins.holdout

    # -- another hypothesis to go on from ----------------------------------------------------------------------------

    @property
    def begins(self) -> Hypothesis | None:
        if self.first is None:
            return None
        try:
            return Hypothesis.resolve(self.first)
        except (TypeError, ValueError) as error:
            raise type(error)(f"start is another hypothesis to go on from: {error}") from None

    def beginning_with(self, start: Hypothesis) -> Self:
        other = copy.copy(self)  # bound as this one is
        other.first = start
        return other

    @property
    def default_alpha(self) -> Any:
        return super().default_alpha if self.begins is None else self.begins.default_alpha

    def begin(self, inputs: Inputs, risk: Any, options: Any) -> tuple[np.ndarray, Start | None]:
        """The best constant scores; or zeros, and the start fitted to the same risk."""
        start = self.begins
        if start is None:
            return risk.best_constant() if self.fit_intercept else np.zeros(risk.n_scores), None
        start = start.bind(start.reads(inputs), risk.row_weights)
        return np.zeros(risk.n_scores), Start(start, risk.fitted(start, inputs, options))

    def _check_start(self) -> None:
        if self.begins is not None:
            self.begins.check(type(self).__name__)

    def _check_stopping(self, unit: str) -> None:
        patience = self.early_stopping
        whole = isinstance(patience, numbers.Integral) and not isinstance(patience, bool)
        if patience is not None and not (whole and patience >= 1):
            raise ValueError(f"early_stopping must be a number of {unit}, at least 1, or None, got {patience!r}.")
        if not (isinstance(self.validation_fraction, numbers.Real) and 0 < self.validation_fraction < 1):
            raise ValueError(
                f"validation_fraction must be a share between 0 and 1, got {self.validation_fraction!r}: to judge by data of your own, "
                "pass validation=... to fit."
            )

    def self_trained(self, theta: Trained) -> Trained:
        return theta

    def constants(self, theta: Trained, inputs: int) -> np.ndarray:
        return theta.start if theta.begun is None else theta.begun.hypothesis.constants(theta.begun.theta, inputs)
