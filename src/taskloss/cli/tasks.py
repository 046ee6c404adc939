"""What a target asks for: labels, ordered labels, label sets or rankings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..data.columns import whole
from ..data.streams import labels_of, type_of_labels
from ..decisions import find, moments_of
from ..estimators import CostSensitiveClassifier, MultilabelClassifier, OrdinalClassifier, Ranker
from ..losses import Loss
from .tables import Table, is_missing

_TRUE, _FALSE = ("1", "true", "yes", "1.0"), ("0", "false", "no", "0.0")
_TYPES = {"int": int, "float": float, "str": str}


@dataclass(frozen=True)
class Task:
    """What is predicted: the target's columns, its labels, and the column of groups where there is one.

    kind: the type of the labels, "int", "float" or "str". All fields are words and lists, which a model's file holds.
    """

    target: list[str]
    labels: list[Any]
    kind: str = "str"
    group: str | None = None
    separator: str | None = None

    name: ClassVar[str]
    losses: ClassVar[str] = "classes"  # the kind of its losses
    default_loss: ClassVar[str]
    unit: ClassVar[str] = "row"
    likeliest: ClassVar[str] = "the likeliest label"
    constant: ClassVar[str] = "the best constant decision"

    def card(self) -> dict[str, Any]:
        return {"task": self.name, **vars(self)}

    @property
    def used(self) -> list[str]:
        """Columns that nothing is learned from."""
        return [*self.target, *([self.group] if self.group else [])]

    def estimator(self, loss: Loss, hypothesis: Any, alpha: Any) -> Any:
        raise NotImplementedError

    def read(self, table: Table) -> Any:
        """The labels of a table's rows, as the estimator takes them."""
        raise NotImplementedError

    def groups(self, table: Table) -> np.ndarray | None:
        if self.group is None:
            return None
        table.require([self.group], "--group")
        missing = is_missing(table.frame[self.group])
        if missing.any():
            raise ValueError(
                f"The column {self.group!r} of {table.path} must name the group of each row, and is empty in row {int(missing.argmax()) + 1}."
            )
        found = np.unique(table.frame[self.group].astype(str).to_numpy(), return_inverse=True)[1]
        if self.unit == "group" and found.max() + 1 == len(found):
            raise ValueError(
                f"Every row of {table.path} is alone in its group of {self.group!r}: there is nothing to rank."
            )
        return found

    def describe(self, y: Any) -> str:
        counts = {label: int(np.sum(y == label)) for label in self.labels}
        return (
            f"{len(self.labels)} labels: "
            + ", ".join(f"{k} {v}" for k, v in list(counts.items())[:8])
            + (", ..." if len(counts) > 8 else "")
        )

    def judge(self, model: Any, X: Any, y: Any, groups: Any = None, loss: Any = None) -> dict[str, np.ndarray]:
        """The loss of each row (of each group for rankings): of the model's decisions, "model", and of simpler ones."""
        raise NotImplementedError

    def decide(self, model: Any, X: Any, groups: Any, loss: Any, proba: bool) -> dict[str, Any]:
        """Columns of a file of decisions."""
        raise NotImplementedError


class Labels(Task):
    """One label a row, without an order."""

    name = "labels"
    default_loss = "zero-one"

    def estimator(self, loss: Loss, hypothesis: Any, alpha: Any) -> Any:
        return CostSensitiveClassifier(loss, hypothesis=hypothesis, alpha=alpha)

    def read(self, table: Table) -> np.ndarray:
        table.require(self.target, "--target")
        words = [str(v).strip() for v in table.frame[self.target[0]]]
        kind = _TYPES[self.kind]
        words = [whole(word) for word in words] if kind is int else words
        found = type_of_labels(words)
        if kind is not str and found is not kind and not (kind is float and found is int):
            return np.array(words, dtype=object)  # none of them is a label that the model knows
        return labels_of(words, kind, f"{table.path}, column {self.target[0]!r}")

    def judge(self, model: Any, X: Any, y: Any, groups: Any = None, loss: Any = None) -> dict[str, np.ndarray]:
        mu, loss, labels = moments_of(model, loss, X=X)
        matrix, z = loss.matrix(), loss.decode(mu)
        likeliest = loss.probabilities(mu).argmax(1)
        known = np.isin(y, labels.classes)
        truth = labels.encode(y[known])
        constant = int(matrix[:, truth].mean(1).argmin()) if known.any() else 0
        ways = {"model": z, "likeliest": matrix.argmin(0)[likeliest], "constant": np.full(len(z), constant)}
        return {name: labels.losses(loss, way, y) for name, way in ways.items()}

    def decide(self, model: Any, X: Any, groups: Any, loss: Any, proba: bool) -> dict[str, Any]:
        mu, loss, labels = moments_of(model, loss, X=X)
        z = loss.decode(mu)
        found = {self.target[0]: labels.translate(z, loss), "expected_cost": loss.risk(z, mu)}
        if proba:
            q = loss.probabilities(mu)
            found |= {f"P({label})": q[:, j] for j, label in enumerate(labels.classes.tolist())}
        return found


class Ordinal(Labels):
    """One label a row, in an order."""

    name = "ordinal"
    default_loss = "absolute"

    def estimator(self, loss: Loss, hypothesis: Any, alpha: Any) -> Any:
        return OrdinalClassifier(loss, hypothesis=hypothesis, alpha=alpha, order=self.labels)


