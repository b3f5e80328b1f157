"""Random planners, engines and workloads, from a seed; and a comparison of what planners are told with ai-dynamo 1.3.1.

usage: planner_scripts.py REFERENCE [-n CASES] [--seed SEED]

REFERENCE is the interpreter of an environment with ai-dynamo 1.3.1. Each case runs in both: every dict that the planner
is given, and its decisions, have to be equal to 1e-9. Exit code 1 if any differ. ``test_planner_scripts.py`` checks
what has to hold without a reference.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "conformance"))

from planner_script import ScriptedPlanner  # noqa: E402

LIMIT_S = 30
"""Of the reference, which never ends some runs of tiny pools."""
BLOCK = 64
"""Tokens of a block of the traces, and of the engines that are compared."""

Case = dict[str, Any]


def case(seed: int) -> Case:
    """A run with a planner. Pools are small: requests wait, are preempted and retracted, and workers come and go."""
    rng = random.Random(seed)
    pools = ("prefill", "decode") if rng.random() < 0.5 else ("decode",)
    kind = rng.choice(["vllm", "sglang"])
    rows = _rows(rng)
    longest = max(-(-(row["input_length"] + row["output_length"]) // BLOCK) for row in rows) + 1
    engines = {pool: _engine(rng, kind, longest) for pool in pools}
    if len(pools) == 2:
        engines["prefill"] |= {"worker_type": "prefill", "kv_bytes_per_token": rng.choice([1000, 131072])}
        engines["prefill"]["kv_transfer_bandwidth"] = rng.choice([0.5, 8.0, 64.0])
        engines["decode"] |= {"worker_type": "decode"}
        engines["decode"]["block_size"] = engines["prefill"]["block_size"]
    workers = {pool: rng.randint(1, 3) for pool in pools}
    return {"seed": seed, "engines": engines, "workers": workers, "trace_rows": rows, "planner": _script(rng, pools)}


def _rows(rng: random.Random) -> list[dict[str, Any]]:
    """Requests in bursts, some of which share the beginnings of their prompts."""
    prefixes = [[rng.randrange(1, 10**6) for _ in range(8)] for _ in range(3)]
    rows, now, fresh = [], 0, 10**7
    mean = rng.choice([2, 10, 40])
    for _ in range(rng.randint(5, 40)):
        now += 0 if rng.random() < 0.4 else int(rng.expovariate(1 / mean))
        length = rng.choice([rng.randint(1, 64), rng.randint(60, 260), rng.randint(200, 700)])
        blocks = -(-length // BLOCK)
        shared = rng.choice(prefixes)[: rng.randint(0, length // BLOCK)] if rng.random() < 0.5 else []
        ids = shared + list(range(fresh, fresh + blocks - len(shared)))
        fresh += blocks
        rows.append(
            {"timestamp": now, "input_length": length, "output_length": rng.choice([1, 2, 15, 39, 80]), "hash_ids": ids}
        )
    return rows


def _engine(rng: random.Random, kind: str, longest: int) -> dict[str, Any]:
    """Engine arguments. The pool holds the longest request, and in two of three cases hardly more."""
    engine: dict[str, Any] = {
        "engine_type": kind,
        "block_size": BLOCK,
        "num_gpu_blocks": longest + rng.choice([0, 3, 10, 400, 4000, 1]),
        "preemption_mode": rng.choice(["lifo", "fifo"]),
        "speedup_ratio": rng.choice([0.5, 1.0, 4.0]),
    }
    if rng.random() < 0.5:
        engine["max_num_seqs"] = rng.choice([2, 4, 16])
    if rng.random() < 0.5:
        engine["max_num_batched_tokens"] = rng.choice([256, 512, 2048])
    if rng.random() < 0.4:
        engine["startup_time"] = rng.choice([0.01, 0.06, 0.3])
    if kind == "sglang" and rng.random() < 0.5:
        engine["sglang"] = {"schedule_policy": rng.choice(["fcfs", "lpm"]), "chunked_prefill_size": 256}
    return engine


def _script(rng: random.Random, pools: tuple[str, ...]) -> dict[str, Any]:
    """A planner for planner_script.py: targets at certain ticks, or by what it sees."""
    rules = []
    for _ in range(rng.randint(1, 4)):
        targets: dict[str, Any] = {}
        for pool in pools:
            waiting = ["fpm", pool, "last", "num_queued_prefill", "num_queued_decode", "num_decode_requests"]
            seen = rng.choice(
                [
                    ["ceil", ["/", waiting, 2]],
                    ["+", f"active_{pool}_count", 1],
                    ["ceil", ["/", ["fpm", pool, "sum", "sum_decode_kv_tokens"], 900]],
                    ["if", [">", ["fpm", pool, "max", "sum_queued_decode_kv_tokens"], 0], 3, 1],
                    "traffic.num_req",
                ]
            )
            targets[pool] = rng.randint(1, 4) if rng.random() < 0.5 else ["max", 1, ["min", 4, seen]]
        rules.append(({"tick": rng.randint(1, 9)} if rng.random() < 0.5 else {}) | targets)
    period: Any = rng.choice([10, 33.3, 100, ["if", [">", "active_decode_count", 1], 25, 70]])
    return {"initial_tick_ms": rng.choice([0.0, 7.0, 25.0, 100.0]), "period_ms": period, "rules": rules}


def observe(drawn: Case, folder: Path) -> tuple[dict[str, Any], ScriptedPlanner]:
    """Runs a case here and returns its report, and the planner with what it was told and decided."""
    from dynamo.replay import run_trace_replay

    planner = ScriptedPlanner(drawn["planner"])
    engines, workers = drawn["engines"], drawn["workers"]
    split = {f"{pool}_engine_args": engines[pool] for pool in engines}
    split |= {f"num_{pool}_workers": workers[pool] for pool in engines}
    if "prefill" not in engines:
        split = {"extra_engine_args": engines["decode"], "num_workers": workers["decode"]}
    report = run_trace_replay(_trace(drawn, folder), trace_block_size=BLOCK, planner=planner, **split)
    return report, planner


def _trace(drawn: Case, folder: Path) -> Path:
    path = folder / "trace.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in drawn["trace_rows"]))
    return path


def _reference(drawn: Case, folder: Path) -> ScriptedPlanner:
    """Runs a case in an environment with ai-dynamo 1.3.1."""
    from dynamo._core import MockEngineArgs, PlannerReplayBridge

    planner = ScriptedPlanner(drawn["planner"])
    engines = {pool: MockEngineArgs.from_json(json.dumps(engine)) for pool, engine in drawn["engines"].items()}
    workers, trace = drawn["workers"], str(_trace(drawn, folder))
    if "prefill" in engines:
        bridge = PlannerReplayBridge.create_disagg(
            trace,
            engines["prefill"],
            engines["decode"],
            workers["prefill"],
            workers["decode"],
            trace_block_size=BLOCK,
        )
    else:
        bridge = PlannerReplayBridge(trace, engines["decode"], workers["decode"], trace_block_size=BLOCK)
    bridge.run(planner)
    return planner


def _compare(python: str, count: int, first: int) -> int:
    from check_planner import diff

    different, silent = 0, 0
    for seed in range(first, first + count):
        drawn = case(seed)
        with tempfile.TemporaryDirectory() as folder:
            _, ours = observe(drawn, Path(folder))
        command = [python, __file__, "--reference", str(seed)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            silent += 1
            continue
        if done.returncode:
            found = [f"the reference failed: {done.stderr.strip().splitlines()[-1:]}"]
        else:
            theirs = json.loads(done.stdout.splitlines()[-1])
            found = diff(theirs["ticks"], ours.ticks, "ticks") or diff(theirs["decisions"], ours.decisions, "decisions")
        if found:
            different += 1
            print(f"case {seed}: {found[0]}")
    if silent:
        print(f"{silent} in which the reference did not end within {LIMIT_S} s")
    print(f"{count - different - silent} passed, {different} failed")
    return int(different > 0)


def main() -> int:
    """Compares cases with the reference, or runs one there."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("python", metavar="REFERENCE", nargs="?")
    parser.add_argument("-n", type=int, default=50, metavar="CASES")
    parser.add_argument("--seed", type=int, default=1000)
    parser.add_argument("--reference", type=int, metavar="SEED", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.reference is not None:
        with tempfile.TemporaryDirectory() as folder:
            planner = _reference(case(given.reference), Path(folder))
        print(json.dumps({"ticks": planner.ticks, "decisions": planner.decisions}))
        return 0
    if given.python is None:
        parser.error("want REFERENCE, the interpreter of an environment with ai-dynamo 1.3.1")
    return _compare(given.python, given.n, given.seed)


if __name__ == "__main__":
    sys.exit(main())
