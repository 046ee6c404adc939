"""Label sequences: the linear-chain conditional random field, decoded for the loss you are judged by."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from ..data.weights import example_weights
from ..hypotheses.base import Hypothesis
from ..hypotheses.structured import ForestRows, NodeEdgeScores, Structured
from ..losses.base import Loss
from ..losses.chain import SequenceZeroOne
from ..losses.sequence import SequenceLoss
from ..model_files import Portable
from ..objectives import Forests, PenalisedRisk, objective
from ..objectives.forests import forest_law
from ..parallel import Executor
from ..polytopes._forest import Forest, Limits, k_best, marginals, maximise, sample
from ..sequences import Packed, SequenceLabels, SequenceReader, as_labels
from ..surrogates.base import Surrogate
from .base import Minimiser, keep

_BLOCK_EDGES = 1 << 22  # edge marginals held at a time when predicting


class SequenceTagger(Portable, Minimiser, BaseEstimator):
    """A label for every position of a sequence: a linear-chain CRF, decoded for any loss over neighbours.

    theta minimises mean_i -log p(y_i | x_i) + alpha/2 |theta|^2 over sequences i (intercepts are not penalised):
    CRFsuite's c2 is n alpha / 2, and with fit_intercept=False and boundaries=False the models are the same.

    X is a list of sequences, each an array, sparse matrix or data frame with one row per position, or a list with a
    mapping of features (or a list of feature names) per position; or Packed(rows, offsets). y is a list of sequences of
    labels of any type (with Packed, one array or list of all labels will do); None or NaN marks a label that was not
    observed.

    Parameters
    ----------
    loss : a loss on sequences or its name. "chain-hamming" predicts the likeliest label at each position,
        "sequence-zero-one" the likeliest sequence as a whole (MAP), ChainCost what costs least.
    surrogate : "chain-crf", or any surrogate that fits a chain's polytope, such as "quadratic".
    hypothesis : the scores of positions: "linear", a kernel, or any other hypothesis.
    alpha : strength of the penalty, above zero.
    fit_intercept : one score per label, not penalised.
    boundaries : scores of their own for the first and the last label.
    transition_features : features on which transitions depend, too: None, "all", or a list of columns or of names.
    forbidden : pairs (label, next label) that never occur; None stands for the start or the end of a sequence. A pair
        with a label that y does not have is passed over, as folds may lack rare labels.
    solver, tol, max_iter, warm_start, verbose : as in TaskLossEstimator.

    Attributes
    ----------
    classes_ : the labels, in the order of all tables.
    state_weights_, transition_weights_, feature_transition_weights_, start_weights_, end_weights_, intercept_ : pieces of
        theta_.
    loss_, solution_, n_features_in_, feature_names_in_ (where features have names), n_iter_.
    """

    loss: Any
    surrogate: Any
    hypothesis: Any
    alpha: float
    fit_intercept: bool
    boundaries: bool
    transition_features: Any
    forbidden: Any
    solver: Any
    tol: float
    max_iter: int
    warm_start: bool
    verbose: bool
    loss_: SequenceLoss

    def __init__(
        self,
        loss: Any = "chain-hamming",
        surrogate: Any = "chain-crf",
        hypothesis: Any = "linear",
        *,
        alpha: float = 1e-3,
        fit_intercept: bool = True,
        boundaries: bool = True,
        transition_features: Any = None,
        forbidden: Any = None,
        solver: Any = "auto",
        tol: float = 1e-6,
        max_iter: int = 1000,
        warm_start: bool = False,
        verbose: bool = False,
    ):
        keep(self, locals())

    # -- fitting -----------------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to sequences X and their labels y; sample_weight is one weight per sequence."""
        self._check_numbers()
        hypothesis, inputs, risk, (loss, reader, labels) = self._problem(X, y, sample_weight)
        found: dict[str, Any] = {"loss_": loss, "reader_": reader, "labels_": labels, "surrogate_": risk.surrogate}
        names = None if reader.vocabulary is None else np.array(list(reader.vocabulary), dtype=object)
        found |= {"limits_": risk.limits, "n_features_in_": inputs.shape[1], "feature_names_in_": names}
        self._fit_to(hypothesis, inputs, risk, found)
        return self

    def objective(self, X: Any, y: Any, sample_weight: Any = None) -> PenalisedRisk:
        """The function of theta that `fit` minimises on these data, for other solvers and for checks; nothing is fitted."""
        return objective(*self._problem(X, y, sample_weight)[:3], self.alpha)

    def _problem(
        self, X: Any, y: Any, sample_weight: Any
    ) -> tuple[Hypothesis, ForestRows, Forests, tuple[SequenceLoss, SequenceReader, SequenceLabels]]:
        """The hypothesis, its inputs and the risk, and what else a fit keeps."""
        reader = SequenceReader()
        rows, offsets = reader.fit_read(X)
        y = as_labels(X, y)
        labels = SequenceLabels(y)
        codes = labels.encode(y, offsets, partial=True)
        weights = example_weights(sample_weight, len(offsets) - 1, "sequences")
        loss = clone(_as_loss(self.loss, labels.size))  # of its own: set_params after the fit changes no prediction
        inputs = ForestRows(rows, Forest.chains(np.diff(offsets)))
        loss.check(inputs.forest, labels.classes)
        limits = self._limits(labels.classes)
        self._check_transitions(limits, codes, offsets, labels.classes)
        risk = Forests(clone(Surrogate.resolve(self.surrogate)), inputs.forest, codes, weights, labels.size, limits)
        node = Hypothesis.resolve(self.hypothesis)
        node.check(type(self).__name__)
        node = node.with_params(fit_intercept=self.fit_intercept and node.fit_intercept)
        hypothesis = Structured(node, self._columns(reader, rows.shape[1]), self.boundaries)
        return hypothesis.bind(inputs, risk.row_weights), inputs, risk, (loss, reader, labels)

    def _columns(self, reader: SequenceReader, n_features: int) -> np.ndarray | None:
        asked = self.transition_features
        if asked is None:
            return None
        if isinstance(asked, str):
            if asked != "all":
                raise ValueError(f"transition_features must be None, 'all' or a list of features, got {asked!r}.")
            return np.arange(n_features)
        known = reader.vocabulary or {}
        asked = list(asked) if hasattr(asked, "__iter__") else [asked]
        columns = [known.get(f, -1) if isinstance(f, str) else f for f in asked]
        for feature, column in zip(asked, columns, strict=True):
            if not isinstance(column, int | np.integer) or not 0 <= column < n_features:
                raise ValueError(
                    f"transition_features names {feature!r}, which is not among the {n_features} features."
                )
        return np.asarray(columns, dtype=np.int64)

    def _limits(self, classes: np.ndarray) -> Limits:
        if self.forbidden is None:
            return Limits()
        k = len(classes)
        table = np.zeros((k + 1, k + 1))  # the last row is the start, the last column the end
        index = {label: i for i, label in enumerate(classes.tolist())} | {None: k}
        for pair in self.forbidden if hasattr(self.forbidden, "__iter__") else [self.forbidden]:
            if isinstance(pair, str) or np.shape(pair)[:1] != (2,) or all(label is None for label in pair):
                raise ValueError(f"forbidden must list pairs (label, next label), with None for an end; got {pair!r}.")
            before, after = (index.get(label) for label in pair)
            if before is not None and after is not None:  # a fold may lack a rare label
                table[before, after] = -np.inf
        parts = table[:k, :k], table[k, :k], table[:k, k]
        return Limits(*(part if np.isneginf(part).any() else None for part in parts))

    def _check_transitions(self, limits: Limits, codes: np.ndarray, offsets: np.ndarray, classes: np.ndarray) -> None:
        """Refuse training data that the model holds to be impossible."""
        first, last = offsets[:-1], offsets[1:] - 1
        inner = np.setdiff1d(np.arange(len(codes)), first)
        for table, before, after in (
            (limits.transition, codes[inner - 1], codes[inner]),
            (None if limits.start is None else limits.start[None], np.zeros(len(first), int), codes[first]),
            (None if limits.end is None else limits.end[:, None], codes[last], np.zeros(len(last), int)),
        ):
            if table is None:
                continue
            seen = (before >= 0) & (after >= 0)
            bad = np.flatnonzero(seen & np.isneginf(table[before, after]))
            if len(bad):
                a = "the start" if len(table) == 1 else repr(classes.tolist()[before[bad[0]]])
                b = "the end" if table.shape[1] == 1 else repr(classes.tolist()[after[bad[0]]])
                raise ValueError(
                    f"The training data go from {a} to {b}, which is forbidden: correct the labels, or allow it."
                )

    # -- predicting --------------------------------------------------------------------------------------------------

    def predict(self, X: Any, loss: Any = None) -> Any:
        """The labels of least expected loss: one array per sequence, or for Packed one array for all.

        loss: another loss on the same labels; the fit is the same, only the decision changes. With
        "sequence-zero-one" this is MAP decoding.
        """
        bound = self._loss_for(loss)
        z, offsets = self._decide(X, bound)
        return self._unpack(bound.output_names(self.classes_)[z], offsets, X)

    def predict_marginals(self, X: Any) -> Any:
        """P(y_t = label): one array (positions, labels) per sequence, columns as in classes_; for Packed one array for all."""
        mu, offsets = self._each(X, lambda f, nodes, pairs: nodes, False)
        return self._unpack(np.concatenate(mu), offsets, X)

    def predict_moments(self, X: Any) -> list[np.ndarray]:
        """mu, the mean of phi(y), for each sequence: the nodes' marginals and then the edges', as polytopes.Chain lays them out."""

        def lay(f: Forest, nodes: np.ndarray, pairs: np.ndarray) -> list[np.ndarray]:
            cuts = f.offsets[1:-1]
            both = zip(np.split(nodes, cuts), np.split(pairs, cuts - np.arange(1, len(f))), strict=True)
            return [np.concatenate([a.ravel(), b.ravel()]) for a, b in both]

        return [mu for part in self._each(X, lay, True)[0] for mu in part]

    def expected_loss(self, X: Any, loss: Any = None) -> np.ndarray:
        """The expected loss of each sequence's prediction, as the fitted marginals estimate it."""
        bound = self._loss_for(loss)
        limits = bound.output_limits(self.limits_, self.classes_)

        def risk(f: Forest, mu: np.ndarray, pairs: Any) -> np.ndarray:
            return bound.packed_risk(f, bound.packed_decode(f, mu, pairs, limits), mu, pairs)

        def miss(f: Forest, unary: np.ndarray, pairwise: np.ndarray) -> np.ndarray:
            log_z = marginals(f, unary, pairwise, "none")[0]
            return -np.expm1(maximise(f, *limits.apply(f, unary, pairwise))[0] - log_z)

        if isinstance(bound, SequenceZeroOne):
            return np.concatenate(self._blocks(X, miss, False)[0])
        return np.concatenate(self._each(X, risk, bound.needs_edges)[0])

    def predict_best(self, X: Any, k: int) -> tuple[np.ndarray, list[np.ndarray]]:
        """The k likeliest sequences: log-probabilities (sequences, k) in falling order, and labels, one (k, positions) array each.

        Where there are fewer than k, the log-probability is -inf.
        """
        if k < 1:
            raise ValueError(f"k must be at least 1, got {k}.")
        forest, unary, pairwise = self._scores(X)
        score, states = k_best(forest, unary, pairwise, k)
        score = score - marginals(forest, unary, pairwise, pairs="none")[0][:, None]
        return score, [self.classes_[s.T] for s in np.split(states.T, forest.offsets[1:-1])]

    def sample(self, X: Any, count: int = 1, random_state: Any = None) -> list[np.ndarray]:
        """Label sequences drawn from the fitted law: one array (count, positions) per sequence."""
        forest, unary, pairwise = self._scores(X)
        states = sample(forest, unary, pairwise, count, np.random.default_rng(random_state))
        return [self.classes_[s.T] for s in np.split(states.T, forest.offsets[1:-1])]

    def score(self, X: Any, y: Any, sample_weight: Any = None, loss: Any = None) -> float:
        """Minus the mean task loss over sequences; higher is better."""
        bound = self._loss_for(loss)
        z, offsets = self._decide(X, bound)
        losses = bound.packed_loss(Forest.chains(np.diff(offsets)), z, self.labels_.encode(as_labels(X, y), offsets))
        return -float(np.average(losses, weights=example_weights(sample_weight, len(losses), "sequences")))

    # -- inside ------------------------------------------------------------------------------------------------------

    def _loss_for(self, loss: Any) -> SequenceLoss:
        check_is_fitted(self)
        return self.loss_ if loss is None else _as_loss(loss, self.labels_.size)

    def _read(self, X: Any) -> tuple[ForestRows, np.ndarray]:
        check_is_fitted(self)
        rows, offsets = self.reader_.read(X)
        return ForestRows(rows, Forest.chains(np.diff(offsets))), offsets

    def _scores(self, X: Any) -> tuple[Forest, np.ndarray, np.ndarray]:
        inputs, _ = self._read(X)
        return inputs.forest, *self._scores_of(inputs)

    def _scores_of(self, inputs: ForestRows) -> tuple[np.ndarray, np.ndarray]:
        v = self.hypothesis_.predict(self.theta_, inputs)
        return self.limits_.apply(inputs.forest, v.nodes, v.edges)

    def _decide(self, X: Any, loss: SequenceLoss) -> tuple[np.ndarray, np.ndarray]:
        """The codes of the outputs of least expected loss at all positions, and offsets."""
        limits = loss.output_limits(self.limits_, self.classes_)
        if isinstance(loss, SequenceZeroOne):
            # The maximiser of the scores themselves: on long sequences marginals underflow.
            z, offsets = self._blocks(
                X, lambda f, unary, pairwise: maximise(f, *limits.apply(f, unary, pairwise))[1], False
            )
        else:
            z, offsets = self._each(X, lambda f, mu, pairs: loss.packed_decode(f, mu, pairs, limits), loss.needs_edges)
        return np.concatenate(z), offsets

    def _each(self, X: Any, work: Callable[..., Any], edges: bool) -> tuple[list, np.ndarray]:
        """work(forest, node marginals, edge marginals) on blocks of sequences, and offsets."""
        check_is_fitted(self)
        law = forest_law(self.surrogate_, self.labels_.size, self.limits_)

        def run(forest: Forest, unary: np.ndarray, pairwise: np.ndarray) -> Any:
            return work(forest, *law.moments(forest, NodeEdgeScores(unary, pairwise), edges))

        return self._blocks(X, run, edges)

    def _blocks(self, X: Any, work: Callable[..., Any], edges: bool) -> tuple[list, np.ndarray]:
        """work(forest, unary, pairwise) on the scores of blocks of sequences, on threads, in order; and offsets."""
        inputs, offsets = self._read(X)
        forest, k = inputs.forest, self.labels_.size
        executor = Executor.for_work(self.hypothesis_.work(inputs) * k + 4 * forest.n_nodes * k**2, len(forest))
        rows = -(-forest.n_nodes // executor.threads)
        if edges or self.transition_features is not None:
            rows = min(rows, max(256, _BLOCK_EDGES // k**2))

        def run(block: tuple[slice, Forest]) -> Any:
            trees, some = block
            nodes = slice(int(forest.offsets[trees.start]), int(forest.offsets[trees.stop]))
            return work(some, *self._scores_of(ForestRows(inputs.rows[nodes], some)))

        return executor.map(run, forest.blocks(rows)), offsets

    def _unpack(self, values: np.ndarray, offsets: np.ndarray, X: Any) -> Any:
        return values if isinstance(X, Packed) else np.split(values, offsets[1:-1])

    @property
    def classes_(self) -> np.ndarray:
        check_is_fitted(self)
        return self.labels_.classes

    def _part(self, name: str) -> np.ndarray:
        check_is_fitted(self)
        parts = self.hypothesis_.parts(self.hypothesis_.expand(self.theta_))
        return parts[name] if name in parts else np.zeros(self.labels_.size)

    @property
    def state_weights_(self) -> np.ndarray:
        """(features, labels); with a kernel its values at the centres are the features."""
        return self._part("node")[:-1]

    @property
    def transition_weights_(self) -> np.ndarray:
        """[label, next label]."""
        return self._part("transition")

    @property
    def feature_transition_weights_(self) -> np.ndarray:
        """[transition feature, label, next label]; the features are those of `transition_features`, in its order."""
        k = self.labels_.size
        return self._part("edges").reshape(-1, k, k) if self.hypothesis_.edges is not None else np.zeros((0, k, k))

    @property
    def start_weights_(self) -> np.ndarray:
        return self._part("start")

    @property
    def end_weights_(self) -> np.ndarray:
        return self._part("end")

    @property
    def intercept_(self) -> np.ndarray:
        return self._part("node")[-1]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.two_d_array = False
        tags.input_tags.sparse = True
        return tags


def _as_loss(spec: Any, n_states: int) -> SequenceLoss:
    loss = Loss.resolve(spec)
    if not isinstance(loss, SequenceLoss):
        raise ValueError(
            f"{loss!r} is no loss on sequences: use ChainHamming, ChainCost or SequenceZeroOne, or another estimator."
        )
    return loss.bind(n_states)
