"""Samples of a run while it goes on, as ai-dynamo 1.6 has them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from dynamo._core import values
from dynamo.replay import files


@dataclass(frozen=True)
class TelemetryOptions:
    """How often samples are taken, and where they go."""

    sample_interval_ms: float = 1000.0
    """Simulated time between samples, at least 1 ms."""
    capture_in_memory: bool | None = None
    """Whether the report has them; if not given, only without a callback and a file."""
    callback: Callable[[dict[str, Any]], object] | None = None
    """Called with each sample, in the calling thread. An exception that it raises ends the run."""
    jsonl_path: str | os.PathLike[str] | None = None
    """A file that gets a line for each sample, when it is taken."""


@dataclass
class Telemetry:
    """The samples of a run: ``report.telemetry``."""

    sample_interval_ms: float
    samples: list[dict[str, Any]] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Returns both as a dict."""
        return {"sample_interval_ms": self.sample_interval_ms, "samples": self.samples}


class Sampler:
    """Takes the samples of a run, which come as questions like those for a planner."""

    def __init__(self, options: TelemetryOptions) -> None:
        every = interval_ms("telemetry_options", options)
        callback, path = options.callback, options.jsonl_path
        if callback is not None and not callable(callback):
            raise TypeError(f"telemetry_options: callback: got {values.show(callback)}, want a function")
        captures = options.capture_in_memory
        if captures is not None:
            captures = values.flag("telemetry_options: capture_in_memory", captures)
        self._captures = captures if captures is not None else callback is None and path is None
        self._callback, self._file = callback, _Lines(path)
        self._telemetry = Telemetry(every)
        self.failure: BaseException | None = None
        """What the callback raised, or why the file could not be written."""

    def answer(self, question: str) -> str:
        """Takes a sample. What goes wrong is kept, and the run ends with it."""
        try:
            sample = json.loads(question)["sample"]
            if self._captures:
                self._telemetry.samples.append(sample)
            self._file.add(sample)
            if self._callback is not None:
                self._callback(sample)
        except BaseException as error:  # KeyboardInterrupt, too, reaches the caller of the run
            self.failure = error
            return '{"failed": true}'
        return "{}"

    def close(self) -> Telemetry | None:
        """Ends the file; returns the samples that were kept, None if none were to be."""
        self._file.close()
        return self._telemetry if self._captures else None


class _Lines:
    """A file of JSON lines, which is opened for the first of them."""

    def __init__(self, path: str | os.PathLike[str] | None) -> None:
        self._path = None if path is None else values.path("telemetry_options: jsonl_path", path)
        self._file: TextIO | None = None
        if self._path is not None:
            files.check_writable("telemetry_options: jsonl_path", self._path)

    def add(self, sample: dict[str, Any]) -> None:
        if self._path is None:
            return
        if self._file is None:
            path = Path(self._path)
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("w", encoding="utf-8", buffering=1)  # close closes it
        self._file.write(json.dumps(sample) + "\n")

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def interval_ms(name: str, value: object) -> float:
    """Returns the interval of options, as Go takes it. Raises TypeError or ValueError."""
    if not isinstance(value, TelemetryOptions):
        raise TypeError(f"{name}: got {values.show(value)}, want a TelemetryOptions")
    interval = values.number(f"{name}: sample_interval_ms", value.sample_interval_ms)
    if not 1 <= interval <= 1e15:
        raise ValueError(f"{name}: sample_interval_ms: got {values.show(interval)}, want a number from 1 to 1e15")
    return float(interval)
