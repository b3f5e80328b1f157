"""``recommend``: what to start for this traffic, this service level and this many GPUs."""

from __future__ import annotations

import os
import re
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dynamo._core import values
from dynamo.replay import deployment, durations, latencies
from dynamo.sweep import report, summary, sweep
from dynamo.sweep.advice import candidates, checks, endurance, flags, search, wording
from dynamo.sweep.advice.candidates import Candidate
from dynamo.sweep.advice.question import FEWEST_GPUS, GOOD, Question, ask
from dynamo.sweep.advice.search import Found, Runner, rank
from dynamo.sweep.folder import POINTS_FILE, RESULTS_FILE, Folder
from dynamo.sweep.sla import bound_of
from dynamo.sweep.spec import trace_files
from dynamo.sweep.store import OK
from dynamo.sweep.sweep import Sweep
from dynamo.sweep.team import OnProgress
from dynamo.sweep.wording import number

if TYPE_CHECKING:
    from dynamo.sweep.explorer import SweepExplorer

# Finalists that are drawn anew, and points that the page shows.
_FINALISTS, _SHOWN = 3, 40
_BELOW_P99 = re.compile("mean|median|p50|p75|p90|p95")


class Recommendation:
    """An answer: ``content`` is all that it says (docs/recommend.md), ``sweep`` the points behind it."""

    def __init__(self, content: Mapping[str, Any], found: Sweep) -> None:
        self.content = content
        self.sweep = found

    @property
    def best(self) -> Mapping[str, Any] | None:
        """The point of the recommended deployment, None if none keeps the service level."""
        return next((point for point in self.sweep.points if point["id"] == self.content["point"]), None)

    def explore(self, *, height: int = 900) -> SweepExplorer:
        """The page of the answer as an output of a notebook, as ``explore`` of a sweep shows it."""
        return self.sweep.explore(height=height)

    def __str__(self) -> str:
        return wording.text(self.content)

    def __repr__(self) -> str:
        return f"<Recommendation: {self.content['deployment'] or 'none'}>"


