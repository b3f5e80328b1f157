"""The content of a report, as one JSON-able structure: pages, tables and notebooks are made of it.

docs/sweeps.md describes its members.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dynamo._core.version import VERSION
from dynamo.replay import durations
from dynamo.replay.commandline import command
from dynamo.sweep import analysis, points, sla
from dynamo.sweep.analysis import Candidate, Tried
from dynamo.sweep.evaluate import figure
from dynamo.sweep.folder import Folder, Point
from dynamo.sweep.spec import Spec
from dynamo.sweep.store import INFEASIBLE, OK

# What a point costs, where its objectives do not say it: the first of these that it has.
_COSTS = ("cost_per_million_tokens", "gpu_cost", "gpus")

RECOMMENDATION = "recommendation"
"""The member, and the name in the folder, of what ``recommend`` says of a sweep."""
RECOMMENDATION_SCHEMA = 4
"""Of what it says. A folder with an older one shows its sweep without it, until the question is asked again there."""
SCHEMA = 2
"""Of the structure: grows when a member changes its meaning or goes."""


def describe(spec: Spec, folder: Folder) -> dict[str, Any]:
    """All that a report of a sweep shows."""
    found = folder.points()
    candidates = [each for point in found if (each := candidate(spec, point)) is not None]
    groups = {"all": candidates}
    for shape in sorted({candidate.topology for candidate in candidates}):
        groups[shape] = [candidate for candidate in candidates if candidate.topology == shape]
    fronts = {name: analysis.front(of, spec.objectives) for name, of in groups.items()}
    hulls = {name: analysis.hull(of, spec.objectives) for name, of in fronts.items()}
    on_front = {candidate.id for candidate in fronts["all"]}
    recommended = folder.fact(RECOMMENDATION)
    if recommended is not None and recommended["schema"] != RECOMMENDATION_SCHEMA:
        recommended = None
    return {
        **({} if recommended is None else {RECOMMENDATION: recommended}),
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
        "best": {objective.figure: _best(spec, candidates, i) for i, objective in enumerate(spec.objectives)},
        "nearest": None if candidates else _nearest(found),
        "influence": _influence(spec, candidates, [p.knobs for p in found if _misses(p)]),
    }


def candidate(spec: Spec, point: Point) -> Candidate | None:
    """A point as the analysis takes it, None if it is not ok or lacks an objective."""
    figures = point.outcome.get("figures", {})
    if point.status != OK or any(objective.figure not in figures for objective in spec.objectives):
        return None
    numbers = [figure(figures[objective.figure]).mean for objective in spec.objectives]
    return Candidate(point.id, point.knobs, _topology(spec, point), numbers, _cost(point))


def _cost(point: Point) -> float:
    figures = point.outcome.get("figures", {})
    return next((figure(figures[name]).mean for name in _COSTS if name in figures), 0.0)


def _topology(spec: Spec, point: Point) -> str:
    return points.topology(spec.run, points.settings_of(spec, point.knobs))


def _row(spec: Spec, point: Point, on_front: bool) -> dict[str, Any]:
    figures = {name: figure(plain) for name, plain in point.outcome.get("figures", {}).items()}
    arguments = point.outcome.get("arguments")
    found_durations = point.outcome.get("durations", [])
    error = durations.errors(found_durations)
    return {
        "id": point.id,
        "knobs": {knob.name: point.knobs[knob.name] for knob in spec.search if knob.name in point.knobs},
        "topology": _topology(spec, point),
        "status": point.status or "open",
        "reason": point.reason,
        "on_front": on_front,
        "figures": {name: found.mean for name, found in figures.items()},
        "intervals": {name: [found.low, found.high] for name, found in figures.items() if found.low is not None},
        "sla": [_with_error(verdict, error) for verdict in point.outcome.get("sla", [])],
        "limited_by": point.outcome.get("limited_by", ""),
        "warnings": point.outcome.get("warnings", []),
        "runs": point.outcome.get("runs", []),
        "command": "" if arguments is None else command(arguments),
        "arguments": arguments,
        "deployment": point.outcome.get("deployment"),
        "durations": found_durations,
        "measured_error": None if error is None else error._asdict(),
    }


def _with_error(verdict: Mapping[str, Any], error: durations.Errors | None) -> Mapping[str, Any]:
    """A verdict, with the measured error of its figure if it is met by less than that."""
    part = None if error is None else error.of(verdict["figure"])
    if part is None or not verdict["met"]:
        return verdict
    bound = sla.bound_of(verdict)
    worse = verdict["value"] * (1 + part if bound.at_most else 1 - part)
    return verdict if bound.keeps(worse) else {**verdict, "within_error": part}


def _best(spec: Spec, candidates: Sequence[Candidate], index: int) -> int | None:
    """Returns the id of the best point of an objective, which no other point beats; None without any."""
    found = analysis.best(candidates, spec.objectives, index)
    return None if found is None else found.id


def _nearest(found: Sequence[Point]) -> dict[str, Any] | None:
    """Returns which point misses the SLA by least, and by which bound; None if none was simulated and misses it.

    By how much is a part of the limit, of the bound that the point misses by most.
    """
    missed = []
    for point in found:
        verdicts = point.outcome.get("sla", [])
        each = [
            (sla.miss(verdict, figure(point.outcome["figures"][verdict["figure"]])), at)
            for at, verdict in enumerate(verdicts)
            if verdict["value"] is not None
        ]
        if _misses(point) and each and len(each) == len(verdicts):
            by, at = max(each, key=lambda pair: (pair[0], -pair[1]))
            missed.append((by, _cost(point), point.id, verdicts[at]))
    if not missed:
        return None
    by, _, found_id, verdict = min(missed, key=lambda each: each[:3])
    return {"point": found_id, "by": by, "verdict": verdict}


def _misses(point: Point) -> bool:
    """Reports whether a point misses the SLA. One that a condition excludes says nothing about it."""
    return point.status == INFEASIBLE and not point.reason.startswith("where: ")


def _influence(spec: Spec, candidates: Sequence[Candidate], missed: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    knobs = {knob.name: knob.values for knob in spec.search}
    out = [Tried(each, None) for each in missed]
    return {
        objective.figure: analysis.influence(
            [*(Tried(c.knobs, c.objectives[at]) for c in candidates), *out], knobs, maximize=objective.maximize
        )
        for at, objective in enumerate(spec.objectives)
    }
