"""Which task a target asks for, found in its values or said by --task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..data.streams import labels_of, type_of_labels
from .output import listed
from .tables import Table, is_missing
from .tasks import Labels, Ordinal, Ranking, Sets, Task, parts_of, truths_of

_MOST = 200  # different labels beyond which a column is no target
_GRADES = 20  # different whole numbers that may be grades


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
    words = [str(v).strip() for v in table.frame[name]]
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
            truths_of(table, name)
        return Sets(target, target)
    if len(target) > 1:
        raise ValueError("--separator is for one column of label sets: name one target.")
    labels = sorted({part for value in table.frame[target[0]] for part in parts_of(value, options.separator)})
    if not labels:
        raise ValueError(f"The target {target[0]!r} of {table.path} is empty in every row.")
    if len(labels) > _MOST:
        raise ValueError(
            f"The target {target[0]!r} holds {len(labels)} different labels between {options.separator!r}: at most {_MOST} can be learned."
        )
    return Sets(target, labels, separator=options.separator)


def _split_names(given: Sequence[str], table: Table) -> list[str]:
    """Names of columns, each by itself or in a list with commas."""
    return [
        name
        for one in given
        for name in ([one] if one in table.frame.columns else [part.strip() for part in one.split(",")])
    ]
