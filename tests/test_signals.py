"""What asks a process to end: runs in threads, commands that are starting, temporary files."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import ENDLESS, command

# Far more than any of this takes, and far less than one of the runs.
PATIENCE_S = 300

POOL = """
import asyncio, sys, threading
from concurrent.futures import ThreadPoolExecutor
from dynamo.replay import run_synthetic_trace_replay

def replay(number):
    return run_synthetic_trace_replay(
        8, 200000, 300000, extra_engine_args={"max_num_seqs": 1}, save_trace=f"trace{number}.jsonl"
    )

"""
MAP = """
with ThreadPoolExecutor(2) as pool:
    list(pool.map(replay, range(6)))
"""
SUBMIT = """
with ThreadPoolExecutor(2) as pool:
    for future in [pool.submit(replay, n) for n in range(6)]:
        future.result()
"""
ABANDONED = """
pool = ThreadPoolExecutor(2)
for future in [pool.submit(replay, n) for n in range(6)]:
    future.result()
"""
EXIT_CODE = """
try:
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(replay, range(6)))
except KeyboardInterrupt:
    sys.exit(130)
"""
THREADS = """
threads = [threading.Thread(target=replay, args=[n]) for n in range(2)]
for thread in threads:
    thread.start()
try:
    for thread in threads:
        thread.join()
except KeyboardInterrupt:
    sys.exit(130)
"""
ASYNCIO = """
async def main():
    await asyncio.gather(*[asyncio.to_thread(replay, n) for n in range(2)])

asyncio.run(main())
"""
CAUGHT = """
pool = ThreadPoolExecutor(2)
runs = [pool.submit(replay, n) for n in range(2)]
try:
    runs[0].result()
except KeyboardInterrupt:
    pass
print([type(run.exception()).__name__ for run in runs])
print(pool.submit(run_synthetic_trace_replay, 8, 2, 3).result()["completed_requests"])
"""


def wait_until(condition: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    until = time.monotonic() + PATIENCE_S
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until
        time.sleep(0.01)


def drafts(folder: Path) -> list[Path]:
    return list(folder.glob(".dynamo-*.tmp"))


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    try:
        stdout, stderr = process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
    return process.returncode, stdout, stderr


def interrupted_pool(folder: Path, body: str) -> tuple[int, str, str]:
    (folder / "pool.py").write_text(POOL + body)
    process = subprocess.Popen(
        [sys.executable, "pool.py"], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    wait_until(lambda: len(drafts(folder)) == 2, process)
    process.send_signal(signal.SIGINT)
    outcome = ended(process)
    assert [path.name for path in folder.iterdir()] == ["pool.py"]
    return outcome


@pytest.mark.parametrize("body", [MAP, SUBMIT, ABANDONED, ASYNCIO], ids=["map", "submit", "abandoned", "asyncio"])
def test_ctrl_c_stops_the_runs_of_a_pool(folder: Path, body: str) -> None:
    code, _, stderr = interrupted_pool(folder, body)
    assert (code, stderr.splitlines()[-1]) == (-signal.SIGINT, "KeyboardInterrupt")


@pytest.mark.parametrize("body", [EXIT_CODE, THREADS], ids=["exit code", "threads"])
def test_ctrl_c_that_the_main_thread_makes_an_exit_code(folder: Path, body: str) -> None:
    code, stdout, _ = interrupted_pool(folder, body)
    assert (code, stdout) == (130, "")


def test_runs_after_an_interrupt_go_on(folder: Path) -> None:
    code, stdout, _ = interrupted_pool(folder, CAUGHT)
    assert (code, stdout) == (0, "['KeyboardInterrupt', 'KeyboardInterrupt']\n3\n")


# Stops at an import as if Ctrl-C had come at that moment.
SITE = """
import os, signal, sys

