"""``python -m dynamo.calibrate`` and the engine argument ``calibration``, as users meet them, without the AIC SDK."""

from __future__ import annotations

import dataclasses
import itertools
import json
import shutil
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest
from conftest import Cli, refused

from dynamo import sweep
from dynamo.calibrate import folds, kvpool, main, profile
from dynamo.calibrate.calibration import Calibration, Options, calibrate
from dynamo.calibrate.knobs import NAMES
from dynamo.calibrate.subject import subjects
from dynamo.mocker import MockEngineArgs
from dynamo.replay import run_synthetic_trace_replay
from dynamo.validate import sources
from dynamo.validate.mapping import Rules
from dynamo.validate.measurement import ClosedLoop, Measurement, Refusal, Replay
from dynamo.validate.scores import ks_distance

PROJECT = Path(__file__).parent.parent
EXAMPLE = str(PROJECT / "examples" / "calibration")
TABLE = str(PROJECT / "examples" / "measured" / "durations" / "llama-8b-vllm.npz")
POLYNOMIAL = ["--engine", '{"engine_type": "vllm"}']


@pytest.fixture(scope="module")
def found() -> Calibration:
    measurements = sources.read([EXAMPLE])
    return calibrate(measurements, Options(rules=Rules(engine={"engine_type": "vllm"}), folds=0))


def test_knobs_are_found_again(found: Calibration) -> None:
    """The example was made with a prefill factor of 1.4 and 35 ms; what else it holds cannot be told apart."""
    choice, estimate = found.choice(found.replays[0]), found.fit.best(found.responses[0].subject)
    assert choice is not None
    assert estimate is not None
    knobs = dict(zip(NAMES, choice.knobs, strict=True))
    assert knobs["prefill_scale"] == pytest.approx(1.4, rel=0.1)
    assert knobs["request_overhead_us"] == pytest.approx(35_000, rel=0.15)
    assert estimate.measurements == 3


def test_the_fit_predicts_replays(found: Calibration) -> None:
    """The formula of a closed loop agrees with a replay at other knobs than those that it was made from."""
    from dynamo.calibrate import response, targets, trials

    replay = found.replays[0]
    task = response.design(replay, targets.WHOLE)
    formula = response.response(task, found.responses[0].subject, trials.run_all([task], trials.Memory(), 1)[0])
    assert not isinstance(formula, str)
    for request_us in (0.0, 30_000.0):
        setting = (1.7, 0.8, 900.0, 60.0, request_us, 0.0)
        ((trial,),) = trials.run_all([trials.Task(replay, (setting,))], trials.Memory(), 1)
        assert not isinstance(trial, str)
        expected = formula.value(np.array(setting))
        for metric in targets.METRICS:
            assert expected[metric][0] == pytest.approx(trial[metric][0], rel=1e-6 if request_us == 0 else 0.1)


def test_profile(cli: Cli, folder: Path) -> None:
    """A profile sets knobs in a replay, and those that the arguments give stay."""
    entry = {"level": "engine", "engine": "vllm", "timing": "polynomial", "scheduler": "dynamo", "measurements": 2}
    knobs = {"prefill_scale": 2.0, "step_overhead_us": 1000}
    Path("p.json").write_text(json.dumps({"format": "dynosim-calibration/1", "entries": [{**entry, "knobs": knobs}]}))

    def ttft(**args: Any) -> float:
        report = run_synthetic_trace_replay(640, 2, 1, extra_engine_args=MockEngineArgs(**args))
        return float(report["mean_ttft_ms"])

    with pytest.warns(
        UserWarning, match=r"calibration p.json: level engine \(vllm; 2 measurements\): prefill_scale 2, "
    ):
        both = ttft(calibration="p.json")
    assert both == ttft(prefill_scale=2.0, step_overhead_us=1000)
    with pytest.warns(UserWarning, match="step_overhead_us 1000$"):
        assert ttft(calibration="p.json", prefill_scale=1.0) == ttft(step_overhead_us=1000)
    words = refused(cli(*REPLAY, '{"calibration": "none.json"}'))
    assert words == "error: extra_engine_args: calibration: none.json: file does not exist\n"
    words = refused(cli(*REPLAY, '{"calibration": "p.json", "engine_type": "sglang"}'))
    assert "want a profile for sglang with polynomial durations; it has vllm with polynomial durations" in words
    words = refused(cli(*REPLAY, '{"calibration": "auto"}'))
    assert "calibration: got auto, want a profile for vllm with polynomial durations" in words


