"""Names of ai-dynamo 1.3 and 1.6, and prediction files of AISimulate."""

from __future__ import annotations

import copy
import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dynamo.mocker import MockEngineArgs, PlannerReplayBridge
from dynamo.replay import aisimulate, convertconfig, run_synthetic_trace_replay, run_trace_replay

EXAMPLE = Path(__file__).parent.parent / "examples" / "runs" / "aisimulate.yaml"


class Two:
    """A planner that wants two workers."""

    def initial_tick_ms(self) -> float:
        return 100.0

    def on_tick(self, metrics: dict[str, Any]) -> dict[str, Any]:
        return {"target_prefill": None, "target_decode": 2, "next_tick_ms": None}


def numbers(report: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in report.items() if key != "wall_time_ms" and not key.startswith("processed_")}


def test_planner_replay_bridge(tmp_path: Path) -> None:
    engine, options = MockEngineArgs(max_num_seqs=4), {"arrival_interval_ms": 20.0}
    bridge = PlannerReplayBridge.from_synthetic(500, 20, 30, engine, 1, **options)  # type: ignore[arg-type]
    report = bridge.run(Two())
    again = run_synthetic_trace_replay(
        500, 20, 30, extra_engine_args=engine, num_workers=1, planner=Two(), arrival_interval_ms=20.0
    )
    assert numbers(report)["mean_ttft_ms"] == numbers(again)["mean_ttft_ms"]
    assert [event["to"] for event in report["scaling_events"]] == [2]
    with pytest.raises(RuntimeError, match="this bridge has run already"):
        bridge.run(Two())


