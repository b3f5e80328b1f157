"""Runs in processes of their own: one that crashes takes no other along."""

from __future__ import annotations

import functools
import queue
import threading
from typing import TYPE_CHECKING

from dynamo._shell.processes import Died, Process
from dynamo.sweep.simulate import Config, Stopped, Traces, simulate, timed_out
from dynamo.sweep.store import FAILED, Run

if TYPE_CHECKING:
    from collections.abc import Sequence

# A run that does not heed its limit is ended this many seconds later.
GRACE_SECONDS = 30.0
TRIES = 2
"""How often a run is tried if the process that carries it out dies: the cause may lie elsewhere."""


class Processes:
    """As many processes as there are slots, each started when it is needed. Each reads a trace once."""

    shares_memory = True

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self._idle: queue.SimpleQueue[Process] = queue.SimpleQueue()
        self._stop = threading.Event()

    def run(self, config: Config, files: Sequence[tuple[str, str]], needed_bytes: int, limit_s: float | None) -> Run:
        died = ""
        for _ in range(TRIES):
            process = self._process()
            try:
                run = self._run(process, config, limit_s)
            except Died as death:
                died = str(death)
                continue
            except BaseException:
                process.end()
                raise
            if run is None:
                process.end()
                return timed_out(limit_s)
            self._idle.put(process)
            return run
        return crashed(f"the process of the run {died}")

    def _process(self) -> Process:
        try:
            return self._idle.get_nowait()
        except queue.Empty:
            return Process()

    def _run(self, process: Process, config: Config, limit_s: float | None) -> Run | None:
        """The result of a run; None if it takes too long."""
        process.begin(_carry_out, (config, limit_s))
        if process.done(None if limit_s is None else limit_s + GRACE_SECONDS, self._stop.is_set):
            run: Run = process.result()
            return run
        if self._stop.is_set():
            raise Stopped
        return None

    def place(self) -> str:
        return f"in {self.slots} processes"

    def stop(self) -> None:
        self._stop.set()

    def close(self) -> None:
        self._stop.set()
        while not self._idle.empty():
            self._idle.get().end()


_traces = functools.cache(Traces)


def _carry_out(asked: tuple[Config, float | None]) -> Run:
    """Carries a run out in a process that does nothing else."""
    return simulate(asked[0], _traces(), asked[1])


CRASH = "crash: "
"""How the reason begins if what carried a run out has died."""


def crashed(how: str) -> Run:
    """The result of a run whose process has died each time."""
    return Run(FAILED, f"{CRASH}{how}, {TRIES} times", "{}")
