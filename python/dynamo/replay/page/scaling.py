"""What a planner did to the number of workers: the words, the section and the curve of a run's page."""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dynamo.replay.figures import Figures

MOST_ROWS = 60
"""Changes that the section lists."""

_COUNTS = {"agg": "num_workers", "prefill": "num_prefill_workers", "decode": "num_decode_workers"}


def workers(report: Mapping[str, Any], arguments: Mapping[str, Any]) -> str:
    """Returns how many workers a run has in words, with all counts of each pool if they changed."""
    pools = ("prefill", "decode") if "num_prefill_workers" in arguments else ("agg",)
    words = []
    for pool in pools:
        counts = [int(arguments.get(_COUNTS[pool], 1))]
        counts += [event["to"] for event in report.get("scaling_events") or () if event["pool"] == pool]
        role = "" if pool == "agg" else f"{pool} "
        if len(set(counts)) == 1:
            words.append(f"{counts[0]} {role}worker{'s' if counts[0] != 1 else ''}")
        else:
            ends = f"from {counts[0]} to {counts[-1]}" if counts[0] != counts[-1] else f"{counts[0]} at both ends"
            words.append(f"{min(counts)} to {max(counts)} {role}workers ({ends}, {len(counts) - 1} changes)")
    return " and ".join(words)


def section(report: Figures) -> str:
    """Returns the changes of the number of workers as a table, nothing without a planner."""
    events = report.get("scaling_events")
    if events is None:
        return ""
    heads = "".join(f"<th scope=col class=text>{name}</th>" for name in ("at", "pool", "workers", "why"))
    rows = "".join(
        f"<tr><td class=text>{event['at_ms'] / 1000:,.1f} s</td><td class=text>{html.escape(event['pool'])}</td>"
        f"<td class=text>{event['from']} → {event['to']}</td><td class=text>{html.escape(event['reason'])}</td></tr>"
        for event in events[:MOST_ROWS]
    )
    more = f"<p>And {len(events) - MOST_ROWS:,} more.</p>" if len(events) > MOST_ROWS else ""
    table = f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>" if events else "<p>None.</p>"
    return (
        '<section aria-labelledby="scaling-title">\n<h2 id="scaling-title">Changes of the number of workers</h2>\n'
        f'<div id="scaling" class="scroll" tabindex="0">{table}</div>\n{more}</section>'
    )


def curve(report: Mapping[str, Any], step_ms: float, windows: int) -> list[int] | None:
    """Returns how many workers all pools have at the end of each window, None without a planner."""
    events = report.get("scaling_events")
    if events is None:
        return None
    arguments = report.get("provenance", {}).get("arguments", {})
    pools = ("prefill", "decode") if "num_prefill_workers" in arguments else ("agg",)
    now = {pool: int(arguments.get(_COUNTS[pool], 1)) for pool in pools}
    found, at = [], 0
    for window in range(windows):
        while at < len(events) and events[at]["at_ms"] <= (window + 1) * step_ms:
            now[events[at]["pool"]] = events[at]["to"]
            at += 1
        found.append(sum(now.values()))
    return found
