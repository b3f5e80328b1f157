"""Files of the series of a run: CSV, JSON lines and Parquet."""

from __future__ import annotations

import csv
import json
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dynamo.replay import files, frames

if TYPE_CHECKING:
    from dynamo.replay.columns import Column


def write(series: Mapping[str, Column], path: str | os.PathLike[str]) -> None:
    """Writes all columns, whole or not at all; what there is none of is empty in CSV and null in the others."""
    kind = Path(path).suffix
    if kind == ".parquet":
        frames.to_parquet(series, path)
    elif kind == ".csv":
        files.write_by(path, lambda target: _write_csv(series, target))
    else:
        files.write_by(path, lambda target: _write_jsonl(series, target))


def rows(series: Mapping[str, Column]) -> Iterator[list[Any]]:
    """The rows as plain values, None for none. Columns are in the order of the mapping."""
    columns = [column if isinstance(column, list) else column.tolist() for column in series.values()]
    for row in zip(*columns, strict=True):
        yield [_plain(value) for value in row]


def _plain(value: Any) -> Any:
    none = (isinstance(value, float) and math.isnan(value)) or (isinstance(value, int) and value < 0)
    return None if none else value


def _write_csv(series: Mapping[str, Column], target: Path) -> None:
    with target.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(series)
        writer.writerows(rows(series))


def _write_jsonl(series: Mapping[str, Column], target: Path) -> None:
    names = list(series)
    with target.open("w", encoding="utf-8") as file:
        for row in rows(series):
            file.write(json.dumps(dict(zip(names, row, strict=True)), separators=(",", ":")) + "\n")
