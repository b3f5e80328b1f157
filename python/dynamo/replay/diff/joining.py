"""Requests of two runs side by side: which have changed most, and which went to another worker."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dynamo.replay.diff.figures import PREFIXES, Rows, numbers
from dynamo.replay.explain import LOST, PARTS

if TYPE_CHECKING:
    from numpy.typing import NDArray

_WORKERS = {"decode": "decode_worker_idx", "prefill": "prefill_worker_idx"}


@dataclass(frozen=True)
class Mover:
    """A request whose latency has changed. Workers are None where the request got none."""

    trace_row: int | None
    session_id: str
    turn_index: int
    input_length: int
    output_length: int
    a: float
    b: float
    change: float
    worker_a: int | None
    worker_b: int | None
    parts: dict[str, float]
    """How much each part adds to the change; empty unless both runs were explained."""


@dataclass(frozen=True)
class Routing:
    """How many of the requests that got a worker in both runs got another one, and the mean change of their latency
    and of that of the others, in milliseconds."""

    changed: int
    of: int
    mean_change_moved: float | None
    mean_change_others: float | None


@dataclass(frozen=True)
class Joined:
    """The requests that both runs have."""

    key: str
    """By what they were joined: ``trace_row``, or ``session_id and turn_index`` if rows of the trace repeat."""
    requests: int
    only_a: int
    only_b: int
    other_shape: int
    """How many have another prompt or output length in B: then the workloads differ."""
    by: str
    """The latency whose change is meant in what follows."""
    slower: list[Mover]
    faster: list[Mover]
    routing: dict[str, Routing]
    """By pool, ``decode`` or ``prefill``; a single pool is ``decode``."""

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values."""
        return asdict(self)


def join(a: Rows, b: Rows, movers: int, by: str) -> Joined:
    """Joins the rows of two runs. Raises ValueError if requests cannot be told apart."""
    key, keys_a, keys_b = _keys(a, b)
    places = {name: place for place, name in enumerate(keys_b)}
    pairs = [(i, places[name]) for i, name in enumerate(keys_a) if name in places]
    at_a, at_b = (np.array([pair[n] for pair in pairs], dtype=np.int64) for n in (0, 1))
    change = numbers(b, by)[at_b] - numbers(a, by)[at_a]
    other = sum(
        (numbers(a, "input_length")[at_a] != numbers(b, "input_length")[at_b])
        | (numbers(a, "output_length")[at_a] != numbers(b, "output_length")[at_b])
    )
    order = np.argsort(change, kind="stable")[: int((~np.isnan(change)).sum())]
    faster = [i for i in order[:movers] if change[i] < 0]
    slower = [i for i in order[::-1][:movers] if change[i] > 0]
    return Joined(
        key=key,
        requests=len(pairs),
        only_a=len(keys_a) - len(pairs),
        only_b=len(keys_b) - len(pairs),
        other_shape=int(other),
        by=by,
        slower=[_mover(a, b, int(at_a[i]), int(at_b[i]), by) for i in slower],
        faster=[_mover(a, b, int(at_a[i]), int(at_b[i]), by) for i in faster],
        routing=_routing(a, b, at_a, at_b, change),
    )


def _keys(a: Rows, b: Rows) -> tuple[str, Sequence[object], Sequence[object]]:
    rows_a, rows_b = (numbers(side, "trace_row").tolist() for side in (a, b))
    if _distinct(rows_a) and _distinct(rows_b):
        return "trace_row", rows_a, rows_b
    turns_a, turns_b = (
        list(zip(side["session_id"], numbers(side, "turn_index").tolist(), strict=True)) for side in (a, b)
    )
    if _distinct(turns_a) and _distinct(turns_b):
        return "session_id and turn_index", turns_a, turns_b
    raise ValueError("rows cannot be joined: neither trace_row, nor session_id and turn_index, tell requests apart")


def _distinct(names: Sequence[object]) -> bool:
    return len(set(names)) == len(names) and not any(isinstance(name, float) and math.isnan(name) for name in names)


def _mover(a: Rows, b: Rows, i: int, j: int, by: str) -> Mover:
    before, after = float(numbers(a, by)[i]), float(numbers(b, by)[j])
    columns = {part: f"{PREFIXES[by]}_{part}_ms" for part in PARTS}
    explained = all(column in a and column in b for column in columns.values())
    lost = f"{PREFIXES[by]}_{LOST}_ms"
    if lost in a or lost in b:
        columns[LOST] = lost
    return Mover(
        trace_row=_integer(numbers(b, "trace_row")[j]),
        session_id=str(b["session_id"][j]),
        turn_index=int(numbers(b, "turn_index")[j]),
        input_length=int(numbers(b, "input_length")[j]),
        output_length=int(numbers(b, "output_length")[j]),
        a=before,
        b=after,
        change=after - before,
        worker_a=_integer(numbers(a, "decode_worker_idx")[i]),
        worker_b=_integer(numbers(b, "decode_worker_idx")[j]),
        parts={part: _of(b, name, j) - _of(a, name, i) for part, name in columns.items()} if explained else {},
    )


def _of(rows: Rows, column: str, at: int) -> float:
    """A part of a latency, 0 where a run has no such part."""
    return float(numbers(rows, column)[at]) if column in rows else 0.0


def _integer(value: float) -> int | None:
    return None if math.isnan(value) else int(value)


def _routing(
    a: Rows, b: Rows, at_a: NDArray[np.int64], at_b: NDArray[np.int64], change: NDArray[np.float64]
) -> dict[str, Routing]:
    found = {}
    for pool, column in _WORKERS.items():
        before, after = numbers(a, column)[at_a], numbers(b, column)[at_b]
        known = ~np.isnan(before) & ~np.isnan(after)
        if known.any():
            moved = known & (before != after)
            found[pool] = Routing(
                int(moved.sum()), int(known.sum()), _mean(change[moved]), _mean(change[known & ~moved])
            )
    return found


def _mean(values: NDArray[np.float64]) -> float | None:
    values = values[~np.isnan(values)]
    return float(values.mean()) if len(values) else None
