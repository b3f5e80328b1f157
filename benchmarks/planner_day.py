"""What serves a day of traffic: GPU hours against requests that miss their service level.

usage: planner_day.py [--planner PYTHON] [--hours H] [--write FILE] [--plot FILE]

Every run is that of examples/runs/day.yaml: with fixed numbers of workers, with policies of our own, and with the
planner of ai-dynamo, if --planner names the interpreter of an environment that has it. --write puts the table into its
place in a document, --plot draws it as SVG.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import planner_plot
import tables
import yaml
from planner_plot import Served

from dynamo.replay import run_synthetic_trace_replay

PROJECT = Path(__file__).parent.parent
HOUR_MS = 3_600_000
FIRST = 2
"""Workers at midnight where their number changes."""
STOCK = {
    "mode": "agg",
    "optimization_target": "load",
    "load_adjustment_interval_seconds": 30,
    "max_gpu_budget": 16,
    "prefill_engine_num_gpu": 1,
    "decode_engine_num_gpu": 1,
    "prefill_scale_up_queue_tokens": 4000,
    "prefill_scale_down_queue_tokens": 500,
    "decode_scale_up_kv_rate": 3.0,
    "decode_scale_down_kv_rate": 2.0,
    "report_interval_hours": None,
    "live_dashboard_port": 0,
}


def policy(kind: str, target: int) -> dict[str, Any]:
    """A policy that keeps a number of requests running on each worker."""
    return {"policy": kind, "metric": "num_requests_running", "target": target, "min": 1, "max": 16}


def candidates(planner: str | None) -> list[tuple[str, str, dict[str, Any]]]:
    """Name, kind and options of each run."""
    runs: list[tuple[str, str, dict[str, Any]]] = [
        (f"{n} workers", "static", {"num_workers": n}) for n in (5, 6, 7, 8, 9)
    ]
    for kind in ("hpa", "keda"):
        for target in (12, 16, 20, 24):
            options = {"num_workers": FIRST, "autoscaler": policy(kind, target)}
            runs.append((f"{kind.upper()}, {target} running", kind, options))
    if planner:
        options = {"num_workers": FIRST, "planner_config": STOCK, "planner_python": planner}
        runs.append(("ai-dynamo's planner, load", "stock", options))
    return runs


def serve(name: str, kind: str, options: dict[str, Any], hours: float) -> Served:
    """Simulates a day, or the first hours of it."""
    day = yaml.safe_load((PROJECT / "examples/runs/day.yaml").read_text())
    day["request_rate_curve"] = PROJECT / day["request_rate_curve"]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*startup_time has no effect")
        report = run_synthetic_trace_replay(**day, **options, max_sim_time_ms=hours * HOUR_MS)
    changes = [(event["at_ms"] / HOUR_MS, event["to"]) for event in report.get("scaling_events", [])]
    steps = [(0.0, options["num_workers"]), *changes]
    return Served(
        name=name,
        kind=kind,
        gpu_hours=report["gpu_hours"],
        cost=report["gpu_cost"],
        missed=1 - report["goodput_completed_requests"] / report["num_requests"],
        p99_ttft_s=report["p99_ttft_ms"] / 1000,
        most=max(workers for _, workers in steps),
        steps=steps,
    )


HEAD = ("Policy", "GPU hours", "at 3 an hour", "SLA missed", "p99 TTFT, s", "most workers", "changes")


def table(days: Sequence[Served]) -> tables.Table:
    """The comparison. The row of ai-dynamo's planner stays in a document if it was not run."""
    rows = {
        d.name: (
            f"{d.gpu_hours:.0f}",
            f"{d.cost:.0f}",
            f"{100 * d.missed:.2f} %",
            f"{d.p99_ttft_s:.2f}",
            str(d.most),
            str(len(d.steps) - 1),
        )
        for d in days
    }
    return tables.Table(HEAD, [name for name, _, _ in candidates("any")], rows)


def main() -> int:
    """Prints the table, and writes what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--planner", metavar="PYTHON", help="interpreter of an environment with ai-dynamo's planner")
    parser.add_argument("--hours", type=float, default=24.0, metavar="H", help="of the day (default: 24)")
    parser.add_argument("--write", type=Path, metavar="FILE", help="document with the table")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="SVG file to draw")
    asked = parser.parse_args()
    days = [serve(*candidate, asked.hours) for candidate in candidates(asked.planner)]
    for name, cells in [(HEAD[0], HEAD[1:]), *table(days).rows.items()]:
        print(f"{name:28}", *(f"{cell:>12}" for cell in cells))
    if asked.plot:
        rates = [line.split(",") for line in (PROJECT / "examples/rates/day.csv").read_text().splitlines()[1:]]
        curve = [(float(s) / 3600, float(rps)) for s, rps in rates]
        asked.plot.write_text(planner_plot.draw(days, curve, asked.hours))
    if asked.write and not tables.write(asked.write, "planner day", [table(days)]):
        print(f"{asked.write}: has no place for this table", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(main())
    sys.exit(130)
