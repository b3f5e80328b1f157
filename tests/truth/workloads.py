"""Seeded random workloads for truth.py, most of them hard: shared prompts, bursts, and pools that hold few requests."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

Case = dict[str, Any]


def vllm_case(rng: random.Random, number: int, asynchronous: bool, release: str) -> Case:
    """A workload of one vLLM engine with a single KV cache group."""
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
    vllm |= _newer(rng, seqs, vllm) if release != "vllm-0.28" else {}
    return {"id": f"random-{number}", "rows": rows, "trace_block_size": per_hash, "engine": engine, "vllm": vllm}


def hybrid_case(rng: random.Random, number: int, asynchronous: bool, release: str) -> Case:
    """A workload of one vLLM engine whose KV cache has several groups."""
    linear = rng.random() < 0.35
    block = rng.choice([4, 8, 16, 16, 32, 64])
    per_hash = block * rng.choice([1, 1, 2, 4])
    rows = _rows(rng, rng.choice([3, 8, 16, 30, 60]), per_hash)
    beside = 3 if linear else rng.choice([1, 1, 3, 6])
    window = rng.choice([2, block, block + 1, 2 * block, 5 * block, 8 * block + 1, rng.randint(2, 10 * block)])
    other = {"type": "linear"} if linear else {"type": "sliding_window", "window": window}
    seqs = rng.choice([1, 2, 3, 8, 16, 64])
    budget = rng.choice([block, 48, 64, 100, 256, 512, 2048, 8192, rng.randint(1, 600)])
    budget = max(seqs, block if linear else 1, budget)
    asked = [_groups_need(row, block, budget * (1 + asynchronous), beside, None if linear else window) for row in rows]
    pool = int(max(asked) * rng.choice([1, 1.1, 1.5, 2, 4, 8])) + rng.randrange(3)
    engine = {
        "block_size": block,
        "num_gpu_blocks": pool,
        "max_num_seqs": seqs,
        "max_num_batched_tokens": budget,
        "kv_cache_groups": [{"type": "full"}, *([other] * beside)],
        **_speed(rng),
    }
    if release != "vllm-0.28":
        engine["prefix_cache_retention_interval"] = rng.choice([None, 0, 0, 0, block, 2 * block, 8 * block])
    if rng.random() < 0.08:
        engine["enable_prefix_caching"] = False
    vllm: dict[str, Any] = {"async_scheduling": asynchronous}
    if rng.random() < 0.15:
        vllm["scheduler_reserve_full_isl"] = False
    if rng.random() < 0.15:
        vllm["watermark"] = rng.choice([0.01, 0.05, 0.2])
    if rng.random() < 0.15:
        vllm["long_prefill_token_threshold"] = rng.choice([block, 3 * block, 64, rng.randint(1, 20 * block)])
    vllm |= _newer(rng, seqs, vllm) if release != "vllm-0.28" else {}
    return {"id": f"random-{number}", "rows": rows, "trace_block_size": per_hash, "engine": engine, "vllm": vllm}


def handoff_case(rng: random.Random, number: int, asynchronous: bool, release: str) -> Case:
    """A workload of prefill and decode workers. Pools of decode workers are often tight."""
    del release
    block = rng.choice([1, 4, 16, 16, 32, 64])
    per_hash = _tokens_per_hash(rng, block * rng.choice([1, 1, 2, 4]))
    rows = _rows(rng, rng.choice([1, 5, 10, 20, 40, 80]), per_hash)
    longest = max(row["input_length"] + row["output_length"] for row in rows)
    budget = rng.choice([48, 128, 512, 2048, 8192, rng.randint(1, 600)])

    def engine() -> Case:
        seqs = rng.choice([1, 2, 4, 16, 64])
        return {
            "block_size": block,
            "num_gpu_blocks": _pool(rng, longest, block),
            "max_num_seqs": seqs,
            "max_num_batched_tokens": max(seqs, budget),
        }

    return {
        "id": f"random-{number}",
        "rows": rows,
        "trace_block_size": per_hash,
        "prefill_engine": engine(),
        "decode_engine": engine(),
        "num_prefill_workers": rng.randint(1, 3),
        "num_decode_workers": rng.randint(1, 3),
        "kv_transfer_ms_per_block": rng.choice([0.0, 0.05, 0.5, 3.0, 20.0]),
        "kv_transfer_lanes": rng.choice(["pair", "unlimited"]),
        "vllm": {"async_scheduling": asynchronous},
    }


def handoff_ranks_case(rng: random.Random, number: int, asynchronous: bool, release: str) -> Case:
    """Prefill and decode workers of which at least one kind has data-parallel ranks."""
    case = handoff_case(rng, number, asynchronous, release)
    case["num_prefill_workers"], case["num_decode_workers"] = rng.randint(1, 2), rng.randint(1, 2)
    sizes = rng.choice([(1, 2), (2, 1), (2, 2), (2, 4), (4, 2), (3, 3), (8, 4)])
    for side, ranks in zip(("prefill_engine", "decode_engine"), sizes, strict=True):
        case[side] |= {"dp_size": ranks, "dp_routing": rng.choice(["vllm", "vllm", "round_robin"])}
    return case


def ranks_case(rng: random.Random, number: int, asynchronous: bool, release: str) -> Case:
    """A workload of vLLM's schedulers as data-parallel ranks that run their passes together."""
    del release
    block = rng.choice([1, 4, 16, 16, 32, 64])
    per_hash = _tokens_per_hash(rng, block * rng.choice([1, 1, 2, 4]))
    rows = _rows(rng, rng.choice([1, 5, 20, 40, 80, 150]), per_hash)
    longest = max(row["input_length"] + row["output_length"] for row in rows)
    seqs = rng.choice([1, 2, 4, 8, 32, 64])
    engine = {
        "block_size": block,
        "num_gpu_blocks": _pool(rng, longest, block),
        "max_num_seqs": seqs,
        "max_num_batched_tokens": max(seqs, rng.choice([48, 128, 512, 2048, 8192, rng.randint(1, 600)])),
        "dp_size": rng.choice([2, 2, 3, 4, 6, 8]),
        "dp_routing": rng.choice(["vllm", "vllm", "round_robin"]),
        **_speed(rng),
    }
    if rng.random() < 0.4:
        engine["prefill_schedule_interval"] = rng.choice([2, 3, 4, 8])
    if rng.random() < 0.1:
        engine["enable_prefix_caching"] = False
    vllm = {"async_scheduling": asynchronous}
    return {"id": f"random-{number}", "rows": rows, "trace_block_size": per_hash, "engine": engine, "vllm": vllm}


