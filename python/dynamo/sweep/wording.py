"""What a report says in words, the same on the page, in the text and on the command line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from dynamo.replay import deployment, durations
from dynamo.sweep import points
from dynamo.sweep.sla import bound_of

_MOST_DURATIONS = 5  # that are listed


def effect_cells(effect: Mapping[str, Any]) -> list[str]:
    """What changes from one value of a knob to another: values, means, in how many pairs, what the SLA says."""
    one, other = effect["from"], effect["to"]
    before, after = effect["mean_from"], effect["mean_to"]
    means = better = "-"
    if effect["pairs"]:
        change = f" ({100 * (after / before - 1):+.0f} %)" if before else ""
        means = f"{before:.4g} -> {after:.4g}{change}"
        better = f"{effect['better']}, {effect['worse']} of {effect['pairs']}"
    alone = [f"{name}: {effect[key]}" for name, key in ((one, "only_from"), (other, "only_to")) if effect[key]]
    return [f"{one} -> {other}", means, better, ", ".join(alone)]


def answers(content: Mapping[str, Any]) -> list[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """The objectives, each with its best point; none without a point that keeps the SLA."""
    by_id = {point["id"]: point for point in content["points"]}
    best = content["best"]
    return [(o, by_id[best[o["figure"]]]) for o in content["objectives"] if best[o["figure"]] is not None]


def deployed(point: Mapping[str, Any]) -> dict[str, str]:
    """The deployment of a point by the names of its parts, and the knobs that these do not say."""
    found = point["deployment"]
    facts: dict[str, str] = {} if found is None else deployment.facts(found)
    told = {"num_workers", "num_prefill_workers", "num_decode_workers", "router_mode", "topology", "engine.engine_type"}
    told |= {"engine.scheduler", "engine.aic_tp_size", "engine.num_gpu_blocks"} | {f"engine.{name}" for name in facts}
    rest = {name: points.label(v) for name, v in point["knobs"].items() if found is None or name not in told}
    return facts | rest


def deployed_in_a_line(point: Mapping[str, Any]) -> str:
    """The deployment of a point in one line, with the knobs that it does not say."""
    plain = ("workers", "engine")
    return ", ".join(text if name in plain else f"{name} {text}" for name, text in deployed(point).items())


def nearest(content: Mapping[str, Any]) -> str:
    """Why no point keeps the SLA, and which one is nearest: by which bound it misses, and by how much."""
    found = content["nearest"]
    if found is None:
        return "No point keeps the SLA." if content["points"] else "There are no points."
    point = next(point for point in content["points"] if point["id"] == found["point"])
    verdict = found["verdict"]
    bound = bound_of(verdict)
    by = f"{100 * found['by']:.2g} %" if bound.limit else f"{found['by']:.4g}"
    got = f"got {verdict['value']:.5g}"
    if verdict["met"]:
        low, high = point["intervals"][verdict["figure"]]
        got += f", with 95 % from {low:.5g} to {high:.5g}"
    line = f"No point keeps the SLA. The nearest is point {point['id']}, which misses {bound} by {by} ({got})"
    return f"{line}: {deployed_in_a_line(point)}"


def between(low: float, high: float, digits: int) -> str:
    """The ends of an interval of a figure. None is below 0, so that an end there says nothing."""
    ends = (number(low, digits), number(high, digits))
    return " to ".join(ends) if low > 0 else f"at most {ends[1]}"


def number(value: float, digits: int = 4) -> str:
    """Writes a figure with a number of significant digits; a larger one as a whole number, never with an exponent."""
    return f"{value:.0f}" if abs(value) >= 10**digits else f"{value:.{digits}g}"


def within_error(verdict: Mapping[str, Any]) -> str:
    """That a bound is kept by less than the measured error."""
    part = f"{100 * verdict['within_error']:.0f} %"
    return f"{bound_of(verdict)} is kept with {verdict['value']:.5g}, by less than the measured error of {part}"


def durations_lines(content: Mapping[str, Any]) -> list[str]:
    """What durations of points are of, what hand-offs cost, and the measured error; with counts if points differ."""
    lines = []
    for kind in (durations.line, durations.hand_off_line, durations.error_line):
        counted = Counter(text for point in content["points"] if (text := kind(point["durations"]))).most_common()
        if len(counted) == 1:
            lines.append(counted[0][0][0].upper() + counted[0][0][1:])
            continue
        lines += [f"{count} points: {text}" for text, count in counted[:_MOST_DURATIONS]]
        if (rest := len(counted) - _MOST_DURATIONS) > 0:
            lines.append(f"and {rest} more, see points.csv")
    return lines


def columns(found: Mapping[str, Any] | None) -> dict[str, Any]:
    """The columns of tables that say which deployment a point is."""
    if found is None:
        return {}
    counts = {"worker": "replicas", "prefill": "prefill_workers", "decode": "decode_workers"}
    row: dict[str, Any] = {counts[pool["role"]]: pool["workers"] for pool in found["pools"]}
    row["tp"] = _common([pool["tp"] for pool in found["pools"]])
    for name in ("engine", "max_num_seqs", "max_num_batched_tokens"):
        row[name] = _common([pool[name] for pool in found["pools"]])
    return row | {"router": found["router"]}


def _common(values: Sequence[Any]) -> Any:
    """One value for all pools, or those of prefill and decode."""
    return values[0] if len(set(values)) == 1 else ", ".join(map(str, values))
