"""The page ``report.html``: one file without any other, for phones, wide windows and paper, light and dark.

What answers the question is HTML: the best points, what decides, why points are out. The charts, the table and the
details of a point are made of the data in the page by the scripts beside this module, in the order of ``_SCRIPTS``.
They put texts into the page as text only, and the page forbids the browser everything else that could run.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from dynamo import _page
from dynamo.replay import durations
from dynamo.sweep import keys, points, reasons, wording
from dynamo.sweep.advice import wording as advice
from dynamo.sweep.page import data
from dynamo.sweep.page.measured import Measured

_SCRIPTS = ("base.js", "filter.js", "pareto.js", "parallel.js", "table.js", "detail.js", "start.js")
_MOST_REASONS = 100


def as_html(
    content: Mapping[str, Any], measured: Sequence[Measured] = (), pages: Mapping[int, str] | None = None
) -> str:
    """The page for the content of a report.

    Args:
        content: What docs/sweeps.md describes.
        measured: Measurements of real deployments, shown with the points.
        pages: Addresses of pages about the run of a point, by its id.
    """
    given = data.of(content, measured, pages or {})
    parts = {
        "TITLE": _title(content),
        "HEAD": _headline(content),
        "ADVICE": _advice(content),
        "BEST": _best(content),
        "LEFT_OUT": _left_out(content, given),
        "INFLUENCE": _influence(content),
        "REASONS": _reasons(content),
        "SPEC": html.escape(json.dumps(content["spec"], indent=1)),
    }
    return _page.whole(__name__, _SCRIPTS, parts, given)


def _title(content: Mapping[str, Any]) -> str:
    if content.get("recommendation") is None:
        return f"Sweep of {sum(content['counts'].values()):,} points"
    return "What to start"


def _headline(content: Mapping[str, Any]) -> str:
    """How many points ended in which way, the bounds, and what the points share; an answer says that itself."""
    if content.get("recommendation") is not None:
        return ""
    counts = ", ".join(f"{count:,} {status}" for status, count in content["counts"].items())
    lines = [f"<p><strong>{html.escape(counts or 'no points')}</strong></p>"]
    if content["sla"]:
        lines.append(f"<p>Service level: {html.escape(', '.join(content['sla']))}</p>")
    lines += [f"<p>{html.escape(text)}</p>" for text in wording.durations_lines(content)]
    run = content["spec"]["run"]
    workload = {name: value for name, value in run.items() if not isinstance(value, Mapping)}
    if workload:
        named = {keys.TRACE if name == keys.TRACE_FILES else name: value for name, value in workload.items()}
        each = ", ".join(f"{name} {points.label(value)}" for name, value in named.items())
        lines.append(f"<p>Workload: {html.escape(each)}</p>")
    return "\n".join(lines)


def _with_flags(line: str) -> str:
    """A line in which flags of command lines are not broken at their hyphens."""
    return re.sub(r"--[\w-]+", r"<span class=flag>\g<0></span>", html.escape(line))


def _line(line: str, is_command: bool) -> str:
    """A line of the recommendation. A command, which follows what it is for, can be copied as it stands."""
    if not is_command:
        return f"<p>{_with_flags(line)}</p>"
    about, command = advice.commanded(line)
    return f"<p>{html.escape(about)}</p><pre>{html.escape(chr(10).join(command))}</pre>"


def _advice(content: Mapping[str, Any]) -> str:
    """What ``recommend`` says, if the sweep is one of its."""
    found = content.get("recommendation")
    if found is None:
        return ""
    rows = "".join(
        f"<dt>{html.escape(title)}</dt>"
        f"<dd{' class=short' if title == advice.SHORT else ''}>"
        f"{''.join(_line(line, line in found['flags']) for line in lines)}</dd>"
        for title, lines in advice.sections(found)
    )
    button = "" if found["point"] is None else _button(found["point"])
    title = '<h2 id="advice-title">Recommendation</h2>'
    return f'<section id="advice" aria-labelledby="advice-title">{title}<dl>{rows}</dl>{button}</section>'


def _best(content: Mapping[str, Any]) -> str:
    """The best point of each objective, as a card."""
    advised = content.get("recommendation") is not None
    cards = [_card(objective, point, advised) for objective, point in wording.answers(content)]
    if not cards:
        found = content["nearest"]
        button = _button(found["point"]) if found else ""
        return f"<article><p><b>{html.escape(wording.nearest(content))}</b></p>{button}</article>"
    return f'<div class="cards">{"".join(cards)}</div>'


def _card(objective: Mapping[str, Any], point: Mapping[str, Any], advised: bool) -> str:
    """A point, with how far its durations may be off if nothing else on the page does: an answer has no headline."""
    name = objective["figure"]
    interval = point["intervals"].get(name)
    spread = (
        f" <small>95 %: {interval[0]:,.4g} to {interval[1]:,.4g}</small>"
        if interval and interval[0] < interval[1]
        else ""
    )
    doubts = [wording.within_error(verdict) for verdict in point["sla"] if "within_error" in verdict]
    doubts += [durations.caveat(point["durations"])] if advised else []
    hints = "".join(f"<p class=hint>{html.escape(doubt)}</p>" for doubt in doubts)
    facts = "".join(
        f"<li><span>{_page.breakable(name)}</span> <b>{html.escape(text)}</b></li>"
        for name, text in wording.deployed(point).items()
    )
    return (
        f"<article><h3>{'Most' if objective['maximize'] else 'Least'} {html.escape(data.title(name))}</h3>"
        f'<p class="big">{point["figures"][name]:,.5g}{spread}</p><ul>{facts}</ul>'
        f"{hints}{_button(point['id'])}</article>"
    )


def _button(point: int) -> str:
    return f'<button type="button" data-point="{point}">Point {point}</button>'


def _left_out(content: Mapping[str, Any], given: Mapping[str, Any]) -> str:
    here, every = len(given["points"]), len(content["points"])
    if here == every:
        return ""
    words = "are on this page, among them all that no other one beats. All are in points.csv."
    return f"<p>{here:,} of {every:,} points {words}</p>"


def _influence(content: Mapping[str, Any]) -> str:
    """For each objective: how much each knob decides, and what changes from one of its values to another."""
    return (
        "\n".join(
            f"<h3>{html.escape(data.title(figure))}</h3>\n{_knob_rows(entries)}"
            for figure, entries in content["influence"].items()
            if any(entry["effects"] for entry in entries)
        )
        or "<p>No two points differ in one knob only, so what a knob changes cannot be told.</p>"
    )


def _knob_rows(entries: Sequence[Mapping[str, Any]]) -> str:
    rows = []
    heads = ("from → to", "mean of pairs", "better, worse", "SLA kept by one alone")
    head = "".join(f"<th scope=col class=text>{title}</th>" for title in heads)
    for entry in entries:
        knob = f"<span>{_page.breakable(entry['knob'])}</span>"
        if not entry["effects"]:
            rows.append(f"<p class=none>{knob}: no two points differ in it alone</p>")
            continue
        cells = [
            [html.escape(cell).replace("-&gt;", "→") for cell in wording.effect_cells(e)] for e in entry["effects"]
        ]
        body = "".join(f"<tr>{''.join(f'<td class=text>{cell}</td>' for cell in row)}</tr>" for row in cells)
        percent = f"{100 * entry['share']:.0f} %" if entry["pairs"] else "–"
        rows.append(
            f"<details><summary>{knob}"
            f" <meter max=1 value={entry['share']:.3f}>{percent}</meter> <b>{percent}</b></summary>"
            f"<p>{entry['pairs']:,} pair{'s' if entry['pairs'] != 1 else ''} of points that keep the service level</p>"
            f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div></details>'
        )
    return f'<div class="influence">{"".join(rows)}</div>'


def _reasons(content: Mapping[str, Any]) -> str:
    """Why points are out, the most frequent reason first."""
    found = reasons.counted(content)
    if not found:
        return "<p>All finished points have results that keep the service level.</p>"
    rows = "".join(
        f"<tr><td>{count:,}</td><td>{html.escape(status)}</td><td>{html.escape(reason)}</td></tr>\n"
        for (status, reason), count in found[:_MOST_REASONS]
    )
    more = len(found) - _MOST_REASONS
    rest = f"<p>and {more:,} more reasons, see points.csv</p>" if more > 0 else ""
    head = "<tr><th scope=col>points</th><th scope=col>status</th><th scope=col>reason</th></tr>"
    return f'<div class="scroll"><table class="reasons">{head}{rows}</table></div>{rest}'
