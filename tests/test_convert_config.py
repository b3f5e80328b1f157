"""``convert-config``: files of which the documents of other simulators have examples, as runs and sweeps."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from dynamo import sweep
from dynamo.replay import convertconfig, run_synthetic_trace_replay

QWEN = {"model": "Qwen/Qwen3-32B-FP8", "hardware": "h200_sxm", "backend": "vllm"}
SYNTHETIC = {"type": "synthetic", "input_tokens": 1024, "output_tokens": 128}
RATE = {"source": SYNTHETIC, "load": {"type": "constant_rate", "requests_per_second": 4}}
# So that sweeps run without the AIC SDK.
POLYNOMIAL = {"timing": {"type": "polynomial"}, "kv_cache": {"capacity": {"type": "fixed", "blocks": 4096}}}


def written(tmp_path: Path, content: object, name: str = "file.json") -> str:
    file = tmp_path / name
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return str(file)


def changed(content: Any, path: str, value: object) -> Any:
    """A copy with another value at a path."""
    found = copy.deepcopy(content)
    *above, last = path.split(".")
    place = found
    for key in above:
        place = place[key]
    place[last] = value
    return found


def refused(file: str) -> str:
    with pytest.raises(ValueError, match=r"^FILE: .*/file\.(json|sh): ") as caught:
        convertconfig.convert(file)
    return str(caught.value)


def test_a_prediction_without_traffic_has_the_default(tmp_path: Path) -> None:
    """The first example of AISimulate's README."""
    run = convertconfig.convert(written(tmp_path, {"engine": {**QWEN, "workers": {"aggregated": {}}}})).content
    assert {key: run[key] for key in ("input_tokens", "output_tokens", "replay_concurrency", "request_count")} == {
        **{"input_tokens": 1024, "output_tokens": 128, "replay_concurrency": 10, "request_count": 100},
    }
    assert run["extra_engine_args"]["aic_model_path"] == "Qwen/Qwen3-32B-FP8"


def converted(tmp_path: Path, *overrides: str, **engine: Any) -> tuple[dict[str, Any], Sequence[str]]:
    """The engine arguments of a prediction on one pool, and the notes."""
    content = {"engine": {**QWEN, "workers": {"aggregated": {}}, **engine}}
    made = convertconfig.convert(written(tmp_path, content), overrides)
    return made.content["extra_engine_args"], made.notes


HOST = "engine.workers.aggregated.kv_cache.host_offload"


def test_host_memory_is_converted(tmp_path: Path) -> None:
    """Bytes that the file has are those of a GPU and its link; what the AIC SDK says is of all GPUs of a worker."""
    size = "engine.workers.aggregated.kv_cache.bytes_per_token=131072"
    found, notes = converted(tmp_path, size, f"{HOST}={{num_host_blocks: 40, latency_to_first_byte_ms: 2}}")
    assert (found["scheduler"], found["host_cache"]) == ("vllm", {"num_blocks": 40, "latency_ms": 2.0})
    assert (found["host_offload_d2h_bandwidth_gbps"], found["kv_bytes_per_token"]) == (32.0, 131072)
    assert notes == ["engine: ranks and host memory are those of vllm's own scheduler, which the run has"]
    found, _ = converted(tmp_path, "engine.workers.aggregated.parallelism.tensor=4", f"{HOST}={{num_host_blocks: 40}}")
    assert (found["host_offload_h2d_bandwidth_gbps"], "kv_bytes_per_token" in found) == (128.0, False)
    shared = f"{HOST}={{num_host_blocks: 40, scope: cluster_shared}}"
    storage = "engine.workers.aggregated.kv_cache.g3_offload={scope: cluster_shared, num_g3_blocks: 9}"
    found, notes = converted(tmp_path, size, shared, storage)
    assert found["host_cache"] == {
        **{"num_blocks": 40, "shared": True, "shared_ms_per_block": pytest.approx(64 * 131072 / 80e6)},
        **{"storage_blocks": 9, "storage_latency_ms": 0.1, "storage_read_gbps": 10.0, "storage_write_gbps": 10.0},
        **{"storage_shared_ms_per_block": pytest.approx(64 * 131072 / 80e6)},
        **{"storage_prefetch_policy": "wait_complete", "storage_prefetch_threshold": 1},
    }
    assert notes[0].endswith("g3_offload: what the storage does is ours, see docs/tiers.md")


