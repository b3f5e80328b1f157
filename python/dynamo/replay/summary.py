"""The table of a report, as text. It looks like that of AIPerf, and names what differs from it."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeGuard

from dynamo.replay import durations, latencies, table

TITLE = "dynosim | LLM Metrics"
STATISTICS = {"avg": "mean", "min": "min", "max": "max", "p99": "p99", "p90": "p90", "p75": "p75", "std": "std"}
"""Columns of the table, and how keys of the report begin."""
STAT_COLUMNS = tuple(STATISTICS)
"""Headings of the table's columns of statistics, in order."""
DISTRIBUTIONS = {
    "Time to First Token (ms)": "ttft_ms",
    "Time to Second Token (ms)": "ttst_ms",
    "Request Latency (ms)": "e2e_latency_ms",
    latencies.TPOT: "tpot_ms",
    latencies.TOKEN_GAP: "itl_ms",
    "Output Token Throughput Per User (tokens/sec/user)": "output_token_throughput_per_user",
}
"""Rows with statistics, and how keys of the report end."""
SCALARS = {
    "Output Token Throughput (tokens/sec)": "output_throughput_tok_s",
    "Request Throughput (requests/sec)": "request_throughput_rps",
    "Goodput (requests/sec)": "goodput_request_throughput_rps",
    "Request Count (requests)": "completed_requests",
    "Rejected Requests (requests)": "rejected_requests",
}
"""Rows with one figure, and keys of the report."""
# Rows of SCALARS that only some reports have, and which values make them appear.
_OPTIONAL: Mapping[str, Callable[[object], bool]] = {
    "goodput_request_throughput_rps": lambda value: value is not None,
    "rejected_requests": bool,
}
FOOTER = {
    "GPU Cost": "gpu_cost",
    "Wall Time (ms)": "wall_time_ms",
    "Prefix Cache Reused Ratio": "prefix_cache_reused_ratio",
    "First Admission Prefix Cache Reused Ratio": "first_admission_prefix_cache_reused_ratio",
}
"""Lines below the table, and keys of the report."""
# Columns that are left out on a narrow terminal, in this order; avg stays.
_EXPENDABLE = ("std", "p75", "min", "p90", "max", "p99")


def format_report_table(report: Mapping[str, Any], *, width: int | None = None, ascii_only: bool = False) -> str:
    """Returns the report as text: title, table and closing lines, without a final newline.

    The table is as wide as its cells. With ``width``, in characters, it drops columns until it fits, std first and avg
    never. ``ascii_only`` draws it without box characters. Distributions that the report lacks are left out; statistics
    over no value are N/A. Goodput has a row if bounds were set, rejected requests if there are any.
    """
    border = table.ASCII if ascii_only else table.BOXES
    headings, *rows = table_cells(report)
    cells: table.Rows = [headings, *rows]
    if width is not None:
        cells = table.fit(cells, width, [headings.index(name) for name in _EXPENDABLE], border)
    return "\n".join([TITLE, table.draw(cells, border), *closing_lines(report)])


def format_scaling_events(events: Iterable[Mapping[str, Any]]) -> str:
    """Returns one line for each change of the number of workers, below a heading."""
    return "\n".join(["", "Scaling events:", *map(format_scaling_event, events)])


def format_scaling_event(event: Mapping[str, Any]) -> str:
    """Returns the line of a change of the number of workers."""
    direction = "scale_up" if event["to"] > event["from"] else "scale_down"
    reason = f"{direction}, {event['reason']}" if event["reason"] else direction
    return f"  t={event['at_ms'] / 1000:.1f}s [{event['pool']}]: {event['from']} -> {event['to']} workers ({reason})"


def table_cells(report: Mapping[str, Any]) -> list[list[str]]:
    """Returns the cells of the table, row by row: the heading first, then a label and one cell per statistic."""
    return [["Metric", *STAT_COLUMNS], *_rows(report)]


def closing_lines(report: Mapping[str, Any]) -> list[str]:
    """Returns the lines below the table."""
    figures = [
        f"{label}: {_number(report[key])}"
        for label, key in FOOTER.items()
        if key in report and (report[key] is None or _is_number(report[key]))
    ]
    return [
        *figures,
        *_kv_caches(report),
        *_pool_memory(report),
        *_host_lines(report),
        *_storage_lines(report),
        *(text[0].upper() + text[1:] for text in durations.lines(durations.of(report))),
    ]


