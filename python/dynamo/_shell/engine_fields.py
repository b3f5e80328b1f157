"""The types of engine arguments, and the classes of those that are objects.

Code generated from the tables of gocore/engineargs by go generate ./gocore/engineargs. DO NOT EDIT.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, TypeAlias, TypedDict

from dynamo._shell.fields import FieldSet

EngineType: TypeAlias = Literal["vllm", "sglang", "trtllm"]
WorkerType: TypeAlias = Literal["aggregated", "prefill", "decode"]
AicShapes: TypeAlias = Literal["all", "grid"]
KvTransferTimingMode: TypeAlias = Literal["full_prompt", "destination_missing"]
KvTransferLanes: TypeAlias = Literal["pair", "unlimited"]
PreemptionMode: TypeAlias = Literal["lifo", "fifo"]
RouterQueuePolicy: TypeAlias = Literal["fcfs", "lcfs", "wspt"]
HostLink: TypeAlias = Literal["pcie3", "pcie4", "pcie5", "pcie6", "nvlink-c2c"]
EvictionBackend: TypeAlias = Literal["lineage", "lru", "multi_lru"]
Scheduler: TypeAlias = Literal["dynamo", "vllm", "vllm-0.33", "vllm-0.28", "sglang", "sglang-0.5"]
PassTime: TypeAlias = Literal["separate", "fused"]
DpRouting: TypeAlias = Literal["vllm", "round_robin", "router"]
KvCacheDtype: TypeAlias = Literal["auto", "fp8"]
TimingModel: TypeAlias = Literal["polynomial", "fixed", "interpolated", "aic"]
KvPoolEstimate: TypeAlias = Literal["sdk", "engine"]
SchedulePolicy: TypeAlias = Literal["fifo", "fcfs", "lpm"]
WritePolicy: TypeAlias = Literal["write_through", "write_through_selective", "write_back"]
EvictionPolicy: TypeAlias = Literal["lru", "arc"]
StoragePrefetchPolicy: TypeAlias = Literal["best_effort", "wait_complete", "timeout"]


class ReasoningFields(TypedDict):
    """The fields of ReasoningConfig, for a dict in its place."""

    start_thinking_token_id: int
    end_thinking_token_id: int
    thinking_ratio: float


class ReasoningConfig(FieldSet):
    """How a live engine thinks before it answers; offline replay ignores it.

    Args:
        start_thinking_token_id: The token that begins the thinking.
        end_thinking_token_id: The token that ends the thinking.
        thinking_ratio: Fraction of the output that is spent between these tokens, 0 to 1.

    Raises TypeError for a wrong type, ValueError for a value out of range.
    """

    __slots__ = ()
    _section: ClassVar[str] = "reasoning"

    def __init__(
        self,
        start_thinking_token_id: int,
        end_thinking_token_id: int,
        thinking_ratio: float,
    ) -> None:
        given = {
            "start_thinking_token_id": start_thinking_token_id,
            "end_thinking_token_id": end_thinking_token_id,
            "thinking_ratio": thinking_ratio,
        }
        super().__init__(given)


class SglangFields(TypedDict, total=False):
    """The fields of SglangArgs, for a dict in its place."""

    schedule_policy: SchedulePolicy | None
    page_size: int | None
    max_prefill_tokens: int | None
    chunked_prefill_size: int | None
    clip_max_new_tokens: int | None
    schedule_conservativeness: float | None
    reference_quirks: bool | None
    overlap_schedule: bool | None
    ignore_eos: bool | None
    enable_mixed_chunk: bool | None
    scheduler_recv_interval: int | None
    num_reserved_decode_tokens: int | None


class SglangArgs(FieldSet):
    """Settings of a simulated SGLang engine; None means its default.

    Args:
        schedule_policy: Order of the waiting queue: ``"fifo"``, also called ``"fcfs"``, or ``"lpm"``, longest prefix
            hit first. Default: ``"fifo"``.
        page_size: Tokens of a page of the radix cache, another name of ``block_size``. Default: 1.
        max_prefill_tokens: Prompt tokens of one prefill batch. Default: 16384.
        chunked_prefill_size: The longest piece of a prompt that one pass computes, in tokens. It is a multiple of the
            page size. Default: 8192.
        clip_max_new_tokens: Most output tokens that admission reserves room for. Default: 4096.
        schedule_conservativeness: Factor on the share of the remaining output that admission reserves. Default: 1.
        reference_quirks: False corrects two slips of the reference: a request that is retracted then returns exactly
            the slots that it alone holds. Default: True. Works with ``scheduler`` dynamo.
        overlap_schedule: Compose a batch while the one before it runs, as a stock server does. Default: True. Works
            with ``scheduler`` sglang.
        ignore_eos: Requests never end early, so the whole outputs of running requests are reserved. Default: False.
            Works with ``scheduler`` sglang.
        enable_mixed_chunk: Running requests decode in the batches that compute prompts, instead of waiting for them.
            Default: False. Works with ``scheduler`` sglang.
        scheduler_recv_interval: Look for new requests after this many decode batches, and after each prefill batch.
            Default: 1. Works with ``scheduler`` sglang.
        num_reserved_decode_tokens: Tokens that a decode worker keeps free for each request that has room on it.
            Default: 512. Works with ``scheduler`` sglang.

    Raises TypeError for a wrong type, ValueError for a value out of range.
    """

    __slots__ = ()
    _section: ClassVar[str] = "sglang"

    def __init__(
        self,
        schedule_policy: SchedulePolicy | None = None,
        page_size: int | None = None,
        max_prefill_tokens: int | None = None,
        chunked_prefill_size: int | None = None,
        clip_max_new_tokens: int | None = None,
        schedule_conservativeness: float | None = None,
        *,
        reference_quirks: bool | None = None,
        overlap_schedule: bool | None = None,
        ignore_eos: bool | None = None,
        enable_mixed_chunk: bool | None = None,
        scheduler_recv_interval: int | None = None,
        num_reserved_decode_tokens: int | None = None,
    ) -> None:
        given = {
            "schedule_policy": schedule_policy,
            "page_size": page_size,
            "max_prefill_tokens": max_prefill_tokens,
            "chunked_prefill_size": chunked_prefill_size,
            "clip_max_new_tokens": clip_max_new_tokens,
            "schedule_conservativeness": schedule_conservativeness,
            "reference_quirks": reference_quirks,
            "overlap_schedule": overlap_schedule,
            "ignore_eos": ignore_eos,
            "enable_mixed_chunk": enable_mixed_chunk,
            "scheduler_recv_interval": scheduler_recv_interval,
            "num_reserved_decode_tokens": num_reserved_decode_tokens,
        }
        super().__init__({name: value for name, value in given.items() if value is not None})


class HostCacheFields(TypedDict, total=False):
    """The fields of HostCacheArgs, for a dict in its place."""

    num_blocks: int | None
    write_policy: WritePolicy | None
    load_back_threshold: int | None
    eviction_policy: EvictionPolicy | None
    blocks_per_chunk: int | None
    store_threshold: int | None
    offload_prompt_only: bool | None
    shared: bool | None
    shared_workers: int | None
    shared_ms_per_block: float | None
    storage_blocks: int | None
    storage_gb: float | None
    storage_read_ms_per_block: float | None
    storage_write_ms_per_block: float | None
    storage_read_gbps: float | None
    storage_write_gbps: float | None
    storage_latency_ms: float | None
    storage_shared_ms_per_block: float | None
    storage_prefetch_policy: StoragePrefetchPolicy | None
    storage_prefetch_threshold: int | None
    storage_prefetch_timeout_base: float | None
    storage_prefetch_timeout_per_ki_token: float | None
    storage_prefetch_timeout_max: float | None
    load_ms_per_block: float | None
    store_ms_per_block: float | None
    latency_ms: float | None


class HostCacheArgs(FieldSet):
    """A tier of host memory below the KV blocks; None means its default.

    Args:
        num_blocks: KV blocks of the host, unless an argument beside host_cache says how large it is.
        write_policy: When SGLang copies blocks to the host: ``"write_through"``, once they are in the cache;
            ``"write_through_selective"``, once a second request has them; or ``"write_back"``, when they are evicted.
            Default: ``"write_through"``.
        load_back_threshold: The fewest tokens that SGLang loads back; fewer are computed again. Default: 10.
        eviction_policy: Which chunk leaves the host of vLLM: ``"lru"``, the one used least recently, or ``"arc"``, by
            adaptive replacement. Default: ``"lru"``.
        blocks_per_chunk: Blocks that vLLM stores, looks up and evicts as one. Default: 1.
        store_threshold: vLLM stores a chunk when it is computed for this time; 0 and 1 are the first. Default: 0.
        offload_prompt_only: Whether vLLM stores prompts only, not generated tokens. Default: True.
        shared: Whether all workers share the memory, as a store beside them: num_blocks are those of all then. With
            vLLM's rules. Default: False.
        shared_workers: With shared, how many workers follow each other that are on one node and share its memory:
            num_blocks are those of a node then. Without it, all workers do.
        shared_ms_per_block: Milliseconds that a shared store takes for one block, stored or loaded, one at a time for
            all workers. Default: 0.
        storage_blocks: KV blocks of a disk or an object store behind the host, which all workers read and write.
        storage_gb: GB (10^9 bytes) of the storage instead.
        storage_read_ms_per_block: Milliseconds in which a worker reads one block from the storage. Default: 0.
        storage_write_ms_per_block: Milliseconds in which it writes one. Default: 0.
        storage_read_gbps: GB/s in which a worker reads, instead of milliseconds.
        storage_write_gbps: GB/s in which it writes.
        storage_latency_ms: Milliseconds of each read and write, besides those of its blocks. Default: 0.
        storage_shared_ms_per_block: Milliseconds that the storage takes for one block, of all reads and writes that run
            at the same time. Default: 0.
        storage_prefetch_policy: What a prompt does that is at the head of the queue while it is read from the storage,
            as SGLang names it: ``"best_effort"`` goes on with what has come, ``"wait_complete"`` waits, ``"timeout"``
            waits, but not for ever. Default: ``"timeout"``.
        storage_prefetch_threshold: The fewest tokens that are read from the storage. Default: 256.
        storage_prefetch_timeout_base: With timeout, the seconds that a prompt waits, and Default: 2.
        storage_prefetch_timeout_per_ki_token: those for each 1,024 tokens besides, but Default: 0.1.
        storage_prefetch_timeout_max: no more than these; SGLang's defaults. Default: 30.
        load_ms_per_block: Milliseconds to load one block. Default: 0.
        store_ms_per_block: Milliseconds to store one block. Default: 0.
        latency_ms: Milliseconds of each copy, besides those of its blocks. Default: 0.

    Raises TypeError for a wrong type, ValueError for a value out of range.
    """

    __slots__ = ()
    _section: ClassVar[str] = "host_cache"

    def __init__(
        self,
        num_blocks: int | None = None,
        write_policy: WritePolicy | None = None,
        load_back_threshold: int | None = None,
        *,
        eviction_policy: EvictionPolicy | None = None,
        blocks_per_chunk: int | None = None,
        store_threshold: int | None = None,
        offload_prompt_only: bool | None = None,
        shared: bool | None = None,
        shared_workers: int | None = None,
        shared_ms_per_block: float | None = None,
        storage_blocks: int | None = None,
        storage_gb: float | None = None,
        storage_read_ms_per_block: float | None = None,
        storage_write_ms_per_block: float | None = None,
        storage_read_gbps: float | None = None,
        storage_write_gbps: float | None = None,
        storage_latency_ms: float | None = None,
        storage_shared_ms_per_block: float | None = None,
        storage_prefetch_policy: StoragePrefetchPolicy | None = None,
        storage_prefetch_threshold: int | None = None,
        storage_prefetch_timeout_base: float | None = None,
        storage_prefetch_timeout_per_ki_token: float | None = None,
        storage_prefetch_timeout_max: float | None = None,
        load_ms_per_block: float | None = None,
        store_ms_per_block: float | None = None,
        latency_ms: float | None = None,
    ) -> None:
        given = {
            "num_blocks": num_blocks,
            "write_policy": write_policy,
            "load_back_threshold": load_back_threshold,
            "eviction_policy": eviction_policy,
            "blocks_per_chunk": blocks_per_chunk,
            "store_threshold": store_threshold,
            "offload_prompt_only": offload_prompt_only,
            "shared": shared,
            "shared_workers": shared_workers,
            "shared_ms_per_block": shared_ms_per_block,
            "storage_blocks": storage_blocks,
            "storage_gb": storage_gb,
            "storage_read_ms_per_block": storage_read_ms_per_block,
            "storage_write_ms_per_block": storage_write_ms_per_block,
            "storage_read_gbps": storage_read_gbps,
            "storage_write_gbps": storage_write_gbps,
            "storage_latency_ms": storage_latency_ms,
            "storage_shared_ms_per_block": storage_shared_ms_per_block,
            "storage_prefetch_policy": storage_prefetch_policy,
            "storage_prefetch_threshold": storage_prefetch_threshold,
            "storage_prefetch_timeout_base": storage_prefetch_timeout_base,
            "storage_prefetch_timeout_per_ki_token": storage_prefetch_timeout_per_ki_token,
            "storage_prefetch_timeout_max": storage_prefetch_timeout_max,
            "load_ms_per_block": load_ms_per_block,
            "store_ms_per_block": store_ms_per_block,
            "latency_ms": latency_ms,
        }
        super().__init__({name: value for name, value in given.items() if value is not None})


class TrtllmFields(TypedDict, total=False):
    """The fields of TrtllmArgs, for a dict in its place."""

    capacity_scheduler_policy: str | None


class TrtllmArgs(FieldSet):
    """Settings of a simulated TensorRT-LLM engine; None means its default.

    Args:
        capacity_scheduler_policy: Only ``"guaranteed_no_evict"``: a request is admitted when its whole output has room.
            Default: ``"guaranteed_no_evict"``.

    Raises TypeError for a wrong type, ValueError for a value out of range.
    """

    __slots__ = ()
    _section: ClassVar[str] = "trtllm"

    def __init__(
        self,
        capacity_scheduler_policy: str | None = None,
    ) -> None:
        given = {
            "capacity_scheduler_policy": capacity_scheduler_policy,
        }
        super().__init__({name: value for name, value in given.items() if value is not None})


class EngineFields(TypedDict, total=False):
    """The keywords of MockEngineArgs and their types, also for a dict in its place: see help(MockEngineArgs)."""

    engine_type: EngineType
    num_gpu_blocks: int | None
    num_gpu_blocks_override: int | None
    block_size: int
    max_model_len: int | None
    max_num_seqs: int | None
    max_num_batched_tokens: int | None
    enable_prefix_caching: bool
    enable_chunked_prefill: bool
    speedup_ratio: float
    decode_speedup_ratio: float
    dp_size: int
    startup_time: float | None
    startup_time_cv: float
    worker_type: WorkerType | None
    planner_profile_data: str | os.PathLike[str] | None
    aic_backend: str | None
    aic_system: str | None
    aic_backend_version: str | None
    aic_tp_size: int | None
    aic_model_path: str | os.PathLike[str] | None
    aic_moe_tp_size: int | None
    aic_moe_ep_size: int | None
    aic_attention_dp_size: int | None
    aic_nextn: int | None
    aic_nextn_accept_rates: str | None
    aic_mtp_seed: int
    aic_gemm_dtype: str | None
    aic_moe_dtype: str | None
    aic_fmha_dtype: str | None
    aic_kv_cache_dtype: str | None
    aic_comm_dtype: str | None
    aic_shapes: AicShapes
    gpu_memory_utilization: float | None
    mem_fraction_static: float | None
    free_gpu_memory_fraction: float | None
    enable_local_indexer: bool
    bootstrap_port: int | None
    handoff_session_timeout_ms: int
    kv_bytes_per_token: int | None
    kv_transfer_bandwidth: float | None
    kv_transfer_timing_mode: KvTransferTimingMode
    kv_transfer_ms_per_block: float | None
    kv_transfer_lanes: KvTransferLanes
    reasoning: ReasoningConfig | ReasoningFields | Mapping[str, Any] | None
    response_replay_trace_path: str | os.PathLike[str] | None
    zmq_kv_events_port: int | None
    zmq_replay_port: int | None
    preemption_mode: PreemptionMode
    router_queue_policy: RouterQueuePolicy | None
    sglang: SglangArgs | SglangFields | Mapping[str, Any] | None
    trtllm: TrtllmArgs | TrtllmFields | Mapping[str, Any] | None
    num_g2_blocks: int | None
    num_g3_blocks: int | None
    offload_batch_size: int | None
    bandwidth_g1_to_g2_gbps: float | None
    bandwidth_g2_to_g1_gbps: float | None
    bandwidth_g2_to_g3_gbps: float | None
    bandwidth_g3_to_g2_gbps: float | None
    enable_g4_storage: bool
    bandwidth_g2_to_g4_gbps: float | None
    bandwidth_g4_to_g2_gbps: float | None
    num_host_blocks: int | None
    host_cache_gb: float | None
    host_offload_d2h_bandwidth_gbps: float | None
    host_offload_h2d_bandwidth_gbps: float | None
    host_link: HostLink | None
    watermark: float
    eviction_backend: EvictionBackend
    scheduler: Scheduler
    async_scheduling: bool
    pass_time: PassTime
    scheduler_reserve_full_isl: bool
    long_prefill_token_threshold: int
    long_prefill_token_threshold_adaptive: bool
    prefill_schedule_interval: int
    max_num_active_seqs: int | None
    dp_routing: DpRouting
    kv_cache_groups: Sequence[Mapping[str, Any]] | None
    prefix_cache_retention_interval: int | None
    model: str | None
    model_config: str | os.PathLike[str] | None
    model_weights_gib: float | None
    gpu_memory_gib: float | None
    kv_cache_memory_bytes: int | None
    kv_cache_dtype: KvCacheDtype
    host_cache: HostCacheArgs | HostCacheFields | Mapping[str, Any] | None
    timing_model: TimingModel | None
    fixed_prefill_ms: float | None
    fixed_decode_ms: float | None
    step_overhead_us: float
    seq_overhead_us: float
    request_overhead_us: float
    request_token_overhead_us: float
    prefill_scale: float
    decode_scale: float
    kv_pool_scale: float
    kv_pool_estimate: KvPoolEstimate
    calibration: str | os.PathLike[str] | None
    engine_version: str | None
