"""The picture of planner_day.py: workers over the day, and GPU hours against missed service levels, as SVG."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from html import escape
from typing import NamedTuple

COLORS = {"static": "#6b7280", "hpa": "#2563eb", "keda": "#059669", "stock": "#d97706"}
NAMES = {"static": "fixed", "hpa": "HPA", "keda": "KEDA", "stock": "ai-dynamo's planner"}
WIDTH, HEIGHT = 980, 380


class Served(NamedTuple):
    """How a day was served."""

    name: str
    kind: str
    """``static``, ``hpa``, ``keda`` or ``stock``."""
    gpu_hours: float
    cost: float
    missed: float
    """Requests outside of the service level, of all; 0 to 1."""
    p99_ttft_s: float
    most: int
    """Workers at the busiest time."""
    steps: list[tuple[float, int]]
    """How many workers there were from when on, in hours."""


class Axes:
    """A rectangle of the picture with its scales. ``curve`` below 1 gives small values of y more room."""

    def __init__(self, left: int, x: tuple[float, float], y: tuple[float, float], curve: float = 1.0) -> None:
        self._left, self._top, self._width, self._height = left, 50, 370, 260
        self._x, self._y, self._curve = x, y, curve
        self.parts: list[str] = []

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Where a point is in the picture."""
        across = (x - self._x[0]) / (self._x[1] - self._x[0])
        up = max(0.0, (y - self._y[0]) / (self._y[1] - self._y[0])) ** self._curve
        return self._left + across * self._width, self._top + (1 - up) * self._height

    def frame(self, title: str, x_title: str, y_title: str, xs: Iterable[float], ys: Iterable[float]) -> None:
        """Titles, grid and numbers."""
        right, bottom = self._left + self._width, self._top + self._height
        self.text((self._left + right) / 2, self._top - 18, title, weight="600")
        self.text((self._left + right) / 2, bottom + 42, x_title)
        middle = (self._top + bottom) / 2
        self.text(self._left - 44, middle, y_title, turn=True)
        for x in xs:
            px, _ = self.at(x, self._y[0])
            self.parts.append(f'<path d="M{px:.1f} {self._top}V{bottom}" class="grid"/>')
            self.text(px, bottom + 20, f"{x:g}")
        for y in ys:
            _, py = self.at(self._x[0], y)
            self.parts.append(f'<path d="M{self._left} {py:.1f}H{right}" class="grid"/>')
            self.text(self._left - 8, py + 4, f"{y:g}", anchor="end")

    def text(
        self, x: float, y: float, text: str, anchor: str = "middle", weight: str = "400", turn: bool = False
    ) -> None:
        """A text at a place of the picture."""
        turned = f' transform="rotate(-90 {x:.1f} {y:.1f})"' if turn else ""
        self.parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-weight="{weight}"{turned}>{escape(text)}</text>'
        )

    def line(self, points: Sequence[tuple[float, float]], style: str) -> None:
        """A line through points of the scales."""
        path = "L".join("{:.1f} {:.1f}".format(*self.at(x, y)) for x, y in points)
        self.parts.append(f'<path d="M{path}" fill="none" {style}/>')


def draw(days: Sequence[Served], rates: Sequence[tuple[float, float]], hours: float) -> str:
    """The picture of days that were served, above arrivals per second by hour."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="sans-serif" font-size="12">\n'
        "<style>.grid{stroke:#e5e7eb;stroke-width:1}text{fill:#111827}</style>\n"
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>\n'
        + "\n".join([*_workers(days, rates, hours), *_costs(days)])
        + "\n</svg>\n"
    )


def _workers(days: Sequence[Served], rates: Sequence[tuple[float, float]], hours: float) -> list[str]:
    """How many workers there were over the day: of each kind the run that missed least for its GPU hours."""
    chosen = [_best([day for day in days if day.kind == kind]) for kind in COLORS if any(d.kind == kind for d in days)]
    most = max(day.most for day in chosen)
    axes = Axes(70, (0, hours), (0, 1.4 * most))
    axes.frame("Workers over the day", "hour", "workers", _ticks(hours), range(0, int(1.4 * most) + 1, 4))
    busiest = max(rps for _, rps in rates)
    shown = [(hour, rps * most / busiest) for hour, rps in rates if hour <= hours]
    axes.line(shown, 'stroke="#f3b4b4" stroke-width="5"')
    for day in chosen:
        axes.line(_averages(day.steps, hours), f'stroke="{COLORS[day.kind]}" stroke-width="1.6"')
    for row, (name, color) in enumerate([*((day.name, COLORS[day.kind]) for day in chosen), ("arrivals", "#f3b4b4")]):
        axes.parts.append(f'<rect x="80" y="{58 + 16 * row}" width="10" height="10" fill="{color}"/>')
        axes.text(95, 67 + 16 * row, name, anchor="start")
    return axes.parts


def _averages(steps: Sequence[tuple[float, int]], hours: float) -> list[tuple[float, float]]:
    """The mean number of workers in each 48th of the time, at its middle."""
    width = hours / 48
    found = []
    for part in range(48):
        begin, end = part * width, (part + 1) * width
        total = 0.0
        for (since, workers), (until, _) in itertools.pairwise([*steps, (hours, 0)]):
            total += workers * max(0.0, min(end, until) - max(begin, since))
        found.append(((begin + end) / 2, total / width))
    return found


def _best(days: Sequence[Served]) -> Served:
    """The fewest GPU hours of those that miss no more than one request in a hundred, else the fewest misses."""
    good = [day for day in days if day.missed <= 0.01]
    return min(good, key=lambda day: day.gpu_hours) if good else min(days, key=lambda day: day.missed)


def _costs(days: Sequence[Served]) -> list[str]:
    """Each run as a point. Runs of one kind are joined."""
    dear = 50 * (int(max(day.gpu_hours for day in days) / 50) + 1)
    worst = max(0.05, max(day.missed for day in days)) * 100
    axes = Axes(560, (0, dear), (0, worst), curve=0.5)
    marks = [y for y in (0, 0.1, 1, 5, 10, 20, 30, 50, 70, 100) if y <= worst]
    axes.frame("Cost against service", "GPU hours", "requests outside of the SLA, %", range(0, dear + 1, 50), marks)
    for kind, color in COLORS.items():
        found = sorted((day.gpu_hours, 100 * day.missed) for day in days if day.kind == kind)
        if found:
            axes.line(found, f'stroke="{color}" stroke-width="1" stroke-dasharray="3 3"')
        for point in found:
            x, y = axes.at(*point)
            axes.parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{color}"/>')
    for row, kind in enumerate(kind for kind in COLORS if any(day.kind == kind for day in days)):
        axes.parts.append(f'<circle cx="{575}" cy="{63 + 16 * row}" r="4" fill="{COLORS[kind]}"/>')
        axes.text(585, 67 + 16 * row, NAMES[kind], anchor="start")
    return axes.parts


def _ticks(hours: float) -> list[float]:
    return [hours * i / 6 for i in range(7)]
