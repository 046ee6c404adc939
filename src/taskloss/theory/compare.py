"""Which surrogate for a loss: a comparison of all that fit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._arguments import explained
from ..losses.base import Loss
from ..surrogates.base import Surrogate
from .candidates import Candidate, builders, describe, fitted, generality, same_function
from .certificate import Certificate
from .learning import positive, tail


@dataclass(frozen=True)
class Comparison:
    """The result of `compare`: the candidates by increasing sample size, and for each refused surrogate the reason."""

    loss: Loss
    eps: tuple[float, ...]
    confidence: float | None
    features: int
    candidates: tuple[Candidate, ...]
    refused: dict[str, str]

    def __getitem__(self, name: str) -> Candidate:
        for candidate in self.candidates:
            if name == candidate.name or name in candidate.same:
                return candidate
        reason = self.refused.get(name, f"it is none of {', '.join(c.name for c in self.candidates)}")
        raise KeyError(f"{name!r} is not in this comparison: {reason}")

    @property
    def best(self) -> Candidate:
        return self.candidates[0]

    @property
    def verdict(self) -> str:
        """The recommended surrogate, in a sentence."""
        best = self.best
        if not math.isfinite(best.examples[0]):
            return (
                f"No surrogate has a finite sample size for {type(self.loss).__name__}; compare calibration functions."
            )
        sentence = (
            f"For {type(self.loss).__name__}, {best.name} asks for the fewest examples, {_count(best.examples[0])} for an "
            f"excess risk of {self.eps[0]:.3g}"
        )
        if math.isnan(best.operations):
            return f"{sentence}; what an example costs is not known."
        cheaper = [c for c in self.candidates[1:] if self.total(c) < 0.8 * self.total(best)]
        if cheaper:
            other = min(cheaper, key=self.total)
            ratio = other.examples[0] / best.examples[0]
            more = f"for {ratio:.2g} times the examples" if math.isfinite(ratio) else "without a known sample size"
            share = self.total(best) / self.total(other)
            return f"{sentence}; {other.name} takes {share:.2g} times fewer operations per example, {more}."
        return f"{sentence}, and no other is much cheaper per example."

    def explain(self, name: str) -> str:
        """One candidate's verdict in a sentence, or why it was refused."""
        if name in self.refused:
            return f"{name} is left out: {self.refused[name]}"
        candidate = self[name]
        if candidate.zeta is None:
            return f"{candidate.name} fits; no calibration function is known for it."
        start = f"{candidate.name} is consistent, with zeta({self.eps[0]:.3g}) {_size(candidate.certificates[0])}"
        if not math.isfinite(candidate.radius):
            return f"{start}; these moments ask for infinite scores, so that no sample size is promised."
        if candidate.gradient is None:
            return f"{start}; its gradients have no known bound, so that no sample size is promised."
        if not math.isfinite(candidate.examples[0]):
            return f"{start}; the lower end is too small for any sample size."
        if candidate is self.best:
            return f"{start}, and asks for the fewest examples, {_count(candidate.examples[0])}."
        ratio = candidate.examples[0] / self.best.examples[0]
        return f"{start}, and asks for {_count(candidate.examples[0])} examples, {ratio:.3g} times as many as {self.best.name}."

    def total(self, candidate: Candidate) -> float:
        """Operations per example, with those of a linear model on `features` features."""
        return candidate.operations + 4 * self.features * candidate.scores

    # -- tables ------------------------------------------------------------------------------------------------------

    def rows(self) -> list[dict[str, Any]]:
        """One dictionary per candidate, all with the same keys."""
        out = []
        for c in self.candidates:
            row: dict[str, Any] = {"surrogate": c.name, "same as": ", ".join(c.same), "scores": c.scores}
            for eps, found, n in zip(self.eps, c.certificates, c.examples, strict=True):
                row |= {
                    f"zeta({eps:.3g})": found.value,
                    f"lower({eps:.3g})": found.lower,
                    f"exact({eps:.3g})": found.exact,
                }
                row[f"examples({eps:.3g})"] = n
            names = ("beta", "sigma_l1", "sigma_l2", "sigma_linf", "c_psi", "c_phi", "spread")
            row |= {name: c.constants.get(name, math.nan) for name in names}
            row |= {"radius": c.radius, "gradient": math.nan if c.gradient is None else c.gradient}
            row |= {"operations": self.total(c), "formula": "" if c.cost is None else c.cost.formula}
            out.append(row | {"verdict": self.explain(c.name)})
        return out

    def to_frame(self) -> Any:
        """The rows as a pandas data frame, indexed by surrogate."""
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError("to_frame needs pandas: pip install pandas, or use rows().") from error
        return pd.DataFrame(self.rows()).set_index("surrogate")

    def __repr__(self) -> str:
        eps = self.eps[0]
        head = ["surrogate", "scores", f"zeta({eps:.3g})", "beta", "sigma_l2", "radius", "examples", "operations"]
        body = []
        for c in self.candidates:
            numbers = (c.constants.get("beta", math.nan), c.constants.get("sigma_l2", math.nan), c.radius)
            cells = [c.name, str(c.scores), _size(c.certificates[0]).removeprefix("= ")]
            body.append([*cells, *map(_number, numbers), _count(c.examples[0]), _count(self.total(c))])
        widths = [max(len(row[i]) for row in [head, *body]) for i in range(len(head))]
        lines = [
            "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in [head, *body]
        ]
        kept = {name.split(" (")[0] for c in self.candidates for name in (c.name, *c.same)}
        gone = list(dict.fromkeys(name.split(" (")[0] for name in self.refused))
        absent = [name for name in gone if name not in kept]
        left = [f"do not fit: {', '.join(absent)} (see `refused`)"] if absent else []
        return "\n".join([*lines, *left, self.verdict])

    def plot(self, axes: Any = None) -> Any:
        """Calibration functions and sample sizes side by side (needs matplotlib); returns the two axes."""
        from ..plots.curves import comparison_plot

        return comparison_plot(self, axes)


