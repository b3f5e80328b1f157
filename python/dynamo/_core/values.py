"""Checks of Python types at the public border: each returns the plain value, or raises TypeError naming the parameter.

numpy scalars pass for the Python types they stand for; a bool never passes for a number.
"""

from __future__ import annotations

import json
import numbers
import operator
import os
from collections.abc import Mapping
from typing import Any

FINITE = "a finite number"


def show(value: object) -> str:
    """A value as messages print it: as JSON would, with the words nan, inf and -inf."""
    if isinstance(value, float) and not is_finite(value):
        return str(float(value))
    try:
        return json.dumps(value)
    except (TypeError, ValueError):
        return repr(value)


def is_finite(value: float) -> bool:
    return value - value == 0


def flag(name: str, value: object, want: str = "true or false") -> bool:
    if _is_bool(value):
        return bool(value)
    raise wrong_type(name, value, want)


def integer(name: str, value: object, want: str = "an integer") -> int:
    if not _is_bool(value):
        try:
            return operator.index(value)  # type: ignore[arg-type]  # the check is the call
        except TypeError:
            pass
    raise wrong_type(name, value, want)


def number(name: str, value: object, want: str = "a number") -> float:
    if _is_bool(value) or not isinstance(value, numbers.Real):
        raise wrong_type(name, value, want)
    try:
        return float(value)
    except OverflowError:
        raise ValueError(f"{name}: got {show(value)}, want {FINITE}") from None


def text(name: str, value: object, want: str = "a string") -> str:
    if isinstance(value, str):
        return str(value)
    raise wrong_type(name, value, want)


def path(name: str, value: object) -> str:
    """A path as text. Go opens files by UTF-8 names, so other names are a ValueError."""
    if not isinstance(value, str | os.PathLike):
        raise wrong_type(name, value, "a path")
    name_text = os.fsdecode(value)
    try:
        name_text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{name}: got {show(name_text)}, want a path in UTF-8") from None
    return name_text


def json_value(name: str, value: object) -> Any:
    """A copy of value made of plain JSON types, with ``name`` as the path to it in messages."""
    if value is None or isinstance(value, str):
        return value
    if _is_bool(value):
        return bool(value)
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return finite(name, float(value))
    if isinstance(value, Mapping):
        return {text(f"{name} key", key): json_value(f"{name}.{key}", item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [json_value(f"{name}[{index}]", item) for index, item in enumerate(value)]
    raise wrong_type(name, value, "a JSON value")


def finite(name: str, value: float) -> float:
    if is_finite(value):
        return value
    raise ValueError(f"{name}: got {show(value)}, want {FINITE}")


def wrong_type(name: str, value: object, want: str) -> TypeError:
    return TypeError(f"{name}: got {show(value)}, want {want}")


def _is_bool(value: object) -> bool:
    """Whether value is a bool or numpy's, whose class is called bool_ or, since numpy 2, bool."""
    return isinstance(value, bool) or type(value).__name__ in ("bool", "bool_")
