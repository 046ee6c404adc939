"""Label sequences and labelled trees: conditional random fields, decoded for the loss you are judged by."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from ..data.sequences import parents_of
from ..data.spans import Span, as_precise, span_threshold
from ..data.trees import read_forest
from ..hypotheses.structured import NodeEdgeScores
from ..losses.spans import Scheme
from ..polytopes._forest import Forest
from ..polytopes._spans import Spans, best_spans, likely_spans, probabilities_of
from .labelling import Examples
from .lazily import lazily
from .tagging import Tagger


class SequenceTagger(Tagger):
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
    surrogate : "auto", the maximum entropy of the chain ("chain-crf"), or any surrogate that fits its polytope, such as
        "quadratic".
    hypothesis : the scores of positions: "linear", "kernel", "nystrom", or a hypothesis.
    alpha : strength of the penalty, above zero, or "auto", as in TaskLossEstimator.
    fit_intercept : one score per label, not penalised.
    boundaries : scores of their own for the first and the last label.
    transition_features : features on which transitions depend, too: None, "all", or a list of columns or of names.
    forbidden : pairs (label, next label) that never occur; None stands for the start or the end of a sequence. A pair
        with a label that y does not have is passed over, as folds may lack rare labels.
    ignore_label : a label, such as -100, at positions that do not count: a fit takes them as not observed, and in `score`
        any prediction there is right.
    all_possible_states : whether each feature of sparse rows and mappings has a weight for every label, or only for those that it
        occurs with, as CRFsuite has it by default: a tenth of the weights in text, and of the memory, at slightly more errors. Where a label
        was not observed, its position's features have all. A stream, which cannot know what will occur, has all.
    all_possible_transitions : whether each pair of labels has a weight, or only those that follow each other somewhere, as CRFsuite has it by default.
    min_frequency : how often a named feature must occur to be kept.
    solver, tol, max_iter, warm_start, verbose : as in TaskLossEstimator.

    Attributes
    ----------
    classes_ : the labels, in the order of all tables.
    theta_ : parameters; state_weights_, transition_weights_, feature_transition_weights_, start_weights_, end_weights_,
        intercept_ are its parts.
    loss_, surrogate_, hypothesis_, solution_, n_features_in_, feature_names_in_ (where features have names), n_iter_.

    Notes
    -----
    The risk of a sequence does not fall apart into positions, so that there is no class_weight: say in the loss what
    errors cost (`ChainHamming(state_weights=...)`), and with sample_weight how much a sequence counts.

    Examples
    --------
    >>> X = [[["sun"], ["rain"], ["rain"]], [["rain"], ["sun"]]] * 5
    >>> y = [["dry", "wet", "wet"], ["wet", "dry"]] * 5
    >>> SequenceTagger().fit(X, y).predict([[["rain"], ["rain"]]])[0].tolist()
    ['wet', 'wet']
    """

    @lazily
    def predict_spans(
        self,
        X: Any,
        scheme: str = "BIO",
        *,
        threshold: float | None = None,
        costs: Any = None,
        precision: float | None = None,
    ) -> list[list[Span]]:
        """Entities, each with the probability of the whole span: that it begins, ends and is labelled exactly so.

        Parameters
        ----------
        X : sequences, as for `predict`.
        scheme : how labels write spans: "BIO" (also "IOB2"), "IO", "BIOES" ("IOBES") or "BILOU" ("BILUO", as spaCy has it); labels are "O", or a prefix, a dash and a name.
        threshold : report all spans of at least this probability, above zero. Without it, and without costs and precision,
            the spans of `predict`.
        costs : (cost of a span that is false, cost of one that is missed); the threshold is then the first over their sum.
        precision : report as many spans as may be, the likeliest first, while their mean probability, which is the precision that the
            model expects on these X, is at least this; of those of probability one half or more. For a precision that is kept
            however wrong the probabilities are, calibrate a `RiskController` with `SpanCosts()` on held-out sentences.

        Returns
        -------
        A list of spans (start, end, label, probability) for each sequence; positions start, ..., end - 1.

        Notes
        -----
        A span begins, goes on and ends with the conditional probabilities of the steps of the chain: exact, since its law is
        Markov, and without a sum over labellings. Spans that overlap exclude each other; below a threshold of one half, where
        several may be likely enough, the set of largest sum of (probability - threshold) is kept. Tags are read as conlleval
        reads them: an "I-X" that nothing began begins a span. With a surrogate that fits moments and no law, the same is done
        with its moments.
        """
        asked = [
            name
            for name, value in (("threshold", threshold), ("costs", costs), ("precision", precision))
            if value is not None
        ]
        if len(asked) > 1:
            raise ValueError(f"Spans are chosen by one of threshold, costs and precision, got {' and '.join(asked)}.")
        least = span_threshold(threshold, costs, precision)
        examples = self._read(X)
        read = Scheme(self.classes_, scheme)
        loss, forest = self._loss_for(None), examples.forest
        chosen = self._decide(examples, loss, None) if least is None else None
        if chosen is not None and len(loss.output_names(self.classes_)) != len(self.classes_):
            raise ValueError(f"{loss!r} has outputs that are no labels: give threshold=..., costs=... or precision=...")

        def likely(some: Forest, mu: np.ndarray, steps: np.ndarray, _: slice) -> tuple[Spans, np.ndarray]:
            assert least is not None
            spans, q = likely_spans(some, mu, steps, read.tags, least)
            if least < 0.5:  # from one half on none can overlap
                apart = best_spans(spans, q - least)
                spans, q = Spans(*(part[apart] for part in spans)), q[apart]
            return spans, q

        spans, q = self._spans_of(examples, read, chosen) if chosen is not None else self._spans(examples, read, likely)
        if precision is not None:
            kept = as_precise(q, precision)
            spans, q = Spans(*(part[kept] for part in spans)), q[kept]
        tree = forest.tree_of[spans.first] if len(q) else spans.first
        start = forest.offsets[tree]
        columns = (spans.first - start, spans.stop - start, spans.kind, q)
        rows = zip(*(column.tolist() for column in columns), strict=True)
        found = [Span(a, b, read.kinds[kind], p) for a, b, kind, p in rows]
        cuts = np.searchsorted(tree, np.arange(len(forest) + 1))
        return [found[a:b] for a, b in pairwise(cuts.tolist())]

    def _spans_of(self, examples: Examples, read: Scheme, z: np.ndarray) -> tuple[Spans, np.ndarray]:
        """The spans that codes of all positions make, and their probabilities."""

        def given(some: Forest, mu: np.ndarray, steps: np.ndarray, nodes: slice) -> tuple[Spans, np.ndarray]:
            spans = read.spans(some, z[nodes])
            return spans, probabilities_of(spans, some, mu, steps, read.tags)

        return self._spans(examples, read, given)

    def _spans(self, examples: Examples, read: Scheme, work: Callable[..., Any]) -> tuple[Spans, np.ndarray]:
        """What work(forest, node moments, moments of steps that go on, nodes) finds in blocks of examples, as spans of all of them."""

        def run(some: Forest, nodes: slice, scores: tuple[Any, ...]) -> tuple[np.ndarray, ...]:
            spans, q = work(some, *self._inference.moments_at(some, NodeEdgeScores(*scores), read.tags.pairs), nodes)
            return spans.first + nodes.start, spans.stop + nodes.start, spans.kind, q

        first, stop, kind, q = map(np.concatenate, zip(*self._blocks(examples, run, False), strict=True))
        return Spans(first, stop, kind), q

    def _forest(self, X: Any, offsets: np.ndarray, parents: Any) -> tuple[Forest, Any]:
        if parents is not None or parents_of(X) is not None:
            raise ValueError("SequenceTagger labels sequences, and parents make trees of them: use TreeTagger.")
        return read_forest(offsets)


