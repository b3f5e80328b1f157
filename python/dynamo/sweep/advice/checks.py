"""What becomes of the winner under more traffic, without a worker, with an autoscaler, and with other durations."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dynamo.replay import run_trace_replay
from dynamo.sweep import bootstrap
from dynamo.sweep.advice import search
from dynamo.sweep.advice.basis import host_facts
from dynamo.sweep.advice.candidates import Candidate
from dynamo.sweep.advice.question import FEWEST_GPUS, Question
from dynamo.sweep.advice.search import Found, Point, Runner
from dynamo.sweep.figures import offered_rps
from dynamo.sweep.store import INFEASIBLE, OK

DURATIONS = (0.85, 1.15)
"""How long passes take for the question whether the winner stays the same, as a multiple."""
MOST_TRAFFIC = 16
"""The headroom that is looked for, at the most."""
PEAK_S = 30
"""The window that counts for the peak of arrivals, in seconds."""
STARTUP_S = 120
"""How long a worker takes to come back, and one that is added to start, unless engine_args says it."""
DETECTION_MS = 10_000
_TRAFFIC = "traffic.jsonl"
Rows = Sequence[Mapping[str, Any]]
MOST_LOST = 4
"""How many workers of a pool are lost, each in a run of its own, of which the worst is shown."""
MOST_SPARES = 2
"""How many workers are added at most, until the service level survives the loss of one."""
WAITING = 1
"""Waiting requests per worker that the autoscaler aims at."""
AUTOSCALING = "autoscaling"


def repeated(runner: Runner, finalists: Sequence[Candidate], point: Point) -> tuple[dict[str, Point], str]:
    """Finalists on traces that are drawn from the recorded one, for intervals; and why there are none."""
    question = runner.question
    if question.seeds < 2:
        return {}, "one draw of the traffic: want seeds above 1 for intervals"
    extra: dict[str, Any] = {}
    if question.run.get("trace_format", "mooncake") not in bootstrap.FORMATS:
        extra = _as_sessions(point, runner.store.parent / _TRAFFIC)
    try:
        return runner.run(finalists, extra, bootstrap="sessions", seeds=question.seeds), ""
    except ValueError as error:
        return {}, f"one draw of the traffic: it cannot be drawn anew: {error}"


def _as_sessions(point: Point, path: Path) -> dict[str, Any]:
    """The traffic of a point, written as a trace whose sessions can be drawn, and the keys of a run that reads it."""
    arguments = {name: value for name, value in point["arguments"].items() if name not in ("rows", "save_trace")}
    with warnings.catch_warnings():  # one says how the trace is read
        warnings.simplefilter("ignore")
        report = run_trace_replay(arguments.pop("trace_files"), save_trace=path, **arguments)
    saved = report.saved_trace
    assert saved is not None
    form = {"trace_format": saved.trace_format, "trace_block_size": saved.trace_block_size}
    # What the workload was made of before is in the trace by now.
    return {"trace": str(path), "arrival_speedup_ratio": None, **form}


def basis(runner: Runner, winner: Candidate, point: Point, draws: int) -> dict[str, Any]:
    """What the answer rests on beside durations."""
    figures, question = point["figures"], runner.question
    worker = search.worker_of(runner, winner)
    requests = max(figures["num_requests"], 1)
    return {
        "requests": figures["num_requests"],
        "seconds": figures["duration_ms"] / 1000,
        "prompt_tokens": figures["total_input_tokens"] / requests,
        "answer_tokens": figures["total_output_tokens"] / requests,
        "reused_ratio": figures.get("prefix_cache_reused_ratio", 0.0),
        "request_gaps_ms": {"mean": figures["mean_tpot_ms"], "p90": figures["p90_tpot_ms"]},
        "shapes": "grid" if question.searches_grid else None,
        "noticed_s": DETECTION_MS / 1000,
        "back_s": question.run["extra_engine_args"].get("startup_time", STARTUP_S),
        "draws": draws,
        "scheduler": worker.scheduler,
        "router": point["deployment"]["router"],
        **{"migration_limit": 0, **winner.migrations},
        "pool_tokens": worker.pool_tokens,
        "pool_estimate": worker.pool_estimate,
        "kv_dtype": worker.kv_dtype,
        "host": host_facts(worker.engine, worker.pool_tokens, figures),
    }


def headroom(runner: Runner, winner: Candidate, rows: Rows) -> dict[str, Any]:
    """The factor of traffic up to which the winner keeps the SLA, and what breaks first.

    Args:
        rows: Of the winner's requests with this traffic.
    """
    base = runner.run([winner])[winner.name]
    nominal = base["figures"].get("arrival_rps")
    if not nominal:
        return {"unknown": "requests of this trace do not arrive by the clock"}
    load = {"find_max_rate": {"high_rps": MOST_TRAFFIC * nominal}}
    try:
        point = runner.run([winner], load=load, objectives=["arrival_rps_per_gpu"])[winner.name]
    except ValueError as error:  # the run decides the load itself
        return {"unknown": str(error)}
    if point["status"] != OK:
        return {"unknown": point["reason"]}
    limit, _, missed = point["limited_by"].removesuffix(" requests/s").rpartition(" at ")
    return {
        "factor": point["figures"]["arrival_rps"] / nominal,
        # As they arrive: turns that wait for answers come later than the trace alone says.
        "rps": _offered_rps(search.rows_of(point)),
        "nominal_rps": _offered_rps(rows),
        "limited_by": limit,
        "breaks_at": float(missed) / nominal if limit else None,
    }


def _offered_rps(rows: Rows) -> float:
    return offered_rps([row["arrival_time_ms"] for row in rows])


def peak_ms(rows: Rows) -> float:
    """When the window with the most arrivals begins."""
    times = sorted(row["arrival_time_ms"] for row in rows)
    best, most, low = 0.0, 0, 0
    for high, time in enumerate(times):
        while time - times[low] > PEAK_S * 1000:
            low += 1
        if high - low + 1 > most:
            best, most = times[low], high - low + 1
    return float(best)


def disturbed(runner: Runner, winner: Candidate, peak: float) -> list[dict[str, Any]]:
    """The winner without a worker from its peak on, and with an autoscaler."""
    question = runner.question
    shared = question.run["extra_engine_args"]
    startup = {} if "startup_time" in shared else {"engine.startup_time": STARTUP_S}
    lost = {"detection_ms": DETECTION_MS, **winner.migrations, **startup}
    targets = (
        {"worker": "worker"} if len(winner.pools) == 1 else {"prefill": "prefill worker", "decode": "decode worker"}
    )
    cases: dict[str, list[Mapping[str, Any]]] = {}
    for target, words in targets.items():
        count = winner.pools[0 if target in ("worker", "prefill") else 1]
        each = _losses(peak, target, count, lost)
        of = f", the worst of {len(each)}" if len(each) > 1 else ""
        cases[f"loss of a {words} at the peak, second {peak / 1000:.0f}{of}"] = each
    if on_node := node_of(question, winner):
        faults = [_crash(peak, target) for target in on_node]
        cases[f"loss of a node at the peak, with {' and '.join(on_node)}"] = [{"faults": faults, **lost}]
    if len(winner.pools) == 1 and winner.pools[0] > 1:
        policy = {"policy": "hpa", "target": WAITING, "min": 1, "max": winner.pools[0]}
        cases[AUTOSCALING] = [{"autoscaler": policy, **startup}]
    found = _worst(runner, winner, cases)
    if len(winner.pools) == 1:
        found[0]["spares"] = _spares(runner, winner, peak, lost) if found[0].get("holds") is False else None
    return found


def _losses(peak: float, target: str, count: int, lost: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The keys of runs in which one worker of a pool is lost, each another one."""
    return [{"faults": [_crash(peak, f"{target}:{at}")], **lost} for at in range(min(count, MOST_LOST))]


