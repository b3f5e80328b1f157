"""What the Go runtime needs when it is loaded."""

from __future__ import annotations

import resource
from pathlib import Path

# Go reserves address space for its tables when it starts, and ends the process if there is too little.
_ADDRESS_SPACE = 7 << 28


def check_address_space() -> None:
    """Raises RuntimeError if a resource limit leaves too little address space to load Go."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return
    try:
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    except (OSError, ValueError):
        return
    if limit - used < _ADDRESS_SPACE:
        raise RuntimeError(
            f"memory: ulimit -v leaves {max(0, limit - used) >> 20} MB of address space, want {_ADDRESS_SPACE >> 20} MB"
        )
