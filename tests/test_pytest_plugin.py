"""The pytest plugin, in a pytest of its own: messages, baselines, the summary of a job, JUnit properties."""

from __future__ import annotations

import json
import subprocess
import sys
import xml.etree.ElementTree as ET
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from conftest import row, write_trace

from dynamo.replay import run_synthetic_trace_replay
from dynamo.replay.testing import Dynosim, Finding, bounds, nearest

EXAMPLES = Path(__file__).parent.parent / "examples"
# 40 requests that come within 20 ms and take 24 ms each: one worker is too few.
BUSY = [row(0.5 * i, 640, 4, [2 * i, 2 * i + 1]) for i in range(40)]


@pytest.fixture
def dynosim(folder: Path) -> Dynosim:
    """What the fixture of that name gives to a test of the empty folder, which has a trace."""
    write_trace(folder / "busy.jsonl", BUSY)
    return Dynosim(folder / "test_x.py", "test_x", {})


def pytest_of(folder: Path, text: str, *arguments: str, status: int = 0, **environment: str) -> str:
    """What pytest prints of a file of tests, which is to end with this status."""
    write_trace(folder / "busy.jsonl", BUSY)
    (folder / "test_it.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py", *arguments]
    known = {"PATH": "/usr/bin:/bin", "PYTHONUTF8": "1", **environment}
    done = subprocess.run(command, cwd=folder, env=known, capture_output=True, text=True, timeout=300)
    assert done.returncode == status, done
    return done.stdout


def test_the_plugin_is_installed_and_light() -> None:
    (point,) = entry_points(group="pytest11", name="dynosim")
    assert point.value == "dynamo._testing.plugin"
    text = "import pytest, sys; old = set(sys.modules); import dynamo._testing.plugin; print(*set(sys.modules) - old)"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert {name for name in done.stdout.split() if not name.startswith("encodings")} == {
        "dynamo",
        "dynamo._testing",
        "dynamo._testing.plugin",
    }


def test_a_promise_is_kept(dynosim: Dynosim) -> None:
    run = dynosim.replay("busy.jsonl", workers=8)
    assert run.expect(max_ttft_ms="<= 1 s", goodput=">= 100 %", completed_requests=">= 40") is run
    assert run.report["num_requests"] == 40
    assert dynosim.synthetic(20, 3, 5).expect(completed_requests="> 4").report["num_requests"] == 5


def test_a_broken_promise_says_why(dynosim: Dynosim) -> None:
    limit = dynosim.replay("busy.jsonl", workers=8).report["max_ttft_ms"] + 0.001
    run = dynosim.replay("busy.jsonl", workers=1)
    with pytest.raises(AssertionError) as error:
        run.expect(max_ttft_ms=f"<= {limit:.3f}", completed_requests=">= 40")
    head, *lines = str(error.value).splitlines()
    assert head == 'busy.jsonl, workers=1, router_mode="round_robin": 1 of 2 expectations failed'
    assert lines[0].endswith("failed")
    assert lines[1].split() == ["completed_requests", "expected", ">=", "40", "got", "40", "ok"]
    late = sum(run.report.requests["ttft_ms"] > float(f"{limit:.3f}"))
    assert lines[2].startswith(f"{late} of 40 requests have a time to first token that is not <= ")
    assert lines[3].startswith("  waiting on the worker ")
    shares = [float(line.split()[-1].rstrip("%")) for line in lines[3:] if line.endswith("%")]
    assert sum(shares) == pytest.approx(100, abs=0.3)
    nearest_one = lines[-1].partition("tried: workers=")[2]
    workers = int(nearest_one.split(",")[0])
    assert 1 < workers <= 8
    mode = "kv_router" if "kv_router" in nearest_one else "round_robin"
    dynosim.replay("busy.jsonl", workers=workers, router_mode=mode).expect(max_ttft_ms=f"<= {limit:.3f}")


def test_goodput_counts_as_the_report_does(dynosim: Dynosim) -> None:
    run = dynosim.replay("busy.jsonl", workers=2, sla_ttft_ms=100)
    share = run.report["goodput_completed_requests"] / 40
    assert 0 < share < 1
    assert bounds.value_of(run.report, "goodput", {}) == share
    plain = dynosim.replay("busy.jsonl", workers=2)
    derived = {"max_ttft_ms": bounds.parse("max_ttft_ms", "<= 100")}
    assert bounds.value_of(plain.report, "goodput", derived) == share
    with pytest.raises(AssertionError, match="requests have a time to first token that is not <= 100 ms"):
        run.expect(goodput=">= 100 %")


