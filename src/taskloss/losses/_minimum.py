"""The output of least expected loss, for many examples."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..parallel import Executor

_ROWS = 1 << 12  # a block's expected losses stay in the nearest caches


def least(mu: np.ndarray, psi: np.ndarray, constant: Any) -> np.ndarray:
    """argmin_z <psi(z), mu> + c(z) of each row, ties to the first.

    All expected losses at once would fill memory that has never been touched, which costs more than the product itself; so
    they are made block by block, outputs first, and the running minimum over outputs goes in vectors over examples.
    """
    if mu.ndim != 2 or len(mu) <= _ROWS:
        return np.argmin(mu @ psi.T + constant, axis=-1)
    constants = np.broadcast_to(constant, len(psi))
    out = np.zeros(len(mu), dtype=np.int64)

    def work(rows: slice) -> None:
        scores, better = np.empty((len(psi), _ROWS)), np.empty(_ROWS, dtype=bool)
        for start in range(rows.start, rows.stop, _ROWS):
            block = mu[start : min(start + _ROWS, rows.stop)]
            n = len(block)
            risks = np.matmul(psi, block.T, out=scores[:, :n] if n == _ROWS else None)
            risks += constants[:, None]
            best, found, less = risks[0], out[start : start + n], better[:n]
            for z in range(1, len(psi)):
                np.less(risks[z], best, out=less)
                np.copyto(found, z, where=less)
                np.minimum(best, risks[z], out=best)

    Executor.for_work(float(mu.size) * len(psi), -(-len(mu) // _ROWS)).over(work, len(mu))
    return out
