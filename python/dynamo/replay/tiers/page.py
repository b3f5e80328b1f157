"""The page with the curve: one file, without scripts."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import Any

from dynamo import _page
from dynamo.replay.tiers import text

_WIDTH, _HEIGHT = 640.0, 300.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 64.0, 12.0, 14.0, 36.0
_TICKS = 5


def as_html(found: Mapping[str, Any]) -> str:
    """The page of a curve."""
    files = html.escape(", ".join(found["trace_files"]))
    filled = {
        "TITLE": "Sizes of a KV cache",
        "HEAD": f"<p>{files}</p>\n<p>{html.escape(text.headline(found))}</p>\n<p>{html.escape(_verdict(found))}</p>",
        "CARDS": _cards(found),
        "CURVE": _curve(found),
        "SIZES": _table([["Cache", "Prompt tokens found", ""], *map(_row, text.shown(found))]),
        "SIMULATED": _simulated(found),
    }
    return _page.whole(__package__, (), filled, {})


def _verdict(found: Mapping[str, Any]) -> str:
    return text.verdict(found) if found["enough"]["blocks"] else text.NOTHING


def _cards(found: Mapping[str, Any]) -> str:
    at, name = (found["knee"], "Knee") if text.has_knee(found) else (found["most"], "Nine tenths")
    cards = [
        (name, text.size(at), f"finds {at['hit_ratio']:.1%} of the prompt tokens"),
        ("All that can be found", text.size(found["enough"]), f"finds {found['enough']['hit_ratio']:.1%}"),
    ]
    return "\n".join(
        f'<article><h3>{title}</h3><p class="big">{figure}<small>{note}</small></p></article>'
        for title, figure, note in cards
    )


def _curve(found: Mapping[str, Any]) -> str:
    """The chart. Its widest size is the one behind which nothing more is found."""
    widest = max(1, found["enough"]["blocks"])

    def x(blocks: float) -> float:
        return _tenth(_LEFT + (_WIDTH - _LEFT - _RIGHT) * blocks / widest)

    def y(ratio: float) -> float:
        return _tenth(_TOP + (_HEIGHT - _TOP - _BOTTOM) * (1 - ratio))

    points = sorted({(at["blocks"], at["hit_ratio"]) for at in (*found["points"], found["knee"], found["enough"])})
    line = " ".join(f"{x(blocks)},{y(ratio)}" for blocks, ratio in points)
    knee, floor = found["knee"] if text.has_knee(found) else found["most"], y(0)
    name = "knee" if text.has_knee(found) else "nine tenths of what any size finds"
    parts = [
        *(_across(y(step / 4), f"{step * 25}%") for step in range(5)),
        *(_upright(x(widest * step / _TICKS), floor, _in(found, step / _TICKS)) for step in range(_TICKS + 1)),
        f'<polygon class="under" points="{x(0)},{floor} {line} {x(widest)},{floor}"/>',
        f'<polyline class="curve" points="{line}"/>',
        f'<line class="knee" x1="{x(knee["blocks"])}" x2="{x(knee["blocks"])}" y1="{y(1)}" y2="{floor}"/>',
        f'<circle class="dot" cx="{x(knee["blocks"])}" cy="{y(knee["hit_ratio"])}" r="6"/>',
        *(
            _replayed(x(at["blocks"]), y(at["simulated_hit_ratio"]), at)
            for at in found.get("simulated", [])
            if at["simulated_hit_ratio"] is not None
        ),
    ]
    said = (
        f"Prompt tokens found against the size of the cache, up to {text.size(found['enough'])};"
        f" {name} at {text.size(knee)}"
    )
    return (
        f'<svg viewBox="0 0 {_WIDTH:.0f} {_HEIGHT:.0f}" role="img" aria-label="{html.escape(said)}">\n'
        + "\n".join(parts)
        + '\n</svg>\n<p class="hint">'
        + ("GB" if "gb" in knee else "Blocks")
        + f" of cache. The dashed line is {name if name != 'knee' else 'the knee'}"
        + ("; small dots are replays" if found.get("simulated") else "")
        + ".</p>"
    )


def _tenth(number: float) -> float:
    return round(number, 1)


def _across(y: float, label: str) -> str:
    return (
        f'<line class="tick" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y}" y2="{y}"/>'
        f'<text x="{_LEFT - 6}" y="{y + 4}" text-anchor="end">{label}</text>'
    )


def _upright(x: float, floor: float, label: str) -> str:
    anchor = "end" if x > _WIDTH - 40 else "middle"
    return f'<text x="{x}" y="{floor + 24}" text-anchor="{anchor}">{label}</text>'


def _in(found: Mapping[str, Any], part: float) -> str:
    """A size of the axis, short."""
    widest = found["enough"]
    if "gb" in widest:
        return f"{widest['gb'] * part:,.3g}"
    blocks = widest["blocks"] * part
    return f"{blocks / 1000:,.3g}k" if widest["blocks"] >= 10_000 else f"{blocks:,.0f}"


def _replayed(x: float, y: float, at: Mapping[str, Any]) -> str:
    return f'<circle class="replayed" cx="{x}" cy="{y}" r="4"><title>{html.escape(text.size(at))}</title></circle>'


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
        + f"\n</div>\n<p>{html.escape(text.worth(found))}</p>\n</section>"
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
