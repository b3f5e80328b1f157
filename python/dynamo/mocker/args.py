"""The classes that describe a simulated engine.

Building one checks names, types and ranges at once and never loads the Go extension, so arguments may be made before a
process forks. A class and a plain dict of the same fields are accepted alike wherever engine arguments are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, TypedDict

from dynamo._core import values
from dynamo.mocker.draft_rates import accept_rates
from dynamo.mocker.fields import Field, FieldSet, FieldSignature, by_name, fields_of, parse, table
from dynamo.mocker.unpack import Unpack

# What only JSON may say: older spellings of worker_type, and a mark that other tools leave.
_JSON_ONLY = ("is_prefill", "is_decode", "has_perf_model")
_POOL_SIZE = ("num_gpu_blocks", "num_gpu_blocks_override")


class ReasoningConfig(FieldSet):
    """How a live engine thinks before it answers; offline replay does not look at it.

    ``thinking_ratio`` is the fraction of the output spent between the two tokens, 0 to 1.
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


class SglangArgs(FieldSet):
    """Settings of a simulated SGLang engine; None means its default. Sizes are in tokens.

    ``reference_quirks=False`` corrects two slips of the reference: a request that is retracted then returns exactly
    the slots that it alone holds.
    """

    __slots__ = ()
    _section: ClassVar[str] = "sglang"

    def __init__(
        self,
        schedule_policy: str | None = None,
        page_size: int | None = None,
        max_prefill_tokens: int | None = None,
        chunked_prefill_size: int | None = None,
        clip_max_new_tokens: int | None = None,
        schedule_conservativeness: float | None = None,
        *,
        reference_quirks: bool | None = None,
    ) -> None:
        given = {
            "schedule_policy": schedule_policy,
            "page_size": page_size,
            "max_prefill_tokens": max_prefill_tokens,
            "chunked_prefill_size": chunked_prefill_size,
            "clip_max_new_tokens": clip_max_new_tokens,
            "schedule_conservativeness": schedule_conservativeness,
            "reference_quirks": reference_quirks,
        }
        super().__init__({name: value for name, value in given.items() if value is not None})


class TrtllmArgs(FieldSet):
    """Settings of a simulated TensorRT-LLM engine; its only capacity scheduler policy is ``"guaranteed_no_evict"``."""

    __slots__ = ()
    _section: ClassVar[str] = "trtllm"

    def __init__(self, capacity_scheduler_policy: str | None = None) -> None:
        given = {} if capacity_scheduler_policy is None else {"capacity_scheduler_policy": capacity_scheduler_policy}
        super().__init__(given)


class EngineFields(TypedDict, total=False):
    """The keywords of MockEngineArgs and their types, for type checkers."""

    engine_type: str
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
    worker_type: str | None
    planner_profile_data: str | None
    aic_backend: str | None
    aic_system: str | None
    aic_backend_version: str | None
    aic_tp_size: int | None
    aic_model_path: str | None
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
    kv_transfer_timing_mode: str
    reasoning: ReasoningConfig | Mapping[str, Any] | None
    response_replay_trace_path: str | None
    zmq_kv_events_port: int | None
    zmq_replay_port: int | None
    preemption_mode: str
    router_queue_policy: str | None
    sglang: SglangArgs | Mapping[str, Any] | None
    trtllm: TrtllmArgs | Mapping[str, Any] | None
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
    eviction_backend: str


_POSITIONAL = tuple(name for name in EngineFields.__annotations__ if name != "num_gpu_blocks_override")


class MockEngineArgs(FieldSet):
    """One simulated engine: ``MockEngineArgs(block_size=64, num_gpu_blocks=4096)``.

    The keywords are those of ``EngineFields``, whose order positional arguments follow (without
    ``num_gpu_blocks_override``); what is left out has its default. The common ones: ``block_size``
    (tokens per KV block), ``num_gpu_blocks`` (blocks of the pool), ``max_num_seqs`` (running requests; None is
    unlimited), ``max_num_batched_tokens`` (tokens per pass; None is unlimited), ``enable_prefix_caching``,
    ``enable_chunked_prefill``, ``speedup_ratio``, ``decode_speedup_ratio``, ``preemption_mode`` ("lifo" or "fifo"),
    ``watermark`` (fraction of the pool kept free at admission), ``eviction_backend``.

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
