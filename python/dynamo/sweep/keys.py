"""Names of what a sweep can set: keys of a run, and fields of its objects, such as ``engine.max_num_seqs``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from dynamo._core import spelling, values
from dynamo._shell import launch
from dynamo._shell.options import run_options
from dynamo._shell.tables import table

TOPOLOGY = "topology"
AGG, DISAGG = "agg", "disagg"
TRACE, TRACE_FILES = "trace", "trace_files"
AUTOSCALER, PLANNER_CONFIG = "autoscaler", "planner_config"

OBJECTS: Mapping[str, tuple[str, str]] = {
    "engine": ("extra_engine_args", "engine_args"),
    "prefill": ("prefill_engine_args", "engine_args"),
    "decode": ("decode_engine_args", "engine_args"),
    "router": ("router_config", "router_config"),
    "aic": ("aic_perf_config", "aic_perf_config"),
    "autoscaler": (AUTOSCALER, AUTOSCALER),
}
"""What stands before the dot of a field: the key of the run that holds it, and the table of its fields."""

ROUTING_MODES = "routing_modes"
"""The table of the settings of routing modes besides kv_router."""

_FREE = frozenset({PLANNER_CONFIG})
"""Objects whose fields only the program that reads them knows."""

POOLS = ("num_prefill_workers", "num_decode_workers")
_OBJECT_KEYS = frozenset(key for key, _ in OBJECTS.values())
_OWN = {
    "report_json": "a sweep writes reports of its own",
    "rows": "a sweep keeps the figures of runs, not their rows",
    "timeline_window": "a sweep keeps the figures of runs, not their files",
    "timeseries_step": "a sweep keeps the figures of runs, not series",
    "worker_type": "topology decides it",
    "planner": "it is an object of a program, which a sweep cannot compare or send to other processes",
}


@cache
def run_keys() -> frozenset[str]:
    """The keys that a run of a sweep may have: those of ``--config``, without output files."""
    known = run_options().items()
    return frozenset(
        {TRACE} | {name for name, option in known if option.parameter and not option.writes and name not in _OWN}
    )


@cache
def names() -> frozenset[str]:
    """All names that a sweep can set, but for fields of nested objects."""
    fields = {f"{prefix}.{field['name']}" for prefix, (_, of) in OBJECTS.items() for field in table(of)["fields"]}
    return run_keys() | fields | {f"router.{field['name']}" for field in table(ROUTING_MODES)["fields"]} | {TOPOLOGY}


def routing_mode(given: object) -> object:
    """The name of a routing mode among those of replays: other commands have other words for some."""
    (option,) = (field for field in table("run_options")["fields"] if field["name"] == "router_mode")
    if not isinstance(given, str) or given in option["choices"]:
        return given
    words = {choice.replace("_", "-"): choice for choice in option["choices"]} | option["aliases"]
    return words.get(given.replace("_", "-"), given)


def routes_without(mode: object, name: str) -> bool:
    """Whether a field of router means nothing to the routers of a mode."""
    field = name.removeprefix("router.").partition(".")[0]
    fields: Iterable[str] | None = table(ROUTING_MODES)["modes"].get(mode)
    if fields is None:  # kv_router, or a mode of another package
        fields = [row["name"] for row in table("router_config")["fields"]]
    return field not in fields


def check(where: str, name: str) -> None:
    """Raises ValueError unless a sweep can set what this name stands for."""
    short = ".".join(name.split(".")[:2])
    if short != name and name.partition(".")[0] in _FREE and all(name.split(".")):
        return
    if short in names() and name.rpartition(".")[2] not in _OWN:
        if name == short or _is_nested(*name.split(".")):
            return
    elif reason := _OWN.get(name.rpartition(".")[2]) or (run_options().get(name) and _output(name)):
        raise ValueError(f"{where}: {name}: want it left out: {reason}")
    near = spelling.nearest(name, names())
    if name.startswith("router.") and not near:
        whole = f"[{{{values.show(name.removeprefix('router.'))}: ...}}, ...]"
        raise ValueError(
            f"{where}: unknown key {values.brief(values.show(name))}, want a field of router_config (docs/routers.md), "
            f"or router_config as a whole for the settings of a router in Python: {whole}"
        )
    hint = (
        f"did you mean {near}?"
        if near
        else "want a key of --config, or a field of engine, prefill, decode, router, aic, autoscaler, planner_config"
    )
    raise ValueError(f"{where}: unknown key {values.brief(values.show(name))}, {hint}")


def flat(name: str, value: Mapping[str, Any]) -> Mapping[str, Any]:
    """An object of the run; engine arguments in flat form, whose fields can be set. Raises ValueError."""
    if not name.endswith("engine_args"):
        return value
    try:
        return launch.flat(value)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name}: {error}") from None


def _output(name: str) -> str:
    return "a sweep keeps the figures of runs, not their files" if run_options()[name].writes else ""


def _is_nested(prefix: str, field: str, *rest: str) -> bool:
    inner = table(OBJECTS[prefix][1]).get("nested", {}).get(field, ()) if prefix in OBJECTS else ()
    return len(rest) == 1 and any(item["name"] == rest[0] for item in inner)


def holder(name: str) -> tuple[str, list[str]] | None:
    """The key of the run that holds a field, and the path to it there; None for a key of the run itself."""
    prefix, *path = name.split(".")
    key = prefix if prefix in _FREE else OBJECTS[prefix][0] if path else ""
    return (key, path) if path else None


def is_object(name: str) -> bool:
    """Whether a key of the run holds an object."""
    return name in _OBJECT_KEYS


def is_list(name: str, value: object) -> bool:
    """Whether a value is a list of objects in the place of one: policies for two pools."""
    return name == AUTOSCALER and isinstance(value, list) and all(isinstance(item, Mapping) for item in value)


def is_planned(settings: Iterable[str]) -> bool:
    """Whether runs with these keys and fields have a planner."""
    return not {AUTOSCALER, PLANNER_CONFIG}.isdisjoint(name.partition(".")[0] for name in settings)


def default(name: str) -> Any:
    """The default of a key or field, None if it has none."""
    prefix, _, field = name.partition(".")
    if field and prefix in _FREE:
        return None
    rows: list[Mapping[str, Any]] = table(OBJECTS[prefix][1])["fields"] if field else table("run_options")["fields"]
    if prefix == "router":
        rows = rows + table(ROUTING_MODES)["fields"]
    return next((row["default"] for row in rows if row["name"] == (field or name)), None)
