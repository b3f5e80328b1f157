"""The functions and the report they return."""

from __future__ import annotations

import copy
import errno
import inspect
import json
import math
import os
import pickle
import re
import subprocess
import sys
import time
import typing
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import row, write_trace

from dynamo.mocker import MockEngineArgs, SglangArgs
from dynamo.replay import run_synthetic_trace_replay, run_trace_replay
from dynamo.replay.main import main
from dynamo.replay.report import Report
from dynamo.replay.reporting import default_report_path, write_report_json

ENGINE = {"block_size": 4, "num_gpu_blocks": 1000}
ROWS = [row(0, 8, 3, [1, 2]), row(10, 8, 2, [3, 4]), row(60, 8, 1, [5, 6]), row(120, 8, 4, [1, 2])]
SCALARS = [
    "num_requests",
    "completed_requests",
    "total_input_tokens",
    "total_output_tokens",
    "duration_ms",
    "wall_time_ms",
    "request_throughput_rps",
    "input_throughput_tok_s",
    "output_throughput_tok_s",
    "total_throughput_tok_s",
    "prefill_worker_seconds",
    "decode_worker_seconds",
    "prefill_gpus_per_worker",
    "decode_gpus_per_worker",
    "gpu_hours",
    "timing_model",
    "processed_tokens",
    "processed_tokens_per_s",
    "processed_output_tokens_per_s",
    "prefix_cache_reused_ratio",
    "first_admission_prefix_cache_reused_ratio",
]
CYCLE: dict[str, Any] = {}
CYCLE["trtllm"] = CYCLE
GROUPS = ["ttft_ms", "ttst_ms", "tpot_ms", "itl_ms", "e2e_latency_ms", "output_token_throughput_per_user"]
STATISTICS = ["mean", "min", "max", "median", "p75", "p90", "p95", "p99", "std"]


@pytest.fixture
def trace(folder: Path) -> str:
    return write_trace(folder / "trace.jsonl", ROWS)


@pytest.fixture
def report(trace: str) -> Report:
    return run_trace_replay(trace, trace_block_size=4, extra_engine_args=ENGINE)


def test_keys_and_their_order(report: Report) -> None:
    distributions = [f"{statistic}_{group}" for group in GROUPS for statistic in STATISTICS]
    ours = {"rejected_requests", "finished_requests", "provenance", *(f"count_{group}" for group in GROUPS)}
    assert [key for key in report if key not in ours] == SCALARS + distributions
    assert report["rejected_requests"] == 0


def test_published_numbers(report: Report) -> None:
    assert report["duration_ms"] == 143.55331099999995
    assert report["median_ttft_ms"] == 22.470830999999997
    assert report["std_ttft_ms"] == pytest.approx(10.391289240459855, rel=1e-12)
    assert report["mean_itl_ms"] == pytest.approx(8.743996666666659, rel=1e-12)
    assert report["prefix_cache_reused_ratio"] == 0.25


def test_goodput(trace: str) -> None:
    report = run_trace_replay(
        trace, trace_block_size=4, extra_engine_args=ENGINE, sla_ttft_ms=22.47083099999999, sla_itl_ms=6.0
    )
    assert report["goodput_completed_requests"] == 2
    assert report["goodput_output_throughput_tok_s"] == pytest.approx(34.8302659490731, rel=1e-12)


def test_columns(report: Report) -> None:
    requests = report.requests
    assert requests["arrival_time_ms"].tolist() == [0, 10, 60, 120]
    assert requests["ttft_ms"].dtype == np.float64
    assert requests["ttft_ms"].tolist() == [22.470830999999997, 35.103151, 22.47083099999999, 5.847916999999995]
    assert math.isnan(requests["ttst_ms"][2])
    assert requests["reused_input_tokens"].dtype == np.int64
    assert requests["reused_input_tokens"].tolist() == [0, 0, 0, 8]
    assert requests["prefill_worker_idx"].tolist() == [-1] * 4
    assert requests["terminal_status"] == ["completed"] * 4
    with pytest.raises(KeyError):
        requests["nonsense"]


def test_columns_are_the_rows_of_the_file(trace: str, folder: Path) -> None:
    report = run_trace_replay(trace, trace_block_size=4, num_workers=2, report_jsonl_path=folder / "rows.jsonl")
    lines = [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]
    assert set(report.requests) == set(lines[0])
    for name, column in report.requests.items():
        for value, wanted in zip(column, (line[name] for line in lines), strict=True):
            if wanted is not None:
                assert value == wanted, name
            else:
                assert value == "" or value == -1 or math.isnan(value), name


