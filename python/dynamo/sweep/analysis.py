"""What the points of a sweep say together: which are not beaten, and which knobs matter."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from dynamo.sweep import points
from dynamo.sweep.spec import Objective

# Numbers that a sampler has drawn freely are grouped into so many ranges.
_MOST_GROUPS = 8


class Candidate(NamedTuple):
    """A point that is ok, with its objectives."""

    id: int
    knobs: Mapping[str, Any]
    topology: str
    objectives: Sequence[float]


def front(candidates: Sequence[Candidate], objectives: Sequence[Objective]) -> list[Candidate]:
    """The candidates that no other one beats: none is at least as good in all objectives and better in one.

    They come with the best of the first objective first. Of equals, the first one stays.
    """
    found: list[Candidate] = []
    costs: list[list[float]] = []
    by_cost = [(_costs(candidate.objectives, objectives), candidate) for candidate in candidates]
    for cost, candidate in sorted(by_cost, key=lambda pair: (pair[0], pair[1].id)):
        # Those before it are no worse in the first objective, so only they can beat it.
        if len(cost) == 2 and costs:
            beaten = costs[-1][1] <= cost[1]
        else:
            beaten = any(all(a <= b for a, b in zip(other, cost, strict=True)) for other in costs)
        if not beaten:
            found.append(candidate)
            costs.append(cost)
    return found


def _costs(numbers: Sequence[float], objectives: Sequence[Objective]) -> list[float]:
    """The numbers of objectives, such that less is better."""
    return [-number if o.maximize else number for number, o in zip(numbers, objectives, strict=True)]


def hull(candidates: Sequence[Candidate], objectives: Sequence[Objective]) -> list[Candidate]:
    """The corners of the convex hull on the better side of two objectives: what mixing deployments could reach.

    With another number of objectives there is no such line, and the result is empty.
    """
    if len(objectives) != 2:
        return []
    corners: list[tuple[float, float, Candidate]] = []
    for candidate in front(candidates, objectives):
        x, y = _costs(candidate.objectives, objectives)
        while len(corners) > 1 and _turns_inwards(corners[-2], corners[-1], (x, y)):
            corners.pop()
        corners.append((x, y, candidate))
    return [candidate for _, _, candidate in corners]


def _turns_inwards(a: tuple[float, float, Any], b: tuple[float, float, Any], c: tuple[float, float]) -> bool:
    """Whether b lies on or above the line from a to c, where smaller is better."""
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]) <= 0


def hypervolume(candidates: Sequence[Candidate], objectives: Sequence[Objective], reference: Sequence[float]) -> float:
    """The area that the front dominates, up to a reference point that is worse than all. For two objectives."""
    worst_x, worst_y = _costs(reference, objectives)
    area, edge = 0.0, worst_y
    for candidate in front(candidates, objectives):
        x, y = _costs(candidate.objectives, objectives)
        if x < worst_x and y < edge:
            area += (worst_x - x) * (edge - y)
            edge = y
    return area


def influence(
    candidates: Sequence[Candidate], objective: int, knobs: Mapping[str, Sequence[Any]]
) -> list[dict[str, Any]]:
    """How much each knob decides about an objective, the most influential first.

    ``share`` is the part of the variance between points that lies between the groups with equal values of the knob
    (eta squared): 1 if the knob alone decides, 0 if it changes nothing on average. ``means`` says how a value does on
    average. Points that do not have the knob are left out.
    """
    found = []
    for name in knobs:
        having = [c for c in candidates if name in c.knobs]
        groups = _groups(having, name)
        if len(groups) < 2:
            continue
        means = [
            {"value": label, "mean": _mean([c.objectives[objective] for c in group]), "points": len(group)}
            for label, group in groups
        ]
        found.append({"knob": name, "share": _share(having, groups, objective), "means": means})
    return sorted(found, key=lambda entry: (-entry["share"], entry["knob"]))


def _groups(candidates: Sequence[Candidate], name: str) -> list[tuple[str, list[Candidate]]]:
    values = {points.label(c.knobs[name]): c.knobs[name] for c in candidates}
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values.values())
    if numbers and len(values) > _MOST_GROUPS:
        ordered = sorted(candidates, key=lambda c: c.knobs[name])
        size = math.ceil(len(ordered) / _MOST_GROUPS)
        parts = [ordered[i : i + size] for i in range(0, len(ordered), size)]
        return [(f"{part[0].knobs[name]:g} to {part[-1].knobs[name]:g}", part) for part in parts]
    labels = sorted(values, key=values.__getitem__) if numbers else sorted(values)
    return [(label, [c for c in candidates if points.label(c.knobs[name]) == label]) for label in labels]


def _share(candidates: Sequence[Candidate], groups: Sequence[tuple[str, list[Candidate]]], objective: int) -> float:
    overall = _mean([c.objectives[objective] for c in candidates])
    total = math.fsum((c.objectives[objective] - overall) ** 2 for c in candidates)
    between = math.fsum(
        len(group) * (_mean([c.objectives[objective] for c in group]) - overall) ** 2 for _, group in groups
    )
    return between / total if total > 0 else 0.0


def _mean(numbers: Sequence[float]) -> float:
    return math.fsum(numbers) / len(numbers)
