"""JSON objects in files, as JSON or YAML: engine arguments, router settings, whole runs."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from dynamo._core import values, yamltext

_YAML_NAMES = (".yaml", ".yml")
_NAMES = (".json", *_YAML_NAMES)
# Bounds on the content of a file. With aliases, a small YAML file can stand for a huge object.
_MAX_BYTES = 1 << 20
_MAX_VALUES = 100_000


def expand(name: str, text: str, *, lists: bool = False) -> str:
    """Returns the JSON text of an option that takes a JSON object, or ``@FILE`` for the object in a JSON or YAML file.

    ``lists`` tells that a list of objects will do, too. Only files are checked here. Raises ValueError, naming the
    option, or FileNotFoundError.
    """
    if text.startswith("@"):
        return json.dumps(_read(name, text[1:], lists))
    if not text.lstrip().startswith(("{", "[") if lists else "{") and (
        text.lower().endswith(_NAMES) or os.path.isfile(text)
    ):
        raise ValueError(f"{name}: got {values.show(text)}, want a JSON object; a file is given as @{text}")
    return text


def is_yaml(path: str) -> bool:
    """Reports whether the name of a file says that it holds YAML."""
    return path.lower().endswith(_YAML_NAMES)


def read(name: str, path: str) -> dict[str, Any]:
    """Returns the object in a file, made of plain JSON types.

    Files whose name ends in .yaml or .yml hold YAML, others JSON if they begin like an object. Raises ValueError,
    naming the option and the file, or FileNotFoundError.
    """
    found: dict[str, Any] = _read(name, path, lists=False)
    return found


def _read(name: str, path: str, lists: bool) -> Any:
    content = text(name, path)
    yaml = is_yaml(path) or not content.lstrip().startswith(("{", "["))
    found = parsed(name, path, content, yamltext.parse if yaml else _parse_json)
    items = found if lists and isinstance(found, list) else [found]
    if any(not isinstance(item, dict) for item in items):
        raise ValueError(f"{name}: {path}: got {values.brief(values.show(found))}, want an object")
    try:
        plain = [values.json_object(f"{name}: {path}", item) for item in items]
        return plain if items is found else plain[0]
    except TypeError as error:
        raise ValueError(str(error)) from None


def parsed(name: str, path: str, content: str, parse: Callable[[str], Any]) -> Any:
    """Returns what a function reads from the text of a file. Raises ValueError, naming the option and the file."""
    try:
        found = parse(content)
        _check_size(found)
    except RecursionError:
        raise ValueError(f"{name}: {path}: nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"{name}: {path}: {error}") from None
    return found


def text(name: str, path: str) -> str:
    """Returns the text of a file of at most 1 MiB. Raises ValueError, naming the option and the file, or
    FileNotFoundError.
    """
    if not path:
        raise ValueError(f"{name}: the path of the file is empty")
    try:
        with Path(path).expanduser().open("rb") as file:
            content = file.read(_MAX_BYTES + 1)
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{name}: {values.show(path)}: {error.strerror}") from None
    except OSError as error:
        raise ValueError(f"{name}: cannot read {values.show(path)}: {error.strerror}") from None
    except (ValueError, RuntimeError) as error:  # a NUL character; no home folder
        raise ValueError(f"{name}: cannot read {values.show(path)}: {error}") from None
    if len(content) > _MAX_BYTES:
        raise ValueError(f"{name}: {path}: longer than {_MAX_BYTES} bytes, the limit for such a file")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{name}: {path}: not UTF-8 at byte {error.start + 1}") from None


def _parse_json(text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=values.unique, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        raise ValueError(f"line {error.lineno} column {error.colno}: {error.msg}") from None


def _refuse_constant(word: str) -> NoReturn:
    raise ValueError(f"got {word}, want {values.FINITE}")


def _check_size(found: object) -> None:
    """Raises ValueError for what aliases make endless, or much longer than the file."""
    count, left = 0, [found]
    while left:
        item = left.pop()
        count += 1
        if count > _MAX_VALUES:
            raise ValueError(f"holds more than {_MAX_VALUES} values, the limit for such a file")
        if isinstance(item, dict):
            left.extend(item.values())
        elif isinstance(item, list):
            left.extend(item)
