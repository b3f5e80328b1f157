"""Finds the best of all candidates by as few runs as proofs allow.

Runs are points of sweeps, so they are kept and shared, and an interrupted search goes on where it was.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dynamo._core import values
from dynamo.replay import run_trace_replay
from dynamo.sweep import sweep
from dynamo.sweep.advice import bounds
from dynamo.sweep.advice.candidates import Candidate
from dynamo.sweep.advice.question import COST, FEWEST_GPUS, Question
from dynamo.sweep.store import INFEASIBLE, OK

Point = Mapping[str, Any]

BEGINNINGS = (1 / 8, 3 / 8)
"""Parts of the run, by simulated time, after which it is asked whether a candidate can still be the answer."""
# Fewer candidates are run whole at once: the beginnings would cost more than they save.
_WORTH_BEGINNING = 3
_KNOB = "deployment"
_ALONE = {"input_tokens": 1, "output_tokens": 9, "request_count": 1}
_WORKLOAD = ("trace", "trace_files", "trace_format", "trace_block_size", "arrival_speedup_ratio", "agentic_lanes")


@dataclass
class Found:
    """What became of all candidates."""

    whole: dict[str, Point] = field(default_factory=dict)
    """Points of those that were run to the end, in the order of their runs."""
    out: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Of the others how they were ruled out, and why."""
    best: str | None = None
    runs: int = 0
    """Runs that had to be simulated; others were known."""


class Runner:
    """Runs candidates as points of sweeps that share one store."""

    def __init__(self, question: Question, store: Path, execution: Mapping[str, Any], on_progress: Any) -> None:
        self.question = question
        self.store = store
        self.execution = execution
        self.on_progress = on_progress
        self.simulated = 0

    def spec(self, candidates: Sequence[Candidate], extra: Mapping[str, Any], **more: Any) -> dict[str, Any]:
        """The specification of a sweep over candidates."""
        question = self.question
        run = {**question.run, **extra}
        return {
            "run": {name: value for name, value in run.items() if value is not None},
            "search": {_KNOB: {"settings": {candidate.name: candidate.sets for candidate in candidates}}},
            "sla": question.sla,
            "objectives": ["gpus", "tok_s_per_user"],
            **({"gpu_hour_price": question.price} if question.price else {}),
            **more,
        }

    def run(
        self, candidates: Sequence[Candidate], extra: Mapping[str, Any] | None = None, **more: Any
    ) -> dict[str, Point]:
        """The points of candidates by their names. Raises ValueError if all are refused."""
        found = sweep.run(
            self.spec(candidates, extra or {}, **more), store=self.store, on_progress=self.on_progress, **self.execution
        )
        self.simulated += found.simulated
        return {point["knobs"][_KNOB]: point for point in found.points}


Rank = Callable[[Candidate, Point], tuple[float, ...]]


def rank(question: Question) -> Rank:
    """What orders candidates: the least is the best. Ties go to the deployment that users read fastest from."""

    def of(candidate: Candidate, point: Point) -> tuple[float, ...]:
        figures = point["figures"]
        speed = -figures.get("tok_s_per_user", 0.0)
        if question.objective == FEWEST_GPUS:
            return (candidate.gpus, speed)
        if question.objective == COST:
            return (figures["gpu_hours"], speed)
        return (-figures.get("goodput_completed_requests", 0.0), candidate.gpus, speed)

    return of


def keeps(question: Question, point: Point) -> bool:
    """Whether a point may be the answer: it keeps the SLA, or, for the most goodput, was run at all."""
    return point["status"] == OK or (question.objective not in (FEWEST_GPUS, COST) and point["status"] == INFEASIBLE)


