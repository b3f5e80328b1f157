"""Runs whose planner or router answers from Python: one of the caller's, or the planner of ai-dynamo."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from dynamo import _core
from dynamo.replay.telemetry import SAMPLE

if TYPE_CHECKING:
    from dynamo._shell import routers
    from dynamo.replay.planner import Hook
    from dynamo.replay.stock import StockPlanner
    from dynamo.replay.telemetry import Sampler


def run(
    config: Mapping[str, Any],
    on_progress: Callable[[_core.Progress], object] | None,
    trace: _core.LoadedTrace | None = None,
    hook: Hook | None = None,
    router: routers.Hook | None = None,
    sampler: Sampler | None = None,
) -> _core.RunResult:
    """Carries out a run. What its planner or sampler raises passes unchanged; what its router raises is a cause."""
    if router is None and config.get("router"):
        from dynamo._shell import routers  # not before it is needed

        router = routers.hook_for(config)
    try:
        return _planned(config, on_progress, trace, hook, router, sampler)
    except (RuntimeError, ValueError) as error:
        if router is None or router.failure is None:
            raise
        failure = router.explain(error)
        raise failure from failure.__cause__


def _planned(
    config: Mapping[str, Any],
    on_progress: Callable[[_core.Progress], object] | None,
    trace: _core.LoadedTrace | None,
    hook: Hook | None,
    router: routers.Hook | None,
    sampler: Sampler | None,
) -> _core.RunResult:
    beside = config.get("planner") or config.get("autoscaler")  # Go refuses them beside planner_config
    if beside or config.get("planner_config") is None:
        return _answered(config, on_progress, trace, hook, sampler, router)
    from dynamo.replay.stock import StockPlanner  # not before it is needed: it takes time to load

    with StockPlanner(config.get("planner_python")) as stock:
        result = _answered(config, on_progress, trace, stock, sampler, router)
        result.report["planner"] = stock.finish(result.report)._asdict()
    return result


def _answered(
    config: Mapping[str, Any],
    on_progress: Callable[[_core.Progress], object] | None,
    trace: _core.LoadedTrace | None,
    planner: Hook | StockPlanner | None,
    sampler: Sampler | None,
    router: routers.Hook | None,
) -> _core.RunResult:
    """Carries out a run in which a planner and a sampler answer, as far as there are any."""
    answering = [one for one in (planner, sampler) if one is not None]

    def answer(question: str) -> str:
        one = sampler if sampler is not None and question.startswith(SAMPLE) else planner
        assert one is not None
        return one.answer(question)

    try:
        return _core.run(config, on_progress, trace, answer if answering else None, router.answer if router else None)
    except (RuntimeError, ValueError):  # the latter before the run began
        for one in answering:
            if one.failure is not None:
                raise one.failure from None
        raise
