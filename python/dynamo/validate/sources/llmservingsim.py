"""Runs that LLMServingSim recorded inside vLLM: a folder with ``requests.jsonl`` and ``meta.json``.

Time stamps are those of the engine core, so TTFT holds neither HTTP nor tokeniser: first_token_ts - queued_ts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from dynamo.validate.measurement import Measurement, Parallelism, Requests
from dynamo.validate.sources.checks import BadSource, count, mapping, number, text
from dynamo.validate.sources.file import SourceFile, open_source
from dynamo.validate.sources.gpus import aic_system
from dynamo.validate.sources.requests import Row, arranged, measured

FORMAT = "llmservingsim"
MARKS = ("queued_ts", "first_token_ts", "last_token_ts")
_PRECISIONS = {"bfloat16": "bf16", "float16": "bf16", "auto": "bf16"}


def recognised(file: SourceFile) -> bool:
    return set(MARKS) <= file.start.keys()


def read(file: SourceFile) -> list[Measurement]:
    """Returns the one run of a file. Raises BadSource."""
    meta_path = file.path.with_name("meta.json")
    if not meta_path.is_file():
        raise BadSource(f"{file.name}: a run of LLMServingSim needs meta.json beside it")
    meta = open_source(meta_path).whole
    asked = mapping(meta.get("engine_kwargs"), f"{meta_path}: engine_kwargs")
    requests = _requests(file)
    model = text(meta, "model", str(meta_path))
    system = _system(meta, file)
    parallelism = _parallelism(asked, f"{meta_path}: engine_kwargs")
    return [
        Measurement(
            id=f"{system}/{model.rpartition('/')[2]}",
            source=FORMAT,
            file=file.name,
            engine="vllm",
            version=text(meta, "vllm_version", str(meta_path)),
            model=model,
            system=system,
            precision=_PRECISIONS.get(text(asked, "dtype", str(meta_path), "auto"), ""),
            parallelism=parallelism,
            configuration="|".join([model, system, "bf16", "agg", str(parallelism)]),
            engine_args=_engine_args(meta, asked, str(meta_path)),
            **measured(requests),
        )
    ]


def _requests(file: SourceFile) -> Requests:
    rows = []
    for where, row in file.rows():
        queued, first, last = (number(row.get(name), f"{where}: {name}") for name in MARKS)
        if not queued <= first <= last:
            raise BadSource(f"{where}: want {' <= '.join(MARKS)}, got {queued}, {first}, {last}")
        isl, osl = (count(row.get(name), f"{where}: {name}") for name in ("input_toks", "output_toks"))
        gap = (last - first) / (osl - 1) * 1e3 if osl > 1 else math.nan
        rows.append(Row(queued, isl, osl, (first - queued) * 1e3, gap))
    return arranged(rows, file.name)


def _system(meta: Mapping[str, Any], file: SourceFile) -> str:
    """Returns the GPU: newer recordings name it, older ones are in a folder of its name."""
    hardware = meta.get("hardware")
    if isinstance(hardware, dict) and isinstance(hardware.get("device_name"), str):
        return aic_system(hardware["device_name"])
    return aic_system(file.path.absolute().parent.parent.name)


def _parallelism(asked: Mapping[str, Any], where: str) -> Parallelism:
    tp = count(asked.get("tensor_parallel_size", 1), f"{where}: tensor_parallel_size")
    dp = count(asked.get("data_parallel_size", 1), f"{where}: data_parallel_size")
    experts = tp * dp if asked.get("enable_expert_parallel") is True else 1
    return Parallelism(tp=tp, attention_dp=dp, moe_tp=tp * dp // experts, moe_ep=experts)


def _engine_args(meta: Mapping[str, Any], asked: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Returns what the recording says about scheduler and cache. Limits are those of one rank."""
    known: dict[str, Any] = {
        name: count(asked[name], f"{where}: {name}")
        for name in ("max_num_seqs", "max_num_batched_tokens")
        if asked.get(name) is not None
    }
    cache = meta.get("kv_cache")
    if isinstance(cache, dict):
        if cache.get("num_gpu_blocks") is not None:
            known["num_gpu_blocks"] = count(cache["num_gpu_blocks"], f"{where}: num_gpu_blocks")
        if cache.get("block_size") is not None:
            known["block_size"] = count(cache["block_size"], f"{where}: block_size")
    return known