class Sets(Task):
    """A set of labels a row: in columns of their own, or in one column with a separator."""

    name = "sets"
    losses = "indicator"
    default_loss = "hamming"
    likeliest = "each label that is likelier than not"
    constant = "the best constant set"

    def estimator(self, loss: Loss, hypothesis: Any, alpha: Any) -> Any:
        return MultilabelClassifier(loss, hypothesis=hypothesis, alpha=alpha)

    def read(self, table: Table) -> Any:
        import pandas as pd

        table.require(self.target, "--target")
        if self.separator is None:
            return pd.DataFrame({name: truths_of(table, name) for name in self.target})
        sets = [parts_of(value, self.separator) for value in table.frame[self.target[0]]]
        return pd.DataFrame({label: [int(label in one) for one in sets] for label in self.labels})

    def describe(self, y: Any) -> str:
        counts = [f"{label} {int(y[label].sum())}" for label in self.labels[:8]]
        return f"{len(self.labels)} labels in sets of {y.to_numpy().sum(1).mean():.2f} on average: " + ", ".join(counts)

    def judge(self, model: Any, X: Any, y: Any, groups: Any = None, loss: Any = None) -> dict[str, np.ndarray]:
        mu, loss, labels = moments_of(model, loss, X=X)
        q, codes = loss.probabilities(mu), labels.encode(y)
        by_share = np.argsort(-codes.mean(0), kind="stable")
        prefixes = [np.isin(np.arange(len(by_share)), by_share[:r]).astype(np.int8) for r in range(len(by_share) + 1)]
        constants = [np.broadcast_to(z, codes.shape) for z in prefixes]
        best = min(constants, key=lambda z: float(loss(z, codes).mean()))
        ways = {"model": loss.decode(mu), "likeliest": (q > 0.5).astype(np.int8), "constant": best}
        return {name: loss(z, codes) for name, z in ways.items()}

    def decide(self, model: Any, X: Any, groups: Any, loss: Any, proba: bool) -> dict[str, Any]:
        mu, loss, labels = moments_of(model, loss, X=X)
        z, names = loss.decode(mu), [str(name) for name in labels.classes]
        if self.separator is None:
            found: dict[str, Any] = {name: z[:, j] for j, name in enumerate(names)}
        else:
            found = {
                self.target[0]: [self.separator.join(n for n, on in zip(names, row, strict=True) if on) for row in z]
            }
        found["expected_cost"] = loss.risk(z, mu)
        if proba:
            q = loss.probabilities(mu)
            found |= {f"P({name})": q[:, j] for j, name in enumerate(names)}
        return found


class Ranking(Task):
    """Rows of a group in an order, by their relevance."""

    name = "ranking"
    losses = "ranking"
    default_loss = "ndcg"
    unit = "group"
    constant = "a random order"

    def estimator(self, loss: Loss, hypothesis: Any, alpha: Any) -> Any:
        return Ranker(loss, hypothesis=hypothesis, alpha=alpha)

    def read(self, table: Table) -> np.ndarray:
        table.require(self.target, "--target")
        words = [str(v) for v in table.frame[self.target[0]]]
        if type_of_labels(words) is str:
            raise ValueError(
                f"The target {self.target[0]!r} of rankings must hold numbers, the relevance of each row; {table.path} has words in it."
            )
        return np.array([float(word) for word in words])

    def describe(self, y: Any) -> str:
        return f"relevance from {y.min():g} to {y.max():g}"

    def judge(self, model: Any, X: Any, y: Any, groups: Any = None, loss: Any = None) -> dict[str, np.ndarray]:
        face, inputs = find(model, X)
        return {"model": face.group_losses(inputs, y, groups, loss), "constant": _random_order(face, y, groups, loss)}

    def decide(self, model: Any, X: Any, groups: Any, loss: Any, proba: bool) -> dict[str, Any]:
        face, inputs = find(model, X)
        return {"rank": face.predict(inputs, groups, loss) + 1, "score": face.predict_scores(inputs).ravel()}


TASKS: dict[str, type[Task]] = {task.name: task for task in (Labels, Ordinal, Sets, Ranking)}


def from_card(card: Any) -> Task:
    """The task that a model's file holds."""
    fields = dict(card)
    return TASKS[fields.pop("task")](**fields)


def _random_order(face: Any, y: np.ndarray, groups: Any, loss: Any) -> np.ndarray:
    """The mean loss of each group over all orders: that of any order where gains are spread evenly."""
    judge, found = face._loss_for(loss), face._groups(groups, len(y))
    out = np.empty(len(found))
    for size, which, rows in found.by_size():
        bound = judge.bind(size)
        gains = bound.phi(y[rows])
        out[which] = bound.bayes_risk(
            np.tile(np.arange(size), (len(rows), 1)), np.repeat(gains.mean(1)[:, None], size, 1)
        )
    return out


def parts_of(value: Any, separator: str) -> list[str]:
    return [part.strip() for part in str(value).split(separator) if part.strip()]


def truths_of(table: Table, name: str) -> np.ndarray:
    words = np.array([str(v).strip().lower() for v in table.frame[name]])
    bad = ~np.isin(words, [*_TRUE, *_FALSE])
    if bad.any():
        raise ValueError(
            f"The target {name!r} is one of several, and must be 0 or 1 (no or yes) in each row; row {int(bad.argmax()) + 1} of {table.path} holds {str(words[bad][0])!r}."
        )
    return np.isin(words, _TRUE).astype(int)
