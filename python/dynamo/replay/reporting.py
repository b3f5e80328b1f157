"""Presenting a report: the AIPerf-style table and the JSON file."""

from __future__ import annotations

import json
import numbers
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard

from dynamo._core import values
from dynamo.replay import files, table

TITLE = "NVIDIA AIPerf | LLM Metrics"
_STATISTICS = {"avg": "mean", "min": "min", "max": "max", "p99": "p99", "p90": "p90", "p75": "p75", "std": "std"}
STAT_COLUMNS = tuple(_STATISTICS)
"""Headings of the table's columns of statistics, in order."""
_DISTRIBUTIONS = {
    "Time to First Token (ms)": "ttft_ms",
    "Time to Second Token (ms)": "ttst_ms",
    "Request Latency (ms)": "e2e_latency_ms",
    "Inter Token Latency (ms)": "itl_ms",
    "Output Token Throughput Per User (tokens/sec/user)": "output_token_throughput_per_user",
}
_SCALARS = {
    "Output Token Throughput (tokens/sec)": "output_throughput_tok_s",
    "Request Throughput (requests/sec)": "request_throughput_rps",
    "Goodput (requests/sec)": "goodput_request_throughput_rps",
    "Request Count (requests)": "completed_requests",
    "Rejected Requests (requests)": "rejected_requests",
}
# Rows of _SCALARS that only some reports have, and what value asks for the row.
_OPTIONAL: Mapping[str, Callable[[object], bool]] = {
    "goodput_request_throughput_rps": lambda value: value is not None,
    "rejected_requests": bool,
}
_FOOTER = {
    "Wall Time (ms)": "wall_time_ms",
    "Prefix Cache Reused Ratio": "prefix_cache_reused_ratio",
    "First Admission Prefix Cache Reused Ratio": "first_admission_prefix_cache_reused_ratio",
}
# Columns that a narrow terminal does without, in this order; avg stays.
_EXPENDABLE = ("std", "p75", "min", "p90", "max", "p99")


def format_report_table(report: Mapping[str, Any], *, width: int | None = None, ascii_only: bool = False) -> str:
    """The report as text: title, table and closing lines, without a final newline.

    The table is as wide as its cells. With ``width``, in characters, it drops columns until it fits, std first and avg
    never. ``ascii_only`` draws it without box characters. Distributions that the report lacks are left out; statistics
    over no value are N/A. Goodput has a row if bounds were set, rejected requests if there are any.
    """
    border = table.ASCII if ascii_only else table.BOXES
    headings, *rows = table_cells(report)
    cells: table.Rows = [headings, *rows]
    if width is not None:
        cells = table.fit(cells, width, [headings.index(name) for name in _EXPENDABLE], border)
    return "\n".join([TITLE, table.draw(cells, border), *closing_lines(report)])


def table_cells(report: Mapping[str, Any]) -> list[list[str]]:
    """The cells of the table, row by row: the heading first, then a label and one cell per statistic."""
    return [["Metric", *STAT_COLUMNS], *_rows(report)]


def closing_lines(report: Mapping[str, Any]) -> list[str]:
    """The lines below the table."""
    return [
        f"{label}: {_number(report[key])}"
        for label, key in _FOOTER.items()
        if key in report and (report[key] is None or _is_number(report[key]))
    ]


def write_report_json(report: Mapping[str, Any], output_path: str | os.PathLike[str] | None = None) -> Path:
    """Writes the report as JSON with sorted keys and returns the path of the file.

    ``output_path`` may be a folder, which then gets a file named like ``default_report_path()``; without a path that
    file goes to the current folder. Missing folders are made. A file that ``output_path`` names is replaced, but a name
    made up here never replaces one: if it is taken, ``_2``, ``_3``, ... follow it. numpy scalars become plain numbers;
    NaN and the infinities, which JSON lacks, become null. Raises OSError.
    """
    return save_report(report, resolve_report_path(output_path))


def save_report(report: Mapping[str, Any], target: ReportPath) -> Path:
    """``write_report_json`` for a path that was resolved before."""
    plain = values.json_object("report", report, lambda _, number: number if values.is_finite(number) else None)
    text = json.dumps(plain, indent=2, sort_keys=True) + "\n"
    if target.made_up:
        return files.write_new(target.path, text)
    files.write_whole(target.path, text)
    return target.path


class ReportPath(NamedTuple):
    """Where a report goes."""

    path: Path
    made_up: bool
    """The user has not chosen the file's name, so it must not replace a file."""


def resolve_report_path(path: str | os.PathLike[str] | None) -> ReportPath:
    """Where ``write_report_json(report, path)`` writes, if the name is still free by then."""
    if path is None:
        return ReportPath(default_report_path(), made_up=True)
    if os.path.isdir(path):
        return ReportPath(Path(path) / default_report_path().name, made_up=True)
    return ReportPath(Path(path), made_up=False)


def default_report_path() -> Path:
    """``dynamo_replay_report_YYYYMMDD_HHMMSS.json`` (local time) in the current folder, as an absolute path."""
    return Path.cwd() / time.strftime("dynamo_replay_report_%Y%m%d_%H%M%S.json")


def _rows(report: Mapping[str, Any]) -> list[list[str]]:
    rows = []
    for label, key in _DISTRIBUTIONS.items():
        if f"mean_{key}" in report:
            known = {} if report.get(f"count_{key}") == 0 else report
            rows.append([label, *(_number(known.get(f"{statistic}_{key}")) for statistic in _STATISTICS.values())])
    missing = [_number(None)] * (len(_STATISTICS) - 1)
    for label, key in _SCALARS.items():
        if key in _OPTIONAL and not _OPTIONAL[key](report.get(key)):
            continue
        value = report.get(key, report.get("num_requests") if key == "completed_requests" else None)
        rows.append([label, _number(value), *missing])
    return rows


def _number(value: object) -> str:
    if value is None:
        return "N/A"
    return f"{float(value):,.2f}" if _is_number(value) else str(value)


def _is_number(value: object) -> TypeGuard[numbers.Real]:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)
