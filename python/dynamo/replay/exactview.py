"""What a router with exact knowledge would have saved: the same run with it, for ``--explain``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dynamo.replay import instead

if TYPE_CHECKING:
    from dynamo._shell.routers import Hook

_VIEW = ("metrics_interval_ms", "router_replicas")


def add(config: Mapping[str, Any], report: dict[str, Any]) -> None:
    """Adds ``with_exact_view`` to the report of a run that was to be explained, if its router did not know all.

    Its router hears at once of what workers have cached, counts its requests at once, and is one.
    """
    if not instead.repeatable(config):
        return
    hook = _hook(config)
    if (exact := with_all(config, limited=hook is not None and hook.limited)) is not None:
        report["with_exact_view"] = instead.again(exact, {} if hook is None else {"router": hook})


def _hook(config: Mapping[str, Any]) -> Hook | None:
    """Returns the hook of a router in Python that knows all."""
    if not config.get("router"):
        return None
    from dynamo._shell import routers  # not before it is needed

    hook = routers.hook_for(config)
    if hook is not None:
        hook.exact = True
    return hook


def with_all(config: Mapping[str, Any], *, limited: bool = False) -> dict[str, Any] | None:
    """Returns the same run with a router that knows all, None if it does already. It writes no file.

    ``limited`` says that the router is one in Python that does not.
    """
    given = json.loads(config.get("router_config") or "{}")
    modes = isinstance(given, dict) and ":" not in (config.get("router") or "")
    known = {name: value for name, value in given.items() if name not in _VIEW} if modes else given
    if known == given and not limited and not config.get("kv_event_lag_ms"):
        return None
    return {**instead.bare(config), "router_config": json.dumps(known), "kv_event_lag_ms": 0.0}


def line(report: Mapping[str, Any]) -> str:
    """Returns the difference in a sentence."""
    return instead.line("The Router's View Against an Exact One", report["with_exact_view"], report)
