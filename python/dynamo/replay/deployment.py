"""Which deployment a run is of: how many workers on how many GPUs, their limits, and the router before them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_LIMITS = ("max_num_seqs", "max_num_batched_tokens", "num_gpu_blocks", "block_size")
_SGLANG_LIMITS = ("chunked_prefill_size", "max_prefill_tokens")
_COUNTS = {"worker": "num_workers", "prefill": "num_prefill_workers", "decode": "num_decode_workers"}
_PLANNERS = ("autoscaler", "planner", "planner_config")


def of(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the deployment of a run from its arguments after defaults, those of ``provenance``.

    ``pools`` has a member for each pool: ``role``, ``workers``, ``tp``, ``gpus`` of one worker, ``engine``,
    ``scheduler`` and limits. ``gpus`` are those of all workers, and ``router`` is None before a single worker.
    ``planned`` says that the number of workers changes during the run.
    """
    if "decode_engine_args" in arguments:
        given = {role: arguments[f"{role}_engine_args"] for role in ("prefill", "decode")}
    else:
        given = {"worker": arguments.get("extra_engine_args", {})}
    pools = [_pool(role, int(arguments.get(_COUNTS[role], 1)), engine) for role, engine in given.items()]
    planned = any(arguments.get(name) is not None for name in _PLANNERS)
    alone = len(pools) == 1 and pools[0]["workers"] == 1 and not planned
    return {
        "pools": pools,
        "gpus": sum(pool["workers"] * pool["gpus"] for pool in pools),
        "router": arguments.get("router") or (None if alone else arguments.get("router_mode")),
        "planned": planned,
    }


def _pool(role: str, workers: int, engine: Mapping[str, Any]) -> dict[str, Any]:
    tp = int(engine.get("aic_tp_size", 1))
    limits = {name: engine.get(name) for name in _LIMITS}
    limits |= {name: found for name in _SGLANG_LIMITS if (found := engine.get("sglang", {}).get(name)) is not None}
    return {
        "role": role,
        "workers": workers,
        "tp": tp,
        "gpus": tp * int(engine.get("aic_attention_dp_size", 1)),
        "engine": engine.get("engine_type"),
        "scheduler": engine.get("scheduler", "dynamo"),
        **limits,
    }


def size(found: Mapping[str, Any]) -> str:
    """Returns how many workers of which size, in a few characters: ``4 x TP 1`` or ``2 prefill + 3 decode x TP 1``."""
    pools = found["pools"]
    if len({pool["tp"] for pool in pools}) > 1:
        return " + ".join(f"{_count(pool)} x TP {pool['tp']}" for pool in pools)
    return f"{' + '.join(_count(pool) for pool in pools)} x TP {pools[0]['tp']}"


def _count(pool: Mapping[str, Any]) -> str:
    return str(pool["workers"]) if pool["role"] == "worker" else f"{pool['workers']} {pool['role']}"


def facts(found: Mapping[str, Any], *, rules: bool = True) -> dict[str, str]:
    """Returns the parts of a deployment by their names, for lists and sentences; equal pools are named once.

    With ``rules``, an engine is said to be simulated by those of its own scheduler.
    """
    gpus = f"{found['gpus']} GPU{'s' if found['gpus'] != 1 else ''}"
    parts = {"workers": f"{size(found)} = {gpus}{', at first' if found['planned'] else ''}"}
    each = {pool["role"]: _limits(pool, rules) for pool in found["pools"]}
    if len({tuple(sorted(limits.items())) for limits in each.values()}) == 1:
        parts |= next(iter(each.values()))
    else:
        parts |= {f"{role} {name}": text for role, limits in each.items() for name, text in limits.items()}
    if found["router"] is not None:
        parts["router"] = str(found["router"])
    return parts


def _limits(pool: Mapping[str, Any], rules: bool) -> dict[str, str]:
    own = "" if pool["scheduler"] == "dynamo" or not rules else f", {pool['scheduler']}'s own scheduler"
    names = ("max_num_seqs", "chunked_prefill_size" if pool["engine"] == "sglang" else "max_num_batched_tokens")
    parts = {"engine": f"{pool['engine']}{own}"}
    parts |= {name: "no limit" if pool.get(name) is None else f"{pool[name]}" for name in names}
    blocks = pool["num_gpu_blocks"]
    parts["KV pool"] = "by the GPU's memory" if blocks is None else f"{blocks} blocks of {pool['block_size']}"
    return parts


def words(found: Mapping[str, Any], *, rules: bool = True) -> str:
    """Returns a deployment in one line."""
    parts = facts(found, rules=rules)
    named = [text if name in ("workers", "engine") else f"{name} {text}" for name, text in parts.items()]
    return ", ".join(named)