REPLAY = ("--input-tokens", "64", "--output-tokens", "2", "--request-count", "1", "--extra-engine-args")


def test_a_run_is_repeated_with_its_profile(cli: Cli, folder: Path) -> None:
    entry = {"level": "engine", "engine": "vllm", "timing": "polynomial", "knobs": {"request_overhead_us": 5000}}
    text = json.dumps({"format": "dynosim-calibration/1", "entries": [entry]})
    Path("p.json").write_text(text)
    assert cli(*REPLAY, '{"calibration": "p.json"}', "--report-json", "a.json").returncode == 0
    assert cli("--from-report", "a.json", "--report-json", "b.json").returncode == 0
    first, again = (json.loads(Path(name).read_text()) for name in ("a.json", "b.json"))
    assert again["mean_ttft_ms"] == first["mean_ttft_ms"] > 20
    Path("p.json").write_text(text.replace("5000", "6000"))
    assert "p.json" in refused(cli("--from-report", "a.json"))


def test_a_sweep_takes_profiles(cli: Cli, folder: Path) -> None:
    """As a value that is searched, and so does a configuration file."""
    entry = {"level": "engine", "engine": "vllm", "timing": "polynomial"}
    for name, overhead_us in (("near.json", 5000), ("far.json", 50_000)):
        text = {
            "format": "dynosim-calibration/1",
            "entries": [{**entry, "knobs": {"request_overhead_us": overhead_us}}],
        }
        Path(name).write_text(json.dumps(text))
    run = {"input_tokens": 64, "output_tokens": 2, "request_count": 1}
    near, far = sweep.run({"run": run, "search": {"engine.calibration": ["near.json", "far.json"]}})
    first, last = (point["figures"]["mean_ttft_ms"] for point in (near, far))
    assert last - first == pytest.approx(45)
    Path("run.json").write_text(json.dumps({**run, "extra_engine_args": {"calibration": "far.json"}}))
    assert cli("--config", "run.json", "--report-json", "a.json").returncode == 0
    assert json.loads(Path("a.json").read_text())["mean_ttft_ms"] == last


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-o", "p.json", "--folds", "1"], "--folds: got 1, want 0, or an integer from 2 to 100"),
        (["-o", "p.json", "--fit-first", "0"], "--fit-first: got 0.0, want a number above 0, at most 1"),
        (["-o", "p.json", "--folds", "0", "--fold-profiles", "f"], "--fold-profiles: there are no folds; want --folds"),
        (["-o", "p.json", "-j", "0"], "--jobs: got 0, want an integer >= 1"),
        (["-o", "nowhere/p.json"], "-o: got 'nowhere/p.json', want a file in a folder that can be written to"),
        (["-o", "p.json", "--kv-from", "x.log"], "--kv-from: 'x.log' is missing"),
        (["-o", "p.json", "--engine", "[1]"], "--engine: want a JSON object of engine arguments"),
        (["-o", "p.json", "--engine", '{"max_num_seq": 1}'], 'did you mean "max_num_seqs"?'),
        (["-o", "p.json", "--kv-from", "."], "--kv-from: cannot read '.': Is a directory, want a file"),
        (["-o", "p.json", "--resume", "."], "--resume: cannot use '.': Is a directory, want a file"),
        (
            ["-o", "p.json", "--resume", EXAMPLE + "/record.py"],
            "want one that --resume has made",
        ),
        ([], "the following arguments are required: -o/--output"),
    ],
)
def test_bad_input(cli: Cli, folder: Path, arguments: list[str], words: str) -> None:
    assert words in refused(cli(EXAMPLE, *arguments, module="dynamo.calibrate"))
    assert list(folder.iterdir()) == []


