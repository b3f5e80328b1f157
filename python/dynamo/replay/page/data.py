"""What the scripts of the page work on. It is small whatever the run: distributions and series are binned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dynamo._page import short
from dynamo.replay import explain
from dynamo.replay.page import scaling, wrong

if TYPE_CHECKING:
    from dynamo.replay.figures import Figures
    from dynamo.replay.timeseries import Timeseries

QUANTILES = 300
"""Points of a distribution."""
MOST_CELLS = 60_000
"""Values of a figure over time: windows times workers. With more, windows are joined, and then workers left out."""
FEWEST_WINDOWS = 60

LATENCIES = {
    "ttft_ms": "Time to first token",
    "itl_ms": "Time per output token (mean gap of each request)",
    "e2e_latency_ms": "Request latency",
}
"""The latencies whose distributions are shown, by their columns."""
BOUNDED = {
    "ttft_ms": "sla_ttft_ms",
    "itl_ms": "sla_tpot_ms",
    "e2e_latency_ms": "sla_e2e_ms",
    "ttft_p99_ms": "sla_ttft_ms",
}
"""The bound on what a chart shows."""
FIGURES = {
    "waiting": "requests waiting",
    "kv_use": "KV use (part of the blocks)",
    "running": "requests running",
    "busy": "busy (part of the time)",
    "output_tokens_per_s": "output tokens/s",
    "prompt_tokens_per_s": "prompt tokens/s, by admission",
    "hit_rate": "prefix hit rate",
    "ttft_p99_ms": "p99 time to first token (ms)",
    "itl_p99_ms": "p99 token gap (every single one, ms)",
    "preemptions": "preemptions",
    "rank_wait": "ranks waiting for the slowest",
    "host_hit_rate": "prefix hit rate of the host",
    "host_load_busy": "link from the host busy (part of the time)",
    "host_store_busy": "link to the host busy (part of the time)",
    "host_loaded_blocks_per_s": "blocks/s copied from the host",
    "host_stored_blocks_per_s": "blocks/s copied to the host",
    "kv_use_full_attention": "KV use of full attention (part of the blocks)",
    "kv_use_other_groups": "KV use of windows and states (part of the blocks)",
    "kv_wait_full_attention": "no room for full attention (part of the time)",
    "kv_wait_other_groups": "no room for windows and states (part of the time)",
    "router_waiting": "requests waiting in the router",
    "arrivals_per_s": "arrivals/s",
    "completions_per_s": "completed requests/s",
    "goodput_per_s": "requests/s within the service level",
    # Only runs with faults have these.
    "workers_working": "workers that work",
    "failures_per_s": "failed requests/s",
    "migrations_per_s": "migrated requests/s",
    "retries_per_s": "requests/s begun anew",
    "recomputed_tokens_per_s": "prompt tokens/s computed again",
    "lost_tokens_per_s": "output tokens/s that clients could not use",
}
"""The figures over time, and their names."""
BOUNDS = {"sla_ttft_ms": "TTFT", "sla_tpot_ms": "time per output token", "sla_e2e_ms": "latency"}
"""Arguments that bound a latency, and its name."""
_STATISTICS = ("mean", "median", "p90", "p99")


def of(report: Figures) -> dict[str, Any]:
    """Returns the data of the page."""
    return {
        **({"faults": wrong.shades(report)} if "fault_events" in report else {}),
        "cdfs": [found for name in LATENCIES if (found := _distribution(report, name)) is not None],
        "parts": _parts(report),
        "series": _series(report),
    }


def bounds(arguments: Mapping[str, Any]) -> dict[str, float]:
    """Returns the bounds of a run by their arguments, those of BOUNDS; ``sla_itl_ms`` is the other name of one."""
    given = {**arguments}
    if given.get("sla_tpot_ms") is None:
        given["sla_tpot_ms"] = given.get("sla_itl_ms")
    return {name: float(given[name]) for name in BOUNDS if given.get(name) is not None}


def quantiles(report: Figures, name: str) -> list[float]:
    """Returns a column of requests, sorted and at even ranks, the smallest and the largest included; empty if there is
    none.
    """
    import numpy as np

    values = report.requests[name]
    values = np.sort(values[~np.isnan(values)])
    if not len(values):
        return []
    ranks = np.linspace(0, len(values) - 1, min(len(values), QUANTILES)).round().astype(int)
    found: list[float] = values[ranks].tolist()
    return found


def _distribution(report: Figures, name: str) -> dict[str, Any] | None:
    found = quantiles(report, name)
    if not found:
        return None
    return {"title": LATENCIES[name], "values": [short(value) for value in found], **_bound(report, name)}


def _bound(report: Figures, name: str) -> dict[str, float]:
    """Returns the bound of the service level on a latency of requests, nothing without."""
    given = bounds(report.get("provenance", {}).get("arguments", {}))
    argument = BOUNDED.get(name)
    return {"bound": given[argument]} if argument in given else {}


def part_names(attribution: Mapping[str, Any]) -> list[str]:
    """Returns the parts of a latency, in their order."""
    return [name for name in attribution["ttft_ms"]["split"]["mean"] if name != "total"]


def _parts(report: Figures) -> dict[str, Any] | None:
    """Returns the bars of latencies, divided among their parts."""
    attribution = report.get("attribution")
    if not attribution or not attribution["requests"]:
        return None
    names = part_names(attribution)
    bars = []
    for latency in explain.LATENCIES:
        split = attribution[latency]["split"]
        rows = [
            {"name": key, "total": short(split[key]["total"]), "parts": [short(split[key][name]) for name in names]}
            for key in _STATISTICS
        ]
        bars.append({"title": LATENCIES[latency], "rows": rows, **_bound(report, latency)})
    return {"titles": [name.replace("_", " ") for name in names], "bars": bars}


def _series(report: Figures) -> dict[str, Any] | None:
    """Returns figures over time, those of which there are any: a list for the cluster, and one for each worker."""
    import numpy as np

    series = report.timeseries
    if not len(series) or not len(series["pool"]):
        return None
    rows = 1 + _workers(series)
    windows = len(series["pool"]) // rows
    names = [_name(series, row) for row in range(1, rows)]
    shown = min(rows - 1, MOST_CELLS // min(windows, FEWEST_WINDOWS))
    joined = -(-windows * shown // MOST_CELLS)
    figures = []
    for name, title in FIGURES.items():
        if name not in series:
            continue
        column = np.array(series[name], dtype=float).reshape(windows, rows)[:, : shown + 1]
        table = _joined(column, joined, add=name == "preemptions")
        if not np.isnan(table).all():
            cells = [[_cell(value) for value in line] for line in table.T.tolist()]
            figures.append(
                {"name": name, "title": title, "cluster": cells[0], "workers": cells[1:], **_bound(report, name)}
            )
    figures = [found for found in figures if any(any(value or 0 for value in line) for line in _lines(found))]
    if not figures or series.step_ms is None:
        return None
    step_ms, count = series.step_ms * joined, -(-windows // joined)
    if (counts := scaling.curve(report, step_ms, count)) is not None:
        figures.append({"name": "workers", "title": "workers", "cluster": counts, "workers": []})
    return {
        "step_ms": step_ms,
        "windows": count,
        "workers": names[:shown],
        "figures": figures,
    }


def _lines(figure: Mapping[str, Any]) -> Sequence[Sequence[float | None]]:
    return [figure["cluster"], *figure["workers"]]


def _workers(series: Timeseries) -> int:
    """Returns the number of workers: each window has a row for the cluster, and one for each of them."""
    pools = series["pool"]
    second = next((row for row in range(1, len(pools)) if pools[row] == "cluster"), len(pools))
    return second - 1


def _name(series: Timeseries, row: int) -> str:
    pool, worker = series["pool"][row], int(series["worker"][row])
    return f"worker {worker}" if pool == "agg" else f"{pool} worker {worker}"


def _joined(column: Any, every: int, add: bool) -> Any:
    """Returns the means of ``every`` windows each, or their sums. Windows without a value do not count."""
    import numpy as np

    if every == 1:
        return column
    short_of = -len(column) % every
    padded = np.vstack([column, np.full((short_of, column.shape[1]), np.nan)])
    parts = padded.reshape(-1, every, column.shape[1])
    there = (~np.isnan(parts)).sum(axis=1)
    sums = np.nansum(parts, axis=1)
    with np.errstate(invalid="ignore"):
        return np.where(there > 0, sums if add else sums / there, np.nan)


def _cell(value: float) -> float | int | None:
    """Returns a number with four digits."""
    return None if value != value else short(float(f"{value:.4g}"))
