"""What tests of cache tiers share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from conftest import row, write_trace

from dynamo.replay import run_trace_replay

BLOCK = 16


def one_prompt(folder: Path, scheduler: dict[str, Any], **tier: Any) -> tuple[Any, Any]:
    """One prompt comes again and again to two workers: runs in which routers do not count what the tier has, and do."""
    prompt = list(range(41))
    rows = [row(at, 40 * BLOCK + 5, 20, prompt) for at in (0, *range(1000, 1600, 50))]
    trace = write_trace(folder / "routed.jsonl", rows)
    host = {"num_blocks": 400, "load_ms_per_block": 0.01, "store_ms_per_block": 0.01, **tier}
    engine = {**scheduler, "block_size": BLOCK, "num_gpu_blocks": 600, "host_cache": host}

    def routed(multiplier: float) -> Any:
        return run_trace_replay(
            trace,
            extra_engine_args=engine,
            trace_block_size=BLOCK,
            num_workers=2,
            router_mode="kv_router",
            router_config={"router_seed": 3, "shared_cache_multiplier": multiplier},
        )

    return routed(0), routed(1)
