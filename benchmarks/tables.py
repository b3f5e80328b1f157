"""Tables of measurements in Markdown files, between markers that name them::

    <!-- measured: corners -->
    | head | ... |
    |---|---|
    | row | ... |
    <!-- end of measured -->

A table is known by the first cell of its head, a row by its own first cell. What was not measured this time stays:
whole rows, and cells that are None.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

Cells = tuple[str | None, ...]


class Table(NamedTuple):
    head: Cells
    names: Sequence[str]
    """The first cells of all rows that the table may have, in order. Rows of a file with other names go."""
    rows: Mapping[str, Cells]
    """The further cells of those that were measured."""


def write(path: Path, name: str, tables: Sequence[Table]) -> bool:
    """Puts measurements between the markers of this name; False if the file has none."""
    text = path.read_text()
    place = re.compile(rf"(<!-- measured: {re.escape(name)} -->\n)(.*?)(<!-- end of measured -->)", re.DOTALL)
    if not (found := place.search(text)):
        return False
    old = _parse(found[2])
    shown = "\n".join(_text(table, old.get(table.head[0] or "", {})) for table in tables)
    path.write_text(text[: found.start()] + found[1] + shown + found[3] + text[found.end() :])
    return True


def _parse(text: str) -> dict[str, dict[str, Cells]]:
    """The rows of Markdown tables, by the first cells of head and row."""
    tables: dict[str, dict[str, Cells]] = {}
    rows: dict[str, Cells] | None = None
    for line in text.splitlines():
        if not line.startswith("|"):
            rows = None
            continue
        first, *others = (cell.strip() for cell in line[1:].removesuffix("|").split("|"))
        if rows is None:
            rows = tables.setdefault(first, {})
        elif set(first) != {"-"}:
            rows[first] = tuple(others)
    return tables


def _text(table: Table, old: Mapping[str, Cells]) -> str:
    rows = {**old, **{name: _filled(cells, old.get(name, ())) for name, cells in table.rows.items()}}
    width = len(table.head)
    lines = [table.head, ("---",) * width, *((name, *rows[name]) for name in table.names if name in rows)]
    return "".join(_line((*cells, *("",) * (width - len(cells)))) for cells in lines)


def _filled(cells: Cells, old: Cells) -> Cells:
    """The cells of a row, with those of the file where nothing was measured."""
    return tuple(cell if cell is not None else old[i] if i < len(old) else "" for i, cell in enumerate(cells))


def _line(cells: Cells) -> str:
    if set(cells) == {"---"}:
        return "|" + "---|" * len(cells) + "\n"
    return "|" + "|".join(f" {cell} " if cell else " " for cell in cells) + "|\n"
