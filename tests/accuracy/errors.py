#!/usr/bin/env python3
"""Make the file of measured errors that is part of the program, from the tables of docs/accuracy.md.

usage: errors.py [--write FILE]

Takes the median errors of TTFT and TPOT of each engine, model, GPU and precision: without calibration from the table
"By engine, model, GPU and precision", and calibrated from that of configurations that were held out. What the second
table lacks is left out: its measurements do not tell how good durations are. Prints JSON, or writes it to FILE,
gocore/calibration/shipped/errors.json.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).parent.parent.parent
PAGE = PROJECT / "docs" / "accuracy.md"
SHIPPED = PROJECT / "gocore" / "calibration" / "shipped" / "errors.json"

SURE = "### How sure: ranges that hold 80 % of measurements"

Group = tuple[str, ...]


def text(page: str) -> str:
    """The file for the text of docs/accuracy.md."""
    found: dict[Group, dict[str, Any]] = {}
    for group, cells in rows(page, "### By engine, model, GPU and precision", 10):
        found.setdefault(group, {})["plain"] = error(cells[1], cells[3], cells[7])
    for group, cells in rows(page, "### Calibrated, on configurations that were held out", 5):
        if group in found:  # not the line of an engine
            found[group]["calibrated"] = error(cells[1], cells[3].partition(" ")[0], cells[5].partition(" ")[0])
    lines = [
        json.dumps(dict(zip(("engine", "model", "system", "precision"), group, strict=True)) | errors)
        for group, errors in sorted(found.items())
        if len(errors) == 2
    ]
    ranges = ",\n".join(map(json.dumps, expected(page)))
    entries = ",\n".join(lines)
    return f'{{"made_from": "docs/accuracy.md", "entries": [\n{entries}\n], "expected": [\n{ranges}\n]}}\n'


def expected(page: str) -> Iterator[dict[str, Any]]:
    """The rows of the table of ranges."""
    section = page.partition(SURE + "\n")[2].partition("\n### ")[0]
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if len(cells) == 10 and cells[5].isdigit():
            about = dict(zip(("level", "engine", "model", "system", "precision"), cells[:5], strict=True))
            spans = [[float(end) for end in cell.split(" to ")] for cell in cells[6:]]
            yield {
                **{name: value for name, value in about.items() if value != "-"},
                "measurements": int(cells[5]),
                "plain": dict(zip(("ttft", "tpot"), spans[:2], strict=True)),
                "calibrated": dict(zip(("ttft", "tpot"), spans[2:], strict=True)),
            }


def rows(page: str, title: str, columns: int) -> Iterator[tuple[Group, list[str]]]:
    """The rows of the tables below a title whose first cell is a group: engine, model, GPU, precision."""
    section = page.partition(title + "\n")[2].partition("\n### ")[0]
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        group = tuple(cells[0].split())
        if line.startswith("| ") and len(group) == 4 and len(cells) >= columns and cells[1].isdigit():
            yield group, cells


def error(count: str, ttft: str, tpot: str) -> dict[str, float | int]:
    """An error of the file, as parts of one."""
    return {"ttft": part(ttft), "tpot": part(tpot), "measurements": int(count)}


def part(percent: str) -> float:
    return round(float(percent) / 100, 4)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=Path)
    given = parser.parse_args()
    made = text(PAGE.read_text())
    if given.write is None:
        print(made, end="")
    else:
        given.write.write_text(made)


if __name__ == "__main__":
    main()
