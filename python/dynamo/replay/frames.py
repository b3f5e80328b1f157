"""Per-request columns as tables of other libraries, and in their files.

Values that stand for "none" in the columns become null. pandas and pyarrow are optional and loaded when needed.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from dynamo._core import values
from dynamo.replay import files

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from dynamo.replay.columns import Column

# Texts of which "" is a value; in the others it stands for none.
_MAY_BE_EMPTY = frozenset({"session_id"})


def to_pandas(requests: Mapping[str, Column]) -> pd.DataFrame:
    """Returns all columns: float64, Int64 and string, with NaN or NA for none."""
    pandas = _library("pandas", "to_pandas")
    return pandas.DataFrame({name: _pandas_column(pandas, name, column) for name, column in requests.items()})


def to_arrow(requests: Mapping[str, Column]) -> pa.Table:
    """Returns all columns: double, int64 and string, with null for none."""
    return _table(requests, "to_arrow")


def to_parquet(requests: Mapping[str, Column], path: str | os.PathLike[str]) -> Path:
    """Writes a Parquet file, whole or not at all."""
    table = _table(requests, "to_parquet")
    parquet = _library("pyarrow.parquet", "to_parquet")
    return _write(path, lambda file: parquet.write_table(table, file))


def to_csv(requests: Mapping[str, Column], path: str | os.PathLike[str]) -> Path:
    """Writes a CSV file with a header, whole or not at all."""
    table = _table(requests, "to_csv")
    csv = _library("pyarrow.csv", "to_csv")
    return _write(path, lambda file: csv.write_csv(table, file))


def _write(path: str | os.PathLike[str], write: Callable[[BinaryIO], object]) -> Path:
    """Lets pyarrow write to an open file: given a path, it would remove even a pipe or a device when writing fails."""

    def write_open(draft: Path) -> None:
        with draft.open("wb") as file:
            write(file)

    target = Path(values.path("path", path))
    files.write_by(target, write_open)
    return target


def _table(requests: Mapping[str, Column], method: str) -> pa.Table:
    arrow = _library("pyarrow", method)
    return arrow.table({name: _arrow_column(arrow, name, column) for name, column in requests.items()})


def _library(name: str, method: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        package = name.partition(".")[0]
        raise ImportError(f"{method} needs {package} ({error}): pip install 'dynosim[data]'", name=package) from None


def _pandas_column(pandas: Any, name: str, column: Column) -> Any:
    if isinstance(column, list):
        return pandas.array(_texts(name, column), dtype="string")
    if column.dtype.kind == "i":
        return pandas.arrays.IntegerArray(column.copy(), column < 0)
    return column


def _arrow_column(arrow: Any, name: str, column: Column) -> Any:
    if isinstance(column, list):
        return arrow.array(_texts(name, column), arrow.string())
    if column.dtype.kind == "i":
        return arrow.array(column, mask=column < 0)
    return arrow.array(column, from_pandas=True)  # NaN is null


def _texts(name: str, column: list[str]) -> list[str] | list[str | None]:
    return column if name in _MAY_BE_EMPTY else [text or None for text in column]
