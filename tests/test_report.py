"""What a report says about requests that were rejected, or had not finished when the run ended."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from conftest import TINY, Cli, refused, row, write_trace

from dynamo.replay import run_synthetic_trace_replay, run_trace_replay

# Two blocks of 64 tokens: a prompt of 20 fits, one of 1,000 never does.
TWO_BLOCKS = ["--extra-engine-args", '{"num_gpu_blocks": 2}']
STATISTICS = ["mean", "min", "max", "median", "p75", "p90", "p95", "p99", "std"]
GROUPS = ["ttft_ms", "ttst_ms", "tpot_ms", "itl_ms", "e2e_latency_ms", "output_token_throughput_per_user"]


def table_of(text: str) -> dict[str, list[str]]:
    """The cells of each row of the printed table, by label."""
    rows = ([cell.strip() for cell in line.split("┃")[1:-1]] for line in text.splitlines() if line.startswith("┃"))
    return {label: cells for label, *cells in rows}


def load(path: str) -> dict[str, Any]:
    report: dict[str, Any] = json.loads(Path(path).read_text())
    return report


def test_a_run_of_rejected_requests_is_a_failure(cli: Cli) -> None:
    done = cli(
        "--input-tokens", "1000", "--output-tokens", "3", "--request-count", "3", *TWO_BLOCKS, "--report-json", "r"
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "error: every request was rejected (3 of 3)"
    table = table_of(done.stdout)
    assert table["Time to First Token (ms)"] == ["N/A"] * 7
    assert table["Rejected Requests (requests)"] == ["3.00"] + ["N/A"] * 6
    assert table["Request Count (requests)"][0] == "0.00"
    assert "\nPrefix Cache Reused Ratio: N/A\n" in done.stdout
    report = load("r")
    assert {report[f"{statistic}_{group}"] for statistic in STATISTICS for group in GROUPS} == {None}
    assert {report[f"count_{group}"] for group in GROUPS} == {0}
    assert report["prefix_cache_reused_ratio"] is None
    assert (report["rejected_requests"], report["request_throughput_rps"]) == (3, 0.0)


def test_some_rejected_requests_have_a_row(cli: Cli, folder: Path) -> None:
    trace = write_trace(folder / "t.jsonl", [row(0, 20, 3, [1]), row(1, 1000, 3, [2, 3]), row(2, 1000, 3, [4, 5])])
    done = cli(trace, *TWO_BLOCKS)
    assert done.returncode == 0
    assert table_of(done.stdout)["Rejected Requests (requests)"][0] == "2.00"
    assert "Rejected" not in cli(*TINY).stdout


def test_goodput_has_a_row(cli: Cli, folder: Path) -> None:
    done = cli(*TINY, "--sla-ttft-ms", "1000000", "--report-json", "r.json")
    goodput = load("r.json")["goodput_request_throughput_rps"]
    assert table_of(done.stdout)["Goodput (requests/sec)"][0] == f"{goodput:,.2f}"
    assert table_of(cli(*TINY, "--sla-ttft-ms", "0").stdout)["Goodput (requests/sec)"][0] == "0.00"
    assert "Goodput" not in cli(*TINY).stdout


def test_statistics_over_nothing_in_a_run_of_single_tokens(cli: Cli) -> None:
    """The reference writes 0.0 for the gaps of requests that have none: so do we, and count them."""
    done = cli("--input-tokens", "20", "--output-tokens", "1", "--request-count", "2", "--report-json", "r.json")
    assert done.returncode == 0
    table = table_of(done.stdout)
    for name in ("Time per Output Token (ms)", "Token Gap (ms)", "Time to Second Token (ms)"):
        assert table[name] == ["N/A"] * 7
    assert "N/A" not in table["Time to First Token (ms)"]
    report = load("r.json")
    assert [report[f"{statistic}_itl_ms"] for statistic in STATISTICS] == [0.0] * 9
    assert (report["count_itl_ms"], report["count_ttft_ms"]) == (0, 2)


@pytest.mark.parametrize("workers", [1, 2])
def test_rows_and_counts_of_a_run_with_a_limit_agree(folder: Path, workers: int) -> None:
    """The published example: eight requests, 10 ms apart, of five tokens each. Its counts are the reference's."""
    trace = write_trace(folder / "t.jsonl", [row(10 * i, 8, 5, [2 * i, 2 * i + 1]) for i in range(8)])
    engine = {"block_size": 4, "num_gpu_blocks": 1000}
    report = run_trace_replay(
        trace, extra_engine_args=engine, trace_block_size=4, num_workers=workers, max_sim_time_ms=45.0
    )
    completed = {1: 3, 2: 4}[workers]
    assert (report["num_requests"], report["completed_requests"], report["finished_requests"]) == (5, completed, 0)
    rows = report.requests
    assert len(rows["state"]) == 5
    assert Counter(rows["state"]) == {"running": completed, "waiting": 5 - completed}
    assert rows["terminal_status"] == [""] * 5
    assert sum(rows["first_token_ms"] > 0) == completed
    whole = run_trace_replay(trace, extra_engine_args=engine, trace_block_size=4, num_workers=workers)
    assert whole["finished_requests"] == 8
    assert whole.requests["state"] == ["finished"] * 8


