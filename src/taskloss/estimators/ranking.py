"""Learning to rank."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted, column_or_1d

from .._checks import count_examples, said_of
from ..data.groups import GroupIds
from ..data.weights import example_weights
from ..distributed import is_collection
from ..hypotheses.base import Hypothesis
from ..losses.base import Loss
from ..losses.ndcg import Ranking, check_relevance
from ..objectives import Batch, Groups, Monitor
from ..surrogates.base import Surrogate
from ..surrogates.coordinatewise import OneVsAll
from .base import check_features, keep, read_more
from .grouped import GroupedEstimator
from .partition_plans import GroupsPlan
from .partitioned import fit_partitioned
from .validation import Judge, given_monitor, held_parts

_NO_GROUPS = (
    "Ranker needs groups, one id per row, to know which items compete; inside GridSearchCV or a Pipeline call "
    "sklearn.set_config(enable_metadata_routing=True) so that they are passed on."
)


class Ranker(GroupedEstimator):
    """Ranks the items of a group (the documents of a query) by their expected normalised gains.

    X has a row per item, y its relevance (graded or real, not negative) and groups the id of its group. The surrogate
    is fitted to the moments that the loss needs, for NDCG the gains divided by the group's best DCG, and items are
    sorted by what it estimates: consistent for the loss, unlike regression on the relevance itself.

    Parameters
    ----------
    loss : a ranking loss or its name: `NDCG(gain, discount, at)`, `PrecisionAt(at)`.
    surrogate : "quadratic" (ridge regression on the gains), "logistic" (one logistic regression per item on gains in
        [0, 1]), "listwise" ("auto"; entropy over the items of a group), or a surrogate.
    hypothesis, alpha, solver, tol, max_iter, warm_start, verbose : as in `TaskLossEstimator`; groups weigh equally.

    Inside GridSearchCV, `sklearn.set_config(enable_metadata_routing=True)` lets groups through to fit and score; they
    are requested by default.

    Attributes
    ----------
    loss_, surrogate_, hypothesis_ : the parts, as they were at the fit.
    theta_, coef_, intercept_ : parameters; scores are X @ coef_ + intercept_.
    solution_, n_iter_, n_features_in_.
    """

    short = {"logistic": OneVsAll("logistic"), "auto": "listwise"}
    __metadata_request__fit = {"groups": True}
    __metadata_request__partial_fit = {"groups": True}
    __metadata_request__predict = {"groups": True}
    __metadata_request__score = {"groups": True}

    def __init__(
        self,
        loss: Any = "ndcg",
        surrogate: Any = "listwise",
        hypothesis: Any = "linear",
        *,
        alpha: Any = None,
        solver: Any = "auto",
        tol: float = 1e-8,
        max_iter: int = 1000,
        warm_start: bool = False,
        verbose: bool = False,
    ):
        keep(self, locals())

    def fit(
        self,
        X: Any,
        y: Any,
        groups: Any = None,
        sample_weight: Any = None,
        validation: Any = None,
        checkpoint: Any = None,
    ) -> Self:
        """Fit to items; groups gives the group of each row, in any order. A group weighs as its rows do on average.

        validation: held-out data (X, y, groups), on whose task loss trees stop early; else they hold out some of these groups.
        checkpoint: as in `TaskLossEstimator.fit`.
        """
        if is_collection(X):
            given = {"X": X, "y": y, "sample_weight": sample_weight, "groups": groups}
            return fit_partitioned(self, GroupsPlan(self), given, validation, checkpoint)
        self._solve(*self._problem(X, y, groups, sample_weight), validation, checkpoint)
        return self

    def partial_fit(self, X: Any, y: Any, groups: Any = None, sample_weight: Any = None) -> Self:
        """Take the groups of some more items into the average of stochastic gradient descent, a step for each group.

        A group is whole in one call. A Nyström hypothesis takes its centres from the first call's rows.
        """
        self._solve_more(*self._problem(X, y, groups, sample_weight))
        return self

    def _problem(
        self, X: Any, y: Any, groups: Any, sample_weight: Any, part: bool = False
    ) -> tuple[Hypothesis, Any, Groups, dict[str, Any], Judge]:
        """The hypothesis, its rows, their risk, what else a fit keeps, and what judges groups that are held out."""
        self._check_numbers()
        loss, surrogate, hypothesis = self._ranking_loss(self.loss), self._make_surrogate(), self._make_hypothesis()
        X, features = check_features(self, X, hypothesis)
        y = self._relevance(y, X.shape[0])
        groups = self._groups(groups, X.shape[0], needed=True)
        weights = example_weights(sample_weight, X.shape[0], "rows", part)
        order, batches, group_weights = [], [], []
        for size, _, rows in groups.by_size():
            bound = loss.bind(size)
            order.append(rows.ravel())
            batches.append(Batch(surrogate.bind(bound.polytope).bind_outputs(bound), bound.phi(y[rows])))
            group_weights.append(weights[rows].mean(1))
        risk = Groups(batches, np.concatenate(group_weights), part=part)
        arranged = np.concatenate(order)

        def losses(v: np.ndarray, which: np.ndarray) -> np.ndarray:
            ids = np.repeat(np.arange(len(which)), np.diff(risk.first_rows)[which])
            return self._losses(loss, surrogate, v, y[arranged[risk.rows_of(which)]], ids)

        found = features | {"loss_": loss, "surrogate_": surrogate}
        return hypothesis, X[arranged], risk, found, Judge(losses)

    def _monitor(self, hypothesis: Hypothesis, found: dict[str, Any], validation: Any) -> Monitor:
        X, y, ids = held_parts(validation, "(X, y, groups)")
        inputs = read_more(self, X, hypothesis, found)
        y, parts = self._relevance(y, inputs.shape[0]), (found["loss_"], found["surrogate_"])
        return given_monitor(hypothesis, inputs, lambda v: self._losses(*parts, v, y, ids))

    def _losses(self, loss: Ranking, surrogate: Surrogate, v: np.ndarray, y: np.ndarray, ids: Any) -> np.ndarray:
        """The loss of each group's ranking by its scores."""
        groups = GroupIds(ids, len(y))
        out = np.empty(len(groups))
        for size, which, rows in groups.by_size():
            bound = loss.bind(size)
            mu = surrogate.bind(bound.polytope).inverse_link(v.ravel()[rows])
            out[which] = bound(bound.decode(mu), y[rows])
        return out

    def _ranking_loss(self, loss: Any) -> Ranking:
        loss = Loss.resolve(loss)
        if loss.kind != "ranking":
            raise ValueError(f"{loss!r} is no loss on rankings: use NDCG(...) or PrecisionAt(...).")
        return loss.with_params(n_items=None)

    def _relevance(self, y: Any, n: int) -> np.ndarray:
        if y is None:
            raise ValueError("This estimator requires y to be passed, but the target y is None.")
        with said_of("y", "be one number for each item, its relevance"):
            y = column_or_1d(y, warn=True).astype(float)
        if len(y) != n:
            raise ValueError(f"X and y have different lengths: {n} and {len(y)}.")
        return check_relevance(y)

    # -- predicting --------------------------------------------------------------------------------------------------

    def _loss_for(self, loss: Any) -> Ranking:
        check_is_fitted(self)
        return self.loss_ if loss is None else self._ranking_loss(loss)

    def predict_scores(self, X: Any) -> np.ndarray:
        """One score per item; within a group a higher score is a higher rank, and no groups are needed."""
        check_is_fitted(self)
        return self._scores(self.hypothesis_.read(X, self, False))

    def predict_moments(self, X: Any, groups: Any = None) -> np.ndarray:
        """The expected normalised gain of each item within its group; without groups, all rows are one."""
        mu = np.empty(count_examples("X", X))
        for _, _, rows, part, _ in self._by_size(X, groups, None):
            mu[rows] = part
        return mu

    def _by_size(self, X: Any, groups: Any, loss: Any) -> Any:
        """(loss of this size, numbers of the groups, their rows, their moments, their rankings) for each size of group."""
        v = self.predict_scores(X)
        loss = self._loss_for(loss)
        found = self._groups(groups, len(v))
        for size, which, rows in found.by_size():
            fitted = self.loss_.bind(size)
            bound = loss.bind(size)
            surrogate = self.surrogate_.bind(fitted.polytope).bind_outputs(fitted)
            mu = fitted.moments_for(bound, surrogate.inverse_link(v[rows].astype(float)))
            own = surrogate.decide(v[rows].astype(float)) if bound == fitted else None
            yield bound, which, rows, mu, bound.decode(mu) if own is None else own

    def _groups(self, groups: Any, n: int, needed: bool = False) -> GroupIds:
        if groups is None and needed:
            raise ValueError(_NO_GROUPS)
        return GroupIds(np.zeros(n, dtype=int) if groups is None else groups, n)

    def predict(self, X: Any, groups: Any = None, loss: Any = None) -> np.ndarray:
        """The rank of each item in its group, 0 at the top; without groups, all rows are one group.

        loss: another ranking loss on the same moments, such as PrecisionAt at another depth.
        """
        z = np.empty(count_examples("X", X), dtype=np.int64)
        for _, _, rows, _, found in self._by_size(X, groups, loss):
            z[rows] = found
        return z

    def expected_loss(self, X: Any, groups: Any = None, loss: Any = None) -> np.ndarray:
        """The expected loss of each group's ranking as the fitted moments estimate it, in the order of the sorted ids."""
        found = self._groups(groups, count_examples("X", X))
        out = np.empty(len(found))
        for bound, which, _, mu, z in self._by_size(X, groups, loss):
            out[which] = bound.bayes_risk(z, mu)
        return out

    def group_losses(self, X: Any, y: Any, groups: Any = None, loss: Any = None) -> np.ndarray:
        """The loss of each group's ranking against the relevance y, in the order of the sorted ids.

        loss: any ranking loss, also one that needs other moments; the ranking is the fitted loss's.
        """
        z = self.predict(X, groups)
        found, y = self._groups(groups, len(z), needed=True), self._relevance(y, len(z))
        judge, out = self._loss_for(loss), np.empty(len(found))
        for size, which, rows in found.by_size():
            out[which] = judge.bind(size)(z[rows], y[rows])
        return out

    def score(self, X: Any, y: Any, groups: Any = None, sample_weight: Any = None) -> float:
        """Minus the mean task loss over groups; higher is better. NDCG's is mean NDCG less one."""
        losses = self.group_losses(X, y, groups)
        if sample_weight is None:
            return -float(losses.mean())
        found = self._groups(groups, count_examples("X", X))
        rows = example_weights(sample_weight, len(found.group_of), "rows")
        return -float(np.average(losses, weights=np.bincount(found.group_of, rows) / found.sizes))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = Hypothesis.resolve(self.hypothesis).allow_nan
        tags.target_tags.required = True
        tags._skip_test = True  # scikit-learn's checks pass no groups; the same laws are tested on groups
        return tags
