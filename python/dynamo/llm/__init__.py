"""The argument classes under the name that published code imports them from."""

from dynamo.mocker import AicPerfConfig, KvRouterConfig, MockEngineArgs, ReasoningConfig, SglangArgs

__all__ = ["AicPerfConfig", "KvRouterConfig", "MockEngineArgs", "ReasoningConfig", "SglangArgs"]
