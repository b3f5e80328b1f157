"""The argument classes under the name that published code imports them from."""

from typing import Any

from dynamo._shell import names
from dynamo.mocker import AicPerfConfig, KvRouterConfig, MockEngineArgs, ReasoningConfig, SglangArgs, TrtllmArgs

__all__ = ["AicPerfConfig", "KvRouterConfig", "MockEngineArgs", "ReasoningConfig", "SglangArgs", "TrtllmArgs"]


def __getattr__(name: str) -> Any:
    """Says what to import in place of names of ai-dynamo that are missing here."""
    if name in names.INSTEAD:
        raise names.missing("dynamo.llm", name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
