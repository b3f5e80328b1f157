"""The planner of ai-dynamo in the loop of a run: its own code, in an interpreter that has it.

It cannot share a process with this package, as both are called ``dynamo``. So ``stock_runner.py`` runs in another
interpreter and is asked over a pipe. It has a virtual clock, so equal runs are equal.
"""

from __future__ import annotations

import contextlib
import json
import os
import struct
import subprocess
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from dynamo._core import values
from dynamo.replay.planner import PASS_FIELDS, PASSES, metrics_of

VARIABLE = "DYNOSIM_PLANNER_PYTHON"
"""The environment variable that names the interpreter if the option does not."""
PACKAGES = (
    "ai-dynamo==1.3.1 scikit-learn scipy filterpy pmdarima prophet pandas plotly prometheus-api-client httmock "
    "importlib_resources cloudpickle"
)
"""What the planner needs; ai-dynamo does not declare all of it."""
_RUNNER = Path(__file__).with_name("stock_runner.py")
# The optimization target for which the planner looks at every pass.
_EVERY_PASS = "sla"
_WORKER = PASS_FIELDS.index("worker_id")


class Outcome(NamedTuple):
    """What the planner says of a run that is over."""

    events: list[dict[str, Any]]
    """Changes of the number of workers: ``at_s``, ``component``, ``from_count``, ``to_count``, ``reason``."""
    ticks: int
    html: str | None
    """The path of its report, None if it wrote none."""


class StockPlanner:
    """Answers the questions that a run has for its planner. Use it as a context manager: its process ends with it."""

    def __init__(self, python: str | None) -> None:
        """Takes the path of an interpreter that has ai-dynamo. The process starts with the first question."""
        self.failure: BaseException | None = None
        """Why it could not answer."""
        self._named = "planner_python" if python else VARIABLE
        self._python = python or os.environ.get(VARIABLE)
        self._child: _Child | None = None
        self._closed = False
        self._lock = threading.Lock()  # of the two lines above: a run asks in a thread of its own
        self._every_pass = False

    def __enter__(self) -> StockPlanner:
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._closed = True
            if self._child is not None:
                self._child.close()

    def answer(self, question: str) -> str:
        """Returns the answer as JSON text. What goes wrong is kept, and the run ends with it."""
        try:
            return json.dumps(self._answered(json.loads(question)))
        except BaseException as error:
            self.failure = error
            return '{"failed": true}'

    def finish(self, report: Mapping[str, Any]) -> Outcome:
        """Ends the planner of a run that is over; it writes its report.

        Raises RuntimeError if the planner fails.
        """
        return Outcome(**self._ask("finish", report=dict(report)))

    def _answered(self, asked: dict[str, Any]) -> dict[str, Any]:
        match asked["planner"]:
            case "configure":
                told = self._ask("configure", config=asked["config"])
                self._every_pass = told["target"] == _EVERY_PASS
                return told
            case "start":
                return self._ask("start", pools=asked["pools"], passes=asked["passes"])
            case "initial_tick_ms":
                return self._ask("first_tick")
            case _:
                tick = asked["tick"]
                return self._ask("tick", at=f" at {tick['now_ms']:g} ms", metrics=self._metrics(tick))

    def _metrics(self, tick: dict[str, Any]) -> dict[str, Any]:
        """Returns the tick as the planner takes it. Of each worker it may only look at the last pass."""
        if not self._every_pass:
            for pool in PASSES:
                tick[pool] = list({row[_WORKER]: row for row in tick[pool]}.values())
        return metrics_of(tick)

    def _ask(self, verb: str, at: str = "", **about: Any) -> dict[str, Any]:
        with self._lock:
            if self._closed:
                raise RuntimeError("planner_config: the run is over")
            if self._child is None:
                self._child = _Child(self._python or _no_interpreter(), self._named)
        return self._child.ask(verb, at, **about)


def _no_interpreter() -> str:
    raise ValueError(
        "planner_python: got nothing, want the interpreter of an environment with ai-dynamo: give --planner-python "
        f"PYTHON (planner_python=...) or set {VARIABLE}; such an environment: pip install {PACKAGES}"
    )


class _Child:
    """The other interpreter."""

    def __init__(self, python: str, named: str) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  # closed by close
        try:
            self._process = subprocess.Popen(
                [python, "-I", str(_RUNNER)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                start_new_session=True,  # Ctrl-C is for this process, which ends the other one
            )
        except OSError as error:
            self._errors.close()
            raise ValueError(f"{named}: cannot run {values.show(python)}: {error.strerror}") from None
        self._python = python

    def ask(self, verb: str, at: str, **about: Any) -> dict[str, Any]:
        """Returns the answer to a question. ``at`` says for errors at which time of the run it was asked.

        Raises ValueError for bad settings and for a missing package, RuntimeError if the planner fails.
        """
        body = json.dumps({"do": verb, **about}).encode()
        try:
            assert self._process.stdin is not None
            self._process.stdin.write(struct.pack("<I", len(body)) + body)
            self._process.stdin.flush()
            answer: dict[str, Any] = json.loads(self._read(struct.unpack("<I", self._read(4))[0]))
        except (OSError, EOFError, ValueError):
            raise RuntimeError(f"planner_config: {self._python} has ended{at}: {self._last_words()}") from None
        if "error" in answer:
            raise self._failure(answer, at)
        return answer

    def _read(self, size: int) -> bytes:
        assert self._process.stdout is not None
        data = self._process.stdout.read(size)
        if len(data) < size:
            raise EOFError
        return data

    def _failure(self, answer: Mapping[str, Any], at: str) -> Exception:
        if answer["missing"] is not None:
            return ValueError(
                f"planner_config: {self._python} has no module {values.show(answer['missing'])}: "
                f"{self._python} -m pip install {PACKAGES}"
            )
        told = " ".join(answer["error"].split())
        if answer["usage"]:
            return ValueError(f"planner_config: {told}")
        return RuntimeError(f"planner_config: the planner failed{at}: {told} ({' / '.join(answer['traceback'])})")

    def _last_words(self) -> str:
        """Returns the end of what the process has written to standard error, or its exit code."""
        self._process.kill()
        self._process.wait()
        self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, self._errors.tell() - 400))
        text = " ".join(self._errors.read().decode(errors="replace").split())
        return text or f"exit code {self._process.returncode}"

    def close(self) -> None:
        """Ends the process."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            with contextlib.suppress(OSError):  # of what was not sent
                if stream is not None:
                    stream.close()
