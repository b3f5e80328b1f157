"""Simulated LLM inference engines: their arguments, their router's, and (``python -m dynamo.mocker``) live workers."""

from typing import TYPE_CHECKING, Any

import dynamo._start  # noqa: F401  # first: Ctrl-C during the other imports prints no traceback

# isort: split
from dynamo._shell import names
from dynamo._shell.aic import AicPerfConfig
from dynamo._shell.aic_fields import AicFields
from dynamo._shell.engine import MockEngineArgs
from dynamo._shell.engine_fields import (
    EngineFields,
    HostCacheArgs,
    HostCacheFields,
    ReasoningConfig,
    ReasoningFields,
    SglangArgs,
    SglangFields,
    TrtllmArgs,
    TrtllmFields,
)
from dynamo._shell.router import KvRouterConfig
from dynamo._shell.router_fields import RouterFields

if TYPE_CHECKING:
    from dynamo.replay.api import run_mocker_trace_replay
    from dynamo.replay.bridge import PlannerReplayBridge

    __version__: str

__all__ = [
    "AicFields",
    "AicPerfConfig",
    "EngineFields",
    "HostCacheArgs",
    "HostCacheFields",
    "KvRouterConfig",
    "MockEngineArgs",
    "PlannerReplayBridge",
    "ReasoningConfig",
    "ReasoningFields",
    "RouterFields",
    "SglangArgs",
    "SglangFields",
    "TrtllmArgs",
    "TrtllmFields",
    "__version__",
    "run_mocker_trace_replay",
]


def __getattr__(name: str) -> Any:
    """Loads the version and the function that runs replays at first use; the latter needs these classes itself."""
    if name == "__version__":
        from dynamo._core.version import VERSION

        return VERSION
    if name == "PlannerReplayBridge":
        from dynamo.replay import bridge

        return bridge.PlannerReplayBridge
    if name == "run_mocker_trace_replay":
        from dynamo.replay import api

        return api.run_mocker_trace_replay
    if name in names.INSTEAD:
        raise names.missing("dynamo.mocker", name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
