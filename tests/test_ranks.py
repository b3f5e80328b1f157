"""Data-parallel ranks that run their passes together (docs/ranks.md)."""

import json
from pathlib import Path

import pytest

from dynamo.replay import run_trace_replay
from dynamo.replay.main import main

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


def test_other_rules_refuse_ranks(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(trace), "--trace-block-size", "16", "--extra-engine-args", '{"dp_size": 2}']) == 2
    assert "dp_size: got 2, want 1 in offline replay, or scheduler vllm with it" in capsys.readouterr().err
