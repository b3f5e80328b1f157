"""Runs that are carried out at most once: looked up in the store, claimed, simulated, kept."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from dynamo import _core
from dynamo.replay.durations import Durations
from dynamo.replay.trace import OPTIONS
from dynamo.sweep import keys, points, versions
from dynamo.sweep.admission import Admission
from dynamo.sweep.executors import Executor
from dynamo.sweep.processes import CRASH
from dynamo.sweep.simulate import MEMORY, Stopped, Traces, timed_out
from dynamo.sweep.store import FAILED, OK, TIMED_OUT, Run, Store

# The key of a run that ends early if too much is late.
_LIMITS = "stop_when_late"
# How long a run that another thread or process carries out is left alone before its result is looked for again.
_FIRST_WAIT_SECONDS, _LONGEST_WAIT_SECONDS = 0.005, 0.25


class Prepared(NamedTuple):
    """A run and what is known of it before it begins."""

    arguments: Mapping[str, Any]
    """Keys of ``--config``, with objects as dicts."""
    config: Mapping[str, Any]
    """The same as the core takes it."""
    key: str
    facts: Mapping[str, Any]
    """Of gocore/job/foresight.go; with ``error`` for a run that would be refused."""

    @property
    def gpus(self) -> int:
        """GPUs of all its workers."""
        return int(self.facts["prefill_gpus"]) + int(self.facts["decode_gpus"])

    @property
    def arrival_rps(self) -> float | None:
        """Requests that arrive per second, None if that is not known."""
        rate = self.facts["arrival_rps"]
        return None if rate is None else float(rate) * float(self.arguments.get("arrival_speedup_ratio", 1))


class Runs:
    """Gives the results of runs. Threads can share it."""

    def __init__(self, store: Store, executor: Executor, traces: Traces) -> None:
        self._store = store
        self._executor = executor
        self._traces = traces
        self._stop = threading.Event()
        room = _core.foresee([])["room_bytes"] if executor.shares_memory else None
        self._admission = Admission(room)
        self._foreseen: dict[str, Mapping[str, Any]] = {}
        self._count = threading.Lock()
        self.carried_out = 0
        """Runs that were simulated here, and not found in the store."""

    def prepare(self, arguments: Mapping[str, Any]) -> Prepared:
        """What is known of a run before it begins."""
        try:
            config = points.plain(arguments)
            facts = self._foreseen.pop(json.dumps(config), None) or self._foresee([config])[0]
        except (TypeError, ValueError, FileNotFoundError) as error:
            return Prepared(arguments, {}, "", {"error": str(error)})
        if "error" in facts:
            return Prepared(arguments, config, "", facts)
        return Prepared(arguments, config, versions.run_key(facts["identity"], asks_aic=facts["aic"]), facts)

    def look_ahead(self, many: Iterable[Mapping[str, Any]]) -> None:
        """Asks for the facts of runs that will soon be prepared: one question for all is much faster."""
        by_trace: dict[str, list[Mapping[str, Any]]] = {}
        for arguments in many:
            try:
                config = points.plain(arguments)
            except (TypeError, ValueError):
                continue  # prepare will say so
            trace = json.dumps([config.get(name) for name in (keys.TRACE_FILES, *OPTIONS)])
            by_trace.setdefault(trace, []).append(config)
        for configs in by_trace.values():
            try:
                found = self._foresee(configs)
            except (ValueError, FileNotFoundError):
                continue
            self._foreseen.update(zip(map(json.dumps, configs), found, strict=True))

    def _foresee(self, configs: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        found: list[Mapping[str, Any]] = _core.foresee(configs, self._traces.of(configs[0]))["runs"]
        return found

    def result(self, run: Prepared, ends: float | None) -> Run:
        """The result of a run, which must be over at a time of ``time.monotonic``. Raises Stopped."""
        wait = _FIRST_WAIT_SECONDS
        while True:
            if found := self._store.get(run.key):
                return found
            self._check()
            if ends is not None and time.monotonic() > ends:
                return timed_out(None)
            if self._store.claim(run.key):
                return self._carry_out(run, ends)
            time.sleep(wait)
            wait = min(2 * wait, _LONGEST_WAIT_SECONDS)

    def _carry_out(self, run: Prepared, ends: float | None) -> Run:
        try:
            result = self._admitted(run, ends, alone=False)
            if result.status == FAILED and result.reason.startswith(MEMORY):
                result = self._admitted(run, ends, alone=True)
            with self._count:
                self.carried_out += 1
            if _is_final(result):
                self._store.put(run.key, result)
                self._keep_whole(run, result)
            else:
                self._store.release(run.key)
            return result
        except BaseException:
            self._store.release(run.key)
            raise

    def _keep_whole(self, run: Prepared, result: Run) -> None:
        """Keeps a run that no limit on what is late has stopped as the one without such limits, too: it is the same."""
        limits = run.arguments.get(_LIMITS)
        if limits is None or result.status != OK:
            return
        report = result.figures()
        for limit in limits.split(","):
            name, most = limit.partition(">")[0].strip(), int(limit.rpartition(":")[2])
            if report.pop(f"late_{name}") > most:
                return
        whole = self.prepare({name: value for name, value in run.arguments.items() if name != _LIMITS})
        self._store.put(whole.key, result._replace(report=json.dumps(report)))

    def _admitted(self, run: Prepared, ends: float | None, *, alone: bool) -> Run:
        needed = int(run.facts["needed_bytes"])
        files = [(file["path"], file["sha256"]) for file in run.facts["inputs"]]
        with self._admission.admit(needed, self._check, alone=alone):
            left = None if ends is None else max(0.0, ends - time.monotonic())
            return self._executor.run(run.config, files, needed, left)

    def _check(self) -> None:
        if self._stop.is_set():
            raise Stopped

    def stop(self) -> None:
        """Ends what is waited for and what is carried out, with Stopped."""
        self._stop.set()
        self._executor.stop()


def _is_final(run: Run) -> bool:
    """Whether another try would end in the same way. Time, memory and dying processes are a matter of the machine."""
    return run.status != TIMED_OUT and not run.reason.startswith((MEMORY, CRASH))


def warnings_of(runs: Sequence[Run]) -> list[str]:
    """What the runs have warned of, each text once."""
    return list(dict.fromkeys(text for run in runs for text in json.loads(run.warnings)))


def durations_of(runs: Sequence[Run]) -> Durations:
    """What the durations of the first run are of, nothing if it is of an older release."""
    found: Durations = runs[0].figures().get("durations", ())
    return found
