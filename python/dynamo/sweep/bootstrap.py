"""Traces that are drawn from a recorded one: whole sessions, with replacement.

A recorded trace is one draw of the traffic that it stands for. How much a figure would vary between such draws is seen
by replaying traces of as many sessions, drawn from the recorded ones. A drawn session keeps its arrival times and
turns. What only it contains is renamed in second copies: no session finds itself in the cache. What it shares with
other sessions stays shared.
"""

from __future__ import annotations

import gzip
import json
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from dynamo._core import values
from dynamo.replay import files
from dynamo.sweep import keys
from dynamo.sweep.points import settings_of
from dynamo.sweep.spec import Spec, trace_files

FORMATS = ("mooncake", "mooncake-delta", "mooncake_delta")
_TRACES = frozenset({keys.TRACE, keys.TRACE_FILES})

Row = dict[str, Any]


def check(spec: Spec) -> None:
    """Raises ValueError if sessions of these traces cannot be drawn."""
    if any("trace_format" in knob.keys for knob in spec.search):
        raise ValueError("bootstrap: got sessions, want trace_format in run and not in search")
    given = spec.run.get("trace_format", "mooncake")
    if given not in FORMATS:
        raise ValueError(
            f"bootstrap: got sessions with trace_format {given}, want mooncake or mooncake-delta "
            "(python -m dynamo.replay --save-trace writes any trace as such)"
        )
    if any(trace.endswith(".zst") for trace in traces(spec)):
        raise ValueError("bootstrap: got a trace compressed with zstd, want it plain or .gz")


def traces(spec: Spec) -> list[str]:
    """The traces of all points, each once."""
    varied = [knob.sets(value) for knob in spec.search if knob.keys & _TRACES for value in knob.values]
    return list(dict.fromkeys(_trace({**spec.run, **settings}) for settings in varied or [{}]))


def _trace(run: Mapping[str, Any]) -> str:
    return trace_files({keys.TRACE_FILES: run.get(keys.TRACE, run[keys.TRACE_FILES])})[0]


class Draws:
    """The keys that each repetition of a point sets: those of its trace, and then those of the traces drawn from it."""

    def __init__(self, spec: Spec, folder: Path) -> None:
        self._spec = spec
        self._of = {trace: _draw(spec, trace, folder, number) for number, trace in enumerate(traces(spec))}

    def __call__(self, knobs: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
        return self._of[_trace({**self._spec.run, **settings_of(self._spec, knobs)})]


def _draw(spec: Spec, trace: str, folder: Path, number: int) -> list[dict[str, Any]]:
    """The keys that each repetition sets; the first, for the trace itself, sets none."""
    sessions = _sessions(Path(trace).expanduser())
    draws: list[dict[str, Any]] = [{}]
    for seed in spec.seeds:
        target = folder / (f"trace_{number}_{seed}.jsonl" if number else f"trace_{seed}.jsonl")
        lines = (json.dumps(row, separators=(",", ":")) + "\n" for row in resample(sessions, seed))
        files.write_whole(target, "".join(lines))
        draws.append({keys.TRACE_FILES: str(target)})
    return draws


def _sessions(source: Path) -> list[list[Row]]:
    """The rows of each session, in the order of the trace. A row without a session is one by itself."""
    found: dict[object, list[Row]] = {}
    with gzip.open(source, "rt") if source.suffix == ".gz" else source.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines):
            if not line.strip():
                continue
            row = json.loads(line)
            if not isinstance(row, dict):
                raise ValueError(f"{source} line {number + 1}: got {values.brief(values.show(row))}, want an object")
            name = row.get("session_id")
            found.setdefault(("row", number) if name is None else ("session", name), []).append(row)
    return list(found.values())


def resample(sessions: Sequence[Sequence[Row]], seed: int) -> Iterator[Row]:
    """The rows of as many sessions, drawn with replacement."""
    drawn = Counter(random.Random(seed).choices(range(len(sessions)), k=len(sessions)))
    users: Counter[int] = Counter()
    for session in sessions:
        users.update({block for row in session for block in row.get("hash_ids", ())})
    fresh = max(users, default=0) + 1
    for index in sorted(drawn):
        session = sessions[index]
        own = sorted({block for row in session for block in row.get("hash_ids", ()) if users[block] == 1})
        yield from session
        for copy in range(2, drawn[index] + 1):
            names = dict(zip(own, range(fresh, fresh + len(own)), strict=True))
            fresh += len(own)
            yield from (_renamed(row, copy, names) for row in session)


def _renamed(row: Row, copy: int, names: Mapping[int, int]) -> Row:
    found = dict(row)
    if "hash_ids" in row:
        found["hash_ids"] = [names.get(block, block) for block in row["hash_ids"]]
    if row.get("session_id") is not None:
        found["session_id"] = f"{row['session_id']}#{copy}"
    return found
