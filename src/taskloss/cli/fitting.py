"""taskloss fit: from a file of rows to a model's file, with its held-out loss beside simpler decisions."""

from __future__ import annotations

import argparse
import contextlib
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from .. import model_files
from . import judging, learners
from .command import Command, add_loss, add_reading, add_writing
from .costs import make_loss, template
from .finding import find_task
from .output import Output, Work, check_place, counted, listed, written
from .tables import Table, choose_columns, read_table
from .tasks import TASKS, Task
from .words import sentences_of_costs

_DESCRIPTION = """\
Learn from a file of rows, CSV (also .csv.gz) or Parquet, whose first line names the columns. What was found is shown: the
task, which columns hold numbers and which words, and what decisions cost on rows that were held out, beside those for the
likeliest label.
"""
_EPILOG = """\
  taskloss fit credit.csv --target risk --costs costs.csv -o model.skops
  taskloss fit credit.csv --target risk --costs costs.csv --abstain 0.5 --learner trees -o model.skops
  taskloss fit wine.csv --target quality -o model.skops                          grades 3, 4, ... 8: ordinal
  taskloss fit survey.csv --target answer --order never,rarely,often -o model.skops
  taskloss fit films.csv --target genres --separator ";" --loss f-beta -o model.skops
  taskloss fit music.csv --target happy,calm,sad -o model.skops                  a column of 0 and 1 for each label
  taskloss fit search.csv --target relevance --group query -o model.skops        rankings

costs.csv has a row for each decision and a column for each label:

  decision,good,bad
  good,0,5
  bad,1,0

so that deciding good where it is bad costs 5. taskloss explain-costs costs.csv says what follows from it.

Labels are kept as they are written: 00501 is not 501. Missing numbers are empty, NA, NaN, null or ?.
"""


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("data", metavar="DATA", help="the file of rows; - is standard input")
    parser.add_argument(
        "--target",
        required=True,
        action="append",
        metavar="COLUMN",
        help="what is to be predicted; several, with commas between, are a set of labels",
    )
    add_writing(parser, "the model's file to write, such as model.skops")
    parser.add_argument("--task", choices=sorted(TASKS), help="what the target is, where that is not found right")
    parser.add_argument(
        "--learner",
        choices=learners.LEARNERS,
        default="auto",
        help="auto (the default) compares those that are installed, by held-out loss; trees are LightGBM or XGBoost",
    )
    add_loss(parser)
    columns = parser.add_argument_group("columns")
    columns.add_argument("--order", metavar="A,B,C", help="the labels from the lowest to the highest: an ordinal task")
    columns.add_argument("--separator", help="between the labels of a set, in one column")
    columns.add_argument(
        "--group",
        metavar="COLUMN",
        help="rows that belong together: they are ranked among each other, or with --task labels held out together",
    )
    for option, what in (
        ("ignore", "columns not to learn from, such as an id"),
        ("numeric", "columns of numbers, where that is not found right"),
        ("categorical", "columns whose values are names, where that is not found right"),
    ):
        columns.add_argument(f"--{option}", metavar="COLUMN", action="append", default=[], help=what)
    add_reading(parser)
    parser.add_argument(
        "--folds", type=int, default=5, help="parts in which rows are held out; 0 for none (default: 5)"
    )
    parser.add_argument("--quiet", action="store_true", help="no progress on standard error")


def _run(options: Any, out: Output) -> dict[str, Any]:
    model_files.skops_io()  # before the work, not after it
    check_place(options.output, options.force)
    if options.folds != 0 and options.folds < 2:
        raise ValueError(f"--folds must be at least 2, or 0 to hold nothing out, got {options.folds}.")
    if options.folds == 0 and options.learner == "auto":
        raise ValueError("--folds 0 holds nothing out, and --learner auto compares by held-out loss: name a learner.")
    table = read_table(options.data, options.delimiter, options.encoding)
    task, why, table = find_task(options, table)
    y = task.read(table)
    loss = make_loss(options, task.losses, task.labels, task.default_loss)
    ignored, numeric, categorical = (
        _columns(getattr(options, o), table, o) for o in ("ignore", "numeric", "categorical")
    )
    columns, left_out = choose_columns(table, task.card(), [*task.used, *ignored], numeric, categorical)
    table.read(columns)  # what is wrong with a value is said with its row in the file, not in a part of it
    names = learners.resolve(options.learner, len(table))
    _introduce(out, table, task, why, y, loss, columns, left_out, options)
    with Work("fit", len(names) * options.folds + 1, not options.quiet) as work:
        held = {n: _held_out(n, task, loss, columns, table, y, options.folds, work) for n in names if options.folds}
        best = min(held, key=lambda name: held[name]["model"].mean()) if held else names[0]
        with _fit_warnings():
            model = learners.pipeline(best, task, loss, columns, len(table))
            model.fit(table.frame, y, **_ranked(task, task.groups(table)))
        work.advance()
    ends = judging.span(loss, task.labels)
    found = {name: judging.compared(losses, ends) for name, losses in held.items()}
    _conclude(out, found, best, task, loss, options)
    with written(options.output, options.force) as temporary:
        model_files.save(model, temporary)
    out.say(f"\n{options.output} is written. Next: taskloss predict {options.output} NEW.csv -o decisions.csv")
    return {
        "model": options.output,
        "rows": len(table),
        "task": task.card(),
        "loss": judging.name_of(loss),
        "numbers": columns.numbers,
        "categories": columns.categories,
        "left_out": left_out,
        "learner": best,
        "folds": options.folds,
        "held_out": found,
    }


