"""Compares the scaling events of ai-dynamo's planner in our loop with those in its own, on 20 configurations.

usage: planner_agreement.py PYTHON [-k WORD]

PYTHON is the interpreter of an environment with ai-dynamo 1.3.1 and what its planner needs (see docs/planner.md). Each
configuration runs with both ``python -m dynamo.replay`` commands, with the same options. The exit status is 0 if all
scaling events are equal, in time, pool and numbers, and the numbers of ticks, too.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

EVENT = re.compile(r"^  t=(\S+)s \[(\w+)\]: (\d+) -> (\d+) workers", re.MULTILINE)
TICKS = re.compile(r"^Planner ticks: (\d+)", re.MULTILINE)
# No report of the planner: it takes longer than the run.
BASE = {"report_interval_hours": None, "live_dashboard_port": 0, "max_gpu_budget": 8}
GPUS = {"prefill_engine_num_gpu": 1, "decode_engine_num_gpu": 1}
LOAD = {
    "prefill_scale_up_queue_tokens": 500,
    "prefill_scale_down_queue_tokens": 100,
    "decode_scale_up_kv_rate": 40.0,
    "decode_scale_down_kv_rate": 15.0,
}


class Configuration(NamedTuple):
    """A run: what the planner aims at, the engines, and the traffic."""

    name: str
    planner: dict[str, Any]
    engine: dict[str, Any]
    traffic: tuple[int, float, int, int]  # requests, mean rate per second, prompt and output tokens
    pools: int = 1
    router: str = "round_robin"
    workers: int = 1


def configurations() -> Iterator[Configuration]:
    """Both numbers of pools, all targets that replays allow, both engines and routers, start-up times, traffic."""
    slow = {"block_size": 64, "num_gpu_blocks": 400, "speedup_ratio": 0.2}
    roomy = {"block_size": 64, "num_gpu_blocks": 4000, "speedup_ratio": 0.2}
    sglang = {"engine_type": "sglang", "num_gpu_blocks": 20000, "speedup_ratio": 0.2}
    burst, long, steady = (120, 6.0, 900, 60), (150, 2.0, 1500, 150), (300, 3.0, 300, 40)
    small, heavy = {**roomy, "num_gpu_blocks": 1500, "speedup_ratio": 0.1}, (150, 5.0, 1500, 120)
    for target in ("latency", "load", "throughput", "sla"):
        more = LOAD if target == "load" else {}
        settings = {"optimization_target": target, "load_adjustment_interval_seconds": 5, **more}
        yield Configuration(f"{target}, a burst", settings, slow, burst)
        yield Configuration(f"{target}, start-up 8 s", settings, {**slow, "startup_time": 8.0}, long)
        yield Configuration(f"{target}, two pools", settings, small, heavy, pools=2)
        yield Configuration(f"{target}, SGLang", settings, sglang, long)
    yield Configuration("from 3 workers", {"optimization_target": "latency"}, roomy, steady, workers=3)
    yield Configuration(
        "short intervals", {"optimization_target": "load", "load_adjustment_interval_seconds": 1, **LOAD}, slow, steady
    )
    yield Configuration(
        "throughput scaling every 20 s",
        {
            "optimization_target": "throughput",
            "enable_throughput_scaling": True,
            "throughput_adjustment_interval_seconds": 20,
        },
        slow,
        long,
    )
    yield Configuration(
        "KV router", {"optimization_target": "latency"}, roomy, (60, 20.0, 2000, 100), router="kv_router"
    )


def write_trace(path: Path, traffic: tuple[int, float, int, int]) -> None:
    """Requests whose lengths and gaps vary. No two prompts share a block."""
    draw, at, block = random.Random(str(traffic)), 0.0, 0
    count, rate, prompt, output = traffic
    with path.open("w") as file:
        for _ in range(count):
            tokens = max(1, round(prompt * draw.uniform(0.5, 1.5)))
            ids = range(block, block + -(-tokens // 512))
            block = ids.stop
            row = {
                "timestamp": round(at, 3),
                "input_length": tokens,
                "output_length": max(1, round(output * draw.uniform(0.5, 1.5))),
                "hash_ids": list(ids),
            }
            file.write(json.dumps(row) + "\n")
            at += 1000 * draw.expovariate(rate)


def options(c: Configuration, trace: Path, report: Path) -> list[str]:
    """The options of both commands."""
    planner = {"mode": "agg" if c.pools == 1 else "disagg", **BASE, **GPUS, **c.planner}
    chosen = [str(trace), "--planner-config", json.dumps(planner), "--router-mode", c.router]
    chosen += ["--trace-block-size", "512", "--report-json", str(report)]
    if c.pools == 1:
        return [*chosen, "--extra-engine-args", json.dumps(c.engine), "--num-workers", str(c.workers)]
    for role in ("prefill", "decode"):
        args = json.dumps({**c.engine, "worker_type": role})
        chosen += [f"--{role}-engine-args", args, f"--num-{role}-workers", str(c.workers)]
    return chosen


class Outcome(NamedTuple):
    """What a command says of its scaling."""

    events: list[tuple[str, ...]]
    ticks: str


def outcome(python: str, given: list[str], folder: Path, *more: str) -> Outcome:
    """Runs a command in a folder of its own. Raises RuntimeError if it fails."""
    command = [python, "-m", "dynamo.replay", *given, *more]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    ticks = TICKS.search(done.stdout)
    if done.returncode != 0 or ticks is None:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr[-2000:]}")
    return Outcome([event.groups() for event in EVENT.finditer(done.stdout)], ticks[1])


def main() -> int:
    """Prints a line for each configuration, and where the first events differ."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("python", metavar="PYTHON", help="interpreter of an environment with ai-dynamo 1.3.1")
    parser.add_argument("-k", metavar="WORD", default="", help="only configurations whose names contain this")
    asked = parser.parse_args()
    chosen = [c for c in configurations() if asked.k in c.name]
    differing = 0
    for c in chosen:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            write_trace(folder / "trace.jsonl", c.traffic)
            given = options(c, folder / "trace.jsonl", folder / "report.json")
            theirs = outcome(asked.python, given, folder)
            ours = outcome(sys.executable, given, folder, "--planner-python", asked.python)
        same = ours == theirs
        differing += not same
        print(
            f"{c.name:32} {len(theirs.events):3} events {theirs.ticks:>4} ticks  {'same' if same else 'DIFFERENT'}",
            flush=True,
        )
        if not same:
            print(f"  ours:   {ours}\n  theirs: {theirs}")
    print(f"{len(chosen) - differing} of {len(chosen)} configurations have the same scaling events")
    return 1 if differing or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
