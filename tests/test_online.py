"""``--replay-mode online``: the same replay on the clock."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import ENDLESS, WALL_CLOCK, Cli, command, interrupt

SPACED = ["--input-tokens", "60", "--output-tokens", "4", "--request-count", "10", "--arrival-interval-ms", "100"]
CROWDED = ["--input-tokens", "200", "--output-tokens", "10", "--request-count", "60"]
SHARED = ["--turns-per-session", "2", "--shared-prefix-ratio", "0.5", "--num-prefix-groups", "2"]


def replay(folder: Path, cli: Cli, *arguments: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    done = cli(*arguments, "--report-json", "r.json", "--report-jsonl", "r.jsonl")
    assert (done.returncode, done.stderr) == (0, ""), done
    rows = [json.loads(line) for line in (folder / "r.jsonl").read_text().splitlines()]
    return json.loads((folder / "r.json").read_text()), rows


LINK = {"kv_bytes_per_token": 131072, "kv_transfer_bandwidth": 10}
POOLS = ["--num-prefill-workers", "1", "--num-decode-workers", "2", "--prefill-engine-args", json.dumps(LINK)]
AUTOSCALER = '{"policy": "queue", "target": 1, "max": 3, "sync_s": 0.2}'


@pytest.mark.parametrize(
    "options",
    [
        pytest.param([], id="one worker"),
        pytest.param(["--num-workers", "2", "--router-mode", "kv_router", "--kv-event-lag-ms", "5"], id="router"),
        pytest.param(POOLS, id="two pools"),
        pytest.param(["--num-workers", "2", "--autoscaler", AUTOSCALER], id="autoscaler"),
        pytest.param(["--num-workers", "2", "--max-sim-time-seconds", "0.55"], id="limit"),
    ],
)
def test_the_figures_are_those_of_offline(folder: Path, cli: Cli, options: list[str]) -> None:
    """The run takes as long as what it simulates, and comes to the same result."""
    offline, rows = replay(folder, cli, *SPACED, *options)
    began = time.monotonic()
    online, same = replay(folder, cli, *SPACED, *options, "--replay-mode", "online")
    assert time.monotonic() - began > offline["duration_ms"] / 1000
    assert online["wall_time_ms"] >= online["duration_ms"] > 400
    assert same == rows
    vary = WALL_CLOCK | {"provenance"}  # which says how it was run
    assert {key: online[key] for key in online.keys() - vary} == {key: offline[key] for key in offline.keys() - vary}


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
@pytest.mark.parametrize("mode", ["round_robin", "kv_router"])
@pytest.mark.parametrize("options", [["--num-workers", "4"], [], ["--replay-concurrency", "7", "--num-workers", "3"]])
def test_counts(folder: Path, cli: Cli, mode: str, engine: str, options: list[str]) -> None:
    arguments = {"engine_type": engine, "block_size": 16, "num_gpu_blocks": 60, "speedup_ratio": 8}
    online = ["--replay-mode", "online", "--router-mode", mode]
    report, rows = replay(
        folder, cli, *CROWDED, *SHARED, *options, *online, "--extra-engine-args", json.dumps(arguments)
    )
    assert report["num_requests"] == report["completed_requests"] == len(rows) == 120
    assert report["total_output_tokens"] == 1200
    assert all(row["terminal_status"] == "completed" for row in rows)
    assert all(row["arrival_time_ms"] <= row["first_admit_ms"] <= row["first_token_ms"] for row in rows)


def test_rejected_requests_do_not_hang(folder: Path, cli: Cli) -> None:
    small = ["--extra-engine-args", '{"num_gpu_blocks": 2}', "--replay-mode", "online"]
    done = cli(*CROWDED, *small, "--num-workers", "2", "--report-json", "r.json")
    assert done.returncode == 1
    assert json.loads((folder / "r.json").read_text())["rejected_requests"] == 60


HOPELESS = [
    pytest.param(["--num-workers", "2"], id="in turn"),
    pytest.param(["--num-workers", "2", "--replay-concurrency", "3"], id="concurrency"),
    pytest.param(["--num-workers", "3", "--router-mode", "kv_router"], id="router"),
    pytest.param(["--router-mode", "kv_router", "--replay-concurrency", "5"], id="router, one worker"),
    pytest.param(
        ["--num-workers", "2", "--router-mode", "kv_router", "--router-config", '{"router_queue_threshold": 0.01}'],
        id="queue",
    ),
]


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
@pytest.mark.parametrize("options", HOPELESS)
def test_small_pools_do_not_hang(folder: Path, cli: Cli, engine: str, options: list[str]) -> None:
    """Every request ends, whether it fits the pool or not."""
    sizes = {"engine_type": engine, "block_size": 16, "num_gpu_blocks": 20, "speedup_ratio": 20}
    arguments = [*SHARED, *options, "--extra-engine-args", json.dumps(sizes), "--replay-mode", "online"]
    for lengths in (["--input-tokens", "300"], ["--input-tokens", "330"]):  # 19.1 and 21 blocks
        done = cli(*lengths, "--output-tokens", "6", "--request-count", "20", *arguments, "--report-json", "r.json")
        report = json.loads((folder / "r.json").read_text())
        assert report["num_requests"] == 40
        assert report["completed_requests"] + report["rejected_requests"] == 40
        assert done.returncode == (1 if report["rejected_requests"] == 40 else 0), done


@pytest.mark.parametrize("mode", ["round_robin", "kv_router"])
@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_outputs_of_one_token(folder: Path, cli: Cli, mode: str, engine: str) -> None:
    options = ["--num-workers", "2", "--router-mode", mode, "--replay-mode", "online", "--replay-concurrency", "4"]
    report, rows = replay(
        folder,
        cli,
        *["--input-tokens", "100", "--output-tokens", "1", "--request-count", "30", *SHARED, *options],
        *["--extra-engine-args", json.dumps({"engine_type": engine, "speedup_ratio": 20})],
    )
    assert report["completed_requests"] == len(rows) == report["total_output_tokens"] == 60
    assert all(row["first_token_ms"] == row["last_token_ms"] for row in rows)


@pytest.mark.parametrize(
    "options", [[], ["--router-mode", "kv_router", "--num-workers", "3", "--replay-concurrency", "2"]]
)
def test_ctrl_c(folder: Path, options: list[str]) -> None:
    process = subprocess.Popen(
        command(*ENDLESS, *options, "--replay-mode", "online", "--report-json", "r.json"),
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    interrupt(process)
    stdout, stderr = process.communicate()
    assert (process.returncode, stdout, stderr) == (130, "", "interrupted\n")
