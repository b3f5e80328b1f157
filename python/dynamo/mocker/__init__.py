"""Simulated LLM inference engines: their arguments and their router's. Live workers are not built yet."""

from dynamo.mocker.aic import AicPerfConfig
from dynamo.mocker.args import MockEngineArgs, ReasoningConfig, SglangArgs
from dynamo.mocker.router import KvRouterConfig

__all__ = ["AicPerfConfig", "KvRouterConfig", "MockEngineArgs", "ReasoningConfig", "SglangArgs"]
