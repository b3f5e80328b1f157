"""A configuration that AIConfigurator generates (generator_config.yaml), as a run for ``--config``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from dynamo._core import values
from dynamo.replay.sections import Section

_SECTIONS = ("ServiceConfig", "WorkerConfig")
_UNUSED = ("K8sConfig", "NodeConfig", "DynConfig", "ModelConfig", "BenchConfig", "generator", "rule")
_BACKENDS = (("vllm", r"vllm"), ("sglang", r"sglang"), ("trtllm", r"tensorrtllm|trtllm"))
_CACHE = {"vllm": "gpu_memory_utilization", "sglang": "mem_fraction_static", "trtllm": "free_gpu_memory_fraction"}
_ROLES = {"agg": ("num_workers", "extra_engine_args"), "prefill": ("num_prefill_workers", "prefill_engine_args"),
          "decode": ("num_decode_workers", "decode_engine_args")}  # fmt: skip
_NOTED = ("gpus_per_worker", "extra_cli_args", "trust_remote_code", "kv_cache_dtype", "tokens_per_block")
_REQUESTS_OF_A_CLIENT = 10


def recognised(content: Mapping[str, Any]) -> bool:
    """Reports whether a file is such a configuration."""
    return any(section in content for section in _SECTIONS) and ("Workers" in content or "params" in content)


def convert(content: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Returns the run, and what changes nothing here. Raises ValueError for what has no counterpart."""
    root = Section("", content)
    notes: list[str] = []
    service, counts = root.within("ServiceConfig"), root.within("WorkerConfig")
    workers = root.within("Workers" if "Workers" in content else "params", required=True)
    sla = root.within("SlaConfig", required=True)
    run: dict[str, Any] = {"input_tokens": sla.count("isl"), "output_tokens": sla.count("osl")}
    for key, name in (("isl", "input_tokens"), ("osl", "output_tokens")):
        if run[name] is None:
            raise ValueError(f"{sla.name(key)}: got nothing, want tokens of each request")
    for bound, option in (("ttft", "sla_ttft_ms"), ("tpot", "sla_tpot_ms")):
        if (value := sla.number(bound)) is not None:
            run[option] = value
    sla.close()
    backend = _backend(root, content)
    model = service.take("model_path") or service.take("served_model_path") or service.take("served_model_name")
    system = (content.get("NodeConfig") or {}).get("system_name")
    roles = [role for role in _ROLES if workers.take(role) is not None]
    if roles not in (["agg"], ["prefill", "decode"]):
        raise ValueError(f"{workers.path}: got {', '.join(roles) or 'nothing'}, want agg, or prefill and decode")
    batches = 0
    for role in roles:
        engine, batch = _engine(Section(f"{workers.path}.{role}", content[workers.path][role]), backend, notes)
        if system and model:
            engine |= {"aic_backend": backend, "aic_system": system, "aic_model_path": model}
        if role != "agg":
            engine["worker_type"] = role
        number, option = _ROLES[role]
        run[number] = count = counts.count(f"{role}_workers", 1)
        run[option] = engine
        batches += 0 if role == "prefill" else count * batch
    if not (system and model):
        notes.append("NodeConfig.system_name: durations are built in, of no particular GPU: add aic_backend, "
                     "aic_system and aic_model_path to the engine arguments")  # fmt: skip
    known = (content.get("BenchConfig") or {}).get("estimated_concurrency")
    clients = values.integer("BenchConfig.estimated_concurrency", known) if known is not None else batches
    run |= {"replay_concurrency": clients, "request_count": _REQUESTS_OF_A_CLIENT * clients}
    router = any((content.get(section) or {}).get("enable_router") for section in ("K8sConfig", "DynConfig"))
    if len(roles) == 2 or run.get("num_workers", 1) > 1:
        run["router_mode"] = "kv_router" if router else "round_robin"
    for section in _UNUSED:
        root.take(section)
    root.close()
    return run, notes


def _backend(root: Section, content: Mapping[str, Any]) -> str:
    """Returns the engine: what the file says, or the image that it names."""
    if (said := root.take("backend")) is not None:
        if said not in _CACHE:
            raise ValueError(f"backend: got {values.show(said)}, want {' or '.join(_CACHE)}")
        return str(said)
    image = str((content.get("K8sConfig") or {}).get("k8s_image") or "")
    found = next((name for name, pattern in _BACKENDS if re.search(pattern, image)), None)
    if found is None:
        raise ValueError("backend: got nothing, want vllm, sglang or trtllm: K8sConfig.k8s_image names none either")
    return found


def _engine(worker: Section, backend: str, notes: list[str]) -> tuple[dict[str, Any], int]:
    """Returns the engine arguments of a worker, and its batch."""
    worker.refuse({"pipeline_parallel_size": "pipeline parallelism is not simulated"}, (1,))
    engine: dict[str, Any] = {"engine_type": backend}
    sizes = {"tensor_parallel_size": "aic_tp_size", "data_parallel_size": "aic_attention_dp_size"}
    experts = {"moe_tensor_parallel_size": "aic_moe_tp_size", "moe_expert_parallel_size": "aic_moe_ep_size"}
    for theirs, ours in sizes.items():
        if (size := worker.count(theirs, 1)) > 1:
            engine[ours] = size
    split = {ours: worker.count(theirs, 1) for theirs, ours in experts.items()}
    if max(split.values()) > 1:
        engine |= split
    batch = worker.count("max_batch_size", 256)
    engine["max_num_seqs"] = batch
    if (tokens := worker.count("max_num_tokens")) is not None and backend != "sglang":
        engine["max_num_batched_tokens"] = tokens
    elif tokens is not None:
        engine["sglang"] = {"chunked_prefill_size": tokens}
    if (length := worker.count("max_seq_len")) is not None:
        engine["max_model_len"] = length
    if (share := worker.number("kv_cache_free_gpu_memory_fraction")) is not None:
        engine[_CACHE[backend]] = share
    for key in _NOTED:
        if worker.take(key) is not None:
            notes.append(f"{worker.name(key)}: taken from the rest of the file, or of no effect")
    worker.close()
    return engine, batch
