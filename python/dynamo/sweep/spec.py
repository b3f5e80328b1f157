"""The specification of a sweep: what is varied, what counts, and how it is carried out."""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from dynamo._core import objectfile, spelling, values
from dynamo.sweep import expressions, figures, keys, ranges, sla
from dynamo.sweep.expressions import Expression
from dynamo.sweep.ranges import Knob
from dynamo.sweep.sla import Bound

GRID, TPE, NSGA2, QMC = "grid", "tpe", "nsga2", "qmc"
SAMPLERS = (GRID, TPE, NSGA2, QMC)
EXECUTORS = ("threads", "processes", "ray")
FIND_MAX_RATE, FIND_MIN_GPUS = "find_max_rate", "find_min_gpus"
GRID_LIMIT = 100_000
MOST_POINTS = 1_000_000
_FACTS = ("gpus", "prefill_gpus", "decode_gpus")
_KEYS = (
    "run", "search", "where", "sla", "objectives", "seeds", "bootstrap", "load", "sampler", "points", "sampler_seed",
    "grid_limit", "timeout_s", "executor", "jobs", "address", "gpu_hour_price",
)  # fmt: skip
# What does not change any result: a folder may be resumed with other values of these.
_EXECUTION = ("executor", "jobs", "address", "timeout_s")


@dataclass(frozen=True)
class Objective:
    """A figure, and whether more of it is better."""

    figure: str
    maximize: bool


@dataclass(frozen=True)
class Load:
    """What is searched for at each point, instead of a single run."""

    kind: str
    low: float
    high: float
    tolerance: float
    """Of find_max_rate: how close the bounds of the rate are in the end, as a part of it."""
    sure: bool
    """Whether the SLA must be kept within the whole 95 % intervals of its figures, and not just by their means."""


@dataclass(frozen=True)
class Spec:
    """A checked specification. ``given`` is what the user wrote, as plain JSON values."""

    given: Mapping[str, Any]
    run: Mapping[str, Any]
    search: tuple[Knob, ...]
    where: tuple[Expression, ...]
    sla: tuple[Bound, ...]
    objectives: tuple[Objective, ...]
    seeds: tuple[int, ...]
    bootstrap: bool
    load: Load | None
    sampler: str
    points: int | None
    sampler_seed: int
    timeout_s: float | None
    executor: str
    jobs: int | None
    address: str
    gpu_hour_price: float | None

    @property
    def grid_size(self) -> int:
        """How many combinations of values there are."""
        return math.prod(len(knob.values) for knob in self.search)

    def identity(self) -> dict[str, Any]:
        """What decides the results: the specification without how it is carried out."""
        return {name: value for name, value in self.given.items() if name not in _EXECUTION}


Given: TypeAlias = Mapping[str, Any] | str | os.PathLike[str]


def load(given: Given) -> Spec:
    """Reads a specification: an object, or the path of a YAML or JSON file. Raises ValueError or FileNotFoundError."""
    if isinstance(given, Mapping):
        return _parse(values.json_object("spec", given))
    path = values.path("spec", given)
    found = objectfile.read("spec", path)
    try:
        return _parse(found)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _parse(given: dict[str, Any]) -> Spec:
    for key in given:
        if key not in _KEYS:
            near = spelling.nearest(key, _KEYS)
            hint = f"did you mean {near}?" if near else spelling.offer(key, _KEYS)
            raise ValueError(f"unknown key {values.brief(values.show(key))}, {hint}")
    given = {key: value for key, value in given.items() if value is not None}
    run = _run(given.get("run"))
    search = _search(given.get("search"), run)
    if "router_mode" in run:
        run["router_mode"] = keys.routing_mode(run["router_mode"])
    given["run"] = run
    load = _load(given.get("load"), run, search)
    price = _positive(given, "gpu_hour_price")
    seeds = _seeds(given.get("seeds"), run)
    bootstrap = _bootstrap(given, run, search)
    spec = Spec(
        given=given,
        run=run,
        search=search,
        where=_where(given.get("where"), search),
        sla=sla.parse(given.get("sla")),
        objectives=_objectives(given.get("objectives"), load),
        seeds=seeds,
        bootstrap=bootstrap,
        load=load,
        sampler=_choice(given, "sampler", SAMPLERS, GRID),
        points=_count(given, "points", MOST_POINTS),
        sampler_seed=_count(given, "sampler_seed", 2**32 - 1, least=0) or 0,
        timeout_s=_positive(given, "timeout_s"),
        executor=_choice(given, "executor", EXECUTORS, EXECUTORS[0]),
        jobs=_count(given, "jobs", 4096),
        address=_text(given, "address", "auto"),
        gpu_hour_price=price,
    )
    _check_together(spec)
    return _with_sampler(spec, _count(given, "grid_limit", MOST_POINTS) or GRID_LIMIT)


