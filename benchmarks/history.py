"""Recorded ratios to the reference, and how new ones compare with them.

A history is a JSON file per kind of machine: a list of records, the newest last. Nothing in it names a host or a path.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import platform
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict

HISTORY = Path(__file__).with_name("history")
TOLERANCE = 0.15
"""By how much a ratio may fall."""

Ratios = Mapping[str, Mapping[str, float]]
"""By workload and by measure (simulation, cpu, memory): the reference divided by ours, so that more is better."""


class Machine(TypedDict):
    cpu: str
    cores: int


class Record(TypedDict):
    date: str
    commit: str
    machine: Machine
    ratios: dict[str, dict[str, float]]


def this_machine() -> Machine:
    return {"cpu": _cpu_model(), "cores": os.cpu_count() or 1}


def _cpu_model() -> str:
    try:
        found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        found = None
    return found.group(1).strip() if found else platform.machine()


def file_of(machine: Machine, folder: Path = HISTORY) -> Path:
    """The history of this kind of machine."""
    name = re.sub(r"[^a-z0-9]+", "-", f"{machine['cpu']} {machine['cores']} cores".lower()).strip("-")
    distinct = hashlib.sha256(json.dumps(machine, sort_keys=True).encode()).hexdigest()[:6]
    return folder / f"{name}-{distinct}.json"


def load(path: Path) -> list[Record]:
    """The records of a history, the oldest first; none if there is no file."""
    if not path.exists():
        return []
    records: list[Record] = json.loads(path.read_text())
    return records


def append(path: Path, record: Record) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps([*load(path), record], indent=1, sort_keys=True) + "\n")


def new_record(machine: Machine, ratios: Ratios) -> Record:
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
        "commit": _commit(),
        "machine": machine,
        "ratios": {name: {key: round(ratio, 3) for key, ratio in each.items()} for name, each in ratios.items()},
    }


def _commit() -> str:
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip() or "unknown"


def recorded(records: Sequence[Record]) -> dict[str, dict[str, float]]:
    """The latest ratio of every workload and measure: a record may hold some of them only."""
    latest: dict[str, dict[str, float]] = {}
    for record in records:
        for name, ratios in record["ratios"].items():
            latest.setdefault(name, {}).update(ratios)
    return latest


class Fall(TypedDict):
    workload: str
    measure: str
    before: float
    now: float


def falls(before: Ratios, now: Ratios, tolerance: float = TOLERANCE) -> list[Fall]:
    """The ratios that are lower than before by more than ``tolerance``. What only one of them has is not compared."""
    found: list[Fall] = []
    for name in now:
        for measure, ratio in now[name].items():
            was = before.get(name, {}).get(measure)
            if was is not None and ratio < was * (1 - tolerance):
                found.append({"workload": name, "measure": measure, "before": was, "now": ratio})
    return found


def better(one: Ratios, other: Ratios) -> dict[str, dict[str, float]]:
    """The higher of each ratio of two measurements of the same commit: other programs only ever lower it."""
    names: dict[str, Any] = {**one, **other}
    return {
        name: {
            measure: max(side[name][measure] for side in (one, other) if measure in side.get(name, {}))
            for measure in {**one.get(name, {}), **other.get(name, {})}
        }
        for name in names
    }
