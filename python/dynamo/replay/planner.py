"""Planners: objects that decide how many workers a run has, as it goes on."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from dynamo._core import values

PASS_FIELDS = (
    "worker_id",
    "wall_time",
    "num_prefill_requests",
    "sum_prefill_tokens",
    "var_prefill_length",
    "sum_prefill_kv_tokens",
    "num_decode_requests",
    "sum_decode_kv_tokens",
    "var_decode_kv_tokens",
    "num_queued_prefill",
    "sum_queued_prefill_tokens",
    "var_queued_prefill_length",
    "num_queued_decode",
    "sum_queued_decode_kv_tokens",
    "var_queued_decode_kv_tokens",
)
"""The values of a pass, in the order in which they come from Go."""
PASSES = ("prefill_fpm_snapshots", "decode_fpm_snapshots")
"""The passes of either pool in a tick."""
_DECISION = ("target_prefill", "target_decode", "next_tick_ms")


# A policy, or one for each of two pools.
Autoscaler: TypeAlias = Mapping[str, Any] | Sequence[Mapping[str, Any]]


class Planner(Protocol):
    """What ``planner`` of ``run_trace_replay`` has to be. docs/planner.md describes the metrics."""

    def initial_tick_ms(self) -> float:
        """Returns the simulated time of the first tick, in milliseconds; infinity for none."""

    def on_tick(self, metrics: dict[str, Any]) -> Mapping[str, Any]:
        """Decides at a tick.

        Returns:
            ``target_prefill`` and ``target_decode``, the numbers of workers or None to leave a pool alone, and
            ``next_tick_ms``, the time of the next tick or None for no further one. With one pool its workers are
            ``target_decode``.
        """


class Hook:
    """Answers the questions that a run has for its planner."""

    def __init__(self, planner: Planner) -> None:
        if isinstance(planner, type):
            raise TypeError(f"planner: got the class {planner.__name__}, want an object: {planner.__name__}(...)")
        for method in ("initial_tick_ms", "on_tick"):
            if not callable(getattr(planner, method, None)):
                raise TypeError(f"planner: got {values.show(planner)}, want an object with the method {method}")
        self._planner = planner
        self.failure: BaseException | None = None
        """What the planner raised."""

    def answer(self, question: str) -> str:
        """Returns the answer as JSON text. What the planner raises is kept, and the run ends with it."""
        asked = json.loads(question)
        where = ""
        try:
            if asked["planner"] == "initial_tick_ms":
                first = self._planner.initial_tick_ms()
                return json.dumps({"initial_tick_ms": _time("planner: initial_tick_ms", first)})
            where = f"planner: at {asked['tick']['now_ms']:g} ms"
            given = self._planner.on_tick(metrics_of(asked["tick"]))
            return json.dumps(_decision(where, given))
        except BaseException as error:  # KeyboardInterrupt of the planner, too, reaches the caller of the run
            self.failure = error
            if where and not str(error).startswith(where):
                _add_note(error, where)
            return '{"failed": true}'


def _add_note(error: BaseException, note: str) -> None:
    """Adds a line to the traceback of an error (Python 3.11 or later)."""
    if hasattr(error, "add_note"):
        error.add_note(note)


def metrics_of(tick: dict[str, Any]) -> dict[str, Any]:
    """Returns the dict that planners see."""
    for pool in PASSES:
        tick[pool] = [dict(zip(PASS_FIELDS, row, strict=True)) for row in tick[pool]]
    return tick


def _decision(where: str, given: object) -> dict[str, Any]:
    if not isinstance(given, Mapping):
        raise TypeError(f"{where} on_tick returned {values.show(given)}, want a dict with {', '.join(_DECISION)}")
    known = (*_DECISION, "reason")
    if unknown := [key for key in given if key not in known]:
        raise ValueError(f"{where} on_tick returned the unknown key {values.show(unknown[0])}, want {', '.join(known)}")
    missing = [key for key in _DECISION if key not in given]
    if missing:
        raise TypeError(f"{where} on_tick returned {values.show(given)}, want {', '.join(missing)} in it, too")
    decision: dict[str, Any] = {"next_tick_ms": None}
    if given["next_tick_ms"] is not None:
        decision["next_tick_ms"] = _time(f"{where} next_tick_ms", given["next_tick_ms"])
    for key in _DECISION[:2]:
        if given[key] is not None:
            decision[key] = values.integer(f"{where} {key}", given[key])
    if given.get("reason") is not None:
        decision["reason"] = values.text(f"{where} reason", given["reason"])
    return decision


def _time(name: str, given: object) -> float | None:
    """Returns a time as Go takes it: None if it never comes."""
    ms = values.number(name, given)
    return float(ms) if math.isfinite(ms) else None