def _run(given: object) -> dict[str, Any]:
    """The base run, with its objects read from files and its trace under one name."""
    if isinstance(given, str) and given.startswith("@"):
        given = objectfile.read("run", given[1:])
    if not isinstance(given, Mapping) or not given:
        got = "nothing" if given is None else values.show(given)
        raise ValueError(f"run: got {got}, want an object with keys of --config, or @FILE")
    run: dict[str, Any] = {}
    for name, value in given.items():
        if "." in name or name == keys.TOPOLOGY:
            raise ValueError(f"run: unknown key {values.show(name)}, want a key of --config")
        keys.check("run", name)
        if value is None:
            continue
        plain = keys.TRACE_FILES if name == keys.TRACE else name
        if plain in run:
            raise ValueError("run: trace and trace_files are the same, want one of them")
        if keys.is_object(name) and isinstance(value, str) and value.startswith("@"):
            value = objectfile.read(f"run: {name}", value[1:])
        if keys.is_object(name) and not isinstance(value, Mapping) and not keys.is_list(name, value):
            raise ValueError(f"run: {name}: got {values.brief(values.show(value))}, want an object or @FILE")
        run[plain] = keys.flat(f"run: {name}", value) if isinstance(value, Mapping) else value
    _check_traces(run.get(keys.TRACE_FILES))
    if "-" in trace_files(run):
        raise ValueError("run: trace: got standard input, want a file, which can be read again")
    return run


def _check_traces(given: object) -> None:
    """Refuses what is no path, before the files are read."""
    found = given if isinstance(given, list) else [given]
    if given is not None and not all(isinstance(path, str) and path for path in found):
        raise ValueError(f"run: trace: got {values.brief(values.show(given))}, want a path, or a list of paths")


def trace_files(run: Mapping[str, Any]) -> list[str]:
    """The trace files of a run."""
    found = run.get(keys.TRACE_FILES, [])
    return [found] if isinstance(found, str) else list(found)


def _search(given: object, run: Mapping[str, Any]) -> tuple[Knob, ...]:
    if not isinstance(given, Mapping) or not given:
        got = "nothing" if given in (None, {}) else values.show(given)
        raise ValueError(f"search: got {got}, want an object from keys to their values")
    knobs = tuple(ranges.parse(str(name), value) for name, value in given.items())
    owners: dict[str, str] = {}
    for knob in knobs:
        for key in sorted(knob.keys):
            keys.check(f"search: {knob.name}" if knob.settings else "search", key)
            if key in owners:
                raise ValueError(f"search: {key} is set by {owners[key]} and by {knob.name}, want it once")
            owners[key] = knob.name
    if (keys.TRACE in owners or keys.TRACE_FILES in owners) and not run.get(keys.TRACE_FILES):
        raise ValueError("search: trace: want a trace in run, too")
    _check_topology(knobs, owners, run)
    return knobs


def _varied(knobs: Sequence[Knob]) -> frozenset[str]:
    """The keys that knobs set."""
    return frozenset().union(*(knob.keys for knob in knobs))


