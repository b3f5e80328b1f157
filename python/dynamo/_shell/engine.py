"""The classes that describe a simulated engine.

Building one checks names, types and ranges at once and never loads the Go extension, so arguments may be made before a
process forks. A class and a plain dict of the same fields are accepted alike wherever engine arguments are.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, TypeAlias, TypedDict

from dynamo._core import values
from dynamo._shell.draft_rates import accept_rates
from dynamo._shell.fields import Field, FieldSet, FieldSignature, by_name, fields_of, parse
from dynamo._shell.tables import table
from dynamo._shell.unpack import Unpack

# What only JSON may say: older spellings of worker_type, and a mark that other tools leave.
_JSON_ONLY = ("is_prefill", "is_decode", "has_perf_model")
_POOL_SIZE = ("num_gpu_blocks", "num_gpu_blocks_override")


EngineType: TypeAlias = Literal["vllm", "sglang", "trtllm"]
WorkerType: TypeAlias = Literal["aggregated", "prefill", "decode"]
TransferTiming: TypeAlias = Literal["full_prompt", "destination_missing"]
PreemptionMode: TypeAlias = Literal["lifo", "fifo"]
QueuePolicy: TypeAlias = Literal["fcfs", "lcfs", "wspt"]
EvictionBackend: TypeAlias = Literal["lineage", "lru", "multi_lru"]
Scheduler: TypeAlias = Literal["dynamo", "vllm", "vllm-0.28", "sglang", "sglang-0.5"]
SchedulePolicy: TypeAlias = Literal["fifo", "fcfs", "lpm"]


class ReasoningFields(TypedDict):
    """The fields of ReasoningConfig, for a dict in its place."""

    start_thinking_token_id: int
    end_thinking_token_id: int
    thinking_ratio: float


class ReasoningConfig(FieldSet):
    """How a live engine thinks before it answers; offline replay does not look at it.

    Args:
        start_thinking_token_id: The token that begins the thinking.
        end_thinking_token_id: The token that ends it.
        thinking_ratio: Fraction of the output that is spent between the two, 0 to 1.

    Raises TypeError for a wrong type, ValueError for a value out of range.
    """

    __slots__ = ()
    _section: ClassVar[str] = "reasoning"

    def __init__(self, start_thinking_token_id: int, end_thinking_token_id: int, thinking_ratio: float) -> None:
        super().__init__(
            {
                "start_thinking_token_id": start_thinking_token_id,
                "end_thinking_token_id": end_thinking_token_id,
                "thinking_ratio": thinking_ratio,
            }
        )


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


class SglangArgs(FieldSet):
    """Settings of a simulated SGLang engine; None means its default.

    Args:
        schedule_policy: Order of the waiting queue: ``"fifo"`` (default, also called ``"fcfs"``) or ``"lpm"``, longest
            prefix hit first.
        page_size: Tokens of a page of the radix cache, another name of ``block_size``; 1 by default.
        max_prefill_tokens: Prompt tokens of one prefill batch; 16384 by default.
        chunked_prefill_size: The longest piece of a prompt that one pass computes, in tokens; 8192 by default. It is a
            multiple of the page size.
        clip_max_new_tokens: Most output tokens that admission reserves room for; 4096 by default.
        schedule_conservativeness: Factor on the share of the remaining output that admission reserves; 1.0 by default.
        reference_quirks: False corrects two slips of the reference: a request that is retracted then returns exactly
            the slots that it alone holds. True by default.
        overlap_schedule: Compose a batch while the one before it runs, as a stock server does; True by default. This
            one and the next have an effect with ``scheduler="sglang"`` only.
        ignore_eos: Requests never end early, so the whole outputs of running requests are reserved; False by default.
        enable_mixed_chunk: False. True is refused: such batches are not simulated.
        scheduler_recv_interval: Look for new requests after this many decode batches, and after each prefill batch; 1 by
            default. With ``scheduler="sglang"`` only.

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
        }
        super().__init__({name: value for name, value in given.items() if value is not None})


class TrtllmFields(TypedDict, total=False):
    """The fields of TrtllmArgs, for a dict in its place."""

    capacity_scheduler_policy: str | None


