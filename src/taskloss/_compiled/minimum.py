"""The least of several rows, place by place, with its row; the definition is `np.argmin(risks + constants[:, None], axis=0)`."""

from __future__ import annotations

from .caching import njit


@njit(nogil=True)
def least(risks, constants, best, found):
    for r in range(len(best)):
        best[r] = risks[0, r] + constants[0]
        found[r] = 0
    for z in range(1, len(constants)):
        row, constant = risks[z], constants[z]
        for r in range(len(best)):  # in vectors: what is kept is chosen, without a branch
            value = row[r] + constant
            less = value < best[r]
            found[r] = z if less else found[r]
            best[r] = value if less else best[r]
