"""Prompt tokens that caches of all sizes find."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dynamo import _core

POINTS = 200
"""Sizes of the curve, at even steps up to the one that finds all that any finds."""


def of(
    trace_files: Sequence[str],
    reading: Mapping[str, Any],
    *,
    block_size: int,
    sizes: Sequence[int] = (),
    kv_bytes_per_token: int | None = None,
) -> dict[str, Any]:
    """Returns the curve of a trace.

    The result has ``points``, a list of sizes in ascending order with the part of the prompt tokens that they find,
    ``knee``, ``most`` (nine tenths of what any size finds) and ``enough``, three of them, and ``asked``, those of
    ``sizes``.
    """
    config = {
        "trace_files": list(trace_files),
        **reading,
        "block_size": block_size,
        "reuse_points": POINTS,
        "reuse_sizes": [str(size) for size in sizes],
    }
    found = _core.inspect(config)
    reuse = found["reuse"]

    def point(at: Sequence[int]) -> dict[str, Any]:
        blocks, tokens = at
        size = {} if kv_bytes_per_token is None else {"gb": blocks * block_size * kv_bytes_per_token / 1e9}
        return {"blocks": blocks, **size, "hit_ratio": tokens / max(1, reuse["input_tokens"])}

    return {
        "trace_files": list(trace_files),
        "requests": found["stats"]["requests"],
        "input_tokens": reuse["input_tokens"],
        "block_size": block_size,
        "different_blocks": reuse["blocks"],
        "largest_request_blocks": found["stats"]["largest_request_blocks"],
        "knee": point(reuse["knee"]),
        "most": point(reuse["most"]),
        "enough": point(reuse["enough"]),
        "asked": [point(at) for at in reuse["asked"]],
        "points": [point(at) for at in reuse["points"]],
    }