def _check_topology(knobs: Sequence[Knob], owners: Collection[str], run: Mapping[str, Any]) -> None:
    shapes = {
        knob.sets(value)[keys.TOPOLOGY]
        for knob in knobs
        if keys.TOPOLOGY in knob.keys
        for value in knob.values
        if keys.TOPOLOGY in knob.sets(value)
    }
    for shape in shapes - {keys.AGG, keys.DISAGG}:
        raise ValueError(f"search: topology: got {values.show(shape)}, want {keys.AGG} or {keys.DISAGG}")
    if keys.TOPOLOGY in owners:
        _check_schedulers(owners, run)
        return
    pools = bool(run.get("prefill_engine_args") or run.get("decode_engine_args"))
    for name in owners:
        if not pools and (name in keys.POOLS or name.split(".")[0] in ("prefill", "decode")):
            raise ValueError(f"search: {name}: is for two pools: want topology: [agg, disagg] or [disagg] with it")
        if pools and name == "num_workers":
            raise ValueError("search: num_workers: is for one pool: want num_prefill_workers and num_decode_workers")


def _check_schedulers(owners: Collection[str], run: Mapping[str, Any]) -> None:
    """Topologies are compared under the same scheduler."""
    for role in ("prefill", "decode"):
        if f"{role}.scheduler" in owners or "scheduler" in run.get(f"{role}_engine_args", {}):
            raise ValueError(f"{role}.scheduler: want engine.scheduler with topology: one pool and two have the same")


def _where(given: object, search: Sequence[Knob]) -> tuple[Expression, ...]:
    texts = [given] if isinstance(given, str) else given
    if texts is None:
        return ()
    if not isinstance(texts, Sequence) or not all(isinstance(text, str) for text in texts):
        raise ValueError(f"where: got {values.show(given)}, want a condition such as gpus <= 16, or a list of them")
    known = {*_FACTS, *keys.names(), *(knob.name for knob in search), *_varied(search)}
    return tuple(expressions.parse(text, known) for text in texts)


def _objectives(given: object, load: Load | None) -> tuple[Objective, ...]:
    if given is None:
        first = {FIND_MAX_RATE: "arrival_rps_per_gpu", FIND_MIN_GPUS: "gpus"}.get(load.kind if load else "")
        given = [first or "output_tok_s_per_gpu", "tok_s_per_user"]
    if not isinstance(given, Sequence) or isinstance(given, str) or not given:
        raise ValueError(f"objectives: got {values.show(given)}, want a list of figures")
    found = tuple(_objective(item) for item in given)
    if len({objective.figure for objective in found}) < len(found):
        raise ValueError("objectives: a figure is given twice, want each once")
    return found


def _objective(given: object) -> Objective:
    if isinstance(given, Mapping) and len(given) == 1 and next(iter(given)) in ("maximize", "minimize"):
        ((way, name),) = given.items()
        return Objective(figures.check("objectives", str(name)), way == "maximize")
    if not isinstance(given, str):
        raise ValueError(f"objectives: got {values.show(given)}, want a figure, {{maximize: it}} or {{minimize: it}}")
    name = figures.check("objectives", given)
    maximize = figures.maximizes(name)
    if maximize is None:
        raise ValueError(f"objectives: {given}: want {{maximize: {given}}} or {{minimize: {given}}}")
    return Objective(name, maximize)


def _seeds(given: object, run: Mapping[str, Any]) -> tuple[int, ...]:
    base = run.get("seed", 0)
    if given is None:
        return (base,)
    if isinstance(base, bool) or not isinstance(base, int):
        raise ValueError(f"run: seed: got {values.brief(values.show(base))}, want an integer")
    count = given if isinstance(given, int) and not isinstance(given, bool) else 0
    found = list(range(base, base + count)) if 1 <= count <= 1000 else given
    if not isinstance(found, list) or not found:
        raise ValueError(f"seeds: got {values.show(given)}, want an integer from 1 to 1000, or a list of seeds")
    for seed in found:
        if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**64:
            raise ValueError(f"seeds: got {values.show(seed)}, want an integer from 0 to {2**64 - 1}")
    if len(set(found)) < len(found):
        raise ValueError(f"seeds: got {values.show(found)}, want each seed once")
    return tuple(found)