def _with_host(
    draw: Callable[[], Case], rng: random.Random, release: str, most_rows: int, without: Sequence[str]
) -> Case:
    """A workload that ``draw`` draws, with a tier of host memory; without one before release 0.33.

    It has no small blocks and at most ``most_rows`` rows, as vLLM takes minutes otherwise, and none of the engine
    arguments in ``without``.
    """
    case = draw()
    if release == "vllm-0.28":
        return case
    while case["engine"]["block_size"] < 8 or len(case["rows"]) > most_rows:
        case = draw()
    engine = case["engine"]
    for name in without:
        engine.pop(name, None)
    case["vllm"] = {"async_scheduling": False}
    engine["host_cache"] = _host_cache(rng, engine)
    return case


def vllm_host_case(rng: random.Random, number: int, asynchronous: bool, release: str) -> Case:
    """A workload of one vLLM engine with a tier of host memory."""
    without = ("enable_prefix_caching", "enable_chunked_prefill")
    return _with_host(lambda: vllm_case(rng, number, asynchronous, "vllm-0.28"), rng, release, 50, without)


def hybrid_host_case(rng: random.Random, number: int, asynchronous: bool, release: str) -> Case:
    """Several KV groups and a tier of host memory. vLLM wants retention to be by whole chunks."""
    without = ("enable_prefix_caching",)
    case = _with_host(lambda: hybrid_case(rng, number, asynchronous, release), rng, release, 50, without)
    engine = case["engine"]
    if "host_cache" in engine:
        host, chunk = engine["host_cache"], rng.choice([1, 2, 2, 3, 4])
        host |= {"blocks_per_chunk": chunk, "num_blocks": max(chunk, host["num_blocks"])}
        if engine["prefix_cache_retention_interval"]:
            engine["prefix_cache_retention_interval"] = engine["block_size"] * chunk * rng.choice([1, 2, 4])
    return case


