"""Learning to match."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._arguments import HYPERPARAMETERS
from .._checks import is_list
from ..data.matchings import matchings, pair_rows, pair_tables, scale_of, spread_of
from ..data.weights import example_weights
from ..distributed import is_collection
from ..hypotheses.base import Hypothesis
from ..losses.base import Loss, check_prices
from ..losses.matching import MatchingHamming
from ..objectives import Batch, Groups, Monitor
from ..surrogates.coordinatewise import OneVsAll
from .base import COSTS, keep
from .grouped import GroupedEstimator
from .lazily import lazily, lazily_by_example, lazily_scored
from .partition_plans import MatchingsPlan
from .partitioned import fit_partitioned
from .validation import Judge, given_monitor, held_parts


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
        alpha: Any = None,
        solver: Any = "auto",
        tol: float = 1e-8,
        max_iter: int = 1000,
        warm_start: bool = False,
        verbose: bool = False,
    ):
        keep(self, locals())

    def fit(self, X: Any, y: Any, sample_weight: Any = None, validation: Any = None, checkpoint: Any = None) -> Self:
        """Fit to examples and their matchings.

        validation: held-out examples (X, y), on whose task loss trees stop early; else they hold out some of these.
        checkpoint: as in `TaskLossEstimator.fit`.
        """
        if is_collection(X) or is_collection(y):
            given = {"X": X, "y": y, "sample_weight": sample_weight}
            return fit_partitioned(self, MatchingsPlan(self), given, validation, checkpoint)
        self._solve(*self._problem(X, y, sample_weight), validation, checkpoint)
        return self

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Take some more examples into the average of stochastic gradient descent, a step for each.

        The first call's examples decide `scale_`, and a Nyström hypothesis takes its centres from them.
        """
        scale = None if self._stream is None else self._stream.found["scale_"]
        self._solve_more(*self._problem(X, y, sample_weight, scale))
        return self

    def _problem(
        self, X: Any, y: Any, sample_weight: Any, scale: np.ndarray | None = None, part: bool = False
    ) -> tuple[Hypothesis, np.ndarray, Groups, dict[str, Any], Judge]:
        """The hypothesis, the rows of all pairs of nodes, their risk, what else a fit keeps, and what judges those held out."""
        self._check_numbers()
        surrogate, hypothesis = self._make_surrogate(), self._make_hypothesis()
        tables = pair_tables(X, self.features, self.unmatched)
        weights = example_weights(sample_weight, len(tables), part=part)
        y = matchings(y, tables, self.unmatched)
        scale = self._spread(tables) if scale is None else scale
        fitted = MatchingHamming(outliers=self.unmatched == "both")
        batches, rows, order = [], [], []
        for loss, which in _by_size(fitted, tables):
            batches.append(
                Batch(surrogate.bind(loss.polytope).bind_outputs(loss), loss.phi(np.stack([y[i] for i in which])))
            )
            rows.append(pair_rows([tables[i] for i in which], scale, fitted.outliers))
            order.append(which)
        found = {"loss_": fitted, "surrogate_": surrogate, "scale_": scale, "n_features_in_": len(scale)}
        found |= {"features_": self.features, "unmatched_": self.unmatched}
        arranged = np.concatenate(order)

        def losses(v: np.ndarray, which: np.ndarray) -> np.ndarray:
            some = arranged[which]  # by size, as those held out are
            return self._losses(found, v, [tables[i] for i in some], [y[i] for i in some])

        return hypothesis, np.concatenate(rows), Groups(batches, weights[arranged], part=part), found, Judge(losses)

    def _monitor(self, hypothesis: Hypothesis, found: dict[str, Any], validation: Any) -> Monitor:
        X, y = held_parts(validation)
        tables = pair_tables(X, self.features, self.unmatched)
        y, loss, scale = matchings(y, tables, self.unmatched), found["loss_"], found["scale_"]
        rows = [pair_rows([tables[i] for i in which], scale, loss.outliers) for _, which in _by_size(loss, tables)]
        return given_monitor(hypothesis, np.concatenate(rows), lambda v: self._losses(found, v, tables, y))

    def _losses(self, found: dict[str, Any], v: np.ndarray, tables: list[Any], y: list[Any]) -> np.ndarray:
        """The loss of each example's matching by its scores, which come size by size."""
        out, first, v = np.empty(len(tables)), 0, v.ravel()
        for loss, which in _by_size(found["loss_"], tables):
            stop = first + len(which) * loss.polytope.size
            mu = found["surrogate_"].bind(loss.polytope).inverse_link(v[first:stop].reshape(len(which), -1))
            out[which] = loss(loss.decode(mu), np.stack([y[i] for i in which]))
            first = stop
        return out

    def _check_decoding(self) -> None:
        """Decoding is no part of the fit: one fit serves both."""
        HYPERPARAMETERS["decoding"]("decoding", self.decoding)

    def _spread(self, tables: Sequence[np.ndarray]) -> np.ndarray:
        if not self.scale:
            return np.ones(tables[0].shape[2])
        return scale_of([spread_of(tables)])

    # -- predicting --------------------------------------------------------------------------------------------------

    __metadata_request__predict: ClassVar = COSTS
    __metadata_request__score: ClassVar = COSTS

    def _loss_for(self, loss: Any) -> MatchingHamming:
        if loss is None:
            return self.loss_
        loss = Loss.resolve(loss)
        if loss.kind != "matching":
            raise ValueError(f"{loss!r} is no loss on matchings: use MatchingHamming or a child of it.")
        return loss.with_params(outliers=self.loss_.outliers)

    def _fitted_tables(self, X: Any) -> list[np.ndarray]:
        check_is_fitted(self)
        tables = pair_tables(X, self.features_, self.unmatched_)
        if tables[0].shape[2] != self.n_features_in_:
            raise ValueError(f"X has {tables[0].shape[2]} features, but Matcher was fitted on {self.n_features_in_}.")
        return tables

    def _decisions(
        self, tables: list[np.ndarray], loss: Any, costs: Any = None
    ) -> Iterator[tuple[MatchingHamming, np.ndarray, np.ndarray, np.ndarray | None, np.ndarray]]:
        """(loss, which examples, their moments, prices and matchings) for each size."""
        self._check_decoding()
        loss = self._loss_for(loss)
        for fitted, which in _by_size(self.loss_, tables):
            rows = pair_rows([tables[i] for i in which], self.scale_, fitted.outliers)
            v = self._scores(rows).reshape(len(which), -1)
            surrogate = self.surrogate_.bind(fitted.polytope).bind_outputs(fitted)
            bound = loss.bind(fitted.n_rows, fitted.n_columns)
            mu = fitted.moments_for(bound, surrogate.inverse_link(v))
            shape = (fitted.polytope.n_rows, fitted.polytope.width)
            prices = None if costs is None else np.stack([check_prices(costs[i], shape, "pair") for i in which])
            own = surrogate.decide(v) if bound == fitted and prices is None else None
            z = bound.decode(mu, prices) if own is None else own
            yield bound, which, mu, prices, z if self.decoding == "moments" else fitted.decode(v)

    @lazily
    def predict_moments(self, X: Any) -> list[np.ndarray]:
        """The estimated probability of each match, (rows, columns) for each example; a last column for nothing."""
        tables = self._fitted_tables(X)
        out: list[Any] = [None] * len(tables)
        for loss, which, mu, _, _ in self._decisions(tables, None):
            for i, row in zip(which, mu.reshape(len(which), loss.polytope.n_rows, -1), strict=True):
                out[i] = row
        return out

    @lazily
    def predict(self, X: Any, loss: Any = None, costs: Any = None) -> list[np.ndarray]:
        """The column matched to each row, one array for each example; -1 for nothing.

        loss: another loss on matchings, MatchingHamming or a child of it; the fit is the same, only the decision
        changes. costs: for each example an array (rows, columns) of prices of its pairs, with a last column for nothing
        where rows may match nothing. With decoding="map" neither enters the decision.
        """
        tables = self._fitted_tables(X)
        costs = self._prices(costs, len(tables))
        out: list[Any] = [None] * len(tables)
        for _, which, _, _, z in self._decisions(tables, loss, costs):
            for i, row in zip(which, z, strict=True):
                out[i] = row
        return out

    @lazily_by_example
    def expected_loss(self, X: Any, loss: Any = None, costs: Any = None) -> np.ndarray:
        """The expected loss of each example's matching, the share of wrong rows and the prices of its pairs, as the fitted moments estimate it."""
        tables = self._fitted_tables(X)
        costs = self._prices(costs, len(tables))
        out = np.empty(len(tables))
        for bound, which, mu, prices, z in self._decisions(tables, loss, costs):
            out[which] = bound.risk(z, mu, prices)
        return out

    def _prices(self, costs: Any, n: int) -> Any:
        if costs is None:
            return None
        if self.decoding == "map":
            raise ValueError("decoding='map' decides by the scores alone and takes no costs: use decoding='moments'.")
        if not is_list(costs) or len(costs) != n:
            raise ValueError(f"costs must hold one array of prices (rows, columns) for each of the {n} examples.")
        return costs if isinstance(costs, np.ndarray) else list(costs)

    @lazily_by_example
    def losses(self, X: Any, y: Any, loss: Any = None, costs: Any = None) -> np.ndarray:
        """The loss of each example's matching, the share of rows matched wrongly, and the prices of its pairs."""
        tables = self._fitted_tables(X)
        y = matchings(y, tables, self.unmatched_)
        costs = self._prices(costs, len(tables))
        out = np.empty(len(tables))
        for bound, which, _, prices, z in self._decisions(tables, loss, costs):
            out[which] = bound.realised(z, np.stack([y[i] for i in which]), prices)
        return out

    @lazily_scored
    def score(self, X: Any, y: Any, sample_weight: Any = None, costs: Any = None) -> float:
        """Minus the mean task loss over examples; higher is better. costs: as in `predict`, which decides for them."""
        losses = self.losses(X, y, costs=costs)
        return -float(np.average(losses, weights=example_weights(sample_weight, len(losses))))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.two_d_array = False
        return tags


def _by_size(loss: MatchingHamming, tables: Sequence[np.ndarray]) -> list[tuple[MatchingHamming, np.ndarray]]:
    """The loss of each size, and which examples have it."""
    shapes = np.array([table.shape[:2] for table in tables])
    return [
        (loss.bind(int(m), int(n)), np.flatnonzero((shapes == (m, n)).all(1))) for m, n in np.unique(shapes, axis=0)
    ]