def recommend(
    trace: str | os.PathLike[str] | Sequence[str],
    sla: str | Mapping[str, Any],
    *,
    gpus: int,
    model: str | None = None,
    system: str | None = None,
    engine: str = "both",
    objective: str = FEWEST_GPUS,
    directory: str | os.PathLike[str] | None = None,
    run: Mapping[str, Any] | None = None,
    engine_args: str | Mapping[str, Any] | None = None,
    calibration: str | os.PathLike[str] | None = None,
    gpus_per_node: int | None = None,
    gpu_hour_price: float | None = None,
    seeds: int = 5,
    host_gb_per_gpu: float | None = None,
    accept_rates: str | None = None,
    kv_cache_dtype: str | None = None,
    exhaustive: bool = False,
    executor: str | None = None,
    jobs: int | None = None,
    address: str | None = None,
    on_progress: OnProgress | None = None,
) -> Recommendation:
    """Finds what to start: the best valid deployment of at most ``gpus`` GPUs, what it costs, and what breaks it.

    Args:
        trace: The traffic: a trace file, or several.
        sla: The service level, as ``"p90_ttft_ms<=2000, p90_itl_ms<=50"`` or as the ``sla`` of a sweep.
        gpus: How many GPUs there are, at most.
        model: The model, and ``system`` the GPU, of which the AIC SDK predicts durations and memory. Without both,
            durations are those of ``engine_args``, else built-in ones of no particular GPU.
        system: The GPU, such as ``"h100_sxm"``.
        engine: ``"vllm"``, ``"sglang"`` or ``"both"``.
        objective: ``"fewest_gpus"``, ``"cost"`` or ``"goodput"``.
        directory: Where runs, points and the page are kept; in a temporary folder if not given.
        run: Further keys of the run, such as ``{"trace_format": "azure"}``.
        engine_args: Engine arguments that all deployments share.
        calibration: A calibration profile for all of them, in place of one in ``engine_args``; with ``model`` and
            ``system``, ``"auto"`` if neither names one.
        gpus_per_node: GPUs that share a fast link: tensor parallelism stays within them.
        gpu_hour_price: The price of a GPU for an hour.
        seeds: How many traces are drawn from the recorded one, for intervals.
        host_gb_per_gpu: Host memory for KV blocks beside each GPU, in GB: deployments with it are tried as well.
        accept_rates: How often each draft token of speculative decoding is accepted if those before it were, such as
            ``"0.85,0.6"``: deployments that draft as many tokens are tried as well, and all are simulated by the
            rules of Dynamo's mocker, the only ones that know drafts.
        kv_cache_dtype: The data type of the KV cache that the AIC SDK is asked for: ``"auto"``, the default with
            ``model``, is what engines take without a flag, BF16 unless the checkpoint asks for FP8; ``"fp8"`` is FP8,
            with the flag; ``"both"`` tries deployments with each.
        exhaustive: Runs every deployment to the end, whatever can be proven before.
        executor: Where runs are carried out, ``jobs`` and ``address`` are those of ``run`` of sweeps.
        jobs: Runs at the same time.
        address: The Ray cluster.
        on_progress: Called as ``run`` of sweeps does, for one group of deployments after the other.

    Returns:
        The recommendation. Its ``content`` has no winner if no deployment keeps the service level.

    Raises:
        TypeError, ValueError: An argument breaks a rule. Nothing has run.
        FileNotFoundError: The trace is missing.
        RuntimeError: The results cannot be kept.
    """
    question = ask(
        [str(path) for path in trace] if isinstance(trace, list | tuple) else str(trace),
        sla,
        gpus=gpus,
        model=model,
        system=system,
        engine=engine,
        objective=objective,
        run=run,
        engine_args=engine_args,
        calibration=calibration,
        gpus_per_node=gpus_per_node,
        gpu_hour_price=gpu_hour_price,
        seeds=seeds,
        host_gb_per_gpu=host_gb_per_gpu,
        accept_rates=accept_rates,
        kv_cache_dtype=kv_cache_dtype,
    )
    execution = {"executor": executor, "jobs": jobs, "address": address}
    if directory is None:
        with tempfile.TemporaryDirectory(prefix="dynosim-recommend-") as folder:
            return _answer(question, Path(folder), execution, on_progress, exhaustive, keeps=False)
    place = Path(values.path("directory", directory))
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"-o: cannot write to {str(place)!r}: {error.strerror}") from None
    return _answer(question, place, execution, on_progress, exhaustive, keeps=True)


def _answer(
    question: Question,
    place: Path,
    execution: Mapping[str, Any],
    on_progress: OnProgress | None,
    exhaustive: bool,
    *,
    keeps: bool,
) -> Recommendation:
    _check_place(place, question, exhaustive)
    runner = Runner(question, place / RESULTS_FILE, execution, on_progress)
    valid = candidates.enumerate_all(question)
    found = search.find(runner, valid, exhaustive=exhaustive)
    by_name = {candidate.name: candidate for candidate in valid}
    content = _content(question, valid, found)
    content["question"] |= {"exhaustive": exhaustive}
    shown = _shown(question, by_name, found)
    if found.best is not None:
        _examine(runner, valid, by_name, found, content)
    content["counts"]["runs"] = runner.simulated
    if not shown:
        raise ValueError(_nothing(found))
    kept = _kept(runner, shown, found, place, content)
    return Recommendation(kept.content["recommendation"], kept if keeps else Sweep(kept.content, None, kept.simulated))


def _check_place(place: Path, question: Question, exhaustive: bool) -> None:
    """Refuses a folder of something else, and a trace that is missing, before anything runs."""
    for path in trace_files({"trace_files": question.run["trace"]}):
        if not Path(path).expanduser().is_file():
            raise FileNotFoundError(f"trace: {path}: no such file")
    if not (place / POINTS_FILE).exists():
        return
    folder = Folder.existing(place)
    try:
        known = folder.fact(summary.RECOMMENDATION)
    finally:
        folder.close()
    if known is None or known["question"] != {**_asked(question), "exhaustive": exhaustive}:
        raise ValueError(f"-o: {place} holds another sweep or recommendation, want another folder")


