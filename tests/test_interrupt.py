"""Ctrl-C and the progress bar: long runs."""

from __future__ import annotations

import gzip
import json
import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import ENDLESS, command, interrupt, row, wait_until_running

from dynamo._core import Progress
from dynamo.replay.progress import ProgressBar

TRIALS = 4
LIMIT_S = 10.0  # less than any of what is interrupted takes, and more than a busy machine needs


def test_ctrl_c_stops_at_once_and_leaves_no_file(folder: Path) -> None:
    taken = []
    for _ in range(TRIALS):
        process = subprocess.Popen(
            command(*ENDLESS, "--report-json", "report.json", "--report-jsonl", "rows.jsonl"),
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        taken.append(interrupt(process))
        stdout, stderr = process.communicate()
        assert (process.returncode, stdout, stderr) == (130, "", "interrupted\n")
        assert list(folder.iterdir()) == []
    assert min(taken) < LIMIT_S, taken


def test_ctrl_c_while_a_compressed_trace_is_loading(folder: Path) -> None:
    """Gigabytes of rows in a file of a few megabytes: the same compressed part over and over."""
    rows = (json.dumps(row(0, 512, 4, [1])) + "\n") * 10_000
    (folder / "trace.jsonl.gz").write_bytes(gzip.compress(rows.encode()) * 5_000)
    taken = []
    for _ in range(TRIALS):
        process = subprocess.Popen(
            command("trace.jsonl.gz", "--report-json", "report.json"), cwd=folder, stderr=subprocess.PIPE, text=True
        )
        taken.append(interrupt(process))
        assert (process.returncode, process.communicate()[1]) == (130, "interrupted\n")
    assert min(taken) < LIMIT_S, taken
    assert [path.name for path in folder.iterdir()] == ["trace.jsonl.gz"]


def test_ctrl_c_while_standard_input_never_ends(folder: Path) -> None:
    rows = subprocess.Popen(["yes", json.dumps(row(0, 512, 4, [1]))], stdout=subprocess.PIPE)
    try:
        process = subprocess.Popen(command("-"), cwd=folder, stdin=rows.stdout, stderr=subprocess.PIPE, text=True)
        assert interrupt(process) < LIMIT_S
        assert (process.returncode, process.communicate()[1]) == (130, "interrupted\n")
    finally:
        rows.kill()
        rows.communicate()


@pytest.mark.parametrize("workers", ["1", "4"])
def test_ctrl_c_on_closed_loop_runs(folder: Path, workers: str) -> None:
    process = subprocess.Popen(
        command(*ENDLESS, "--num-workers", workers, "--replay-concurrency", "64"), cwd=folder, stderr=subprocess.PIPE
    )
    assert interrupt(process) < LIMIT_S
    assert process.communicate()[1] == b"interrupted\n"
    assert process.returncode == 130


def test_ctrl_c_while_waiting_for_standard_input(folder: Path) -> None:
    process = subprocess.Popen(
        command("-"), cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    taken = interrupt(process)
    assert process.returncode == 130
    assert taken < LIMIT_S
    process.communicate()


API_RUN = """
import sys, time
from dynamo.replay import run_synthetic_trace_replay
print("running", flush=True)
try:
    run_synthetic_trace_replay(8, 200000, 300000, extra_engine_args={"max_num_seqs": 1})
except KeyboardInterrupt:
    print(time.monotonic())
report = run_synthetic_trace_replay(8, 2, 3)
print(report["completed_requests"])
"""


def test_keyboard_interrupt_in_the_api(folder: Path) -> None:
    """The exception arrives within the limit, and the interpreter can run the next replay."""
    taken = []
    for _ in range(TRIALS):
        process = subprocess.Popen([sys.executable, "-c", API_RUN], cwd=folder, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        assert process.stdout.readline() == "running\n"
        wait_until_running(process)
        sent = time.monotonic()
        process.send_signal(2)
        stdout, _ = process.communicate(timeout=300)
        caught, completed = stdout.split()
        taken.append(float(caught) - sent)
        assert (process.returncode, completed) == (0, "3")
    assert min(taken) < LIMIT_S, taken


def on_a_terminal(folder: Path, wanted: bytes, *more: str) -> tuple[bytes, str, int]:
    """What an endless run shows on its terminal up to what is wanted; after Ctrl-C its output and exit code."""
    controller, terminal = pty.openpty()
    process = subprocess.Popen(
        command(*ENDLESS, *more),
        cwd=folder,
        env={**os.environ, "TERM": "xterm"},
        stdout=subprocess.PIPE,
        stderr=terminal,
        text=True,
    )
    os.close(terminal)
    shown = _read_until(controller, wanted, seconds=300)
    process.send_signal(2)
    stdout, _ = process.communicate(timeout=300)
    os.close(controller)
    return shown, stdout, process.returncode


def test_the_progress_bar_needs_a_terminal(folder: Path) -> None:
    """On a terminal it shows requests and simulated time; standard output stays clean."""
    shown, stdout, code = on_a_terminal(folder, b"/300,000 requests")
    assert b"/300,000 requests" in shown
    assert b"/0 requests" not in shown  # while the workload is being made, only the phase is known
    assert (code, stdout) == (130, "")


def test_changes_of_workers_are_shown_as_they_happen(folder: Path) -> None:
    scaler = '{"policy": "schedule", "schedule": [[0.5, 3]]}'
    line = b"t=0.5s [agg]: 1 -> 3 workers (scale_up, schedule)"
    shown, stdout, code = on_a_terminal(folder, line, "--autoscaler", scaler)
    assert line in shown
    assert (code, stdout) == (130, "")


def test_the_progress_bar_shows_only_the_phase_at_first() -> None:
    with ProgressBar() as bar:
        for total, wanted in ((0, False), (5, True)):
            bar(Progress("loading", 0.0, 0, total))
            assert bar._bar is not None
            assert ("requests" in bar._bar.tasks[0].fields["text"]) is wanted


def _read_until(terminal: int, wanted: bytes, seconds: float) -> bytes:
    seen = b""
    until = time.monotonic() + seconds
    while wanted not in seen and time.monotonic() < until:
        if select.select([terminal], [], [], 0.1)[0]:
            seen += os.read(terminal, 65536)
    return seen
