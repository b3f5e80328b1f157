"""Each thing has one word, and the words of other commands do as well: docs/reference/words.md."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import TINY, Cli, refused

from dynamo.sweep import keys, points, spec

POOLS = ["--num-prefill-workers", "2", "--num-decode-workers", "2"]
TRANSFER = {"kv_bytes_per_token": 131072, "kv_transfer_bandwidth": 10}


def figures(cli: Cli, folder: Path, *arguments: str) -> dict[str, Any]:
    done = cli(*TINY, *arguments, "--report-json", "report.json")
    assert done.returncode == 0, done
    report = json.loads((folder / "report.json").read_text())
    return {name: value for name, value in report.items() if name.endswith("_ms") and "wall" not in name}


@pytest.mark.parametrize(
    ("word", "mode"),
    [
        ("kv", "kv_router"),
        ("kv-router", "kv_router"),
        ("round-robin", "round_robin"),
        ("least-requests", "least_requests"),
    ],
)
def test_routing_modes(cli: Cli, folder: Path, word: str, mode: str) -> None:
    arguments = [*TINY, "--num-workers", "2", "--seed", "7"]
    for given in (word, mode):
        assert cli(*arguments, "--router-mode", given, "--report-json", f"{given}.json").returncode == 0
    routed = [json.loads((folder / f"{given}.json").read_text())["provenance"]["arguments"] for given in (word, mode)]
    assert [arguments["router_mode"] for arguments in routed] == [mode, mode]


def test_an_unknown_routing_mode(cli: Cli) -> None:
    assert 'router_mode: got "kv-routr", want one of round_robin, ' in refused(cli(*TINY, "--router-mode", "kv-routr"))


def test_two_pools_need_only_their_numbers(cli: Cli, folder: Path) -> None:
    shared = {"block_size": 16}
    written = ["--router-mode", "round_robin"]
    for role, more in (("prefill", TRANSFER), ("decode", {})):
        written += [f"--{role}-engine-args", json.dumps({"worker_type": role, **shared, **more})]
    short = ["--engine", json.dumps(shared), "--prefill-engine-args", json.dumps(TRANSFER)]
    assert figures(cli, folder, *POOLS, *short) == figures(cli, folder, *POOLS, *written)
    assert figures(cli, folder, *POOLS) != figures(cli, folder, *POOLS, *short)


@pytest.mark.parametrize(
    ("module", "arguments", "says"),
    [
        ("dynamo.replay", [*TINY, "--engine", '{"blok_size": 1}'], 'did you mean "block_size"'),
        ("dynamo.replay", ["x.jsonl", "--source-format", "excel"], 'trace_format: got "excel"'),
        ("dynamo.replay.inspect", ["x.jsonl", "--source-format", "excel"], 'trace_format: got "excel"'),
        ("dynamo.mocker", ["--standalone", "--engine", '{"blok_size": 1}'], 'did you mean "block_size"'),
        ("dynamo.validate", ["x.csv", "--trace-format", "excel"], "excel"),
        ("dynamo.validate", ["x.csv", "--extra-engine-args", '{"blok_size": 1}'], 'did you mean "block_size"'),
        ("dynamo.calibrate", ["x.csv", "-o", "p", "--extra-engine-args", '{"blok_size": 1}'], "block_size"),
        ("dynamo.sweep", ["run", "x.yaml", "-o", "out", "-j", "none"], "-j"),
    ],
)
def test_options(folder: Path, module: str, arguments: list[str], says: str) -> None:
    import subprocess
    import sys

    done = subprocess.run([sys.executable, "-m", module, *arguments], capture_output=True, text=True, cwd=folder)
    assert done.returncode == 2
    assert says in done.stderr


def test_sweeps() -> None:
    given = {
        "run": {"input_tokens": 5, "output_tokens": 2, "request_count": 4, "num_workers": 2, "router_mode": "kv"},
        "search": {"router_mode": ["round-robin", "kv"]},
    }
    read = spec.load(given)
    assert read.run["router_mode"] == "kv_router"
    made = [points.configure(read, {"router_mode": word})["router_mode"] for word in ("round-robin", "kv")]
    assert made == ["round_robin", "kv_router"]
    assert [keys.routing_mode(word) for word in ("mine", 7, "least-requests")] == ["mine", 7, "least_requests"]
