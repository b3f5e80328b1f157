"""Timing models in Python: functions that say how long passes take. docs/timing.md describes them."""

from dynamo._shell.timings import GROUP, Array, Batch, TimingModel

__all__ = ["GROUP", "Array", "Batch", "TimingModel"]
