"""Runs whose planner or router answers from Python: one of the caller's, or the planner of ai-dynamo."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from dynamo import _core

if TYPE_CHECKING:
    from dynamo.replay import routers
    from dynamo.replay.planner import Hook
    from dynamo.replay.stock import StockPlanner
    from dynamo.replay.telemetry import Sampler


def run(
    config: Mapping[str, Any],
    on_progress: Callable[[_core.Progress], object] | None,
    trace: _core.LoadedTrace | None = None,
    hook: Hook | Sampler | None = None,
    router: routers.Hook | None = None,
) -> _core.RunResult:
    """Carries out a run. What its planner raises passes unchanged; what its router raises is the cause of an error."""
    if router is None and config.get("router"):
        from dynamo.replay import routers  # not before it is needed

        router = routers.hook_for(config)
    try:
        return _planned(config, on_progress, trace, hook, router)
    except (RuntimeError, ValueError) as error:
        if router is None or router.failure is None:
            raise
        failure = router.explain(error)
        raise failure from failure.__cause__


def _planned(
    config: Mapping[str, Any],
    on_progress: Callable[[_core.Progress], object] | None,
    trace: _core.LoadedTrace | None,
    hook: Hook | Sampler | None,
    router: routers.Hook | None,
) -> _core.RunResult:
    beside = config.get("planner") or config.get("autoscaler")  # Go refuses them beside planner_config
    if beside or config.get("planner_config") is None:
        return _answered(config, on_progress, trace, hook, router)
    from dynamo.replay.stock import StockPlanner  # not before it is needed: it takes time to load

    with StockPlanner(config.get("planner_python")) as stock:
        result = _answered(config, on_progress, trace, stock, router)
        result.report["planner"] = stock.finish(result.report)._asdict()
    return result


def _answered(
    config: Mapping[str, Any],
    on_progress: Callable[[_core.Progress], object] | None,
    trace: _core.LoadedTrace | None,
    planner: Hook | Sampler | StockPlanner | None,
    router: routers.Hook | None,
) -> _core.RunResult:
    route = None if router is None else router.answer
    if planner is None:
        return _core.run(config, on_progress, trace, router=route)
    try:
        return _core.run(config, on_progress, trace, planner.answer, route)
    except (RuntimeError, ValueError):  # the latter before the run began
        if planner.failure is None:
            raise
        raise planner.failure from None
