"""Knobs for sequences and trees, rankings and matchings."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._checks import count_examples
from ..data.matchings import matchings
from ..data.sequences import as_labels
from ..data.weights import example_weights
from ..losses.chain import SequenceZeroOne
from ..losses.spans import matches
from ..polytopes._spans import Spans
from .knobs import Abstain, Knob, Read, answers

# -- sequences and trees -----------------------------------------------------------------------------------------------


class AbstainFromSequences(Abstain):
    """All labels of a sequence or a tree, or none."""

    def __init__(self, face: Any, loss: Any, bounds: tuple[float, float] | None = None):
        super().__init__(face, loss, bounds)
        self.binary = type(loss) is SequenceZeroOne

    def decided(self, X: Any, params: dict[str, Any]) -> tuple[np.ndarray, Any]:
        examples = self.face._read(X, **params)
        expected = self.face.expected_loss(X, loss=self.loss, **params)
        return expected, (examples, self.face._decide(examples, self.loss, None), X)

    def realised(self, more: Any, y: Any) -> np.ndarray:
        examples, z, X = more
        return self.loss.packed_loss(examples.forest, z, _codes(self.face, examples, z, X, y, self.loss))

    def named(self, more: Any, kept: np.ndarray) -> Any:
        examples, z, _ = more
        found = examples.unpack(self.loss.output_names(self.face.classes_)[z])
        return answers(np.split(found, examples.forest.offsets[1:-1]) if examples.packed else found, kept)


class SomePositions(Knob):
    """The label of each position, None where its expected loss is above the threshold; sequences count alike, whatever their length."""

    word = "positions labelled"
    whole = False

    def __init__(self, face: Any, loss: Any, bounds: tuple[float, float] | None = None):
        self.face, self.loss = face, loss
        self.unary = loss._unary()
        self.low, self.high = float(self.unary.min()), float(self.unary.max())

    def read(self, X: Any, params: dict[str, Any]) -> Read:
        examples = self.face._read(X, **params)
        z, forest = self.face._decide(examples, self.loss, None), examples.forest
        nodes = np.concatenate(self.face._moments(examples, lambda f, at, nodes, pairs: nodes, False))
        return Read(len(forest), forest.tree_of, (nodes * self.unary[z]).sum(1), (examples, z, X))

    def losses(self, read: Read, y: Any) -> tuple[Any, Any, np.ndarray, np.ndarray]:
        examples, z, X = read.more
        codes, forest = _codes(self.face, examples, z, X, y, self.loss), examples.forest
        share = self.loss._position_weights(forest)
        total = np.add.reduceat(share, forest.offsets[:-1])[forest.tree_of]
        share = share / np.where(total > 0, total, 1.0)
        cost = np.where(codes >= 0, self.unary[z, codes], self.unary.max(axis=1)[z])
        return 0.0, 0.0, share * cost, share

    def outputs(self, read: Read, taken: np.ndarray) -> Any:
        examples, z, _ = read.more
        return examples.unpack(answers(self.loss.output_names(self.face.classes_)[z], taken))


class SomeSpans(Knob):
    """The spans of a tagging, and O in the place of those whose expected cost of being false is above the threshold.

    The loss of a span is its price as a spurious one, zero where it is right; what was missed is no answer. Spans weigh by one over the length of
    their sequence.
    """

    word = "spans kept"
    whole = False

    def __init__(self, face: Any, loss: Any, bounds: tuple[float, float] | None = None):
        self.face, self.loss = face, loss
        self.spurious = loss._prices(loss.tags())[1]
        self.low, self.high = 0.0, float(self.spurious.max())

    def read(self, X: Any, params: dict[str, Any]) -> Read:
        examples = self.face._read(X, **params)
        forest, z = examples.forest, self.face._decide(examples, self.loss, None)
        found, right = self.face._spans_of(examples, self.loss.tags(), z)
        at = self.spurious[found.kind] * (1 - right)
        return Read(len(forest), forest.tree_of[found.first], at, (examples, z, X, found))

    def losses(self, read: Read, y: Any) -> tuple[Any, Any, np.ndarray, np.ndarray]:
        examples, z, X, found = read.more
        codes, forest = _codes(self.face, examples, z, X, y, self.loss), examples.forest
        true = self.loss.tags().spans(forest, np.maximum(codes, 0))
        share = 1 / forest.lengths[read.row]
        wrong = ~matches(found, true, forest.n_nodes)
        unseen = np.concatenate([[0], np.cumsum(codes < 0)])
        wrong |= unseen[found.stop] > unseen[found.first]
        return 0.0, 0.0, share * self.spurious[found.kind] * wrong, share

    def outputs(self, read: Read, taken: np.ndarray) -> Any:
        examples, _, _, found = read.more
        kept = Spans(*(part[taken] for part in found))
        states = self.loss.tags().write(kept, examples.forest.n_nodes)
        return examples.unpack(self.face.classes_[states])


def _codes(face: Any, examples: Any, z: np.ndarray, X: Any, y: Any, loss: Any) -> np.ndarray:
    """Codes of all nodes, -1 for labels that no fit has seen; those to be ignored are as good as right."""
    y, labels = as_labels(X, y), face.labels_
    codes = labels.encode(y, examples.forest.offsets, unseen=True)[examples.order]
    if labels.ignore is not None and loss.n_outputs == labels.size:
        ignored = labels.ignored(y)[examples.order]
        codes[ignored] = z[ignored]
    return codes


# -- rankings ----------------------------------------------------------------------------------------------------------


class _OfGroups(Knob):
    """What knobs on rankings share: groups, in the order of their ids, decided size by size."""

    def found(self, X: Any, params: dict[str, Any]) -> tuple[Any, list[Any]]:
        """The groups, and (loss, numbers of groups, their rows, moments, rankings) for each size."""
        groups = params.get("groups")
        if groups is None:
            raise ValueError("A ranking is judged group by group: pass groups=..., the id of each row's group.")
        return self.face._groups(groups, count_examples("X", X)), list(self.face._by_size(X, groups, self.loss))

    def relevance(self, read: Read, y: Any) -> np.ndarray:
        return self.face._relevance(y, len(read.more[0].group_of))

    def weights(self, read: Read, sample_weight: Any) -> np.ndarray:
        """One weight for each group, the mean of its rows'."""
        groups = read.more[0]
        return groups.means(example_weights(sample_weight, len(groups.group_of), "rows"))

    def ranks(self, read: Read, kept: np.ndarray) -> np.ndarray:
        """The rank of each row, None where it is not kept."""
        z = np.empty(len(kept), dtype=np.int64)
        for _, _, rows, _, found in read.more[1]:
            z[rows] = found
        return answers(z, kept)