def ranks_host_case(rng: random.Random, number: int, asynchronous: bool, release: str) -> Case:
    """Data-parallel ranks of which each has a tier of host memory."""
    without = ("enable_prefix_caching", "prefill_schedule_interval")
    return _with_host(lambda: ranks_case(rng, number, asynchronous, release), rng, release, 80, without)


def _host_cache(rng: random.Random, engine: Case) -> Case:
    """Host memory, a quarter to four times as large as the pool, whose copies are quick or slow, or take no time."""
    chunk = rng.choice([1, 1, 2, 3])
    return {
        "num_blocks": max(chunk, int(engine["num_gpu_blocks"] * rng.choice([0.25, 0.5, 1, 2, 4]))),
        "eviction_policy": rng.choice(["lru", "arc"]),
        "blocks_per_chunk": chunk,
        "store_threshold": rng.choice([0, 0, 2, 3]),
        "offload_prompt_only": rng.random() < 0.7,
        "load_ms_per_block": rng.choice([0, 0.01, 0.3, 3]),
        "store_ms_per_block": rng.choice([0, 0.01, 0.3, 3]),
        "latency_ms": rng.choice([0, 0, 0.1, 5]),
    }


def _newer(rng: random.Random, seqs: int, vllm: Case) -> Case:
    """Settings that vLLM has from 0.33 on."""
    more: Case = {}
    if vllm.get("long_prefill_token_threshold") and rng.random() < 0.5:
        more["long_prefill_token_threshold_adaptive"] = True
    if rng.random() < 0.2:
        more["prefill_schedule_interval"] = rng.choice([2, 3, 5, 8])
    if rng.random() < 0.2:
        more["max_num_active_seqs"] = rng.randint(1, seqs)
    return more


