"""Where products with features run: on this machine's cores, or on a device of PyTorch's."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import linalg

from .._blas import serial_blas

_SMALL = 1500  # up to here one BLAS thread costs little, and on a busy machine several wait for each other far longer


class Room(NamedTuple):
    """Bytes of features that a device makes at one time, and that it can hold between passes."""

    block: int
    held: int


class Host:
    """NumPy and this machine's cores: arrays stay where they are."""

    room: Room | None = None

    def put(self, a: Any) -> Any:
        return a

    def get(self, a: Any) -> np.ndarray:
        return a

    def rows(self, a: Any) -> Any:
        """What takes part in products a @ w and a.T @ v with arrays."""
        return a

    def eigh(self, a: Any) -> tuple[np.ndarray, np.ndarray]:
        """Eigenvalues and eigenvectors of a symmetric matrix, which it overwrites, as arrays on the host."""
        if len(a) == 1:  # for which SciPy 1.13 asks LAPACK for too little room
            return a[0].copy(), np.ones((1, 1))
        with serial_blas(len(a) <= _SMALL):
            return linalg.eigh(a, driver="evd", overwrite_a=True, check_finite=False)

    def exp(self, a: Any) -> Any:
        """exp(min(a, 0)) in a's memory: rounding may leave a distance below zero."""
        np.minimum(a, 0.0, out=a)
        return np.exp(a, out=a)


HOST = Host()
_places: dict[str, Any] = {}


def place_of(device: Any, fitting: bool = False) -> Any:
    """The place that a device names; None is the host. What was fitted on a device that is not here predicts on the host."""
    if device is None:
        return HOST
    name = str(device)
    if name not in _places:
        try:
            from ..torch.device import Device

            _places[name] = Device(name)
        except (ImportError, ValueError):
            if fitting:
                raise
            return HOST
    return _places[name]
