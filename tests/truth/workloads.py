"""Seeded random workloads for truth.py, most of them hard: shared prompts, bursts, and pools that hold few requests."""

from __future__ import annotations

import random
from typing import Any

Case = dict[str, Any]


def vllm_case(rng: random.Random, number: int, asynchronous: bool) -> Case:
    """A workload of one vLLM engine."""
    block = rng.choice([1, 2, 4, 8, 16, 16, 32, 64, 128])
    per_hash = _tokens_per_hash(rng, block * rng.choice([1, 1, 1, 2, 4, 8]))
    rows = _rows(rng, rng.choice([1, 5, 10, 20, 40, 80, 150]), per_hash)
    longest = max(row["input_length"] + row["output_length"] for row in rows)
    seqs = rng.choice([1, 2, 3, 4, 8, 16, 64, 256])
    budget = rng.choice([1, block, 5 * block, 48, 100, 256, 512, 2048, 8192, rng.randint(1, 600)])
    engine = {
        "block_size": block,
        "num_gpu_blocks": _pool(rng, longest, block),
        "max_num_seqs": seqs,
        "max_num_batched_tokens": max(seqs, budget),
        **_speed(rng),
    }
    if rng.random() < 0.15:
        engine["enable_prefix_caching"] = False
    if rng.random() < 0.15:
        engine["enable_chunked_prefill"] = False
        engine["max_num_batched_tokens"] = max(engine["max_num_batched_tokens"], longest)
    vllm: dict[str, Any] = {"async_scheduling": asynchronous}
    if rng.random() < 0.2:
        vllm["scheduler_reserve_full_isl"] = False
    if rng.random() < 0.2:
        vllm["watermark"] = rng.choice([0.01, 0.05, 0.2, 0.4, 0.9])
    if rng.random() < 0.2:
        vllm["long_prefill_token_threshold"] = rng.choice([1, block, 3 * block, 64, rng.randint(1, longest)])
    return {"id": f"random-{number}", "rows": rows, "trace_block_size": per_hash, "engine": engine, "vllm": vllm}


def sglang_case(rng: random.Random, number: int, overlapped: bool) -> Case:
    """A workload of one SGLang engine. It fits the pool, as SGLang refuses or shortens what does not."""
    block = rng.choice([1, 1, 1, 2, 3, 4, 8, 16, 16, 32, 64, 128])
    per_hash = block * rng.choice([1, 2, 4, 8]) if block > 4 else block * rng.choice([1, 4, 8, 16])
    rows = _rows(rng, rng.choice([1, 5, 10, 20, 40, 80, 160]), per_hash)
    needed = max(-(-row["input_length"] // block) * block + row["output_length"] + block for row in rows)
    nested: dict[str, Any] = {
        "schedule_conservativeness": rng.choice([0, 0.02, 0.1, 0.3, 0.6, 1, 1, 1.5, 3]),
        "schedule_policy": rng.choice(["fcfs", "fcfs", "fifo", "lpm", "lpm"]),
    }
    if rng.random() < 0.5:
        nested["chunked_prefill_size"] = block * rng.choice([1, 2, 5, 20, rng.randint(1, 60)])
    if rng.random() < 0.3:
        nested["max_prefill_tokens"] = rng.choice([1, 40, 64, 600, rng.randint(1, 2000)])
    if rng.random() < 0.15:
        nested["clip_max_new_tokens"] = rng.choice([1, 5, 30])
    if rng.random() < 0.25:
        nested["scheduler_recv_interval"] = rng.choice([2, 3, 5, 10, 30])
    engine = {
        "engine_type": "sglang",
        "block_size": block,
        "num_gpu_blocks": _pool(rng, needed + 8, block),
        "max_num_seqs": rng.choice([1, 2, 3, 4, 8, 16, 64, 256]),
        "sglang": nested,
        **_speed(rng),
    }
    sglang = {"overlap": overlapped, "ignore_eos": rng.random() < 0.15}
    return {"id": f"random-{number}", "rows": rows, "trace_block_size": per_hash, "engine": engine, "sglang": sglang}


def _tokens_per_hash(rng: random.Random, usual: int) -> int:
    """Mostly whole blocks; other traces are cut into blocks anew."""
    return (
        usual
        if rng.random() < 0.8
        else rng.choice([max(1, usual // 2), usual + max(1, usual // 2), rng.randint(1, 2 * usual)])
    )


def _pool(rng: random.Random, tokens: int, block: int) -> int:
    """Blocks for so many tokens at least."""
    return int(-(-tokens // block) * rng.choice([1, 1.1, 1.5, 2, 4, 8, 30])) + rng.randrange(3)


def _speed(rng: random.Random) -> Case:
    ratios: Case = {}
    if rng.random() < 0.5:
        ratios["speedup_ratio"] = rng.choice([0, 0.5, 2, 5, 20, 1000])
    if rng.random() < 0.1:
        ratios["decode_speedup_ratio"] = rng.choice([0, 0.5, 3])
    return ratios


def _rows(rng: random.Random, count: int, per_hash: int) -> list[dict[str, Any]]:
    families = [[1000 * family + i for i in range(1, 40)] for family in range(rng.choice([1, 3, 10]))]
    gap = rng.choice([0, 5, 50, 300, 2000])
    longest = rng.choice([1, 3, 8, 30])
    most_output = rng.choice([1, 4, 20, 120, 120 if count > 40 else 600])
    fresh, now, rows = 10**6, 0.0, []
    for _ in range(count):
        hashes = rng.randint(1, longest)
        shared = rng.randint(0, hashes) if rng.random() < 0.8 else 0
        rest = range(fresh, fresh + hashes - shared)
        if rng.random() < 0.2:  # prompts that part at the same place go on alike
            rest = range(10**5 + 100 * shared, 10**5 + 100 * shared + hashes - shared)
        ids = [*rng.choice(families)[:shared], *rest]
        fresh += hashes
        length = hashes * per_hash
        if rng.random() < 0.6:
            length -= rng.randrange(per_hash)
        rows.append(
            {
                "timestamp": round(now, 3),
                "input_length": length,
                "output_length": rng.randint(1, most_output),
                "hash_ids": ids,
            }
        )
        if rng.random() < 0.7:
            now += rng.expovariate(1 / gap) if gap else 0
    return rows
