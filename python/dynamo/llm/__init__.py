"""The argument classes under the name that published code imports them from."""

from dynamo.mocker import AicPerfConfig, KvRouterConfig, MockEngineArgs, ReasoningConfig, SglangArgs, TrtllmArgs

__all__ = ["AicPerfConfig", "KvRouterConfig", "MockEngineArgs", "ReasoningConfig", "SglangArgs", "TrtllmArgs"]
