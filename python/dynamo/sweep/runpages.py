"""Pages about the runs of points, which the page of a sweep links: ``runs/ID.html`` in its folder."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dynamo._core import values

FRONT = "front"


def chosen(content: Mapping[str, Any], which: str) -> list[Mapping[str, Any]]:
    """The points that are asked for: those of the front, or those with the ids in a list. Raises ValueError."""
    if which == FRONT:
        return [point for point in content["points"] if point["on_front"]]
    by_id = {str(point["id"]): point for point in content["points"]}
    found = []
    for word in which.split(","):
        point = by_id.get(word.strip())
        if point is None:
            raise ValueError(f"--runs: got {values.show(word)}, want front or ids of points, such as 3,17")
        if point["arguments"] is None:
            raise ValueError(f"--runs: point {point['id']} cannot be run: {point['reason']}")
        found.append(point)
    return found


def write(point: Mapping[str, Any], path: Path) -> None:
    """Runs a point again, with its first seed, and writes the page about it. Raises as ``run_trace_replay`` does."""
    from dynamo.replay import run_synthetic_trace_replay, run_trace_replay

    arguments = dict(point["arguments"])
    replay: Any = run_trace_replay if "trace_files" in arguments else run_synthetic_trace_replay
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the page of the sweep has those of the point
        replay(**arguments, html=path)
