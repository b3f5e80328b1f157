"""Timelines, read back with the messages of the package perfetto, and series of figures over time."""

from __future__ import annotations

import csv
import itertools
import json
import math
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from conftest import Cli, refused
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as messages

from dynamo.replay import Report, run_synthetic_trace_replay, run_trace_replay

TRACE = str(Path(__file__).parent.parent / "examples/traces/conversation_400.jsonl.gz")
SMALL = {"block_size": 64, "num_gpu_blocks": 2000}
POOLS: dict[str, Any] = {
    "num_prefill_workers": 2,
    "num_decode_workers": 2,
    "prefill_engine_args": {"worker_type": "prefill", "kv_bytes_per_token": 131072, "kv_transfer_bandwidth": 8},
    "decode_engine_args": {"worker_type": "decode"},
    "router_mode": "kv_router",
}
KINDS = {1: "begin", 2: "end", 3: "instant", 4: "count"}


class Event(NamedTuple):
    at_ns: int
    kind: str
    track: str
    name: str
    args: dict[str, int]
    flows: list[int]
    ends: list[int]
    value: float


def events_of(path: Path) -> list[Event]:
    """All events, in the order of time as a trace viewer has it: equal times in the order of the file."""
    trace = messages.Trace()
    trace.ParseFromString(path.read_bytes())
    tracks: dict[int, tuple[str, int]] = {}
    for packet in trace.packet:
        if packet.HasField("track_descriptor"):
            track = packet.track_descriptor
            assert track.uuid not in tracks, track.name
            tracks[track.uuid] = (track.name, track.parent_uuid)
    events = list(_events(trace, tracks))
    return sorted(events, key=lambda event: event.at_ns)


def _events(trace: Any, tracks: dict[int, tuple[str, int]]) -> Iterator[Event]:
    names: dict[int, dict[int, str]] = {}
    args: dict[int, dict[int, str]] = {}
    for packet in trace.packet:
        sequence = packet.trusted_packet_sequence_id
        if packet.sequence_flags & 1:
            assert sequence not in names  # each begins once
            names[sequence], args[sequence] = {}, {}
        for text in packet.interned_data.event_names:
            names[sequence][text.iid] = text.name
        for text in packet.interned_data.debug_annotation_names:
            args[sequence][text.iid] = text.name
        if not packet.HasField("track_event"):
            continue
        event = packet.track_event
        given = event.name or (names[sequence][event.name_iid] if event.name_iid else "")
        yield Event(
            packet.timestamp,
            KINDS[event.type],
            _path(tracks, event.track_uuid),
            given,
            {args[sequence][arg.name_iid]: arg.int_value for arg in event.debug_annotations},
            list(event.flow_ids),
            list(event.terminating_flow_ids),
            event.counter_value if event.HasField("counter_value") else event.double_counter_value,
        )


def _path(tracks: dict[int, tuple[str, int]], track: int) -> str:
    name, parent = tracks[track]
    return f"{_path(tracks, parent)}/{name}" if parent else name


class Slice(NamedTuple):
    track: str
    name: str
    begin_ns: int
    end_ns: int
    inside: tuple[str, ...]
    event: Event


def slices_of(events: list[Event]) -> list[Slice]:
    """The slices, which must be nested properly on each track."""
    stacks: dict[str, list[Event]] = defaultdict(list)
    found = []
    for event in events:
        stack = stacks[event.track]
        if event.kind == "begin":
            stack.append(event)
        elif event.kind == "end":
            begun = stack.pop()
            assert begun.at_ns <= event.at_ns
            inside = tuple(outer.name for outer in stack)
            found.append(Slice(event.track, begun.name, begun.at_ns, event.at_ns, inside, begun))
    assert not any(stacks.values())
    return found


@pytest.fixture(autouse=True)
def in_an_empty_folder(folder: Path) -> None:
    """Files of a test go to a folder of its own."""


def ns(ms: float) -> int:
    return round(ms * 1e6)


