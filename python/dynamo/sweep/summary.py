"""The content of a report, as one JSON-able structure: pages, tables and notebooks are made of it.

docs/sweeps.md describes its members.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dynamo._core.version import VERSION
from dynamo.replay.commandline import command
from dynamo.sweep import analysis, points
from dynamo.sweep.analysis import Candidate
from dynamo.sweep.evaluate import figure
from dynamo.sweep.folder import Folder, Point
from dynamo.sweep.spec import Objective, Spec
from dynamo.sweep.store import OK

SCHEMA = 1
"""Of the structure: grows when a member changes its meaning or goes."""


def describe(spec: Spec, folder: Folder) -> dict[str, Any]:
    """All that a report of a sweep shows."""
    found = folder.points()
    candidates = [candidate for point in found if (candidate := _candidate(spec, point)) is not None]
    groups = {"all": candidates}
    for shape in sorted({candidate.topology for candidate in candidates}):
        groups[shape] = [candidate for candidate in candidates if candidate.topology == shape]
    fronts = {name: analysis.front(of, spec.objectives) for name, of in groups.items()}
    hulls = {name: analysis.hull(of, spec.objectives) for name, of in fronts.items()}
    on_front = {candidate.id for candidate in fronts["all"]}
    return {
        "schema": SCHEMA,
        "dynosim": VERSION,
        "spec": dict(spec.given),
        "search": [{"name": knob.name, "values": list(knob.values)} for knob in spec.search],
        "objectives": [{"figure": o.figure, "maximize": o.maximize} for o in spec.objectives],
        "sla": [str(bound) for bound in spec.sla],
        "seeds": len(spec.seeds),
        "counts": folder.counts(),
        "points": [_row(spec, point, point.id in on_front) for point in found],
        "fronts": {name: [candidate.id for candidate in of] for name, of in fronts.items()},
        "hulls": {name: [candidate.id for candidate in of] for name, of in hulls.items()},
        "best": {objective.figure: _best(candidates, i, objective) for i, objective in enumerate(spec.objectives)},
        "influence": _influence(spec, candidates),
    }


def _candidate(spec: Spec, point: Point) -> Candidate | None:
    """A point as the analysis takes it, None if it is not ok or lacks an objective."""
    figures = point.outcome.get("figures", {})
    if point.status != OK or any(objective.figure not in figures for objective in spec.objectives):
        return None
    numbers = [figure(figures[objective.figure]).mean for objective in spec.objectives]
    return Candidate(point.id, point.knobs, _topology(spec, point), numbers)


def _topology(spec: Spec, point: Point) -> str:
    return points.topology(spec.run, points.settings_of(spec, point.knobs))


def _row(spec: Spec, point: Point, on_front: bool) -> dict[str, Any]:
    figures = {name: figure(plain) for name, plain in point.outcome.get("figures", {}).items()}
    arguments = point.outcome.get("arguments")
    return {
        "id": point.id,
        "knobs": {knob.name: point.knobs[knob.name] for knob in spec.search if knob.name in point.knobs},
        "topology": _topology(spec, point),
        "status": point.status or "open",
        "reason": point.reason,
        "on_front": on_front,
        "figures": {name: found.mean for name, found in figures.items()},
        "intervals": {name: [found.low, found.high] for name, found in figures.items() if found.low is not None},
        "sla": point.outcome.get("sla", []),
        "limited_by": point.outcome.get("limited_by", ""),
        "warnings": point.outcome.get("warnings", []),
        "runs": point.outcome.get("runs", []),
        "command": "" if arguments is None else command(arguments),
        "arguments": arguments,
    }


def _best(candidates: Sequence[Candidate], index: int, objective: Objective) -> int | None:
    """The point that is best in one objective, the first of equals; None without any."""
    if not candidates:
        return None
    sign = -1 if objective.maximize else 1
    return min(candidates, key=lambda candidate: (sign * candidate.objectives[index], candidate.id)).id


def _influence(spec: Spec, candidates: Sequence[Candidate]) -> dict[str, Any]:
    knobs = {knob.name: knob.values for knob in spec.search}
    return {
        objective.figure: analysis.influence(candidates, index, knobs)
        for index, objective in enumerate(spec.objectives)
    }
