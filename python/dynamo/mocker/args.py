"""The classes that describe a simulated engine, and functions for programs that start live workers by themselves."""

from typing import TYPE_CHECKING, Any

from dynamo._shell.engine import MockEngineArgs
from dynamo._shell.engine_fields import (
    EngineFields,
    EngineType,
    HostCacheArgs,
    HostCacheFields,
    ReasoningConfig,
    ReasoningFields,
    SglangArgs,
    SglangFields,
    TrtllmArgs,
    TrtllmFields,
    WorkerType,
)

if TYPE_CHECKING:
    from dynamo.mocker.namespace import ProfileDataResult, parse_args, resolve_planner_profile_data

__all__ = [
    "EngineFields",
    "EngineType",
    "HostCacheArgs",
    "HostCacheFields",
    "MockEngineArgs",
    "ProfileDataResult",
    "ReasoningConfig",
    "ReasoningFields",
    "SglangArgs",
    "SglangFields",
    "TrtllmArgs",
    "TrtllmFields",
    "WorkerType",
    "parse_args",
    "resolve_planner_profile_data",
]


def __getattr__(name: str) -> Any:
    """Loads at first use the names that need the command line."""
    if name not in ("ProfileDataResult", "parse_args", "resolve_planner_profile_data"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from dynamo.mocker import namespace

    return getattr(namespace, name)