def test_one_pool() -> None:
    report = run_trace_replay(TRACE, num_workers=3, extra_engine_args=SMALL, timeline="t.pftrace")
    events = events_of(Path("t.pftrace"))
    slices = slices_of(events)
    rows = report.requests
    requests = {int(s.name.split()[1]): s for s in slices if s.name.startswith("request")}
    assert sorted(requests) == sorted(rows["trace_row"].tolist())
    parts: dict[tuple[str, int], list[Slice]] = defaultdict(list)
    for s in slices:
        if s.inside:
            assert s.inside[0].startswith("request")
            assert len(s.inside) == 1
            parts[s.inside[0], 0].append(s)
    again = 0
    for at, row in enumerate(rows["trace_row"].tolist()):
        whole = requests[row]
        assert whole.track.startswith(f"worker {rows['decode_worker_idx'][at]}/requests/lane ")
        assert (whole.begin_ns, whole.end_ns) == (ns(rows["arrival_time_ms"][at]), ns(rows["last_token_ms"][at]))
        assert whole.event.args == {
            "prompt tokens": rows["input_length"][at],
            "output tokens": rows["output_length"][at],
        }
        inner = sorted(parts[whole.name, 0], key=lambda s: s.begin_ns)
        for before, after in itertools.pairwise(inner):
            assert before.end_ns <= after.begin_ns, (whole.name, before, after)
        queue = next((s for s in inner if s.name == "queue"), None)
        admitted = ns(rows["first_admit_ms"][at])
        assert queue is None or (queue.begin_ns, queue.end_ns) == (whole.begin_ns, admitted)
        prompts = [s for s in inner if s.name == "prompt"]
        if not any(s.name == "preempted" for s in inner):
            computed = sum(s.event.args["tokens"] for s in prompts)
            assert computed == rows["input_length"][at] - rows["reused_input_tokens"][at]
            assert {s.name for s in inner} <= {"queue", "prompt", "decode"}
        else:
            again += 1
        if prompts and rows["output_length"][at] > 1:
            assert prompts[-1].end_ns <= inner[-1].begin_ns == max(s.begin_ns for s in inner)
            assert inner[-1].name == "decode"
            assert inner[-1].end_ns == whole.end_ns
    assert again > 5  # the pool is small


def test_passes_and_counters() -> None:
    report = run_trace_replay(TRACE, num_workers=2, extra_engine_args=SMALL, timeline="t.pftrace", timeseries_step="1s")
    events = events_of(Path("t.pftrace"))
    slices = slices_of(events)
    for worker in (0, 1):
        passes = [s for s in slices if s.track == f"worker {worker}/passes"]
        assert {s.name for s in passes} == {"prefill", "mixed", "decode"}
        assert all(before.end_ns <= after.begin_ns for before, after in itertools.pairwise(passes))
        mine = report.requests["decode_worker_idx"] == worker
        assert sum(s.event.args["tokens"] for s in passes) == report.requests["output_length"][mine].sum()
        assert sum(s.event.args.get("passes", 1) for s in passes) > len(passes) * 2  # equal passes share a slice
        values = {name: last(events, f"worker {worker}/{name}") for name in ("waiting", "running", "KV blocks in use")}
        assert values == {"waiting": 0, "running": 0, "KV blocks in use": 0}
        assert 0.9 * 2000 < most(events, f"worker {worker}/KV blocks in use") <= 2000
        preempted = most(events, f"worker {worker}/preemptions")
        series = report.timeseries
        mine = np.array(series["worker"]) == worker
        assert preempted == series["preemptions"][mine].sum() > 0
    arrivals = [event.value for event in events if event.track == "cluster/arrivals"]
    assert 0 < max(arrivals) < 20
    assert arrivals[-1] == 0


def last(events: list[Event], track: str) -> float:
    return [event.value for event in events if event.track == track][-1]


def most(events: list[Event], track: str) -> float:
    return max(event.value for event in events if event.track == track)


def test_two_pools_and_flows() -> None:
    report = run_trace_replay(TRACE, **POOLS, timeline="t.pftrace")
    events = events_of(Path("t.pftrace"))
    slices = slices_of(events)
    rows = report.requests
    arrows: dict[int, list[Event]] = defaultdict(list)
    for event in events:
        for flow in (*event.flows, *event.ends):
            arrows[flow].append(event)
    assert len(arrows) == len(rows["trace_row"])
    for at in range(len(rows["trace_row"])):
        stops = arrows[at + 1]
        assert len({event.name for event in stops}) == 1
        assert [bool(event.ends) for event in stops] == [False, False, True]
        tracks = [event.track.split("/")[0] for event in stops]
        prefill, decode = rows["prefill_worker_idx"][at], rows["decode_worker_idx"][at]
        assert tracks == ["router", f"prefill worker {prefill}", f"decode worker {decode}"]
    names: dict[str, set[str]] = defaultdict(set)
    for s in slices:
        if s.inside:
            names[s.track.split(" ")[0]].add(s.name)
    assert names["prefill"] == {"queue", "prompt", "hold KV"}
    assert names["decode"] >= {"transfer", "wait for room", "decode"}
    moved = {s.inside[0]: s for s in slices if s.name == "transfer"}
    for at, row in enumerate(rows["trace_row"].tolist()):
        transfer = moved[f"request {row}"]
        assert transfer.begin_ns >= ns(rows["source_held_ms"][at])
        assert transfer.end_ns == ns(rows["destination_activated_ms"][at])


