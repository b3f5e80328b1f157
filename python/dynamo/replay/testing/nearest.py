"""The nearest deployment that keeps the bounds: another router, or the fewest workers more."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

_SEES_MOST = ("kv_router", "kv-router", "kv")
_POOLS = ("num_prefill_workers", "num_decode_workers")
# What decides on workers or routes; objects cannot run twice, either.
_FIXED = ("planner", "planner_config", "autoscaler", "router", "router_decisions")


class Trial(NamedTuple):
    """A deployment that was tried: which arguments it changes, and whether it keeps the bounds."""

    changes: Mapping[str, Any]
    passes: bool
    figures: str


Try = Callable[[Mapping[str, Any]], Trial]


def describe(arguments: Mapping[str, Any], attempt: Try, limit: int) -> list[str]:
    """Lines on the nearest deployment that passes. ``attempt`` replays with changed arguments, ``limit`` times at most.

    There are none if something else decides on workers or routes.
    """
    if limit < 1 or any(arguments.get(name) is not None for name in _FIXED):
        return []
    search = _Search(attempt, limit)
    found = search.same_size(arguments) or search.larger(arguments)
    if found is None:
        most = max(search.tried, key=lambda trial: _workers(trial.changes), default=None)
        if most is None:
            return []
        tried = f"None of {len(search.tried)} other deployments passes"
        return [f"{tried}; the largest, {words(most.changes)}, has {most.figures}"]
    return [
        f"Nearest deployment that passes, of {len(search.tried)} tried: {words(found.changes)}, with {found.figures}"
    ]


def words(changes: Mapping[str, Any]) -> str:
    """Returns a deployment as arguments of a replay."""
    short = {"num_workers": "workers", "num_prefill_workers": "prefill_workers", "num_decode_workers": "decode_workers"}
    return ", ".join(
        f'{name}="{value}"' if isinstance(value, str) else f"{short.get(name, name)}={value}"
        for name, value in changes.items()
    )


def _workers(changes: Mapping[str, Any]) -> int:
    return sum(value for name, value in changes.items() if name.startswith("num_"))


def _fewest(trials: Iterable[Trial | None]) -> Trial | None:
    """Returns the one with the fewest workers of those that pass, the first of several."""
    return min((trial for trial in trials if trial), key=lambda trial: _workers(trial.changes), default=None)


class _Search:
    def __init__(self, attempt: Try, limit: int) -> None:
        self._attempt = attempt
        self._limit = limit
        self.tried: list[Trial] = []

    def same_size(self, arguments: Mapping[str, Any]) -> Trial | None:
        """Returns the same workers behind the router that sees what they have cached and have to do."""
        pools = {name: arguments[name] for name in _POOLS if arguments.get(name)}
        sizes = pools or {"num_workers": arguments.get("num_workers") or 1}
        if arguments.get("router_mode") in _SEES_MOST or max(sizes.values()) < 2:
            return None
        trial = self._try({**sizes, "router_mode": "kv_router"})
        return trial if trial and trial.passes else None

    def larger(self, arguments: Mapping[str, Any]) -> Trial | None:
        """Returns the fewest workers more: of each pool alone, and of both together."""
        pools = {name: arguments[name] for name in _POOLS if arguments.get(name)}
        if not pools:
            return self._grow_one(arguments)
        return _fewest(self._grow(pools, grown, self._limit // 3) for grown in ((_POOLS[0],), (_POOLS[1],), _POOLS))

    def _grow_one(self, arguments: Mapping[str, Any]) -> Trial | None:
        """Returns one pool with more workers, behind the router that it has, and behind the one that sees most."""
        sizes = {"num_workers": arguments.get("num_workers") or 1}
        if arguments.get("router_mode") in _SEES_MOST:
            return self._grow(sizes, ("num_workers",), self._limit)
        half = self._limit // 2
        as_it_is = self._grow(sizes, ("num_workers",), half)
        return _fewest([as_it_is, self._grow(sizes, ("num_workers",), half, {"router_mode": "kv_router"})])

    def _grow(
        self, sizes: Mapping[str, int], grown: tuple[str, ...], budget: int, others: Mapping[str, Any] | None = None
    ) -> Trial | None:
        """Doubles pools until the bounds hold, then halves the step, with at most ``budget`` trials."""

        def at(more: int) -> Trial | None:
            """Returns the deployment whose pools have ``more`` workers than now."""
            if len(self.tried) - before >= budget:
                return None
            return self._try({name: n + more if name in grown else n for name, n in sizes.items()} | dict(others or {}))

        before = len(self.tried)
        size = max(sizes[name] for name in grown)
        fails, more = 0, max(1, size)
        passing: Trial | None = None
        while passing is None and more <= 15 * size + 16:
            trial = at(more)
            if trial is None:
                return None
            if trial.passes:
                passing = trial
            else:
                fails, more = more, 2 * more + size
        if passing is None:
            return None
        passes = more
        while passes - fails > 1:
            middle = (passes + fails) // 2
            trial = at(middle)
            if trial is None:
                break
            if trial.passes:
                passing, passes = trial, middle
            else:
                fails = middle
        return passing

    def _try(self, changes: Mapping[str, Any]) -> Trial | None:
        """Returns a trial, None if there may be no more."""
        if len(self.tried) >= self._limit:
            return None
        self.tried.append(self._attempt(changes))
        return self.tried[-1]