@pytest.mark.parametrize(
    ("overrides", "problem"),
    [
        ((f"{HOST}={{num_host_blocks: 4}}", "engine.backend=sglang"), "host_offload: got it, want it left out"),
        ((f"{HOST}={{num_host_blocks: 4, scope: cluster_shared}}",), 'bytes_per_token: got "auto", want a number'),
        ((f"{HOST}={{num_host_blocks: 4, scope: worker_local}}",), 'scope: got "worker_local", want dp_rank_local'),
        ((f"{HOST}={{}}",), "num_host_blocks: got nothing, want it in the file"),
        ((f"{HOST}={{num_host_blocks: 4, h2d_bandwidth_gbps: -1}}",), "h2d_bandwidth_gbps: got -1.0, want a finite"),
        (("engine.nextn=2", "engine.nextn_accepted=2.5"), "nextn_accepted: got 2.5, want 0 to 2 tokens"),
        (("engine.model",), '--set: got "engine.model", want PATH=VALUE'),
        (("engine.model.name=x",), "--set: engine.model.name: model is"),
        (("engine.model={",), "--set: engine.model: line 1"),
        (("engine.model={1: 2}",), "--set: engine.model"),
        (("engine.model=" + "[" * 5000,), "--set: engine.model: nested too deeply"),
    ],
)
def test_what_has_no_counterpart_is_refused(tmp_path: Path, overrides: tuple[str, ...], problem: str) -> None:
    with pytest.raises(ValueError, match=re.escape(problem)):
        converted(tmp_path, *overrides)


def test_drafts_and_ranks_are_converted(tmp_path: Path) -> None:
    found, _ = converted(tmp_path, nextn=3, nextn_accepted=2.2, kvcache_quant_mode="fp8", enable_chunked_prefill=False)
    drafts = {"aic_nextn": 3, "aic_nextn_accept_rates": "1,1,0.2", "aic_kv_cache_dtype": "fp8"}
    assert found.items() >= {**drafts, "enable_chunked_prefill": False}.items()
    mtp = {"kind": "mtp", "num_speculative_tokens": 2, "expected_accepted_tokens": 0.5, "seed": 7}
    found, _ = converted(tmp_path, speculation=mtp)
    assert found.items() >= {"aic_nextn": 2, "aic_nextn_accept_rates": "0.5,0", "aic_mtp_seed": 7}.items()
    ranks = ("engine.workers.aggregated.parallelism={attention_data: 8, moe_expert: 8}",)
    found, _ = converted(tmp_path, *ranks, "engine.workers.aggregated.scheduler.prefill_schedule_interval=4")
    assert (
        found.items()
        >= {"scheduler": "vllm", "dp_size": 8, "aic_moe_ep_size": 8, "prefill_schedule_interval": 4}.items()
    )
    found, _ = converted(tmp_path, *ranks, "engine.backend=sglang")
    assert (found["scheduler"], found["dp_size"]) == ("sglang", 8)


