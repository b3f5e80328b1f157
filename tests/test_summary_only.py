"""Runs that keep no rows: ``rows=False``, and the command line without ``--report-jsonl``."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path

import pytest
from conftest import WALL_CLOCK, Cli, refused, row, write_trace

from dynamo.replay import Report, load_trace, run_synthetic_trace_replay, run_trace_replay


def without_clock(report: Report) -> dict[str, object]:
    return {key: value for key, value in report.items() if key not in WALL_CLOCK}


def test_the_report_is_the_same(folder: Path) -> None:
    write_trace(folder / "trace.jsonl", [row(i, 8, 3, [i % 3, i % 2]) for i in range(40)])
    for workload in ("trace.jsonl", load_trace("trace.jsonl", trace_block_size=4)):
        options = {"trace_block_size": 4} if isinstance(workload, str) else {}
        for workers in (1, 3):
            with_rows = run_trace_replay(workload, num_workers=workers, **options)  # type: ignore[arg-type]
            without = run_trace_replay(workload, num_workers=workers, rows=False, **options)  # type: ignore[arg-type]
            assert without_clock(without) == without_clock(with_rows)
            assert (len(with_rows.requests) > 20, dict(without.requests)) == (True, {})


def test_there_are_no_columns() -> None:
    report = run_synthetic_trace_replay(100, 5, 10, rows=False)
    assert report["num_requests"] == 10
    with pytest.raises(KeyError, match="ttft_ms: the run has kept no rows, as it was asked to"):
        report.requests["ttft_ms"]
    assert pickle.loads(pickle.dumps(report)) == report


def test_the_command_line_keeps_them_for_a_file_only(cli: Cli, folder: Path) -> None:
    sizes = ["--input-tokens", "100", "--output-tokens", "5", "--request-count", "10"]
    assert cli(*sizes, "--report-json", "plain.json").returncode == 0
    assert cli(*sizes, "--report-json", "rows.json", "--report-jsonl", "rows.jsonl").returncode == 0
    reports = [json.loads((folder / name).read_text()) for name in ("plain.json", "rows.json")]
    assert without_clock(reports[0]) == without_clock(reports[1])
    assert len((folder / "rows.jsonl").read_text().splitlines()) == 10


def test_rows_and_no_rows() -> None:
    with pytest.raises(ValueError, match="rows: got false, want true, or no report_jsonl_path"):
        run_synthetic_trace_replay(100, 5, 10, rows=False, report_jsonl_path="rows.jsonl")
    with pytest.raises(TypeError, match="rows: got 0"):
        run_synthetic_trace_replay(100, 5, 10, rows=0)  # type: ignore[arg-type]


def test_a_million_requests_fit_where_their_rows_do_not(cli: Cli) -> None:
    sizes = [
        "--input-tokens",
        "8",
        "--output-tokens",
        "1",
        "--request-count",
        "1000000",
        "--report-json",
        "report.json",
    ]
    bounded = {**os.environ, "GOMEMLIMIT": "200MiB"}
    message = refused(cli(*sizes, "--report-jsonl", "rows.jsonl", env=bounded))
    assert "memory: 1000000 requests need at least 238 MB" in message
    assert cli(*sizes, env=bounded).returncode == 0
    assert json.loads(Path("report.json").read_text())["completed_requests"] == 1_000_000
