"""taskloss predict, evaluate and report: a model's file at work."""

from __future__ import annotations

import argparse
import csv
import json
import sys
import zipfile
from typing import Any

import numpy as np

from ..data.columns import Columns
from ..losses import Loss
from ..losses.base import name_array
from . import judging
from .command import Command, add_loss, add_reading, add_writing
from .costs import make_loss, says_a_loss
from .output import Output, check_place, counted, listed, written
from .tables import Table, is_missing, read_table
from .tasks import Task, from_card


def _load(path: str) -> tuple[Any, Task, Columns]:
    """A model that `taskloss fit` has written, its task and the columns that it reads."""
    from ..model_files import load

    try:
        model = load(path)
    except ValueError as error:
        if isinstance(error.__cause__, zipfile.BadZipFile | KeyError | json.JSONDecodeError):
            raise ValueError(f"{path} is no model that `taskloss fit` has written.") from error
        raise ValueError(str(error) if path in str(error) else f"{path}: {error}") from error
    columns = getattr(model, "steps", [("", None)])[0][1]
    if not isinstance(columns, Columns) or columns.target is None:
        raise ValueError(
            f"{path} holds a {type(model).__name__} that does not say how to read a file of rows: only models that `taskloss fit` has written do."
        )
    return model, from_card(columns.target), columns


def _read(options: Any) -> Table:
    return read_table(options.data, options.delimiter, options.encoding)


def _groups(task: Task, table: Table) -> Any:
    return task.groups(table) if task.losses == "ranking" else None


def _other_loss(options: Any, task: Task, model: Any) -> Loss | None:
    """The loss that the options say, to the model's own where they add to it, or None for that one as it is."""
    return make_loss(options, task.losses, task.labels, model[-1].loss_) if says_a_loss(options) else None


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="a file that taskloss fit has written")
    parser.add_argument(
        "data",
        metavar="DATA",
        help="a file of rows, with the columns that the model was fitted on; - is standard input",
    )


# -- predict -----------------------------------------------------------------------------------------------------------


def _predict_arguments(parser: argparse.ArgumentParser) -> None:
    _arguments(parser)
    add_writing(parser, "a CSV file to write (default: standard output)", required=False)
    parser.add_argument(
        "--keep",
        metavar="COLUMN",
        action="append",
        default=[],
        help="columns of DATA to write beside the decisions, such as an id",
    )
    parser.add_argument("--proba", action="store_true", help="write the probability of each label, too")
    add_loss(parser)
    add_reading(parser)


def _predict(options: Any, out: Output) -> Any:
    if options.output is not None:
        check_place(options.output, options.force)
    model, task, columns = _load(options.model)
    table = _read(options)
    table.require(options.keep, "--keep")
    frame, groups, loss = table.read(columns), _groups(task, table), _other_loss(options, task, model)
    found = {name: table.frame[name].tolist() for name in options.keep}
    for name, values in task.decide(model, frame, groups, loss, options.proba).items():
        found[f"predicted_{name}" if name in found else name] = values
    rows = list(zip(*(_cells(values) for values in found.values()), strict=True))
    if options.json and options.output is None:
        return [dict(zip(found, row, strict=True)) for row in zip(*found.values(), strict=True)]
    if options.output is None:
        _write(sys.stdout, list(found), rows)
        return None
    with (
        written(options.output, options.force) as temporary,
        open(temporary, "w", newline="", encoding="utf-8") as file,
    ):
        _write(file, list(found), rows)
    out.say(f"{options.output} is written: {counted(len(rows), 'row')}, columns {listed(list(found))}.")
    return {"output": options.output, "rows": len(rows), "columns": list(found)}


def _cells(values: Any) -> list[str]:
    values = values.tolist() if hasattr(values, "tolist") else values
    return [f"{v:.6g}" if isinstance(v, float) else str(v) for v in values]


def _write(file: Any, names: list[str], rows: list[tuple[str, ...]]) -> None:
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(names)
    writer.writerows(rows)


# -- evaluate ----------------------------------------------------------------------------------------------------------


def _evaluate_arguments(parser: argparse.ArgumentParser) -> None:
    _arguments(parser)
    add_loss(parser)
    add_reading(parser)


def _known(options: Any, task: Task) -> Table:
    """The rows of a file that have a target."""
    table = _read(options)
    table.require(task.target, "The model's target")
    if task.separator is not None:  # a set may be empty
        return table
    missing = np.all([is_missing(table.frame[name]) for name in task.target], axis=0)
    if missing.all():
        raise ValueError(
            f"No row of {table.path} has a target in {listed(task.target)}: there is nothing to compare with."
        )
    return table.rows(~missing) if missing.any() else table