def test_without_scipy(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("dynamo.calibrate.main.find_spec", lambda name: None)
    assert main.main([EXAMPLE, "-o", "p.json"]) == 2
    assert capsys.readouterr().err == "error: calibration needs SciPy: pip install 'dynosim[calibrate]'\n"


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("INFO 11-22 kv_cache_utils.py: GPU KV cache size: 41,408 tokens\n", 41408),
        ("... KV Cache is allocated. dtype: torch.bfloat16, #tokens: 1234567, K size: 1 GB\n", 1234567),
        ('sglang:max_total_num_tokens{model_name="m"} 1.5e+06\n', 1500000),
        ('vllm:cache_config_info{block_size="16",engine="0",num_gpu_blocks="2588"} 1.0\n', 41408),
    ],
)
def test_kv_pool(folder: Path, text: str, tokens: int) -> None:
    Path("x.log").write_text("first line\n" + text)
    assert kvpool.tokens_of("x.log") == tokens


def test_kv_pool_that_nothing_states(folder: Path) -> None:
    Path("x.log").write_text("hello\n")
    with pytest.raises(ValueError, match="does not state the size of a KV pool"):
        kvpool.tokens_of("x.log")
    Path("x.log").write_text('vllm:cache_config_info{block_size="16",num_gpu_blocks="None"} 1.0\n')
    with pytest.raises(ValueError, match="has no num_gpu_blocks and block_size"):
        kvpool.tokens_of("x.log")


def test_the_pool_is_in_the_profile(cli: Cli, folder: Path) -> None:
    Path("x.log").write_text("GPU KV cache size: 64,000 tokens\n")
    done = cli(
        EXAMPLE, *POLYNOMIAL, "-o", "p.json", "--folds", "0", "--kv-from", "x.log", "-j", "1", module="dynamo.calibrate"
    )
    assert done.returncode == 0, done.stderr
    entries = json.loads(Path("p.json").read_text())["entries"]
    assert [entry.get("kv_tokens") for entry in entries if entry["level"] == "model"] == [64000]
    done = cli(*REPLAY, '{"scheduler": "vllm", "calibration": "p.json"}')
    assert "num_gpu_blocks 1000" in done.stderr


