"""Replays request traces and synthetic workloads through simulated LLM inference workers, in virtual time."""

import dynamo._start  # first: Ctrl-C during the other imports prints no traceback

# isort: split
from typing import TYPE_CHECKING, Any

import dynamo._alone  # noqa: F401  # refuses to share an environment with ai-dynamo

if TYPE_CHECKING:
    from dynamo.replay.api import (
        Progress,
        Report,
        Requests,
        TelemetryOptions,
        Workload,
        load_trace,
        run_synthetic_trace_replay,
        run_trace_replay,
    )

__all__ = [
    "Progress",
    "Report",
    "Requests",
    "TelemetryOptions",
    "Workload",
    "load_trace",
    "run_synthetic_trace_replay",
    "run_trace_replay",
]


def __getattr__(name: str) -> Any:
    """Loads functions and classes at first use: the command line, which starts here too, does not need them."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from dynamo.replay import api

    return getattr(api, name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
