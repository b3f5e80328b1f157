"""Reports and per-request columns as HTML, which notebooks show by themselves.

Plain tables in the colours of the notebook, light or dark. Everything that comes from a run is escaped.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

from dynamo.replay import summary

if TYPE_CHECKING:
    from dynamo.replay.columns import Column

# The columns shown of each request, if any request has a value there.
_COLUMNS = (
    *("session_id", "arrival_time_ms", "ttft_ms", "itl_ms", "e2e_latency_ms"),
    *("input_length", "output_length", "reused_input_tokens", "prefill_worker_idx", "decode_worker_idx"),
    *("state", "terminal_status", "rejection_reason"),
)
_ENDS = 5  # rows shown at the beginning, and at the end
_CELL = "padding:2px 10px"
_NOTHING = ""


class Explorer(NamedTuple):
    """A page for a browser within a notebook. Its scripts reach nothing outside of it."""

    html: str
    """The page by itself."""
    height: int

    def _repr_html_(self) -> str:
        return frame(self.html, self.height, "The page of a run")

    def __repr__(self) -> str:
        return f"a page of {len(self.html):,} characters, which notebooks show"


def frame(page: str, height: int, title: str) -> str:
    """Returns a page as a frame in an output, whose scripts reach nothing outside of it."""
    looks = f'width="100%" height="{height}" sandbox="allow-scripts" style="border:0" title="{escape(title)}"'
    return f'<iframe {looks} srcdoc="{escape(page)}"></iframe>'


def report_html(report: Mapping[str, Any]) -> str:
    """Returns the table that the command line prints."""
    heading, *rows = summary.table_cells(report)
    lines = [escape(line) for line in summary.closing_lines(report)]
    return _page(summary.TITLE, _table(heading, rows, texts=1), lines)


def requests_html(requests: Mapping[str, Column]) -> str:
    """Returns the first and last requests, by the columns that matter most, and the names of all others."""
    return _ends_html("Requests", "requests", requests, [name for name in _COLUMNS if name in requests])


def timeseries_html(series: Mapping[str, Column]) -> str:
    """Returns the first and last rows of a series."""
    return _ends_html("Series", "rows", series, list(series))


def _ends_html(title: str, what: str, columns: Mapping[str, Column], wanted: Iterable[str]) -> str:
    """Returns the first and last rows of a table, by those wanted columns in which any has a value."""
    count = len(columns[next(iter(columns))]) if columns else 0
    shown = [name for name in wanted if _says_something(columns[name])]
    rows = [*range(min(count, _ENDS)), *range(max(_ENDS, count - _ENDS), count)]
    cells = [[str(row), *(_cell(columns[name], row) for name in shown)] for row in rows]
    if count > 2 * _ENDS:
        cells.insert(_ENDS, ["…"] * (1 + len(shown)))
    others = [escape(name) for name in columns if name not in shown]
    closing = [f"{count:,} {what}, {len(columns)} columns"]
    if others:
        closing.append(f"also: {', '.join(others)}")
    return _page(title, _table(["", *shown], cells), closing)


def _says_something(column: Column) -> bool:
    """Reports whether any request has a value there."""
    if isinstance(column, list):
        return any(column)
    return bool((column >= 0).any())  # false for NaN and for -1, which stand for none


def _cell(column: Column, row: int) -> str:
    return _text(column[row] if isinstance(column, list) else column[row].item())


def _text(value: object) -> str:
    """Returns a value as text; "" for values that stand for none."""
    if isinstance(value, float):
        return _NOTHING if math.isnan(value) else f"{value:,.2f}"
    if isinstance(value, int):
        return _NOTHING if value < 0 else f"{value}"
    return str(value)


def _table(heading: Sequence[str], rows: Iterable[Sequence[str]], texts: int = 0) -> str:
    """Returns an HTML table of plain texts; the first ``texts`` columns are aligned to the left."""
    head = "".join(_tagged("th", text, index < texts) for index, text in enumerate(heading))
    body = "".join(
        f"<tr>{''.join(_tagged('td', text, index < texts) for index, text in enumerate(row))}</tr>" for row in rows
    )
    return f'<table style="border-collapse:collapse"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'


def _tagged(tag: str, text: str, left: bool) -> str:
    border = ";border-bottom:1px solid" if tag == "th" else ""
    style = f"{_CELL};text-align:{'left' if left else 'right'};white-space:nowrap{border}"
    return f'<{tag} style="{style}">{escape(text)}</{tag}>'


def _page(title: str, table: str, closing: Iterable[str]) -> str:
    lines = "".join(f"<div>{line}</div>" for line in closing)
    return f'<div style="overflow-x:auto"><b>{escape(title)}</b>{table}<small>{lines}</small></div>'
