"""Repeating a run from its report: ``--from-report FILE``."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from dynamo._core.version import VERSION
from dynamo._shell.console import UsageError, say
from dynamo.replay import files

_KINDS = {"run_trace_replay": "trace", "run_synthetic_trace_replay": "synthetic"}
_INPUT_MEMBERS = ("argument", "path", "sha256")


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _is_arguments(value: object) -> bool:
    return isinstance(value, dict) and _is_texts(value.get("trace_files", []))


def _is_inputs(value: object) -> bool:
    return isinstance(value, list) and all(
        isinstance(item, dict) and all(isinstance(item.get(name), str) for name in _INPUT_MEMBERS) for item in value
    )


# What a report must contain about its run, and the types.
_MEMBERS: Mapping[str, tuple[Callable[[object], bool], str]] = {
    "function": (lambda value: isinstance(value, str) and value in _KINDS, f"one of {', '.join(_KINDS)}"),
    "version": (lambda value: isinstance(value, str), "a text"),
    "arguments": (_is_arguments, "an object, with trace_files as a list of texts"),
    "inputs": (_is_inputs, f"a list of objects with {', '.join(_INPUT_MEMBERS)}"),
}


def repeated_config(report: str, outputs: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the configuration of the run that wrote ``report``, with these outputs in place of its own.

    Go compares its input files with those of the report. Raises UsageError.
    """
    provenance = _provenance(report)
    function, version = provenance["function"], provenance["version"]
    arguments: dict[str, Any] = dict(provenance["arguments"])
    expected: list[dict[str, str]] = provenance["inputs"]
    if "-" in arguments.get("trace_files", ()):
        raise UsageError(
            f"--from-report: the run of {report!r} read its trace from standard input, which cannot be repeated"
        )
    if version != VERSION:
        say(f"warning: {report!r} was written by dynosim {version}, this is {VERSION}: numbers may differ")
    repeated = {name: _option(value) for name, value in arguments.items() if name not in files.outputs()}
    return {**repeated, "kind": _KINDS[function], "expected_inputs": expected, **outputs}


def _provenance(path: str) -> Mapping[str, Any]:
    try:
        report = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"--from-report: cannot read {path!r}: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise UsageError(f"--from-report: {path!r} is not a JSON report") from None
    provenance = report.get("provenance") if isinstance(report, dict) else None
    if not isinstance(provenance, dict):
        raise UsageError(f"--from-report: {path!r} has no provenance, want a report that dynosim wrote")
    for member, (fits, wanted) in _MEMBERS.items():
        if not fits(provenance.get(member)):
            raise UsageError(f"--from-report: {path!r} has a damaged provenance: {member}: want {wanted}")
    return provenance


def _option(value: Any) -> Any:
    """Objects are passed to Go as text, as those of the command line are."""
    return json.dumps(value) if isinstance(value, dict) else value
