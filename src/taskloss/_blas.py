"""Threads that live beside others': BLAS held at one thread and given back, and one pool, safe among threads and after a fork."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any


@cache
def _blas() -> Any:
    """The BLAS libraries; looking for them takes milliseconds, so once."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")


class _Hold:
    """BLAS at one thread for as long as some thread of this process wants it so.

    The number of threads is a setting of the whole process. Contexts that each restored what they found could leave it
    at one: A enters and finds 8, B enters and finds 1, A leaves and sets 8 under B, B leaves and sets 1 for good. So
    holders are kept; the first sets one, the last restores what the first found.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.holders: dict[object, int] = {}  # a token of each, who may leave from another thread than entered
        self.limiter: Any = None
        self.before = 1

    def enter(self, token: object) -> None:
        with self.lock:
            if not self.holders:
                self.before = _allowed()
                self.limiter = _blas().limit(limits=1)
            self.holders[token] = threading.get_ident()

    def leave(self, token: object) -> None:
        with self.lock:
            self.holders.pop(token, None)
            self._restore()

    def threads(self) -> int:
        with self.lock:
            return self.before if self.holders else _allowed()

    def after_fork(self) -> None:
        """Of the threads that held BLAS only the one that forked lives on in the child."""
        self.lock = threading.Lock()
        me = threading.get_ident()
        self.holders = {token: thread for token, thread in self.holders.items() if thread == me}
        self._restore()

    def _restore(self) -> None:
        if not self.holders and self.limiter is not None:
            _free_control()
            self.limiter.restore_original_limits()
            _free_control()
            self.limiter = None


def _free_control() -> None:
    """threadpoolctl 3.7 lets only the thread that set a limit change it; of holders the last to leave may be another."""
    for library in _blas().lib_controllers:
        if hasattr(library, "clear_controlling_thread"):
            library.clear_controlling_thread(force=True)


_hold = _Hold()


@cache
def _cores() -> int:
    return os.cpu_count() or 1


def _allowed() -> int:
    return max(1, min(max((library.num_threads for library in _blas().lib_controllers), default=1), _cores()))


def blas_threads() -> int:
    """How many threads BLAS may use where nobody holds it at one; users and joblib limit both in one place."""
    return _hold.threads()


@contextlib.contextmanager
def serial_blas(wanted: bool = True) -> Iterator[None]:
    """Hold BLAS at one thread, if wanted: where blocks run on threads of their own, or matrices are small."""
    if not wanted:
        yield
        return
    token = object()
    try:
        _hold.enter(token)
        yield
    finally:
        try:
            _hold.leave(token)
        except BaseException:  # an interrupt on the way, after which BLAS would stay at one thread
            _hold.leave(token)
            raise


_executor: ThreadPoolExecutor | None = None
_making = threading.Lock()


def pool() -> ThreadPoolExecutor:
    """The pool, made when it is first asked for, in each process anew: a forked child has none of its parent's threads."""
    global _executor
    with _making:
        if _executor is None:
            _executor = ThreadPoolExecutor(_cores(), thread_name_prefix="taskloss")
        return _executor


def _after_fork() -> None:
    global _executor, _making
    _executor, _making = None, threading.Lock()
    _hold.after_fork()


if hasattr(os, "register_at_fork"):  # not on Windows, which does not fork
    os.register_at_fork(after_in_child=_after_fork)
