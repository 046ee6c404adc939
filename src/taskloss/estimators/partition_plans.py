"""How the faces read partitions: rows, groups, matchings and sequences, each by the code that reads them in memory."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from scipy import sparse

from .._checks import check_lengths, count_examples
from ..data.features import is_names, name_counts, vocabulary_of
from ..data.groups import GroupIds, group_ids
from ..data.matchings import pair_tables, scale_of, spread_of
from ..data.sequences import SequenceLabels, SequenceReader, labels_seen
from ..data.showing import showing, together
from ..data.weights import example_weights
from ..hypotheses.base import Hypothesis
from .base import check_features, read_more
from .partitioned import EMPTY, Plan, Survey


def _size(inputs: Any) -> int:
    if sparse.issparse(inputs):
        return int(inputs.data.nbytes + inputs.indices.nbytes + inputs.indptr.nbytes)
    return int(inputs.nbytes)


def _kind(inputs: Any, names: Any) -> tuple[Any, ...]:
    form = "sparse rows" if sparse.issparse(inputs) else "rows"
    return form, inputs.shape[1], None if names is None else tuple(names)


class RowsPlan(Plan):
    """Labels, label sets and ordered labels."""

    def survey(self, X: Any, y: Any, sample_weight: Any) -> Survey:
        if not count_examples("X", X):
            return EMPTY
        face = self.face
        inputs, features = check_features(face, X, Hypothesis.resolve(face.hypothesis))
        check_lengths(inputs.shape[0], y)
        weights = example_weights(sample_weight, inputs.shape[0], part=True)
        shown, places = showing(y, face._make_loss().kind)
        sums = np.bincount(places, weights) if len(places) else None
        kind = _kind(inputs, features["feature_names_in_"])
        size = _size(inputs) + 8 * len(weights)
        return Survey(len(weights), float(weights.sum()), size, kind, (features, inputs.dtype, shown, sums))

    def settle(self, surveys: list[Survey]) -> None:
        face, found = self.face, [survey.found for survey in surveys if survey.examples]
        features, dtypes, shown, sums = zip(*found, strict=True)
        y, loss = together(list(shown)), face._make_loss()
        labels = face._make_labels(loss, y)
        codes = labels.encode(y)
        self.loss, self.surrogate, self.hypothesis = face._bound_parts(loss, labels, codes, features[0])
        self.labels, self.features, self.dtype = labels, features[0], np.result_type(*dtypes)
        self.total, shares, self.per_class = sum(survey.weight for survey in surveys), None, None
        if codes.ndim == 1:
            count = np.bincount(codes, np.concatenate(sums), labels.size)
            self.per_class = face._per_class(count, labels)
            self.total = float((count * self.per_class).sum())
            shares = count * self.per_class / self.total
        elif face.class_weight is not None:
            face._weights(None, codes, labels)  # refuses
        self.found = self.features | {
            "loss_": self.loss,
            "surrogate_": self.surrogate,
            "labels_": labels,
            "class_prior_": shares,
        }

    def read(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any]:
        from ..objectives import Rows

        n, loss = count_examples("X", X), self.loss
        if not n:
            return None, Rows(self.surrogate, np.zeros((0, loss.polytope.size)), np.zeros(0), part=True)
        inputs = read_more(self.face, X, self.hypothesis, self.features).astype(self.dtype, copy=False)
        codes = self.labels.encode(y)
        weights = example_weights(sample_weight, n, part=True) / self.total
        if self.per_class is not None:
            weights = weights * self.per_class[codes]
        phi = loss.phi(codes, dtype=np.int8 if loss.integral_phi else float)
        return inputs, Rows(self.surrogate, phi, weights, part=True)


def partitioned_ids(groups: Any, group: Any, qid: Any) -> Any:
    """The id of each row's group, in partitions."""
    if group is not None:
        raise ValueError(
            "group has the sizes of the groups in the order of all rows, which partitions do not tell: give an id for each row, groups=... or qid=..."
        )
    return group_ids(groups, None, qid, 0)


class GroupsPlan(Plan):
    """Rankings: a group lies in one partition."""

    def survey(self, X: Any, y: Any, sample_weight: Any, groups: Any, propensity: Any) -> Survey:
        if not count_examples("X", X):
            return EMPTY
        _, inputs, risk, found, _ = self.face._problem(X, y, groups, sample_weight, propensity, part=True)
        kind, ids = _kind(inputs, found["feature_names_in_"]), GroupIds(groups, inputs.shape[0])
        order = np.argsort(ids.sizes, kind="stable")  # as the problem has them
        shown = found, ids.ids[order], ids.sizes[order], float(np.max(y))
        return Survey(risk.n_examples, float(risk.weights.sum()), _size(inputs), kind, shown)

    def settle(self, surveys: list[Survey]) -> None:
        self.hypothesis = self.face._make_hypothesis()
        self.total = sum(survey.weight for survey in surveys)
        some = [(i, survey.found) for i, survey in enumerate(surveys) if survey.examples]
        self.loss = self.face._ranking_loss(self.face.loss).bind_codes(np.array([found[3] for _, found in some]))
        self.found = some[0][1][0] | {"loss_": self.loss}
        self.ids = ids = together([found[1] for _, found in some])
        owner = np.repeat([i for i, _ in some], [len(found[1]) for _, found in some])
        _, first, of = np.unique(ids, return_index=True, return_inverse=True)
        split = np.flatnonzero(owner != owner[first][of])
        if len(split):
            i = split[0]
            raise ValueError(
                f"The group {ids[i].item()!r} has rows in partition {owner[first][of][i]} and in partition {owner[i]}: a group lies in one partition; "
                "set_index on the groups, or repartition by them."
            )

    def keys(self, surveys: list[Survey]) -> Any:
        sizes = np.concatenate([survey.found[2] for survey in surveys if survey.examples])
        return sizes, (self.ids, sizes)

    def read(self, X: Any, y: Any, sample_weight: Any, groups: Any, propensity: Any) -> tuple[Any, Any]:
        from ..objectives import Groups

        if not count_examples("X", X):
            return None, Groups([], np.zeros(0), part=True)
        _, inputs, risk, _, _ = self.face._problem(X, y, groups, sample_weight, propensity, True, self.loss)
        return inputs, Groups(risk.batches, risk.weights / self.total, part=True)