def find(runner: Runner, candidates: Sequence[Candidate], *, exhaustive: bool = False) -> Found:
    """The best of all candidates. With ``exhaustive``, all are run to the end, whatever can be proven."""
    question, found = runner.question, Found()
    before = runner.simulated
    order = {candidate.name: at for at, candidate in enumerate(candidates)}
    by_name = {candidate.name: candidate for candidate in candidates}
    if exhaustive:
        found.whole = runner.run(candidates)
    else:
        _search(runner, candidates, found)
    ranked = rank(question)
    kept = [name for name, point in found.whole.items() if keeps(question, point)]
    found.best = min(kept, key=lambda name: (*ranked(by_name[name], found.whole[name]), order[name]), default=None)
    found.runs = runner.simulated - before
    return found


def _search(runner: Runner, candidates: Sequence[Candidate], found: Found) -> None:
    question = runner.question
    left = _possible_alone(runner, candidates, found)
    if not left:  # one of those that are too slow is run nevertheless: by how much it misses is worth knowing
        slow = [candidate for candidate in candidates if found.out[candidate.name][0] == "bound"]
        if slow and _reference(runner, slow, found) is not None:
            found.out = {name: why for name, why in found.out.items() if name not in found.whole}
        return
    reference = _reference(runner, left, found)
    if reference is None:
        return
    whole = reference["figures"]
    ranked = rank(question)
    arrivals = arrivals_ms(reference) if question.objective in (FEWEST_GPUS, COST) else []
    best: tuple[float, ...] | None = None
    by_name = {candidate.name: candidate for candidate in left}
    for name, point in found.whole.items():
        if keeps(question, point):
            best = ranked(by_name[name], point)
    for group in _groups(question, left):
        todo = [candidate for candidate in group if candidate.name not in found.whole]
        if best is not None and (reason := _beaten(question, group[0], best, whole)):
            for candidate in todo:
                found.out[candidate.name] = ("beaten", reason)
            continue
        for part in BEGINNINGS:
            if len(todo) >= _WORTH_BEGINNING:
                todo = _after(runner, todo, part, whole, arrivals, best, found)
        for name, point in _unless_refused(runner, todo, {}, found).items():
            found.whole[name] = point
            if keeps(question, point):
                now = ranked(by_name[name], point)
                best = now if best is None else min(best, now)


def _groups(question: Question, candidates: Sequence[Candidate]) -> list[list[Candidate]]:
    """Candidates with equally many GPUs together, the fewest first; the most first if goodput counts."""
    sizes = sorted({candidate.gpus for candidate in candidates}, reverse=question.objective not in (FEWEST_GPUS, COST))
    return [[candidate for candidate in candidates if candidate.gpus == size] for size in sizes]


def _beaten(question: Question, candidate: Candidate, best: tuple[float, ...], whole: Mapping[str, float]) -> str:
    """Why no candidate with so many GPUs can beat the best one, "" if one may."""
    if question.objective == FEWEST_GPUS and candidate.gpus > best[0]:
        return f"{best[0]:g} GPUs are enough"
    if question.objective == COST:
        rate = whole.get("arrival_rps")
        hours = candidate.gpus * (whole["num_requests"] - 1) / rate / 3600 if rate else 0.0
        if hours > best[0]:
            return f"{candidate.gpus} GPUs cost more by the last arrival than the best one in all"
    return ""


def _possible_alone(runner: Runner, candidates: Sequence[Candidate], found: Found) -> list[Candidate]:
    """The candidates whose engine can be had, and is fast enough for a request that has it for itself."""
    question = runner.question
    run = {name: None for name in (*question.run, *_WORKLOAD) if name.startswith("trace") or name in _WORKLOAD}
    one = {candidate.worker: candidate for candidate in candidates}
    engines = [
        candidate._replace(name=worker, rest={"num_workers": 1, "router_mode": "round_robin"})
        for worker, candidate in one.items()
    ]
    try:
        points = runner.run(engines, {**run, **_ALONE})
    except ValueError as error:
        raise ValueError(values.brief(str(error)) if not str(error).startswith("run: ") else str(error)) from None
    out: dict[str, tuple[str, str]] = {}
    for worker, point in points.items():
        if point["status"] not in (OK, INFEASIBLE):
            out[worker] = (point["status"], point["reason"])
        elif question.objective in (FEWEST_GPUS, COST) and (why := bounds.alone(question.bounds, point["figures"])):
            out[worker] = ("bound", why)
    for candidate in candidates:
        if candidate.worker in out:
            found.out[candidate.name] = out[candidate.worker]
    return [candidate for candidate in candidates if candidate.worker not in out]


