"""Where the AIC SDK has no data for what was measured, or wrong data, and what takes their place.

Every replay lists what stands in for what; a measurement without an entry here uses the SDK's data for its own GPU,
engine and data types. The KV pool is always that of the GPU that was measured.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from dynamo.validate.measurement import Measurement

_BLACKWELL = ("b200_sxm", "b300_sxm")
_HOPPER = ("h100_sxm", "h200_sxm")
# Engine arguments that say which kernels durations are of, and nothing else about an engine.
_KERNELS = ("aic_backend", "aic_gemm_dtype", "aic_moe_dtype", "aic_fmha_dtype")


# Kernels that take the place of those that the SDK lacks: its SGLang has no attention of DeepSeek in FP8.
DEEPSEEK = {"aic_fmha_dtype": "bfloat16"}
DEEPSEEK_WORDS = "DeepSeek on SGLang: attention in bf16 for FP8"


class StandIn(NamedTuple):
    """Engine arguments that replace those of a measurement, and what is replaced, in words."""

    words: str
    engine: dict[str, Any]

    @property
    def kernels(self) -> dict[str, Any]:
        """Those of the arguments that say which kernels the durations are of."""
        return {name: value for name, value in self.engine.items() if name in _KERNELS}


def stand_in(row: Measurement) -> StandIn | None:
    """What stands in for the data of a row of the silicon table, or None."""
    for rule in (_deepseek_on_sglang, _minimax_fp8, _kimi_fp4, _qwen_fp8_on_hopper, _gpt_oss_mxfp8, _llama_fp8):
        if found := rule(row):
            return found
    return None


def _deepseek_on_sglang(row: Measurement) -> StandIn | None:
    """The SDK has no FP8 MLA of SGLang, but data of attention in bf16 over a KV cache in FP8."""
    if row.engine == "sglang" and "DeepSeek" in row.model:
        return StandIn(DEEPSEEK_WORDS, DEEPSEEK)
    return None


def _minimax_fp8(row: Measurement) -> StandIn | None:
    if "MiniMax" not in row.model or row.precision != "fp8":
        return None
    plain = {"aic_gemm_dtype": "fp8", "aic_moe_dtype": "fp8"}
    if row.system in _BLACKWELL:
        # The SDK's block-wise FP8 on Blackwell takes 2.4 times as long as what was measured, and B300 has no plain FP8.
        if row.system == "b200_sxm":
            return StandIn("MiniMax FP8 on b200_sxm: plain FP8 kernels for block-wise ones", plain)
        words = "MiniMax FP8 on b300_sxm: plain FP8 kernels of b200_sxm for block-wise ones"
        return StandIn(words, {**plain, "aic_system": "b200_sxm"})
    if row.system in _HOPPER:
        # The SDK's block-wise products of four tokens take longer than measured passes as a whole, and twice as long as
        # those in bf16, which read twice as much. Experts are block-wise, as there are no others for H100.
        words = "MiniMax FP8 on Hopper: plain FP8 products for block-wise ones, but of experts"
        return StandIn(words, {"aic_gemm_dtype": "fp8"})
    return None


def _gpt_oss_mxfp8(row: Measurement) -> StandIn | None:
    """The script for one B200 sets VLLM_USE_FLASHINFER_MOE_MXFP4_MXFP8, FlashInfer's kernels of TensorRT-LLM.

    The SDK has none for eight GPUs.
    """
    if "gpt-oss" in row.model and row.system == "b200_sxm" and row.parallelism.tp == 1:
        words = "gpt-oss on one b200_sxm: kernels of TensorRT-LLM, whose experts have activations in MXFP8"
        return StandIn(words, {"aic_backend": "trtllm", "aic_moe_dtype": "w4a8_mxfp4_mxfp8"})
    return None


def _llama_fp8(row: Measurement) -> StandIn | None:
    """Both engines have CUTLASS for these products, but the SDK's data of vLLM are noisy: on four GPUs one request
    takes 64 % longer than eight.
    """
    if (row.engine, row.system, row.precision) == ("vllm", "b200_sxm", "fp8") and "Llama-3.1-70B" in row.model:
        return StandIn("Llama-70B FP8 on b200_sxm: kernels of SGLang", {"aic_backend": "sglang"})
    return None


def _kimi_fp4(row: Measurement) -> StandIn | None:
    if "Kimi" in row.model and row.precision == "fp4" and row.system == "b300_sxm":
        # The SDK's decode steps for B300 take 43 % longer than what was measured, those for B200 14 %.
        return StandIn("Kimi NVFP4 on b300_sxm: kernels of b200_sxm", {"aic_system": "b200_sxm"})
    return None


def _qwen_fp8_on_hopper(row: Measurement) -> StandIn | None:
    if row.engine == "sglang" and "Qwen3.5" in row.model and row.precision == "fp8" and row.system == "h200_sxm":
        # The SDK has no attention over an FP8 cache on this GPU; most layers of the model are linear attention.
        words = "Qwen3.5 FP8 on h200_sxm: attention over a bf16 KV cache for one in FP8"
        return StandIn(words, {"aic_kv_cache_dtype": "bfloat16"})
    return None
