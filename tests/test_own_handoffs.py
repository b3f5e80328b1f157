"""Hand-offs by the engines' own rules (docs/agreement.md) as users meet them; recorded runs are compared in
gocore/truth. Of SGLang's, the rules of the decode side as a program are compared here."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import TINY, Cli, refused, row, write_trace

from dynamo.replay import run_trace_replay

SMALL = {"scheduler": "vllm", "block_size": 16, "num_gpu_blocks": 8, "max_num_seqs": 8}
PREFILL = {**SMALL, "worker_type": "prefill", "kv_transfer_ms_per_block": 10}
DECODE = {**SMALL, "worker_type": "decode"}
SGLANG = {"engine_type": "sglang", "scheduler": "sglang", "block_size": 16, "num_gpu_blocks": 200}
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
            PREFILL,
            {**DECODE, "prefill_schedule_interval": 2},
            "prefill_schedule_interval: got 2, want 1 on decode workers with scheduler vllm",
        ),
        (
            {**PREFILL, "kv_transfer_bandwidth": 64},
            DECODE,
            "kv_transfer_ms_per_block: got 10, want it left out with kv_transfer_bandwidth",
        ),
        (
            {**SGLANG, "worker_type": "prefill"},
            {**SGLANG, "worker_type": "decode", "sglang": {"enable_mixed_chunk": True}},
            "sglang.enable_mixed_chunk: got true, want false on decode workers with scheduler sglang",
        ),
        (
            {**SGLANG, "worker_type": "prefill", "dp_size": 2},
            {**SGLANG, "worker_type": "decode"},
            "dp_size: got 2, want 1 on prefill workers with scheduler sglang",
        ),
    ],
)
def test_refused(cli: Cli, prefill: dict[str, Any], decode: dict[str, Any], message: str) -> None:
    pools = ["--prefill-engine-args", json.dumps(prefill), "--decode-engine-args", json.dumps(decode)]
    assert message in refused(cli(*TINY, "--router-mode", "round_robin", *pools))


def test_asynchronous_passes(folder: Path) -> None:
    """A pass is composed when the one before it starts: a load that ends while others decode is noticed later."""
    long = write_trace(folder / "long.jsonl", [row(0, 64, 40, [1, 2, 3, 4]), row(60, 64, 40, [5, 6, 7, 8])])
    ample = {"num_gpu_blocks": 64}
    ahead = {**ample, "async_scheduling": True}
    plain = replay(long, PREFILL | ample, decode_engine_args=DECODE | ample).requests
    columns = replay(long, PREFILL | ahead, decode_engine_args=DECODE | ahead).requests
    assert columns["first_token_ms"][0] == plain["first_token_ms"][0]  # alone: nothing is composed ahead of it
    assert columns["destination_activated_ms"][1] > plain["destination_activated_ms"][1] - 20
    assert columns["first_token_ms"][1] > plain["first_token_ms"][1] + 5


def test_ranks_of_both_pools(trace: str) -> None:
    """Each rank has a pool and a link of its own, so no prompt waits for another one; passes are common."""
    ranks = {"dp_size": 2, "dp_routing": "round_robin"}
    report = replay(trace, PREFILL | ranks, decode_engine_args=DECODE | ranks)
    columns = report.requests
    assert columns["prefill_dp_rank"].tolist() == [0, 1, 0]
    assert columns["dp_rank"].tolist() == [0, 0, 1]  # in the order of the ranks that end a pass together
    assert columns["source_held_ms"][:2].tolist() == pytest.approx([17.474885, 34.94977])
    assert columns["destination_activated_ms"][:2].tolist() == pytest.approx([57.474885, 74.94977])
    assert 0 < report["rank_wait_share"] < 1


def test_a_lost_prefill_worker_takes_its_prompts_along(trace: str) -> None:
    """At 40 ms the first prompt is on its way, and so lost with its worker; the other one computes it again."""
    crash = [{"kind": "crash", "at_ms": 40, "target": "prefill:0"}]
    report = replay(trace, PREFILL, num_prefill_workers=2, faults=crash, migration_limit=1)
    columns = report.requests
    assert report["completed_requests"] == 3
    assert report["migrated_requests"] == 2  # those of worker 0: the first and the third
    assert columns["prefill_worker_idx"].tolist() == [1, 1, 1]
    assert columns["source_held_ms"][0] > 40
    alone = replay(trace, PREFILL, num_prefill_workers=2, faults=crash)
    assert alone["failed_requests"] == 2


def test_a_lost_decode_worker_leaves_a_lease_behind(folder: Path) -> None:
    """The KV of a prompt that was never read is kept for 30 s, and its worker has no room for another one."""
    rows = [row(0, 112, 2, [1, 2, 3, 4, 5, 6, 7]), row(100, 112, 2, [11, 12, 13, 14, 15, 16, 17])]
    long = write_trace(folder / "long.jsonl", rows)
    crash = [{"kind": "crash", "at_ms": 30, "target": "decode:0"}]
    report = replay(long, PREFILL, num_decode_workers=2, faults=crash, migration_limit=1)
    columns = report.requests
    assert report["completed_requests"] == 2
    assert columns["prefill_admit_ms"].max() > 30_000
    assert replay(long, PREFILL, num_decode_workers=2).requests["prefill_admit_ms"].max() < 200


def test_slow_links(trace: str) -> None:
    slow = [{"kind": "link_slow", "at_ms": 0, "factor": 2, "duration_ms": 57.474885}]
    columns = replay(trace, PREFILL, faults=slow).requests
    # Half of the first transfer is over when the link is as fast as before; the second one waits for the first.
    assert columns["destination_activated_ms"][:2].tolist() == pytest.approx([77.474885, 117.474885])
    down = [{"kind": "link_down", "at_ms": 20, "duration_ms": 100}]
    columns = replay(trace, PREFILL, faults=down).requests
    assert columns["destination_activated_ms"][0] == pytest.approx(57.474885 + 100)


def test_live_workers_are_refused(cli: Cli) -> None:
    own = ["--disaggregation-mode", "prefill", "--extra-engine-args", '{"scheduler": "vllm"}']
    message = refused(cli(*own, module="dynamo.mocker"))
    assert "scheduler" in message
    assert "hand-offs of live workers" in message


def sglang_pools(**decode: Any) -> dict[str, Any]:
    nested = {"overlap_schedule": False, "num_reserved_decode_tokens": 0, **decode.pop("sglang", {})}
    prefill = {**SGLANG, "worker_type": "prefill", "kv_transfer_ms_per_block": 10, "sglang": nested}
    return {"prefill": prefill, "decode_engine_args": {**SGLANG, "worker_type": "decode", "sglang": nested, **decode}}


@pytest.mark.parametrize("router", ["round_robin", "kv_router"])
def test_sglang_takes_room_first(trace: str, router: str) -> None:
    """There is room for all three when they come, and the first token comes with the KV."""
    columns = replay(trace, **sglang_pools(), router_mode=router).requests
    assert columns["destination_reserved_ms"].tolist() == [0, 1, 2]
    assert columns["prefill_admit_ms"].tolist() == pytest.approx([0, 17.474885, 17.474885])
    assert columns["source_held_ms"].tolist() == pytest.approx([17.474885, 35.926683, 35.926683])
    # The links are one: 40 ms for each prompt, one after the other.
    activated = [57.474885, 97.474885, 137.474885]
    assert columns["destination_activated_ms"].tolist() == pytest.approx(activated)
    assert columns["first_token_ms"][0] == columns["decode_admit_ms"][0] == pytest.approx(activated[0])
    assert (columns["source_released_ms"] >= columns["destination_activated_ms"]).all()


def test_sglang_prompts_wait_for_room(cli: Cli, trace: str) -> None:
    """The pool of the decode worker has room for one of them, and no prompt is computed before there is some for it."""
    pools = sglang_pools(num_gpu_blocks=6)
    columns = replay(trace, **pools).requests
    assert columns["destination_reserved_ms"][1] == columns["last_token_ms"][0]
    assert columns["prefill_admit_ms"][1] >= columns["destination_reserved_ms"][1]
    options = ["--prefill-engine-args", json.dumps(pools["prefill"])]
    options += ["--decode-engine-args", json.dumps(pools["decode_engine_args"]), "--router-mode", "round_robin"]
    outputs = ["--explain", "--report-jsonl", "rows.jsonl", "--timeline", "t.pftrace", "--timeseries", "series.csv"]
    done = cli(trace, "--trace-block-size", "16", *options, *outputs)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in Path("rows.jsonl").read_text().splitlines()]
    assert rows[1]["ttft_kv_wait_ms"] == pytest.approx(columns["last_token_ms"][0] - 1)
    assert rows[1]["ttft_kv_transfer_ms"] == pytest.approx(40)


def test_sglang_keeps_room_free(trace: str) -> None:
    """With 512 tokens for each request, which are 32 blocks, two requests do not fit where three did."""
    ample = sglang_pools(num_gpu_blocks=70)
    assert replay(trace, **ample).requests["destination_reserved_ms"].tolist() == [0, 1, 2]
    kept = sglang_pools(num_gpu_blocks=70, sglang={"num_reserved_decode_tokens": 512})
    columns = replay(trace, **kept).requests
    assert columns["destination_reserved_ms"][1] == columns["last_token_ms"][0]


def test_sglang_pools_grow_and_refuse_faults(folder: Path, trace: str) -> None:
    pools = sglang_pools()
    report = replay(trace, **pools, autoscaler={"policy": "hpa", "target": 1, "max": 3})
    assert report["completed_requests"] == 3
    crash = [{"kind": "crash", "at_ms": 40, "target": "prefill:0"}]
    with pytest.raises(ValueError, match=r"faults: .*want it left out with scheduler sglang on prefill and decode"):
        replay(trace, **pools, faults=crash)
    with pytest.raises(ValueError, match="client_timeout_ms: got 500"):
        replay(trace, **pools, client_timeout_ms=500)


TRUTH = Path(__file__).parent / "truth"


def check_rules(results: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(TRUTH / "sglang_handoff_rules.py"), str(results)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_rules_of_sglang_decode_workers() -> None:
    """They do what SGLang's own decode workers did in 44 recorded runs, to the last batch and token."""
    done = check_rules(TRUTH / "sglang-handoff.jsonl.gz")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("44 cases, ")
    assert done.stdout.endswith(": no difference\n")


def test_rules_of_sglang_decode_workers_tell_apart(tmp_path: Path) -> None:
    """A request that was given its pages later than the rules say is found."""
    with gzip.open(TRUTH / "sglang-handoff.jsonl.gz", "rt") as lines:
        case = json.loads(next(lines))
    case["requests"][0]["allocated"] += 1
    results = tmp_path / "results.jsonl"
    results.write_text(json.dumps(case) + "\n")
    done = check_rules(results)
    assert done.returncode == 1
    assert "request 0: SGLang and the rules" in done.stdout
