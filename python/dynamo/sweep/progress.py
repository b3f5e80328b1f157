"""How far a sweep has come."""

from __future__ import annotations

import time
from typing import NamedTuple

from dynamo._shell.bar import Bar
from dynamo._shell.console import say

# Without a terminal, a line is written once in this time.
_LINE_SECONDS = 60.0


class Progress(NamedTuple):
    """How far a sweep has come."""

    done: int
    """Points that are finished, by whatever process."""
    total: int
    points_per_s: float
    """Points that this process has finished, per second."""
    left_s: float | None
    """Seconds until all are finished, None while that cannot be said."""
    best: str
    """The best point so far by the first objective, in words; empty while there is none."""

    def text(self) -> str:
        """One line."""
        left = "" if self.left_s is None or self.done >= self.total else f", {_duration(self.left_s)} left"
        best = f", {self.best}" if self.best else ""
        return f"{self.done:,}/{self.total:,} points, {self.points_per_s:.1f} points/s{left}{best}"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


class Display(Bar):
    """Shows progress on standard error: a bar on a terminal, else a line now and then."""

    def __init__(self, terminal: bool) -> None:
        super().__init__(width=20)
        self._terminal = terminal
        self._written = time.monotonic()

    def __call__(self, now: Progress) -> None:
        if self._terminal:
            self.show(now.done, now.total, now.text())
        elif time.monotonic() - self._written >= _LINE_SECONDS:
            self._written = time.monotonic()
            say(now.text())
