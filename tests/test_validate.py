"""``python -m dynamo.validate`` as users meet it, without the AIC SDK and with one made up for the tests."""

from __future__ import annotations

import csv
import json
import math
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from conftest import Cli, command, refused
from livetools import until
from test_aic import fake
from test_validate_sources import DETAILS, SERVED, SERVING, table, write

from dynamo.validate import runner, scores
from dynamo.validate.main import validate
from dynamo.validate.mapping import Rules
from dynamo.validate.measurement import ClosedLoop, Figures, Measurement, Replay
from dynamo.validate.runner import Result
from dynamo.validate.simulate import Outcome, simulate

__all__ = ["fake"]

POLYNOMIAL = ["--engine", '{"engine_type": "vllm"}']


def run(cli: Cli, *arguments: str) -> Any:
    return cli(*arguments, module="dynamo.validate")


def silicon(folder: Path, *rows: dict[str, str]) -> str:
    """A silicon table of a model that the made-up SDK knows."""
    common = {"model_path": "m", "precision": "bf16", "isl": "100", "osl": "10", "tp_size": "1", "moe_ep_size": "1"}
    texts = [table(**{**common, **row}) for row in rows]
    head = texts[0].splitlines()[0]
    (folder / "table.csv").write_text("\n".join([head, *(text.splitlines()[1] for text in texts)]) + "\n")
    return "table.csv"


def clients(number: int, **more: str) -> dict[str, str]:
    return {"silicon_data_source": f"silicon_concurrency={number}", "silicon_ttft_ms": str(2.0 + number), **more}


def test_a_run_without_the_sdk(cli: Cli, folder: Path) -> None:
    """A load generator's result of single requests, simulated with the polynomial that stands for no GPU."""
    write(folder, {"run.json": {**SERVING, **DETAILS}})
    done = run(cli, "run.json", *POLYNOMIAL)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("1 of 1 measurements replayed, 0 refused\n")
    assert "KS 0." in done.stdout or "KS 1." in done.stdout
    assert done.stdout.endswith("Saved: accuracy.json, accuracy.csv, accuracy.html\n")
    found = json.loads((folder / "accuracy.json").read_text())
    (measured,) = found["measurements"]
    assert measured["engine_args"] == {"engine_type": "vllm", "scheduler": "vllm"}
    error = measured["simulated_ms"]["ttft"]["mean"] / measured["measured_ms"]["ttft"]["mean"] - 1
    assert measured["error"]["ttft"] == pytest.approx(error)
    assert 0 < measured["ks_distance"]["ttft"] <= 1
    assert found["summary"]["engine"][0]["ttft"]["mean_abs"] == pytest.approx(100 * abs(error))