RECOMMENDATIONS: dict[str, tuple[dict[str, Any], dict[str, Any], int]] = {
    "README: backends, and parallelism that fits": (
        {
            "engine": {"mode": "aggregated", "model": "m", "hardware": "auto",
                       "backend": {"choices": ["vllm", "sglang"]},
                       "workers": {"aggregated": {"parallelism": {"preset": "default"}, **POLYNOMIAL}}},
            "optimization": {"target": "throughput_per_gpu", "hardware": "h200_sxm",
                             "constraints": {"max_candidate_gpus": 4}},
        },
        {"objectives": ["output_tok_s_per_gpu"], "where": ["gpus <= 4"]},
        2 * (4 + 2 + 1),
    ),
    "user guide: a list of parallelisms, and two loads": (
        {
            "traffic": {"source": SYNTHETIC, "load": {"type": "concurrency", "concurrency": {"choices": [4, 8]}},
                        "stop": {"requests": 32}},
            "engine": {**QWEN, "mode": "aggregated", "backend_version": "0.24.0", "workers": {"aggregated": {
                "parallelism": {"preset": [
                    {"replicas": 1, "tensor": 1, "pipeline": 1, "attention_data": 1, "moe_tensor": 1},
                    {"replicas": 2, "tensor": 2, "pipeline": 1, "attention_data": 1, "moe_tensor": 1}]},
                "scheduler": {"max_batched_tokens": 8192, "max_sequences": 256}, **POLYNOMIAL}}},
            "optimization": {"target": "throughput_per_gpu", "constraints": {"max_candidate_gpus": 4}},
            "optimizer": {"algorithm": "random", "max_trials": 4, "parallelism": 1, "seed": 42},
        },
        {"objectives": ["output_tok_s_per_gpu"]},
        4,
    ),
    "migration: a service level that all have to keep": (
        {
            "traffic": {**RATE, "stop": {"requests_per_load_unit": 10}},
            "engine": {"mode": "aggregated", "model": "m", "hardware": "auto", "backend": "vllm",
                       "workers": {"aggregated": {"parallelism": {"preset": "default"}, **POLYNOMIAL}}},
            "evaluation": {"sla": {"ttft_ms": 800, "itl_ms": 30}},
            "optimization": {"target": "goodput_per_gpu", "hardware": "h200_sxm", "strict_sla": True,
                             "constraints": {"max_candidate_gpus": 2}},
        },
        {"objectives": ["goodput_rps_per_gpu"], "sla": {"mean_ttft_ms": 800, "mean_tpot_ms": 30}},
        3,
    ),
    "user guide: the fewest GPUs": (
        {
            "traffic": {**RATE, "stop": {"requests": 12}},
            "engine": {**QWEN, "mode": "aggregated",
                       "workers": {"aggregated": {"parallelism": {"replicas": {"choices": [1, 2]}}, **POLYNOMIAL}}},
            "evaluation": {"sla": {"ttft_ms": 800, "itl_ms": 30}},
            "optimization": {"target": "min_gpus", "constraints": {"min_goodput_rps": 2}},
        },
        {"objectives": ["gpus", "goodput_request_throughput_rps"], "where": ["gpus <= 32"],
         "sla": {"mean_ttft_ms": 800, "mean_tpot_ms": 30, "goodput_request_throughput_rps": {"min": 2}}},
        2,
    ),
    "sweep reference: a range of rates, and routers": (
        {
            "traffic": {"source": SYNTHETIC, "stop": {"requests_per_load_unit": 3}, "load": {
                "type": "constant_rate",
                "requests_per_second": {"range": {"min": 4, "max": 12, "step": 4, "scale": "linear"}}}},
            "engine": {**QWEN, "mode": "aggregated",
                       "workers": {"aggregated": {"parallelism": {"replicas": 2}, **POLYNOMIAL}}},
            "router": {"policy": {"choices": ["round_robin", "kv_router"]}},
            "optimization": {"target": "pareto"},
        },
        {"objectives": ["output_tok_s_per_gpu", "mean_output_token_throughput_per_user"]},
        6,
    ),
    "sweeps of DynoSim: settings that only one of two routers has, and an output": (
        {
            "traffic": {"source": SYNTHETIC, "load": {"type": "concurrency", "concurrency": 4},
                        "stop": {"requests": 20}},
            "engine": {**QWEN, "mode": "aggregated", "workers": {"aggregated": {
                "parallelism": {"preset": [{"replicas": 1, "tensor": 1}, {"replicas": 2, "tensor": 1}]},
                **POLYNOMIAL}}},
            "router": {"policy": {"choices": ["round_robin", "kv_router"]}, "prefill_load_model": {"type": "none"},
                       "overlap_score_credit": {"choices": [0.5, 1.0]}, "temperature": {"choices": [0.0, 0.2]}},
            "optimization": {"target": "throughput", "constraints": {"max_candidate_gpus": 2}},
            "dgd": {"name": "any", "format": "manifest"},
        },
        {"objectives": ["output_throughput_tok_s"]},
        1 + (1 + 4),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", RECOMMENDATIONS)
def test_recommendations_become_sweeps(tmp_path: Path, name: str) -> None:
    content, wanted, points = RECOMMENDATIONS[name]
    made = convertconfig.convert(written(tmp_path, content))
    assert made.sweep
    assert {key: made.content[key] for key in wanted} == wanted
    found = sweep.run(dict(made.content), tmp_path / "sweep")
    assert {point["status"] for point in found.points} <= {"ok", "infeasible"}, [p["reason"] for p in found.points]
    assert len({json.dumps(point["arguments"], sort_keys=True) for point in found.points}) == points


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        ("engine.mode", None, "engine.mode: got both, want aggregated or disaggregated"),
        ("engine.mode", {"choices": ["aggregated", "disaggregated"]}, "engine.mode: got both"),
        ("optimization.constraints", {"min_goodput_rps": 3}, "min_goodput_rps: want it left out but with target min"),
        ("optimization.target", "min_gpus", "evaluation.sla: got nothing, want bounds with target min_gpus"),
        ("optimization.hardware", None, "optimization.hardware: got nothing, want it with engine.hardware auto"),
        ("optimization.target", "cost", 'optimization.target: got "cost", want throughput or'),
        ("optimization.strict", True, "optimization.strict: unknown, did you mean optimization.strict_sla"),
        ("engine.backend", {"choices": []}, "engine.backend.choices: got [], want a list"),
        ("engine.nextns", 3, "engine.nextns: unknown, did you mean engine.nextn"),
        ("router", {"preset": "default"}, 'router.preset: got "default", want the values'),
        ("traffic", {**RATE, "stop": {"requests": {"range": {"min": 9, "max": 1}}}}, "range: want min and max"),
    ],
)
def test_what_recommendations_have_and_sweeps_have_not(tmp_path: Path, path: str, value: object, problem: str) -> None:
    content = next(iter(RECOMMENDATIONS.values()))[0]
    assert problem in refused(written(tmp_path, changed(content, path, value)))


