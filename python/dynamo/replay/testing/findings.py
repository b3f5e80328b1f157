"""What was expected of a figure, and what it is: for messages, summaries of jobs and JUnit files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict


class Finding(TypedDict):
    """A figure of a run, as text; ``value`` has all digits, in the unit of the report.

    ``result`` is ``ok``, ``failed``, or ``recorded`` for a baseline that was written.
    """

    deployment: str
    figure: str
    expected: str
    got: str
    value: str
    result: str


def as_text(findings: Sequence[Finding]) -> list[str]:
    """Returns a line for each figure, in columns."""
    cells = [(f["figure"], f"expected {f['expected']}", f"got {f['got']}", f["result"]) for f in findings]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return ["  " + "  ".join(map(str.ljust, row, widths)).rstrip() for row in cells]
