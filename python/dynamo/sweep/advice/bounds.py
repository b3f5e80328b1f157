"""What cannot be the answer, and why: proofs from one request alone, and from the beginning of a run.

A run that is ended after some simulated time is the beginning of the whole run: what has happened in it has happened.
A request that had its first token too late has it too late in the whole run, and so has every gap of tokens. So
if more requests are late by then than the bound allows of all, the whole run misses it, whatever comes later.
"""

from __future__ import annotations

import bisect
import math
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from dynamo.replay import latencies
from dynamo.sweep.sla import Bound
from dynamo.sweep.wording import number

Figures = Mapping[str, float]

SLACK = 0.1
"""How much faster than its fastest pass a deployment is taken to be: tables of durations are not quite monotone."""
# Statistics of a report, by the share of the values that are at most as large.
_SHARES = {"p99": 0.99, "p95": 0.95, "p90": 0.9, "p75": 0.75, "median": 0.5, "p50": 0.5}
_NAME = re.compile(r"(p99|p95|p90|p75|p50|median|mean|max|min)_(ttft_ms|tpot_ms|itl_ms|e2e_latency_ms)")
# Definitions of a percentile differ by less than this number of values.
_ROUNDING = 2


def alone(bounds: Sequence[Bound], figures: Figures) -> str:
    """Why a deployment misses a bound even if it has nothing else to do, by a request with one token alone; "" if not.

    Every first token needs a pass with at least one token, and every gap a pass with at least one sequence.
    """
    for bound in bounds:
        match = _NAME.fullmatch(latencies.recorded(bound.figure))
        if match is None or not bound.at_most:
            continue
        kind = match[2]
        fastest = figures.get("min_ttft_ms" if kind in ("ttft_ms", "e2e_latency_ms") else "min_itl_ms")
        if fastest is not None and fastest * (1 - SLACK) > bound.limit:
            what = "the first token of a request alone" if kind in ("ttft_ms", "e2e_latency_ms") else "a pass alone"
            return f"{bound}: {what} takes {number(fastest)} ms"
    return ""


class Beginning(NamedTuple):
    """When a run was ended, and when requests arrive, if that is the same whatever serves them."""

    at_ms: float
    arrivals_ms: Sequence[float]
    """In order; empty if it depends on what serves them."""

    def waiting(self, limit: float, figures: Figures) -> int:
        """How many requests had no first token by then although they arrived longer ago than a limit, at the least."""
        if figures.get("rejected_requests", 0.0):
            return 0
        return max(0, bisect.bisect_left(self.arrivals_ms, self.at_ms - limit) - int(figures.get("count_ttft_ms", 0)))


def of_beginning(
    bounds: Sequence[Bound], figures: Figures, whole: Figures, beginning: Beginning, margin: float = 0.0
) -> str:
    """Why a run misses a bound, by the figures of its beginning and the counts of the whole; "" if that is open.

    With a margin, by which figures may be off, only what is over the limit by more than this part of it counts.
    """
    for bound in bounds:
        rejected = figures.get("rejected_requests", 0.0)
        if bound.figure == "rejected_requests" and bound.at_most and rejected > bound.limit:
            return f"{bound}: {rejected:g} are rejected already"
        name = latencies.recorded(bound.figure)
        match = _NAME.fullmatch(name)
        if match is None or not bound.at_most:
            continue
        statistic, kind = match.groups()
        limit = bound.limit * (1 + margin)
        total = whole.get(f"count_{kind}")
        if not total:
            continue
        if statistic == "mean":
            if not _is_final(kind):
                continue
            least = figures.get(name, 0.0) * figures.get(f"count_{kind}", 0.0) / total
            if least > limit:
                return f"{bound}: at least {number(least)} by what has happened already"
            continue
        late = _late(kind, limit, figures)
        if kind in ("ttft_ms", "e2e_latency_ms"):
            late += beginning.waiting(limit, figures)
        if late > allowed(statistic, total):
            far = f" by more than {100 * margin:g} %" if margin else ""
            return f"{bound}: at least {late:,} of {total:,.0f} are over it{far} by what has happened already"
    return ""


class LateLimit(NamedTuple):
    """How many latencies of a kind may be over a limit in a run that keeps a bound."""

    bound: Bound
    kind: str
    """As the option ``stop_when_late`` of a run names it."""
    limit_ms: float
    most: int


_NOUNS = {
    "ttft_ms": "first tokens",
    "itl_ms": "gaps between tokens",
    "tpot_ms": "mean gaps of requests",
    "e2e_ms": "whole latencies",
}
_STOPPED = {"ttft_ms": "ttft_ms", "itl_ms": "itl_ms", "tpot_ms": "tpot_ms", "e2e_latency_ms": "e2e_ms"}


def late_limits(bounds: Sequence[Bound], whole: Figures, margin: float) -> list[LateLimit]:
    """What ends a run that misses a bound, the first one of each kind, by the counts of a whole run."""
    found: dict[str, LateLimit] = {}
    for bound in bounds:
        match = _NAME.fullmatch(latencies.recorded(bound.figure))
        if match is None or not bound.at_most or match[1] in ("mean", "min"):
            continue
        kind, total = _STOPPED[match[2]], whole.get(f"count_{match[2]}")
        if total and kind not in found:
            found[kind] = LateLimit(bound, kind, bound.limit * (1 + margin), int(allowed(match[1], total)))
    return list(found.values())


def covers(limits: Sequence[LateLimit], bounds: Sequence[Bound]) -> bool:
    """Whether these limits stop a run for each of the bounds on latencies that it may miss."""
    latency = [bound for bound in bounds if _NAME.fullmatch(latencies.recorded(bound.figure)) and bound.at_most]
    return {limit.bound for limit in limits} >= set(latency)


def stopped(limits: Sequence[LateLimit], figures: Figures) -> str:
    """Why a run with these limits was stopped, "" if it went on to the end."""
    for limit in limits:
        if (late := int(figures.get(f"late_{limit.kind}", 0))) > limit.most:
            far = limit.limit_ms / limit.bound.limit - 1 if limit.bound.limit else 0
            over = f"it by more than {100 * far:.3g} %" if far else "it"
            may = f"{limit.most:,} of the whole run may be"
            return f"{limit.bound}: {late:,} {_NOUNS[limit.kind]} are over {over}, and {may}"
    return ""


def _is_final(kind: str) -> bool:
    """Whether a value stays as it is once it is there: first tokens and gaps do, means of a request only at its end."""
    return kind in ("ttft_ms", "itl_ms")


def _late(kind: str, limit: float, figures: Figures) -> int:
    """How many values are over a limit, at the least."""
    count = figures.get(f"count_{kind}", 0.0)
    found = 0
    if figures.get(f"max_{kind}", 0.0) > limit:
        found = 1
    for statistic, share in _SHARES.items():
        if figures.get(f"{statistic}_{kind}", 0.0) > limit:
            found = max(found, math.floor((1 - share) * count) - _ROUNDING)
    if figures.get(f"min_{kind}", 0.0) > limit:
        found = int(count)
    if not _is_final(kind):  # those that are still being served may yet improve
        found -= int(figures["num_requests"] - figures.get("finished_requests", figures["completed_requests"]))
    return max(found, 0)


def allowed(statistic: str, total: float) -> float:
    """How many of all values may be over a limit that the statistic keeps, at the most."""
    if statistic == "max":
        return 0
    if statistic == "min":
        return total - 1
    return math.ceil((1 - _SHARES[statistic]) * total) + _ROUNDING
