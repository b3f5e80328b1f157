"""Names and habits of programs that were written for the reference."""

from __future__ import annotations

import argparse
import inspect
import json
import os
import subprocess
import sys
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import TINY, Cli, row, write_trace

import dynamo.llm
import dynamo.mocker
from dynamo._core.version import VERSION
from dynamo._shell.fields import Field, fields_of
from dynamo._shell.tables import table
from dynamo.mocker import (
    AicFields,
    AicPerfConfig,
    EngineFields,
    HostCacheArgs,
    HostCacheFields,
    KvRouterConfig,
    MockEngineArgs,
    ReasoningConfig,
    ReasoningFields,
    RouterFields,
    SglangArgs,
    SglangFields,
    TrtllmArgs,
    TrtllmFields,
    run_mocker_trace_replay,
)
from dynamo.mocker.args import parse_args, resolve_planner_profile_data
from dynamo.replay import run_synthetic_trace_replay, run_trace_replay
from dynamo.replay.reporting import STAT_COLUMNS, format_report_table, write_report_json

PROFILES = Path(__file__).parent.parent / "examples" / "profiles"
FOLDER = PROFILES / "H200_TP1P_TP1D"
ROWS = [row(0, 8, 3, [1, 2]), row(10, 8, 2, [3, 4]), row(60, 8, 1, [5, 6])]


@pytest.fixture
def trace(folder: Path) -> str:
    return write_trace(folder / "trace.jsonl", ROWS)


def test_run_mocker_trace_replay(trace: str) -> None:
    same = run_trace_replay(trace, extra_engine_args={"block_size": 4}, num_workers=2, trace_block_size=4)
    engine = MockEngineArgs(block_size=4)
    assert run_mocker_trace_replay(trace, engine, None, 2, trace_block_size=4)["duration_ms"] == same["duration_ms"]
    with pytest.warns(UserWarning, match="model_name") as caught:
        run_mocker_trace_replay(trace, engine, model_name="m", trace_block_size=4)
    assert [warning.filename for warning in caught] == [__file__]
    with pytest.raises(TypeError, match="replay_mode"):
        run_mocker_trace_replay(trace, replay_mode="online")  # type: ignore[call-arg]


def test_a_model_name_without_a_policy_file(trace: str, cli: Cli) -> None:
    with pytest.warns(UserWarning, match='^model_name "m" has no effect without router_policy_config$'):
        run_trace_replay(trace, model_name="m", trace_block_size=4)
    done = cli(trace, "--trace-block-size", "4", "--model-name", "m")
    assert done.returncode == 0
    assert done.stderr == 'warning: model_name "m" has no effect without router_policy_config\n'


def test_write_report_json_by_its_keyword(folder: Path) -> None:
    report = run_synthetic_trace_replay(20, 3, 5)
    assert write_report_json(report, output_path=folder / "report.json") == folder / "report.json"
    assert json.loads((folder / "report.json").read_text())["num_requests"] == 5


def test_names_of_the_table() -> None:
    assert STAT_COLUMNS == ("avg", "min", "max", "p99", "p90", "p75", "std")
    heading = format_report_table({}).splitlines()[2]
    assert tuple(heading.replace("┃", " ").split()[1:]) == STAT_COLUMNS


def test_the_version() -> None:
    assert dynamo.mocker.__version__ == VERSION
    asked = subprocess.run([sys.executable, "-m", "dynamo.mocker", "--version"], capture_output=True, text=True)
    assert asked.stdout.split()[-1] == dynamo.mocker.__version__
    assert dynamo.llm.TrtllmArgs is TrtllmArgs


def test_everything_offered_exists() -> None:
    for module in (dynamo.mocker, dynamo.llm):
        assert [name for name in module.__all__ if not hasattr(module, name)] == []
    with pytest.raises(AttributeError, match="nonsense"):
        _ = dynamo.mocker.nonsense
    with pytest.raises(AttributeError, match="nonsense"):
        _ = dynamo.mocker.args.nonsense


