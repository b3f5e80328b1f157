"""Engine arguments as words of a command line, and read back from it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from dynamo._core import values
from dynamo.sweep.exports import flags
from dynamo.sweep.exports.table import ENGINE, FLAG, REFUSED, Row

VLLM, SGLANG = "vllm", "sglang"
_OBJECTS = ("sglang", "trtllm", "host_cache", "reasoning")
_CLIP = "SGLANG_CLIP_MAX_NEW_TOKENS_ESTIMATION"
_CLIP_DEFAULT = 4096
_GIB, _GB = 2**30, 10**9
_NODE_GPUS = 8
"""GPUs of a node: larger workers need more than one Deployment."""


class Command(NamedTuple):
    """What starts an engine, without its program and model."""

    words: list[str]
    environment: dict[str, str]


def flat(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Engine arguments with the members of objects after a dot; those that say nothing are left out."""
    found: dict[str, Any] = {}
    for name, value in arguments.items():
        if name in _OBJECTS and isinstance(value, Mapping):
            found |= {f"{name}.{member}": each for member, each in value.items()}
        else:
            found[name] = value
    return found


def command(name: str, arguments: Mapping[str, Any]) -> Command:
    """The words and variables that start an engine with these arguments, after defaults.

    Raises ValueError for what no file can say; ``name`` is that of the option that holds them.
    """
    given = flat(arguments)
    engine = program(name, given)
    for path in given:
        if path not in ENGINE:
            raise ValueError(f"{name}.{path}: unknown to exports")
    words = [*_parallelism(name, given, engine), *drafts(given, engine)]
    skipped = _PARALLEL | {"aic_nextn", "host_cache_gb", "worker_type", "num_gpu_blocks", "host_cache.write_policy"}
    for path, row in ENGINE.items():
        if path in given and path not in skipped:
            words += _plain(f"{name}.{path}", row, given[path], engine)
        if path == "num_gpu_blocks" and path in given:
            words += pool(f"{name}.{path}", given, engine)
    words += host(name, given, engine)
    _once(name, words)
    clip = given.get("sglang.clip_max_new_tokens", _CLIP_DEFAULT)
    return Command(words, {_CLIP: str(clip)} if engine == SGLANG and clip != _CLIP_DEFAULT else {})


def program(name: str, given: Mapping[str, Any]) -> str:
    """Which engine it is. Raises ValueError for one that is not exported."""
    engine = str(given.get("engine_type", VLLM))
    if engine not in (VLLM, SGLANG):
        raise ValueError(f"{name}.engine_type: got {values.show(engine)}, want vllm or sglang: no other is exported")
    return engine


def _plain(path: str, row: Row, value: Any, engine: str) -> list[str]:
    """The words of an argument that says all by itself."""
    if row.kind == REFUSED and value not in (None, *row.harmless):
        raise ValueError(f"{path}: got {_shown(value)}, want {_wanted(row)}: {row.text}")
    if row.kind != FLAG or (engine == SGLANG and row.vllm_only):
        return []
    flag = row.flag(engine)
    if flag is None:
        if value in (None, *row.harmless) or path.endswith(("gpu_memory_utilization", "mem_fraction_static")):
            return []
        raise ValueError(f"{path}: got {_shown(value)}, want {_wanted(row)}: {engine} has no flag of it")
    if path.endswith("max_model_len") and value is None:
        return []
    try:
        return flag.write(value)
    except ValueError as error:
        raise ValueError(f"{path}: got {_shown(value)}, want {error}") from None


def _wanted(row: Row) -> str:
    return " or ".join(values.show(value) for value in row.harmless) or "it left out"


def _shown(value: Any) -> str:
    return values.brief(values.show(value))


_PARALLEL = {"aic_tp_size", "aic_attention_dp_size", "dp_size", "aic_moe_tp_size", "aic_moe_ep_size"}


def gpus(given: Mapping[str, Any]) -> int:
    """GPUs of a worker."""
    return int(given.get("aic_tp_size") or 1) * _ranks(given)


def _ranks(given: Mapping[str, Any]) -> int:
    return max(int(given.get("aic_attention_dp_size") or 1), int(given.get("dp_size") or 1))


def _parallelism(name: str, given: Mapping[str, Any], engine: str) -> list[str]:
    tensor, ranks = int(given.get("aic_tp_size") or 1), _ranks(given)
    for path in ("aic_attention_dp_size", "dp_size"):
        said = int(given.get(path) or 1)
        if said not in (1, ranks):
            raise ValueError(f"{name}.{path}: got {said}, want {ranks}: one number of ranks, with the other argument")
    total = tensor * ranks
    if total > _NODE_GPUS:
        raise ValueError(f"{name}: got workers of {total} GPUs, want at most {_NODE_GPUS}: one worker on several nodes "
                         "is not exported")  # fmt: skip
    experts, pieces = int(given.get("aic_moe_ep_size") or 0), int(given.get("aic_moe_tp_size") or 0)
    if experts and pieces and experts * pieces != total:
        raise ValueError(f"{name}.aic_moe_ep_size: got {experts} x {pieces} (aic_moe_tp_size), want {total}, all GPUs "
                         "of a worker")  # fmt: skip
    if engine == SGLANG:
        words = ["--tp-size", str(total)]
        if ranks > 1:
            words += ["--dp-size", str(ranks), "--enable-dp-attention"]
        return [*words, "--ep-size", str(experts)] if experts > 1 else words
    words = ["--tensor-parallel-size", str(tensor)]
    if ranks > 1:
        words += ["--data-parallel-size", str(ranks)]
    if experts > 1 and experts != total:
        raise ValueError(f"{name}.aic_moe_ep_size: got {experts}, want 1 or {total}: vLLM's experts are on all GPUs of "
                         "a worker, or on none of their own")  # fmt: skip
    return [*words, "--enable-expert-parallel"] if experts > 1 else words


