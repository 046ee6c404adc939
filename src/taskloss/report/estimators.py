"""What notebooks show of an estimator: its parts, what they mean, and how the fit ended."""

from __future__ import annotations

import inspect
from typing import Any

from sklearn.exceptions import NotFittedError
from sklearn.utils import estimator_html_repr
from sklearn.utils.validation import check_is_fitted

from ..registry import Part
from .markup import asset, text

_NAMES = 8  # of labels that are listed
_LETTERS = 160

# attribute of a fit, hyperparameter, what it is called, and what is said where the value has no docstring of its own
_PARTS = (
    ("estimator_", "estimator", "Estimator", "whose moments are decided from"),
    ("loss_", "loss", "Loss", "what the predictions are judged by"),
    ("metric", "metric", "Measure", "what the decisions are tuned for"),
    ("surrogate_", "surrogate", "Surrogate", "the smooth convex loss that is fitted in the place of the task loss"),
    ("hypothesis_", "hypothesis", "Hypothesis", "what makes scores of inputs"),
    ("kernel", "kernel", "Kernel", "how alike two inputs are"),
    ("method_", "method", "Recalibration", "the map from the model's moments to those that labels show"),
    ("alpha_", "alpha", "Penalty", "alpha: the strength of the penalty alpha/2 |theta|² on the parameters"),
    ("solver", "solver", "Solver", "what looks for the minimum"),
)


def view(estimator: Any) -> str:
    """The estimator as a table, with scikit-learn's own diagram folded below."""
    fitted = _is_fitted(estimator)
    rows = [row for names in _PARTS if (row := _part(estimator, fitted, *names)) is not None]
    if fitted:
        rows += _found(estimator)
    body = "".join(
        f'<tr><th scope="row">{text(name)}</th><td><code>{text(_short(value))}</code><span class="note">{text(note)}</span></td></tr>'
        for name, value, note in rows
    )
    mark, said = _status(estimator, fitted)
    return (
        f'<style>{asset("report.css")}</style><div class="tl embedded model"><p class="title"><strong>{text(type(estimator).__name__)}</strong> '
        f'<span class="pill {mark}">{text(said[0])}</span></p><p class="lead">{text(_sentence(estimator))}</p>'
        f'<div class="scroll"><table><tbody>{body}</tbody></table></div><p class="note">{text(said[1])}</p>'
        f"{_diagram(estimator)}</div>"
    )


def _is_fitted(estimator: Any) -> bool:
    try:
        check_is_fitted(estimator)
    except (NotFittedError, TypeError, ValueError):  # the latter of hyperparameters that are no parts
        return False
    return True


def _diagram(estimator: Any) -> str:
    """scikit-learn's own view, folded; none where hyperparameters are no parts, as it asks these."""
    try:
        diagram = estimator_html_repr(estimator)
    except (TypeError, ValueError):
        return ""
    return f"<details><summary>All parameters</summary>{diagram}</details>"


def _part(estimator: Any, fitted: bool, found: str, asked: str, name: str, meaning: str) -> tuple[str, Any, str] | None:
    """A row on one part: the fitted one where there is one, else what was asked for."""
    params = estimator.get_params(deep=False)
    params.setdefault("loss", params.get("costs"))  # the word of CostSensitiveClassifier
    if fitted and hasattr(estimator, found):
        value = getattr(estimator, found)
    elif asked in params and params[asked] is not None:
        value = params[asked]
    else:
        return None
    part = _resolved(asked, value)
    note = _sentence(part) if isinstance(part, Part) else meaning
    return name, value, note


def _resolved(kind: str, value: Any) -> Any:
    """The part behind a name, where there is one; whatever else it is stays as it is."""
    from ..hypotheses.base import Hypothesis
    from ..losses.base import Loss
    from ..surrogates.base import Surrogate

    kinds: dict[str, Any] = {"loss": Loss, "surrogate": Surrogate, "hypothesis": Hypothesis}
    if kind not in kinds or not isinstance(value, str):
        return value
    part = kinds[kind].registry.get(value)
    return value if part is None else part.examples()[0]


def _found(estimator: Any) -> list[tuple[str, Any, str]]:
    """What the fit has learned of the data."""
    rows: list[tuple[str, Any, str]] = []
    classes = getattr(estimator, "classes_", None)
    if classes is not None and hasattr(classes, "__len__"):
        names = [str(label) for label in list(classes)[:_NAMES]] + (["..."] if len(classes) > _NAMES else [])
        rows.append(("Labels", ", ".join(names), f"{len(classes)}, in the order of the loss's columns"))
    features = getattr(estimator, "n_features_in_", None)
    if features is not None:
        rows.append(("Features", features, "in each input"))
    return rows


def _status(estimator: Any, fitted: bool) -> tuple[str, tuple[str, str]]:
    """The kind of mark, the word in it, and a sentence."""
    if not fitted:
        return "none", (
            "not fitted",
            "Call fit(X, y) first; predictions then minimise the expected loss under the fitted moments.",
        )
    solution = getattr(estimator, "solution_", None)
    if solution is None:
        return "good", ("fitted", "Predictions minimise the expected loss under the fitted moments.")
    gap = f"{solution.iterations} iterations, estimated relative gap {solution.optimality:.1e}."
    word = "converged" if solution.converged else "not converged"
    return ("good" if solution.converged else "bad"), (word, f"{solution.status.value} {gap}")


def _sentence(value: Any) -> str:
    """The first sentence of a class's docstring."""
    words = " ".join(inspect.cleandoc(type(value).__doc__ or "").split("\n\n")[0].split())
    first = words.split(". ")[0]
    return first if first.endswith(".") or not first else first + "."


def _short(value: Any) -> str:
    """A value in at most some letters."""
    words = (
        f"{value:.3g}"
        if isinstance(value, float)
        else value
        if isinstance(value, str)
        else " ".join(repr(value).split())
    )
    return words if len(words) <= _LETTERS else words[: _LETTERS - 3] + "..."
