"""Faults: what goes wrong in a run, as users write it and as reports tell it."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from dynamo._core import objectfile, values, yamltext

# A script of faults, or the path of a JSONL or YAML file with one.
Faults: TypeAlias = Sequence[Mapping[str, Any]] | str | os.PathLike[str]

COUNTS = {
    "lost_attempts": "lost",
    "refused_attempts": "refused",
    "migrated": "migrated",
    "retried": "retried",
    "failed": "failed",
}
"""What a fault did to requests: keys of reports, and their names in tables."""

# A report may have many faults: the first ones are printed, and the number of the others.
_SHOWN = 20


def script(name: str, value: object) -> str:
    """Returns the script as Go reads it: a JSON list, or lines of JSON.

    Raises TypeError, ValueError or FileNotFoundError.
    """
    if isinstance(value, list | tuple):
        return json.dumps([_fault(f"{name}[{i}]", item) for i, item in enumerate(value)])
    if isinstance(value, str | os.PathLike):
        return read(name, values.path(name, value))
    raise TypeError(f"{name}: got {values.show(value)}, want a list of dicts, or the path of a file")


def _fault(name: str, value: object) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise TypeError(f"{name}: got {values.show(value)}, want a dict")
    return values.json_object(name, value)


def read(name: str, path: str) -> str:
    """Returns the script in a file. YAML files, which are known by their names, hold a list of faults."""
    text = objectfile.text(name, path)
    if not objectfile.is_yaml(path):
        return text
    found = objectfile.parsed(name, path, text, yamltext.parse)
    if not isinstance(found, list):
        raise ValueError(f"{name}: {path}: got {values.show(found)}, want a list of faults")
    try:
        return json.dumps([_fault(f"{name}: {path}: fault {i + 1}", item) for i, item in enumerate(found)])
    except TypeError as error:
        raise ValueError(str(error)) from None


def format_faults(report: Mapping[str, Any]) -> str:
    """Returns what went wrong in a run: a line for each fault, and totals."""
    events = report["fault_events"]
    lines = ["", "Faults:", *map(_event, events[:_SHOWN])]
    if len(events) > _SHOWN:
        lines.append(f"  and {len(events) - _SHOWN} more")
    lines.append(
        f"  requests: {report['failed_requests']} failed, {report['migrated_requests']} migrated, "
        f"{report['retried_requests']} retried; {report['recomputed_tokens']} tokens were computed again"
    )
    return "\n".join(lines)


def _event(event: Mapping[str, Any]) -> str:
    where = f" of {_workers(event)}" if event["workers"] else ""
    counts = [f"{event[key]} {name}" for key, name in COUNTS.items() if event[key]]
    effect = f"; requests: {', '.join(counts)}" if counts else ""
    return f"  t={event['at_ms'] / 1000:.1f}s {event['kind']}{where}{effect}; {_goodput(event)}"


def _workers(event: Mapping[str, Any]) -> str:
    shown = ", ".join(map(str, event["workers"][:5])) + (", ..." if len(event["workers"]) > 5 else "")
    return f"[{event['pool']}] {shown}"


def _goodput(event: Mapping[str, Any]) -> str:
    rates = [event[f"goodput_{when}_rps"] for when in ("before", "during", "after")]
    shown = " -> ".join("-" if rate is None or math.isnan(rate) else f"{rate:.2f}" for rate in rates)
    recovery = event["recovery_ms"]
    back = "not back" if recovery is None else f"back after {recovery / 1000:.1f}s" if recovery else "never below"
    return f"goodput {shown} requests/s, {back}"
