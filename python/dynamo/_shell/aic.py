"""The class that describes predictions by the AIC SDK for a router. It never loads the Go extension, nor the SDK."""

from __future__ import annotations

from typing import Any, ClassVar

from dynamo._shell.aic_fields import AicFields
from dynamo._shell.fields import FieldSet, FieldSignature, fields_of, parse
from dynamo._shell.unpack import Unpack


class AicPerfConfig(FieldSet):
    """The GPUs whose speed a router assumes: ``AicPerfConfig("vllm", "h200_sxm", "Qwen/Qwen3-0.6B")``.

    With ``router_prefill_load_model="aic"`` the router asks the AIC SDK how long each prompt takes there, and while a
    worker computes a prompt, its load shrinks. The keywords are those of ``AicFields``; a dict of them does as well.

    Args:
        aic_backend: The engine: ``"vllm"``, ``"sglang"`` or ``"trtllm"``.
        aic_system: The GPU, such as ``"h200_sxm"``.
        aic_model_path: A model that the SDK knows, or a folder with its config.json.
        aic_tp_size: Tensor parallelism.
        aic_backend_version: Version of the engine; None takes the version that the SDK is asked for by default.
        aic_moe_tp_size: Tensor parallelism of experts.
        aic_moe_ep_size: Expert parallelism.
        aic_attention_dp_size: Data parallelism of attention.
        aic_nextn: Draft tokens of speculative decoding, 1 to 5.
        aic_nextn_accept_rates: Acceptance rates of the draft tokens, as text with commas.
        aic_gemm_dtype: Data type of matrix products; None takes that of the model.
        aic_moe_dtype: Data type of experts; None takes that of the model.
        aic_fmha_dtype: Data type of attention; None takes that of the model.
        aic_kv_cache_dtype: Data type of the KV cache; None takes that of the model.
        aic_comm_dtype: Data type of communication; None takes that of the model.

    Raises TypeError for a missing or unknown keyword or a wrong type, ValueError for a value out of range.
    """

    __slots__ = ()
    __signature__ = FieldSignature(AicFields)
    _table: ClassVar[str] = "aic_perf_config"

    def __init__(self, *positional: Any, **given: Unpack[AicFields]) -> None:
        super().__init__(self._by_name(positional, given))

    @staticmethod
    def from_json(text: str) -> AicPerfConfig:
        """Returns a configuration from the text of a JSON object. Raises ValueError for anything wrong in it."""
        try:
            return AicPerfConfig._of(parse(fields_of(None, AicPerfConfig._table), text))
        except ValueError as error:
            raise ValueError(f"AicPerfConfig JSON: {error}") from None

    def copy(self) -> AicPerfConfig:
        """Returns an independent copy."""
        return AicPerfConfig._of(dict(self._given))
