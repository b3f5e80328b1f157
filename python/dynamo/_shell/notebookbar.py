"""A progress bar in notebooks, by tqdm. Elsewhere, without tqdm, and of calls that end soon, nothing is shown."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

# Calls that end before show no bar.
_SECONDS = 1.0


class NotebookBar:
    """A bar that appears after a second, and goes when the call has ended."""

    def __init__(self, unit: str) -> None:
        self._unit = unit
        self._began = time.monotonic()
        self._bar: Any = None

    def show(self, done: int, total: int, text: str) -> None:
        """Draws the bar, with a text after it. A total of 0 is one that is not known yet."""
        if self._bar is None:
            if time.monotonic() - self._began < _SECONDS:
                return
            self._bar = _tqdm()(total=total or None, unit=f" {self._unit}", leave=False)
        if total and self._bar.total != total:
            self._bar.reset(total=total)
        self._bar.set_postfix_str(text, refresh=False)
        self._bar.update(done - self._bar.n)

    def close(self) -> None:
        """Removes the bar."""
        if self._bar is not None:
            self._bar.close()


@contextlib.contextmanager
def bar(unit: str) -> Iterator[Callable[[int, int, str], None] | None]:
    """What shows progress while a cell of a notebook waits, None where there is nothing to show it with."""
    if not _shows_bars():
        yield None
        return
    made = NotebookBar(unit)
    try:
        yield made.show
    finally:
        made.close()


def _shows_bars() -> bool:
    """Reports whether this is a cell of a notebook, which runs in the main thread, and tqdm can draw there."""
    ipython = sys.modules.get("IPython")
    if ipython is None or threading.current_thread() is not threading.main_thread():
        return False
    shell = ipython.get_ipython()
    if getattr(shell, "kernel", None) is None:
        return False
    try:
        _tqdm()
    except ImportError:
        return False
    return True


def _tqdm() -> Any:
    import importlib

    importlib.import_module("ipywidgets")  # without it tqdm fails at its first bar
    return importlib.import_module("tqdm.notebook").tqdm
