"""The progress bar of the command line."""

from __future__ import annotations

import time
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

    from dynamo._core import Progress


class ProgressBar:
    """A transient bar on standard error; entering it returns the function to call with each new progress.

    It appears with the first call, so that a run too short to be polled costs nothing.
    """

    def __init__(self) -> None:
        self._bar: Bar | None = None
        self._task: TaskID | None = None
        self._began = time.monotonic()

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, now: Progress) -> None:
        if self._bar is None:
            self._bar = self._start()
            self._task = self._bar.add_task("", total=None, text="")
        assert self._task is not None
        self._bar.update(
            self._task,
            description=now.phase,
            completed=now.done,
            total=now.total or None,
            text=self._describe(now) if now.total else "",
            refresh=True,
        )

    def _describe(self, now: Progress) -> str:
        simulated = now.simulated_ms / 1000
        real = max(time.monotonic() - self._began, 1e-3)
        return f"{now.done:,}/{now.total:,} requests, {simulated:,.1f} s simulated, {simulated / real:,.0f}x real time"

    @staticmethod
    def _start() -> Bar:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[text]}"),
            console=Console(stderr=True),
            transient=True,
            auto_refresh=False,
        )
        bar.start()
        return bar