def test_a_trial_keeps_the_memory_of_the_gpu(found: Calibration, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where kernels of another GPU stand in, the KV pool is still that of the one that was measured."""
    from dynamo.calibrate import trials

    pools = []

    def remember(replay: Replay) -> NoReturn:
        pools.append(replay.pool)
        raise Refusal("seen")

    monkeypatch.setattr(trials, "simulate", remember)
    replay = dataclasses.replace(found.replays[0], pool={"aic_system": "b300_sxm"})
    assert trials.run_all([trials.Task(replay, (None,))], trials.Memory(), 1) == [["seen"]]
    assert pools == [{"aic_system": "b300_sxm"}]


def test_an_interrupted_fit_goes_on(folder: Path, found: Calibration) -> None:
    """What was replayed is not replayed again, and a line that was cut off does no harm."""
    measurements = sources.read([EXAMPLE])[:1]
    options = Options(rules=Rules(engine={"engine_type": "vllm"}), folds=0, memory="kept.jsonl")
    first = calibrate(measurements, options)
    kept = Path("kept.jsonl").read_text()
    Path("kept.jsonl").write_text(kept + '{"trial": "abc", "fig')
    replayed: list[int] = []
    again = calibrate(
        measurements, Options(options.rules, 0, memory="kept.jsonl", on_trial=lambda n, of: replayed.append(n))
    )
    assert replayed == []
    assert [e.knobs for e in again.fit.estimates.values()] == [e.knobs for e in first.fit.estimates.values()]


MEASURED_DURATIONS = {"engine_type": "vllm", "planner_profile_data": TABLE}


def two_models(folder: Path) -> list[str]:
    """Runs of the example as if they were of models "a" and "b"."""
    runs = []
    for name, clients in (("a", "clients-2"), ("b", "clients-48")):
        shutil.copytree(Path(EXAMPLE) / clients, folder / "runs" / name)
        deployment = folder / "runs" / name / "deployment.json"
        deployment.write_text(json.dumps({**json.loads(deployment.read_text()), "model": f"org/{name}"}))
        runs.append(f"runs/{name}")
    return runs


def test_profiles_of_folds(cli: Cli, folder: Path) -> None:
    """The profile of a fold has not seen its configurations, and differs from that of all."""
    runs = two_models(folder)
    made = ["-o", "p.json", "--fold-profiles", "folds", "--folds", "2", "-j", "1"]
    done = cli(*runs, "--engine", json.dumps(MEASURED_DURATIONS), *made, module="dynamo.calibrate")
    assert done.returncode == 0, done.stderr
    places = {m.model: folds.fold_of(m.configuration, 2) for m in sources.read(runs)}
    for place in (0, 1):
        profile = json.loads((folder / "folds" / f"fold-{place}.json").read_text())
        assert profile["fit"]["without_fold"] == place
        seen = {entry["model"] for entry in profile["entries"] if entry["level"] == "model"}
        assert seen == {model.removeprefix("org/") for model, of in places.items() if of != place}


def test_what_is_held_out_is_scored_as_engines_read_it(folder: Path) -> None:
    """Measured durations say no model: an engine reads the entry of the only one measured, and that is scored."""
    rules = Rules(engine=MEASURED_DURATIONS)
    found = calibrate(sources.read(two_models(folder)), Options(rules=rules, folds=2))
    profiles = found.fold_profiles({})
    assert len(found.held) == 2
    for held in found.held:
        unseen = profiles[folds.fold_of(held.replay.measurement.configuration, 2)]
        (other,) = [entry for entry in unseen["entries"] if entry["level"] == "model"]
        assert held.level == "model"
        assert held.replay.measurement.model != f"org/{other['model']}"
        assert held.knobs == tuple(other["knobs"].get(name, 0.0) for name in NAMES)


def test_subjects_are_what_arguments_say() -> None:
    """Checkpoints of a model are one, and where kernels of another GPU stand in, theirs are what knobs are about."""
    measured = {"engine": "vllm", "model": "moonshotai/Kimi-K2.5", "precision": "fp4", "system": "b300_sxm"}
    kimi = Measurement(id="k", source="own", file="k", **measured)
    load = ClosedLoop(1, 1, 8, 2)
    aic = {"aic_backend": "vllm", "aic_system": "b200_sxm", "scheduler": "vllm"}
    replays = [
        Replay(kimi, {**aic, "aic_model_path": "nvidia/Kimi-K2.5-NVFP4"}, load),
        Replay(kimi, {**aic, "aic_model_path": "/models/kimi-k2.5"}, load),
        Replay(kimi, {}, load),
    ]
    assert [subject[:4] for subject in subjects(replays)] == [
        ("vllm", "b200_sxm", "Kimi-K2.5", "fp4"),
        ("vllm", "b200_sxm", "Kimi-K2.5", "fp4"),
        ("vllm", "b300_sxm", "Kimi-K2.5", "fp4"),
    ]


def test_a_profile_has_the_kernels_that_it_was_fitted_with(found: Calibration) -> None:
    """Where all measurements of an entry had the same ones."""

    def kernels(*of: dict[str, str]) -> list[object]:
        named = zip(found.responses, itertools.cycle(of), strict=False)
        responses = [dataclasses.replace(r, replay=dataclasses.replace(r.replay, kernels=k)) for r, k in named]
        entries = profile.build(found.fit, responses, {})["entries"]
        return [entry.get("kernels") for entry in entries if entry["level"] == "model"]

    plain, other = {"aic_gemm_dtype": "fp8"}, {"aic_backend": "sglang"}
    assert kernels(plain) == [plain]
    assert kernels({}) == [None]
    assert kernels(plain, other) == [None]


def test_folds_keep_configurations_together() -> None:
    places = {folds.fold_of(f"configuration {i}", 5) for i in range(100)}
    assert places == {0, 1, 2, 3, 4}
    assert folds.fold_of("a|b", 5) == folds.fold_of("a|b", 5)


def test_distance_of_distributions() -> None:
    assert ks_distance(np.array([1.0, 2, 3, 4]), np.array([1.0, 2, 3, 4])) == 0
    assert ks_distance(np.array([1.0, 2]), np.array([3.0, 4])) == 1
    assert ks_distance(np.array([1.0, 2, 3, 4]), np.array([1.0, 2, 3, 9])) == 0.25
    assert ks_distance(np.array([1.0]), np.array([1.0])) == 0
