"""Points: values of all knobs, and the run that they describe."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping
from typing import Any

from dynamo._core import objectfile, values
from dynamo.sweep import keys
from dynamo.sweep.expressions import Absent
from dynamo.sweep.spec import FIND_MIN_GPUS, Spec

Knobs = Mapping[str, Any]
ROUND_ROBIN = "round_robin"


def topology(run: Mapping[str, Any], settings: Knobs) -> str:
    """Whether a point has one pool or two: what it says, or what the run says."""
    stated = settings.get(keys.TOPOLOGY)
    if stated is not None:
        return str(stated)
    pools = ("prefill_engine_args", "decode_engine_args")
    return keys.DISAGG if any(run.get(name) for name in pools) else keys.AGG


def settings_of(spec: Spec, knobs: Knobs) -> dict[str, Any]:
    """The keys that a point sets. A knob may set several."""
    found: dict[str, Any] = {}
    for knob in spec.search:
        if knob.name in knobs:
            found.update(knob.sets(knobs[knob.name]))
    if "router_mode" in found:
        found["router_mode"] = keys.routing_mode(found["router_mode"])
    return found


def effective(spec: Spec, knobs: Knobs) -> dict[str, Any]:
    """A point without the knobs that mean nothing for it, such as the number of prefill workers of a single pool.

    Points that differ only in those are one point.
    """
    settings = settings_of(spec, knobs)
    ignored = _ignored(spec, settings)
    found = {}
    for knob in spec.search:
        if knob.name in knobs and not (knob.settings is None and ignored(knob.name)):
            found[knob.name] = knobs[knob.name]
    return found


def _ignored(spec: Spec, settings: Knobs) -> Callable[[str], bool]:
    """A function that says whether a key means nothing in such a deployment."""
    shape = topology(spec.run, settings)
    # How many workers there are is open while the fewest are searched for.
    one = None if spec.load is not None and spec.load.kind == FIND_MIN_GPUS else 1
    workers = settings.get("num_workers", spec.run.get("num_workers", one))
    alone = shape == keys.AGG and workers == 1 and not keys.is_planned([*spec.run, *settings])
    alone = alone and not _routes_ranks(spec, settings)
    named = settings.get("router", spec.run.get("router"))
    mode = named or settings.get("router_mode", spec.run.get("router_mode", ROUND_ROBIN))
    routed = not alone and mode != ROUND_ROBIN

    def ignored(name: str) -> bool:
        prefix = name.partition(".")[0]
        if prefix in ("prefill", "decode") or name in keys.POOLS:
            return shape == keys.AGG
        if name == "num_workers":
            return shape == keys.DISAGG
        if name == "router":
            return False
        if name == "router_mode":
            return alone or named is not None
        if prefix == "router":
            return not routed or keys.routes_without(mode, name)
        return name == "router_config" and not routed

    return ignored


def _routes_ranks(spec: Spec, settings: Knobs) -> bool:
    """Whether the router of one pool chooses between several ranks of each worker."""
    given = spec.run.get("extra_engine_args", {})
    ranks, routing = (settings.get(f"engine.{name}", given.get(name)) for name in ("dp_size", "dp_routing"))
    return routing == "router" and ranks not in (None, 1)


def configure(spec: Spec, knobs: Knobs, extra: Knobs | None = None) -> dict[str, Any]:
    """The run that a point describes: keys of ``--config``, with objects as dicts. ``extra`` wins over the knobs."""
    settings = {**settings_of(spec, knobs), **(extra or {})}
    shape = topology(spec.run, settings)
    ignored = _ignored(spec, settings)
    run: dict[str, Any] = copy.deepcopy({name: value for name, value in spec.run.items() if not ignored(name)})
    for name, value in settings.items():
        if not ignored(name) and name != keys.TOPOLOGY and not keys.holder(name):
            run[_key(name)] = _object(name, value) if keys.is_object(name) else value
    shared = run.setdefault("extra_engine_args", {})
    _set_fields(run, {name: value for name, value in settings.items() if name.startswith("engine.")})
    if shape == keys.DISAGG:
        run.pop("extra_engine_args")
        _split(run, shared)
    else:
        for name in ("prefill_engine_args", "decode_engine_args"):
            run.pop(name, None)
    _set_fields(run, {n: v for n, v in settings.items() if not ignored(n) and not n.startswith("engine.")})
    return {name: value for name, value in run.items() if value not in ({}, None)}


def _key(name: str) -> str:
    return keys.TRACE_FILES if name == keys.TRACE else name


def _object(name: str, value: Any) -> Any:
    """An object of the run, which may be ``@FILE``."""
    if isinstance(value, str) and value.startswith("@"):
        value = objectfile.read(name, value[1:])
    if isinstance(value, Mapping):
        return keys.flat(name, values.json_object(name, value))
    if keys.is_list(name, value):
        return value
    raise ValueError(f"{name}: got {values.show(value)}, want an object or @FILE")


def _split(run: dict[str, Any], shared: Mapping[str, Any]) -> None:
    """Makes two pools of the engine arguments that both share and those of each. Pools need a router mode."""
    for role in ("prefill", "decode"):
        name = f"{role}_engine_args"
        run[name] = {**shared, **run.get(name, {}), "worker_type": role}
    if "router" not in run:
        run.setdefault("router_mode", ROUND_ROBIN)


def _set_fields(run: dict[str, Any], settings: Knobs) -> None:
    for name, value in settings.items():
        held = keys.holder(name)
        if held is None:
            continue
        key, path = held
        target = run.setdefault(key, {})
        if not isinstance(target, dict):
            raise ValueError(f"{name}: got {key} {values.brief(values.show(target))}, want one object in the run")
        for part in path[:-1]:
            target[part] = {**(target.get(part) or {})}
            target = target[part]
        target[path[-1]] = value


def plain(run: Mapping[str, Any]) -> dict[str, Any]:
    """A run as the core takes it: its kind, and objects as JSON texts. Raises TypeError or ValueError."""
    from dynamo.replay import api

    trace = run.get(keys.TRACE_FILES)
    config: dict[str, Any] = {"kind": "trace" if trace else "synthetic", "rows": False}
    for name, value in run.items():
        config[name] = api.plain(name, value)
    return config


def lookup(spec: Spec, knobs: Knobs, known: Mapping[str, Any]) -> Callable[[str], Any]:
    """A function that gives the value of a name in ``where``."""
    settings = settings_of(spec, knobs)
    shape = topology(spec.run, settings)
    ignored = _ignored(spec, settings)

    def value(name: str) -> Any:
        if name in known:
            return known[name]
        if name == keys.TOPOLOGY:
            return shape
        if name in knobs:
            return knobs[name]
        if ignored(name):
            raise Absent(name)
        return settings[name] if name in settings else _given(spec.run, name)

    return value


def _given(run: Mapping[str, Any], name: str) -> Any:
    """What the base run says of a key or field, else its default."""
    held = keys.holder(name)
    if held is None:
        return run.get(_key(name), keys.default(name))
    key, path = held
    at: Any = run.get(key) or {}
    for part in path:
        at = at.get(part) if isinstance(at, Mapping) else None
    return keys.default(name) if at is None else at


def label(value: Any) -> str:
    """A value of a knob as tables show it."""
    return value if isinstance(value, str) else json.dumps(value)


def words(knobs: Knobs) -> str:
    """All knobs of a point in one line."""
    return " ".join(f"{name}={label(value)}" for name, value in knobs.items())


def identity(knobs: Knobs) -> str:
    """The same text for the same point."""
    return json.dumps(knobs, sort_keys=True, separators=(",", ":"))
