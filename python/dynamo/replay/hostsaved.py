"""What a tier of host memory saved: the same run without it, for ``--explain``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from dynamo.replay import instead

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
    if instead.repeatable(config) and "host_stored_blocks" in report:
        report["without_host_memory"] = instead.again(without(config))


def without(config: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the same run without the tier. It writes no file. vLLM schedules synchronously in it, too."""
    given = json.loads(config["extra_engine_args"])
    engine = {name: value for name, value in given.items() if name not in _WORDS}
    if str(engine.get("scheduler")).startswith("vllm"):
        engine["async_scheduling"] = False
    return {**instead.bare(config), "extra_engine_args": json.dumps(engine)}


def line(report: Mapping[str, Any]) -> str:
    """Returns the difference in a sentence."""
    return instead.line("Host Memory Against None", report["without_host_memory"], report)