def test_planner_replay_bridge_of_a_trace(tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    rows = [{"timestamp": 50 * i, "input_length": 512, "output_length": 9, "hash_ids": [i]} for i in range(20)]
    trace.write_text("".join(json.dumps(row) + "\n" for row in rows))
    one = PlannerReplayBridge(trace, MockEngineArgs(), 1).run(Two())
    assert one["mean_ttft_ms"] == run_trace_replay(trace, num_workers=1, planner=Two())["mean_ttft_ms"]
    roles = [MockEngineArgs(worker_type="prefill"), MockEngineArgs(worker_type="decode")]
    assert PlannerReplayBridge.create_disagg(trace, *roles, 1, 1).run(Two())["completed_requests"] == 20
    made = PlannerReplayBridge.from_synthetic_disagg(100, 5, 4, *roles, 1, 1)
    assert made.run(Two())["completed_requests"] == 4


@pytest.mark.parametrize(
    ("module", "name", "instead"),
    [
        ("dynamo.mocker", "EngineCapacity", "find_max_rate"),
        ("dynamo.mocker", "EngineCapacityRequest", "find_max_rate"),
        ("dynamo.mocker", "EnginePerfLimits", "max_num_batched_tokens"),
        ("dynamo.mocker", "AicEngineConfig", "aic_backend"),
        ("dynamo.mocker", "OptimizationTarget", "dynamo.sweep"),
        ("dynamo.llm", "AisPerfConfig", "AicPerfConfig"),
    ],
)
def test_missing_names_say_what_to_take(module: str, name: str, instead: str) -> None:
    with pytest.raises(ImportError, match=f"{name} of ai-dynamo is not part of dynosim: .*{instead}"):
        exec(f"from {module} import {name}")
    with pytest.raises(AttributeError):
        importlib.import_module(module).Nonsense  # noqa: B018


def prediction() -> dict[str, Any]:
    """A prediction file that names much."""
    return {
        "traffic": {
            "source": {"type": "synthetic", "input_tokens": 256, "output_tokens": 8},
            "load": {"type": "constant_rate", "requests_per_second": 4},
            "stop": {"requests_per_load_unit": 2.5},
        },
        "engine": {
            "mode": "disaggregated",
            "backend": "vllm",
            "context_length": 4096,
            "kv_transfer": {"bytes_per_token": 1000, "bandwidth_gb_per_second": 10, "timing_mode": "full_prompt"},
            "workers": {
                role: {
                    "parallelism": {"replicas": replicas, "tensor": 2, "pipeline": 1, "moe_expert": 2},
                    "scheduler": {"max_batched_tokens": 2048},
                    "kv_cache": {
                        "block_size": 16,
                        "prefix_caching": True,
                        "bytes_per_token": 1000,
                        "capacity": {"type": "fixed", "bytes": 16_000_999},
                    },
                    "timing": {"type": "fixed", "prefill_ms": 10, "decode_ms": 2},
                    "startup_seconds": 0,
                }
                for role, replicas in (("prefill", 2), ("decode", 3))
            },
        },
        "evaluation": {"sla": {"e2e_ms": 100}},
    }


def test_two_pools_are_converted() -> None:
    made = aisimulate.Conversion(prediction())
    engine = {
        "engine_type": "vllm",
        "max_model_len": 4096,
        "aic_tp_size": 2,
        "aic_moe_tp_size": 1,
        "aic_moe_ep_size": 2,
    }
    engine |= {"max_num_batched_tokens": 2048, "block_size": 16, "num_gpu_blocks": 1000}
    engine |= {"timing_model": "fixed", "fixed_prefill_ms": 10, "fixed_decode_ms": 2}
    transfer = {"kv_bytes_per_token": 1000, "kv_transfer_bandwidth": 10, "kv_transfer_timing_mode": "full_prompt"}
    assert made.run == {
        **{"input_tokens": 256, "output_tokens": 8, "request_rate": 4, "request_count": 10, "sla_e2e_ms": 100},
        **{"num_prefill_workers": 2, "num_decode_workers": 3, "router_mode": "round_robin"},
        "prefill_engine_args": {**engine, **transfer, "worker_type": "prefill", "max_num_seqs": 1},
        "decode_engine_args": {**engine, "worker_type": "decode", "max_num_seqs": 256},
    }
    assert not made.notes


def test_traces_are_converted() -> None:
    content = prediction()
    content["traffic"] = {
        "source": {"type": "trace", "paths": ["a.jsonl"], "format": "mooncake-delta", "block_size": 64},
        "load": {"type": "trace_timestamps", "speedup": 2},
        "stop": {"max_virtual_time_seconds": 1.5},
    }
    run = aisimulate.Conversion(content).run
    assert {key: run[key] for key in run if "engine" not in key and "workers" not in key} == {
        **{"trace_files": ["a.jsonl"], "trace_format": "mooncake-delta", "trace_block_size": 64, "sla_e2e_ms": 100},
        **{"arrival_speedup_ratio": 2, "max_sim_time_ms": 1500.0, "router_mode": "round_robin"},
    }
    content["traffic"] = {"source": {"type": "trace", "paths": ["a.json"], "format": "weka", "block_size": 64}}
    made = aisimulate.Conversion(content)
    assert made.run["replay_concurrency"] == 10
    assert "trace_block_size" not in made.run
    assert made.notes == ["traffic.source.block_size: a trace of format weka says it itself"]
    content["traffic"]["load"] = {"type": "trace_timestamps", "agentic_lanes": 4}
    lanes = aisimulate.Conversion(content).run
    assert lanes["agentic_lanes"] == 4
    assert "replay_concurrency" not in lanes
    content["traffic"]["load"] = {"type": "concurrency", "agentic_lanes": 4}
    with pytest.raises(ValueError, match=r'load\.type: got "concurrency", want trace_timestamps'):
        aisimulate.Conversion(content)


def test_models_and_hardware_are_converted() -> None:
    content: dict[str, Any] = {
        "traffic": prediction()["traffic"],
        "engine": {"model": "m", "hardware": "h100_sxm", "backend": "sglang", "backend_version": 0.5},
        "router": {"policy": "kv_router", "prefill_load_model": {"type": "aic"}, "prefill_load_scale": 2},
        "execution": {"resources": {}},
    }
    content["engine"]["workers"] = {"aggregated": {"parallelism": {"replicas": 2}}}
    made = aisimulate.Conversion(content)
    aic = {"aic_backend": "sglang", "aic_system": "h100_sxm", "aic_model_path": "m", "aic_backend_version": "0.5"}
    assert made.run["extra_engine_args"] == {
        **{"engine_type": "sglang", "max_num_batched_tokens": 8192, "max_num_seqs": 256, "block_size": 1},
        **{"mem_fraction_static": 0.88, **aic},
    }
    assert made.run["aic_perf_config"] == aic
    assert made.run["router_config"] == {"prefill_load_scale": 2, "router_prefill_load_model": "aic"}
    assert [note.partition(":")[0] for note in made.notes] == ["execution"]
    content["engine"]["workers"]["aggregated"]["parallelism"]["replicas"] = 1
    made = aisimulate.Conversion(content)
    assert "router_mode" not in made.run
    assert made.notes[0] == "router.policy: kv_router changes nothing with one worker"


POOL = "engine.workers.prefill"


@pytest.mark.parametrize(
    ("path", "value", "want"),
    [
        ("engine", None, "engine: got nothing, want it in the file"),
        ("traffic.source.kind", 1, "traffic.source.kind: unknown, want"),
        ("traffic.source.input_token", 1, "input_token: unknown, did you mean traffic.source.input_tokens"),
        ("traffic.source.output_tokens", 0, "traffic.source.output_tokens: got 0, want an integer above 0"),
        ("traffic.source.cached_prefix_tokens", 640, "cached_prefix_tokens: got 640, want at most the tokens of a"),
        ("traffic.source.images", {"count": 1}, 'images: got {"count": 1}, want it left out: images, their encoders'),
        ("traffic.load.type", "kv_capacity_fraction", "want concurrency or constant_rate or poisson"),
        ("traffic.load.requests_per_second", {"choices": [1, 2]}, "want one value: dynamo.sweep searches several"),
        ("traffic.load.agentic_warmup", 4, "traffic.load.agentic_warmup: got 4, want it left out: a run begins"),
        ("traffic.stop.requests", 5, "requests_per_load_unit: want it left out beside traffic.stop.requests"),
        ("engine.mode", "afd", 'engine.mode: got "afd", want aggregated or disaggregated'),
        ("engine.afd", {}, "engine.afd: got {}, want it left out: attention and experts"),
        ("engine.speculation", {"a": 1}, "engine.speculation.a: unknown"),
        (
            "engine.speculation",
            {"kind": "ngram"},
            'speculation.kind: got "ngram", want mtp: passes without draft layers',
        ),
        ("engine.speculation", {"kind": "eagle"}, 'speculation.kind: got "eagle", want mtp'),
        ("engine.nextn", 3, "engine.nextn_accepted: got nothing, want it in the file"),
        (
            "engine.estimation_mode",
            "fpm_regression",
            'estimation_mode: got "fpm_regression", want it left out: measured',
        ),
        ("engine.systems_paths", ["default", "mine"], "systems_paths: got"),
        ("engine.placement", {"policy": "session_affinity"}, "engine.placement: got"),
        ("traffic.load.fraction", 0.5, "traffic.load.fraction: want it left out: clients are a number"),
        ("router.affinity", {"mode": "session"}, "router.affinity: got"),
        ("planner", {"scaling_policy": {"preset": ["disabled"]}}, "planner.scaling_policy: got"),
        (f"{POOL}.vision", {"cache_mib": 100}, "vision: got"),
        (f"{POOL}.parallelism.decode_context", 2, "decode_context: got 2, want it left out: context parallelism"),
        (f"{POOL}.scheduler.prefill_decode_interval", 3, "prefill_decode_interval: got 3, want it left out: no decode"),
        ("engine.workers.encoder", {"tensor": 1}, "engine.workers.encoder: got"),
        ("engine.kv_transfer.bytes_per_token", "auto", 'bytes_per_token: got "auto", want a number of bytes'),
        (f"{POOL}.parallelism.pipeline", 2, "parallelism.pipeline: got 2, want it left out"),
        (
            f"{POOL}.kv_cache.host_offload",
            {"num_host_blocks": 5},
            "kv_cache.host_offload: got it, want it left out: host",
        ),
        (f"{POOL}.kv_cache.g3_offload", {"num_g3_blocks": 5}, "kv_cache.g3_offload: got it alone, want host_offload"),
        (
            f"{POOL}.kv_cache.bytes_per_token",
            "auto",
            'bytes_per_token: got "auto", want a number beside capacity.bytes',
        ),
        (f"{POOL}.kv_cache.bytes_per_token", 0, "kv_cache.bytes_per_token: got 0, want an integer above 0"),
        ("traffic.stop.requests_per_load_unit", 1e308, "requests_per_load_unit: got 1e+308, want fewer requests"),
        (f"{POOL}.kv_cache.capacity.type", "default", "kv_cache.capacity.bytes: unknown"),
        (f"{POOL}.kv_cache.prefix_caching", 1, "kv_cache.prefix_caching: got 1, want true or false"),
        (f"{POOL}.timing.prefill_ms", None, "timing.prefill_ms: got nothing, want it in the file"),
        (f"{POOL}.timing", {"type": "default"}, "engine.hardware: got nothing, want it in the file"),
        (f"{POOL}.timing", {"type": "default", "forward_model": "fpm"}, 'forward_model: got "fpm", want it left out'),
        ("router", {"temperature": 1}, "router: got settings of kv_router, want router.policy kv_router with them"),
        ("planner", {"policy": "enabled"}, 'planner.policy: got "enabled", want disabled: autoscaler'),
        ("evaluation.sla.ttft_ms", -1, "evaluation.sla.ttft_ms: got -1, want a finite number above 0"),
        ("optimizer", {}, "optimizer: this is a file for aisimulate recommend"),
        ("engine.workers", 5, "engine.workers: got 5, want an object"),
        ("engines", {}, "engines: unknown, did you mean engine"),
    ],
)
def test_what_is_missing_is_refused_by_its_path(tmp_path: Path, path: str, value: object, want: str) -> None:
    content = prediction()
    *above, last = path.split(".")
    place = content
    for key in above:
        place = place.setdefault(key, {})
    place[last] = value
    file = tmp_path / "prediction.json"
    file.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=r"^FILE: .*prediction\.json: ") as caught:
        convertconfig.convert(str(file))
    assert want in str(caught.value)


