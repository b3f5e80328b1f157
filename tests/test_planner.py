"""Planners and autoscalers in the loop, through the Python functions and the command line."""

from __future__ import annotations

import gzip
import json
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import refused

from dynamo._core import Progress
from dynamo.replay import run_synthetic_trace_replay, run_trace_replay
from dynamo.replay.main import main
from dynamo.replay.reporting import write_report_json
from dynamo.replay.stock import PACKAGES, VARIABLE, StockPlanner

CASES = Path(__file__).parent / "conformance" / "planner.jsonl.gz"
BUSY: dict[str, Any] = {
    "input_tokens": 256,
    "output_tokens": 20,
    "request_count": 40,
    "arrival_interval_ms": 20.0,
    "extra_engine_args": {"startup_time": 0.1},
}
BUSY_OPTIONS = [
    *("--input-tokens", "256", "--output-tokens", "20", "--request-count", "40", "--arrival-interval-ms", "20"),
    *("--extra-engine-args", '{"startup_time": 0.1}'),
]
SCHEDULE = {"policy": "schedule", "schedule": [[0.1, 3], [0.5, 1]]}


class Planner:
    """Gives fixed answers, and keeps what it is told."""

    def __init__(self, answers: list[Any], first: Any = 100.0) -> None:
        self.first, self.answers, self.told = first, answers, []

    def initial_tick_ms(self) -> Any:
        return self.first

    def on_tick(self, metrics: dict[str, Any]) -> Any:
        self.told.append(metrics)
        answer = self.answers[min(len(self.told), len(self.answers)) - 1]
        if isinstance(answer, BaseException):
            raise answer
        return answer


def decision(prefill: Any = None, decode: Any = None, at: Any = None) -> dict[str, Any]:
    return {"target_prefill": prefill, "target_decode": decode, "next_tick_ms": at}


def test_a_planner_scales_and_is_told() -> None:
    planner = Planner([decision(decode=3, at=300.0), decision(decode=1)])
    report = run_synthetic_trace_replay(**BUSY, planner=planner)
    first, second = planner.told
    assert (first["now_ms"], first["active_decode_count"], second["active_decode_count"]) == (100.0, 1, 3)
    assert second["decode_fpm_snapshots"][0]["worker_id"] in (0, 1, 2)
    assert [(e["at_ms"], e["from"], e["to"]) for e in report["scaling_events"]] == [(100.0, 1, 3), (300.0, 3, 1)]
    assert report["completed_requests"] == 40
    assert 0 < report["cold_worker_requests"] < 40
    assert report["held_requests"] == 0


@pytest.mark.parametrize(
    ("answer", "kind", "message"),
    [
        (decision(decode=-1), ValueError, "planner: at 100 ms target_decode: got -1, want 0 to 10000"),
        (decision(decode=10_001), ValueError, "target_decode: got 10001, want 0 to 10000"),
        (decision(decode=True), TypeError, "planner: at 100 ms target_decode: got true"),
        (decision(decode=1.5), TypeError, "planner: at 100 ms target_decode: got 1.5"),
        (decision(prefill=1), ValueError, "target_prefill: got 1, want None in a run with one pool"),
        (decision(at=100.0), ValueError, "at 100 ms next_tick_ms: got 100, want a later time"),
        (decision(at="soon"), TypeError, "planner: at 100 ms next_tick_ms: got"),
        (None, TypeError, "planner: at 100 ms on_tick returned null, want a dict with target_prefill"),
        ({"target_decode": 2}, TypeError, "want target_prefill, next_tick_ms in it, too"),
    ],
)
def test_bad_decisions(answer: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind) as raised:
        run_synthetic_trace_replay(**BUSY, planner=Planner([answer]))
    assert message in str(raised.value)


@pytest.mark.parametrize("raised", [KeyError("mine"), KeyboardInterrupt(), SystemExit(3), ValueError("a\nb")])
def test_what_a_planner_raises_passes_unchanged(raised: BaseException) -> None:
    with pytest.raises(type(raised)) as caught:
        run_synthetic_trace_replay(**BUSY, planner=Planner([raised]))
    assert caught.value is raised
    if sys.version_info >= (3, 11):
        assert raised.__notes__ == ["planner: at 100 ms"]


