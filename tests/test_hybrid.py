"""Hybrid KV caches as users meet them; their passes are tested in Go. The figures are those of docs/hybrid.md."""

from __future__ import annotations

from pathlib import Path

import pytest

from dynamo.replay import run_trace_replay

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
