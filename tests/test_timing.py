"""Measured profiles and speculative decoding as users meet them; the numbers of the models are tested in Go."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from conftest import TINY, Cli, refused

from dynamo.mocker import MockEngineArgs
from dynamo.replay import run_synthetic_trace_replay


@pytest.fixture
def profile(folder: Path) -> Path:
    """A table in which prefill takes 10 ms a thousand tokens and decode always 5 ms."""
    path = folder / "profile.npz"
    np.savez(
        path,
        prefill_isl=np.array([0.0, 10000.0]),
        prefill_ttft_ms=np.array([0.0, 100.0]),
        decode_active_kv_tokens=np.array([0.0, 1e6]),
        decode_context_length=np.array([0.0, 1e6]),
        decode_itl=np.full((2, 2), 5.0),
    )
    return path


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_a_profile_says_how_long_passes_take(profile: Path, engine: str) -> None:
    args = MockEngineArgs(engine_type=engine, planner_profile_data=str(profile))
    report = run_synthetic_trace_replay(1000, 5, 1, extra_engine_args=args)
    assert report["mean_ttft_ms"] == pytest.approx(15)
    assert report["mean_itl_ms"] == pytest.approx(5)
    assert report["timing_model"] == "interpolated"


def test_the_report_names_the_model(profile: Path, folder: Path) -> None:
    assert run_synthetic_trace_replay(10, 2, 1)["timing_model"] == "polynomial"
    report = run_synthetic_trace_replay(
        10,
        2,
        1,
        router_mode="kv_router",
        prefill_engine_args={"worker_type": "prefill", "planner_profile_data": str(profile)},
        decode_engine_args={"worker_type": "decode"},
    )
    assert report["timing_model"] == "interpolated (prefill), polynomial (decode)"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "planner_profile_data: profile.npz: no such file or directory"),
        (b"not a zip", "planner_profile_data: profile.npz: "),
        ({"prefill_isl": np.array([1.0])}, "prefill_ttft_ms"),
        ("folder", "selected_prefill_interpolation/raw_data.npz or prefill_raw_data.json"),
    ],
)
def test_profiles_that_cannot_be_used(folder: Path, cli: Cli, content: object, message: str) -> None:
    path = folder / "profile.npz"
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif isinstance(content, dict):
        np.savez(path, **content)
    elif content == "folder":
        path.mkdir()
    engine = json.dumps({"planner_profile_data": "profile.npz"})
    assert message in refused(cli(*TINY, "--extra-engine-args", engine))


def test_speculative_decoding_takes_fewer_passes() -> None:
    def duration(**fields: object) -> float:
        report = run_synthetic_trace_replay(100, 120, 1, extra_engine_args=fields)
        assert report["total_output_tokens"] == 120
        return float(report["duration_ms"])

    plain = duration()
    assert duration(aic_nextn=2, aic_nextn_accept_rates="1,1") < 0.4 * plain
    assert duration(aic_nextn=2, aic_nextn_accept_rates="0,0") == pytest.approx(plain, rel=0.01)
    assert duration(aic_nextn=2) == duration(aic_nextn=2, aic_mtp_seed=42) != duration(aic_nextn=2, aic_mtp_seed=7)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"aic_nextn": 6}, "aic_nextn: got 6, want an integer from 1 to 5"),
        ({"aic_nextn": 2, "aic_nextn_accept_rates": "0.5,x"}, 'aic_nextn_accept_rates: entry 1: got "x"'),
        ({"aic_nextn_accept_rates": "0.5"}, "want aic_nextn set as well"),
        ({"aic_nextn": 2, "decode_speedup_ratio": 2}, "decode_speedup_ratio: got 2, want 1 together with aic_nextn"),
    ],
)
def test_refused_drafts(cli: Cli, fields: dict[str, object], message: str) -> None:
    assert message in refused(cli(*TINY, "--extra-engine-args", json.dumps(fields)))
