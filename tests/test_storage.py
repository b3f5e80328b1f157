"""Storage behind the host memory of workers, through runs and their reports."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import Cli, refused, row, write_trace
from tiertools import BLOCK, one_prompt

from dynamo.replay import run_trace_replay

SCHEDULERS: list[dict[str, Any]] = [{"scheduler": "vllm"}, {"engine_type": "sglang", "scheduler": "sglang"}]
STORAGE = {"storage_blocks": 1000, "storage_read_ms_per_block": 0.05, "storage_write_ms_per_block": 0.05}


def stored(folder: Path, scheduler: dict[str, Any], storage: dict[str, Any], **more: Any) -> Any:
    """A run of four workers, in turn, that all get the same prompts, more than a GPU and its host have room for."""
    tier = {"num_blocks": 150, "load_ms_per_block": 0.1, "store_ms_per_block": 0.1, **storage}
    engine = {**scheduler, "block_size": BLOCK, "num_gpu_blocks": 90, "kv_bytes_per_token": 1000, "host_cache": tier}
    prompts = [[100 * at + block for block in range(61)] for at in range(3)]
    rows = [row(150 * at, 60 * BLOCK + 5, 3, prompts[at % 3]) for at in range(60)]
    trace = write_trace(folder / "stored.jsonl", rows)
    return run_trace_replay(trace, extra_engine_args=engine, trace_block_size=BLOCK, num_workers=4, **more)


@pytest.mark.parametrize("scheduler", SCHEDULERS, ids=["vllm", "sglang"])
def test_workers_read_what_others_wrote(folder: Path, scheduler: dict[str, Any]) -> None:
    alone = stored(folder, scheduler, {})
    assert not [name for name in alone if name.startswith("storage_")]
    report = stored(folder, scheduler, STORAGE, timeline=str(folder / "t.pftrace"), timeseries_step="100ms")
    assert report["prefix_cache_reused_ratio"] > alone["prefix_cache_reused_ratio"] + 0.3
    assert report["mean_ttft_ms"] < alone["mean_ttft_ms"]
    assert report["storage_written_blocks"] == 3 * 60  # each prompt once
    assert report["storage_read_blocks"] >= 60
    assert report["storage_read_ms"] == pytest.approx(0.05 * report["storage_read_blocks"])
    assert report["storage_read_bytes"] == 1000 * BLOCK * report["storage_read_blocks"]
    assert 0 < report["storage_read_busy_ratio"] < 1
    events = (folder / "t.pftrace").read_bytes()
    assert b"writes to storage" in events
    assert b"reads from storage" in events
    again = stored(folder, scheduler, STORAGE)
    assert report.requests["ttft_ms"].tolist() == again.requests["ttft_ms"].tolist()


@pytest.mark.parametrize("scheduler", SCHEDULERS, ids=["vllm", "sglang"])
def test_routers_count_what_the_storage_has(folder: Path, scheduler: dict[str, Any]) -> None:
    """One prompt comes again and again: to the worker that has it or, if the storage counts as much, to both."""
    hot, both = one_prompt(folder, scheduler, **STORAGE)
    assert len(set(hot.requests["decode_worker_idx"].tolist())) == 1
    assert hot["storage_read_blocks"] == 0
    assert set(both.requests["decode_worker_idx"].tolist()) == {0, 1}
    assert both["storage_read_blocks"] == both["host_loaded_blocks"] == 40
    assert both["storage_written_blocks"] == hot["storage_written_blocks"] == 40


@pytest.mark.parametrize("scheduler", SCHEDULERS, ids=["vllm", "sglang"])
def test_prompts_wait_for_their_reads_or_not(folder: Path, scheduler: dict[str, Any]) -> None:
    def found(policy: str, **more: float) -> Any:
        return stored(folder, scheduler, {**STORAGE, "storage_prefetch_policy": policy, **more})

    hasty, patient = found("best_effort"), found("wait_complete")
    assert hasty["storage_read_blocks"] < patient["storage_read_blocks"]
    short = found("timeout", storage_prefetch_timeout_base=0.0015, storage_prefetch_timeout_per_ki_token=0)
    assert hasty["storage_read_blocks"] < short["storage_read_blocks"] < patient["storage_read_blocks"]
    whole = found("timeout")
    assert whole.requests["ttft_ms"].tolist() == patient.requests["ttft_ms"].tolist()
    none = found("wait_complete", storage_prefetch_threshold=2000)
    assert none["storage_read_blocks"] == 0


@pytest.mark.parametrize("scheduler", SCHEDULERS, ids=["vllm", "sglang"])
def test_all_workers_share_the_bandwidth(folder: Path, scheduler: dict[str, Any]) -> None:
    wide, narrow = (
        stored(folder, scheduler, {**STORAGE, "storage_shared_ms_per_block": shared}) for shared in (0, 0.5)
    )
    assert narrow["storage_read_ms"] > wide["storage_read_ms"]


def test_gb_are_blocks(folder: Path) -> None:
    """A block has 16,000 bytes: 0.05 ms for one are 0.32 GB/s."""
    in_bytes = {"storage_gb": 0.016, "storage_read_gbps": 0.32, "storage_write_gbps": 0.32}
    one, other = (stored(folder, SCHEDULERS[1], storage) for storage in (STORAGE, in_bytes))
    assert one.requests["ttft_ms"].tolist() == other.requests["ttft_ms"].tolist()


@pytest.mark.parametrize(
    ("tier", "want"),
    [
        ({"storage_latency_ms": 1}, "host_cache.storage_latency_ms: got 1, want storage_blocks or storage_gb"),
        ({**STORAGE, "storage_gb": 1}, "host_cache.storage_gb: got 1, want it left out, as storage_blocks is"),
        (
            {**STORAGE, "storage_prefetch_policy": "wait_complete", "storage_prefetch_timeout_max": 3},
            "host_cache.storage_prefetch_timeout_max: got 3, want it left out, or storage_prefetch_policy timeout",
        ),
        ({**STORAGE, "storage_prefetch_policy": "eager"}, "host_cache.storage_prefetch_policy"),
        ({"storage_gb": 1}, "kv_bytes_per_token: got nothing"),
    ],
)  # fmt: skip
def test_refused(folder: Path, cli: Cli, tier: dict[str, Any], want: str) -> None:
    trace = write_trace(folder / "trace.jsonl", [row(0, 20, 2, [1, 2])])
    sized = {} if tier == {"storage_gb": 1} else {"kv_bytes_per_token": 1000}
    args = json.dumps({**SCHEDULERS[1], **sized, "host_cache": {"num_blocks": 50, **tier}})
    assert want in refused(cli(trace, "--trace-block-size", "16", "--extra-engine-args", args))


def test_the_line_below_the_table(folder: Path, cli: Cli) -> None:
    trace = write_trace(folder / "trace.jsonl", [row(0, 20, 2, [1, 2])])
    args = json.dumps({**SCHEDULERS[1], "block_size": BLOCK, "host_cache": {"num_blocks": 50, **STORAGE}})
    done = cli(trace, "--trace-block-size", "16", "--extra-engine-args", args)
    assert done.returncode == 0, done.stderr
    assert "Storage: 1 blocks written (busy " in done.stdout
