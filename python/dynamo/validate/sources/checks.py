"""Values from files of measurements, checked. Every message names the file, the field and the value."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Mapping
from typing import Any

from dynamo._core import values


class BadSource(ValueError):
    """A file that cannot be read as measurements; its text is the line to print."""


def count(value: object, where: str) -> int:
    """Returns a whole number above 0 from text or JSON."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 19:
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 2**31:
        raise BadSource(f"{where}: got {values.show(value)}, want an integer above 0")
    return value


def number(value: object, where: str, *, least: float = 0.0) -> float:
    """Returns a finite number from text or JSON, at least ``least``."""
    found = math.nan
    if isinstance(value, (str, int, float)) and not isinstance(value, bool):
        with contextlib.suppress(ValueError, OverflowError):
            found = float(value)
    if not math.isfinite(found) or found < least:
        raise BadSource(f"{where}: got {values.show(value)}, want a number >= {least:g}")
    return found


def json_object(text: str, where: str) -> dict[str, Any]:
    """Returns a JSON object."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadSource(f"{where}: not JSON: {error}") from None
    return mapping(found, where)


def mapping(value: object, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise BadSource(f"{where}: got {values.show(value)}, want an object")
    return value


def sequence(value: object, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise BadSource(f"{where}: got {values.show(value)}, want a list")
    return value


def text(found: Mapping[str, Any], name: str, where: str, default: str = "") -> str:
    """Returns a text that may be missing or null."""
    value = found.get(name)
    if value is None:
        return default
    if not isinstance(value, str):
        raise BadSource(f"{where}: {name}: got {values.show(value)}, want text")
    return value