class TrtllmArgs(FieldSet):
    """Settings of a simulated TensorRT-LLM engine; None means its default.

    Args:
        capacity_scheduler_policy: Only ``"guaranteed_no_evict"`` (default): a request is admitted when its whole output
            has room.

    Raises TypeError for a wrong type.
    """

    __slots__ = ()
    _section: ClassVar[str] = "trtllm"

    def __init__(self, capacity_scheduler_policy: str | None = None) -> None:
        given = {"capacity_scheduler_policy": capacity_scheduler_policy}
        super().__init__({name: value for name, value in given.items() if value is not None})


class EngineFields(TypedDict, total=False):
    """The keywords of MockEngineArgs and their types, also for a dict in its place: see help(MockEngineArgs)."""

    engine_type: EngineType
    num_gpu_blocks: int | None
    num_gpu_blocks_override: int | None
    block_size: int
    max_num_seqs: int | None
    max_num_batched_tokens: int | None
    enable_prefix_caching: bool
    enable_chunked_prefill: bool
    speedup_ratio: float
    decode_speedup_ratio: float
    dp_size: int
    startup_time: float | None
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
    gpu_memory_utilization: float | None
    mem_fraction_static: float | None
    free_gpu_memory_fraction: float | None
    enable_local_indexer: bool
    bootstrap_port: int | None
    handoff_session_timeout_ms: int
    kv_bytes_per_token: int | None
    kv_transfer_bandwidth: float | None
    kv_transfer_timing_mode: TransferTiming
    reasoning: ReasoningConfig | ReasoningFields | Mapping[str, Any] | None
    response_replay_trace_path: str | os.PathLike[str] | None
    zmq_kv_events_port: int | None
    zmq_replay_port: int | None
    preemption_mode: PreemptionMode
    router_queue_policy: QueuePolicy | None
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
    watermark: float
    eviction_backend: EvictionBackend
    scheduler: Scheduler
    async_scheduling: bool
    scheduler_reserve_full_isl: bool
    long_prefill_token_threshold: int
    step_overhead_us: float
    seq_overhead_us: float
    request_overhead_us: float
    prefill_scale: float
    decode_scale: float
    kv_pool_scale: float
    calibration: str | None


_POSITIONAL = tuple(name for name in EngineFields.__annotations__ if name != "num_gpu_blocks_override")


