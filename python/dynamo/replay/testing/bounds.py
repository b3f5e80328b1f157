"""Bounds on figures of a report, as people write them: ``p99_ttft_ms="<= 2 s"``, ``goodput=">= 95 %"``."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dynamo._core import spelling, values
from dynamo.replay.report import Report

GOODPUT = "goodput"
"""The share of requests within the bounds on their latencies. It is no key of reports."""
_COMPARISONS: Mapping[str, Callable[[Any, float], Any]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}
_WRITTEN = re.compile(r"\s*(<=|>=|<|>)\s*([0-9.][0-9.,_]*(?:e[+-]?[0-9]+)?)\s*(ms|s|%|)\s*", re.IGNORECASE)
_MS = {"": 1.0, "ms": 1.0, "s": 1000.0}
_SHARE = {"": 1.0, "%": 0.01}
_PLAIN = {"": 1.0}
# The column of requests behind a figure on latencies.
_COLUMNS = {
    "ttft_ms": "ttft_ms",
    "ttst_ms": "ttst_ms",
    "tpot_ms": "itl_ms",
    "itl_ms": "itl_ms",
    "e2e_latency_ms": "e2e_latency_ms",
}
_STATISTIC = re.compile(rf"(?:mean|median|min|max|p[0-9]+)_({'|'.join(_COLUMNS)})")


class Bound(NamedTuple):
    """A bound on a figure, in the unit of the report; ``goodput`` and ratios are shares of 1."""

    figure: str
    sign: str
    limit: float

    @property
    def text(self) -> str:
        return f"{self.sign} {number(self.figure, self.limit)}"

    @property
    def column(self) -> str:
        """The column of requests that the figure is a statistic of, "" for none."""
        found = _STATISTIC.fullmatch(self.figure)
        return _COLUMNS[found[1]] if found else ""

    def holds(self, value: float | None) -> bool:
        """Reports whether a figure is within the bound; a statistic over no request is not."""
        return value is not None and bool(_COMPARISONS[self.sign](value, self.limit))


def parse(figure: str, written: object) -> Bound:
    """Returns a bound from its text. Raises TypeError or ValueError, naming the figure."""
    __tracebackhide__ = True
    want = 'want a comparison and a number as text, such as "<= 2000"'
    if not isinstance(written, str):
        raise TypeError(f"{figure}: got {values.show(written)}, {want}")
    found = _WRITTEN.fullmatch(written)
    if found is None:
        raise ValueError(f"{figure}: got {values.show(written)}, {want}")
    return Bound(figure, found[1], _in_unit(figure, written, found[2], found[3]))


def _in_unit(figure: str, written: str, digits: str, unit: str) -> float:
    __tracebackhide__ = True
    units = units_of(figure)
    if unit.lower() not in units:
        known = " or ".join(u for u in units if u) or "no unit"
        raise ValueError(f"{figure}: got {values.show(written)}, want {known}")
    try:
        limit = float(digits.replace(",", "").replace("_", "")) * units[unit.lower()]
    except ValueError:
        raise ValueError(f"{figure}: got {values.show(written)}, want one number") from None
    if not math.isfinite(limit):
        raise ValueError(f"{figure}: got {values.show(written)}, want {values.FINITE}")
    return limit


def units_of(figure: str) -> Mapping[str, float]:
    """Returns the units that a figure may be written in, and what they are in that of the report."""
    if figure.endswith("_ms"):
        return _MS
    return _SHARE if figure == GOODPUT or figure.endswith("_ratio") else _PLAIN


def number(figure: str, value: float | None) -> str:
    """Returns a figure as messages show it."""
    if value is None:
        return "none, over no request"
    if units_of(figure) is _SHARE:
        return f"{100 * value:.4g} %"
    text = f"{value:,.2f}".rstrip("0").rstrip(".") if value == 0 or abs(value) >= 0.1 else f"{value:.4g}"
    return f"{text} ms" if figure.endswith("_ms") else text


def check_figures(report: Mapping[str, Any], figures: Mapping[str, object]) -> None:
    """Raises ValueError unless there are figures, and the report has them all."""
    __tracebackhide__ = True
    known = [GOODPUT, *(key for key, value in report.items() if value is None or _is_number(value))]
    if not figures:
        raise ValueError('no figure is named, want one such as p99_ttft_ms="<= 2000"')
    for figure in figures:
        if figure not in known:
            meant = spelling.nearest(figure, known)
            hint = f"did you mean {meant}?" if meant else spelling.offer(figure, known)
            raise ValueError(f"{figure}: the report has no such figure, {hint}")


def value_of(report: Report, figure: str, bounds: Mapping[str, Bound]) -> float | None:
    """Returns a figure of a report. Goodput needs bounds on latencies: those of the run, or else the given ones."""
    __tracebackhide__ = True
    if figure != GOODPUT:
        value = report[figure]
        return None if value is None else float(value)
    if not (arrived := report["num_requests"]):
        return None
    if "goodput_completed_requests" in report:
        return float(report["goodput_completed_requests"] / arrived)
    limits = [bound for bound in bounds.values() if bound.column]
    if not limits:
        raise ValueError(
            "goodput: no request has a bound to keep, want sla_ttft_ms, sla_tpot_ms or sla_e2e_ms in the replay, "
            "or a bound on a latency beside it"
        )
    return float(np.count_nonzero(~violating(report, limits)) / arrived)


def violating(report: Report, limits: list[Bound]) -> NDArray[np.bool_]:
    """Returns which requests do not keep one of these bounds on latencies, or never completed."""
    rows = report.requests
    bad = np.array([status != "completed" for status in rows["terminal_status"]], dtype=bool)
    for bound in limits:
        with np.errstate(invalid="ignore"):
            latency: NDArray[np.float64] = rows[bound.column]
            inside = _COMPARISONS[bound.sign](latency, bound.limit)
        # A request with one token has no gap to measure.
        bad |= ~(inside | (np.isnan(latency) & (bound.column in ("itl_ms", "ttst_ms"))))
    return bad


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