def test_an_unknown_column_names_the_nearest(report: Report) -> None:
    with pytest.raises(KeyError, match=r"unknown column 'ttft', did you mean 'ttft_ms'\?"):
        report.requests["ttft"]


def test_a_report_survives_pickling_and_copying(report: Report) -> None:
    for twin in (pickle.loads(pickle.dumps(report)), copy.deepcopy(report), copy.copy(report), report.copy()):
        assert type(twin) is Report
        assert twin == report
        assert list(twin.requests) == list(report.requests)
        assert twin.requests["ttft_ms"].tolist() == report.requests["ttft_ms"].tolist()
        assert twin.requests["session_id"] == report.requests["session_id"]


def test_dicts_and_classes_mean_the_same() -> None:
    first = run_synthetic_trace_replay(20, 3, 5, extra_engine_args=MockEngineArgs(block_size=16, max_num_seqs=2))
    second = run_synthetic_trace_replay(20, 3, 5, extra_engine_args={"block_size": 16, "max_num_seqs": np.int64(2)})
    assert first["duration_ms"] == second["duration_ms"]


def test_arguments_reach_the_run() -> None:
    """Each changes the outcome, so none is dropped on the way."""
    plain = run_synthetic_trace_replay(200, 8, 20)
    changes: list[dict[str, Any]] = [
        {"num_workers": 2},
        {"replay_concurrency": 1},
        {"arrival_interval_ms": 50.0},
        {"arrival_speedup_ratio": 0.25},
        {"turns_per_session": 2},
        {"inter_turn_delay_ms": 10.0, "turns_per_session": 2},
        {"shared_prefix_ratio": 0.9, "num_prefix_groups": 1, "extra_engine_args": {"block_size": 16}},
        {"max_sim_time_ms": 10.0},
        {"extra_engine_args": {"speedup_ratio": 2.0}},
    ]
    durations = [run_synthetic_trace_replay(200, 8, 20, **change)["duration_ms"] for change in changes]
    assert len({plain["duration_ms"], *durations}) == len(changes) + 1


@pytest.mark.parametrize(
    "arguments",
    [
        {"input_tokens": [20]},
        {"input_tokens": 20.0},
        {"input_tokens": True},
        {"input_tokens": None},
        {"num_workers": 1.0},
        {"num_workers": np.float64(1)},
        {"num_workers": np.True_},
        {"arrival_interval_ms": "1"},
        {"arrival_interval_ms": True},
        {"arrival_interval_ms": 1j},
        {"router_mode": 3},
        {"replay_mode": b"offline"},
        {"model_name": Path("m")},
        {"extra_engine_args": '{"block_size": 64}'},
        {"extra_engine_args": SglangArgs()},
        {"extra_engine_args": {1: 2}},
        {"extra_engine_args": {"block_size": object()}},
        {"router_config": "fcfs"},
        {"report_jsonl_path": 3},
    ],
)
def test_wrong_types(arguments: dict[str, Any]) -> None:
    (name,) = arguments
    with pytest.raises(TypeError, match=name):
        run_synthetic_trace_replay(**{"input_tokens": 20, "output_tokens": 3, "request_count": 5, **arguments})


@pytest.mark.parametrize("trace_files", [3, None, b"x", [3], {"a": 1}])
def test_wrong_types_of_traces(trace_files: Any) -> None:
    with pytest.raises(TypeError, match="trace_files"):
        run_trace_replay(trace_files)


def test_unknown_keywords_and_the_other_workloads_options() -> None:
    with pytest.raises(TypeError, match="trace_block_size"):
        run_synthetic_trace_replay(20, 3, 5, trace_block_size=4)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="turns_per_session"):
        run_trace_replay("trace.jsonl", turns_per_session=2)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        run_synthetic_trace_replay(20, 3, 5, {})  # type: ignore[misc]


