"""A label for every node of a chain or a tree: what `SequenceTagger` and `TreeTagger` share."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import clone

from ..data.sequences import SequenceLabels, SequenceReader, as_labels
from ..data.transitions import check_transitions, read_forbidden
from ..data.weights import example_weights
from ..distributed import is_collection
from ..hypotheses.base import Hypothesis
from ..hypotheses.structured import ForestRows, NodeEdgeScores, Structured
from ..losses.sequence import SequenceLoss
from ..objectives import Forests, Monitor, PenalisedRisk, objective
from ..polytopes._forest import Forest
from ..surrogates.base import Surrogate
from ..surrogates.maxentropy import MaxEntropy
from .base import Minimiser, keep
from .labelling import Labeller, as_laws, sequence_loss
from .partition_plans import SequencesPlan
from .partitioned import fit_partitioned
from .streaming import Stream, Streaming, open_stream
from .validation import Judge, given_monitor, held_parts


class Problem(NamedTuple):
    """What a fit is about: a hypothesis that is not bound yet, its inputs, their risk, and what translates the users' data."""

    hypothesis: Structured
    inputs: ForestRows
    risk: Forests
    loss: SequenceLoss
    reader: SequenceReader
    labels: SequenceLabels

    @property
    def found(self) -> dict[str, Any]:
        """What the estimator keeps, by name."""
        known = self.reader.vocabulary
        return {
            "loss_": self.loss,
            "reader_": self.reader,
            "labels_": self.labels,
            "surrogate_": self.risk.surrogate,
            "limits_": self.risk.limits,
            "n_features_in_": self.inputs.shape[1],
            "feature_names_in_": None if known is None else np.array(list(known), dtype=object),
        }


