"""Threads, forks, spawned processes, and what importing the package does."""

from __future__ import annotations

import concurrent.futures
import hashlib
import importlib
import json
import multiprocessing
import os
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import TINY, WALL_CLOCK, script

from dynamo.mocker import MockEngineArgs
from dynamo.replay import run_synthetic_trace_replay
from dynamo.replay.main import main
from dynamo.replay.report import Report


def replay(workers: int) -> Report:
    """Runs in worker processes too."""
    return run_synthetic_trace_replay(100, 8, 40, num_workers=workers, extra_engine_args=MockEngineArgs(block_size=16))


def simulated(report: Report) -> dict[str, float]:
    return {key: value for key, value in report.items() if key not in WALL_CLOCK}


def test_runs_in_threads_agree_with_runs_in_turn() -> None:
    wanted = [simulated(replay(workers)) for workers in (1, 2, 3, 4)]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for _ in range(5):
            assert [simulated(report) for report in pool.map(replay, (1, 2, 3, 4))] == wanted


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core")
def test_runs_in_threads_share_the_cores() -> None:
    """Two at once take clearly less than two in turn: neither holds the interpreter's lock, or one of ours."""

    def work(_: int) -> float:
        return float(run_synthetic_trace_replay(8, 500, 500, extra_engine_args={"max_num_seqs": 1})["duration_ms"])

    def digest(_: int) -> bytes:  # is known to run without that lock
        return hashlib.sha256(data).digest()

    def gain(what: Callable[[int], object]) -> float:
        began = time.monotonic()
        in_turn = [what(0), what(1)]
        between = time.monotonic()
        assert list(pool.map(what, (0, 1))) == in_turn
        return (time.monotonic() - between) / (between - began)

    data, ratios, free = bytes(8 << 20), [], 0
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for _ in range(100):  # on a busy machine it may take some to find both cores free
            free += gain(digest) < 0.7
            ratios.append(gain(work))
            if ratios[-1] < 0.85:
                return
    if free < 20:
        pytest.skip(f"both cores were free {free} times only")
    pytest.fail(f"never less than 0.85: {ratios}")


BESIDE_A_LONG_RUN = """
import threading, time
from dynamo.replay import run_synthetic_trace_replay
engine = {"max_num_seqs": 1}
arguments = {"input_tokens": 8, "output_tokens": 200000, "request_count": 300000, "extra_engine_args": engine}
long = threading.Thread(target=run_synthetic_trace_replay, kwargs=arguments, daemon=True)
long.start()
time.sleep(0.5)
print(run_synthetic_trace_replay(8, 2, 3)["completed_requests"], long.is_alive())
"""


def test_a_run_does_not_wait_for_another(folder: Path) -> None:
    """And a process may end while a run goes on in a daemon thread."""
    done = script(BESIDE_A_LONG_RUN, cwd=folder)
    assert (done.returncode, done.stdout, done.stderr) == (0, "3 True\n", "")


