"""The class that describes predictions by the AIC SDK for a router. It never loads the Go extension, nor the SDK."""

from __future__ import annotations

from typing import Any, ClassVar, TypedDict

from dynamo.mocker.fields import FieldSet, FieldSignature, by_name, fields_of, parse
from dynamo.mocker.unpack import Unpack


class AicFields(TypedDict, total=False):
    """The keywords of AicPerfConfig and their types, for type checkers."""

    aic_backend: str
    aic_system: str
    aic_model_path: str
    aic_tp_size: int | None
    aic_backend_version: str | None
    aic_moe_tp_size: int | None
    aic_moe_ep_size: int | None
    aic_attention_dp_size: int | None
    aic_nextn: int | None
    aic_nextn_accept_rates: str | None
    aic_gemm_dtype: str | None
    aic_moe_dtype: str | None
    aic_fmha_dtype: str | None
    aic_kv_cache_dtype: str | None
    aic_comm_dtype: str | None


_POSITIONAL = tuple(AicFields.__annotations__)


class AicPerfConfig(FieldSet):
    """Which GPUs a router takes its workers for: ``AicPerfConfig("vllm", "h200_sxm", "Qwen/Qwen3-0.6B")``.

    With ``router_prefill_load_model="aic"`` the router asks the AIC SDK how long each prompt takes there, and lets the
    load of the prompt that a worker computes shrink meanwhile. The keywords are those of ``AicFields``: the backend
    (``"vllm"``, ``"sglang"``, ...), the system (``"h200_sxm"``, ...), a model that the SDK knows or a folder with its
    config.json, and how it is spread over GPUs; data types are those of the model unless given.

    Raises TypeError for a missing or unknown keyword or a wrong type, ValueError for a value out of range.
    """

    __slots__ = ()
    __signature__ = FieldSignature(AicFields, _POSITIONAL)
    _table: ClassVar[str] = "aic_perf_config"

    def __init__(self, *positional: Any, **given: Unpack[AicFields]) -> None:
        super().__init__(by_name(_POSITIONAL, positional, given))

    @staticmethod
    def from_json(text: str) -> AicPerfConfig:
        """A configuration from the text of a JSON object. Raises ValueError for anything wrong in it."""
        try:
            return AicPerfConfig._of(parse(fields_of(None, AicPerfConfig._table), text))
        except ValueError as error:
            raise ValueError(f"AicPerfConfig JSON: {error}") from None

    def copy(self) -> AicPerfConfig:
        """An independent copy."""
        return AicPerfConfig._of(dict(self._given))
