"""Learners by their names on the command line, as pipelines from a frame of columns to decisions."""

from __future__ import annotations

import importlib.util
from typing import Any

from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from ..data.columns import Columns
from ..hypotheses import Boosting, Nystrom
from ..losses import Loss
from .tasks import Task

LEARNERS = ("auto", "linear", "kernel", "trees", "lightgbm", "xgboost")
_LIBRARIES = ("lightgbm", "xgboost")
_EXACT_KERNEL = 2000  # rows up to which a kernel is exact, and may be among what is tried
_THREADS = 10_000  # rows from which threads pay for trees
_INDICATORS = 50  # indicators for each column of words: rare words share one


def resolve(learner: str, rows: int) -> list[str]:
    """The learners to try; a library of trees by its own name."""
    installed = [name for name in _LIBRARIES if importlib.util.find_spec(name) is not None]
    if learner in ("trees", *_LIBRARIES):
        wanted = [name for name in installed if learner in ("trees", name)]
        if not wanted:
            names = "lightgbm or xgboost, and neither is" if learner == "trees" else f"{learner}, which is not"
            raise ImportError(
                f"--learner {learner} needs {names} installed: pip install 'taskloss[boosting]', or use --learner linear."
            )
        return wanted[:1]
    if learner == "auto":
        return ["linear", *(["kernel"] if rows <= _EXACT_KERNEL else []), *installed[:1]]
    return [learner]


def describe(learner: str) -> str:
    return {
        "linear": "linear: numbers scaled, missing ones replaced by the median and marked, words as indicators; penalty by held-out loss",
        "kernel": "Gaussian kernel: columns as for linear; width and penalty by held-out loss",
    }.get(learner, f"trees of {learner}: missing values and categories as they are; rounds by held-out loss")


def pipeline(learner: str, task: Task, loss: Loss, columns: Columns, rows: int) -> Pipeline:
    """An unfitted model of a frame that holds the columns."""
    if learner in _LIBRARIES:
        options = _ROUNDS | _SMALL[learner] | ({"n_jobs": 1} if rows < _THREADS else {})
        trees = Boosting(learner, **options)
        return Pipeline([("columns", columns), ("model", task.estimator(loss, trees, None))])
    hypothesis: Any = "linear"
    if learner == "kernel":
        hypothesis = "kernel" if rows <= _EXACT_KERNEL else Nystrom()
    model = task.estimator(loss, hypothesis, "auto")
    return Pipeline(
        [("columns", columns), ("prepare", _prepared(columns, dense=learner == "kernel")), ("model", model)]
    )


_ROUNDS: dict[str, Any] = {
    "n_estimators": 500,
    "learning_rate": 0.05,
    "early_stopping": 50,
    "validation_fraction": 0.2,
}
_SMALL: dict[str, dict[str, Any]] = {"lightgbm": {"num_leaves": 15}, "xgboost": {"max_depth": 4}}


def _prepared(columns: Columns, dense: bool) -> ColumnTransformer:
    """Numbers scaled, with a column that marks missing ones; words as indicators, a missing one as a word of its own."""
    numbers = make_pipeline(
        SimpleImputer(strategy="median", add_indicator=True, keep_empty_features=True), StandardScaler()
    )
    words = OneHotEncoder(handle_unknown="infrequent_if_exist", max_categories=_INDICATORS)
    steps = [("numbers", numbers, list(columns.numbers)), ("words", words, list(columns.categories or {}))]
    return ColumnTransformer([step for step in steps if step[2]], sparse_threshold=0.0 if dense else 0.3)
