"""Runs and arguments that are kept in files: ``--config`` and ``@FILE``, JSON or YAML."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import TINY, WALL_CLOCK, Cli, refused, row, write_trace

from dynamo._core import objectfile
from dynamo.replay import run_trace_replay

ROWS = [row(10 * at, 64, 8, [at % 3, 9]) for at in range(12)]
TRACE = ["t.jsonl", "--trace-block-size", "32"]


def report_of(cli: Cli, *arguments: str) -> dict[str, Any]:
    """The report of a run that must succeed without a message, without its wall-clock keys."""
    done = cli(*arguments, "--report-json", "report.json")
    assert (done.returncode, done.stderr) == (0, "")
    report: dict[str, Any] = json.loads(Path("report.json").read_text())
    return {key: value for key, value in report.items() if key not in WALL_CLOCK}


@pytest.fixture
def trace(folder: Path) -> str:
    return write_trace(folder / "t.jsonl", ROWS)


ENGINE = {"block_size": 16, "num_gpu_blocks": 64, "speedup_ratio": 0.5}
ENGINE_YAML = "block_size: 16\nnum_gpu_blocks: 64 # small\nspeedup_ratio: 5e-1\n"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("args.json", json.dumps(ENGINE)),
        ("args", "\ufeff\n" + json.dumps(ENGINE, indent="\t")),
        ("args.yaml", ENGINE_YAML),
        ("args.YML", json.dumps(ENGINE)),
        ("args.txt", ENGINE_YAML),
    ],
)
def test_engine_arguments_in_a_file(cli: Cli, trace: str, name: str, text: str) -> None:
    Path(name).write_text(text)
    written_out = report_of(cli, *TRACE, "--extra-engine-args", json.dumps(ENGINE))
    assert report_of(cli, *TRACE, "--extra-engine-args", f"@{name}") == written_out
    assert report_of(cli, *TRACE) != written_out


def test_every_json_option_takes_a_file(cli: Cli, trace: str) -> None:
    Path("prefill.yaml").write_text("worker_type: prefill\nblock_size: 16\nkv_transfer_bandwidth: 0\n")
    Path("decode.yaml").write_text("worker_type: decode\nblock_size: 16\n")
    Path("router.yaml").write_text("overlap_score_credit: 0\n")
    pools = ["--num-prefill-workers", "2", "--num-decode-workers", "2", "--router-mode", "kv_router"]
    written_out = report_of(
        cli, *TRACE, *pools,
        "--prefill-engine-args", '{"worker_type": "prefill", "block_size": 16, "kv_transfer_bandwidth": 0}',
        "--decode-engine-args", '{"worker_type": "decode", "block_size": 16}',
        "--router-config", '{"overlap_score_credit": 0}',
    )  # fmt: skip
    files = ["--prefill-engine-args", "@prefill.yaml", "--decode-engine-args", "@decode.yaml"]
    assert report_of(cli, *TRACE, *pools, *files, "--router-config", "@router.yaml") == written_out
    Path("scaler.yaml").write_text("mode: x\n")
    message = refused(cli(*TINY, "--autoscaler", "@scaler.yaml"))
    assert "scaler.yaml" not in message
    assert "mode" in message


def test_words_of_yaml(folder: Path) -> None:
    Path("a.yaml").write_text(
        "base: &base {a: 1e5, b: -1.5, c: .5e-3}\nmerged: {<<: *base, a: 3}\nwords: [true, False, null, ~, no, 010]\n"
        "texts: ['1', \"2\", 2024-01-01, 12:30, 0x10, 1_000]\nnone:\nzero: 0\n"
    )
    assert objectfile.read("--config", "a.yaml") == {
        "base": {"a": 100000.0, "b": -1.5, "c": 0.0005},
        "merged": {"a": 3, "b": -1.5, "c": 0.0005},
        "words": [True, False, None, None, "no", "010"],
        "texts": ["1", "2", "2024-01-01", "12:30", "0x10", "1_000"],
        "none": None,
        "zero": 0,
    }


def test_a_file_from_a_pipe(cli: Cli, trace: str) -> None:
    with subprocess.Popen(["echo", json.dumps(ENGINE)], stdout=subprocess.PIPE) as echo:
        done = cli(*TRACE, "--extra-engine-args", "@/dev/stdin", stdin=echo.stdout)
    assert (done.returncode, done.stderr) == (0, "")


DEEP = "[" * 100_000
# Each line doubles the values of the line before.
MERGES = "a: &a0 {x: 1}\n" + "".join(f"b{i}: &a{i + 1} {{<<: [*a{i}, *a{i}]}}\n" for i in range(40))
BOMB = "a: &a0 [1, 2]\n" + "".join(f"b{i}: &a{i + 1} [*a{i}, *a{i}]\n" for i in range(40))


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.json", '{"block_size": 16,}', "@: line 1 column 19: "),
        ("a.json", '{"block_size": 16, "block_size": 16}', "@: block_size: got a duplicate key"),
        ("a.json", '{"speedup_ratio": NaN}', "@: got NaN, want a finite number"),
        ("a.json", "[1]", "@: got [1], want an object"),
        ("a.json", '{"a":' + DEEP, "@: nested too deeply"),
        ("a.yaml", "block_size: 16\nblock_size: 16\n", '@: line 2 column 1: "block_size" is given twice'),
        ("a.yaml", "block_size: [1\n", "@: line 2 column 1: "),
        ("a.yaml", "a: !!python/object:os.system x\n", "@: line 1 column 4: could not determine a constructor"),
        ("a.yaml", "a: !!timestamp x\n", "@: broken YAML: "),
        ("a.yaml", "", "@: got null, want an object"),
        ("a.yaml", "1: 2\n", "@ key: got 1, want a string"),
        ("a.yaml", "sglang:\n  3: 2\n", "@: sglang key: got 3, want a string"),
        ("a.yaml", "speedup_ratio: .nan\n", "@: speedup_ratio: got nan, want a finite number"),
        ("a.yaml", "a: &a [*a]\n", "@: holds more than 100000 values"),
        ("a.yaml", "a: " + DEEP, "@: nested too deeply"),
        ("a.yaml", MERGES, "@: broken YAML: a mapping gets more than 100000 members by merging"),
        ("a.yaml", "block_size: !!int 1" + ":1" * 200_000, "@: broken YAML: "),
        ("a.yaml", "block_size: 1" + ":1" * 200_000, "block_size: got "),
        ("a.yaml", "block_size: 016", 'block_size: got "016", want an integer'),
        ("a.yaml", "enable_prefix_caching: no", 'enable_prefix_caching: got "no", want true or false'),
        ("a.yaml", "speedup_ratio: -.INF\n", "@: speedup_ratio: got -inf, want a finite number"),
        ("a.yaml", BOMB, "@: holds more than 100000 values"),
        ("a.yaml", "block_size: sixteen\n", 'block_size: got "sixteen", want an integer'),
        ("a.yaml", "x" * (2 << 20), "@: longer than 1048576 bytes"),
        ("a.yaml", "blok_size: 16\n", 'did you mean "block_size"?'),
    ],
)
def test_what_is_wrong_in_a_file(cli: Cli, folder: Path, name: str, text: str, message: str) -> None:
    Path(name).write_text(text)
    assert message.replace("@", f"--extra-engine-args: {name}") in refused(
        cli(*TINY, "--extra-engine-args", f"@{name}")
    )


@pytest.mark.parametrize("path", ["nowhere.yaml", ".", "x" * 300, "", "latin.yaml"])
def test_files_that_cannot_be_read(cli: Cli, folder: Path, path: str) -> None:
    Path("latin.yaml").write_bytes(b"a: \xff")
    assert "--extra-engine-args: " in refused(cli(*TINY, "--extra-engine-args", f"@{path}"))
    assert "--config: " in refused(cli("--config", path))


def test_a_mark_without_a_file(cli: Cli, folder: Path) -> None:
    assert "--router-config: the path of the file is empty" in refused(cli(*TINY, "--router-config", "@"))


@pytest.mark.parametrize("name", ["args.json", "args", "missing.yaml"])
def test_a_file_without_its_mark(cli: Cli, folder: Path, name: str) -> None:
    Path("args.json").write_text("{}")
    Path("args").write_text("{}")
    message = refused(cli(*TINY, "--extra-engine-args", name))
    assert f'--extra-engine-args: got "{name}", want a JSON object; a file is given as @{name}' in message


RUN = {
    "trace": "t.jsonl",
    "trace_block_size": 32,
    "num_workers": 2,
    "router_mode": "kv_router",
    "router_config": {"overlap_score_credit": 0.5},
    "extra_engine_args": {"engine_type": "sglang", "block_size": 16, "sglang": {"schedule_policy": "lpm"}},
    "arrival_speedup_ratio": 2,
    "max_sim_time_ms": 100000,
    "seed": None,
}
RUN_YAML = """\
trace: t.jsonl
trace_block_size: 32
num_workers: 2
router_mode: kv_router
router_config: {overlap_score_credit: 0.5}
extra_engine_args:
  engine_type: sglang
  block_size: 16
  sglang:
    schedule_policy: lpm