class MatchingsPlan(Plan):
    """Matchings: an example is a pair of graphs, an item of a bag."""

    def survey(self, X: Any, y: Any, sample_weight: Any) -> Survey:
        X, y = list(X), list(y)
        if not X:
            return EMPTY
        tables = pair_tables(X, self.face.features, self.face.unmatched)
        _, inputs, risk, found, _ = self.face._problem(X, y, sample_weight, part=True)
        return Survey(
            risk.n_examples,
            float(risk.weights.sum()),
            _size(inputs),
            _kind(inputs, None),
            (found, spread_of(tables), np.array([table.shape[:2] for table in tables])),
        )

    def settle(self, surveys: list[Survey]) -> None:
        self.hypothesis = self.face._make_hypothesis()
        self.total = sum(survey.weight for survey in surveys)
        found = [survey.found for survey in surveys if survey.examples]
        self.scale = scale_of([spread for _, spread, _ in found])
        self.scale = self.scale if self.face.scale else np.ones_like(self.scale)
        self.found = found[0][0] | {"scale_": self.scale}

    def keys(self, surveys: list[Survey]) -> Any:
        parts = [survey.found[2] for survey in surveys if survey.examples]
        parts = [part[np.lexsort((part[:, 1], part[:, 0]))] for part in parts]  # as the problem has them
        m, n = np.concatenate(parts).T
        outliers = self.found["loss_"].outliers
        return m * (n + outliers), (n, m)

    def read(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any]:
        from ..objectives import Groups

        X, y = list(X), list(y)
        if not X:
            return None, Groups([], np.zeros(0), part=True)
        _, inputs, risk, _, _ = self.face._problem(X, y, sample_weight, self.scale, part=True)
        return inputs, Groups(risk.batches, risk.weights / self.total, part=True)


class SequencesPlan(Plan):
    """Sequences and trees: an example is an item of a bag."""

    def __init__(self, face: Any):
        super().__init__(face)
        self.reader = SequenceReader(Hypothesis.resolve(face.hypothesis).allow_nan, face.min_frequency)

    def survey(self, X: Any, y: Any, sample_weight: Any, parents: Any) -> Survey:
        X, y = list(X), list(y)
        if not X:
            return EMPTY
        if len(X) != len(y):
            raise ValueError(f"X has {len(X)} sequences, but y has {len(y)}.")
        weights = example_weights(sample_weight, len(X), "sequences", part=True)
        reader, first = SequenceReader(self.reader.allow_nan), X[0]
        named = (isinstance(first, list) and isinstance(first[0] if first else None, dict)) or is_names_row(first)
        rows, offsets = reader.fit_read(X)
        kind = ("named features", 0, None) if named else (*_kind(rows, None)[:2], _names(reader.columns))
        counts = name_counts(position for x in X for position in x) if named else None
        one = ([first], [y[0]], None if parents is None else [next(iter(parents))])
        size = _size(rows) + 8 * int(offsets[-1])
        seen = labels_seen(y)
        return Survey(len(X), float(weights.sum()), size, kind, (counts, seen, one, rows.shape[1], reader.columns))

    def settle(self, surveys: list[Survey]) -> None:
        self.total = sum(survey.weight for survey in surveys)
        counts, seen, ones, widths, columns = zip(*(s.found for s in surveys if s.examples), strict=True)
        self.labels = SequenceLabels([[label for part in seen for label in part]], ignore=self.face.ignore_label)
        if counts[0] is None:
            self.reader.n_features, self.reader.columns = widths[0], columns[0]
        else:
            total: Counter[Any] = Counter()
            for part in counts:
                total.update(part)
            self.reader.vocabulary = vocabulary_of(total, self.face.min_frequency)
            self.reader.n_features = len(self.reader.vocabulary)
        X, y, parents = ones[0]
        problem = self.face._problem(X, y, None, parents, self.reader, self.labels)
        self.hypothesis, self.found = problem.hypothesis, problem.found

    def read(self, X: Any, y: Any, sample_weight: Any, parents: Any) -> tuple[Any, Any]:
        from ..objectives import Groups

        X, y = list(X), list(y)
        if not X:
            return None, Groups([], np.zeros(0), part=True)
        parents = None if parents is None else list(parents)
        problem = self.face._problem(X, y, sample_weight, parents, self.reader, self.labels, part=True)
        problem.risk.weights = problem.risk.weights / self.total
        return problem.inputs, problem.risk


def is_names_row(x: Any) -> bool:
    """Whether a sequence is a list of positions, each a list of names."""
    return isinstance(x, list) and bool(x) and isinstance(x[0], list | tuple | set) and is_names(x[0])


def _names(columns: Any) -> Any:
    return None if columns is None else tuple(columns)
