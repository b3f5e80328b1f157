"""What a tier of host memory saved: the same run without it, for ``--explain``."""

from __future__ import annotations

import json
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
"""What the report has of the run without the tier."""

_WORDS = (
    "host_cache",
    "num_host_blocks",
    "host_cache_gb",
    "num_g2_blocks",
    "host_link",
    "host_offload_d2h_bandwidth_gbps",
    "host_offload_h2d_bandwidth_gbps",
    "bandwidth_g1_to_g2_gbps",
    "bandwidth_g2_to_g1_gbps",
)


def add(config: Mapping[str, Any], report: dict[str, Any]) -> None:
    """Adds ``without_host_memory`` to the report of a run that was to be explained, if it had such a tier.

    A run in real time, with a planner, or of a trace from standard input, which is gone, is not repeated.
    """
    if not config.get("attribution") or "host_stored_blocks" not in report:
        return
    if config.get("replay_mode") == "online" or config.get("planner_config") or "-" in config.get("trace_files", ()):
        return
    other = planned.run(without(config), None).report
    report["without_host_memory"] = {key: other[key] for key in KEYS}


def without(config: Mapping[str, Any]) -> dict[str, Any]:
    """The same run without the tier. It writes no file. vLLM schedules synchronously in it, too."""
    given = json.loads(config["extra_engine_args"])
    engine = {name: value for name, value in given.items() if name not in _WORDS}
    if str(engine.get("scheduler")).startswith("vllm"):
        engine["async_scheduling"] = False
    dropped = {*files.outputs(), *artifacts.SHAPES, "attribution"}
    kept = {name: value for name, value in config.items() if name not in dropped}
    return {**kept, "rows": False, "extra_engine_args": json.dumps(engine)}


def line(report: Mapping[str, Any]) -> str:
    """The difference in a sentence."""
    other = report["without_host_memory"]
    pairs = [
        _pair("prompt tokens found", other, report, "prefix_cache_reused_ratio", "{:.1%}"),
        _pair("mean TTFT", other, report, "mean_ttft_ms", "{:,.1f} ms"),
        _pair("p99 TTFT", other, report, "p99_ttft_ms", "{:,.1f} ms"),
        _pair("mean request latency", other, report, "mean_e2e_latency_ms", "{:,.1f} ms"),
    ]
    return f"Host Memory Against None: {', '.join(filter(None, pairs))}"


def _pair(name: str, other: Mapping[str, Any], report: Mapping[str, Any], key: str, shape: str) -> str:
    if other[key] is None or report[key] is None:
        return ""
    return f"{name} {shape.format(report[key])} instead of {shape.format(other[key])}"
