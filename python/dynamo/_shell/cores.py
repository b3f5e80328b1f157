"""How much of this machine a command may use."""

from __future__ import annotations

import contextlib
import os


def cores() -> int:
    """Cores that this process may use."""
    with contextlib.suppress(AttributeError):  # not on macOS
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
