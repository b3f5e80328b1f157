"""What a folder of a sweep survives: kill -9, Ctrl-C, a second process, crashes, a full disk, a newer version."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from conftest import command, refused
from livetools import until

from dynamo import sweep
from dynamo.sweep import versions
from dynamo.sweep.executors import Threads
from dynamo.sweep.folder import Folder
from dynamo.sweep.simulate import Config
from dynamo.sweep.store import Run, Store

RUN = {"input_tokens": "uniform(100,900)", "output_tokens": 30, "request_count": 2000, "arrival_interval_ms": 4}
SPEC = {
    "run": RUN,
    "search": {"num_workers": {"linear": [1, 10]}, "engine.max_num_seqs": {"linear": [10, 24]}},
    "jobs": 2,
}
POINTS = 150
ENDLESS = {
    "run": {"input_tokens": 8, "output_tokens": 200_000, "request_count": 300_000},
    "search": {"engine.max_num_seqs": [1, 2]},
}


def start(spec: dict[str, Any], *options: str) -> subprocess.Popen[str]:
    Path("spec.json").write_text(json.dumps(spec))
    words = command("run", "spec.json", "-o", "out", *options, module="dynamo.sweep")
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def simulated(output: str) -> int:
    (line,) = [line for line in output.splitlines() if line.startswith("Simulated ")]
    return int(line.split()[1].replace(",", ""))


def rows(query: str, path: str = "out/sweep.sqlite") -> list[Any]:
    """Rows of a database that another process may be writing, or has not made yet."""
    if not Path(path).exists():
        return []
    connection = sqlite3.connect(path, timeout=300)
    try:
        return connection.execute(query).fetchall()
    except sqlite3.OperationalError:
        return []
    finally:
        connection.close()


def finished() -> dict[int, Any]:
    return {row[0]: row for row in rows("SELECT id, identity, status, outcome FROM points WHERE status IS NOT NULL")}


def test_kill_nine_at_ten_random_moments(folder: Path) -> None:
    """Nothing that was finished is lost or simulated again."""
    moments = random.Random(7)
    kept: dict[int, Any] = {}
    killed = 0
    for _ in range(10):
        process = start(SPEC)
        wanted = len(kept) + moments.randrange(8)
        until(lambda wanted=wanted, process=process: len(finished()) > wanted or process.poll() is not None)
        killed += process.poll() is None
        process.kill()
        process.communicate()
        now = finished()
        assert kept.items() <= now.items()
        kept = now
    assert 0 < killed <= len(kept)  # most of ten, unless this process was so late that the points were all done
    stored = {key for (key,) in rows("SELECT key FROM runs", "out/results.sqlite")}
    assert {json.loads(row[3])["runs"][0] for row in kept.values()} <= stored
    process = start(SPEC)
    output, _ = process.communicate(timeout=600)
    assert process.returncode == 0
    assert simulated(output) == POINTS - len(stored)
    assert kept.items() <= finished().items()
    assert len(finished()) == POINTS
    undisturbed = sweep.run(SPEC)
    assert [p["figures"] for p in undisturbed] == [p["figures"] for p in sweep.load("out")]


def test_two_processes_on_one_folder(folder: Path) -> None:
    both = [start(SPEC), start(SPEC)]
    outputs = [process.communicate(timeout=600) for process in both]
    assert [process.returncode for process in both] == [0, 0], outputs
    counts = [simulated(output) for output, _ in outputs]
    assert sum(counts) == POINTS
    assert len(rows("SELECT key FROM runs", "out/results.sqlite")) == POINTS
    assert outputs[0][0].split("Simulated")[0] == outputs[1][0].split("Simulated")[0]
    assert rows("SELECT * FROM claims", "out/results.sqlite") == []


def test_what_a_dead_process_has_claimed_is_taken_over(folder: Path) -> None:
    """While it lives, the run is waited for."""
    other = Store(folder / "store.sqlite")
    spec = {"run": {**RUN, "request_count": 20}, "search": {"num_workers": [1]}}
    sweep.run(spec, "first")
    ((key,),) = rows("SELECT key FROM runs", "first/results.sqlite")
    assert other.claim(key)
    found: list[sweep.Sweep] = []
    waiting = threading.Thread(target=lambda: found.append(sweep.run(spec, "second", store=folder / "store.sqlite")))
    waiting.start()
    until(lambda: bool(rows("SELECT 1 FROM points WHERE owner IS NOT NULL", "second/sweep.sqlite")))
    assert not found
    other.close()
    waiting.join()
    assert found[0].simulated == 1


def test_sweeps_share_a_store(folder: Path) -> None:
    first = sweep.run({**SPEC, "search": {"num_workers": [1, 2, 3]}}, "a", store="shared.sqlite")
    other = sweep.run(
        {**SPEC, "search": {"num_workers": [2, 3, 4]}, "objectives": ["gpus"]}, "b", store="shared.sqlite"
    )
    assert (first.simulated, other.simulated) == (3, 1)
    assert first.points[1]["figures"] == other.points[0]["figures"]
    assert sweep.resume("a").simulated == 0


def test_another_core_runs_everything_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = {**SPEC, "search": {"num_workers": [1, 2]}}
    assert sweep.run(spec, "out").simulated == 2
    assert sweep.run(spec, "out").simulated == 0
    monkeypatch.setattr(versions, "core", lambda: "another build")
    assert sweep.run(spec, "out").simulated == 2


@pytest.mark.parametrize("executor", ["threads", "processes"])
def test_interrupt(folder: Path, executor: str) -> None:
    """Ctrl-C ends a sweep at once, with 130, and says how to go on."""
    process = start(ENDLESS, "--executor", executor)
    until(lambda: bool(rows("SELECT 1 FROM claims", "out/results.sqlite")))
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 130
    assert errors.endswith("go on with: python -m dynamo.sweep resume out\ninterrupted\n")
    assert "Traceback" not in errors
    assert rows("SELECT count(*) FROM points WHERE status IS NULL AND owner IS NULL") == [(2,)]
    assert rows("SELECT * FROM claims", "out/results.sqlite") == []


def test_processes_give_the_same_bytes_as_threads(folder: Path) -> None:
    spec = {**SPEC, "search": {"num_workers": [1, 2, 3]}}
    sweep.run(spec, "threads")
    sweep.run(spec, "processes", executor="processes", jobs=2)
    query = "SELECT key, status, reason, report, warnings FROM runs ORDER BY key"
    assert rows(query, "threads/results.sqlite") == rows(query, "processes/results.sqlite")
    assert Path("threads/points.csv").read_bytes() == Path("processes/points.csv").read_bytes()


def test_a_crash_ends_one_point(folder: Path) -> None:
    """The process of a run dies, each time that the run is tried; the other points end as always."""
    process = start(
        {**ENDLESS, "search": {"size": {"settings": {"endless": {}, "small": {"request_count": 1}}}}}, *CRASH
    )
    try:
        for _ in range(2):
            (child,) = until(lambda: _children(process.pid))
            os.kill(child, signal.SIGKILL)
            until(lambda child=child: child not in _children(process.pid))
        output, errors = process.communicate(timeout=300)
    finally:
        process.kill()
    assert process.returncode == 0, errors
    found = sweep.load("out")
    assert [p["status"] for p in found] == ["failed", "ok"], output
    assert found.points[0]["reason"] == "crash: the process of the run was ended by SIGKILL, 2 times"


CRASH = ["--executor", "processes", "--jobs", "1"]


def _children(parent: int) -> list[int]:
    """Processes that carry out runs for another one."""
    tasks = Path(f"/proc/{parent}/task").glob("*/children")
    found = [int(word) for task in tasks for word in _read_process(task).split()]
    return [pid for pid in found if b"dynamo._shell.child" in _read_process(Path(f"/proc/{pid}/cmdline"))]


def _read_process(path: Path) -> bytes:
    """Reads a file of a process or thread, which is empty after its end."""
    try:
        return path.read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def test_an_internal_error_ends_one_point(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    carry_out = Threads.run

    def broken(self: Threads, config: Config, *others: Any) -> Run:
        if config["num_workers"] == 2:
            raise ZeroDivisionError("a mistake")
        return carry_out(self, config, *others)

    with monkeypatch.context() as patch:
        patch.setattr(Threads, "run", broken)
        found = sweep.run({**SPEC, "search": {"num_workers": [1, 2, 3]}}, "out")
    assert [p["status"] for p in found] == ["ok", "failed", "ok"]
    assert found.points[1]["reason"] == "internal error: ZeroDivisionError: a mistake"
    assert [p["status"] for p in sweep.resume("out")] == ["ok", "failed", "ok"]
    assert [p["status"] for p in sweep.resume("out", retry=True)] == ["ok", "ok", "ok"]


def test_a_full_disk(folder: Path) -> None:
    """Files that cannot grow stand for it. What is finished stays."""
    Path("spec.json").write_text(json.dumps({**SPEC, "run": {**RUN, "request_count": 20}}))
    words = command("run", "spec.json", "-o", "out", module="dynamo.sweep")
    limited = ["bash", "-c", 'ulimit -f 300; exec "$@"', "bash", *words]
    done = subprocess.run(limited, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout) == (1, ""), done
    assert re.fullmatch(r"(.* points/s.*\n)*error: out/.*\n", done.stderr)
    kept = finished()
    assert 0 < len(kept) < POINTS
    assert rows("PRAGMA integrity_check") == [("ok",)]
    assert len(sweep.run("spec.json", "out")) == POINTS
    assert kept.items() <= finished().items()


def test_a_newer_version(folder: Path) -> None:
    sweep.run({**SPEC, "search": {"num_workers": [1]}}, "out")
    connection = sqlite3.connect("out/sweep.sqlite")
    connection.execute("UPDATE meta SET value = '99' WHERE name = 'schema'")
    connection.commit()
    connection.close()
    for verb in ("resume", "status", "report"):
        words = command(verb, "out", module="dynamo.sweep")
        done = subprocess.run(words, capture_output=True, text=True, timeout=300)
        assert "out/sweep.sqlite: was written by a newer version of dynosim (schema 99" in refused(done)


@pytest.mark.parametrize("verb", ["resume", "status", "report"])
def test_a_folder_without_a_sweep(folder: Path, verb: str) -> None:
    for name, message in (("none", "none: no such folder"), (".", ".: holds no sweep")):
        words = command(verb, name, module="dynamo.sweep")
        assert message in refused(subprocess.run(words, capture_output=True, text=True, timeout=300))
    assert list(folder.iterdir()) == []


def test_a_damaged_file(folder: Path) -> None:
    sweep.run({**SPEC, "search": {"num_workers": [1]}}, "out")
    Path("out/sweep.sqlite").write_bytes(b"not a database, but long enough to be taken for one" * 100)
    for left in Path("out").glob("sweep.sqlite-*"):
        left.unlink()
    done = subprocess.run(command("status", "out", module="dynamo.sweep"), capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "error: out/sweep.sqlite: file is not a database; remove it and run the sweep again, "
        "which computes anew what it held\n"
    )
    Path("out/sweep.sqlite").unlink()
    assert sweep.run({**SPEC, "search": {"num_workers": [1]}}, "out").points[0]["status"] == "ok"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["-o", "new", "--store", "notes.txt"], "error: --store: .*notes.txt: file is not a database, want another"),
        (["-o", "new", "--store", "bad"], "error: --store: .*bad: unable to open database file, want another"),
        (["-o", "new", "--store", "notes.txt/kept"], "error: --store: cannot write to .*notes.txt/kept'"),
        (["-o", "bad"], "error: -o: bad/sweep.sqlite: file is not a database, want another"),
        (["-o", "notes.txt"], "error: -o: cannot write to 'notes.txt'"),
    ],
)
def test_what_is_no_database_is_refused_before_a_run(folder: Path, options: list[str], message: str) -> None:
    """It stays as it is, and what the other option names is not made."""
    Path("bad").mkdir()
    for name in ("notes.txt", "bad/sweep.sqlite"):
        Path(name).write_text("no database, but long enough to be taken for one" * 100)
    Path("spec.json").write_text(json.dumps({**SPEC, "search": {"num_workers": [1]}}))
    before = {path: path.is_file() and path.read_bytes() for path in folder.rglob("*")}
    words = command("run", "spec.json", *options, module="dynamo.sweep")
    assert re.match(message, refused(subprocess.run(words, capture_output=True, text=True, timeout=300)))
    assert before == {path: path.is_file() and path.read_bytes() for path in folder.rglob("*")}


def test_results_that_are_no_database_are_refused_before_a_run(folder: Path) -> None:
    Path("out").mkdir()
    Path("out/results.sqlite").write_text("no database, but long enough to be taken for one" * 100)
    Path("spec.json").write_text(json.dumps({**SPEC, "search": {"num_workers": [1]}}))
    words = command("run", "spec.json", "-o", "out", module="dynamo.sweep")
    message = refused(subprocess.run(words, capture_output=True, text=True, timeout=300))
    assert message.startswith("error: -o: out/results.sqlite: file is not a database, want another")


def test_points_that_another_process_has_are_left_alone(folder: Path) -> None:
    first = Folder(folder / "out")
    first.add(0, ['{"a":1}', '{"a":2}'], "core")
    second = Folder(folder / "out")
    one, other = first.take(), second.take()
    assert one is not None
    assert other is not None
    assert (one.id, other.id) == (1, 2)
    assert first.take() is None
    second.close()
    taken_over = first.take()
    assert taken_over is not None
    assert taken_over.id == 2
    first.close()


def test_sweeps_in_threads_and_scripts(folder: Path) -> None:
    """A thread works as well as the main thread, and a script needs no guard around processes."""
    found: list[sweep.Sweep] = []
    spec = {**SPEC, "search": {"num_workers": [1, 2]}}
    thread = threading.Thread(target=lambda: found.append(sweep.run(spec, "out")))
    thread.start()
    thread.join()
    assert len(found[0]) == 2
    code = f"from dynamo import sweep; print(len(sweep.run({spec!r}, executor='processes')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert (done.stdout, done.stderr) == ("2\n", "")
