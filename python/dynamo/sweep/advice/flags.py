"""The command lines that start a deployment, the same as in its exported files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dynamo.sweep.exports import plan as plans
from dynamo.sweep.exports import scripts

MODEL = "MODEL"
"""Stands for the model where none was asked for."""


def lines(point: Mapping[str, Any], model: str | None, migrations: Mapping[str, int]) -> list[str]:
    """A line for the first worker of each pool, and one for the router. Raises ValueError for what no file can say.

    Args:
        point: A run of the deployment, which may be of one request.
        migrations: The keys of a run with which requests of a lost worker go on elsewhere.
    """
    plan = plans.of({**point, "arguments": {**point["arguments"], **migrations}}, model or MODEL, None)
    by_name = {process.name: process.line for process in scripts.processes(plan)}
    if not plan.behind_dynamo:
        return [f"the worker: {line}" for line in by_name.values()]
    found = []
    for pool in plan.pools:
        name = "worker" if pool.role == "worker" else f"{pool.role} worker"
        first = f"the first of {pool.workers} {name}s" if pool.workers > 1 else f"the {name}"
        found.append(f"{first}: {by_name[f'{pool.role}-0']}")
    if sum(pool.workers for pool in plan.pools) > len(plan.pools):
        found[-1] = found[-1].replace(":", " (others have GPUs and ports of their own, see start.sh of the files):", 1)
    return [*found, f"in front of them: {by_name['frontend']}"]
