"""How a fit says where it is: to the logger `taskloss`, to callbacks, and to whoever watches.

>>> import logging, taskloss as tl
>>> logging.getLogger("taskloss").setLevel(logging.DEBUG)  # every iteration of every fit goes to your handlers
>>> logging.getLogger("taskloss").setLevel(logging.NOTSET)
"""

from __future__ import annotations

import contextlib
import logging
import sys
import warnings
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Callback", "Progress", "Step", "callbacks", "follow", "warn"]

logger = logging.getLogger("taskloss")
logger.addHandler(logging.NullHandler())  # a library is silent until an application asks


@dataclass(frozen=True)
class Step:
    """One step of a fit: `done` of `total` (None where nobody knows) of what `unit` names.

    `value` is the objective and `gap` its estimated distance from the minimum, relative to it; None where work is only
    counted.
    """

    label: str
    done: int
    total: int | None = None
    unit: str = "iterations"
    value: float | None = None
    gap: float | None = None

    def __str__(self) -> str:
        if self.value is not None:
            return f"{self.done:4d} {self.unit}, objective {self.value:.6g}, gap {self.gap:.1e}"
        return f"{self.done:,}{'' if not self.total else f' of {self.total:,}'} {self.unit}"


Callback = Callable[[Step], Any]  # what it raises ends the fit

_callbacks: ContextVar[tuple[Callback, ...]] = ContextVar("taskloss_callbacks", default=())


@contextlib.contextmanager
def callbacks(*functions: Callback) -> Iterator[None]:
    """Within this context every step of every fit in this thread is given to these functions.

    Parameters
    ----------
    functions : callables that take a `Step`. What one raises ends the fit, as an interrupt does.

    Examples
    --------
    >>> steps = []
    >>> with callbacks(steps.append):
    ...     Progress("fit", 1e-8, show=False).update(0, 0.7, 0.1)
    >>> steps[0].value, steps[0].gap
    (0.7, 0.1)
    """
    token = _callbacks.set((*_callbacks.get(), *functions))
    try:
        yield
    finally:
        _callbacks.reset(token)


def follow(label: str, tol: float, verbose: bool) -> Progress | None:
    """What a fit reports to, or None where nobody listens, so that it need not compute what it would say."""
    if verbose or _callbacks.get() or logger.isEnabledFor(logging.DEBUG):
        return Progress(label, tol, show=bool(verbose))
    return None


class Progress:
    """Follows the gap down from the start to tol, on a logarithmic scale, or counted work up to its end.

    Parameters
    ----------
    label : what is being done.
    tol : the gap at which it ends.
    stream : where to show it; None is standard error. On a terminal it is one line that is drawn again and again; elsewhere,
        as in a log file, it is a new line for each tenth of the way.
    show : False is for the logger and for callbacks alone.
    """

    width = 24

    def __init__(self, label: str, tol: float, stream: Any = None, show: bool = True):
        self.label, self.tol, self.show = label, max(tol, 1e-300), show
        self.stream = sys.stderr if stream is None else stream
        self.first: float | None = None
        self.tenths, self.next = -1, 1
        self.drawn = False

    def update(self, iteration: int, value: float, gap: float) -> None:
        gap = max(gap, self.tol)
        self.first = max(self.first or gap, gap)
        span = np.log(self.first / self.tol)
        share = 1.0 if span <= 0 else float(np.clip(np.log(self.first / gap) / span, 0, 1))
        self._report(share, Step(self.label, iteration, value=value, gap=gap))

    def count(self, done: int, total: int | None, what: str) -> None:
        """The same for work that is counted."""
        self._report(min(done / total, 1.0) if total else None, Step(self.label, done, total, what))

    def close(self, status: Any) -> None:
        """The last word: a sentence, or an enumeration whose value is one."""
        sentence = getattr(status, "value", status)
        logger.debug("%s: %s", self.label, sentence)
        if self.show:
            self.stream.write(("\n" if self.drawn else "") + f"{sentence}\n")
            self.stream.flush()

    def _report(self, share: float | None, step: Step) -> None:
        logger.debug("%s: %s", self.label, step)
        if self.show:
            self._draw(share, step)
        for callback in _callbacks.get():
            callback(step)

    def _draw(self, share: float | None, step: Step) -> None:
        if getattr(self.stream, "isatty", bool)():
            done = round(self.width * (share or 0.0))
            self.stream.write(f"\r{self.label} |{'█' * done}{'·' * (self.width - done)}| {step} ")
            self.drawn = True
        elif self._is_news(share, step.done):
            self.stream.write(f"{self.label} {'' if share is None else f'{share:4.0%} '}{step}\n")
        self.stream.flush()

    def _is_news(self, share: float | None, done: int) -> bool:
        """Another tenth of the way; where its length is not known, twice as far as at the last line."""
        if share is None:
            news, self.next = done >= self.next, self.next if done < self.next else 2 * done
            return news
        news, self.tenths = int(10 * share) > self.tenths, max(self.tenths, int(10 * share))
        return news


_logged: set[str] = set()


def warn(message: str, category: type[Warning], stacklevel: int = 2) -> None:
    """A Python warning, which is also logged, once in a process: the same sentence need not fill a log."""
    if message not in _logged:
        _logged.add(message)
        logger.warning(message)
    warnings.warn(message, category, stacklevel=stacklevel + 1)
