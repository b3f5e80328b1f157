"""Rules for measurements of prefill and decode workers: what ran in each pool, as far as the silicon table says it.

No script of these runs is known that says more. What the table leaves open is filled as the replay's stand-ins say.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dynamo.validate.checkpoints import is_dense
from dynamo.validate.measurement import Measurement, Parallelism, Refusal
from dynamo.validate.stand_ins import DEEPSEEK, DEEPSEEK_WORDS

WORDS = "limits of the workers and the link between them: defaults of the engine, and of hand-offs"
# What both engines compute in a pass by default on such GPUs, for each rank.
_BATCHED_TOKENS = {"vllm": 8192, "sglang": 16384}
_RUNNING = 1024


def refuse_what_is_not_replayed(row: Measurement) -> None:
    """Raises Refusal for rows that do not say enough."""
    row.refuse_unknown_workers()
    if row.concurrency is None:
        raise Refusal("concurrency unknown")


def workers(row: Measurement, pool: str) -> int:
    """Returns the number of workers of a pool."""
    return _size(row, f"{pool}_num_workers")


def parallelism(row: Measurement, pool: str) -> Parallelism:
    """Returns how a worker of a pool was spread over GPUs: tp x attention dp = moe tp x moe ep.

    Tables of older runs have the expert parallelism in the column of the experts' tensor parallelism, which attention
    data parallelism with as many ranks tells: experts are not cut into 32.
    """
    tp, dp, moe_tp, moe_ep = (
        _size(row, f"{pool}_{name}") for name in ("tp_size", "attention_dp_size", "moe_tp_size", "moe_ep_size")
    )
    if is_dense(row.model):
        return Parallelism(tp=tp)
    if dp > 1 and moe_ep == 1:
        moe_tp, moe_ep = 1, moe_tp
    if tp * dp != moe_tp * moe_ep:
        raise Refusal(f"disaggregated: {pool} workers of {tp} x {dp} GPUs with experts on {moe_tp} x {moe_ep}")
    return Parallelism(tp, dp, moe_tp, moe_ep)


def limits(row: Measurement, ranks: int) -> dict[str, Any]:
    """Returns what a worker computes and runs at a time; one simulated engine holds all its ranks."""
    tokens = ranks * _BATCHED_TOKENS[row.engine]
    if row.engine == "vllm":
        return {
            "async_scheduling": False,
            "enable_prefix_caching": False,
            "max_num_batched_tokens": tokens,
            "max_num_seqs": ranks * _RUNNING,
        }
    return {"max_num_seqs": ranks * _RUNNING, "sglang": {"chunked_prefill_size": tokens, "max_prefill_tokens": tokens}}


def stand_ins(row: Measurement) -> tuple[Mapping[str, Any], tuple[str, ...]]:
    """Returns engine arguments in place of what the SDK lacks, and in words all that stands in for something."""
    if row.engine == "sglang" and "DeepSeek" in row.model:
        return {**DEEPSEEK, "aic_kv_cache_dtype": "bfloat16"}, (WORDS, f"{DEEPSEEK_WORDS}, with a KV cache in bf16")
    return {}, (WORDS,)


def _size(row: Measurement, name: str) -> int:
    """Returns a number of the table, which leaves out some that are 1. Raises Refusal for what is none."""
    text = row.facts.get(name, "") or "1"
    if not text.isdecimal() or len(text) > 6 or int(text) < 1:
        raise Refusal(f"disaggregated: {name} is {text!r}")
    return int(text)
