"""From scores of packed chains and trees to decisions: what every fitted tagger answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from ..data.sequences import Packed, SequenceLabels, SequenceReader, as_labels
from ..data.weights import example_weights
from ..hypotheses.structured import ForestRows, NodeEdgeScores, Structured
from ..losses.base import Loss
from ..losses.sequence import SequenceLoss
from ..model_files import Portable
from ..objectives.over_forests import over_forests
from ..objectives.rescaling import Rescaling
from ..parallel import Executor
from ..polytopes._forest import Forest, Limits
from ..polytopes._max_product import k_best
from ..polytopes._sum_product import marginals, sample
from ..surrogates.base import Surrogate
from .base import COSTS, warn_of_ties
from .lazily import lazily, lazily_by_example, lazily_scored
from .showing import Shown

_BLOCK_EDGES = 1 << 22  # edge marginals held at a time when predicting


class Examples(NamedTuple):
    """What was read of X: packed rows and their trees, the user's node at each packed place, and whether X was packed."""

    inputs: ForestRows
    order: Any
    packed: bool

    @property
    def forest(self) -> Forest:
        return self.inputs.forest

    def arrange(self, values: np.ndarray) -> np.ndarray:
        """Values of the packed nodes, in the user's order."""
        if isinstance(self.order, slice):
            return values
        out = np.empty_like(values)
        out[self.order] = values
        return out

    def unpack(self, values: np.ndarray) -> Any:
        """One array for each example, or for packed X one for all."""
        values = self.arrange(values)
        return values if self.packed else np.split(values, self.forest.offsets[1:-1])


