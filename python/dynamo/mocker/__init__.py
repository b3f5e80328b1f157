"""Simulated LLM inference engines: their arguments. Live workers are not built yet."""

from dynamo.mocker.args import MockEngineArgs, ReasoningConfig, SglangArgs

__all__ = ["MockEngineArgs", "ReasoningConfig", "SglangArgs"]
