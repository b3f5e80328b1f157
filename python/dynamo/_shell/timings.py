"""Timing models in Python: functions that say how long passes take. docs/timing.md describes them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, Protocol

from dynamo._core import values
from dynamo._shell import members, plugins
from dynamo._shell.plugins import Array

__all__ = ["GROUP", "Array", "Batch", "TimingModel"]

GROUP = "dynosim.timing"
"""The group of entry points by which packages offer timing models."""
_KIND = plugins.Kind("timing_model", GROUP, "a timing model", "MODULE:NAME, FILE.py:NAME", "pure")


class Batch:
    """Parts of passes whose durations are asked for. A pass has a prefill part, a decode part, or both."""

    def __init__(self, stage: str, parts: list[list[int]]) -> None:
        self.stage = stage
        """The pool: ``""``, or ``"prefill"`` or ``"decode"`` if there are two."""
        self._parts = parts
        self._arrays: dict[int, Array] = {}

    def __len__(self) -> int:
        return len(self._parts)

    def __repr__(self) -> str:
        return f"Batch(stage={self.stage!r}, parts={len(self)})"

    @property
    def decode(self) -> Array:
        """Whether it is a decode part: 1, or 0 for a prefill part."""
        return self._of(0)

    @property
    def requests(self) -> Array:
        """Requests in the part; of one rank if ranks share them."""
        return self._of(1)

    @property
    def tokens(self) -> Array:
        """Tokens that each request computes, a mean rounded down; 1 in a decode part."""
        return self._of(2)

    @property
    def context(self) -> Array:
        """Tokens before those: computed ones of the prompt, or the length of the sequence; likewise a mean."""
        return self._of(3)

    def _of(self, place: int) -> Array:
        if place not in self._arrays:
            self._arrays[place] = plugins.array_of("q", [part[place] for part in self._parts])
        return self._arrays[place]


class TimingModel(Protocol):
    """What ``timing_model`` has to be. It may have an attribute ``pure``: see docs/timing.md."""

    def __call__(self, batch: Batch, /) -> Any:
        """Returns the milliseconds of each part, or one number for all."""


class Hook(plugins.Answers):
    """Answers the questions that a run has for its timing model."""

    failed = ": the timing model failed"

    def __init__(self, model: Any, text: str = "") -> None:
        super().__init__()
        if isinstance(model, type):
            raise TypeError(f"timing_model: got the class {model.__name__}, want an object: {model.__name__}(...)")
        if not callable(model):
            named = f"{text} cannot be called" if text else f"got {values.show(model)}"
            raise TypeError(f"timing_model: {named}, want a function of a batch")
        self._model = model
        self._pure = values.flag("timing_model: pure", getattr(model, "pure", False))
        self.warnings = members.misspelt("timing_model", model, (), ("pure",))

    def answer(self, question: str) -> str:
        """Returns the milliseconds of the parts of a question, as JSON."""
        asked = json.loads(question)
        try:
            if asked["why"] == "begin":
                return json.dumps({"pure": self._pure})
            batch = Batch(asked["timing"], asked["parts"])
            return json.dumps(_durations(self._model(batch), len(batch)))
        except BaseException as error:  # KeyboardInterrupt of the model, too, reaches the caller of the run
            self.failure = error
            return "failed"


def _durations(answer: Any, count: int) -> list[float]:
    found = answer.tolist() if hasattr(answer, "tolist") else answer
    if not isinstance(found, list | tuple):
        found = [found] * count
    if len(found) != count:
        raise plugins.WrongAnswer(f"it returned {len(found)} durations, want {count}")
    for ms in found:
        if isinstance(ms, bool) or not isinstance(ms, int | float) or not (0 <= ms < math.inf):
            raise plugins.WrongAnswer(f"it returned {values.show(ms)}, want milliseconds, 0 or more")
    return [float(ms) for ms in found]


def hook_of(given: Any) -> Hook | None:
    """Returns the hook of the parameter ``timing_model``; None for a text. Raises TypeError or ValueError."""
    return None if isinstance(given, str) else Hook(given)


def described(given: object) -> str:
    """Returns what reports call the parameter ``timing_model``."""
    if hasattr(given, "__qualname__"):  # a function
        return f"{given.__module__}.{given.__qualname__}"
    return plugins.described("timing_model", given).removeprefix("object of ")


def hook_for(config: Mapping[str, Any]) -> Hook | None:
    """Returns the hook of a run whose timing model is named by a text, None if it has none."""
    text = config.get("timing_model")
    if not text:
        return None
    found = plugins.find(_KIND, text)
    try:
        model = found() if isinstance(found, type) else found
    except Exception as error:
        raise ValueError(plugins.not_made(_KIND, text, error)) from error
    try:
        return Hook(model, text)
    except TypeError as error:
        raise ValueError(str(error)) from None