def test_numpy_scalars_and_fractions_are_numbers() -> None:
    report = run_synthetic_trace_replay(np.int32(20), np.uint8(3), np.int64(5), arrival_interval_ms=np.float32(0.5))  # type: ignore[arg-type]
    assert report["duration_ms"] == run_synthetic_trace_replay(20, 3, 5, arrival_interval_ms=0.5)["duration_ms"]
    half = Fraction(1, 2)
    assert run_synthetic_trace_replay(20, 3, 5, arrival_interval_ms=half)["duration_ms"] == report["duration_ms"]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"request_count": 0}, "request_count: got 0"),
        ({"num_workers": -1}, "num_workers: got -1"),
        ({"num_workers": 10**30}, "num_workers: got 1000000000000000000000000000000"),
        ({"arrival_speedup_ratio": math.nan}, "arrival_speedup_ratio: got nan"),
        ({"arrival_interval_ms": math.inf}, "arrival_interval_ms: got inf"),
        ({"arrival_interval_ms": 10**400}, "arrival_interval_ms: got 1000"),
        ({"sla_e2e_ms": -1.0}, "sla_e2e_ms: got -1"),
        ({"model_name": ""}, "model_name"),
        ({"router_mode": "fastest"}, "router_mode"),
        ({"num_workers": 10**5000}, "num_workers: got an integer of 16610 bits"),
        ({"arrival_interval_ms": 10**5000}, "arrival_interval_ms: got an integer of 16610 bits"),
        ({"model_name": "\udcff"}, "model_name: .*UTF-8"),
        (
            {"extra_engine_args": {"speedup_ratio": math.nan}},
            "^extra_engine_args: speedup_ratio: got nan, want a finite",
        ),
        ({"extra_engine_args": {"sglang": {"page_size": math.inf}}}, "^extra_engine_args: sglang.page_size: got inf"),
        (
            {"extra_engine_args": {"block_size": 10**5000}},
            "^extra_engine_args: block_size: got an integer of 16610 bits",
        ),
        ({"extra_engine_args": {"aic_backend": "\udcff"}}, "^extra_engine_args: aic_backend: .*UTF-8"),
        ({"extra_engine_args": CYCLE}, "extra_engine_args: .*contains itself"),
        ({"router_config": CYCLE}, "router_config: .*contains itself"),
        ({"extra_engine_args": {"blok_size": 1}}, 'did you mean "block_size"'),
        ({"extra_engine_args": {"sglang": SglangArgs(page_size=4), "block_size": 3}}, "block_size: got 3"),
        ({"report_jsonl_path": "/proc/rows.jsonl"}, "report_jsonl_path: cannot write"),
    ],
)
def test_bad_values(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        run_synthetic_trace_replay(**{"input_tokens": 20, "output_tokens": 3, "request_count": 5, **arguments})


def test_the_command_says_the_same(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    with pytest.raises(ValueError, match="output_tokens") as caught:
        run_synthetic_trace_replay(20, 0, 5, num_workers=0)
    code = main(["--input-tokens", "20", "--output-tokens", "0", "--request-count", "5", "--num-workers", "0"])
    assert (code, capsys.readouterr().err) == (2, f"error: {caught.value}\n")


def test_a_missing_trace() -> None:
    with pytest.raises(FileNotFoundError, match=r"nowhere\.jsonl"):
        run_trace_replay("nowhere.jsonl")


def test_a_trace_may_be_a_path_or_a_sequence(trace: str) -> None:
    durations = {
        run_trace_replay(given, trace_block_size=4)["duration_ms"] for given in (trace, Path(trace), [trace], (trace,))
    }
    assert len(durations) == 1


def test_no_trace_and_two_traces(trace: str) -> None:
    for given in ([], [trace, trace]):
        with pytest.raises(ValueError, match="trace"):
            run_trace_replay(given)


@pytest.mark.skipif(os.name != "posix", reason="file names are bytes")
def test_a_file_name_that_is_not_utf_8() -> None:
    with pytest.raises(ValueError, match="UTF-8"):
        run_trace_replay(os.fsdecode(b"\xff.jsonl"))


def test_rejected_requests_are_a_warning(folder: Path) -> None:
    rows = [{"timestamp": 0, "input_length": n, "output_length": 3, "hash_ids": [n]} for n in (1000, 20)]
    trace = write_trace(folder / "t.jsonl", rows)
    with pytest.warns(UserWarning, match="rejected"):
        report = run_trace_replay(trace, trace_block_size=1024, extra_engine_args={"num_gpu_blocks": 2})
    assert report["rejected_requests"] == 1
    assert report.requests["terminal_status"] == ["rejected", "completed"]


def test_a_run_that_rejects_everything_fails(tmp_path: Path) -> None:
    """As the command does; what it was to write is there."""
    rows = tmp_path / "rows.jsonl"
    with (
        pytest.warns(UserWarning, match="rejected"),
        pytest.raises(RuntimeError, match=r"^every request was rejected \(2 of 2\)$"),
    ):
        run_synthetic_trace_replay(1000, 3, 2, extra_engine_args={"num_gpu_blocks": 2}, report_jsonl_path=rows)
    assert len(rows.read_text().splitlines()) == 2


def test_a_warning_points_at_the_caller() -> None:
    with pytest.warns(UserWarning, match="startup_time") as caught:
        run_synthetic_trace_replay(20, 3, 5, extra_engine_args={"startup_time": 5})
    assert [warning.filename for warning in caught] == [__file__]


def test_both_functions_are_documented_and_typed() -> None:
    for function in (run_trace_replay, run_synthetic_trace_replay):
        assert "Raises" in (function.__doc__ or "") or "raises" in (function.__doc__ or "")
        assert all(parameter.annotation for parameter in inspect.signature(function).parameters.values())
        assert typing.get_type_hints(function)["return"] is Report


USER_CODE = """
from dynamo.replay import run_trace_replay
report = run_trace_replay("trace.jsonl")
reveal_type(report.requests["ttft_ms"].max())
reveal_type(report.requests["uuid"])
reveal_type(report["mean_ttft_ms"])
"""


def test_columns_are_typed_for_users(folder: Path) -> None:
    (folder / "user.py").write_text(USER_CODE)
    done = subprocess.run([sys.executable, "-m", "mypy", "--strict", "user.py"], capture_output=True, text=True)
    assert re.findall(r'type is "([^"]*)"', done.stdout) == ["Any", "list[str]", "Any"], done.stdout
    assert done.returncode == 0


@pytest.mark.parametrize("output", ["trace.jsonl", "./trace.jsonl"])
def test_rows_over_the_trace_are_refused(trace: str, output: str) -> None:
    before = Path(trace).read_text()
    with pytest.raises(ValueError, match=r"report_jsonl_path: .* trace_files"):
        run_trace_replay(trace, report_jsonl_path=output)
    with pytest.raises(ValueError, match="use /dev/stdout"):
        run_trace_replay(trace, report_jsonl_path="-")
    assert Path(trace).read_text() == before


def test_writing_a_report(folder: Path, report: Report) -> None:
    path = write_report_json(report, "deep/report.json")
    assert path == Path("deep/report.json")
    text = path.read_text()
    assert text == json.dumps(dict(report), indent=2, sort_keys=True) + "\n"
    assert write_report_json({"név": "ű"}, folder / "escaped.json").read_text() == '{\n  "n\\u00e9v": "\\u0171"\n}\n'


def test_writing_numbers_that_json_lacks(folder: Path) -> None:
    given = {"a": np.int64(3), "b": np.float32(0.5), "c": math.nan, "d": [np.float64("inf"), np.True_]}
    text = write_report_json(given, folder / "report.json").read_text()
    assert json.loads(text) == {"a": 3, "b": 0.5, "c": None, "d": [None, True]}
    assert "NaN" not in text


def test_a_replaced_report_keeps_its_permissions(folder: Path, report: Report) -> None:
    path = folder / "report.json"
    path.touch()
    path.chmod(0o640)
    write_report_json(report, path)
    assert path.stat().st_mode & 0o777 == 0o640


def test_default_names(folder: Path, report: Report) -> None:
    assert default_report_path().parent == folder
    assert write_report_json(report).parent == folder
    assert write_report_json(report, folder).parent == folder


def test_a_made_up_name_replaces_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "strftime", lambda _: "report.json")
    paths = [write_report_json({"run": run}) for run in range(3)]
    assert [path.name for path in paths] == ["report.json", "report_2.json", "report_3.json"]
    assert [json.loads(path.read_text())["run"] for path in paths] == [0, 1, 2]

    def refuse(*_: Any) -> None:
        raise PermissionError(errno.EPERM, "no hard links here")

    monkeypatch.setattr(os, "link", refuse)
    assert write_report_json({"run": 3}).name == "report_4.json"
    assert write_report_json({"run": 4}, folder / "report.json") == folder / "report.json"
    assert sorted(os.listdir(folder)) == ["report.json", "report_2.json", "report_3.json", "report_4.json"]
