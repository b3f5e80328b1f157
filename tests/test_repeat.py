"""Where a report comes from, and ``--from-report``, which repeats its run."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from conftest import TINY, WALL_CLOCK, Cli, command, refused, row, write_trace

from dynamo import replay
from dynamo._core.version import VERSION
from dynamo.mocker import KvRouterConfig, MockEngineArgs

ROUTED = ["--num-workers", "2", "--router-mode", "kv_router", "--router-config", '{"router_queue_policy": "wspt"}']
ENGINE = ["--extra-engine-args", '{"block_size": 4, "num_gpu_blocks": 40}', "--trace-block-size", "4"]


@pytest.fixture
def trace(folder: Path) -> str:
    write_trace(folder / "trace.jsonl", [row(i, 8, 3, [i % 3, i % 2]) for i in range(20)])
    return "trace.jsonl"


def load(name: str) -> dict[str, Any]:
    report: dict[str, Any] = json.loads(Path(name).read_text())
    return report


def without_clock(report: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in report.items() if key not in WALL_CLOCK}


def test_a_report_names_its_run(cli: Cli, trace: str) -> None:
    assert cli(trace, *ROUTED, *ENGINE, "--seed", "7", "--report-json", "r.json").returncode == 0
    provenance = load("r.json")["provenance"]
    assert provenance["version"] == VERSION
    assert provenance["function"] == "run_trace_replay"
    assert provenance["inputs"] == [
        {"argument": "trace_files", "path": trace, "sha256": hashlib.sha256(Path(trace).read_bytes()).hexdigest()}
    ]
    arguments = provenance["arguments"]
    assert (arguments["seed"], arguments["num_workers"], arguments["trace_block_size"]) == (7, 2, 4)
    engine = arguments["extra_engine_args"]
    assert (engine["num_gpu_blocks"], engine["max_num_seqs"], engine["preemption_mode"]) == (40, 256, "lifo")
    assert arguments["router_config"]["router_queue_policy"] == "wspt"
    assert arguments["router_config"]["router_queue_threshold"] == 16


@pytest.mark.parametrize(
    "options",
    [
        pytest.param([*ROUTED, "--seed", "7"], id="router"),
        pytest.param(["--max-sim-time-seconds", "0.02", "--sla-ttft-ms", "20"], id="limits"),
        pytest.param(["--replay-concurrency", "3"], id="concurrency"),
    ],
)
def test_a_run_is_repeated(cli: Cli, trace: str, options: list[str]) -> None:
    assert cli(trace, *ENGINE, *options, "--report-json", "a.json", "--report-jsonl", "a.jsonl").returncode == 0
    done = cli("--from-report", "a.json", "--report-json", "b.json", "--report-jsonl", "b.jsonl")
    assert (done.returncode, done.stderr) == (0, "")
    assert without_clock(load("b.json")) == without_clock(load("a.json"))
    assert Path("b.jsonl").read_text() == Path("a.jsonl").read_text()


def test_outputs_are_not_repeated(cli: Cli, trace: str, folder: Path) -> None:
    outputs = ["--report-jsonl", "rows.jsonl", "--save-trace", "saved.jsonl", "--router-log", "log.jsonl"]
    assert cli(trace, *ROUTED, *ENGINE, *outputs, "--report-json", "a.json").returncode == 0
    for name in ("rows.jsonl", "saved.jsonl", "log.jsonl"):
        (folder / name).unlink()
    assert cli("--from-report", "a.json", "--report-json", "b.json").returncode == 0
    assert sorted(os.listdir(folder)) == ["a.json", "b.json", trace]
    assert "same file as --from-report" in refused(cli("--from-report", "a.json", "--report-json", "./a.json"))


def test_the_arguments_are_those_of_the_function(trace: str) -> None:
    report = replay.run_trace_replay(
        trace,
        extra_engine_args=MockEngineArgs(block_size=4, num_gpu_blocks=40),
        router_config=KvRouterConfig(router_queue_policy="lcfs"),
        num_workers=2,
        router_mode="kv_router",
        trace_block_size=4,
        max_sim_time_ms=30.0,
    )
    provenance = report["provenance"]
    again = getattr(replay, provenance["function"])(**provenance["arguments"])
    assert without_clock(again) == without_clock(report)
    assert again.requests["uuid"] == report.requests["uuid"]


def test_a_changed_trace_is_refused(cli: Cli, trace: str) -> None:
    assert cli(trace, *ENGINE, "--report-json", "a.json").returncode == 0
    lines = Path(trace).read_text().splitlines(keepends=True)
    Path(trace).write_text("".join(lines[:-1]))
    message = refused(cli("--from-report", "a.json", "--report-json", "b.json"))
    assert "trace_files: trace.jsonl has changed since the report: its SHA-256 begins with" in message
    Path(trace).unlink()
    assert "trace_files: trace.jsonl" in refused(cli("--from-report", "a.json"))
    assert not Path("b.json").exists()


def test_a_changed_profile_and_changed_lengths_are_refused(cli: Cli, folder: Path) -> None:
    source = Path(__file__).parents[1] / "examples" / "profiles"
    subprocess.run(["cp", "-r", str(source), "profiles"], check=True)
    profile = next(path for path in sorted(Path("profiles").iterdir()) if path.is_dir() or path.suffix == ".npz")
    Path("lengths.txt").write_text("20\n30\n")
    lengths = ["--input-tokens", "empirical(lengths.txt)", "--output-tokens", "3", "--request-count", "5"]
    engine = json.dumps({"planner_profile_data": str(profile)})
    assert cli(*lengths, "--extra-engine-args", engine, "--report-json", "a.json").returncode == 0
    inputs = load("a.json")["provenance"]["inputs"]
    assert {file["argument"] for file in inputs} == {"input_tokens", "extra_engine_args.planner_profile_data"}
    assert cli("--from-report", "a.json").returncode == 0
    for file in inputs:
        content = Path(file["path"]).read_bytes()
        Path(file["path"]).write_bytes(content + b"\n")
        assert file["path"] in refused(cli("--from-report", "a.json"))
        Path(file["path"]).write_bytes(content)


def test_standard_input_cannot_be_repeated(cli: Cli, trace: str, folder: Path) -> None:
    assert cli("-", *ENGINE, "--report-json", "a.json", input=Path(trace).read_text()).returncode == 0
    assert load("a.json")["provenance"]["inputs"] == [{"argument": "trace_files", "path": "-", "sha256": ""}]
    assert "from standard input, which cannot be repeated" in refused(cli("--from-report", "a.json"))
    os.mkfifo(folder / "pipe")
    run = subprocess.Popen(command("pipe", *ENGINE, "--report-json", "b.json"), stdout=subprocess.DEVNULL)
    Path("pipe").write_text(Path(trace).read_text())
    assert run.wait(timeout=300) == 0
    (folder / "pipe").unlink()
    Path("pipe").write_text(Path(trace).read_text())
    assert "was read from a stream, which cannot be repeated" in refused(cli("--from-report", "b.json"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not a JSON report"),
        ("[1]", "has no provenance"),
        ('{"num_requests": 3}', "has no provenance"),
        ('{"provenance": {}}', "has a damaged provenance"),
        ('{"provenance": {"function": "main", "arguments": {}, "inputs": [], "version": "1"}}', "damaged provenance"),
    ],
)
def test_files_that_are_no_reports(cli: Cli, folder: Path, text: str, message: str) -> None:
    Path("r.json").write_text(text)
    assert message in refused(cli("--from-report", "r.json"))
    assert os.listdir(folder) == ["r.json"]


@pytest.mark.parametrize(
    ("member", "value", "message"),
    [
        ("function", ["run_trace_replay"], "function: want one of run_trace_replay, run_synthetic_trace_replay"),
        ("version", None, "version: want a text"),
        ("arguments", None, "arguments: want an object"),
        ("arguments", [["seed", 1]], "arguments: want an object"),
        ("arguments", {"trace_files": 5}, "arguments: want an object, with trace_files as a list of texts"),
        ("arguments", {"trace_files": "t.jsonl"}, "arguments: want an object, with trace_files as a list of texts"),
        ("inputs", "abc", "inputs: want a list of objects with argument, path, sha256"),
        ("inputs", [{"path": 5}], "inputs: want a list of objects with argument, path, sha256"),
    ],
)
def test_a_damaged_provenance(cli: Cli, folder: Path, member: str, value: object, message: str) -> None:
    assert cli(*TINY, "--report-json", "a.json").returncode == 0
    report = load("a.json")
    report["provenance"][member] = value
    Path("a.json").write_text(json.dumps(report))
    assert f"'a.json' has a damaged provenance: {message}" in refused(cli("--from-report", "a.json"))


def test_mistakes_beside_a_report(cli: Cli, trace: str) -> None:
    assert "cannot read 'none.json': No such file" in refused(cli("--from-report", "none.json"))
    assert cli(*TINY, "--report-json", "a.json").returncode == 0
    assert "--seed cannot be combined with it" in refused(cli("--from-report", "a.json", "--seed", "1"))
    assert "a trace file cannot be combined" in refused(cli(trace, "--from-report", "a.json"))
    report = load("a.json")
    report["provenance"]["arguments"]["num_wokers"] = 2
    Path("a.json").write_text(json.dumps(report))
    assert 'did you mean "num_workers"?' in refused(cli("--from-report", "a.json"))


def test_another_version_is_a_warning(cli: Cli, folder: Path) -> None:
    assert cli(*TINY, "--report-json", "a.json").returncode == 0
    report = load("a.json")
    report["provenance"]["version"] = "0.0.1"
    Path("a.json").write_text(json.dumps(report))
    done = cli("--from-report", "a.json", "--report-json", "b.json")
    assert done.returncode == 0
    assert done.stderr == f"warning: 'a.json' was written by dynosim 0.0.1, this is {VERSION}: numbers may differ\n"
