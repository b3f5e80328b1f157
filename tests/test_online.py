"""``--replay-mode online``: the same replay on the clock."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import ENDLESS, Cli, command, interrupt, refused

SPACED = ["--input-tokens", "60", "--output-tokens", "4", "--request-count", "10", "--arrival-interval-ms", "100"]
CROWDED = ["--input-tokens", "200", "--output-tokens", "10", "--request-count", "60"]
SHARED = ["--turns-per-session", "2", "--shared-prefix-ratio", "0.5", "--num-prefix-groups", "2"]


def replay(folder: Path, cli: Cli, *arguments: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    done = cli(*arguments, "--report-json", "r.json", "--report-jsonl", "r.jsonl")
    assert (done.returncode, done.stderr) == (0, ""), done
    rows = [json.loads(line) for line in (folder / "r.jsonl").read_text().splitlines()]
    return json.loads((folder / "r.json").read_text()), rows


def test_no_token_comes_before_its_time(folder: Path, cli: Cli) -> None:
    _, offline = replay(folder, cli, *SPACED)
    began = time.monotonic()
    report, online = replay(folder, cli, *SPACED, "--replay-mode", "online")
    assert time.monotonic() - began > 0.9
    assert report["completed_requests"] == 10
    assert report["wall_time_ms"] >= report["duration_ms"] > 900
    assert report["gpu_hours"] == report["decode_worker_seconds"] == 0
    for expected, row in zip(offline, online, strict=True):
        assert row["arrival_time_ms"] == expected["arrival_time_ms"]
        for name in ("first_token_ms", "last_token_ms"):
            assert row[name] >= expected[name] - 1e-6
        assert row["reused_input_tokens"] == expected["reused_input_tokens"]


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
    assert done.returncode == 0
    assert json.loads((folder / "r.json").read_text())["rejected_requests"] == 60


def test_refused(cli: Cli) -> None:
    assert "max_sim_time_seconds" in refused(cli(*SPACED, "--replay-mode", "online", "--max-sim-time-seconds", "1"))
    pools = ["--prefill-engine-args", '{"worker_type": "prefill"}', "--decode-engine-args", '{"worker_type": "decode"}']
    assert "replay_mode" in refused(cli(*SPACED, "--replay-mode", "online", "--router-mode", "kv_router", *pools))


def test_ctrl_c(folder: Path) -> None:
    process = subprocess.Popen(
        command(*ENDLESS, "--replay-mode", "online", "--report-json", "r.json"),
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    interrupt(process)
    stdout, stderr = process.communicate()
    assert (process.returncode, stdout, stderr) == (130, "", "interrupted\n")
