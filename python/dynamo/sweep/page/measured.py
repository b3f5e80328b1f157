"""Measurements of real deployments, from a CSV file, to show beside the points of a sweep."""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from dynamo._core import spelling, values
from dynamo.sweep import points

_LABEL, _LOW, _HIGH = "label", "_low", "_high"


class Measured(NamedTuple):
    """A measurement: its figures by name, ``(low, high)`` of those with an interval, the id of the point it is of."""

    label: str
    figures: Mapping[str, float]
    intervals: Mapping[str, tuple[float, float]]
    point: int | None


def read(given: str | os.PathLike[str], content: Mapping[str, Any], known: Collection[str]) -> list[Measured]:
    """The rows of a file for the content of a report. Raises ValueError or FileNotFoundError.

    Columns are ``label``, knobs of the sweep, and figures, which are among ``known``, with ``FIGURE_low`` and
    ``FIGURE_high``. A row belongs to a point if that is the only one with the knobs of the row.
    """
    path = Path(values.path("--measured", given)).expanduser()
    knobs = [knob["name"] for knob in content["search"]]
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = csv.DictReader(file, strict=True)
            columns = list(rows.fieldnames or ())
            _check(columns, knobs, known, path)
            return [_row(row, knobs, content["points"], f"--measured: {path} line {rows.line_num}") for row in rows]
    except FileNotFoundError:
        raise FileNotFoundError(f"--measured: {path}: no such file") from None
    except OSError as error:
        raise ValueError(f"--measured: cannot read {path}: {error.strerror}") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"--measured: {path}: no CSV file: {error}") from None


def _check(columns: Sequence[str], knobs: Sequence[str], known: Collection[str], path: Path) -> None:
    """Raises ValueError unless all columns have a meaning, and one is a figure."""
    where = f"--measured: {path}"
    ends = [name + end for name in known for end in (_LOW, _HIGH)]
    allowed = {_LABEL, *knobs, *known, *ends}
    for name in columns:
        if name not in allowed:
            near = spelling.nearest(name, [_LABEL, *knobs, *known])
            hint = f"did you mean {near}?" if near else "want label, a knob of the sweep or a figure (docs/sweeps.md)"
            raise ValueError(f"{where}: unknown column {values.brief(values.show(name))}, {hint}")
        if columns.count(name) > 1:
            raise ValueError(f"{where}: column {name} is there twice, want it once")
    if not any(name in known for name in columns if name not in knobs):
        raise ValueError(f"{where}: no column is a figure, want one such as output_tok_s_per_gpu")


def _row(row: Mapping[Any, Any], knobs: Sequence[str], every: Sequence[Mapping[str, Any]], where: str) -> Measured:
    if None in row or None in row.values():
        raise ValueError(f"{where}: got another number of cells than the header has")
    cells = {name: text.strip() for name, text in row.items() if text.strip()}
    wanted = {name: cells[name] for name in knobs if name in cells}
    numbers = {name: _number(text, f"{where}: {name}") for name, text in cells.items() if name not in {_LABEL, *knobs}}
    figures = {name: number for name, number in numbers.items() if not name.endswith((_LOW, _HIGH))}
    intervals = {}
    for name in figures:
        ends = [numbers.get(name + end) for end in (_LOW, _HIGH)]
        if ends != [None, None]:
            intervals[name] = _interval(ends, f"{where}: {name}")
    fitting = [point["id"] for point in every if _fits(point["knobs"], wanted)] if wanted else []
    label = cells.get(_LABEL) or ", ".join(f"{name} {text}" for name, text in wanted.items()) or "measured"
    return Measured(label, figures, intervals, fitting[0] if len(fitting) == 1 else None)


def _interval(ends: Sequence[float | None], where: str) -> tuple[float, float]:
    low, high = ends
    if low is None or high is None or low > high:
        raise ValueError(f"{where}: got {_LOW} {low} and {_HIGH} {high}, want both, the lower one first")
    return low, high


def _number(text: str, where: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"{where}: got {values.brief(values.show(text))}, want a number")
    return number


def _fits(knobs: Mapping[str, Any], wanted: Mapping[str, str]) -> bool:
    return all(name in knobs and _same(knobs[name], text) for name, text in wanted.items())


def _same(value: Any, text: str) -> bool:
    """Whether a cell is the value of a knob: 4 and 4.0 are the same."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            return float(text) == value
        except ValueError:
            return False
    return text == points.label(value)
