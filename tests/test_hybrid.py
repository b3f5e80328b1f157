"""Hybrid KV caches as users meet them; their passes are tested in Go. The figures are those of docs/hybrid.md."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from dynamo.replay import models, run_synthetic_trace_replay, run_trace_replay
from dynamo.replay.main import main
from dynamo.replay.page import data
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
    engine = {"scheduler": "vllm", "block_size": 16, "num_gpu_blocks": 21000, "kv_cache_groups": GEMMA}
    report = run_trace_replay(TRACE, num_workers=4, extra_engine_args=engine, router_mode="kv_router")
    assert f"a mean TTFT of {report['mean_ttft_ms'] / 1000:.1f} s instead of 3.2 s" in page


def test_what_requests_wait_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Report, series, page, explanation and timeline; none of it with a single group."""
    engine = {"scheduler": "vllm", "block_size": 16, "num_gpu_blocks": 12000, "kv_cache_groups": GEMMA[:4]}
    run = [str(TRACE), "--num-workers", "4", "--explain", "--timeline", str(tmp_path / "run.pftrace")]
    assert main([*run, "--extra-engine-args", json.dumps(engine)]) == 0
    explained = capsys.readouterr().out.split("The first request in line had", 1)[1].split("beside them")[0]
    assert explained in (TRACE.parent.parent.parent / "docs/hybrid.md").read_text()
    assert b"KV blocks of full attention" in (tmp_path / "run.pftrace").read_bytes()
    report = run_trace_replay(TRACE, num_workers=4, extra_engine_args=engine, timeseries_step="1s", attribution=True)
    waits = [report["kv_wait_full_attention_ms"], report["kv_wait_other_groups_ms"]]
    assert min(waits) > 0
    assert [f"{ms:,.0f} ms" in explained for ms in [sum(waits), *waits]] == [True] * 3
    series = report.timeseries
    rows = series["worker"] >= 0
    for name, ms in zip(("kv_wait_full_attention", "kv_wait_other_groups"), waits, strict=True):
        assert 1000 * series[name][rows].sum() == pytest.approx(ms, rel=0.01)  # the last window is shorter
    assert series["kv_use_full_attention"] + series["kv_use_other_groups"] == pytest.approx(series["kv_use"])
    assert 0.2 < series["kv_use_full_attention"].sum() / series["kv_use"].sum() < 0.8
    figures = {figure["name"]: figure for figure in data.of(report)["series"]["figures"]}
    assert figures["kv_wait_other_groups"]["title"].startswith("no room for windows and states")
    alone = run_trace_replay(
        TRACE, num_workers=4, extra_engine_args={**engine, "kv_cache_groups": None}, timeseries_step="1s"
    )
    assert not [name for name in (*alone, *alone.timeseries) if name.startswith(("kv_wait", "kv_use_"))]


@pytest.mark.parametrize(
    "beside", [[{"type": "sliding_window", "window": 100}], [{"type": "linear"}] * 3], ids=["window", "linear"]
)
def test_the_router_expects_what_workers_find(tmp_path: Path, beside: list[dict[str, object]]) -> None:
    draw = random.Random(3)
    families = [range(100 * family, 100 * family + 8) for family in range(3)]
    with (tmp_path / "trace.jsonl").open("w") as trace:
        for i in range(60):
            ids = [
                *draw.choice(families)[: draw.randint(2, 8)],
                *(10_000 + 10 * i + j for j in range(draw.randint(1, 3))),
            ]
            row = {"timestamp": 3000 * i, "input_length": 64 * len(ids) - 5, "output_length": 3, "hash_ids": ids}
            trace.write(json.dumps(row) + "\n")
    engine = {
        "scheduler": "vllm",
        "block_size": 64,
        "num_gpu_blocks": 60,
        "kv_cache_groups": [{"type": "full"}, *beside],
    }
    run_trace_replay(
        tmp_path / "trace.jsonl",
        trace_block_size=64,
        num_workers=2,
        router_mode="kv_router",
        extra_engine_args=engine,
        router_log=tmp_path / "decisions.jsonl",
        report_jsonl_path=tmp_path / "rows.jsonl",
    )
    decisions = [json.loads(line) for line in (tmp_path / "decisions.jsonl").read_text().splitlines()]
    rows = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    expected = [64 * d["candidates"][d["chosen"]]["overlap_blocks"] for d in decisions]
    assert expected == [row["reused_input_tokens"] for row in rows]
    assert sum(tokens > 0 for tokens in expected) > 30


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


def test_the_two_pools_of_sglang(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Waits, series and timeline know the pool of the window layers; the router counts what workers find."""
    windows = [{"type": "full"}, {"type": "sliding_window", "window": 1024, "num_blocks": 700}]
    engine = {"engine_type": "sglang", "block_size": 16, "num_gpu_blocks": 12000, "kv_cache_groups": windows}
    engine |= {"scheduler": "sglang", "sglang": {"chunked_prefill_size": 2048}}
    run = [str(TRACE), "--num-workers", "4", "--explain", "--timeline", str(tmp_path / "run.pftrace")]
    assert main([*run, "--extra-engine-args", json.dumps(engine)]) == 0
    assert "for windows or states beside them" in capsys.readouterr().out
    assert b"KV blocks of the window layers" in (tmp_path / "run.pftrace").read_bytes()
    report = run_trace_replay(TRACE, num_workers=4, extra_engine_args=engine, timeseries_step="1s")
    assert report["kv_wait_other_groups_ms"] > 2 * report["kv_wait_full_attention_ms"]
    series = report.timeseries
    assert 0.5 < series["kv_use_other_groups"].max() <= 1
    assert series["kv_use_full_attention"] == pytest.approx(series["kv_use"])


def test_a_model_on_sglang(capsys: pytest.CaptureFixture[str]) -> None:
    engine = '{"engine_type": "sglang", "block_size": 64, "kv_cache_memory_bytes": 20000000000}'
    load = ["--input-tokens", "300", "--output-tokens", "30", "--request-count", "5", "--request-rate", "2"]
    assert main(["--model", "gpt-oss-120b", "--extra-engine-args", engine, *load]) == 0
    shown = capsys.readouterr().out
    assert "GPU KV cache size: 301,376 tokens" in shown
    assert "4,709 blocks of 64 tokens and 3,767 for windows in 2 KV cache groups, 1 GPU" in shown
    assert main(["--model", "Qwen3-Next-80B-A3B-Instruct", "--extra-engine-args", engine, *load]) == 2
    assert "linear attention, whose states are not simulated with SGLang" in capsys.readouterr().err
