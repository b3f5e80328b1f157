"""The only module that calls the Go extensions: ``_core`` for replays, ``_live`` for live workers.

An extension is loaded at the first run, not at import: it brings a Go runtime with it, which costs time and does not
survive ``fork``. A forked child that inherits a loaded runtime gets an error instead of a hang, and so does a process
that would need a second one.
"""

from __future__ import annotations

import _thread
import atexit
import functools
import importlib
import importlib.util
import json
import os
import sys
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import dynamo._alone  # noqa: F401  # refuses to share an environment with ai-dynamo
from dynamo._core import interrupts, startup
from dynamo._core.version import VERSION

if TYPE_CHECKING:
    from types import ModuleType

_Outcome = TypeVar("_Outcome")

POLL_SECONDS = 0.05
# Stands before every row of a text column; a column with a row that contains it is passed as JSON.
_SEPARATOR = "\x1e"
# Stands before a question of a run, in place of its result.
_ENQUIRY = "\x05"
# Begins a question for the planner of a run; those for its rules begin with their names, others are for the AIC SDK.
_FOR_PLANNER = '{"planner":'


class Progress(NamedTuple):
    """How far a run has come."""

    phase: str
    """``loading``, ``running`` or ``reporting``."""
    simulated_ms: float
    done: int
    """Requests that have ended."""
    total: int
    """Requests in the workload; 0 while that is unknown."""
    scaling_events: tuple[dict[str, Any], ...] = ()
    """What a planner has changed since the last call, as in the report."""


class SavedTrace(NamedTuple):
    """A workload that a run has written as a trace, and how to read it."""

    path: str
    trace_format: str
    trace_block_size: int


class RunResult:
    """The outcome of one run. Its per-request columns stay in Go until garbage collection."""

    def __init__(self, run_id: int, text: str) -> None:
        outcome = json.loads(text)
        self.report: dict[str, Any] = {
            **outcome["report"],
            "provenance": {"version": VERSION, **outcome["provenance"]},
        }
        if outcome["scaling_events"] is not None:
            for key in ("held_requests", "cold_worker_requests", "scaling_events"):
                self.report[key] = outcome[key]
        if outcome["faults"] is not None:
            self.report.update(outcome["faults"])
        if "attribution" in outcome:
            self.report["attribution"] = outcome["attribution"]
        self.report.update(outcome.get("tenants", {}))
        self.warnings: tuple[str, ...] = tuple(outcome["warnings"])
        self.saved_trace = None if outcome["saved_trace"] is None else SavedTrace(**outcome["saved_trace"])
        # Why the per-request file could not be written, "" if it could or was not asked for.
        self.write_error: str = outcome["write_error"]
        # Other files of the run, each as a draft, its path, and what the user calls it. They go with the run unless
        # somebody moves them to their places.
        self.files: list[tuple[str, str, str]] = [(f["draft"], f["path"], f["given"]) for f in outcome["files"]]
        columns: dict[str, list[str]] = outcome["columns"]
        self.float_columns: Sequence[str] = tuple(columns["float"])
        self.int_columns: Sequence[str] = tuple(columns["int"])
        self.text_columns: Sequence[str] = tuple(columns["text"])
        self._run_id = run_id
        self.timeseries = None if outcome["timeseries"] is None else SeriesSource(self, outcome["timeseries"])
        weakref.finalize(self, _close, run_id).atexit = False  # at exit the memory is freed with the process

    def show_end(self, on_progress: Callable[[Progress], object]) -> None:
        """Calls a function with the progress of the run at its end."""
        _show(load(), self._run_id, on_progress)

    def column_bytes(self, name: str) -> bytes:
        """Returns a numeric column as 8 bytes per row, little-endian float64 or int64."""
        core = load()
        try:
            handle = core.core_Column(self._run_id, name)
        except RuntimeError as error:
            raise map_error(error) from None
        # A returned handle has no reference yet: releasing it without taking one first aborts the process.
        core.IncRef(handle)
        try:
            # gopy takes the address of the first byte, which panics if there is none.
            data: bytes = core.Slice_byte_to_bytes(handle) if core.Slice_byte_len(handle) else b""
        finally:
            core.DecRef(handle)
        return data

    def column_strings(self, name: str) -> list[str]:
        """Returns a text column, one string per row."""
        try:
            text: str = load().core_Strings(self._run_id, name)
        except RuntimeError as error:
            raise map_error(error) from None
        if text.startswith(_SEPARATOR):
            return text[1:].split(_SEPARATOR)
        strings: list[str] = json.loads(text)
        return strings


