"""The base class of hypotheses with a training loop of their own: boosted trees and networks."""

from __future__ import annotations

import numbers
from typing import Any, Self

import numpy as np

from .base import Holdout, Hypothesis


class Trained:
    """The fitted parameters of such a hypothesis, in the place of an array theta.

    start: the initial, constant scores. curve: the held-out task loss before each round or epoch, and
    after the last; empty where nothing was held out.
    """

    start: np.ndarray
    curve: np.ndarray


class SelfTrained(Hypothesis):
    """A hypothesis with its own training loop on the risk of scores, and early stopping by held-out task loss.

    `params` are passed on to the underlying library; their names differ from the hyperparameters' own.
    """

    early_stopping: int | None
    validation_fraction: float
    random_state: int
    params: dict[str, Any]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return {**super().get_params(deep), **self.params}

    def set_params(self, **params: Any) -> Self:
        own = self._get_param_names()
        self.params = {**self.params, **{name: value for name, value in params.items() if name not in own}}
        for name in own:
            if name in params:
                setattr(self, name, params[name])
        return self

    @property
    def trained(self) -> bool:
        return True

    @property
    def holdout(self) -> Holdout | None:
        return None if self.early_stopping is None else Holdout(self.validation_fraction, self.random_state)

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
        return theta.start
