"""The examples of AISimulate's public documents of November 2026, of its folder of examples, and of the configurations
to which documents refer, restated: what each sets, and what becomes of it here.

AISimulate is by NVIDIA, under the Apache License 2.0. Names of models, lengths and rates are those of the examples.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, NamedTuple

RUN, SWEEP = "a run", "a sweep"


class Example(NamedTuple):
    """Where it is, what it sets besides a file, and what becomes of it: a run, a sweep, or words of the refusal."""

    place: str
    content: Mapping[str, Any]
    becomes: str
    overrides: tuple[str, ...] = ()


def merged(*parts: Mapping[str, Any]) -> dict[str, Any]:
    """Objects of which later ones win, member by member."""
    found: dict[str, Any] = {}
    for part in parts:
        for key, value in part.items():
            inner = found.get(key)
            both = isinstance(inner, dict) and isinstance(value, Mapping) and "preset" not in value
            found[key] = merged(inner, value) if both else value
    return copy.deepcopy(found)


def synthetic(prompt: int, answer: int, **more: Any) -> dict[str, Any]:
    return {"type": "synthetic", "input_tokens": prompt, "output_tokens": answer, **more}


def clients(number: Any, requests: int, source: Mapping[str, Any] | None = None) -> dict[str, Any]:
    load = {"type": "concurrency", "concurrency": number}
    return {"traffic": {"source": source or synthetic(1024, 128), "load": load, "stop": {"requests": requests}}}


def trace(form: str, load: Mapping[str, Any], seconds: float | None = None, **source: Any) -> dict[str, Any]:
    stop = {} if seconds is None else {"stop": {"max_virtual_time_seconds": seconds}}
    return {
        "traffic": {"source": {"type": "trace", "format": form, "paths": ["t.jsonl"], **source}, "load": load, **stop}
    }


def engine(model: str, hardware: str, backend: str = "vllm", version: str | None = None, **more: Any) -> dict[str, Any]:
    found = {
        "mode": "aggregated",
        "model": model,
        "hardware": hardware,
        "backend": backend,
        "workers": {"aggregated": {}},
    }
    return {"engine": merged(found, {} if version is None else {"backend_version": version}, more)}


def worker(**parts: Any) -> dict[str, Any]:
    return {"engine": {"workers": {"aggregated": parts}}}


def parallel(
    replicas: Any = 1, tensor: Any = 1, pipeline: int = 1, ranks: int = 1, moe_tensor: int = 1, experts: int = 1
) -> Any:
    names = ("replicas", "tensor", "pipeline", "attention_data", "moe_tensor", "moe_expert")
    return dict(zip(names, (replicas, tensor, pipeline, ranks, moe_tensor, experts), strict=True))


def limits(tokens: Any = 8192, sequences: Any = 256) -> dict[str, Any]:
    return {"max_batched_tokens": tokens, "max_sequences": sequences}


def two_pools(prefill: Mapping[str, Any], decode: Mapping[str, Any], **transfer: Any) -> dict[str, Any]:
    pools = {"mode": "disaggregated", "workers": {"prefill": prefill, "decode": decode}}
    return {"engine": {**pools, "kv_transfer": transfer} if transfer else pools}


def goal(target: str, gpus: int, sla: Mapping[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    strict = more.pop("strict", None)
    wanted: dict[str, Any] = {"target": target, "constraints": {"max_candidate_gpus": gpus, **more.pop("bounds", {})}}
    wanted |= more if strict is None else {"strict_sla": strict, **more}
    return {"optimization": wanted, **({} if sla is None else {"evaluation": {"sla": sla}})}


def trials(most: int, seed: int = 42, algorithm: str = "random", **more: Any) -> dict[str, Any]:
    return {"optimizer": {"algorithm": algorithm, "max_trials": most, "parallelism": 1, "seed": seed, **more}}


QWEN = engine("Qwen/Qwen3-32B-FP8", "h200_sxm")
QWEN24 = engine("Qwen/Qwen3-32B-FP8", "h200_sxm", version="0.24.0")
LLAMA = engine("meta-llama/Meta-Llama-3.1-8B", "h200_sxm", version="0.24.0")
VISION = engine("Qwen/Qwen3-VL-8B-Instruct", "h200_sxm", "sglang", "0.5.14")
GLM = engine("nvidia/GLM-5.2-NVFP4", "b300_sxm", "sglang", "0.5.14", context_length=262144)
# The model of its own tests, with durations and a pool that the file has.
FIXED = {
    "kv_cache": {"block_size": 64, "prefix_caching": True, "capacity": {"type": "fixed", "blocks": 256}},
    "timing": {"type": "fixed", "prefill_ms": 1, "decode_ms": 1},
}
ONE = {"parallelism": parallel(), "scheduler": limits(), **FIXED}
PREFILL = {**ONE, "scheduler": limits(sequences=1)}
TINY = merged(engine("tiny-model", "h200_sxm", context_length=2048), worker(**ONE))
POOL = {"block_size": 64, "prefix_caching": True, "capacity": {"type": "default", "memory_fraction": 0.9}}
PREDICTION = merged(clients(64, 100), LLAMA, worker(parallelism={"tensor": 2, "replicas": 1}))
SEARCH = merged(
    clients(32, 320), LLAMA, worker(parallelism={"preset": "default"}),
    goal("throughput", 8, {"ttft_ms": 800, "itl_ms": 30}, strict=True), trials(8, 11),
)  # fmt: skip
SESSION = {
    "type": "synthetic-session", "new_input_tokens_per_turn": 1024, "output_tokens_per_turn": 128,
    "session": {"turns": 4, "shared_prefix_ratio": 0.5, "prefix_groups": 16, "inter_turn_delay_ms": 1000},
}  # fmt: skip
POISSON = {"traffic": {"source": synthetic(1024, 128), "load": {"type": "poisson", "requests_per_second": 8,
    "seed": 42},
                       "stop": {"requests": 100}}}  # fmt: skip
DYNAMO = merged(
    POISSON, QWEN24, worker(parallelism=parallel(2), scheduler=limits(), kv_cache=POOL, startup_seconds=0),
    {"router": {"policy": "round_robin", "prefill_load_model": {"type": "none"}}, "planner": {"policy": "disabled"},
     "evaluation": {"sla": {"ttft_ms": 500, "itl_ms": 50}}},
)  # fmt: skip
BOTH = merged(
    QWEN,
    {"engine": {"mode": {"choices": ["aggregated", "disaggregated"]}, "hardware": "auto",
                "backend": {"choices": ["vllm", "sglang"]},
                "workers": {"aggregated": {"parallelism": {"preset": "default"}, "scheduler": limits(
                    {"choices": [8192, 16384]}, {"choices": [256, 512]})},
                            "prefill": {"parallelism": {"preset": "default"}, "scheduler": limits(sequences=64)},
                            "decode": {"parallelism": {"preset": "default"}, "scheduler": limits()}}},
     "router": {"policy": {"choices": ["round_robin", "kv_router"]}, "prefill_load_model": {"type": "none"}}},
    goal("goodput_per_gpu", 32, {"ttft_ms": 500, "itl_ms": 50}, hardware="h200_sxm", bounds={"min_candidate_gpus": 1}),
    trials(320, algorithm="bayesian", candidate_timeout_seconds=600),
)  # fmt: skip
SESSIONS = {"traffic": {"source": SESSION, "load": {"type": "poisson", "seed": 42, "sessions_per_second": {
    "range": {"min": 4, "max": 32, "step": 4, "scale": "linear"}}},
        "stop": {"sessions_per_load_unit": 10}}}  # fmt: skip
LANES = {"type": "trace_timestamps", "agentic_lanes": 2}
AGENTX = merged(
    trace("weka", LANES, block_size=64),
    engine("Qwen/Qwen3-4B-Instruct-2507", "h200_sxm", version="0.24.0", context_length=262144),
    two_pools({"parallelism": {**parallel(2, 2)}, "scheduler": limits(sequences=64), "kv_cache": POOL},
              {"parallelism": {**parallel(4, 1)}, "scheduler": limits(), "kv_cache": POOL},
              bandwidth_gb_per_second=400, timing_mode="destination_missing"),
    {"execution": {"resources": {"memory_limit_gb": 4}}},
)  # fmt: skip
SNAPSHOT = {"traffic": {"load": {"agentic_snapshot": {"seed": 42}, "agentic_warmup": True,
                                 "agentic_profile": {"duration_seconds": 3600}}}}  # fmt: skip
HOST = {"num_host_blocks": 4096, "d2h_bandwidth_gbps": 32.0, "h2d_bandwidth_gbps": 32.0}
HOSTED = merged(
    clients(4, 16), QWEN24, {"engine": {"context_length": 4096}},
    worker(parallelism=parallel(), scheduler=limits(sequences=16),
           kv_cache={"block_size": 16, "bytes_per_token": "auto", "capacity": {"type": "fixed", "blocks": 2499},
                     "host_offload": HOST}),
)  # fmt: skip
G3 = worker(kv_cache={"g3_offload": {"scope": "cluster_shared", "num_g3_blocks": 8192}})
SMALL_HOST = {
    "parallelism": {"replicas": 1, "tensor": 1, "attention_data": 1}, "scheduler": limits(16, 1),
    "kv_cache": {"block_size": 4, "prefix_caching": True, "bytes_per_token": 250000,
                 "capacity": {"type": "fixed", "blocks": 3},
                 "host_offload": {"scope": "dp_rank_local", "num_host_blocks": 8, "d2h_bandwidth_gbps": 1,
                                  "h2d_bandwidth_gbps": 1, "latency_to_first_byte_ms": 0}},
    "timing": {"type": "fixed", "prefill_ms": 2, "decode_ms": 1},
}  # fmt: skip
SHARED = {"scope": "cluster_shared", "shared_d2h_bandwidth_gbps": 1, "shared_h2d_bandwidth_gbps": 1}
RESTORE = merged(
    trace("weka", {"type": "trace_timestamps", "agentic_lanes": 1}, block_size=4, nested_timestamp_basis="absolute"),
    engine("tiny-model", "h200_sxm", context_length=2048),
)
IMAGES = synthetic(128, 32, images={"height": 448, "width": 448, "count": 1})
LARGE_IMAGES = synthetic(128, 32, images={"height": 1024, "width": 1024, "encoding": "png", "identity": "unique"})
MTP = {"kind": "mtp", "num_speculative_tokens": 3, "expected_accepted_tokens": 1.99, "seed": 42}
MTP_POOL = {"block_size": 64, "prefix_caching": True, "capacity": {"type": "fixed", "blocks": 8192}}
MTP_WORKER = {"parallelism": parallel(tensor=8, moe_tensor=8), "scheduler": limits(sequences=8), "kv_cache": MTP_POOL}
ONE_LANE = {"type": "trace_timestamps", "speedup": 1.0, "agentic_lanes": 1}
GLM_MTP = merged(
    trace("weka", ONE_LANE, block_size=4), GLM, worker(**MTP_WORKER),
    {"engine": {"estimation_mode": "op_level", "fallback_policy": "deny", "speculation": MTP}},
)  # fmt: skip
GLM_POOLS = two_pools(MTP_WORKER, MTP_WORKER, bandwidth_gb_per_second=400, timing_mode="destination_missing")
DEEPSEEK = {"engine": {"model": "deepseek-ai/DeepSeek-V4-Pro", "speculation": {"expected_accepted_tokens": 1.5}}}
AFD = {"phase": "both", "combined_with_pd": False, "n_a_nodes": 2, "n_f_nodes": 4, "tp_a": 4, "a_batch_size": 64}
PLANNER = {
    "policy": "enabled", "target": "load", "enable_throughput_scaling": False, "enable_load_scaling": True,
    "load_adjustment_interval_seconds": 5, "max_num_gpus": 2, "min_workers": 1,
}  # fmt: skip
RAGPULSE = merged(
    trace("mooncake", {"type": "trace_timestamps", "speedup": 1.0}, 90000.0, block_size=64), BOTH,
    {"engine": {"model": "deepseek-ai/DeepSeek-V3", "hardware": "h200_sxm", "context_length": 8192,
                "fmha_quant_mode": "bfloat16", "kvcache_quant_mode": "fp8", "enable_chunked_prefill": True,
                "estimation_mode": "op_level", "fallback_policy": "deny",
                "kv_transfer": {"bytes_per_token": 35136, "bandwidth_gb_per_second": 64.0,
                    "timing_mode": "full_prompt"}},
     "router": {"policy": "round_robin"}, "optimization": {"hardware": None}},
)  # fmt: skip
SDK_SEARCH = {
    "search_space": {"model_name": "deepseek-ai/DeepSeek-V3", "hardware_sku": "h200_sxm", "gpu_budget": 32},
    "workload": {"isl": 1024, "osl": 128, "request_rate": 4, "num_request_ratio": 10},
    "goal": {"target": "throughput_per_gpu"}, "sweep": {"max_rounds": 10},
}  # fmt: skip
SHARED_G2 = merged(
    clients(8, 64, synthetic(1024, 8, cached_prefix_tokens=896)),
    QWEN24,
    {"engine": {"context_length": 4096}},
    worker(
        parallelism=parallel(2, ranks=2),
        scheduler=limits(sequences=2),
        kv_cache={
            "block_size": 16,
            "bytes_per_token": 131072,
            "capacity": {"type": "fixed", "blocks": 160},
            "host_offload": {
                "scope": "cluster_shared",
                "num_host_blocks": 1024,
                "d2h_bandwidth_gbps": 32,
                "h2d_bandwidth_gbps": 32,
                "shared_d2h_bandwidth_gbps": 80,
                "shared_h2d_bandwidth_gbps": 80,
            },
        },
        timing={"type": "fixed", "prefill_ms": 20.0, "decode_ms": 5.0},
    ),
)
PINNED = {"preset": [parallel(), parallel(2)]}
PINNED_GPU = {"parallelism": {"preset": [parallel()]}}
RATE4 = "traffic.load={type: constant_rate, requests_per_second: 4}"
RATE8 = "traffic.load={type: constant_rate, requests_per_second: 8}"
KIMI = merged(
    clients(10, 100),
    engine("nvidia/Kimi-K2.5-NVFP4", "b200_sxm"),
    worker(parallelism={"attention_data": 8, "moe_expert": 8}),
)
MINIMAX = engine("MiniMaxAI/MiniMax-M2.7", "h200_sxm", version="0.25.1", context_length=8192)
NGRAM = "{kind: ngram, num_speculative_tokens: 3, acceptance_rates: [0.8, 0.6, 0.4], seed: 42}"

README = "README.md"
QUICKSTART = "docs/getting-started/quickstart.md"
GUIDE = "docs/cli/user-guide.md"
MIGRATION = "docs/cli/migrate-from-aiconfigurator.md"
WORKLOADS = "docs/replay/workloads.md"
KV = "docs/replay/engine/kv-cache.md"
CONFIGS = "tests/e2e/configs/unified_cli"

EXAMPLES = [
    Example(README, {"engine": {k: v for k, v in QWEN["engine"].items() if k != "mode"}}, RUN),
    Example(QUICKSTART, QWEN, RUN),
    Example(QUICKSTART, merged(clients(10, 100), QWEN), RUN),
    Example(QUICKSTART, merged(clients(10, 100), QWEN), RUN, (RATE8, "traffic.stop.requests=100")),
    Example(QUICKSTART, merged(
        clients(10, 100), QWEN, {"engine": {"hardware": "auto", "backend": {"choices": ["vllm", "sglang"]}}},
        worker(parallelism={"preset": "default"}), goal("throughput_per_gpu", 8, hardware="h200_sxm"),
        {"optimizer": {"max_trials": 8}}), SWEEP),
    Example(GUIDE, merged(clients(4, 12), QWEN24, worker(parallelism={"replicas": 1, "tensor": 1})), RUN),
    Example(GUIDE, merged(clients(4, 12), QWEN24), RUN, (
        "traffic.source.input_tokens=4096", "traffic.source.output_tokens=512", "traffic.load.concurrency=16",
        "traffic.stop.requests=160")),
    Example(GUIDE, merged(clients(4, 12), QWEN24), RUN, (RATE8, "traffic.stop.requests=200")),
    Example(GUIDE, merged(clients(4, 12), QWEN24), RUN, (
        "traffic.load.concurrency=8", "engine.workers.aggregated.parallelism.replicas=2")),
    Example(GUIDE, merged(
        clients({"choices": [4, 8]}, 32), QWEN24, worker(parallelism={"preset": [parallel(), parallel(2, 2)]},
                                                         scheduler=limits(), kv_cache=POOL),
        goal("throughput_per_gpu", 4), trials(4)), SWEEP),
    Example(GUIDE, merged(
        clients({"choices": [4, 8]}, 32), QWEN24, worker(parallelism={"preset": [parallel(), parallel(2, 2)]}),
        goal("goodput_per_gpu", 4, {"ttft_ms": 500, "itl_ms": 50}, strict=True), trials(4)), SWEEP),
    Example(GUIDE, merged(QWEN, POISSON), RUN),
    Example(GUIDE, merged(QWEN, {"traffic": {
        "source": SESSION, "load": {"type": "constant_rate", "sessions_per_second": 8}, "stop": {"sessions": 100}}}),
        "session.turns: got 4"),
    Example(GUIDE, merged(QWEN, trace("mooncake", {"type": "trace_timestamps", "speedup": 1.0}, 300, block_size=512)),
        RUN),
    Example(GUIDE, merged(QWEN24, {"engine": {"context_length": "max"}}, worker(
        parallelism=parallel(2), scheduler={**limits(), "prefill_schedule_interval": 1}, startup_seconds=0,
        kv_cache=merged(POOL, {"bytes_per_token": "auto", "capacity": {"cuda_graph_reserved_bytes": 0}}),
        timing={"type": "default", "forward_model": "op_level"})), RUN),
    Example(GUIDE, merged(QWEN24, {"engine": {"context_length": "max"}}, two_pools(
        {"parallelism": parallel(2, 2), "scheduler": limits(sequences=64), "kv_cache": POOL, "startup_seconds": 0},
        {"parallelism": parallel(4), "scheduler": limits(), "kv_cache": POOL, "startup_seconds": 0},
        bandwidth_gb_per_second=400, timing_mode="destination_missing")), RUN),
    Example(GUIDE, merged(QWEN, worker(kv_cache={
        "block_size": 64, "bytes_per_token": 16, "capacity": {"type": "fixed", "bytes": 8192},
        "state_cache": {"bytes_per_request": 1500}})), "state_cache: got"),
    Example(GUIDE, merged(clients(4, 12), QWEN24), 'speculation.kind: got "ngram"', (f"engine.speculation={NGRAM}",)),
    Example(GUIDE, HOSTED, RUN),
    Example(GUIDE, merged(HOSTED, G3), "bytes_per_token: got \"auto\""),
    Example(GUIDE, merged(QWEN, worker(parallelism={"preset": False, "replicas": {"range": {"min": 1, "max": 8,
        "step": 1}},
                                                    "tensor": {"choices": [1, 2, 4, 8]}}), goal("throughput", 32)),
                                                        SWEEP),
    Example(GUIDE, DYNAMO, RUN),
    Example(GUIDE, merged(SESSIONS, BOTH), "engine.mode: got both"),
    Example(GUIDE, merged(SESSIONS, BOTH), "session.turns: got 4", ("engine.mode=disaggregated",)),
    Example(GUIDE, merged(POISSON, BOTH, {"optimization": {"target": "pareto"}}), SWEEP, ("engine.mode=aggregated",)),
    Example(MIGRATION, PREDICTION, RUN),
    Example(MIGRATION, SEARCH, SWEEP),
    Example(MIGRATION, SEARCH, SWEEP, (RATE4, "optimization.target=goodput_per_gpu")),
    Example(MIGRATION, PREDICTION, RUN, (
        "engine.mode=disaggregated",
        "engine.workers={prefill: {parallelism: {tensor: 1}}, decode: {parallelism: {tensor: 1}}}")),
    Example(MIGRATION, SEARCH, SWEEP, (
        "engine.workers.aggregated.parallelism.preset=false",
        "engine.workers.aggregated.parallelism.tensor={choices: [1, 2, 4]}", "optimization.target=pareto")),
    Example(MIGRATION, PREDICTION, RUN, (
        "engine.workers.aggregated.kv_cache.capacity.memory_fraction=0.8",
        "engine.workers.aggregated.kv_cache.host_offload={num_host_blocks: 4096}")),
    Example(MIGRATION, merged(MINIMAX, clients(4, 8)), "timing.forward_model: got \"fpm\"", (
        "engine.workers.aggregated.timing.forward_model=fpm",)),
    Example(MIGRATION, merged(
        clients(2, 6, synthetic(128, 8)), LLAMA, {"engine": {"context_length": 4096}},
        two_pools({**PINNED_GPU, "scheduler": limits(sequences=1)},
                  {**PINNED_GPU, "hardware": "gb200", "scheduler": limits(sequences=8)},
                  bytes_per_token="auto", bandwidth_gb_per_second=50),
        goal("throughput", 2, {"ttft_ms": 800, "itl_ms": 30}, strict=True), trials(1, 14)), SWEEP),
    Example(MIGRATION, {"traffic": {"source": synthetic(1024, 128), "load": {"type": "constant_rate",
        "requests_per_second": 4},
                                    "stop": {"requests_per_load_unit": 10}},
                        "engine": {"mode": "afd", "model": "Qwen/Qwen3-32B", "hardware": "h200_sxm",
                            "backend": "trtllm",
                                   "afd": {"phase": "decode", "combined_with_pd": True, "a_batch_size": 128}},
                        **goal("throughput_per_gpu", 32, {"ttft_ms": 800, "itl_ms": 30}, strict=True)},
                            "engine.afd: got"),
    Example(MIGRATION, merged(clients(64, 100), engine(
        "meta-llama/Meta-Llama-3.1-8B", "b200_sxm", "trtllm", "1.3.0rc20"), worker(
            parallelism={"tensor": 2, "replicas": 1})), RUN),
    Example(MIGRATION, SEARCH, SWEEP, (
        "optimizer.algorithm=bayesian", "optimizer.max_trials=32", "optimizer.parallelism=4")),
    Example(MIGRATION, {"pp_sweep": {"serving_mode": "agg", "model_path": "meta-llama/Meta-Llama-3.1-8B",
                                     "system_name": "h200_sxm", "total_gpus": 4, "agg_pp_candidates": [1, 2]}},
            "serving_mode: an experiment of aiconfigurator"),
    Example(WORKLOADS, merged(QWEN, trace("weka", {**LANES, "agentic_lanes": 4}), SNAPSHOT), "agentic_snapshot: got"),
    Example("docs/replay/agentic/quickstart.md", merged(AGENTX, SNAPSHOT), "agentic_snapshot: got"),
    Example("docs/replay/agentic/quickstart.md", AGENTX, RUN),
    Example("docs/replay/agentic/continuous-profiles.md", merged(QWEN, trace("weka", LANES), {"traffic": {"load": {
        "agentic_profile": {"response_grace_seconds": 30}}}}), "agentic_profile: got"),
    Example("docs/replay/agentic/warmup.md", merged(QWEN, trace("weka", LANES), {"traffic": {"load": {
        "agentic_warmup": True}}}), "agentic_warmup: got"),
    Example("docs/agentx-quickstart.md", merged(AGENTX, SNAPSHOT, {"router": {"policy": "kv_router", "affinity": {
        "mode": "sibling_group", "ttl_seconds": 3600}}}), "agentic_snapshot: got"),
    Example("docs/agentx-quickstart.md", merged(AGENTX, {"router": {"policy": "kv_router", "affinity": {
        "mode": "sibling_group"}}}), "router.affinity: got"),
    Example("docs/replay/cache.md", merged(HOSTED, worker(kv_cache={"bytes_per_token": 131072, "host_offload": {
        "scope": "cluster_shared", "shared_d2h_bandwidth_gbps": 80, "shared_h2d_bandwidth_gbps": 80,
        "latency_to_first_byte_ms": 0}})), RUN),
    Example("docs/replay/engine/README.md", {"engine": {
        "model": "Qwen/Qwen3-32B-FP8", "hardware": "h200_sxm", "workers": {"aggregated": {}}}}, RUN),
    Example("docs/replay/engine/README.md", merged(
        engine("Qwen/Qwen3-32B-FP8", "h200_sxm", "sglang"), two_pools(
            {"parallelism": {"replicas": 2, "tensor": 2}, "scheduler": {"max_batched_tokens": 16384}},
            {"parallelism": {"replicas": 1, "tensor": 4}, "scheduler": {"max_sequences": 512}},
            bandwidth_gb_per_second=50)), RUN),
    Example("docs/replay/engine/workers.md", merged(QWEN, worker(
        parallelism={"replicas": 2, "tensor": 4, "attention_data": 1}, scheduler=limits(), startup_seconds=0)), RUN),
    Example("docs/replay/engine/workers.md", merged(KIMI, worker(scheduler={"prefill_schedule_interval": 4})), RUN),
    Example("docs/replay/engine/workers.md", merged(KIMI, {"engine": {"backend": "sglang"}}, worker(
        scheduler={"prefill_decode_interval": 20})), "prefill_decode_interval: got 20"),
    Example(KV, merged(QWEN, worker(kv_cache={**POOL, "host_offload": {"num_host_blocks": 4096}})), RUN),
    Example(KV, merged(HOSTED, {"engine": {"context_length": 8192}}, {"traffic": {
        "source": {"type": "synthetic-session", "input_tokens": None, "output_tokens": None, "session": {"turns": 4}},
        "stop": {"requests": None, "sessions": 16}}}), "session.turns: got 4"),
    Example("docs/replay/engine/kv-transfer.md", merged(QWEN, two_pools(
        {}, {}, bytes_per_token="auto", bandwidth_gb_per_second=50, timing_mode="destination_missing")), RUN),
    Example("docs/replay/engine/speculation.md", merged(QWEN, {"engine": {"nextn": 3, "nextn_accepted": 2.2}}), RUN),
    Example("docs/replay/engine/analytical.md", merged(clients(16, 32), {"engine": {
        "mode": "afd", "model": "Qwen/Qwen3-30B-A3B", "hardware": "h200_sxm", "backend": "vllm", "afd": AFD}}),
            "engine.afd: got"),
    Example("docs/replay/engine/sglang-vl-host-loop.md", merged(clients(4, 32, LARGE_IMAGES), VISION, worker(
        host_profile={"path": "./host-costs.json", "frontend": "python"}, vision={"cache_mib": 100})), "images: got"),
    Example("docs/agentx-mtp.md", GLM_MTP, RUN),
    Example("docs/agentx-mtp.md", merged(GLM_MTP, GLM_POOLS), RUN),
    Example("docs/agentx-mtp.md", merged(GLM_MTP, DEEPSEEK), RUN),
    Example("docs/agentx-mtp.md", merged(GLM_MTP, GLM_POOLS, DEEPSEEK), RUN),
    Example("docs/replay/dynamo.md", merged(clients(4, 12, synthetic(32, 4)), TINY, {"planner": PLANNER}),
            'planner.policy: got "enabled"'),
    Example("docs/perf-model/methods/whole-forward.md", merged(QWEN, worker(timing={
        "estimation_mode": "fpm_interpolation", "fallback_policy": "deny",
        "estimator_config": {"fpm_interpolation": {"method": "direct"}}})), "timing.estimation_mode: got"),
    Example("docs/perf-model/fpm-self-service/examples.md", merged(
        clients(1, 2, synthetic(128, 2)), engine("moonshotai/Kimi-K3", "gb300", version="0.29.0"),
        {"engine": {"systems_paths": ["systems"], "estimation_mode": "fpm_interpolation"}},
        worker(parallelism={**parallel(tensor=8, moe_tensor=8), "decode_context": 8})), "engine.estimation_mode: got"),
    Example("docs/sweeper/tutorial.md", SDK_SEARCH, "search_space: a search of AISimulate's SDK"),
    Example("docs/sweeper/configuration.md", merged(SDK_SEARCH, {"goal": {"strict_sla": True}}),
        "search_space: a search"),
    Example("examples/sweeper/configs/smart_sweep.yaml", merged(SDK_SEARCH, {"goal": {"target": "goodput_per_gpu"}}),
            "search_space: a search"),
    Example("examples/sweeper/epd.yaml", merged(SDK_SEARCH, {"workload": {"image_height": 448}}),
        "search_space: a search"),
    Example("examples/sweeper/nvopt-ragpulse/01-static.yaml", RAGPULSE, "engine.mode: got both"),
    Example("examples/sweeper/nvopt-ragpulse/01-static.yaml", RAGPULSE, SWEEP, ("engine.mode=disaggregated",)),
    Example("examples/sweeper/nvopt-ragpulse/02-kv-router.yaml", merged(RAGPULSE, {"router": {
        "policy": "kv_router", "temperature": {"choices": [0.0, 0.1, 0.2]}, "prefill_load_model": {
            "type": {"choices": ["none", "ais"]}}}}), "engine.mode: got both"),
    Example("examples/sweeper/nvopt-ragpulse/03-kv-router-planner.yaml", merged(RAGPULSE, {"planner": {
        "policy": "enabled", "max_num_gpus": 256}}), 'planner.policy: got "enabled"', ("engine.mode=disaggregated",)),
    Example("examples/cli/agentic-profile.yaml", merged(trace("weka", LANES), SNAPSHOT, TINY), "agentic_snapshot: got"),
    Example("examples/cli/agentx-g2-local.yaml", merged(RESTORE, worker(**SMALL_HOST)), RUN),
    Example("examples/cli/agentx-g2-shared-pd.yaml", merged(RESTORE, two_pools(
        merged(SMALL_HOST, {"kv_cache": {"host_offload": SHARED}}), merged(SMALL_HOST,
            {"kv_cache": {"host_offload": SHARED}}),
        bytes_per_token=250000, bandwidth_gb_per_second=1)), "host_offload: got it"),
    Example("examples/cli/dynamo-deployment-recommend.yaml", merged(clients(4, 40), QWEN24, worker(
        parallelism={"preset": [parallel(), parallel(1, 2)]}, scheduler=limits(), kv_cache={**POOL,
            "prefix_caching": False}),
        goal("throughput_per_gpu", 2), trials(4)), SWEEP),
    Example("examples/cli/epd-predict-aggregated.yaml", merged(clients(8, 16, IMAGES), VISION, {"engine": {"workers": {
        "encoder": {"tensor": 1, "replicas": 1, "batch_size": 2}}}}), "images: got"),
    Example("examples/cli/epd-predict-disaggregated.yaml", merged(clients(8, 16, IMAGES), VISION, two_pools({}, {}), {
        "engine": {"workers": {"encoder": {"tensor": 1}}}}), "images: got"),
    Example("examples/cli/epd-recommend.yaml", merged(clients(8, 16, IMAGES), VISION, BOTH), "engine.mode: got both"),
    Example("examples/cli/epd-recommend.yaml", merged(clients(8, 16, IMAGES), VISION, BOTH), "images: got", (
        "engine.mode=aggregated",)),
    Example("examples/cli/shared-g2-predict.yaml", SHARED_G2, "attention_data: got 2"),
    Example("examples/cli/shared-g2-predict.yaml", SHARED_G2, RUN, (
        "engine.workers.aggregated.kv_cache.host_offload.scope=dp_rank_local",)),
    Example("examples/cli/vl-predict-aggregated.yaml", merged(clients(4, 32, LARGE_IMAGES), VISION), "images: got"),
    Example("examples/cli/vl-predict-disaggregated.yaml", merged(clients(4, 32, LARGE_IMAGES), VISION, two_pools(
        {"vision": {"cache_mib": 100}}, {}, bandwidth_gb_per_second=50)), "images: got"),
    Example("examples/cli/vl-predict-epd-native.yaml", merged(clients(8, 32, LARGE_IMAGES), VISION,
        {"engine": {"workers": {
        "encoder": {"mode": "native"}}}}), "images: got"),
    Example("examples/cli/vl-recommend.yaml", merged(clients({"choices": [2, 4, 8]}, 32, LARGE_IMAGES), VISION, worker(
        parallelism={"preset": False, "tensor": {"choices": [1, 2]}}), goal("throughput_per_gpu", 2)), "images: got"),
    Example(f"{CONFIGS}/predict/engine/01", TINY, RUN),
    Example(f"{CONFIGS}/predict/engine/02", merged(TINY, {"traffic": {
        "source": synthetic(32, 4), "load": {"type": "poisson", "requests_per_second": 20.0, "seed": 7},
        "stop": {"requests": 6}}}), RUN),
    Example(f"{CONFIGS}/predict/engine/03", merged(TINY, {"traffic": {
        "source": {"type": "synthetic-session", "new_input_tokens_per_turn": 16, "output_tokens_per_turn": 4,
                   "session": {"turns": 3, "shared_prefix_ratio": 0.5, "prefix_groups": 2}},
        "load": {"type": "constant_rate", "sessions_per_second": 2.0}, "stop": {"sessions": 3}}}),
            "session.turns: got 3"),
    Example(f"{CONFIGS}/predict/engine/04", merged(TINY, trace(
        "mooncake", {"type": "trace_timestamps", "speedup": 2.0}, 1.0, block_size=512)), RUN),
    Example(f"{CONFIGS}/predict/engine/05", merged(TINY, trace(
        "mooncake-delta", {"type": "concurrency", "concurrency": 1}, 1.0, block_size=512)), RUN),
    Example(f"{CONFIGS}/predict/engine/06", merged(TINY, trace(
        "agentic_mooncake", {"type": "trace_timestamps", "speedup": 1.5}, block_size=4)), RUN),
    Example(f"{CONFIGS}/predict/engine/07", merged(TINY, trace(
        "applied_compute_agentic", {"type": "concurrency", "concurrency": 1}, 1.0, block_size=512)), RUN),
    Example(f"{CONFIGS}/predict/engine/08", merged(TINY, trace(
        "dynamo", {"type": "concurrency", "concurrency": 2}, 1.0)), RUN),
    Example(f"{CONFIGS}/predict/engine/09", merged(TINY, trace("dynamo", {"type": "trace_timestamps",
        "speedup": 2.0})), RUN),
    Example(f"{CONFIGS}/predict/engine/10", merged(TINY, trace("dynamo", {"type": "concurrency", "concurrency": 2},
        1.0), two_pools(
        PREFILL, ONE, bytes_per_token="auto", bandwidth_gb_per_second=400.0)), "bytes_per_token: got \"auto\""),
    Example(f"{CONFIGS}/predict/engine/11-synthetic-afd", merged(clients(2, 4, synthetic(8, 3)), {"engine": {
        "mode": "afd", "model": "tiny-model", "hardware": "h200_sxm", "backend": "vllm", "afd": AFD}}),
            "engine.afd: got"),
    Example(f"{CONFIGS}/predict/engine/11-trace-weka", merged(TINY, trace("weka", ONE_LANE)), RUN),
    Example(f"{CONFIGS}/predict/engine/12", merged(TINY, trace("weka", ONE_LANE)), RUN),
    Example(f"{CONFIGS}/predict/engine/13-trace-mooncake-delta", merged(TINY, trace(
        "mooncake-delta", {"type": "trace_timestamps", "speedup": 1.0}, 1.0, block_size=512),
        {"engine": {"placement": {"policy": "session_affinity"}}}, worker(parallelism=parallel(2))),
            "engine.placement: got"),
    Example(f"{CONFIGS}/predict/fpm/01", merged(MINIMAX, clients(4, 8, synthetic(1024, 32)), worker(
        timing={"type": "default", "forward_model": "fpm"})), "timing.forward_model: got"),
    Example(f"{CONFIGS}/recommend/engine/01", merged(
        TINY, {"engine": {"hardware": "auto", "backend": {"choices": ["vllm", "sglang"]}, "workers": {"aggregated": {
            "parallelism": {"preset": "default"}, "scheduler": {}, "kv_cache": {"prefix_caching": True}}}}},
        goal("throughput", 2, hardware="h200_sxm"), trials(4, 11, candidate_timeout_seconds=30.0)), SWEEP),
    Example(f"{CONFIGS}/recommend/engine/02", merged(
        clients(2, 6, synthetic(32, 4)), TINY, worker(parallelism={"preset": [parallel(), parallel(2)]}),
        goal("throughput_per_gpu", 2), trials(2, 12)), SWEEP),
    Example(f"{CONFIGS}/recommend/engine/03", merged(
        clients({"choices": [1, 2]}, 6, synthetic(32, 4)), TINY,
        worker(parallelism={"preset": False, **parallel({"choices": [1, 2]})},
               scheduler=limits({"choices": [4096, 8192]}, {"choices": [128, 256]})),
        goal("ttft", 2), trials(4, 13)), SWEEP),
    Example(f"{CONFIGS}/recommend/engine/04", merged(
        TINY, {"traffic": {"source": synthetic(32, 4), "load": {"type": "poisson", "requests_per_second": 20.0,
            "seed": 14},
                           "stop": {"requests": 6}}},
        two_pools({**PREFILL, **PINNED_GPU}, {**ONE, "parallelism": {
            "preset": False, **parallel({"range": {"min": 1, "max": 2, "scale": "log"}})}},
            bytes_per_token="auto", bandwidth_gb_per_second=400.0), goal("pareto", 3), trials(4, 14)),
        "bytes_per_token: got \"auto\""),
    Example(f"{CONFIGS}/recommend/engine/05", merged(TINY, {"traffic": {
        "source": synthetic(32, 4), "load": {"type": "kv_capacity_fraction", "fraction": {
            "range": {"min": 0.5, "max": 1.5, "scale": "log"}}}, "stop": {"requests_per_load_unit": 2}}},
        worker(**PINNED_GPU), goal("goodput", 1, {"ttft_ms": 10.0, "itl_ms": 5.0}), trials(3, 15)),
            "load.fraction: want it left out"),
    Example(f"{CONFIGS}/recommend/engine/06", merged(
        clients({"choices": [1, 2]}, 6, synthetic(32, 4)), TINY, two_pools(
            {**PREFILL, "parallelism": PINNED}, {**ONE, "parallelism": PINNED}),
        worker(parallelism=PINNED), {"engine": {"mode": {"choices": ["aggregated", "disaggregated"]}}},
        goal("throughput_per_gpu", 4), trials(6, 16)), "engine.mode: got both"),
    Example(f"{CONFIGS}/recommend/engine/07-afd", merged(clients(2, 4, synthetic(8, 3)), {"engine": {
        "mode": "afd", "model": "tiny-model", "hardware": "h200_sxm", "backend": "vllm", "afd": AFD}},
        goal("throughput_per_gpu", 24)), "engine.afd: got"),
    Example(f"{CONFIGS}/recommend/engine/07-constrained", merged(
        TINY, {"traffic": {"source": synthetic(32, 4), "load": {"type": "constant_rate", "requests_per_second": 5.0},
                           "stop": {"requests_per_load_unit": 4}}},
        worker(parallelism={"preset": [parallel(), parallel(2)]}),
        goal("min_gpus", 2, {"ttft_ms": 10.0, "itl_ms": 5.0}, strict=True, bounds={"min_goodput_rps": 4.0}), trials(2,
            17)), SWEEP),
]  # fmt: skip
