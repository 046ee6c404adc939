"""Files of costs, and the loss that the options of a command say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..data.streams import is_number
from ..losses import CostMatrix, Loss
from .output import listed
from .tables import read_words

ABSTAIN = "abstain"


class CostTable(NamedTuple):
    """matrix[z, y] with the names of its rows, decisions, and of its columns, labels, as the file spells them."""

    matrix: np.ndarray
    outputs: list[str]
    labels: list[str]


def read_costs(path: str, truth_in_rows: bool = False, encoding: str = "utf-8-sig") -> CostTable:
    """A text file whose first line names the labels, and whose rows begin with a decision."""
    lines = [(n, [w.strip() for w in row]) for n, row in read_words(path, None, encoding) if not row[0].startswith("#")]
    if len(lines) < 2:
        raise ValueError(
            f"{path} is no table of costs: it needs a line of labels, and a row for each decision below it."
        )
    (_, header), body = lines[0], lines[1:]
    if is_number(header[0]) and all(is_number(word) for _, row in lines for word in row):
        raise ValueError(
            f"{path} holds numbers alone, and nobody can tell which label is which: name the labels in a first line and the decision in "
            f"front of each row, such as {template(['good', 'bad'])}."
        )
    for line, row in body:
        if len(row) != len(header):
            raise ValueError(f"{path}, line {line}: {len(row)} entries where the first line has {len(header)}.")
        for word in row[1:]:
            if not is_number(word) or not np.isfinite(float(word)):
                hint = "; write it with a point" if is_number(word.replace(",", ".", 1)) and "," in word else ""
                raise ValueError(f"{path}, line {line}: a cost must be a finite number, got {word!r}{hint}.")
    rows, columns = [row[0] for _, row in body], header[1:]
    for names in (rows, columns):
        twice = next((name for i, name in enumerate(names) if name in names[:i]), None)
        if twice is not None:
            raise ValueError(f"{path} names {twice!r} twice.")
    matrix = np.array([[float(word) for word in row[1:]] for _, row in body])
    return CostTable(matrix.T, columns, rows) if truth_in_rows else CostTable(matrix, rows, columns)


def cost_matrix(table: CostTable, labels: Sequence[Any], path: str) -> CostMatrix:
    """The loss on these labels; a table that names others is refused with one that does not."""
    words = [str(label) for label in labels]
    if all(isinstance(label, int | float) for label in labels):  # 1 and 1.0 are one label, however a file writes it
        as_data = {float(label): str(label) for label in labels}
        table = table._replace(
            outputs=[as_data.get(float(name), name) if is_number(name) else name for name in table.outputs],
            labels=[as_data.get(float(name), name) if is_number(name) else name for name in table.labels],
        )
    lacking = [word for word in words if word not in table.labels]
    unknown = [word for word in table.labels if word not in words]
    if lacking or unknown:
        wrong = [f"it has no column for {listed(lacking)}"] if lacking else []
        are = "is no label" if len(unknown) == 1 else "are no labels"
        wrong += [f"{listed(unknown)} {are} of the data"] if unknown else []
        hint = " (pass --truth-in-rows if its rows are the labels)" if set(words) == set(table.outputs) else ""
        raise ValueError(
            f"The labels of {path} do not match: {' and '.join(wrong)}{hint}; a column is a label and a row a decision, as in {template(words)}."
        )
    typed = dict(zip(words, labels, strict=True))
    outputs = [typed.get(word, word) for word in table.outputs]
    return CostMatrix(table.matrix[:, [table.labels.index(word) for word in words]], outputs, list(labels))


def with_abstention(loss: Loss, price: float, labels: Sequence[Any]) -> CostMatrix:
    """A loss on labels with one more output, at this price whatever the label."""
    if not 0 < price < np.inf:
        raise ValueError(f"--abstain must be a cost above zero, got {price:g}.")
    loss = loss.bind_names(np.asarray(labels)).bind(len(labels))
    outputs = loss.output_names(np.asarray(labels)).tolist()
    if ABSTAIN in outputs:
        raise ValueError(f"{ABSTAIN!r} is a decision already: leave out --abstain.")
    return CostMatrix(np.vstack([loss.matrix(), np.full(len(labels), price)]), [*outputs, ABSTAIN], list(labels))


def make_loss(options: Any, kind: str, labels: Sequence[Any], default: Any) -> Loss:
    """What the options say mistakes cost, for a task whose losses are of this kind.

    default: the loss, or its name, to which --abstain, --beta and --at are added where nothing else is said.
    """
    if kind != "classes" and (options.costs or options.abstain is not None):
        given = "--costs" if options.costs else "--abstain"
        raise ValueError(f"{given} is for tasks with one label a row; label sets and rankings take --loss.")
    if options.costs and options.loss:
        raise ValueError("--costs and --loss both say what mistakes cost: give one of them.")
    known = [
        name
        for name, one in sorted(Loss.registry.items())
        if issubclass(one, Loss) and one.kind == kind and name not in _NEED_MORE
    ]
    if options.costs:
        table = read_costs(options.costs, options.truth_in_rows, options.encoding)
        loss: Loss = cost_matrix(table, labels, options.costs)
        if len(table.outputs) == 1 and options.abstain is None:
            raise ValueError(
                f"{options.costs} has one decision only, {table.outputs[0]!r}: there is nothing to decide."
            )
    elif options.loss in known or not options.loss:
        loss = Loss.resolve(options.loss or default)
    else:
        what = "is for another task, or needs more than a name" if options.loss in Loss.registry else "does not exist"
        raise ValueError(f"--loss {options.loss} {what}; here it is one of {', '.join(known)}.")
    for option in ("beta", "at"):
        value = getattr(options, option)
        if value is not None:
            if option not in loss.get_params(deep=False):
                raise ValueError(f"--{option} is no option of the loss {loss.name}.")
            loss = loss.with_params(**{option: value})
    return loss if options.abstain is None else with_abstention(loss, options.abstain, labels)


_NEED_MORE = ("abstain", "cost-matrix", "listed", "label-costs", "tree-distance")  # what a name alone does not say


def says_a_loss(options: Any) -> bool:
    return any(getattr(options, name) is not None for name in ("costs", "abstain", "loss", "beta", "at"))


def template(words: Sequence[Any]) -> str:
    """A file of costs that would do, its lines between slashes."""
    words = [str(word) for word in words][:4]
    rows = [",".join([w, *("0" if w == v else "1" for v in words)]) for w in words]
    return f"{' / '.join([','.join(['decision', *words]), *rows])} (a line each)"