@pytest.mark.parametrize(
    ("expected", "message"),
    [
        ({"p99_tft_ms": "<= 1"}, "p99_tft_ms: the report has no such figure, did you mean p99_ttft_ms?"),
        ({"p99_ttft_ms": "1"}, 'p99_ttft_ms: got "1", want a comparison and a number as text, such as "<= 2000"'),
        ({"p99_ttft_ms": "<= 5 %"}, 'p99_ttft_ms: got "<= 5 %", want ms or s'),
        ({"num_requests": "<= 5 ms"}, 'num_requests: got "<= 5 ms", want no unit'),
        ({"p99_ttft_ms": "<= 1.2.3"}, 'p99_ttft_ms: got "<= 1.2.3", want one number'),
        ({"goodput": ">= 95 %"}, "goodput: no request has a bound to keep, want sla_ttft_ms"),
        ({}, "no figure is named, want one such as"),
    ],
)
def test_what_cannot_be_expected(dynosim: Dynosim, expected: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=r"^[^\n]+$") as error:
        dynosim.replay("busy.jsonl").expect(**expected)
    assert message in str(error.value)


def test_no_text(dynosim: Dynosim) -> None:
    with pytest.raises(TypeError, match="p99_ttft_ms: got 2000, want a comparison and a number as text"):
        dynosim.replay("busy.jsonl").expect(p99_ttft_ms=2000)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="workers: given twice, as num_workers, too"):
        dynosim.replay("busy.jsonl", workers=2, num_workers=2)
    with pytest.raises(ValueError, match='mean_ttft_ms: got "x", want how far it may be'):
        dynosim.replay("busy.jsonl").baseline(mean_ttft_ms="x")


@pytest.mark.parametrize("needed", range(2, 33))
def test_the_fewest_workers_are_found(needed: int) -> None:
    def attempt(changes: dict[str, int]) -> nearest.Trial:
        return nearest.Trial(changes, changes["num_workers"] >= needed, "")

    (line,) = nearest.describe({"num_workers": 1, "router_mode": "kv_router"}, attempt, 16)  # type: ignore[arg-type]
    assert f"tried: workers={needed}, with" in line
    (none,) = nearest.describe({"num_workers": 1, "router_mode": "kv_router"}, attempt, 1)  # type: ignore[arg-type]
    assert ("tried: workers=2," in none) == (needed == 2)
    assert nearest.describe({"num_workers": 1, "autoscaler": {}}, attempt, 16) == []  # type: ignore[arg-type]


def test_the_pool_that_is_too_small_grows() -> None:
    def attempt(changes: dict[str, int]) -> nearest.Trial:
        return nearest.Trial(changes, changes["num_decode_workers"] >= 3, "")

    given = {"num_prefill_workers": 2, "num_decode_workers": 1, "router_mode": "kv_router"}
    (line,) = nearest.describe(given, attempt, 16)  # type: ignore[arg-type]
    assert "prefill_workers=2, decode_workers=3, with" in line


def test_baselines(dynosim: Dynosim, folder: Path) -> None:
    found: list[Finding] = []

    def once(update: bool = False) -> Dynosim:
        return Dynosim(folder / "test_x.py", "test_x", {"workers": 2}, note=found.append, update=update)

    with pytest.raises(AssertionError, match=r"test_x.dynosim.json: no such file, .* run pytest --dynosim-update"):
        once().replay("busy.jsonl").baseline(mean_ttft_ms="1 %")
    once(update=True).replay("busy.jsonl").baseline(mean_ttft_ms="1 %")
    assert found[-1]["result"] == "recorded"
    once(update=True).replay("busy.jsonl").baseline("named", max_tpot_ms="0 %")
    known = json.loads((folder / "test_x.dynosim.json").read_text())
    assert list(known) == ["test_x", "test_x named"]
    assert known["test_x"] == {"mean_ttft_ms": once().replay("busy.jsonl").report["mean_ttft_ms"]}
    kept = once()
    kept.replay("busy.jsonl").baseline(mean_ttft_ms="0 %").baseline("named", max_tpot_ms="0 ms")
    with pytest.raises(ValueError, match='baseline: the test has two named "named"'):
        kept.replay("busy.jsonl").baseline("named", max_tpot_ms="0 ms")
    with pytest.raises(AssertionError, match=r"(?s)not as in test_x.dynosim.json.*failed\nIf that is meant"):
        once().replay("busy.jsonl", workers=8).baseline(mean_ttft_ms="1 %")  # faster, which is a change, too
    with pytest.raises(AssertionError, match="'test_x' has no p99_ttft_ms; run pytest"):
        once().replay("busy.jsonl").baseline(p99_ttft_ms="1 %")
    (folder / "test_x.dynosim.json").write_text("[]")
    with pytest.raises(ValueError, match=r"test_x.dynosim.json: not a file of baselines"):
        once().replay("busy.jsonl").baseline(mean_ttft_ms="1 %")


