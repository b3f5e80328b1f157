"""Figures of a run from its rows, as its report has them."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from dynamo.replay.explain import LATENCIES, LOST, PARTS, PARTS_WITH_LOST

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats: TypeAlias = NDArray[np.float64]

Split: TypeAlias = Mapping[str, Mapping[str, float]]
"""By statistic: its ``total``, and its parts."""
Rows: TypeAlias = Mapping[str, "Floats | list[str]"]
"""Columns of rows by name: numbers as float64 with NaN for none, texts as lists."""

PERCENTILES = {"median": 50, "p75": 75, "p90": 90, "p95": 95, "p99": 99}
PREFIXES = {"ttft_ms": "ttft", "e2e_latency_ms": "e2e"}
# Groups of the report, and the columns that they are over.
_GROUPS = {"ttft_ms": "ttft_ms", "ttst_ms": "ttst_ms", "tpot_ms": "itl_ms", "e2e_latency_ms": "e2e_latency_ms"}
_TEXTS = ("session_id", "terminal_status")
_NEEDED = (
    "arrival_time_ms",
    "last_token_ms",
    "ttft_ms",
    "ttst_ms",
    "itl_ms",
    "e2e_latency_ms",
    "input_length",
    "output_length",
    "reused_input_tokens",
    "turn_index",
    "trace_row",
    "decode_worker_idx",
    "prefill_worker_idx",
)
_PART_COLUMNS = tuple(f"{prefix}_{part}_ms" for prefix in PREFIXES.values() for part in PARTS)
# Only rows of runs with faults have these.
_LOST_COLUMNS = tuple(f"{prefix}_{LOST}_ms" for prefix in PREFIXES.values())
# How far from the rank of a percentile requests are that say where it comes from, as in gocore/report.
_NEAR = 0.005


def parse_rows(objects: Iterable[tuple[str, Mapping[str, Any]]]) -> Rows:
    """Columns from rows as JSON objects, each with its place for messages. Raises ValueError."""
    numbers = {name: array("d") for name in (*_NEEDED, *_PART_COLUMNS, *_LOST_COLUMNS)}
    texts: dict[str, list[str]] = {name: [] for name in _TEXTS}
    explained = faulty = True
    for place, row in objects:
        for name in _NEEDED:
            numbers[name].append(_number(place, name, row.get(name)))
            if name not in row:
                raise ValueError(f"{place}: {name} is missing, want a row that dynosim wrote")
        explained = explained and _PART_COLUMNS[0] in row
        if explained:
            for name in _PART_COLUMNS:
                numbers[name].append(_number(place, name, row.get(name)))
        faulty = faulty and explained and _LOST_COLUMNS[0] in row
        if faulty:
            for name in _LOST_COLUMNS:
                numbers[name].append(_number(place, name, row.get(name)))
        for name in _TEXTS:
            texts[name].append(str(row.get(name) or ""))
    columns = {
        name: np.frombuffer(column, dtype=np.float64)
        for name, column in numbers.items()
        if (explained or name not in _PART_COLUMNS) and (faulty or name not in _LOST_COLUMNS)
    }
    return {**columns, **texts}


def _number(place: str, name: str, value: object) -> float:
    if value is None:
        return math.nan
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{place}: {name}: got {value!r}, want a number or null")
    number = as_float(value)
    if math.isinf(number):
        raise ValueError(f"{place}: {name}: got {number}, want a finite number or null")
    return number


def as_float(value: float) -> float:
    """A number from JSON as a float, infinite if no float is large enough."""
    try:
        return float(value)
    except OverflowError:
        return math.inf


def rows_of(requests: Mapping[str, Any]) -> Rows:
    """Columns from those behind a report, in which -1 stands for no number."""
    rows: dict[str, Floats | list[str]] = {}
    for name in (*_NEEDED, *_PART_COLUMNS, *_LOST_COLUMNS):
        if name in requests:
            column = requests[name]
            rows[name] = np.where(column < 0, np.nan, column) if column.dtype.kind == "i" else column
    return {**rows, **{name: list(requests[name]) for name in _TEXTS}}


def numbers(rows: Rows, name: str) -> Floats:
    """A column of numbers."""
    column = rows[name]
    assert isinstance(column, np.ndarray)
    return column


def metrics(rows: Rows) -> dict[str, float | None]:
    """What a report says of these rows, as far as they tell: gaps between single tokens are not in rows."""
    counted = ~np.isnan(numbers(rows, "ttft_ms"))
    inputs, outputs = (float(numbers(rows, name)[counted].sum()) for name in ("input_length", "output_length"))
    duration = float(numbers(rows, "last_token_ms")[counted].max(initial=0.0))
    seconds = max(duration / 1000, 1e-9)
    status = rows["terminal_status"]
    found: dict[str, float | None] = {
        "num_requests": float(len(counted)),
        "completed_requests": float(counted.sum()),
        "rejected_requests": float(sum(text in ("rejected", "failed") for text in status)),
        "finished_requests": float(sum(text == "completed" for text in status)),
        "total_input_tokens": inputs,
        "total_output_tokens": outputs,
        "duration_ms": duration,
        "request_throughput_rps": counted.sum() / seconds,
        "input_throughput_tok_s": inputs / seconds,
        "output_throughput_tok_s": outputs / seconds,
        "total_throughput_tok_s": (inputs + outputs) / seconds,
    }
    if np.isnan(numbers(rows, "prefill_worker_idx")).all():  # with two pools, a report counts what either has found
        reused = float(numbers(rows, "reused_input_tokens")[counted].sum())
        found["prefix_cache_reused_ratio"] = reused / inputs if inputs else None
    for group, name in _GROUPS.items():
        column = numbers(rows, name)
        column = np.sort(column[~np.isnan(column)])
        for statistic, value in _statistics(column).items():
            found[f"{statistic}_{group}"] = value if counted.any() else None
        found[f"count_{group}"] = float(len(column))
    return found


def _statistics(ordered: Floats) -> dict[str, float]:
    if not len(ordered):
        return dict.fromkeys(("mean", "min", "max", *PERCENTILES, "std"), 0.0)
    return {
        "mean": float(ordered.mean()),
        "min": float(ordered[0]),
        "max": float(ordered[-1]),
        **{name: float(ordered[_rank(percent, len(ordered))]) for name, percent in PERCENTILES.items()},
        "std": float(ordered.std()),
    }


def _rank(percent: float, count: int) -> int:
    """The nearest rank, half away from zero."""
    return min(count - 1, math.floor((count - 1) * percent / 100 + 0.5))


def splits(rows: Rows) -> dict[str, Split]:
    """Where the latencies of explained rows come from, by latency; empty if the rows do not tell."""
    if _PART_COLUMNS[0] not in rows:
        return {}
    return {latency: split for latency in LATENCIES if (split := _split(rows, latency))}


def _split(rows: Rows, latency: str) -> Split:
    whole = numbers(rows, latency)
    ordered = np.sort(whole[~np.isnan(whole)])
    if not len(ordered):
        return {}
    columns = {part: f"{PREFIXES[latency]}_{part}_ms" for part in PARTS_WITH_LOST}
    parts = {part: numbers(rows, column) for part, column in columns.items() if column in rows}
    near = math.floor(len(ordered) * _NEAR + 0.5)
    found = {"mean": _share(parts, whole, ~np.isnan(whole), float(ordered.mean()))}
    for name, percent in PERCENTILES.items():
        rank = _rank(percent, len(ordered))
        band = (whole >= ordered[max(0, rank - near)]) & (whole <= ordered[min(len(ordered) - 1, rank + near)])
        found[name] = _share(parts, whole, _without_lost(band, parts), float(ordered[rank]))
    return found


def _without_lost(band: NDArray[np.bool_], parts: Mapping[str, Floats]) -> NDArray[np.bool_]:
    """The requests of a band without those that lost time to faults, if these are the smaller part of it."""
    if LOST not in parts:
        return band
    hit = band & (parts[LOST] > 0)
    return band & ~hit if 2 * hit.sum() < band.sum() else band


def _share(parts: Mapping[str, Floats], whole: Floats, of: NDArray[np.bool_], total: float) -> dict[str, float]:
    """A total in the proportion in which the latencies of some requests are divided."""
    all_of_it = float(whole[of].sum())
    scale = total / all_of_it if all_of_it else 0.0
    return {"total": total, **{part: float(column[of].sum()) * scale for part, column in parts.items()}}
