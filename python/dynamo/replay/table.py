"""Drawing a table of text: boxes or ASCII, as wide as its cells or as narrow as a terminal.

Small enough to do without a library, whose import would take longer than a small run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

Rows = Sequence[Sequence[str]]


class Border(NamedTuple):
    """The characters of a table. Lines are left end, line, crossing and right end."""

    top: str
    below_header: str
    bottom: str
    bar: str
    cut: str
    """Ends a label that had to be shortened."""


BOXES = Border(top="┏━┳┓", below_header="┡━╇┩", bottom="└━┴┘", bar="┃", cut="…")
ASCII = Border(top="+-++", below_header="+=++", bottom="+-++", bar="|", cut="...")

# Shorter labels would not be understood; a terminal narrower than that wraps.
_SHORTEST_LABEL = 12


def draw(rows: Rows, border: Border) -> str:
    """Returns the table as lines of equal length. The first row is the header; the first column is aligned left."""
    widths = _widths(rows)
    header, *body = (_line(row, widths, border.bar) for row in rows)
    top, below, bottom = (_rule(widths, ends) for ends in (border.top, border.below_header, border.bottom))
    return "\n".join([top, header, below, *body, bottom])


def fit(rows: Rows, width: int, expendable: Sequence[int], border: Border) -> Rows:
    """Returns the rows without the first expendable columns, as many as must go so that the table is at most ``width``
    wide.

    If that is not enough, the labels in the first column are shortened.
    """
    dropped: set[int] = set()
    for column in expendable:
        if _table_width(_without(rows, dropped)) <= width:
            break
        dropped.add(column)
    kept = _without(rows, dropped)
    if (excess := _table_width(kept) - width) <= 0:
        return kept
    room = max(_widths(kept)[0] - excess, _SHORTEST_LABEL)
    return [[_shorten(label, room, border.cut), *cells] for label, *cells in kept]


def _without(rows: Rows, dropped: set[int]) -> Rows:
    return [[cell for column, cell in enumerate(row) if column not in dropped] for row in rows]


def _shorten(label: str, room: int, cut: str) -> str:
    return label if len(label) <= room else label[: room - len(cut)].rstrip() + cut


def _widths(rows: Rows) -> list[int]:
    return [max(map(len, column)) for column in zip(*rows, strict=True)]


def _table_width(rows: Rows) -> int:
    return sum(width + 3 for width in _widths(rows)) + 1


def _line(row: Sequence[str], widths: Sequence[int], bar: str) -> str:
    cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
    return f"{bar} {f' {bar} '.join(cells)} {bar}"


def _rule(widths: Sequence[int], ends: str) -> str:
    left, line, crossing, right = tuple(ends)
    return left + crossing.join(line * (width + 2) for width in widths) + right
