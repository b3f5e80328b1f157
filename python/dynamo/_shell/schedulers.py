"""Scheduler policies in Python: which request engines admit next, which they preempt. See docs/schedulers.md."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from dynamo._core import values
from dynamo._shell import members, plugins

__all__ = ["GROUP", "Engine", "Request", "SchedulerPolicy"]

GROUP = "dynosim.schedulers"
"""The group of entry points by which packages offer scheduler policies."""
_KIND = plugins.Kind("scheduler_policy", GROUP, "a scheduler policy", "MODULE:CLASS, FILE.py:CLASS", "next")
_QUESTIONS = ("next", "victim")


class Request:
    """A request that waits in an engine or runs there. It is the same object in every call."""

    __slots__ = (
        "arrival_ms",
        "blocks",
        "computed",
        "deadline_ms",
        "generated",
        "id",
        "preempted",
        "priority",
        "prompt_tokens",
        "session",
        "strict_priority",
        "tenant",
    )

    def __init__(self, known: Mapping[str, Any]) -> None:
        self.id: int = known["id"]
        """Its number in the workload, from 0; with faults, a number for each attempt."""
        self.arrival_ms: float = known["arrival_ms"]
        self.session: str = known["session"]
        self.tenant: str = known["tenant"]
        self.priority: int = known["priority"]
        self.strict_priority: int = known["strict_priority"]
        self.deadline_ms: float = known.get("deadline_ms", math.inf)
        """The simulated time by which the first token should be there."""
        self.prompt_tokens = 0
        self.computed = 0
        """Tokens whose KV the engine holds for it."""
        self.generated = 0
        """Tokens that it has got so far."""
        self.blocks = 0
        """Blocks that it holds."""
        self.preempted = False

    def __repr__(self) -> str:
        return f"Request(id={self.id}, prompt_tokens={self.prompt_tokens}, generated={self.generated})"


class Engine:
    """The engine that asks."""

    __slots__ = ("now_ms", "stage", "worker")

    def __init__(self, stage: str, worker: int) -> None:
        self.stage = stage
        """The pool: ``""``, or ``"prefill"`` or ``"decode"`` if there are two."""
        self.worker = worker
        self.now_ms = 0.0
        """When the pass begins that is being composed."""

    def __repr__(self) -> str:
        return f"Engine(stage={self.stage!r}, worker={self.worker}, now_ms={self.now_ms})"


class SchedulerPolicy(Protocol):
    """What ``scheduler_policy`` has to be. It may have ``victim(running, engine)`` besides or instead."""

    def next(self, waiting: Sequence[Request], engine: Engine, /) -> int:
        """Returns the index of the waiting request that is to be admitted next."""


class Hook(plugins.Answers):
    """Answers the questions that the engines of a run have for their policy."""

    failed = ": the scheduler policy failed"

    def __init__(self, policy: Any, text: str = "") -> None:
        super().__init__()
        if isinstance(policy, type):
            raise TypeError(
                f"scheduler_policy: got the class {policy.__name__}, want an object: {policy.__name__}(...)"
            )
        self._rules: dict[str, Callable[[list[Request], Engine], object]] = {}
        for name in _QUESTIONS:
            rule = getattr(policy, name, None)
            if rule is not None and not callable(rule):
                raise TypeError(f"scheduler_policy: {name}: got {values.show(rule)}, want a method")
            if rule is not None:
                self._rules[name] = rule
        if not self._rules:
            named = f"{text} has no next and no victim" if text else f"got {values.show(policy)}"
            raise TypeError(
                f"scheduler_policy: {named}, want an object with the method next(waiting, engine) or"
                " victim(running, engine)"
            )
        self.warnings = members.misspelt("scheduler_policy", policy, _QUESTIONS)
        self._requests: dict[int, Request] = {}
        self._engines: dict[tuple[str, int], Engine] = {}

    def answer(self, question: str) -> str:
        """Returns the place of the chosen request, as text."""
        asked = json.loads(question)
        try:
            if asked["why"] == "begin":
                return json.dumps({name: name in self._rules for name in _QUESTIONS})
            return str(self._choose(asked))
        except BaseException as error:  # KeyboardInterrupt of the policy, too, reaches the caller of the run
            self.failure = error
            return "failed"

    def _choose(self, asked: Mapping[str, Any]) -> int:
        for known in asked.get("new", ()):
            self._requests[known["id"]] = Request(known)
        flat = asked["requests"]
        among = []
        for i in range(0, len(flat), 6):
            request = self._requests[flat[i]]
            request.prompt_tokens, request.computed, request.generated, request.blocks = flat[i + 1 : i + 5]
            request.preempted = bool(flat[i + 5])
            among.append(request)
        place = (asked["scheduler"], asked["worker"])
        engine = self._engines.setdefault(place, Engine(*place))
        engine.now_ms = asked["now_ms"]
        chosen = self._rules[asked["why"]](among, engine)
        if (index := plugins.index_of(chosen, len(among))) is not None:
            return index
        raise plugins.WrongAnswer(
            f"{asked['why']} returned {values.show(chosen)}, want an index from 0 to {len(among) - 1}"
        )


def hook_of(given: Any) -> Hook | None:
    """Returns the hook of the parameter ``scheduler_policy``; None for a text. Raises TypeError."""
    return None if isinstance(given, str) else Hook(given)


def described(given: object) -> str:
    """Returns what reports call the parameter ``scheduler_policy``."""
    return plugins.described("scheduler_policy", given)


def hook_for(config: Mapping[str, Any]) -> Hook | None:
    """Returns the hook of a run whose policy is named by a text, None if it has none."""
    text = config.get("scheduler_policy")
    if not text:
        return None
    found = plugins.find(_KIND, text)
    try:
        policy = found() if callable(found) else found
    except Exception as error:
        raise ValueError(plugins.not_made(_KIND, text, error)) from error
    try:
        return Hook(policy, text)
    except TypeError as error:
        raise ValueError(str(error)) from None