def test_a_router_that_keeps_requests_back() -> None:
    config = {"router_queue_threshold": 0.2}
    run_trace_replay(TRACE, num_workers=2, router_mode="kv_router", router_config=config, timeline="t.pftrace")
    events = events_of(Path("t.pftrace"))
    waits = [s for s in slices_of(events) if s.track.startswith("router/waiting ")]
    assert waits
    assert all(s.end_ns > s.begin_ns and s.event.flows for s in waits)
    assert most(events, "router/waiting") > 0 == last(events, "router/waiting")


@pytest.mark.parametrize("window", ["10s:20s", ":20000ms", "100:"])
def test_a_window_cuts(window: str) -> None:
    whole = run_trace_replay(TRACE, num_workers=2, timeline="whole.pftrace")
    run_trace_replay(TRACE, num_workers=2, timeline="t.pftrace", timeline_window=window)
    low, high = {"10s:20s": (10, 20), ":20000ms": (0, 20), "100:": (100, whole["duration_ms"] / 1000)}[window]
    events = events_of(Path("t.pftrace"))
    assert events[0].at_ns == low * 10**9
    assert events[-1].at_ns <= ns(high * 1000)
    inside = {s.name for s in slices_of(events) if s.name.startswith("request")}
    expected = {
        s.name
        for s in slices_of(events_of(Path("whole.pftrace")))
        if s.name.startswith("request") and s.end_ns > low * 10**9 and s.begin_ns < high * 10**9
    }
    assert inside == expected


def test_small_and_the_same_again() -> None:
    for name in ("one.pftrace", "two.pftrace"):
        run_trace_replay(TRACE, num_workers=4, timeline=name)
    found = Path("one.pftrace").read_bytes()
    assert found == Path("two.pftrace").read_bytes()
    assert len(found) < 60 * len(events_of(Path("one.pftrace")))


@pytest.mark.parametrize(
    "engine",
    [
        {"engine_type": "sglang", "num_gpu_blocks": 20_000, "block_size": 4},
        {"engine_type": "trtllm"},
        {"scheduler": "vllm", "num_gpu_blocks": 1500, "block_size": 64},
        {"engine_type": "sglang", "scheduler": "sglang", "num_gpu_blocks": 100_000, "block_size": 1},
        {"request_overhead_us": 20_000, "step_overhead_us": 300},
        {"aic_nextn": 2, "aic_nextn_accept_rates": "0.8,0.5"},
    ],
)
def test_every_engine(engine: dict[str, Any]) -> None:
    report = run_trace_replay(
        TRACE, num_workers=2, extra_engine_args=engine, timeline="t.pftrace", timeseries_step="2s"
    )
    slices = slices_of(events_of(Path("t.pftrace")))
    rows = report.requests
    ended = {int(s.name.split()[1]): s.end_ns for s in slices if s.name.startswith("request")}
    kept = rows["last_token_ms"] >= 0
    assert [ended[row] for row in rows["trace_row"][kept].tolist()] == [ns(ms) for ms in rows["last_token_ms"][kept]]
    series = report.timeseries
    cluster = np.array(series["pool"]) == "cluster"
    tokens = (series["output_tokens_per_s"] * windows(report))[cluster].sum()
    assert tokens == pytest.approx(rows["output_length"][kept].sum())


def windows(report: Report) -> Any:
    """The length of each window, in seconds."""
    start = report.timeseries["start_ms"]
    assert report.timeseries.step_ms is not None
    return np.minimum(report.timeseries.step_ms, report["duration_ms"] - start) / 1000