def _nothing(found: Found) -> str:
    """Why no deployment could be run at all."""
    (how, reason), count = Counter(found.out.values()).most_common(1)[0]
    return f"no deployment can be run: {count:,} are out for the same reason ({how}): {reason}"


def _asked(question: Question) -> dict[str, Any]:
    """The question as plain values."""
    trace = question.run["trace"]
    return {
        "model": question.model,
        "system": question.system,
        "gpus": question.gpus,
        "gpus_per_node": question.gpus_per_node,
        "engines": list(question.engines),
        "objective": question.objective,
        "sla": [str(bound) for bound in question.bounds if bound.figure != "rejected_requests" or bound.limit],
        "trace": trace if isinstance(trace, str) else ", ".join(trace),
        "run": {name: value for name, value in question.run.items() if name != "trace"},
        "gpu_hour_price": question.price,
        "seeds": question.seeds,
        "host_gb_per_gpu": question.host_gb_per_gpu,
        "accept_rates": question.accept_rates,
        "kv_cache_dtype": question.kv_cache_dtype,
    }


def _content(question: Question, valid: Sequence[Candidate], found: Found) -> dict[str, Any]:
    """What is known before the winner is examined."""
    groups: dict[tuple[str, str], list[str]] = {}
    for name, (how, reason) in found.out.items():
        groups.setdefault((how, reason if how != "beginning" else reason.partition(":")[0]), []).append(name)
    ordered = sorted(groups.items(), key=lambda item: -len(item[1]))
    return {
        "schema": summary.RECOMMENDATION_SCHEMA,
        "question": _asked(question),
        "named": {shown: name for name in question.sla if (shown := latencies.shown(name)) != name},
        "good": {name: question.run[name] for name in GOOD.values() if name in question.run},
        "winner": found.best,
        "point": None,
        "size": "",
        "host_gb": None,
        "deployment": "",
        "flags": [],
        "not_exported": "",
        "gpus": None,
        "gpu_hours": None,
        "cost_per_hour": None,
        "cost_per_million_tokens": None,
        "cost_per_million_output_tokens": None,
        "targets": [],
        "goodput_ratio": None,
        "basis": None,
        "durations": next((point["durations"] for point in found.whole.values() if point["durations"]), []),
        "no_interval": "",
        "headroom": None,
        "cases": [],
        "sensitivity": [],
        "endurance": None,
        "next_best": [],
        "nearest": _nearest(found),
        "counts": {
            "candidates": len(valid),
            "whole": len(found.whole),
            "ruled_out": len(found.out),
        },
        "ruled_out": [
            {"how": how, "reason": found.out[names[0]][1], "candidates": len(names), "example": names[0]}
            for (how, _), names in ordered
        ],
    }


def _nearest(found: Found) -> dict[str, Any] | None:
    """The deployment that misses the service level by least, of those that were run to the end."""
    missed = [(name, point) for name, point in found.whole.items() if point["status"] != OK and point["sla"]]
    if found.best is not None or not missed:
        return None
    name, point = min(missed, key=lambda item: _by(item[1]))
    return {"name": name, "reason": point["reason"]}


def _by(point: Mapping[str, Any]) -> float:
    """By which part of its limit a point misses the bound that it misses most."""
    misses = [
        bound_of(verdict).excess(verdict["value"]) if verdict["value"] is not None else float("inf")
        for verdict in point["sla"]
        if not verdict["met"]
    ]
    return max(misses, default=float("inf"))


def _ranked(question: Question, by_name: Mapping[str, Candidate], found: Found) -> list[str]:
    """Names of deployments that may be the answer, the best first."""
    of, order = rank(question), {name: at for at, name in enumerate(by_name)}
    kept = [name for name, point in found.whole.items() if search.keeps(question, point)]
    return sorted(kept, key=lambda name: (*of(by_name[name], found.whole[name]), order[name]))


