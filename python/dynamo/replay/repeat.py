"""Repeating a run from its report: ``--from-report FILE``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dynamo._core.version import VERSION
from dynamo._shell.console import UsageError, say
from dynamo.replay import files

_KINDS = {"run_trace_replay": "trace", "run_synthetic_trace_replay": "synthetic"}


def repeated_config(report: str, outputs: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration of the run that wrote ``report``, with these outputs in place of its own.

    Go compares its input files with those of the report. Raises UsageError.
    """
    provenance = _provenance(report)
    try:
        kind = _KINDS[provenance["function"]]
        arguments = dict(provenance["arguments"])
        expected = list(provenance["inputs"])
        version = str(provenance["version"])
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(
            f"--from-report: {report!r} has a damaged provenance ({type(error).__name__}: {error})"
        ) from None
    if "-" in (arguments.get("trace_files") or ()):
        raise UsageError(
            f"--from-report: the run of {report!r} read its trace from standard input, which cannot be repeated"
        )
    if version != VERSION:
        say(f"warning: {report!r} was written by dynosim {version}, this is {VERSION}: numbers may differ")
    repeated = {name: _option(value) for name, value in arguments.items() if name not in files.outputs()}
    return {**repeated, "kind": kind, "expected_inputs": expected, **outputs}


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
    return provenance


def _option(value: Any) -> Any:
    """Objects travel to Go as text, as they come from the command line."""
    return json.dumps(value) if isinstance(value, dict) else value