def test_rows_of_unfinished_requests_are_written(cli: Cli, folder: Path) -> None:
    trace = write_trace(folder / "t.jsonl", [row(0, 8, 500, [1]), row(1, 8, 2, [2]), row(90_000, 8, 2, [3])])
    limit = ["--max-sim-time-seconds", "1", "--trace-block-size", "64"]
    done = cli(trace, *limit, "--extra-engine-args", '{"max_num_seqs": 1}', "--report-jsonl", "rows.jsonl")
    assert done.returncode == 0
    rows = [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]
    assert [(row["state"], row["terminal_status"]) for row in rows] == [("running", None), ("waiting", None)]


def test_every_key_and_column_is_documented(folder: Path) -> None:
    report = run_synthetic_trace_replay(20, 3, 5, sla_ttft_ms=1.0)
    text = (Path(__file__).parents[1] / "docs" / "reference" / "report.md").read_text()
    documented = {name for line in text.splitlines() if line.startswith("| `") for name in re.findall(r"`(\w+)`", line)}
    statistics = {f"{statistic}_{group}" for statistic in [*STATISTICS, "count"] for group in GROUPS}
    assert set(report) - statistics <= documented
    assert set(report.requests) <= documented
    assert set(GROUPS) <= documented


STALLED = [row(0, 64, 20, [1]), row(40, 4000, 2, list(range(10, 73)))]


def test_two_latencies_between_tokens(cli: Cli, folder: Path) -> None:
    """``tpot`` is over requests, ``token_gap`` over gaps: a stall of one gap shows in one of them only."""
    trace = write_trace(folder / "t.jsonl", STALLED)
    done = cli(trace, "--trace-block-size", "64", "--report-json", "r.json")
    report, table = load("r.json"), table_of(done.stdout)
    assert table["Time per Output Token (ms)"][1:3] == [f"{report[f'{end}_tpot_ms']:,.2f}" for end in ("min", "max")]
    assert table["Token Gap (ms)"][1:3] == [f"{report[f'{end}_itl_ms']:,.2f}" for end in ("min", "max")]
    assert report["max_itl_ms"] > 5 * report["max_tpot_ms"]
    assert "AIPerf" not in done.stdout
    found = run_trace_replay(trace, trace_block_size=64)
    assert found["max_token_gap_ms"] == found["max_itl_ms"] == report["max_itl_ms"]
    assert found.requests["tpot_ms"].tolist() == found.requests["itl_ms"].tolist()
    assert max(found.requests["tpot_ms"]) == report["max_tpot_ms"]
    with pytest.raises(KeyError, match="unknown metric"):
        found["max_token_gap"]


@pytest.mark.parametrize("factor", [0.99, 1.0])
def test_the_bound_on_tpot_has_two_names(cli: Cli, folder: Path, factor: float) -> None:
    trace = write_trace(folder / "t.jsonl", STALLED)
    arguments = [trace, "--trace-block-size", "64", "--report-json", "r.json"]
    cli(*arguments)
    bound = str(factor * load("r.json")["max_tpot_ms"])
    good = []
    for option in ("--sla-tpot-ms", "--sla-itl-ms"):
        assert cli(*arguments, option, bound).returncode == 0
        good.append(load("r.json")["goodput_completed_requests"])
    assert good == [2 if factor == 1 else 1] * 2
    message = refused(cli(*arguments, "--sla-tpot-ms", "5", "--sla-itl-ms", "5"))
    assert "sla_itl_ms: got 5.0, want it left out: it is the other name of sla_tpot_ms" in message
