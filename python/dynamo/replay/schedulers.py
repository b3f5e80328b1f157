"""Scheduler policies in Python: which request engines admit next, which they preempt. See docs/schedulers.md."""

from dynamo._shell.schedulers import GROUP, Engine, Request, SchedulerPolicy

__all__ = ["GROUP", "Engine", "Request", "SchedulerPolicy"]
