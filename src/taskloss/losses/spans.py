"""Losses on the spans that tags make: entities, chunks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Self

import numpy as np

from .._checks import said_of
from ..polytopes._forest import Forest, Limits
from ..polytopes._spans import Spans, Tags, best_spans, likely_spans, spans_of
from ..polytopes._sum_product import cell_marginals
from .base import name_array
from .chain import SequenceZeroOne
from .sequence import SequenceLoss

# The prefixes that a span goes on from, those that carry it on, and those of its first, inner and last tag and of a span of one.
SCHEMES = {
    "BIO": ("BI", "I", "BIIB"),
    "IO": ("I", "I", "IIII"),
    "BIOES": ("BI", "IE", "BIES"),
    "BILOU": ("BI", "IE", "BIES"),
}
_ALIASES = {"IOB2": "BIO", "IOBES": "BIOES", "BILUO": "BILOU"}  # conlleval's, flair's and spaCy's words
_ALIKE = {"L": "E", "U": "S", "M": "I"}  # BILOU and BMEOW, letter by letter
_BLOCK_EDGES = 1 << 22  # numbers in the edge marginals of a block of sequences


class Scheme:
    """Tags such as B-PER, I-PER and O, and the spans that they make.

    As conlleval reads them: every tag but O is in a span, and a span goes on where the scheme lets a tag carry on the one
    before it, of the same kind; an I after O begins one.
    """

    def __init__(self, labels: Any, scheme: str = "BIO"):
        scheme = _ALIASES.get(scheme, scheme) if isinstance(scheme, str) else scheme
        if not isinstance(scheme, str) or scheme not in SCHEMES:
            raise ValueError(f"There is no scheme of spans named {scheme!r}; choose one of: {', '.join(SCHEMES)}.")
        self.labels, self.scheme = name_array(labels), scheme
        onward, carrying, self._letters = SCHEMES[scheme]
        known, split = {"O", *self._letters}, []
        for label in self.labels.tolist():
            prefix, _, kind = str(label).partition("-")
            prefix = _ALIKE.get(prefix, prefix) if "E" in known else prefix
            if prefix not in known or (prefix == "O" and kind):
                raise ValueError(
                    f"The tag {label!r} is not of the scheme {scheme}: tags are O, and one of {', '.join(sorted(known - {'O'}))} "
                    "before a kind, such as B-PER."
                )
            split.append((prefix, kind))
        self.kinds = sorted({kind for prefix, kind in split if prefix != "O"})
        if not self.kinds:
            raise ValueError(f"The tags {self.labels.tolist()} make no spans: all of them are O.")
        continues = np.array([[a in onward and b in carrying and s == t for b, t in split] for a, s in split])
        kinds = np.array([-1 if prefix == "O" else self.kinds.index(kind) for prefix, kind in split])
        self.tags = Tags(continues, kinds)
        self._code = {f"{prefix}-{kind}": code for code, (prefix, kind) in enumerate(split)}

    @property
    def outside(self) -> int:
        """The code of O, -1 where there is none."""
        return self._code.get("O-", -1)

    def parts(self, kind: int) -> tuple[int, int, int, int]:
        """The codes of a kind's first, inner and last tag and of its tag for a span of one, -1 where there is none."""
        first, inner, last, single = (self._code.get(f"{letter}-{self.kinds[kind]}", -1) for letter in self._letters)
        return first, inner, last, single

    def spans(self, forest: Forest, states: np.ndarray) -> Spans:
        """The spans of packed sequences of codes."""
        return spans_of(forest, states, self.tags)

    def writable(self, spans: Spans) -> np.ndarray:
        """Whether the labels have all the tags that a span needs."""
        tags = np.array([self.parts(kind) for kind in range(len(self.kinds))])[spans.kind]
        size = spans.stop - spans.first
        return np.where(
            size == 1,
            tags[:, 3] >= 0,
            (tags[:, 0] >= 0) & (tags[:, 2] >= 0) & ((tags[:, 1] >= 0) | (size == 2)),
        )

    def write(self, spans: Spans, n: int) -> np.ndarray:
        """The codes of n nodes on which these spans lie, and O elsewhere."""
        states = np.full(n, self.outside)
        tags = np.array([self.parts(kind) for kind in range(len(self.kinds))])[spans.kind].reshape(-1, 4)
        size = spans.stop - spans.first
        inside = np.repeat(spans.first - np.cumsum(size) + size, size) + np.arange(size.sum())
        states[inside] = np.repeat(tags[:, 1], size)
        long = size > 1
        states[spans.first[long]], states[spans.stop[long] - 1] = tags[long, 0], tags[long, 2]
        states[spans.first[~long]] = tags[~long, 3]
        return states


