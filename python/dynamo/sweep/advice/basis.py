"""What a recommendation rests on beside durations: rules, KV pool, traffic, each with the error that is known of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dynamo.replay import durations
from dynamo.sweep.advice.candidates import MOCKER

POOL_ERRORS = {"sdk": ("the AIC SDK", 7.9, 20.4, 32), "engine": ("the engine's own division", 0.9, 4.1, 42)}
"""Who estimates a KV pool: how far off in percent, in the median and at the 90th percentile, of how many published
sizes (docs/kv_pools.md)."""
KV_DTYPE = (
    "The data type of the KV cache is what the AIC SDK takes for this checkpoint, mostly FP8 where weights are FP8 or "
    "FP4. Engines keep such KV in BF16 unless --kv-cache-dtype says otherwise, which halves the pool: "
    "aic_kv_cache_dtype says it to both"
)
_REPEATS = "write_through"
"""The write policy with which all KV is in host memory, too, as soon as it is computed; vLLM's offloading does so."""
_KV_TYPES = {
    "bfloat16": "KV is kept in BF16, as engines do without --kv-cache-dtype",
    "fp8": "KV is kept in FP8, by --kv-cache-dtype: what that does to answers is not simulated",
}


def lines(found: Mapping[str, Any]) -> list[str]:
    """What has to be right for the answer to be right, a line for each, from facts of ``checks.basis``."""
    said = [_shapes(found), _rules(found), _pool(found), _traffic(found)]
    said.append(
        "Not simulated: HTTP, tokenizer and client, which make a measured TTFT longer. What happens when a worker is "
        "lost is from documentation and live frontends, not from failures of GPUs"
    )
    hosts = ", no host memory is needed" if found["host"] is not None else ""
    said.append(
        "verify.sh among the exported files measures six runs on the GPUs, and says whether their latencies are as "
        f"predicted. They have the mean lengths of this traffic, not its prompts{hosts}, and no worker is lost"
    )
    return [text for text in said if text]


def _shapes(found: Mapping[str, Any]) -> str:
    """Whether figures are of predictions for every shape of a pass, "" where no SDK is asked for shapes."""
    if found["shapes"] is None:
        return ""
    return (
        "The latencies of this trace are from predictions for every shape of a pass; draws of the traffic, headroom, "
        "losses and longer passes from a grid of shapes, with which figures are mostly within 5 % of these"
    )


def _rules(found: Mapping[str, Any]) -> str:
    engine, _, release = found["scheduler"].partition("-")
    whose = f"{durations.ENGINES.get(engine, engine)} {release}".rstrip()
    text = f"Rules: batches, preemption and prefix caching of {whose}, as in all recorded runs of its scheduler"
    if engine == MOCKER:
        text = (
            "Rules: those of the mocker of Dynamo 1.3.1, as in all recorded runs of it; engines' own schedulers differ"
        )
    if found["router"] == "kv_router":
        text += ". Routing is that of Dynamo 1.3.1, as in all recorded runs of its replay"
    return text


def _pool(found: Mapping[str, Any]) -> str:
    tokens = "of unknown size" if found["pool_tokens"] is None else f"{found['pool_tokens']:,.0f} tokens of each worker"
    if found["pool_estimate"] is None:
        return f"KV pool: {tokens}, as given and no estimate{_host(found['host'])}"
    who, median, worst, sizes = POOL_ERRORS[found["pool_estimate"]]
    text = (
        f"KV pool: {tokens}, estimated by {who}: of {sizes} published sizes it is {median:g} % off in the median, and "
        f"more than {worst:g} % with a tenth of them. The engine's log says the real one"
    )
    kept = KV_DTYPE if found["kv_dtype"] is None else _KV_TYPES.get(found["kv_dtype"])
    return (f"{text}. {kept}" if kept else text) + _host(found["host"])


def host_facts(
    engine: Mapping[str, Any], pool_tokens: float | None, figures: Mapping[str, float]
) -> dict[str, float | None] | None:
    """The ``gb`` of host memory for KV of a worker, and of its GPUs' pool, which that repeats; None without any.

    ``pool_gb`` is None if the pool is not repeated, or if it is not known how many bytes a token has.

    Args:
        engine: Engine arguments after defaults.
        figures: Of a run, which say how many bytes were stored.
    """
    if (size := engine.get("host_cache_gb")) is None:
        return None
    ranks = max(engine.get("dp_size") or 1, engine.get("aic_attention_dp_size") or 1)
    policy = (engine.get("host_cache") or {}).get("write_policy") or _REPEATS
    blocks = figures.get("host_stored_blocks")
    if not blocks or pool_tokens is None or ranks > 1 or policy != _REPEATS:
        return {"gb": size, "pool_gb": None}
    return {"gb": size, "pool_gb": pool_tokens * figures["host_stored_bytes"] / (blocks * engine["block_size"]) / 1e9}


def _host(found: Mapping[str, Any] | None) -> str:
    """How much of the host memory is beyond what the GPUs have themselves."""
    if found is None or found["pool_gb"] is None:
        return ""
    size, pool = found["gb"], found["pool_gb"]
    more = f"{size - pool:.3g} GB are beyond" if size > pool else "nothing is beyond"
    return f". Host memory repeats what is in the pool: of {size:.4g} GB of each worker {more} its {pool:.3g} GB"


def _traffic(found: Mapping[str, Any]) -> str:
    reused = f"{100 * found['reused_ratio']:.3g} % of prompts are found in caches"
    text = (
        f"Traffic: {found['requests']:,.0f} requests in {found['seconds']:,.0f} s as they were recorded, on average "
        f"{found['prompt_tokens']:,.0f} tokens of prompt and {found['answer_tokens']:,.0f} of answer; {reused} with "
        "this deployment. Days with other traffic are not in it"
    )
    if found["draws"]:
        text += f". The 95 % above are of {found['draws']} draws of its sessions, and of nothing else in this list"
    return text
