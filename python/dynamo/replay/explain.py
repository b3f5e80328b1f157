"""Where latencies come from, as text: the table of ``--explain``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dynamo.replay import table

TITLE = "Where Latencies Come From"
LATENCIES: Mapping[str, str] = {"ttft_ms": "Time to First Token (ms)", "e2e_latency_ms": "Request Latency (ms)"}
"""The latencies that are divided, by their group in the report, as tables call them."""
PARTS: Mapping[str, str] = {
    "router_wait": "waiting in the router",
    "worker_wait": "waiting on the worker",
    "own_prompt": "own prompt",
    "other_prompts": "others' prompts beside it",
    "preempted": "preempted",
    "recompute": "computing again",
    "kv_wait": "waiting for room for KV",
    "kv_transfer": "KV transfer",
    "decode": "decode",
    "decode_slowed": "decode held up by prompts",
    "host": "host",
}
"""The parts of a latency, in order, as tables call them."""
LOST = "lost"
"""The part that only runs with faults have, after the others."""
PARTS_WITH_LOST: Mapping[str, str] = {**PARTS, LOST: "lost to faults"}
"""The parts of a latency of a run with faults."""
_STATISTICS: Mapping[str, str] = {"avg": "mean", "p50": "median", "p90": "p90", "p99": "p99"}
_SHARE = "of avg"
# Columns that are left out on a narrow terminal, in this order; avg stays.
_EXPENDABLE = ("p50", "p90", _SHARE, "p99")


def format_explanation(report: Mapping[str, Any], *, width: int | None = None, ascii_only: bool = False) -> str:
    """Returns the attribution of a report as text: a title, and a table without a final newline.

    Each column of the table adds up to its first line, the latency. Parts that no request has are left
    out. Below it stands how long ranks waited for each other, if they run their passes together. ``width``
    and ``ascii_only`` are as in ``format_report_table``.
    """
    attribution: Mapping[str, Any] = report["attribution"]
    headings = ["Latency and its Parts", "avg", _SHARE, *list(_STATISTICS)[1:]]
    cells: table.Rows = [headings, *_rows(attribution)]
    border = table.ASCII if ascii_only else table.BOXES
    if width is not None:
        cells = table.fit(cells, width, [headings.index(name) for name in _EXPENDABLE], border)
    return "\n".join([TITLE, table.draw(cells, border), *_of_ranks(report), *_of_groups(report)])


def _of_ranks(report: Mapping[str, Any]) -> list[str]:
    """Returns how long ranks waited, which is in the parts above: a pass is as long for all ranks as for the
    slowest.
    """
    if not (passes := report.get("rank_pass_ms")):
        return []
    waited = report["rank_wait_ms"]
    share = f"{waited / passes:.1%} of their time in passes"
    return [f"Ranks waited for the slowest {share}: {waited:,.0f} of {passes:,.0f} ms"]


def _of_groups(report: Mapping[str, Any]) -> list[str]:
    """Returns what the first request in line had no room for, in caches with several groups; worker_wait has that
    time.
    """
    if "kv_wait_full_attention_ms" not in report:
        return []
    full, others = report["kv_wait_full_attention_ms"], report["kv_wait_other_groups_ms"]
    if not full + others:
        return ["The first request in line always had room in the KV cache"]
    return [
        f"The first request in line had no room in the KV cache for {full + others:,.0f} ms of passes:",
        f"  {full:,.0f} ms for its blocks of full attention alone, {others:,.0f} ms for windows or states beside them",
    ]


def _rows(attribution: Mapping[str, Any]) -> list[list[str]]:
    rows = []
    for group, label in LATENCIES.items():
        split = attribution[group]["split"]
        if not split:
            rows.append([label, "N/A", "", *["N/A"] * (len(_STATISTICS) - 1)])
            continue
        rows.append(_row(label, "total", split))
        rows += [
            _row(f"  {words}", part, split)
            for part, words in PARTS_WITH_LOST.items()
            if any(s.get(part) for s in split.values())
        ]
    return rows


def _row(label: str, key: str, split: Mapping[str, Mapping[str, float]]) -> list[str]:
    mean, *others = (split[statistic] for statistic in _STATISTICS.values())
    share = mean[key] / mean["total"] if mean["total"] else 0.0
    return [label, f"{mean[key]:,.2f}", f"{share:.1%}", *(f"{other[key]:,.2f}" for other in others)]
