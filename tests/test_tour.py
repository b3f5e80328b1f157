"""docs/tour.md and README's recipes, pasted as they stand: commands into a shell, Python into an interpreter."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from test_aic import fake

from dynamo.mocker import main as mocker
from dynamo.replay import run_trace_replay

__all__ = ["fake"]

PROJECT = Path(__file__).parent.parent
README = (PROJECT / "README.md").read_text()
RECIPES = README.partition("## Four recipes\n")[2].partition("\n## ")[0]
WORKERS = (PROJECT / "docs" / "live.md").read_text()
TOUR = (PROJECT / "docs" / "tour.md").read_text() + RECIPES
TRACE = "examples/traces/conversation_400.jsonl.gz"

BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", TOUR, re.MULTILINE | re.DOTALL)
PYTHON = [block for language, block in BLOCKS if language == "python"]
SHELL = [block for language, block in BLOCKS if language != "python"]
LIVE = [block for block in SHELL if re.search(r"dynamo\.mocker|dynamo\.frontend|\bcurl\b", block)]
BEHIND_A_FRONTEND = re.findall(r"^```\n([^`]*dynamo\.frontend[^`]*)^```$", WORKERS, re.MULTILINE)
AIC = [block for block in SHELL if "aic" in block and block not in LIVE]
OFFLINE = [block for block in SHELL if block not in LIVE + AIC]


@pytest.fixture
def clone(folder: Path) -> Path:
    """What the tour needs of a clone; what its commands write stays outside of ours."""
    (folder / "examples").symlink_to(PROJECT / "examples")
    return folder


def paste(clone: Path, commands: str) -> subprocess.CompletedProcess[str]:
    """Runs commands in a shell where ``python`` is the interpreter of the tests, as in an activated environment."""
    programs = clone / "programs"
    programs.mkdir()
    python = programs / "python"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    environment = {**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
    return subprocess.run(
        ["bash", "-e"], input=commands, cwd=clone, env=environment, capture_output=True, text=True, timeout=120
    )


def test_the_tour_is_found() -> None:
    """So that a change of layout loses no block from the tests."""
    assert TOUR.count("```") == 2 * len(BLOCKS)
    assert min(len(OFFLINE), len(AIC), len(LIVE), len(PYTHON)) > 0
    assert len(BEHIND_A_FRONTEND) == 2


def test_the_readme_is_short() -> None:
    assert len(README.splitlines()) < 130


def test_what_the_tour_reads_is_in_a_clone() -> None:
    paths = re.findall(r"\bexamples/[\w./-]*\w", TOUR)
    assert TRACE in paths
    assert [path for path in paths if not (PROJECT / path).exists()] == []


@pytest.mark.parametrize("commands", OFFLINE)
def test_commands(clone: Path, commands: str) -> None:
    done = paste(clone, commands)
    messages = [line for line in done.stderr.splitlines() if " points/s" not in line]  # how far a slow sweep is
    assert (done.returncode, messages) == (0, [])
    assert re.search("Saved (full )?report to: |best possible reuse", done.stdout)
    for written in re.findall(r"--(?:report-json|report-jsonl|router-log) (\S+)", commands):
        assert Path(written).stat().st_size > 0


@pytest.mark.parametrize("commands", AIC)
def test_commands_that_ask_the_aic_sdk(fake: Path, clone: Path, commands: str) -> None:
    done = paste(clone, commands)
    assert done.returncode == 0, done.stderr
    assert "Saved full report to: " in done.stdout


@pytest.mark.skipif(importlib.util.find_spec("aiconfigurator") is None, reason="needs dynosim[aic]: make test-aic")
@pytest.mark.parametrize("commands", AIC)
def test_commands_that_ask_the_real_aic_sdk(clone: Path, commands: str) -> None:
    done = paste(clone, commands)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("commands", [*LIVE, *BEHIND_A_FRONTEND])
def test_options_of_live_workers(commands: str) -> None:
    """That they serve is tested in test_pages.py, and behind a stock frontend in tests/interop."""
    joined = commands.replace("\\\n", " ")
    for line in re.findall(r"python -m dynamo\.mocker (.*?)\s*&?\s*$", joined, re.MULTILINE):
        given = vars(mocker._parser().parse_args(line.split()))
        assert given.keys() >= {"model_path", "model_name"} or given["standalone"]


@pytest.mark.parametrize("how", [["-i"], ["script.py"]], ids=["line by line", "as a script"])
@pytest.mark.parametrize("source", PYTHON)
def test_python(clone: Path, source: str, how: list[str]) -> None:
    Path("script.py").write_text(source)
    done = subprocess.run(
        [sys.executable, *how], input=f"{source}\n", cwd=clone, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert "Error" not in done.stderr
    assert done.stdout


# What the rows of the table of routing policies stand for.
WAITING = {"router_queue_threshold": 0.5}
POLICIES: list[dict[str, Any]] = [
    {"router_mode": "round_robin"},
    {"router_mode": "kv_router"},
    {"router_mode": "kv_router", "router_config": {"overlap_score_credit": 0}},
    {"router_mode": "kv_router", "router_config": WAITING},
    {"router_mode": "kv_router", "router_config": {**WAITING, "router_queue_policy": "wspt"}},
]


def test_the_table_of_routing_policies(clone: Path) -> None:
    rows = [line.strip("| ").split(" | ")[1:] for line in TOUR.splitlines() if line.endswith(" % |")]
    found = []
    for policy in POLICIES:
        report = run_trace_replay(TRACE, num_workers=4, **policy)
        found.append(
            [
                f"{report['mean_ttft_ms']:.1f} ms",
                f"{report['p99_ttft_ms']:,.0f} ms",
                f"{report['mean_itl_ms']:.2f} ms",
                f"{100 * report['prefix_cache_reused_ratio']:.1f} %",
            ]
        )
    assert rows == found
    assert [json.loads(text) for text in re.findall(r"^\| the same, `(\{.*?\})`", TOUR, re.MULTILINE)] == [
        policy["router_config"] for policy in POLICIES[2:4]
    ]


def test_the_readme_has_the_figures_of_the_page_of_accuracy() -> None:
    page = (PROJECT / "docs" / "accuracy.md").read_text()
    rows = [
        re.findall(rf"^\| {engine}, comparable \| (.*) \|$", page, re.MULTILINE)[0] for engine in ("vllm", "sglang")
    ]
    cells = [row.split(" | ") for row in rows]
    runs = sum(int(row[0]) for row in cells)
    medians = [[re.split(r"[ ,]", cell)[0] for cell in row[1:]] for row in cells]
    assert f"| real GPUs, {runs} runs " in README
    for name, before, after in (("TTFT", 0, 1), ("TPOT", 2, 3)):
        assert f"{name} {medians[0][before]} % and {medians[1][before]} %" in README
        assert f"{name} {medians[0][after]} % and {medians[1][after]} %" in README