def _worst(
    runner: Runner, deployment: Candidate, cases: Mapping[str, Sequence[Mapping[str, Any]]]
) -> list[dict[str, Any]]:
    """Returns the outcome of each case for a deployment: that of the worst of its runs.

    Args:
        cases: By their names, the keys that each of their runs adds.
    """
    disturbed = {
        (name, at): deployment._replace(name=f"{name} {at}", rest={**deployment.rest, **keys})
        for name, each in cases.items()
        for at, keys in enumerate(each)
    }
    refused, points = "", {}
    try:
        points = runner.run(list(disturbed.values()))
    except ValueError as error:
        refused = str(error)
    found = []
    for name, each in cases.items():
        outcomes = [_outcome(points.get(disturbed[name, at].name), refused) for at in range(len(each))]
        worst = max(outcomes, key=_badness)
        found.append({"name": name, **({"policy": each[0]["autoscaler"]} if "autoscaler" in each[0] else {}), **worst})
    return found


def _spares(runner: Runner, winner: Candidate, peak: float, lost: Mapping[str, Any]) -> dict[str, Any] | None:
    """How many more workers keep the service level when one is lost at the peak; None if no more GPUs are allowed."""
    count, found = winner.pools[0], None
    each = winner.gpus // count
    for more in range(1, MOST_SPARES + 1):
        if winner.gpus + more * each > runner.question.gpus:
            break
        larger = winner._replace(gpus=winner.gpus + more * each, rest={**winner.rest, "num_workers": count + more})
        [worst] = _worst(runner, larger, {"loss of a worker": _losses(peak, "worker", count + more, lost)})
        found = {"workers": count + more, "gpus": larger.gpus, "holds": worst.get("holds", False)}
        if found["holds"]:
            break
    return found


