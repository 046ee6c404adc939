"""Formulas on the columns of a data frame, by formulaic."""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

__all__ = ["Formula"]


class Formula(TransformerMixin, BaseEstimator):
    """Columns of numbers from a data frame by a formula, as R and statsmodels write them: a transformer for pipelines.

    Parameters
    ----------
    formula : the right-hand side, such as "age + C(clinic) + age:sex"; columns of words or categories become contrasts to their
        first level. The intercept has no column: estimators have their own.

    Attributes
    ----------
    spec_ : formulaic's specification with the levels and the scales that the fit has seen.
    n_features_in_, feature_names_in_.

    Notes
    -----
    Needs formulaic (`pip install "taskloss[formula]"`). A formula is code: it may call functions of this process, so that it must
    not come from strangers.

    Examples
    --------
    >>> import pandas as pd, taskloss as tl
    >>> wine = pd.DataFrame({"temp": ["cold", "warm", "warm"], "age": [1, 2, 4]})
    >>> tl.Formula("temp + age").fit_transform(wine).columns.tolist()
    ['temp[T.warm]', 'age']
    """

    def __init__(self, formula: str = "."):
        self.formula = formula

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the levels of categories and the names of columns from a data frame."""
        self._make(X, None)
        return self

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> Any:
        """`fit`, and the columns of these data."""
        return self._make(X, None)

    def transform(self, X: Any) -> Any:
        """The columns as a data frame; a level that the fit has not seen is refused."""
        check_is_fitted(self)
        return self._make(X, self.spec_)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """The names of the columns."""
        check_is_fitted(self)
        return np.array([name for name in self.spec_.column_names if name != "Intercept"], dtype=object)

    def _make(self, X: Any, spec: Any) -> Any:
        formulaic = _formulaic()
        if not hasattr(X, "columns"):
            raise ValueError(f"X must be a data frame, whose columns the formula names, got {type(X).__name__}.")
        if not isinstance(self.formula, str):
            raise ValueError(f"formula must be a string such as 'age + C(clinic)', got {self.formula!r}.")
        if "~" in self.formula:
            raise ValueError(
                f"formula must be a right-hand side, and y is given to fit: leave out all up to ~ in {self.formula!r}."
            )
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", formulaic.errors.DataMismatchWarning)
                made = formulaic.model_matrix(
                    f"1 + {self.formula}" if spec is None else spec, X, na_action="raise", context=None, output="pandas"
                )
        except (formulaic.errors.FormulaicError, formulaic.errors.DataMismatchWarning, ValueError) as error:
            raise ValueError(f"formula {self.formula!r} does not fit X: {str(error).rstrip('.')}.") from error
        if spec is None:
            self.spec_, self.feature_names_in_ = made.model_spec, np.array(list(X.columns), dtype=object)
            self.n_features_in_ = len(self.feature_names_in_)
        return made.drop(columns="Intercept")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags._skip_test = True  # scikit-learn's checks pass arrays, whose columns have no names
        return tags


def _formulaic() -> Any:
    try:
        import formulaic
        import formulaic.errors
    except ImportError:
        raise ImportError('Formulas are read by formulaic: pip install "taskloss[formula]".') from None
    return formulaic
