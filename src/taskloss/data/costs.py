"""Costs that differ per example: arrays, functions of X, or formulas on its columns."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .._checks import check_names, count_examples, real_array
from ..losses.base import name_array
from ..progress import warn

# The words of detection for two outputs and two labels, the second of which is the one to be found: (output, label).
_DETECTION: dict[str, tuple[int, int | None]] = {
    "miss": (0, 1),
    "false alarm": (1, 0),
    "hit": (1, 1),
    "correct rejection": (0, 0),
    "review": (1, None),
}
_ARITHMETIC: dict[type, Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "min": np.minimum,
    "max": np.maximum,
    "abs": np.abs,
    "log": np.log,
    "exp": np.exp,
    "sqrt": np.sqrt,
}


def example_costs(X: Any, costs: Any, labels: Any = (0, 1), outputs: Any = None) -> Any:
    """Costs of each example as an array, from a function of X or a formula on its columns.

    Parameters
    ----------
    X : the examples, as they were measured: a data frame for formulas, anything that a function takes.
    costs : an array, which is returned as it is; a function of X that returns one; or a formula, a mapping whose terms
        add up. A key is a pair (output, label), an output (whatever the label), or for two outputs and two labels a word
        of detection, the second label being the one to be found: "miss", "false alarm", "hit", "correct rejection", and
        "review", the second output whatever the label. A value is a number, a column, arithmetic on columns such as
        "0.75 * amount + 2" (with min, max, abs, log, exp and sqrt), an array, or a function of X. Cells that nobody names
        cost nothing.
    labels, outputs : their names, in the order of the loss's columns and rows; outputs are the labels where left out.

    Returns
    -------
    array (n, outputs, labels) for a formula; what was given or returned otherwise.

    Examples
    --------
    >>> import pandas as pd
    >>> import taskloss as tl
    >>> X = pd.DataFrame({"amount": [3.0, 80.0]})
    >>> tl.example_costs(X, {"miss": "amount", "review": 10}).tolist()
    [[[0.0, 3.0], [10.0, 10.0]], [[0.0, 80.0], [10.0, 10.0]]]
    """
    if isinstance(costs, type):
        raise ValueError(f"costs must be an array, a function of X or a formula on its columns, got {costs!r}.")
    if callable(costs):
        costs = costs(X)
    if not isinstance(costs, Mapping):
        return by_name(costs, labels if outputs is None else outputs)
    if not costs:
        raise ValueError("costs has no term: a formula is such as {'miss': 'amount', 'review': 10}.")
    check_names("labels", labels)
    labels = name_array(labels)
    outputs = labels if outputs is None else name_array(outputs)
    table = np.zeros((count_examples("X", X), len(outputs), len(labels)))
    for key, value in costs.items():
        z, y = _cell(key, outputs.tolist(), labels.tolist())
        found = _column(X, value, key)
        if found.ndim and len(found) != len(table):
            raise ValueError(f"The cost of {key!r} has {len(found)} values for the {len(table)} examples of X.")
        if not np.isfinite(found).all():
            raise ValueError(f"The cost of {key!r}, {value!r}, contains NaN or infinite values.")
        table[:, z, slice(None) if y is None else y] += found[:, None] if found.ndim and y is None else found
    return table


def by_name(costs: Any, outputs: Any) -> Any:
    """Prices in a data frame with a column for each output, in the order of the outputs; anything else as it is."""
    columns = list(costs.columns) if hasattr(costs, "columns") else []
    names = name_array(outputs).tolist()
    if not any(isinstance(name, str) for name in columns) or columns == names:
        return costs
    if sorted(map(str, columns)) != sorted(map(str, names)):
        raise ValueError(f"costs has the columns {columns}, and the outputs are {names}: give each output its column.")
    places = {str(column): column for column in columns}
    return costs[[places[str(name)] for name in names]]


def _is_word(key: Any, outputs: list[Any]) -> bool:
    return isinstance(key, str) and key not in outputs and key.replace("_", " ") in _DETECTION


def warn_of_alphabet(costs: Any, labels: np.ndarray, outputs: np.ndarray) -> None:
    """For labels that nobody has put in order: numbers say which one is to be found, and the alphabet says nothing."""
    names = labels.tolist()
    if not isinstance(costs, Mapping) or len(names) != 2 or outputs.tolist() != names:
        return
    if all(isinstance(name, str) for name in names) and any(_is_word(key, names) for key in costs):
        negative, positive = names
        warn(
            f"costs takes {positive!r} for the label to be found, the second by the alphabet: name pairs (output, label) instead, such as "
            f"({negative!r}, {positive!r}) for this miss, or an order, CostMatrix(..., labels=[{positive!r}, {negative!r}]), where it is {negative!r} that is to be found.",
            UserWarning,
            3,
        )


def _cell(key: Any, outputs: list[Any], labels: list[Any]) -> tuple[int, int | None]:
    """The row of a table of costs that a key means, and its column, None for all."""
    if key in outputs:
        return outputs.index(key), None
    if isinstance(key, tuple) and len(key) == 2 and key[0] in outputs and key[1] in labels:
        return outputs.index(key[0]), labels.index(key[1])
    if _is_word(key, outputs) and len(outputs) == len(labels) == 2:
        return _DETECTION[key.replace("_", " ")]
    words = f", or one of {', '.join(map(repr, _DETECTION))}" if len(outputs) == len(labels) == 2 else ""
    raise ValueError(
        f"costs has a term for {key!r}, which is no output ({', '.join(map(repr, outputs))}) and no pair (output, label) with labels "
        f"{', '.join(map(repr, labels))}{words}."
    )


def _column(X: Any, value: Any, key: Any) -> np.ndarray:
    """The values of one term, one for each example or one for all."""
    if callable(value):
        value = value(X)
    if isinstance(value, str):
        value = _evaluate(X, value)
    found = real_array(f"The cost of {key!r}", value)
    if found.ndim > 1:
        raise ValueError(f"The cost of {key!r} must be one number for each example, got shape {found.shape}.")
    return found


def _evaluate(X: Any, formula: str) -> Any:
    """A column, or arithmetic on columns. Parsed and walked, never run: a formula may come from a file."""
    if not hasattr(X, "columns"):
        raise ValueError(
            f"costs names the column {formula!r}, and X has no columns by name here; inside a pipeline the last step sees what the "
            "steps before made of X: make the array first, tl.example_costs(X, costs), or call tl.decide(model, costs=..., X=X)."
        )
    columns = list(X.columns)

    def walk(node: ast.AST) -> Any:
        if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
            return node.value
        if isinstance(node, ast.Name) and node.id in columns:
            return real_array(f"The column {node.id!r} of X", X[node.id])
        if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
            return _ARITHMETIC[type(node.op)](walk(node.left), walk(node.right))
        if isinstance(node, ast.UnaryOp) and type(node.op) in _ARITHMETIC:
            return _ARITHMETIC[type(node.op)](walk(node.operand))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS:
            if node.keywords or len(node.args) != (2 if node.func.id in ("min", "max") else 1):
                raise ValueError(f"{node.func.id} takes other arguments than those of {formula!r}.")
            return _FUNCTIONS[node.func.id](*map(walk, node.args))
        named = f"{node.id!r} is no column of X; there are " if isinstance(node, ast.Name) else "it is made of "
        raise ValueError(
            f"The cost {formula!r} cannot be read: {named}{', '.join(map(repr, columns[:8]))}{', ...' if len(columns) > 8 else ''}, "
            f"numbers, + - * / ** and {', '.join(_FUNCTIONS)}."
        )

    if formula in columns:
        return real_array(f"The column {formula!r} of X", X[formula])
    try:
        tree = ast.parse(formula, mode="eval")
    except (SyntaxError, ValueError) as error:
        raise ValueError(
            f"The cost {formula!r} is no column of X and no arithmetic on columns; the columns are {', '.join(map(repr, columns[:8]))}."
        ) from error
    with np.errstate(divide="ignore", invalid="ignore"):
        return walk(tree.body)
