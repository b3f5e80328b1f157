"""Recordings that become traces, and what traces are like: convert and inspect."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import interrupt, refused, row, write_trace

from dynamo.replay import convert, inspect, run_trace_replay

Command = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def command(folder: Path) -> Command:
    """Runs ``python -m dynamo.replay.NAME`` to its end in the empty folder."""

    def run(name: str, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
        line = [sys.executable, "-m", f"dynamo.replay.{name}", *arguments]
        return subprocess.run(line, cwd=folder, capture_output=True, text=True, timeout=300, **options)

    return run


def record(name: str, start: int, end: int, output: int, hashes: list[int], session: dict[str, str]) -> dict[str, Any]:
    replay = {"trace_block_size": 4, "input_length": 4 * len(hashes), "input_sequence_hashes": hashes}
    request = {"request_id": name, "output_tokens": output, "request_received_ms": start, "total_time_ms": end - start}
    return {
        "schema": "dynamo.request.trace.v1",
        "event_type": "request_end",
        "event_time_unix_ms": end,
        "agent_context": session,
        "request": {**request, "replay": replay},
    }


PARENT = {"session_id": "P"}
CHILD = {"session_id": "C", "parent_session_id": "P"}
TOOL = {
    "schema": "dynamo.request.trace.v1",
    "event_type": "tool_end",
    "event_time_unix_ms": 1066,
    "agent_context": CHILD,
    "tool": {"tool_call_id": "t", "tool_class": "shell", "started_at_unix_ms": 1058},
}
RECORDS = [
    record("p1", 1000, 1030, 2, [901, 902], PARENT),
    record("c1", 1035, 1055, 1, [7, 8], CHILD),
    TOOL,
    record("c2", 1070, 1090, 1, [7, 8, 9], CHILD),
    record("p2", 1100, 1140, 1, [901, 902, 905], PARENT),
]
SMALL = {"block_size": 4, "num_gpu_blocks": 1000}


@pytest.fixture
def recording(folder: Path) -> str:
    write_trace(folder / "recording.jsonl", RECORDS)
    return "recording.jsonl"


def test_an_agentic_recording_replays_as_its_trace_does(command: Command, folder: Path, recording: str) -> None:
    options = ["--agentic", "--input-path", recording, "--output-file", "new/trace.jsonl"]
    done = command("convert", "agent-trace", *options)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (
        "rows: 4\ntrace block size: 4\ntool calls: 1, 0.01 s in all, sessions with tool calls: 1\n"
        "tool calls by status: succeeded 1; by class: shell 1\nSaved trace to: new/trace.jsonl\n"
    )
    rows = [json.loads(line) for line in (folder / "new/trace.jsonl").read_text().splitlines()]
    assert [(row["request_id"], row.get("wait_for"), row.get("delay")) for row in rows] == [
        ("p1", None, None),
        ("c1", ["p1"], 5.0),
        ("c2", ["c1"], 7.0),
        ("p2", ["p1", "c2"], 10.0),
    ]
    converted = run_trace_replay(
        "new/trace.jsonl", trace_format="agentic_mooncake", trace_block_size=4, extra_engine_args=SMALL
    )
    direct = run_trace_replay(recording, trace_format="dynamo", extra_engine_args=SMALL)
    for report in (converted, direct):
        assert report["duration_ms"] == 125.77137599999999
        assert report["prefix_cache_reused_ratio"] == 0.4


def test_a_recording_in_parts_becomes_plain_rows(command: Command, folder: Path) -> None:
    write_trace(folder / "a.jsonl", RECORDS[:3])
    write_trace(folder / "b.jsonl", RECORDS[3:])
    for inputs in (["--input-path", "a.jsonl", "b.jsonl"], ["--input-path", "b.jsonl", "--input-path", "a.jsonl"]):
        assert command("convert", "agent-trace", *inputs, "--output-file", "t.jsonl").returncode == 0
        rows = [json.loads(line) for line in (folder / "t.jsonl").read_text().splitlines()]
        assert [(row["timestamp"], row["hash_ids"]) for row in rows] == [
            (0.0, [0, 1]),
            (35.0, [2, 3]),
            (70.0, [2, 3, 4]),
            (100.0, [0, 1, 5]),
        ]


def test_a_recording_from_standard_input_to_home(command: Command, folder: Path, recording: str) -> None:
    environment = {**os.environ, "HOME": str(folder)}
    options = ["--input-path", "-", "--output-file", "~/t.jsonl"]
    text = (folder / recording).read_text()
    assert command("convert", "agent-trace", *options, input=text, env=environment).returncode == 0
    assert (folder / "t.jsonl").read_text().count("\n") == 4


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ([], "agent-trace"),
        (["agent-log"], "invalid choice: 'agent-log'"),
        (["agent-trace"], "--input-path, --output-file"),
        (["agent-trace", "--input-path", "none", "--output-file", "t"], "input_path: none: file does not exist"),
        (["agent-trace", "--input-path", "recording.jsonl", "--output-file", ""], "--output-file: cannot write ''"),
        (["agent-trace", "--input-path", "recording.jsonl", "--output-file", "."], "--output-file: cannot write '.'"),
        (
            ["agent-trace", "--input-path", "none", "recording.jsonl", "--output-file", "./recording.jsonl"],
            "--output-file: './recording.jsonl' is the same file as --input-path, want another",
        ),
        (["agent-trace", "--input-path", "bad.jsonl", "--output-file", "t"], "bad.jsonl line 2: "),
        (["agent-trace", "--input-path", "recording.jsonl", "bad.jsonl", "--output-file", "t"], "bad.jsonl line 2: "),
        (["agent-trace", "--agentic", "--input-path", "lone.jsonl", "--output-file", "t"], "agent_context"),
        (["agent-trace", "--input-path", os.fsdecode(b"\xff"), "--output-file", "t"], "input_path: got"),
    ],
)
def test_what_cannot_be_converted(
    command: Command, folder: Path, recording: str, arguments: list[str], named: str
) -> None:
    before = (folder / recording).read_bytes()
    (folder / "bad.jsonl").write_text("\n{}\n")
    lone = {key: value for key, value in RECORDS[0].items() if key != "agent_context"}
    write_trace(folder / "lone.jsonl", [lone])
    assert named in refused(command("convert", *arguments))
    assert sorted(path.name for path in folder.iterdir()) == ["bad.jsonl", "lone.jsonl", "recording.jsonl"]
    assert (folder / recording).read_bytes() == before


def test_a_trace_that_cannot_be_written(command: Command, recording: str) -> None:
    done = command("convert", "agent-trace", "--input-path", recording, "--output-file", "/dev/full")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "error: output_file: cannot write /dev/full: no space left on device\n"


@pytest.mark.parametrize(
    "arguments", [["convert", "agent-trace", "--output-file", "t.jsonl", "--input-path", "-"], ["inspect", "-"]]
)
def test_ctrl_c(folder: Path, arguments: list[str]) -> None:
    line = [sys.executable, "-m", f"dynamo.replay.{arguments[0]}", *arguments[1:]]
    process = subprocess.Popen(line, cwd=folder, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    interrupt(process)
    assert (process.returncode, process.communicate()[1]) == (130, "interrupted\n")
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("arguments", [["convert", "agent-trace", "--output-file", "t", "--input-path"], ["inspect"]])
def test_a_closed_standard_input(folder: Path, arguments: list[str]) -> None:
    text = " ".join([sys.executable, "-m", f"dynamo.replay.{arguments[0]}", *arguments[1:], "-", "<&-"])
    done = subprocess.run(["bash", "-c", text], cwd=folder, capture_output=True, text=True, timeout=300)
    assert "standard input is closed" in refused(done)


@pytest.fixture
def trace(folder: Path) -> str:
    return write_trace(folder / "t.jsonl", [row(0, 128, 3, [1, 2]), row(10, 100, 5, [1, 3]), row(30, 64, 7, [1])])


def test_what_a_trace_is_like(command: Command, trace: str) -> None:
    done = command("inspect", "t.jsonl", "--trace-block-size", "64", "--block-size", "32", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    stats = json.loads(done.stdout)
    assert (stats["format"], stats["block_size"]) == ("mooncake", 32)
    assert (stats["requests"], stats["sessions"]) == (3, 3)
    assert (stats["total_input_tokens"], stats["total_output_tokens"]) == (292, 15)
    assert (stats["input_tokens"]["min"], stats["input_tokens"]["max"]) == (64, 128)
    assert stats["arrivals"]["gap_ms"]["mean"] == 15
    assert stats["prefix"]["best_reuse_ratio"] == pytest.approx(128 / 292, rel=0.15)
    assert stats["problems"] == []


def test_what_a_trace_is_like_for_people(command: Command, trace: str) -> None:
    done = command("inspect", "t.jsonl")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("requests 3, sessions 3, prompt tokens 292, output tokens 15\n")
    assert "blocks of 64 tokens" in done.stdout
    assert "note: 2 of 3 requests: hash_ids has more ids than the prompt needs" in done.stdout


def test_all_formats_are_inspected(command: Command, recording: str) -> None:
    done = command("inspect", recording, "--trace-format", "dynamo", "--block-size", "4", "--json")
    stats = json.loads(done.stdout)
    assert (stats["format"], stats["requests"], stats["sessions"], stats["waiting_requests"]) == ("dynamo", 4, 2, 3)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ([], "trace_file"),
        (["none.jsonl"], "trace_files: none.jsonl: file does not exist"),
        (["t.jsonl", "t.jsonl"], "trace_files: got 2 files, want exactly one for trace_format mooncake"),
        (["t.jsonl", "--trace-format", "csv"], 'trace_format: got "csv", want one of mooncake, '),
        (["t.jsonl", "--block-size", "0"], "block_size: got 0, want an integer from 1 to 1048576"),
        (["t.jsonl", "--trace-block-size", "0"], "trace_block_size: got 0, want an integer from 1 to 1048576"),
        (["t.jsonl", "--block-size", "x"], "--block-size"),
        (["t.jsonl", "--trace-format", "agentic_mooncake"], "t.jsonl line 1: request_id: missing"),
        ([os.fsdecode(b"\xff")], "trace_files: got"),
    ],
)
def test_what_cannot_be_inspected(command: Command, trace: str, arguments: list[str], named: str) -> None:
    assert named in refused(command("inspect", *arguments))


def test_a_reader_that_stops_early(folder: Path, trace: str) -> None:
    text = f'{sys.executable} -m dynamo.replay.inspect t.jsonl --json | head -n 1; echo "${{PIPESTATUS[0]}}"'
    done = subprocess.run(["bash", "-c", text], cwd=folder, capture_output=True, text=True, timeout=300)
    assert (done.stdout, done.stderr) == ("{\n0\n", "")


def test_the_commands_can_be_called(
    folder: Path, recording: str, trace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert convert.main(["agent-trace", "--input-path", recording, "--output-file", "out.jsonl"]) == 0
    assert inspect.main(["out.jsonl", "--trace-block-size", "4"]) == 0
    assert "requests 4, sessions 4" in capsys.readouterr().out
    assert convert.main(["--help"]) == inspect.main(["--help"]) == 0
    assert inspect.main(["nowhere"]) == 2
    assert convert.main(["agent-trace", "--input-path", "nowhere", "--output-file", "x"]) == 2


def test_salts_have_caches_of_their_own(folder: Path) -> None:
    """What requests with one salt have cached is no hit of those with another, on GPUs and on their hosts."""

    def rows(*salts: str | None) -> Path:
        lines = [row(1000 * at, 640, 2, range(40)) for at in range(len(salts))]
        for line, salt in zip(lines, salts, strict=True):
            if salt is not None:
                line["cache_salt"] = salt
        return write_trace(folder / f"{'-'.join(map(str, salts))}.jsonl", lines)

    hosted = {"scheduler": "vllm", "num_gpu_blocks": 45, "host_cache": {"num_blocks": 500}}
    for engine in ({"block_size": 16}, {"block_size": 16, **hosted}, {"block_size": 32}):
        ratios = []
        for salts in (("a", "b", "c", "d"), ("a", "b", "a", "b"), ("a", "b", None, ""), (None, None, None, None)):
            options = {"trace_block_size": 16, "num_workers": 2, "router_mode": "kv_router"}
            report = run_trace_replay(rows(*salts), extra_engine_args=engine, **options)
            ratios.append(report["prefix_cache_reused_ratio"])
        none, half, quarter, most = ratios
        assert none == 0
        assert half == pytest.approx(0.5, abs=0.03)
        assert quarter == pytest.approx(0.25, abs=0.03)
        assert most == pytest.approx(0.75, abs=0.03)
