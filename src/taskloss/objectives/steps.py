"""Gradient and diagonal curvature of a risk, block by block, for learners that take one Newton step a round."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..parallel import Executor
from .scores import NewtonStep, ScoreRisk

_BLOCK_BYTES = 1 << 22  # a block's scores and the surrogate's temporaries stay in a core's cache
_TEMPORARIES = 8  # arrays of the scores' size that an evaluation makes
_EXP = 16  # multiplications in the time of one exponential


class Steps:
    """scores (rows, k) -> NewtonStep, with derivatives in memory of its own that the next call overwrites.

    The derivatives are scaled so that rows weigh one on average: to that the penalties of libraries of trees, and their least sum of
    second derivatives in a leaf, refer. They lie score by score (in Fortran's order), which LightGBM reads without a copy.
    """

    def __init__(self, risk: ScoreRisk, factor: float = 1.0):
        n, k = risk.n_rows, risk.n_scores
        self.risk, self.factor = risk, factor
        self.scale = n / float(risk.row_weights.sum())
        self.executor = Executor.for_work(max(_EXP * n * k, risk.work))
        rows = max(256, _BLOCK_BYTES // (8 * _TEMPORARIES * k)) if risk.cuts_freely else -(-n // self.executor.threads)
        cuts = [slice(0, risk.n_examples)] if rows >= n else risk.cut(rows)
        self.parts = [(risk.rows_of(some), risk if len(cuts) == 1 else risk.take(some)) for some in cuts]
        self.gradient, self.curvature = (np.empty((n, k), np.float32, order="F") for _ in range(2))

    def __call__(self, v: Any) -> NewtonStep:
        inner = self.executor if len(self.parts) == 1 else self.executor.inner

        def work(part: tuple[Any, ScoreRisk]) -> np.ndarray:
            rows, risk = part
            scores = np.array(v[rows], dtype=float)
            value, gradient = risk.risk_and_gradient(scores, executor=inner)
            curvature = risk.diagonal(scores, gradient)
            np.multiply(gradient, self.scale, out=self.gradient[rows], casting="unsafe")
            np.multiply(curvature, self.scale * self.factor, out=self.curvature[rows], casting="unsafe")
            return value.sum()

        value = self.executor.sum(work, self.parts)
        return NewtonStep(float(value) + self.risk.constant, self.gradient, self.curvature)
