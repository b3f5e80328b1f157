"""What went wrong in a run with faults: a section of its page, and the times for its charts."""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dynamo._page import short
from dynamo.replay import faults
from dynamo.replay.page import slowest

if TYPE_CHECKING:
    from dynamo.replay.figures import Figures

MOST_ROWS = 40
"""Faults that the table lists."""
MOST_SHADES = 400
"""Faults that the charts show."""

_RATES = ("goodput_before_rps", "goodput_during_rps", "goodput_after_rps")
_HEADS = {
    "text": ("at", "fault", "workers", "over after"),
    "number": (*faults.COUNTS.values(), "before", "during", "after", "back after"),
}


def card(report: Figures) -> tuple[str, str, str] | None:
    """Returns the figure of a run with faults, None without."""
    if "fault_events" not in report:
        return None
    part = report["availability"]
    small = f"{report['migrated_requests']:,} migrated, {report['retried_requests']:,} retried"
    if part is not None:
        small = f"{100 * part:.2f} % available, {small}"
    return "Failed for good", f"{report['failed_requests']:,}", small


def section(report: Figures) -> str:
    """Returns the faults of a run as a table; nothing without."""
    events = report.get("fault_events")
    if events is None:
        return ""
    rest = f"<p>And {len(events) - MOST_ROWS:,} more.</p>" if len(events) > MOST_ROWS else ""
    heads = "".join(f"<th scope=col class={kind}>{name}</th>" for kind, names in _HEADS.items() for name in names)
    rows = "\n".join(_row(event) for event in events[:MOST_ROWS])
    table = (
        f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>" if events else "<p>None happened.</p>"
    )
    return (
        '<section aria-labelledby="faults-title">\n<h2 id="faults-title">Faults</h2>\n'
        '<p class="hint">Attempts that were lost with a worker or refused by one that was gone, what became of their'
        " requests, and goodput in requests per second before, during and after.</p>\n"
        f'<div id="faults" class="scroll" tabindex="0">{table}</div>\n{rest}</section>'
    )


def _row(event: Mapping[str, Any]) -> str:
    texts = (
        f"{event['at_ms'] / 1000:,.1f} s",
        event["kind"].replace("_", " "),
        _pool(event) + _numbers(event),
        "never" if event["until_ms"] is None else slowest.time(event["until_ms"] - event["at_ms"]),
    )
    recovery = event["recovery_ms"]
    back = "–" if recovery is None else slowest.time(recovery) if recovery else "never below"
    rates = ("–" if event[key] is None else f"{event[key]:.2f}" for key in _RATES)
    numbers = (*(f"{event[key]:,}" for key in faults.COUNTS), *rates, back)
    cells = "".join(f"<td class=text>{html.escape(text)}</td>" for text in texts)
    return f"<tr>{cells}{''.join(f'<td>{number}</td>' for number in numbers)}</tr>"


def _pool(event: Mapping[str, Any]) -> str:
    return "" if event["pool"] in ("agg", "") else f"{event['pool']} "


def _numbers(event: Mapping[str, Any]) -> str:
    return ", ".join(map(str, event["workers"][:5])) + (", …" if len(event["workers"]) > 5 else "")


def _name(event: Mapping[str, Any]) -> str:
    kind = str(event["kind"]).replace("_", " ")
    if not event["workers"]:
        return kind
    several = "s" if len(event["workers"]) > 1 else ""
    return f"{kind}, {_pool(event)}worker{several} {_numbers(event)}"


def shades(report: Figures) -> list[dict[str, Any]]:
    """Returns when faults lasted, in seconds; ``until`` is null for one that was never over."""
    return [
        {
            "name": _name(event),
            "at": short(event["at_ms"] / 1000),
            "until": None if event["until_ms"] is None else short(event["until_ms"] / 1000),
        }
        for event in report["fault_events"][:MOST_SHADES]
    ]
