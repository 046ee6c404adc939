"""A few examples at a time, for solvers that take a step on each."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..hypotheses.base import Hypothesis, Inputs, Scores
from .scores import ScoreRisk

Array = Any


class Chunk:
    """A few examples with their features in coordinates, and the gradient of their risk, without a penalty, on any of them.

    scale: what the risk's weights are multiplied with, so that they are one on average.
    """

    kappa: float

    def __init__(self, hypothesis: Hypothesis, inputs: Inputs, risk: ScoreRisk, scale: float = 1.0):
        self.hypothesis, self.risk, self.scale = hypothesis, risk, scale
        self.features = hypothesis.coordinates(inputs)
        self.shape = hypothesis.start(inputs, np.zeros(risk.n_scores)).shape
        rows = hypothesis.squared_norms(self.features)
        self.kappa = float(np.sqrt(risk.example_sums(rows).max()))

    def __len__(self) -> int:
        return self.risk.n_examples

    @property
    def smoothness(self) -> float | None:
        return self.risk.smoothness

    @property
    def slope(self) -> float:
        """The largest norm of the gradient in score space at the score zero."""
        return self.scale * float(self.risk.slopes().max()) if len(self) else 0.0

    def gradient(self, theta: Array, examples: slice) -> Array:
        """The gradient in theta of the mean risk of some of the examples."""
        f = self.hypothesis.piece(self.features, self.risk.rows_of(examples))
        dv = self.score_gradient(self.hypothesis.scores(theta.reshape(self.shape), f), examples)
        return self.hypothesis.pullback(f, dv).reshape(theta.shape) / len(range(len(self))[examples])

    def score_gradient(self, v: Scores, examples: slice) -> Scores:
        """Weighted gradients in score space."""
        risk = self.risk if examples == slice(None) else self.risk.take(examples)
        return risk.risk_and_gradient(v)[1] * self.scale
