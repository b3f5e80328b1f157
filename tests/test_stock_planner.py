"""Runs with the planner of ai-dynamo, in whose place is a made-up package: the pipe, and what can go wrong.

test_planner.py has runs with the real one.
"""

from __future__ import annotations

import json
import shlex
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import Cli, refused
from test_aic import engine, fake

from dynamo.replay.stock import VARIABLE

__all__ = ["fake"]

# What the runner uses of ai-dynamo. The settings say what the planner does.
PACKAGE = {
    "planner/config/planner_config.py": """
        import json
        from types import SimpleNamespace

        class PlannerConfig:
            @staticmethod
            def from_config_arg(text):
                settings = json.loads(open(text).read() if not text.startswith("{") else text)
                if "wrong" in settings:
                    raise ValueError("1 validation error\\n  wrong\\n    Extra inputs are not permitted")
                settings = {"mode": "agg", "optimization_target": "load", "fails": "", **settings}
                return SimpleNamespace(**settings)
        """,
    "planner/core/types.py": """
        from types import SimpleNamespace

        EngineCapabilities = WorkerCapabilities = SimpleNamespace
        """,
    "common/forward_pass_metrics.py": """
        from types import SimpleNamespace

        ForwardPassMetrics = ScheduledRequestMetrics = SimpleNamespace
        """,
    "planner/offline/replay_adapter.py": """
        import json, os, sys
        from types import SimpleNamespace

        class ReplayPlannerAdapter:
            def __init__(self, planner_config, bridge, capabilities):
                assert bridge is None and planner_config.advisory
                self.config, self.seen, self.events, self.learned = planner_config, [], [], {}
                self.pools = {name: vars(pool) for name, pool in vars(capabilities).items()}

            def initial_tick_ms(self):
                print("a library prints to standard output")
                return 100.0

            def install_benchmark_fpms(self, **passes):
                for name, of in passes.items():
                    self.learned[name] = [[p.wall_time, vars(p.scheduled_requests)] for p in of]

            def on_tick(self, metrics):
                if self.config.fails == "raises":
                    raise KeyError("no such engine")
                if self.config.fails == "dies":
                    os.write(2, b"out of luck")
                    os._exit(3)
                self.seen.append(metrics)
                before, target = metrics["active_decode_count"], 1 + len(self.seen)
                at = metrics["now_ms"] / 1000
                event = dict(at_s=at, component="agg", from_count=before, to_count=target, reason="scale_up")
                self.events.append(SimpleNamespace(**event))
                last = len(self.seen) == 3
                return {
                    "target_prefill": 0,
                    "target_decode": target,
                    "next_tick_ms": float("inf") if last else metrics["now_ms"] + 100,
                }

            def finalize(self, report):
                with open("planner.html", "w") as file:
                    json.dump({"seen": self.seen, "pools": self.pools, "learned": self.learned, "report": report}, file)
                return SimpleNamespace(
                    scaling_events=self.events, total_ticks=len(self.seen), html_report_path="planner.html"
                )
        """,
}
BUSY = ["--input-tokens", "256", "--output-tokens", "20", "--request-count", "40", "--arrival-interval-ms", "20"]
Environment = Callable[..., str]


@pytest.fixture
def environment(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Environment:
    """Makes an interpreter that has the package, and has the variable name it."""

    def make(version: str = "1.3.1") -> str:
        folder = tmp_path_factory.mktemp("environment")
        for name, source in PACKAGE.items():
            path = folder / "dynamo" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(source))
        about = folder / f"ai_dynamo-{version}.dist-info" / "METADATA"
        about.parent.mkdir()
        about.write_text(f"Metadata-Version: 2.1\nName: ai-dynamo\nVersion: {version}\n")
        start = (
            "import runpy, sys; sys.path.insert(0, sys.argv.pop(1)); del sys.argv[:2]; "
            "runpy.run_path(sys.argv[0], run_name='__main__')"
        )
        python = folder / "python"
        words = [sys.executable, "-I", "-c", start, str(folder)]
        python.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
        python.chmod(0o755)
        monkeypatch.setenv(VARIABLE, str(python))
        return str(python)

    return make


def settings(**values: Any) -> list[str]:
    return ["--planner-config", json.dumps(values)]


