"""Objects that people keep in files, as JSON or YAML: engine arguments, router settings, whole runs."""

from __future__ import annotations

import importlib
import json
import os
import re
from pathlib import Path
from typing import Any, NoReturn

from dynamo._core import values

_YAML_NAMES = (".yaml", ".yml")
_NAMES = (".json", *_YAML_NAMES)
# Bounds of what a file may hold. Aliases of YAML can make much of little.
_MAX_BYTES = 1 << 20
_MAX_VALUES = 100_000
# YAML 1.2 reads 1e5 as a number; PyYAML, which follows 1.1, would read it as a text.
_EXPONENT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)[eE][-+]?[0-9]+")


def expand(name: str, text: str) -> str:
    """The JSON text of an option that takes a JSON object, or ``@FILE`` for the object in a JSON or YAML file.

    Only files are checked here. Raises ValueError, naming the option, or FileNotFoundError.
    """
    if text.startswith("@"):
        return json.dumps(read(name, text[1:]))
    if not text.lstrip().startswith("{") and (text.lower().endswith(_NAMES) or os.path.isfile(text)):
        raise ValueError(f"{name}: got {values.show(text)}, want a JSON object; a file is given as @{text}")
    return text


def is_yaml(path: str) -> bool:
    """Whether the name of a file says that it holds YAML."""
    return path.lower().endswith(_YAML_NAMES)


def read(name: str, path: str) -> dict[str, Any]:
    """The object in a file, made of plain JSON types.

    Files whose name ends in .yaml or .yml hold YAML, others JSON if they begin like an object. Raises ValueError,
    naming the option and the file, or FileNotFoundError.
    """
    text = _text(name, path)
    try:
        found = _parse_yaml(text) if is_yaml(path) or not text.lstrip().startswith(("{", "[")) else _parse_json(text)
        _check_size(found)
    except RecursionError:
        raise ValueError(f"{name}: {path}: nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"{name}: {path}: {error}") from None
    if not isinstance(found, dict):
        raise ValueError(f"{name}: {path}: got {values.brief(values.show(found))}, want an object")
    try:
        return values.json_object(f"{name}: {path}", found)
    except TypeError as error:
        raise ValueError(str(error)) from None


def _text(name: str, path: str) -> str:
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


def _parse_yaml(text: str) -> Any:
    try:
        yaml: Any = importlib.import_module("yaml")
    except ImportError:
        raise ValueError("YAML is read by PyYAML, which is missing: pip install pyyaml") from None
    try:
        return yaml.load(text, Loader=_loader(yaml))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise ValueError(f"line {mark.line + 1} column {mark.column + 1}: {error.problem or error.context}") from None
    except RecursionError:
        raise
    except Exception as error:  # PyYAML lets all sorts out for values that their tags do not fit
        raise ValueError(f"broken YAML: {' '.join(str(error).split())}") from None


def _loader(yaml: Any) -> Any:
    """PyYAML's safe loader, but a key given twice is an error, and 1e5 a number."""

    class Loader(yaml.SafeLoader):  # type: ignore[misc]  # PyYAML has no types
        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            seen = set()
            members = node.value if isinstance(node, yaml.MappingNode) else ()
            for key in [key for key, _ in members if isinstance(key, yaml.ScalarNode)]:
                if key.value in seen:
                    raise yaml.constructor.ConstructorError(
                        problem=f"{values.show(key.value)} is given twice, want the key once",
                        problem_mark=key.start_mark,
                    )
                seen.add(key.value)
            return super().construct_mapping(node, deep)

    Loader.add_implicit_resolver(
        "tag:yaml.org,2002:float", re.compile(f"(?:{_EXPONENT.pattern})$"), list("-+.0123456789")
    )
    return Loader


def _check_size(found: object) -> None:
    """Refuses what aliases make endless, or much longer than the file."""
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