class SeriesSource:
    """The columns of the series of a run, which keeps them."""

    def __init__(self, run: RunResult, shape: Mapping[str, Any]) -> None:
        self._run = run
        self.step_ms: float = shape["step_ms"]
        self.float_columns: Sequence[str] = tuple(shape["columns"]["float"])
        self.int_columns: Sequence[str] = tuple(shape["columns"]["int"])
        self.text_columns: Sequence[str] = tuple(shape["columns"]["text"])

    def column_bytes(self, name: str) -> bytes:
        """As that of the run."""
        return self._run.column_bytes("timeseries/" + name)

    def column_strings(self, name: str) -> list[str]:
        """As that of the run."""
        return self._run.column_strings("timeseries/" + name)


class LoadedTrace:
    """A trace in Go that runs can share, until garbage collection."""

    def __init__(self, run_id: int, text: str) -> None:
        what = json.loads(text)
        self.sha256: tuple[str, ...] = tuple(what["sha256"])
        self.requests: int = what["requests"]
        self.run_id = run_id
        weakref.finalize(self, _close, run_id).atexit = False


def load_trace(config: Mapping[str, Any]) -> LoadedTrace:
    """Reads a trace for several runs, interruptibly. Raises as ``run`` does."""
    return _carry_out("Load", config, None, LoadedTrace)


def run(
    config: Mapping[str, Any],
    on_progress: Callable[[Progress], object] | None = None,
    trace: LoadedTrace | None = None,
    planner: Callable[[str], str] | None = None,
    rules: Mapping[str, Callable[[str], str]] | None = None,
) -> RunResult:
    """Carries out one replay and waits for it, interruptibly.

    ``config`` holds plain JSON values; non-finite floats are allowed. ``on_progress`` is called from this thread about
    twenty times a second. Raises ValueError (bad input), FileNotFoundError, RuntimeError (the run failed), or whatever
    interrupts the wait, KeyboardInterrupt above all; the run is then stopped first. ``trace`` is read instead of the
    files that ``config`` names. ``planner`` answers the questions that the run has for its planner, in another thread,
    and ``rules`` those for its rules in Python, such as ``router``.
    """
    if config.get("planner") and planner is None:
        raise ValueError("planner: got true, want an object in Python: run_trace_replay(..., planner=OBJECT)")
    return _carry_out("Run", config, on_progress, RunResult, trace, planner, rules)


def convert(config: Mapping[str, Any]) -> str:
    """Writes recordings as a trace, interruptibly, and returns a summary. Raises as ``run`` does."""
    return _carry_out("Convert", config, None, _text)


