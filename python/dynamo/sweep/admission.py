"""Memory admission: runs that would not fit into memory together wait for each other."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_TRUE_NEED = 3
"""How many times its estimate, which is a lower bound, a run may take."""


class Admission:
    """How much memory runs may take together. One run is always let in: the core refuses it if it cannot fit at all."""

    def __init__(self, room_bytes: int | None) -> None:
        self._room = room_bytes
        self._taken = 0
        self._running = 0
        self._alone = False
        self._changed = threading.Condition()

    @contextmanager
    def admit(self, needed_bytes: int, give_up: Callable[[], None], *, alone: bool = False) -> Iterator[None]:
        """Waits until a run that needs at least ``needed_bytes`` may begin; with ``alone``, until no other one runs.

        ``give_up`` is called now and then meanwhile, and may raise.
        """
        needed = _TRUE_NEED * needed_bytes
        with self._changed:
            while not self._fits(needed, alone):
                give_up()
                self._changed.wait(0.1)
            self._taken, self._running, self._alone = self._taken + needed, self._running + 1, alone
        try:
            yield
        finally:
            with self._changed:
                self._taken, self._running, self._alone = self._taken - needed, self._running - 1, False
                self._changed.notify_all()

    def _fits(self, needed: int, alone: bool) -> bool:
        if self._running == 0:
            return True
        if alone or self._alone:
            return False
        return self._room is None or self._taken + needed <= self._room
