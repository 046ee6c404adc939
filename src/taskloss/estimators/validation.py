"""Examples held out of a fit, whose task loss says when to stop."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..hypotheses.base import Holdout, Hypothesis
from ..objectives import Monitor, ScoreRisk

NO_USE = "validation is for learners that watch a held-out task loss: use hypothesis=Boosting(early_stopping=...) or Torch(early_stopping=...), or leave it out."


class Judge(NamedTuple):
    """How an estimator judges its own training examples: (scores of some examples, which) -> the task loss of each.

    strata: the label of each example, where labels are to be spread evenly.
    """

    losses: Callable[[Any, np.ndarray], np.ndarray]
    strata: np.ndarray | None = None

    def take(self, examples: np.ndarray) -> Judge:
        """The judge of some of the examples."""
        strata = None if self.strata is None else self.strata[examples]
        return Judge(lambda v, which: self.losses(v, examples[which]), strata)


def hold_out(
    hypothesis: Hypothesis, inputs: Any, risk: ScoreRisk, judge: Judge
) -> tuple[Any, ScoreRisk, Judge, Monitor]:
    """Inputs, risk and judge of the examples that stay, and what watches the others."""
    assert hypothesis.holdout is not None
    examples = np.flatnonzero(risk.weights > 0)
    strata = None if judge.strata is None else judge.strata[examples]
    held = np.zeros(len(examples), dtype=bool)
    held[_drawn(len(examples), strata, hypothesis.holdout)] = True
    stay, which = examples[~held], examples[held]
    if not len(stay) or not len(which):
        raise ValueError(
            f"Early stopping holds out whole examples, and there {'is one' if len(examples) == 1 else f'are {len(examples)}'} only: pass "
            "validation=..., or use early_stopping=None."
        )
    if strata is not None:
        warn_of_lacking(strata, strata[held], "pass validation=..., or raise validation_fraction", stacklevel=5)
    weights = risk.weights[which]
    monitor = Monitor(
        hypothesis.piece(inputs, risk.rows_of(which)),
        lambda v: float(np.average(judge.losses(v, which), weights=weights)),
    )
    return hypothesis.piece(inputs, risk.rows_of(stay)), risk.take(stay), judge.take(stay), monitor


def warn_of_lacking(classes: np.ndarray, held: np.ndarray, remedy: str, stacklevel: int) -> None:
    """Say that some classes are not held out."""
    lacking = np.setdiff1d(classes, held)
    if len(lacking):
        warnings.warn(
            f"The held-out part has no example of {len(lacking)} of the classes, so that its loss says nothing of them: {remedy}.",
            UserWarning,
            stacklevel=stacklevel,
        )


def _drawn(n: int, strata: np.ndarray | None, holdout: Holdout) -> np.ndarray:
    """Which of n examples are held out: of each stratum its share, rounded at random, and never all."""
    rng = np.random.default_rng(holdout.seed)
    if strata is None:
        return rng.permutation(n)[: max(1, round(holdout.share * n))]
    order = rng.permutation(n)
    order = order[np.argsort(strata[order], kind="stable")]
    sizes = np.unique(strata, return_counts=True)[1]
    counts = np.minimum(np.floor(holdout.share * sizes + rng.random(len(sizes))).astype(int), sizes - 1)
    firsts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    drawn = [order[a : a + c] for a, c in zip(firsts, counts, strict=True)]
    return np.concatenate(drawn) if counts.sum() else order[np.argmax(np.repeat(sizes, sizes))][None]


def given_monitor(hypothesis: Hypothesis, inputs: Any, losses: Callable[[Any], np.ndarray]) -> Monitor:
    """What watches data that the user holds out."""
    if not hypothesis.trained:
        raise ValueError(NO_USE)
    return Monitor(inputs, lambda v: float(np.mean(losses(v))))


def held_parts(validation: Any, *forms: str) -> tuple[Any, ...]:
    """The parts of users' validation data, in one of the forms that they may have."""
    forms = forms or ("(X, y)",)
    counts = [form.count(",") + 1 for form in forms]
    if not isinstance(validation, tuple | list) or len(validation) not in counts:
        many = f" of {len(validation)}" if isinstance(validation, tuple | list) else ""
        raise ValueError(
            f"validation must be held-out data {' or '.join(forms)}, got {type(validation).__name__}{many}."
        )
    return tuple(validation)
