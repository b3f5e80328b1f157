"""Ctrl-C for runs outside the main thread.

Python raises KeyboardInterrupt in the main thread only. There it may wait for a pool of threads to end their work, as
``with ThreadPoolExecutor()`` does, while nothing tells these threads to stop. A run therefore checks by itself.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable


class Watch:
    """Checks for interrupts during one run. It never finds one in the main thread, which Python interrupts."""

    def __init__(self, count: Callable[[], int]) -> None:
        """``count`` says how often SIGINT has been handled so far."""
        self._count = count
        self._before = count()
        self._elsewhere = threading.current_thread() is not threading.main_thread()
        self._begun = False

    def check(self) -> None:
        """Raises KeyboardInterrupt if the run must stop, or must not begin."""
        if self._elsewhere and (self._main_thread_unwinds() or self._interrupted()):
            raise KeyboardInterrupt
        self._begun = True

    def _interrupted(self) -> bool:
        if _program_is_over() and (_ended_by_interrupt() or (not self._begun and self._before > 0)):
            return True  # a run of a queue whose main thread was interrupted
        # A handler of the application may do anything. If it raises KeyboardInterrupt, the main thread unwinds.
        return self._count() > self._before and signal.getsignal(signal.SIGINT) is signal.default_int_handler

    def _main_thread_unwinds(self) -> bool:
        """Reports whether the main thread is handling KeyboardInterrupt, or what has been raised because of it."""
        found = sys._current_exceptions().get(threading.main_thread().ident or 0)
        error: BaseException | None = found[1] if isinstance(found, tuple) else found
        seen: set[int] = set()
        while error is not None and id(error) not in seen:
            if isinstance(error, KeyboardInterrupt):
                return True
            seen.add(id(error))
            error = error.__context__
        return False


def _ended_by_interrupt() -> bool:
    """Reports whether the last exception that no code handled, which ends a program, was KeyboardInterrupt."""
    last = getattr(sys, "last_type", None)
    return isinstance(last, type) and issubclass(last, KeyboardInterrupt)


def _program_is_over() -> bool:
    """Reports whether the interpreter only waits for its threads. During the first part of that the main thread is
    alive.
    """
    return getattr(threading, "_SHUTTING_DOWN", False) or not threading.main_thread().is_alive()
