"""Learning to match."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from ..hypotheses.base import Hypothesis
from ..losses.base import Loss
from ..losses.matching import MatchingHamming
from ..objectives import Batch, Monitor
from ..scoring import example_weights
from ..surrogates.coordinatewise import OneVsAll
from .base import keep
from .grouped import GroupedEstimator
from .validation import Judge, given_monitor, held_parts

_FEATURES: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "squared": lambda a, b: (a[:, None] - b[None]) ** 2,
    "absolute": lambda a, b: np.abs(a[:, None] - b[None]),
    "product": lambda a, b: a[:, None] * b[None],
}


class Matcher(GroupedEstimator):
    """Matches the nodes of one graph to those of another, judged by the share of nodes matched wrongly.

    X is a list of pairs (A, B) of node features, arrays or sparse matrices with one row per node, or of arrays (rows, columns, p) with p
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
    hypothesis, alpha, solver, tol, max_iter, warm_start, verbose : as in `TaskLossEstimator`; examples weigh equally.

    Attributes
    ----------
    loss_, surrogate_, hypothesis_, features_, unmatched_ : the parts and options, as they were at the fit.
    theta_, coef_, intercept_ : parameters; the score of a pair of nodes is its features / scale_ @ coef_ + intercept_.
    scale_ : what features of pairs are divided by.
    solution_, n_iter_, n_features_in_.
    """

    short = {"logistic": OneVsAll("logistic"), "auto": "row-multinomial"}
    loss_: MatchingHamming

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
        warm_start: bool = False,
        verbose: bool = False,
    ):
        keep(self, locals())

    def fit(self, X: Any, y: Any, sample_weight: Any = None, validation: Any = None) -> Self:
        """Fit to examples and their matchings.

        validation: held-out examples (X, y), on whose task loss trees stop early; else they hold out some of these.
        """
        self._check_numbers()
        if self.unmatched not in (None, "columns", "both"):
            raise ValueError(f"unmatched must be None, 'columns' or 'both', got {self.unmatched!r}.")
        self._check_decoding()
        surrogate, hypothesis = self._make_surrogate(), self._make_hypothesis()
        tables = _tables(X, self.features, self.unmatched)
        weights = example_weights(sample_weight, len(tables))
        y = _labels(y, tables, self.unmatched)
        scale = self._spread(tables)
        fitted = MatchingHamming(outliers=self.unmatched == "both")
        batches, rows, order = [], [], []
        for loss, which in _by_size(fitted, tables):
            batches.append(Batch(surrogate.bind(loss.polytope), loss.phi(np.stack([y[i] for i in which]))))
            rows.append(_rows([tables[i] for i in which], scale, fitted.outliers))
            order.append(which)
        arranged = np.concatenate(order)

        def losses(v: np.ndarray, some: list, labels: list) -> np.ndarray:
            out, first = np.empty(len(some)), 0
            for loss, which in _by_size(fitted, some):
                size = len(which) * loss.polytope.size
                mu = surrogate.bind(loss.polytope).inverse_link(v.ravel()[first : first + size].reshape(len(which), -1))
                out[which] = loss(loss.decode(mu), np.stack([labels[i] for i in which]))
                first += size
            return out

        def judge(v: np.ndarray, which: np.ndarray) -> np.ndarray:
            some = arranged[which]  # by size, as those held out are
            return losses(v, [tables[i] for i in some], [y[i] for i in some])

        def held(hypothesis: Hypothesis) -> Monitor:
            X_held, y_held = held_parts(validation)
            more = _tables(X_held, self.features, self.unmatched)
            labels = _labels(y_held, more, self.unmatched)
            inputs = [_rows([more[i] for i in which], scale, fitted.outliers) for _, which in _by_size(fitted, more)]
            return given_monitor(hypothesis, np.concatenate(inputs), lambda v: losses(v, more, labels))

        watch = None if validation is None else held
        self._solve(hypothesis, np.concatenate(rows), batches, weights[arranged], Judge(judge), watch)
        self.loss_, self.surrogate_, self.scale_, self.n_features_in_ = fitted, surrogate, scale, len(scale)
        self.features_, self.unmatched_ = self.features, self.unmatched
        return self

    def _check_decoding(self) -> None:
        """Decoding is no part of the fit: one fit serves both."""
        if self.decoding not in ("moments", "map"):
            raise ValueError(f"decoding must be 'moments' or 'map', got {self.decoding!r}.")

    def _spread(self, tables: Sequence[np.ndarray]) -> np.ndarray:
        if not self.scale:
            return np.ones(tables[0].shape[2])
        count = sum(t.shape[0] * t.shape[1] for t in tables)
        mean = sum(t.sum((0, 1)) for t in tables) / count
        spread = np.sqrt(sum(((t - mean) ** 2).sum((0, 1)) for t in tables) / count)
        return np.where(spread > 1e-12 * np.maximum(np.abs(mean), 1e-300), spread, 1.0)

    # -- predicting --------------------------------------------------------------------------------------------------

    def _loss_for(self, loss: Any) -> MatchingHamming:
        if loss is None:
            return self.loss_
        loss = Loss.resolve(loss)
        if not isinstance(loss, MatchingHamming):
            raise ValueError(f"{loss!r} is no loss on matchings: use MatchingHamming or a child of it.")
        return loss.with_params(outliers=self.loss_.outliers)

    def _fitted_tables(self, X: Any) -> list[np.ndarray]:
        check_is_fitted(self)
        tables = _tables(X, self.features_, self.unmatched_)
        if tables[0].shape[2] != self.n_features_in_:
            raise ValueError(f"X has {tables[0].shape[2]} features, but Matcher was fitted on {self.n_features_in_}.")
        return tables

    def _decisions(
        self, tables: list[np.ndarray], loss: Any
    ) -> Iterator[tuple[MatchingHamming, np.ndarray, np.ndarray, np.ndarray]]:
        """(loss, which examples, their moments, their matchings) for each size."""
        self._check_decoding()
        loss = self._loss_for(loss)
        for fitted, which in _by_size(self.loss_, tables):
            rows = _rows([tables[i] for i in which], self.scale_, fitted.outliers)
            v = self._scores(rows).reshape(len(which), -1)
            mu = self.surrogate_.bind(fitted.polytope).inverse_link(v)
            bound = loss.bind(fitted.n_rows, fitted.n_columns)
            mu = fitted.moments_for(bound, mu)
            yield bound, which, mu, bound.decode(mu) if self.decoding == "moments" else fitted.decode(v)

    def predict_moments(self, X: Any) -> list[np.ndarray]:
        """The estimated probability of each match, (rows, columns) for each example; a last column for nothing."""
        tables = self._fitted_tables(X)
        out: list[Any] = [None] * len(tables)
        for loss, which, mu, _ in self._decisions(tables, None):
            for i, row in zip(which, mu.reshape(len(which), loss.polytope.n_rows, -1), strict=True):
                out[i] = row
        return out

    def predict(self, X: Any, loss: Any = None) -> list[np.ndarray]:
        """The column matched to each row, one array for each example; -1 for nothing.

        loss: another loss on matchings, MatchingHamming or a child of it; the fit is the same, only the decision
        changes. With decoding="map" no loss enters the decision.
        """
        tables = self._fitted_tables(X)
        out: list[Any] = [None] * len(tables)
        for _, which, _, z in self._decisions(tables, loss):
            for i, row in zip(which, z, strict=True):
                out[i] = row
        return out

    def expected_loss(self, X: Any, loss: Any = None) -> np.ndarray:
        """The expected loss of each example's matching, the share of wrong rows, as the fitted moments estimate it."""
        tables = self._fitted_tables(X)
        out = np.empty(len(tables))
        for bound, which, mu, z in self._decisions(tables, loss):
            out[which] = bound.bayes_risk(z, mu)
        return out

    def losses(self, X: Any, y: Any, loss: Any = None) -> np.ndarray:
        """The loss of each example's matching, the share of rows matched wrongly."""
        tables = self._fitted_tables(X)
        y = _labels(y, tables, self.unmatched_)
        out = np.empty(len(tables))
        for bound, which, _, z in self._decisions(tables, loss):
            out[which] = bound(z, np.stack([y[i] for i in which]))
        return out

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Minus the mean task loss over examples; higher is better."""
        losses = self.losses(X, y)
        return -float(np.average(losses, weights=example_weights(sample_weight, len(losses))))


# -- the data --------------------------------------------------------------------------------------------------------


def _tables(X: Any, features: Any, unmatched: str | None) -> list[np.ndarray]:
    """The features of pairs of nodes, (rows, columns, p), example by example."""
    if not hasattr(X, "__len__"):
        raise ValueError(f"X must be a list of examples, each a pair of graphs, got {X!r}.")
    tables = [_table(x, features, i) for i, x in enumerate(X)]
    if not tables:
        raise ValueError("X has no examples: at least one pair of graphs is needed.")
    for i, table in enumerate(tables):
        if table.ndim != 3 or 0 in table.shape:
            raise ValueError(
                f"Example {i} must be a pair of node-feature arrays, or an array (rows, columns, features), none of them empty; got shape {table.shape}."
            )
        if not np.isfinite(table).all():
            raise ValueError(f"Example {i} contains NaN or infinite features.")
        if table.shape[2] != tables[0].shape[2]:
            raise ValueError(f"Example {i} has {table.shape[2]} features and the first example {tables[0].shape[2]}.")
        m, n = table.shape[:2]
        if (unmatched is None and m != n) or (unmatched == "columns" and m > n):
            raise ValueError(
                f"Example {i} has {m} rows and {n} columns, so that not every node can be matched: pass unmatched='columns' where "
                "columns may be left over, or unmatched='both' where rows may match nothing too."
            )
    return tables


def _table(x: Any, features: Any, i: int) -> np.ndarray:
    if not isinstance(x, tuple | list) or len(x) != 2 or np.ndim(x[0]) != 2:
        return np.asarray(x, dtype=float)
    a, b = (np.asarray(nodes.toarray() if sparse.issparse(nodes) else nodes, dtype=float) for nodes in x)
    make = features if callable(features) else _FEATURES.get(features)
    if make is None:
        raise ValueError(f"features must be one of {', '.join(_FEATURES)} or a function, got {features!r}.")
    if not callable(features) and a.shape[1:] != b.shape[1:]:
        raise ValueError(f"Example {i}: the nodes of its two graphs have {a.shape[1]} and {b.shape[-1]} features.")
    return np.asarray(make(a, b), dtype=float)


def _labels(y: Any, tables: Sequence[np.ndarray], unmatched: str | None) -> list[np.ndarray]:
    """The column of each row, example by example."""
    if y is None:
        raise ValueError("This estimator requires y to be passed, but the target y is None.")
    if not hasattr(y, "__len__"):
        raise ValueError(f"y must hold a matching for each example, got {y!r}.")
    y = [np.asarray(row) for row in y]
    if len(y) != len(tables):
        raise ValueError(f"X and y have different lengths: {len(tables)} and {len(y)}.")
    low = -1 if unmatched == "both" else 0
    for i, (row, table) in enumerate(zip(y, tables, strict=True)):
        m, n = table.shape[:2]
        if row.shape != (m,):
            raise ValueError(
                f"Example {i} has {m} rows to match, but its y has shape {row.shape}: one column number per row."
            )
        if row.dtype.kind not in "iuf" or not (row == np.floor(row)).all():
            raise ValueError(f"Example {i}: its y must be numbers of columns, got {row.tolist()}.")
        if row.min() < low or row.max() >= n:
            hint = "" if unmatched == "both" else "; rows that match nothing (-1) need unmatched='both'"
            raise ValueError(f"Example {i}: its y must be columns from {low} to {n - 1}, got {row.tolist()}{hint}.")
        used = row[row >= 0]
        if len(np.unique(used)) < len(used):
            raise ValueError(f"Example {i}: its y matches two rows to the same column.")
    return y


def _by_size(loss: MatchingHamming, tables: Sequence[np.ndarray]) -> list[tuple[MatchingHamming, np.ndarray]]:
    """The loss of each size, and which examples have it."""
    shapes = np.array([table.shape[:2] for table in tables])
    return [
        (loss.bind(int(m), int(n)), np.flatnonzero((shapes == (m, n)).all(1))) for m, n in np.unique(shapes, axis=0)
    ]


def _rows(tables: Sequence[np.ndarray], scale: np.ndarray, outliers: bool) -> np.ndarray:
    """One row of features per pair of nodes; "matches nothing" is one more column, with a feature of its own."""
    stacked = np.stack(tables) / scale
    if outliers:
        stacked = np.pad(stacked, [(0, 0), (0, 0), (0, 1), (0, 1)])
        stacked[:, :, -1, -1] = 1
    return stacked.reshape(-1, stacked.shape[-1])
