"""Runs the tests many times while something else keeps all cores busy: those with processes, sockets, threads or
signals 20 times, the rest 3 times. What has passed is remembered in build/stress, so that an interrupted run goes on
where it was; passes of a suite are forgotten when its own files change.

python tests/stress [--again] [--jobs N] [--rounds N] [PART_OF_A_NAME ...]
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
import leftovers
import selection

ROOT = Path(__file__).parent.parent.parent
FOLDER = ROOT / "build" / "stress"
ROUNDS = {"processes": 20, "rest": 3}
VARIABLE = "DYNOSIM_STRESS"
LIMIT_S = 900  # of one run of a suite, for what never ends
GIVE_UP = 3  # failures of a suite, after which it is not run again
# Packages of Go whose tests do several things at once.
CONCURRENT = {"net", "net/http", "os/exec", "os/signal", "syscall", "sync"}
# Keeps a core busy until its parent is gone.
LOAD = "import os\nparent = os.getppid()\nwhile os.getppid() == parent:\n    sum(range(100_000))"


@dataclass(frozen=True)
class Suite:
    """A Go package, or the tests of one kind in a file for pytest."""

    name: str
    kind: str
    command: tuple[str, ...]
    cwd: Path
    sources: tuple[Path, ...]

    def fingerprint(self) -> str:
        digest = hashlib.sha256()
        for path in self.sources:
            digest.update(path.read_bytes())
        return digest.hexdigest()[:16]


def go_suites(wanted: Sequence[str]) -> Iterator[Suite]:
    """Compiles the tests of each package once."""
    listing = '{{.ImportPath}}|{{.Dir}}|{{join .TestGoFiles " "}} {{join .XTestGoFiles " "}}|'
    listing += '{{join .GoFiles " "}}|{{join .Imports " "}} {{join .TestImports " "}} {{join .XTestImports " "}}'
    packages = ["./gocore/...", "./bindings/...", "./benchmarks/..."]
    out = subprocess.run(["go", "list", "-f", listing, *packages], cwd=ROOT, check=True, capture_output=True, text=True)
    for line in out.stdout.splitlines():
        path, folder, tests, sources, imports = line.split("|")
        name = path.partition("/")[2]
        if not tests.strip() or not chosen(name, wanted):
            continue
        concurrent = CONCURRENT & set(imports.split()) or "/live" in name
        binary = FOLDER / "bin" / (name.replace("/", "-") + ".test")
        subprocess.run(["go", "test", "-c", "-o", str(binary), path], cwd=ROOT, check=True)
        files = tuple(Path(folder) / file for file in sorted(f"{tests} {sources}".split()))
        command = (str(binary), "-test.shuffle=on", f"-test.timeout={LIMIT_S - 60}s")
        yield Suite(name, "processes" if concurrent else "rest", command, Path(folder), files)


def python_suites(wanted: Sequence[str]) -> Iterator[Suite]:
    """Tests of a file are sorted into two kinds by the plugin."""
    pytest = (sys.executable, "-m", "pytest", "-p", "selection", "-p", "no:cacheprovider", "-q")
    shared = (ROOT / "tests" / "conftest.py", ROOT / "tests" / "livetools.py")
    for kind in ROUNDS:
        listed = subprocess.run(
            [*pytest, "--collect-only", "tests"], cwd=ROOT, env=environment(kind), capture_output=True, text=True
        )
        if listed.returncode:
            sys.exit(listed.stdout + listed.stderr)
        for file in sorted(set(re.findall(r"^(tests/\w+\.py)::", listed.stdout, re.MULTILINE))):
            name = f"{file} {kind}"
            if chosen(name, wanted):
                yield Suite(name, kind, (*pytest, "--tb=short", file), ROOT, (ROOT / file, *shared))


def chosen(name: str, wanted: Sequence[str]) -> bool:
    return not wanted or any(part in name for part in wanted)


def environment(kind: str, **more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(Path(__file__).parent), selection.VARIABLE: kind, **more}


class Memory:
    """How often each suite has passed, in a file."""

    def __init__(self, again: bool) -> None:
        self._path = FOLDER / "passed.json"
        self._passed: dict[str, tuple[str, int]] = {}
        if not again:
            with contextlib.suppress(FileNotFoundError, ValueError):
                self._passed = json.loads(self._path.read_text())

    def passes(self, suite: Suite) -> int:
        fingerprint, count = self._passed.get(suite.name, ("", 0))
        return count if fingerprint == suite.fingerprint() else 0

    def add(self, suite: Suite) -> None:
        self._passed[suite.name] = (suite.fingerprint(), self.passes(suite) + 1)
        beside = self._path.with_suffix(".new")
        beside.write_text(json.dumps(self._passed, indent=1))
        beside.replace(self._path)


class Stress:
    """The rounds that are left, taken by several threads."""

    def __init__(self, suites: Sequence[Suite], memory: Memory, rounds: int | None) -> None:
        self.memory = memory
        self.failures: dict[str, int] = {}
        self.stopped = threading.Event()
        self._lock = threading.Lock()
        self._serial = 0
        wanted = {s: rounds or ROUNDS[s.kind] for s in suites}
        # First a round of all, then the next, so that every suite meets every other one.
        self._left = sorted((i / n, s.name, s) for s, n in wanted.items() for i in range(memory.passes(s), n))
        self._total, self._done = len(self._left), 0
        self._began = time.monotonic()

    def work(self) -> None:
        while not self.stopped.is_set():
            with self._lock:
                while self._left and self.failures.get(self._left[0][1], 0) >= GIVE_UP:
                    self._left.pop(0)
                if not self._left:
                    return
                suite = self._left.pop(0)[2]
                self._serial += 1
                serial = self._serial
            self.run(suite, serial)

    def run(self, suite: Suite, serial: int) -> None:
        mark = f"{os.getpid()}-{serial}"
        log = FOLDER / "logs" / f"{re.sub(r'[^a-z0-9_]+', '-', suite.name)}-{serial}.log"
        began = time.monotonic()
        with log.open("w") as stream:
            process = subprocess.Popen(
                suite.command, cwd=suite.cwd, env=environment(suite.kind, **{VARIABLE: mark}), stdin=subprocess.DEVNULL,
                stdout=stream, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
            problem = self._wait(process)
            left = leftovers.end(VARIABLE, mark, patience_s=0 if problem else 60)
            if left and not problem:
                problem = "left processes behind: " + "; ".join(left)
            if problem:
                print(f"\n{problem}", file=stream)
            process.wait()
        if not self.stopped.is_set():
            self._report(suite, log, problem, time.monotonic() - began)

    def _wait(self, process: subprocess.Popen[bytes]) -> str:
        deadline = time.monotonic() + LIMIT_S
        while process.poll() is None:
            if self.stopped.is_set():
                return "interrupted"
            if time.monotonic() > deadline:
                return f"did not end within {LIMIT_S} s"
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=0.2)
        return f"exit code {process.returncode}" if process.returncode else ""

    def _report(self, suite: Suite, log: Path, problem: str, took: float) -> None:
        with self._lock:
            self._done += 1
            elapsed = time.monotonic() - self._began
            done = f"{self._done:4d}/{self._total} {elapsed / 60:5.1f} min"
            if problem:
                self.failures[suite.name] = self.failures.get(suite.name, 0) + 1
                print(f"{done}  FAILED {suite.name}: {problem}; see {log.relative_to(ROOT)}", flush=True)
            else:
                self.memory.add(suite)
                log.unlink()
                print(f"{done}  passed {suite.name} ({took:.0f} s)", flush=True)


@contextlib.contextmanager
def load() -> Iterator[None]:
    """Something else that keeps all cores busy."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    burners = [subprocess.Popen([sys.executable, "-c", LOAD], start_new_session=True) for _ in range(cores)]
    try:
        yield
    finally:
        for b in burners:
            b.kill()
            b.wait()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python tests/stress", description=__doc__, allow_abbrev=False)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("only", nargs="*", metavar="PART_OF_A_NAME", help="suites to run, all by default")
    parser.add_argument("--again", action="store_true", help="forget what has passed")
    parser.add_argument("--jobs", type=int, default=4, metavar="N", help="suites at the same time (default: 4)")
    parser.add_argument("--rounds", type=int, metavar="N", help="of each suite, instead of 20 and 3")
    given = parser.parse_args()
    # Processes that were started in the background ignore Ctrl-C, and so would all tests.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    for folder in ("bin", "logs"):
        (FOLDER / folder).mkdir(parents=True, exist_ok=True)
    suites = [*go_suites(given.only), *python_suites(given.only)]
    if not suites:
        parser.error(f"no suite has {' or '.join(given.only)} in its name")
    stress = Stress(suites, Memory(given.again), given.rounds)
    threads = [threading.Thread(target=stress.work) for _ in range(given.jobs)]
    try:
        with load():
            for t in threads:
                t.start()
            for t in threads:
                t.join()
    except KeyboardInterrupt:
        stress.stopped.set()
        for t in threads:
            t.join()
        print("interrupted; the same command goes on here")
        return 130
    for name, count in sorted(stress.failures.items()):
        print(f"{name} failed {count} times; see {FOLDER.relative_to(ROOT)}/logs")
    if not stress.failures:
        print(f"all of {len(suites)} suites have passed")
    return 1 if stress.failures else 0


if __name__ == "__main__":
    sys.exit(main())
