"""The best parameters of a fit that is under way, in a file from which another fit goes on."""

from __future__ import annotations

import os
import time
import zipfile
from typing import Any

import numpy as np

__all__ = ["Checkpoint"]

_SECONDS = 1.0  # between writes, where evaluations are faster than that


class Checkpoint:
    """A file of NumPy arrays, without pickled objects: the parameters of the least objective so far, and what they are of.

    Parameters
    ----------
    path : where it lies, or will lie.
    meaning : what the parameters are of; a file of another meaning is refused.
    """

    def __init__(self, path: Any, meaning: str):
        if not isinstance(path, str | os.PathLike) or not os.fspath(path):
            raise TypeError(f"checkpoint must be the path of a file, got {path!r}.")
        self.path, self.meaning = os.fspath(path), meaning
        folder = os.path.dirname(os.path.abspath(self.path))
        if not os.path.isdir(folder):
            raise FileNotFoundError(f"checkpoint must lie in a folder that is there, and there is no {folder!r}.")
        self.value, self.written = np.inf, 0.0
        self.waiting: np.ndarray | None = None

    def read(self, shape: tuple[int, ...]) -> np.ndarray | None:
        """The parameters in the file, of this shape; None where there is no file yet."""
        if not os.path.exists(self.path):
            return None
        try:
            with np.load(self.path, allow_pickle=False) as file:
                theta, meaning = file["theta"], str(file["meaning"])
        except (ValueError, OSError, KeyError, zipfile.BadZipFile) as error:
            raise ValueError(f"checkpoint={self.path!r} is no checkpoint of a fit: {error}.") from error
        if meaning != self.meaning or theta.shape != shape:
            raise ValueError(
                f"checkpoint={self.path!r} holds parameters {theta.shape} of {meaning}, and this fit's are {shape} of {self.meaning}: give another path, or remove "
                "the file."
            )
        return theta

    def see(self, theta: np.ndarray, value: float) -> None:
        """Keep parameters where their objective is the least so far."""
        if not value < self.value:
            return
        self.value, self.waiting = value, theta
        if time.monotonic() - self.written >= _SECONDS:
            self.write()

    def write(self) -> None:
        """Write what waits; the file is whole at any time."""
        if self.waiting is None:
            return
        beside = f"{self.path}.{os.getpid()}.part"
        with open(beside, "wb") as file:
            np.savez(file, theta=self.waiting, value=self.value, meaning=self.meaning)
        os.replace(beside, self.path)
        self.waiting, self.written = None, time.monotonic()


class Watched:
    """An objective that keeps the best parameters it is asked for in a checkpoint."""

    def __init__(self, problem: Any, checkpoint: Checkpoint):
        self.problem, self.checkpoint = problem, checkpoint

    def __getattr__(self, name: str) -> Any:
        return getattr(self.problem, name)

    def columns(self, some: Any) -> None:
        """The parameters to keep are those of all columns."""

    def value_and_gradient(self, theta: Any) -> Any:
        """The problem's, which it looks at on the way."""
        value, gradient = self.problem.value_and_gradient(theta)
        self.checkpoint.see(self.problem.unflatten(theta), float(value.sum()))
        return value, gradient