_PARENTS: dict[str, bool | str | None] = {"parents": True}


class TreeTagger(Tagger):
    """A label for every node of a tree, each example a tree over its rows: parses, taxonomies of parts, phylogenies.

    The model is the conditional random field of the trees: p(y | x) proportional to the exponential of scores W x_i + b of
    nodes and scores T[y_parent, y_child] of edges. All that `SequenceTagger` does it does on trees; a chain is the tree
    whose nodes are in a row, and there the two are equal.

    X is as for `SequenceTagger`, with a row or a mapping of features for each node. `parents` is a list with one array
    for each tree: the place of each node's parent among the tree's rows, and -1 at the root; nodes may come in any
    order, and predictions keep it. Packed(rows, offsets, parents) has all in one, which is what streams and
    cross-validation without metadata routing need. y is a list with one label for each node of each tree.

    Parameters
    ----------
    loss : a loss over neighbours or its name, as in `SequenceTagger`; `pairwise[z, z', y, y']` of ChainCost has the
        parent first. Weights per position follow the packed order, parents first.
    surrogate : "auto", the maximum entropy of the tree, or any surrogate that fits its polytope, such as "quadratic".
    boundaries : scores of their own for roots and for leaves.
    transition_features : features of the lower end of an edge on which its scores depend, too.
    forbidden : pairs (parent's label, child's label) that never occur; (None, label) for roots, (label, None) for leaves.
    hypothesis, alpha, fit_intercept, ignore_label, all_possible_states, all_possible_transitions, min_frequency, solver, tol, max_iter, warm_start, verbose : as in `SequenceTagger`.

    Attributes
    ----------
    classes_, theta_, state_weights_, transition_weights_, feature_transition_weights_, intercept_ : as in
        `SequenceTagger`; start_weights_ are those of roots and end_weights_ those of leaves.
    loss_, surrogate_, hypothesis_, solution_, n_features_in_, feature_names_in_ (where features have names), n_iter_.

    Examples
    --------
    A node's label is its parent's, but for noise; the features tell the root's alone.

    >>> trees = [[2, 2, -1, 0], [-1, 0, 0]] * 5
    >>> X = [[["?"], ["?"], ["red"], ["?"]], [["blue"], ["?"], ["?"]]] * 5
    >>> y = [["r"] * 4, ["b"] * 3] * 5
    >>> tagger = TreeTagger().fit(X, y, parents=trees)
    >>> tagger.predict([[["?"], ["blue"]]], parents=[[1, -1]])[0].tolist()
    ['b', 'b']
    """

    __metadata_request__fit: ClassVar = _PARENTS
    __metadata_request__predict: ClassVar = _PARENTS
    __metadata_request__predict_proba: ClassVar = _PARENTS
    __metadata_request__predict_log_proba: ClassVar = _PARENTS
    __metadata_request__decision_function: ClassVar = _PARENTS
    __metadata_request__score: ClassVar = _PARENTS

    def _forest(self, X: Any, offsets: np.ndarray, parents: Any) -> tuple[Forest, Any]:
        parents = parents_of(X) if parents is None else parents
        if parents is None:
            raise ValueError(
                "TreeTagger needs parents=..., one array for each tree of X with -1 at the root, or Packed(rows, offsets, parents); inside "
                "GridSearchCV call sklearn.set_config(enable_metadata_routing=True) so that they are passed on."
            )
        return read_forest(offsets, parents)
