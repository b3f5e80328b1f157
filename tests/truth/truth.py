#!/usr/bin/env python3
"""Compare our engine, scheduling by vLLM's own rules, with vLLM's own scheduler on random workloads.

usage: truth.py --python PYTHON --passes PROGRAM [-n CASES] [--seed N] [--mode sync|async|both]

PYTHON is an environment with vLLM (installation in the head of vllm_scheduler.py), PROGRAM is gocore/truth/passes as
built by go build. Both sides replay the same seeded random workloads; every request and every pass must agree. The
first difference is shrunk to as few rows as show it, and both lists of passes are printed. Exit status 0 if there is
none, 1 if there is.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

Case = dict[str, Any]

HERE = Path(__file__).parent
# One run of vLLM imports it first, which takes half a minute; so many cases share a run.
CASES_PER_RUN = 250
SAME = 1e-9


def draw(rng: random.Random, number: int, asynchronous: bool) -> Case:
    """A workload of one engine, most of them hard: shared prompts, bursts, and pools that hold few requests."""
    block = rng.choice([2, 4, 8, 16, 16, 32, 64])
    per_hash = block * rng.choice([1, 1, 1, 2, 4, 8])
    rows = _rows(rng, rng.choice([5, 10, 20, 40, 80]), per_hash, block)
    longest = max(row["input_length"] + row["output_length"] for row in rows)
    blocks = int(-(-longest // block) * rng.choice([1, 1.1, 1.5, 2, 4, 8, 30])) + rng.randrange(3)
    seqs = rng.choice([2, 4, 8, 16, 64, 256])
    engine = {
        "block_size": block,
        "num_gpu_blocks": blocks,
        "max_num_seqs": seqs,
        "max_num_batched_tokens": max(seqs, rng.choice([block, 5 * block, 48, 100, 256, 512, 2048, 8192])),
    }
    if rng.random() < 0.5:
        engine["speedup_ratio"] = rng.choice([0.5, 2, 5, 20])
    if rng.random() < 0.1:
        engine["decode_speedup_ratio"] = rng.choice([0.5, 3])
    if rng.random() < 0.15:
        engine["enable_prefix_caching"] = False
    if rng.random() < 0.1:
        engine["enable_chunked_prefill"] = False
        engine["max_num_batched_tokens"] = max(engine["max_num_batched_tokens"], longest)
    vllm: dict[str, Any] = {"async_scheduling": asynchronous}
    if rng.random() < 0.15:
        vllm["scheduler_reserve_full_isl"] = False
    if rng.random() < 0.15:
        vllm["watermark"] = rng.choice([0.01, 0.05, 0.2, 0.4])
    if rng.random() < 0.15 and engine.get("enable_chunked_prefill", True):
        vllm["long_prefill_token_threshold"] = rng.choice([1, block, 3 * block, 64])
    return {"id": f"random-{number}", "rows": rows, "trace_block_size": per_hash, "engine": engine, "vllm": vllm}


def _rows(rng: random.Random, count: int, per_hash: int, block: int) -> list[dict[str, Any]]:
    families = [[1000 * family + i for i in range(1, 40)] for family in range(rng.choice([1, 3, 10]))]
    gap = rng.choice([0, 5, 50, 300])
    longest = rng.choice([1, 3, 8, 30])
    most_output = rng.choice([1, 4, 20, 120])
    fresh, now, rows = 10**6, 0.0, []
    for _ in range(count):
        hashes = rng.randint(1, longest)
        shared = rng.randint(0, hashes) if rng.random() < 0.8 else 0
        ids = [*rng.choice(families)[:shared], *range(fresh, fresh + hashes - shared)]
        fresh += hashes
        length = hashes * per_hash
        if rng.random() < 0.6:
            length -= rng.randrange(per_hash)
        rows.append(
            {
                "timestamp": round(now, 3),
                "input_length": length,
                "output_length": rng.randint(1, most_output),
                "hash_ids": ids,
            }
        )
        if rng.random() < 0.7:
            now += rng.expovariate(1 / gap) if gap else 0
    return rows


class Sides:
    """Both programs that replay cases."""

    def __init__(self, python: str, passes: str, work: Path) -> None:
        self.python, self.passes, self.work = python, passes, work

    def replay(self, cases: Sequence[Case]) -> list[tuple[Case, Case, Case]]:
        """Every case with vLLM's result and ours."""
        path = self.work / "cases.jsonl"
        path.write_text("".join(json.dumps(case) + "\n" for case in cases))
        theirs = self._run([self.python, str(HERE / "vllm_scheduler.py"), str(path), "--passes", "100000"])
        ours = self._run([self.passes, "vllm-0.28", str(path)])
        return list(zip(cases, theirs, ours, strict=True))

    def _run(self, command: Sequence[str]) -> list[Case]:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        results = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        if not results:
            raise SystemExit(f"{command[0]} printed no result: {done.stderr[-2000:]}")
        return results


