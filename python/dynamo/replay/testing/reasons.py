"""Why requests do not keep a bound: what their latencies consist of, by the parts that ``--explain`` has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynamo.replay.explain import PARTS_WITH_LOST
from dynamo.replay.report import Report
from dynamo.replay.testing.bounds import GOODPUT, Bound, violating

_SHOWN = 4
# In milliseconds: what is left of a difference of equal times.
_NOTHING = 1e-6
_NAMES: Mapping[str, str] = {
    "ttft_ms": "time to first token",
    "ttst_ms": "time from the first to the second token",
    "itl_ms": "time per output token",
    "e2e_latency_ms": "request latency",
}
# What changes a part that is large.
_ADVICE: Mapping[str, str] = {
    "router_wait": "more workers shorten it, and so may another router_queue_policy",
    "worker_wait": 'more workers shorten it, and so may router_mode="kv_router", which sees what workers have to do',
    "own_prompt": "faster prompts or more prefix hits shorten it, more workers do not",
    "other_prompts": "a smaller max_num_batched_tokens shortens it, and so do pools of prefill and decode workers",
    "preempted": "more KV blocks (num_gpu_blocks) or fewer requests at a time (max_num_seqs) shorten it",
    "recompute": "more KV blocks (num_gpu_blocks) or fewer requests at a time (max_num_seqs) shorten it",
    "kv_wait": "more decode workers or KV blocks shorten it",
    "kv_transfer": "a faster link shortens it, between the pools or to host memory",
    "decode": "smaller batches (max_num_seqs) or more workers shorten it",
    "decode_slowed": "a smaller max_num_batched_tokens shortens it, and so do pools of prefill and decode workers",
    "host": "step_overhead_us, seq_overhead_us and request_overhead_us set it",
    "lost": "the faults of the run cause it",
}


def why(report: Report, failed: list[Bound], bounds: Mapping[str, Bound]) -> list[str]:
    """Lines on the requests that do not keep the bounds that failed; none if the run does not divide latencies."""
    if "attribution" not in report or not len(report.requests):
        return []
    lines: list[str] = []
    for bound in _of_requests(report, failed, bounds):
        lines += _of_bound(report, bound)
    return lines or _of_all(report)


def _of_requests(report: Report, failed: list[Bound], bounds: Mapping[str, Bound]) -> Iterator[Bound]:
    """Returns the bounds on single requests behind those that do not hold, each once."""
    found = [bound for bound in failed if bound.column]
    if any(bound.figure == GOODPUT for bound in failed):
        arguments = report["provenance"]["arguments"]
        options = {
            "sla_ttft_ms": "ttft_ms",
            "sla_itl_ms": "itl_ms",
            "sla_tpot_ms": "itl_ms",
            "sla_e2e_ms": "e2e_latency_ms",
        }
        given = [
            Bound("max_" + ("tpot_ms" if column == "itl_ms" else column), "<=", float(arguments[option]))
            for option, column in options.items()
            if arguments.get(option) is not None
        ]
        found += given or [bound for bound in bounds.values() if bound.column]
    return iter({(bound.column, bound.sign, bound.limit): bound for bound in found}.values())


def _of_bound(report: Report, bound: Bound) -> list[str]:
    rows = report.requests
    completed = np.array([status == "completed" for status in rows["terminal_status"]], dtype=bool)
    bad = violating(report, [bound])
    lines = []
    if lost := int(np.count_nonzero(bad & ~completed)):
        lines.append(f"{lost:,} of {len(bad):,} requests never complete")
    bad &= completed
    if not (count := int(np.count_nonzero(bad))):
        return lines
    name, limit = _NAMES[bound.column], f"{bound.limit:,.6g} ms"
    mean = float(rows[bound.column][bad].mean())
    lines.append(
        f"{count:,} of {len(bad):,} requests have a {name} that is not {bound.sign} {limit}, {mean:,.6g} ms on average:"
    )
    parts = dict(_parts(report, bound.column, bad))
    if not parts:
        return lines
    return [*lines, *_table(parts), *_slowest(report, bound.column, bad)]


def _of_all(report: Report) -> list[str]:
    """Returns what latencies consist of, for figures that are not statistics of requests."""
    rows = np.array([status == "completed" for status in report.requests["terminal_status"]], dtype=bool)
    if not rows.any():
        return ["no request completes"]
    parts = dict(_parts(report, "e2e_latency_ms", rows))
    return [f"where the time of the {np.count_nonzero(rows):,} completed requests goes, on average:", *_table(parts)]


def _parts(report: Report, column: str, chosen: NDArray[np.bool_]) -> Iterator[tuple[str, float]]:
    """The mean of each part over the chosen requests. Gaps between tokens consist of what follows the first token."""
    rows: Any = report.requests
    for part in PARTS_WITH_LOST:
        if f"e2e_{part}_ms" not in rows:
            continue
        first, whole = rows[f"ttft_{part}_ms"][chosen], rows[f"e2e_{part}_ms"][chosen]
        times = {"ttft_ms": first, "e2e_latency_ms": whole}.get(column, whole - first)
        if (mean := float(times.mean())) > _NOTHING:
            yield part, mean


def _table(parts: Mapping[str, float]) -> list[str]:
    total = sum(parts.values())
    ordered = sorted(parts.items(), key=lambda item: -item[1])
    shown = ordered[:_SHOWN]
    if rest := sum(time for _, time in ordered[_SHOWN:]):
        shown.append(("", rest))
    labels = [PARTS_WITH_LOST.get(part, "other parts") for part, _ in shown]
    width = max(map(len, labels))
    lines = [
        f"  {label:{width}}  {time:>10,.1f} ms  {time / total:>6.1%}"
        for label, (_, time) in zip(labels, shown, strict=True)
    ]
    largest = ordered[0][0]
    return [*lines, f"  {PARTS_WITH_LOST[largest]}: {_ADVICE[largest]}"]


def _slowest(report: Report, column: str, bad: NDArray[np.bool_]) -> list[str]:
    """Returns a line on the worst of them."""
    rows: Any = report.requests
    worst = int(np.nanargmax(np.where(bad, rows[column], -np.inf)))
    parts = dict(_parts(report, column, np.arange(len(bad)) == worst))
    largest = max(parts, key=lambda part: parts[part], default="")
    share = f", most of it {PARTS_WITH_LOST[largest]}" if largest else ""
    return [
        f"  the longest: row {rows['trace_row'][worst]} of the workload, "
        f"{rows['input_length'][worst]:,} tokens of prompt and "
        f"{rows['output_length'][worst]:,} of output, {rows[column][worst]:,.6g} ms{share}"
    ]
