"""Replays measurements with chosen values of the knobs, on all cores, and remembers what came out."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from dynamo._shell.processes import spread
from dynamo.calibrate import targets
from dynamo.calibrate.knobs import Vector, engine_arguments
from dynamo.calibrate.targets import Part
from dynamo.validate.measurement import Refusal, Replay
from dynamo.validate.runner import asked
from dynamo.validate.simulate import simulate

# Simulated figures by metric, or why there are none.
Trial: TypeAlias = "dict[str, Vector] | str"
OnTrial: TypeAlias = Callable[[int, int], object]


class Task(NamedTuple):
    """A replay to be carried out once for each setting, which is values of all knobs; None leaves engine as it is."""

    replay: Replay
    settings: tuple[tuple[float, ...] | None, ...]
    part: Part = targets.WHOLE


class Memory:
    """What trials came to, by replay and setting; kept in a file of JSON lines if there is one.

    Raises ValueError if that cannot be the file, RuntimeError if it cannot be written to later, when the disk is full.
    """

    def __init__(self, path: str | None = None) -> None:
        self._known: dict[str, Trial] = {}
        self._path = Path(path) if path else None
        if self._path:
            for line in _begun(self._path).splitlines():
                with contextlib.suppress(ValueError, KeyError):  # cut off when a fit was interrupted
                    row = json.loads(line)
                    self._known[row["trial"]] = _from_json(row["figures"])

    def find(self, task: Task, setting: tuple[float, ...] | None) -> Trial | None:
        return self._known.get(_key(task, setting))

    def keep(self, task: Task, found: Sequence[Trial]) -> None:
        rows = []
        for setting, trial in zip(task.settings, found, strict=True):
            key = _key(task, setting)
            self._known[key] = trial
            rows.append(json.dumps({"trial": key, "figures": _to_json(trial)}) + "\n")
        if self._path:
            try:
                with self._path.open("a") as file:
                    file.writelines(rows)
            except OSError as error:
                raise RuntimeError(f"--resume: cannot write to {str(self._path)!r}: {error.strerror}") from None


def _begun(path: Path) -> str:
    """Returns the text of a file of trials, "" if it is not there yet. Raises ValueError."""
    try:
        text = path.read_text()
    except FileNotFoundError:
        if path.absolute().parent.is_dir():
            return ""
        raise ValueError(f"--resume: cannot use {str(path)!r}: its folder is missing") from None
    except OSError as error:
        raise ValueError(f"--resume: cannot use {str(path)!r}: {error.strerror}, want a file") from None
    except UnicodeDecodeError:
        text = "-"
    if text and not text.startswith('{"trial"'):
        raise ValueError(
            f"--resume: {str(path)!r} is another kind of file, want one that --resume has made, or a new one"
        )
    return text


def run_all(tasks: Sequence[Task], memory: Memory, jobs: int, on_trial: OnTrial | None = None) -> list[list[Trial]]:
    """Returns what each task came to for each of its settings.

    Raises RuntimeError if a process dies. An exception, KeyboardInterrupt for one, ends the processes first.
    """
    missing = [_without_known(task, memory) for task in tasks]
    batches = _batches([task for task in missing if task.settings])
    if jobs <= 1 or len(batches) <= 1:  # in this process: each is kept as soon as it is done
        batches = [[task] for batch in batches for task in batch]
        jobs = 1
    done, total = 0, sum(len(batch) for batch in batches)
    for place, results in spread(_run_batch, batches, jobs, "calibration"):
        for task, found in zip(batches[place], results, strict=True):
            memory.keep(task, found)
            done += 1
            if on_trial is not None:
                on_trial(done, total)
    return [[_known(memory, task, setting) for setting in task.settings] for task in tasks]


def _known(memory: Memory, task: Task, setting: tuple[float, ...] | None) -> Trial:
    trial = memory.find(task, setting)
    assert trial is not None, "all tasks were carried out"
    return trial


def _without_known(task: Task, memory: Memory) -> Task:
    return task._replace(settings=tuple(s for s in task.settings if memory.find(task, s) is None))


def _batches(tasks: Sequence[Task]) -> list[list[Task]]:
    """Tasks that ask the AIC SDK about the same model on the same GPUs, some at a time: loading that takes long."""
    groups: dict[object, list[Task]] = {}
    for task in tasks:
        groups.setdefault(asked(task.replay), []).append(task)
    most = 12
    return [group[at : at + most] for group in groups.values() for at in range(0, len(group), most)]


def _run_batch(tasks: Sequence[Task]) -> list[list[Trial]]:
    return [_run(task) for task in tasks]


def _run(task: Task) -> list[Trial]:
    found: list[Trial] = []
    for setting in task.settings:
        if found and isinstance(found[0], str):  # what is refused once is refused always
            found.append(found[0])
            continue
        engine = {**task.replay.engine, **(engine_arguments(setting) if setting else {})}
        replay = replace(task.replay, engine=engine)
        try:
            found.append(targets.simulated(replay.measurement, simulate(replay), task.part))
        except Refusal as refusal:
            found.append(str(refusal))
    return found


def _key(task: Task, setting: tuple[float, ...] | None) -> str:
    said: dict[str, Any] = {"engine": dict(task.replay.engine), "load": repr(task.replay.workload)}
    said |= {"id": task.replay.measurement.id, "part": list(vars(task.part).values()), "setting": setting}
    if task.replay.measurement.requests is not None:
        said["percentiles"] = targets.PERCENTILES
    if task.replay.pool is not None:
        said["pool"] = dict(task.replay.pool)
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:24]


def _to_json(trial: Trial) -> object:
    return trial if isinstance(trial, str) else {metric: list(map(float, v)) for metric, v in trial.items()}


def _from_json(figures: Any) -> Trial:
    return figures if isinstance(figures, str) else {metric: np.array(v) for metric, v in figures.items()}
