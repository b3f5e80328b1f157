"""Simulated LLM inference engines: their arguments, their router's, and (``python -m dynamo.mocker``) live workers."""

from dynamo.mocker.aic import AicPerfConfig
from dynamo.mocker.args import MockEngineArgs, ReasoningConfig, SglangArgs, TrtllmArgs
from dynamo.mocker.router import KvRouterConfig

__all__ = ["AicPerfConfig", "KvRouterConfig", "MockEngineArgs", "ReasoningConfig", "SglangArgs", "TrtllmArgs"]