def test_the_silicon_table(fake: Path, cli: Cli, folder: Path) -> None:
    """Closed loops of one engine in several processes, with AIC's own prediction beside them."""
    name = silicon(folder, *(clients(number) for number in (1, 2, 4, 8)), {**clients(16), "mode": "disagg"})
    done = run(cli, name, "-o", "out/deep", "--jobs", "2")
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads((folder / "out" / "deep" / "accuracy.json").read_text())
    assert [row["concurrency"] for row in found["measurements"]] == [1, 2, 4, 8]
    # One prompt alone takes 1 ms; a decode step takes 2 ms and one more for each client.
    assert [row["static_ms"] for row in found["measurements"]] == [{"ttft": 1.0, "tpot": 2.0 + n} for n in (1, 2, 4, 8)]
    assert all(row["simulated_ms"]["ttft"]["mean"] >= 1 for row in found["measurements"])
    assert [row["reason"] for row in found["refused"]] == ["disaggregated: number of workers unknown"]
    assert "Refused:\n     1  disaggregated: number of workers unknown" in done.stdout
    with (folder / "out" / "deep" / "accuracy.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["refused"] for row in rows] == ["", "", "", "", "disaggregated: number of workers unknown"]
    assert float(rows[0]["error_ttft"]) == pytest.approx(found["measurements"][0]["error"]["ttft"])


def test_splits(fake: Path, cli: Cli, folder: Path) -> None:
    """Two prefill workers before one decode worker: a prompt of 100 tokens takes 1 ms, its hand-off is not free."""
    sizes = {"prefill_num_workers": "2", "decode_num_workers": "1"}
    name = silicon(folder, clients(3), {**clients(1), **sizes, "mode": "disagg"}, {**clients(2), "mode": "disagg"})
    done = run(cli, name, "--splits")
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads((folder / "accuracy.json").read_text())
    (measured,) = found["measurements"]
    assert found["settings"]["splits"] is True
    assert (measured["split"]["prefill_workers"], measured["split"]["decode_workers"]) == (2, 1)
    assert measured["split"]["prefill"]["worker_type"] == "prefill"
    assert measured["static_ms"] is None
    assert 1 < measured["simulated_ms"]["ttft"]["mean"] < 10
    assert [row["reason"] for row in found["refused"]] == [
        "not a split into prefill and decode workers",
        "disaggregated: number of workers unknown",
    ]
    assert "splits" not in json.loads(run_settings(cli, folder, name))


def run_settings(cli: Cli, folder: Path, name: str) -> str:
    """The settings of a run without --splits, as JSON."""
    run(cli, name, "-o", "plain")
    return json.dumps(json.loads((folder / "plain" / "accuracy.json").read_text())["settings"])


def test_equal_runs_are_equal(fake: Path, cli: Cli, folder: Path) -> None:
    name = silicon(folder, *(clients(number) for number in (1, 2, 4, 8)))
    for jobs in ("1", "2"):
        assert run(cli, name, "-o", jobs, "-j", jobs).returncode == 0
    assert (folder / "1" / "accuracy.json").read_text() == (folder / "2" / "accuracy.json").read_text()


def test_the_rules_of_the_mocker(fake: Path, cli: Cli, folder: Path) -> None:
    name = silicon(folder, clients(8, backend="sglang", backend_version="0.5.9"))
    for rules in ("engine", "dynamo"):
        assert run(cli, name, "--scheduler", rules, "-o", rules).returncode == 0
    files = [folder / rules / "accuracy.json" for rules in ("engine", "dynamo")]
    engines = [json.loads(file.read_text())["measurements"][0] for file in files]
    assert engines[0]["engine_args"]["scheduler"] == "sglang"
    assert "scheduler" not in engines[1]["engine_args"]
    assert engines[0]["simulated_ms"] != engines[1]["simulated_ms"]


def test_a_model_without_data_is_a_refusal(fake: Path, cli: Cli, folder: Path) -> None:
    name = silicon(folder, clients(1), clients(2, model_path="useless"))
    done = run(cli, name)
    assert done.returncode == 0
    assert "1 of 2 measurements replayed, 1 refused" in done.stdout
    assert '"useless" has no predictions' in done.stdout


@pytest.mark.parametrize("module", ["dynamo.validate", "dynamo.calibrate"])
def test_the_interval_of_the_scripts_is_no_option_any_more(cli: Cli, folder: Path, module: str) -> None:
    done = cli("run.json", "--receive-interval", module=module)
    assert done.returncode == 2
    assert "--receive-interval: leave it out: the scheduler_recv_interval of the scripts" in done.stderr


def test_nothing_to_replay(cli: Cli, folder: Path) -> None:
    write(folder, {"run.json": SERVING})
    done = run(cli, "run.json")
    assert done.returncode == 1
    assert done.stderr == "error: no measurement could be replayed; the reasons are above\n"
    assert "1  the source does not say which model ran on which GPU" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing"], "SOURCE: 'missing' is missing"),
        (["run.json", "--engine", "[1]"], "--engine: want a JSON object of engine arguments"),
        (["run.json", "--engine", "{"], "--engine: "),
        (["run.json", "--engine", '{"max_num_seq": 1}'], 'did you mean "max_num_seqs"?'),
        (["run.json", "--engine", "@missing.json"], "missing.json"),
        (["run.json", "--calibration", "missing.json"], "--calibration: 'missing.json' is missing"),
        (["run.json", "--jobs", "0"], "--jobs: got 0, want an integer >= 1"),
        (["run.json", "--engine", '{"dp_size": 1, "dp_size": 2}'], "--engine: dp_size: got a duplicate key"),
        (["run.json", "--engine", '{"a":' * 20_000], "--engine: nested too deeply"),
        (["run.json", "-o", "run.json/out"], "--output: 'run.json/out' cannot be written to"),
        (["run.json", "-o", "run.json"], "--output: 'run.json' is not a folder"),
        (["run.json", "--source-format", "csv"], "--source-format"),
        (["run.json", "--source-format", "guidellm"], "run.json: benchmarks: got null, want a list"),
        (["run.json", "--scheduler", "vllm"], "--scheduler"),
        (["--enginee", "{}"], "did you mean --engine?"),
        ([], "MEASURED"),
    ],
)
def test_bad_input_is_one_line(cli: Cli, folder: Path, arguments: list[str], message: str) -> None:
    write(folder, {"run.json": SERVING})
    assert message in refused(run(cli, *arguments))
    assert [path.name for path in folder.iterdir()] == ["run.json"]


