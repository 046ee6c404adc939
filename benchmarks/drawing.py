"""Arguments of all kinds and shapes, good and bad, for calls that must work or refuse with a sentence."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

# What may stand in the place of any argument. Each is made anew, so that no call sees what another one changed.
ODD: dict[str, Callable[[], Any]] = {
    "None": lambda: None,
    "NaN": lambda: float("nan"),
    "infinity": lambda: float("inf"),
    "zero": lambda: 0,
    "minus one": lambda: -1,
    "half": lambda: 0.5,
    "two": lambda: 2,
    "thousandth": lambda: 1e-3,
    "huge whole number": lambda: 10**30,
    "huge number": lambda: 1e308,
    "complex": lambda: 1 + 2j,
    "True": lambda: True,
    "word": lambda: "word",
    "no characters": lambda: "",
    "bytes": lambda: b"word",
    "object": object,
    "class": lambda: dict,
    "function": lambda: lambda *args, **kwargs: "word",
    "generator": lambda: (i for i in range(3)),
    "empty list": list,
    "empty mapping": dict,
    "mapping": lambda: {"a": 1},
    "set": lambda: {1, 2},
    "tuple": lambda: (1, 2),
    "list of None": lambda: [None, None],
    "list of words": lambda: ["a", "b"],
    "ragged": lambda: [[1, 2], [3]],
    "missing": lambda: pd.NA,
    "moment": lambda: pd.Timestamp("2026-01-01"),
    "scalar array": lambda: np.array(3.0),
    "empty array": lambda: np.array([]),
    "array without columns": lambda: np.zeros((3, 0)),
    "array of three dimensions": lambda: np.zeros((2, 2, 2)),
    "objects": lambda: np.array([object(), object()]),
    "frame": lambda: pd.DataFrame({"a": [1, 2]}),
    "empty frame": pd.DataFrame,
    "sparse": lambda: sparse.csr_matrix(np.eye(2)),
    "file": lambda: io.StringIO("a,b\n1,2\n"),
}

# What may be done to an array, or to a list that makes one.
SPOILT: dict[str, Callable[[np.ndarray], Any]] = {
    "as a list": lambda a: a.tolist(),
    "as tuples": lambda a: tuple(map(tuple, a.tolist())) if a.ndim == 2 else tuple(a.tolist()),
    "as a frame": lambda a: pd.DataFrame(a) if a.ndim == 2 else pd.Series(a),
    "with index": lambda a: (
        pd.DataFrame(a, index=range(7, 7 + len(a))) if a.ndim == 2 else pd.Series(a, range(7, 7 + len(a)))
    ),
    "sparse": lambda a: sparse.csr_matrix(np.atleast_2d(a)),
    "sparse by columns": lambda a: sparse.csc_array(np.atleast_2d(a)),
    "single precision": lambda a: a.astype(np.float32),
    "half precision": lambda a: a.astype(np.float16),
    "whole numbers": lambda a: a.astype(np.int32),
    "truth values": lambda a: a > 0,
    "words": lambda a: a.astype(str),
    "objects": lambda a: a.astype(object),
    "complex": lambda a: a + 1j,
    "dates": lambda a: a.astype(np.int64).astype("datetime64[D]"),
    "spans of time": lambda a: a.astype(np.int64).astype("timedelta64[s]"),
    "read-only": lambda a: _read_only(a),
    "column by column": lambda a: np.asfortranarray(a),
    "backwards": lambda a: a[::-1],
    "masked": lambda a: np.ma.masked_array(a, a > 0),
    "NaN inside": lambda a: _with(a, np.nan),
    "infinity inside": lambda a: _with(a, -np.inf),
    "None inside": lambda a: _with(a, None),
    "word inside": lambda a: _with(a, "word"),
    "array inside": lambda a: _with(a, np.arange(2)),
    "NA inside": lambda a: _with(a, pd.NA),
    "negative": lambda a: -abs(a) - 1,
    "zero": lambda a: a * 0,
    "huge": lambda a: a * 1e300,
    "tiny": lambda a: a * 1e-300,
    "fractions": lambda a: a + 0.25,
    "one row": lambda a: a[:1],
    "no rows": lambda a: a[:0],
    "a row less": lambda a: a[:-1],
    "a row more": lambda a: np.concatenate([a, a[:1]]),
    "a column less": lambda a: a[..., :-1],
    "a column more": lambda a: np.concatenate([a, a[..., :1]], axis=-1),
    "a dimension more": lambda a: a[..., None],
    "a dimension less": lambda a: a[0],
    "turned": lambda a: a.T,
    "flat": lambda a: a.ravel(),
    "ragged": lambda a: [a.tolist(), a[:-1].tolist()],
    "generator": lambda a: (row for row in a),
    "mapping": lambda a: dict(enumerate(a.tolist())),
}


def _with(a: np.ndarray, value: Any) -> np.ndarray:
    out = a.astype(float if isinstance(value, float) else object)
    out.flat[out.size // 2] = value
    return out


def _read_only(a: np.ndarray) -> np.ndarray:
    a = a.copy()
    a.flags.writeable = False
    return a


# Structured inputs are lists: of arrays, of lists of labels, of pairs.
SPOILT_LISTS: dict[str, Callable[[list], Any]] = {
    "as a tuple": tuple,
    "one less": lambda a: a[:-1],
    "one more": lambda a: [*a, a[0]],
    "one only": lambda a: a[:1],
    "none": lambda a: [],
    "None inside": lambda a: [*a[:-1], None],
    "number inside": lambda a: [*a[:-1], 3.0],
    "word inside": lambda a: [*a[:-1], "word"],
    "empty inside": lambda a: [*a[:-1], a[-1][:0]],
    "cut inside": lambda a: [*a[:-1], a[-1][:-1]],
    "mapping inside": lambda a: [*a[:-1], {"a": 1}],
    "of objects": lambda a: _object_array(a),
    "turned into a frame": lambda a: [
        pd.DataFrame(np.asarray(one)) if np.ndim(one) == 2 else pd.Series(one) for one in a
    ],
    "generator": lambda a: (one for one in a),
    "mapping": lambda a: dict(enumerate(a)),
    "set of words": lambda a: {"a", "b"},
    "the first": lambda a: a[0],
}


def _object_array(items: list) -> np.ndarray:
    out = np.empty(len(items), dtype=object)
    out[:] = items
    return out


class Draw:
    """Draws one way to spoil arguments; what was drawn is kept in words."""

    def __init__(self, seed: Any):
        self.rng = np.random.default_rng(seed)
        self.said: list[str] = []
        self.spoilt: set[str] = set()

    def pick(self, options: Any) -> Any:
        options = list(options)
        return options[self.rng.integers(len(options))]

    def note(self, name: str, how: str) -> None:
        """Keep in words that an argument is something else."""
        self.spoilt.add(name)
        self.said.append(f"{name}: {how}")

    def spoil(self, name: str, value: Any) -> Any:
        """Something else in the place of an argument."""
        if isinstance(value, np.ndarray) and self.rng.random() < 0.8:
            how = self.pick(SPOILT)
            change: Callable[[Any], Any] = SPOILT[how]
        elif isinstance(value, list) and self.rng.random() < 0.8:
            how = self.pick(SPOILT_LISTS)
            change = SPOILT_LISTS[how]
            if self.rng.random() < 0.4 and value and isinstance(value[-1], np.ndarray):
                how = self.pick(SPOILT)
                item, change = SPOILT[how], lambda a: [*a[:-1], item(a[-1])]
        else:
            how = self.pick(ODD)
            make = ODD[how]
            change = lambda _: make()  # noqa: E731
        self.note(name, how)
        try:
            with np.errstate(all="ignore"):
                return change(value)
        except Exception:  # this cannot be done to that value
            self.said[-1] = f"{name}: None"
            return None

    def arguments(self, **good: Any) -> dict[str, Any]:
        """The arguments, with none, one or two of them spoilt."""
        count = self.pick([0, 1, 1, 1, 1, 2])
        names = self.rng.permutation(list(good))[:count].tolist()
        return {name: self.spoil(name, value) if name in names else value for name, value in good.items()}
