"""Finds the best of all candidates by as few runs as proofs allow.

Runs are points of sweeps, so they are kept and shared, and an interrupted search goes on where it was.
"""

from __future__ import annotations

import json
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from dynamo._core import values
from dynamo.replay import run_synthetic_trace_replay, run_trace_replay
from dynamo.sweep import sweep
from dynamo.sweep.advice import bounds, longrun
from dynamo.sweep.advice.candidates import MOCKER, Candidate
from dynamo.sweep.advice.question import COST, FEWEST_GPUS, Question
from dynamo.sweep.sla import bound_of
from dynamo.sweep.store import INFEASIBLE, OK

Point = Mapping[str, Any]

BEGINNINGS = (1 / 8, 3 / 8)
"""Parts of the run, by simulated time, after which it is asked whether a candidate can still be the answer."""
MARGIN = 0.05
"""By which part a figure may be off if the AIC SDK was asked for a grid of shapes: what is nearer to a bound is run
again with all shapes."""
RANK_MARGIN = 0.01
"""The same for GPU hours and tokens per second, which are means and sums over a run. The number of requests within the
bounds may be off as much as the latencies are."""
# Fewer candidates are run whole at once: the beginnings would cost more than they save.
_WORTH_BEGINNING = 3
_KNOB = "deployment"
_SPEED = "speedup_ratio"
# Keys of an engine with which the SDK has another session.
_OF_SESSION = ("engine.aic_", "engine.dp_size", "engine.engine_type")
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
    worker: str = ""
    """The worker of the best one."""
    runs: int = 0
    """Runs that had to be simulated; others were known."""
    reached: dict[str, float] = field(default_factory=dict)
    """Of those whose runs were stopped for a bound, the part of all requests that were over by then."""
    exact: set[str] = field(default_factory=set)
    """Those of ``whole`` whose durations are predictions of all their shapes, not of a grid."""
    reference: Point | None = None
    """The run that says how many requests there are, and how long they take."""
    arrivals: Sequence[float] = ()
    """When requests arrive, in order; nothing if that depends on when others have ended."""


class Runner:
    """Runs candidates as points of sweeps that share one store."""

    def __init__(self, question: Question, store: Path, execution: Mapping[str, Any], on_progress: Any) -> None:
        self.question = question
        self.store = store
        self.execution = execution
        self.on_progress = on_progress
        self.simulated = 0

    @property
    def margin(self) -> float:
        """By which part the figures of runs may be off, other than those of ``exact`` ones."""
        return MARGIN if self.question.searches_grid else 0.0

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
        self,
        candidates: Sequence[Candidate],
        extra: Mapping[str, Any] | None = None,
        *,
        exact: bool = False,
        **more: Any,
    ) -> dict[str, Point]:
        """The points of candidates by their names. Raises ValueError if all are refused."""
        candidates = self.shaped(candidates, exact)
        found = sweep.run(
            self.spec(candidates, extra or {}, **more), store=self.store, on_progress=self.on_progress, **self.execution
        )
        self.simulated += found.simulated
        return {point["knobs"][_KNOB]: point for point in found.points}

    def shaped(self, candidates: Sequence[Candidate], exact: bool) -> Sequence[Candidate]:
        """The candidates with durations of a grid of shapes, unless they are to be exact or the question decides it."""
        if not self.question.searches_grid or exact:
            return candidates
        return [candidate.with_shapes("grid") for candidate in candidates]


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


def find(
    runner: Runner, candidates: Sequence[Candidate], *, exhaustive: bool = False, first: Found | None = None
) -> Found:
    """The best of all candidates. With ``exhaustive``, all are run to the end, whatever can be proven.

    Args:
        first: What was found for the same traffic before, if this search repeats that one with other durations. It
            then asks how many GPUs are needed, not which deployment of so many is the fastest, and figures count as
            a grid of shapes has them; else finalists are run again with all shapes.
    """
    question, found = runner.question, Found()
    before = runner.simulated
    order = {candidate.name: at for at, candidate in enumerate(candidates)}
    by_name = {candidate.name: candidate for candidate in candidates}
    if exhaustive:
        found.whole = runner.run(candidates, exact=True)
        found.exact = set(found.whole)
    else:
        _search(runner, candidates, found, first)
    ranked = rank(question)
    kept = [name for name, point in found.whole.items() if keeps(question, point)]
    found.best = min(kept, key=lambda name: (*ranked(by_name[name], found.whole[name]), order[name]), default=None)
    found.worker = by_name[found.best].worker if found.best is not None else ""
    found.runs = runner.simulated - before
    return found


