"""Parameters of the replay functions of ai-dynamo 1.6 that these do not have, each with what does its work here."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from dynamo._core import values

_P = ParamSpec("_P")
_R = TypeVar("_R")

INSTEAD = {
    "ais_perf_config": "aic_perf_config has the GPUs for which the router predicts prompts, as an AicPerfConfig",
    "capture_planner_details": "planner_log writes what a planner saw and decided",
    "execution_model": "agentic traces say themselves when each request starts",
    "performance_model_metadata": "the report's timing_model and provenance say where durations come from",
    "weka_nested_timestamp_basis": "times within agents of a weka trace are read one way, see docs/workloads.md",
}
"""Why each of them is refused: what there is in its place."""


def words(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Has a replay function refuse these parameters, naming what there is instead. None is their default."""

    @functools.wraps(function)
    def called(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        for name in INSTEAD:
            if name in kwargs and (value := kwargs.pop(name)) is not None:
                raise ValueError(f"{name}: got {values.show(value)}, want it left out: {INSTEAD[name]}")
        return function(*args, **kwargs)

    return called
