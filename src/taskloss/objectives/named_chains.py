"""The risk of chains over sparse rows as one compiled pass, laid out for the cache."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from ..hypotheses.structured import ForestRows, Structured
from ..parallel import Executor
from .forests import Forests

_LANES = 64  # sequences that go side by side
_WIDE = 4  # labels from which a feature's weights are a whole row
_SPREADS = {True: 40.0, False: 230.0}  # of transitions, in single precision and in double: see `_compiled.tagging`


class ChainPass:
    """theta -> value and gradient of sum_i w_i S(v_i, phi_i) over chains, S the CRF's and v linear in sparse rows.

    theta is a column: of the entries `free` of the full parameters, which have this shape, or of all where free is None. Features come in the order of
    their frequency. Those with few labels have single weights, the others rows of weights, zero where they are not free.
    """

    def __init__(
        self,
        layout: Structured,
        inputs: ForestRows,
        risk: Forests,
        free: np.ndarray | None,
        shape: tuple[int, ...],
        executor: Executor,
    ):
        self.layout, self.risk, self.executor = layout, risk, executor
        rows, k = inputs.rows, risk.n_states
        # theta's own number of each full parameter; of those that stay zero the place of a zero that is put behind it
        self.size = int(np.prod(shape)) if free is None else len(free)
        number = np.arange(self.size) if free is None else np.full(int(np.prod(shape)), self.size)
        if free is not None:
            number[free] = np.arange(self.size)
        number = number.reshape(shape)
        self.rest = number[rows.shape[1] :]
        order = self._in_lanes(risk)
        self.codes = risk.codes[order]
        self.unit = bool((rows.data == 1).all())
        self.small = self.unit or bool((np.abs(rows.data) <= 1).all())
        self._lay_out(rows[order], number[: rows.shape[1]])
        cuts = np.searchsorted(self.groups[:, 0], np.linspace(0, len(order), executor.threads + 1)).tolist()
        self.parts = [(a, b, self._slopes(k)) for a, b in pairwise(cuts) if a < b]

    def _in_lanes(self, risk: Forests) -> np.ndarray:
        """The order of positions; sets the groups of sequences, the longest first, and their steps."""
        lengths, n = risk.forest.lengths, risk.n_examples
        chosen = np.argsort(-lengths, kind="stable")
        place = np.empty(n, dtype=np.int64)
        place[chosen] = np.arange(n)
        self.weights = risk.weights[chosen]
        sizes = [lengths[chosen[i : i + _LANES]] for i in range(0, n, _LANES)]
        steps = [np.searchsorted(-some, -np.arange(some[0] + 1), side="left") for some in sizes]
        counts = [(some.sum(), len(some), len(step)) for some, step in zip(sizes, steps, strict=True)]
        self.groups = np.concatenate([[[0, 0, 0]], np.cumsum(counts, axis=0)]).astype(np.int64)
        self.steps = np.concatenate(steps).astype(np.int64)
        tree = risk.forest.tree_of
        time = np.arange(risk.n_rows) - risk.forest.offsets[tree]
        group, lane = np.divmod(place[tree], _LANES)
        return np.argsort((group * (lengths.max() + 1) + time) * _LANES + lane, kind="stable")

    def _lay_out(self, rows: Any, number: np.ndarray) -> None:
        """Entries of features with rows of weights, and of those with single weights, one for each of their labels."""
        n, d = rows.shape
        free = number < self.size
        common = np.argsort(-np.bincount(rows.indices, minlength=d), kind="stable")
        wide = free.sum(axis=1) >= min(_WIDE, number.shape[1])
        place = np.empty(d, dtype=np.int64)
        at = np.repeat(np.arange(n), np.diff(rows.indptr))
        entry = wide[rows.indices]
        few, many = common[~wide[common]], common[wide[common]]
        place[many], place[few] = np.arange(len(many)), np.arange(len(few))
        feature, label = np.nonzero(free[few])
        starts = np.concatenate([[0], np.cumsum(np.bincount(feature, minlength=len(few)))])
        some = place[rows.indices[~entry]]
        counts = starts[some + 1] - starts[some]
        singles = np.repeat(starts[some] - np.concatenate([[0], np.cumsum(counts)[:-1]]), counts) + np.arange(
            counts.sum()
        )
        self.wide, self.narrow = number[many], number[few][feature, label]
        self.entries = (
            _starts(at[entry], n),
            place[rows.indices[entry]].astype(np.int32),
            rows.data[entry],
            _starts(np.repeat(at[~entry], counts), n),
            singles.astype(np.int32),
            label[singles].astype(np.int32),
            np.repeat(rows.data[~entry], counts),
        )
        self._typed: dict[Any, tuple[Any, ...]] = {}

    def _entries(self, dtype: Any) -> tuple[Any, ...]:
        """With values in this precision; ones lie in one place in memory, read again and again."""
        if dtype not in self._typed:
            one, found = np.ones(1, dtype), list(self.entries)
            for i in (2, 6):
                x = found[i]
                found[i] = np.broadcast_to(one, x.shape) if self.unit else x.astype(dtype)
            self._typed[dtype] = tuple(found)
        return self._typed[dtype]

    def _slopes(self, k: int) -> tuple[np.ndarray, ...]:
        return tuple(np.zeros(shape) for shape in (self.wide.shape, self.narrow.shape, (3, k), (k, k)))

    def __call__(
        self, theta: np.ndarray, single: bool = False, squared: bool = False
    ) -> tuple[float, np.ndarray] | None:
        """Value and gradient; None where transitions differ by so much that probabilities could underflow. `single`: in single precision, where features are no
        larger than one and transitions allow it. squared: instead of the gradient about the diagonal of the Hessian, as if positions were independent."""
        from .._compiled.tagging import chain_pass

        full = np.append(theta.ravel(), 0.0)
        rest = self.layout.parts(full[self.rest])
        k, ends = self.risk.n_states, self.layout.ends
        shift = rest["transition"].max()
        table = rest["transition"] - shift
        single = single and self.small and bool(table.min() >= -_SPREADS[True])
        if not table.min() >= -_SPREADS[single]:
            return None
        dtype = np.float32 if single else np.float64
        e = np.exp(table)
        constants = np.zeros((3, k))
        constants[0] = rest["node"][0]
        if ends:
            constants[1:] = rest["start"], rest["end"]
        tables = tuple(x.astype(dtype, copy=False) for x in (full[self.wide], full[self.narrow], constants))
        shared = self.codes, self.weights, self.groups, self.steps

        def work(part: tuple[int, int, Any]) -> float:
            first, last, slopes = part
            for x in slopes:
                x[:] = 0.0
            value = np.zeros(1)
            chain_pass(
                tables, self._entries(dtype), e.astype(dtype), *shared, first, last, _LANES, slopes, value, squared
            )
            return float(value[0])

        self._entries(dtype)  # before threads ask for them
        value = sum(self.executor.map(work, self.parts))
        wide, narrow, sums, pairs = (
            sum(xs[1:], xs[0]) for xs in zip(*(slopes for *_, slopes in self.parts), strict=True)
        )
        pairs = pairs * e
        if not squared:
            counts = self.risk.gold.counts
            value += float(shift * counts.sum() - (rest["transition"] * counts).sum())
            pairs = pairs - counts
        if not self.layout.fit_intercept:
            sums[0] = 0.0
        out = np.zeros(self.size + 1)
        out[self.wide], out[self.narrow] = wide, narrow
        out[self.rest] = np.vstack([sums[:1], pairs, sums[1 : 1 + 2 * ends]])
        return value, out[:-1].reshape(-1, 1)


def _starts(rows: np.ndarray, n: int) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n))])
