"""The output of least expected loss, for many examples."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..parallel import Executor

_ROWS = 1 << 12  # a block's expected losses stay in the nearest caches
_CHOICE = 8  # multiplications that one more candidate for the least costs, as np.argmin has it


def least(mu: np.ndarray, psi: np.ndarray, constant: Any) -> np.ndarray:
    """argmin_z <psi(z), mu> + c(z) of each row, ties to the first.

    All expected losses at once would fill memory that has never been touched, and NumPy's argmin along short rows takes longer than the
    product; so many examples go block by block, outputs first, and a compiled pass keeps the least in vectors over examples.
    """
    executor = Executor.for_work(float(mu.size + _CHOICE * len(mu)) * len(psi), -(-len(mu) // _ROWS))
    if mu.ndim != 2 or not executor.compiled:
        return np.argmin(mu @ psi.T + constant, axis=-1)

    from .._compiled import minimum

    constants = np.array(np.broadcast_to(constant, len(psi)), dtype=float)
    out = np.empty(len(mu), dtype=np.int64)

    def work(rows: slice) -> None:
        scores, best = np.empty((len(psi), _ROWS)), np.empty(_ROWS)
        for start in range(rows.start, rows.stop, _ROWS):
            block = mu[start : min(start + _ROWS, rows.stop)]
            n = len(block)
            risks = np.matmul(psi, block.T, out=scores if n == _ROWS else np.empty((len(psi), n)))
            minimum.least(risks, constants, best[:n], out[start : start + n])

    executor.over(work, len(mu))
    return out
