"""The words of Dynamo 1.6: nested engine arguments, and options under their newer names."""

import itertools
import json
import math
import pickle
import subprocess
import sys

import pytest

from dynamo import sweep
from dynamo.mocker import KvRouterConfig, MockEngineArgs
from dynamo.replay import TelemetryOptions, run_synthetic_trace_replay, run_trace_replay

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
    assert f"{name.replace('-', '_')}: 5 is not built yet (KV offload tiers with scheduler dynamo)" in done.stderr


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


def test_late_events_on_the_clock(tmp_path):
    """A session's second turn comes 20 ms after the end of its first."""
    shared = {"shared_prefix_ratio": 0.5, "num_prefix_groups": 1}
    run = {"num_workers": 2, "router_mode": "kv_router", "turns_per_session": 2, "inter_turn_delay_ms": 20, **shared}
    args = {"block_size": 16, "speedup_ratio": 20}

    def counted_on(lag):
        log = tmp_path / "log.jsonl"
        more = {"replay_mode": "online", "extra_engine_args": args, "kv_event_lag_ms": lag, "router_log": log}
        run_synthetic_trace_replay(200, 2, 1, **run, **more)
        found = [json.loads(line) for line in log.read_text().splitlines()]
        return [max(candidate["overlap_blocks"] for candidate in entry["candidates"]) for entry in found]

    assert [counted_on(lag) for lag in (0, 5, 1e9)] == [[0, 7], [0, 7], [0, 0]]


@pytest.mark.parametrize(
    ("options", "want"),
    [
        ({"kv_event_lag_ms": -1, "num_workers": 2, "router_mode": "kv_router"}, "kv_event_lag_ms: got -1"),
        (
            {"kv_event_lag_ms": 5},
            "kv_event_lag_ms: got 5.0, want router_mode kv_router with it: a router of mode",
        ),
        ({"capture_per_request": True, "rows": False}, "rows: got false, want true, or no capture_per_request"),
        ({"ais_perf_config": {}}, "ais_perf_config: got {}, want it left out: aic_perf_config"),
        ({"execution_model": "x"}, 'execution_model: got "x", want it left out'),
    ],
)
def test_refused_parameters(options, want):
    with pytest.raises(ValueError, match=want.replace("{", r"\{")):
        run_synthetic_trace_replay(50, 5, 2, **options)


def test_defaults_of_newer_parameters():
    run_synthetic_trace_replay(50, 5, 2, execution_model=None, ais_perf_config=None, kv_event_lag_ms=0)


def agents(folder, starts):
    """Recordings of agents that begin at these times, each with a sub-agent 150 ms later."""
    rows, blocks = [], iter(range(1000))

    def record(session, name, begin, length, parent=None):
        context = {"session_id": session} | ({"parent_session_id": parent} if parent else {})
        known = {"trace_block_size": 4, "input_length": 4 * length}
        known["input_sequence_hashes"] = [next(blocks) for _ in range(length)]
        request = {"request_id": name, "output_tokens": 2, "request_received_ms": begin, "replay": known}
        kind = {"schema": "dynamo.request.trace.v1", "event_type": "request_end", "event_time_unix_ms": begin + 100}
        rows.append(json.dumps({**kind, "agent_context": context, "request": request}) + "\n")

    for agent, start in starts.items():
        record(agent, agent + "1", start, 2)
        record(agent + "-sub", agent + "-sub1", start + 150, 2, agent)
        record(agent, agent + "2", start + 400, 3)
    path = folder / "agents.jsonl"
    path.write_text("".join(rows))
    return path


def test_lanes_of_agents(tmp_path):
    """As ai-dynamo 1.6.1 does it: the next agent begins when one and its sub-agents are over."""
    trace = agents(tmp_path, {"P": 1000, "Q": 1500, "R": 9000, "S": 9100})

    def spans(**more):
        found = run_trace_replay(trace, trace_format="dynamo", capture_per_request=True, **more).per_request
        spans = {}
        for row in found:
            span = spans.setdefault(row["session_id"][0], [math.inf, 0])
            span[:] = min(span[0], row["arrival_time_ms"]), max(span[1], row["last_token_ms"])
        return [spans[agent] for agent in "PQRS"]

    assert [begin for begin, _ in spans()] == [0, 500, 8000, 8100]
    p, q, r, s = spans(agentic_lanes=1)
    assert (p[0], q[0], r[0], s[0]) == (0, p[1], q[1], r[1])
    p, q, r, s = spans(agentic_lanes=3)
    assert (p[0], q[0], r[0], s[0]) == (0, 0, 0, min(p[1], q[1], r[1]))
    assert [begin for begin, _ in spans(agentic_lanes=9)] == [0] * 4
    plain = tmp_path / "plain.jsonl"
    plain.write_text('{"timestamp": 0, "input_length": 4, "output_length": 1, "hash_ids": [1]}\n')
    for wrong, want in (
        ({"agentic_lanes": 0}, "agentic_lanes: got 0, want an integer"),
        (
            {"agentic_lanes": 2, "replay_concurrency": 2},
            "agentic_lanes: got 2, want it left out beside replay_concurrency",
        ),
        ({"agentic_lanes": 2}, "agentic_lanes: got 2, want it left out, or a trace of agents"),
    ):
        with pytest.raises(ValueError, match=want):
            run_trace_replay(plain, **wrong)


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


