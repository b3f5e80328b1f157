"""Six runs of a server, a fit to them, and what it promises: docs/your_gpu.md, without the AIC SDK."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Cli, refused

from dynamo.calibrate import folds, targets
from dynamo.calibrate.calibration import Calibration, Options, calibrate
from dynamo.calibrate.knobs import NAMES
from dynamo.replay import run_synthetic_trace_replay
from dynamo.validate import sources
from dynamo.validate.mapping import Rules
from dynamo.validate.scores import ks_distance
from dynamo.validate.simulate import simulate

EXAMPLE = Path(__file__).parent.parent / "examples" / "your_gpu"
MEASURED = Path(__file__).parent.parent / "examples" / "measured"
RULES = Rules(engine={"engine_type": "vllm"})
POLYNOMIAL = ["--engine", '{"engine_type": "vllm"}', "-j", "1"]


@pytest.fixture(scope="module")
def record() -> Any:
    """The script that makes the example."""
    spec = importlib.util.spec_from_file_location("record", EXAMPLE / "record.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def found() -> Calibration:
    return calibrate(sources.read([str(EXAMPLE / "runs")]), Options(rules=RULES))


def test_the_example_is_what_its_script_makes(record: Any) -> None:
    for run in record.RUNS:
        assert json.loads((EXAMPLE / "runs" / f"{run[0]}.json").read_text()) == record.record(*run)


def test_each_run_is_predicted_by_a_fit_to_the_others(found: Calibration) -> None:
    """Its fold has seen five runs, and not this one."""
    ids = [r.replay.measurement.id for r in found.responses]
    assert folds.places(found.replays, 5) == [0, 1, 2, 3, 4, 5]
    for place, fold in enumerate(found.without):
        assert ids[place] not in {r.replay.measurement.id for r in fold.responses}
    error = found.error_of_runs
    assert error is not None
    assert error["measurements"] == 6
    assert 0 < error["ttft"] < 0.1
    assert 0 < error["tpot"] < 0.05


def test_the_promise_holds_of_a_load_between_those_measured(found: Calibration, record: Any) -> None:
    """Eight clients were not measured; the server is simulated, so the truth is known."""
    choice = found.choice(found.replays[0])
    assert choice is not None
    fitted = dict(zip(NAMES, choice.knobs, strict=True))
    load: dict[str, Any] = {"replay_concurrency": 8}
    truth = run_synthetic_trace_replay(1024, 256, 80, extra_engine_args=record.SERVER, **load)
    guess = run_synthetic_trace_replay(1024, 256, 80, extra_engine_args={"scheduler": "vllm", **fitted}, **load)
    plain = run_synthetic_trace_replay(1024, 256, 80, extra_engine_args={"scheduler": "vllm"}, **load)
    assert guess["mean_ttft_ms"] == pytest.approx(truth["mean_ttft_ms"], rel=0.1)
    assert guess["mean_tpot_ms"] == pytest.approx(truth["mean_tpot_ms"], rel=0.05)
    assert plain["mean_ttft_ms"] < 0.75 * truth["mean_ttft_ms"]


def test_every_result_says_the_promise(cli: Cli, folder: Path) -> None:
    done = cli(str(EXAMPLE / "runs"), *POLYNOMIAL, "-o", "my_gpu.json", module="dynamo.calibrate")
    assert done.returncode == 0, done.stderr
    promise = "TTFT 3 %, TPOT 2 %"
    assert f"\nExpected error of loads like these: {promise} (6 runs, each predicted by a fit" in done.stdout
    run = ["--input-tokens", "64", "--output-tokens", "2", "--request-count", "1"]
    engine = ["--extra-engine-args", '{"scheduler": "vllm"}']
    done = cli(*run, *engine, "--calibration", "my_gpu.json", "--report-json", "a.json")
    assert "warning: calibration my_gpu.json: level model (vllm, my-model, bf16; 5 measurements)" in done.stderr
    assert "\nMeasured error of TTFT here 3 %, TPOT 2 % (6 rows, median)\n" in done.stdout
    done = cli(*run, "--extra-engine-args", '{"scheduler": "vllm", "calibration": "my_gpu.json"}')
    assert "TTFT here 3 %, TPOT 2 %" in done.stdout
    done = cli(*run, "--extra-engine-args", '{"scheduler": "vllm", "decode_scale": 2}', "--calibration", "my_gpu.json")
    assert "Measured error" not in done.stdout
    words = refused(cli("--from-report", "a.json", "--calibration", "my_gpu.json"))
    assert words == "error: --from-report repeats a run as it was: --calibration cannot be combined with it\n"


@pytest.mark.parametrize("command", ["dynamo.replay", "dynamo.mocker"])
def test_a_profile_that_is_not_there(cli: Cli, folder: Path, command: str) -> None:
    run = ["--input-tokens", "64", "--output-tokens", "2", "--request-count", "1"]
    run = run if command == "dynamo.replay" else ["--standalone"]
    assert "nix.json: file does not exist" in refused(cli(*run, "--calibration", "nix.json", module=command))
    words = refused(cli(*run, "--calibration", "", module=command))
    assert words == 'error: --calibration: got "", want a file, or auto\n'


def test_one_factor_of_three_runs(folder: Path, record: Any, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """A card that takes 1.25 times as long for everything is found, to within the noise of 2 %."""
    monkeypatch.setattr(record, "SERVER", {"scheduler": "vllm", "prefill_scale": 1.25, "decode_scale": 1.25})
    runs = folder / "runs"
    runs.mkdir()
    (runs / "deployment.json").write_text('{"engine": "vllm", "model": "my-model"}')
    for run in record.RUNS[1:4]:
        (runs / f"{run[0]}.json").write_text(json.dumps(record.record(*run)))
    done = cli("runs", *POLYNOMIAL, "--single-scale", "-o", "scale.json", module="dynamo.calibrate")
    assert done.returncode == 0, done.stderr
    profile = json.loads((folder / "scale.json").read_text())
    (entry,) = [entry for entry in profile["entries"] if entry["level"] == "model"]
    assert sorted(entry["knobs"]) == ["decode_scale", "prefill_scale"]
    assert entry["knobs"]["prefill_scale"] == entry["knobs"]["decode_scale"] == pytest.approx(1.25, rel=0.03)
    assert entry["held_out_error"]["ttft"] < 0.05
    assert entry["held_out_error"]["tpot"] < 0.05


def test_one_factor_brings_distributions_close() -> None:
    """Three hundred requests of vLLM, with durations from a table: TTFT and TPOT are nearer than with other factors."""
    durations = {"planner_profile_data": str(MEASURED / "durations" / "llama-8b-vllm.npz")}
    rules = Rules(engine={**durations, "num_gpu_blocks": 8561, "block_size": 16, "pass_time": "fused"})
    runs = sources.read([str(MEASURED / "llmservingsim" / "RTXPRO6000" / "Llama-3.1-8B")])
    found = calibrate(runs, Options(rules=rules, folds=0, single_scale=True))
    (replay,) = found.replays
    choice = found.choice(replay)
    assert choice is not None
    requests = replay.measurement.requests
    assert requests is not None

    def apart(factor: float) -> float:
        """The larger of the distances of TTFT and TPOT."""
        engine = {**replay.engine, "prefill_scale": factor, "decode_scale": factor}
        outcome = simulate(dataclasses.replace(replay, engine=engine))
        assert outcome.ttft_ms is not None
        assert outcome.tpot_ms is not None
        distances = ks_distance(outcome.ttft_ms, requests.ttft_ms), ks_distance(outcome.tpot_ms, requests.tpot_ms)
        return max(distance for distance in distances if distance is not None)

    factor = choice.knobs[NAMES.index("prefill_scale")]
    assert factor == choice.knobs[NAMES.index("decode_scale")]
    assert apart(factor) < min(apart(1), apart(0.95 * factor), apart(1.05 * factor))


def test_distance_as_percentiles_tell_it() -> None:
    values = np.linspace(100, 200, 26)  # a mean, which does not count, and 24 percentiles
    assert targets.distance(values[:25], values[:25]) == pytest.approx(0)
    assert targets.distance(values[:25] + 1000, values[:25]) == pytest.approx(0.92)  # of those from 4 to 96 %
    assert targets.distance(values[:25], values[1:]) == pytest.approx(0.04)
    same = np.full(25, 7.0)
    assert targets.distance(same, same) == pytest.approx(0)
    assert targets.distance(same, same + 1) == pytest.approx(0.92)
    assert targets.distance(np.repeat([7.0, 1, 2], [1, 12, 12]), np.repeat([7.0, 1, 2], [1, 6, 18])) == pytest.approx(
        0.24
    )


def test_the_script_makes_six_runs_once(folder: Path) -> None:
    """A stand-in for vllm writes down what it was asked for."""
    program = folder / "bin" / "vllm"
    program.parent.mkdir()
    program.write_text(
        '#!/bin/sh\nprintf "%s " "$@" >>calls; echo >>calls\n'
        "while [ $# -gt 1 ]; do case $1 in --result-dir) d=$2;; --result-filename) f=$2;; esac; shift; done\n"
        'echo "{}" >"$d/$f"\n'
    )
    program.chmod(0o755)
    environment = {**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}", "MODEL": "a/b", "URL": "http://h:1"}
    for _ in range(2):
        subprocess.run(["sh", str(EXAMPLE / "measure.sh")], env=environment, check=True, timeout=300)
    calls = (folder / "calls").read_text().splitlines()
    assert len(calls) == 6
    assert calls[3].startswith("bench serve --backend openai --base-url http://h:1 --endpoint /v1/completions --model")
    assert "--max-concurrency 64 --num-prompts 384 --random-input-len 1024 --random-output-len 256 " in calls[3]
    assert len(list((folder / "runs").iterdir())) == 6
    bare = {name: value for name, value in environment.items() if name != "MODEL"}
    done = subprocess.run(["sh", str(EXAMPLE / "measure.sh")], env=bare, check=False, capture_output=True, timeout=300)
    assert done.returncode != 0
    assert b"MODEL: the name of the model" in done.stderr
