"""Shared by the tests of what a user touches: the command line in processes of its own, and small traces."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import leftovers
import pytest

TINY = ["--input-tokens", "20", "--output-tokens", "3", "--request-count", "5"]
# Billions of passes, so that whatever happens to such a run happens in the middle of it, however fast the engine is.
ENDLESS = ["--input-tokens", "8", "--output-tokens", "200000", "--request-count", "300000"]
ENDLESS += ["--extra-engine-args", '{"max_num_seqs": 1}']
PATIENCE_MS = 300_000  # of a browser, for what never comes
WALL_CLOCK = {"wall_time_ms", "processed_tokens_per_s", "processed_output_tokens_per_s"}

# Streams are buffered as they are for users, or no test would notice what is left in a buffer at the end.
os.environ.pop("PYTHONUNBUFFERED", None)

# A script that runs the tests in the background has them ignore SIGINT, and with them all that they start.
for _number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, signal.default_int_handler if _number == signal.SIGINT else signal.SIG_DFL)
# Tests of the AIC SDK ask it; those of the cache of its answers name a folder.
os.environ["DYNOSIM_AIC_CACHE"] = "off"
# The width of the terminal in which the tests run.
os.environ.pop("COLUMNS", None)
os.environ.pop("LINES", None)

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

Cli = Callable[..., "subprocess.CompletedProcess[str]"]


def command(*arguments: str, module: str = "dynamo.replay") -> list[str]:
    return [sys.executable, "-m", module, *arguments]


_reasons: list[str] = []  # why tests have failed, in CI


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.failed and os.environ.get("CI") and "PYTEST_XDIST_WORKER" not in os.environ:
        crash = getattr(report.longrepr, "reprcrash", None)
        reason = crash.message if crash else str(report.longrepr)
        _reasons.append(f"{report.when} of {report.nodeid} failed: {reason.partition(chr(10))[0][:300]}")


def pytest_unconfigure() -> None:
    """Prints a line for each failed test last of all: pytest prints no summary if one of its processes breaks down."""
    if _reasons:
        print("", *_reasons[:30], sep="\n", file=sys.__stderr__, flush=True)


@pytest.fixture(autouse=True)
def no_process_is_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Ends the processes that a test has left behind, and fails it if it had not failed."""
    mark = uuid.uuid4().hex
    monkeypatch.setenv("DYNOSIM_TEST", mark)
    yield
    left = leftovers.end("DYNOSIM_TEST", mark)
    assert not left, f"the test has left processes behind: {left}"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory, far from the sources."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A browser, if there is one on PATH. It starts before the first test that needs it, and no test has to end it.

    Not one for all modules: while it runs, asyncio.run() is refused in the tests.
    """
    playwright = pytest.importorskip("playwright.sync_api")
    if BROWSER is None:
        pytest.skip("needs chromium on PATH")
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"], timeout=PATIENCE_MS)
        make = opened.new_page

        def new_page(**options: Any) -> Any:
            page = make(**options)
            page.set_default_timeout(PATIENCE_MS)
            return page

        opened.new_page = new_page
        yield opened
        opened.close()


@pytest.fixture
def cli(folder: Path) -> Cli:
    """Runs ``python -m dynamo.replay``, or another module, to its end in the empty folder."""

    def run(*arguments: str, module: str = "dynamo.replay", **options: Any) -> subprocess.CompletedProcess[str]:
        whole = command(*arguments, module=module)
        return subprocess.run(whole, cwd=folder, capture_output=True, text=True, timeout=300, **options)

    return run


def refused(done: subprocess.CompletedProcess[str]) -> str:
    """The message of a run that was refused: exit code 2, one line, no output."""
    assert (done.returncode, done.stdout) == (2, ""), done
    assert re.fullmatch(r"error: [^\n]+\n", done.stderr), done.stderr
    return done.stderr


def write_trace(path: Path, rows: Iterable[dict[str, Any]]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def row(timestamp: float, input_length: int, output_length: int, hash_ids: Sequence[int]) -> dict[str, Any]:
    return {
        "timestamp": timestamp,
        "input_length": input_length,
        "output_length": output_length,
        "hash_ids": list(hash_ids),
    }


def interrupt(process: subprocess.Popen[Any]) -> float:
    """Sends Ctrl-C in the middle of a run; returns how long the process took to end, in seconds."""
    wait_until_running(process)
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    process.wait(timeout=300)
    return time.monotonic() - began


def wait_until_running(process: subprocess.Popen[Any]) -> None:
    """Returns half a second after the Go runtime has started its threads."""
    until = time.monotonic() + 300
    while len(list(Path(f"/proc/{process.pid}/task").iterdir())) < 3:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until
        time.sleep(0.01)
    time.sleep(0.5)
    assert process.poll() is None, f"the run was over before the interrupt: {process.communicate()}"


def script(text: str, *, cwd: Path, timeout: float = 60) -> subprocess.CompletedProcess[str]:
    """Runs Python source in a fresh interpreter, from a file, as spawned processes import it again."""
    path = cwd / "script.py"
    path.write_text(text)
    return subprocess.run([sys.executable, str(path)], cwd=cwd, capture_output=True, text=True, timeout=timeout)