def test_a_recommendation_without_a_domain(tmp_path: Path) -> None:
    content = {"engine": {**QWEN, "mode": "aggregated", "workers": {"aggregated": {"parallelism": {"replicas": 1}}}}}
    assert "engine: no domain to search" in refused(written(tmp_path, {**content, "optimization": {}}))


VIDUR = """#!/bin/sh
# a run of the simulator
python -m vidur.main \\
    --replica_config_device h100 --replica_config_network_device h100_dgx \\
    --replica_config_model_name meta-llama/Meta-Llama-3-8B \\
    --cluster_config_num_replicas 4 --replica_config_tensor_parallel_size 2 --replica_config_num_pipeline_stages 1 \\
    --request_generator_config_type synthetic --synthetic_request_generator_config_num_requests 128 \\
    --length_generator_config_type fixed --fixed_request_length_generator_config_prefill_tokens 2048 \\
    --fixed_request_length_generator_config_decode_tokens 512 \\
    --interval_generator_config_type poisson --poisson_request_interval_generator_config_qps 8.0 \\
    --global_scheduler_config_type lor --replica_scheduler_config_type vllm_v1 \\
    --vllm_v1_scheduler_config_chunk_size 512 --vllm_v1_scheduler_config_batch_size_cap 64 \\
    --no-metrics_config_store_plots --cache_config_enable_prefix_caching --time_limit 10800
"""


def test_a_command_of_vidur(tmp_path: Path) -> None:
    made = convertconfig.convert(written(tmp_path, VIDUR, "file.sh"))
    assert made.content == {
        **{"input_tokens": 2048, "output_tokens": 512, "request_count": 128, "request_rate": 8.0},
        **{"arrival_process": "poisson", "num_workers": 4, "router_mode": "least_requests", "max_sim_time_ms": 1.08e7},
        "extra_engine_args": {
            **{"engine_type": "vllm", "scheduler": "vllm", "aic_backend": "vllm", "aic_system": "h100_sxm"},
            **{"aic_model_path": "meta-llama/Meta-Llama-3-8B", "aic_tp_size": 2, "max_num_seqs": 64},
            **{"max_num_batched_tokens": 512, "block_size": 16, "enable_prefix_caching": True},
        },
    }
    assert sorted(note.split(":")[0] for note in made.notes) == [
        "--metrics_config_store_plots",
        "--replica_config_network_device",
    ]
    engine = {k: v for k, v in made.content["extra_engine_args"].items() if not k.startswith("aic_")}
    report = run_synthetic_trace_replay(**{**made.content, "extra_engine_args": engine})
    assert report["completed_requests"] == 128


def test_a_trace_that_vidur_plays(tmp_path: Path) -> None:
    trace = "--request_generator_config_type trace_replay --trace_request_generator_config_trace_file t.csv"
    head, tail = VIDUR.split("    --request_generator")[0], VIDUR[VIDUR.index("    --global") :]
    run = convertconfig.convert(written(tmp_path, f"{head}    {trace} \\\n{tail}", "file.sh")).content
    assert (run["trace_files"], run["trace_format"], run["num_workers"]) == (["t.csv"], "vidur", 4)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("device h100", "device a40", "--replica_config_device: got a40, want a100 or h100"),
        ("stages 1", "stages 2", "--replica_config_num_pipeline_stages: got 2, want 1"),
        ("_type fixed", "_type trace", "--length_generator_config_type: got trace, want fixed: lengths of a trace"),
        ("_type vllm_v1", "_type orca", "--replica_scheduler_config_type: got orca, want vllm_v1 or sarathi"),
        ("cap 64", "cap many", "batch_size_cap: got many, want a number"),
        ("_qps 8.0", "_qps 0x", "qps: got 0x, want a number"),
        ("--time_limit", "--unheard_of", "--unheard_of: no counterpart, want it left out"),
        ("main", "main stray", "stray: got a word, want flags"),
        (
            "-m vidur.main",
            "-m simulator.main",
            "simulator.main: an early version of Vidur, want a command with python -m",
        ),
    ],
)
def test_what_vidur_has_and_we_have_not(tmp_path: Path, old: str, new: str, problem: str) -> None:
    assert problem in refused(written(tmp_path, VIDUR.replace(old, new), "file.sh"))


