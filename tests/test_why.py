"""Where latencies come from: ``--explain``, ``attribution=True``, and the story of docs/why.md."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import TINY, WALL_CLOCK, Cli

from dynamo.replay import run_synthetic_trace_replay, run_trace_replay
from dynamo.replay.explain import LATENCIES, PARTS, format_explanation

PROJECT = Path(__file__).parent.parent
PAGE = (PROJECT / "docs" / "why.md").read_text()
TRACE = str(PROJECT / "examples" / "traces" / "conversation_400.jsonl.gz")


def test_the_page_goes_from_4_2_s_to_less_than_half() -> None:
    assert "4,191.11 ms" in PAGE
    before, after = (
        run_trace_replay(TRACE, num_workers=2, **options)["p99_ttft_ms"]
        for options in ({}, {"router_mode": "kv_router", "extra_engine_args": {"prefill_scale": 0.5}})
    )
    assert round(before / 1000, 1) == 4.2
    assert after < before / 2


def test_report_and_columns() -> None:
    report = run_trace_replay(TRACE, num_workers=3, attribution=True)
    attribution = report["attribution"]
    assert attribution["requests"] == 400
    for prefix, latency in (("ttft", "ttft_ms"), ("e2e", "e2e_latency_ms")):
        parts = {part: report.requests[f"{prefix}_{part}_ms"] for part in PARTS}
        assert np.abs(sum(parts.values()) - report.requests[latency]).max() <= 1e-9
        for part, column in parts.items():
            known = attribution[latency]["parts"][part]
            assert known["mean"] == pytest.approx(column.mean())
            assert known["p99"] == np.sort(column)[round(399 * 0.99)]
        for statistic, split in attribution[latency]["split"].items():
            assert list(split) == ["total", *PARTS]
            assert split["total"] == report[f"{statistic}_{latency}"]
            assert math.fsum(split[part] for part in PARTS) == pytest.approx(split["total"], abs=1e-9)
        mean = attribution[latency]["split"]["mean"]
        assert mean["own_prompt"] == pytest.approx(parts["own_prompt"].mean())


def test_not_asked_for() -> None:
    report = run_synthetic_trace_replay(20, 3, request_count=5)
    assert "attribution" not in report
    assert not [name for name in report.requests if name.startswith(("ttft_w", "e2e_w"))]


def test_without_rows() -> None:
    reports = [run_trace_replay(TRACE, num_workers=2, attribution=True, rows=rows) for rows in (True, False)]
    assert reports[0]["attribution"] == reports[1]["attribution"]


def test_host_time_is_host(cli: Cli) -> None:
    """A single request: its prompt, two tokens, and what the host adds."""
    arguments = {"request_overhead_us": 3000, "step_overhead_us": 500}
    report = run_synthetic_trace_replay(100, 2, request_count=1, extra_engine_args=arguments, attribution=True)
    split = report["attribution"]["e2e_latency_ms"]["split"]["mean"]
    assert split["host"] == pytest.approx(3 + 2 * 0.5)
    assert split["own_prompt"] > 0
    assert split["own_prompt"] + split["decode"] + split["host"] == pytest.approx(split["total"])


def test_two_pools() -> None:
    engines = {
        "prefill_engine_args": {"worker_type": "prefill", "kv_bytes_per_token": 1_000_000, "kv_transfer_bandwidth": 1},
        "decode_engine_args": {"worker_type": "decode"},
    }
    report = run_synthetic_trace_replay(
        1000, 3, request_count=1, router_mode="round_robin", attribution=True, **engines
    )
    row = {name: column[0] for name, column in report.requests.items()}
    assert row["ttft_kv_transfer_ms"] == pytest.approx(row["destination_activated_ms"] - row["source_held_ms"])
    assert row["ttft_kv_transfer_ms"] > 100
    assert row["ttft_own_prompt_ms"] == pytest.approx(row["source_held_ms"])
    assert row["ttft_decode_ms"] == pytest.approx(row["first_token_ms"] - row["decode_admit_ms"])


def test_explaining_a_run_of_before(cli: Cli, folder: Path) -> None:
    assert cli(*TINY, "--report-json", "first.json").returncode == 0
    done = cli(
        "--from-report", "first.json", "--explain", "--report-json", "second.json", "--report-jsonl", "rows.jsonl"
    )
    assert done.returncode == 0, done.stderr
    assert "Where Latencies Come From" in done.stdout
    first, second = (json.loads((folder / name).read_text()) for name in ("first.json", "second.json"))
    assert second.pop("attribution")["requests"] == 5
    assert {key: first[key] for key in first if key not in WALL_CLOCK} == {
        key: second[key] for key in second if key not in WALL_CLOCK
    }
    row = json.loads((folder / "rows.jsonl").read_text().splitlines()[0])
    assert list(row)[-22:] == [f"{prefix}_{part}_ms" for prefix in ("ttft", "e2e") for part in PARTS]


def test_the_table(folder: Path, cli: Cli) -> None:
    attribution: dict[str, Any] = run_trace_replay(TRACE, num_workers=2, attribution=True)["attribution"]
    text = format_explanation({"attribution": attribution}, ascii_only=True)
    assert text.splitlines()[0] == "Where Latencies Come From"
    assert "preempted" not in text
    narrow = format_explanation({"attribution": attribution}, width=50, ascii_only=True)
    assert max(map(len, narrow.splitlines())) <= 50
    assert "avg" in narrow
    small = json.dumps({"num_gpu_blocks": 1, "block_size": 2})
    workload = ("--input-tokens", "20", "--output-tokens", "3", "--request-count", "2", "--explain")
    none = folder / "none.json"
    assert cli(*workload, "--extra-engine-args", small, "--report-json", str(none)).returncode == 1
    empty = format_explanation(json.loads(none.read_text()))
    assert all(label in empty for label in LATENCIES.values())
    assert "N/A" in empty
