"""Engine arguments in the nested form of Dynamo 1.6: ``{"engine": {"backend": "vllm"}, "dp_size": 1, "dynamo": {}}``.

Go reads them wherever it is given engine arguments. This is for what Python looks into itself: arguments that become a
``MockEngineArgs``, and those whose fields a sweep varies.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dynamo._core import spelling, values
from dynamo._shell.tables import table

_OBJECTS = ("engine", "dynamo")


def is_nested(given: Mapping[str, Any]) -> bool:
    """Reports whether engine arguments have the nested form, or a timing model that is an object."""
    return any(name in given for name in _OBJECTS) or isinstance(given.get("timing_model"), Mapping)


def flat(given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns engine arguments in flat form. Raises TypeError for an unknown member, ValueError for one that is
    refused.
    """
    if not is_nested(given):
        return dict(given)
    fields: dict[str, Any] = {}
    paths: dict[str, str] = {}
    for path, name, value in _members(given):
        if name in fields:
            raise ValueError(f"{path}: got {values.show(value)} beside {paths[name]}, want one of the two")
        fields[name], paths[name] = value, path
    return fields


def _members(given: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """The path of each member, the flat field that it sets, and its value."""
    for name, value in given.items():
        if name not in _OBJECTS:
            yield from _member(name, value)
            continue
        if not isinstance(value, Mapping):
            raise TypeError(f"{name}: got {values.show(value)}, want an object")
        for inner, item in value.items():
            yield from _member(f"{name}.{inner}", item)


def _member(path: str, value: Any) -> Iterator[tuple[str, str, Any]]:
    known = table("engine_args")["launch"]
    outer, _, inner = path.rpartition(".")
    if path not in known and outer:
        names = [name.partition(".")[2] for name in known if name.startswith(f"{outer}.")]
        near = spelling.nearest(inner, names)
        hint = f'did you mean "{outer}.{near}"?' if near else spelling.offer(inner, names)
        raise TypeError(f"unknown field {values.brief(values.show(path))}, {hint}")
    row = known.get(path) or {"name": path}
    if not row["name"]:
        if value is not None and values.show(value) not in row["harmless"].split():
            raise ValueError(f"{path}: got {values.brief(values.show(value))}, want {row['want']}")
    elif row["name"] == "timing_model" and isinstance(value, Mapping):
        yield from _timing(path, value)
    else:
        yield path, row["name"], value


def _timing(path: str, model: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    kind = model.get("type")
    if kind not in ("polynomial", "fixed"):
        got = "nothing" if kind is None else values.show(kind)
        raise ValueError(f"{path}.type: got {got}, want polynomial or fixed")
    yield path, "timing_model", kind
    for name, value in model.items():
        if kind == "fixed" and name in ("prefill_ms", "decode_ms"):
            yield f"{path}.{name}", f"fixed_{name}", value
        elif name != "type":
            raise TypeError(f"unknown field {values.show(f'{path}.{name}')}, want type, prefill_ms, decode_ms")
