"""Reads YAML with PyYAML, which is loaded when the first file needs it, strictly and as version 1.2 has it.

PyYAML follows version 1.1, where 1e5 is a text, 010 is 8, 1:30 is 90 and ``no`` is false.
"""

from __future__ import annotations

import importlib
import re
from typing import Any

from dynamo._core import values

_TAG = "tag:yaml.org,2002:"
# The types of plain words: tag, pattern, first characters. The first match counts; all other words are texts.
_WORDS = (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?(0|[1-9][0-9]*)", list("-+0123456789")),
    (
        "float",
        r"[-+]?(\.[0-9]+|[0-9]+\.[0-9]*)([eE][-+]?[0-9]+)?|[-+]?[0-9]+[eE][-+]?[0-9]+|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
        list("-+.0123456789"),
    ),
    ("merge", r"<<", ["<"]),
)
# The largest number of members of a mapping: with merge keys, a small file can stand for huge mappings.
_MAX_MEMBERS = 100_000


def parse(text: str) -> Any:
    """Returns the value that a YAML text holds. Raises ValueError, and RecursionError for a text that nests too
    deeply.
    """
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
    except Exception as error:  # PyYAML raises various errors for values that do not fit their tags
        raise ValueError(f"broken YAML: {' '.join(str(error).split())}") from None


def _loader(yaml: Any) -> Any:
    class Loader(yaml.SafeLoader):  # type: ignore[misc]  # PyYAML has no types
        yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012  # as its base class has it

        def __init__(self, text: str) -> None:
            super().__init__(text)
            self.members: dict[Any, int] = {}  # of mappings with merge keys, equal ones counted each time

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

        def flatten_mapping(self, node: Any) -> None:
            merged = [other for key, value in node.value if key.tag == _TAG + "merge" for other in _mappings(value)]
            own = sum(key.tag != _TAG + "merge" for key, _ in node.value)
            super().flatten_mapping(node)  # also those that are merged
            # Counted here, as PyYAML keeps equal members up to 6.0.3 and drops them from 6.0.4 on.
            if merged:
                self.members[node] = own + sum(self.members.get(other, len(other.value)) for other in merged)
            if self.members.get(node, own) > _MAX_MEMBERS:
                raise ValueError(f"a mapping gets more than {_MAX_MEMBERS} members by merging")

    def _mappings(value: Any) -> list[Any]:
        listed = value.value if isinstance(value, yaml.SequenceNode) else [value]
        return [one for one in listed if isinstance(one, yaml.MappingNode)]

    for name, pattern, first in _WORDS:
        Loader.add_implicit_resolver(_TAG + name, re.compile(f"(?:{pattern})$"), first)
    Loader.add_constructor(_TAG + "int", lambda loader, node: int(loader.construct_scalar(node)))
    Loader.add_constructor(_TAG + "float", lambda loader, node: _float(loader.construct_scalar(node)))
    return Loader


def _float(word: str) -> float:
    return float(re.sub(r"\.(inf|nan)$", r"\1", word.lower()))
