"""Runs whose planner, router or timing model answers from Python: one of the caller's, or the planner of ai-dynamo."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from dynamo import _core

if TYPE_CHECKING:
    from dynamo._shell import plugins
    from dynamo.replay.planner import Hook
    from dynamo.replay.stock import StockPlanner
    from dynamo.replay.telemetry import Sampler

SAMPLE = '{"planner":"telemetry"'
"""What the questions to a sampler begin with. Those to a planner begin otherwise."""
Rules: TypeAlias = "Mapping[str, plugins.Answers | None]"
"""What answers the questions of a run for rules in Python, by the key that its questions begin with."""


def run(
    config: Mapping[str, Any],
    on_progress: Callable[[_core.Progress], object] | None,
    trace: _core.LoadedTrace | None = None,
    hook: Hook | None = None,
    rules: Rules | None = None,
    sampler: Sampler | None = None,
) -> _core.RunResult:
    """Carries out a run. What its planner or sampler raises passes unchanged; what its rules raise is a cause.

    ``rules`` are those that the caller gave as objects; others are found by the texts of ``config``.
    """
    asked = _hooks(config, rules or {})
    try:
        result = _planned(config, on_progress, trace, hook, asked, sampler)
    except (RuntimeError, ValueError) as error:
        for rule in asked.values():
            if rule.failure is not None:
                failure = rule.explain(error)
                raise failure from failure.__cause__
        raise
    result.warnings = (*(text for rule in asked.values() for text in rule.warnings), *result.warnings)
    return result


def _hooks(config: Mapping[str, Any], given: Rules) -> dict[str, plugins.Answers]:
    """Returns the rules of a run: the given ones, and those that texts of ``config`` name."""
    found = dict(given)
    if ":" in config.get("router_mode", ""):
        from dynamo._shell import routers  # not before it is needed, as the others

        routers.refuse_as_mode(config["router_mode"])
    if "router" not in found and config.get("router"):
        from dynamo._shell import routers

        found["router"] = routers.hook_for(config)
    if "timing" not in found and config.get("timing_model"):
        from dynamo._shell import timings

        found["timing"] = timings.hook_for(config)
    if "scheduler" not in found and config.get("scheduler_policy"):
        from dynamo._shell import schedulers

        found["scheduler"] = schedulers.hook_for(config)
    return {name: rule for name, rule in found.items() if rule is not None}


def _planned(
    config: Mapping[str, Any],
    on_progress: Callable[[_core.Progress], object] | None,
    trace: _core.LoadedTrace | None,
    hook: Hook | None,
    rules: Mapping[str, plugins.Answers],
    sampler: Sampler | None,
) -> _core.RunResult:
    beside = config.get("planner") or config.get("autoscaler")  # Go refuses them beside planner_config
    if beside or config.get("planner_config") is None:
        return _answered(config, on_progress, trace, hook, sampler, rules)
    from dynamo.replay.stock import StockPlanner  # not before it is needed: it takes time to load

    with StockPlanner(config.get("planner_python")) as stock:
        result = _answered(config, on_progress, trace, stock, sampler, rules)
        result.report["planner"] = stock.finish(result.report)._asdict()
    return result


def _answered(
    config: Mapping[str, Any],
    on_progress: Callable[[_core.Progress], object] | None,
    trace: _core.LoadedTrace | None,
    planner: Hook | StockPlanner | None,
    sampler: Sampler | None,
    rules: Mapping[str, plugins.Answers],
) -> _core.RunResult:
    """Carries out a run in which a planner and a sampler answer, as far as there are any."""
    answering = [one for one in (planner, sampler) if one is not None]

    def answer(question: str) -> str:
        one = sampler if sampler is not None and question.startswith(SAMPLE) else planner
        assert one is not None
        return one.answer(question)

    try:
        return _core.run(
            config,
            on_progress,
            trace,
            answer if answering else None,
            {name: rule.answer for name, rule in rules.items()},
        )
    except (RuntimeError, ValueError):  # the latter before the run began
        for one in answering:
            if one.failure is not None:
                raise one.failure from None
        raise
