"""What is said when a name is wrong: of an option, a key, a column, a metric; and which file could not be written."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from conftest import TINY, Cli, command, refused, row, write_trace

from dynamo.mocker import AicPerfConfig, KvRouterConfig, MockEngineArgs
from dynamo.replay import run_synthetic_trace_replay, run_trace_replay

COMMANDS = ["dynamo.replay", "dynamo.mocker", "dynamo.replay.convert", "dynamo.replay.inspect", "dynamo.validate"]


def run(module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", module, *arguments], capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize("module", COMMANDS)
def test_every_command_knows_its_version(folder: Path, module: str) -> None:
    done = run(module, "--version")
    assert (done.returncode, done.stderr) == (0, "")
    assert re.fullmatch(r"(dynosim|Dynamo Mocker) \d+\.\d+\.\d+\S*\n", done.stdout)


@pytest.mark.parametrize(
    ("module", "arguments", "message"),
    [
        ("dynamo.replay", ["--num-worker", "2"], "unknown option --num-worker, did you mean --num-workers?"),
        ("dynamo.replay", ["--num_workers=2"], "unknown option --num_workers, did you mean --num-workers?"),
        ("dynamo.replay", ["-num-workers", "2"], "unknown option -num-workers, did you mean --num-workers?"),
        ("dynamo.replay", ["-x"], "unknown option -x, --help lists all"),
        ("dynamo.replay", ["--num-w", "2"], "unknown option --num-w, --help lists all"),
        ("dynamo.replay", [f"--{'x' * 500}"], f"unknown option --{'x' * 58}..., --help lists all"),
        ("dynamo.mocker", ["--standalone", "--port", "8000"], "unknown option --port, did you mean --http-port?"),
        ("dynamo.mocker", ["--modelpath", "."], "unknown option --modelpath, did you mean --model-path?"),
        ("dynamo.mocker", ["--no-enable-prefix-cache"], "did you mean --no-enable-prefix-caching?"),
        ("dynamo.replay.inspect", ["--trace-forma", "x"], "did you mean --trace-format?"),
        (
            "dynamo.replay.convert",
            ["agent-trace", "--input-file", "x"],
            "--input-file, --help lists all",
        ),
        ("dynamo.replay.convert", ["agent-trace", "--output", "x"], "did you mean --output-file?"),
    ],
)
def test_options_are_written_out(folder: Path, module: str, arguments: list[str], message: str) -> None:
    assert message in refused(run(module, *arguments))


def test_what_is_no_option_may_begin_with_a_hyphen(cli: Cli, folder: Path) -> None:
    trace = Path(write_trace(folder / "-t.jsonl", [row(0, 8, 2, [1])]))
    assert cli("--", trace.name).returncode == 0
    assert cli("-", stdin=trace.open()).returncode == 0
    assert "arrival_interval_ms: got -1" in refused(cli(*TINY, "--arrival-interval-ms", "-1"))


@pytest.mark.parametrize(
    ("option", "known"),
    [("--extra-engine-args", MockEngineArgs), ("--router-config", KvRouterConfig)],
)
@pytest.mark.parametrize("key", ["zzz", "é" * 300, "\x01" * 90, "x" * 100_000, ""])
def test_unknown_keys_are_answered_shortly(cli: Cli, option: str, known: Any, key: str) -> None:
    """By Go and by Python, with the same words."""
    text = json.dumps({key: 1}, ensure_ascii=False)
    message = refused(cli(*TINY, "--num-workers", "2", option, text))
    assert len(message) < 200
    assert "unknown field" in message
    assert "want one of" in message
    with pytest.raises(ValueError, match="unknown field") as refusal:
        known.from_json(json.dumps({key: 1}))
    assert len(str(refusal.value)) < 200
    if key == "zzz":
        assert str(refusal.value).endswith(message.partition("unknown field")[2].rstrip("\n"))


@pytest.mark.parametrize(
    ("kind", "given", "message"),
    [
        (MockEngineArgs, {"Block-Size": 1}, 'unknown field "Block-Size", did you mean "block_size"?'),
        (MockEngineArgs, {"max_num_batched": 1}, 'did you mean "max_num_batched_tokens"?'),
        (MockEngineArgs, {"caching": True}, ", such as enable_prefix_caching, "),
        (KvRouterConfig, {"temperature": 1}, ", such as router_temperature, "),
        (AicPerfConfig, {"aic_backend": "vllm", "aic_sytem": "x"}, 'did you mean "aic_system"?'),
    ],
)
def test_the_nearest_names_are_offered(kind: Any, given: Mapping[str, Any], message: str) -> None:
    with pytest.raises(TypeError) as refusal:
        kind(**given)
    assert message in str(refusal.value)


def test_an_unknown_metric_names_the_nearest() -> None:
    report = run_synthetic_trace_replay(20, 3, 5)
    with pytest.raises(KeyError, match="unknown metric 'mean_ttft', did you mean 'mean_ttft_ms'"):
        report["mean_ttft"]
    with pytest.raises(KeyError, match=r"want one of \d+, such as .*ttft"):
        report["ttft"]
    with pytest.raises(KeyError, match=r"^3$"):
        report[3]  # type: ignore[index]
    assert report.get("mean_ttft") is None
    assert "mean_ttft" not in report


def test_a_misspelt_key_of_a_trace_is_warned_of(cli: Cli, folder: Path) -> None:
    rows = [{"timestamp": 0, "inputlength": 5, "output_length": 1, "hash_ids": [1], "model": "m", "chat_id": 7}]
    trace = write_trace(folder / "t.jsonl", rows * 3)
    text = f'{trace}: 3 of 3 requests: the key "inputlength" is not read, did you mean "input_length"?'
    done = cli(trace)
    assert (done.returncode, done.stderr) == (0, f"warning: {text}\n")
    with pytest.warns(UserWarning, match=re.escape(text)):
        run_trace_replay(trace)
    assert text.partition(": ")[2] in run("dynamo.replay.inspect", trace).stdout


ROUTED = ["--num-workers", "2", "--router-mode", "kv_router"]


@pytest.mark.parametrize("rows", [[], [{"trace_row": 0}], [{"trace_row": 0, "decode_worker": 1}, {"trace_row": 1}]])
def test_decisions_that_decide_nothing_are_refused(cli: Cli, folder: Path, rows: list[dict[str, Any]]) -> None:
    write_trace(folder / "d.jsonl", rows)
    message = refused(cli(*TINY, *ROUTED, "--router-decisions", "d.jsonl"))
    assert "router_decisions: d.jsonl: got no row that names a worker, want trace_row and decode_worker_idx" in message


def test_rows_that_name_no_worker_are_warned_of(cli: Cli, folder: Path) -> None:
    write_trace(folder / "d.jsonl", [{"trace_row": 0, "decode_worker_idx": 1}, {"trace_row": 1}, {"trace_row": 2}])
    done = cli(*TINY, *ROUTED, "--router-decisions", "d.jsonl", "--router-decisions-mode", "force")
    assert done.returncode == 0
    assert "warning: router_decisions: d.jsonl: rows that name no worker: 2;" in done.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--report-json", "/dev/full"], "cannot write '/dev/full': No space left on device"),
        (["--report-jsonl", "/dev/full"], "--report-jsonl: cannot write /dev/full: no space left on device"),
        (["--save-trace", "/dev/full"], "save_trace: cannot write /dev/full: no space left on device"),
        ([*ROUTED, "--router-log", "/dev/full"], "cannot write /dev/full: no space left on device"),
    ],
)
def test_a_full_device_is_named(cli: Cli, options: list[str], message: str) -> None:
    done = cli(*TINY, *options)
    assert done.returncode == 1
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("option", ["--report-jsonl", "--save-trace", "--report-json"])
def test_a_file_that_does_not_fit_is_named(folder: Path, option: str) -> None:
    """A limit on the size of files stands for a full disk. The file of the user is named, not the draft beside it."""
    large = ["--input-tokens", "2000", "--output-tokens", "3", "--request-count", "2000"]
    done = subprocess.run(
        ["bash", "-c", 'ulimit -f 1; exec "$@"', "bash", *command(*large, option, "out.txt", "--num-workers", "2")],
        cwd=folder, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 1
    assert re.search(r"cannot write '?out\.txt'?: [Ff]ile too large\n", done.stderr), done.stderr
    assert not (folder / "out.txt").exists()


def test_an_empty_path_for_the_report(cli: Cli, folder: Path) -> None:
    assert refused(cli(*TINY, "--report-json", "")) == 'error: --report-json: got "", want a path\n'
    assert list(folder.iterdir()) == []
