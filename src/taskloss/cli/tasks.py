"""What a target asks for: labels, ordered labels, label sets or rankings; found in the data, or said by --task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..data.streams import labels_of, type_of_labels
from ..decisions import find, moments_of
from ..estimators import CostSensitiveClassifier, MultilabelClassifier, OrdinalClassifier, Ranker
from ..losses import Loss
from .output import listed
from .tables import Table, is_missing

_GRADES = 20  # different whole numbers that may be grades
_MOST = 200  # different labels beyond which a column is no target
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
        return np.unique(table.frame[self.group].astype(str).to_numpy(), return_inverse=True)[1]

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
        column = table.frame[self.target[0]]
        words = [str(v) for v in column]
        kind = _TYPES[self.kind]
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
            return pd.DataFrame({name: _truths(table, name) for name in self.target})
        sets = [_parts(value, self.separator) for value in table.frame[self.target[0]]]
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


# -- finding the task --------------------------------------------------------------------------------------------------


def find_task(options: Any, table: Table) -> tuple[Task, str, Table]:
    """The task of a target, why it is that one, and the rows that have a target."""
    target = _split_names(options.target, table)
    table.require(target, "--target")
    table, dropped = (table, 0) if options.separator else _with_target(table, target)  # a set may be empty
    note = f"; {dropped} rows without a target are left out" if dropped else ""
    asked = options.task
    for needs, option, given in (("ordinal", "--order", options.order), ("sets", "--separator", options.separator)):
        if given and asked not in (None, needs):
            raise ValueError(f"{option} is for --task {needs}, and this is --task {asked}.")
    if asked == "sets" or (asked is None and (len(target) > 1 or options.separator)):
        return _sets(target, options, table), "several labels a row" + note, table
    if len(target) > 1:
        raise ValueError(f"--task {asked} has one target, and {len(target)} were named: {listed(target)}.")
    if asked == "ranking" or (asked is None and options.group):
        if not options.group:
            raise ValueError(
                "--task ranking needs --group, the column whose rows compete with each other, such as a query's id."
            )
        table.require([options.group], "--group")
        return Ranking(target, [], group=options.group), f"rows compete within {options.group}" + note, table
    return *_labels(target[0], options, table, note), table


def _with_target(table: Table, target: Sequence[str]) -> tuple[Table, int]:
    missing = np.all([is_missing(table.frame[name]) for name in target], axis=0)
    if missing.all():
        raise ValueError(f"The target {listed(target)} of {table.path} is empty in every row.")
    return (table.rows(~missing) if missing.any() else table), int(missing.sum())


def _labels(name: str, options: Any, table: Table, note: str) -> tuple[Task, str]:
    words = [str(v) for v in table.frame[name]]
    kind = type_of_labels(words)
    values = labels_of(words, kind, f"{table.path}, column {name!r}")
    labels = np.unique(values)
    if len(labels) == 1:
        raise ValueError(
            f"The target {name!r} is {words[0]!r} in all {len(words)} rows of {table.path}: there is nothing to decide."
        )
    numeric = kind is not str
    if len(labels) > (_MOST if options.task or not numeric else _GRADES) or (
        numeric and not options.task and len(labels) > len(words) / 2 > 2
    ):
        if numeric:
            raise ValueError(
                f"The target {name!r} holds {len(labels)} different numbers: this is a regression, and taskloss decides among labels; cut the "
                "numbers into ordered grades first, or pass --task labels if they are codes."
            )
        raise ValueError(
            f"The target {name!r} holds {len(labels)} different words in {len(words)} rows: it is an identifier or text, no label."
        )
    if not numeric and len(labels) > len(words) / 2 > 2:
        raise ValueError(
            f"The target {name!r} holds {len(labels)} different words in {len(words)} rows: too few rows for each to learn from."
        )
    if options.order:
        order = _in_order(options.order, labels.tolist(), name)
        return Ordinal([name], order, kind.__name__, options.group), f"ordered as {' < '.join(map(str, order))}" + note
    named_loss = options.loss in ("absolute", "squared")
    grades = numeric and len(labels) > 2 and not options.costs and options.loss in (None, "absolute", "squared")
    if options.task == "ordinal" or (options.task is None and (grades or named_loss)):
        if not numeric:
            raise ValueError(
                f"The labels of {name!r} are words: say their order, --order {','.join(labels.tolist()[:8])}, from the lowest."
            )
        why = f"the target holds {len(labels)} numbers in order" if options.task is None else "as asked"
        return Ordinal([name], labels.tolist(), kind.__name__, options.group), why + note
    why = "as asked" if options.task else "one label a row"
    return Labels([name], labels.tolist(), kind.__name__, options.group), why + note


def _in_order(text: str, labels: list[Any], name: str) -> list[Any]:
    typed = {str(label): label for label in labels}
    order = [word.strip() for word in text.split(",")]
    if sorted(order) != sorted(typed):
        raise ValueError(
            f"--order must list each label of {name!r} once, from the lowest: {listed(labels)}; got {text!r}."
        )
    return [typed[word] for word in order]


def _sets(target: list[str], options: Any, table: Table) -> Sets:
    if options.separator is None:
        for name in target:
            _truths(table, name)
        return Sets(target, target)
    if len(target) > 1:
        raise ValueError("--separator is for one column of label sets: name one target.")
    labels = sorted({part for value in table.frame[target[0]] for part in _parts(value, options.separator)})
    if len(labels) > _MOST:
        raise ValueError(
            f"The target {target[0]!r} holds {len(labels)} different labels between {options.separator!r}: at most {_MOST} can be learned."
        )
    return Sets(target, labels, separator=options.separator)


def _parts(value: Any, separator: str) -> list[str]:
    return [part.strip() for part in str(value).split(separator) if part.strip()]


def _truths(table: Table, name: str) -> np.ndarray:
    words = np.array([str(v).strip().lower() for v in table.frame[name]])
    bad = ~np.isin(words, [*_TRUE, *_FALSE])
    if bad.any():
        raise ValueError(
            f"The target {name!r} is one of several, and must be 0 or 1 (no or yes) in each row; row {int(bad.argmax()) + 1} of {table.path} holds {words[bad][0]!r}."
        )
    return np.isin(words, _TRUE).astype(int)


def _split_names(given: Sequence[str], table: Table) -> list[str]:
    """Names of columns, each by itself or in a list with commas."""
    return [
        name
        for one in given
        for name in ([one] if one in table.frame.columns else [part.strip() for part in one.split(",")])
    ]
