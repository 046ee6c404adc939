"""What a threshold does to decisions: answers are left out where they are expected to cost more, or made larger until they cost less."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np

from .._checks import check_lengths
from ..data.weights import example_weights
from ..estimators.weighing import Table
from .steps import Steps, is_taken


class Read(NamedTuple):
    """What was decided for inputs: the number of examples, the example and the threshold of each step, and what else the knob knows."""

    n: int
    row: np.ndarray
    at: np.ndarray
    more: Any


class Knob:
    """A family of decisions with one threshold, for a fitted estimator and a loss.

    What holds for all examples, before any label is seen:
    partial : whether some of an answer is left out (else it is made larger); rising : whether bolder thresholds are higher.
    low, high : bounds on the loss per unit answered. whole : whether answers are whole examples. binary : whether their loss is low or high.
    top : the largest threshold that makes a difference.
    """

    word: ClassVar[str]  # what is answered, for the summary
    partial: ClassVar[bool] = True
    rising: ClassVar[bool] = True
    whole: bool = True
    binary: bool = False
    low: float
    high: float

    def __init__(self, face: Any, loss: Any, bounds: tuple[float, float] | None = None):
        self.face, self.loss = face, loss
        self.low, self.high = loss.range() if bounds is None else bounds

    @property
    def top(self) -> float:
        return self.high

    def read(self, X: Any, params: dict[str, Any]) -> Read:
        """Decide for inputs."""
        raise NotImplementedError

    def losses(self, read: Read, y: Any) -> tuple[Any, Any, np.ndarray, np.ndarray]:
        """(losses and amounts at the safest threshold, what each step adds to either)."""
        raise NotImplementedError

    def outputs(self, read: Read, taken: np.ndarray) -> Any:
        """The users' outputs where these steps are taken."""
        raise NotImplementedError

    def weights(self, read: Read, sample_weight: Any) -> np.ndarray:
        """One weight for each example."""
        return example_weights(sample_weight, read.n)

    def clipped(self, at: np.ndarray) -> np.ndarray:
        """Expectations of models that are no laws, brought to where losses can be."""
        return np.clip(at, min(self.low, self.top), self.top)

    def steps(self, read: Read, y: Any, sample_weight: Any = None) -> Steps:
        """The losses of examples as functions of the threshold."""
        weights = self.weights(read, sample_weight)
        cost, amount, dcost, damount = self.losses(read, y)
        cost, amount = (np.broadcast_to(np.asarray(v, dtype=float), read.n) for v in (cost, amount))
        counted = weights > 0
        found = Steps(
            cost=cost,
            amount=amount,
            row=read.row,
            at=self.clipped(read.at),
            dcost=dcost,
            damount=damount,
            rising=self.rising,
            partial=self.partial,
            low=self.low,
            high=self.high,
            whole=self.whole,
            binary=self.binary,
            weights=weights,
        )
        return found if counted.all() else found.take(np.flatnonzero(counted))

    def at_threshold(self, read: Read, threshold: float) -> Any:
        """The users' outputs."""
        return self.outputs(read, is_taken(self.clipped(read.at), threshold, self.rising))


class Abstain(Knob):
    """No answer where the expected loss is above the threshold. A child gives `decided`, `realised` and `named`."""

    word = "examples answered"

    def read(self, X: Any, params: dict[str, Any]) -> Read:
        expected, more = self.decided(X, params)
        return Read(len(expected), np.arange(len(expected)), expected, more)

    def losses(self, read: Read, y: Any) -> tuple[Any, Any, np.ndarray, np.ndarray]:
        return 0.0, 0.0, self.realised(read.more, y), np.ones(read.n)

    def outputs(self, read: Read, taken: np.ndarray) -> Any:
        return self.named(read.more, taken)

    def decided(self, X: Any, params: dict[str, Any]) -> tuple[np.ndarray, Any]:
        """The expected loss of each example's output, and what the output is known by."""
        raise NotImplementedError

    def realised(self, more: Any, y: Any) -> np.ndarray:
        """The loss of each example's output."""
        raise NotImplementedError

    def named(self, more: Any, kept: np.ndarray) -> Any:
        """The users' outputs, None where an example is not kept."""
        raise NotImplementedError


class AbstainFromRows(Abstain):
    """Whatever `KernelPredictor` predicts, or nothing."""

    def __init__(self, face: Any, loss: Any, bounds: tuple[float, float] | None = None):
        self.face, self.given = face, loss
        self.task = face._fitted if loss is None else face._weighing(loss, face._y)
        self.loss = self.task.loss
        if bounds is None and self.loss.takes_objects:
            if not isinstance(self.loss.function, Table):
                raise ValueError(
                    f"{self.loss.function!r} is a function, which may be larger on labels that are still to come: give bounds=(least, largest)."
                )
            bounds = self.loss.function.loss.range()
        self.low, self.high = self.loss.range() if bounds is None else bounds

    def decided(self, X: Any, params: dict[str, Any]) -> tuple[np.ndarray, Any]:
        z = self.face.predict(X, loss=self.given, **params)
        return self.face.expected_loss(X, loss=self.given, **params), z

    def realised(self, more: Any, y: Any) -> np.ndarray:
        check_lengths(len(more), y)
        return self.task.losses(more, y)

    def named(self, more: Any, kept: np.ndarray) -> Any:
        return answers(more, kept)


def answers(values: Any, kept: np.ndarray) -> np.ndarray:
    """Values one by one, None where they are not kept."""
    out = np.empty(len(kept), dtype=object)
    listed = (
        values if isinstance(values, list) else list(values) if np.ndim(values) > 1 else np.asarray(values).tolist()
    )
    for i in np.flatnonzero(kept).tolist():
        out[i] = listed[i]
    return out
