"""Engine arguments that win over what is known about measurements, as the option ``--engine`` gives them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from dynamo._core import objectfile, values
from dynamo._shell.console import UsageError
from dynamo.mocker import MockEngineArgs


def read(text: str | None) -> dict[str, Any]:
    """Returns the engine arguments in JSON text, or in the file of ``@FILE``. Raises UsageError or
    FileNotFoundError.
    """
    if text is None:
        return {}
    try:
        found = json.loads(objectfile.expand("--engine", text), object_pairs_hook=values.unique)
    except json.JSONDecodeError as error:
        raise UsageError(f"--engine: not JSON: {error}") from None
    except RecursionError:
        raise UsageError("--engine: nested too deeply") from None
    except ValueError as error:
        line = str(error)
        raise UsageError(line if line.startswith("--engine: ") else f"--engine: {line}") from None
    if not isinstance(found, dict):
        raise UsageError("--engine: want a JSON object of engine arguments")
    check("--engine", found)
    return found


def check(option: str, engine: Mapping[str, Any]) -> None:
    """Raises UsageError for engine arguments that break a rule."""
    try:
        MockEngineArgs(**engine)
    except (TypeError, ValueError) as error:
        raise UsageError(f"{option}: {error}") from None