def test_bad_planners() -> None:
    with pytest.raises(TypeError, match="want an object with the method initial_tick_ms"):
        run_synthetic_trace_replay(**BUSY, planner=object())
    with pytest.raises(TypeError, match="initial_tick_ms: got"):
        run_synthetic_trace_replay(**BUSY, planner=Planner([], first="x"))
    with pytest.raises(ValueError, match=r"autoscaler: .* want it left out with planner"):
        run_synthetic_trace_replay(**BUSY, planner=Planner([]), autoscaler=SCHEDULE)


def test_changes_are_told_as_they_happen() -> None:
    """All but those just before the end come while the run goes on, and each once."""
    told: list[Any] = []
    gate = threading.Event()

    class Slow(Planner):
        def on_tick(self, metrics: dict[str, Any]) -> Any:
            if metrics["now_ms"] == 300.0:
                assert gate.wait(300)
            return super().on_tick(metrics)

    def watch(now: Progress) -> None:
        told.extend(now.scaling_events)
        if told:
            gate.set()

    planner = Slow([decision(decode=3, at=300.0), decision(decode=1)])
    report = run_synthetic_trace_replay(**BUSY, planner=planner, on_progress=watch)
    assert told == report["scaling_events"]
    assert len(told) == 2


def test_drawn_start_ups() -> None:
    """Workers that start vary in how long that takes, as the seed says."""

    def active(seed: int, cv: float) -> list[int]:
        planner = Planner([*(decision(decode=20, at=150.0 + 10 * i) for i in range(40)), decision()])
        args = {"startup_time": 0.2, "startup_time_cv": cv}
        run_synthetic_trace_replay(**{**BUSY, "extra_engine_args": args}, planner=planner, seed=seed)
        return [told["active_decode_count"] for told in planner.told]

    constant, drawn, again, other = active(1, 0.0), active(1, 0.8), active(1, 0.8), active(2, 0.8)
    assert set(constant) == {1, 20}
    assert len(set(drawn)) > 4
    assert drawn == again != other


@pytest.mark.parametrize("cv", [-1, 11])
def test_start_ups_that_cannot_vary(cv: float) -> None:
    args = {"startup_time": 5, "startup_time_cv": cv}
    with pytest.raises(ValueError, match="startup_time_cv: got"):
        run_synthetic_trace_replay(**{**BUSY, "extra_engine_args": args}, autoscaler=SCHEDULE)


def test_no_tick() -> None:
    planner = Planner([], first=float("inf"))
    assert run_synthetic_trace_replay(**BUSY, planner=planner)["scaling_events"] == []
    assert planner.told == []


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log, saved = tmp_path / "ticks.jsonl", tmp_path / "report.json"
    options = ["--autoscaler", json.dumps(SCHEDULE), "--planner-log", str(log), "--gpu-hour-price", "3.5"]
    assert main([*BUSY_OPTIONS, *options, "--report-json", str(saved)]) == 0
    printed = capsys.readouterr().out
    assert "Scaling events:\n  t=0.1s [agg]: 1 -> 3 workers (scale_up, schedule)" in printed
    report = json.loads(saved.read_text())
    assert report["gpu_cost"] == pytest.approx(3.5 * report["gpu_hours"])
    ticks = [json.loads(line) for line in log.read_text().splitlines()]
    assert [(t["now_ms"], t["target_decode"]) for t in ticks] == [(100.0, 3), (500.0, 1)]


