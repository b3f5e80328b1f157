"""Faults in virtual time, through the Python functions, the command line and sweeps."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from conftest import Cli, refused

import dynamo.sweep
from dynamo.replay import run_synthetic_trace_replay
from dynamo.replay.main import main

RUN: dict[str, Any] = {
    "input_tokens": 256,
    "output_tokens": 40,
    "request_count": 60,
    "arrival_interval_ms": 20.0,
    "num_workers": 3,
}
OPTIONS = [
    *("--input-tokens", "256", "--output-tokens", "40", "--request-count", "60", "--arrival-interval-ms", "20"),
    *("--num-workers", "3"),
]
CRASH = {"kind": "crash", "at_ms": 400, "target": "worker:1", "duration_ms": 100}


def test_report_and_rows() -> None:
    report = run_synthetic_trace_replay(**RUN, faults=[CRASH], migration_limit=1)
    (event,) = report["fault_events"]
    assert (event["kind"], event["pool"], event["workers"], event["at_ms"], event["until_ms"]) == (
        "crash",
        "agg",
        [1],
        400.0,
        500.0,
    )
    migrations = report.requests["migrations"]
    assert event["lost_attempts"] == event["migrated"] == report["migrated_requests"] == sum(migrations) > 3
    assert (report["failed_requests"], report["availability"]) == (0, 1.0)
    assert report["recomputed_tokens"] >= 256 * report["migrated_requests"]
    assert set(report.requests["decode_worker_idx"]) == {0, 1, 2, 3}  # the new worker has a new id
    assert [a - 1 for a in report.requests["attempts"]] == list(migrations)

    failing = run_synthetic_trace_replay(**RUN, faults=[CRASH])
    assert failing["failed_requests"] == event["lost_attempts"]
    assert failing["completed_requests"] == 60 - failing["failed_requests"]
    assert failing["rejected_requests"] == 0
    reasons = [reason for reason in failing.requests["failure_reason"] if reason]
    assert reasons == ["its worker was lost by a crash"] * failing["failed_requests"]


def test_without_faults_nothing_changes() -> None:
    """An empty script is none, and one of which nothing happens only adds to the report."""
    plain = run_synthetic_trace_replay(**RUN)
    drawn = {"kind": "crash", "mtbf_s": 0.1, "target": "worker:*"}
    clock = {"wall_time_ms", "processed_tokens_per_s", "processed_output_tokens_per_s"}
    ours = clock | {"provenance", "decode_worker_seconds", "gpu_hours"}
    for faults, same in (({"faults": []}, True), ({"faults": [drawn], "fault_rate": 0.0}, False)):
        report = run_synthetic_trace_replay(**RUN, **faults)
        assert {k: v for k, v in report.items() if k in plain and k not in ours} == {
            k: v for k, v in plain.items() if k not in ours
        }
        assert (set(report) == set(plain)) == same
        assert ("attempts" not in report.requests) == same


def test_clients() -> None:
    report = run_synthetic_trace_replay(**RUN, client_timeout_ms=250.0, client_retries=2, client_backoff_ms=10.0)
    assert report["client_timeouts"] >= report["retries"] > 0
    assert report["failed_requests"] + report["completed_requests"] == 60
    hedged = run_synthetic_trace_replay(
        **RUN, hedge_after_ms=100.0, faults=[{"kind": "pause", "at_ms": 200, "duration_ms": 2000, "target": "worker:0"}]
    )
    assert hedged["hedges"] > 0
    assert hedged["completed_requests"] == 60


def test_equal_seeds() -> None:
    faults = [{"kind": "crash", "mtbf_s": 0.5, "mttr_s": 0.1, "target": "worker:*"}]

    def events(seed: int) -> Any:
        return run_synthetic_trace_replay(**RUN, faults=faults, migration_limit=5, seed=seed)["fault_events"]

    assert events(1) == events(1) != events(2)


@pytest.mark.parametrize("name", ["faults.jsonl", "faults.yaml"])
def test_files(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    file = tmp_path / name
    text = "# a comment\n" + (json.dumps(CRASH) if name.endswith("jsonl") else "- " + json.dumps(CRASH))
    file.write_text(text + "\n")
    saved = tmp_path / "report.json"
    command = [*OPTIONS, "--faults", str(file), "--migration-limit", "1", "--report-json", str(saved)]
    assert main(command) == 0
    out = capsys.readouterr().out
    assert "t=0.4s crash of [agg] 1; requests:" in out
    assert "0 failed" in out
    report = json.loads(saved.read_text())
    assert report["fault_events"] == run_synthetic_trace_replay(**RUN, faults=file, migration_limit=1)["fault_events"]
    again = tmp_path / "again.json"
    assert main(["--from-report", str(saved), "--report-json", str(again)]) == 0
    assert json.loads(again.read_text())["fault_events"] == report["fault_events"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            '{"kind": "crash", "at_ms": 1, "target": "worker:3"}',
            'faults: line 1: target: got "worker:3", want worker:0',
        ),
        ('\n{"kind": "boom"}', 'faults: line 2: kind: got "boom", want one of crash,'),
        ('{"kind": "slow", "at_ms": 1, "target": "worker:0"}', "faults: line 1: factor: got nothing"),
    ],
)
def test_bad_scripts(cli: Cli, tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "faults.jsonl"
    file.write_text(text)
    assert message in refused(cli(*OPTIONS, "--faults", str(file)))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "a: &a [x, x]\n"
            + "".join(f"{b}: &{b} [{', '.join([f'*{a}'] * 9)}]\n" for a, b in itertools.pairwise("abcdefghi")),
            "holds more than 100000 values",
        ),
        ("&a [*a]", "holds more than 100000 values"),
        ("- {kind: crash, at_ms: .nan, target: 'worker:0'}", "fault 1: at_ms: got nan, want a finite number"),
        ("- 3", "fault 1: got 3, want a dict"),
    ],
)
def test_bad_yaml(cli: Cli, tmp_path: Path, text: str, message: str) -> None:
    """A small file whose aliases stand for a huge value is refused at once. Messages name the option and the file."""
    file = tmp_path / "faults.yaml"
    file.write_text(text)
    assert f"--faults: {file}: {message}" in refused(cli(*OPTIONS, "--faults", str(file)))


def test_faults_that_leave_no_time_between_them() -> None:
    """Crashes that end at once, with hardly any time between them, would keep a run from ever ending."""
    crash = {"kind": "crash", "duration_ms": 0, "target": "worker:*"}
    with pytest.raises(ValueError, match=r"mtbf_s: got 1e-300, want a finite number from 0\.001"):
        run_synthetic_trace_replay(**RUN, faults=[{**crash, "mtbf_s": 1e-300}])
    with pytest.raises(ValueError, match="fault_rate: got 1001, want at most 1000, so that a fault with mtbf_s 1 "):
        run_synthetic_trace_replay(**RUN, faults=[{**crash, "mtbf_s": 1}], fault_rate=1001)


def test_bad_values(tmp_path: Path) -> None:
    yaml = tmp_path / "faults.yaml"
    yaml.write_text("kind: crash\n")
    for faults, error in (
        ([1], r"faults\[0\]: got 1, want a dict"),
        (3, "faults: got 3, want a list of dicts"),
        (yaml, "want a list of faults"),
    ):
        with pytest.raises((TypeError, ValueError), match=error):
            run_synthetic_trace_replay(**RUN, faults=faults)
    with pytest.raises(FileNotFoundError, match="faults"):
        run_synthetic_trace_replay(**RUN, faults=tmp_path / "none.jsonl")


@pytest.mark.parametrize("limit", [{"migration_limit": 1}, {"client_retries": 1}], ids=["migrated", "retried"])
def test_lost_part(limit: dict[str, int]) -> None:
    """What attempts that failed took is a part of latencies, which add up."""
    report = run_synthetic_trace_replay(**RUN, **limit, faults=[CRASH], attribution=True)
    rows = report.requests
    for prefix, latency in (("ttft", "ttft_ms"), ("e2e", "e2e_latency_ms")):
        parts = [name for name in rows if name.startswith(f"{prefix}_") and name.endswith("_ms") and name != latency]
        assert len(parts) == 12
        for at, whole in enumerate(rows[latency]):
            assert sum(rows[name][at] for name in parts) == pytest.approx(whole, abs=1e-9)
    moved = [at for at, attempts in enumerate(rows["attempts"]) if attempts > 1]
    assert len(moved) > 3
    for at in range(60):  # all that came before the last attempt, pauses of the client included
        assert rows["e2e_lost_ms"][at] == pytest.approx(rows["lost_ms"][at], abs=1e-6)
        assert (rows["e2e_lost_ms"][at] > 0) == (at in moved)
    split = report["attribution"]["e2e_latency_ms"]["split"]["mean"]
    assert split["lost"] == pytest.approx(sum(rows["e2e_lost_ms"]) / 60)
    assert "e2e_lost_ms" not in run_synthetic_trace_replay(**RUN, attribution=True).requests


def test_parts_of_a_run_that_is_cut() -> None:
    """Requests that are between two attempts at the end have the parts of the attempt with their last token."""
    for end in (410, 430, 500):
        report = run_synthetic_trace_replay(
            **RUN, faults=[CRASH], migration_limit=1, attribution=True, max_sim_time_ms=float(end)
        )
        rows = report.requests
        names = [name for name in rows if name.startswith("e2e_") and name.endswith("_ms") and name != "e2e_latency_ms"]
        moved = 0
        for at, whole in enumerate(rows["e2e_latency_ms"]):
            if whole == whole:
                assert sum(rows[name][at] for name in names) == pytest.approx(whole, abs=1e-9)
                moved += rows["attempts"][at] > 1
        assert moved > 3


def test_series(tmp_path: Path) -> None:
    """The series add up to what the report says, and show when a worker was missing."""
    report = run_synthetic_trace_replay(
        **RUN,
        faults=[CRASH, {"kind": "pause", "at_ms": 700, "duration_ms": 50, "target": "worker:0"}],
        client_retries=1,
        client_backoff_ms=50.0,
        timeseries=tmp_path / "series.csv",
        timeseries_step="100ms",
    )
    series = report.timeseries
    cluster = [at for at, pool in enumerate(series["pool"]) if pool == "cluster"]
    end = report["duration_ms"]
    seconds = {at: min(100.0, end - series["start_ms"][at]) / 1000 for at in cluster}
    for name, key in (
        ("output_tokens_per_s", "total_output_tokens"),
        ("lost_tokens_per_s", "lost_output_tokens"),
        ("recomputed_tokens_per_s", "recomputed_tokens"),
        ("completions_per_s", "completed_requests"),
        ("failures_per_s", "failed_requests"),
        ("retries_per_s", "retries"),
        ("migrations_per_s", "migrations"),
    ):
        assert sum(series[name][at] * seconds[at] for at in cluster) == pytest.approx(report[key]), name
    assert report["retries"] > 3
    working = [series["workers_working"][at] for at in cluster]
    assert working[:9] == pytest.approx([3, 3, 3, 3, 2, 3, 3, 2.5, 3])
    lost = [at for at, worker in enumerate(series["worker"]) if worker == 1]
    assert [series["workers_working"][at] for at in lost][:6] == pytest.approx([1, 1, 1, 1, 0, 0])
    assert "workers_working" in (tmp_path / "series.csv").read_text().splitlines()[0]
    assert "workers_working" not in run_synthetic_trace_replay(**RUN, timeseries_step="1s").timeseries


def test_decisions_of_every_attempt(tmp_path: Path) -> None:
    routed: dict[str, Any] = {**RUN, "router_mode": "kv_router", "faults": [CRASH], "migration_limit": 1}
    report = run_synthetic_trace_replay(
        **routed, router_log=tmp_path / "log.jsonl", report_jsonl_path=tmp_path / "rows.jsonl"
    )
    log = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    tried = [(row["trace_row"], row["attempt"]) for row in log]
    attempts = report.requests["attempts"].tolist()
    assert sorted(tried) == [(row, n + 1) for row, count in enumerate(attempts) for n in range(count)]
    last = {row["trace_row"]: row["chosen"] for row in log}
    assert [last[row] for row in range(60)] == report.requests["decode_worker_idx"].tolist()

    # Decisions hold for first attempts, as long as the worker gets requests.
    again = run_synthetic_trace_replay(
        **routed,
        router_decisions=tmp_path / "rows.jsonl",
        router_decisions_mode="force",
        router_log=tmp_path / "again.jsonl",
    )
    assert again["failed_requests"] == 0
    for row in map(json.loads, (tmp_path / "again.jsonl").read_text().splitlines()):
        at, chosen = row["trace_row"], report.requests["decode_worker_idx"][row["trace_row"]]
        there = chosen in [candidate["worker"] for candidate in row["candidates"]]
        assert row["pinned"] == (row["attempt"] == 1 and there), at
        assert not row["pinned"] or row["chosen"] == chosen


def test_options_without_faults() -> None:
    with pytest.warns(UserWarning, match="migration_limit 3 has no effect without faults and client_timeout_ms"):
        run_synthetic_trace_replay(**RUN, migration_limit=3)


def test_with_an_autoscaler() -> None:
    """A lost worker is replaced, after its start-up."""
    lost = {"kind": "crash", "at_ms": 400, "target": "worker:1"}
    more = {"extra_engine_args": {"startup_time": 0.3}, "migration_limit": 1}
    scaled = {"policy": "schedule", "schedule": [[0.1, 3]]}
    report = run_synthetic_trace_replay(**RUN, **more, faults=[lost], autoscaler=scaled)
    assert report["fault_events"][0]["until_ms"] == 700.0
    alone = run_synthetic_trace_replay(**RUN, **more, faults=[lost])
    assert alone["fault_events"][0]["until_ms"] is None


def test_sweep(tmp_path: Path) -> None:
    spec = {
        "run": {
            **RUN,
            "migration_limit": 0,
            "faults": [{"kind": "crash", "mtbf_s": 1, "target": "worker:*", "duration_ms": 50}],
        },
        "search": {"fault_rate": [0, 4], "num_workers": [2, 4]},
        "objectives": [{"maximize": "availability"}, {"minimize": "gpu_hours"}],
    }
    sweep = dynamo.sweep.run(spec, tmp_path / "sweep")
    points = sweep.content["points"]
    assert len(points) == 4
    calm, faulty = ([p["figures"] for p in points if p["knobs"]["fault_rate"] == rate] for rate in (0, 4))
    assert all(figures["availability"] == 1 for figures in calm)
    assert all(figures["failed_requests"] > 0 for figures in faulty)


def test_seeds_of_a_sweep(tmp_path: Path) -> None:
    """Faults that are drawn differ from seed to seed, so that a sweep of a recorded trace may have several."""
    trace = Path(__file__).parent.parent / "examples/traces/conversation_400.jsonl.gz"
    drawn = {"kind": "crash", "mtbf_s": 60, "mttr_s": 5, "target": "worker:*"}
    spec: dict[str, Any] = {
        "run": {"trace": str(trace), "faults": [drawn], "max_sim_time_ms": 30_000.0},
        "search": {"num_workers": [3]},
        "objectives": [{"maximize": "availability"}],
        "seeds": 3,
    }
    (point,) = dynamo.sweep.run(spec, tmp_path / "sweep").content["points"]
    assert 0 < point["figures"]["availability"] < 1
    script = tmp_path / "drawn.jsonl"
    script.write_text(json.dumps(spec["run"].pop("faults")[0]))
    spec["search"]["faults"] = [str(script)]
    (point,) = dynamo.sweep.run(spec, tmp_path / "searched").content["points"]
    assert 0 < point["figures"]["availability"] < 1
    del spec["search"]["faults"]
    spec["run"]["faults"] = [CRASH]
    with pytest.raises(ValueError, match="seeds: got 3, want it left out: nothing is drawn of a recorded trace"):
        dynamo.sweep.run(spec, tmp_path / "again")
