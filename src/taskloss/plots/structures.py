"""Structured predictions: sequences over their text, rankings, matchings between two pictures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from .._checks import check_lengths, check_whole, real_array
from .base import Display
from .style import BLUE, COLOURS, GREY, HATCHES, RED, TINTS


class SequenceRibbonDisplay(Display):
    """The probability of each label along a sequence, as a ribbon over its text.

    At each position the ribbon is divided among the labels by their probability; the label decided for stands below the token,
    and in red, with the truth behind it, where it is wrong.

    Parameters
    ----------
    proba : array, shape (positions, labels)
    tokens : list of str
    labels : list
        The names of the columns of `proba`.
    decided, truth : list, optional
        The label decided for at each position, and the true one.
    width : int, default 14
        Tokens to a line.

    Examples
    --------
    >>> import taskloss as tl
    >>> proba = [[0.9, 0.1], [0.4, 0.6]]
    >>> display = tl.plots.SequenceRibbonDisplay.from_predictions(proba, ["Rose", "sings"], ["name", "other"])
    >>> display.decided
    ['name', 'other']
    """

    def __init__(
        self, proba: Any, tokens: Sequence[str], labels: Sequence[Any], decided: Any, truth: Any = None, width: int = 14
    ) -> None:
        self.proba, self.tokens = np.asarray(proba), [str(one) for one in tokens]
        self.labels, self.width = [str(one) for one in labels], width
        self.decided = [str(one) for one in decided]
        self.truth = None if truth is None else [str(one) for one in truth]

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        x: Any,
        tokens: Sequence[str],
        *,
        y: Any = None,
        loss: Any = None,
        width: int = 14,
        ax: Any = None,
    ) -> Self:
        """From a fitted `SequenceTagger` and one sequence.

        Parameters
        ----------
        estimator : fitted SequenceTagger
        x : one sequence, as the tagger takes a list of
        tokens : list of str
            The text, one token for each position.
        y : list, optional
            The true labels.
        loss : optional
            The loss to decide for; None is the tagger's.
        width : int, default 14
            Tokens to a line.
        ax : array of matplotlib Axes, optional

        Returns
        -------
        SequenceRibbonDisplay
        """
        decided = estimator.predict([x], loss)[0]
        proba = estimator.predict_proba([x])[0]
        return cls.from_predictions(proba, tokens, estimator.classes_, decided=decided, truth=y, width=width, ax=ax)

    @classmethod
    def from_predictions(
        cls,
        proba: Any,
        tokens: Sequence[str],
        labels: Sequence[Any],
        *,
        decided: Any = None,
        truth: Any = None,
        width: int = 14,
        ax: Any = None,
    ) -> Self:
        """From the probabilities of the labels at each position; `decided` None is the likeliest at each."""
        q = real_array("proba", proba).astype(float)
        check_whole("width", width)
        if q.ndim != 2 or q.shape != (len(tokens), len(labels)) or not q.size:
            raise ValueError(
                f"proba must have a row for each of the {len(tokens)} tokens and a column for each of the {len(labels)} labels, "
                f"got shape {q.shape}."
            )
        decided = np.asarray([str(one) for one in labels])[q.argmax(1)] if decided is None else decided
        for name, value in (("decided", decided), ("truth", truth)):
            if value is not None and len(value) != len(tokens):
                raise ValueError(f"{name} must have a label for each of the {len(tokens)} tokens, got {len(value)}.")
        return cls(q, tokens, labels, decided, truth, width).plot(ax)

    @property
    def shape(self) -> tuple[int, int]:
        return -(-len(self.tokens) // self.width), 1

    @property
    def figure_size(self) -> tuple[float, float]:
        return max(4.0, 0.72 * min(self.width, len(self.tokens)) + 1.4), 1.55 * self.shape[0] + 0.2

    def draw(self, ax: Any) -> None:
        shown = [k for k in range(len(self.labels)) if self.proba[:, k].max() >= 0.02]
        for line, one in enumerate(self.axes_[:, 0]):
            span = range(line * self.width, min((line + 1) * self.width, len(self.tokens)))
            q, base = self.proba[span.start : span.stop], np.zeros(len(span))
            for k in shown:
                one.bar(
                    range(len(span)),
                    q[:, k],
                    bottom=base,
                    width=1.0,
                    color=COLOURS[k % len(COLOURS)],
                    hatch=HATCHES[(k // len(COLOURS) + k % 2) % len(HATCHES)],
                    edgecolor="white",
                    linewidth=0.8,
                    label=self.labels[k],
                )
                base = base + q[:, k]
            for place, i in enumerate(span):
                right = self.truth is None or self.truth[i] == self.decided[i]
                said = self.decided[i] if right else f"{self.decided[i]}\n({self.truth[i]})"  # type: ignore[index]
                one.text(place, -0.08, self.tokens[i], ha="center", va="top", fontsize=9)
                one.text(place, -0.36, said, ha="center", va="top", fontsize=8, color=GREY if right else RED)
            one.set(xlim=(-0.5, min(self.width, len(self.tokens)) - 0.5), ylim=(0, 1), yticks=[0, 1])
            one.set_xticks([])
            one.spines["bottom"].set_visible(False)
        ax.set_ylabel("probability", fontsize=8)
        ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.05), fontsize=8)


class RankingDisplay(Display):
    """A ranking: the expected gain of each item, in the order in which they are shown, beside the gain that it had.

    Parameters
    ----------
    gains : array, shape (items,)
        The expected gain of each item, first shown first.
    names : list of str
    discount : array, shape (items,)
        What a gain counts at each place.
    truth : array, optional
        The gain that each item had.
    score : float, optional
        The task loss of the ranking.

    Examples
    --------
    >>> import taskloss as tl
    >>> display = tl.plots.RankingDisplay.from_predictions([0.1, 0.5, 0.2], names=["a", "b", "c"])
    >>> display.names
    ['b', 'c', 'a']
    """

    def __init__(
        self, gains: Any, names: Sequence[str], discount: Any, truth: Any = None, score: float | None = None
    ) -> None:
        self.gains, self.names = np.asarray(gains), list(names)
        self.discount, self.truth, self.score = np.asarray(discount), truth, score

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, *, y: Any = None, names: Any = None, ax: Any = None) -> Self:
        """From a fitted `Ranker` and the items of one group; `y` is their relevance, where it is known."""
        ranks = np.asarray(estimator.predict(X))
        loss = estimator.loss_.bind(len(ranks))
        gains = estimator.predict_moments(X)
        if y is not None:
            check_lengths(len(ranks), y)
        truth = None if y is None else loss.phi(np.asarray(y, dtype=float)[None])[0]
        score = None if y is None else float(loss(ranks[None], np.asarray(y, dtype=float)[None])[0])
        return cls.from_predictions(
            gains, ranks=ranks, truth=truth, names=names, discount=loss.weights, score=score, ax=ax
        )

    @classmethod
    def from_predictions(
        cls,
        gains: Any,
        *,
        ranks: Any = None,
        truth: Any = None,
        names: Any = None,
        discount: Any = None,
        score: float | None = None,
        ax: Any = None,
    ) -> Self:
        """From expected gains; `ranks` None ranks by them.

        Parameters
        ----------
        gains : array, shape (items,)
        ranks : array, optional
            The place of each item, 0 first.
        truth : array, optional
            The gain that each item had.
        names : list of str, optional
        discount : array, shape (items,), optional
            What a gain counts at each place; None is 1 / log2(2 + place).
        score : float, optional
            The task loss, shown as a title.
        ax : matplotlib Axes, optional

        Returns
        -------
        RankingDisplay
        """
        g = real_array("gains", gains).astype(float)
        if g.ndim != 1 or not len(g):
            raise ValueError(f"gains must hold one number for each item, got shape {g.shape}.")
        order = np.argsort(-g if ranks is None else np.asarray(ranks), kind="stable")
        if ranks is not None and sorted(np.asarray(ranks).tolist()) != list(range(len(g))):
            raise ValueError(f"ranks must be a place from 0 to {len(g) - 1} for each item.")
        names = [f"item {i}" for i in range(len(g))] if names is None else [str(one) for one in names]
        for name, value in (("names", names), ("truth", truth)):
            if value is not None and len(value) != len(g):
                raise ValueError(f"{name} must have one entry for each of the {len(g)} items, got {len(value)}.")
        d = 1 / np.log2(2 + np.arange(len(g))) if discount is None else np.asarray(discount, dtype=float)
        held = None if truth is None else np.asarray(truth, dtype=float)[order]
        return cls(g[order], [names[i] for i in order], d, held, score).plot(ax)

    @property
    def figure_size(self) -> tuple[float, float]:
        return 6.0, 0.27 * len(self.gains) + 1.2

    def draw(self, ax: Any) -> None:
        places = np.arange(len(self.gains))
        ax.barh(places, self.gains, color=TINTS[0], edgecolor=BLUE, linewidth=0.8, height=0.7, label="expected gain")
        if self.truth is not None:
            ax.plot(self.truth, places, "D", color=RED, markersize=5, linestyle="none", label="gain that it had")
        scale = max(self.gains.max(), 0 if self.truth is None else self.truth.max())
        ax.plot(self.discount * scale, places, color=GREY, linestyle="--", linewidth=1, label="discount, to scale")
        ax.set_yticks(places, self.names)
        ax.invert_yaxis()
        ax.set_xlabel("share of the group's best gain")
        if self.score is not None:
            ax.set_title(f"task loss {self.score:.3f}")
        ax.legend(loc="lower right")
