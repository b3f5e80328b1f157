"""Replays request traces and synthetic workloads through simulated LLM inference workers, in virtual time."""

from dynamo.replay.api import run_synthetic_trace_replay, run_trace_replay

__all__ = ["run_synthetic_trace_replay", "run_trace_replay"]