def _badness(case: Mapping[str, Any]) -> tuple[bool, bool, float, float]:
    """Orders outcomes of a disturbance: the worst is not known, then what breaks the SLA, by what fails and by TTFT."""
    if "unknown" in case:
        return True, True, 0, 0
    figures = case["figures"]
    return False, not case["holds"], figures.get("failed_requests", 0), figures.get("p90_ttft_ms", 0)


def _crash(at_ms: float, target: str) -> dict[str, Any]:
    return {"kind": "crash", "at_ms": at_ms, "target": target, "duration_ms": 0}


def node_of(question: Question, winner: Candidate) -> list[str]:
    """The workers that are lost with a node, filled in their order; none if all are on one or a worker needs more."""
    worker = winner.gpus // sum(winner.pools)
    if winner.gpus <= question.gpus_per_node or worker > question.gpus_per_node:
        return []
    names = ("worker",) if len(winner.pools) == 1 else ("prefill", "decode")
    all_of_them = [f"{name}:{at}" for name, count in zip(names, winner.pools, strict=True) for at in range(count)]
    on_node = all_of_them[: question.gpus_per_node // worker]
    return on_node if len(on_node) > 1 else []


def _outcome(point: Point | None, refused: str) -> dict[str, Any]:
    """Returns whether the SLA holds in a disturbed run, and some figures; or why that is not known."""
    if point is None or point["status"] not in (OK, INFEASIBLE) or not point["figures"]:
        return {"unknown": refused if point is None else point["reason"]}
    names = ("failed_requests", "migrated_requests", "gpu_hours", "num_requests", "completed_requests", "p90_ttft_ms")
    figures = {figure: point["figures"][figure] for figure in names if figure in point["figures"]}
    return {"holds": point["status"] == OK, "reason": point["reason"], "figures": figures}


def sensitivity(runner: Runner, candidates: Sequence[Candidate], first: Found) -> list[dict[str, Any]]:
    """Returns which deployment keeps the SLA with shorter and with longer passes.

    Args:
        first: What was found with the durations of the question.
    """
    question = runner.question
    shared = question.run["extra_engine_args"]
    by_name = {candidate.name: candidate for candidate in candidates}
    assert first.best is not None
    winner = by_name[first.best]
    alone = runner.run([search.with_passes(question, winner, times)._replace(name=f"{times}") for times in DURATIONS])
    found = []
    for times in DURATIONS:
        run = {
            **question.run,
            "extra_engine_args": {**shared, "speedup_ratio": search.speedup(question, times)},
        }
        other = Runner(replace(question, run=run), runner.store, runner.execution, runner.on_progress)
        held = alone[f"{times}"]["status"] == OK
        others = _in_question(question, candidates, winner, first, times, held)
        again = search.find(other, others, first=first) if others else Found()
        runner.simulated += other.simulated
        now, holds = again.best, again.best is not None and again.whole[again.best]["status"] == OK
        if held and now is None:
            now, holds = winner.name, True
        gpus = None if now is None else by_name[now].gpus
        found.append({"durations": times, "best": now, "same": now == winner.name, "holds": held, "gpus": gpus,
                      "best_holds": holds, "point": None})  # fmt: skip
    return found


def _in_question(
    question: Question, candidates: Sequence[Candidate], winner: Candidate, first: Found, times: float, held: bool
) -> list[Candidate]:
    """The candidates that may be the answer with other durations, where as many GPUs as before are the same answer.

    A deployment that misses the SLA is not tried with longer passes.
    """
    if question.objective != FEWEST_GPUS:
        return list(candidates)
    left = [candidate for candidate in candidates if not held or candidate.gpus < winner.gpus]
    if times < 1:
        return left
    missed = {name for name, (how, _) in first.out.items() if how != "beaten"}
    missed |= {name for name, point in first.whole.items() if point["status"] != OK}
    return [candidate for candidate in left if candidate.name not in missed]
