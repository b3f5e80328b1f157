"""How far simulations are off: errors of single measurements, and what groups of them come to."""

from __future__ import annotations

import bisect
import math
import re
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dynamo.validate.measurement import Figures, Measurement
from dynamo.validate.runner import Result

METRICS = ("ttft", "tpot")
FIGURES = ("mean", "p50", "p90", "p99")
# Upper ends of the classes of concurrency: host time decides TTFT at few clients, bursts and the KV pool at many.
CONCURRENCIES = (8, 32, 64, 128, 256)


def error(simulated: float | None, measured: float | None) -> float | None:
    """Returns simulated / measured - 1, None where either is missing."""
    if simulated is None or not measured:
        return None
    return simulated / measured - 1


def headline(measured: Figures) -> str:
    """Returns the figure of a measurement that its error is about: the mean, or the median of sources that have no
    means.
    """
    return "mean" if measured.mean is not None else "p50"


def errors_of(result: Result) -> dict[str, float | None]:
    """Returns the errors of a replay by metric; those of the control are called ``static_ttft`` and ``static_tpot``."""
    assert result.outcome is not None
    found: dict[str, float | None] = {}
    for metric in METRICS:
        measured: Figures = getattr(result.replay.measurement, metric)
        name = headline(measured)
        found[metric] = error(getattr(getattr(result.outcome, metric), name), getattr(measured, name))
        predicted = getattr(result.static, f"{metric}_ms") if result.static else None
        found[f"static_{metric}"] = error(predicted, getattr(measured, name))
    return found


def ks_distance(first: Iterable[float], second: Iterable[float]) -> float | None:
    """Returns the Kolmogorov-Smirnov distance of two samples: the largest gap between their distributions. NaN is no
    value.
    """
    a, b = (sorted(value for value in sample if not math.isnan(value)) for sample in (first, second))
    if not a or not b:
        return None
    return max(abs(bisect.bisect_right(a, x) / len(a) - bisect.bisect_right(b, x) / len(b)) for x in (*a, *b))


def distances_of(result: Result) -> dict[str, float | None]:
    """Returns KS distances by metric of a measurement of single requests; none for others."""
    requests, outcome = result.replay.measurement.requests, result.outcome
    if requests is None or outcome is None or not len(outcome.ttft_ms):
        return {}
    return {
        "ttft": ks_distance(requests.ttft_ms, outcome.ttft_ms),
        "tpot": ks_distance(requests.tpot_ms, outcome.tpot_ms),
    }


def holds(result: Result, metric: str) -> bool | None:
    """Reports whether the mean over requests that was measured is between those of the seeds; None without several
    seeds.
    """
    measured = getattr(result.replay.measurement, metric).mean
    if result.outcome is None or measured is None or metric not in result.outcome.ranges:
        return None
    low, high = result.outcome.ranges[metric]
    return bool(low <= measured <= high)


@dataclass(frozen=True)
class Summary:
    """The errors of a group of measurements, in percent."""

    count: int
    mean_abs: float
    median_abs: float
    signed: float
    p90_abs: float


def summary(errors: Iterable[float | None]) -> Summary | None:
    """Returns what errors come to; None if there are none. ``signed`` is the median."""
    off = [100 * value for value in errors if value is not None]
    if not off:
        return None
    sizes = sorted(map(abs, off))
    p90 = sizes[max(0, math.ceil(0.9 * len(sizes)) - 1)]
    return Summary(len(off), statistics.fmean(sizes), statistics.median(sizes), statistics.median(off), p90)


Key = tuple[str, ...]
# Ways in which measurements are grouped, by name.
GROUPINGS: Mapping[str, Callable[[Measurement], Key]] = {
    "engine": lambda m: (m.engine,),
    "model, GPU, precision": lambda m: m.group,
    "model": lambda m: (m.engine, m.group[1]),
    "GPU": lambda m: (m.engine, m.system),
    "precision": lambda m: (m.engine, m.group[3]),
    "concurrency": lambda m: (m.engine, concurrency_class(m)),
}


def concurrency_class(measurement: Measurement) -> str:
    """Returns the class of a measurement's number of clients, for measurements of a closed loop."""
    clients = measurement.concurrency
    if clients is None:
        return "open loop"
    least = 1
    for most in CONCURRENCIES:
        if clients <= most:
            return f"{least}-{most}"
        least = most + 1
    return f"{least}+"


def grouped(results: Sequence[Result], grouping: str) -> dict[Key, dict[str, Summary | None]]:
    """Returns, for each group, in order, the summaries of its errors by metric, those of the control included."""
    groups: dict[Key, list[dict[str, float | None]]] = {}
    for result in results:
        groups.setdefault(GROUPINGS[grouping](result.replay.measurement), []).append(errors_of(result))
    names = (*METRICS, *(f"static_{metric}" for metric in METRICS))
    return {
        key: {name: summary(row[name] for row in groups[key]) for name in names} for key in sorted(groups, key=_natural)
    }


def _natural(key: Key) -> list[Any]:
    """Classes of concurrency in the order of their numbers, names in that of the alphabet."""
    return [(int(found[0]), part) if (found := re.match(r"\d+(?=[-+])", part)) else (0, part) for part in key]