def test_series() -> None:
    report = run_trace_replay(
        TRACE, num_workers=2, extra_engine_args=SMALL, timeseries_step="5s", sla_ttft_ms=2000, sla_itl_ms=50
    )
    series, rows = report.timeseries, report.requests
    assert series.step_ms == 5000
    cluster = np.array(series["pool"]) == "cluster"
    seconds = windows(report)
    assert len(series["pool"]) == 3 * cluster.sum() == 3 * math.ceil(report["duration_ms"] / 5000)
    total = {name: float((series[name] * seconds)[cluster].sum()) for name in ("arrivals_per_s", "completions_per_s")}
    assert total == pytest.approx({"arrivals_per_s": 400, "completions_per_s": 400})
    good = float((series["goodput_per_s"] * seconds)[cluster].sum())
    assert good == pytest.approx(report["goodput_completed_requests"])
    prompts = (series["prompt_tokens_per_s"] * seconds)[cluster]
    assert prompts.sum() == pytest.approx(report["total_input_tokens"])
    hits = np.nansum(np.nan_to_num(series["hit_rate"])[cluster] * prompts) / report["total_input_tokens"]
    assert hits == pytest.approx(report["first_admission_prefix_cache_reused_ratio"])
    # Little's law, exactly: the time that requests spend is the integral of their number.
    in_system = ((series["waiting"] + series["running"]) * seconds)[cluster].sum()
    assert in_system == pytest.approx(rows["e2e_latency_ms"].sum() / 1000)
    each = [np.array(series["worker"]) == worker for worker in (0, 1)]
    for name in ("running", "waiting"):
        assert series[name][cluster] == pytest.approx(series[name][each[0]] + series[name][each[1]])
    assert (series["kv_use"] <= 1).all()
    assert series["kv_use"].max() > 0.9
    assert ((series["busy"] >= 0) & (series["busy"] <= 1 + 1e-9)).all()
    first = rows["ttft_ms"][rows["first_token_ms"] < 5000]
    assert series["ttft_p50_ms"][0] == pytest.approx(np.sort(first)[round((len(first) - 1) * 0.5)])
    assert series["ttft_p99_ms"][0] == pytest.approx(np.sort(first)[round((len(first) - 1) * 0.99)])
    assert np.nanmin(series["itl_p50_ms"]) >= report["min_itl_ms"] * 0.998
    assert np.nanmax(series["itl_p99_ms"]) <= report["max_itl_ms"] * 1.002


def test_itl_of_one_window() -> None:
    """A window that holds the whole run has the percentiles of the report."""
    report = run_trace_replay(TRACE, num_workers=2, extra_engine_args=SMALL, timeseries_step="1h")
    for percent in ("p90", "p99"):
        assert report.timeseries[f"itl_{percent}_ms"][0] == pytest.approx(report[f"{percent}_itl_ms"], rel=2e-3)
        assert report.timeseries[f"ttft_{percent}_ms"][0] == pytest.approx(report[f"{percent}_ttft_ms"])


def test_series_of_two_pools() -> None:
    report = run_trace_replay(TRACE, **POOLS, timeseries_step="10s")
    frame = report.timeseries.to_pandas()
    assert frame["pool"].unique().tolist() == ["cluster", "prefill", "decode"]
    prefill, decode = frame[frame.pool == "prefill"], frame[frame.pool == "decode"]
    assert prefill["output_tokens_per_s"].isna().all()
    assert prefill["ttft_p50_ms"].isna().all()
    assert decode["hit_rate"].isna().all()
    assert prefill["hit_rate"].notna().any()
    assert prefill["prompt_tokens_per_s"].sum() > 0


def test_series_files(cli: Cli) -> None:
    run = [TRACE, "--num-workers", "2", "--max-sim-time-seconds", "20"]
    for name in ("s.csv", "s.jsonl", "s.parquet"):
        done = cli(*run, "--timeseries", name, "--timeseries-step", "500ms")
        assert done.returncode == 0, done.stderr
    with Path("s.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    lines = [json.loads(line) for line in Path("s.jsonl").read_text().splitlines()]
    assert len(rows) == len(lines) > 100
    assert [{name: "" if value is None else str(value) for name, value in line.items()} for line in lines] == rows
    import pandas as pd

    table = pd.read_parquet("s.parquet")
    assert list(table) == list(rows[0])
    assert len(table) == len(rows)
    assert table["waiting"].tolist() == [line["waiting"] for line in lines]


def test_without_series() -> None:
    report = run_synthetic_trace_replay(100, 10, 5)
    assert dict(report.timeseries) == {}
    assert report.timeseries.step_ms is None
    with pytest.raises(KeyError, match="give it timeseries_step='1s'"):
        report.timeseries["waiting"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--timeline-window", "1s:2s"], "timeline_window: got"),
        (
            ["--timeline", "t.json"],
            'timeline: got "t.json", want another name, such as run.pftrace: the file is protobuf',
        ),
        (["--timeline", "t.pftrace", "--timeline-window", "2s:1s"], "the earlier one first, such as 10s:40s"),
        (["--timeline", "t.pftrace", "--timeline-window", "soon"], "timeline_window: got"),
        (["--timeseries", "s.txt"], "--timeseries: got 's.txt', want a file that ends with .csv, .jsonl or .parquet"),
        (["--timeseries", "s.csv", "--timeseries-step", "0s"], "want a time from 1ms to 24h"),
        (["--timeseries-step", "5s"], '--timeseries-step: got "5s", want --timeseries FILE or --html FILE with it'),
        (["--timeline", "s.csv", "--timeseries", "s.csv"], "is the same file as"),
    ],
)
def test_refused(cli: Cli, options: list[str], message: str) -> None:
    done = cli(TRACE, *options)
    assert message in refused(done)
    assert not list(Path().glob("[st].*"))


