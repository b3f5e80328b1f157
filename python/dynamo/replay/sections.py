"""Objects in files of other simulators, of which each key is taken once and the rest is refused by its path."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from dynamo._core import spelling, values

REQUIRED = object()
"""The default of a key that has to be in the file."""


class Section:
    """An object of the file, of which each key is taken once. Those that are left are refused."""

    def __init__(self, path: str, content: object) -> None:
        if not isinstance(content, Mapping):
            raise ValueError(f"{path}: got {values.brief(values.show(content))}, want an object")
        self.path, self._rest, self._known = path, dict(content), set[str]()

    def name(self, key: str) -> str:
        """Returns the path of a key."""
        return f"{self.path}.{key}" if self.path else key

    def take(self, key: str, default: Any = None) -> Any:
        """Returns the value of a key; the default if it is left out or null."""
        self._known.add(key)
        value = self._rest.pop(key, None)
        if value is None:
            if default is REQUIRED:
                raise ValueError(f"{self.name(key)}: got nothing, want it in the file")
            return default
        if isinstance(value, Mapping) and value.keys() & {"choices", "range"}:
            raise ValueError(f"{self.name(key)}: got {shown(value)}, want one value: dynamo.sweep searches several")
        return value

    def within(self, key: str, *, required: bool = False) -> Section:
        """Returns the object at a key, empty if it is left out."""
        return Section(self.name(key), self.take(key, REQUIRED if required else {}))

    def number(self, key: str, default: Any = None) -> Any:
        """Returns a number above 0."""
        value = self.take(key, default)
        if value is not None and not (values.number(self.name(key), value) > 0 and math.isfinite(value)):
            raise ValueError(f"{self.name(key)}: got {values.show(value)}, want a finite number above 0")
        return value

    def count(self, key: str, default: Any = None) -> Any:
        """Returns an integer above 0."""
        value = self.take(key, default)
        return None if value is None else above_zero(self.name(key), value)

    def word(self, key: str, known: Sequence[str], default: Any = None) -> str:
        """Returns one of some words."""
        value = self.take(key, default)
        if value not in known:
            raise ValueError(f"{self.name(key)}: got {shown(value)}, want {' or '.join(known)}")
        return str(value)

    def refuse(self, keys: Mapping[str, str], harmless: Sequence[object] = ()) -> None:
        """Refuses keys that have no counterpart, with what there is instead, unless their value changes nothing."""
        for key, instead in keys.items():
            value = self.take(key)
            if value is not None and value is not False and value not in harmless:
                raise ValueError(f"{self.name(key)}: got {shown(value)}, want it left out: {instead}")

    def close(self) -> None:
        """Refuses the keys that are left."""
        for key in self._rest:
            near = spelling.nearest(key, self._known)
            hint = f"did you mean {self.name(near)}?" if near else f"want {', '.join(sorted(self._known))}"
            raise ValueError(f"{self.name(key)}: unknown, {hint}")


def above_zero(name: str, value: object) -> int:
    """Returns an integer above 0. Raises ValueError with the name of the setting."""
    if (count := values.integer(name, value)) < 1:
        raise ValueError(f"{name}: got {values.show(value)}, want an integer above 0")
    return count


def shown(value: object) -> str:
    """Returns a value as an error shows it."""
    return values.brief(values.show(value))