def _groups_need(row: Case, block: int, budget: int, beside: int, window: int | None) -> int:
    """Blocks that a request needs in all groups, alone; without a window the groups beside the full one are linear."""
    whole = -(-(row["input_length"] + row["output_length"]) // block)
    if window is None:
        return whole + 3 * beside
    return whole + beside * min(whole, -(-(window - 1 + budget) // block) + 1)


def sglang_case(rng: random.Random, number: int, overlapped: bool) -> Case:
    """A workload of one SGLang engine. It fits the pool, as SGLang refuses or shortens what does not."""
    block = rng.choice([1, 1, 1, 2, 3, 4, 8, 16, 16, 32, 64, 128])
    per_hash = block * rng.choice([1, 2, 4, 8]) if block > 4 else block * rng.choice([1, 4, 8, 16])
    rows = _rows(rng, rng.choice([1, 5, 10, 20, 40, 80, 160]), per_hash)
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
        "num_gpu_blocks": _pool(rng, _needed(rows, block), block),
        "max_num_seqs": rng.choice([1, 2, 3, 4, 8, 16, 64, 256]),
        "sglang": nested,
        **_speed(rng, 0),
    }
    sglang = {"overlap": overlapped, "ignore_eos": rng.random() < 0.15}
    return {"id": f"random-{number}", "rows": rows, "trace_block_size": per_hash, "engine": engine, "sglang": sglang}


def sglang_ranks_case(rng: random.Random, number: int, overlapped: bool) -> Case:
    """SGLang with data-parallel attention: two to eight ranks that start their batches together."""
    case = rng.choice([sglang_case, sglang_case, sglang_small_case, sglang_mixed_case])(rng, number, overlapped)
    engine, nested = case["engine"], case["engine"]["sglang"]
    ranks = engine["dp_size"] = rng.choice([2, 2, 3, 4, 8])
    nested.pop("scheduler_recv_interval", None)
    if chunk := nested.get("chunked_prefill_size"):  # of all ranks; some of it is left over
        nested["chunked_prefill_size"] = chunk * ranks + engine["block_size"] * rng.choice([0, 0, 1, 5])
    return case


def sglang_ranks_host_case(rng: random.Random, number: int, overlapped: bool) -> Case:
    """SGLang's ranks of which each has a tier of host memory. Pools are tight, so that prompts come back from there."""
    case = sglang_ranks_case(rng, number, overlapped)
    while case["engine"]["block_size"] < 4 or case["engine"]["dp_size"] > 4:
        case = sglang_ranks_case(rng, number, overlapped)
    engine = case["engine"]
    block, per_hash = engine["block_size"], case["trace_block_size"]
    rows = case["rows"] = _rows(rng, rng.choice([20, 40, 80]), per_hash, longest=rng.choice([4, 8, 20]))
    for at in range(5, len(rows)):
        if rng.random() < 0.6:
            again = rng.choice(rows[:at])
            rows[at] |= {name: again[name] for name in ("input_length", "hash_ids")}
    engine["num_gpu_blocks"] = int(-(-_needed(case["rows"], block) // block) * rng.choice([1, 1.1, 1.5, 2]))
    case["hicache"] = _hicache(rng, engine)
    return case


def sglang_handoff_case(rng: random.Random, number: int, overlapped: bool) -> Case:
    """SGLang's prefill and decode workers. Pools of decode workers are often tight."""
    case = sglang_case(rng, number, overlapped)
    prefill, nested = case.pop("engine"), case["sglang"]
    prefill["sglang"].pop("scheduler_recv_interval", None)
    block, rows = prefill["block_size"], case["rows"]
    decode = {
        name: prefill[name] for name in ("engine_type", "block_size", "sglang", "speedup_ratio") if name in prefill
    }
    reserved = rng.choice([0, 1, block, 20, 100, 512])
    least = _needed(rows, block) + reserved + block
    decode |= {"num_gpu_blocks": _pool(rng, least, block), "max_num_seqs": rng.choice([1, 2, 4, 16, 33, 64])}
    return case | {
        "prefill_engine": prefill,
        "decode_engine": decode,
        "num_prefill_workers": rng.randint(1, 3),
        "num_decode_workers": rng.randint(1, 3),
        "kv_transfer_ms_per_block": rng.choice([0.0, 0.05, 0.5, 3.0, 20.0]),
        "kv_transfer_lanes": rng.choice(["pair", "unlimited"]),
        "reserved_decode_tokens": reserved,
        "sglang": nested,
    }


def sglang_small_case(rng: random.Random, number: int, overlapped: bool) -> Case:
    """SGLang with pages as large as its chunk, and a pool that holds two or three requests."""
    case = sglang_case(rng, number, overlapped)
    engine = case["engine"]
    block = engine["block_size"] = case["trace_block_size"] = rng.choice([4, 8, 16, 16, 16, 32])
    case["rows"] = _rows(rng, rng.choice([5, 10, 20, 40]), block, longest=rng.choice([2, 4, 8]))
    engine["num_gpu_blocks"] = -(-_needed(case["rows"], block) // block) + rng.randrange(20)
    engine["sglang"]["chunked_prefill_size"] = block
    return case


def sglang_mixed_case(rng: random.Random, number: int, overlapped: bool) -> Case:
    """SGLang with batches that mix prompts with decoding requests. Its chunk is larger than any number of these."""
    case = sglang_case(rng, number, overlapped)
    case["sglang"]["mixed_chunk"] = True
    engine = case["engine"]
    engine["max_num_seqs"] = min(engine["max_num_seqs"], 64)
    if chunk := engine["sglang"].get("chunked_prefill_size"):
        block = engine["block_size"]
        engine["sglang"]["chunked_prefill_size"] = max(chunk, (engine["max_num_seqs"] // block + 1) * block)
    return case


def sglang_host_case(rng: random.Random, number: int, overlapped: bool) -> Case:
    """SGLang with a tier of host memory, half to four times as large as the pool, whose copies are quick or slow."""
    case = sglang_case(rng, number, overlapped)
    case["hicache"] = _hicache(rng, case["engine"])
    return case


def _hicache(rng: random.Random, engine: Case) -> Case:
    return {
        "num_blocks": max(1, int(engine["num_gpu_blocks"] * rng.choice([0.1, 0.5, 1, 2, 4]))),
        "write_policy": rng.choice(["write_through", "write_through_selective", "write_back"]),
        "load_back_threshold": rng.choice([0, 1, 10, 10, 40, 200]),
        "load_ms_per_block": rng.choice([0, 0.01, 0.5, 5]) * engine["block_size"] / 16,
        "store_ms_per_block": rng.choice([0, 0.01, 0.5, 5]) * engine["block_size"] / 16,
        "latency_ms": rng.choice([0, 0, 0.1, 3]),
    }


def sglang_window_case(rng: random.Random, number: int, overlapped: bool) -> Case:
    """SGLang with layers that have a sliding window, and a pool of their own that holds few windows or many."""
    case = sglang_case(rng, number, overlapped)
    engine = case["engine"]
    block = engine["block_size"]
    window = rng.choice([2, 16, 32, 64, 128, block + 1, block + 1, 2 * block, 5 * block, rng.randint(2, 10 * block)])
    chunk = engine["sglang"].get("chunked_prefill_size")
    longest = max(row["input_length"] for row in case["rows"])
    if chunk is None:
        chunk = engine["sglang"]["chunked_prefill_size"] = block * rng.choice([1, 2, 4, 16, 64])
    # A request gives its window slots back late in a decode, and when its chunk has entered the tree.
    least = min(longest, chunk) + 2 * window + 128 + 4 * block
    case["sglang"]["swa"] = {
        "num_blocks": int(-(-least // block) * rng.choice([1, 1.2, 2, 4])) + rng.randrange(3),
        "window": window,
    }
    return case


SGLANG_KINDS = {
    "plain": sglang_case,
    "small": sglang_small_case,
    "mixed": sglang_mixed_case,
    "host": sglang_host_case,
    "window": sglang_window_case,
}
VLLM_KINDS = {"plain": vllm_case, "groups": hybrid_case, "host": vllm_host_case, "hybrid-host": hybrid_host_case}
HANDOFF_KINDS = {"handoff": handoff_case, "ranks": handoff_ranks_case}
RANKS_KINDS = {"ranks": ranks_case, "host": ranks_host_case}
SGLANG_RANKS_KINDS = {"ranks": sglang_ranks_case, "host": sglang_ranks_host_case}
SGLANG_HANDOFF_KINDS = {"handoff": sglang_handoff_case}


def _needed(rows: list[dict[str, Any]], block: int) -> int:
    """Tokens of a pool in which SGLang takes each row whole."""
    return 8 + max(-(-row["input_length"] // block) * block + row["output_length"] + block for row in rows)


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


def _speed(rng: random.Random, *more: float) -> Case:
    """Ratios, and more of them that the rules of the engine take."""
    ratios: Case = {}
    if rng.random() < 0.5:
        ratios["speedup_ratio"] = rng.choice([*more, 0.5, 2, 5, 20, 1000])
    if rng.random() < 0.1:
        ratios["decode_speedup_ratio"] = rng.choice([*more, 0.5, 3])
    return ratios


def _rows(rng: random.Random, count: int, per_hash: int, longest: int | None = None) -> list[dict[str, Any]]:
    families = [[1000 * family + i for i in range(1, 40)] for family in range(rng.choice([1, 3, 10]))]
    gap = rng.choice([0, 5, 50, 300, 2000])
    longest = longest or rng.choice([1, 3, 8, 30])
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
