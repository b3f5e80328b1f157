"""Runs on a Ray cluster: one actor for each slot, each in a process of its own on some node."""

from __future__ import annotations

import hashlib
import importlib
import itertools
import json
import logging
import queue
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dynamo.sweep import versions
from dynamo.sweep.processes import GRACE_SECONDS, TRIES, crashed
from dynamo.sweep.simulate import Config, Stopped, timed_out
from dynamo.sweep.store import Run

_POLL_SECONDS = 0.2
# Memory that an actor is sure to take beside its run.
_ACTOR_BYTES = 300 << 20


class Cluster:
    """A Ray cluster that is there already (``auto`` or its address), or one of this machine alone (``local``)."""

    shares_memory = False

    def __init__(self, address: str, slots: int | None) -> None:
        self._ray = _import_ray()
        self._stop = threading.Event()
        self._ours = not self._ray.is_initialized()
        if self._ours:
            self._connect(address)
        self.slots = slots or max(1, int(self._ray.cluster_resources().get("CPU", 1)))
        self._idle: queue.SimpleQueue[_Actor] = queue.SimpleQueue()
        self._files: dict[str, Any] = {}
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self.nodes: set[str] = set()
        """The nodes on which runs have been carried out."""

    def _connect(self, address: str) -> None:
        try:
            self._ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
        except (ConnectionError, ValueError, RuntimeError) as error:
            first = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise ValueError(f"address: cannot join the Ray cluster {address!r}: {first}") from None

    def run(self, config: Config, files: Sequence[tuple[str, str]], needed_bytes: int, limit_s: float | None) -> Run:
        died = ""
        given = self._given(files)
        for _ in range(TRIES):
            actor = self._actor(needed_bytes)
            pending = actor.handle.run.remote(dict(config), given, limit_s)
            try:
                run = self._wait(pending, limit_s)
            except self._ray.exceptions.RayActorError as error:
                died = str(error).splitlines()[0]
                continue
            except self._ray.exceptions.RayError as error:
                actor.end()
                return crashed(str(error).strip().splitlines()[-1])
            except BaseException:
                actor.end()
                raise
            if run is None:
                actor.end()
                return timed_out(limit_s)
            self._idle.put(actor)
            return run
        return crashed(f"the Ray worker of the run has died ({died})")

    def _wait(self, pending: Any, limit_s: float | None) -> Run | None:
        """The result of a call; None if it takes longer than it may."""
        left = float("inf") if limit_s is None else limit_s + GRACE_SECONDS
        while True:
            try:
                return Run(*self._ray.get(pending, timeout=_POLL_SECONDS))
            except self._ray.exceptions.GetTimeoutError:
                left -= _POLL_SECONDS
            if self._stop.is_set():
                raise Stopped
            if left < 0:
                return None

    def _given(self, files: Sequence[tuple[str, str]]) -> list[tuple[str, str, Any]]:
        """Input files as actors get them: path, hash and where in the object store the content is, put there once."""
        with self._lock:
            for path, sha256 in files:
                if sha256 not in self._files:
                    self._files[sha256] = self._ray.put(Path(path).expanduser().read_bytes())
            # Inside a list of tuples a reference stays one: an actor that has the file does not fetch it.
            return [(path, sha256, self._files[sha256]) for path, sha256 in files]

    def _actor(self, needed_bytes: int) -> _Actor:
        try:
            return self._idle.get_nowait()
        except queue.Empty:
            actor = _Actor(self._ray, next(self._numbers), 3 * needed_bytes + _ACTOR_BYTES)
        try:
            build, node = self._started(actor)
        except BaseException:
            actor.end()
            raise
        if build != _build():
            actor.end()
            raise RuntimeError(
                f"node {node} has another build of dynosim or of the AIC SDK: want the same everywhere, "
                "or results would differ"
            )
        self.nodes.add(node)
        return actor

    def _started(self, actor: _Actor) -> tuple[str, str]:
        pending = actor.handle.describe.remote()
        while True:
            try:
                build, node = self._ray.get(pending, timeout=_POLL_SECONDS)
                return str(build), str(node)
            except self._ray.exceptions.GetTimeoutError:
                if self._stop.is_set():
                    raise Stopped from None
            except self._ray.exceptions.RayError as error:
                last = str(error).strip().splitlines()[-1]
                raise RuntimeError(f"a Ray worker cannot run simulations: {last}") from None

    def place(self) -> str:
        return f"by {self.slots} Ray workers on {len(self.nodes)} nodes"

    def stop(self) -> None:
        self._stop.set()

    def close(self) -> None:
        self._stop.set()
        while not self._idle.empty():
            self._idle.get().end()
        if self._ours:
            self._ray.shutdown()


class _Actor:
    def __init__(self, ray: Any, number: int, memory_bytes: int) -> None:
        self._ray = ray
        made = ray.remote(Worker).options(num_cpus=1, memory=memory_bytes, scheduling_strategy="SPREAD", max_restarts=0)
        self.handle = made.remote(number)

    def end(self) -> None:
        self._ray.kill(self.handle)


class Worker:
    """What an actor does: it carries out one run after another, with input files that it has or gets."""

    def __init__(self, number: int) -> None:
        from dynamo.sweep.simulate import Traces

        self._number = number
        self._traces = Traces()
        self._folder: Path | None = None

    def describe(self) -> tuple[str, str]:
        """What decides results on this node, and the node."""
        ray = importlib.import_module("ray")
        return _build(), str(ray.get_runtime_context().get_node_id())

    def run(
        self, config: Mapping[str, Any], files: Sequence[tuple[str, str, Any]], limit_s: float | None
    ) -> tuple[str, ...]:
        """Carries out a run, whose input files are given as path, SHA-256 and content."""
        from dynamo.sweep.simulate import simulate

        moved = [self._local(path, sha256, content) for path, sha256, content in files]
        for path, local in moved:
            config = relocated(config, path, local)
        return tuple(simulate(config, self._traces, limit_s))

    def _local(self, path: str, sha256: str, content: Any) -> tuple[str, str]:
        """Where a file is on this node: where it was, if it is the same, else a copy in a folder of this actor."""
        here = Path(path).expanduser()
        if here.is_file() and hashlib.sha256(here.read_bytes()).hexdigest() == sha256:
            return path, path
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="dynosim-sweep-"))
        copy = self._folder / here.absolute().relative_to("/")
        if not copy.exists():
            ray = importlib.import_module("ray")
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(ray.get(content))
        return path, str(copy)


def _build() -> str:
    """What must be the same on all nodes."""
    return f"{versions.core()} {versions.aic()}"


def relocated(value: Any, path: str, local: str) -> Any:
    """A run in which a file, or the folder that holds it, is elsewhere."""
    if path == local:
        return value
    if isinstance(value, Mapping):
        return {key: relocated(item, path, local) for key, item in value.items()}
    if isinstance(value, list):
        return [relocated(item, path, local) for item in value]
    if not isinstance(value, str):
        return value
    folder, there = str(Path(path).parent), str(Path(local).parent)
    if value in (path, folder):
        return local if value == path else there
    if value.startswith("{"):  # engine arguments are JSON texts
        return json.dumps(relocated(json.loads(value), path, local))
    return value.replace(f"({path})", f"({local})")


def _import_ray() -> Any:
    try:
        return importlib.import_module("ray")
    except ImportError:
        raise ValueError("executor: ray is missing: pip install 'dynosim[ray]'") from None
