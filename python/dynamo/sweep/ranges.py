"""Knobs: what a sweep varies, and the values that each takes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from dynamo._core import spelling, values

_MOST_VALUES = 1_000_000
_DEFAULT_POINTS = 5
_KEYS = ("log", "linear", "points", "step", "values", "settings")


@dataclass(frozen=True)
class Interval:
    """Where a sampler may draw from when a range names no points."""

    low: float
    high: float
    log: bool
    integer: bool


@dataclass(frozen=True)
class Knob:
    """One thing that is varied: a key of the run, or a name for several keys that are set together."""

    name: str
    values: tuple[Any, ...]
    """All values of the grid, in the order of the specification."""
    interval: Interval | None = None
    settings: Mapping[str, Mapping[str, Any]] | None = None
    """For a name that sets several keys: what each of its values sets."""

    def sets(self, value: Any) -> Mapping[str, Any]:
        """The keys that a value of this knob sets, and to what."""
        return {self.name: value} if self.settings is None else self.settings[value]

    @cached_property
    def keys(self) -> frozenset[str]:
        """All keys that its values set."""
        each = [{self.name}] if self.settings is None else self.settings.values()
        return frozenset().union(*each)


def parse(name: str, given: object) -> Knob:
    """Reads the values of one knob. Raises ValueError, naming it."""
    where = f"search: {name}"
    if isinstance(given, Mapping):
        return _parse_mapping(where, name, given)
    if isinstance(given, Sequence) and not isinstance(given, str | bytes):
        return Knob(name, _choices(where, given))
    raise ValueError(f"{where}: got {values.show(given)}, want a list of values, or an object with log or linear")


def _parse_mapping(where: str, name: str, given: Mapping[Any, Any]) -> Knob:
    for key in given:
        if key not in _KEYS:
            near = spelling.nearest(str(key), _KEYS)
            hint = f"did you mean {near}?" if near else spelling.offer(str(key), _KEYS)
            raise ValueError(f"{where}: unknown key {values.show(key)}, {hint}")
    forms = [form for form in ("log", "linear", "values", "settings") if form in given]
    if len(forms) != 1:
        raise ValueError(f"{where}: got {', '.join(forms) or 'nothing'}, want one of log, linear, values, settings")
    form = forms[0]
    if form in ("log", "linear"):
        return _parse_range(where, name, given, log=form == "log")
    if len(given) > 1:
        raise ValueError(f"{where}: {next(key for key in given if key != form)}: want it with log or linear only")
    if form == "values":
        return parse(name, given["values"])
    return _parse_settings(where, name, given["settings"])


def _choices(where: str, given: Sequence[Any]) -> tuple[Any, ...]:
    if not given:
        raise ValueError(f"{where}: got an empty list, want at least one value")
    plain = [values.json_value(where, value) for value in given]
    for i, value in enumerate(plain):
        if any(value == other and type(value) is type(other) for other in plain[:i]):
            raise ValueError(f"{where}: {values.show(value)} is given twice, want each value once")
    return tuple(plain)


def _parse_settings(where: str, name: str, given: object) -> Knob:
    if not isinstance(given, Mapping) or not given:
        raise ValueError(f"{where}: settings: got {values.show(given)}, want an object from names to keys of the run")
    settings = {}
    for label, keys in given.items():
        if not isinstance(label, str) or not isinstance(keys, Mapping):
            raise ValueError(f"{where}: settings: {label}: got {values.show(keys)}, want an object of keys of the run")
        settings[label] = values.json_object(f"{where}: settings: {label}", keys)
    return Knob(name, tuple(settings), settings=settings)


def _parse_range(where: str, name: str, given: Mapping[str, Any], *, log: bool) -> Knob:
    low, high = _ends(where, given["log" if log else "linear"])
    if log and low <= 0:
        raise ValueError(f"{where}: log: got {values.show(low)}, want numbers above 0")
    integer = isinstance(low, int) and isinstance(high, int)
    points, step = given.get("points"), given.get("step")
    if points is not None and step is not None:
        raise ValueError(f"{where}: step: want either points or step")
    if step is not None:
        found = _stepped(where, low, high, step, log=log)
    else:
        found = _spread(low, high, _count(where, low, high, points, log=log), log=log)
    if integer and float(step or 1).is_integer():
        found = list(dict.fromkeys(round(value) for value in found))
    free = Interval(low, high, log, integer) if points is None and step is None else None
    return Knob(name, tuple(found), free)


def _ends(where: str, given: object) -> tuple[float, float]:
    if not isinstance(given, Sequence) or isinstance(given, str) or len(given) != 2:
        raise ValueError(f"{where}: got {values.show(given)}, want the two ends of a range, such as [16, 1024]")
    ends = []
    for end in given:
        if isinstance(end, bool) or not isinstance(end, int | float) or not values.is_finite(end):
            raise ValueError(f"{where}: got {values.show(end)}, want {values.FINITE}")
        ends.append(end)
    if ends[0] > ends[1]:
        raise ValueError(f"{where}: got {values.show(list(given))}, want the lower end first")
    return ends[0], ends[1]


def _count(where: str, low: float, high: float, points: object, *, log: bool) -> int:
    """How many values a range has. Without points: one per doubling, each integer, or five."""
    if points is not None:
        if isinstance(points, bool) or not isinstance(points, int) or not 1 <= points <= _MOST_VALUES:
            raise ValueError(f"{where}: points: got {values.show(points)}, want an integer from 1 to {_MOST_VALUES}")
        return points
    if log:
        return max(1, round(math.log2(high / low)) + 1)
    if isinstance(low, int) and isinstance(high, int):
        if high - low >= _MOST_VALUES:
            raise ValueError(f"{where}: got {high - low + 1} values, want points or step with so wide a range")
        return high - low + 1
    return _DEFAULT_POINTS


def _stepped(where: str, low: float, high: float, step: object, *, log: bool) -> list[float]:
    smallest = 1 if log else 0
    if isinstance(step, bool) or not isinstance(step, int | float) or not smallest < step < math.inf:
        what = "a factor above 1" if log else "a number above 0"
        raise ValueError(f"{where}: step: got {values.show(step)}, want {what}")
    steps = math.log(high / low) / math.log(step) if log else (high - low) / step
    if steps >= _MOST_VALUES:
        raise ValueError(f"{where}: step: got {values.show(step)}, want at most {_MOST_VALUES} values")
    return [low * step**i if log else low + i * step for i in range(int(steps + 1e-9) + 1)]


def _spread(low: float, high: float, count: int, *, log: bool) -> list[float]:
    """``count`` values from low to high, both included."""
    if count == 1 or low == high:
        return [low]
    if not log:
        return [low + (high - low) * i / (count - 1) for i in range(count)]
    inner = [low * (high / low) ** (i / (count - 1)) for i in range(1, count - 1)]
    return [low, *inner, high]
