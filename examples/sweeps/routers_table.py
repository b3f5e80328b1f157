"""Who wins where: the table of docs/routers.md, from the sweep of routers.yaml.

python examples/sweeps/routers_table.py build/routers
"""

from __future__ import annotations

import statistics
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

from dynamo import sweep
from dynamo.sweep.store import Store

FIGURE = "mean_ttft_ms"
CACHES = "engine.enable_prefix_caching"
T95 = 3.182446305284263  # Student's quantile for four draws
Times = list[float]  # of the trace, then of the draws


def times(folder: Path) -> dict[tuple[str, str], dict[tuple[bool, str], Times]]:
    """For each traffic and size the mean TTFT with and without caches of each mode, of every draw."""
    found: dict[tuple[str, str], dict[tuple[bool, str], Times]] = defaultdict(dict)
    store = Store(folder / "results.sqlite")
    for point in sweep.load(folder).points:
        knobs = point["knobs"]
        if point["status"] == "ok":
            runs: list[Any] = [store.get(key) for key in point["runs"]]
            one = found[knobs["workload"], knobs["size"]]
            one[knobs[CACHES], knobs["router_mode"]] = [run.figures()[FIGURE] for run in runs]
    store.close()
    return found


def half(values: Times) -> float:
    """Half of the 95 % interval around the first value, from the draws."""
    return T95 * statistics.stdev(values[1:])


def table(folder: Path) -> str:
    lines = [
        "| traffic | workers | least mean TTFT (ms) | as good | `kv_router` | in turn | gain | gain without caches |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for (workload, size), found in times(folder).items():
        ranked = sorted((means[0], mode) for (caches, mode), means in found.items() if caches)
        best = ranked[0][1]
        equals = []
        for _, mode in ranked[1:]:  # every draw was replayed by both
            behind = [b - a for a, b in zip(found[True, best], found[True, mode], strict=True)]
            if behind[0] <= half(behind):
                equals.append(mode)
        cells = [workload.replace("_", " "), size, f"`{best}` {shown(found[True, best])}", names(equals)]
        cells += [shown(found[True, mode]) for mode in ("kv_router", "round_robin")]
        cells += [f"{found[c, 'round_robin'][0] / found[c, best][0]:.2f}" for c in (True, False)]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def shown(means: Times) -> str:
    return f"{means[0]:,.0f} ± {half(means):,.0f}"


def names(modes: list[str]) -> str:
    return ", ".join(f"`{mode}`" for mode in modes[:3]) + (f" and {len(modes) - 3} more" if len(modes) > 3 else "")


if __name__ == "__main__":
    print(table(Path(sys.argv[1])))
