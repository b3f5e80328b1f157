"""The comparison of planners in docs/planner.md: its table and its picture."""

from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

PROJECT = Path(__file__).parent.parent
TOOL = PROJECT / "benchmarks/planner_day.py"
PAGE = PROJECT / "docs/planner.md"


def rows(text: str) -> dict[str, list[str]]:
    """The cells of the table, by the name of the row."""
    place = text.partition("<!-- measured: planner day -->")[2].partition("<!-- end of measured -->")[0]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in place.strip().splitlines()]
    return {row[0]: row[1:] for row in cells[2:]}


def test_the_first_half_hour(tmp_path: Path) -> None:
    """Each run is in the table and in the picture; the row that was not run stays."""
    page, plot = tmp_path / "page.md", tmp_path / "day.svg"
    page.write_text(PAGE.read_text())
    command = [sys.executable, str(TOOL), "--hours", "0.5", "--write", str(page), "--plot", str(plot)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    before, after = rows(PAGE.read_text()), rows(page.read_text())
    assert list(after) == list(before)
    assert after["ai-dynamo's planner, load"] == before["ai-dynamo's planner, load"]
    assert (after["8 workers"][0], after["8 workers"][4]) == ("4", "8")
    picture = ET.parse(plot).getroot()
    assert len(picture.findall("{*}circle")) == len(before) - 1 + 3  # and those of the legend
    assert "HPA, " in "".join(picture.itertext())


def test_the_page_shows_what_autoscalers_save() -> None:
    """What the text around the table says of it."""
    shown = rows(PAGE.read_text())
    fixed, hpa, lean = shown["8 workers"], shown["HPA, 16 running"], shown["KEDA, 20 running"]
    assert 1 - float(hpa[0]) / float(fixed[0]) > 0.25
    assert 1 - float(lean[0]) / float(fixed[0]) > 0.33
    assert max(float(row[2].rstrip(" %")) for row in (fixed, hpa, lean)) < 1