def difference(theirs: Case, ours: Case) -> str:
    """The first pass or request that differs, "" if none does. Cases that vLLM refuses do not count."""
    if "error" in theirs:
        return ""
    if "error" in ours:
        return f"ours failed: {ours['error']}"
    for number, (want, got) in enumerate(zip(theirs["passes"], ours["passes"], strict=False), 1):
        if not all(map(_same, want, got)):
            return f"pass {number}: vLLM {want}, ours {got}"
    if theirs["num_passes"] != ours["num_passes"]:
        return f"passes: vLLM {theirs['num_passes']}, ours {ours['num_passes']}"
    by_row = {request["row"]: request for request in ours["requests"]}
    for want in theirs["requests"]:
        got = by_row.get(want["row"])
        if got is None or not all(_same(want[key], got[key]) for key in ("admit", "first", "last", "tokens")):
            return f"request {want['row']}: vLLM {want}, ours {got}"
        # With preemptions ours is the largest of all admissions, vLLM's the first.
        if not theirs["preemptions"] and want["reused"] != got["reused"]:
            return f"request {want['row']}: vLLM reuses {want['reused']} tokens, ours {got['reused']}"
    return ""


def _same(a: float, b: float) -> bool:
    return abs(a - b) <= SAME * max(1.0, abs(a), abs(b))


def shrink(sides: Sides, case: Case) -> Case:
    """The case with as few rows as still differ, dropping one row at a time."""
    while True:
        smaller = [{**case, "rows": case["rows"][:i] + case["rows"][i + 1 :]} for i in range(len(case["rows"]))]
        smaller = [candidate for candidate in smaller if candidate["rows"]]
        different = [candidate for candidate, theirs, ours in sides.replay(smaller) if difference(theirs, ours)]
        if not different:
            return case
        case = different[0]


def report(sides: Sides, case: Case) -> None:
    ((_, theirs, ours),) = sides.replay([case])
    print(json.dumps(case))
    print(difference(theirs, ours))
    for name, side in (("vLLM", theirs), ("ours", ours)):
        print(f"{name}: start, end, prefills, isl, prefix, decodes, blocks, tokens, preempted")
        for number, row in enumerate(side.get("passes", []), 1):
            print(f"{number:4} {row}")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", required=True, help="interpreter of an environment with vLLM")
    parser.add_argument("--passes", required=True, help="our program, built from gocore/truth/passes")
    parser.add_argument("-n", type=int, default=2000, help="cases (default: 2000)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--mode", choices=["sync", "async", "both"], default="both")
    given = parser.parse_args(argv)
    rng = random.Random(given.seed)
    asynchronous = {"sync": (False,), "async": (True,), "both": (False, True)}[given.mode]
    cases = [draw(rng, number, asynchronous[number % len(asynchronous)]) for number in range(given.n)]
    refused = passes = 0
    with tempfile.TemporaryDirectory() as folder:
        sides = Sides(given.python, given.passes, Path(folder))
        for start in range(0, len(cases), CASES_PER_RUN):
            for case, theirs, ours in sides.replay(cases[start : start + CASES_PER_RUN]):
                refused += "error" in theirs
                passes += theirs.get("num_passes", 0)
                if difference(theirs, ours):
                    report(sides, shrink(sides, case))
                    return 1
            done = min(start + CASES_PER_RUN, len(cases))
            print(f"{done} cases, {refused} refused by vLLM, {passes} passes: no difference", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