BUSY = {"num_workers": 2, "router_mode": "kv_router", "shared_prefix_ratio": 0.5, "num_prefix_groups": 3}


def busy(**options):
    return run_synthetic_trace_replay(600, 50, 60, arrival_interval_ms=5, **{**BUSY, **options})


def counted(found):
    return {key: value for key, value in found.items() if "wall" not in key and not key.startswith("processed_")}


CRASH = {"kind": "crash", "at_ms": 100, "target": "worker:1"}


@pytest.mark.parametrize(
    "options",
    [{"num_workers": 1, "router_mode": "round_robin"}, {"faults": [CRASH], "migration_limit": 1}, {"rows": False}],
)
def test_telemetry_changes_nothing(options):
    plain, found = busy(**options), busy(telemetry_options=TelemetryOptions(25), **options)
    if "faults" not in options:  # and otherwise sums of worker seconds come from other terms
        assert counted(found) == counted(plain)
    assert found["mean_e2e_latency_ms"] == plain["mean_e2e_latency_ms"]
    assert found.requests == plain.requests
    assert found.keys() == plain.keys()


@pytest.mark.parametrize("engine", [{}, {"engine_type": "sglang"}, {"scheduler": "vllm"}])
def test_telemetry(engine):
    plain = busy(extra_engine_args=engine)
    found = busy(extra_engine_args=engine, telemetry_options=TelemetryOptions(sample_interval_ms=50))
    assert found.requests == plain.requests
    assert counted(found) == counted(plain)
    samples = found.telemetry.samples
    kinds = [sample["kind"] for sample in samples]
    assert kinds == ["baseline", *["periodic"] * (len(samples) - 2), "final"]
    assert [sample["sample_ordinal"] for sample in samples] == list(range(len(samples)))
    assert [sample["sampled_at_ms"] for sample in samples[:-1]] == [50.0 * i for i in range(len(samples) - 1)]
    assert samples[-1]["sampled_at_ms"] == pytest.approx(plain["duration_ms"])
    for earlier, later in itertools.pairwise(samples):
        assert later["interval_start_ms"] == earlier["sampled_at_ms"]
    for key, total in (("arriving_requests", 60), ("completed_requests", 60), ("router_kv_hit_rate_count", 60)):
        assert sum(sample["traffic"][key] for sample in samples) == total
    arrivals, ends = plain.requests["arrival_time_ms"], plain.requests["last_token_ms"]
    for sample in samples[1:-1]:
        at, workers = sample["sampled_at_ms"], sample["decode_scheduler_metrics"]
        assert [worker["worker_id"] for worker in workers] == sample["active_decode_ids"] == [0, 1]
        inside = sum(worker["running_requests"] + worker["waiting_requests"] for worker in workers)
        alive = ((arrivals <= at) & (ends > at)).sum()
        assert inside == alive if at < ends.min() else inside <= alive  # a pass may be ending some
        assert all(0 <= worker["active_cache_usage"] <= 1 for worker in workers)
    assert samples[-1]["decode_scheduler_metrics"][0]["running_requests"] == 0


@pytest.mark.filterwarnings("ignore:.*hand-offs of KV take no time")
def test_telemetry_of_two_pools():
    pools = {f"{role}_engine_args": {"worker_type": role} for role in ("prefill", "decode")}
    options = {**pools, "router_mode": "round_robin", "num_prefill_workers": 2, "num_decode_workers": 1}
    plain = run_synthetic_trace_replay(600, 50, 20, **options)
    found = run_synthetic_trace_replay(600, 50, 20, telemetry_options=TelemetryOptions(), **options)
    assert found.requests == plain.requests
    first = found.telemetry.samples[0]
    assert (first["active_prefill_ids"], first["active_decode_ids"]) == ([0, 1], [0])


class UpAndDown:
    """Has one to three workers in turn, every 60 ms."""

    def initial_tick_ms(self):
        self.seen = []
        return 60.0

    def on_tick(self, metrics):
        self.seen.append(metrics)
        return {
            "target_prefill": None,
            "target_decode": 1 + len(self.seen) % 3,
            "next_tick_ms": metrics["now_ms"] + 60.0,
        }


