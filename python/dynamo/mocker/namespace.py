"""The functions of ``dynamo.mocker.args`` for programs that start live workers by themselves.

``parse_args`` reads the options of ``python -m dynamo.mocker`` as that does; ``resolve_planner_profile_data`` finds
the file of measured durations.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from dynamo import _core
from dynamo._core import values
from dynamo._shell.console import BAD_INPUT, UsageError, say
from dynamo._shell.fields import Fields, check, fields_of
from dynamo.mocker.defaults import default_of
from dynamo.mocker.main import _parser

# Options with another name in the namespace.
_RENAMED = {"num_gpu_blocks_override": "num_gpu_blocks", "data_parallel_size": "dp_size"}
_PATHS = ("planner_profile_data", "extra_engine_args")
_PORTS = ("bootstrap_ports", "zmq_kv_events_ports", "zmq_replay_ports")
# Environment variables that take the place of an option.
_VARIABLES = {
    "discovery_backend": "DYN_DISCOVERY_BACKEND",
    "request_plane": "DYN_REQUEST_PLANE",
    "event_plane": "DYN_EVENT_PLANE",
}
_LEGACY_MODES = {"is_prefill_worker": "prefill", "is_decode_worker": "decode"}


def parse_args(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Returns the options of ``python -m dynamo.mocker``, those of this process if None, with their defaults filled in.

    Names are those of the options but for ``num_gpu_blocks`` and ``dp_size``. ``bootstrap_ports_list``,
    ``zmq_kv_events_ports_list`` and ``zmq_replay_ports_list`` hold the ports as numbers, and ``endpoint``,
    ``disaggregation_mode``, ``is_prefill_worker`` and ``is_decode_worker`` agree with each other. Nothing is started,
    and neither models nor files are looked at.

    Raises ValueError for a value out of range and for options that contradict each other, SystemExit, after a line on
    standard error, for an option or a choice that does not exist (2) and for ``--help`` (0).
    """
    try:
        given = vars(_parser().parse_args(argv))
    except UsageError as error:
        _exit(error)
    fields = fields_of(None, "live_options")
    try:
        check(fields, {name: value for name, value in given.items() if fields[name].type == "enum"})
    except ValueError as error:
        _exit(error)
    check(fields, given)
    _check_mode(given)
    options = {**_defaults(fields), **given}
    for name in _PORTS:
        options[f"{name}_list"] = _ports(name, options)
    if options["zmq_replay_ports_list"] and not options["zmq_kv_events_ports_list"]:
        raise ValueError("zmq_replay_ports: requires zmq_kv_events_ports")
    _agree_on_mode(options)
    for name in _PATHS:
        options[name] = None if options[name] is None else Path(options[name])
    return argparse.Namespace(**{_RENAMED.get(name, name): value for name, value in options.items()})


def _exit(error: Exception) -> NoReturn:
    say(f"error: {error}")
    sys.exit(BAD_INPUT)


def _defaults(fields: Fields) -> dict[str, Any]:
    """Returns the default of each option, or the value of its environment variable."""
    found = {name: default_of(name) for name in fields}
    found.update({name: os.environ[variable] for name, variable in _VARIABLES.items() if os.environ.get(variable)})
    return found


def _check_mode(given: Mapping[str, Any]) -> None:
    legacy = [name for name in _LEGACY_MODES if given.get(name)]
    if legacy and "disaggregation_mode" in given:
        shown = values.show(given["disaggregation_mode"])
        raise ValueError(
            f"is_prefill_worker, is_decode_worker: cannot be combined with disaggregation_mode {shown}; use only that"
        )
    if len(legacy) > 1:
        raise ValueError(
            "is_prefill_worker, is_decode_worker: a worker is one of prefill, decode and aggregated, not both"
        )


def _agree_on_mode(options: dict[str, Any]) -> None:
    legacy = next((mode for name, mode in _LEGACY_MODES.items() if options[name]), None)
    mode = options["disaggregation_mode"] = options["disaggregation_mode"] or legacy or "agg"
    for name, its_mode in _LEGACY_MODES.items():
        options[name] = mode == its_mode
    if options["endpoint"] is None:
        suffix = os.environ.get("DYN_NAMESPACE_WORKER_SUFFIX")
        namespace = "-".join(filter(None, [os.environ.get("DYN_NAMESPACE") or "dynamo", suffix]))
        component = "prefill" if mode == "prefill" else "backend"
        options["endpoint"] = f"dyn://{namespace}.{component}.generate"


def _ports(name: str, options: Mapping[str, Any]) -> list[int]:
    """Returns one port for each worker, or none."""
    text = options[name]
    if text is None or not text.strip():
        return []
    ranks = 1 if name == "bootstrap_ports" else options["data_parallel_size"]
    last = 65535 - ranks + 1
    ports = []
    for item in text.split(","):
        try:
            port = int(item)
        except ValueError:
            port = 0
        if not 1 <= port <= last:
            raise ValueError(f"{name}: got {json.dumps(item)}, want ports from 1 to {last}, with commas in between")
        ports.append(port)
    workers = options["num_workers"]
    if len(ports) != workers:
        shown = f"[{' '.join(map(str, ports))}]"
        raise ValueError(f"{name}: must have exactly num_workers ({workers}) ports, got {len(ports)}: {shown}")
    return ports


class ProfileDataResult:
    """Where measured durations are: ``npz_path``, None for none.

    A file that was made for it lies in ``tmpdir``, which is removed with this object.
    """

    def __init__(self, npz_path: Path | None, tmpdir: tempfile.TemporaryDirectory[str] | None) -> None:
        self.npz_path = npz_path
        self.tmpdir = tmpdir

    def __del__(self) -> None:
        if self.tmpdir is not None:
            self.tmpdir.cleanup()


def resolve_planner_profile_data(planner_profile_data: str | os.PathLike[str] | None) -> ProfileDataResult:
    """Finds the table file that ``--planner-profile-data`` stands for.

    A ``.npz`` file with the five arrays of a table is that file itself. From the folder of a profiler a table file is
    made, in a temporary folder that is removed with the result. None stays None.

    Raises FileNotFoundError if the path holds neither. It loads the extension of replays: a process that has called it
    cannot serve live workers itself.
    """
    if planner_profile_data is None:
        return ProfileDataResult(None, None)
    path = values.path("planner_profile_data", planner_profile_data)
    try:
        arrays = _core.profile(path)
    except ValueError as error:
        raise FileNotFoundError(str(error)) from None
    if not arrays:
        return ProfileDataResult(Path(path), None)
    folder = tempfile.TemporaryDirectory(prefix="mocker_perf_data_")
    return ProfileDataResult(_write_table(Path(folder.name), arrays), folder)


def _write_table(folder: Path, arrays: Mapping[str, Sequence[float]]) -> Path:
    import numpy as np

    columns = {name: np.array(numbers, dtype=np.float64) for name, numbers in arrays.items()}
    rows = len(columns["decode_active_kv_tokens"])
    columns["decode_itl"] = columns["decode_itl"].reshape(rows, -1)
    path = folder / "perf_data.npz"
    np.savez(path, **columns)  # type: ignore[arg-type]  # its stubs mix the arrays up with allow_pickle
    return path
