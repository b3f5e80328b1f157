"""Returns the same run with something else instead, for ``--explain``: repeated, and compared in a sentence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dynamo.replay import artifacts, files, planned

KEYS = (
    "prefix_cache_reused_ratio",
    "mean_ttft_ms",
    "p99_ttft_ms",
    "mean_e2e_latency_ms",
    "output_throughput_tok_s",
    "duration_ms",
)
"""What a report has of the other run."""


def repeatable(config: Mapping[str, Any]) -> bool:
    """Reports whether a run was to be explained and can be made again.

    That is not so in real time, with a planner, or with a trace from standard input, which is gone.
    """
    if not config.get("attribution") or config.get("replay_mode") == "online" or config.get("planner_config"):
        return False
    return "-" not in config.get("trace_files", ())


def bare(config: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the same run without an explanation. It writes no file."""
    dropped = {*files.outputs(), *artifacts.SHAPES, "attribution"}
    return {**{name: value for name, value in config.items() if name not in dropped}, "rows": False}


def again(config: Mapping[str, Any], rules: planned.Rules | None = None) -> dict[str, Any]:
    """Returns what the report of another run, with these rules, says under ``KEYS``."""
    report = planned.run(config, None, rules=rules).report
    return {key: report[key] for key in KEYS}


def line(title: str, other: Mapping[str, Any], report: Mapping[str, Any]) -> str:
    """Returns the difference in a sentence."""
    pairs = [
        _pair("prompt tokens found", other, report, "prefix_cache_reused_ratio", "{:.1%}"),
        _pair("mean TTFT", other, report, "mean_ttft_ms", "{:,.1f} ms"),
        _pair("p99 TTFT", other, report, "p99_ttft_ms", "{:,.1f} ms"),
        _pair("mean request latency", other, report, "mean_e2e_latency_ms", "{:,.1f} ms"),
    ]
    return f"{title}: {', '.join(filter(None, pairs))}"


def _pair(name: str, other: Mapping[str, Any], report: Mapping[str, Any], key: str, shape: str) -> str:
    if other[key] is None or report[key] is None:
        return ""
    return f"{name} {shape.format(report[key])} instead of {shape.format(other[key])}"
