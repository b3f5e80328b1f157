"""Data-parallel ranks that run their passes together (docs/ranks.md)."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dynamo.replay import run_synthetic_trace_replay, run_trace_replay
from dynamo.replay.main import main
from dynamo.replay.page import data

# Two ranks take requests in turn and compute prompts in every fourth pass; the times are those of vLLM's schedulers.
ROWS = [(0, 32, 8, [1, 2]), (5, 32, 3, [3, 4]), (30, 64, 2, [5, 6, 7, 8]), (200, 64, 2, [11, 12, 13, 14])]
ENGINE = {
    "scheduler": "vllm-0.28",
    "async_scheduling": False,
    "dp_size": 2,
    "dp_routing": "round_robin",
    "prefill_schedule_interval": 4,
    "block_size": 16,
    "num_gpu_blocks": 64,
    "max_num_seqs": 8,
}


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "trace.jsonl"
    keys = ("timestamp", "input_length", "output_length", "hash_ids")
    path.write_text("".join(json.dumps(dict(zip(keys, row, strict=True))) + "\n" for row in ROWS))
    return path


def test_common_passes(trace: Path, tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    arguments = [str(trace), "--trace-block-size", "16", "--extra-engine-args", json.dumps(ENGINE)]
    assert main([*arguments, "--report-jsonl", str(rows), "--report-json", str(tmp_path / "report.json")]) == 0
    found = [json.loads(line) for line in rows.read_text().splitlines()]
    assert [row["dp_rank"] for row in found] == [0, 1, 0, 1]
    assert [row["first_token_ms"] for row in found] == pytest.approx([24.390397, 48.780794, 94.02542, 226.489963])
    assert [row["last_token_ms"] for row in found] == pytest.approx([122.544805, 65.211116, 106.114483, 236.29239])


def test_column_in_python(trace: Path) -> None:
    report = run_trace_replay(str(trace), trace_block_size=16, extra_engine_args=ENGINE)
    assert list(report.requests["dp_rank"]) == [0, 1, 0, 1]


def test_time_lost_to_the_slowest_rank(trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Report, series and explanation agree, and a run without ranks has none of it."""
    report = run_trace_replay(str(trace), trace_block_size=16, extra_engine_args=ENGINE, timeseries_step="50ms")
    passes, waited = report["rank_pass_ms"], report["rank_wait_ms"]
    assert 0 < waited < passes
    assert report["rank_wait_share"] == waited / passes
    series = report.timeseries
    busy = 50 * np.nan_to_num(series["busy"])
    busy[-2:] *= (report["duration_ms"] % 50) / 50  # the last window is shorter
    for place in (-1, 0):  # the cluster and its only worker
        rows = series["worker"] == place
        assert 2 * busy[rows].sum() == pytest.approx(passes)
        assert 2 * (busy[rows] * np.nan_to_num(series["rank_wait"][rows])).sum() == pytest.approx(waited)
    arguments = [str(trace), "--trace-block-size", "16", "--report-json", str(tmp_path / "report.json"), "--explain"]
    assert main([*arguments, "--extra-engine-args", json.dumps(ENGINE)]) == 0
    share = f"{waited / passes:.1%} of their time in passes"
    assert f"Ranks waited for the slowest {share}: {waited:,.0f} of {passes:,.0f} ms" in capsys.readouterr().out
    assert main(arguments) == 0
    assert "Ranks waited" not in capsys.readouterr().out
    alone = run_trace_replay(str(trace), trace_block_size=16, timeseries_step="50ms")
    assert not [key for key in (*alone, *alone.timeseries) if key.startswith("rank_")]


def test_one_busy_rank_of_four_waits_for_none() -> None:
    """One request at a time keeps one rank busy, and the three others wait for it. With four alike none waits."""
    engine = {"scheduler": "vllm-0.28", "async_scheduling": False, "dp_size": 4, "dp_routing": "round_robin"}
    alone = run_synthetic_trace_replay(64, 5, 8, replay_concurrency=1, extra_engine_args=engine)
    assert alone["rank_wait_share"] == pytest.approx(0.75)
    together = run_synthetic_trace_replay(64, 5, 4, arrival_interval_ms=0, extra_engine_args=engine)
    assert together["rank_wait_share"] == pytest.approx(0)
    # The same with passes run one by one, on the clock, and by two workers.
    online = run_synthetic_trace_replay(64, 5, 4, replay_concurrency=1, extra_engine_args=engine, replay_mode="online")
    assert online["rank_wait_share"] == pytest.approx(0.75)
    both = run_synthetic_trace_replay(64, 5, 8, num_workers=2, arrival_interval_ms=0, extra_engine_args=engine)
    assert both["rank_pass_ms"] == pytest.approx(2 * together["rank_pass_ms"])