class SpanCosts(SequenceZeroOne):
    """L(z, y) = missed x (spans of y that z lacks) + spurious x (spans of z that y lacks), kind by kind.

    A span is right where its first and last position and its kind are. It is no sum over neighbours, but the law that a
    chain CRF fits gives the probability q of every whole span, and expected loss is a constant less the sum of
    (missed + spurious) q - spurious over the spans that are predicted: the best set of spans that do not overlap comes
    from a dynamic program. Spans likelier than spurious / (missed + spurious) are predicted, unless they overlap.
    What is forbidden has no probability, but is not looked for in the tags that are predicted.

    Parameters
    ----------
    missed, spurious : the costs, numbers or one for each kind in the order of their names.
    scheme : "BIO" or "BIOES" (BILOU's letters are known).
    labels : the tags in the order of their codes; taggers give their own.
    length, allowed : as for other losses on sequences.
    """

    name = "span-costs"
    aliases = {"labels": "_labels"}

    def __init__(
        self,
        missed: Any = 1.0,
        spurious: Any = 1.0,
        scheme: str = "BIO",
        labels: Sequence[Any] | None = None,
        length: int | None = None,
        allowed: Any = None,
    ):
        self.missed = missed
        self.spurious = spurious
        self.scheme = scheme
        self._labels = labels
        self.length = length
        self.allowed = allowed

    n_states = None
    parents = None

    @classmethod
    def examples(cls) -> list[Self]:
        few, more = ["B-a", "I-a", "O"], ["B-a", "B-b", "I-a", "O"]
        return [cls(labels=few, length=3), cls([2.0, 1.0], [0.5, 3.0], labels=more, length=3)]

    @property
    def n_labels(self) -> int:
        if self._labels is None:
            raise ValueError(f"{self!r} does not know its tags yet: give labels=[...], or let a tagger bind it.")
        return len(self._labels)

    def bind(self, size: int) -> Self:
        if self._labels is not None and len(self._labels) != size:
            raise ValueError(f"SpanCosts has {len(self._labels)} tags, but y has {size}.")
        return self

    def bind_names(self, classes: np.ndarray) -> Self:
        names = classes.tolist()
        if self._labels is None or set(names) == set(self._labels):
            return self.with_params(labels=names)
        if names == list(range(self.n_labels)):  # codes already
            return self
        raise ValueError(
            f"SpanCosts names its tags {list(self._labels)}, but the labels in use are {names}: name the same ones."
        )

    def tags(self) -> Scheme:
        """The tags and the spans that they make."""
        assert self.n_labels
        with said_of("labels", "be tags"):
            return Scheme(self._labels, self.scheme)

    def _prices(self, tags: Scheme) -> tuple[np.ndarray, np.ndarray]:
        found = []
        for name, value in (("missed", self.missed), ("spurious", self.spurious)):
            try:
                price = np.broadcast_to(np.asarray(value, dtype=float), len(tags.kinds))
            except (TypeError, ValueError) as error:
                raise ValueError(
                    f"{name} must be a number, or one for each of the {len(tags.kinds)} kinds of spans {tags.kinds}, got {value!r}."
                ) from error
            if not np.isfinite(price).all() or (price < 0).any():
                raise ValueError(f"{name} must be finite costs that are not negative, got {value!r}.")
            found.append(price)
        return found[0], found[1]

    def check(self, forest: Forest, classes: np.ndarray) -> None:
        if (forest.parents[forest.children] != forest.children - 1).any():
            raise ValueError("SpanCosts is a loss on sequences: nodes of a tree make no spans.")
        tags = self.tags()
        if tags.scheme == "IO":
            raise ValueError("In the scheme IO two spans side by side are one: SpanCosts needs BIO, BIOES or BILOU.")
        if tags.outside < 0:
            raise ValueError(f"The labels have no tag O for what is outside of spans: {tags.labels.tolist()}.")
        self._prices(tags)

    def range(self) -> tuple[float, float]:
        return SequenceLoss.range(self)  # spans are counted

    # -- sequences that are listed -----------------------------------------------------------------------------------

    def psi(self, z: Any) -> np.ndarray:
        z, y = self._codes(z, self.n_labels, "outputs"), self.labels()
        return np.stack([self(np.broadcast_to(row, y.shape), y) for row in z])

    @property
    def constant(self) -> float:
        return 0.0

    def decode(self, mu: Any, costs: Any = None) -> np.ndarray:
        if costs is not None:
            raise ValueError("A loss on spans is no sum over positions, to which prices could be added.")
        return self.outputs()[np.argmin(np.asarray(mu) @ self.psi(self.outputs()).T, axis=-1)]

    # -- packed sequences --------------------------------------------------------------------------------------------

    def packed_loss(self, forest: Forest, z: np.ndarray, y: np.ndarray) -> np.ndarray:
        tags = self.tags()
        missed, spurious = self._prices(tags)
        predicted, true = tags.spans(forest, z), tags.spans(forest, y)
        right = matches(predicted, true, forest.n_nodes)
        out = np.bincount(forest.tree_of[true.first], missed[true.kind], len(forest))
        hit = predicted.kind[right]
        out -= np.bincount(forest.tree_of[predicted.first[right]], missed[hit], len(forest))
        wrong = predicted.kind[~right]
        return out + np.bincount(forest.tree_of[predicted.first[~right]], spurious[wrong], len(forest))

    def law_decode(self, forest: Forest, unary: np.ndarray, pairwise: np.ndarray, limits: Limits) -> np.ndarray:
        tags = self.tags()
        missed, spurious = self._prices(tags)
        found = []
        full = missed + spurious
        least = np.min(spurious[full > 0] / full[full > 0], initial=1.0)  # below it no span gains; less a rounding
        for block, spans, q in law_spans(forest, unary, pairwise, tags, max(least * (1 - 1e-9), 1e-12)):
            gains = full[spans.kind] * q - spurious[spans.kind]
            gains = np.where(tags.writable(spans), gains, 0.0)
            chosen = best_spans(spans, gains)
            found.append(tags.write(Spans(*(part[chosen] for part in spans)), block.n_nodes))
        return np.concatenate(found)

    def law_risk(self, forest: Forest, z: np.ndarray, unary: np.ndarray, pairwise: np.ndarray) -> np.ndarray:
        tags = self.tags()
        missed, spurious = self._prices(tags)
        found, at = [], 0
        for block, spans, q in law_spans(forest, unary, pairwise, tags):
            predicted = tags.spans(block, z[at : at + block.n_nodes])
            at += block.n_nodes
            risk = np.bincount(block.tree_of[spans.first], missed[spans.kind] * q, len(block))
            risk += np.bincount(block.tree_of[predicted.first], spurious[predicted.kind], len(block))
            hit = matches(spans, predicted, block.n_nodes)
            both = Spans(*(part[hit] for part in spans))
            gain = (missed + spurious)[both.kind] * q[hit]
            found.append(risk - np.bincount(block.tree_of[both.first], gain, len(block)))
        return np.concatenate(found)

    def law_values(self, forest: Forest, unary: np.ndarray, pairwise: np.ndarray, limits: Limits) -> np.ndarray:
        raise ValueError("SpanCosts decides spans as a whole and has no value for each tag at each position.")


def matches(spans: Spans, others: Spans, n: int) -> np.ndarray:
    """Which spans, of chains with n nodes in all, are among the others."""
    base = 1 + max(spans.kind.max(initial=0), others.kind.max(initial=0))
    keys, known = ((s.first * (n + 1) + s.stop) * base + s.kind for s in (spans, others))
    return np.isin(keys, known)


def law_spans(
    forest: Forest, unary: np.ndarray, pairwise: np.ndarray, tags: Scheme, least: float = 1e-12
) -> Iterator[tuple[Forest, Spans, np.ndarray]]:
    """Blocks of sequences, their spans with nodes counted from the block's first, and the probabilities of these."""
    rows = max(256, _BLOCK_EDGES // unary.shape[1] ** 2)
    for trees, block in forest.blocks(rows):
        first, stop = forest.offsets[trees.start], forest.offsets[trees.stop]
        steps = pairwise
        if pairwise.ndim == 3:
            steps = pairwise[(forest.children >= first) & (forest.children < stop)]
        nodes, joint = cell_marginals(block, unary[first:stop], steps, tags.tags.pairs)
        yield block, *likely_spans(block, nodes, joint, tags.tags, least)