class Labeller(Shown, Portable, BaseEstimator):
    """Decisions, marginals and samples from fitted scores of nodes and edges. A child says of what shape the examples are."""

    loss_: SequenceLoss
    surrogate_: Surrogate
    reader_: SequenceReader
    labels_: SequenceLabels
    limits_: Limits
    hypothesis_: Structured
    theta_: Any
    _rescalings: tuple[Rescaling, ...] = ()  # of the fitted scores, one after the other, where the law is recalibrated

    def _forest(self, X: Any, offsets: np.ndarray, parents: Any) -> tuple[Forest, Any]:
        """The shape of the examples, and the user's node at each packed place."""
        raise NotImplementedError

    # -- predicting --------------------------------------------------------------------------------------------------

    __metadata_request__predict: ClassVar = COSTS
    __metadata_request__score: ClassVar = COSTS

    @lazily
    def predict(self, X: Any, loss: Any = None, costs: Any = None, *, parents: Any = None) -> Any:
        """The labels of least expected loss: one array per example, or for Packed one array for all.

        loss: another loss on the same labels; the fit is the same, only the decision changes. With
        "sequence-zero-one" this is MAP decoding. costs: a price for each output at each position, in the loss's own
        unit, which is added to it: one array (positions, outputs) per example, or for Packed one for all.
        """
        bound, examples = self._loss_for(loss), self._read(X, parents)
        z = self._decide(examples, bound, self._prices(costs, examples, bound))
        return examples.unpack(bound.output_names(self.classes_)[z])

    @lazily_by_example
    def expected_loss(self, X: Any, loss: Any = None, costs: Any = None, *, parents: Any = None) -> np.ndarray:
        """The expected loss of each example's prediction, as the fitted moments estimate it; loss and costs as in `predict`."""
        bound, examples = self._loss_for(loss), self._read(X, parents)
        prices = self._prices(costs, examples, bound)
        own = self._own_outputs(examples, bound, prices)

        def risk(f: Forest, nodes: slice, first: np.ndarray, second: Any, limits: Limits) -> np.ndarray:
            on = None if prices is None else prices[nodes]
            z = bound.packed_decode(f, first, second, limits, on) if own is None else own[nodes]
            risks = bound.packed_risk(f, z, first, second)
            return risks if on is None else risks + _paid(f, z, on)

        def whole(f: Forest, unary: np.ndarray, pairwise: np.ndarray, limits: Limits) -> np.ndarray:
            return bound.law_risk(f, bound.law_decode(f, unary, pairwise, limits), unary, pairwise)

        return np.concatenate(self._outputs(examples, bound, prices, risk, whole))

    @lazily
    def decision_function(self, X: Any, loss: Any = None, costs: Any = None, *, parents: Any = None) -> Any:
        """Minus the least expected loss with each output at each position: one array (positions, outputs) per example.

        The largest at each position is what `predict` takes there, and equals minus `expected_loss`.
        """
        bound, examples = self._loss_for(loss), self._read(X, parents)
        prices = self._prices(costs, examples, bound)

        def each(f: Forest, nodes: slice, a: np.ndarray, b: Any, limits: Limits) -> np.ndarray:
            return bound.packed_values(f, a, b, limits, None if prices is None else prices[nodes])

        return examples.unpack(np.concatenate(self._outputs(examples, bound, prices, each, bound.law_values)))

    @lazily
    def predict_marginals(self, X: Any, *, parents: Any = None) -> Any:
        """The moments of the labels at each position, P(y_t = label) where the surrogate gives a law.

        One array (positions, labels) per example, columns as in classes_; for Packed one array for all.
        """
        examples = self._read(X, parents)
        return examples.unpack(np.concatenate(self._moments(examples, lambda f, at, nodes, pairs: nodes, False)))

    @lazily
    def predict_proba(self, X: Any, *, parents: Any = None) -> Any:
        """`predict_marginals`; moments outside the simplex, as some surrogates give them, are clipped and rescaled."""
        examples = self._read(X, parents)
        return examples.unpack(
            as_laws(np.concatenate(self._moments(examples, lambda f, at, nodes, pairs: nodes, False)))
        )

    @lazily
    def predict_log_proba(self, X: Any, *, parents: Any = None) -> Any:
        """The logarithm of `predict_proba`."""
        found = self.predict_proba(X, parents=parents)
        with np.errstate(divide="ignore"):
            return np.log(found) if isinstance(X, Packed) else [np.log(law) for law in found]

    @lazily
    def predict_moments(self, X: Any, *, parents: Any = None) -> list[np.ndarray]:
        """mu, the mean of phi(y), for each example: the nodes' moments and then the edges', by their lower ends, as polytopes lay them out."""
        examples = self._read(X, parents)
        found = self._moments(examples, lambda f, at, nodes, pairs: (nodes, pairs), True)
        nodes, pairs = (np.concatenate(part) for part in zip(*found, strict=True))
        forest, k = examples.forest, self.labels_.size
        edges = np.empty((forest.n_nodes, k, k))
        edges[forest.children] = pairs
        above = examples.arrange(forest.parents >= 0)
        nodes, edges = examples.arrange(nodes), examples.arrange(edges)
        cuts = forest.offsets[1:-1]
        split = zip(np.split(nodes, cuts), np.split(edges, cuts), np.split(above, cuts), strict=True)
        return [np.concatenate([a.ravel(), b[inner].ravel()]) for a, b, inner in split]

    def predict_best(self, X: Any, k: int, *, parents: Any = None) -> tuple[np.ndarray, list[np.ndarray]]:
        """The k likeliest labellings: log-probabilities (examples, k) in falling order, and labels, one (k, positions) array each.

        Where there are fewer than k, the log-probability is -inf.
        """
        if k < 1:
            raise ValueError(f"k must be at least 1, got {k}.")
        examples = self._read(X, parents)
        forest, unary, pairwise = self._law_scores(examples)
        score, states = k_best(forest, unary, pairwise, k)
        score = score - marginals(forest, unary, pairwise, pairs="none")[0][:, None]
        return score, self._labellings(examples, states)

    def sample(self, X: Any, count: int = 1, random_state: Any = None, *, parents: Any = None) -> list[np.ndarray]:
        """Labellings drawn from the fitted law: one array (count, positions) per example."""
        examples = self._read(X, parents)
        forest, unary, pairwise = self._law_scores(examples)
        return self._labellings(examples, sample(forest, unary, pairwise, count, np.random.default_rng(random_state)))

    @lazily_scored
    def score(
        self, X: Any, y: Any, sample_weight: Any = None, loss: Any = None, costs: Any = None, *, parents: Any = None
    ) -> float:
        """Minus the mean task loss over examples; higher is better. A label that the fit has not seen counts by the worst at its position.

        costs: as in `predict`; decisions are made for them, and judged by them.
        """
        losses = self.losses(X, y, loss, costs, parents=parents)
        return -float(np.average(losses, weights=example_weights(sample_weight, len(losses), "sequences")))

    @lazily_by_example
    def losses(self, X: Any, y: Any, loss: Any = None, costs: Any = None, *, parents: Any = None) -> np.ndarray:
        """The loss of each example's prediction against its labels; other arguments as in `score`."""
        bound, examples = self._loss_for(loss), self._read(X, parents)
        prices = self._prices(costs, examples, bound)
        z = self._decide(examples, bound, prices)
        y = as_labels(X, y)
        codes = self.labels_.encode(y, examples.forest.offsets, unseen=True)[examples.order]
        if self.labels_.ignore is not None and bound.n_outputs == self.labels_.size:
            ignored = self.labels_.ignored(y)[examples.order]
            codes[ignored] = z[ignored]  # what does not count is as good as right
        losses = bound.packed_loss(examples.forest, z, codes)
        return losses if prices is None else losses + _paid(examples.forest, z, prices)

    # -- inside ------------------------------------------------------------------------------------------------------

    def _check_fitted(self) -> None:
        if not hasattr(self, "theta_"):
            check_is_fitted(self)

    def _loss_for(self, loss: Any) -> SequenceLoss:
        self._check_fitted()
        return self.loss_ if loss is None else sequence_loss(loss, self.labels_)

    def _examples(self, X: Any, rows: Any, offsets: np.ndarray, parents: Any) -> Examples:
        forest, order = self._forest(X, offsets, parents)
        rows = rows if isinstance(order, slice) else rows[order]
        return Examples(ForestRows(rows, forest), order, isinstance(X, Packed))

    def _read(self, X: Any, parents: Any = None) -> Examples:
        self._check_fitted()
        return self._examples(X, *self.reader_.read(X), parents)

    def _prices(self, costs: Any, examples: Examples, loss: SequenceLoss) -> np.ndarray | None:
        """One row of prices for each packed node."""
        if costs is None:
            return None
        shape = (examples.forest.n_nodes, loss.n_outputs)
        rows = costs if examples.packed else [np.asarray(part, dtype=float) for part in costs]
        lengths = None if examples.packed else [len(part) for part in rows]
        if lengths is not None and lengths != examples.forest.lengths.tolist():
            raise ValueError("costs must have one array for each example, with a row for each of its positions.")
        prices = np.asarray(rows if examples.packed else np.concatenate(rows), dtype=float)
        if prices.shape != shape or not np.isfinite(prices).all():
            raise ValueError(
                f"costs must be finite prices, a row for each position and a column for each of the {shape[1]} outputs; got shape {prices.shape}."
            )
        return prices[examples.order]

    def _decide(self, examples: Examples, loss: SequenceLoss, prices: Any) -> np.ndarray:
        """The codes of the outputs of least expected loss at all nodes."""
        own = self._own_outputs(examples, loss, prices)
        if own is not None:
            return own

        def decode(f: Forest, nodes: slice, a: np.ndarray, b: Any, limits: Limits) -> np.ndarray:
            return loss.packed_decode(f, a, b, limits, None if prices is None else prices[nodes])

        return np.concatenate(self._outputs(examples, loss, prices, decode, loss.law_decode))

    def _own_outputs(self, examples: Examples, loss: SequenceLoss, prices: Any) -> np.ndarray | None:
        """What the scores choose themselves, where the surrogate has the loss's outputs; else None, and moments decide."""
        if self.surrogate_.differentiable:
            return None
        if loss != self.loss_ or prices is not None:
            warn_of_ties(self.surrogate_, self.loss_)
            return None
        inference = self._inference
        found = self._blocks(examples, lambda f, nodes, v: inference.decide(f, NodeEdgeScores(*v)), True)
        return np.concatenate(found)

    def _outputs(self, examples: Examples, loss: SequenceLoss, prices: Any, by_moments: Any, by_law: Any) -> list[Any]:
        """What a loss says of blocks of examples: by their moments, or, if it needs the law and there is one, by the law's scores."""
        limits = loss.output_limits(self.limits_, self.classes_)
        if not loss.reads_law:
            return self._moments(examples, lambda f, at, a, b: by_moments(f, at, a, b, limits), loss.needs_edges)
        if prices is not None:
            raise ValueError(
                f"{loss!r} is no sum over positions, to which prices could be added: use ChainHamming or ChainCost with costs."
            )
        if self._inference.exponential:
            return self._blocks(examples, lambda f, nodes, v: by_law(f, *v, limits), False)
        return self._moments(
            examples, lambda f, at, a, b: by_law(f, *loss.law_of(f, as_laws(a), np.maximum(b, 0.0)), limits), True
        )

    @property
    def _inference(self) -> Any:
        return over_forests(self.surrogate_, self.labels_.size, self.limits_)

    def _moments(self, examples: Examples, work: Callable[..., Any], edges: bool) -> list[Any]:
        """work(forest, nodes, node moments, edge moments) on blocks of examples."""
        inference = self._inference

        def run(forest: Forest, nodes: slice, scores: tuple[Any, ...]) -> Any:
            return work(forest, nodes, *inference.moments(forest, NodeEdgeScores(*scores), edges))

        return self._blocks(examples, run, edges)

    def _blocks(self, examples: Examples, work: Callable[..., Any], edges: bool) -> list[Any]:
        """work(forest, nodes, (unary, pairwise)) on the scores of blocks of examples, on threads, in order."""
        inputs, forest, k = examples.inputs, examples.forest, self.labels_.size
        executor = Executor.for_work(self.hypothesis_.work(inputs) * k + 4 * forest.n_nodes * k**2, len(forest))
        rows = -(-forest.n_nodes // executor.threads)
        if edges or self.hypothesis_.edges is not None:
            rows = min(rows, max(256, _BLOCK_EDGES // k**2))
        if rows >= forest.n_nodes:
            return [work(forest, slice(0, forest.n_nodes), self._scores(inputs))]

        def run(block: tuple[slice, Forest]) -> Any:
            trees, some = block
            nodes = slice(int(forest.offsets[trees.start]), int(forest.offsets[trees.stop]))
            return work(some, nodes, self._scores(ForestRows(inputs.rows[nodes], some)))

        return executor.map(run, forest.blocks(rows))

    def _scores(self, inputs: ForestRows) -> tuple[np.ndarray, np.ndarray]:
        v = self._free_scores(inputs)
        return self.limits_.apply(inputs.forest, v.nodes, v.edges)

    def _free_scores(self, inputs: ForestRows) -> NodeEdgeScores:
        """The scores before anything is forbidden."""
        v = self.hypothesis_.predict(self.theta_, inputs)
        for rescaling in self._rescalings:
            v = rescaling(v)
        return v

    def _law_scores(self, examples: Examples) -> tuple[Forest, np.ndarray, np.ndarray]:
        self._check_law("for samples and the likeliest ones")
        return examples.forest, *self._scores(examples.inputs)

    def _check_law(self, purpose: str) -> None:
        if not self._inference.exponential:
            raise ValueError(
                f"{self.surrogate_!r} fits moments and no law over whole labellings: {purpose} use surrogate='auto'."
            )

    def _rescaled(self, rescaling: Rescaling, loss: SequenceLoss) -> Self:
        """The same fit with its scores rescaled, and this loss in the place of its own."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__, _rescalings=(*self._rescalings, rescaling), loss_=loss)
        return other

    def _labellings(self, examples: Examples, states: np.ndarray) -> list[np.ndarray]:
        nodes = examples.arrange(states.T)
        return [self.classes_[part.T] for part in np.split(nodes, examples.forest.offsets[1:-1])]

    @property
    def classes_(self) -> np.ndarray:
        self._check_fitted()
        return self.labels_.classes


def sequence_loss(spec: Any, labels: SequenceLabels) -> SequenceLoss:
    loss = Loss.resolve(spec)
    if not isinstance(loss, SequenceLoss):
        raise ValueError(
            f"{loss!r} is no loss on sequences: use ChainHamming, ChainCost or SequenceZeroOne, or another estimator."
        )
    return loss.bind_names(labels.classes).bind(labels.size)


def no_priors(*given: Any) -> None:
    """Refuse shares of labels, where labels are not single ones."""
    if any(prior is not None for prior in given):
        raise ValueError("class_prior and train_prior are shares of labels, and a tagger predicts sequences of them.")


def _paid(forest: Forest, z: np.ndarray, prices: np.ndarray) -> np.ndarray:
    """The prices of each example's outputs, added up."""
    return np.add.reduceat(prices[np.arange(len(z)), z], forest.offsets[:-1])


def as_laws(mu: np.ndarray) -> np.ndarray:
    """The nearest thing to laws: rows clipped at zero and rescaled."""
    law = np.maximum(mu, 0.0)
    total = law.sum(axis=-1, keepdims=True)
    return np.where(total > 0, law / np.where(total > 0, total, 1.0), 1 / law.shape[-1])
