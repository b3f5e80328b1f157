"""docs/tour.md line by line, and figures that it and README quote. test_documents.py runs their commands."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dynamo.replay import run_trace_replay

PROJECT = Path(__file__).parent.parent
README = (PROJECT / "README.md").read_text()
TOUR = (PROJECT / "docs" / "tour.md").read_text()
TRACE = "examples/traces/conversation_400.jsonl.gz"

PYTHON = re.findall(r"^```python\n(.*?)^```$", TOUR, re.MULTILINE | re.DOTALL)


@pytest.fixture
def clone(folder: Path) -> Path:
    """What the tour needs of a clone; what its commands write stays outside of ours."""
    (folder / "examples").symlink_to(PROJECT / "examples")
    return folder


@pytest.mark.parametrize("how", [["-i"], ["script.py"]], ids=["line by line", "as a script"])
@pytest.mark.parametrize("source", PYTHON)
def test_python(clone: Path, source: str, how: list[str]) -> None:
    Path("script.py").write_text(source)
    done = subprocess.run(
        [sys.executable, *how], input=f"{source}\n", cwd=clone, capture_output=True, text=True, timeout=300
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
