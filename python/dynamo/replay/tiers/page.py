"""The page with the curve: one file without any other, with the charts of the other pages."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import Any

from dynamo import _page
from dynamo.replay.tiers import text


def as_html(found: Mapping[str, Any]) -> str:
    """Returns the page of a curve."""
    files = html.escape(", ".join(found["trace_files"]))
    filled = {
        "TITLE": "Sizes of a KV cache",
        "HEAD": f"<p>{files}</p>\n<p>{html.escape(text.headline(found))}</p>\n<p>{html.escape(_verdict(found))}</p>",
        "CARDS": _cards(found),
        "HINT": html.escape(_hint(found)),
        "SIZES": _table([["Cache", "Prompt tokens found", ""], *map(_row, text.shown(found))]),
        "SIMULATED": _simulated(found),
    }
    return _page.whole(__package__, ("curve.js",), filled, _data(found))


def _verdict(found: Mapping[str, Any]) -> str:
    return text.verdict(found) if found["enough"]["blocks"] else text.NOTHING


def _cards(found: Mapping[str, Any]) -> str:
    at, name = _marked(found), "Knee" if text.has_knee(found) else "Nine tenths"
    cards = [
        (name, text.size(at), f"finds {at['hit_ratio']:.1%} of the prompt tokens"),
        ("All that can be found", text.size(found["enough"]), f"finds {found['enough']['hit_ratio']:.1%}"),
    ]
    return "\n".join(
        f'<article><h3>{title}</h3><p class="big">{figure}<small>{note}</small></p></article>'
        for title, figure, note in cards
    )


def _data(found: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what the chart shows. Its widest size is the one behind which nothing more is found."""
    unit = "gb" if "gb" in found["enough"] else "blocks"
    sizes = (*found["points"], found["knee"], found["enough"])
    curve = sorted({(_page.short(point[unit]), _percent(point["hit_ratio"])) for point in sizes})
    return {
        "unit": "GB" if unit == "gb" else "blocks",
        "widest": max(1, _page.short(found["enough"][unit]) or 0),
        "curve": curve,
        "replays": [
            [_page.short(point[unit]), _percent(point["simulated_hit_ratio"])]
            for point in found.get("simulated", [])
            if point["simulated_hit_ratio"] is not None
        ],
        "mark": {"x": _page.short(_marked(found)[unit]), "name": "knee" if text.has_knee(found) else "nine tenths"},
        "label": _label(found),
    }


def _marked(found: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the size that the chart marks."""
    marked: Mapping[str, Any] = found["knee"] if text.has_knee(found) else found["most"]
    return marked


def _label(found: Mapping[str, Any]) -> str:
    name = "knee" if text.has_knee(found) else "nine tenths of what any size finds"
    return (
        f"Prompt tokens found against the size of the cache, up to {text.size(found['enough'])};"
        f" {name} at {text.size(_marked(found))}"
    )


def _hint(found: Mapping[str, Any]) -> str:
    line = "the knee" if text.has_knee(found) else "where nine tenths of what any size finds are found"
    dots = "; the dots are replays" if found.get("simulated") else ""
    return f"The dashed line is {line}{dots}."


def _percent(ratio: float) -> float | int | None:
    return _page.short(100 * ratio)


def _row(shown: tuple[Mapping[str, Any], str]) -> list[str]:
    point, mark = shown
    return [text.size(point), f"{point['hit_ratio']:.1%}", mark]


def _simulated(found: Mapping[str, Any]) -> str:
    if not found.get("simulated"):
        return ""
    return (
        '<section aria-labelledby="replays-title">\n<h2 id="replays-title">Replays</h2>\n'
        '<div class="scroll" tabindex="0" role="region" aria-labelledby="replays-title">\n'
        + _table(text.simulated(found))
        + f"\n</div>\n<p>{html.escape(text.conclusion(found))}</p>\n</section>"
    )


def _table(cells: Sequence[Sequence[str]]) -> str:
    head = "".join(f'<th scope="col">{html.escape(cell)}</th>' for cell in cells[0])
    body = "".join(
        f'<tr><th scope="row">{html.escape(first)}</th>'
        + "".join(f"<td>{html.escape(cell)}</td>" for cell in rest)
        + "</tr>\n"
        for first, *rest in cells[1:]
    )
    return f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody>\n</table>"