def _search(runner: Runner, candidates: Sequence[Candidate], found: Found, first: Found | None) -> None:
    question = runner.question
    left = _possible_alone(runner, candidates, found)
    if not left:  # one of those that are too slow is run nevertheless: by how much it misses is worth knowing
        slow = [candidate for candidate in candidates if found.out[candidate.name][0] == "bound"]
        if slow and first is None and _reference(runner, slow, found) is not None:
            found.out = {name: why for name, why in found.out.items() if name not in found.whole}
        return
    goodput = question.objective not in (FEWEST_GPUS, COST)
    if first is None or goodput:
        found.reference = _reference(runner, left, found)
        found.arrivals = arrivals_ms(found.reference) if found.reference is not None and not goodput else ()
    else:
        found.reference, found.arrivals = first.reference, first.arrivals
    if found.reference is None:
        return
    whole = found.reference["figures"]
    if found.arrivals and first is None:  # a repeated search finds the same without this proof
        left = _keeps_up(runner, left, found)
    by_name = {candidate.name: candidate for candidate in left}
    best = None
    if goodput:  # a first best one rules others out
        best = _best(runner, by_name, [name for name in found.whole if name in by_name], found, None, first is None)
    for group in _groups(question, left, first):
        known = [
            candidate.name for candidate in group if candidate.name in found.whole and candidate.name not in found.exact
        ]
        todo = [candidate for candidate in group if candidate.name not in found.whole]
        if best is not None and (reason := _beaten(question, group[0], best, whole, first)):
            for candidate in todo:
                found.out[candidate.name] = ("beaten", reason)
            continue
        todo = _promising(runner, todo, whole, best, found, first is None)
        points = _unless_refused(runner, todo, {}, found)
        found.whole |= points
        best = _best(runner, by_name, [*known, *points], found, best, first is None)
    if first is None:
        _run_nearest(runner, left, found, best)


def _run_nearest(runner: Runner, candidates: Sequence[Candidate], found: Found, best: tuple[float, ...] | None) -> None:
    """Runs to the end what was stopped last of those with fewer GPUs than the best, to say by how much it misses."""
    fewer = [
        candidate
        for candidate in candidates
        if candidate.name in found.reached
        and (best is None or runner.question.objective != FEWEST_GPUS or candidate.gpus < best[0])
    ]
    if not fewer:
        return
    nearest = max(fewer, key=lambda candidate: found.reached[candidate.name])
    if points := _unless_refused(runner, [nearest], {}, found):
        found.whole |= points
        del found.out[nearest.name]


def _promising(
    runner: Runner,
    candidates: list[Candidate],
    whole: Mapping[str, float],
    best: tuple[float, ...] | None,
    found: Found,
    confirms: bool,
) -> list[Candidate]:
    """The candidates that may still be the answer after as much of their runs as shows that."""
    question = runner.question
    parts: Sequence[float] = BEGINNINGS
    limits: Sequence[bounds.LateLimit] = ()
    if question.objective in (FEWEST_GPUS, COST):
        margin = runner.margin if confirms else 0.0  # without another look at finalists, figures count as they are
        if not question.run.get("faults"):  # beside which nothing stops a run
            limits = bounds.late_limits(question.bounds, whole, margin)
        if not found.arrivals:  # a short beginning proves next to nothing without requests that are known to wait
            parts = () if limits else BEGINNINGS[-1:]
        elif bounds.covers(limits, question.bounds):
            parts = BEGINNINGS[:1]
        else:
            limits = ()
    for part in parts:
        if len(candidates) >= _WORTH_BEGINNING:
            candidates = _after(runner, candidates, part, whole, best, found)
    return _in_time(runner, candidates, limits, whole, found) if limits else candidates