def test_help_names_formats_and_options(cli: Cli) -> None:
    text = run(cli, "--help").stdout
    for word in ("llmservingsim", "genai-perf", "--calibration", "--splits", "docs/accuracy.md"):
        assert word in text


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_ctrl_c_leaves_no_file_and_no_process(
    fake: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, jobs: str
) -> None:
    """The SDK takes most of an hour to load a model; the interrupt goes to the command alone."""
    loading = folder / "loading"
    monkeypatch.setenv("FAKE_IS_LOADING", str(loading))
    name = silicon(folder, clients(1, model_path="slow"), clients(2, model_path="slow", tp_size="2"))
    process = subprocess.Popen(
        command(name, "-j", jobs, "-o", "out", module="dynamo.validate"),
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    until(loading.exists)
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=300) == ("", "interrupted\n")
    assert process.returncode == 130
    assert not (folder / "out").exists()


def test_recorded_requests_in_a_process_of_their_own(fake: Path, cli: Cli, folder: Path) -> None:
    meta = {"model": "m", "vllm_version": "0.19.0", "engine_kwargs": {}, "hardware": {"device_name": "NVIDIA H200"}}
    write(folder, {"requests.jsonl": SERVED, "meta.json": meta})
    done = run(cli, ".")
    assert (done.returncode, done.stderr) == (0, "")
    (found,) = json.loads((folder / "accuracy.json").read_text())["measurements"]
    assert found["measured_ms"]["ttft"]["mean"] == pytest.approx(250)
    assert found["static_ms"] is None


def test_errors_and_summaries() -> None:
    assert scores.error(3.0, 2.0) == 0.5
    assert scores.error(None, 2.0) is None
    assert scores.error(1.0, 0.0) is None
    assert scores.summary([]) is None
    found = scores.summary([0.1, -0.3, None, 0.2])
    assert found is not None
    values = (found.count, found.mean_abs, found.median_abs, found.signed, found.p90_abs)
    assert values == pytest.approx((3, 20, 20, 10, 30))


def test_distance_of_distributions() -> None:
    assert scores.ks_distance([1, 2, 3], [1, 2, 3]) == 0
    assert scores.ks_distance([1, 2], [3, 4]) == 1
    assert scores.ks_distance([1, 2, 3, 4], [1, 2, math.nan]) == 0.5
    assert scores.ks_distance([], [1]) is None


def test_the_median_stands_in_for_a_mean_that_is_not_there() -> None:
    assert scores.headline(Figures(mean=1.0, p50=2.0)) == "mean"
    assert scores.headline(Figures(p50=2.0)) == "p50"


@pytest.mark.parametrize(("count", "name"), [(1, "1-8"), (8, "1-8"), (9, "9-32"), (256, "129-256"), (257, "257+")])
def test_classes_of_concurrency(count: int, name: str) -> None:
    assert scores.concurrency_class(Measurement(id="", source="", file="", concurrency=count)) == name