def _bootstrap(given: Mapping[str, Any], run: Mapping[str, Any], search: Sequence[Knob]) -> bool:
    asked = given.get("bootstrap")
    if asked not in (None, "sessions", False):
        raise ValueError(f"bootstrap: got {values.show(asked)}, want sessions")
    recorded = bool(run.get(keys.TRACE_FILES))
    if asked and not recorded:
        raise ValueError("bootstrap: got sessions, want it left out: a synthetic workload is drawn anew for each seed")
    if asked and given.get("seeds") is None:
        raise ValueError("bootstrap: got sessions, want seeds with it: how many traces to draw")
    if recorded and not asked and given.get("seeds") is not None and not _draws_faults(run, search):
        raise ValueError(
            f"seeds: got {values.show(given['seeds'])}, want it left out: nothing is drawn of a recorded trace, "
            "unless bootstrap: sessions or faults that are drawn are given"
        )
    return bool(asked)


def _draws_faults(run: Mapping[str, Any], search: Sequence[Knob]) -> bool:
    """Whether the faults of any run may depend on its seed."""
    settings = [run, *(knob.sets(value) for knob in search for value in knob.values)]
    return any(_is_drawn(each.get("faults")) for each in settings)


def _is_drawn(script: object) -> bool:
    """Whether a script of faults may depend on the seed; what is in a file is not known here."""
    if not isinstance(script, list):
        return script is not None
    faults = [fault for fault in script if isinstance(fault, Mapping)]
    return any("mtbf_s" in fault or "mttr_s" in fault or "random" in str(fault.get("target")) for fault in faults)


def _load(given: object, run: Mapping[str, Any], search: Sequence[Knob]) -> Load | None:
    if given is None:
        return None
    kind: object = given
    options: Any = {}
    if isinstance(given, Mapping) and len(given) == 1:
        ((kind, options),) = given.items()
    if kind not in (FIND_MAX_RATE, FIND_MIN_GPUS) or not isinstance(options or {}, Mapping):
        raise ValueError(f"load: got {values.show(given)}, want {FIND_MAX_RATE} or {FIND_MIN_GPUS}")
    allowed = ("low_rps", "high_rps", "tolerance", "sure") if kind == FIND_MAX_RATE else ("max_gpus", "sure")
    options = options or {}
    for key in options:
        if key not in allowed:
            raise ValueError(f"load: {kind}: unknown key {values.show(key)}, {spelling.offer(str(key), allowed)}")
    taken = _varied(search) | set(run)
    wanted = ("arrival_speedup_ratio",) if kind == FIND_MAX_RATE else ("num_workers", *keys.POOLS)
    for name in (*wanted, "replay_concurrency"):
        if name in taken:
            raise ValueError(f"load: {kind}: got {name} in run or search, want it left out: {_DECIDED[kind]}")
    sure = options.get("sure", False)
    if not isinstance(sure, bool):
        raise ValueError(f"load: {kind}: sure: got {values.show(sure)}, want true or false")
    if kind == FIND_MIN_GPUS:
        return Load(str(kind), 1, _count(options, "max_gpus", 1 << 20, where="load: ") or 64, 0, sure)
    low = _positive(options, "low_rps", where="load: ") or 0
    high = _positive(options, "high_rps", where="load: ") or float("inf")
    tolerance = _positive(options, "tolerance", where="load: ") or 0.02
    if low >= high or tolerance >= 1:
        raise ValueError(f"load: {kind}: got {values.show(options)}, want low_rps < high_rps and tolerance < 1")
    return Load(str(kind), low, high, tolerance, sure)


