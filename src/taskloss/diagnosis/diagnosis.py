"""Where a model's task loss comes from."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from .._checks import check_whole
from ..decisions import moments_of
from . import parts
from .evidence import Evidence, read, row_names
from .guarantee import Guarantee, guarantee
from .intervals import loss_interval, mean_interval

_MISTAKES = 12

MEANING = {
    "noise": "what decisions from the recalibrated moments are expected to cost: no model can do better, as far as these moments tell",
    "refinement": "what the reference knows and the model does not",
    "miscalibration": "what decisions from recalibrated moments would save",
    "unexplained": "what these cost beyond their expectation: zero but for chance, where the recalibration is right",
}


def diagnose(
    model: Any,
    X: Any = None,
    y: Any = None,
    loss: Any = None,
    *,
    costs: Any = None,
    labels: Any = None,
    sample_weight: Any = None,
    reference: Any = None,
    bins: int = 10,
    **params: Any,
) -> Diagnosis:
    """Where the task loss of a model comes from, on labelled examples that it was not fitted on.

    Parameters
    ----------
    model : a fitted model, of this library or any classifier with `predict_proba`, bare or inside a pipeline, a search or
        a FrozenEstimator; or an array of probabilities, then with the labels alone: diagnose(probabilities, y).
    X, y : examples and their labels, as the model's `score` takes them.
    loss : a loss, its name, or a cost matrix; None is the loss that the model was fitted for, elsewhere 0-1.
    costs : costs that differ per example, as `predict` takes them.
    labels : the labels in the order of the columns of probabilities.
    sample_weight : how much each example counts.
    reference : another model, fitted, or its probabilities on the same examples. What it knows beyond the model shows as
        `refinement`.
    bins : how many bins the tables have at most.
    params : what else the model's predictions take: groups of a `Ranker`, parents of a `TreeTagger`.

    Returns
    -------
    Diagnosis

    Notes
    -----
    Let z be the decisions, mu the moments they were made from, m = E[phi(Y) | mu] the recalibrated ones and z' the
    decisions from these. With mu* = E[phi(Y) | X],

        E L(z, Y) = E min <psi, mu*>  +  (E min <psi, m> - E min <psi, mu*>)  +  (E L(z, Y) - E L(z', Y)),

    which are the noise that no model can beat, the refinement (what X tells beyond the moments), and the regret of
    miscalibration; none is negative. Data tell m, by a map that is fitted without each example's own fold, but not mu*.
    So `noise` here is E min <psi, m>, an upper bound on the noise that only a better model can lower; with a reference,
    m is taken given both models' moments (by the method "vector"), and `refinement` is what this lowers it by. On a sample the parts add up
    exactly with a fourth, `unexplained`, the mean of L(z', y) less its expectation <psi(z'), m>.

    Intervals are of 95 % over the draw of examples; for losses Wilson's score interval, with the variance that is seen.

    Examples
    --------
    >>> import numpy as np, taskloss as tl
    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(2000)
    >>> y = (rng.random(2000) < p).astype(int)
    >>> sharp = p**3 / (p**3 + (1 - p) ** 3)
    >>> found = tl.diagnose(np.column_stack([1 - sharp, sharp]), y, loss=[[0, 4], [1, 0]])
    >>> bool(found.gap.low > 0)
    True
    """
    check_whole("bins", bins)
    if y is None and not hasattr(model, "predict"):  # probabilities need no X
        X, y = None, X
    evidence = read(model, X, y, loss, costs=costs, labels=labels, sample_weight=sample_weight, **params)
    other = None
    if reference is not None:
        if not parts.recalibrates(evidence):
            raise ValueError(
                f"reference is compared by moments of labels, and {evidence.name} has none: leave reference=... out."
            )
        own = None if hasattr(reference, "predict") else list(evidence.labels.classes)
        found = moments_of(reference, evidence.loss, X if own is None else None, own, name="reference")
        other = parts.same_moments(evidence, found.loss, found.mu)
    return Diagnosis(evidence, other, int(bins))


class Diagnosis:
    """Where a task loss comes from; what `taskloss.diagnose` returns.

    Attributes
    ----------
    realised : mean task loss, with its interval.
    expected : what the model expected it to be.
    gap : realised less expected loss; above zero where the model is too sure.
    method : the recalibration of least cross-fitted error of the moments ("none" where that is the model as it is), or
        None where there are no moments of labels.
    foretold : the mean task loss of decisions recalibrated by that method, cross-fitted: what `taskloss.Recalibrated` will have.
    losses, expected_losses : example by example.
    parts, reliability, recalibration, margins, baselines, mistakes : tables, as data frames (these need pandas).
    guarantee : the most excess risk that the estimated surrogate excess can hide, by `taskloss.theory`.
    """

    def __init__(self, evidence: Evidence, reference: np.ndarray | None, bins: int):
        self.evidence, self.bins, self._reference = evidence, bins, reference
        self.losses, self.expected_losses = evidence.realised, evidence.expected
        self.realised = loss_interval(evidence.realised, evidence.weights, evidence.span)
        self.expected = float(evidence.weights @ evidence.expected)
        self.gap = mean_interval(evidence.realised - evidence.expected, evidence.weights)
        self._redecided = parts.recalibrations(evidence) if parts.recalibrates(evidence) else []
        self._best = min(self._redecided, key=lambda one: one.error) if self._redecided else None
        self.method = None if self._best is None else self._best.name
        best = self._best
        self.foretold = None if best is None else loss_interval(best.realised, evidence.weights, evidence.span)

    def __len__(self) -> int:
        return len(self.evidence)

    # -- tables --------------------------------------------------------------------------------------------------------

    @cached_property
    def part_rows(self) -> list[parts.Row]:
        """`parts` as a list of mappings."""
        if self._best is None:
            return []
        best, together = self._best, None
        if self._reference is not None:  # like is compared with like: one map of one model's moments, and of both
            best = next(one for one in self._redecided if one.name == "vector")
            together = parts.with_reference(self.evidence, self._reference)
        return [
            {
                "part": name,
                **parts.named("loss", mean_interval(values, self.evidence.weights)),
                "meaning": MEANING[name],
            }
            for name, values in parts.addends(self.evidence, best, together)
        ]

    @cached_property
    def reliability_rows(self) -> list[parts.Row]:
        """`reliability` as a list of mappings."""
        return parts.reliability(self.evidence, self.bins)

    @cached_property
    def recalibration_rows(self) -> list[parts.Row]:
        """`recalibration` as a list of mappings."""
        return parts.recalibration(self.evidence, self._redecided)

    @cached_property
    def baseline_rows(self) -> list[parts.Row]:
        """`baselines` as a list of mappings."""
        return parts.baselines(self.evidence)

    @cached_property
    def margin_values(self) -> np.ndarray | None:
        """For each example, how much more its second best output is expected to cost; None where they are too many."""
        return parts.margins(self.evidence)

    @cached_property
    def margin_rows(self) -> list[parts.Row]:
        """`margins` as a list of mappings."""
        if self.margin_values is None or self._best is None:
            return []
        return parts.margin_bins(self.evidence, self.margin_values, self._best, min(self.bins, 5))

    @cached_property
    def mistake_rows(self) -> list[parts.Row]:
        """`mistakes` as a list of mappings."""
        return _mistakes(self.evidence, parts.costliest(self.evidence, _MISTAKES))

    @property
    def parts(self) -> Any:
        """The parts that add up to the realised loss, with intervals."""
        return _frame(self.part_rows)

    @property
    def reliability(self) -> Any:
        """Realised loss by bins of the expected one, with intervals."""
        return _frame(self.reliability_rows)

    @property
    def recalibration(self) -> Any:
        """For each recalibration, cross-fitted: the error of its moments, the loss that it foretells, has, and saves."""
        return _frame(self.recalibration_rows)

    @property
    def baselines(self) -> Any:
        """The likeliest label and the best constant output, and how much more they cost."""
        return _frame(self.baseline_rows)

    @property
    def margins(self) -> Any:
        """By bins of the margin, how far a decision is from flipping: loss, and the share that recalibration changes."""
        return _frame(self.margin_rows)

    @property
    def mistakes(self) -> Any:
        """The costliest mistakes."""
        return _frame(self.mistake_rows)

    @cached_property
    def guarantee(self) -> Guarantee:
        return guarantee(self.evidence, self._redecided)

    # -- words and pictures --------------------------------------------------------------------------------------------

    def summary(self) -> str:
        """The diagnosis in words."""
        from .words import summary

        return summary(self)

    __str__ = summary

    def __repr__(self) -> str:
        return f"Diagnosis({self.evidence.name}, {self.evidence.loss!r}, {len(self)} {self.evidence.unit}, loss {self.realised})"

    def plot(self, ax: Any = None) -> Any:
        """Expected against realised loss, by bins (needs matplotlib)."""
        from ..plots.reliability import LossReliabilityDisplay

        return LossReliabilityDisplay(self.reliability_rows, self.evidence.name).plot(ax)

    def to_html(self, path: Any = None, title: str | None = None, *, overwrite: bool = False) -> str:
        """One page without outside resources, with what is said here and, for labels and label sets, the cost explorer.

        Parameters
        ----------
        path : a file to write; one that is there is refused unless overwrite=True.
        title : of the page.

        Returns
        -------
        The page.
        """
        from ..report import page, write

        text = page(self, title)
        if path is not None:
            write(path, text, overwrite)
        return text

    def _repr_html_(self) -> str:
        from ..report import fragment

        return fragment(self)


def _frame(rows: list[parts.Row]) -> Any:
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError("Tables are data frames of pandas: pip install 'taskloss[peers]'.") from error
    return pd.DataFrame(rows)


def _mistakes(evidence: Evidence, rows: np.ndarray) -> list[parts.Row]:
    index = row_names(evidence.X)
    found: list[parts.Row] = [
        {
            evidence.unit.rstrip("s") if evidence.unit != "matchings" else "matching": i if index is None else index[i],
            "loss": float(evidence.realised[i]),
            "expected": float(evidence.expected[i]),
        }
        for i in rows.tolist()
    ]
    if evidence.z is None or evidence.labels is None:
        return found
    decided = _names(evidence.labels.translate(evidence.z[rows], evidence.loss))
    for row, i, z in zip(found, rows.tolist(), decided, strict=True):
        row |= {"decision": z, "label": label_name(evidence, i)}
    return found


def label_name(evidence: Evidence, i: int) -> Any:
    """The known label, or set of labels, of an example."""
    classes = evidence.labels.classes
    if evidence.codes.ndim == 1:
        return classes[evidence.codes[i]]
    return set(classes[evidence.codes[i].astype(bool)].tolist())


def _names(outputs: Any) -> list[Any]:
    return outputs.tolist() if hasattr(outputs, "tolist") else list(outputs)
