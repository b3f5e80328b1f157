"""The words of Dynamo 1.6: nested engine arguments, and options under their newer names."""

import json
import pickle
import subprocess
import sys

import pytest

from dynamo import sweep
from dynamo.mocker import MockEngineArgs
from dynamo.replay import run_synthetic_trace_replay, run_trace_replay

NESTED = {
    "engine": {"backend": "sglang", "num_gpu_blocks": 4096, "block_size": 16, "timing_model": {"type": "polynomial"}},
    "dp_size": 1,
    "tensor_parallel_size": 2,
    "dynamo": {"router_queue_policy": "wspt", "bootstrap_port": None},
}
FLAT = {
    **{"engine_type": "sglang", "num_gpu_blocks": 4096, "block_size": 16, "timing_model": "polynomial", "dp_size": 1},
    **{"aic_tp_size": 2, "router_queue_policy": "wspt"},
}


def report(arguments):
    found = dict(run_synthetic_trace_replay(100, 5, 4, extra_engine_args=arguments))
    return {key: value for key, value in found.items() if "wall" not in key and not key.startswith("processed")}


@pytest.mark.filterwarnings("ignore:engine argument router_queue_policy has no effect")
def test_nested_arguments_in_a_run():
    assert report(NESTED) == report(FLAT)
    assert report(NESTED)["decode_gpus_per_worker"] == 2


def test_nested_arguments_of_the_class():
    made = MockEngineArgs.from_json(json.dumps(NESTED))
    assert made == MockEngineArgs(**FLAT)
    assert MockEngineArgs.from_json(
        '{"timing_model": {"type": "fixed", "prefill_ms": 3, "decode_ms": 1}}'
    ).to_dict() == {
        "timing_model": "fixed",
        "fixed_prefill_ms": 3.0,
        "fixed_decode_ms": 1.0,
    }


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ('{"engine": {"zz": 1}}', 'unknown field "engine.zz"'),
        ('{"engine": {"num_gpu_block": 1}}', 'did you mean "engine.num_gpu_blocks"?'),
        ('{"engine": {"block_size": 16}, "block_size": 32}', "block_size: got 32 beside engine.block_size"),
        ('{"engine": {"native_host_offload": {}}}', "engine.native_host_offload: got {}, want it left out: KV offload"),
        ('{"engine": {"prefill_schedule_interval": 2}}', "engine.prefill_schedule_interval: got 2, want 1"),
        (
            '{"engine": {"timing_model": {"type": "external"}}}',
            "engine.timing_model.type: got .external., want polynomial",
        ),
        ('{"engine": 1}', "engine: got 1, want an object"),
        ('{"engine": {"block_size": "16"}}', 'block_size: got "16"'),
    ],
)
def test_mistakes_are_named_alike(text, want):
    with pytest.raises(ValueError, match=want.replace("{", r"\{").replace("?", r"\?")):
        MockEngineArgs.from_json(text)
    with pytest.raises(ValueError, match=want.replace("{", r"\{").replace("?", r"\?")):
        run_synthetic_trace_replay(100, 5, 1, extra_engine_args=json.loads(text))


def test_sweep_over_nested_arguments():
    run = {"input_tokens": 100, "output_tokens": 5, "request_count": 4, "extra_engine_args": NESTED}
    found = sweep.run({"run": run, "search": {"engine.num_gpu_blocks": [512, 1024]}})
    assert {point["knobs"]["engine.num_gpu_blocks"] for point in found} == {512, 1024}


def test_fixed_durations():
    given = {"engine": {"backend": "sglang", "timing_model": {"type": "fixed", "prefill_ms": 10, "decode_ms": 2}}}
    found = run_synthetic_trace_replay(256, 5, 1, extra_engine_args={**given, "scheduler": "sglang"})
    assert (found["mean_ttft_ms"], found["duration_ms"]) == (10, 18)


def test_aic_options_have_two_names(tmp_path):
    command = [
        sys.executable,
        "-m",
        "dynamo.replay",
        "--input-tokens",
        "10",
        "--output-tokens",
        "2",
        "--request-count",
        "1",
    ]
    for name in ("aic", "ais"):
        done = subprocess.run([*command, f"--{name}-backend", "vllm"], capture_output=True, text=True, cwd=tmp_path)
        assert done.returncode == 2
        assert "missing: --aic-system, --aic-model-path" in done.stderr


@pytest.mark.parametrize(
    "name", ["num-host-blocks", "host-offload-d2h-bandwidth-gbps", "host-offload-h2d-bandwidth-gbps"]
)
def test_host_blocks_are_refused(name):
    done = subprocess.run([sys.executable, "-m", "dynamo.mocker", f"--{name}", "5"], capture_output=True, text=True)
    assert done.returncode == 2
    assert f"{name.replace('-', '_')}: 5 is not built yet (KV offload tiers)" in done.stderr


