"""Why points of a sweep are out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def counted(content: Mapping[str, Any]) -> list[tuple[tuple[str, str], int]]:
    """Status and reason of the points that are out, and how many points: the most frequent first.

    By how much a bound is missed differs from point to point, and is left out.
    """
    found: dict[tuple[str, str], int] = {}
    for point in content["points"]:
        if point["status"] not in ("ok", "open"):
            reason = point["reason"].split(": got ")[0] if point["sla"] else point["reason"]
            found[(point["status"], reason)] = found.get((point["status"], reason), 0) + 1
    return sorted(found.items(), key=lambda item: (-item[1], item[0]))
