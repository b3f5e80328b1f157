"""The progress bar of the command lines."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from rich.progress import Progress

_Self = TypeVar("_Self", bound="Bar")


class Bar:
    """A transient bar on standard error, from the first call of ``show`` to the end of the ``with`` block.

    Only that call imports rich: a command that is done before costs nothing.
    """

    def __init__(self, width: int) -> None:
        self._width = width
        self._bar: Progress | None = None

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def show(self, done: int, total: int, text: str, phase: str | None = None) -> None:
        """Draws the bar, with a phase before it and a text after it. A total of 0 is one that is not known yet."""
        if self._bar is None:
            self._bar = self._start(with_phase=phase is not None)
        (task,) = self._bar.task_ids
        self._bar.update(task, description=phase, completed=done, total=total or None, text=text, refresh=True)

    def print(self, line: str) -> None:
        """Writes a line above the bar, which stays."""
        if self._bar is not None:
            self._bar.console.print(line, markup=False, highlight=False, soft_wrap=True)

    def _start(self, *, with_phase: bool) -> Progress:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        columns = [BarColumn(bar_width=self._width), TextColumn("{task.fields[text]}", markup=False)]
        bar = Progress(
            *([TextColumn("{task.description}"), *columns] if with_phase else columns),
            console=Console(stderr=True),
            transient=True,
            auto_refresh=False,
        )
        bar.start()
        bar.add_task("", total=None, text="")
        return bar
