"""The argument classes under the name that published code imports them from."""

from dynamo.mocker import KvRouterConfig, MockEngineArgs, ReasoningConfig, SglangArgs

__all__ = ["KvRouterConfig", "MockEngineArgs", "ReasoningConfig", "SglangArgs"]