class Tagger(Streaming, Minimiser, Labeller):
    """A label for every node. A child says of what shape the examples are.

    The risk of an example is that of its labelling as a whole, which does not fall apart into nodes: weights of labels
    would have no node to weigh, and there is no class_weight. To make errors on some labels dearer, say so in the loss
    (`ChainHamming(state_weights=...)`); to make some examples count more, `sample_weight`.
    """

    loss: Any
    surrogate: Any
    hypothesis: Any
    fit_intercept: bool
    boundaries: bool
    transition_features: Any
    forbidden: Any
    ignore_label: Any
    all_possible_states: bool
    all_possible_transitions: bool
    min_frequency: int
    hypothesis_: Structured

    def __init__(
        self,
        loss: Any = "chain-hamming",
        surrogate: Any = "auto",
        hypothesis: Any = "linear",
        *,
        alpha: Any = None,
        fit_intercept: bool = True,
        boundaries: bool = True,
        transition_features: Any = None,
        forbidden: Any = None,
        ignore_label: Any = None,
        all_possible_states: bool = True,
        all_possible_transitions: bool = True,
        min_frequency: int = 1,
        solver: Any = "auto",
        tol: float = 1e-6,
        max_iter: int = 1000,
        warm_start: bool = False,
        verbose: bool = False,
    ):
        keep(self, locals())

    # -- fitting -----------------------------------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        validation: Any = None,
        checkpoint: Any = None,
        *,
        parents: Any = None,
    ) -> Self:
        """Fit to examples X and their labels y; sample_weight is one weight per example, parents the shape of trees.

        validation: held-out examples (X, y) or (X, y, parents), on whose task loss boosted trees stop early; else they hold out
        some of these. checkpoint: as in `TaskLossEstimator.fit`.
        """
        if is_collection(X) or is_collection(y):
            given = {"X": X, "y": y, "sample_weight": sample_weight, "parents": parents}
            return fit_partitioned(self, SequencesPlan(self), given, validation, checkpoint)
        self._check_numbers()
        problem = self._problem(X, y, sample_weight, parents)
        self.close_stream()
        hypothesis = problem.hypothesis.bind(problem.inputs, problem.risk.row_weights)
        watch = self._watch(hypothesis, problem, validation)
        self._fit_to(hypothesis, problem.inputs, problem.risk, problem.found, *watch, checkpoint)
        return self

    def _watch(self, hypothesis: Structured, problem: Problem, validation: Any) -> tuple[Judge | None, Monitor | None]:
        """What judges examples that are held out, or those that are given."""
        risk, loss, labels = problem.risk, problem.loss, problem.labels
        inference, limits = risk.inference, loss.output_limits(risk.limits, labels.classes)

        def losses(v: NodeEdgeScores, forest: Forest, codes: np.ndarray) -> np.ndarray:
            scores = risk.limits.apply(forest, v.nodes, v.edges)
            if loss.reads_law and inference.exponential:
                z = loss.law_decode(forest, *scores, limits)
            else:
                edges = loss.reads_law or loss.needs_edges
                a, b = inference.moments(forest, NodeEdgeScores(*scores), edges)
                if loss.reads_law:
                    assert b is not None
                    z = loss.law_decode(forest, *loss.law_of(forest, as_laws(a), np.maximum(b, 0.0)), limits)
                else:
                    z = loss.packed_decode(forest, a, b, limits, None)
            return loss.packed_loss(forest, z, codes)

        if validation is not None:
            X, y, *parents = held_parts(validation, "(X, y)", "(X, y, parents)")
            rows, offsets = problem.reader.read(X)
            examples = self._examples(X, rows, offsets, parents[0] if parents else None)
            codes = labels.encode(as_labels(X, y), offsets)[examples.order]
            return None, given_monitor(hypothesis, examples.inputs, lambda v: losses(v, examples.forest, codes))
        if hypothesis.holdout is None and not self._chooses_alpha:
            return None, None
        if not risk.convex and hypothesis.holdout is None and self.alpha is None:
            return None, None
        if not risk.convex:
            raise ValueError(
                "alpha='auto' judges examples that it holds out, and some labels are missing: give alpha a number."
                if self._chooses_alpha
                else "Early stopping judges examples that it holds out, and some labels are missing: pass validation=(X, y) with all labels."
            )
        return Judge(lambda v, which: losses(v, risk.forest.take(which), risk.codes[risk.rows_of(which)])), None

    def objective(self, X: Any, y: Any, sample_weight: Any = None, *, parents: Any = None) -> PenalisedRisk:
        """The function of theta that `fit` minimises on these data, for other solvers and for checks; nothing is fitted."""
        problem = self._problem(X, y, sample_weight, parents)
        hypothesis = problem.hypothesis.bind(problem.inputs, problem.risk.row_weights)
        if self._chooses_alpha and not hasattr(self, "alpha_"):
            raise ValueError("alpha='auto' is chosen by a fit: fit first, or give alpha a number.")
        alpha = self.alpha_ if self._chooses_alpha else self._strength
        return objective(hypothesis, problem.inputs, problem.risk, alpha)

    def _problem(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        parents: Any,
        reader: SequenceReader | None = None,
        labels: SequenceLabels | None = None,
        part: bool = False,
    ) -> Problem:
        """Users' data and parameters as parts; reader and labels where they are known from an earlier fit."""
        if reader is None:
            reader = SequenceReader(Hypothesis.resolve(self.hypothesis).allow_nan, self.min_frequency)
            rows, offsets = reader.fit_read(X)
        else:
            rows, offsets = reader.read(X)
        examples = self._examples(X, rows, offsets, parents)
        forest = examples.forest
        y = as_labels(X, y)
        labels = SequenceLabels(y, ignore=self.ignore_label) if labels is None else labels
        codes = labels.encode(y, offsets, partial=True)[examples.order]
        weights = example_weights(sample_weight, len(forest), "sequences", part)
        loss = clone(sequence_loss(self.loss, labels))  # of its own: set_params after the fit changes no prediction
        loss.check(forest, labels.classes)
        limits = read_forbidden(self.forbidden, labels.classes)
        check_transitions(limits, forest, codes, labels.classes)
        surrogate = MaxEntropy() if isinstance(self.surrogate, str) and self.surrogate == "auto" else self.surrogate
        surrogate = clone(Surrogate.resolve(surrogate))
        if not surrogate.differentiable and loss.reads_law:
            raise ValueError(
                f"{surrogate!r} decides by the loss's own vectors, and {loss!r} is no sum over neighbours: use ChainHamming or ChainCost."
            )
        risk = Forests(surrogate.bind_outputs(loss), forest, codes, weights, labels.size, limits, part=part)
        node = Hypothesis.resolve(self.hypothesis)
        node.check(type(self).__name__)
        node = node.with_params(fit_intercept=self.fit_intercept and node.fit_intercept)
        streams = self._make_solver(rows.dtype).streams
        every = (bool(flag or streams) for flag in (self.all_possible_states, self.all_possible_transitions))
        hypothesis = Structured(node, self._columns(reader, rows.shape[1]), self.boundaries, *every)
        return Problem(hypothesis, examples.inputs, risk, loss, reader, labels)

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

    # -- fitting from a stream ---------------------------------------------------------------------------------------

    def _open_stream(self, X: Any, y: Any, classes: Any, n_samples: int | None) -> Stream:
        """A stream of examples, from its first batch; named features are those of that batch, or of an earlier fit."""
        fitted = classes is None and hasattr(self, "theta_")  # labels and features that a fit has seen are known
        if classes is None and not fitted:
            raise ValueError("The first call needs classes=..., all labels that may ever come.")
        if Hypothesis.resolve(self.hypothesis).grows:
            raise ValueError(
                f"{type(self).__name__}.partial_fit needs a fixed number of features: use hypothesis='nystrom'."
            )
        reader, labels = (
            (self.reader_, self.labels_) if fitted else (None, SequenceLabels(y, classes, self.ignore_label))
        )
        problem = self._problem(X, y, None, None, reader, labels)
        solver = self._stream_solver(n_samples)
        return open_stream(solver, problem.hypothesis, problem.inputs, labels.size, problem.found)

    def _batch(self, stream: Stream, X: Any, y: Any, sample_weight: Any = None) -> tuple[ForestRows, Forests]:
        found = stream.found
        surrogate, limits, labels = found["surrogate_"], found["limits_"], found["labels_"]
        rows, offsets = found["reader_"].read(X)
        examples = self._examples(X, rows, offsets, None)
        forest = examples.forest
        codes = labels.encode(as_labels(X, y), forest.offsets, partial=True)[examples.order]
        check_transitions(limits, forest, codes, labels.classes)
        weights = example_weights(sample_weight, len(forest), "sequences")
        return examples.inputs, Forests(surrogate, forest, codes, weights, labels.size, limits, part=True)

    # -- the fitted tables -------------------------------------------------------------------------------------------

    def _part(self, name: str) -> np.ndarray:
        self._check_fitted()
        parts = self.hypothesis_.parts(self.hypothesis_.expand(self.theta_))
        return parts[name] if name in parts else np.zeros(self.labels_.size)

    @property
    def state_weights_(self) -> np.ndarray:
        """(features, labels); with a kernel its values at the centres are the features."""
        return self._part("node")[:-1]

    @property
    def transition_weights_(self) -> np.ndarray:
        """[label, next label]; in a tree [parent's label, child's label]."""
        return self._part("transition")

    @property
    def feature_transition_weights_(self) -> np.ndarray:
        """[transition feature, label, next label]; the features are those of `transition_features`, in its order."""
        k = self.labels_.size
        return self._part("edges").reshape(-1, k, k) if self.hypothesis_.edges is not None else np.zeros((0, k, k))

    @property
    def start_weights_(self) -> np.ndarray:
        """Of roots, which begin a sequence."""
        return self._part("start")

    @property
    def end_weights_(self) -> np.ndarray:
        """Of leaves, which end a sequence."""
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
