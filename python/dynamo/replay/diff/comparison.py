"""Comparing two runs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from dynamo.replay.diff import figures, joining
from dynamo.replay.diff.conditions import Verdict, parse_condition, percentage
from dynamo.replay.diff.defaults import BY, MOVERS
from dynamo.replay.diff.distributions import KolmogorovSmirnov, kolmogorov_smirnov
from dynamo.replay.diff.joining import Joined
from dynamo.replay.diff.sides import Side, side
from dynamo.replay.explain import LATENCIES, PARTS_WITH_LOST

if TYPE_CHECKING:
    from dynamo.replay.diff.figures import Floats

_TESTED = {"ttft_ms": "ttft_ms", "tpot_ms": "itl_ms", "e2e_latency_ms": "e2e_latency_ms"}


@dataclass(frozen=True)
class Change:
    """A figure of both runs. ``percent`` is None where one of them does not exist, and infinite for a change from 0."""

    a: float | None
    b: float | None
    change: float | None
    percent: float | None


@dataclass(frozen=True)
class Waterfall:
    """A statistic of a latency in both runs, and how much each part adds to the difference. ``parts`` add up to it."""

    a: float
    b: float
    parts: Mapping[str, float]


@dataclass
class Comparison:
    """What differs between two runs, A and B. Times are in milliseconds of simulated time."""

    a: str
    b: str
    metrics: dict[str, Change]
    """Every number that both reports have, or one of them, by key."""
    waterfalls: dict[str, dict[str, Waterfall]]
    """By latency (``ttft_ms``, ``e2e_latency_ms``) and statistic; empty unless both runs were explained."""
    tests: dict[str, KolmogorovSmirnov]
    """By latency; empty without rows."""
    joined: Joined | None
    """The requests of both, their movers and routing decisions; None without rows of both."""
    verdicts: list[Verdict] = field(default_factory=list)
    quantiles: dict[str, tuple[list[float], list[float]]] = field(default_factory=dict)
    """By latency, that of each hundredth of the requests of both runs, from 0 to 100; empty without rows."""

    @property
    def failed(self) -> bool:
        """Whether a condition fails."""
        return any(verdict.failed for verdict in self.verdicts)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values, as ``--json`` prints it."""
        return {
            "a": self.a,
            "b": self.b,
            "metrics": {key: asdict(change) for key, change in self.metrics.items()},
            "waterfalls": {
                latency: {statistic: asdict(fall) for statistic, fall in falls.items()}
                for latency, falls in self.waterfalls.items()
            },
            "ks": {key: test._asdict() for key, test in self.tests.items()},
            "joined": None if self.joined is None else self.joined.to_dict(),
            "conditions": [verdict._asdict() for verdict in self.verdicts],
        }


def compare(
    a: Mapping[str, Any] | str | os.PathLike[str],
    b: Mapping[str, Any] | str | os.PathLike[str],
    *,
    fail_if: Sequence[str] = (),
    movers: int = MOVERS,
    by: str = BY,
) -> Comparison:
    """Compares two runs, each a report or the path of a report or of rows.

    ``fail_if`` are conditions such as ``"p99_ttft_ms > +5%"``, ``movers`` says how many requests are listed in either
    direction, by the change of the latency ``by``. Raises ValueError and TypeError.
    """
    return compare_sides(side("A", a), side("B", b), fail_if=fail_if, movers=movers, by=by)


def compare_sides(a: Side, b: Side, *, fail_if: Sequence[str] = (), movers: int = MOVERS, by: str = BY) -> Comparison:
    """Compares two runs that have been read. Raises ValueError."""
    conditions = [parse_condition(text) for text in fail_if]
    if by not in LATENCIES:
        raise ValueError(f"by: got {by!r}, want {' or '.join(LATENCIES)}")
    joined = None if a.rows is None or b.rows is None else joining.join(a.rows, b.rows, movers, by)
    latencies = _latencies(a, b)
    tests = {key: kolmogorov_smirnov(*both) for key, both in latencies.items()}
    before, after = _checked(a), _checked(b)
    after.update({f"ks_{key}": test.statistic for key, test in tests.items()})
    return Comparison(
        a=a.name,
        b=b.name,
        metrics=_metrics(a, b),
        waterfalls=_waterfalls(a, b),
        tests=tests,
        joined=joined,
        verdicts=[condition.check(before, after) for condition in conditions],
        quantiles={key: (_hundredths(one), _hundredths(other)) for key, (one, other) in latencies.items()},
    )


def _checked(run: Side) -> dict[str, float | None]:
    """What conditions may name: keys of the report, and parts of statistics as ``p99_ttft_ms.worker_wait``."""
    parts = {
        f"{statistic}_{latency}.{part}": ms
        for latency, split in run.splits.items()
        for statistic, shares in split.items()
        for part, ms in shares.items()
        if part in PARTS_WITH_LOST
    }
    return {**run.metrics, **parts}


def _metrics(a: Side, b: Side) -> dict[str, Change]:
    names = [*a.metrics, *(key for key in b.metrics if key not in a.metrics)]
    return {key: _change(a.metrics.get(key), b.metrics.get(key)) for key in names}


def _change(a: float | None, b: float | None) -> Change:
    if a is None or b is None:
        return Change(a, b, None, None)
    return Change(a, b, b - a, percentage(a, b))


def _waterfalls(a: Side, b: Side) -> dict[str, dict[str, Waterfall]]:
    found: dict[str, dict[str, Waterfall]] = {}
    for latency in LATENCIES:
        before, after = a.splits.get(latency, {}), b.splits.get(latency, {})
        falls = {
            statistic: Waterfall(
                before[statistic]["total"],
                after[statistic]["total"],
                {
                    part: after[statistic].get(part, 0.0) - before[statistic].get(part, 0.0)
                    for part in PARTS_WITH_LOST
                    if part in before[statistic] or part in after[statistic]
                },
            )
            for statistic in before
            if statistic in after
        }
        if falls:
            found[latency] = falls
    return found


def _latencies(a: Side, b: Side) -> dict[str, tuple[Floats, Floats]]:
    """Returns the latencies of the requests of both runs, by their names; none without rows of both."""
    if a.rows is None or b.rows is None:
        return {}
    found = {}
    for key, column in _TESTED.items():
        before, after = (values[~np.isnan(values)] for values in (figures.numbers(s, column) for s in (a.rows, b.rows)))
        if len(before) and len(after):
            found[key] = before, after
    return found


def _hundredths(values: Floats) -> list[float]:
    return [float(ms) for ms in np.quantile(values, np.linspace(0, 1, 101))]
