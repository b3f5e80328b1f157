"""What cannot keep up in the long run, proven without a run of the traffic.

A bound on first tokens or whole latencies has a last moment: when the limit has passed since the last arrival, all
requests but those that the percentile lets off have had their first tokens. By then their prompts are computed, each
distinct part of them at least once, and from its first token on a request holds its KV for as long as its tokens take.
What prefill can compute and pools can hold in that time is known from small runs of one worker.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from dynamo.replay import latencies
from dynamo.sweep.advice import bounds
from dynamo.sweep.sla import Bound

_LATE = re.compile(r"(p99|p95|p90|p75|p50|median|max)_(ttft_ms|e2e_latency_ms)")
PROMPTS = (256, 2048)
"""Lengths of the prompts that fill a worker's passes; the faster of both counts."""
_PASSES = 16
Row = Mapping[str, Any]


class Work(NamedTuple):
    """What the traffic needs of any deployment of an engine, at the least."""

    first_ms: float
    last_ms: float
    """When the first and the last request arrive."""
    fresh: Sequence[int]
    """Prompt tokens of each request that no request before it has, by the engine's own prefix cache without limits."""
    prompts: Sequence[int]
    outputs: Sequence[int]


class Worker(NamedTuple):
    """What one worker can do, at the most."""

    ms_per_token: float | None
    """Of prompts; None if it is not known."""
    pool_tokens: float | None
    least_gap_ms: float


def work_of(rows: Sequence[Row], computed_alone: Sequence[Row]) -> Work:
    """The work of a trace, from its requests as they arrive and from a run of one request after the other.

    In the latter a cache without limits has seen all requests before, so what it computes is new.
    """
    fresh = {row["trace_row"]: row["input_length"] - max(row["reused_input_tokens"], 0) for row in computed_alone}
    times = [row["arrival_time_ms"] for row in rows]
    return Work(
        min(times),
        max(times),
        [fresh[row["trace_row"]] for row in rows],
        [row["input_length"] for row in rows],
        [row["output_length"] for row in rows],
    )


def too_much(limits: Sequence[Bound], work: Work, worker: Worker, pools: Sequence[int]) -> tuple[str, str] | None:
    """How and why a deployment misses a bound in the long run: by its prefill or by its KV pools; None if that is open.

    With two pools prompts are computed by the first, and tokens are held by the last.
    """
    for bound in limits:
        match = _LATE.fullmatch(latencies.recorded(bound.figure))
        if match is None or not bound.at_most:
            continue
        spared = int(bounds.allowed(match[1], len(work.prompts)))
        if why := _prefill(bound, work, worker, pools[0], spared):
            return "prefill", why
        if why := _pool(bound, work, worker, pools[-1], spared):
            return "kv", why
    return None


def _prefill(bound: Bound, work: Work, worker: Worker, workers: int, spared: int) -> str:
    """Why the prompts cannot be computed in time, "" if they may."""
    if not worker.ms_per_token:
        return ""
    tokens = sum(work.fresh) - sum(sorted(work.prompts, reverse=True)[:spared])
    time_ms = work.last_ms - work.first_ms + bound.limit
    most = workers * time_ms / worker.ms_per_token
    if tokens <= most:
        return ""
    needs, has = (1000 * amount / time_ms for amount in (tokens, most))
    return f"{bound}: {needs:,.0f} prompt tokens/s have to be computed, and its prefill computes {has:,.0f} at most"


def _pool(bound: Bound, work: Work, worker: Worker, workers: int, spared: int) -> str:
    """Why the KV of the requests does not fit, "" if it may."""
    if not worker.pool_tokens or worker.least_gap_ms <= 0:
        return ""
    decoding = [max(output - 1, 0) * worker.least_gap_ms for output in work.outputs]
    held = [tokens * ms for tokens, ms in zip(work.fresh, decoding, strict=True)]
    needs = sum(held) - sum(sorted(held, reverse=True)[:spared])
    time_ms = work.last_ms - work.first_ms + bound.limit + max(decoding)
    has = workers * worker.pool_tokens
    if needs <= has * time_ms:
        return ""
    held_at_a_time = f"requests hold {needs / time_ms:,.0f} tokens of KV at a time"
    return f"{bound}: {held_at_a_time}, and its pools have {has:,.0f} at most"


def burst(prompt: int, sequences: int, tokens: int, ranks: int) -> dict[str, int] | None:
    """Prompts of a length that fill passes of a worker, as keys of a run; None if passes are not made of such ones."""
    if prompt > tokens or tokens // prompt > sequences or tokens % prompt:
        return None
    return {"input_tokens": prompt, "output_tokens": 1, "request_count": _PASSES * ranks * (tokens // prompt)}


def fastest(figures: Sequence[Mapping[str, float]], slack: float) -> float | None:
    """The least time for a prompt token in some runs of bursts, less a margin; None without any.

    The first pass does not count: it begins with what takes time before requests are scheduled.
    """
    after = (_PASSES - 1) / _PASSES
    found = [
        (each["max_ttft_ms"] - each["min_ttft_ms"]) / (after * each["total_input_tokens"])
        for each in figures
        if each.get("total_input_tokens")
    ]
    return min(found) * (1 - slack) if found else None
