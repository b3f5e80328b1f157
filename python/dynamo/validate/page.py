"""The page ``accuracy.html``: one file without any other, for wide and narrow windows, light and dark.

The charts are those of the other pages: measured against simulated means, a point per measurement, and the error by
number of clients, a line per engine. Below each is a table of what it shows.
"""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from dynamo import _page
from dynamo.validate import scores

_TITLES = {"ttft": "Time to first token (TTFT)", "tpot": "Time per output token (TPOT)"}


class _Point(NamedTuple):
    """A measurement in a chart: milliseconds, the engine that colours it, its group, and what the pointer shows."""

    measured: float
    simulated: float
    engine: str
    group: str
    about: str


def as_html(found: Mapping[str, Any]) -> str:
    """Returns the page for what ``report.as_json`` returns."""
    rows = found["measurements"]
    points = {metric: _points(rows, metric) for metric in scores.METRICS}
    errors = _errors(found["summary"]["concurrency"])
    pair = "\n".join(_metric_section(metric, some) for metric, some in points.items())
    body = "\n".join(
        [
            f'<div class="pair">{pair}</div>',
            *(_by_group(metric, some) for metric, some in points.items()),
            _concurrency_section(errors),
            *(_table_section(names, groups) for names, groups in _different(found["summary"])),
            _refusals(found["refused"]),
            _stand_ins(rows),
        ]
    )
    parts = {"TITLE": "Accuracy against measured engines", "HEAD": f"<p>{_headline(found)}</p>", "BODY": body}
    return _page.whole(__package__, ("accuracy.js",), parts, _data(points, errors))


def _data(points: Mapping[str, Sequence[_Point]], errors: Mapping[str, _Errors]) -> dict[str, Any]:
    """Returns what the charts show. Points name their engine and group by places in lists."""
    engines = sorted({point.engine for some in points.values() for point in some})
    groups = sorted({point.group for some in points.values() for point in some})

    def cells(p: _Point) -> list[Any]:
        return [
            *(_page.short(p.measured), _page.short(p.simulated)),
            *(engines.index(p.engine), groups.index(p.group), p.about),
        ]

    return {
        "engines": engines,
        "groups": groups,
        "points": {metric: [cells(point) for point in some] for metric, some in points.items()},
        "spans": {metric: _span(some) for metric, some in points.items() if some},
        "errors": {metric: found for metric, found in errors.items() if found},
    }


def _span(points: Sequence[_Point]) -> list[float]:
    """Returns whole powers of ten around all values."""
    values = [value for point in points for value in (point.measured, point.simulated)]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return [10.0**low, 10.0 ** max(high, low + 1)]


def _headline(found: Mapping[str, Any]) -> str:
    replayed, refused = len(found["measurements"]), len(found["refused"])
    rules = {"engine": "the measured engine's own", "dynamo": "Dynamo's mocker's"}[found["settings"]["scheduler"]]
    words = f"{replayed} of {replayed + refused} measurements replayed with {rules} scheduling rules"
    calibration = found["settings"]["engine"].get("calibration")
    fitted = f"with the calibration {calibration}" if calibration else "nothing fitted"
    return html.escape(f"{words}, {fitted}. dynosim {found['version']}.")


def _metric_section(metric: str, points: Sequence[_Point]) -> str:
    """Returns the chart of all measurements."""
    if not points:
        return ""
    return (
        f"<section><h2>{_TITLES[metric]}: measured against simulated</h2>\n"
        "<p>Milliseconds on log axes, a point per measurement. On the line the two agree; the band is 20 % to either"
        f' side. {_legend(points)}</p>\n<div class="chart" data-metric="{metric}"></div></section>'
    )


def _legend(points: Iterable[_Point]) -> str:
    """Returns the colours of engines; the script fills them in."""
    engines = sorted({point.engine for point in points})
    return "".join(
        f'<span class="key" data-engine="{html.escape(name)}">{html.escape(name)}</span>' for name in engines
    )


def _by_group(metric: str, points: Sequence[_Point]) -> str:
    """Returns a chart per group of engine, model, GPU and precision, if there are several."""
    counts: dict[str, int] = {}
    for point in points:
        counts[point.group] = counts.get(point.group, 0) + 1
    if len(counts) < 2:
        return ""
    each = "\n".join(
        f'<figure><figcaption>{html.escape(name)} <span class="n">{number}</span></figcaption>'
        f'<div class="chart" data-metric="{metric}" data-group="{html.escape(name)}"></div></figure>'
        for name, number in sorted(counts.items())
    )
    return (
        f"<details><summary>{metric.upper()} by engine, model, GPU and precision ({len(counts)})</summary>\n"
        f'<div class="grid">\n{each}\n</div></details>'
    )


def _points(rows: Sequence[Mapping[str, Any]], metric: str) -> list[_Point]:
    return [point for row in rows for point in [_point(row, metric)] if point is not None]


def _point(row: Mapping[str, Any], metric: str) -> _Point | None:
    measured, simulated = row["measured_ms"][metric], row["simulated_ms"][metric]
    name = "mean" if measured["mean"] is not None else "p50"
    if not measured[name] or not simulated[name]:
        return None
    group = " ".join(row[part] for part in ("engine", "model", "system", "precision"))
    about = f"{group}, {row['concurrency']} clients, {row['isl']}/{row['osl']}" if row["concurrency"] else row["id"]
    return _Point(measured[name], simulated[name], row["engine"], group, about)


