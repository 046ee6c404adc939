"""Labels and outputs that are objects of any type."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..losses.base import object_rows


class Objects:
    """One label per row, of any type; codes follow the loss's own list of labels, or the order in which they came."""

    def __init__(self, y: Any, loss: Any):
        rows, known = object_rows(y), loss.label_names()
        self._codes: dict[Any, int] = {}
        for one in rows if known is None else known:
            self._codes.setdefault(identity(one), len(self._codes))
        if known is not None:
            self.classes = known
        else:
            self.classes = rows[np.unique(self.encode(rows), return_index=True)[1]]

    @property
    def size(self) -> int:
        return len(self.classes)

    def check(self, name: str = "y") -> None:
        if self.size == 0:
            raise ValueError(f"{name} is empty: at least one label is needed.")

    def encode(self, y: Any) -> np.ndarray:
        return _codes(y, self._codes, "label")

    def outputs(self, loss: Any) -> np.ndarray:
        """The users' own outputs, in the order of their codes."""
        return loss.output_names(self.classes)

    def translate(self, z: np.ndarray, loss: Any) -> np.ndarray:
        outputs = self.outputs(loss)
        return plain_rows(outputs[z], outputs)

    def encode_outputs(self, z: Any, loss: Any) -> np.ndarray:
        known: dict[Any, int] = {}
        for code, one in enumerate(self.outputs(loss)):
            known.setdefault(identity(one), code)
        return _codes(z, known, "output")

    def losses(self, loss: Any, z: np.ndarray, y: Any, costs: Any = None) -> np.ndarray:
        if costs is not None:
            return loss.realised(z, self.encode(y), costs)
        return loss.pairs(self.outputs(loss)[z], y)  # the function knows labels that no fit has seen


def plain_rows(values: Any, template: Any) -> Any:
    """Outputs in an array of the template's kind: numbers and strings in one of their own, other objects as they are."""
    rows = values if isinstance(values, np.ndarray) else object_rows(values)
    if isinstance(template, np.ndarray) and template.dtype != object:
        return np.asarray(rows.tolist()) if rows.dtype == object else rows
    return rows


def identity(value: Any) -> Any:
    """Something hashable that tells an object from others."""
    if isinstance(value, np.ndarray):
        return value.shape, value.tobytes()
    if isinstance(value, list):
        return tuple(identity(v) for v in value)
    if isinstance(value, dict):
        return frozenset((key, identity(v)) for key, v in value.items())
    return frozenset(value) if isinstance(value, set) else value


def _codes(values: Any, known: dict[Any, int], what: str) -> np.ndarray:
    rows = object_rows(values)
    codes = np.array([known.get(identity(one), -1) for one in rows], dtype=np.int64)
    if codes.size and codes.min() < 0:
        raise ValueError(f"Unknown {what} {rows[codes < 0][0]!r}: it is none of the {len(known)} that were listed.")
    return codes
