"""Service levels: bounds on figures, and which of them a point misses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dynamo._core import values
from dynamo.replay import latencies
from dynamo.sweep import figures
from dynamo.sweep.figures import Figure


@dataclass(frozen=True)
class Bound:
    """A figure must be at most, or at least, a limit."""

    figure: str
    limit: float
    at_most: bool

    def __str__(self) -> str:
        return f"{latencies.shown(self.figure)} {'<=' if self.at_most else '>='} {self.limit:g}"

    def keeps(self, number: float) -> bool:
        """Whether a number is within the bound."""
        return number <= self.limit if self.at_most else number >= self.limit

    def excess(self, number: float) -> float:
        """How far a number is beyond the bound, as a part of the limit; 0 or less within it."""
        over = number - self.limit if self.at_most else self.limit - number
        return over / abs(self.limit) if self.limit else over


def bound_of(verdict: Mapping[str, Any]) -> Bound:
    """The bound of a verdict that ``to_json`` has made."""
    at_most = "at_most" in verdict
    return Bound(verdict["figure"], verdict["at_most" if at_most else "at_least"], at_most)


def miss(verdict: Mapping[str, Any], figure: Figure) -> float:
    """Returns by which part of the limit a bound is missed, 0 if it is met.

    A bound that is met, but not within the whole 95 % interval, is missed by the end of the interval.
    """
    bound = bound_of(verdict)
    ends = [] if verdict["sure"] else [end for end in (figure.low, figure.high) if end is not None]
    numbers = ends if verdict["met"] else [figure.mean]
    return max((bound.excess(number) for number in numbers), default=0.0)


@dataclass(frozen=True)
class Verdict:
    """What became of one bound. Without the figure it is not met."""

    bound: Bound
    figure: Figure | None
    met: bool
    sure: bool
    """Whether the whole 95 % interval is on the same side; True without an interval."""

    def to_json(self) -> dict[str, Any]:
        value = None if self.figure is None else self.figure.mean
        return {
            "figure": self.bound.figure,
            "at_most" if self.bound.at_most else "at_least": self.bound.limit,
            "value": value,
            "met": self.met,
            "sure": self.sure,
        }

    def reason(self) -> str:
        """Why the bound is missed, for people."""
        got = "there is no value" if self.figure is None else f"got {self.figure.mean:.6g}"
        if self.met and self.figure is not None:
            got += f", with 95 % from {self.figure.low:.6g} to {self.figure.high:.6g}"
        return f"{self.bound}: {got}"


def parse(given: object) -> tuple[Bound, ...]:
    """Reads ``sla``, an object from figures to limits. Raises ValueError.

    Nothing may be rejected unless it says otherwise: a deployment that turns requests away does not serve the workload.
    """
    if given is None:
        given = {}
    if not isinstance(given, Mapping):
        raise ValueError(f"sla: got {values.show(given)}, want an object such as {{p99_ttft_ms: 2000}}")
    bounds = []
    for name, limit in given.items():
        bounds += _bounds(figures.check("sla", str(name)), limit)
    if not any(bound.figure == "rejected_requests" for bound in bounds):
        bounds.insert(0, Bound("rejected_requests", 0, True))
    return tuple(bounds)


def _bounds(name: str, limit: object) -> list[Bound]:
    if isinstance(limit, Mapping):
        if not limit or set(limit) - {"min", "max"}:
            raise ValueError(f"sla: {name}: got {values.show(limit)}, want min, max or both")
        found = [Bound(name, _number(name, limit[side]), side == "max") for side in ("min", "max") if side in limit]
        if len(found) == 2 and found[0].limit > found[1].limit:
            raise ValueError(f"sla: {name}: got {values.show(limit)}, want min at most max: nothing could keep both")
        return found
    larger = figures.maximizes(name)
    if larger is None:
        raise ValueError(f"sla: {name}: got {values.show(limit)}, want {{min: ...}} or {{max: ...}} for this figure")
    return [Bound(name, _number(name, limit), not larger)]


def _number(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not values.is_finite(value):
        raise ValueError(f"sla: {name}: got {values.show(value)}, want {values.FINITE}")
    return value


def judge(bounds: Sequence[Bound], found: Mapping[str, Figure]) -> list[Verdict]:
    """The verdict on each bound."""
    verdicts = []
    for bound in bounds:
        figure = found.get(bound.figure)
        met = figure is not None and bound.keeps(figure.mean)
        ends = [] if figure is None else [end for end in (figure.low, figure.high) if end is not None]
        verdicts.append(Verdict(bound, figure, met, all(bound.keeps(end) == met for end in ends)))
    return verdicts


def binding(verdicts: Sequence[Verdict], *, sure: bool = False) -> Verdict | None:
    """The bound that is missed by most, None if all are met. With ``sure``, whole intervals have to meet them."""
    missed = [verdict for verdict in verdicts if not verdict.met]
    if sure and not missed:
        missed = [verdict for verdict in verdicts if not verdict.sure]
    return max(missed, key=_miss, default=None)


def _miss(verdict: Verdict) -> float:
    return float("inf") if verdict.figure is None else verdict.bound.excess(verdict.figure.mean)