def _evaluate(options: Any, out: Output) -> dict[str, Any]:
    model, task, columns = _load(options.model)
    table = _known(options, task)
    y, frame, loss = task.read(table), table.read(columns), _other_loss(options, task, model)
    groups = _groups(task, table)
    own = model[-1].loss_ if loss is None else loss
    found = judging.compared(task.judge(model, frame, y, groups, loss), judging.span(own, task.labels))
    out.say(f"{table.path}: {counted(len(table), 'row')}; {task.name} {listed(task.target)}")
    if task.losses == "classes":
        seen = list(dict.fromkeys(np.asarray(y).tolist()))
        unknown = [label for label in seen if label not in task.labels]
        if len(unknown) == len(seen):
            raise ValueError(
                f"The model decides among {listed(task.labels)}, and {table.path} has none of these in {listed(task.target)}: it holds {listed(seen)}."
            )
        if unknown:
            out.say(f"The model does not know {listed(unknown)}: it is counted by the worst cost of the decision.")
    judging.show(found, task, out, judging.name_of(own))
    result: dict[str, Any] = {"rows": len(table), "task": task.name, "loss": judging.name_of(own), "losses": found}
    if task.losses == "classes":
        result["confusion"] = _confusion(model, frame, y, groups, loss, task, out)
    return result


def _confusion(
    model: Any, frame: Any, y: Any, groups: Any, loss: Any, task: Task, out: Output
) -> dict[str, dict[str, int]]:
    """How often each decision was taken where it was each label."""
    z = [str(v) for v in task.decide(model, frame, groups, loss, False)[task.target[0]]]
    truth = [str(v) for v in np.asarray(y).tolist()]
    labels = list(dict.fromkeys([*map(str, task.labels), *truth]))
    own = model[-1].loss_ if loss is None else loss
    names = own.bind_names(name_array(task.labels)).output_names(name_array(task.labels)).tolist()
    decisions = [name for name in map(str, names) if name in z]
    pairs = list(zip(z, truth, strict=True))
    table = (
        {one: {label: pairs.count((one, label)) for label in labels} for one in decisions} if len(labels) <= 20 else {}
    )
    if table:
        out.say("\n  Decisions in rows, labels in columns:")
        out.table(["", *labels], [[one, *row.values()] for one, row in table.items()])
    return table


# -- report ------------------------------------------------------------------------------------------------------------


def _report_arguments(parser: argparse.ArgumentParser) -> None:
    _arguments(parser)
    add_writing(parser, "the page to write (default: report.html)", required=False, default="report.html")
    parser.add_argument("--title", help="of the page (default: the model's file and the data's)")
    add_loss(parser)
    add_reading(parser)


def _report(options: Any, out: Output) -> dict[str, Any]:
    import taskloss as tl

    check_place(options.output, options.force)
    model, task, columns = _load(options.model)
    table = _known(options, task)
    y, groups, loss = task.read(table), _groups(task, table), _other_loss(options, task, model)
    table.read(columns)  # for its sentences
    params = {} if groups is None else {"groups": groups}
    found = tl.diagnose(model, table.frame, y, loss, **params)
    title = options.title or f"{options.model} on {table.path}"
    with written(options.output, options.force) as temporary:
        found.to_html(temporary, title=title, overwrite=True)
    out.say(str(found))
    out.say(f"\n{options.output} is written: open it in a browser.")
    return {"output": options.output, "rows": len(table), "summary": str(found)}


COMMANDS = [
    Command(
        "predict",
        "decide for the rows of a file",
        _predict_arguments,
        _predict,
        "Decide for the rows of a file. Columns are found by name; more of them do no harm. Other costs take no new fit: give\n--costs, --abstain or --loss.",
        "  taskloss predict model.skops new.csv -o decisions.csv --keep id --proba\n  taskloss predict model.skops new.csv --costs other.csv",
    ),
    Command(
        "evaluate",
        "what decisions cost on rows with known labels, beside simpler ones",
        _evaluate_arguments,
        _evaluate,
        "What a model's decisions cost on rows that it has not seen, whose target is known, beside those for the likeliest label\nand the best constant one, with 95 % intervals.",
    ),
    Command(
        "report",
        "one HTML page on a model: where its loss comes from, its costliest mistakes, and costs to play with",
        _report_arguments,
        _report,
        "Write one HTML page, without outside resources, on how a model does on rows whose target is known.",
    ),
]