arrival_speedup_ratio: 2
max_sim_time_ms: 1e5
seed:
"""
RUN_FLAGS = [
    *TRACE, "--num-workers", "2", "--router-mode", "kv_router", "--router-config", '{"overlap_score_credit": 0.5}',
    "--extra-engine-args", json.dumps(RUN["extra_engine_args"]), "--arrival-speedup-ratio", "2",
    "--max-sim-time-seconds", "100",
]  # fmt: skip


@pytest.fixture
def run(folder: Path) -> str:
    (folder / "run.yaml").write_text(RUN_YAML)
    (folder / "run.json").write_text(json.dumps(RUN))
    return "run.yaml"


def test_a_run_in_a_file(cli: Cli, trace: str, run: str) -> None:
    flags = report_of(cli, *RUN_FLAGS)
    assert report_of(cli, "--config", "run.yaml") == flags
    assert report_of(cli, "--config", "run.json") == flags


def test_flags_win_over_the_file(cli: Cli, trace: str, run: str) -> None:
    write_trace(Path("other.jsonl"), ROWS[:5])
    changed = ["--num-workers", "3", "--max-sim-time-seconds", "0.05", "--router-config", "{}"]
    assert report_of(cli, "--config", run, *changed) == report_of(cli, *RUN_FLAGS, *changed)
    other = report_of(cli, "--config", run, "other.jsonl")
    assert other == report_of(cli, "other.jsonl", *RUN_FLAGS[1:])
    assert other["num_requests"] == 5


def test_a_synthetic_run_in_a_file(cli: Cli, folder: Path) -> None:
    Path("run.yaml").write_text(
        "input_tokens: uniform(10,50)\noutput_tokens: 4\nrequest_count: 7\narrival_process: poisson\nrequest_rate: 10\n"
        "report_json: deep/r.json\nreport_jsonl_path: deep/rows.jsonl\nseed: 3\n"
    )
    done = cli("--config", "run.yaml")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(Path("deep/r.json").read_text())["completed_requests"] == 7
    assert len(Path("deep/rows.jsonl").read_text().splitlines()) == 7
    flags = ["--input-tokens", "uniform(10,50)", "--output-tokens", "4", "--request-count", "7", "--seed", "3"]
    arrivals = ["--arrival-process", "poisson", "--request-rate", "10"]
    assert report_of(cli, *flags, *arrivals) == report_of(cli, "--config", "run.yaml")


def test_predictions_of_the_router_in_a_file(cli: Cli, trace: str, run: str) -> None:
    with Path(run).open("a") as file:
        file.write("aic_perf_config: {aic_backend: vllm, aic_system: h200_sxm}\n")
    assert "missing: --aic-model-path" in refused(cli("--config", run))
    estimating = ["--router-config", '{"router_prefill_load_model": "aic"}']
    message = refused(cli("--config", run, *estimating, "--aic-model-path", "m", "--aic-tp-size", "0"))
    assert "aic_tp_size: got 0" in message


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("num_worker: 2", '--config: run.yaml: unknown key "num_worker", did you mean num_workers?'),
        ("traces: x", '--config: run.yaml: unknown key "traces", did you mean trace?'),
        ("on_progress: x", '--config: run.yaml: unknown key "on_progress", want one of '),
        ("report_jsonl: x", '--config: run.yaml: unknown key "report_jsonl", did you mean report_jsonl_path?'),
        ("max-sim-time-seconds: 1", 'unknown key "max-sim-time-seconds", did you mean max_sim_time_ms?'),
        ("aic_backend: vllm", 'unknown key "aic_backend", want it as a field of aic_perf_config'),
        ("aic_perf_config: {num_workers: 5}", 'aic_perf_config: unknown field "num_workers", want one of 15, such as '),
        ("aic_perf_config: {aic_bakend: vllm}", 'unknown field "aic_bakend", did you mean aic_backend?'),
        ("num_workers: two", '--config: run.yaml: num_workers: got "two", want an integer'),
        ("num_workers: 0", "num_workers: got 0, want an integer"),
        ("trace_files: x.jsonl", "--config: run.yaml: trace and trace_files are the same, want one of them"),
        ("extra_engine_args: [1]", "--config: run.yaml: extra_engine_args: got [1], want a MockEngineArgs or a dict"),
        ("extra_engine_args: '@none.yaml'", "none.yaml"),
        ("input_tokens: 3", "--input-tokens cannot be combined with a trace file"),
        ("report_json: ''", '--report-json: got "", want a path'),
        ("report_json: [1]", "--config: run.yaml: report_json: got [1], want a path"),
    ],
)
def test_what_is_wrong_in_a_run(cli: Cli, trace: str, folder: Path, line: str, message: str) -> None:
    Path("run.yaml").write_text(f"trace: t.jsonl\n{line}\n")
    assert message in refused(cli("--config", "run.yaml"))


@pytest.mark.parametrize("arguments", [TINY, ["--config", "run.json"], [*TINY, "--extra-engine-args", "@args.json"]])
def test_yaml_is_loaded_when_it_is_needed(trace: str, run: str, folder: Path, arguments: list[str]) -> None:
    Path("args.json").write_text("{}")
    check = (
        "import sys; from dynamo.replay.main import main; code = main(sys.argv[1:]);"
        " assert code == 0; assert not {'yaml', 'numpy'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", check, *arguments], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")


def test_without_pyyaml(run: str, folder: Path) -> None:
    Path("yaml.py").write_text("raise ImportError\n")
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    done = subprocess.run(
        [sys.executable, "-m", "dynamo.replay", "--config", run], env=environment, capture_output=True, text=True
    )
    assert "--config: run.yaml: YAML is read by PyYAML, which is missing: pip install pyyaml" in refused(done)


@pytest.mark.parametrize("argument", ["@args.yaml", "args.yaml", "@args.json", "args.json", '{"blok_size": 16}'])
def test_live_workers_take_files_and_objects(folder: Path, argument: str) -> None:
    """The mistake in the arguments shows that they have been read."""
    Path("args.yaml").write_text("blok_size: 16\n")
    Path("args.json").write_text('{"blok_size": 16}')
    Path("model").mkdir()
    for name in ("config.json", "tokenizer.json"):
        (Path("model") / name).write_text("{}")
    live = [sys.executable, "-m", "dynamo.mocker", "--model-path", "model", "--discovery-backend", "mem"]
    done = subprocess.run([*live, "--extra-engine-args", argument], capture_output=True, text=True, timeout=300)
    assert 'unknown field "blok_size", did you mean "block_size"?' in refused(done)
    Path("reasoning.yaml").write_text("start_thinking_token_id: x\n")
    done = subprocess.run([*live, "--reasoning", "@reasoning.yaml"], capture_output=True, text=True, timeout=300)
    assert "start_thinking_token_id" in refused(done)


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ("--extra-engine-args", '{"block_size": 16}'),
        ("--config", '{"num_workers": 2}'),
        ("--faults", '{"kind": "crash", "at_ms": 1, "target": "worker:0"}'),
    ],
)
@pytest.mark.parametrize("output", ["--report-json", "--report-jsonl", "--save-trace"])
def test_no_output_replaces_a_file_that_is_read(
    cli: Cli, trace: str, folder: Path, option: str, text: str, output: str
) -> None:
    (folder / "read.json").write_text(text)
    value = "read.json" if option in ("--config", "--faults") else "@read.json"
    said = refused(cli(trace, option, value, output, "./read.json"))
    assert said.startswith(f"error: {output}: ")
    assert f"read.json' is the same file as {option}, want another" in said
    assert (folder / "read.json").read_text() == text


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("extra_engine_args", "@read.json", '{"block_size": 16}'),
        ("faults", "read.json", '{"kind": "crash", "at_ms": 1, "target": "worker:0"}'),
    ],
)
@pytest.mark.parametrize("key_of_output", [None, "save_trace"])
def test_no_output_replaces_a_file_that_a_run_names(
    cli: Cli, trace: str, folder: Path, key: str, value: str, text: str, key_of_output: str | None
) -> None:
    (folder / "read.json").write_text(text)
    run = {"trace": trace, key: value, **({key_of_output: "./read.json"} if key_of_output else {})}
    (folder / "run.json").write_text(json.dumps(run))
    said = refused(cli("--config", "run.json", *([] if key_of_output else ["--report-json", "read.json"])))
    assert f"read.json' is the same file as {key} of --config, want another" in said
    assert (folder / "read.json").read_text() == text


def test_two_options_may_read_one_file(cli: Cli, trace: str, folder: Path) -> None:
    (folder / "none.json").write_text("{}")
    routed = ["--router-mode", "kv_router", "--num-workers", "2"]
    done = cli(*TRACE, *routed, "--extra-engine-args", "@none.json", "--router-config", "@none.json")
    assert (done.returncode, done.stderr) == (0, "")


def test_python_keeps_a_script_of_faults_too(trace: str, folder: Path) -> None:
    script = folder / "faults.jsonl"
    script.write_text('{"kind": "crash", "at_ms": 1, "target": "worker:0"}')
    with pytest.raises(ValueError, match=r"report_jsonl_path: .* is the same file as faults"):
        run_trace_replay(trace, faults=script, report_jsonl_path=script)