def drafts(given: Mapping[str, Any], engine: str) -> list[str]:
    """The words of speculative decoding."""
    count = given.get("aic_nextn")
    if not count:
        return []
    if engine == VLLM:
        return ["--speculative-config", json.dumps({"method": "mtp", "num_speculative_tokens": count})]
    return [
        *("--speculative-algorithm", "EAGLE", "--speculative-num-steps", str(count)),
        *("--speculative-eagle-topk", "1", "--speculative-num-draft-tokens", str(count + 1)),
    ]


def pool(path: str, given: Mapping[str, Any], engine: str) -> list[str]:
    """The words of the size of the KV pool, which SGLang takes in tokens."""
    blocks = given["num_gpu_blocks"]
    if engine == SGLANG and blocks is not None:
        blocks *= int(given["block_size"])
    return _plain(path, ENGINE["num_gpu_blocks"], blocks, engine)


def role(said: str, engine: str) -> list[str]:
    """The words of a worker that computes prompts or generates only."""
    flag = ENGINE["worker_type"].flag(engine)
    assert flag is not None
    return flag.write(said)


def host(name: str, given: Mapping[str, Any], engine: str) -> list[str]:
    """The words of host memory below the pool."""
    size, flag = host_gb(name, given), ENGINE["host_cache_gb"].flag(engine)
    if size is None:
        return []
    assert flag is not None
    if engine == VLLM:
        return ["--kv-offloading-backend", "native", *flag.write(size * _GB / _GIB)]
    policy = given.get("host_cache.write_policy") or "write_through"
    policies = ENGINE["host_cache.write_policy"].sglang
    assert policies is not None
    of_rank = max(1, round(size / gpus(given)))  # in whole GB
    return ["--enable-hierarchical-cache", *flag.write(of_rank), *policies.write(policy)]


def host_gb(name: str, given: Mapping[str, Any]) -> float | None:
    """Host memory of a worker below its pool, as many GB as are said, or as the blocks have; None without any."""
    if (size := given.get("host_cache_gb")) is not None:
        return float(size)
    keys = ("host_cache.num_blocks", "num_host_blocks", "num_g2_blocks")
    blocks = next((given[key] for key in keys if given.get(key)), None)
    if blocks is None:
        return None
    if not given.get("kv_bytes_per_token"):
        raise ValueError(f"{name}.host_cache_gb: got nothing, want it instead of blocks, or kv_bytes_per_token: "
                         "engines take the size of host memory in GB")  # fmt: skip
    return int(blocks) * int(given["block_size"]) * int(given["kv_bytes_per_token"]) / _GB


def _once(name: str, words: Sequence[str]) -> None:
    """Leaves out the second of two arguments with one flag and value. Raises ValueError if they differ."""
    if words.count("--kv-cache-dtype") > 1:
        first, second = (at for at, word in enumerate(words) if word == "--kv-cache-dtype")
        assert isinstance(words, list)
        if words[second + 1] == "auto" or words[first + 1] == words[second + 1]:
            del words[second : second + 2]
        elif words[first + 1] == "auto":
            del words[first : first + 2]
        else:
            raise ValueError(f"{name}.kv_cache_dtype: want the same as aic_kv_cache_dtype")


def read(engine: str, words: Sequence[str], environment: Mapping[str, str]) -> dict[str, Any]:
    """The engine arguments that a command line says, flat. What it leaves out has its default."""
    found = flags.parse(words)
    said: dict[str, Any] = {"engine_type": engine}
    for path, value in _said(engine, found):
        if value is not None:
            said[path] = value
    if engine == SGLANG:
        said["aic_tp_size"] //= said.get("aic_attention_dp_size", 1)
        if "num_gpu_blocks" in said:
            said["num_gpu_blocks"] //= said["block_size"]
        if "host_cache_gb" in said:
            said["host_cache_gb"] *= gpus(said)
        said["sglang.clip_max_new_tokens"] = int(environment.get(_CLIP, _CLIP_DEFAULT))
    else:
        if "host_cache_gb" in said:
            said["host_cache_gb"] *= _GIB / _GB
        if "aic_nextn" in said:
            said["aic_nextn"] = json.loads(said["aic_nextn"])["num_speculative_tokens"]
        if said.pop("aic_moe_ep_size", None):
            said["aic_moe_ep_size"] = gpus(said)
    return said


def _said(engine: str, found: flags.Found) -> Iterator[tuple[str, Any]]:
    alias = {"dp_size", "aic_kv_cache_dtype"}  # of which another argument says the same
    for path, row in ENGINE.items():
        flag = row.flag(engine)
        if row.kind == FLAG and flag is not None and path not in alias and not (engine == SGLANG and row.vllm_only):
            yield path, flag.read(found)
    if engine == SGLANG:
        flag = ENGINE["aic_kv_cache_dtype"].sglang
        assert flag is not None
        yield "aic_kv_cache_dtype", flag.read(found)
