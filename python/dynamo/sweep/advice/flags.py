"""The flags of the engines that make a worker of a deployment."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from dynamo.sweep.exports.engine import drafts, host, pool
from dynamo.sweep.exports.table import ENGINE, MODES

_VLLM = {
    "aic_tp_size": "--tensor-parallel-size",
    "dp_size": "--data-parallel-size",
    "max_num_seqs": "--max-num-seqs",
    "max_num_batched_tokens": "--max-num-batched-tokens",
    "block_size": "--block-size",
}
_SGLANG = {
    "aic_tp_size": "--tp-size",
    "aic_attention_dp_size": "--dp-size",
    "aic_moe_ep_size": "--ep-size",
    "max_num_seqs": "--max-running-requests",
    "sglang.chunked_prefill_size": "--chunked-prefill-size",
    "block_size": "--page-size",
}
# Arguments that all deployments may share.
_OF_ALL = ("block_size", "num_gpu_blocks", "aic_kv_cache_dtype")


def router(mode: str, migration_limit: int = 0) -> str:
    """The command that starts the router of several workers."""
    command = f"python3 -m dynamo.frontend --router-mode {MODES[mode].dynamo}"
    return f"{command} --migration-limit {migration_limit}" if migration_limit else command


def command(
    engine: Mapping[str, Any],
    model: str | None,
    shared: Mapping[str, Any] | None = None,
    *,
    behind_dynamo: bool = False,
) -> str:
    """The command that starts one worker, by the keys ``engine.FIELD`` of a candidate and what all have in common.

    Args:
        behind_dynamo: Dynamo's frontend routes to the worker. It finds Dynamo's workers, not the engine's own server.
    """
    of_all = {name: value for name, value in (shared or {}).items() if name in _OF_ALL}
    given = {**of_all, **{name.removeprefix("engine."): value for name, value in engine.items()}}
    program = given["engine_type"]
    further = [*_kv_type(given, program), *host("engine", given, program), *drafts(given, program)]
    if "num_gpu_blocks" in given:
        further = [*pool("engine.num_gpu_blocks", {"block_size": 1, **given}, program), *further]
    name = model or "MODEL"
    if program == "sglang":
        module = "dynamo.sglang" if behind_dynamo else "sglang.launch_server"
        words, flags = ["python3", "-m", module, "--model-path", name], _SGLANG
        if given.get("aic_attention_dp_size", 1) > 1:
            # There, tp counts all GPUs of the engine, and ranks of attention are made of them.
            given["aic_tp_size"] = given["aic_attention_dp_size"]
            words.append("--enable-dp-attention")
    else:
        words = ["python3", "-m", "dynamo.vllm", "--model", name] if behind_dynamo else ["vllm", "serve", name]
        flags = _VLLM
        if given.get("aic_moe_ep_size", 1) > 1:
            words.append("--enable-expert-parallel")
    for field, flag in flags.items():
        if field in given and (given[field] != 1 or field == "aic_tp_size"):
            words += [flag, str(given[field])]
    return shlex.join([*words, *further])


def _kv_type(given: Mapping[str, Any], program: str) -> list[str]:
    """The flag for the data type of the KV cache, if it is another one than the engine takes by itself."""
    flag = ENGINE["aic_kv_cache_dtype"].flag(program)
    assert flag is not None
    try:
        words = flag.write(given.get("aic_kv_cache_dtype", "bfloat16"))
    except ValueError:  # a type that only the SDK knows
        return []
    return [] if "auto" in words else words