def test_paths_for_texts_that_are_paths() -> None:
    plain = run_synthetic_trace_replay(500, 20, 50, extra_engine_args={"planner_profile_data": str(FOLDER)})
    arguments: list[MockEngineArgs | EngineFields] = [
        MockEngineArgs(planner_profile_data=FOLDER),
        {"planner_profile_data": FOLDER},
    ]
    for args in arguments:
        report = run_synthetic_trace_replay(500, 20, 50, extra_engine_args=args)
        assert report["duration_ms"] == plain["duration_ms"]
    assert MockEngineArgs(planner_profile_data=FOLDER).planner_profile_data == str(FOLDER)
    assert MockEngineArgs(aic_model_path=Path("m")).to_json() == '{"aic_model_path": "m"}'
    with pytest.raises(TypeError, match="aic_system"):
        MockEngineArgs(aic_system=Path("h200_sxm"))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="aic_system"):
        run_synthetic_trace_replay(20, 3, 5, extra_engine_args={"aic_system": Path("h200_sxm")})  # type: ignore[dict-item]


# parse_args

# What the reference gives for no options but a model, where it knows the option.
DEFAULTS = {
    "model_path": "m", "endpoint": "dyn://dynamo.backend.generate", "model_name": None, "num_gpu_blocks": None,
    "block_size": None, "max_num_seqs": 256, "max_num_batched_tokens": 8192, "enable_prefix_caching": True,
    "enable_chunked_prefill": True, "preemption_mode": "lifo", "speedup_ratio": 1.0, "decode_speedup_ratio": 1.0,
    "dp_size": 1, "startup_time": None, "planner_profile_data": None, "aic_perf_model": False, "aic_system": None,
    "gpu_memory_utilization": None, "mem_fraction_static": None, "free_gpu_memory_fraction": None,
    "aic_backend": None, "aic_backend_version": None, "aic_tp_size": None, "aic_moe_tp_size": None,
    "aic_moe_ep_size": None, "aic_attention_dp_size": None, "aic_nextn": None, "aic_nextn_accept_rates": None,
    "aic_mtp_seed": 42, "num_workers": 1, "reasoning": None, "response_replay_trace_path": None, "engine_type": "vllm",
    "sglang_schedule_policy": None, "sglang_page_size": None, "sglang_max_prefill_tokens": None,
    "sglang_chunked_prefill_size": None, "sglang_clip_max_new_tokens": None, "sglang_schedule_conservativeness": None,
    "trtllm_capacity_scheduler_policy": None, "extra_engine_args": None, "disaggregation_mode": "agg",
    "is_prefill_worker": False, "is_decode_worker": False, "durable_kv_events": False, "zmq_kv_events_ports": None,
    "zmq_replay_ports": None, "bootstrap_ports": None, "kv_transfer_bandwidth": 64.0, "kv_cache_dtype": "auto",
    "kv_transfer_timing_mode": "full_prompt", "kv_bytes_per_token": None, "num_g2_blocks": None, "num_g3_blocks": None,
    "enable_g4_storage": False, "offload_batch_size": None, "bandwidth_g1_to_g2_gbps": None,
    "bandwidth_g2_to_g1_gbps": None, "bandwidth_g2_to_g3_gbps": None, "bandwidth_g3_to_g2_gbps": None,
    "bandwidth_g2_to_g4_gbps": None, "bandwidth_g4_to_g2_gbps": None, "stagger_delay": -1.0,
    "discovery_backend": "etcd", "request_plane": "tcp", "bootstrap_ports_list": [], "zmq_kv_events_ports_list": [],
    "zmq_replay_ports_list": [],
}  # fmt: skip


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("DYN_")]:
        monkeypatch.delenv(name)


def test_parse_args_has_the_documented_defaults() -> None:
    options = parse_args(["--model-path", "m"])
    assert type(options) is argparse.Namespace
    assert {name: getattr(options, name) for name in DEFAULTS} == DEFAULTS


def changed(*arguments: str) -> dict[str, Any]:
    return {name: value for name, value in vars(parse_args(arguments)).items() if value != DEFAULTS.get(name, value)}


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (["--num-gpu-blocks-override", "5", "--data-parallel-size", "2"], {"num_gpu_blocks": 5, "dp_size": 2}),
        (["--bootstrap-ports", ""], {"bootstrap_ports": ""}),
        (
            ["--bootstrap-ports", "1, 2", "--num-workers", "2"],
            {"num_workers": 2, "bootstrap_ports": "1, 2", "bootstrap_ports_list": [1, 2]},
        ),
        (
            ["--disaggregation-mode", "prefill"],
            {
                "disaggregation_mode": "prefill",
                "is_prefill_worker": True,
                "endpoint": "dyn://dynamo.prefill.generate",
            },
        ),
        (["--is-decode-worker"], {"disaggregation_mode": "decode", "is_decode_worker": True}),
        (["--extra-engine-args", "a.json"], {"extra_engine_args": Path("a.json")}),
        (["--planner-profile-data", "a.npz"], {"planner_profile_data": Path("a.npz")}),
        (["--no-enable-prefix-caching"], {"enable_prefix_caching": False}),
        (["--endpoint", "a.b.c", "--reasoning", "{}"], {"endpoint": "a.b.c", "reasoning": "{}"}),
    ],
)
def test_parse_args(arguments: list[str], wanted: dict[str, Any]) -> None:
    assert changed(*arguments) == {"model_path": None, **wanted}


