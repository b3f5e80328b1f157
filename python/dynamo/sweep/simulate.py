"""One run, wherever it is carried out: in a thread, in another process, on another machine."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from typing import Any

from dynamo import _core
from dynamo.replay import durations, planned
from dynamo.replay.trace import OPTIONS
from dynamo.sweep.figures import CLOCK_KEYS
from dynamo.sweep.store import FAILED, OK, REJECTED, TIMED_OUT, Run

Config = Mapping[str, Any]
MEMORY = "memory: "
"""How the reason begins if a run had too little memory."""


class TimedOut(Exception):
    """A run has taken longer than it may."""


class Stopped(Exception):
    """The sweep is about to end."""


class Traces:
    """Traces that were read once for all runs of this process. Threads can share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loaded: dict[str, _core.LoadedTrace] = {}

    def of(self, config: Config) -> _core.LoadedTrace | None:
        """The trace of a run, None for a synthetic one. Raises ValueError or FileNotFoundError."""
        if "trace_files" not in config:
            return None
        wanted = {name: config[name] for name in ("trace_files", *OPTIONS) if name in config}
        key = json.dumps(wanted, sort_keys=True)
        with self._lock:
            if key not in self._loaded:
                self._loaded[key] = _core.load_trace({**wanted, **_block_size(config)})
            return self._loaded[key]


def _block_size(config: Config) -> dict[str, int]:
    """The block size of the engines, if it is stated: the first reading then serves the first run."""
    for name in ("extra_engine_args", "decode_engine_args"):
        size = json.loads(config.get(name, "{}")).get("block_size")
        if isinstance(size, int) and size > 0:
            return {"block_size": size}
    return {}


def simulate(config: Config, traces: Traces, limit_s: float | None = None, stop: threading.Event | None = None) -> Run:
    """Carries out one run. What goes wrong with it is part of the result.

    ``limit_s`` is how long it may take, in seconds. ``stop`` ends it with Stopped.
    """
    began = time.monotonic()

    def watch(_: object) -> None:
        if stop is not None and stop.is_set():
            raise Stopped
        if limit_s is not None and time.monotonic() - began > limit_s:
            raise TimedOut

    try:
        result = planned.run(without_page(config), watch, traces.of(config))
    except TimedOut:
        return timed_out(limit_s)
    except (ValueError, FileNotFoundError) as error:
        return Run(FAILED if str(error).startswith(MEMORY) else REJECTED, str(error), "{}")
    except RuntimeError as error:
        return Run(FAILED, str(error), "{}")
    figures = {name: value for name, value in result.report.items() if name not in CLOCK_KEYS and name != "provenance"}
    figures["durations"] = durations.of(result.report)
    return Run(OK, "", json.dumps(figures), json.dumps(result.warnings))


def without_page(config: Config) -> Config:
    """The run without the page that ai-dynamo's planner writes: it takes longer than most runs."""
    settings = config.get("planner_config", "")
    if not settings.startswith("{"):
        return config
    return {**config, "planner_config": json.dumps({**json.loads(settings), "report_interval_hours": None})}


def timed_out(limit_s: float | None) -> Run:
    """The result of a run that has taken longer than it may."""
    return Run(TIMED_OUT, f"not finished after {limit_s or 0:g} s (timeout_s)", "{}")