@pytest.mark.parametrize("engine", [{}, {"scheduler": "vllm"}])
def test_telemetry_beside_a_planner(engine):
    alone, beside = UpAndDown(), UpAndDown()
    started = {**engine, "startup_time": 0.03}
    plain = busy(extra_engine_args=started, planner=alone)
    found = busy(extra_engine_args=started, planner=beside, telemetry_options=TelemetryOptions(20))
    assert str(beside.seen) == str(alone.seen)  # to the last bit; as text, since nan is not equal to itself
    assert found.requests == plain.requests
    summed = ("decode_worker_seconds", "gpu_hours")  # from other terms, as samples are instants, too
    assert [found[key] for key in summed] == pytest.approx([plain[key] for key in summed], rel=1e-12)
    assert counted(found) == counted(plain) | {key: found[key] for key in summed}
    samples = found.telemetry.samples
    assert samples[3]["sampled_at_ms"] == 60.0  # before the planner decides at that instant
    assert (samples[3]["starting_decode_ids"], samples[3]["draining_decode_ids"]) == ([], [])
    states = {state: {len(sample[f"{state}_decode_ids"]) for sample in samples} for state in ("starting", "draining")}
    assert states["starting"] > {0}
    assert states["draining"] > {0}
    assert sum(sample["traffic"]["arriving_requests"] for sample in samples) == 60
    assert sum(sample["traffic"]["completed_requests"] for sample in samples) == 60


def test_telemetry_beside_an_autoscaler():
    policy = {"policy": "queue", "target": 2, "max": 6, "sync_s": 0.1}
    plain = busy(autoscaler=policy)
    found = busy(autoscaler=policy, telemetry_options=TelemetryOptions(7))
    assert found.requests == plain.requests
    assert found["scaling_events"] == plain["scaling_events"]
    assert len({len(sample["active_decode_ids"]) for sample in found.telemetry.samples}) > 1


def test_samples_do_not_keep_a_run_going():
    class Ends:
        def initial_tick_ms(self):
            return 1.0

        def on_tick(self, metrics):
            return {"target_prefill": None, "target_decode": 0, "next_tick_ms": None}

    with pytest.raises(RuntimeError, match="dead end"):
        busy(planner=Ends(), telemetry_options=TelemetryOptions(10))


def test_telemetry_goes_to_callbacks_and_files(tmp_path):
    seen, path = [], tmp_path / "deep" / "samples.jsonl"

    def look(sample):
        seen.append(sample)
        assert len(path.read_text().splitlines()) == len(seen)  # the file is written during the run

    options = TelemetryOptions(sample_interval_ms=100, callback=look, jsonl_path=path)
    assert busy(telemetry_options=options).telemetry is None
    assert len(seen) > 3
    assert [json.loads(line) for line in path.read_text().splitlines()] == seen
    both = busy(telemetry_options=TelemetryOptions(100, True, seen.append))
    assert pickle.loads(pickle.dumps(both)).telemetry == both.telemetry
    assert both.telemetry.to_dict()["samples"] == seen[len(seen) // 2 :]


def test_a_callback_that_fails():
    def fail(sample):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        busy(telemetry_options=TelemetryOptions(callback=fail))


@pytest.mark.parametrize(
    ("given", "options", "error", "want"),
    [
        ({}, {"telemetry_options": 100}, TypeError, "telemetry_options: got 100, want a TelemetryOptions"),
        ({"sample_interval_ms": 0}, {}, ValueError, "sample_interval_ms: got 0.0, want a number from 1 to 1e15"),
        ({"sample_interval_ms": float("nan")}, {}, ValueError, "sample_interval_ms: got nan, want a number from 1"),
        ({"callback": 1}, {}, TypeError, "telemetry_options: callback: got 1, want a function"),
        ({"capture_in_memory": 1}, {}, TypeError, "capture_in_memory: got 1, want true or false"),
        ({"jsonl_path": ""}, {}, ValueError, "jsonl_path"),
    ],
)
def test_telemetry_options_are_checked(given, options, error, want):
    with pytest.raises(error, match=want):
        busy(**{"telemetry_options": TelemetryOptions(**given), **options})


def test_router_policy_files_are_refused_where_they_are_written():
    want = 'router_policy_config: "p.yaml" is not built yet'
    with pytest.raises(ValueError, match=want):
        KvRouterConfig(router_policy_config="p.yaml")
    with pytest.raises(ValueError, match=want):
        KvRouterConfig.from_json('{"router_policy_config": "p.yaml"}')
    assert KvRouterConfig(router_policy_config=None) == KvRouterConfig()
