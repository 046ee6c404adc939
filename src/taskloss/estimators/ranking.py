"""Learning to rank."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted, column_or_1d

from .._checks import count_examples, said_of
from ..data.groups import GroupIds, group_ids
from ..data.weights import example_weights, propensities
from ..distributed import is_collection
from ..hypotheses.base import Hypothesis
from ..losses.base import Loss
from ..losses.ndcg import DCG, Ranking, check_relevance
from ..objectives import Batch, Groups, Monitor
from ..surrogates.base import Surrogate
from ..surrogates.coordinatewise import OneVsAll
from .base import check_features, keep, read_more
from .grouped import GroupedEstimator
from .lazily import lazily, lazily_by_group, lazily_in_groups, lazily_scored
from .partition_plans import GroupsPlan, partitioned_ids
from .partitioned import fit_partitioned
from .validation import Judge, given_monitor, held_parts

_NO_GROUPS = (
    "Ranker needs groups, one id per row, or group, their sizes, to know which items compete; inside GridSearchCV or a Pipeline call "
    "sklearn.set_config(enable_metadata_routing=True) so that they are passed on."
)


class Ranker(GroupedEstimator):
    """Ranks the items of a group (the documents of a query) by their expected normalised gains.

    X has a row per item, y its relevance (graded or real, not negative) and groups the id of its group. The surrogate
    is fitted to the moments that the loss needs, for NDCG the gains divided by the group's best DCG, and items are
    sorted by what it estimates: consistent for the loss, unlike regression on the relevance itself.

    Parameters
    ----------
    loss : a ranking loss or its name: `NDCG(gain, discount, at)`, `DCG(gain, discount, at)`, `PrecisionAt(at)`.
    surrogate : "quadratic" (ridge regression on the gains), "logistic" (one logistic regression per item on gains in
        [0, 1]), "listwise" ("auto"; entropy over the items of a group), or a surrogate.
    hypothesis, alpha, solver, tol, max_iter, warm_start, verbose : as in `TaskLossEstimator`; groups weigh equally.

    Every method takes groups in one of three forms: `groups` or `qid`, an id for each row, in any order; or `group`, the sizes of
    groups whose rows stand together. Clicks are corrected for what was seen by `propensity`, in fits and scores, where
    the loss is affine in the gains of each item (`DCG`, `PrecisionAt`).

    Inside GridSearchCV, `sklearn.set_config(enable_metadata_routing=True)` lets groups and propensities through to fit and
    score; they are requested by default. Sizes do not survive a split: use ids there.

    Attributes
    ----------
    loss_, surrogate_, hypothesis_ : the parts, as they were at the fit.
    theta_, coef_, intercept_ : parameters; scores are X @ coef_ + intercept_.
    solution_, n_iter_, n_features_in_.
    """

    short = {"logistic": OneVsAll("logistic"), "auto": "listwise"}
    __metadata_request__fit = {"groups": True, "group": True, "qid": True, "propensity": True}
    __metadata_request__partial_fit = {"groups": True, "group": True, "qid": True, "propensity": True}
    __metadata_request__predict = {"groups": True, "group": True, "qid": True}
    __metadata_request__score = {"groups": True, "group": True, "qid": True, "propensity": True}

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
        *,
        group: Any = None,
        qid: Any = None,
        propensity: Any = None,
    ) -> Self:
        """Fit to items and the relevance y of each. A group weighs as its rows do on average.

        propensity: for clicks, the chance that each item was seen, above zero; y / propensity is then unbiased for the relevance, and
        so is the risk. validation: held-out data (X, y, groups), on whose task loss trees stop early; else they hold out some of
        these groups. checkpoint: as in `TaskLossEstimator.fit`.
        """
        if propensity is not None and validation is not None:
            raise ValueError("validation has no propensities: leave it out, so that groups of this fit are held out.")
        if is_collection(X) or is_collection(y):
            ids = partitioned_ids(groups, group, qid)
            given = {"X": X, "y": y, "sample_weight": sample_weight, "groups": ids, "propensity": propensity}
            return fit_partitioned(self, GroupsPlan(self), given, validation, checkpoint)
        groups = group_ids(groups, group, qid, count_examples("X", X))
        self._solve(*self._problem(X, y, groups, sample_weight, propensity), validation, checkpoint)
        return self

    def partial_fit(
        self,
        X: Any,
        y: Any,
        groups: Any = None,
        sample_weight: Any = None,
        *,
        group: Any = None,
        qid: Any = None,
        propensity: Any = None,
    ) -> Self:
        """Take the groups of some more items into the average of stochastic gradient descent, a step for each group.

        A group is whole in one call. A Nyström hypothesis takes its centres from the first call's rows. DCG needs its top.
        """
        if isinstance(loss := self._ranking_loss(self.loss), DCG) and loss.top is None:
            raise ValueError("loss=DCG(...) scales gains by the largest relevance: for a stream give it, as top=...")
        groups = group_ids(groups, group, qid, count_examples("X", X))
        self._solve_more(*self._problem(X, y, groups, sample_weight, propensity))
        return self

    def _problem(
        self,
        X: Any,
        y: Any,
        groups: Any,
        sample_weight: Any,
        propensity: Any,
        part: bool = False,
        known: Ranking | None = None,
    ) -> tuple[Hypothesis, Any, Groups, dict[str, Any], Judge]:
        """The hypothesis, its rows, their risk, what else a fit keeps, and what judges groups that are held out.

        part: of some groups of a fit, whose weights are not normalised yet, by a loss that has seen all, if it is known.
        """
        self._check_numbers()
        loss, surrogate, hypothesis = self._ranking_loss(self.loss), self._make_surrogate(), self._make_hypothesis()
        X, features = check_features(self, X, hypothesis)
        y = self._relevance(y, X.shape[0])
        loss = loss.bind_codes(y) if known is None else known
        groups = self._groups(groups, X.shape[0], needed=True)
        weights = example_weights(sample_weight, X.shape[0], "rows", part)
        seen = None if propensity is None else propensities(propensity, X.shape[0])
        order, batches, group_weights = [], [], []
        for size, _, rows in groups.by_size():
            bound = loss.bind(size)
            fitted = surrogate.bind(bound.polytope).bind_outputs(bound)
            order.append(rows.ravel())
            batches.append(Batch(fitted, _moments(bound, y[rows], None if seen is None else seen[rows], fitted)))
            group_weights.append(weights[rows].mean(1))
        risk = Groups(batches, np.concatenate(group_weights), part=part)
        arranged = np.concatenate(order)

        def losses(v: np.ndarray, which: np.ndarray) -> np.ndarray:
            ids = np.repeat(np.arange(len(which)), np.diff(risk.first_rows)[which])
            rows = arranged[risk.rows_of(which)]
            return self._losses(loss, surrogate, v, y[rows], ids, None if seen is None else seen[rows])

        found = features | {"loss_": loss, "surrogate_": surrogate}
        return hypothesis, X[arranged], risk, found, Judge(losses)

    def _monitor(self, hypothesis: Hypothesis, found: dict[str, Any], validation: Any) -> Monitor:
        X, y, ids = held_parts(validation, "(X, y, groups)")
        inputs = read_more(self, X, hypothesis, found)
        y, parts = self._relevance(y, inputs.shape[0]), (found["loss_"], found["surrogate_"])
        return given_monitor(hypothesis, inputs, lambda v: self._losses(*parts, v, y, ids))

    def _losses(
        self, loss: Ranking, surrogate: Surrogate, v: np.ndarray, y: np.ndarray, ids: Any, seen: Any = None
    ) -> np.ndarray:
        """The loss of each group's ranking by its scores."""
        groups = GroupIds(ids, len(y))
        out = np.empty(len(groups))
        for size, which, rows in groups.by_size():
            bound = loss.bind(size)
            mu = surrogate.bind(bound.polytope).inverse_link(v.ravel()[rows])
            out[which] = _realised(bound, bound.decode(mu), y[rows], None if seen is None else seen[rows])
        return out

    def _ranking_loss(self, loss: Any) -> Ranking:
        loss = Loss.resolve(loss)
        if loss.kind != "ranking":
            raise ValueError(f"{loss!r} is no loss on rankings: use NDCG(...), DCG(...) or PrecisionAt(...).")
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

    @lazily
    def predict_scores(self, X: Any) -> np.ndarray:
        """One score per item; within a group a higher score is a higher rank, and no groups are needed."""
        check_is_fitted(self)
        return self._scores(self.hypothesis_.read(X, self, False))

    @lazily_in_groups
    def predict_moments(self, X: Any, groups: Any = None, *, group: Any = None, qid: Any = None) -> np.ndarray:
        """The expected gain of each item within its group, normalised for NDCG; without groups, all rows are one."""
        mu = np.empty(count_examples("X", X))
        groups = group_ids(groups, group, qid, len(mu))
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

    @lazily_in_groups
    def predict(
        self, X: Any, groups: Any = None, loss: Any = None, *, group: Any = None, qid: Any = None
    ) -> np.ndarray:
        """The rank of each item in its group, 0 at the top; without groups, all rows are one group.

        loss: another ranking loss on the same moments, such as PrecisionAt at another depth.
        """
        z = np.empty(count_examples("X", X), dtype=np.int64)
        groups = group_ids(groups, group, qid, len(z))
        for _, _, rows, _, found in self._by_size(X, groups, loss):
            z[rows] = found
        return z

    @lazily_by_group
    def expected_loss(
        self, X: Any, groups: Any = None, loss: Any = None, *, group: Any = None, qid: Any = None
    ) -> np.ndarray:
        """The expected loss of each group's ranking as the fitted moments estimate it, in the order of the sorted ids."""
        groups = group_ids(groups, group, qid, count_examples("X", X))
        found = self._groups(groups, count_examples("X", X))
        out = np.empty(len(found))
        for bound, which, _, mu, z in self._by_size(X, groups, loss):
            out[which] = bound.bayes_risk(z, mu)
        return out

    @lazily_by_group
    def group_losses(
        self,
        X: Any,
        y: Any,
        groups: Any = None,
        loss: Any = None,
        *,
        group: Any = None,
        qid: Any = None,
        propensity: Any = None,
    ) -> np.ndarray:
        """The loss of each group's ranking against the relevance y, in the order of the sorted ids.

        loss: any ranking loss, also one that needs other moments; the ranking is the fitted loss's. propensity: as in `fit`; losses of
        clicks are then unbiased for those of the relevance.
        """
        groups = group_ids(groups, group, qid, count_examples("X", X))
        z = self.predict(X, groups)
        found, y = self._groups(groups, len(z), needed=True), self._relevance(y, len(z))
        seen = None if propensity is None else propensities(propensity, len(z))
        judge, out = self._loss_for(loss), np.empty(len(found))
        for size, which, rows in found.by_size():
            out[which] = _realised(judge.bind(size), z[rows], y[rows], None if seen is None else seen[rows])
        return out

    @lazily_scored
    def score(
        self,
        X: Any,
        y: Any,
        groups: Any = None,
        sample_weight: Any = None,
        *,
        group: Any = None,
        qid: Any = None,
        propensity: Any = None,
    ) -> float:
        """Minus the mean task loss over groups; higher is better. NDCG's is mean NDCG less one. propensity: as in `fit`."""
        groups = group_ids(groups, group, qid, count_examples("X", X))
        losses = self.group_losses(X, y, groups, propensity=propensity)
        if sample_weight is None:
            return -float(losses.mean())
        found = self._groups(groups, count_examples("X", X))
        rows = example_weights(sample_weight, len(found.group_of), "rows")
        return -float(np.average(losses, weights=found.means(rows)))

    def _groups_weight(self, parts: dict[str, Any]) -> float:
        """What the groups of some rows weigh together in `score`."""
        n = count_examples("X", parts["X"])
        found = GroupIds(group_ids(parts.get("groups"), None, parts.get("qid"), n), n)
        rows = example_weights(parts.get("sample_weight"), n, "rows", part=True)
        return float(found.means(rows).sum())

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = Hypothesis.resolve(self.hypothesis).allow_nan
        tags.target_tags.required = True
        tags._skip_test = True  # scikit-learn's checks pass no groups; the same laws are tested on groups
        return tags


def _moments(loss: Ranking, y: np.ndarray, seen: np.ndarray | None, surrogate: Surrogate) -> np.ndarray:
    """What the surrogate is fitted to: phi(y), or for clicks an unbiased estimate of it, which may lie outside M."""
    phi = loss.phi(y)
    if seen is None:
        return phi
    if not (surrogate.canonical or surrogate.odds):  # S(v, phi) = A(v) - <phi, v> is convex in v for any phi
        raise ValueError(
            f"surrogate={surrogate!r} has no convex risk of clicks over propensities, which exceed one: use 'quadratic', 'logistic' or 'listwise'."
        )
    return loss.seen_through(phi, seen)


def _realised(loss: Ranking, z: np.ndarray, y: np.ndarray, seen: np.ndarray | None) -> np.ndarray:
    """L(z, y), or for clicks an unbiased estimate of it."""
    return loss(z, y) if seen is None else loss.bayes_risk(z, loss.seen_through(loss.phi(y), seen))
