"""What two sweeps have in common, and where the results of equal points differ."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from dynamo.sweep import points


def compare(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """The differences between the contents of two reports (``summary.describe``).

    ``changed`` lists points that both have, with each figure of either's objectives and bounds that differs, and their
    status if that does. Figures whose 95 % intervals overlap are not told apart.
    """
    first, second = _by_identity(before), _by_identity(after)
    both = [identity for identity in first if identity in second]
    figures = _figures(before) | _figures(after)
    changed = [row for identity in both if (row := _changes(first[identity], second[identity], figures)) is not None]
    return {
        "spec": [name for name in sorted(before["spec"].keys() | after["spec"].keys()) if _differ(before, after, name)],
        "only_before": [first[identity]["knobs"] for identity in first if identity not in second],
        "only_after": [second[identity]["knobs"] for identity in second if identity not in first],
        "same": len(both) - len(changed),
        "changed": changed,
        "best": {
            name: [_best(before, name), _best(after, name)]
            for name in sorted(before["best"].keys() & after["best"].keys())
        },
    }


def _by_identity(content: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return {points.identity(point["knobs"]): point for point in content["points"]}


def _figures(content: Mapping[str, Any]) -> set[str]:
    bounds = {verdict["figure"] for point in content["points"] for verdict in point["sla"]}
    return {objective["figure"] for objective in content["objectives"]} | bounds


def _differ(before: Mapping[str, Any], after: Mapping[str, Any], name: str) -> bool:
    return json.dumps(before["spec"].get(name)) != json.dumps(after["spec"].get(name))


def _changes(before: Mapping[str, Any], after: Mapping[str, Any], figures: set[str]) -> dict[str, Any] | None:
    found: dict[str, Any] = {}
    if before["status"] != after["status"]:
        found["status"] = [before["status"], after["status"]]
    for name in sorted(figures):
        one, other = before["figures"].get(name), after["figures"].get(name)
        if one != other and not _overlap(before["intervals"].get(name), after["intervals"].get(name)):
            found[name] = [one, other]
    return {"knobs": after["knobs"], "changes": found} if found else None


def _overlap(one: Any, other: Any) -> bool:
    return bool(one and other and one[0] <= other[1] and other[0] <= one[1])


def _best(content: Mapping[str, Any], name: str) -> float | None:
    found = next((point for point in content["points"] if point["id"] == content["best"][name]), None)
    return None if found is None else float(found["figures"][name])


def text(found: Mapping[str, Any]) -> str:
    """The differences for people."""
    lines = [f"{found['same']} points are the same, {len(found['changed'])} differ"]
    if found["spec"]:
        lines.append(f"the specifications differ in {', '.join(found['spec'])}")
    for side, name in (("first", "only_before"), ("second", "only_after")):
        if found[name]:
            lines.append(f"{len(found[name])} points are in the {side} only, such as {_knobs(found[name][0])}")
    for row in found["changed"]:
        each = ", ".join(f"{name} {_shown(one)} -> {_shown(other)}" for name, (one, other) in row["changes"].items())
        lines.append(f"  {_knobs(row['knobs'])}: {each}")
    for name, (one, other) in found["best"].items():
        if one != other:
            lines.append(f"best {name}: {_shown(one)} -> {_shown(other)}")
    return "\n".join(lines) + "\n"


def _knobs(knobs: Mapping[str, Any]) -> str:
    return points.words(knobs) or "(no knobs)"


def _shown(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, int | float) else "-" if value is None else str(value)