def test_a_run_that_fails_leaves_no_timeline(cli: Cli) -> None:
    done = cli("--input-tokens", "100", "--output-tokens", "5", "--request-count", "3", "--timeline", "/dev/full")
    assert done.returncode == 1
    assert "timeline: cannot write /dev/full" in done.stderr


def test_workers_that_come_and_go() -> None:
    """A planner's workers have tracks from the moment they serve, and the cluster counts them."""
    report = run_trace_replay(
        TRACE,
        num_workers=1,
        extra_engine_args={"startup_time": 5},
        autoscaler={"policy": "hpa", "target": 5, "max": 4},
        timeline="t.pftrace",
        timeseries_step="1s",
    )
    events = events_of(Path("t.pftrace"))
    counts = [event.value for event in events if event.track == "cluster/agg workers"]
    assert counts == [event["to"] for event in report["scaling_events"]]
    slices = slices_of(events)
    assert {s.track.split("/")[0] for s in slices} == {f"worker {worker}" for worker in range(max(counts))}
    assert len([s for s in slices if s.name.startswith("request")]) == 400
    series = report.timeseries
    late = np.array(series["worker"]) == 1
    busy = series["busy"][late]
    started = min(event["at_ms"] for event in report["scaling_events"]) / 1000 + 5
    assert (busy[: int(started)] == 0).all()
    assert busy.max() > 0.9


@pytest.mark.parametrize("router", ["round_robin", "kv_router"])
def test_faults(router: str) -> None:
    """Faults are slices and marks, and each attempt of a request is a slice on the worker where it ran."""
    crash = {"kind": "crash", "at_ms": 20_000, "target": "worker:1", "duration_ms": 5_000}
    slow = {"kind": "slow", "at_ms": 18_000, "target": "worker:0", "factor": 3, "duration_ms": 4_000}
    report = run_trace_replay(
        TRACE,
        num_workers=3,
        router_mode=router,
        extra_engine_args={**SMALL, "startup_time": 2},
        faults=[crash, slow],
        migration_limit=1,
        timeline="t.pftrace",
    )
    events = events_of(Path("t.pftrace"))
    slices = slices_of(events)
    faults = {s.name: s for s in slices if s.track.startswith("cluster/faults")}
    assert (faults["slow"].begin_ns, faults["slow"].end_ns) == (ns(18_000), ns(22_000))
    assert (faults["crash"].begin_ns, faults["crash"].end_ns) == (ns(20_000), ns(27_000))
    assert faults["crash"].event.args == {"worker": 1}
    assert faults["slow"].track != faults["crash"].track  # they overlap
    marks = [(e.track, e.name, e.at_ns) for e in events if e.kind == "instant" and e.track.startswith("worker")]
    assert marks == [("worker 0", "slow", ns(18_000)), ("worker 1", "crash", ns(20_000))]

    requests = {s.name: s for s in slices if s.name.startswith("request")}
    rows = report.requests
    moved = [at for at, attempts in enumerate(rows["attempts"]) if attempts > 1]
    assert moved
    for at, row in enumerate(rows["trace_row"].tolist()):
        last = requests[f"request {row} attempt 2" if at in moved else f"request {row}"]
        assert last.track.startswith(f"worker {rows['decode_worker_idx'][at]}/")
        assert last.end_ns == ns(rows["last_token_ms"][at])
        if at in moved:
            failed = requests[f"request {row} failed"]
            assert failed.track.startswith("worker 1/")
            assert failed.end_ns == ns(20_000) <= last.begin_ns  # a KV router may hold it back
    assert len(requests) == 400 + len(moved)
    assert all(e.value >= 0 for e in events if e.kind == "count")
    ran = [s for s in slices if s.track == "worker 1/passes"]
    assert max(s.end_ns for s in ran) == ns(20_000)  # the pass in flight is cut
    final = {e.track: e.value for e in events if e.kind == "count"}
    assert all(value == 0 for track, value in final.items() if track.endswith(("/waiting", "/running")))
