"""Figures of a point: the numbers of its reports, what follows from them, and how sure they are."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from dynamo import _core
from dynamo._core import spelling, values
from dynamo.replay import latencies

CLOCK_KEYS = frozenset({"wall_time_ms", "processed_tokens_per_s", "processed_output_tokens_per_s"})
"""Keys of a report that say how fast the simulation was. They differ between equal runs, and are no figures."""

_TEXT_KEYS = frozenset(
    {"timing_model", "scheduler", "provenance", "scaling_events", "planner", "fault_events", "durations", "tenants"}
)
# Two-sided 95 % quantiles of Student's t for 1 to 30 degrees of freedom.
_T95 = (
    12.706204736432095, 4.302652729911275, 3.182446305284263, 2.776445105197799, 2.570581835636314,
    2.4469118511449692, 2.3646242515927844, 2.306004135204166, 2.262157162798205, 2.2281388519649385,
    2.200985160082949, 2.1788128296634177, 2.1603686564627926, 2.1447866879169273, 2.131449545559323,
    2.1199052992210112, 2.1098155778331806, 2.10092204024096, 2.093024054408263, 2.0859634472658364,
    2.079613844727662, 2.0738730679040147, 2.0686576104190406, 2.0638985616280205, 2.059538552753294,
    2.055529438642871, 2.0518305164802833, 2.048407141795244, 2.045229642132703, 2.0422724563012373,
)  # fmt: skip
_Z95 = 1.959963984540054


class Figure(NamedTuple):
    """A number of a point. Without repeated draws it has no interval."""

    mean: float
    low: float | None = None
    high: float | None = None
    """The ends of its 95 % interval."""


Report = Mapping[str, Any]


def offered_rps(arrivals_ms: Sequence[float]) -> float:
    """How many requests arrive per second between the first and the last arrival; 0 if all arrive at once."""
    span = max(arrivals_ms) - min(arrivals_ms)
    return 1000 * len(arrivals_ms) / span if span else 0.0


class Context(NamedTuple):
    """What figures need beside the report of a run."""

    gpus: float
    gpu_hour_price: float | None
    arrival_rps: float | None
    """Requests that arrive per second, with the arrival_speedup_ratio of the run."""


def _per_gpu(key: str) -> Callable[[Report, Context], float | None]:
    return lambda report, context: _ratio(report.get(key), context.gpus)


def _ratio(above: float | None, below: float | None) -> float | None:
    return None if above is None or not below else above / below


def _of_tenants(report: Report, key: str) -> float | None:
    """The sum of a number over all tenants, None if they have none: without tenants or deadlines in the trace."""
    counts = [tenant[key] for tenant in report.get("tenants", ()) if key in tenant]
    return sum(counts) if counts else None


def _cost(tokens: Callable[[Report], float]) -> Callable[[Report, Context], float | None]:
    def cost(report: Report, context: Context) -> float | None:
        if context.gpu_hour_price is None:
            return None
        return _ratio(context.gpu_hour_price * report["gpu_hours"] * 1e6, tokens(report))

    return cost


class _Derived(NamedTuple):
    of: Callable[[Report, Context], float | None]
    maximize: bool
    meaning: str


DERIVED: Mapping[str, _Derived] = {
    "output_tok_s_per_gpu": _Derived(_per_gpu("output_throughput_tok_s"), True, "output tokens/s of all GPUs, per GPU"),
    "total_tok_s_per_gpu": _Derived(_per_gpu("total_throughput_tok_s"), True, "input and output tokens/s, per GPU"),
    "tok_s_per_user": _Derived(
        lambda report, _: _ratio(1000, report["mean_tpot_ms"]),
        True,
        "1000 / mean_tpot_ms: how fast a user reads",
    ),
    "goodput_rps_per_gpu": _Derived(
        _per_gpu("goodput_request_throughput_rps"), True, "goodput_request_throughput_rps, per GPU"
    ),
    "goodput_ratio": _Derived(
        lambda report, _: _ratio(report.get("goodput_completed_requests"), report["num_requests"]),
        True,
        "requests within sla_ttft_ms, sla_tpot_ms and sla_e2e_ms of the run, of all that arrived",
    ),
    "gpus": _Derived(lambda _, context: context.gpus, False, "GPUs of all workers; the mean with a planner"),
    "scaling_changes": _Derived(
        lambda report, _: len(report["scaling_events"]) if "scaling_events" in report else None,
        False,
        "how often a planner has changed the number of workers",
    ),
    "held_requests": _Derived(
        lambda report, _: report.get("held_requests"), False, "requests that found no active worker"
    ),
    "cold_worker_requests": _Derived(
        lambda report, _: report.get("cold_worker_requests"), False, "requests sent to a worker that had just started"
    ),
    "tenant_jain_index": _Derived(
        lambda report, _: report.get("tenant_jain_index"),
        True,
        "how equal tenants are served: 1 if all got as many tokens",
    ),
    "deadline_met_requests": _Derived(
        lambda report, _: _of_tenants(report, "deadline_met_requests"),
        True,
        "requests whose first token was there by their deadline, of all tenants",
    ),
    "deadline_met_ratio": _Derived(
        lambda report, _: _ratio(
            _of_tenants(report, "deadline_met_requests"), _of_tenants(report, "deadline_requests")
        ),
        True,
        "the same, of all requests with a deadline, rejected ones among them",
    ),
    "cost_per_million_output_tokens": _Derived(
        _cost(lambda report: report["total_output_tokens"]), False, "gpu_hours times gpu_hour_price, by output tokens"
    ),
    "cost_per_million_tokens": _Derived(
        _cost(lambda report: report["processed_tokens"]), False, "the same, by input and output tokens"
    ),
    "arrival_rps": _Derived(lambda _, context: context.arrival_rps, True, "requests that arrive per second"),
    "arrival_rps_per_gpu": _Derived(
        lambda _, context: _ratio(context.arrival_rps, context.gpus), True, "requests that arrive per second, per GPU"
    ),
}
"""Figures that no report has."""

COSTS = frozenset(name for name in DERIVED if name.startswith("cost"))

_SMALL = re.compile(r"_(ms|hours|seconds)$|^rejected_requests$|^gpu_cost$|gpus_per_worker$")
_LARGE = re.compile(r"throughput|_(rps|tok_s|ratio)$|^(completed|finished)_requests$|^goodput_")
_NEUTRAL = re.compile(r"^(std|count)_|^num_requests$|^total_|^processed_tokens$")


def maximizes(name: str) -> bool | None:
    """Whether more of a figure is better; None if that cannot be said of it."""
    if name in DERIVED:
        return DERIVED[name].maximize
    if _NEUTRAL.search(name):
        return None
    return True if _LARGE.search(name) else False if _SMALL.search(name) else None


def mean_gpus(report: Report) -> float:
    """How many GPUs a run had on average, from its start to its last token."""
    return _ratio(report["gpu_hours"] * 3.6e6, report["duration_ms"]) or 0.0


@cache
def names() -> list[str]:
    """All figures."""
    return [*DERIVED, *(key for key in _core.foresee([])["keys"] if key not in CLOCK_KEYS | _TEXT_KEYS)]


def check(where: str, given: str) -> str:
    """Returns the key of a figure from its name or other name. Raises ValueError unless there is such a figure."""
    name = latencies.recorded(given)
    if name not in names():
        near = spelling.nearest(given, [*names(), *map(latencies.shown, names())])
        hint = (
            f"did you mean {near}?"
            if near
            else "want a key of the report (docs/report.md) or a figure of docs/sweeps.md"
        )
        raise ValueError(f"{where}: unknown figure {values.brief(values.show(given))}, {hint}")
    return name


def meaning(name: str) -> str:
    """What a figure is, "" for one that its name tells."""
    return DERIVED[name].meaning if name in DERIVED else latencies.meaning(name)


def of_run(report: Report, context: Context) -> dict[str, float | None]:
    """All figures of one run."""
    found = {name: derived.of(report, context) for name, derived in DERIVED.items()}
    return {**found, **{key: report[key] for key in report if key not in CLOCK_KEYS | _TEXT_KEYS}}


def combine(runs: Sequence[Mapping[str, float | None]], *, around_first: bool) -> dict[str, Figure]:
    """The figures of a point from those of its runs. A figure that a run lacks is left out.

    Runs with different seeds are independent draws: a figure is their mean, with Student's interval of a mean,

        mean +- t(0.975, n-1) * s / sqrt(n)

    ``around_first`` is for bootstrapped traces: the first run is that of the trace itself and gives the figure, the
    others show how much it would vary between such traces (the standard bootstrap interval):

        first +- t(0.975, n-1) * s        with n and s of the others
    """
    found = {}
    for name in runs[0]:
        numbers = [run.get(name) for run in runs]
        if all(number is not None for number in numbers):
            found[name] = _figure([float(number) for number in numbers if number is not None], around_first)
    return found


def _figure(numbers: Sequence[float], around_first: bool) -> Figure:
    drawn = numbers[1:] if around_first else numbers
    if len(drawn) < 2:
        return Figure(numbers[0])
    mean = math.fsum(drawn) / len(drawn)
    deviation = math.sqrt(math.fsum((number - mean) ** 2 for number in drawn) / (len(drawn) - 1))
    half = quantile(len(drawn) - 1) * deviation
    centre = numbers[0] if around_first else mean
    if not around_first:
        half /= math.sqrt(len(drawn))
    return Figure(centre, centre - half, centre + half)


def quantile(freedom: int) -> float:
    """t(0.975) with ``freedom`` degrees of freedom, beyond 30 by the Cornish-Fisher expansion: errors below 1e-6."""
    if freedom <= len(_T95):
        return _T95[freedom - 1]
    z, n = _Z95, freedom
    terms = (
        z,
        (z**3 + z) / (4 * n),
        (5 * z**5 + 16 * z**3 + 3 * z) / (96 * n**2),
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * n**3),
    )
    return math.fsum(terms)
