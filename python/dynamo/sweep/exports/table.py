"""What becomes of everything that may be simulated: the flag of each engine that says it, or why there is none.

The only list of it. docs/export.md is generated from it, exports are made by it, and a test walks all engine arguments,
options of runs, settings of routers and keys of autoscalers, so that a new one needs a row.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from dynamo._shell import tables
from dynamo.sweep.exports.flags import Flag, Number, Present, Switch, Word

FLAG, FILES, ASSUMED, REFUSED = "flag", "files", "assumed", "refused"
"""A flag of the engine; something else in the files; nothing, because it is what the simulation takes the world to be;
nothing, so that another value than those that change nothing is refused."""


class Row(NamedTuple):
    """What becomes of one argument or option."""

    kind: str
    text: str = ""
    vllm: Flag | None = None
    sglang: Flag | None = None
    # Values of a row that is refused, or has no flag for an engine, that change nothing.
    harmless: tuple[Any, ...] = ()
    # Whether the argument means nothing for SGLang, so that any value of it is harmless there.
    vllm_only: bool = False
    # Whether it is a setting of the router that says something only beside host memory for KV.
    of_host: bool = False

    def flag(self, engine: str) -> Flag | None:
        """The flag of an engine."""
        return self.vllm if engine == "vllm" else self.sglang


_VLLM_BLOCKS = (1, 8, 16, 32, 64, 128, 256)
_KV_TYPES = {"auto": "auto", "fp8": "fp8"}
_AIC_KV_TYPES = {"bfloat16": "auto", "float16": "auto", "fp8": "fp8"}
_DURATION = "a duration that is simulated, no setting"
_CHECKPOINT = "the checkpoint decides: serve one of this data type"
_TIER = "tiers below the host's memory are not exported"
_LIVE = "of simulated live workers"
_MODEL = "a property of the model"
_WORKLOAD = "the traffic"
_OUTPUT = "what a run writes"
_CLIENT = "what clients do"


def _flag(vllm: Flag | None = None, sglang: Flag | None = None, text: str = "", **more: Any) -> Row:
    return Row(FLAG, text, vllm, sglang, **more)


def _assumed(text: str) -> Row:
    return Row(ASSUMED, text)


def _files(text: str) -> Row:
    return Row(FILES, text)


def _refused(text: str, *harmless: Any) -> Row:
    return Row(REFUSED, text, harmless=harmless)


def _group(name: str, row: Row) -> dict[str, Row]:
    """A row for all options of a run that --help shows in one group."""
    return {option["name"]: row for option in tables.table("run_options")["fields"] if option.get("group") == name}


ENGINE: Mapping[str, Row] = {
    "engine_type": _files("the program: `vllm serve` or `sglang.launch_server`; trtllm is refused"),
    "num_gpu_blocks": _flag(
        Number("--num-gpu-blocks-override"),
        Number("--max-total-tokens"),
        "for SGLang in tokens, blocks times block size",
    ),
    "num_gpu_blocks_override": _files("see `num_gpu_blocks`"),
    "block_size": _flag(Number("--block-size", choices=_VLLM_BLOCKS), Number("--page-size")),
    "max_model_len": _flag(Number("--max-model-len"), Number("--context-length")),
    "max_num_seqs": _flag(Number("--max-num-seqs"), Number("--max-running-requests")),
    "max_num_batched_tokens": _flag(Number("--max-num-batched-tokens"), vllm_only=True),
    "enable_prefix_caching": _flag(Switch("--enable-prefix-caching"), vllm_only=True),
    "enable_chunked_prefill": _flag(Switch("--enable-chunked-prefill"), vllm_only=True),
    "speedup_ratio": _assumed(_DURATION),
    "decode_speedup_ratio": _assumed(_DURATION),
    "dp_size": _flag(Number("--data-parallel-size"), Number("--dp-size"), "the same as `aic_attention_dp_size`"),
    "startup_time": _files("patience of the startup probe, three times as long"),
    "startup_time_cv": _assumed("how start-ups vary, no setting"),
    "worker_type": _flag(
        Word("--disaggregation-mode", {"prefill": "prefill", "decode": "decode"}),
        Word("--disaggregation-mode", {"prefill": "prefill", "decode": "decode"}),
        "of Dynamo's workers, with NIXL; aggregated says nothing",
    ),
    "is_prefill": _files("see `worker_type`"),
    "is_decode": _files("see `worker_type`"),
    "planner_profile_data": _assumed(_DURATION),
    "aic_backend": _files("see `engine_type`"),
    "aic_system": _files("node selector `nvidia.com/gpu.product`, where its label is known"),
    "aic_backend_version": _files("image of the engine"),
    "aic_tp_size": _flag(
        Number("--tensor-parallel-size"),
        Number("--tp-size"),
        "and GPUs of a worker; SGLang counts attention ranks, too",
    ),
    "aic_model_path": _files("the model; `--model` of the export wins"),
    "aic_moe_tp_size": _files("what `aic_moe_ep_size` leaves; other splits are refused"),
    "aic_moe_ep_size": _flag(
        Present("--enable-expert-parallel"),
        Number("--ep-size"),
        "with vLLM experts are on all GPUs of a worker, or on none of their own",
    ),
    "aic_attention_dp_size": _flag(
        Number("--data-parallel-size"), Number("--dp-size"), "for SGLang with `--enable-dp-attention`"
    ),
    "aic_nextn": _flag(
        Word("--speculative-config"),
        Number("--speculative-num-steps"),
        "method `mtp`, or `EAGLE` with one token a step: the model needs such layers",
    ),
    "aic_nextn_accept_rates": _assumed("how well drafts are accepted: measured, not set"),
    "aic_mtp_seed": _assumed("a draw of the simulation"),
    "aic_gemm_dtype": _assumed(_CHECKPOINT),
    "aic_moe_dtype": _assumed(_CHECKPOINT),
    "aic_fmha_dtype": _assumed("the engine chooses its attention kernels"),
    "aic_kv_cache_dtype": _flag(
        Word("--kv-cache-dtype", _AIC_KV_TYPES), Word("--kv-cache-dtype", {**_AIC_KV_TYPES, "fp8": "fp8_e4m3"})
    ),
    "aic_comm_dtype": _assumed("the engine chooses how GPUs exchange data"),
    "aic_shapes": _assumed(_DURATION),
    "gpu_memory_utilization": _flag(Number("--gpu-memory-utilization", float)),
    "mem_fraction_static": _flag(None, Number("--mem-fraction-static", float)),
    "free_gpu_memory_fraction": _refused("of TensorRT-LLM, which is not exported"),
    "enable_local_indexer": _assumed(_LIVE),
    "bootstrap_port": _assumed(_LIVE),
    "handoff_session_timeout_ms": _assumed(_LIVE),
    "kv_bytes_per_token": _assumed(_MODEL),
    "kv_transfer_bandwidth": _assumed("what the network between workers gives: measure it"),
    "kv_transfer_timing_mode": _assumed("what NIXL moves"),
    "kv_transfer_ms_per_block": _assumed(_DURATION),
    "kv_transfer_lanes": _assumed("what the network between workers gives: measure it"),
    "reasoning": _assumed(_LIVE),
    "reasoning.start_thinking_token_id": _assumed(_LIVE),
    "reasoning.end_thinking_token_id": _assumed(_LIVE),
    "reasoning.thinking_ratio": _assumed(_LIVE),
    "response_replay_trace_path": _assumed(_LIVE),
    "zmq_kv_events_port": _assumed(_LIVE),
    "zmq_replay_port": _assumed(_LIVE),
    "preemption_mode": _refused("vLLM preempts the request admitted last", "lifo"),
    "router_queue_policy": _files("`--router-queue-policy` of Dynamo's frontend"),
    "sglang": _files("its members"),
    "sglang.schedule_policy": _flag(None, Word("--schedule-policy", {"fifo": "fcfs", "lpm": "lpm"})),
    "sglang.page_size": _files("see `block_size`"),
    "sglang.max_prefill_tokens": _flag(None, Number("--max-prefill-tokens")),
    "sglang.chunked_prefill_size": _flag(None, Number("--chunked-prefill-size")),
    "sglang.clip_max_new_tokens": _files("environment variable `SGLANG_CLIP_MAX_NEW_TOKENS_ESTIMATION`"),
    "sglang.schedule_conservativeness": _flag(None, Number("--schedule-conservativeness", float)),
    "sglang.reference_quirks": _assumed("slips of Dynamo's mocker"),
    "sglang.overlap_schedule": _flag(None, Present("--disable-overlap-schedule", when=False)),
    "sglang.ignore_eos": _assumed(_CLIENT),
    "sglang.enable_mixed_chunk": _flag(None, Present("--enable-mixed-chunk")),
    "sglang.scheduler_recv_interval": _flag(None, Number("--scheduler-recv-interval")),
    "sglang.num_reserved_decode_tokens": _flag(None, Number("--num-reserved-decode-tokens")),
    "trtllm": _refused("of TensorRT-LLM, which is not exported"),
    "trtllm.capacity_scheduler_policy": _refused("of TensorRT-LLM, which is not exported"),
    "num_g2_blocks": _files("see `host_cache_gb`; `kv_bytes_per_token` makes GB of blocks"),
    "num_g3_blocks": _refused(_TIER, 0),
    "offload_batch_size": _assumed(_DURATION),
    "bandwidth_g1_to_g2_gbps": _assumed("the link to the host's memory"),
    "bandwidth_g2_to_g1_gbps": _assumed("the link to the host's memory"),
    "bandwidth_g2_to_g3_gbps": _assumed(_TIER),
    "bandwidth_g3_to_g2_gbps": _assumed(_TIER),
    "enable_g4_storage": _refused(_TIER, False),
    "bandwidth_g2_to_g4_gbps": _assumed(_TIER),
    "bandwidth_g4_to_g2_gbps": _assumed(_TIER),
    "num_host_blocks": _files("see `host_cache_gb`; `kv_bytes_per_token` makes GB of blocks"),
    "host_cache_gb": _flag(
        Number("--kv-offloading-size", float),
        Number("--hicache-size"),
        "vLLM's in GiB of the worker with `--kv-offloading-backend native`, SGLang's in whole GB of a rank with "
        "`--enable-hierarchical-cache`",
    ),
    "host_offload_d2h_bandwidth_gbps": _assumed("the link to the host's memory"),
    "host_offload_h2d_bandwidth_gbps": _assumed("the link to the host's memory"),
    "host_link": _assumed("the link to the host's memory"),
    "watermark": _flag(Number("--watermark", float, implied=0), vllm_only=True),
    "eviction_backend": _assumed("the engine's own: vLLM evicts the least recently used block"),
    "scheduler": _assumed("whose rules are simulated; with `dynamo`, those of Dynamo's mocker, the export says so"),
    "async_scheduling": _flag(Switch("--async-scheduling"), vllm_only=True),
    "pass_time": _assumed(_DURATION),
    "scheduler_reserve_full_isl": _flag(Switch("--scheduler-reserve-full-isl", implied=True), vllm_only=True),
    "long_prefill_token_threshold": _flag(Number("--long-prefill-token-threshold", implied=0), vllm_only=True),
    "long_prefill_token_threshold_adaptive": _refused("no flag of it is documented", False),
    "prefill_schedule_interval": _flag(Number("--prefill-schedule-interval", implied=1), vllm_only=True),
    "max_num_active_seqs": _refused("no flag of it is documented"),
    "dp_routing": _files(
        "`router` needs `router_mode` kv_router: Dynamo's frontend chooses ranks then, without a flag; else the "
        "engine's own front end does, `round_robin` only that of SGLang"
    ),
    "kv_cache_groups": _assumed(_MODEL),
    "kv_cache_groups.type": _assumed(_MODEL),
    "kv_cache_groups.window": _assumed(_MODEL),
    "kv_cache_groups.num_blocks": _assumed("how SGLang divides its memory between the two pools"),
    "prefix_cache_retention_interval": _refused("no flag of it is documented"),
    "model": _files("the model; `--model` of the export wins"),
    "model_config": _files("the model: a folder needs `--model` of the export"),
    "model_weights_gib": _assumed(_MODEL),
    "gpu_memory_gib": _assumed("the GPU"),
    "kv_cache_memory_bytes": _flag(Number("--kv-cache-memory-bytes"), vllm_only=True),
    "kv_cache_dtype": _flag(Word("--kv-cache-dtype", _KV_TYPES), vllm_only=True),
    "host_cache": _files("its members"),
    "host_cache.num_blocks": _files("see `host_cache_gb`; `kv_bytes_per_token` makes GB of blocks"),
    "host_cache.write_policy": _flag(
        None,
        Word(
            "--hicache-write-policy",
            {name: name for name in ("write_through", "write_through_selective", "write_back")},
        ),
        harmless=("write_through",),
    ),
    "host_cache.load_back_threshold": _refused("a constant of SGLang", 256),
    "host_cache.eviction_policy": _refused("vLLM's offloading evicts the least recently used chunk", "lru"),
    "host_cache.blocks_per_chunk": _refused("vLLM's offloading has chunks of a block", 1),
    "host_cache.store_threshold": _refused("vLLM's offloading stores what is computed for the first time", 0, 1),
    "host_cache.offload_prompt_only": _refused("vLLM's offloading stores prompts", True),
    "host_cache.shared": _refused("a store that workers share is not exported", False),
    "host_cache.shared_workers": _assumed("see `host_cache.shared`"),
    "host_cache.shared_ms_per_block": _assumed(_DURATION),
    "host_cache.storage_blocks": _refused(_TIER),
    "host_cache.storage_gb": _refused(_TIER),
    "host_cache.storage_read_ms_per_block": _assumed(_DURATION),
    "host_cache.storage_write_ms_per_block": _assumed(_DURATION),
    "host_cache.storage_read_gbps": _assumed(_DURATION),
    "host_cache.storage_write_gbps": _assumed(_DURATION),
    "host_cache.storage_latency_ms": _assumed(_DURATION),
    "host_cache.storage_shared_ms_per_block": _assumed(_DURATION),
    "host_cache.storage_prefetch_policy": _assumed("see `host_cache.storage_blocks`"),
    "host_cache.storage_prefetch_threshold": _assumed("see `host_cache.storage_blocks`"),
    "host_cache.storage_prefetch_timeout_base": _assumed("see `host_cache.storage_blocks`"),
    "host_cache.storage_prefetch_timeout_per_ki_token": _assumed("see `host_cache.storage_blocks`"),
    "host_cache.storage_prefetch_timeout_max": _assumed("see `host_cache.storage_blocks`"),
    "host_cache.load_ms_per_block": _assumed(_DURATION),
    "host_cache.store_ms_per_block": _assumed(_DURATION),
    "host_cache.latency_ms": _assumed(_DURATION),
    "timing_model": _assumed(_DURATION),
    "fixed_prefill_ms": _assumed(_DURATION),
    "fixed_decode_ms": _assumed(_DURATION),
    "step_overhead_us": _assumed(_DURATION),
    "seq_overhead_us": _assumed(_DURATION),
    "request_overhead_us": _assumed(_DURATION),
    "request_token_overhead_us": _assumed(_DURATION),
    "engine_version": _assumed("the release that calibration looks for; the image that is started decides"),
    "prefill_scale": _assumed(_DURATION),
    "decode_scale": _assumed(_DURATION),
    "kv_pool_scale": _assumed("how much the estimate of the KV pool is off; the pool has its flag"),
    "kv_pool_estimate": _assumed("who estimates the KV pool; the pool has its flag"),
    "calibration": _assumed(_DURATION),
    "has_perf_model": _assumed("a mark of other tools"),
}
"""Engine arguments; members of an argument that is an object after a dot."""

RUN: Mapping[str, Row] = {
    **_group("workload", _assumed(_WORKLOAD)),
    **_group("output", _assumed(_OUTPUT)),
    **_group("prefill load model of the KV router", _files("fields of `aic_perf_config`")),
    **dict.fromkeys(
        ("trace_files", "replay_concurrency", "agentic_lanes", "arrival_speedup_ratio"), _assumed(_WORKLOAD)
    ),
    "config": _assumed("a file with all of these"),
    "from_report": _assumed("a report with all of these"),
    "num_workers": _files("replicas"),
    "num_prefill_workers": _files("replicas of prefill workers"),
    "num_decode_workers": _files("replicas of decode workers"),
    "extra_engine_args": _files("the engine arguments above"),
    "prefill_engine_args": _files("the engine arguments above, of prefill workers"),
    "decode_engine_args": _files("the engine arguments above, of decode workers"),
    "router_mode": _files("the router, see below; modes that no file can say are refused"),
    "router_config": _files("flags of Dynamo's frontend, see below"),
    "router": _refused("a router in Python is code of your own"),
    "kv_event_lag_ms": _assumed("how late events arrive"),
    "timing_model": _assumed("what passes take is what the engine does"),
    "scheduler_policy": _refused("a scheduler policy in Python is code of your own"),
    "router_log": _assumed(_OUTPUT),
    "router_decisions": _refused("decisions of another run are repeated by a simulation only"),
    "router_decisions_mode": _assumed("with `router_decisions`"),
    "router_policy_config": _refused("policy files of the router are not simulated"),
    "model": _files("see the engine argument"),
    "model_name": _assumed("a name of the predictions"),
    "planner": _refused("a planner of your own is code", False),
    "autoscaler": _files("a HorizontalPodAutoscaler or a ScaledObject of KEDA, see below"),
    "planner_log": _assumed(_OUTPUT),
    "planner_config": _refused("Dynamo's planner is not exported"),
    "planner_python": _assumed("with `planner_config`"),
    "benchmark_granularity": _assumed("with `planner_config`"),
    "gpu_hour_price": _assumed("a price"),
    "faults": _assumed("faults that are tried, no setting"),
    "fault_rate": _assumed("faults that are tried, no setting"),
    "migration_limit": _files("`--migration-limit` of Dynamo's frontend"),
    **dict.fromkeys(
        ("detection_ms", "avoid_ms", "retry_refused_ms", "router_rules"), _assumed("how routers notice faults")
    ),
    **dict.fromkeys(("client_timeout_ms", "client_retries", "client_backoff_ms", "hedge_after_ms"), _assumed(_CLIENT)),
    "replay_mode": _assumed("simulated time or the clock"),
    "seed": _assumed("draws of the simulation"),
    "max_sim_time_ms": _assumed("how long the traffic lasts"),
    "max_sim_time_seconds": _assumed("how long the traffic lasts"),
    "stop_when_late": _assumed("how long the traffic lasts"),
    **dict.fromkeys(("sla_ttft_ms", "sla_tpot_ms", "sla_itl_ms", "sla_e2e_ms"), _assumed("bounds of goodput")),
    "aic_perf_config": _files("`--aic-...` flags of Dynamo's frontend, with `router_prefill_load_model` aic"),
    **dict.fromkeys(("rows", "capture_per_request", "telemetry_options"), _assumed(_OUTPUT)),
}
"""Options of a run. A new one that is part of the workload, or an output, has its row by its group of --help."""

ROUTER: Mapping[str, Row] = {
    "overlap_score_weight": _refused("an older name of overlap_score_credit and prefill_load_scale"),
    "host_cache_hit_weight": _refused("no flag of it is documented", 0.75)._replace(of_host=True),
    "disk_cache_hit_weight": _refused("no flag of it is documented", 0.25),
    "router_temperature": _flag(Number("--router-temperature", float)),
    "use_kv_events": _flag(Switch("--router-kv-events")),
    "durable_kv_events": _refused("deprecated by Dynamo", False),
    "router_replica_sync": _flag(Switch("--router-replica-sync")),
    "router_track_active_blocks": _flag(Switch("--router-track-active-blocks")),
    "router_track_output_blocks": _flag(Switch("--router-track-output-blocks")),
    "router_assume_kv_reuse": _flag(Switch("--router-assume-kv-reuse")),
    "router_track_prefill_tokens": _flag(Switch("--router-track-prefill-tokens")),
    "router_prefill_load_model": _flag(Word("--router-prefill-load-model", {"none": "none", "aic": "aic"})),
    "router_snapshot_threshold": _assumed("how events are kept"),
    "router_reset_states": _assumed("a start after another one"),
    "router_ttl_secs": _flag(Number("--router-ttl-secs", float)),
    "router_queue_threshold": _flag(
        Number("--router-queue-threshold", float), text="without it, requests do not queue"
    ),
    "router_event_threads": _flag(Number("--router-event-threads")),
    "router_queue_policy": _flag(Word("--router-queue-policy", {name: name for name in ("fcfs", "lcfs", "wspt")})),
    "use_remote_indexer": _refused("an indexer of its own is not exported", False),
    "serve_indexer": _refused("an indexer of its own is not exported", False),
    "shared_cache_multiplier": _refused("no flag of it is documented", 0),
    "shared_cache_type": _refused("no flag of it is documented", "none"),
    "router_predicted_ttl_secs": _refused("no flag of it is documented"),
    "overlap_score_credit": _flag(Number("--router-kv-overlap-score-credit", float)),
    "overlap_score_credit_decay": _refused("no flag of it is documented", 0),
    "prefill_load_scale": _flag(Number("--router-prefill-load-scale", float)),
    "router_policy_config": _refused("policy files of the router are not simulated"),
    "skip_initial_worker_wait": _assumed("a start without workers"),
    "router_seed": _assumed("draws of the simulation"),
    "router_tenant_weights": _refused("Dynamo has no tenants"),
    "router_max_tree_size": _refused("no flag of it is documented"),
    "router_prune_target_ratio": _refused("no flag of it is documented"),
    "router_enable_cache_control": _refused("no flag of it is documented", False),
    "metrics_interval_ms": _refused("routers of Dynamo get every event"),
    "router_replicas": _refused("the frontend of an export is one", 1),
}
"""Settings of the KV router: flags of Dynamo's frontend."""