@explained
def compare(
    loss: Any,
    surrogates: Sequence[Any] | None = None,
    eps: Any = None,
    noise: float = 0.1,
    radius: float | None = None,
    kappa: float = 1.0,
    confidence: float | None = None,
    features: int = 0,
    search: bool = False,
) -> Comparison:
    """Every registered surrogate that fits a loss, with its guarantee, its constants and its cost.

    Parameters
    ----------
    loss : a loss whose outputs and labels can be listed, or a name.
    surrogates : instances or names; None for every registered one, with each margin or link that it can take.
    eps : excess risks at which calibration functions and sample sizes are compared; candidates are ordered by the
        first. None for 5, 10, 25 and 50 % of the largest excess.
    noise : label noise from which each surrogate's radius is computed, as
        the largest |t(mu)|_2 / kappa over mu = (1 - noise) phi(y) + noise mean(phi).
    radius : one radius for all surrogates instead; rarely fair, as their scores have different units.
    kappa : kappa^2 bounds k(x, x), the squared norm of the features.
    confidence : None for sample sizes in expectation, or the probability with which they suffice.
    features : d, to add the 4 d k operations of a linear model to the cost per example.
    search : whether to run computations that can take minutes: an interval instead of the two bounds where the
        divergence is not jointly convex and zeta has no closed form, and zeta** instead of its quadratic minorant
        beyond eight outputs.

    Returns
    -------
    Comparison
        With `rows()`, `to_frame()`, `plot()`, `best`, `verdict`, `explain(name)`.

    Notes
    -----
    zeta scales with the surrogate, so that its values cannot be compared between surrogates. Sample sizes can: the
    bound (2 D M / zeta**(eps))^2 of `sample_size` does not change when a surrogate is scaled. They are worst-case
    bounds, and order surrogates by their guarantees, not by their performance on given data.

    Candidates come from the registry. A surrogate that cannot be built without the loss overrides the class method
    `for_loss(loss)`. One whose excess risk is no Bregman divergence of moments uses the calibration function that
    `candidates.CALIBRATIONS` gives for it.

    Examples
    --------
    >>> import taskloss as tl
    >>> found = tl.theory.compare(tl.losses.Absolute(4), ["all-thresholds", "cumulative-link", "quadratic"], eps=0.3)
    >>> found.best.name
    'all-thresholds (logistic)'
    """
    task = Loss.resolve(loss)
    positive(kappa=kappa, **({} if radius is None else {"radius": radius}))
    tail(confidence)
    if not 0 < noise < 1:
        raise ValueError(f"noise must be between 0 and 1, got {noise}.")
    refused: dict[str, str] = {}
    pairs: list[tuple[str, list[str], Loss, Surrogate]] = []
    for name, build in sorted(builders(task, surrogates), key=lambda pair: generality(pair[0], task)):
        try:
            variant, surrogate = fitted(task, build())
        except (ValueError, TypeError) as error:
            refused[name] = str(error)
            continue
        twin = next((pair for pair in pairs if same_function(pair[2:], (variant, surrogate))), None)
        if twin is None:
            pairs.append((name, [], variant, surrogate))
        else:
            twin[1].append(name)
    if not pairs:
        reasons = "; ".join(f"{n}: {r.rstrip('.')}" for n, r in refused.items())
        raise ValueError(f"No surrogate fits {task!r}: {reasons or 'surrogates is empty'}.")
    table = np.asarray(task.matrix(), dtype=float)
    levels = _levels(eps, float((table - table.min(0)).max()))
    found = [describe(*pair, levels, noise, radius, kappa, confidence, search) for pair in pairs]
    found.sort(key=lambda c: (_rank(c.examples[0]), _rank(c.operations)))
    return Comparison(task, levels, confidence, features, tuple(found), refused)


def _levels(eps: Any, largest: float) -> tuple[float, ...]:
    chosen = largest * np.array([0.05, 0.1, 0.25, 0.5]) if eps is None else np.atleast_1d(np.asarray(eps, dtype=float))
    if not (len(chosen) and np.isfinite(chosen).all() and (chosen > 0).all()):
        raise ValueError(f"eps must be one or more positive numbers, got {eps}; the largest excess is {largest:g}.")
    return tuple(chosen.tolist())


def _size(found: Certificate) -> str:
    """A calibration function's value in words: "= 0.1", "in [0.1, 0.2]", ">= 0.1" or "unknown"."""
    if found.exact:
        return f"= {found.value:.3g}"
    if math.isfinite(found.value):
        return f"in [{found.lower:.3g}, {found.value:.3g}]"
    return f">= {found.lower:.3g}" if found.lower > 0 else "unknown"


def _rank(value: float) -> float:
    return math.inf if math.isnan(value) else value


def _number(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.3g}"


def _count(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.2g}" if value >= 1e5 else f"{value:.0f}"