class AbstainFromGroups(_OfGroups):
    """The ranking of a group, or none."""

    word = "groups ranked"

    def read(self, X: Any, params: dict[str, Any]) -> Read:
        groups, parts = self.found(X, params)
        at = np.empty(len(groups))
        for bound, which, _, mu, z in parts:
            at[which] = bound.bayes_risk(z, mu)
        return Read(len(groups), np.arange(len(groups)), at, (groups, parts))

    def losses(self, read: Read, y: Any) -> tuple[Any, Any, np.ndarray, np.ndarray]:
        y, cost = self.relevance(read, y), np.empty(read.n)
        for bound, which, rows, _, z in read.more[1]:
            cost[which] = bound(z, y[rows])
        return 0.0, 0.0, cost, np.ones(read.n)

    def outputs(self, read: Read, taken: np.ndarray) -> np.ndarray:
        return self.ranks(read, taken[read.more[0].group_of])


class Shortlists(_OfGroups):
    """Rankings, cut where what is left is expected to be worth at most the threshold: the items below are not shown and gain nothing."""

    word = "items shown"
    partial = False

    def read(self, X: Any, params: dict[str, Any]) -> Read:
        groups, parts = self.found(X, params)
        at = np.empty(len(groups.group_of))
        for bound, _, rows, mu, z in parts:
            by_rank = np.argsort(z, axis=1)
            worth = np.maximum(np.take_along_axis(bound.weights[z] * mu, by_rank, 1), 0.0)
            left = np.cumsum(worth[:, ::-1], axis=1)[:, ::-1]
            at[rows] = np.take_along_axis(left, z, 1)
        return Read(len(groups), groups.group_of, at, (groups, parts))

    def losses(self, read: Read, y: Any) -> tuple[Any, Any, np.ndarray, np.ndarray]:
        y, cost, gains = self.relevance(read, y), np.empty(read.n), np.empty(len(read.row))
        for bound, which, rows, _, z in read.more[1]:
            gains[rows] = worth = bound.weights[z] * bound.phi(y[rows])
            cost[which] = 1 - worth.sum(1)
        return cost, read.more[0].sizes, gains, -np.ones(len(gains))

    def outputs(self, read: Read, taken: np.ndarray) -> np.ndarray:
        return self.ranks(read, ~taken)


