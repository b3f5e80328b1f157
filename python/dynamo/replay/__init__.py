"""Replays request traces and synthetic workloads through simulated LLM inference workers, in virtual time."""

import dynamo._start  # noqa: F401  # first: Ctrl-C during the other imports prints no traceback

# isort: split
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dynamo.replay.api import run_synthetic_trace_replay, run_trace_replay

__all__ = ["run_synthetic_trace_replay", "run_trace_replay"]


def __getattr__(name: str) -> Any:
    """Loads the functions at first use: the command line, which starts here too, does without them."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from dynamo.replay import api

    return getattr(api, name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
