"""Replays of the trace with some sizes of host memory."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from dynamo._core import values
from dynamo._shell import console
from dynamo.replay.tiers import curve, text

_SIZES = ("num_host_blocks", "host_cache_gb", "num_g2_blocks")
_SPEEDS = (
    "host_link",
    "host_offload_d2h_bandwidth_gbps",
    "host_offload_h2d_bandwidth_gbps",
    "bandwidth_g1_to_g2_gbps",
    "bandwidth_g2_to_g1_gbps",
)


def engine_args(given: str) -> dict[str, Any]:
    """Returns the engine of ``--extra-engine-args``, without the size of its host memory: that is what is varied."""
    try:
        args = json.loads(given)
    except ValueError as error:
        raise console.UsageError(f"--extra-engine-args: {error}") from None
    if not isinstance(args, dict):
        raise console.UsageError(f"--extra-engine-args: got {values.show(args)}, want a JSON object")
    if args.get("scheduler", "dynamo") == "dynamo":
        raise console.UsageError("--extra-engine-args: got rules without a host tier, want scheduler vllm or sglang")
    for name, one in (("dp_size", (1, None)), ("kv_cache_groups", (None, [], [{"type": "full"}]))):
        if args.get(name) not in one:
            raise console.UsageError(
                f"--extra-engine-args: {name}: got {values.show(args[name])}, want it left out:"
                " the curve is of one cache that all layers share"
            )
    kept = {name: value for name, value in args.items() if name not in _SIZES}
    if isinstance(tier := kept.get("host_cache"), Mapping):
        kept["host_cache"] = {name: value for name, value in tier.items() if name != "num_blocks"}
    return kept


def add(
    found: dict[str, Any],
    trace_files: Sequence[str],
    reading: Mapping[str, Any],
    engine: Mapping[str, Any],
    concurrency: int | None,
) -> None:
    """Adds ``simulated``: replays without host memory, with half the knee, the knee, halfway to enough, and enough.

    Of a curve without a knee it is the size that finds nine tenths of what any finds.
    """
    from dynamo.replay import run_trace_replay

    knee, enough = found["knee" if text.has_knee(found) else "most"]["blocks"], found["enough"]["blocks"]
    sizes = sorted({0, max(1, knee // 2), max(1, knee), max(1, (knee + enough) // 2), max(1, enough)})
    expected = curve.of(
        trace_files,
        reading,
        block_size=found["block_size"],
        sizes=sizes,
        kv_bytes_per_token=engine.get("kv_bytes_per_token"),
    )["asked"]
    found["simulated"] = []
    said: dict[str, None] = {}
    for point in expected:
        args = _with_blocks(engine, point["blocks"])
        with warnings.catch_warnings(record=True) as raised:
            warnings.simplefilter("always")
            report = run_trace_replay(
                list(trace_files), extra_engine_args=args, replay_concurrency=concurrency, **reading
            )
        said.update(dict.fromkeys(str(warning.message) for warning in raised))
        found["simulated"].append(
            {
                **point,
                "simulated_hit_ratio": report["prefix_cache_reused_ratio"],
                "mean_ttft_ms": report["mean_ttft_ms"],
                "p99_ttft_ms": report["p99_ttft_ms"],
                "duration_ms": report["duration_ms"],
                "rejected_requests": report["rejected_requests"],
            }
        )
    for message in said:
        console.say(f"warning: {message}")


def _with_blocks(engine: Mapping[str, Any], blocks: int) -> dict[str, Any]:
    """Returns engine arguments with a number of blocks in host memory; for none, without anything about it."""
    if blocks:
        return {**engine, "num_host_blocks": blocks}
    about = ("host_cache", "kv_bytes_per_token", *_SPEEDS)
    return {name: value for name, value in engine.items() if name not in about}