class MockEngineArgs(FieldSet):
    """One simulated engine: ``MockEngineArgs(block_size=64, num_gpu_blocks=4096)``.

    The keywords are those of ``EngineFields``, whose order positional arguments follow (without
    ``num_gpu_blocks_override``); what is left out has its default. A dict of them does as well
    wherever engine arguments are taken.

    Args:
        engine_type: ``"vllm"``, ``"sglang"`` or ``"trtllm"``.
        num_gpu_blocks: KV blocks of the pool. With an ``aic_backend`` it is estimated unless given.
        num_gpu_blocks_override: Another name of num_gpu_blocks, as vLLM's command line has it.
        block_size: Tokens of a KV block; 0 takes that of the engine: vLLM 64, SGLang 1 (or its page_size), TensorRT-LLM
            32.
        max_num_seqs: Most requests that run at the same time; None is unlimited.
        max_num_batched_tokens: Most tokens of one pass; None is unlimited.
        enable_prefix_caching: Whether blocks are kept for later prompts that begin alike.
        enable_chunked_prefill: Whether a prompt may be spread over several passes.
        speedup_ratio: Divides all durations.
        decode_speedup_ratio: Divides decode durations once more.
        dp_size: Data-parallel ranks of a live worker, an engine each; replay takes 1 only.
        startup_time: Seconds before a live worker serves.
        worker_type: ``"aggregated"``, or ``"prefill"`` or ``"decode"`` in a deployment of two pools.
        planner_profile_data: Measured durations: a path of an NPZ file or of a folder that a profiler wrote.
        aic_backend: Take durations from the AIC SDK, for this engine: ``"vllm"``, ``"sglang"``, ``"trtllm"``.
        aic_system: The GPU, such as ``"h200_sxm"`` (default).
        aic_backend_version: Version of that engine.
        aic_tp_size: Tensor parallelism, and so GPUs per worker in the report; 1 by default.
        aic_model_path: A model that the SDK knows, or a folder with its config.json.
        aic_moe_tp_size: Tensor parallelism of experts.
        aic_moe_ep_size: Expert parallelism.
        aic_attention_dp_size: Data parallelism of attention; 1 by default.
        aic_nextn: Draft tokens of speculative decoding, 1 to 5, with any timing model.
        aic_nextn_accept_rates: Probability that each of them is accepted if those before it were, as text:
            ``"0.85,0.3"``.
        aic_mtp_seed: Decides which are accepted; each worker adds its number.
        aic_gemm_dtype: Data type of matrix products, for AIC; that of the model by default, as for the next four.
        aic_moe_dtype: Data type of experts.
        aic_fmha_dtype: Data type of attention.
        aic_kv_cache_dtype: Data type of the KV cache.
        aic_comm_dtype: Data type of communication.
        gpu_memory_utilization: Fraction of GPU memory that vLLM uses, to estimate num_gpu_blocks; 0.9 by default.
        mem_fraction_static: The same for SGLang; 0.88 by default.
        free_gpu_memory_fraction: The same for TensorRT-LLM, of the memory beside the model; 0.9 by default.
        enable_local_indexer: Whether live workers keep an index of their own KV events.
        bootstrap_port: Port at which a live prefill worker hands requests over.
        handoff_session_timeout_ms: Milliseconds after which a live hand-off that does not go on is given up.
        kv_bytes_per_token: Bytes of a token's KV, for transfers from prefill to decode workers.
        kv_transfer_bandwidth: GB/s between them; None and 0 make transfers take no time.
        kv_transfer_timing_mode: ``"full_prompt"``, or ``"destination_missing"`` to move only what the decode worker has
            not cached.
        reasoning: How a live engine thinks: a ReasoningConfig or a dict of its fields.
        response_replay_trace_path: JSONL file with answers that live workers repeat.
        zmq_kv_events_port: Port at which a live worker publishes KV events in its engine's own format.
        zmq_replay_port: Port at which it is asked for missed ones.
        preemption_mode: When blocks run short, ``"lifo"`` preempts the request admitted last, ``"fifo"`` the first.
        router_queue_policy: Order of the router's queue, before that of its own configuration: ``"fcfs"``, ``"lcfs"``
            or ``"wspt"``.
        sglang: Settings of SGLang: an SglangArgs or a dict of its fields.
        trtllm: Settings of TensorRT-LLM: a TrtllmArgs or a dict of its fields.
        num_g2_blocks: KV blocks in host memory, for live workers as all offload tiers.
        num_g3_blocks: KV blocks on disk; they need num_g2_blocks.
        offload_batch_size: Blocks that are moved together.
        bandwidth_g1_to_g2_gbps: GB/s from GPU to host.
        bandwidth_g2_to_g1_gbps: GB/s from host to GPU.
        bandwidth_g2_to_g3_gbps: GB/s from host to disk.
        bandwidth_g3_to_g2_gbps: GB/s from disk to host.
        enable_g4_storage: Whether there is object storage; it needs num_g2_blocks.
        bandwidth_g2_to_g4_gbps: GB/s from host to object storage.
        bandwidth_g4_to_g2_gbps: GB/s from object storage to host.
        watermark: Fraction of the pool that admission must leave free, 0 to less than 1.
        eviction_backend: Which cached block is evicted: ``"lineage"`` (leaves first), ``"lru"`` or ``"multi_lru"``.
        scheduler: Whose rules the engine schedules by: ``"dynamo"`` (default), those of Dynamo's mocker, or those of
            the engine, ``"vllm"`` or ``"sglang"`` for the newest release known and ``"vllm-0.28"`` or
            ``"sglang-0.5"`` for that one. The next three are vLLM's.
        async_scheduling: Whether a pass is composed while the one before it runs, as a stock server does.
        scheduler_reserve_full_isl: Whether a request is admitted only if blocks for its whole prompt are free.
        long_prefill_token_threshold: Most tokens that one request computes in a pass; 0 (default) is no limit.
        step_overhead_us: Host time of each pass, in microseconds; 0 by default, as the next two.
        seq_overhead_us: Host time of each pass for each request in it, in microseconds.
        request_overhead_us: Microseconds from the worker to the scheduler, for each request.
        prefill_scale: Factor on the predicted time of prompts; 1 by default.
        decode_scale: Factor on the predicted time of decode steps; 1 by default.
        kv_pool_scale: Factor on an estimated KV pool; 1 by default.
        calibration: File with a profile that dynamo.calibrate wrote, or ``"auto"`` for the profile that comes with this
            package: it sets those of the six fields above that are left out.

    Every field can be read. ``num_gpu_blocks``, ``enable_prefix_caching``, ``worker_type``, the ``aic_*`` fields and
    the memory fractions can be set.

    Raises TypeError for an unknown keyword or a wrong type, ValueError for a value out of range.
    """

    __slots__ = ()
    __signature__ = FieldSignature(EngineFields, _POSITIONAL)
    _settable = frozenset(
        {
            "num_gpu_blocks",
            "enable_prefix_caching",
            "worker_type",
            "gpu_memory_utilization",
            "mem_fraction_static",
            "free_gpu_memory_fraction",
            *(name for name in EngineFields.__annotations__ if name.startswith("aic_")),
        }
    )

    def __init__(self, *positional: Any, **given: Unpack[EngineFields]) -> None:
        for name in given:
            if name in _JSON_ONLY:
                raise TypeError(f"unknown field {values.show(name)}: it can only be given in JSON")
        super().__init__(by_name(_POSITIONAL, positional, given))

    @staticmethod
    def from_json(text: str) -> MockEngineArgs:
        """Engine arguments from the text of a JSON object. Raises ValueError for anything wrong in it."""
        return MockEngineArgs._of(parse(fields_of(None), text))

    def copy(self) -> MockEngineArgs:
        """An independent copy."""
        return MockEngineArgs._of(dict(self._given))

    def with_overrides(self, **changes: Unpack[EngineFields]) -> MockEngineArgs:
        """A copy with these fields changed; None keeps a field as it is."""
        changed = MockEngineArgs(**{name: value for name, value in changes.items() if value is not None})  # type: ignore[arg-type]
        return MockEngineArgs._of(self._merged(changed._given))

    def is_prefill(self) -> bool:
        """Whether this engine only processes prompts."""
        return bool(self.worker_type == "prefill")

    def is_decode(self) -> bool:
        """Whether this engine only generates."""
        return bool(self.worker_type == "decode")

    def _keep(self, given: dict[str, Any]) -> None:
        _check_page_size(given)
        super()._keep(given)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _POOL_SIZE and name in self._settable:
            self._keep(self._merged(MockEngineArgs(num_gpu_blocks=value)._given))
        else:
            super().__setattr__(name, value)

    def _merged(self, changes: Mapping[str, Any]) -> dict[str, Any]:
        """The given values with changes; a new pool size replaces both of its spellings."""
        kept = dict(self._given)
        if any(name in changes for name in _POOL_SIZE):
            for name in _POOL_SIZE:
                kept.pop(name, None)
        return {**kept, **changes}

    def _read(self, field: Field) -> Any:
        if field.name in _POOL_SIZE:
            return self._pool_size()
        value = super()._read(field)
        if field.name == "block_size" and not value:
            return self._default_block_size()
        if field.name == "worker_type" and self._given.get("worker_type") is None:
            return self._legacy_worker_type() or field.default
        if field.name == "aic_nextn_accept_rates" and self.aic_nextn is not None:
            return accept_rates(value, self.aic_nextn)
        return value

    def _meaning(self) -> dict[str, Any]:
        return {name: value for name, value in super()._meaning().items() if name not in _JSON_ONLY}

    def _pool_size(self) -> int:
        sizes = (self._given.get(name) for name in _POOL_SIZE)
        default: int = self._fields()["num_gpu_blocks"].default
        return next((size for size in sizes if size is not None), default)

    def _default_block_size(self) -> int:
        engine = self.engine_type
        page_size: int | None = self.sglang.page_size if engine == "sglang" and self.sglang is not None else None
        default: int = table()["block_size_default"][engine]
        return default if page_size is None else page_size

    def _legacy_worker_type(self) -> str | None:
        return next((kind for kind in ("prefill", "decode") if self._given.get(f"is_{kind}")), None)


def _check_page_size(given: Mapping[str, Any]) -> None:
    """Refuses two different sizes of a page of SGLang's cache."""
    block_size, sglang = given.get("block_size"), given.get("sglang")
    if given.get("engine_type") != "sglang" or not block_size or sglang is None:
        return
    if sglang.page_size not in (None, block_size):
        raise ValueError(f"sglang.page_size: got {sglang.page_size}, want the same as block_size, {block_size}")
