"""Which processes work on a store, so that what a dead one has left undone is taken up by others."""

from __future__ import annotations

import contextlib
import fcntl
import os
import uuid
from collections.abc import Iterator
from pathlib import Path


class Owner:
    """This process, as others that share its files see it: the holder of a lock that the system frees when it ends."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.name = uuid.uuid4().hex
        self._file = os.open(folder / self.name, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o666)
        fcntl.flock(self._file, fcntl.LOCK_EX)

    def is_alive(self, name: str) -> bool:
        """Whether another owner still works. The file of one that does not is removed."""
        if name == self.name:
            return True
        try:
            other = os.open(self._folder / name, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(other)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._folder / name)
        return False

    def close(self) -> None:
        """Says that this process is done."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._folder / self.name)
        os.close(self._file)


@contextlib.contextmanager
def exclusive(path: Path) -> Iterator[bool]:
    """Keeps other processes out of a part of the program, without waiting: gives whether that succeeded."""
    held = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o666)
    try:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True
    finally:
        os.close(held)
