"""What commands say: tables and sentences, or one JSON object; files that are whole or not there; progress."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from .. import progress


class Output:
    """Standard output for people, or with `machine` nothing but the JSON object at the end; progress goes to standard error."""

    def __init__(self, machine: bool = False, quiet: bool = False):
        self.machine, self.quiet = machine, quiet

    def say(self, text: str = "") -> None:
        if not self.machine:
            print(text, flush=True)

    def table(self, header: Sequence[str], rows: Sequence[Sequence[Any]], indent: int = 2) -> None:
        """The first column to the left, the others to the right."""
        cells = [[str(cell) for cell in row] for row in [header, *rows]]
        widths = [max(len(row[j]) for row in cells) for j in range(len(header))]
        for row in cells:
            padded = [row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))]
            self.say((" " * indent + "  ".join(padded)).rstrip())

    def finish(self, result: Any) -> None:
        if self.machine:
            print(json.dumps(plain(result), indent=2, allow_nan=False))


def plain(value: Any) -> Any:
    """A value as JSON has it: NumPy's numbers and arrays as Python's, and null for what is not finite."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, set):
        value = sorted(value, key=str)
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    return None if isinstance(value, float) and not np.isfinite(value) else value


def listed(names: Sequence[Any], most: int = 8) -> str:
    """Names in a row, the first few of many."""
    shown = [repr(name) if isinstance(name, str) else str(name) for name in list(names)[:most]]
    return ", ".join(shown) + (f" and {len(names) - most} more" if len(names) > most else "")


def counted(n: int, noun: str) -> str:
    return f"{n} {noun}{'s' * (n != 1)}"


def check_place(path: str, force: bool, option: str = "-o") -> None:
    """Refuse, before the work, a path that could not be written after it."""
    folder = os.path.dirname(os.path.abspath(path))
    if os.path.isdir(path):
        raise ValueError(f"{option} {path} is a directory: name a file in it.")
    if not os.path.isdir(folder) or not os.access(folder, os.W_OK):
        raise ValueError(f"{option} {path} cannot be written: {folder} is no directory that can be written to.")
    if os.path.exists(path) and not force:
        raise ValueError(f"{path} exists: name another file with {option}, or pass --force to write over it.")


@contextlib.contextmanager
def written(path: str, force: bool, option: str = "-o") -> Iterator[str]:
    """A temporary path beside `path`, which takes its name when all went well, and is gone otherwise."""
    check_place(path, force, option)
    folder, name = os.path.split(os.path.abspath(path))
    handle, temporary = tempfile.mkstemp(prefix=".", suffix="-" + name, dir=folder)  # the suffix says the format
    os.close(handle)
    try:
        yield temporary
        check_place(path, force, option)
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)  # temporary files are for their owner alone
        os.replace(temporary, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.remove(temporary)


class Work:
    """Counted work on standard error: a bar with the step of the fit under way on a terminal, lines elsewhere."""

    _OFTEN = 0.1  # seconds between two drawings

    def __init__(self, label: str, total: int, show: bool):
        self.show, self.total, self.done, self.last = show, total, 0, 0.0
        self.bar = progress.Progress(label, 1.0, sys.stderr, show=show)
        self.terminal = show and sys.stderr.isatty()

    def __enter__(self) -> Work:
        self._context = progress.callbacks(*([self._step] if self.terminal else []))
        self._context.__enter__()
        self._count()
        return self

    def advance(self) -> None:
        self.done += 1
        self._count()

    def _count(self) -> None:
        if self.show:
            self.bar.count(self.done, self.total, "fits")

    def _step(self, step: progress.Step) -> None:
        if step.label != self.bar.label and time.monotonic() - self.last > self._OFTEN:
            self.last = time.monotonic()
            sys.stderr.write(f"\r{self.bar.label} {self.done} of {self.total} fits; {step}\x1b[K")
            sys.stderr.flush()

    def __exit__(self, *error: Any) -> None:
        self._context.__exit__(*error)
        if self.terminal:
            sys.stderr.write("\n")
            sys.stderr.flush()