def test_a_run(environment: Environment, cli: Cli, folder: Path) -> None:
    """The planner is told of pools and ticks, decides, and has its report named."""
    environment()
    done = cli(*BUSY, *settings(), "--report-json", "report.json")
    assert (done.returncode, done.stderr) == (0, "")
    assert "Scaling events:\n  t=0.1s [agg]: 1 -> 2 workers (scale_up)\n" in done.stdout
    assert done.stdout.endswith("Planner ticks: 3\nPlanner diagnostics report: planner.html\n")
    report = json.loads(Path("report.json").read_text())
    assert [(e["at_ms"], e["from"], e["to"]) for e in report["scaling_events"]] == [
        (100.0, 1, 2),
        (200.0, 2, 3),
        (300.0, 3, 4),
    ]
    assert report["planner"]["events"][0] == {
        "at_s": 0.1,
        "component": "agg",
        "from_count": 1,
        "to_count": 2,
        "reason": "scale_up",
    }
    told = json.loads(Path("planner.html").read_text())
    assert told["pools"] == {
        "decode": {
            "num_gpu": 1,
            "max_num_batched_tokens": 8192,
            "max_num_seqs": 256,
            "context_length": 16384 * 64,
            "max_kv_tokens": 16384 * 64,
            "speculative_nextn": None,
        }
    }
    assert [tick["now_ms"] for tick in told["seen"]] == [100.0, 200.0, 300.0]
    last = told["seen"][-1]["decode_fpm_snapshots"]
    assert sorted(row["worker_id"] for row in last) == sorted(
        {row["worker_id"] for row in last}
    )  # the last pass of each
    assert told["report"]["completed_requests"] == report["completed_requests"] == 40


def test_durations_to_begin_with(environment: Environment, fake: Path, cli: Cli, folder: Path) -> None:
    """For the target sla the planner learns from predictions: prompts by themselves, and decode batches that fit."""
    environment()
    args = engine(aic_backend_version="0.1", num_gpu_blocks=100, max_num_batched_tokens=1000, max_num_seqs=16)
    goal = settings(optimization_target="sla")
    done = cli(*BUSY, *goal, *args, "--benchmark-granularity", "3", "--report-json", "report.json")
    assert (done.returncode, done.stderr) == (0, "")
    told = json.loads(Path("planner.html").read_text())
    (learned,) = told["learned"].values()
    prompts = [scheduled["sum_prefill_tokens"] for _, scheduled in learned if "sum_prefill_tokens" in scheduled]
    assert prompts == [100, 400, 700, 1000]
    batches = [
        (scheduled["num_decode_requests"], scheduled["sum_decode_kv_tokens"])
        for _, scheduled in learned
        if "num_decode_requests" in scheduled
    ]
    assert batches == [(1, 500), (6, 3000), (11, 5500), (1, 2000), (1, 4000)]  # of 6,400 tokens
    assert all(0 < seconds < 1 for seconds, _ in learned)
    passes = told["seen"][0]["decode_fpm_snapshots"]
    assert len(passes) > len({row["worker_id"] for row in passes})  # all of them


def test_no_durations_to_begin_with(environment: Environment, cli: Cli, folder: Path) -> None:
    environment("2.0.0")
    done = cli(*BUSY, *settings(optimization_target="sla"), "--report-json", "report.json")
    assert done.returncode == 0
    assert "warning: planner_config: ai-dynamo is 2.0.0, and this was made for its planner of 1.3.x" in done.stderr
    assert "engine arguments name no aic_backend" in done.stderr
    assert json.loads(Path("planner.html").read_text())["learned"] == {}


def test_a_file_is_part_of_what_was_run(environment: Environment, cli: Cli, folder: Path) -> None:
    environment()
    Path("planner.json").write_text('{"optimization_target": "load"}')
    assert cli(*BUSY, "--planner-config", "planner.json", "--report-json", "report.json").returncode == 0
    Path("planner.json").write_text('{"optimization_target": "latency"}')
    assert "planner.json has changed since the report" in refused(cli("--from-report", "report.json"))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"wrong": 1}, "planner_config: ValueError: 1 validation error wrong Extra inputs are not permitted"),
        ({"mode": "disagg"}, 'planner_config: mode: got "disagg", want "agg" in a run with one pool of workers'),
    ],
)
def test_bad_settings(environment: Environment, cli: Cli, folder: Path, values: dict[str, Any], message: str) -> None:
    environment()
    assert message in refused(cli(*BUSY, *settings(**values)))
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    ("fails", "message"),
    [
        ("raises", "planner_config: the planner failed at 100 ms: KeyError: 'no such engine' (File"),
        ("dies", "has ended at 100 ms: a library prints to standard output out of luck"),
    ],
)
def test_a_planner_that_fails(environment: Environment, cli: Cli, folder: Path, fails: str, message: str) -> None:
    environment()
    done = cli(*BUSY, *settings(fails=fails))
    assert done.returncode == 1
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert list(folder.iterdir()) == []