def test_main_outside_the_main_thread(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    codes = []
    for arguments in ([*TINY, "--report-json", "report.json"], ["--bad"]):
        thread = threading.Thread(target=lambda given=arguments: codes.append(main(given)))
        thread.start()
        thread.join(timeout=300)
    assert codes == [0, 2]
    assert json.loads((folder / "report.json").read_text())["num_requests"] == 5
    assert capsys.readouterr().err == "error: unknown option --bad, --help lists all\n"


def test_a_fork_after_a_run_is_told_to_spawn() -> None:
    replay(1)  # the Go runtime is loaded now
    with concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as pool:
        answer = pool.submit(replay, 1)
        with pytest.raises(RuntimeError, match="spawn start method"):
            answer.result(timeout=300)


def test_a_forked_child_can_drop_its_parents_report() -> None:
    """Collecting the copy of a report must not call into the Go runtime, which would hang."""
    report = replay(1)
    child = os.fork()
    if child == 0:
        del report
        os._exit(7)
    assert os.waitpid(child, 0)[1] >> 8 == 7
    assert len(report.requests["ttft_ms"]) == 40


FORK_FIRST = """
import multiprocessing
from dynamo.mocker import MockEngineArgs
from dynamo.replay import run_synthetic_trace_replay

ARGS = MockEngineArgs(block_size=16)

def work(count):
    return run_synthetic_trace_replay(100, 8, count, extra_engine_args=ARGS)

if __name__ == "__main__":
    with multiprocessing.get_context("fork").Pool(2) as pool:
        print([report["completed_requests"] for report in pool.map(work, [1, 2, 3])])
"""


def test_a_fork_before_the_first_run_works(folder: Path) -> None:
    done = script(FORK_FIRST, cwd=folder)
    assert (done.stdout, done.stderr) == ("[1, 2, 3]\n", "")


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_sweeps_in_worker_processes(method: str) -> None:
    """Reports come back with their rows."""
    wanted = replay(2)
    with concurrent.futures.ProcessPoolExecutor(2, multiprocessing.get_context(method)) as pool:
        reports = list(pool.map(replay, (1, 2)))
    assert simulated(reports[1]) == simulated(wanted)
    assert type(reports[1]) is Report
    assert list(reports[1].requests["ttft_ms"]) == list(wanted.requests["ttft_ms"])


XDIST_TESTS = """
import pytest
from dynamo.replay import run_synthetic_trace_replay

@pytest.mark.parametrize("count", range(1, 7))
def test_replay(count):
    assert run_synthetic_trace_replay(100, 8, count)["completed_requests"] == count
"""


def test_pytest_xdist(folder: Path) -> None:
    (folder / "test_inner.py").write_text(XDIST_TESTS)
    pytest_run = [sys.executable, "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider", "test_inner.py"]
    done = subprocess.run(pytest_run, cwd=folder, capture_output=True, text=True, timeout=300)
    assert "6 passed" in done.stdout, done.stdout + done.stderr


def test_importing_does_no_work(folder: Path) -> None:
    done = script(
        "import sys\n"
        "import dynamo.replay, dynamo.replay.main, dynamo.replay.reporting, dynamo.mocker, dynamo.llm\n"
        "dynamo.mocker.MockEngineArgs(block_size=16, num_gpu_blocks=10)\n"
        "print([name for name in ('numpy', 'rich', 'dynamo._core._core') if name in sys.modules])\n",
        cwd=folder,
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_dynamo_is_a_namespace(folder: Path) -> None:
    """Another distribution may add packages beside ours."""
    other = folder / "other" / "dynamo" / "neighbour"
    other.mkdir(parents=True)
    (other / "__init__.py").write_text("NAME = 'neighbour'")
    done = script(
        "import sys; sys.path.insert(0, 'other')\n"
        "import dynamo.neighbour, dynamo.replay\n"
        "print(dynamo.neighbour.NAME, dynamo.replay.run_synthetic_trace_replay(8, 2, 3)['num_requests'])\n",
        cwd=folder,
    )
    assert (done.stdout, done.stderr) == ("neighbour 3\n", "")


@pytest.mark.parametrize("name", ["_core", "llm", "mocker", "replay"])
def test_every_package_is_typed_and_installed(name: str) -> None:
    package = importlib.import_module(f"dynamo.{name}")
    assert package.__file__ is not None
    here = Path(package.__file__).parent
    assert (here / "py.typed").exists()
    assert "site-packages" in here.parts


def test_start_up_is_quick(folder: Path) -> None:
    """A run takes four times the processor time of an interpreter that does nothing."""

    def taken(*arguments: str) -> float:
        began = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *arguments], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        return ended.ru_utime + ended.ru_stime - began.ru_utime - began.ru_stime

    run = ("-m", "dynamo.replay", *TINY, "--report-json", "report.json")
    both = [(taken("-c", "pass"), taken(*run)) for _ in range(8)]
    bare, whole = (min(each) for each in zip(*both, strict=True))  # others on the machine lengthen single ones
    assert whole < 15 * bare, both


def test_a_process_replays_or_serves() -> None:
    code = """if True:
        from dynamo.mocker.main import main
        from dynamo.replay import run_synthetic_trace_replay
        run_synthetic_trace_replay(10, 2, 1)
        raise SystemExit(main(["--model-path", "nowhere"]))
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.returncode == 1
    assert "processes of their own" in done.stderr
    assert "Traceback" not in done.stderr