def _in_time(
    runner: Runner,
    candidates: list[Candidate],
    limits: Sequence[bounds.LateLimit],
    whole: Mapping[str, float],
    found: Found,
) -> list[Candidate]:
    """The candidates whose runs go on to the end if they stop once too many latencies are over a bound."""
    if len(candidates) < _WORTH_BEGINNING:
        return candidates
    stop = ",".join(f"{limit.kind}>{limit.limit_ms!r}:{limit.most}" for limit in limits)
    points = _unless_refused(runner, candidates, {"stop_when_late": stop}, found)
    left = []
    for candidate in candidates if points else ():
        point = points[candidate.name]
        if not point["figures"]:
            found.out[candidate.name] = (point["status"], point["reason"])
        elif reason := bounds.stopped(limits, point["figures"]):
            found.reached[candidate.name] = point["figures"]["finished_requests"] / whole["num_requests"]
            reached = f"after {100 * found.reached[candidate.name]:.3g} % of the requests"
            found.out[candidate.name] = ("beginning", f"{reason} ({reached})")
        else:
            left.append(candidate)
    return left


def _best(
    runner: Runner,
    by_name: Mapping[str, Candidate],
    names: Sequence[str],
    found: Found,
    best: tuple[float, ...] | None,
    confirms: bool,
) -> tuple[float, ...] | None:
    """The rank of the best one so far, with those that were run last.

    If figures may be off, those that may be better than the best one are run again with all shapes, the best first.
    """
    question, margin = runner.question, runner.margin if confirms else 0.0
    room = RANK_MARGIN if question.objective in (FEWEST_GPUS, COST) else margin
    ranked = rank(question)

    def by_rank(name: str) -> tuple[float, ...]:
        return ranked(by_name[name], found.whole[name])

    todo = sorted((name for name in names if _may_keep(question, found.whole[name], margin)), key=by_rank)
    while todo:
        now = todo if best is not None or not margin else todo[:1]
        todo = todo[len(now) :]
        if margin:
            now = [name for name in now if best is None or _may_beat(by_rank(name), best, room)]
            points = _unless_refused(runner, [by_name[name] for name in now], {}, found, exact=True)
            found.whole |= points
            found.exact |= set(points)
        for name in now:
            if keeps(question, found.whole[name]):
                best = by_rank(name) if best is None else min(best, by_rank(name))
    return best


def _may_keep(question: Question, point: Point, margin: float) -> bool:
    """Whether a point keeps the SLA, or misses it by no more than its figures may be off."""
    if keeps(question, point):
        return True
    if not margin or point["status"] != INFEASIBLE or not point["sla"]:
        return False
    missed = [verdict for verdict in point["sla"] if not verdict["met"]]
    return all(
        verdict["value"] is not None and bound_of(verdict).excess(verdict["value"]) <= margin for verdict in missed
    )


def _may_beat(rank: tuple[float, ...], best: tuple[float, ...], margin: float) -> bool:
    """Whether a rank may be better than the best one if its figures are off by a margin."""
    for ours, theirs in zip(rank, best, strict=True):
        room = margin * abs(ours)
        if ours - room > theirs:
            return False
        if ours + room < theirs:
            return True
    return True


def _groups(question: Question, candidates: Sequence[Candidate], first: Found | None) -> list[list[Candidate]]:
    """Candidates with equally many GPUs together, the fewest first; the most first if goodput counts.

    In a repeated search those that the first one's answer is made of, which mostly are enough, come before others.
    """
    reverse = question.objective not in (FEWEST_GPUS, COST)
    worker = first.worker if first is not None else ""
    groups: dict[tuple[int, bool], list[Candidate]] = {}
    for candidate in candidates:
        size = -candidate.gpus if reverse else candidate.gpus
        groups.setdefault((size, candidate.worker != worker), []).append(candidate)
    return [groups[key] for key in sorted(groups)]


def _beaten(
    question: Question,
    candidate: Candidate,
    best: tuple[float, ...],
    whole: Mapping[str, float],
    first: Found | None,
) -> str:
    """Why no candidate with this number of GPUs can beat the best one, "" if one may."""
    if question.objective == FEWEST_GPUS and (candidate.gpus > best[0] or (first and candidate.gpus == best[0])):
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
    engines = _in_turn(_workers(candidates))
    try:
        points = runner.run(engines, {**_no_trace(question), **_ALONE})
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


def _workers(candidates: Sequence[Candidate]) -> list[Candidate]:
    """One worker of each kind, by the words for it."""
    one = {candidate.worker: candidate for candidate in candidates}
    alone = {"num_workers": 1, "router_mode": "round_robin"}
    return [candidate._replace(name=worker, gpus=0, rest=alone) for worker, candidate in one.items()]


def speedup(question: Question, times: float) -> float:
    """Returns the ``speedup_ratio`` with which passes take a multiple of their time."""
    return float(question.run["extra_engine_args"].get(_SPEED, 1.0)) / times