TESTS = """
import pytest

pytestmark = pytest.mark.dynosim(workers=8, sla_ttft_ms=1000)

def test_kept(dynosim):
    dynosim.replay("busy.jsonl").expect(goodput=">= 90 %").baseline(mean_ttft_ms="1 %")

@pytest.mark.dynosim(workers=1)
def test_broken(dynosim):
    assert dynosim.replay("busy.jsonl", workers=2).report["provenance"]["arguments"]["num_workers"] == 2
    dynosim.replay("busy.jsonl").expect(max_ttft_ms="<= 1")
"""
PLAIN = "\ndef test_plain():\n    pass\n"


@pytest.mark.parametrize("processes", [[], ["-n", "2"]])
def test_in_a_job(folder: Path, processes: list[str]) -> None:
    """The summary of the job and the JUnit file have what was found, also with processes of pytest-xdist."""
    if processes:
        pytest.importorskip("xdist")
    update = pytest_of(folder, TESTS, "--dynosim-update", "-k", "kept", *processes)
    assert "1 passed" in update
    summary = folder / "summary.md"
    summary.write_text("before\n")
    found = pytest_of(folder, TESTS, "--junit-xml=junit.xml", *processes, status=1, GITHUB_STEP_SUMMARY=str(summary))
    assert "1 failed, 1 passed" in found
    assert 'busy.jsonl, workers=1, router_mode="round_robin": 1 of 1 expectations failed' in found
    assert "runs.py" not in found  # nothing of the plugin's own code
    lines = summary.read_text().splitlines()
    assert lines[:2] == ["before", "### Simulated deployments"]
    rows = {(cells[1], cells[3]): cells[-2] for cells in (line.split(" | ") for line in lines) if len(cells) == 6}
    assert len([line for line in lines if line.startswith("| test_it.py::")]) == 3, rows
    assert any("test_broken" in line and line.endswith("| failed |") for line in lines)
    cases = {case.get("name"): case for case in ET.parse(folder / "junit.xml").iter("testcase")}
    properties = {p.get("name"): p.get("value") for p in cases["test_kept"].iter("property")}
    assert float(str(properties["dynosim.goodput"])) == 1.0
    assert float(str(properties["dynosim.mean_ttft_ms"])) > 0


def test_tests_with_the_fixture_are_marked(folder: Path) -> None:
    unmarked = TESTS.replace("pytestmark =", "_ =") + PLAIN
    assert "3 tests collected" in pytest_of(folder, unmarked, "--collect-only", "--strict-markers")
    assert "test_plain" not in pytest_of(folder, unmarked, "--collect-only", "-m", "dynosim")
    bad = TESTS.replace("workers=8", "4, workers=8")
    assert "marker dynosim: got 4, want arguments with names" in pytest_of(folder, bad, status=1)
    ini = pytest_of(folder, TESTS, "-o", "dynosim_nearest=x", status=1)
    assert "dynosim_nearest: got 'x', want a number of replays" in ini


def test_examples(folder: Path) -> None:
    """The examples keep their promises."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        str(EXAMPLES / "ci" / "test_capacity.py"),
    ]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done


def test_attribution_changes_nothing() -> None:
    """The fixture explains every run, so figures must be those without."""
    plain = run_synthetic_trace_replay(20, 3, 5)
    run = Dynosim(Path("test_x.py"), "test_x", {}).synthetic(20, 3, 5)
    assert {k: v for k, v in run.report.items() if k.endswith("_ms") and "wall" not in k} == {
        k: v for k, v in plain.items() if k.endswith("_ms") and "wall" not in k
    }
