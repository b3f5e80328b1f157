"""``--calibration`` of sweeps and recommendations: one profile for the engines of all runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import Cli, refused

from dynamo import sweep

RUN = {"input_tokens": 64, "output_tokens": 3, "request_count": 4}


@pytest.fixture
def profile(folder: Path) -> Path:
    """A profile by which each pass takes 20 ms more."""
    entry = {"level": "engine", "engine": "vllm", "timing": "polynomial", "knobs": {"step_overhead_us": 20_000}}
    path = folder / "p.json"
    path.write_text(json.dumps({"format": "dynosim-calibration/1", "entries": [entry]}))
    return path


def test_all_runs_use_the_profile(cli: Cli, profile: Path) -> None:
    """In one pool and in two; a folder that is resumed keeps it."""
    Path("spec.json").write_text(json.dumps({"run": RUN, "search": {"topology": ["agg", "disagg"]}}))
    assert cli("run", "spec.json", "-o", "plain", module="dynamo.sweep").returncode == 0
    done = cli("run", "spec.json", "-o", "out", "--calibration", "p.json", module="dynamo.sweep")
    assert done.returncode == 0, done.stderr
    assert "calibration p.json" in done.stdout
    for before, after in zip(sweep.load("plain"), sweep.load("out"), strict=True):
        assert after["figures"]["mean_itl_ms"] - before["figures"]["mean_itl_ms"] == pytest.approx(20, abs=0.1)
    assert "Simulated 0 runs" in cli("resume", "out", module="dynamo.sweep").stdout


def test_it_takes_the_place_of_another(profile: Path) -> None:
    pools = {"prefill_engine_args": {"calibration": "x.json"}, "decode_engine_args": {"max_num_seqs": 16}}
    (point,) = sweep.run({"run": {**RUN, **pools}, "search": {"seed": [1]}}, calibration=profile)
    assert point["figures"]["mean_itl_ms"] > 20


def test_a_recommendation_uses_the_profile(cli: Cli, profile: Path) -> None:
    rows = [{"timestamp": 100 * i, "input_length": 512, "output_length": 4, "hash_ids": [i]} for i in range(20)]
    Path("trace.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    question = ["recommend", "trace.jsonl", "--sla", "p90_ttft_ms<=2000", "--gpus", "1", "--engine", "vllm", "--json"]
    done = cli(*question, "--seeds", "1", "--calibration", "p.json", "-o", "out", module="dynamo.sweep")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["question"]["run"]["extra_engine_args"] == {"calibration": "p.json"}
    (best,) = (point for point in sweep.load("out") if point["id"] == answer["point"])
    assert best["figures"]["mean_itl_ms"] > 20


@pytest.mark.parametrize(
    ("search", "given", "words"),
    [
        ({"seed": [1]}, "", 'calibration: got "", want a file, or auto'),
        ({"seed": [1]}, "nix.json", "calibration: 'nix.json' is missing; auto takes a shipped profile"),
        ({"seed": [1]}, ".", "calibration: cannot read '.': Is a directory, want a file"),
        ({"seed": [1]}, "spec.json", "calibration: 'spec.json': not a calibration profile: "),
        ({"engine.calibration": ["a.json", "b.json"]}, "p.json", "want it left out: search has engine.calibration"),
        ({"extra_engine_args": [{"block_size": 16}]}, "p.json", "want it left out: search has extra_engine_args"),
    ],
)
def test_bad_input(cli: Cli, profile: Path, search: dict[str, Any], given: str, words: str) -> None:
    Path("spec.json").write_text(json.dumps({"run": RUN, "search": search}))
    assert words in refused(cli("run", "spec.json", "-o", "out", "--calibration", given, module="dynamo.sweep"))
    assert not Path("out").exists()
