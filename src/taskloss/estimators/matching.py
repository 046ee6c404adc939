"""Learning to match."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..grouped import Stack
from ..losses.base import Loss
from ..losses.matching import MatchingHamming
from ..surrogates.base import Surrogate
from ..surrogates.coordinatewise import OneVsAll
from .base import keep
from .grouped import GroupedEstimator

_SHORT = {"logistic": OneVsAll("logistic"), "auto": "row-multinomial"}

_FEATURES: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "squared": lambda a, b: (a[:, None] - b[None]) ** 2,
    "absolute": lambda a, b: np.abs(a[:, None] - b[None]),
    "product": lambda a, b: a[:, None] * b[None],
}


class Matcher(GroupedEstimator):
    """Matches the nodes of one graph to those of another, judged by the share of nodes matched wrongly.

    X is a list of pairs (A, B) of node features, arrays with one row per node, or of arrays (rows, columns, p) with p
    features for each pair of nodes; sizes may differ from one example to the next. y has, for each example, the column
    that each row matches. The score of a pair of nodes is linear in its features; the surrogate turns a table of scores
    into estimated match probabilities, and the prediction is the assignment that maximises their sum.

    Parameters
    ----------
    surrogate : "row-multinomial" ("auto"; a softmax over each row), "quadratic", "logistic" (each pair for itself),
        "max-entropy" (the exact conditional random field, up to 16 columns) or a surrogate.
    features : how node features become features of a pair: "squared" or "absolute" differences, "product", or a
        function of (A, B).
    unmatched : None (every node is matched: as many rows as columns), "columns" (every row is matched, and columns
        may be left) or "both" (rows may match nothing too, written -1 in y; any number of rows and columns).
    decoding : "moments", the assignment on the estimated probabilities, which is optimal for the loss where these are
        right; or "map", the assignment on the scores themselves, the likeliest matching of the field with these scores.
        Row softmax does not know that columns are taken once, and where few features leave its probabilities wrong the
        second can be better; which is, cross-validation tells.
    scale : divide the features of pairs by their standard deviations over the training examples.
    hypothesis, alpha, solver, tol, max_iter, verbose : as in `TaskLossEstimator`; examples weigh equally.
    """

    def __init__(
        self,
        surrogate: Any = "auto",
        features: Any = "squared",
        hypothesis: Any = "linear",
        *,
        unmatched: str | None = None,
        decoding: str = "moments",
        scale: bool = True,
        alpha: float = 1e-3,
        solver: Any = "auto",
        tol: float = 1e-8,
        max_iter: int = 1000,
        verbose: bool = False,
    ):
        keep(self, locals())

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to examples and their matchings."""
        self._check_numbers()
        if self.unmatched not in (None, "columns", "both"):
            raise ValueError(f"unmatched must be None, 'columns' or 'both', got {self.unmatched!r}.")
        if self.decoding not in ("moments", "map"):
            raise ValueError(f"decoding must be 'moments' or 'map', got {self.decoding!r}.")
        tables = self._tables(X)
        self.n_features_in_ = tables[0].shape[2]
        weights = np.ones(len(tables)) if sample_weight is None else np.asarray(sample_weight, dtype=float)
        if len(weights) != len(tables) or (weights < 0).any() or not weights.sum() > 0:
            raise ValueError(
                "sample_weight must hold a number per example that is not negative, and not all of them zero."
            )
        y = self._labels(y, tables)
        self.scale_ = self._spread(tables)
        stacks, rows = [], []
        for loss, which in self._by_size(tables):
            stacks.append(Stack(self._surrogate_for(loss), loss.phi(np.stack([y[i] for i in which])), weights[which]))
            rows.append(self._rows([tables[i] for i in which]))
        self._solve(np.concatenate(rows), stacks)
        return self

    # -- the data ----------------------------------------------------------------------------------------------------

    def _tables(self, X: Any) -> list[np.ndarray]:
        """The features of pairs of nodes, (rows, columns, p), example by example."""
        tables = [self._table(x, i) for i, x in enumerate(X)]
        if not tables:
            raise ValueError("X has no examples: at least one pair of graphs is needed.")
        p = getattr(self, "n_features_in_", None) if hasattr(self, "theta_") else None
        for i, table in enumerate(tables):
            if table.ndim != 3 or 0 in table.shape:
                raise ValueError(
                    f"Example {i} must be a pair of node-feature arrays, or an array (rows, columns, features), none of them empty; got shape {table.shape}."
                )
            if not np.isfinite(table).all():
                raise ValueError(f"Example {i} contains NaN or infinite features.")
            if table.shape[2] != tables[0].shape[2]:
                raise ValueError(
                    f"Example {i} has {table.shape[2]} features and the first example {tables[0].shape[2]}."
                )
            m, n = table.shape[:2]
            if (self.unmatched is None and m != n) or (self.unmatched == "columns" and m > n):
                raise ValueError(
                    f"Example {i} has {m} rows and {n} columns, so that not every node can be matched: pass unmatched='columns' where "
                    "columns may be left over, or unmatched='both' where rows may match nothing too."
                )
        if p is not None and tables[0].shape[2] != p:
            raise ValueError(f"X has {tables[0].shape[2]} features, but Matcher was fitted on {p}.")
        return tables

    def _table(self, x: Any, i: int) -> np.ndarray:
        if not isinstance(x, tuple | list) or len(x) != 2 or np.ndim(x[0]) != 2:
            return np.asarray(x, dtype=float)
        a, b = np.asarray(x[0], dtype=float), np.asarray(x[1], dtype=float)
        make = self.features if callable(self.features) else _FEATURES.get(self.features)
        if make is None:
            raise ValueError(f"features must be one of {', '.join(_FEATURES)} or a function, got {self.features!r}.")
        if not callable(self.features) and a.shape[1:] != b.shape[1:]:
            raise ValueError(f"Example {i}: the nodes of its two graphs have {a.shape[1]} and {b.shape[-1]} features.")
        return np.asarray(make(a, b), dtype=float)

    def _labels(self, y: Any, tables: Sequence[np.ndarray]) -> list[np.ndarray]:
        if y is None:
            raise ValueError("This estimator requires y to be passed, but the target y is None.")
        y = [np.asarray(row) for row in y]
        if len(y) != len(tables):
            raise ValueError(f"X and y have different lengths: {len(tables)} and {len(y)}.")
        for i, (row, table) in enumerate(zip(y, tables, strict=True)):
            if row.shape != table.shape[:1]:
                raise ValueError(
                    f"Example {i} has {table.shape[0]} rows to match, but its y has shape {row.shape}: one column number per row."
                )
        return y

    def _by_size(self, tables: Sequence[np.ndarray]) -> list[tuple[MatchingHamming, np.ndarray]]:
        """The loss of each size, and which examples have it."""
        shapes = np.array([table.shape[:2] for table in tables])
        loss = MatchingHamming(outliers=self.unmatched == "both")
        return [
            (loss.bind(int(m), int(n)), np.flatnonzero((shapes == (m, n)).all(1))) for m, n in np.unique(shapes, axis=0)
        ]

    def _spread(self, tables: Sequence[np.ndarray]) -> np.ndarray:
        if not self.scale:
            return np.ones(self.n_features_in_)
        count = sum(t.shape[0] * t.shape[1] for t in tables)
        mean = sum(t.sum((0, 1)) for t in tables) / count
        spread = np.sqrt(sum(((t - mean) ** 2).sum((0, 1)) for t in tables) / count)
        return np.where(spread > 1e-12 * np.maximum(np.abs(mean), 1e-300), spread, 1.0)

    def _rows(self, tables: Sequence[np.ndarray]) -> np.ndarray:
        """One row of features per pair of nodes; "matches nothing" is one more column, with a feature of its own."""
        stacked = np.stack(tables) / self.scale_
        if self.unmatched == "both":
            stacked = np.pad(stacked, [(0, 0), (0, 0), (0, 1), (0, 1)])
            stacked[:, :, -1, -1] = 1
        return stacked.reshape(-1, stacked.shape[-1])

    def _surrogate_for(self, loss: Loss) -> Surrogate:
        spec: Any = _SHORT.get(self.surrogate, self.surrogate) if isinstance(self.surrogate, str) else self.surrogate
        return Surrogate.resolve(spec).bind(loss.polytope)

    # -- predicting --------------------------------------------------------------------------------------------------

    def _decisions(self, X: Any) -> tuple[list[tuple[MatchingHamming, np.ndarray, np.ndarray, np.ndarray]], int]:
        """(loss, which examples, their moments, their matchings) for each size, and the number of examples."""
        check_is_fitted(self)
        tables = self._tables(X)
        found = []
        for loss, which in self._by_size(tables):
            v = self._scores(self._rows([tables[i] for i in which])).reshape(len(which), -1)
            mu = self._surrogate_for(loss).inverse_link(v)
            found.append((loss, which, mu, loss.decode(mu if self.decoding == "moments" else v)))
        return found, len(tables)

    def predict_moments(self, X: Any) -> list[np.ndarray]:
        """The estimated probability of each match, (rows, columns) for each example; a last column for nothing."""
        found, count = self._decisions(X)
        out: list[Any] = [None] * count
        for loss, which, mu, _ in found:
            for i, row in zip(which, mu.reshape(len(which), loss.polytope.n_rows, -1), strict=True):
                out[i] = row
        return out

    def predict(self, X: Any) -> list[np.ndarray]:
        """The column matched to each row, one array for each example; -1 for nothing."""
        found, count = self._decisions(X)
        out: list[Any] = [None] * count
        for _, which, _, z in found:
            for i, row in zip(which, z, strict=True):
                out[i] = row
        return out

    def expected_loss(self, X: Any) -> np.ndarray:
        """The expected share of wrong rows in each example, as the fitted moments estimate it."""
        found, count = self._decisions(X)
        out = np.empty(count)
        for loss, which, mu, z in found:
            out[which] = loss.bayes_risk(z, mu)
        return out

    def losses(self, X: Any, y: Any) -> np.ndarray:
        """The share of rows matched wrongly in each example."""
        check_is_fitted(self)
        y = self._labels(y, self._tables(X))
        found, count = self._decisions(X)
        out = np.empty(count)
        for loss, which, _, z in found:
            out[which] = loss(z, np.stack([y[i] for i in which]))
        return out

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Minus the mean task loss over examples; higher is better."""
        return -float(np.average(self.losses(X, y), weights=sample_weight))
