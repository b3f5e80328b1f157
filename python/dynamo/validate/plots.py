"""Charts as SVG text. Colours are classes of the page, so that they follow its light and dark."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

_COLOURS = 4
_LEFT, _TOP, _RIGHT, _BOTTOM = 44, 8, 20, 36
# Half the width of the band around the line of agreement, as a factor.
_BAND = 1.2


class Point(NamedTuple):
    """A measurement in a chart: milliseconds, the engine that colours it, its group, and what its tooltip says."""

    measured: float
    simulated: float
    engine: str
    group: str
    about: str


class Span(NamedTuple):
    """The ends of both log axes, as powers of ten."""

    low: int
    high: int


def span(points: Iterable[Point]) -> Span:
    """Whole powers of ten around all values."""
    values = [value for point in points for value in (point.measured, point.simulated)]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return Span(low, max(high, low + 1))


def legend(points: Iterable[Point]) -> str:
    """The colours of engines, in words."""
    engines = sorted({point.engine for point in points})
    return "".join(f'<span class="key {_colour(engines, name)}">{html.escape(name)}</span>' for name in engines)


def scatter(points: Sequence[Point], ends: Span, title: str, *, wide: bool = False) -> str:
    """Measured (across) against simulated (up), on log axes of equal ends."""
    size = 420 if wide else 300
    engines = sorted({point.engine for point in points})
    inner = size - _LEFT - _RIGHT
    scale = inner / (ends.high - ends.low)

    def x(value: float) -> float:
        return _LEFT + (math.log10(value) - ends.low) * scale

    def y(value: float) -> float:
        return _TOP + inner - (math.log10(value) - ends.low) * scale

    marks = "".join(
        f'<circle class="{_colour(engines, p.engine)}" cx="{x(p.measured):.1f}" cy="{y(p.simulated):.1f}"'
        f' r="{3 if wide else 3.5}"><title>{html.escape(p.about)}: measured {p.measured:.4g} ms,'
        f" simulated {p.simulated:.4g} ms</title></circle>"
        for p in points
    )
    height = _TOP + inner + _BOTTOM
    return (
        f'<svg {"class=wide " if wide else ""}viewBox="0 0 {size} {height}" role="img"'
        f' aria-label="{html.escape(title)}">'
        f"{_agreement(ends, inner, scale)}{_log_axes(ends, inner, scale)}{marks}</svg>"
    )


def _agreement(ends: Span, inner: float, scale: float) -> str:
    """The line on which both are equal, and the band around it, within the axes."""
    off = math.log10(_BAND) * scale
    left, right, top, bottom = _LEFT, _LEFT + inner, _TOP, _TOP + inner
    band = (
        f"{left},{bottom} {left},{bottom - off:.1f} {right - off:.1f},{top} {right},{top}"
        f" {right},{top + off:.1f} {left + off:.1f},{bottom}"
    )
    return (
        f'<polygon class="band" points="{band}"/><line class="same" x1="{left}" y1="{bottom}" x2="{right}" y2="{top}"/>'
    )


def _log_axes(ends: Span, inner: float, scale: float) -> str:
    bottom = _TOP + inner
    parts = [f'<path class="axis" fill="none" d="M{_LEFT} {_TOP}V{bottom}H{_LEFT + inner}"/>']
    for power in range(ends.low, ends.high + 1):
        at = (power - ends.low) * scale
        text = _brief(10.0**power)
        parts.append(f'<text x="{_LEFT + at:.1f}" y="{bottom + 14}" text-anchor="middle">{text}</text>')
        parts.append(f'<text x="{_LEFT - 5}" y="{bottom - at + 4:.1f}" text-anchor="end">{text}</text>')
    middle = _TOP + inner / 2
    parts.append(f'<text x="{_LEFT + inner / 2}" y="{bottom + 30}" text-anchor="middle">measured, ms</text>')
    parts.append(f'<text transform="translate(11 {middle}) rotate(-90)" text-anchor="middle">simulated, ms</text>')
    return "".join(parts)


def lines(series: Mapping[str, Sequence[tuple[str, float]]], title: str) -> str:
    """A line per name over classes in their order; values in percent from 0."""
    names = sorted(series)
    classes = sorted({name for found in series.values() for name, _ in found}, key=_first_number)
    most = max(value for found in series.values() for _, value in found)
    step = _step(most)
    top = step * max(1, math.ceil(most / step))
    width, height = 360, 220
    wide, tall = width - _LEFT - _RIGHT, height - _TOP - _BOTTOM

    def x(name: str) -> float:
        return _LEFT + wide * (classes.index(name) + 0.5) / len(classes)

    def y(value: float) -> float:
        return _TOP + tall * (1 - value / top)

    parts = [f'<path class="axis" fill="none" d="M{_LEFT} {_TOP}V{_TOP + tall}H{_LEFT + wide}"/>']
    for value in range(0, int(top) + 1, int(step)):
        parts.append(f'<text x="{_LEFT - 5}" y="{y(value) + 4:.1f}" text-anchor="end">{value}</text>')
    for name in classes:
        parts.append(f'<text x="{x(name):.1f}" y="{_TOP + tall + 14}" text-anchor="middle">{name}</text>')
    parts.append(f'<text x="{_LEFT + wide / 2}" y="{_TOP + tall + 30}" text-anchor="middle">clients</text>')
    for name in names:
        points = " ".join(f"{x(kind):.1f},{y(value):.1f}" for kind, value in series[name])
        parts.append(f'<polyline class="{_colour(names, name)}" points="{points}"/>')
        parts += [
            f'<circle class="{_colour(names, name)}" cx="{x(kind):.1f}" cy="{y(value):.1f}" r="4">'
            f"<title>{html.escape(name)}, {kind} clients: {value:.1f} %</title></circle>"
            for kind, value in series[name]
        ]
    return f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{html.escape(title)}">{"".join(parts)}</svg>'


def _brief(value: float) -> str:
    """A power of ten in few letters: 100k for 100000."""
    return f"{value / 1000:g}k" if value >= 1000 else f"{value:g}"


def _first_number(text: str) -> int:
    return int(re.findall(r"\d+", text)[0])


def _step(most: float) -> int:
    """Steps of an axis that has about five of them."""
    return next((step for step in (1, 2, 5, 10, 20, 50, 100, 200, 500) if most / step <= 6), 1000)


def _colour(names: Sequence[str], name: str) -> str:
    return f"c{names.index(name) % _COLOURS}"
