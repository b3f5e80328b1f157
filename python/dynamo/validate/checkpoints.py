"""Which model of the AIC SDK has the layers and data types of a checkpoint that was served."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple


class Checkpoint(NamedTuple):
    """A model that the SDK has, and the data types that its name does not decide."""

    model: str
    types: Mapping[str, str] = MappingProxyType({})


# The checkpoint decides the data types, not what a table guesses: gpt-oss is MXFP4 and listed as NVFP4 in the silicon
# table, Kimi and Qwen3.5 in NVFP4 leave attention in bf16. Source: the configurations of the checkpoints.
_BY_PRECISION: dict[tuple[str, str], Checkpoint] = {
    ("meta-llama/Llama-3.1-70B", "fp8"): Checkpoint("nvidia/Llama-3.1-70B-Instruct-FP8"),
    ("meta-llama/Llama-3.1-70B", "fp4"): Checkpoint("meta-llama/Meta-Llama-3.1-70B", {"gemm": "nvfp4"}),
    ("meta-llama/Llama-3.1-8B-Instruct", "fp8"): Checkpoint("meta-llama/Meta-Llama-3.1-8B", {"gemm": "fp8"}),
    ("nvidia/Llama-3.1-8B-Instruct-FP8", "fp8"): Checkpoint("meta-llama/Meta-Llama-3.1-8B", {"gemm": "fp8"}),
    ("meta-llama/Llama-3.1-405B-FP8", "fp8"): Checkpoint("meta-llama/Meta-Llama-3.1-405B", {"gemm": "fp8"}),
    ("MiniMaxAI/MiniMax-M2.5", "fp4"): Checkpoint("nvidia/MiniMax-M2.5-NVFP4"),
    ("moonshotai/Kimi-K2.5", "fp4"): Checkpoint("nvidia/Kimi-K2.5-NVFP4"),
    ("Qwen/Qwen3-32B", "fp8"): Checkpoint("Qwen/Qwen3-32B-FP8"),
    ("Qwen/Qwen3.5-397B-A17B", "fp8"): Checkpoint("Qwen/Qwen3.5-397B-A17B", {"gemm": "fp8_block", "moe": "fp8_block"}),
    ("Qwen/Qwen3.5-397B-A17B", "fp4"): Checkpoint("nvidia/Qwen3.5-397B-A17B-NVFP4"),
    ("deepseek-ai/DeepSeek-R1", "fp4"): Checkpoint("nvidia/DeepSeek-V3.1-NVFP4"),
    ("deepseek-ai/DeepSeek-V3", "fp4"): Checkpoint("nvidia/DeepSeek-V3.1-NVFP4"),
    ("zhipuai/GLM-5", "fp8"): Checkpoint("zai-org/GLM-5-FP8"),
    ("zhipuai/GLM-5", "fp4"): Checkpoint("nvidia/GLM-5-NVFP4"),
}
# Other names of checkpoints whose layers are those of a model that the SDK has.
_SAME_LAYERS = {
    "meta-llama/Llama-3.1-8B": "meta-llama/Meta-Llama-3.1-8B",
    "meta-llama/Llama-3.1-8B-Instruct": "meta-llama/Meta-Llama-3.1-8B",
    "meta-llama/Meta-Llama-3-8B-Instruct": "meta-llama/Meta-Llama-3.1-8B",
    "meta-llama/Llama-3.1-70B": "meta-llama/Meta-Llama-3.1-70B",
    "meta-llama/Llama-3.1-70B-Instruct": "meta-llama/Meta-Llama-3.1-70B",
    "meta-llama/Meta-Llama-3-70B-Instruct": "meta-llama/Meta-Llama-3.1-70B",
    "mistralai/Mixtral-8x7B-Instruct-v0.1": "mistralai/Mixtral-8x7B-v0.1",
    "Qwen/Qwen3-30B-A3B-Instruct-2507": "Qwen/Qwen3-30B-A3B",
    "RedHatAI/Meta-Llama-3.1-8B-Instruct-FP8": "meta-llama/Meta-Llama-3.1-8B",
}
_DENSE = ("Llama", "Qwen3-32B", "Qwen3-8B", "Qwen2.5")


def checkpoint(model: str, precision: str) -> Checkpoint:
    """Returns the SDK's model for a checkpoint; the checkpoint's own name if there is no better one."""
    if known := _BY_PRECISION.get((model, precision)):
        return known
    return Checkpoint(_SAME_LAYERS.get(model, model))


def is_dense(model: str) -> bool:
    """Reports whether a model is known to have no experts."""
    return any(word in model for word in _DENSE)
