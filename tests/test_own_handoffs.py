"""Hand-offs by vLLM's own rules (docs/agreement.md) as users meet them; recorded runs are compared in gocore/truth."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import TINY, Cli, refused, row, write_trace

from dynamo.replay import run_trace_replay

SMALL = {"scheduler": "vllm", "block_size": 16, "num_gpu_blocks": 8, "max_num_seqs": 8}
PREFILL = {**SMALL, "worker_type": "prefill", "kv_transfer_ms_per_block": 10}
DECODE = {**SMALL, "worker_type": "decode"}
# The times of vLLM's schedulers: the second transfer waits for the first, the third prompt for blocks on both sides.
WANT = {
    "prefill_admit_ms": [0, 17.474885, 57.474885],
    "source_held_ms": [17.474885, 34.94977, 74.94977],
    "destination_reserved_ms": [17.474885, 34.94977, 199.412474],
    "destination_activated_ms": [57.474885, 97.474885, 239.412474],
    "source_released_ms": [57.474885, 97.474885, 239.412474],
    "decode_admit_ms": [57.474885, 97.474885, 239.412474],
    "first_token_ms": [91.484885, 123.784885, 265.722474],
    "last_token_ms": [199.412474, 153.226448, 295.164037],
}


@pytest.fixture
def trace(folder: Path) -> str:
    prompts = [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12]]
    return write_trace(folder / "t.jsonl", [row(i, 64, 2, ids) for i, ids in enumerate(prompts)])


def replay(trace: str, prefill: dict[str, Any], **more: Any) -> Any:
    options = {"router_mode": "round_robin", "trace_block_size": 16, "decode_engine_args": DECODE, **more}
    return run_trace_replay(trace, prefill_engine_args=prefill, **options)


@pytest.mark.parametrize("router", ["round_robin", "kv_router"])
@pytest.mark.parametrize("scheduler", ["vllm-0.28", "vllm-0.33"])
def test_times_of_every_step(trace: str, scheduler: str, router: str) -> None:
    own = {"scheduler": scheduler}
    columns = replay(trace, PREFILL | own, decode_engine_args=DECODE | own, router_mode=router).requests
    for name, want in WANT.items():
        assert columns[name].tolist() == pytest.approx(want), name


def test_the_same_by_bytes_and_bandwidth(trace: str) -> None:
    bytes_and_bandwidth = {"kv_bytes_per_token": 1_000_000, "kv_transfer_bandwidth": 1.6}
    prefill = {name: value for name, value in PREFILL.items() if name != "kv_transfer_ms_per_block"}
    columns = replay(trace, prefill | bytes_and_bandwidth).requests
    assert columns["last_token_ms"].tolist() == pytest.approx(WANT["last_token_ms"])


def test_transfers_side_by_side(trace: str) -> None:
    columns = replay(trace, {**PREFILL, "kv_transfer_lanes": "unlimited"}).requests
    assert columns["destination_activated_ms"][1] == pytest.approx(34.94977 + 40)


def test_parts_of_latencies(cli: Cli, trace: str) -> None:
    pools = ["--prefill-engine-args", json.dumps(PREFILL), "--decode-engine-args", json.dumps(DECODE)]
    outputs = ["--explain", "--report-jsonl", "rows.jsonl", "--timeline", "t.pftrace", "--timeseries", "series.csv"]
    done = cli(trace, "--trace-block-size", "16", "--router-mode", "round_robin", *pools, *outputs)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in Path("rows.jsonl").read_text().splitlines()]
    # The third prompt is there at 74.94977, is asked for when the first request has ended, and takes 40 ms.
    assert rows[2]["ttft_kv_wait_ms"] == pytest.approx(199.412474 - 74.94977)
    assert rows[2]["ttft_kv_transfer_ms"] == pytest.approx(40)
    assert rows[1]["ttft_kv_transfer_ms"] == pytest.approx(97.474885 - 34.94977)  # with the wait for the link
    assert rows[0]["e2e_preempted_ms"] > 0


def test_pools_that_grow(trace: str) -> None:
    report = replay(trace, PREFILL, autoscaler={"policy": "hpa", "target": 1, "max": 3})
    assert report["completed_requests"] == 3


@pytest.mark.parametrize(
    ("prefill", "decode", "message"),
    [
        (
            PREFILL,
            {**DECODE, "scheduler": "dynamo"},
            "scheduler: got dynamo, want the same as in prefill_engine_args, vllm-0.33",
        ),
        (
            PREFILL,
            {**DECODE, "scheduler": "vllm-0.28"},
            "scheduler: got vllm-0.28, want the same as in prefill_engine_args",
        ),
        (
            {**PREFILL, "async_scheduling": True},
            DECODE,
            "async_scheduling: got true, want false, or it left out, on prefill workers",
        ),
        (PREFILL, {**DECODE, "dp_size": 2}, "dp_size: got 2, want 1 on decode workers with scheduler vllm"),
        (
            {**PREFILL, "kv_transfer_bandwidth": 64},
            DECODE,
            "kv_transfer_ms_per_block: got 10, want it left out with kv_transfer_bandwidth",
        ),
        (
            {"worker_type": "prefill", "engine_type": "sglang", "scheduler": "sglang"},
            {"worker_type": "decode", "engine_type": "sglang", "scheduler": "sglang"},
            "hand-offs by sglang's own rules are not proven",
        ),
    ],
)
def test_refused(cli: Cli, prefill: dict[str, Any], decode: dict[str, Any], message: str) -> None:
    pools = ["--prefill-engine-args", json.dumps(prefill), "--decode-engine-args", json.dumps(decode)]
    assert message in refused(cli(*TINY, "--router-mode", "round_robin", *pools))


def test_faults_are_refused(cli: Cli, folder: Path) -> None:
    (folder / "faults.jsonl").write_text('{"at_s": 1, "kind": "crash", "worker": "decode:0"}\n')
    pools = ["--prefill-engine-args", json.dumps(PREFILL), "--decode-engine-args", json.dumps(DECODE)]
    for option in (["--faults", "faults.jsonl"], ["--client-timeout-ms", "500"]):
        message = refused(cli(*TINY, "--router-mode", "round_robin", *pools, *option))
        assert "scheduler: got vllm-0.33, want dynamo with " in message
        assert "and two pools" in message


def test_live_workers_are_refused(cli: Cli) -> None:
    own = ["--disaggregation-mode", "prefill", "--extra-engine-args", '{"scheduler": "vllm"}']
    message = refused(cli(*own, module="dynamo.mocker"))
    assert "scheduler" in message
    assert "hand-offs of live workers" in message
