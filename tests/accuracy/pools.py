#!/usr/bin/env python3
"""Record what the AIC SDK estimates for the KV pools of examples/measured/kv_pools.

usage: pools.py

It needs aiconfigurator 0.12 beside dynosim. Writes sdk.json there: tokens of one engine by row of pools.json, null
where the SDK does not know the model or finds no memory. `go test ./gocore/models -run PublishedPools -rewrite`
then puts the table of docs/kv_pools.md in place.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

from dynamo.replay import run_synthetic_trace_replay

FOLDER = Path(__file__).parent.parent.parent / "examples" / "measured" / "kv_pools"
# What the SDK calls a checkpoint, and the data type of its weights where that name does not say it.
NAMES = {
    "meta-llama/Llama-3.3-70B-Instruct": ("meta-llama/Meta-Llama-3.1-70B", ""),
    "RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic": ("meta-llama/Meta-Llama-3.1-70B", "fp8"),
    "meta-llama/Llama-3.1-8B-Instruct": ("meta-llama/Meta-Llama-3.1-8B", ""),
    "deepseek-ai/DeepSeek-R1-0528": ("deepseek-ai/DeepSeek-R1", ""),
    "Qwen/Qwen3-235B-A22B-Instruct-2507": ("Qwen/Qwen3-235B-A22B", ""),
    "RedHatAI/Qwen3-235B-A22B-FP8-dynamic": ("Qwen/Qwen3-235B-A22B", "fp8"),
}


def main() -> None:
    rows = json.loads((FOLDER / "pools.json").read_text(encoding="utf-8"))
    text = ",\n".join(json.dumps(tokens(row)) for row in rows)
    (FOLDER / "sdk.json").write_text(f"[\n{text}\n]\n", encoding="utf-8")


def tokens(row: dict[str, Any]) -> int | None:
    """The SDK's estimate for one row, with a block of one token."""
    model, weights = NAMES.get(row["model"], (row["model"], ""))
    fraction = "gpu_memory_utilization" if row["engine"] == "vllm" else "mem_fraction_static"
    engine: dict[str, Any] = {
        "engine_type": row["engine"],
        "aic_backend": row["engine"],
        "aic_system": row["gpu"],
        "aic_model_path": model,
        "aic_tp_size": row["tp"],
        "block_size": 16 if row["engine"] == "vllm" else 1,
        "max_num_batched_tokens": row["max_num_batched_tokens"],
        fraction: row["fraction"],
        "aic_kv_cache_dtype": "fp8" if row["kv_cache_dtype"] == "fp8" else "bfloat16",
    }
    if "A3B" in model or "A22B" in model or "DeepSeek" in model or "gpt-oss" in model:
        engine |= {"aic_moe_tp_size": row["tp"] // row["ep"], "aic_moe_ep_size": row["ep"]}
    if weights:
        engine |= {"aic_gemm_dtype": weights, "aic_moe_dtype": weights}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            report = run_synthetic_trace_replay(1, 1, 1, extra_engine_args=engine)
    except (ValueError, RuntimeError) as error:
        print(f"{row['model']}, {row['gpu']}, TP {row['tp']}: {' '.join(str(error).split())[:200]}")
        return None
    blocks: int = report["provenance"]["estimated_gpu_blocks"]["extra_engine_args"]
    return blocks * int(engine["block_size"])


if __name__ == "__main__":
    main()