def _shown(question: Question, by_name: Mapping[str, Candidate], found: Found) -> list[Candidate]:
    """What the page shows: the best, and those that miss by least."""
    ranked = _ranked(question, by_name, found)
    rest = sorted((name for name in found.whole if name not in ranked), key=lambda name: _by(found.whole[name]))
    most = [*ranked[: _SHOWN - min(len(rest), _SHOWN // 2)], *rest][:_SHOWN]
    return [by_name[name] for name in by_name if name in set(most)]


def _examine(
    runner: Runner,
    valid: Sequence[Candidate],
    by_name: Mapping[str, Candidate],
    found: Found,
    content: dict[str, Any],
) -> None:
    """Adds what is asked of the winner."""
    question = runner.question
    ranked = _ranked(question, by_name, found)
    winner, point = by_name[ranked[0]], found.whole[ranked[0]]
    drawn, why_not = checks.repeated(runner, [by_name[name] for name in ranked[:_FINALISTS]], point)
    sampled = drawn.get(winner.name, point)
    figures = point["figures"]
    content |= {
        "size": _size(winner),
        "host_gb": _host_gb(winner, question),
        "deployment": _deployed(point["deployment"], winner, question),
        **_started(runner, winner),
        "gpus": winner.gpus,
        "gpu_hours": figures["gpu_hours"],
        "targets": _targets(point, sampled, runner.run([winner])[winner.name]),
        "durations": point["durations"],
        "no_interval": why_not,
        "goodput_ratio": figures.get("goodput_ratio"),
        "basis": checks.basis(runner, winner, point, question.seeds if drawn else 0),
    }
    if question.price is not None:
        content |= {name: figures[name] for name in content if name.startswith("cost_per_million")}
        content["cost_per_hour"] = winner.gpus * question.price
    if point["status"] == OK:
        rows = search.rows_of(point)
        content["headroom"] = checks.headroom(runner, winner, rows)
        content["cases"] = checks.disturbed(runner, winner, checks.peak_ms(rows))
        content["sensitivity"] = checks.sensitivity(runner, valid, found)
        content["endurance"] = endurance.longest(runner, winner)
    content["next_best"] = _next_best(question, by_name, found, ranked)


def _size(winner: Candidate) -> str:
    """How many workers of which shape: ``2 x SGLang TP 2``."""
    engine, _, shape = winner.worker.partition(",")[0].partition(" ")
    counts = f"{winner.pools[0]}" if len(winner.pools) == 1 else "{} prefill + {} decode".format(*winner.pools)
    drafts = winner.engine.get("engine.aic_nextn", 0)
    more = f" with {drafts} draft token{'s' if drafts > 1 else ''}" if drafts else ""
    return f"{counts} x {durations.ENGINES[engine]} {shape}{more}"


def _host_gb(winner: Candidate, question: Question) -> dict[str, float] | None:
    """Host memory for KV blocks, of a worker and of all."""
    size = winner.engine.get("engine.host_cache_gb", question.run["extra_engine_args"].get("host_cache_gb"))
    return None if size is None else {"worker": size, "all": size * sum(winner.pools)}


def _deployed(found: Mapping[str, Any], winner: Candidate, question: Question) -> str:
    """The deployment in words, with the host memory, which only some have."""
    words = deployment.words(found, rules=False)
    host = _host_gb(winner, question)
    return words if host is None else f"{words}, host memory for KV {host['worker']:g} GB of each worker"


def _started(runner: Runner, winner: Candidate) -> dict[str, Any]:
    """The command lines that start the winner; without any, why no file can say them."""
    question = runner.question
    try:
        return {"flags": flags.lines(search.alone(runner, winner), question.model, winner.migrations)}
    except ValueError as error:
        return {"not_exported": str(error)}


def _is_shown(verdict: Mapping[str, Any]) -> bool:
    """Whether a bound is one that was asked for: that nothing is rejected goes without saying."""
    return verdict["figure"] != "rejected_requests" or not verdict["met"]


def _targets(point: Mapping[str, Any], sampled: Mapping[str, Any], grid: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What became of each bound: figures of the trace itself, intervals of its draws.

    Draws have the durations of ``grid``, a run of the trace, and are moved by what those of all shapes change in it.
    """
    values, on_grid = ({str(bound_of(verdict)): verdict for verdict in each["sla"]} for each in (point, grid))
    drawn = {str(bound_of(verdict)): verdict for verdict in sampled["sla"] if _is_shown(verdict)}
    return [
        _target(verdict, values[bound], sampled, _ratio(values[bound]["value"], on_grid.get(bound, {}).get("value")))
        | {"p99": _p99(point, verdict["figure"])}
        for bound, verdict in drawn.items()
    ]


def _p99(point: Mapping[str, Any], figure: str) -> float | None:
    """The 99th percentile of what is bounded by a mean or a lower percentile, None without one."""
    statistic, _, kind = latencies.recorded(figure).partition("_")
    p99: float | None = point["figures"].get(f"p99_{kind}") if _BELOW_P99.fullmatch(statistic) else None
    return p99


def _ratio(value: float | None, grid: float | None) -> float:
    return value / grid if value and grid else 1.0


def _target(
    drawn: Mapping[str, Any], verdict: Mapping[str, Any], sampled: Mapping[str, Any], ratio: float
) -> dict[str, Any]:
    interval = sampled["intervals"].get(drawn["figure"])
    ends = [ratio * end for end in interval or ()]
    sure = all(bound_of(drawn).excess(end) <= 0 for end in ends) if ends else drawn["sure"]
    error = (sampled["measured_error"] or {}).get("ttft" if "ttft" in drawn["figure"] else "tpot")
    return {
        "bound": str(bound_of(drawn)),
        "value": verdict["value"],
        "low": ends[0] if ends else None,
        "high": ends[1] if ends else None,
        "error": error,
        "met": verdict["met"],
        "sure": sure,
        "within_error": "within_error" in drawn,
    }


def _next_best(question: Question, by_name: Mapping[str, Candidate], found: Found, ranked: Sequence[str]) -> list[str]:
    """The second, and the nearest with fewer GPUs: why each lost."""
    lines = []
    best = found.whole[ranked[0]]
    if len(ranked) > 1:
        second, figures = by_name[ranked[1]], found.whole[ranked[1]]["figures"]
        theirs, ours = (f"{each['tok_s_per_user']:.4g}" for each in (figures, best["figures"]))
        speeds = f"{theirs} instead of {ours} tokens/s for each user"
        if theirs == ours:
            speeds = f"and no difference: {ours} tokens/s for each user; of equals the first one is the answer"
        same = "as many GPUs" if second.gpus == by_name[ranked[0]].gpus else f"{second.gpus} GPUs"
        loses_host = _host_gb(by_name[ranked[0]], question) is not None and _host_gb(second, question) is None
        without = ", without host memory" if loses_host else ""
        lines.append(f"{second.name}: {same}{without}, {speeds}; {_figures(found.whole[ranked[1]])}")
    fewer = [
        name
        for name, point in found.whole.items()
        if by_name[name].gpus < by_name[ranked[0]].gpus and point["status"] != OK and point["sla"]
    ]
    if fewer:
        name = min(fewer, key=lambda each: _by(found.whole[each]))
        lines.append(f"with fewer GPUs, {name} is the nearest: {found.whole[name]['reason']}")
    return lines


def _figures(point: Mapping[str, Any]) -> str:
    """The figures of a point that are bounded, with their bounds."""
    return ", ".join(
        f"{latencies.shown(verdict['figure'])} {number(verdict['value'])} ({str(bound_of(verdict)).partition(' ')[2]})"
        for verdict in point["sla"]
        if _is_shown(verdict) and verdict["value"] is not None
    )


def _kept(runner: Runner, shown: Sequence[Candidate], found: Found, place: Path, content: dict[str, Any]) -> Sweep:
    """The sweep whose page shows the answer, with the recommendation in its folder."""
    shaped = [candidate for each in shown for candidate in runner.shaped([each], each.name in found.exact)]
    spec = runner.spec(shaped, {}, objectives=["gpus", "tok_s_per_user"])
    made = sweep.run(spec, place, on_progress=runner.on_progress, **runner.execution)
    ids = {point["knobs"]["deployment"]: point["id"] for point in made.points}
    content["point"] = ids.get(content["winner"])
    for other in content["sensitivity"]:
        other["point"] = ids.get(other["best"])
    folder = Folder.existing(place)
    try:
        folder.keep(summary.RECOMMENDATION, content)
    finally:
        folder.close()
    loaded = sweep.load(place)
    report.write(loaded.content, place)
    return loaded
