"""The argument classes under the name that published code imports them from."""

from dynamo.mocker import MockEngineArgs, ReasoningConfig, SglangArgs

__all__ = ["MockEngineArgs", "ReasoningConfig", "SglangArgs"]
