"""Hybrid KV caches as users meet them; their passes are tested in Go. The figures are those of docs/hybrid.md."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dynamo.replay import models, run_synthetic_trace_replay, run_trace_replay
from dynamo.replay.summary import closing_lines

TRACE = Path(__file__).parent.parent / "examples/traces/conversation_400.jsonl.gz"
GEMMA = [{"type": "full"}, *[{"type": "sliding_window", "window": 1024}] * 6]


def test_the_three_answers() -> None:
    mean_ttft_s = {}
    for name, blocks, groups in (("groups", 21000, GEMMA), ("logged", 3000, None), ("all", 21000, None)):
        engine = {"scheduler": "vllm", "block_size": 16, "num_gpu_blocks": blocks, "kv_cache_groups": groups}
        if name == "logged":
            with pytest.warns(UserWarning, match="can never run"):
                report = run_trace_replay(TRACE, num_workers=4, extra_engine_args=engine)
        else:
            report = run_trace_replay(TRACE, num_workers=4, extra_engine_args=engine)
        mean_ttft_s[name] = round(report["mean_ttft_ms"] / 1000, 1)
    assert mean_ttft_s == {"groups": 3.2, "logged": 97.9, "all": 0.7}
    page = (TRACE.parent.parent.parent / "docs/hybrid.md").read_text()
    assert all(f" {seconds} s " in page for seconds in mean_ttft_s.values())


def test_a_model_is_enough() -> None:
    report = run_synthetic_trace_replay(3000, 20, 4, model="gpt-oss-120b")
    (cache,) = report["provenance"]["kv_caches"]
    page = (TRACE.parent.parent.parent / "docs/hybrid.md").read_text()
    line = next(line for line in closing_lines(report) if line.startswith("GPU KV cache size"))
    assert line.partition(" ...")[0].partition(" in ")[0] in page
    assert (cache["groups"], cache["block_size"], cache["gpus"]) == (2, 16, 1)
    again = run_synthetic_trace_replay(**report["provenance"]["arguments"])
    assert again["provenance"]["kv_caches"] == [cache]
    assert again["mean_ttft_ms"] == report["mean_ttft_ms"]


def test_a_config_json_is_read_and_part_of_the_inputs(tmp_path: Path) -> None:
    shape = {"num_hidden_layers": 7, "num_key_value_heads": 4, "head_dim": 64, "max_position_embeddings": 4096}
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "gemma3_text", "sliding_window": 512, **shape}))
    engine = {"model_config": str(tmp_path), "kv_cache_memory_bytes": 1 << 30}
    report = run_synthetic_trace_replay(300, 20, 4, extra_engine_args=engine)
    (cache,) = report["provenance"]["kv_caches"]
    assert (cache["groups"], cache["blocks"]) == (7, (1 << 30) // (16 * 4 * 64 * 4) - 1)
    assert [given["argument"] for given in report["provenance"]["inputs"]] == ["extra_engine_args.model_config"]


def test_the_models_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert models.main(["--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["kv_caches"]
    assert len(listed) == 20
    assert all(model["source"].startswith("https://") for model in listed)
    assert models.main([]) == 0
    text = capsys.readouterr().out
    assert "12 full, 36 linear             4         544" in text
