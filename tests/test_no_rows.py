"""Runs that end at once, traces and recordings of nothing: no input ends the interpreter."""

from __future__ import annotations

import copy
import json
import pickle
from pathlib import Path

import numpy as np
import pytest
from conftest import TINY, Cli, refused, row, script, write_trace

from dynamo.replay import run_synthetic_trace_replay, run_trace_replay
from dynamo.replay.report import Report

# In an interpreter of its own: a panic in Go would end that of the tests.
EVERY_COLUMN = """
import pickle
from dynamo.replay import run_synthetic_trace_replay
report = run_synthetic_trace_replay(100, 5, 10, max_sim_time_ms=0, num_workers=2)
print({name: len(report.requests[name]) for name in report.requests})
print(len(pickle.loads(pickle.dumps(report)).requests["ttft_ms"]))
"""


def test_columns_of_a_run_that_ends_at_once(folder: Path) -> None:
    done = script(EVERY_COLUMN, cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    columns, pickled = done.stdout.splitlines()
    assert set(eval(columns).values()) == {1}  # one request has arrived
    assert pickled == "1"


def test_its_columns_keep_their_types() -> None:
    report = run_synthetic_trace_replay(100, 5, 10, max_sim_time_ms=0, num_workers=2)
    assert report.requests["ttft_ms"].dtype == np.float64
    assert report.requests["input_length"].dtype == np.int64
    assert report.requests["state"] == ["running"]
    again: Report = pickle.loads(pickle.dumps(copy.deepcopy(report)))
    assert list(again.requests) == list(report.requests)


def test_its_files(folder: Path, cli: Cli) -> None:
    done = cli(
        *TINY,
        "--num-workers",
        "2",
        "--max-sim-time-seconds",
        "0",
        "--report-jsonl",
        "rows.jsonl",
        "--report-json",
        "report.json",
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert len((folder / "rows.jsonl").read_text().splitlines()) == 1
    assert "mean_ttft_ms" in json.loads((folder / "report.json").read_text())


@pytest.mark.parametrize("text", ["", "\n\n"])
@pytest.mark.parametrize("module", ["dynamo.replay", "dynamo.replay.inspect"])
def test_an_empty_trace_is_refused(folder: Path, cli: Cli, module: str, text: str) -> None:
    (folder / "trace.jsonl").write_text(text)
    assert "trace.jsonl" in refused(cli("trace.jsonl", module=module))


def test_an_empty_recording_is_converted_or_refused(folder: Path, cli: Cli) -> None:
    (folder / "recording.jsonl").write_text("")
    done = cli(
        *("agent-trace", "--input-path", "recording.jsonl", "--output-file", "trace.jsonl"),
        module="dynamo.replay.convert",
    )
    assert done.returncode in (0, 2), done
    assert "panic" not in done.stderr


def test_a_routed_run_that_ends_at_once(folder: Path) -> None:
    trace = write_trace(folder / "trace.jsonl", [row(0, 64, 2, [1])])
    report = run_trace_replay(trace, num_workers=2, router_mode="kv_router", max_sim_time_ms=0, router_log="log.jsonl")
    assert len(report.requests["decode_worker_idx"]) == 1
