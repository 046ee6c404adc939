"""Products with features on a device, the part of a linear fit whose cost is rows times features.

Scores are copied to the host, where the risk is evaluated, and its gradients back to the device: a few numbers per row.
"""

from __future__ import annotations

import threading
import warnings
from functools import cached_property
from typing import Any

import numpy as np
import torch
from scipy import sparse

from .._blas import blas_threads
from .._numpy import to_numpy
from ..hypotheses.places import Host, Room
from .training import find_device

Tensor = torch.Tensor

_BLOCK_BYTES = 1 << 31  # of a block of features where memory is ample: few calls, and copies overlap with products
_CPU_BYTES = 1 << 26
_PINNED_BYTES = 1 << 27  # largest array in pinned memory, which is slow to allocate


class DeviceRows:
    """A matrix on a device, for products X @ w and X.T @ v with arrays on the host."""

    def __init__(self, rows: Tensor, transposed: Any = None):
        self.rows, self._transposed = rows, transposed
        self.shape = tuple(rows.shape)

    @property
    def dtype(self) -> Any:
        return np.dtype(str(self.rows.dtype).removeprefix("torch."))

    @cached_property
    def T(self) -> DeviceRows:
        return DeviceRows(self.rows.T if self._transposed is None else self._transposed)

    def __matmul__(self, w: np.ndarray) -> np.ndarray:
        return fetch(self.rows @ self._put(w))

    def _put(self, a: np.ndarray) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(a, dtype=self.dtype)).to(self.rows.device)

    def affine(self, w: np.ndarray, b: np.ndarray) -> np.ndarray:
        """X w + b, on the host."""
        return fetch((self.rows @ self._put(w)).add_(self._put(b)))

    def pull_back(self, v: np.ndarray, out: np.ndarray) -> None:
        """out = X^T v, and in its last row the sum of the rows of v."""
        there = self._put(v)
        out[:-1] = fetch(self.T.rows @ there)
        out[-1] = fetch(there.sum(0))


def fetch(a: Tensor) -> np.ndarray:
    """A tensor as an array on the host; from a GPU through pinned memory, which PyTorch caches and reuses."""
    if a.device.type != "cuda" or a.nbytes > _PINNED_BYTES:
        return to_numpy(a)
    here = torch.empty(a.shape, dtype=a.dtype, pin_memory=True)
    here.copy_(a, non_blocking=True)
    torch.cuda.current_stream(a.device).synchronize()
    return here.numpy()


_own = threading.local()  # a stream per worker thread, so that copies of one overlap with products of another


def _on_own_stream(device: torch.device) -> None:
    if device.type != "cuda" or threading.current_thread() is threading.main_thread():
        return
    streams = _own.__dict__.setdefault("streams", {})
    if device not in streams:
        streams[device] = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    torch.cuda.set_stream(streams[device])


class Device(Host):
    """A device of PyTorch: `put` copies arrays to it, `get` copies them back."""

    def __init__(self, name: str):
        self.device = find_device(name)

    @cached_property
    def room(self) -> Room:  # type: ignore[override]
        if self.device.type != "cuda":
            return Room(_CPU_BYTES, _CPU_BYTES)
        free = torch.cuda.mem_get_info(self.device)[0]
        return Room(min(_BLOCK_BYTES, free // (6 * blas_threads())), free // 2)

    def put(self, a: Any) -> Tensor:
        _on_own_stream(self.device)
        a = np.ascontiguousarray(a)
        return torch.from_numpy(a if a.flags.writeable else a.copy()).to(self.device)

    def get(self, a: Any) -> np.ndarray:
        return fetch(a)

    def rows(self, a: Any) -> DeviceRows:
        if isinstance(a, Tensor):
            if a.is_cuda and threading.current_thread() is threading.main_thread():
                torch.cuda.current_stream(
                    a.device
                ).synchronize()  # worker threads read it on streams that do not wait for this one
            return DeviceRows(a)
        if sparse.issparse(a):
            return DeviceRows(self._csr(a.tocsr()), self._csr(a.T.tocsr()))
        return DeviceRows(self.put(a))

    def _csr(self, a: Any) -> Tensor:
        rows, columns, values = (torch.from_numpy(np.array(part)) for part in (a.indptr, a.indices, a.data))
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Sparse ")  # that sparse tensors are in beta and unchecked
            return torch.sparse_csr_tensor(rows, columns, values, tuple(a.shape), check_invariants=False).to(
                self.device
            )

    def eigh(self, a: Any) -> tuple[np.ndarray, np.ndarray]:
        values, vectors = torch.linalg.eigh(a if isinstance(a, Tensor) else self.put(a))
        return self.get(values), self.get(vectors)

    def exp(self, a: Tensor) -> Tensor:
        return a.clamp_(max=0.0).exp_()
