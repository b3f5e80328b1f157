"""Runs in processes of their own: one that crashes takes no other along."""

from __future__ import annotations

import json
import queue
import select
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

from dynamo.sweep.simulate import Config, Stopped, timed_out
from dynamo.sweep.store import FAILED, Run

if TYPE_CHECKING:
    from collections.abc import Sequence

# A run that does not heed its limit is ended after so many seconds more.
GRACE_SECONDS = 30.0
_POLL_MS = 100
TRIES = 2
"""How often a run is tried if the process that carries it out dies: the cause may lie elsewhere."""


class Processes:
    """As many processes as there are slots, each started when it is needed. Each reads a trace once."""

    shares_memory = True

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self._idle: queue.SimpleQueue[_Worker] = queue.SimpleQueue()
        self._stop = threading.Event()

    def run(self, config: Config, files: Sequence[tuple[str, str]], needed_bytes: int, limit_s: float | None) -> Run:
        died = ""
        for _ in range(TRIES):
            worker = self._worker()
            try:
                run = worker.run(config, limit_s, self._stop)
            except _Died as death:
                died = str(death)
                continue
            except BaseException:
                worker.end()
                raise
            if run is None:
                return timed_out(limit_s)
            self._idle.put(worker)
            return run
        return crashed(f"the process of the run {died}")

    def _worker(self) -> _Worker:
        try:
            return self._idle.get_nowait()
        except queue.Empty:
            return _Worker()

    def place(self) -> str:
        return f"in {self.slots} processes"

    def stop(self) -> None:
        self._stop.set()

    def close(self) -> None:
        self._stop.set()
        while not self._idle.empty():
            self._idle.get().end()


CRASH = "crash: "
"""How the reason begins if what carried a run out has died."""


def crashed(how: str) -> Run:
    """The result of a run whose process has died each time."""
    return Run(FAILED, f"{CRASH}{how}, {TRIES} times", "{}")


class _Died(Exception):
    """The process of a run has ended, and how."""


class _Worker:
    """A process that carries out one run after another: a line of JSON in, a line of JSON out."""

    def __init__(self) -> None:
        # A session of its own: Ctrl-C on the terminal is a matter of the process that has started this one.
        self._process = subprocess.Popen(
            [sys.executable, "-m", "dynamo.sweep.child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )

    def run(self, config: Config, limit_s: float | None, stop: threading.Event) -> Run | None:
        """The result of a run; None if it had to be ended, and this process with it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        ends = None if limit_s is None else time.monotonic() + limit_s + GRACE_SECONDS
        try:
            self._process.stdin.write(json.dumps([config, limit_s]).encode() + b"\n")
            self._process.stdin.flush()
        except OSError:
            raise self._death() from None
        answer = select.poll()
        answer.register(self._process.stdout)
        while not answer.poll(_POLL_MS):
            if stop.is_set():
                raise Stopped
            if ends is not None and time.monotonic() > ends:
                self.end()
                return None
        line = self._process.stdout.readline()
        if not line.endswith(b"\n"):
            raise self._death()
        return Run(*json.loads(line))

    def _death(self) -> _Died:
        self.end(kill=False)
        code = self._process.returncode
        return _Died(f"was ended by {signal.Signals(-code).name}" if code < 0 else f"has ended with exit code {code}")

    def end(self, *, kill: bool = True) -> None:
        """Ends the process, or waits for the end of one that has closed its output."""
        if kill:
            self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            try:
                pipe.close()
            except OSError:  # what could not be written any more
                continue
        self._process.wait()
