"""What the scripts of the page work on, as small as it can be: numbers of six digits, figures without their names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dynamo._page import short
from dynamo.replay import deployment, durations, latencies
from dynamo.sweep import figures, points, wording
from dynamo.sweep.page.measured import Measured

MOST_POINTS = 2_000
"""A page of more would take a browser too long. The others are in the tables beside it."""

_TITLES = {
    "output_tok_s_per_gpu": "output tokens/s per GPU",
    "total_tok_s_per_gpu": "tokens/s per GPU",
    "tok_s_per_user": "tokens/s per user",
    "gpus": "GPUs",
    "goodput_rps_per_gpu": "requests/s that keep every limit, per GPU",
    "goodput_ratio": "part of requests that keep every limit",
    "cost_per_million_output_tokens": "cost per million output tokens",
    "cost_per_million_tokens": "cost per million tokens",
    "arrival_rps": "arriving requests/s",
    "arrival_rps_per_gpu": "arriving requests/s per GPU",
}


def title(figure: str) -> str:
    """A figure in words, its name if there are none."""
    return _TITLES.get(figure, latencies.shown(figure))


def of(content: Mapping[str, Any], measured: Sequence[Measured], pages: Mapping[int, str]) -> dict[str, Any]:
    """The data of the page. Figures of a point and their intervals are in the order of ``figures``."""
    names = list(dict.fromkeys(name for point in content["points"] for name in point["figures"]))
    first = [objective["figure"] for objective in content["objectives"]]
    bounded = list(dict.fromkeys(verdict["figure"] for point in content["points"] for verdict in point["sla"]))
    shown = [name for name in dict.fromkeys([*first, "gpus", *bounded]) if name in names]
    chosen = _chosen(content)
    timings: list[dict[str, Any]] = []
    for point in chosen:
        if (timing := _timing(point, names)) not in timings:
            timings.append(timing)
    return {
        "knobs": [knob["name"] for knob in content["search"]],
        "objectives": content["objectives"],
        "figures": names,
        "titles": {name: title(name) for name in names},
        "meanings": {name: meaning for name in names if (meaning := figures.meaning(name))},
        "shown": shown,
        "topologies": sorted({point["topology"] for point in content["points"]}),
        "timings": timings,
        "points": [_point(point, names, pages, timings) for point in chosen],
        "hulls": {name: ids for name, ids in content["hulls"].items() if name != "all"},
        "measured": [_measurement(row) for row in measured],
        "best": next((found for found in content["best"].values() if found is not None), _nearest(content)),
    }


def _nearest(content: Mapping[str, Any]) -> int | None:
    return content["nearest"]["point"] if content["nearest"] else None


def _chosen(content: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """All points, or as many as a page takes: first those that no other one beats, then others at even distances."""
    every: list[Mapping[str, Any]] = content["points"]
    if len(every) <= MOST_POINTS:
        return every
    kept = {point for ids in content["fronts"].values() for point in ids}
    others = [point["id"] for point in every if point["id"] not in kept]
    room = max(0, MOST_POINTS - len(kept))
    kept.update(others[at * len(others) // room] for at in range(room))
    return [point for point in every if point["id"] in kept]


def _timing(point: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """What the durations of a point are of, and the measured error of each figure, None where none is known."""
    given = point["measured_error"]
    error = None if given is None else durations.Errors(**given)
    return {
        "lines": durations.lines(point["durations"]),
        "errors": None if error is None else [error.of(name) for name in names],
    }


def _point(
    point: Mapping[str, Any], names: Sequence[str], pages: Mapping[int, str], timings: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    found = {
        "id": point["id"],
        "knobs": {name: _knob(value) for name, value in point["knobs"].items()},
        "topology": point["topology"],
        "status": point["status"],
        "figures": [short(point["figures"].get(name)) for name in names],
        "command": point["command"],
    }
    if point["deployment"] is not None:
        found |= {"workers": deployment.size(point["deployment"]), "deployed": wording.deployed(point)}
    found["timing"] = timings.index(_timing(point, names))
    if point["intervals"]:
        intervals = [point["intervals"].get(name) for name in names]
        found["intervals"] = [pair and [short(pair[0]), short(pair[1])] for pair in intervals]
    optional = {"page": pages.get(point["id"]), "front": point["on_front"]}
    optional |= {name: point[name] for name in ("reason", "limited_by", "warnings", "sla")}
    return {**found, **{name: value for name, value in optional.items() if value}}


def _knob(value: Any) -> Any:
    """Numbers stay numbers, which the page sorts as such."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if number else points.label(value)


def _measurement(row: Measured) -> dict[str, Any]:
    return {
        "label": row.label,
        "figures": {name: short(number) for name, number in row.figures.items()},
        "intervals": {name: [short(low), short(high)] for name, (low, high) in row.intervals.items()},
        "point": row.point,
    }
