"""How far a sweep has come."""

from __future__ import annotations

import time
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple

from dynamo._shell.console import say

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

# Without a terminal, a line is written as often as this.
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


class Display:
    """Shows progress on standard error: a bar on a terminal, else a line now and then."""

    def __init__(self, terminal: bool) -> None:
        self._terminal = terminal
        self._bar: Bar | None = None
        self._task: TaskID | None = None
        self._shown = time.monotonic()

    def __enter__(self) -> Display:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, now: Progress) -> None:
        if self._terminal:
            self._draw(now)
        elif time.monotonic() - self._shown >= _LINE_SECONDS:
            self._shown = time.monotonic()
            say(now.text())

    def _draw(self, now: Progress) -> None:
        if self._bar is None:
            self._bar = _bar()
            self._task = self._bar.add_task("", total=None, text="")
        assert self._task is not None
        self._bar.update(self._task, completed=now.done, total=now.total or None, text=now.text(), refresh=True)


def _bar() -> Bar:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    bar = Progress(
        BarColumn(bar_width=20),
        TextColumn("{task.fields[text]}", markup=False),
        console=Console(stderr=True),
        transient=True,
        auto_refresh=False,
    )
    bar.start()
    return bar
