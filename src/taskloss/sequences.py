"""The old place of `taskloss.data.sequences`, for one release."""

from __future__ import annotations

import warnings
from typing import Any

_NAMES = ("Packed", "SequenceLabels", "SequenceReader", "SequenceScorer", "as_labels")


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .data import sequences

    new = "taskloss.Packed" if name == "Packed" else f"taskloss.data.sequences.{name}"
    warnings.warn(f"taskloss.sequences.{name} is now {new}; the old name goes with the next release.", FutureWarning, 2)
    return getattr(sequences, name)