def with_passes(question: Question, candidate: Candidate, times: float) -> Candidate:
    """Returns a candidate whose passes take a multiple of their time."""
    return candidate._replace(engine={**candidate.engine, f"engine.{_SPEED}": speedup(question, times)})


def _in_turn(engines: Sequence[Candidate]) -> list[Candidate]:
    """Orders workers so that those with the same session of the AIC SDK are far apart: sessions open side by side."""
    counts: Counter[str] = Counter()
    turns = []
    for engine in engines:
        asked = {name: value for name, value in engine.engine.items() if name.startswith(_OF_SESSION)}
        key = json.dumps(asked, sort_keys=True)
        turns.append(counts[key])
        counts[key] += 1
    return [engines[at] for at in sorted(range(len(engines)), key=turns.__getitem__)]


def _no_trace(question: Question) -> dict[str, Any]:
    """Takes the traffic out of a run."""
    return {name: None for name in (*question.run, *_WORKLOAD) if name.startswith("trace") or name in _WORKLOAD}


def _keeps_up(runner: Runner, candidates: Sequence[Candidate], found: Found) -> list[Candidate]:
    """The candidates that may compute the prompts and hold the KV of the traffic, which arrives by the clock."""
    assert found.reference is not None
    question, rows = runner.question, rows_of(found.reference)
    engines = {candidate.engine["engine.engine_type"]: candidate for candidate in candidates}
    works = {engine: _work(question, candidate, rows) for engine, candidate in engines.items()}
    able = _ability(runner, candidates)
    left = []
    for candidate in candidates:
        work = works[candidate.engine["engine.engine_type"]]
        why = None
        if work is not None and candidate.name not in found.whole:
            why = longrun.too_much(question.bounds, work, able[candidate.worker], candidate.pools)
        if why is None:
            left.append(candidate)
        else:
            found.out[candidate.name] = why
    return left


_MOST_BLOCKS = 4_000_000
# What decides how much of a prompt an engine finds in its prefix cache.
_CACHING = ("block_size", "enable_prefix_caching", "sglang", "kv_cache_groups", "model")


def _work(question: Question, candidate: Candidate, rows: Sequence[Mapping[str, Any]]) -> longrun.Work | None:
    """What the traffic needs of any deployment of an engine, by a run of one request after the other on a large one."""
    shared = question.run["extra_engine_args"]
    if "kv_cache_groups" in shared or "model" in shared:  # KV that is let go of while a request runs
        return None
    engine = {"engine_type": candidate.engine["engine.engine_type"], "scheduler": candidate.engine["engine.scheduler"]}
    tokens = sum(row["input_length"] + row["output_length"] for row in rows)
    run = {
        **question.run,
        "replay_concurrency": 1,
        "num_workers": 1,
        "extra_engine_args": {
            **{name: shared[name] for name in _CACHING if name in shared},
            **engine,
            **{"timing_model": "fixed", "fixed_prefill_ms": 1, "fixed_decode_ms": 1},
            "num_gpu_blocks": min(tokens, _MOST_BLOCKS),
        },
    }
    files = run.pop("trace")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            report = run_trace_replay(files, capture_per_request=True, **run)
        except ValueError:  # an engine that takes no such arguments, or has no room for a prompt
            return None
    if report["completed_requests"] != len(rows):
        return None
    return longrun.work_of(rows, list(report.per_request or []))


def _ability(runner: Runner, candidates: Sequence[Candidate]) -> Mapping[str, longrun.Worker]:
    """What one worker of each kind computes and holds at the most."""
    question, engines = runner.question, _workers(candidates)
    slack = bounds.SLACK + runner.margin
    alone = runner.run(engines, {**_no_trace(question), **_ALONE})
    bursts: dict[str, list[Mapping[str, float]]] = {engine.name: [] for engine in engines}
    for prompt in longrun.PROMPTS:
        groups: dict[str, list[Candidate]] = {}
        for engine in engines:
            limits = (engine.engine["engine.max_num_seqs"], _tokens(engine), _ranks(engine))
            if (keys := longrun.burst(prompt, *limits)) is not None:
                groups.setdefault(json.dumps(keys), []).append(engine)
        for keys_text, members in groups.items():
            points = runner.run(members, {**_no_trace(question), **json.loads(keys_text)})
            for name, point in points.items():
                if point["figures"].get("completed_requests") == point["figures"].get("num_requests", -1):
                    bursts[name].append(point["figures"])
    return {
        name: longrun.Worker(
            longrun.fastest(bursts[name], slack),
            _worker(point).pool_tokens,
            point["figures"].get("min_itl_ms", 0) * (1 - slack),
        )
        for name, point in alone.items()
    }