def command(*words: object) -> subprocess.CompletedProcess[str]:
    arguments = [sys.executable, "-m", "dynamo.replay", *map(str, words)]
    return subprocess.run(arguments, capture_output=True, text=True, check=False)


def test_the_command(tmp_path: Path) -> None:
    printed = command("convert-config", EXAMPLE)
    saved = command("convert-config", EXAMPLE, "--output-file", tmp_path / "run.json")
    assert (printed.returncode, saved.returncode) == (0, 0), printed.stderr + saved.stderr
    assert json.loads(printed.stdout) == json.loads((tmp_path / "run.json").read_text())
    ran = command("--config", tmp_path / "run.json", "--report-json", tmp_path / "report.json")
    assert ran.returncode == 0, ran.stderr
    assert json.loads((tmp_path / "report.json").read_text())["completed_requests"] == 200
    missing = command("convert-config", tmp_path / "none.yaml")
    assert (missing.returncode, missing.stdout) == (2, "")
    assert missing.stderr.startswith("error: FILE: ")
    assert command("convert-config").returncode == 2


@pytest.mark.filterwarnings("ignore:.*aic_moe_tp_size, aic_moe_ep_size have no effect")
def test_two_pools_run() -> None:
    run = copy.deepcopy(aisimulate.Conversion(prediction()).run)
    sizes = [run.pop(name) for name in ("input_tokens", "output_tokens", "request_count")]
    assert run_synthetic_trace_replay(*sizes, **run)["completed_requests"] == 10
