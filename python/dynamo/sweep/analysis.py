"""What the points of a sweep say together: which are not beaten, and which knobs matter."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from dynamo.sweep import points
from dynamo.sweep.spec import Objective

# A knob with more steps from one number to the next than this has one effect for all of them.
_MOST_STEPS = 8
# Up to this number of values that are no numbers, each is compared with each; beyond it, each with the first.
_MOST_COMPARED = 4


class Candidate(NamedTuple):
    """A point that is ok, with its objectives."""

    id: int
    knobs: Mapping[str, Any]
    topology: str
    objectives: Sequence[float]
    cost: float = 0.0
    """What it costs, where objectives do not say it: of equals the cheaper one is the better one."""


def best(candidates: Sequence[Candidate], objectives: Sequence[Objective], index: int) -> Candidate | None:
    """Returns the best candidate of one objective, which is always one of the front; None without any.

    Ties are broken by the other objectives, then by cost, then by the id.
    """

    def order(candidate: Candidate) -> tuple[float, list[float], float, int]:
        costs = _costs(candidate.objectives, objectives)
        return costs[index], costs, candidate.cost, candidate.id

    return min(candidates, key=order, default=None)


def front(candidates: Sequence[Candidate], objectives: Sequence[Objective]) -> list[Candidate]:
    """The candidates that no other one beats: none is at least as good in all objectives and better in one.

    They come with the best of the first objective first. Of equals, the cheapest one stays, then the first.
    """
    found: list[Candidate] = []
    costs: list[list[float]] = []
    by_cost = [(_costs(candidate.objectives, objectives), candidate) for candidate in candidates]
    for cost, candidate in sorted(by_cost, key=lambda pair: (pair[0], pair[1].cost, pair[1].id)):
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


class Tried(NamedTuple):
    """A point that was simulated: its knobs, and its objective, None if it misses the SLA."""

    knobs: Mapping[str, Any]
    number: float | None


def influence(tried: Sequence[Tried], knobs: Mapping[str, Sequence[Any]], *, maximize: bool) -> list[dict[str, Any]]:
    """Returns how much each knob decides about an objective, the most influential first.

    Points are compared in pairs that differ in one knob only. ``share`` is the mean square of the difference between
    two such points that keep the SLA, as a part of the sum over all knobs: the shares of all knobs make 1. ``effects``
    says what changes from one value to another. Pairs of which one point alone keeps the SLA have no difference, and
    are counted. A knob that means nothing for a point is equal to any value.
    """
    found: list[dict[str, Any]] = []
    squares: dict[str, float] = {}
    for name, values in knobs.items():
        blocks = [block for block in _blocks([each for each in tried if name in each.knobs], name) if len(block) > 1]
        numbers = [[number for number in block.values() if number is not None] for block in blocks]
        pairs = sum(len(each) * (len(each) - 1) // 2 for each in numbers)
        squares[name] = math.fsum(len(each) * _squares(each) for each in numbers) / pairs if pairs else 0.0
        found.append({"knob": name, "pairs": pairs, "effects": _effects(blocks, values, maximize)})
    total = math.fsum(squares.values())
    for entry in found:
        entry["share"] = squares[entry["knob"]] / total if total else 0.0
    return sorted(found, key=lambda entry: (-entry["share"], -entry["pairs"], entry["knob"]))


def _squares(numbers: Sequence[float]) -> float:
    """Returns the sum of the squares of the distances from the mean."""
    mean = _mean(numbers) if numbers else 0.0
    return math.fsum((number - mean) ** 2 for number in numbers)


_Block: TypeAlias = dict[str, float | None]
"""Points that are equal but for one knob: their objective by its value, as JSON."""


def _blocks(tried: Sequence[Tried], name: str) -> list[_Block]:
    """Returns the points in groups that have all other knobs in common."""
    others = [{key: _json(value) for key, value in each.knobs.items() if key != name} for each in tried]
    blocks: dict[tuple[tuple[str, str], ...], _Block] = {tuple(sorted(other.items())): {} for other in others}
    # A point without some knob belongs to every group that agrees in the knobs that it has.
    reached: dict[frozenset[str], dict[tuple[tuple[str, str], ...], list[_Block]]] = {}
    for each, other in zip(tried, others, strict=True):
        having = frozenset(other)
        if having not in reached:
            reached[having] = {}
            for key, block in blocks.items():
                part = tuple(pair for pair in key if pair[0] in having)
                if len(part) == len(having):
                    reached[having].setdefault(part, []).append(block)
        for block in reached[having][tuple(sorted(other.items()))]:
            block[_json(each.knobs[name])] = each.number
    return list(blocks.values())


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _effects(blocks: Sequence[_Block], values: Sequence[Any], maximize: bool) -> list[dict[str, Any]]:
    """Returns what changes from one value of a knob to another, in the order of the values."""
    numeric = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
    rank = {_json(value): at for at, value in enumerate(values)}
    steps: dict[tuple[str, str], list[tuple[float | None, float | None]]] = {}
    for block in blocks:
        ordered = sorted(block, key=float if numeric else lambda value: rank.get(value, len(rank)))
        if numeric:
            pairs = list(itertools.pairwise(ordered))
        elif len(values) <= _MOST_COMPARED:
            pairs = list(itertools.combinations(ordered, 2))
        else:
            pairs = [(ordered[0], other) for other in ordered[1:]]
        for one, other in pairs:
            if block[one] is not None or block[other] is not None:
                steps.setdefault((one, other), []).append((block[one], block[other]))
    if numeric and len(steps) > _MOST_STEPS:
        every = list(itertools.chain.from_iterable(steps.values()))
        return [_effect("a value", "the next larger one", every, maximize)]
    ordered_steps = sorted(steps, key=lambda step: [float(end) if numeric else rank.get(end, 0) for end in step])
    shown = {_json(value): points.label(value) for value in values}
    return [_effect(shown.get(a, a), shown.get(b, b), steps[(a, b)], maximize) for a, b in ordered_steps]


def _effect(one: str, other: str, steps: Sequence[tuple[float | None, float | None]], maximize: bool) -> dict[str, Any]:
    both = [(a, b) for a, b in steps if a is not None and b is not None]
    return {
        "from": one,
        "to": other,
        "pairs": len(both),
        "mean_from": _mean([a for a, _ in both]) if both else None,
        "mean_to": _mean([b for _, b in both]) if both else None,
        "better": sum(b > a if maximize else b < a for a, b in both),
        "worse": sum(b < a if maximize else b > a for a, b in both),
        "only_from": sum(b is None for _, b in steps),
        "only_to": sum(a is None for a, _ in steps),
    }


def _mean(numbers: Sequence[float]) -> float:
    return math.fsum(numbers) / len(numbers)