def test_the_page_draws_it(trace: Path) -> None:
    shown = {"attribution": True, "timeseries_step": "50ms"}
    report = run_trace_replay(str(trace), trace_block_size=16, extra_engine_args=ENGINE, **shown)
    figures = {figure["name"]: figure for figure in data.of(report)["series"]["figures"]}
    assert figures["rank_wait"]["title"].startswith("ranks waiting for the slowest")
    assert len(figures["rank_wait"]["workers"]) == 1


def test_other_rules_refuse_ranks(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(trace), "--trace-block-size", "16", "--extra-engine-args", '{"dp_size": 2}']) == 2
    assert "dp_size: got 2, want 1 in offline replay, or scheduler vllm or sglang with it" in capsys.readouterr().err


def test_sglang_ranks_wait_for_the_slowest(trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Rows 0 and 1 decode on their ranks while the other one computes; the ranks share the chunk."""
    engine = {
        "engine_type": "sglang",
        "scheduler": "sglang",
        "dp_size": 2,
        "block_size": 16,
        "num_gpu_blocks": 64,
        "sglang": {"overlap_schedule": False, "chunked_prefill_size": 64},
    }
    arguments = [str(trace), "--trace-block-size", "16", "--report-json", str(tmp_path / "report.json")]
    rows = tmp_path / "rows.jsonl"
    assert main([*arguments, "--extra-engine-args", json.dumps(engine), "--report-jsonl", str(rows), "--explain"]) == 0
    report = json.loads((tmp_path / "report.json").read_text())
    assert 0 < report["rank_wait_share"] < 1
    assert "Ranks waited for the slowest" in capsys.readouterr().out
    found = [json.loads(line) for line in rows.read_text().splitlines()]
    assert [row["dp_rank"] for row in found] == [0, 1, 0, 1]
    # Rank 0 computes 32 tokens alone. Rank 1 does so while rank 0 decodes, and both get their tokens at its end.
    prefill = 4.209989e-07 * 32**2 + 1.518344e-02 * 32 + 16.50142
    assert [row["first_token_ms"] for row in found[:2]] == pytest.approx([prefill, 2 * prefill], abs=1e-3)
    # Row 3 has both halves of its prompt, of 32 tokens each, in two batches of its own.
    assert found[3]["first_token_ms"] == pytest.approx(200 + 2 * prefill, abs=1e-3)

    small = {**engine, "sglang": {"chunked_prefill_size": 16}}
    assert main([*arguments, "--extra-engine-args", json.dumps(small)]) == 2
    want = "sglang.chunked_prefill_size: got 16, want at least dp_size times block_size, 32: the ranks share it"
    assert want in capsys.readouterr().err


# The router chooses the rank (dp_routing "router").

VLLM = {"scheduler": "vllm", "async_scheduling": False, "block_size": 64, "num_gpu_blocks": 512, "max_num_seqs": 16}
BY_RANK = {**VLLM, "dp_size": 3, "dp_routing": "router"}
SHARED = {"input_tokens": 640, "output_tokens": 20, "shared_prefix_ratio": 0.8, "num_prefix_groups": 4}
KV = {"router_mode": "kv_router", "router_config": {"router_seed": 1}}
POOLS = {
    "prefill_engine_args": {**BY_RANK, "worker_type": "prefill", "kv_transfer_ms_per_block": 0.1},
    "decode_engine_args": {**BY_RANK, "worker_type": "decode"},
}


def by_rank(**options: Any) -> Any:
    return run_synthetic_trace_replay(**{**SHARED, "request_count": 60, "arrival_interval_ms": 9.0, **KV, **options})


@pytest.mark.parametrize(
    ("run", "targets"),
    [
        ({"extra_engine_args": BY_RANK, "num_workers": 1}, {"aggregated": 3}),
        ({"extra_engine_args": BY_RANK, "num_workers": 2}, {"aggregated": 6}),
        ({**POOLS, "num_prefill_workers": 2, "num_decode_workers": 1}, {"prefill": 6, "decode": 3}),
    ],
    ids=["one", "two", "pools"],
)
def test_decisions_name_ranks(tmp_path: Path, run: dict[str, Any], targets: dict[str, int]) -> None:
    """The log says which rank was chosen, rows that it computed the request, and the decisions can be repeated."""
    log, rows = tmp_path / "log.jsonl", tmp_path / "rows.jsonl"
    first = by_rank(**run, router_log=log, report_jsonl_path=rows)
    worker = {"aggregated": "decode_worker_idx", "prefill": "prefill_worker_idx", "decode": "decode_worker_idx"}
    rank = {"aggregated": "dp_rank", "prefill": "prefill_dp_rank", "decode": "dp_rank"}
    found = [json.loads(line) for line in rows.read_text().splitlines()]
    decisions = [json.loads(line) for line in log.read_text().splitlines()]
    assert len(decisions) == 60 * len(targets)
    for decision in decisions:
        stage = decision["stage"]
        row = found[decision["trace_row"]]
        assert (decision["chosen"], decision["chosen_dp_rank"]) == (row[worker[stage]], row[rank[stage]])
        candidates = [(each["worker"], each["dp_rank"]) for each in decision["candidates"]]
        assert candidates == [divmod(target, 3) for target in range(targets[stage])]
    assert len({row["dp_rank"] for row in found}) == 3
    again = by_rank(**run, router_config={"router_seed": 7}, router_decisions=rows)
    for name in ("dp_rank", "reused_input_tokens", "last_token_ms"):
        assert again.requests[name].tolist() == first.requests[name].tolist()


def test_the_router_knows_what_ranks_have_cached() -> None:
    """Where a router chooses workers only, another rank may get a prompt than the one that has it cached."""
    found = {}
    for routing in ("round_robin", "vllm", "router"):
        report = by_rank(extra_engine_args={**BY_RANK, "dp_routing": routing}, num_workers=2)
        found[routing] = report["prefix_cache_reused_ratio"]
    assert found["router"] > found["vllm"] + 0.05
    assert found["router"] > found["round_robin"] + 0.05


@pytest.mark.parametrize(
    "mode", ["round_robin", "random", "least_requests", "power_of_two", "sglang_cache_aware", "endpoint_picker"]
)
def test_every_mode_chooses_ranks(mode: str) -> None:
    """To the others, too, each rank is a worker: one worker of three ranks is one of which each gets some."""
    report = by_rank(extra_engine_args=BY_RANK, num_workers=1, router_mode=mode, router_config=None)
    ranks = report.requests["dp_rank"].tolist()
    assert report["completed_requests"] == 60
    assert {ranks.count(rank) for rank in range(3)} == {20} if mode == "round_robin" else len(set(ranks)) == 3


def test_one_rank_is_the_worker() -> None:
    plain = by_rank(extra_engine_args=VLLM, num_workers=3)
    one = by_rank(extra_engine_args={**VLLM, "dp_size": 1, "dp_routing": "router"}, num_workers=3)
    for name in ("decode_worker_idx", "reused_input_tokens", "first_token_ms", "last_token_ms"):
        assert one.requests[name].tolist() == plain.requests[name].tolist()


@pytest.mark.parametrize("run", [{"extra_engine_args": BY_RANK, "num_workers": 2}, POOLS], ids=["one pool", "two"])
def test_workers_come_and_go(run: dict[str, Any]) -> None:
    """A worker is lost with the caches of all its ranks, an autoscaler adds some, and every request ends."""
    target = "worker:0" if "extra_engine_args" in run else "prefill:0"
    lost = {"kind": "crash", "at_ms": 200, "target": target, "duration_ms": 100}
    report = by_rank(**run, faults=[lost], migration_limit=3)
    assert report["completed_requests"] == 60
    assert report["fault_events"][0]["lost_attempts"] > 0
    if "extra_engine_args" in run:
        scaled = by_rank(**run, autoscaler={"policy": "keda", "target": 2, "min": 1, "max": 4})
        assert scaled["completed_requests"] == 60


def test_a_single_rank_needs_no_router(capsys: pytest.CaptureFixture[str]) -> None:
    synthetic = ["--input-tokens", "64", "--output-tokens", "2", "--request-count", "2", "--router-mode", "kv_router"]
    engine = json.dumps({"scheduler": "vllm", "dp_routing": "router"})
    assert main([*synthetic, "--extra-engine-args", engine]) == 2
    assert "num_workers: got 1, want at least 2 with router_mode kv_router" in capsys.readouterr().err
