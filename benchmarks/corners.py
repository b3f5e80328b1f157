"""Kinds of runs that were much slower than others once, as arguments of ``python -m dynamo.replay``.

Words in braces stand for traces (speed.py unpacks them).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

SWEEP = str(Path(__file__).with_name("sweep.py"))
_MOONCAKE = ["--trace-block-size", "512"]
_ROUTED = ["--router-mode", "kv_router"]
_SLICE = ["{conversation_2500}", *_MOONCAKE]


class Corner(NamedTuple):
    """A kind of run, and whether the reference can carry it out, too."""

    title: str
    """What tables call it."""
    arguments: list[str]
    comparable: bool = True


def _engine(**arguments: int | str) -> list[str]:
    return ["--extra-engine-args", json.dumps(arguments)]


def _roles(**arguments: int | str) -> list[str]:
    """The engine arguments of prefill and of decode workers."""
    return [
        word
        for role in ("prefill", "decode")
        for word in (f"--{role}-engine-args", json.dumps({"worker_type": role, **arguments}))
    ]


def _synthetic(input_tokens: int, output_tokens: int, requests: int, interval_ms: float) -> list[str]:
    return [
        *["--input-tokens", str(input_tokens), "--output-tokens", str(output_tokens)],
        *["--request-count", str(requests), "--arrival-interval-ms", str(interval_ms)],
    ]


def _speculation(**arguments: int | str) -> list[str]:
    drafts: dict[str, int | str] = {"aic_nextn": 3, "aic_nextn_accept_rates": "0.85,0.6,0.3", "aic_mtp_seed": 7}
    return [*_synthetic(2000, 200, 6000, 40), "--num-workers", "4", *_engine(**arguments, **drafts)]


def _many_workers(workers: int, requests: int) -> list[str]:
    """Requests of 2,000 + 200 tokens at the rate of ten a second and worker."""
    load = _synthetic(2000, 200, requests, 100 / workers)
    return [*load, "--num-workers", str(workers), *_ROUTED, *_engine(block_size=64)]


def _long_answers(workers: int) -> Corner:
    """The number of decode workers hardly matters: with 128 a run takes at most half as long again as with 4."""
    return Corner(
        f"5,000 requests of 1,000 + 2,000 tokens, 16 prefill and {workers} decode workers",
        [
            *_synthetic(1000, 2000, 5_000, 1),
            *["--router-mode", "round_robin", "--num-prefill-workers", "16", "--num-decode-workers", str(workers)],
            *_roles(block_size=64, kv_bytes_per_token=131072),
        ],
    )


CORNERS: Mapping[str, Corner] = {
    "sglang-kv-page-1": Corner(
        "2,500 conversations, four SGLang workers behind the KV-aware router, pages of 1",
        [*_SLICE, "--num-workers", "4", *_ROUTED, *_engine(engine_type="sglang", num_gpu_blocks=1 << 20)],
    ),
    "sglang-kv-page-64": Corner(
        "2,500 conversations, four SGLang workers behind the KV-aware router, pages of 64",
        [*_SLICE, "--num-workers", "4", *_ROUTED, *_engine(engine_type="sglang", block_size=64)],
    ),
    "speculation-sglang": Corner(
        "speculative decoding, 6,000 requests, four SGLang workers", _speculation(engine_type="sglang", block_size=64)
    ),
    "speculation-vllm": Corner("speculative decoding, 6,000 requests, four vLLM workers", _speculation(block_size=64)),
    "conversation-2p4d": Corner(
        "12,031 conversations, two prefill and four decode workers",
        [
            *["{conversation_trace}", *_MOONCAKE, *_ROUTED, "--num-prefill-workers", "2", "--num-decode-workers", "4"],
            *_roles(block_size=64, kv_bytes_per_token=131072),
        ],
    ),
    "2p-16x4": _long_answers(4),
    "2p-16x128": _long_answers(128),
    "router-queue-5k": Corner(
        "5,000 requests that wait in the router",
        [
            *_synthetic(128, 64, 5_000, 0),
            *["--num-workers", "4", *_ROUTED, "--router-config", json.dumps({"router_queue_threshold": 0.5})],
            *_engine(block_size=64),
        ],
    ),
    "router-queue-10k": Corner(
        "10,000 requests that wait in the router",
        [
            *_synthetic(128, 64, 10_000, 0),
            *["--num-workers", "4", *_ROUTED, "--router-config", json.dumps({"router_queue_threshold": 0.5})],
            *_engine(block_size=64),
        ],
    ),
    "kv-4w": Corner("20,000 requests, 4 workers behind the KV-aware router", _many_workers(4, 20_000)),
    "kv-1024w": Corner("20,480 requests, 1,024 workers behind the KV-aware router", _many_workers(1024, 20_480)),
    "kv-4096w": Corner("20,480 requests, 4,096 workers behind the KV-aware router", _many_workers(4096, 20_480)),
    "start-up": Corner("one tiny request", [*_synthetic(16, 2, 1, 0), *_engine(block_size=64)]),
    "conversation-1w": Corner(
        "12,031 conversations, one worker", ["{conversation_trace}", *_MOONCAKE, *_engine(block_size=64)]
    ),
    "conversation-4w-kv": Corner(
        "12,031 conversations, four workers behind the KV-aware router",
        ["{conversation_trace}", *_MOONCAKE, "--num-workers", "4", *_ROUTED, *_engine(block_size=64)],
    ),
    "conversation-64w-kv": Corner(
        "12,031 conversations, 64 workers behind the router, 16 times the rate",
        [
            *["{conversation_trace}", *_MOONCAKE, "--num-workers", "64", *_ROUTED, "--arrival-speedup-ratio", "16"],
            *_engine(block_size=64),
        ],
    ),
    "10-million-requests": Corner(
        "10 million requests, 64 workers, no rows",
        [*_synthetic(2000, 200, 10_000_000, 0.6), "--num-workers", "64", *_engine(block_size=64)],
        comparable=False,
    ),
    "sweep-200-runs": Corner("200 runs of 400 conversations in one process", [SWEEP, "{conversation_400}", "200"]),
}
"""By name, in the order of the table. The arguments of a sweep are a program and its own arguments."""