def _reference(runner: Runner, candidates: Sequence[Candidate], found: Found) -> Point | None:
    """A whole run of the largest candidate of one pool: it says how many requests there are, and how long they take."""
    refused: ValueError | None = None
    for candidate in sorted(candidates, key=lambda each: (len(each.pools), -each.gpus)):
        try:
            point = runner.run([candidate])[candidate.name]
        except ValueError as error:
            refused = refused or error
            found.out[candidate.name] = ("rejected", str(error))
            if len(found.out) > len(candidates) // 2:
                break
            continue
        found.whole[candidate.name] = point
        if point["figures"].get("rejected_requests") == 0:
            return point
    if refused is not None and not found.whole:
        raise refused
    return None


def rows_of(point: Point) -> list[Mapping[str, Any]]:
    """A row for each request of a point, which is run again."""
    arguments = {name: value for name, value in point["arguments"].items() if name != "rows"}
    with warnings.catch_warnings():  # those of the point are known
        warnings.simplefilter("ignore")
        report = run_trace_replay(arguments.pop("trace_files"), capture_per_request=True, **arguments)
    return list(report.per_request or [])


# Keys of a run with which requests arrive when others have ended.
_CLOSED = ("replay_concurrency", "agentic_lanes", "client_retries", "hedge_after_ms")


def arrivals_ms(point: Point) -> list[float]:
    """When requests arrive, in order; nothing if that depends on when others have ended."""
    if any(point["arguments"].get(name) for name in _CLOSED):
        return []
    rows = rows_of(point)
    if any(row["turn_index"] for row in rows):
        return []
    return sorted(row["arrival_time_ms"] for row in rows)


def _unless_refused(
    runner: Runner, candidates: Sequence[Candidate], extra: Mapping[str, Any], found: Found
) -> dict[str, Point]:
    """Points of candidates; none, with the reason, if all are refused: others with this workload are not."""
    if not candidates:
        return {}
    try:
        return runner.run(candidates, extra)
    except ValueError as error:
        for candidate in candidates:
            found.out[candidate.name] = ("rejected", str(error).removeprefix("run: "))
        return {}


def _after(
    runner: Runner,
    candidates: Sequence[Candidate],
    part: float,
    whole: Mapping[str, float],
    arrivals: Sequence[float],
    best: tuple[float, ...] | None,
    found: Found,
) -> list[Candidate]:
    """The candidates that may still be the answer after the beginning of their runs."""
    question, left = runner.question, []
    beginning = bounds.Beginning(round(part * whole["duration_ms"]), arrivals)
    points = _unless_refused(runner, candidates, {"max_sim_time_ms": beginning.at_ms}, found)
    for candidate in candidates if points else ():
        point = points[candidate.name]
        if not point["figures"]:
            found.out[candidate.name] = (point["status"], point["reason"])
            continue
        reason = (
            bounds.of_beginning(question.bounds, point["figures"], whole, beginning)
            if question.objective in (FEWEST_GPUS, COST)
            else _less_goodput(point["figures"], whole, best)
        )
        if reason:
            found.out[candidate.name] = ("beginning", f"{reason} ({part:.3g} of the run)")
        else:
            left.append(candidate)
    return left


def _less_goodput(figures: Mapping[str, float], whole: Mapping[str, float], best: tuple[float, ...] | None) -> str:
    """Why a candidate serves fewer requests well than the best one, "" if that is open."""
    if best is None or "goodput_completed_requests" not in figures:
        return ""
    missed = figures["finished_requests"] - figures["goodput_completed_requests"]
    most = whole["num_requests"] - missed
    return (
        f"at most {most:,.0f} requests are served well, and {-best[0]:,.0f} by the best one" if most < -best[0] else ""
    )