def test_results_keep_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches go by what they ask the SDK, and by work; results come back as the measurements were."""
    rows = [
        Measurement(id=str(n), source="vllm-bench", file="", engine="vllm", concurrency=n, isl=5, osl=40 - n)
        for n in range(1, 30)
    ]
    seen: list[int] = []

    def noted(replays: Any) -> list[Result]:
        seen.extend(int(replay.measurement.id) for replay in replays)
        return [Result(replay, None, None, replay.measurement.id) for replay in replays]

    monkeypatch.setattr(runner, "_run_batch", noted)
    found = validate(rows, Rules(engine={"engine_type": "vllm"}), jobs=1)
    assert [refused.reason for refused in found.refused] == [row.id for row in rows]
    assert sorted(seen) == list(range(1, 30))


def test_a_process_that_dies_is_said(fake: Path, cli: Cli, folder: Path) -> None:
    """The made-up SDK ends the process that asks about a model; the command neither hangs nor writes."""
    models = fake / "aiconfigurator" / "sdk" / "models.py"
    models.write_text(models.read_text() + "\ndef get_model(**_):\n    import os\n    os._exit(7)\n")
    done = run(cli, silicon(folder, clients(1), clients(2, tp_size="2")), "-j", "2", "-o", "out")
    assert done.returncode == 1
    assert done.stderr == "error: a process of the validation ended unexpectedly, perhaps for lack of memory\n"
    assert not (folder / "out").exists()


def test_means_over_seeds(fake: Path, cli: Cli, folder: Path) -> None:
    """After the first run, fixed lengths vary by a fiftieth; errors are those of the first run."""
    rows = [clients(4, isl="1000", osl="100", silicon_tpot_ms="5.0"), clients(2, isl="1000", osl="100")]
    done = run(cli, silicon(folder, *rows), "--seeds", "5")
    assert (done.returncode, done.stderr) == (0, "")
    assert "\nMeans of 5 seeds, from the least to the largest in ms, and measured:\n" in done.stdout
    assert "\nTTFT: between them are 0 of 2 measurements; the widest:\n" in done.stdout
    found = json.loads((folder / "accuracy.json").read_text())
    assert found["settings"]["seeds"] == 5
    for measured in found["measurements"]:
        for metric, (low, high) in measured["simulated_range_ms"].items():
            assert low <= measured["simulated_ms"][metric]["mean"] <= high
            assert low < high
    assert run(cli, "table.csv", "--seeds", "5", "-o", "again").returncode == 0
    assert (folder / "again" / "accuracy.json").read_text() == (folder / "accuracy.json").read_text()
    assert run(cli, "table.csv").returncode == 0
    text = (folder / "accuracy.json").read_text()
    assert "simulated_range_ms" not in text
    assert json.loads(text)["summary"] == found["summary"]
    assert "--seeds: got 0, want an integer from 1 to 1000" in refused(run(cli, "table.csv", "--seeds", "0"))


def test_clients_that_choose_from_few_prompts() -> None:
    """Prompts that a cache knows are not computed again; without the cache, or all different, they are."""
    engine = {"engine_type": "vllm", "num_gpu_blocks": 4096, "enable_prefix_caching": True}
    few = mean_ttft(engine, 3)
    different = mean_ttft(engine, 0)
    assert few < 0.5 * different
    assert mean_ttft({**engine, "enable_prefix_caching": False}, 3) == pytest.approx(different, rel=0.01)


def mean_ttft(engine: dict[str, Any], prompts: int) -> float:
    load = ClosedLoop(2, 40, 2000, 10, prompts)
    mean = simulate(Replay(Measurement(id="", source="", file=""), engine, load)).ttft.mean
    assert mean is not None
    return mean


@pytest.mark.parametrize(("measured", "inside"), [(99.0, False), (100.0, True), (120.0, True), (121.0, False)])
def test_what_seeds_hold(measured: float, inside: bool) -> None:
    replay = Replay(Measurement(id="", source="", file="", ttft=Figures(measured)), {}, ClosedLoop(1, 1, 1, 1), seeds=2)
    result = Result(replay, Outcome(Figures(110.0), Figures(), ranges={"ttft": (100.0, 120.0)}), None)
    assert scores.holds(result, "ttft") is inside
    assert scores.holds(result, "tpot") is None
