"""One of the two runs that are compared: its figures, where its latencies come from, and its rows if there are any."""

from __future__ import annotations

import contextlib
import gzip
import itertools
import json
import math
import os
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from dynamo._core import values
from dynamo.replay.diff import figures
from dynamo.replay.diff.figures import Rows, Split
from dynamo.replay.explain import LOST, PARTS
from dynamo.replay.report import Report

_GZIP = b"\x1f\x8b"
# What tells a report from a row.
_REPORT_KEY, _ROW_KEY = "num_requests", "arrival_time_ms"


@dataclass
class Side:
    """A run. Times are in milliseconds of simulated time."""

    name: str
    metrics: dict[str, float | None] = field(default_factory=dict)
    """The numbers of its report by key; None for one that does not exist, as of a distribution over nothing."""
    splits: Mapping[str, Split] = field(default_factory=dict)
    """By latency and statistic, its parts; empty if the run was not explained."""
    rows: Rows | None = None

    def add_rows(self, rows: Rows) -> None:
        """Takes over rows, and the figures that follow from them and are not known yet."""
        self.rows = rows
        self.metrics = {**figures.metrics(rows), **self.metrics}
        self.splits = self.splits or figures.splits(rows)


def side(name: str, run: object) -> Side:
    """A run from its report (what a replay returns, or a mapping) or from the path of a report or of rows.

    Raises ValueError for a file that is neither, OSError for one that cannot be read, and TypeError.
    """
    if isinstance(run, str | os.PathLike):
        return read(name, run)
    if not isinstance(run, Mapping):
        raise TypeError(f"{name}: got {values.show(run)}, want a report or a path")
    found = _of_report(name, run)
    if isinstance(run, Report) and len(run.requests):
        found.add_rows(figures.rows_of(run.requests))
    return found


def read(name: str, path: str | os.PathLike[str]) -> Side:
    """A run from a JSON report or from a JSONL file of rows, either of which may be compressed with gzip."""
    with _opened(path) as file:
        first = file.readline()
        row = _object(first)
        if row is not None and _ROW_KEY in row:
            found = Side(name)
            found.add_rows(figures.parse_rows(_rows(path, itertools.chain([first], file))))
            return found
        whole = _object(first + file.read())
    if whole is not None and _REPORT_KEY in whole:
        return _of_report(name, whole, f"{os.fspath(path)}: ")
    if not first:
        raise ValueError(f"{os.fspath(path)}: got an empty file, want a JSON report, or rows as JSONL")
    raise _no_row(path, 1)


def _of_report(name: str, report: Mapping[str, Any], place: str = "") -> Side:
    """A run from its report. Place, which messages begin with, is the file of the report."""
    if _REPORT_KEY not in report:
        raise ValueError(f"{name}: the report has no key {_REPORT_KEY}, want one of a replay")
    numbers = {
        key: None if value is None else _finite(f"{place or f'{name}: '}{key}", value)
        for key, value in report.items()
        if value is None or (isinstance(value, int | float) and not isinstance(value, bool))
    }
    return Side(name, numbers, _splits(f"{place or f'{name}: '}attribution", report.get("attribution")))


def _splits(place: str, attribution: Any) -> dict[str, Split]:
    """The parts of each latency and statistic; none without --explain, or without requests."""
    if not attribution:
        return {}
    try:
        found: dict[str, Split] = {
            latency: {
                statistic: {
                    part: _finite(place, shares[part])
                    for part in ("total", *PARTS, *((LOST,) if LOST in shares else ()))
                }
                for statistic, shares in parts["split"].items()
            }
            for latency, parts in attribution.items()
            if isinstance(parts, Mapping) and parts["split"] is not None
        }
    except (AttributeError, KeyError, TypeError):
        shown = values.brief(values.show(attribution))
        raise ValueError(f"{place}: got {shown}, want the object that --explain wrote") from None
    return found if all(found.values()) else {}


def _finite(place: str, value: object) -> float:
    """A number as a float. With one that is not finite, no condition would fail. Raises ValueError, and TypeError."""
    if not isinstance(value, int | float):
        raise TypeError(f"{place}: got {values.show(value)}, want a number")
    number = figures.as_float(value)
    if not math.isfinite(number):
        raise ValueError(f"{place}: got {number}, want a finite number or null")
    return number


@contextlib.contextmanager
def _opened(path: str | os.PathLike[str]) -> Iterator[TextIO]:
    """The text of a file. What goes wrong when it is read becomes a ValueError."""
    shown = os.fspath(path)
    if not shown:
        raise ValueError("the path of a run is empty, want a JSON report, or rows as JSONL")
    try:
        with Path(path).open("rb") as file:
            compressed = file.read(len(_GZIP)) == _GZIP
        with gzip.open(path, "rt", encoding="utf-8") if compressed else Path(path).open(encoding="utf-8") as text:
            yield text
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"{shown}: cannot be decompressed: {error}") from None
    except UnicodeDecodeError:
        raise ValueError(f"{shown}: got bytes that are no text, want a JSON report, or rows as JSONL") from None
    except OSError as error:
        raise ValueError(f"{shown}: cannot be read: {error.strerror}") from None


def _rows(path: str | os.PathLike[str], lines: Iterable[str]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The rows of a file, each with its place for messages."""
    for number, line in enumerate(lines, 1):
        row = _object(line)
        if row is None or _ROW_KEY not in row:
            raise _no_row(path, number)
        yield f"{os.fspath(path)}: line {number}", row


def _no_row(path: str | os.PathLike[str], number: int) -> ValueError:
    place = f"{os.fspath(path)}: line {number}"
    return ValueError(f"{place} is no row of a run, want a JSON report, or the file of --report-jsonl")


def _object(text: str) -> Mapping[str, Any] | None:
    """The JSON object in a text, None if it is none."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
