"""TensorRT-LLM engines as users meet them; their passes are tested in Go, whole runs by the recorded cases."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import TINY, Cli, refused, row, write_trace

from dynamo.mocker import MockEngineArgs, TrtllmArgs
from dynamo.replay import run_synthetic_trace_replay, run_trace_replay

POLICY = "guaranteed_no_evict"


def trtllm(**fields: Any) -> MockEngineArgs:
    return MockEngineArgs(engine_type="trtllm", trtllm=TrtllmArgs(POLICY), **fields)


def test_outputs_end_with_the_pool(folder: Path) -> None:
    """The pool holds 32 tokens: the first output is cut to 12, and the second request waits until it is over."""
    rows = [row(0, 20, 40, [1, 2]), row(0, 20, 12, [3, 4]), row(0, 32, 1, [5, 6])]
    trace = write_trace(folder / "t.jsonl", rows)
    cut = "1 of 3 requests ask for more tokens than the KV pool of 2 blocks of 16 .*, and get fewer: .*12 of 40"
    small = trtllm(block_size=16, num_gpu_blocks=2)
    with pytest.warns(UserWarning, match=cut), pytest.warns(UserWarning, match="1 of 3 requests can never run"):
        report = run_trace_replay(trace, extra_engine_args=small, trace_block_size=16)
    columns = report.requests
    assert columns["output_length"].tolist() == [40, 12, 1]
    assert columns["last_token_ms"].tolist()[:2] == pytest.approx([424.92525699999993, 849.8505139999999])
    assert columns["first_admit_ms"].tolist()[:2] == pytest.approx([0, 424.92525699999993])
    assert columns["terminal_status"] == ["completed", "completed", "rejected"]
    assert report["mean_tpot_ms"] == pytest.approx(34.01)  # of the tokens that there are
    assert report["total_output_tokens"] == 52


def test_every_shell_that_vllm_has(folder: Path) -> None:
    """Routers, sessions, closed loops, speculative decoding, the clock."""
    engine = trtllm(num_gpu_blocks=40, speedup_ratio=50)
    common: dict[str, Any] = {"extra_engine_args": engine, "num_workers": 2}
    sessions = {"turns_per_session": 3, "shared_prefix_ratio": 0.5, "num_prefix_groups": 2}
    for options in (
        {"router_mode": "kv_router"},
        {"replay_concurrency": 3},
        {"replay_mode": "online"},
        {"extra_engine_args": engine.with_overrides(aic_nextn=2)},
        {"router_mode": "kv_router", "replay_mode": "online"},
    ):
        report = run_synthetic_trace_replay(300, 20, 8, **{**common, **sessions, **options})
        assert report["completed_requests"] == 24
        assert report["total_output_tokens"] == 24 * 20
    assert report["prefix_cache_reused_ratio"] > 0


def test_no_two_pools(cli: Cli) -> None:
    engine = {"engine_type": "trtllm"}
    pools = ["--prefill-engine-args", json.dumps({**engine, "worker_type": "prefill"})]
    pools += ["--decode-engine-args", json.dumps({**engine, "worker_type": "decode"})]
    problem = "prefill_engine_args: worker_type: got prefill, want aggregated with engine_type trtllm"
    for mode in ("kv_router", "round_robin"):
        assert problem in refused(cli(*TINY, "--router-mode", mode, *pools))


def test_what_has_no_effect(cli: Cli) -> None:
    engine = {"engine_type": "trtllm", "watermark": 0.1, "preemption_mode": "fifo"}
    done = cli(*TINY, "--extra-engine-args", json.dumps(engine))
    assert done.returncode == 0
    assert "engine arguments preemption_mode, watermark have no effect with engine_type trtllm" in done.stderr
    done = cli(*TINY, "--extra-engine-args", json.dumps({"trtllm": {"capacity_scheduler_policy": POLICY}}))
    assert "engine argument trtllm has no effect with engine_type vllm" in done.stderr


def test_policy_has_a_class() -> None:
    assert MockEngineArgs(trtllm=TrtllmArgs(POLICY)) == MockEngineArgs(trtllm={"capacity_scheduler_policy": POLICY})
    assert TrtllmArgs().capacity_scheduler_policy is None
    assert MockEngineArgs.from_json(trtllm().to_json()).trtllm == TrtllmArgs(POLICY)