def _host_lines(report: Mapping[str, Any]) -> list[str]:
    """Returns the line on a tier of host memory, if there is one: what moved each way, and how busy that kept the
    links.
    """
    if "host_stored_blocks" not in report:
        return []
    missed = report.get("host_missed_blocks") or 0
    return [f"Host Memory: {', '.join(host_copies(report))}, {missed:,} blocks computed although the host had them"]


def _storage_lines(report: Mapping[str, Any]) -> list[str]:
    """Returns the line on storage behind the host, if there is one."""
    if "storage_read_blocks" not in report:
        return []
    ways = (("write", "written"), ("read", "read"))
    return [f"Storage: {', '.join(_between(report, *way) for way in ways)}"]


def _between(report: Mapping[str, Any], verb: str, done: str) -> str:
    blocks, size = report[f"storage_{done}_blocks"], report.get(f"storage_{done}_bytes")
    amount = f"{blocks:,} blocks" if size is None else f"{size / 1e9:,.2f} GB"
    busy = report.get(f"storage_{verb}_busy_ratio")
    return f"{amount} {done}" + ("" if busy is None else f" (busy {busy:.1%})")


def host_copies(report: Mapping[str, Any]) -> list[str]:
    """Returns what moved to the host, and what back."""
    return [_moved(report, *way) for way in (("store", "stored", "to the host"), ("load", "loaded", "back"))]


def _moved(report: Mapping[str, Any], verb: str, done: str, where: str) -> str:
    blocks, size = report[f"host_{done}_blocks"], report.get(f"host_{done}_bytes")
    amount = f"{blocks:,} blocks" if size is None else f"{size / 1e9:,.2f} GB"
    busy = report.get(f"host_{verb}_busy_ratio")
    return f"{amount} copied {where}" + ("" if busy is None else f" (link busy {busy:.1%})")


def _counted(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def _kv_caches(report: Mapping[str, Any]) -> list[str]:
    """Returns the lines that vLLM would log of the KV caches of named models, with what they follow from."""
    return [
        f"GPU KV cache size: {cache['tokens']:,} tokens; Maximum concurrency for {cache['max_model_len']:,} tokens per "
        f"request: {cache['concurrency']:.2f}x ({cache['model']}: {cache['blocks']:,} blocks of {cache['block_size']} "
        f"tokens{_windows(cache)} in {_counted(cache['groups'], 'KV cache group')}, {_counted(cache['gpus'], 'GPU')})"
        for cache in report.get("provenance", {}).get("kv_caches", ())
    ]


def _pool_memory(report: Mapping[str, Any]) -> list[str]:
    """Returns how the memory of a GPU was divided where a KV pool is estimated as the engine does."""
    return [
        f"KV pool, estimated as the engine does: {parts['tokens']:,} tokens of {parts['bytes_per_token']:,} bytes on "
        f"each GPU: {_gib(parts, 'usable')} less {_gib(parts, 'weights')} of weights, {_gib(parts, 'activations')} of "
        f"activations, {_gib(parts, 'graphs')} of CUDA graphs, {_gib(parts, 'other')} of libraries"
        for parts in report.get("provenance", {}).get("kv_pool_memory", {}).values()
    ]


def _gib(parts: Mapping[str, Any], name: str) -> str:
    return f"{parts[name] / (1 << 30):.1f} GiB"


def _windows(cache: Mapping[str, Any]) -> str:
    """Returns the second pool that SGLang has for layers with a window."""
    return f" and {cache['window_blocks']:,} for windows" if "window_blocks" in cache else ""


def _rows(report: Mapping[str, Any]) -> list[list[str]]:
    rows = []
    for label, key in DISTRIBUTIONS.items():
        if f"mean_{key}" in report:
            known = {} if report.get(f"count_{key}") == 0 else report
            rows.append([label, *(_number(known.get(f"{statistic}_{key}")) for statistic in STATISTICS.values())])
    missing = [_number(None)] * (len(STATISTICS) - 1)
    for label, key in SCALARS.items():
        if key in _OPTIONAL and not _OPTIONAL[key](report.get(key)):
            continue
        value = report.get(key, report.get("num_requests") if key == "completed_requests" else None)
        rows.append([label, _number(value), *missing])
    return rows


def _number(value: object) -> str:
    if value is None:
        return "N/A"
    return f"{float(value):,.2f}" if _is_number(value) else str(value)


def _is_number(value: object) -> TypeGuard[numbers.Real]:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)
