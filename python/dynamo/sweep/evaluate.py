"""Points become results: draws are repeated, bounds are checked, loads and sizes are searched for."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from dynamo.replay import deployment
from dynamo.replay.durations import Durations
from dynamo.sweep import figures, points, sla
from dynamo.sweep.figures import Figure
from dynamo.sweep.folder import Finished
from dynamo.sweep.runs import Prepared, Runs, durations_of, warnings_of
from dynamo.sweep.simulate import timed_out
from dynamo.sweep.sla import Verdict
from dynamo.sweep.spec import FIND_MAX_RATE, Spec
from dynamo.sweep.store import FAILED, INFEASIBLE, OK, REJECTED, TIMED_OUT, Run

Knobs = Mapping[str, Any]


class Ended(Exception):
    """A point has no figures, and why."""

    def __init__(self, status: str, reason: str, arguments: Mapping[str, Any] | None = None) -> None:
        super().__init__(reason)
        self.finished = Finished(status, reason, {} if arguments is None else {"arguments": arguments})


class Measured(NamedTuple):
    """The figures of one deployment under one load."""

    prepared: Prepared
    """Its first run."""
    keys: Sequence[str]
    figures: Mapping[str, Figure]
    verdicts: Sequence[Verdict]
    warnings: Sequence[str]
    durations: Durations
    """What the durations of its first run are of."""
    sure: bool
    """Whether the SLA must be kept within the whole 95 % intervals."""

    @property
    def binding(self) -> Verdict | None:
        """The bound that is missed by most, None if all are met."""
        return sla.binding(self.verdicts, sure=self.sure)

    def finished(self, **more: Any) -> Finished:
        """The point of which this is the result."""
        missed = self.binding
        outcome = {
            "figures": {name: _plain(figure) for name, figure in self.figures.items()},
            "sla": [verdict.to_json() for verdict in self.verdicts],
            "arguments": self.prepared.arguments,
            "deployment": deployment.of(self.prepared.facts["arguments"]),
            "runs": list(self.keys),
            "warnings": list(self.warnings),
            "durations": list(self.durations),
            **more,
        }
        return Finished(OK if missed is None else INFEASIBLE, missed.reason() if missed else "", outcome)


def _plain(figure: Figure) -> float | list[float | None]:
    return figure.mean if figure.low is None else list(figure)


def figure(plain: float | Sequence[float | None]) -> Figure:
    """A figure of an outcome."""
    return Figure(*plain) if isinstance(plain, Sequence) else Figure(plain)  # type: ignore[arg-type]  # its mean is no None


class Evaluator:
    """Evaluates points. Threads can share it. ``draws`` returns the keys that each repetition of a point sets."""

    def __init__(self, spec: Spec, runs: Runs, draws: Callable[[Knobs], Sequence[Knobs]]) -> None:
        self._spec = spec
        self._runs = runs
        self._draws = draws

    def look_ahead(self, many: Sequence[Knobs]) -> None:
        """Prepares for points that will soon be evaluated."""
        if self._spec.load is None:
            self._runs.look_ahead(
                arguments
                for knobs in many
                for draw in self._draws(knobs)
                if (arguments := _configured(self._spec, knobs, draw))
            )

    def __call__(self, knobs: Knobs) -> Finished:
        """How a point ends. Raises Stopped if the sweep is about to end first."""
        ends = None if self._spec.timeout_s is None else time.monotonic() + self._spec.timeout_s
        probe = _Probe(self._spec, self._runs, self._draws(knobs), knobs, ends)
        try:
            if self._spec.load is None:
                return probe.measure({}).finished()
            if self._spec.load.kind == FIND_MAX_RATE:
                return _find_max_rate(self._spec, probe)
            return _find_min_gpus(self._spec, probe)
        except Ended as ended:
            return ended.finished


def _configured(spec: Spec, knobs: Knobs, extra: Knobs) -> dict[str, Any] | None:
    """The run of a point, None if there is a mistake in it."""
    try:
        return points.configure(spec, knobs, extra)
    except (TypeError, ValueError, FileNotFoundError):
        return None


class _Probe:
    """Measures one point under different loads and sizes."""

    def __init__(self, spec: Spec, runs: Runs, draws: Sequence[Knobs], knobs: Knobs, ends: float | None) -> None:
        self._spec, self._runs, self._draws, self._knobs, self._ends = spec, runs, draws, knobs, ends
        self.probes = 0

    def prepare(self, extra: Knobs) -> Prepared:
        """What is known of the first run. Raises Ended."""
        try:
            arguments = points.configure(self._spec, self._knobs, extra)
        except (TypeError, ValueError, FileNotFoundError) as error:
            raise Ended(REJECTED, str(error)) from None
        prepared = self._runs.prepare(arguments)
        if "error" in prepared.facts:
            raise Ended(REJECTED, prepared.facts["error"], arguments)
        return prepared

    def constraint(self, prepared: Prepared, extra: Knobs) -> str:
        """Why a deployment cannot be feasible, by what is known before it runs; "" if nothing says so."""
        known = {
            "gpus": prepared.gpus,
            "prefill_gpus": prepared.facts["prefill_gpus"],
            "decode_gpus": prepared.facts["decode_gpus"],
            **extra,
        }
        look = points.lookup(self._spec, self._knobs, known)
        for condition in self._spec.where:
            try:
                if not condition.holds(look):
                    return f"where: {condition.text} (gpus is {prepared.gpus})"
            except ValueError as error:
                raise Ended(REJECTED, str(error), prepared.arguments) from None
        serves_all = any(bound.figure == "rejected_requests" and bound.limit == 0 for bound in self._spec.sla)
        return str(prepared.facts["misfit"]) if serves_all else ""

    def measure(self, extra: Knobs) -> Measured:
        """The figures with some keys set otherwise. Raises Ended."""
        self.probes += 1
        first = self.prepare({**self._draws[0], **extra})
        if reason := self.constraint(first, extra):
            raise Ended(INFEASIBLE, reason, first.arguments)
        prepared = [first, *(self.prepare({**draw, **extra}) for draw in self._draws[1:])]
        results = [self._result(run) for run in prepared]
        found = figures.combine(
            [self._figures(run, result) for run, result in zip(prepared, results, strict=True)],
            around_first=self._spec.bootstrap,
        )
        verdicts = sla.judge(self._spec.sla, found)
        sure = self._spec.load is not None and self._spec.load.sure
        return Measured(
            first, [run.key for run in prepared], found, verdicts, warnings_of(results), durations_of(results), sure
        )

    def _result(self, run: Prepared) -> Run:
        result = self._runs.result(run, self._ends)
        if result.status == TIMED_OUT:
            raise Ended(TIMED_OUT, timed_out(self._spec.timeout_s).reason, run.arguments)
        if result.status != OK:
            raise Ended(result.status, result.reason, run.arguments)
        return result

    def _figures(self, run: Prepared, result: Run) -> dict[str, float | None]:
        report = result.figures()
        gpus = figures.mean_gpus(report) if "scaling_events" in report else run.gpus
        context = figures.Context(gpus, self._spec.gpu_hour_price, run.arrival_rps)
        return figures.of_run(report, context)


# How far the rate is moved, in doublings, until bounds are found around the highest one.
_MOST_DOUBLINGS = 20


def _find_max_rate(spec: Spec, probe: _Probe) -> Finished:
    """The highest arrival rate that keeps the SLA, by doubling and then bisection on a logarithmic scale.

    Latencies are taken to grow with the rate. Where they do not, the result is one of several such rates.
    """
    load = spec.load
    assert load is not None
    nominal = probe.prepare({}).facts["arrival_rps"]
    if not nominal:
        raise Ended(REJECTED, "find_max_rate: the requests of this workload do not arrive by the clock")

    def at(rate: float) -> Measured:
        return probe.measure({"arrival_speedup_ratio": rate / nominal})

    rate = min(max(nominal, load.low), load.high)
    measured = at(rate)
    best = measured if measured.binding is None else None
    low, high, missed = (rate, load.high, None) if best else (load.low, rate, measured.binding)
    for _ in range(_MOST_DOUBLINGS):
        if (best and missed) or (best and rate >= load.high) or (not best and rate <= load.low):
            break
        rate = min(2 * rate, load.high) if missed is None else max(rate / 2, load.low)
        measured = at(rate)
        if measured.binding is None:
            best, low = measured, rate
        else:
            missed, high = measured.binding, rate
    if best is None:
        return measured.finished(probes=probe.probes, limited_by=f"missed even at {rate:.4g} requests/s")
    if missed is None and rate < load.high:
        raise Ended(
            FAILED,
            f"find_max_rate: the SLA is kept even at {rate:.4g} requests/s: want a longer workload, or high_rps",
            best.prepared.arguments,
        )
    while missed and high / low > 1 + load.tolerance:
        rate = (low * high) ** 0.5
        measured = at(rate)
        if measured.binding is None:
            best, low = measured, rate
        else:
            missed, high = measured.binding, rate
    limited = f"{missed.reason()} at {high:.4g} requests/s" if missed else f"high_rps, {load.high:g}"
    return best.finished(probes=probe.probes, limited_by=limited)


class _Sizes:
    """Deployments of one point with different numbers of workers. What a condition forbids does not keep the SLA."""

    def __init__(self, probe: _Probe) -> None:
        self._probe = probe
        self.missed: Ended | Measured | None = None

    def keeps(self, **workers: int) -> Measured | None:
        """The deployment with these workers if it keeps the SLA. Raises Ended if it could not be run."""
        try:
            measured = self._probe.measure(workers)
        except Ended as ended:
            if ended.finished.status != INFEASIBLE:
                raise
            self.missed = ended
            return None
        if measured.binding is None:
            return measured
        self.missed = measured
        return None

    def fewest(self, most: int, size: Callable[[int], Mapping[str, int]]) -> tuple[int, Measured] | None:
        """The least number up to ``most`` that keeps the SLA, by bisection; None if even ``most`` does not.

        More workers are taken to be at least as good.
        """
        below, count, best = 0, 1, None
        while best is None:
            best = self.keeps(**size(count))
            if best is None:
                if count == most:
                    return None
                below, count = count, min(2 * count, most)
        while count - below > 1:
            middle = (below + count) // 2
            if (found := self.keeps(**size(middle))) is not None:
                count, best = middle, found
            else:
                below = middle
        return count, best


def _find_min_gpus(spec: Spec, probe: _Probe) -> Finished:
    """The deployment with the fewest GPUs, up to the bound of the specification, that keeps the SLA."""
    load = spec.load
    assert load is not None
    most = int(load.high)
    one = probe.prepare({"num_workers": 1}).facts  # which means nothing for two pools
    sizes = _Sizes(probe)
    prefill, decode = int(one["prefill_gpus"]), int(one["decode_gpus"])
    if decode < 1:
        raise Ended(REJECTED, "find_min_gpus: workers without GPUs: want aic_tp_size above 0")
    best = _fewest_of_two(sizes, most, prefill, decode) if prefill else _fewest_of_one(sizes, most, decode)
    if best is not None:
        return best.finished(probes=probe.probes)
    missed = sizes.missed
    limit = f"missed with up to {most} GPUs"
    if isinstance(missed, Measured):
        return missed.finished(probes=probe.probes, limited_by=limit)
    reason = missed.finished.reason if missed else f"one worker needs more than {most} GPUs (max_gpus)"
    raise Ended(INFEASIBLE, reason)


def _fewest_of_one(sizes: _Sizes, most: int, gpus: int) -> Measured | None:
    if most < gpus:
        return None
    found = sizes.fewest(most // gpus, lambda count: {"num_workers": count})
    return found[1] if found else None


def _fewest_of_two(sizes: _Sizes, most: int, prefill_gpus: int, decode_gpus: int) -> Measured | None:
    """For each number of prefill workers the fewest decode workers, as long as that could be fewer GPUs in all."""
    best = None
    for prefill in range(1, most // prefill_gpus + 1):
        room = (most - prefill * prefill_gpus) // decode_gpus
        if room < 1:
            break

        def size(decode: int, prefill: int = prefill) -> Mapping[str, int]:
            return {"num_prefill_workers": prefill, "num_decode_workers": decode}

        if sizes.keeps(**size(room)) is None:
            continue
        found = sizes.fewest(room, size)
        assert found is not None
        best = found[1]
        most = prefill * prefill_gpus + found[0] * decode_gpus - 1
    return best
