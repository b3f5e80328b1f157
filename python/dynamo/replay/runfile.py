"""``--config FILE``: a run that is kept in a file, and what the command line changes in it."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from dynamo._core import objectfile, spelling, values
from dynamo._shell.options import run_options

# The value types of options that take a JSON object, or @FILE.
_OBJECTS = ("engine_args", "router_config", "autoscaler")
# Such an option may also be a list of objects.
_LISTS = ("autoscaler",)
# Such an option may also be a plain path.
_OBJECT_OR_PATH = "object_or_path"
# Such an option is the path of a file whose content Go reads.
_SCRIPT = "faults"
# Keys that the Python functions do not have: the other name of trace_files, and where the report goes.
_TRACE, _REPORT = "trace", "report_json"
# Options that are not called like their keys, where the nearest name would be that of something else.
_RENAMED = {"report_jsonl": "report_jsonl_path", "max_sim_time_seconds": "max_sim_time_ms"}


class Completed(NamedTuple):
    """Options with the content of their files, and these files, each with what names it."""

    options: dict[str, Any]
    sources: list[tuple[str, str]]


def complete(options: Mapping[str, Any]) -> Completed:
    """Returns the options of a command line with their files read: ``@FILE``, and the run in ``--config``, which they
    override.

    Raises ValueError or FileNotFoundError.
    """
    flags = {name: _expanded(name, value) for name, value in options.items()}
    sources = [(_flag(name), path) for name, value in options.items() if (path := _source(name, value))]
    path = flags.pop("config", None)
    if path is None:
        return Completed(flags, sources)
    run = _read(path, sources)
    if "max_sim_time_seconds" in flags:
        run.pop("max_sim_time_ms", None)
    if run.get("trace_files") and not flags["trace_files"]:
        del flags["trace_files"]
    return Completed({**run, **flags}, sources)


def _source(name: str, value: Any) -> str | None:
    """Returns the file whose content stands for an option's value."""
    takes = run_options()[name].takes
    if not isinstance(value, str):
        return None
    if name == "config" or takes == _SCRIPT:
        return value
    return value[1:] if takes in (*_OBJECTS, _OBJECT_OR_PATH) and value.startswith("@") else None


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _expanded(name: str, value: Any) -> Any:
    takes = run_options()[name].takes
    if takes == _SCRIPT:
        from dynamo.replay import faults  # not before it is needed

        return faults.read(_flag(name), value)
    if takes in _OBJECTS or (takes == _OBJECT_OR_PATH and value.startswith("@")):
        return objectfile.expand(_flag(name), value, lists=takes in _LISTS)
    return value


def _read(path: str, sources: list[tuple[str, str]]) -> dict[str, Any]:
    """Returns the run in a file, as options; files that it names are added to ``sources``. Keys that are null are left
    out.
    """
    run: dict[str, Any] = {}
    for key, value in objectfile.read("--config", path).items():
        if value is None:
            continue
        name = "trace_files" if key == _TRACE else key
        if name in run:
            raise ValueError(f"--config: {path}: trace and trace_files are the same, want one of them")
        try:
            run[name] = _plain(name, value)
        except (TypeError, ValueError) as error:
            raise ValueError(f"--config: {path}: {error}") from None
        if name in run_options() and (source := _source(name, value)):
            sources.append((f"{name} of --config", source))
    run.update(_aic_options(run.pop("aic_perf_config", "{}"), path))
    return run


def _aic_options(text: str, path: str) -> dict[str, Any]:
    """Returns the fields of ``aic_perf_config`` as the command line has them, an option for each."""
    fields: dict[str, Any] = json.loads(text)
    known = _aic_fields() if fields else ()
    for key in fields:
        if key not in known:
            raise ValueError(f"--config: {path}: aic_perf_config: {_unknown('field', key, known)}")
    return fields


def _aic_fields() -> Collection[str]:
    from dynamo._shell.aic_fields import AicFields  # not before it is needed: it takes time to load

    return AicFields.__annotations__


def _plain(name: str, value: Any) -> Any:
    """Returns the value of a key as Go takes it."""
    from dynamo.replay import api  # not before it is needed: it takes time to load

    known = (*(key for key, option in run_options().items() if option.parameter), _TRACE, _REPORT)
    if name not in known:
        raise ValueError(_option_hint(name) or _unknown("key", name, known))
    if name == _REPORT:
        return values.path(name, value)
    if run_options()[name].takes in _OBJECTS and isinstance(value, str) and value.startswith("@"):
        return objectfile.expand(name, value, lists=run_options()[name].takes in _LISTS)
    return api.plain(name, value)


def _option_hint(name: str) -> str | None:
    """Returns the message about a key that is called like an option, if the option's name is not near that of its
    key.
    """
    plain = name.replace("-", "_")
    if key := _RENAMED.get(plain):
        return f"unknown key {values.show(name)}, did you mean {key}?"
    if plain in _aic_fields():
        return f"unknown key {values.show(name)}, want it as a field of aic_perf_config"
    return None


def _unknown(kind: str, name: str, known: Collection[str]) -> str:
    """Returns the message about a name that is not known, with the one that was probably meant."""
    near = spelling.nearest(name, known)
    hint = f"did you mean {near}?" if near else spelling.offer(name, known)
    return f"unknown {kind} {values.brief(values.show(name))}, {hint}"