def _columns(given: list[str], table: Table, option: str) -> list[str]:
    names = [n for one in given for n in ([one] if one in table.frame.columns else [p.strip() for p in one.split(",")])]
    table.require(names, f"--{option}")
    return names


def _introduce(
    out: Output,
    table: Table,
    task: Task,
    why: str,
    y: Any,
    loss: Any,
    columns: Any,
    left_out: dict[str, str],
    options: Any,
) -> None:
    """What was found, before the work, so that a wrong guess is seen."""
    out.say(f"{table.path}: {counted(len(table), 'row')}")
    out.say(f"Target {listed(task.target)}: {task.describe(y)}")
    out.say(f"Task: {task.name} ({why}; --task says otherwise)")
    out.say(f"Judged by: {judging.name_of(loss)}")
    for sentence in sentences_of_costs(loss, task.labels):
        out.say(f"  {sentence}")
    if task.name == "labels" and loss.name == "zero-one":
        out.say("  Every mistake costs 1. Say what yours cost with --costs FILE, which for these labels may be")
        out.say(f"  {template(task.labels)}")
    out.say(f"Numbers ({len(columns.numbers)}): {listed(columns.numbers) or 'none'}")
    words = [f"{name} ({len(values)})" for name, values in columns.categories.items()]
    out.say(
        f"Words ({len(words)}), each with how many there are: {', '.join(words[:8]) or 'none'}{', ...' if len(words) > 8 else ''}"
    )
    for name, reason in left_out.items():
        out.say(f"Left out: {name!r}: {reason}")
    out.say()


def _conclude(out: Output, found: dict[str, Any], best: str, task: Task, loss: Any, options: Any) -> None:
    if found:
        out.say(f"Held out in {options.folds} parts, every row once:")
        if len(found) > 1:
            for name, one in found.items():
                mark = "  <- chosen" if name == best else ""
                out.say(
                    f"  {name:<9} {one['model']['mean']:.4g} ({one['model']['low']:.3g} to {one['model']['high']:.3g}){mark}"
                )
            out.say("  The least was chosen on these very rows, which flatters it a little.\n")
        judging.show(found[best], task, out, judging.name_of(loss))
    out.say(f"Learner: {learners.describe(best)}")


# -- held-out losses ---------------------------------------------------------------------------------------------------


def _held_out(
    name: str, task: Task, loss: Any, columns: Any, table: Table, y: Any, folds: int, work: Work
) -> dict[str, np.ndarray]:
    """The loss of each row, or group, in a fold on which the model was not fitted."""
    groups, parts = task.groups(table), []
    for train, test in _splits(task, y, groups, len(table), folds):
        if task.losses == "classes" and (left := np.unique(_rows(y, train))).size == 1:
            raise ValueError(
                f"Without the rows that are held out, all others are {left.tolist()[0]!r}: too few are anything else. Pass --folds 0 with a --learner, "
                "or a file with more rows."
            )
        with _fit_warnings():
            model = learners.pipeline(name, task, loss, columns, len(table))
            part = None if groups is None else groups[train]
            model.fit(table.frame.iloc[train], _rows(y, train), **_ranked(task, part))
        ids = None if groups is None else groups[test]
        places = test if ids is None or task.unit != "group" else np.unique(ids)
        parts.append((places, task.judge(model, table.frame.iloc[test], _rows(y, test), ids)))
        work.advance()
    return judging.merged(parts, int(groups.max()) + 1 if task.unit == "group" and groups is not None else len(table))


def _splits(task: Task, y: Any, groups: np.ndarray | None, n: int, folds: int) -> list[tuple[np.ndarray, np.ndarray]]:
    from sklearn.model_selection import GroupKFold, KFold, StratifiedKFold

    count = n if groups is None else len(np.unique(groups))
    if count < folds:
        what = counted(count, "row") if groups is None else f"{counted(count, 'group')} in {task.group!r}"
        raise ValueError(
            f"There {'is' if count == 1 else 'are'} {what}, too few to be held out in {folds} parts: pass fewer --folds, or 0."
        )
    if groups is not None:
        return list(GroupKFold(folds, shuffle=True, random_state=0).split(np.zeros(n), groups=groups))
    strata = y if task.losses == "classes" and np.unique(y, return_counts=True)[1].max() >= folds else None
    kind = KFold if strata is None else StratifiedKFold
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", message="The least populated class"
        )  # rare labels are spread as far as they go
        return list(kind(folds, shuffle=True, random_state=0).split(np.zeros(n), strata))


def _ranked(task: Task, groups: np.ndarray | None) -> dict[str, Any]:
    """What the fit of a ranking takes beside rows and labels."""
    return {"model__groups": groups} if task.losses == "ranking" else {}


def _rows(y: Any, places: np.ndarray) -> Any:
    return y.iloc[places] if hasattr(y, "iloc") else y[places]


@contextlib.contextmanager
def _fit_warnings() -> Iterator[None]:
    """Without what a user of files can do nothing about."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The held-out part has no example")
        warnings.filterwarnings("ignore", message="Found unknown categories")
        yield


COMMANDS = [
    Command(
        "fit",
        "learn from a file of rows, and say what decisions cost on held-out ones",
        _arguments,
        _run,
        _DESCRIPTION,
        _EPILOG,
    )
]