class SomeItems(_OfGroups):
    """The items at the top, those that are relevant with a probability of at least one less the threshold: the loss is the share that is not."""

    word = "places filled"
    whole = False

    def read(self, X: Any, params: dict[str, Any]) -> Read:
        groups, parts = self.found(X, params)
        at, top = np.empty(len(groups.group_of)), np.zeros(len(groups.group_of), dtype=bool)
        for bound, _, rows, mu, z in parts:
            at[rows], top[rows] = 1 - mu, bound.weights[z] > 0
        rows = np.flatnonzero(top)
        return Read(len(groups), groups.group_of[rows], at[rows], (groups, parts, rows))

    def losses(self, read: Read, y: Any) -> tuple[Any, Any, np.ndarray, np.ndarray]:
        wrong = self.relevance(read, y)[read.more[2]] <= 0
        share = np.full(len(wrong), 1 / self.loss.at)
        return 0.0, 0.0, share * wrong, share

    def outputs(self, read: Read, taken: np.ndarray) -> np.ndarray:
        kept = np.zeros(len(read.more[0].group_of), dtype=bool)
        kept[read.more[2][taken]] = True
        return self.ranks(read, kept)


# -- matchings ---------------------------------------------------------------------------------------------------------


class AbstainFromMatchings(Abstain):
    """The matching of an example, or none."""

    def decided(self, X: Any, params: dict[str, Any]) -> tuple[np.ndarray, Any]:
        return self.face.expected_loss(X, loss=self.loss), (X, self.face.predict(X, loss=self.loss))

    def realised(self, more: Any, y: Any) -> np.ndarray:
        return self.face.losses(more[0], y, loss=self.loss)

    def named(self, more: Any, kept: np.ndarray) -> Any:
        return answers(more[1], kept)


class SomeRows(Knob):
    """The column of each row, None where that is expected to be wrong with a probability above the threshold."""

    word = "rows matched"
    whole = False

    def read(self, X: Any, params: dict[str, Any]) -> Read:
        tables = self.face._fitted_tables(X)
        parts = [(bound, which, z, mu) for bound, which, mu, _, z in self.face._decisions(tables, self.loss)]
        rows, at = [], []
        for bound, which, z, mu in parts:
            m, width = bound.polytope.n_rows, bound.polytope.width
            column = np.where(z < 0, width - 1, z)
            right = np.take_along_axis(mu.reshape(len(which), m, width), column[..., None], axis=-1)
            at.append(1 - right.ravel())
            rows.append(np.repeat(which, m))
        return Read(len(tables), np.concatenate(rows), np.concatenate(at), (tables, parts))

    def losses(self, read: Read, y: Any) -> tuple[Any, Any, np.ndarray, np.ndarray]:
        tables, parts = read.more
        y, cost, share = matchings(y, tables, self.face.unmatched_), [], []
        for bound, which, z, _ in parts:
            cost.append(bound.by_part(z, np.stack([y[i] for i in which])).ravel())
            share.append(np.full(z.size, 1 / bound.polytope.n_rows))
        return 0.0, 0.0, np.concatenate(cost), np.concatenate(share)

    def outputs(self, read: Read, taken: np.ndarray) -> list[np.ndarray]:
        out: list[Any] = [None] * read.n
        first = 0
        for _, which, z, _ in read.more[1]:
            kept = answers(z.ravel(), taken[first : first + z.size]).reshape(z.shape)
            first += z.size
            for i, row in zip(which, kept, strict=True):
                out[i] = row
        return out