def rates(**options):
    """A run with drawn lengths and arrivals: the lengths, and when requests arrive."""
    drawn = {"request_rate": 20, "arrival_process": "poisson", **options}
    rows = run_synthetic_trace_replay("uniform(50,500)", 5, 20, **drawn).requests
    return rows["input_length"].tolist(), rows["arrival_time_ms"].tolist()


def test_arrival_seed():
    lengths, arrivals = rates(seed=1)
    assert rates(seed=1, arrival_seed=1) == (lengths, arrivals)
    again, others = rates(seed=1, arrival_seed=2)
    assert again == lengths
    assert others != arrivals
    fewer, same = rates(seed=3, arrival_seed=1)
    assert fewer != lengths
    assert same == arrivals


def test_arrival_seed_without_effect():
    with pytest.warns(UserWarning, match="arrival_seed 5 has no effect with arrivals that are not drawn"):
        run_synthetic_trace_replay(50, 5, 2, arrival_seed=5)
    with pytest.warns(UserWarning, match="arrival_seed 5 has no effect with replay_concurrency"):
        run_synthetic_trace_replay(50, 5, 2, arrival_seed=5, replay_concurrency=1)
    with pytest.warns(UserWarning, match="seed 3 has no effect"):
        run_synthetic_trace_replay(50, 5, 2, request_rate=5, arrival_process="poisson", arrival_seed=5, seed=3)


def test_events_that_reach_the_router_late(tmp_path):
    """Three equal prompts: the second comes half a second after the first, the third a second after that."""
    trace = tmp_path / "trace.jsonl"
    prompt = {"input_length": 64, "output_length": 2, "hash_ids": [1, 2, 3, 4]}
    trace.write_text("".join(json.dumps({"timestamp": at, **prompt}) + "\n" for at in (0, 500, 1500)))

    def counted_on(lag):
        run = {"num_workers": 2, "router_mode": "kv_router", "trace_block_size": 16, "kv_event_lag_ms": lag}
        log = tmp_path / "log.jsonl"
        run_trace_replay(trace, extra_engine_args={"block_size": 16}, router_log=log, **run)
        found = [json.loads(line) for line in log.read_text().splitlines()]
        return [max(candidate["overlap_blocks"] for candidate in entry["candidates"]) for entry in found]

    assert [counted_on(lag) for lag in (None, 0, 400, 1000, 1e9)] == [[0, 4, 4]] * 3 + [[0, 0, 4], [0, 0, 0]]


@pytest.mark.parametrize(
    ("options", "want"),
    [
        ({"kv_event_lag_ms": -1, "num_workers": 2, "router_mode": "kv_router"}, "kv_event_lag_ms: got -1"),
        (
            {"kv_event_lag_ms": 5},
            "kv_event_lag_ms: got 5.0, want router_mode kv_router with it: a router of mode",
        ),
        (
            {"kv_event_lag_ms": 5, "replay_mode": "online", "num_workers": 2, "router_mode": "kv_router"},
            "kv_event_lag_ms: got 5.0, want replay_mode offline",
        ),
        ({"capture_per_request": True, "rows": False}, "rows: got false, want true, or no capture_per_request"),
        ({"agentic_lanes": 2}, "agentic_lanes: got 2, want it left out: replay_concurrency"),
        ({"ais_perf_config": {}}, "ais_perf_config: got {}, want it left out: aic_perf_config"),
        ({"execution_model": "x"}, 'execution_model: got "x", want it left out'),
    ],
)
def test_refused_parameters(options, want):
    with pytest.raises(ValueError, match=want.replace("{", r"\{")):
        run_synthetic_trace_replay(50, 5, 2, **options)


def test_defaults_of_newer_parameters():
    run_synthetic_trace_replay(50, 5, 2, agentic_lanes=None, ais_perf_config=None, kv_event_lag_ms=0)


def test_requests_as_dicts(tmp_path):
    path = tmp_path / "rows.jsonl"
    found = run_synthetic_trace_replay(50, 1, 3, capture_per_request=True, report_jsonl_path=path)
    assert found.per_request == [json.loads(line) for line in path.read_text().splitlines()]
    assert found.copy().per_request == pickle.loads(pickle.dumps(found)).per_request == found.per_request
    assert run_synthetic_trace_replay(50, 1, 3).per_request is None


def test_summary_with_the_names_of_dynamo_1_6():
    shared = {"shared_prefix_ratio": 0.5, "num_prefix_groups": 1, "extra_engine_args": {"eviction_backend": "lru"}}
    found = run_synthetic_trace_replay(256, 2, 10, arrival_interval_ms=100, **shared)
    summary = found.summary
    assert summary["num_ttft_samples"] == summary["num_e2e_latency_samples"] == summary["num_tpot_samples"] == 10
    assert summary["committed_prefill_tokens"] == 2560 - found.requests["reused_input_tokens"].sum() == 2560 - 9 * 128
    assert (summary["kv_eviction_policy"], summary["power_w"]) == ("lru", None)
    assert all(summary[key] == value for key, value in found.items() if key != "provenance")
    assert "provenance" not in summary