def inspect(config: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what a trace is like: ``stats`` for programs and the same as ``text``. Interruptible, raises as ``run``
    does.
    """
    found: dict[str, Any] = json.loads(_carry_out("Inspect", config, None, _text))
    return found


def foresee(runs: Sequence[Mapping[str, Any]], trace: LoadedTrace | None = None) -> dict[str, Any]:
    """Returns what is known of runs before they begin: ``room_bytes``, ``keys`` of reports, and ``runs`` with facts of
    each.

    gocore/job/foresight.go says what they are. ``trace`` is that of all runs. A run that would be refused has an
    ``error`` among its facts. Interruptible, raises as ``run`` does.
    """
    found: dict[str, Any] = json.loads(_carry_out("Foresee", {"runs": runs}, None, _text, trace))
    return found


def profile(planner_profile_data: str) -> dict[str, list[float]]:
    """Returns the arrays of a table file that Go makes from a folder of measurements, by name; none if the path is such
    a file.

    ``decode_itl`` is flat, one row after the other. Raises as ``run`` does.
    """
    config = {"planner_profile_data": planner_profile_data}
    arrays: dict[str, list[float]] = json.loads(_carry_out("Profile", config, None, _text))
    return arrays


def calibrations(engines: Sequence[Mapping[str, Any]], profile: str = "") -> list[dict[str, Any]]:
    """Returns what calibrations see of engines, given as their arguments: gocore/job/calibrations.go says what that is.

    ``profile`` is the text of a calibration profile, ``"auto"`` for the shipped one. Raises as ``run`` does.
    """
    config = {"engines": list(map(dict, engines)), "profile": profile}
    found: list[dict[str, Any]] = json.loads(_carry_out("Calibrations", config, None, _text))
    return found


def shipped_calibrations(level: str, timing: str) -> list[dict[str, Any]]:
    """Returns the entries of the shipped calibration of a level and a source of durations, without their knobs."""
    config = {"level": level, "timing": timing}
    found: list[dict[str, Any]] = json.loads(_carry_out("ShippedCalibrations", config, None, _text))
    return found


def serve(
    config: Mapping[str, Any], on_signal: Callable[[], bool], rules: Mapping[str, Callable[[str], str]] | None = None
) -> None:
    """Runs live workers until they are asked to end.

    ``on_signal`` is called about twenty times a second. The first time it returns true, workers end after the
    requests that they have; the second time, they end at once. ``rules`` answer the questions that a server has for
    what is in Python, such as ``"router"``, in another thread. Raises as ``run`` does.
    """
    text = json.dumps(_finite(config), allow_nan=False)
    live = load("_live")
    task = _Task(live, "live", "Serve", rules=rules)
    asked = 0

    def poll() -> None:
        nonlocal asked
        if on_signal():
            asked += 1
            (live.live_Drain if asked == 1 else live.live_Cancel)(task.run_id, False)
        if task.away and live.live_Ended(task.run_id):
            raise _EndedMeanwhile

    try:
        task.wait(text, poll)
    except _EndedMeanwhile:
        pass
    finally:
        live.live_Close(task.run_id, False)


class _EndedMeanwhile(Exception):
    """Workers have ended as they were asked to, while the SDK is still busy with one of their questions."""


def _carry_out(
    function: str,
    config: Mapping[str, Any],
    on_progress: Callable[[Progress], object] | None,
    finish: Callable[[int, str], _Outcome],
    trace: LoadedTrace | None = None,
    planner: Callable[[str], str] | None = None,
    rules: Mapping[str, Callable[[str], str]] | None = None,
) -> _Outcome:
    """Calls a function of the extension on a new id, which stays open if ``finish`` makes a RunResult of its text."""
    for name in ("trace_files", "input_path"):
        if "-" in config.get(name, ()) and _standard_input_is_closed():
            raise ValueError(f"{name}: standard input is closed")
    text = json.dumps(_finite(config), allow_nan=False)
    core = load()
    task = _Task(core, "core", function, planner, rules)
    try:
        if trace is not None:
            core.core_Use(task.run_id, trace.run_id)
        show = None if on_progress is None else functools.partial(_show, core, task.run_id, on_progress)
        return finish(task.run_id, task.wait(text, show))
    except BaseException:
        core.core_Close(task.run_id, False)
        raise
    finally:
        if "dynamo._core.aic" in sys.modules:
            from dynamo._core import aic

            aic.keep()


def _text(run_id: int, text: str) -> str:
    _close(run_id)
    return text


class _Task:
    """One Go call in a thread of its own, so that the calling thread can be interrupted while it waits.

    It uses a bare thread and lock instead of Thread and Event: an interrupt at the wrong moment inside those raises
    "release unlocked lock", or marks a thread as finished while it still runs. To acquire a lock is one step.
    """

    def __init__(
        self,
        extension: ModuleType,
        prefix: str,
        function: str,
        planner: Callable[[str], str] | None = None,
        rules: Mapping[str, Callable[[str], str]] | None = None,
    ) -> None:
        def named(name: str) -> Callable[..., Any]:
            found: Callable[..., Any] = getattr(extension, f"{prefix}_{name}")
            return found

        self._function, self._cancel, self._named = named(function), named("Cancel"), named
        self.run_id: int = named("Open")()
        self._planner, self._rules = planner, rules or {}
        self._outcome: str | None = None
        self._error: RuntimeError | None = None
        self._ended = False
        self.away = False  # in the SDK, which cannot be interrupted
        self._running = _thread.allocate_lock()
        self._running.acquire()
        self._watch = interrupts.Watch(extension.core_Interrupts) if prefix == "core" else None

    def wait(self, config: str, poll: Callable[[], None] | None) -> str:
        started = False
        try:
            if self._watch is not None:
                self._watch.check()
            started = True
            _thread.start_new_thread(self._call, (config,))
            while not self._running.acquire(timeout=POLL_SECONDS):
                if self._watch is not None:
                    self._watch.check()
                if poll is not None:
                    poll()
        except BaseException:
            self._cancel(self.run_id, False)
            if started and not self._ended and not self.away:
                # Go returns at once, after it has removed incomplete files. The limit is for a thread
                # that could not be started at all; on a busy machine the answer may take a while.
                self._running.acquire(timeout=15.0)
            raise
        if self._error is not None:
            raise map_error(self._error)
        assert self._outcome is not None
        return self._outcome

    def _call(self, config: str) -> None:
        try:
            self._outcome = self._answered(self._function(self.run_id, config))
        except RuntimeError as error:
            self._error = error
        finally:
            self._ended = True
            self._running.release()

    def _answered(self, text: str) -> str:
        """Returns the result of a run, from its first text, which is the result or a question.

        Questions for rules in Python, for the planner and for the AIC SDK are answered meanwhile.
        """
        while text.startswith(_ENQUIRY):
            self.away = True
            answer = self._answer(text[1:])
            self.away = False
            text = self._named("Answer")(self.run_id, answer)
        return text

    def _answer(self, question: str) -> str:
        rule = self._rules.get(question[2 : question.index('"', 2)])
        if rule is not None:
            return rule(question)
        if self._planner is not None and question.startswith(_FOR_PLANNER):
            return self._planner(question)
        from dynamo._core import aic

        return aic.answer(question)


def _show(core: ModuleType, run_id: int, on_progress: Callable[[Progress], object]) -> None:
    text = core.core_Progress(run_id)
    if text:
        now = json.loads(text)
        on_progress(Progress(now["phase"], now["sim_ms"], now["done"], now["total"], tuple(now["scaling_events"])))


def map_error(error: RuntimeError) -> BaseException:
    """Turns the text of a Go error, KIND + unit separator + MESSAGE, into the exception Python users expect."""
    kind, separator, message = str(error).partition("\x1f")
    if not separator:
        return error
    kinds: dict[str, type[BaseException]] = {
        "usage": ValueError,
        "notfound": FileNotFoundError,
        "cancelled": KeyboardInterrupt,
    }
    return kinds.get(kind, RuntimeError)(message)


class _Extension:
    """The loaded module and the process it was loaded in."""

    lock = threading.Lock()
    name = ""
    module: ModuleType | None = None
    process: int | None = None


def remove_drafts() -> None:
    """Deletes incomplete files, before this process ends without waiting for its runs."""
    if _Extension.name == "_core" and _Extension.module is not None and _Extension.process == os.getpid():
        _Extension.module.core_RemoveDrafts(False)


def load(name: str = "_core") -> ModuleType:
    """Returns an extension module, loaded at the first call.

    Raises RuntimeError in a child forked after that, and if the other module is loaded: each has a Go runtime of its
    own, which expects to be alone with the signals of a process.
    """
    if _Extension.process is not None and _Extension.process != os.getpid():
        raise RuntimeError(
            "dynamo cannot run in a process forked after its first run: the Go runtime does not survive fork. Use the "
            'spawn start method, e.g. multiprocessing.get_context("spawn")'
        )
    with _Extension.lock:
        if _Extension.module is None:
            _Extension.module = _import(name)
            _Extension.name = name
            # Python waits for its threads before it exits, but not always for one whose join was interrupted.
            atexit.register(remove_drafts)
        if _Extension.name != name:
            raise RuntimeError("live workers and replays need processes of their own: start one with subprocess")
        return _Extension.module


def _import(name: str) -> ModuleType:
    startup.check_address_space()
    # Set before the import: a fork during the import also leaves the child with half a Go runtime.
    _Extension.process = os.getpid()
    _fill_standard_descriptors()
    try:
        return importlib.import_module(f"dynamo._core.{name}")
    except ImportError as error:
        _Extension.process = None
        if name == "_live" and importlib.util.find_spec("dynamo._core._core") is not None:
            raise RuntimeError(
                "this environment was built for replays only, without live workers (by make demo, or with"
                " DYNOSIM_PARTS=replay): run make build, or install dynosim with pip"
            ) from None
        raise RuntimeError(
            f"the compiled core is missing ({error}); install the package with pip or run make build, and "
            "start outside the source folder"
        ) from None


def _fill_standard_descriptors() -> None:
    """Opens the null device in place of closed standard streams, or Go's own descriptors would get their numbers."""
    for number in range(3):
        if not _is_open(number):
            os.open(os.devnull, os.O_RDWR)  # the lowest free number is this one


def _standard_input_is_closed() -> bool:
    """Reports whether there is no standard input. Python is asked, too: a descriptor that was closed when it started
    may by now be another file.
    """
    return sys.__stdin__ is None or sys.__stdin__.closed or not _is_open(0)


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def _fresh_lock() -> None:
    """Replaces a lock in a forked child, where the thread of the parent that held it does not exist."""
    _Extension.lock = threading.Lock()


os.register_at_fork(after_in_child=_fresh_lock)


def _close(run_id: int) -> None:
    """Forgets a run; does nothing in a forked child, whose copy of the Go runtime must not be called."""
    if _Extension.module is not None and _Extension.process == os.getpid():
        _Extension.module.core_Close(run_id, False)


def _finite(value: Any) -> Any:
    """Returns a copy of a JSON value in which NaN and the infinities are replaced by the words that Go expects."""
    if isinstance(value, float):
        return value if value - value == 0 else str(value)
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
