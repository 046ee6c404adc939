"""Where products with features run: on the host, or on a device of PyTorch."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import linalg

from .._blas import serial_blas

_SMALL = 1500  # columns up to which one BLAS thread is nearly as fast, and on a busy machine much faster


class Room(NamedTuple):
    """Memory of a device, in bytes: for one block of features, and for features kept between passes."""

    block: int
    held: int


class Host:
    """NumPy on the CPU: `put` and `get` do nothing."""

    room: Room | None = None

    def put(self, a: Any) -> Any:
        return a

    def get(self, a: Any) -> np.ndarray:
        return a

    def rows(self, a: Any) -> Any:
        """An operand for products a @ w and a.T @ v with arrays on the host."""
        return a

    def eigh(self, a: Any) -> tuple[np.ndarray, np.ndarray]:
        """Eigenvalues and eigenvectors of a symmetric matrix, which it overwrites, as arrays on the host."""
        if len(a) == 1:  # SciPy 1.13 passes LAPACK too small a workspace
            return a[0].copy(), np.ones((1, 1))
        with serial_blas(len(a) <= _SMALL):
            return linalg.eigh(a, driver="evd", overwrite_a=True, check_finite=False)

    def exp(self, a: Any) -> Any:
        """exp(min(a, 0)) in place; a is minus a distance, which rounding can make positive."""
        np.minimum(a, 0.0, out=a)
        return np.exp(a, out=a)


HOST = Host()
_places: dict[str, Any] = {}


def place_of(device: Any, fitting: bool = False) -> Any:
    """The Host or Device of this name; None is the host. At prediction, a missing device falls back to the host."""
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