# A configuration as AIConfigurator's documents have it.
GENERATED = {
    "ServiceConfig": {"model_path": "Qwen/Qwen3-32B-FP8", "served_model_name": "qwen3-32b", "port": 8000},
    "K8sConfig": {"k8s_namespace": "dynamo", "k8s_image": "nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.3.1"},
    "WorkerConfig": {"prefill_workers": 1, "decode_workers": 2},
    "Workers": {
        "prefill": {"tensor_parallel_size": 2, "pipeline_parallel_size": 1, "max_batch_size": 4},
        "decode": {"tensor_parallel_size": 2, "data_parallel_size": 1, "max_batch_size": 16, "max_seq_len": 8192},
    },
    "SlaConfig": {"isl": 4000, "osl": 100},
}


@pytest.mark.filterwarnings("ignore:.*hand-offs of KV take no time")
def test_two_pools_of_aiconfigurator(tmp_path: Path) -> None:
    made = convertconfig.convert(written(tmp_path, GENERATED))
    worker = {"engine_type": "vllm", "aic_tp_size": 2}
    assert made.content == {
        **{"input_tokens": 4000, "output_tokens": 100, "num_prefill_workers": 1, "num_decode_workers": 2},
        "prefill_engine_args": {**worker, "worker_type": "prefill", "max_num_seqs": 4},
        "decode_engine_args": {**worker, "worker_type": "decode", "max_num_seqs": 16, "max_model_len": 8192},
        **{"replay_concurrency": 32, "request_count": 320, "router_mode": "round_robin"},
    }
    assert run_synthetic_trace_replay(**made.content)["completed_requests"] == 320
    assert made.notes[0].startswith("NodeConfig.system_name: durations are built in")


def test_one_pool_of_aiconfigurator(tmp_path: Path) -> None:
    one = {
        **{"backend": "sglang", "ServiceConfig": {"model_path": "m"}, "NodeConfig": {"system_name": "h200_sxm"}},
        "params": {"agg": {"tensor_parallel_size": 4, "max_num_tokens": 4096, "moe_expert_parallel_size": 4}},
        **{"WorkerConfig": {"agg_workers": 3}, "SlaConfig": {"isl": 8, "osl": 9, "ttft": 500, "tpot": 20}},
        "BenchConfig": {"estimated_concurrency": 12},
    }
    run = convertconfig.convert(written(tmp_path, one)).content
    assert run["extra_engine_args"] == {
        **{"engine_type": "sglang", "aic_tp_size": 4, "aic_moe_tp_size": 1, "aic_moe_ep_size": 4, "max_num_seqs": 256},
        **{"sglang": {"chunked_prefill_size": 4096}, "aic_backend": "sglang", "aic_system": "h200_sxm"},
        "aic_model_path": "m",
    }
    assert (run["num_workers"], run["replay_concurrency"], run["sla_tpot_ms"]) == (3, 12, 20)


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        ("Workers.prefill.pipeline_parallel_size", 2, "pipeline_parallel_size: got 2, want it left out"),
        ("Workers.decode.tensors", 2, "Workers.decode.tensors: unknown"),
        ("Workers.decode", None, "Workers: got prefill, want agg, or prefill and decode"),
        ("K8sConfig.k8s_image", "x", "backend: got nothing, want vllm, sglang or trtllm"),
        ("backend", "tgi", 'backend: got "tgi", want vllm or sglang or trtllm'),
        ("SlaConfig.isl", None, "SlaConfig.isl: got nothing, want tokens of each request"),
        ("Planner", {"a": 1}, "Planner: unknown"),
    ],
)
def test_what_aiconfigurator_has_and_we_have_not(tmp_path: Path, path: str, value: object, problem: str) -> None:
    assert problem in refused(written(tmp_path, changed(GENERATED, path, value)))
