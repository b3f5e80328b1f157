"""Disaggregated prefill/decode runs as users meet them; their timelines are tested in Go."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import TINY, Cli, refused, row, write_trace

from dynamo.mocker import MockEngineArgs
from dynamo.replay import run_synthetic_trace_replay, run_trace_replay

PREFILL = {"worker_type": "prefill", "kv_bytes_per_token": 1_000_000, "kv_transfer_bandwidth": 64.0}
DECODE = {"worker_type": "decode"}
SPLIT: dict[str, Any] = {
    "router_mode": "kv_router",
    "trace_block_size": 64,
    "prefill_engine_args": MockEngineArgs(**PREFILL),  # type: ignore[arg-type]
    "decode_engine_args": DECODE,
}
SPLIT_CLI = ["--router-mode", "kv_router"]
SPLIT_CLI += ["--prefill-engine-args", json.dumps(PREFILL), "--decode-engine-args", json.dumps(DECODE)]


@pytest.fixture
def trace(folder: Path) -> str:
    """Three requests, of which the last shares the prompt of the first."""
    return write_trace(folder / "t.jsonl", [row(0, 128, 3, [1, 2]), row(0, 64, 3, [3]), row(1, 192, 2, [1, 2, 4])])


def test_every_step_of_a_hand_off_has_its_time(trace: str) -> None:
    columns = run_trace_replay(trace, **SPLIT).requests
    assert columns["ttft_ms"].tolist() == pytest.approx([31.935234, 26.182049, 48.194788])
    assert columns["source_held_ms"].tolist() == pytest.approx([19.43216, 19.43216, 36.907045])
    assert columns["destination_reserved_ms"].tolist() == pytest.approx([19.43216, 19.43216, 37.691714])
    assert columns["destination_activated_ms"].tolist() == pytest.approx([26.182049, 20.43216, 43.444899])
    assert columns["source_released_ms"].tolist() == pytest.approx([36.907045, 36.907045, 43.444899])
    assert columns["prefill_route_overlap_tokens"].tolist() == [0, 0, 128]
    assert columns["decode_route_overlap_tokens"].tolist() == [0, 0, 0]
    assert columns["prefill_worker_idx"].tolist() == columns["decode_worker_idx"].tolist() == [0, 0, 0]


def test_report_counts_both_pools(trace: str) -> None:
    report = run_trace_replay(trace, num_prefill_workers=2, num_decode_workers=3, **SPLIT)
    assert report["duration_ms"] > 0
    assert report["prefill_worker_seconds"] == pytest.approx(2 * report["duration_ms"] / 1000)
    assert report["decode_worker_seconds"] == pytest.approx(3 * report["duration_ms"] / 1000)


@pytest.mark.parametrize("bandwidth", [0.0, None])
def test_no_bandwidth_no_delay(trace: str, bandwidth: float | None) -> None:
    prefill = {**PREFILL, "kv_transfer_bandwidth": bandwidth}
    columns = run_trace_replay(trace, **{**SPLIT, "prefill_engine_args": prefill}).requests
    assert columns["destination_activated_ms"][1] == columns["source_held_ms"][1]


def test_missing_blocks_alone_are_sent(folder: Path) -> None:
    trace = write_trace(folder / "t.jsonl", [row(0, 128, 2, [1, 2]), row(100, 192, 2, [1, 2, 3])])
    activated = {}
    for mode in ("full_prompt", "destination_missing"):
        prefill = {**PREFILL, "kv_transfer_timing_mode": mode}
        columns = run_trace_replay(trace, **{**SPLIT, "prefill_engine_args": prefill}).requests
        activated[mode] = columns["destination_activated_ms"][1]
    assert activated == pytest.approx({"full_prompt": 120.474885, "destination_missing": 118.474885})


def test_decisions_of_both_stages_are_logged_and_repeated(folder: Path, trace: str) -> None:
    pools = {**SPLIT, "num_prefill_workers": 2, "num_decode_workers": 2}
    first = run_trace_replay(trace, report_jsonl_path=folder / "rows.jsonl", router_log=folder / "log.jsonl", **pools)
    log = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    assert sorted(entry["stage"] for entry in log) == ["decode"] * 3 + ["prefill"] * 3
    again = run_trace_replay(trace, seed=9, router_decisions=folder / "rows.jsonl", **pools)
    for name in ("prefill_worker_idx", "decode_worker_idx", "last_token_ms"):
        assert again.requests[name].tolist() == first.requests[name].tolist()


def test_round_robin_takes_the_workers_of_each_pool_in_turn(cli: Cli, folder: Path, trace: str) -> None:
    pools = ["--num-prefill-workers", "2", "--num-decode-workers", "3", "--report-jsonl", "rows.jsonl"]
    done = cli(trace, "--trace-block-size", "64", "--router-mode", "round_robin", *SPLIT_CLI[2:], *pools)
    assert (done.returncode, done.stderr) == (0, "")
    rows = [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]
    assert [r["prefill_worker_idx"] for r in rows] == [0, 1, 0]
    by_held = sorted(rows, key=lambda r: r["source_held_ms"])
    assert [r["decode_worker_idx"] for r in by_held] == [0, 1, 2]  # in the order in which prompts are done
    assert {(r["prefill_route_overlap_tokens"], r["decode_route_overlap_tokens"]) for r in rows} == {(0, 0)}
    assert rows[2]["reused_input_tokens"] == 128  # it is cached where the first one ran all the same


def test_what_needs_a_router_between_two_pools(cli: Cli) -> None:
    in_turn = [*TINY, "--router-mode", "round_robin", *SPLIT_CLI[2:]]
    assert "router_log: got" in refused(cli(*in_turn, "--router-log", "log.jsonl"))
    prefill = json.dumps({**PREFILL, "router_queue_policy": "lcfs"})
    done = cli(*TINY, "--router-mode", "round_robin", "--prefill-engine-args", prefill, *SPLIT_CLI[4:])
    assert done.returncode == 0
    assert "router_queue_policy has no effect with router_mode round_robin" in done.stderr


def test_requests_that_fit_only_one_pool(folder: Path) -> None:
    trace = write_trace(folder / "t.jsonl", [row(0, 256, 2, [1, 2, 3, 4]), row(0, 64, 2, [5])])
    small = {**DECODE, "num_gpu_blocks": 3}
    with pytest.warns(UserWarning, match="1 of 2 requests can never run"):
        report = run_trace_replay(trace, **{**SPLIT, "decode_engine_args": small})
    assert report.requests["terminal_status"] == ["failed", "completed"]
    prefill = {**PREFILL, "num_gpu_blocks": 3}
    with pytest.warns(UserWarning, match="1 of 2 requests can never run"):
        report = run_trace_replay(trace, **{**SPLIT, "prefill_engine_args": prefill})
    assert report.requests["terminal_status"] == ["rejected", "completed"]


def test_synthetic_sessions() -> None:
    options = {name: value for name, value in SPLIT.items() if name != "trace_block_size"}
    report = run_synthetic_trace_replay(
        300, 10, 6, turns_per_session=3, inter_turn_delay_ms=5, num_prefill_workers=2, num_decode_workers=2, **options
    )
    assert report["completed_requests"] == 18


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([*SPLIT_CLI, "--extra-engine-args", "[]"], "extra_engine_args: got"),
        ([*SPLIT_CLI, "--extra-engine-args", '{"blok_size": 1}'], "extra_engine_args: unknown field"),
        ([*SPLIT_CLI, "--num-workers", "2"], "num_workers: got 2, want num_prefill_workers and num_decode_workers"),
        ([*SPLIT_CLI, "--num-prefill-workers", "0"], "num_prefill_workers: got 0, want an integer from 1"),
        (["--extra-engine-args", json.dumps(PREFILL)], "extra_engine_args: worker_type: got prefill, want aggregated"),
    ],
)
def test_refusals(cli: Cli, arguments: list[str], message: str) -> None:
    assert message in refused(cli(*TINY, *arguments))


@pytest.mark.parametrize(
    ("prefill", "decode", "message"),
    [
        ({"worker_type": "aggregated"}, DECODE, "prefill_engine_args: worker_type: got aggregated, want prefill"),
        (PREFILL, {"worker_type": "prefill"}, "decode_engine_args: worker_type: got prefill, want decode"),
        (PREFILL, {**DECODE, "block_size": 32}, "block_size: got 32, want the same as in prefill_engine_args, 64"),
        (PREFILL, {**DECODE, "engine_type": "sglang"}, "engine_type: got sglang, want the same as in prefill"),
        ({"is_prefill": True}, {**DECODE, "dp_size": 2}, "decode_engine_args: dp_size: got 2, want 1"),
        ({**PREFILL, "kv_transfer_bandwidth": -1}, DECODE, "kv_transfer_bandwidth: got -1, want a finite number >= 0"),
    ],
)
def test_pools_that_do_not_fit(cli: Cli, prefill: dict[str, Any], decode: dict[str, Any], message: str) -> None:
    pools = ["--prefill-engine-args", json.dumps(prefill), "--decode-engine-args", json.dumps(decode)]
    assert message in refused(cli(*TINY, "--router-mode", "kv_router", *pools))


def test_what_decode_workers_do_not_look_at(cli: Cli) -> None:
    decode = json.dumps({**DECODE, "kv_transfer_bandwidth": 64})
    done = cli(*TINY, *SPLIT_CLI[:5], decode)
    assert done.returncode == 0
    assert "decode_engine_args: engine argument kv_transfer_bandwidth has no effect on decode workers" in done.stderr


@pytest.mark.parametrize(
    ("fields", "missing"),
    [
        ({}, "kv_bytes_per_token and kv_transfer_bandwidth (GB/s)"),
        ({"kv_bytes_per_token": 1000}, "kv_transfer_bandwidth (GB/s)"),
        ({"kv_transfer_bandwidth": 64}, "kv_bytes_per_token"),
        ({"kv_transfer_bandwidth": 0}, ""),
        ({"kv_bytes_per_token": 0}, ""),
        (PREFILL, ""),
    ],
)
def test_hand_offs_that_take_no_time_are_said(cli: Cli, folder: Path, fields: dict[str, Any], missing: str) -> None:
    prefill = json.dumps({"worker_type": "prefill", **fields})
    pools = ["--prefill-engine-args", prefill, "--decode-engine-args", json.dumps(DECODE)]
    done = cli(*TINY, *pools, "--router-mode", "round_robin")
    wanted = f"warning: prefill_engine_args: hand-offs of KV take no time without {missing}\n" if missing else ""
    assert (done.returncode, done.stderr) == (0, wanted)
    cost = "1,000,000 bytes of a token, 64 GB/s" if fields is PREFILL else "take no time"
    assert f"\nHand-offs of KV: {cost}\n" in done.stdout


def test_a_sweep_over_topology_says_what_hand_offs_cost(cli: Cli, folder: Path) -> None:
    run = {"input_tokens": 500, "output_tokens": 5, "request_count": 3}
    spec = {"run": run, "search": {"topology": ["agg", "disagg"]}}
    (folder / "spec.json").write_text(json.dumps(spec))
    done = cli("run", "spec.json", "-o", "out", module="dynamo.sweep")
    said = "Durations: built-in polynomial, of no particular GPU\nHand-offs of KV: take no time\n"
    assert said in done.stdout
    assert "<p>Hand-offs of KV: take no time</p>" in (folder / "out/report.html").read_text()
    found = json.loads((folder / "out/report.json").read_text())["points"]
    warned = {point["topology"]: point["warnings"] for point in found}
    assert warned["agg"] == []
    assert "hand-offs of KV take no time without kv_bytes_per_token" in warned["disagg"][0]
