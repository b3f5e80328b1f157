"""``dynosim``, a fixture and a marker for tests of deployments; docs/ci.md describes both.

``dynamo.replay`` is imported by the fixture, not here.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from dynamo.replay.testing import Dynosim, Finding

_COLUMNS = ("deployment", "figure", "expected", "got", "result")
_MARKER = "dynosim(workers=..., **arguments): arguments of the replays in this test, which dynosim.replay may change"
_RECORDS = pytest.StashKey["list[Finding]"]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds ``--dynosim-update`` and the ini option ``dynosim_nearest``."""
    group = parser.getgroup("dynosim", "simulated deployments")
    group.addoption(
        "--dynosim-update",
        action="store_true",
        help="write the baselines of simulated deployments instead of comparing",
    )
    parser.addini(
        "dynosim_nearest",
        "how many replays may look for the nearest deployment that passes, after one that does not; 0 for none",
        default="16",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", _MARKER)
    if not hasattr(config, "workerinput"):  # processes of pytest-xdist send their reports to the one that prints
        config.pluginmanager.register(_Summary(), "dynosim-summary")


def pytest_itemcollected(item: pytest.Item) -> None:
    """Marks tests that use the fixture, so that ``-m dynosim`` finds them."""
    if "dynosim" in getattr(item, "fixturenames", ()) and item.get_closest_marker("dynosim") is None:
        item.add_marker("dynosim")


@pytest.fixture
def dynosim(request: pytest.FixtureRequest) -> Dynosim:
    """Replays traces, and says whether the deployment keeps its promises: ``dynosim.replay(...).expect(...)``."""
    from dynamo.replay.testing import Dynosim

    limit = request.config.getini("dynosim_nearest")
    if not limit.isdecimal():
        raise pytest.UsageError(f"dynosim_nearest: got {limit!r}, want a number of replays, or 0 for none")
    given: dict[str, Any] = {}
    for marker in reversed(list(request.node.iter_markers("dynosim"))):  # the closest comes last, and wins
        if marker.args:
            raise pytest.UsageError(f"marker dynosim: got {marker.args[0]!r}, want arguments with names, as workers=4")
        given |= marker.kwargs
    findings: list[Finding] = []
    request.node.stash[_RECORDS] = findings

    def note(finding: Finding) -> None:
        findings.append(finding)
        request.node.user_properties.append((f"dynosim.{finding['figure']}", finding["value"]))

    test = request.node.nodeid.partition("::")[2]
    update = request.config.getoption("dynosim_update")
    return Dynosim(request.path, test, given, note=note, update=update, nearest=int(limit))


@pytest.hookimpl(hookwrapper=True)  # which older releases of pytest know, too
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, None]:
    """Adds what was found to the report of a test: reports also come out of the processes of pytest-xdist."""
    outcome = yield
    report = outcome.get_result()
    if report.when == "call" and _RECORDS in item.stash:
        report.dynosim = item.stash[_RECORDS]


class _Summary:
    """Collects what tests have found, and writes it as a table where GitHub shows summaries of jobs."""

    def __init__(self) -> None:
        self.rows: list[list[str]] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for finding in getattr(report, "dynosim", ()):
            self.rows.append([report.nodeid, *(finding[key] for key in _COLUMNS)])

    def pytest_sessionfinish(self) -> None:
        path = os.environ.get("GITHUB_STEP_SUMMARY")
        if not path or not self.rows:
            return
        headings = ["test", *_COLUMNS]
        lines = [
            "### Simulated deployments",
            "",
            _line(headings),
            _line(["---"] * len(headings)),
            *map(_line, self.rows),
        ]
        with Path(path).open("a", encoding="utf-8") as summary:
            summary.write("\n".join(lines) + "\n\n")


def _line(cells: list[str]) -> str:
    """Returns a row of a table in Markdown, in which a cell must not contain a bar that ends it."""
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"
