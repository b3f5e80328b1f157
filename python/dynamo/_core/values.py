"""Checks of Python types at the public border: each returns the plain value, or raises TypeError naming the parameter.

numpy scalars pass for the Python types they stand for; a bool never passes for a number.
"""

from __future__ import annotations

import json
import numbers
import operator
import os
from collections.abc import Callable, Mapping
from typing import Any

FINITE = "a finite number"
# Python itself refuses to print integers of more than 4300 digits.
_LONGEST_INT_BITS = 10_000
_SHOWN = 60


def show(value: object) -> str:
    """Returns a value as messages print it: as JSON would, with the words nan, inf and -inf."""
    if isinstance(value, float) and not is_finite(value):
        return str(float(value))
    if isinstance(value, int) and value.bit_length() > _LONGEST_INT_BITS:
        return f"an integer of {value.bit_length()} bits"
    for write in (json.dumps, repr):
        try:
            return write(value)
        except (TypeError, ValueError, RecursionError):
            pass
    return f"a {type(value).__name__}"


def brief(text: str) -> str:
    """Returns a text as messages quote it: cut when long."""
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."


def is_finite(value: float) -> bool:
    return value - value == 0


def flag(name: str, value: object, want: str = "true or false") -> bool:
    if _is_bool(value):
        return bool(value)
    raise wrong_type(name, value, want)


def integer(name: str, value: object, want: str = "an integer") -> int:
    if not _is_bool(value):
        try:
            plain = operator.index(value)  # type: ignore[arg-type]  # the check is the call
        except TypeError:
            pass
        else:
            if plain.bit_length() > _LONGEST_INT_BITS:
                raise ValueError(f"{name}: got {show(plain)}, want {want}")
            return plain
    raise wrong_type(name, value, want)


def number(name: str, value: object, want: str = "a number") -> float:
    if _is_bool(value) or not isinstance(value, numbers.Real):
        raise wrong_type(name, value, want)
    try:
        return float(value)
    except OverflowError:
        raise ValueError(f"{name}: got {show(value)}, want {FINITE}") from None


def text(name: str, value: object, want: str = "a string") -> str:
    """Returns a text that Go can read: one that UTF-8 cannot encode is a ValueError."""
    if not isinstance(value, str):
        raise wrong_type(name, value, want)
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{name}: got {show(value)}, want {want} in UTF-8") from None
    return str(value)


def path(name: str, value: object) -> str:
    """Returns a path as text."""
    if not isinstance(value, str | os.PathLike):
        raise wrong_type(name, value, "a path")
    return text(name, os.fsdecode(value), "a path")


def json_object(name: str, value: Mapping[Any, Any], real: Callable[[str, float], Any] | None = None) -> dict[str, Any]:
    """Returns a copy of value made of plain JSON types; ``real`` converts its floats, which must be finite by
    default.
    """
    try:
        return {text(f"{name} key", key): _plain(f"{name}: {key}", item, real or finite) for key, item in value.items()}
    except RecursionError:
        raise _endless(name) from None


def json_value(name: str, value: object) -> Any:
    """Returns a copy of value made of plain JSON types, with ``name`` as the path to it in messages."""
    try:
        return _plain(name, value, finite)
    except RecursionError:
        raise _endless(name) from None


def _plain(name: str, value: object, real: Callable[[str, float], Any]) -> Any:
    if value is None:
        return None
    if isinstance(value, str):
        return text(name, value)
    if _is_bool(value):
        return bool(value)
    if isinstance(value, numbers.Integral):
        return integer(name, value)
    if isinstance(value, numbers.Real):
        return real(name, float(value))
    if isinstance(value, Mapping):
        return {text(f"{name} key", key): _plain(f"{name}.{key}", item, real) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(f"{name}[{index}]", item, real) for index, item in enumerate(value)]
    raise wrong_type(name, value, "a JSON value")


def _endless(name: str) -> ValueError:
    return ValueError(f"{name}: got a value that contains itself or is nested too deeply")


def finite(name: str, value: float) -> float:
    if is_finite(value):
        return value
    raise ValueError(f"{name}: got {show(value)}, want {FINITE}")


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Returns the members of a JSON object; a hook for json.loads. Raises ValueError for a key that is given twice."""
    members = dict(pairs)
    if len(members) < len(pairs):
        names = [name for name, _ in pairs]
        name = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{name}: got a duplicate key, want the key once")
    return members


def wrong_type(name: str, value: object, want: str) -> TypeError:
    return TypeError(f"{name}: got {show(value)}, want {want}")


def _is_bool(value: object) -> bool:
    """Reports whether value is a bool or numpy's, whose class is called bool_ or, since numpy 2, bool."""
    return isinstance(value, bool) or type(value).__name__ in ("bool", "bool_")
