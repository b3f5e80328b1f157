"""The progress bar of the command line."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from dynamo._shell.bar import Bar
from dynamo.replay.summary import format_scaling_event

if TYPE_CHECKING:
    from dynamo._core import Progress


class ProgressBar(Bar):
    """The bar of a run, to be called with each new progress. What a planner changes is written above it."""

    def __init__(self) -> None:
        super().__init__(width=40)
        self._began = time.monotonic()

    def __call__(self, now: Progress) -> None:
        self.show(now.done, now.total, self._describe(now) if now.total else "", now.phase)
        for event in now.scaling_events:
            self.print(format_scaling_event(event))

    def _describe(self, now: Progress) -> str:
        simulated = now.simulated_ms / 1000
        real = max(time.monotonic() - self._began, 1e-3)
        return f"{now.done:,}/{now.total:,} requests, {simulated:,.1f} s simulated, {simulated / real:,.0f}x real time"
