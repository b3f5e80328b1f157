"""Live workers with the engine argument ``calibration``: what a profile sets holds for them as for a replay."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from livetools import make_model, post, records, until
from test_aic import fake
from test_live import answer, bad_input, generate, workers

__all__ = ["fake"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(make_model(tmp_path_factory.mktemp("models") / "tiny"))


def with_profile(folder: Path, timing: str, knobs: dict[str, float], engine: dict[str, Any], **more: Any) -> list[str]:
    """The options of workers of these engine arguments, with a profile of one entry."""
    entry = {"level": "engine", "engine": "vllm", "timing": timing, "measurements": 3, "knobs": knobs, **more}
    profile = folder / "profile.json"
    profile.write_text(json.dumps({"format": "dynosim-calibration/1", "entries": [entry]}))
    arguments = folder / "engine.json"
    arguments.write_text(json.dumps({**engine, "calibration": str(profile)}))
    return ["--extra-engine-args", str(arguments)]


def test_a_worker_takes_what_its_profile_says(tmp_path: Path, model: str) -> None:
    """Neither the way of a request nor a pass can be shorter than the profile has them; the pool is as measured."""
    knobs = {"request_overhead_us": 400_000, "step_overhead_us": 100_000}
    options = with_profile(tmp_path, "polynomial", knobs, {"block_size": 16}, kv_tokens=3200)
    with workers(tmp_path, "--model-path", model, *options) as w:
        assert "level engine (vllm; 3 measurements): step_overhead_us 100000, request_overhead_us 400000" in w.log
        assert records(w.root, "mdc")[0]["card_json"]["runtime_config"]["total_kv_blocks"] == 200
        assert len(answer(post(w.url(), generate(5))[1])[0]) == 5
        w.until_metric("vllm:e2e_request_latency_seconds_count", 1)
        first = w.metric("vllm:time_to_first_token_seconds_sum")
        assert first > 0.5
        assert w.metric("vllm:e2e_request_latency_seconds_sum") - first > 0.4


def test_a_worker_scales_what_the_sdk_predicts(fake: Path, tmp_path: Path, model: str) -> None:
    """A prompt of 10,000 tokens takes 100 ms, says the SDK, and ten times as long, says the profile."""
    engine = {"aic_backend": "vllm", "aic_model_path": "m", "num_gpu_blocks": 1000, "block_size": 64}
    options = with_profile(tmp_path, "aic", {"prefill_scale": 10}, engine)
    with workers(tmp_path, "--model-path", model, *options) as w:
        assert "prefill_scale 10" in w.log
        body = {**generate(1), "token_ids": list(range(3, 10_003))}
        assert len(answer(post(w.url(), body)[1])[0]) == 1
        until(lambda: w.metric("vllm:time_to_first_token_seconds_sum") > 1)


def test_the_shipped_profile(fake: Path, tmp_path: Path, model: str) -> None:
    path = tmp_path / "engine.json"
    path.write_text(json.dumps({"aic_backend": "vllm", "aic_model_path": "openai/gpt-oss-120b", "calibration": "auto"}))
    with workers(tmp_path, "--model-path", model, "--extra-engine-args", str(path)) as w:
        assert "calibration auto: level model (vllm, gpt-oss-120b, h200_sxm, fp4; " in w.log


def test_a_profile_for_something_else(tmp_path: Path, model: str) -> None:
    options = with_profile(tmp_path, "aic", {"prefill_scale": 2}, {})
    problem = "want a profile for vllm with polynomial durations; it has vllm with aic durations"
    bad_input(tmp_path, ["--model-path", model, "--discovery-backend", "file", *options], problem)
