"""``load_trace``: traces that are read once and replayed many times."""

from __future__ import annotations

import copy
import gc
import hashlib
import json
import multiprocessing
import pickle
import weakref
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from conftest import WALL_CLOCK, Cli, row, write_trace

from dynamo import _core
from dynamo.mocker import run_mocker_trace_replay
from dynamo.replay import Report, Workload, load_trace, run_trace_replay

ENGINE = {"block_size": 4, "num_gpu_blocks": 60}


@pytest.fixture
def trace(folder: Path) -> Path:
    write_trace(folder / "trace.jsonl", [row(i * 3, 8, 3, [i % 3, i % 2]) for i in range(30)])
    return Path("trace.jsonl")


def without_clock(report: Report) -> dict[str, Any]:
    return {key: value for key, value in report.items() if key not in WALL_CLOCK}


def mean_ttft(workload: Workload) -> float:
    mean: float = run_trace_replay(workload, extra_engine_args=ENGINE)["mean_ttft_ms"]
    return mean


def test_runs_are_those_of_the_path(trace: Path) -> None:
    workload = load_trace(trace, trace_block_size=4, block_size=4)
    for options in ({"num_workers": 2}, {"arrival_speedup_ratio": 3.0}, {"replay_concurrency": 2}, {"num_workers": 2}):
        given: Any = {"extra_engine_args": ENGINE, **options}
        of_path = run_trace_replay(trace, trace_block_size=4, **given)
        shared = run_trace_replay(workload, **given)
        assert without_clock(shared) == without_clock(of_path)
        assert shared.requests == of_path.requests
    assert run_mocker_trace_replay(workload)["num_requests"] == len(workload) == 30


def test_threads_share_it(trace: Path) -> None:
    workload = load_trace(trace, trace_block_size=4)
    want = mean_ttft(workload)
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(mean_ttft, [workload] * 40)) == [want] * 40


def test_the_trace_is_parsed_once(trace: Path) -> None:
    """Runs need no file any more, and their report names what was read."""
    workload = load_trace(str(trace), trace_block_size=4, block_size=4)
    digest = hashlib.sha256(trace.read_bytes()).hexdigest()
    trace.unlink()
    for _ in range(3):
        report = run_trace_replay(workload, extra_engine_args=ENGINE)
        assert report["provenance"]["inputs"] == [{"argument": "trace_files", "path": "trace.jsonl", "sha256": digest}]
        assert report["provenance"]["arguments"]["trace_block_size"] == 4
    assert workload.sha256 == (digest,)


def test_the_report_can_be_repeated(trace: Path, cli: Cli) -> None:
    report = run_trace_replay(load_trace(trace, trace_block_size=4), extra_engine_args=ENGINE)
    Path("first.json").write_text(json.dumps(report))
    assert cli("--from-report", "first.json", "--report-json", "again.json").returncode == 0
    again = json.loads(Path("again.json").read_text())
    assert {key: value for key, value in again.items() if key not in WALL_CLOCK} == without_clock(report)


def test_a_block_size_that_needs_the_file_again(trace: Path) -> None:
    workload = load_trace(trace, trace_block_size=4, block_size=2)
    assert run_trace_replay(workload, extra_engine_args=ENGINE)["num_requests"] == 30
    write_trace(trace, [row(0, 8, 3, [1, 2])])
    assert run_trace_replay(workload, extra_engine_args=ENGINE)["num_requests"] == 30
    with pytest.raises(ValueError, match=r"trace_files: trace\.jsonl has changed since it was loaded"):
        run_trace_replay(workload, extra_engine_args={"block_size": 8})


def test_pickling_reads_the_file_again(trace: Path) -> None:
    workload = load_trace(trace, trace_block_size=4)
    pickled = pickle.dumps(workload)
    assert len(pickled) < 1000
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        assert pool.submit(mean_ttft, workload).result() == mean_ttft(workload)
    restored = pickle.loads(pickled)
    assert restored == workload
    assert hash(restored) == hash(workload)
    assert restored.options == {"trace_block_size": 4}
    write_trace(trace, [row(0, 8, 3, [1, 2])])
    with pytest.raises(ValueError, match=r"trace_files: trace\.jsonl has changed since it was loaded"):
        pickle.loads(pickled)
    assert load_trace(trace, trace_block_size=4) != workload


def test_it_cannot_be_changed(trace: Path) -> None:
    workload: Any = load_trace(trace)
    with pytest.raises(AttributeError, match="cannot be changed"):
        workload.trace_files = ("other.jsonl",)
    with pytest.raises(AttributeError, match="cannot be changed"):
        del workload._config
    workload.options["trace_block_size"] = 4
    assert workload.options == {}
    assert copy.deepcopy(workload) is workload
    assert repr(workload) == "<Workload of 30 requests from 'trace.jsonl'>"


def test_its_memory_goes_with_it(trace: Path) -> None:
    workload = load_trace(trace, trace_block_size=4)
    handle, gone = workload._trace.run_id, weakref.ref(workload)
    run_trace_replay(workload)
    del workload
    gc.collect()
    assert gone() is None
    with pytest.raises(RuntimeError, match=f"unknown run {handle}"):
        _core.load().core_Use(_core.load().core_Open(), handle)


def test_options_of_the_trace_belong_to_load_trace(trace: Path) -> None:
    workload = load_trace(trace, trace_format="mooncake")
    with pytest.raises(ValueError, match="trace_block_size: got 4, want it left out: load_trace has read the trace"):
        run_trace_replay(workload, trace_block_size=4)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (("-",), ValueError, "trace_files: got standard input, want a file"),
        (("none.jsonl",), FileNotFoundError, r"trace_files: none\.jsonl"),
        ((7,), TypeError, "trace_files: got 7, want a path"),
        ((["a", "b"],), ValueError, "trace_files: got 2 files, want exactly one"),
    ],
)
def test_mistakes(folder: Path, arguments: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        load_trace(*arguments)


def test_a_wrong_option(trace: Path) -> None:
    with pytest.raises(ValueError, match="trace_block_size: got 0, want an integer"):
        load_trace(trace, trace_block_size=0)
    with pytest.raises(TypeError, match="block_size"):
        load_trace(trace, block_size="64")  # type: ignore[arg-type]