_Errors = dict[str, list[tuple[str, float | int | None]]]
"""Classes of concurrency with mean absolute errors, by engine."""


def _errors(groups: Sequence[Mapping[str, Any]]) -> dict[str, _Errors]:
    """Returns those of each latency; classes are in the order of their numbers of clients."""
    found: dict[str, _Errors] = {metric: {} for metric in scores.METRICS}
    for group in groups:
        engine, clients = group["group"]
        for metric in scores.METRICS:
            if group[metric] and clients != "open loop":
                found[metric].setdefault(engine, []).append((clients, _page.short(group[metric]["mean_abs"])))
    for errors in found.values():
        for some in errors.values():
            some.sort(key=lambda item: int(re.findall(r"\d+", item[0])[0]))
    return found


def _concurrency_section(errors: Mapping[str, _Errors]) -> str:
    """Returns the mean error by class of concurrency, a line per engine."""
    charts = [
        f'<figure><figcaption>{metric.upper()}</figcaption><div class="chart" data-errors="{metric}"></div></figure>'
        for metric, found in errors.items()
        if found
    ]
    if not charts:
        return ""
    return (
        "<h2>Error by number of clients</h2>\n"
        "<p>Mean absolute error in percent. At few clients the host's time decides TTFT, at many the bursts of prompts"
        f' and the KV pool.</p>\n<div class="grid">{"".join(charts)}</div>'
    )


class _Column(NamedTuple):
    title: str
    metric: str
    field: str


_ERRORS = (("mean", "mean_abs"), ("median", "median_abs"), ("signed", "signed"), ("p90", "p90_abs"))
_Groups = Sequence[Mapping[str, Any]]


def _columns(groups: _Groups) -> dict[str, list[_Column]]:
    """Returns the columns below each heading. The control has none where it was not asked."""
    columns = {metric.upper(): [_Column(title, metric, field) for title, field in _ERRORS] for metric in scores.METRICS}
    static = [metric for metric in scores.METRICS if any(found[f"static_{metric}"] for found in groups)]
    if static:
        columns["AIC static"] = [_Column(metric.upper(), f"static_{metric}", "mean_abs") for metric in static]
    return columns


def _different(summary: Mapping[str, _Groups]) -> list[tuple[list[str], _Groups]]:
    """Returns the tables, each with the names of all groupings that come to the same figures: one for a single
    measurement.

    The table is that of the grouping that says most about each group.
    """
    tables: dict[str, tuple[list[str], _Groups]] = {}
    for name, groups in summary.items():
        if not groups:
            continue
        figures = repr(sorted(repr({key: found[key] for key in found if key != "group"}) for found in groups))
        names, shown = tables.get(figures, ([], groups))
        if len(groups[0]["group"]) > len(shown[0]["group"]):
            shown = groups
        tables[figures] = ([*names, name], shown)
    return list(tables.values())


def _table_section(names: Sequence[str], groups: _Groups) -> str:
    columns = _columns(groups)
    above = "".join(f'<th colspan="{len(below)}">{html.escape(title)}</th>' for title, below in columns.items())
    head = "".join(
        f"<th{_first(place)}>{html.escape(column.title)}</th>"
        for below in columns.values()
        for place, column in enumerate(below)
    )
    body = "".join(_table_row(found, columns) for found in groups)
    note = "mean, median and 90th percentile of the absolute error, and the median signed error, in percent"
    return (
        f"<h2>By {html.escape('; '.join(names))}</h2>\n<p>n measurements: {note}.</p>\n"
        '<div class="scroll"><table><tr><th class="name" rowspan="2">group</th><th rowspan="2">n</th>'
        f"{above}</tr><tr>{head}</tr>{body}</table></div>"
    )


def _first(place: int) -> str:
    """Marks the first column below a heading."""
    return ' class="first"' if place == 0 else ""


def _table_row(found: Mapping[str, Any], columns: Mapping[str, Sequence[_Column]]) -> str:
    number = max(found[metric]["count"] for metric in scores.METRICS if found[metric])
    cells = "".join(
        f"<td{_first(place)}>{_cell(found[column.metric], column.field)}</td>"
        for below in columns.values()
        for place, column in enumerate(below)
    )
    return f'<tr><td class="name">{html.escape(" ".join(found["group"]))}</td><td>{number}</td>{cells}</tr>\n'


def _cell(summary: Mapping[str, float] | None, field: str) -> str:
    if summary is None:
        return "-"
    return f"{summary[field]:+.1f}" if field == "signed" else f"{summary[field]:.1f}"


def _refusals(refused: Sequence[Mapping[str, Any]]) -> str:
    return _counted("Refused", (row["reason"] for row in refused), "Measurements that were not replayed, and why.")


def _stand_ins(rows: Iterable[Mapping[str, Any]]) -> str:
    words = (text for row in rows for text in row["stand_ins"])
    return _counted("Stand-ins", words, "What takes the place of what was measured and is not known.")


def _counted(title: str, words: Iterable[str], note: str) -> str:
    counts: dict[str, int] = {}
    for text in words:
        counts[text] = counts.get(text, 0) + 1
    if not counts:
        return ""
    body = "".join(
        f'<tr><td class="name">{html.escape(text)}</td><td>{number}</td></tr>\n'
        for text, number in sorted(counts.items(), key=lambda item: -item[1])
    )
    table = f'<table><tr><th class="name">reason</th><th>n</th></tr>{body}</table>'
    return f'<h2>{title}</h2>\n<p>{note}</p>\n<div class="scroll">{table}</div>'
