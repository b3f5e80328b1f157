"""The words of Dynamo 1.6: nested engine arguments, and options under their newer names."""

import json
import subprocess
import sys

import pytest

from dynamo import sweep
from dynamo.mocker import MockEngineArgs
from dynamo.replay import run_synthetic_trace_replay

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
