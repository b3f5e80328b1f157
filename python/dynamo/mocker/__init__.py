"""Simulated LLM inference engines: their arguments, their router's, and (``python -m dynamo.mocker``) live workers."""

import dynamo._start  # noqa: F401  # first: Ctrl-C during the other imports prints no traceback

# isort: split
from dynamo.mocker.aic import AicPerfConfig
from dynamo.mocker.args import MockEngineArgs, ReasoningConfig, SglangArgs
from dynamo.mocker.router import KvRouterConfig

__all__ = ["AicPerfConfig", "KvRouterConfig", "MockEngineArgs", "ReasoningConfig", "SglangArgs"]
