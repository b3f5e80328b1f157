"""Processes that a test has started and not ended, found by a variable that all of them inherit, whatever their parents
and sessions are by now. Needs Linux; elsewhere nothing is ever found."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

# What stays for the whole life of an interpreter that has used multiprocessing, and ends with it.
STAYS = (b"multiprocessing.resource_tracker", b"multiprocessing.forkserver")


def find(variable: str, value: str) -> dict[int, str]:
    """Running processes besides this one whose environment began with the variable, and their command lines."""
    wanted = f"{variable}={value}".encode()
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended, or is of another user
            if wanted in (folder / "environ").read_bytes().split(b"\0") and int(folder.name) != os.getpid():
                words = (folder / "cmdline").read_bytes()
                if words and not any(name in words for name in STAYS):
                    found[int(folder.name)] = words.replace(b"\0", b" ").decode(errors="replace").strip()
    return found


def end(variable: str, value: str, patience_s: float = 60) -> list[str]:
    """Ends what is left after some time to end by itself, and returns its command lines."""
    deadline = time.monotonic() + patience_s
    while left := find(variable, value):
        if time.monotonic() > deadline:
            break
        time.sleep(0.01)
    ended = sorted(set(left.values()))
    while left := find(variable, value):
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)
    return ended
