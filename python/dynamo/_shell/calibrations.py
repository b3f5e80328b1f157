"""``--calibration``: the engine argument of that name as an option of its own."""

from __future__ import annotations

import argparse
import json
from typing import Any

from dynamo._core import objectfile
from dynamo._shell.console import UsageError

_OPTION = "--calibration"
_ARGUMENTS = "extra_engine_args"


def add(parser: argparse.ArgumentParser) -> None:
    """Adds the option to a parser."""
    parser.add_argument(
        _OPTION,
        metavar="FILE|auto",
        default=argparse.SUPPRESS,
        help="calibration profile from dynamo.calibrate for --extra-engine-args; auto: the one shipped",
    )


def apply(options: dict[str, Any], profile: str | None) -> None:
    """Puts the value of the option into the engine arguments. Raises UsageError, ValueError or FileNotFoundError."""
    if profile is None:
        return
    if not profile:
        raise UsageError(f'{_OPTION}: got "", want a file, or auto')
    if "from_report" in options:
        raise UsageError(f"--from-report repeats a run as it was: {_OPTION} cannot be combined with it")
    text = options.get(_ARGUMENTS) or "{}"
    if not text.lstrip().startswith("{"):
        text = objectfile.expand("--extra-engine-args", text if text.startswith("@") else f"@{text}")
    try:
        arguments = json.loads(text)
    except ValueError:
        return  # it is refused with these words by what reads it
    options[_ARGUMENTS] = json.dumps({**arguments, "calibration": profile})