class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == os.environ["INTERRUPT_AT"]:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Finder)
"""


@pytest.mark.parametrize(
    ("module", "imported"),
    [
        ("dynamo.replay", "typing"),
        ("dynamo.replay", "dynamo.replay.__main__"),
        ("dynamo.replay", "dynamo._shell.console"),
        ("dynamo.replay", "dynamo._core"),
        ("dynamo.replay", "json"),
        ("dynamo.replay.inspect", "argparse"),
        ("dynamo.replay.inspect", "dynamo._core.values"),
        ("dynamo.replay.convert", "dynamo.replay.files"),
        ("dynamo.replay.convert", "_json"),
        ("dynamo.mocker", "dynamo._shell.aic"),
        ("dynamo.mocker", "dynamo._shell.engine"),
        ("dynamo.mocker", "dynamo.mocker.main"),
        ("dynamo.sweep", "dynamo.sweep.main"),
        ("dynamo.validate", "dynamo._core"),
        ("dynamo.calibrate", "dynamo._alone"),
    ],
)
def test_ctrl_c_while_a_command_is_imported(folder: Path, module: str, imported: str) -> None:
    (folder / "sitecustomize.py").write_text(SITE)
    environment = {**os.environ, "PYTHONPATH": str(folder), "INTERRUPT_AT": imported}
    done = subprocess.run(
        [sys.executable, "-m", module, "--help"],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


# The same in processes that others have started: they are no concern of the terminal's.
CHILD_SITE = SITE.replace("if name ==", 'if "dynamo._shell.child" in sys.orig_argv and name ==')
SPREAD = """
from dynamo._shell.processes import spread

if __name__ == "__main__":
    print(sorted(done for _, done in spread(abs, [-1, -2, -3], 2, "test")))
"""


def test_ctrl_c_while_a_process_is_started_by_another(folder: Path) -> None:
    (folder / "sitecustomize.py").write_text(CHILD_SITE)
    (folder / "spread.py").write_text(SPREAD)
    environment = {**os.environ, "PYTHONPATH": str(folder), "INTERRUPT_AT": "queue"}
    done = subprocess.run(
        [sys.executable, "spread.py"], env=environment, cwd=folder, capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "[1, 2, 3]\n", "")


def start_saving(folder: Path, *, ignoring: int | None = None) -> subprocess.Popen[str]:
    """A run that has written its workload, and will not end by itself."""

    def ignore() -> None:
        if ignoring is not None:
            signal.signal(ignoring, signal.SIG_IGN)

    process = subprocess.Popen(
        command(*ENDLESS, "--save-trace", "trace.jsonl", "--report-json", "a.json", "--report-jsonl", "a.jsonl"),
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=ignore,
    )
    wait_until(lambda: any(path.stat().st_size > 1_000_000 for path in drafts(folder)), process)
    return process


@pytest.mark.parametrize(
    ("number", "outcome"),
    [
        (signal.SIGINT, (130, "", "interrupted\n")),
        (signal.SIGTERM, (-signal.SIGTERM, "", "")),
        (signal.SIGHUP, (-signal.SIGHUP, "", "")),
    ],
)
def test_signals_leave_no_file(folder: Path, number: int, outcome: tuple[int, str, str]) -> None:
    process = start_saving(folder)
    process.send_signal(number)
    assert ended(process) == outcome
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_ignored_signals_stay_ignored(folder: Path, number: int) -> None:
    """Shells start background jobs of scripts with SIGINT ignored, nohup does it with SIGHUP."""
    process = start_saving(folder, ignoring=number)
    status = Path(f"/proc/{process.pid}/status").read_text()
    masks = dict(line.split(":\t", 1) for line in status.splitlines() if line.startswith("Sig"))
    bit = 1 << (number - 1)
    assert int(masks["SigIgn"], 16) & bit
    process.send_signal(number)
    process.send_signal(signal.SIGTERM)
    assert ended(process)[0] == -signal.SIGTERM


def test_these_tests_run_where_signals_are_ignored() -> None:
    """As in the background of a script. What the tests start gets its signals back."""
    chosen = f"{Path(__file__).parent / 'test_interrupt.py'}::test_ctrl_c_while_waiting_for_standard_input"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", chosen],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN) and None,
    )
    assert done.returncode == 0, done.stdout