def test_parse_args_reads_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DYN_NAMESPACE", "q")
    monkeypatch.setenv("DYN_NAMESPACE_WORKER_SUFFIX", "z")
    monkeypatch.setenv("DYN_DISCOVERY_BACKEND", "file")
    monkeypatch.setenv("DYN_REQUEST_PLANE", "nats")
    monkeypatch.setattr(sys, "argv", ["program", "--disaggregation-mode", "prefill"])
    options = parse_args()
    assert options.endpoint == "dyn://q-z.prefill.generate"
    assert (options.discovery_backend, options.request_plane) == ("file", "nats")
    assert parse_args(["--request-plane", "tcp"]).request_plane == "tcp"


@pytest.mark.parametrize(
    "arguments",
    [
        ["--bootstrap-ports", "1,2", "--num-workers", "3"],
        ["--bootstrap-ports", "1,2", "--disaggregation-mode", "decode"],
        ["--bootstrap-ports", "1,2", "--disaggregation-mode", "prefill"],
        ["--bootstrap-ports", "x"],
        ["--bootstrap-ports", "70000"],
        ["--zmq-kv-events-ports", "1,2"],
        ["--zmq-kv-events-ports", "65535", "--data-parallel-size", "2"],
        ["--zmq-replay-ports", "1"],
        ["--is-prefill-worker", "--is-decode-worker"],
        ["--is-prefill-worker", "--disaggregation-mode", "agg"],
        ["--num-workers", "0"],
        ["--max-num-seqs", "-1"],
        ["--speedup-ratio", "nan"],
    ],
)
def test_parse_args_refuses_what_the_command_refuses(arguments: list[str]) -> None:
    with pytest.raises(ValueError, match=r".+") as caught:
        parse_args(arguments)
    command = [sys.executable, "-m", "dynamo.mocker", "--model-path", "/none", *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (2, f"error: {caught.value}\n")


@pytest.mark.parametrize("arguments", [["--nonsense"], ["--engine-type", "x"], ["--num-workers", "x"]])
def test_parse_args_exits_at_what_does_not_exist(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        parse_args(arguments)
    assert caught.value.code == 2
    assert capsys.readouterr().err.startswith("error: ")


# resolve_planner_profile_data


def test_no_profile_and_a_table_file() -> None:
    nothing = resolve_planner_profile_data(None)
    assert (nothing.npz_path, nothing.tmpdir) == (None, None)
    path = PROFILES / "small.npz"
    assert resolve_planner_profile_data(path).npz_path == path


def test_a_profile_folder_becomes_a_table_file() -> None:
    result = resolve_planner_profile_data(FOLDER)
    path = result.npz_path
    assert path is not None
    with np.load(path) as arrays:
        assert arrays["decode_itl"].shape == (100, 100)
        assert arrays["prefill_isl"].shape == arrays["prefill_ttft_ms"].shape == (100,)
    durations = {
        run_synthetic_trace_replay(500, 20, 50, extra_engine_args=MockEngineArgs(planner_profile_data=given))[
            "duration_ms"
        ]
        for given in (path, FOLDER)
    }
    assert len(durations) == 1
    del result
    assert not path.parent.exists()


@pytest.mark.parametrize("name", ["nowhere", "nowhere.npz", ".", "other.txt", "bad.npz"])
def test_no_valid_profile(folder: Path, name: str) -> None:
    (folder / "other.txt").write_text("x")
    (folder / "bad.npz").write_text("x")
    with pytest.raises(FileNotFoundError, match=r"planner_profile_data: "):
        resolve_planner_profile_data(Path(name))


# Types and descriptions

DICTS: list[tuple[type, str, str | None, tuple[str, ...]]] = [
    (EngineFields, "engine_args", None, ("is_prefill", "is_decode", "has_perf_model")),
    (SglangFields, "engine_args", "sglang", ()),
    (ReasoningFields, "engine_args", "reasoning", ()),
    (TrtllmFields, "engine_args", "trtllm", ()),
    (RouterFields, "router_config", None, ()),
    (AicFields, "aic_perf_config", None, ()),
]
PLAIN = {"uint": int, "float": float, "bool": bool, "string": str, "objects": Sequence[Mapping[str, Any]]}


def members(hint: Any) -> set[Any]:
    """What a hint allows: plain types, values of Literals and TypedDicts."""
    if typing.get_origin(hint) is typing.Literal:
        return set(typing.get_args(hint))
    inner = typing.get_args(hint)
    return set().union(*map(members, inner)) if inner and typing.get_origin(hint) in UNIONS else {hint}


UNIONS = (typing.Union, type(int | None))


@pytest.mark.parametrize(("kind", "of", "nested", "json_only"), DICTS)
def test_the_dicts_are_typed_as_the_tables_say(
    kind: type, of: str, nested: str | None, json_only: tuple[str, ...]
) -> None:
    hints = typing.get_type_hints(kind)
    fields = fields_of(nested, of)
    assert set(hints) == set(fields) - set(json_only)
    for name, hint in hints.items():
        assert wanted(fields[name]) <= members(hint), name
        if fields[name].choices is not None:
            assert {value for value in members(hint) if isinstance(value, str)} == set(fields[name].choices or ()), name


def wanted(field: Field) -> set[Any]:
    if field.type == "enum":
        return set(field.choices or ())
    if field.type == "object":
        objects = {
            "reasoning": ReasoningFields,
            "sglang": SglangFields,
            "trtllm": TrtllmFields,
            "host_cache": HostCacheFields,
        }
        return {objects[field.name]}
    # A field whose None is the default may be left without it in the dict: nullable is about what is accepted.
    return {PLAIN[field.type]}


def test_every_field_is_described() -> None:
    for kind, of, section in (
        (MockEngineArgs, "engine_args", None),
        (SglangArgs, "engine_args", "sglang"),
        (ReasoningConfig, "engine_args", "reasoning"),
        (TrtllmArgs, "engine_args", "trtllm"),
        (HostCacheArgs, "engine_args", "host_cache"),
        (KvRouterConfig, "router_config", None),
        (AicPerfConfig, "aic_perf_config", None),
    ):
        described = inspect.getdoc(kind) or ""
        names = set(fields_of(section, of)) - {"is_prefill", "is_decode", "has_perf_model"}
        assert [name for name in names if f"\n    {name}: " not in described] == [], kind


def test_every_parameter_is_described() -> None:
    for function in (run_trace_replay, run_synthetic_trace_replay):
        described = inspect.getdoc(function) or ""
        both = described + (inspect.getdoc(run_trace_replay) or "")
        for name in inspect.signature(function).parameters:
            assert name in described, name
            assert f"\n    {name}: " in both, name


@pytest.mark.parametrize(
    "name", ["router_mode", "replay_mode", "router_decisions_mode", "trace_format", "arrival_process"]
)
def test_choices_are_those_of_the_core(trace: str, name: str) -> None:
    function: Any = run_synthetic_trace_replay if name == "arrival_process" else run_trace_replay
    first = (20, 3, 5) if name == "arrival_process" else (trace,)
    choices = members(typing.get_type_hints(function)[name]) - {type(None)}
    with pytest.raises(ValueError, match=f"{name}: got") as caught:
        function(*first, **{name: "nonsense"})
    assert set(str(caught.value).partition("one of ")[2].split(", ")) == choices


# --help

REPLAY_DEFAULTS = {
    "--arrival-interval-ms": "1", "--turns-per-session": "1", "--shared-prefix-ratio": "0", "--num-prefix-groups": "0",
    "--inter-turn-delay-ms": "0", "--num-workers": "1", "--num-prefill-workers": "1", "--num-decode-workers": "1",
    "--replay-mode": "offline", "--router-mode": "round_robin", "--arrival-speedup-ratio": "1",
    "--trace-format": "mooncake", "--trace-block-size": "512", "--trace-shared-prefix-ratio": "0",
    "--trace-num-prefix-groups": "0", "--benchmark-granularity": "8", "--seed": "0", "--arrival-process": "constant",
    "--router-decisions-mode": "check", "--aic-tp-size": "1", "--aic-attention-dp-size": "1",
}  # fmt: skip
MOCKER_DEFAULTS = {
    "--endpoint": "dyn://dynamo.backend.generate", "--block-size": "vllm 64, sglang 1, trtllm 32",
    "--sglang-schedule-policy": "fifo", "--sglang-page-size": "1", "--sglang-max-prefill-tokens": "16384",
    "--sglang-chunked-prefill-size": "8192", "--sglang-clip-max-new-tokens": "4096",
    "--sglang-schedule-conservativeness": "1", "--gpu-memory-utilization": "0.9", "--mem-fraction-static": "0.88",
    "--free-gpu-memory-fraction": "0.9", "--aic-system": "h200_sxm", "--aic-tp-size": "1",
    "--aic-attention-dp-size": "1", "--disaggregation-mode": "agg", "--kv-transfer-bandwidth": "64",
    "--kv-transfer-timing-mode": "full_prompt", "--trtllm-capacity-scheduler-policy": "guaranteed_no_evict",
    "--num-gpu-blocks-override": "16384", "--kv-bytes-per-token": "from the model", "--offload-batch-size": "32",
    "--discovery-backend": "DYN_DISCOVERY_BACKEND, or etcd", "--model-name": "the model path",
    "--aic-backend-version": "vllm 0.19.0, sglang 0.5.10, trtllm 1.3.0rc10",
}  # fmt: skip


def described_options(module: str) -> dict[str, str]:
    """What ``--help`` says of each option, which may stand on the line below."""
    wide = {**os.environ, "COLUMNS": "1000"}
    done = subprocess.run([sys.executable, "-m", module, "--help"], capture_output=True, text=True, env=wide)
    found: dict[str, str] = {}
    option = ""
    for line in done.stdout.splitlines():
        if line.startswith("  --"):
            option = line.split()[0].rstrip(",")
        found[option] = f"{found.get(option, '')} {line.strip()}"
    return found


@pytest.mark.parametrize(
    ("module", "defaults"), [("dynamo.replay", REPLAY_DEFAULTS), ("dynamo.mocker", MOCKER_DEFAULTS)]
)
def test_help_shows_the_documented_defaults(module: str, defaults: dict[str, str]) -> None:
    described = described_options(module)
    for option, default in defaults.items():
        text = described[option]
        assert f"(default: {default}" in text or f"{default} (default" in text, f"{option}: {text}"


MODEL = Path(__file__).resolve().parents[1] / "examples/models/tiny"


@pytest.mark.parametrize(
    ("module", "unlike_default"),
    [
        ("dynamo.replay", {"--router-policy-config": "x"}),
        (
            "dynamo.mocker",
            {"--offload-batch-size": "3", "--bandwidth-g2-to-g3-gbps": "1", "--bandwidth-g3-to-g2-gbps": "1"},
        ),
    ],
)
def test_help_says_what_is_refused_until_it_is_built(module: str, unlike_default: dict[str, str]) -> None:
    run = [*TINY] if module == "dynamo.replay" else ["--model-path", str(MODEL), "--discovery-backend", "mem"]
    described = described_options(module)
    for option, value in unlike_default.items():
        done = subprocess.run([sys.executable, "-m", module, *run, option, value], capture_output=True, text=True)
        assert (done.returncode, "is not built yet" in done.stderr) == (2, True), done
        assert "not built yet: " in described[option]
        assert "not built yet: " not in described["--num-workers"]


@pytest.mark.parametrize(("option", "value"), [("--num-g2-blocks", "5"), ("--bandwidth-g1-to-g2-gbps", "1")])
def test_host_memory_is_built_for_other_schedulers_only(option: str, value: str) -> None:
    """By Dynamo's own rules it is refused as before; the help no longer says that nothing is built."""
    run = ["--model-path", str(MODEL), "--discovery-backend", "mem", option, value]
    done = subprocess.run([sys.executable, "-m", "dynamo.mocker", *run], capture_output=True, text=True)
    assert (done.returncode, "is not built yet" in done.stderr) == (2, True), done
    described = described_options("dynamo.mocker")
    assert "not built yet: " not in described[option]
    assert "with scheduler vllm or sglang" in " ".join(described["--num-g2-blocks"].split())


def test_help_of_live_workers_shows_what_the_core_does() -> None:
    described = described_options("dynamo.mocker")
    set_by, engine = table("live_options")["engine_args"], fields_of(None)
    for name, field in fields_of(None, "live_options").items():
        default = field.arg_default
        if default is None and name in set_by:
            default = engine[set_by[name]].arg_default
        if not default or default is True:
            continue
        text = described["--" + name.replace("_", "-")]
        shown = f"{default:g}" if isinstance(default, float) else str(default)
        assert "default" in text, name
        assert shown in text, f"{name}: {text}"