_DECIDED = {
    FIND_MAX_RATE: "the search scales the arrivals of the workload",
    FIND_MIN_GPUS: "the search decides how many workers there are, for arrivals by the clock",
}


def _check_together(spec: Spec) -> None:
    if spec.load is not None and len(spec.sla) == 1 and spec.sla[0].figure == "rejected_requests":
        raise ValueError(f"load: {spec.load.kind}: want an sla, such as {{p99_ttft_ms: 2000}}, with it")
    if spec.load is not None and spec.load.sure and len(spec.seeds) < 2:
        raise ValueError(f"load: {spec.load.kind}: sure: want seeds with it, at least 2: they make intervals")
    wanted = {objective.figure for objective in spec.objectives} | {bound.figure for bound in spec.sla}
    planned = keys.is_planned([*spec.run, *_varied(spec.search)])
    if planned and spec.load is not None and spec.load.kind == FIND_MIN_GPUS:
        raise ValueError("load: find_min_gpus: want it left out: a planner decides how many workers there are")
    if spec.gpu_hour_price is None and (priced := sorted(wanted & figures.COSTS)):
        raise ValueError(f"{priced[0]}: want gpu_hour_price with it")
    levels = ("sla_ttft_ms", "sla_tpot_ms", "sla_itl_ms", "sla_e2e_ms")
    bounded = any(name in spec.run for name in levels) or any(knob.name in levels for knob in spec.search)
    good = sorted(name for name in wanted if name.startswith("goodput_"))
    if good and not bounded:
        raise ValueError(f"{good[0]}: want sla_ttft_ms, sla_tpot_ms or sla_e2e_ms in run, which say what good is")
    if spec.points is not None and spec.sampler == GRID:
        raise ValueError(f"points: got {spec.points}, want a sampler with it: {', '.join(SAMPLERS[1:])}")


def _with_sampler(spec: Spec, limit: int) -> Spec:
    """The specification with a sampler for what is too large for a grid."""
    size = spec.grid_size
    if spec.sampler == GRID and size > MOST_POINTS:
        raise ValueError(
            f"search: got a grid of {size} points, want at most {MOST_POINTS}, or a sampler: nsga2, tpe, qmc"
        )
    if spec.sampler == GRID and size <= limit:
        return spec
    sampler = NSGA2 if spec.sampler == GRID else spec.sampler
    points = spec.points or max(1, min(size // 10, limit // 10))
    return replace(spec, sampler=sampler, points=points)


def _choice(given: Mapping[str, Any], key: str, choices: Sequence[str], default: str) -> str:
    found = given.get(key, default)
    if found not in choices:
        near = spelling.nearest(found, choices) if isinstance(found, str) else None
        hint = f"did you mean {near}?" if near else f"want one of {', '.join(choices)}"
        raise ValueError(f"{key}: got {values.show(found)}, {hint}")
    return str(found)


def _text(given: Mapping[str, Any], key: str, default: str) -> str:
    found = given.get(key, default)
    if not isinstance(found, str) or not found:
        raise ValueError(f"{key}: got {values.show(found)}, want a text")
    return found


def _count(given: Mapping[str, Any], key: str, most: int, *, least: int = 1, where: str = "") -> int | None:
    found = given.get(key)
    if found is None:
        return None
    if isinstance(found, bool) or not isinstance(found, int) or not least <= found <= most:
        raise ValueError(f"{where}{key}: got {values.show(found)}, want an integer from {least} to {most}")
    return found


def _positive(given: Mapping[str, Any], key: str, *, where: str = "") -> float | None:
    found = given.get(key)
    if found is None:
        return None
    if isinstance(found, bool) or not isinstance(found, int | float) or not values.is_finite(found) or found <= 0:
        raise ValueError(f"{where}{key}: got {values.show(found)}, want a finite number above 0")
    return float(found)
