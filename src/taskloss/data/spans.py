"""Schemes that write spans as a label for each position."""

from __future__ import annotations

import numbers
from typing import Any, NamedTuple

import numpy as np

from .._checks import real_array
from ..polytopes._spans import Tags

# The prefixes of the first position, the others, the last and a single one; a prefix that is None has no label of its own.
_SCHEMES: dict[str, tuple[str, str, str | None, str | None]] = {
    "BIO": ("B", "I", None, None),
    "IO": ("I", "I", None, None),
    "BIOES": ("B", "I", "E", "S"),
    "BILOU": ("B", "I", "L", "U"),
}
_NAMES = {"IOB2": "BIO", "IOBES": "BIOES", "BMEWO": "BIOES"}


class Span(NamedTuple):
    """Positions start, ..., end - 1 of a sequence are one entity of this label; with the probability of exactly that."""

    start: int
    end: int
    label: Any
    probability: float


class SpanScheme(NamedTuple):
    """The labels of spans, and the states that each is written with."""

    labels: list[str]
    tags: Tags

    @classmethod
    def read(cls, scheme: Any, classes: np.ndarray) -> SpanScheme:
        """From the name of a scheme and labels such as "B-PER", "I-PER" and "O"."""
        name = _NAMES.get(scheme, scheme) if isinstance(scheme, str) else scheme
        if name not in _SCHEMES:
            raise ValueError(f"There is no scheme of spans named {scheme!r}; choose one of: {', '.join(_SCHEMES)}.")
        prefixes = _SCHEMES[name]
        codes = {str(label): code for code, label in enumerate(classes.tolist())}
        parts = {label: label.split("-", 1) for label in codes}
        odd = [label for label, p in parts.items() if label != "O" and (len(p) != 2 or p[0] not in prefixes)]
        if odd:
            raise ValueError(
                f"The label {odd[0]!r} is none of the scheme {name}: labels are O, or {', '.join(sorted({x for x in prefixes if x}))} with a "
                "dash and a name, such as 'B-PER'; choose another scheme."
            )
        labels = sorted({p[1] for p in parts.values() if len(p) == 2})
        if not labels:
            raise ValueError(
                f"None of the labels {list(codes)[:6]} names a span: labels of the scheme {name} look like 'B-PER'."
            )

        def states(prefix: str | None) -> np.ndarray:
            return np.array([-1 if prefix is None else codes.get(f"{prefix}-{label}", -1) for label in labels])

        first, inside, last, single = map(states, prefixes)
        return cls(labels, Tags(first, inside, last, single, open=name == "IO"))

    def spans(self, states: np.ndarray, roots: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Start, last position and kind of the spans that packed states write, by their place.

        A state that would go on where no span has begun belongs to none.
        """
        n = len(states)
        first, inside, last, single = (self._kinds(states, codes) for codes in self.tags[:4])
        on = np.zeros(n + 1, dtype=bool)  # whether a position goes on with the span of the one before
        on[1:n] = (inside[1:] >= 0) & ((inside[1:] == inside[:-1]) | (inside[1:] == first[:-1]))
        on[roots] = False
        start = np.flatnonzero((first >= 0) & ~on[:n])
        stops = np.flatnonzero(~on)
        stop, kind = stops[np.searchsorted(stops, start, side="right")], first[start]
        if not (self.tags.last >= 0).any():
            return start, stop - 1, kind
        begins = np.zeros(n + 1, dtype=bool)
        begins[roots], begins[n] = True, True
        closed = ~begins[stop] & (np.append(last, -1)[stop] == kind)
        alone = np.flatnonzero(single >= 0)
        starts = np.concatenate([start[closed], alone])
        order = np.argsort(starts, kind="stable")
        parts = starts, np.concatenate([stop[closed], alone]), np.concatenate([kind[closed], single[alone]])
        return parts[0][order], parts[1][order], parts[2][order]

    @staticmethod
    def _kinds(states: np.ndarray, codes: np.ndarray) -> np.ndarray:
        """The kind of span that each state has this role in, or -1."""
        place = np.full(int(max(states.max(initial=0), codes.max(initial=0))) + 1, -1)
        place[codes[codes >= 0]] = np.flatnonzero(codes >= 0)
        return place[states]


_OVERLAPPING = 0.5  # spans above it exclude each other, and there are few to follow


def span_threshold(threshold: Any, costs: Any, precision: Any) -> float | None:
    """The least probability at which spans are reported, from one of the three, or None where none is given."""
    if costs is not None:
        pair = real_array("costs", costs, "two costs")
        if pair.shape != (2,) or not np.isfinite(pair).all() or not (pair > 0).all():
            raise ValueError(
                f"costs must be two numbers above zero, of a span that is false and of one that is missed, got {costs!r}."
            )
        return float(pair[0] / pair.sum())
    for name, value in (("threshold", threshold), ("precision", precision)):
        if value is not None and not (isinstance(value, numbers.Real) and 0 < float(value) <= 1):
            raise ValueError(f"{name} must be a probability above zero, got {value!r}.")
    return float(threshold) if threshold is not None else _OVERLAPPING if precision is not None else None