def _tokens(candidate: Candidate) -> int:
    """Prompt tokens of a pass."""
    names = ("engine.max_num_batched_tokens", "engine.sglang.chunked_prefill_size")
    return next(int(candidate.engine[name]) for name in names if name in candidate.engine)


def _ranks(candidate: Candidate) -> int:
    return int(candidate.engine.get("engine.dp_size", candidate.engine.get("engine.aic_attention_dp_size", 1)))


class Worker(NamedTuple):
    """What is known of a worker after defaults."""

    scheduler: str
    """With its release."""
    pool_estimate: str | None
    """Who estimates the KV pool, None if it was given."""
    pool_tokens: float | None
    """None if they are not known."""
    kv_dtype: str | None
    """The data type of the KV cache; None if the arguments leave it open."""
    engine: Mapping[str, Any]
    """Its arguments."""


def worker_of(runner: Runner, candidate: Candidate) -> Worker:
    """The worker of a candidate."""
    [worker] = _workers([candidate])
    return _worker(alone(runner, worker))


def alone(runner: Runner, candidate: Candidate) -> Point:
    """A run of a candidate with a single request."""
    return runner.run([candidate], {**_no_trace(runner.question), **_ALONE})[candidate.name]


def _worker(point: Point) -> Worker:
    arguments = {name: value for name, value in point["arguments"].items() if name != "rows"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        report = run_synthetic_trace_replay(**arguments)
    made = report["provenance"]
    engine = made["arguments"]["extra_engine_args"]
    estimate = made.get("estimated_gpu_blocks", {}).get("extra_engine_args")
    blocks, size = engine.get("num_gpu_blocks") or estimate, engine.get("block_size")
    tokens = float(blocks * size * engine.get("dp_size", 1)) if blocks and size else None  # of each rank
    who = engine.get("kv_pool_estimate", "sdk") if estimate else None
    return Worker(report.get("scheduler", MOCKER), who, tokens, engine.get("aic_kv_cache_dtype"), engine)


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
    runner: Runner, candidates: Sequence[Candidate], extra: Mapping[str, Any], found: Found, *, exact: bool = False
) -> dict[str, Point]:
    """Points of candidates; none, with the reason, if all are refused: others with this workload are not."""
    if not candidates:
        return {}
    try:
        return runner.run(candidates, extra, exact=exact)
    except ValueError as error:
        for candidate in candidates:
            found.out[candidate.name] = ("rejected", str(error).removeprefix("run: "))
        return {}


def _after(
    runner: Runner,
    candidates: Sequence[Candidate],
    part: float,
    whole: Mapping[str, float],
    best: tuple[float, ...] | None,
    found: Found,
) -> list[Candidate]:
    """The candidates that may still be the answer after the beginning of their runs."""
    question, left = runner.question, []
    beginning = bounds.Beginning(round(part * whole["duration_ms"]), found.arrivals)
    points = _unless_refused(runner, candidates, {"max_sim_time_ms": beginning.at_ms}, found)
    for candidate in candidates if points else ():
        point = points[candidate.name]
        if not point["figures"]:
            found.out[candidate.name] = (point["status"], point["reason"])
            continue
        reason = (
            bounds.of_beginning(question.bounds, point["figures"], whole, beginning, runner.margin)
            if question.objective in (FEWEST_GPUS, COST)
            else _less_goodput(point["figures"], whole, best, runner.margin)
        )
        if reason:
            found.out[candidate.name] = ("beginning", f"{reason} (after {100 * part:.3g} % of the run)")
        else:
            left.append(candidate)
    return left


def _less_goodput(
    figures: Mapping[str, float], whole: Mapping[str, float], best: tuple[float, ...] | None, margin: float
) -> str:
    """Why a candidate serves fewer requests well than the best one, "" if that is open."""
    if best is None or "goodput_completed_requests" not in figures:
        return ""
    missed = figures["finished_requests"] - figures["goodput_completed_requests"]
    most = whole["num_requests"] - missed
    if most >= -best[0] * (1 - margin):
        return ""
    return f"at most {most:,.0f} requests are served well, and {-best[0]:,.0f} by the best one"