SCALING: Mapping[str, Row] = {
    "policy": _files("hpa: a HorizontalPodAutoscaler; keda: a ScaledObject; queue and schedule are refused"),
    "pool": _files("which workers are scaled"),
    "metric": _files("a metric of the engine, which Prometheus has to read"),
    "target": _files("`averageValue`, `value`, or `threshold` of KEDA"),
    "kind": _files("`average` is a metric of pods, `total` and `value` external ones"),
    "metrics": _files("several metrics"),
    "min": _files("`minReplicas`, `minReplicaCount`; 0 is refused: nothing would count what waits"),
    "max": _files("`maxReplicas`, `maxReplicaCount`"),
    "sync_s": _refused("a setting of the whole cluster: --horizontal-pod-autoscaler-sync-period", 15),
    "tolerance": _files("`tolerance` of both directions (Kubernetes 1.33 or newer) unless it is 0.1"),
    "stabilization_up_s": _files("`stabilizationWindowSeconds`"),
    "stabilization_down_s": _files("`stabilizationWindowSeconds`"),
    "up": _files("`behavior.scaleUp`"),
    "down": _files("`behavior.scaleDown`"),
    "polling_s": _files("`pollingInterval`"),
    "cooldown_s": _files("`cooldownPeriod`"),
    "initial_cooldown_s": _files("`initialCooldownPeriod`"),
    "activation": _files("`activationThreshold`"),
    "idle": _refused("`idleReplicaCount` of KEDA is 0 or nothing"),
    "schedule": _refused("times of a run are no times of a day"),
}
"""Keys of an autoscaler."""


class Balancer(NamedTuple):
    """Who routes by a mode: the directive of nginx before plain workers, the word of Dynamo's frontend."""

    nginx: str | None
    dynamo: str | None


MODES: Mapping[str, Balancer] = {
    "round_robin": Balancer("", "round-robin"),
    "random": Balancer("random", "random"),
    "least_requests": Balancer("least_conn", "least-loaded"),
    "power_of_two": Balancer("random two least_conn", None),
    "kv_router": Balancer(None, "kv"),
}
"""Routing modes that files can say. nginx and Dynamo break ties of ``least_requests`` in their own order."""
