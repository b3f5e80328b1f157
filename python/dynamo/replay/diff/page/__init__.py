"""The page of a comparison: one file without any other, for phones, wide windows and paper, light and dark."""

from __future__ import annotations

import html

from dynamo import _page
from dynamo.replay.diff.comparison import Comparison
from dynamo.replay.diff.text import Section, sections

_CURVES = """<section aria-labelledby="curves-title">
<h2 id="curves-title">Latencies</h2>
<div class="legend"><span class="t0"><span class="swatch"></span>A</span>
<span class="t1"><span class="swatch"></span>B</span></div>
<div id="curves"></div>
</section>
"""
_TITLES = {"ttft_ms": "TTFT", "tpot_ms": "TPOT", "e2e_latency_ms": "Latency of requests"}


def as_html(found: Comparison) -> str:
    """The page of two runs: what the text says, as tables that scroll by themselves, and curves of the latencies."""
    curves = [
        {"title": title, "runs": [list(map(_page.short, run)) for run in found.quantiles[name]]}
        for name, title in _TITLES.items()
        if name in found.quantiles
    ]
    parts = {
        "TITLE": "Two runs compared",
        "HEAD": f"<p><b>A</b>: {html.escape(str(found.a))}</p>\n<p><b>B</b>: {html.escape(str(found.b))}</p>",
        "CURVES": _CURVES if curves else "",
        "SECTIONS": "\n".join(_section(at, section) for at, section in enumerate(sections(found))),
    }
    return _page.whole(__name__, ("curves.js",) if curves else (), parts, {"curves": curves})


def _section(at: int, section: Section) -> str:
    table = f'<div class="scroll" tabindex="0">{_table(section)}</div>' if section.cells else ""
    lines = "".join(f"<li>{html.escape(line)}</li>" for line in section.lines)
    notes = f"<ul>{lines}</ul>" if lines else ""
    title = f'<h2 id="section-{at}">{html.escape(section.title)}</h2>'
    return f'<section aria-labelledby="section-{at}">\n{title}\n{table}{notes}\n</section>'


def _table(section: Section) -> str:
    heading, *rows = section.cells
    head = "".join(f"<th scope=col class={_kind(at)}>{html.escape(cell)}</th>" for at, cell in enumerate(heading))
    body = "".join(f"<tr>{''.join(_cell(at, cell) for at, cell in enumerate(row))}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(at: int, text: str) -> str:
    stripped = text.lstrip(" ")
    deep = " deep" if len(stripped) < len(text) else ""
    return f'<td class="{_kind(at)}{deep}">{html.escape(stripped)}</td>'


def _kind(at: int) -> str:
    return "number" if at else "text"
