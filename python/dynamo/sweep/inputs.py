"""Files that a specification names besides traces: rules in Python, profiles, measured durations."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

_SETTINGS = ("run", "search", "settings")
_RULES = frozenset({"router", "scheduler_policy", "timing_model"})
"""Keys whose value may be a rule in Python, as a module or file and a name in it."""


def named_files(given: Mapping[str, Any]) -> list[str]:
    """Returns the files that a specification names, each once: by their paths, or as places of rules in Python, such as
    ``least_slack.py:LeastSlack`` and ``my.module:MyRouter``."""
    texts = (text for key in _SETTINGS for text in _texts(key, given.get(key)))
    return list(dict.fromkeys(path for key, text in texts if (path := _file(key, text))))


def _texts(key: str, value: Any) -> Iterator[tuple[str, str]]:
    """All texts in a value, each with the innermost key that holds it."""
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _texts(str(name), inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from _texts(key, inner)


def _file(key: str, text: str) -> str:
    """Returns the path of the file that a text names, "" if it names none."""
    if "." in text and _is_file(text):
        return text
    place = text.rpartition(":")[0]
    if not place or key.rpartition(".")[2] not in _RULES:
        return ""
    return place if _is_file(place) else _module_file(place)


def _is_file(path: str) -> bool:
    try:
        return Path(path).expanduser().is_file()
    except (OSError, RuntimeError, ValueError):  # too long for a path, no such user
        return False


def _module_file(name: str) -> str:
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return ""
    return spec.origin if spec is not None and spec.origin and spec.has_location else ""