def test_static_runs_keep_their_report() -> None:
    report = run_synthetic_trace_replay(**BUSY)
    assert not {"scaling_events", "held_requests", "cold_worker_requests", "gpu_cost", "planner"} & set(report)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--autoscaler", '{"policy": "hpa"}'], "autoscaler: target: got nothing"),
        (["--autoscaler", '{"policy": "hpa", "tarket": 5}'], 'did you mean "target"'),
        (["--planner-log", "x"], 'planner_log: got "x", want planner, planner_config or autoscaler with it'),
        (["--planner-config", "{}"], f"set {VARIABLE}; such an environment: pip install {PACKAGES}"),
        (
            ["--planner-config", "{}", "--autoscaler", '{"policy": "queue", "target": 1}'],
            "left out with planner_config",
        ),
        (["--planner-python", sys.executable], "planner_python: "),
        (["--benchmark-granularity", "4"], "benchmark_granularity: got 4, want planner_config with it"),
        (["--planner-config", "{}", "--planner-python", "/none/python"], 'cannot run "/none/python"'),
        (["--planner-config", "{}", "--planner-python", sys.executable], f"-m pip install {PACKAGES}"),
    ],
)
def test_bad_options(
    options: list[str],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.chdir(tmp_path)
    assert main([*BUSY_OPTIONS, *options]) == 2
    told = capsys.readouterr().err
    assert message in told
    assert told.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_unknown_keys_and_classes_are_named() -> None:
    class Mistaken:
        def initial_tick_ms(self) -> float:
            return 0.0

        def on_tick(self, metrics: dict[str, Any]) -> dict[str, Any]:
            return {"target_prefill": None, "target_decode": 1, "next_tick_ms": None, "target": 2}

    with pytest.raises(ValueError, match='unknown key "target"'):
        run_synthetic_trace_replay(**BUSY, planner=Mistaken())
    with pytest.raises(TypeError, match="got the class Mistaken"):
        run_synthetic_trace_replay(**BUSY, planner=Mistaken)  # type: ignore[arg-type]


def test_no_worker_for_ever_is_said() -> None:
    class Off:
        def initial_tick_ms(self) -> float:
            return 0.0

        def on_tick(self, metrics: dict[str, Any]) -> dict[str, Any]:
            return {"target_prefill": None, "target_decode": 0, "next_tick_ms": None}

    with pytest.raises(RuntimeError, match="no worker is active or starting, no tick is due, and requests wait: "):
        run_synthetic_trace_replay(**BUSY, planner=Off())


def test_no_worker_and_ticks_without_end() -> None:
    """A planner that asks for no worker at every tick does not keep the run for ever."""

    class Off:
        ticks = 0

        def initial_tick_ms(self) -> float:
            return 0.0

        def on_tick(self, metrics: dict[str, Any]) -> dict[str, Any]:
            self.ticks += 1
            return {"target_prefill": None, "target_decode": 0, "next_tick_ms": metrics["now_ms"] + 1000}

    off = Off()
    with pytest.raises(RuntimeError, match=r"ticks in a row until .* while requests wait and nothing else happens"):
        run_synthetic_trace_replay(**BUSY, planner=off)
    assert off.ticks <= 60_000


def test_only_python_has_planners(folder: Path, cli: Callable[..., Any]) -> None:
    """A run with a planner is not repeated without it, nor asked for in a file."""
    planned = run_synthetic_trace_replay(**BUSY, planner=Planner([decision()]))
    write_report_json(planned, "planned.json")
    Path("run.json").write_text('{"planner": true, "input_tokens": 20, "output_tokens": 3, "request_count": 5}')
    for option in (("--from-report", "planned.json"), ("--config", "run.json")):
        assert "planner: got true, want an object in Python" in refused(cli(*option))


def stock_cases() -> list[dict[str, Any]]:
    with gzip.open(CASES, "rt") as file:
        return [case for case in map(json.loads, file) if "planner_config" in case]


@pytest.mark.skipif(VARIABLE not in os.environ, reason=f"{VARIABLE} names no environment with ai-dynamo")
@pytest.mark.parametrize("case", stock_cases(), ids=lambda case: case["id"])
def test_the_stock_planner(case: dict[str, Any], tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    trace.write_text("".join(json.dumps(row) + "\n" for row in case["trace_rows"]))
    report = run_trace_replay(trace, planner_config=case["planner_config"], **case["args"])
    events = [list(event.values()) for event in report["planner"]["events"]]
    assert events == case["scaling_events"]
    ours = [[e["at_ms"] / 1000, e["pool"], e["from"], e["to"]] for e in report["scaling_events"]]
    assert ours == [event[:4] for event in case["scaling_events"]]
    assert report["planner"]["ticks"] == len(case["ticks"])


def test_the_process_of_the_stock_planner_ends() -> None:
    with StockPlanner(sys.executable) as planner:
        assert planner.answer('{"planner":"configure","config":"{}"}') == '{"failed": true}'
        assert planner._child is not None
        process = planner._child._process
    assert "pip install" in str(planner.failure)
    assert process.poll() is not None
