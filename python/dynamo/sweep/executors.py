"""Where runs are carried out: in threads of this process, in processes of their own, or on a Ray cluster."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Protocol

from dynamo._shell.cores import cores
from dynamo.sweep.simulate import Config, Traces, simulate
from dynamo.sweep.store import Run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dynamo.sweep.spec import Spec


class Executor(Protocol):
    """Carries runs out. ``run`` is called by as many threads at a time as there are slots."""

    slots: int
    shares_memory: bool
    """Whether its runs share the memory of this host."""

    def run(self, config: Config, files: Sequence[tuple[str, str]], needed_bytes: int, limit_s: float | None) -> Run:
        """Carries out a run. ``files`` are its input files: path and SHA-256 of each. Raises Stopped."""

    def place(self) -> str:
        """Where runs have been carried out, for people."""

    def stop(self) -> None:
        """Ends what is being carried out, soon."""

    def close(self) -> None:
        """Gives back all that it holds."""


class Threads:
    """Threads of this process. The core lets go of Python while it simulates, and all share one copy of a trace."""

    shares_memory = True

    def __init__(self, slots: int, traces: Traces) -> None:
        self.slots = slots
        self._traces = traces
        self._stop = threading.Event()

    def run(self, config: Config, files: Sequence[tuple[str, str]], needed_bytes: int, limit_s: float | None) -> Run:
        return simulate(config, self._traces, limit_s, self._stop)

    def place(self) -> str:
        return f"in {self.slots} threads"

    def stop(self) -> None:
        self._stop.set()

    def close(self) -> None:
        return


def open_executor(spec: Spec, traces: Traces) -> Executor:
    """The executor that a specification asks for. Raises ValueError."""
    if spec.executor == "processes":
        from dynamo.sweep.processes import Processes

        return Processes(spec.jobs or cores())
    if spec.executor == "ray":
        from dynamo.sweep.cluster import Cluster

        return Cluster(spec.address, spec.jobs)
    return Threads(spec.jobs or cores(), traces)
