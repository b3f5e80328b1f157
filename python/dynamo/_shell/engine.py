"""The class that describes a simulated engine.

Building one checks names, types and ranges at once and never loads the Go extension, so arguments may be made before a
process forks. A class and a plain dict of the same fields are accepted alike wherever engine arguments are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dynamo._core import values
from dynamo._shell.draft_rates import accept_rates
from dynamo._shell.engine_fields import EngineFields
from dynamo._shell.fields import Field, FieldSet, FieldSignature, fields_of, parse
from dynamo._shell.tables import table
from dynamo._shell.unpack import Unpack

_POOL_SIZE = ("num_gpu_blocks", "num_gpu_blocks_override")


class MockEngineArgs(FieldSet):
    """One simulated engine: ``MockEngineArgs(block_size=64, num_gpu_blocks=4096)``.

    The keywords are those of ``EngineFields``, whose order positional arguments follow (without
    ``num_gpu_blocks_override``); what is left out has its default. A dict of them does as well
    wherever engine arguments are taken.

    Args:
        engine_type: The engine that is simulated.
        num_gpu_blocks: KV blocks of the pool. With an ``aic_backend`` it is estimated unless given.
        num_gpu_blocks_override: Another name of num_gpu_blocks, as vLLM's command line has it.
        block_size: Tokens of a KV block; 0 takes that of the engine: vLLM 64, SGLang 1 (or its page_size), TensorRT-LLM
            32.
        max_model_len: Most tokens of a prompt and its output together: outputs end there, and prompts that reach it are
            rejected.
        max_num_seqs: Most requests that run at the same time; None is unlimited.
        max_num_batched_tokens: Most tokens of one pass; None is unlimited.
        enable_prefix_caching: Whether blocks are kept for later prompts that begin with the same tokens. Works with
            ``engine_type`` vllm or trtllm.
        enable_chunked_prefill: Whether a prompt may be spread over several passes. Works with ``engine_type`` vllm or
            trtllm.
        speedup_ratio: Divides all durations.
        decode_speedup_ratio: Divides decode durations once more.
        dp_size: Data-parallel ranks: with scheduler vllm or sglang, ranks that run their passes together; otherwise, on
            live workers and in the server, an engine each.
        startup_time: Seconds before a live worker serves, or one that a planner has started. Default: 0. Works with
            live workers, and runs with a planner.
        startup_time_cv: Lets startup_time vary for workers that a planner starts: standard deviation of lognormal
            times, divided by their mean, which is startup_time. Works with runs with a planner.
        worker_type: ``"aggregated"``, or ``"prefill"`` or ``"decode"`` in a deployment of two pools.
        planner_profile_data: Measured durations: the path of an NPZ file or of a folder that a profiler wrote. Works
            with no ``aic_backend``.
        aic_backend: Take durations from the AIC SDK, for this engine: ``"vllm"``, ``"sglang"`` or ``"trtllm"``.
        aic_system: The GPU, such as ``"h200_sxm"``. Default: ``"h200_sxm"``. Works with ``aic_backend``.
        aic_backend_version: Version of the engine; None takes the version that the SDK is asked for by default. Works
            with ``aic_backend``.
        aic_tp_size: Tensor parallelism, and so GPUs per worker in the report. Default: 1.
        aic_model_path: A model that the SDK knows, or a folder with its config.json. Works with ``aic_backend``.
        aic_moe_tp_size: Tensor parallelism of experts. Works with ``aic_backend``.
        aic_moe_ep_size: Expert parallelism. Works with ``aic_backend``.
        aic_attention_dp_size: Data parallelism of attention. Default: 1.
        aic_nextn: Draft tokens of speculative decoding, 1 to 5, with any timing model.
        aic_nextn_accept_rates: Probability that each draft token is accepted if those before it were, as text:
            ``"0.85,0.3"``.
        aic_mtp_seed: Decides which draft tokens are accepted; each worker adds its number.
        aic_gemm_dtype: Data type of matrix products; None takes that of the model. Works with ``aic_backend``.
        aic_moe_dtype: Data type of experts; None takes that of the model. Works with ``aic_backend``.
        aic_fmha_dtype: Data type of attention; None takes that of the model. Works with ``aic_backend``.
        aic_kv_cache_dtype: Data type of the KV cache; None takes that of the model. Works with ``aic_backend``.
        aic_comm_dtype: Data type of communication; None takes that of the model. Works with ``aic_backend``.
        aic_shapes: Which shapes of passes the AIC SDK is asked for: ``"all"`` that occur, or ``"grid"``, every batch,
            but four numbers of tokens for each doubling, with straight lines between them: faster where much is new,
            and nearly the same. Works with ``aic_backend``.
        gpu_memory_utilization: Fraction of GPU memory that vLLM uses, to estimate num_gpu_blocks. Default: 0.9. Works
            with ``aic_backend`` vllm without ``num_gpu_blocks``.
        mem_fraction_static: Fraction of GPU memory that SGLang uses, to estimate num_gpu_blocks. Default: 0.88. Works
            with ``aic_backend`` sglang without ``num_gpu_blocks``.
        free_gpu_memory_fraction: Fraction of the GPU memory beside the model that TensorRT-LLM uses, to estimate
            num_gpu_blocks. Default: 0.9. Works with ``aic_backend`` trtllm without ``num_gpu_blocks``.
        enable_local_indexer: Whether live workers keep an index of their own KV events. Works with live workers.
        bootstrap_port: Port at which a live prefill worker hands requests over. Works with live prefill workers.
        handoff_session_timeout_ms: Milliseconds after which a live hand-off that makes no progress is given up. Works
            with live prefill or decode workers.
        kv_bytes_per_token: Bytes of a token's KV, for transfers from prefill to decode workers, and for host memory in
            GB; with AIC, None takes those of the model. Works with prefill workers.
        kv_transfer_bandwidth: GB/s between prefill and decode workers; 0 makes transfers take no time, and so does
            None, but for 64 with AIC or a scheduler of the engine's own. Works with prefill workers.
        kv_transfer_timing_mode: ``"full_prompt"``, or ``"destination_missing"`` to move only what the decode worker has
            not cached. Works with prefill workers.
        kv_transfer_ms_per_block: Milliseconds in which a KV block moves from a prefill to a decode worker, instead of
            bytes and bandwidth. Works with ``engine_type`` vllm or sglang, ``scheduler`` vllm or sglang, prefill
            workers.
        kv_transfer_lanes: ``"pair"`` for one transfer at a time between a prefill and a decode worker, or
            ``"unlimited"`` for all at once. Works with ``engine_type`` vllm or sglang, ``scheduler`` vllm or sglang,
            prefill workers.
        reasoning: How a live engine thinks: a ReasoningConfig or a dict of its fields. Works with live workers.
        response_replay_trace_path: JSONL file with answers that live workers repeat. Works with live workers.
        zmq_kv_events_port: Port at which a live worker publishes KV events in its engine's own format. Works with live
            workers.
        zmq_replay_port: Port at which missed KV events can be asked for again. Works with live workers.
        preemption_mode: When blocks run short, ``"lifo"`` preempts the request admitted last, ``"fifo"`` the first.
            Works with ``engine_type`` vllm.
        router_queue_policy: Order of the router's queue, instead of that in its own configuration: ``"fcfs"``,
            ``"lcfs"`` or ``"wspt"``.
        sglang: Settings of SGLang: an SglangArgs or a dict of its fields. Works with ``engine_type`` sglang.
        trtllm: Settings of TensorRT-LLM: a TrtllmArgs or a dict of its fields. Works with ``engine_type`` trtllm.
        num_g2_blocks: KV blocks in host memory, as Dynamo 1.3 names those of host_cache. Works with ``scheduler``
            sglang or vllm.
        num_g3_blocks: KV blocks on disk; they need num_g2_blocks. Works with nothing yet (refused by live workers and
            ``scheduler`` sglang or vllm).
        offload_batch_size: Blocks that are moved together. Default: 32. Works with nothing yet (refused by live workers
            and ``scheduler`` sglang or vllm).
        bandwidth_g1_to_g2_gbps: GB/s from GPU to host. Default: 14. Works with ``scheduler`` sglang or vllm.
        bandwidth_g2_to_g1_gbps: GB/s from host to GPU. Default: 14. Works with ``scheduler`` sglang or vllm.
        bandwidth_g2_to_g3_gbps: GB/s from host to disk. Default: 7. Works with nothing yet (refused by live workers and
            ``scheduler`` sglang or vllm).
        bandwidth_g3_to_g2_gbps: GB/s from disk to host. Default: 7. Works with nothing yet (refused by live workers and
            ``scheduler`` sglang or vllm).
        enable_g4_storage: Whether there is object storage; it needs num_g2_blocks. Works with nothing yet (refused by
            live workers and ``scheduler`` sglang or vllm).
        bandwidth_g2_to_g4_gbps: GB/s from host to object storage. Default: 4. Works with nothing yet (refused by live
            workers and ``scheduler`` sglang or vllm).
        bandwidth_g4_to_g2_gbps: GB/s from object storage to host. Default: 4. Works with nothing yet (refused by live
            workers and ``scheduler`` sglang or vllm).
        num_host_blocks: KV blocks in host memory, as Dynamo 1.6 names those of host_cache. Works with ``scheduler``
            sglang or vllm (others refuse it).
        host_cache_gb: GB (10^9 bytes) of host memory for KV blocks of a worker, instead of num_host_blocks. Works with
            ``scheduler`` sglang or vllm (others refuse it).
        host_offload_d2h_bandwidth_gbps: GB/s from GPU to host, of the whole worker; 0 and None make copies take no
            time. Works with ``scheduler`` sglang or vllm (others refuse it).
        host_offload_h2d_bandwidth_gbps: GB/s from host to GPU, likewise. Works with ``scheduler`` sglang or vllm
            (others refuse it).
        host_link: Link of each GPU of the worker to the host, instead of both bandwidths: ``"pcie5"`` for 63 GB/s, say.
            Works with ``scheduler`` sglang or vllm (others refuse it).
        watermark: Fraction of the pool that admission must leave free, 0 to less than 1. Works with ``engine_type``
            vllm.
        eviction_backend: Which cached block is evicted: ``"lineage"`` (leaves first), ``"lru"`` or ``"multi_lru"``.
            Works with ``engine_type`` vllm or trtllm.
        scheduler: Whose rules the engine schedules by: ``"dynamo"``, those of Dynamo's mocker, or those of the engine,
            ``"vllm"`` or ``"sglang"`` for the newest release known and ``"vllm-0.28"`` or ``"sglang-0.5"``, say, for
            that one.
        async_scheduling: Whether a pass is composed while the one before it runs, as a stock server does. Works with
            ``engine_type`` vllm, ``scheduler`` vllm.
        pass_time: How long a pass takes that computes prompts and decodes: ``"separate"``, a prefill and a decode step
            of all that get a token, or ``"fused"``, one forward: the end of a prompt takes no decode step, and what any
            forward takes counts once. A calibration sets it to what its fit was made with. Works with ``engine_type``
            vllm, ``scheduler`` vllm.
        scheduler_reserve_full_isl: Whether a request is admitted only if blocks for its whole prompt are free. Works
            with ``engine_type`` vllm, ``scheduler`` vllm.
        long_prefill_token_threshold: Most tokens that one request computes in a pass; 0 is no limit. Works with
            ``engine_type`` vllm, ``scheduler`` vllm.
        long_prefill_token_threshold_adaptive: Whether that threshold is raised to an equal share of
            ``max_num_batched_tokens`` for each request. Works with ``engine_type`` vllm, ``scheduler`` vllm from
            vllm-0.33.
        prefill_schedule_interval: Passes from one that computes prompts to the next one that may, while other requests
            decode. Works with ``engine_type`` vllm, ``scheduler`` vllm.
        max_num_active_seqs: Most requests that run when one is admitted; None is ``max_num_seqs``. Works with
            ``engine_type`` vllm, ``scheduler`` vllm from vllm-0.33.
        dp_routing: How a request finds its data-parallel rank: ``"vllm"``, by vLLM's load balancer, in turn with
            SGLang; ``"round_robin"``, in turn; or ``"router"``, by the router before the workers, for which each rank
            is a worker of its own. Works with ``engine_type`` vllm or sglang, ``scheduler`` vllm or sglang.
        kv_cache_groups: Groups of layers that share the pool, as vLLM forms them for models with sliding windows or
            linear attention: one of ``{"type": "full"}``, then ``{"type": "sliding_window", "window": 1024}`` or
            ``{"type": "linear"}`` for each other one. With SGLang the second group is ``{"type": "sliding_window",
            "window": 128, "num_blocks": 4096}``, whose blocks are not those of ``num_gpu_blocks``. None is one group of
            full attention. Works with ``scheduler`` vllm or sglang.
        prefix_cache_retention_interval: Which blocks of windows and linear states are kept for later prompts: those at
            the ends of prompts (0, the default from vLLM 0.33 on), besides those at each multiple of this number of
            tokens, or all (null in JSON, the default of 0.28). Works with ``engine_type`` vllm, ``scheduler`` vllm.
        model: A model that ``python -m dynamo.replay models`` lists, served by vLLM or SGLang: scheduler, KV cache
            groups, block size, num_gpu_blocks, max_model_len and aic_tp_size follow from it, as far as they are not
            given. Works with ``engine_type`` vllm or sglang.
        model_config: The config.json of a model, or its folder, of any other model; replays only. Works with
            ``engine_type`` vllm or sglang.
        model_weights_gib: GiB of the weights, of all GPUs together. Known for ``model``. Works with ``engine_type``
            vllm or sglang, no ``kv_cache_memory_bytes``.
        gpu_memory_gib: GiB of a GPU, of which vLLM takes gpu_memory_utilization for weights, 2 GiB of its own and the
            KV cache, and SGLang 0.88 for weights and KV cache. None is that of aic_system, or 79.2, that of an H100.
            Works with ``engine_type`` vllm or sglang, no ``kv_cache_memory_bytes``.
        kv_cache_memory_bytes: Bytes of the KV cache on each GPU, instead of an estimate: "Available KV cache memory" in
            vLLM's log. Works with ``engine_type`` vllm or sglang.
        kv_cache_dtype: ``"fp8"`` keeps keys and values of ``model`` in one byte instead of two. Works with
            ``engine_type`` vllm or sglang.
        host_cache: Memory of the host below the KV blocks of the pool, as SGLang's HiCache or vLLM's offloading uses
            it: a HostCacheArgs or a dict of its fields. Works with ``engine_type`` sglang or vllm, ``scheduler`` sglang
            or vllm.
        timing_model: What says how long passes take. By default that follows from other fields: ``"aic"`` with
            aic_backend, ``"interpolated"`` with planner_profile_data, else ``"polynomial"``; naming it makes sure that
            the field is not forgotten. ``"fixed"`` takes fixed_prefill_ms and fixed_decode_ms.
        fixed_prefill_ms: Milliseconds that the prompts of a pass take together, with timing_model fixed, which needs
            it.
        fixed_decode_ms: Milliseconds of a decode step, likewise.
        step_overhead_us: Host time of each pass, in microseconds.
        seq_overhead_us: Host time of each pass for each request in it, in microseconds.
        request_overhead_us: Time from the worker to the scheduler, for each request, in microseconds. Works with
            aggregated or prefill workers.
        request_token_overhead_us: The same for each token of its prompt: tokenising, and sending it. Works with
            aggregated or prefill workers.
        prefill_scale: Factor on the predicted time of prompts.
        decode_scale: Factor on the predicted time of decode passes.
        kv_pool_scale: Factor on an estimated KV pool. Works with ``aic_backend`` without ``num_gpu_blocks``.
        kv_pool_estimate: Who estimates the KV pool: the AIC SDK, or ``"engine"``, as vLLM or SGLang divides the memory
            of a GPU when it starts (weights, activations, libraries); the report says the parts. Works with
            ``aic_backend`` without ``num_gpu_blocks``.
        calibration: File with a profile that dynamo.calibrate wrote, or ``"auto"`` for the profile that comes with this
            package: it sets those of the fields above that are left out, and may have durations of other kernels.
        engine_version: Release of the engine that is simulated, such as ``"0.19.0"``: calibration looks for
            measurements of it.

    Every field can be read. ``num_gpu_blocks``, ``enable_prefix_caching``, ``worker_type``, the ``aic_*`` fields and
    the memory fractions can be set.

    Raises TypeError for an unknown keyword or a wrong type, ValueError for a value out of range.
    """

    __slots__ = ()
    __signature__ = FieldSignature(EngineFields)

    def __init__(self, *positional: Any, **given: Unpack[EngineFields]) -> None:
        for name in given:
            if name in self._fields() and self._fields()[name].json_only:
                raise TypeError(f"unknown field {values.show(name)}: it can only be given in JSON")
        super().__init__(self._by_name(positional, given))

    @staticmethod
    def from_json(text: str) -> MockEngineArgs:
        """Returns engine arguments from the text of a JSON object, which may have the nested form of Dynamo 1.6.

        Raises ValueError for anything wrong in it.
        """
        return MockEngineArgs._of(parse(fields_of(None), text, _flat))

    def copy(self) -> MockEngineArgs:
        """Returns an independent copy."""
        return MockEngineArgs._of(dict(self._given))

    def with_overrides(self, **changes: Unpack[EngineFields]) -> MockEngineArgs:
        """Returns a copy with these fields changed; None keeps a field as it is."""
        changed = MockEngineArgs(**{name: value for name, value in changes.items() if value is not None})  # type: ignore[arg-type]
        return MockEngineArgs._of(self._merged(changed._given))

    def is_prefill(self) -> bool:
        """Reports whether this engine only processes prompts."""
        return bool(self.worker_type == "prefill")

    def is_decode(self) -> bool:
        """Reports whether this engine only generates."""
        return bool(self.worker_type == "decode")

    def _keep(self, given: dict[str, Any]) -> None:
        _check_page_size(given)
        super()._keep(given)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "num_gpu_blocks":
            self._keep(self._merged(MockEngineArgs(num_gpu_blocks=value)._given))
        else:
            super().__setattr__(name, value)

    def _merged(self, changes: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the given values with changes; a new pool size replaces both of its spellings."""
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


def _flat(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the fields of an object in either form."""
    if "engine" not in given and "dynamo" not in given and not isinstance(given.get("timing_model"), Mapping):
        return given
    from dynamo._shell.launch import flat  # not before it is needed: the command line starts here, too

    return flat(given)


def _check_page_size(given: Mapping[str, Any]) -> None:
    """Refuses two different sizes of a page of SGLang's cache."""
    block_size, sglang = given.get("block_size"), given.get("sglang")
    if given.get("engine_type") != "sglang" or not block_size or sglang is None:
        return
    if sglang.page_size not in (None, block_size):
        raise ValueError(f"sglang.page_size: got {sglang.page_size}, want the same as block_size, {block_size}")
