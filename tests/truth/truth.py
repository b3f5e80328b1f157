#!/usr/bin/env python3
"""Compare our engines, scheduling by the rules of vLLM or SGLang, with the schedulers of these on random workloads.

usage: truth.py --python PYTHON --passes PROGRAM [--engine ENGINE] [--kind KIND] [-n CASES]
                [--seed N] [--mode sync|async|both]

PYTHON is an environment with the engine (installation in the head of vllm_scheduler.py or sglang_scheduler.py),
PROGRAM is gocore/truth/passes as built by go build. ENGINE is vllm, handoff (vLLM's schedulers as prefill and decode
workers), ranks (the same as data-parallel ranks that run their passes together), sglang, sglang-ranks or
sglang-handoff. Both sides replay the same random workloads; every request and every pass must agree, of ranks every
request and its rank. The first difference is shrunk to as few rows as show it, and both lists of passes are printed.
Exit status 0 if there is none, 1 if there is.

The release of vLLM is that of PYTHON. KIND is one of those in workloads.py (of vLLM plain, groups, host or
hybrid-host, of handoff handoff or ranks, of SGLang plain, small, mixed, host or window); by default they take turns.
Mode async stands for vLLM's asynchronous and SGLang's overlap scheduling.

vLLM keeps the requests that end in one pass in a set. With host memory their order may decide something, so a case that
differs there is run with other hash seeds, too. If the engine then has our result, or several of its own, the case is
listed apart and is no difference.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from workloads import (
    HANDOFF_KINDS,
    RANKS_KINDS,
    SGLANG_HANDOFF_KINDS,
    SGLANG_KINDS,
    SGLANG_RANKS_KINDS,
    VLLM_KINDS,
    Case,
)

HERE = Path(__file__).parent
# A run of an engine imports it first, which takes up to half a minute; so many cases share a run.
CASES_PER_RUN = 250
SAME = 1e-9
# Seeds of Python's hashes with which vLLM runs again what differs; it has run with 0.
HASH_SEEDS = range(1, 8)


@dataclass(frozen=True)
class Engine:
    """An engine whose own scheduler is the judge."""

    name: str
    scheduler: str  # our engine argument
    driver: str
    kinds: Mapping[str, Callable[..., Case]]
    columns: str  # of a pass
    # What has to agree of a request, and what besides in a case without preemptions: otherwise ours is the largest of
    # all admissions, the engine's the first.
    keys: Sequence[str] = ("admit", "first", "last", "tokens")
    reused: Sequence[str] = ("reused",)
    totals: Sequence[str] = ("num_passes",)
    lists_alike: bool = True  # both sides list passes in one form
    by_worker: bool = False  # passes name their workers, and those of several that start together are in any order


ENGINES = [
    Engine("vLLM", "vllm", "vllm_scheduler.py", VLLM_KINDS, "decodes, blocks, tokens, preempted"),
    Engine(
        "handoff",
        "vllm",
        "vllm_handoff.py",
        HANDOFF_KINDS,
        "decodes, blocks, tokens, preempted",
        keys=[
            *("prefill_worker", "prefill_admit", "prefill_end", "decode_worker", "load_at", "transfer_end", "released"),
            *("admit", "first", "last", "tokens", "prefill_rank", "rank"),
        ],
        reused=["prefill_reused", "reused"],
        totals=["num_prefill_passes", "num_decode_passes", "prefill_peak", "decode_peak", "preemptions"],
    ),
    Engine(
        "ranks",
        "vllm",
        "vllm_ranks.py",
        RANKS_KINDS,
        "decodes, blocks, tokens, preempted",
        keys=["admit", "first", "last", "tokens", "rank"],
        totals=["preemptions"],
        lists_alike=False,
    ),
    Engine("SGLang", "sglang-0.5", "sglang_scheduler.py", SGLANG_KINDS, "decodes, context, tokens in use, retracted"),
    Engine(
        "SGLang-ranks",
        "sglang-0.5",
        "sglang_ranks.py",
        SGLANG_RANKS_KINDS,
        "decodes, context, tokens in use, retracted",
        keys=["admit", "first", "last", "tokens", "rank"],
        totals=["preemptions"],
        lists_alike=False,
    ),
    Engine(
        "SGLang-handoff",
        "sglang-0.5",
        "sglang_handoff.py",
        SGLANG_HANDOFF_KINDS,
        "decodes, context, tokens in use, retracted",
        keys=[
            *("prefill_worker", "decode_worker", "allocated", "prefill_admit", "prefill_end", "transfer_end"),
            *("released", "first", "last", "tokens"),
        ],
        reused=["prefill_reused"],
        totals=["num_prefill_passes", "num_decode_passes", "preemptions"],
        by_worker=True,
    ),
]


def release_of(engine: Engine, python: str) -> str:
    """Our name for the rules of the engine that an interpreter has."""
    if engine.scheduler != "vllm":
        return engine.scheduler
    version = "import importlib.util, pathlib, re; p = pathlib.Path(importlib.util.find_spec('vllm').origin).parent; "
    version += "print(re.search(r'[0-9]+[.][0-9]+', (p / '_version.py').read_text().split('version = ')[-1])[0])"
    done = subprocess.run([python, "-c", version], capture_output=True, text=True, check=True)
    return f"vllm-{done.stdout.strip()}"


@dataclass
class Outcome:
    """What both sides made of a case: the engine with one hash seed or with several, and ours."""

    engine: Engine
    case: Case
    runs: list[Case]
    ours: Case
    differs: str = field(init=False)

    def __post_init__(self) -> None:
        self.differs = difference(self.engine, self.runs[0], self.ours)

    @property
    def has_sets(self) -> bool:
        """Whether the order of a set in the engine may decide something."""
        return self.engine.scheduler == "vllm" and "host_cache" in self.case.get("engine", {})

    @property
    def depends(self) -> bool:
        """Whether it is the order of a set that makes the difference: with some seed the engine has our result, or
        its results are not the same with all seeds."""
        return bool(self.differs) and any(
            run != self.runs[0] or not difference(self.engine, run, self.ours) for run in self.runs
        )


class Sides:
    """Both programs that replay cases."""

    def __init__(self, engine: Engine, release: str, python: str, passes: str, work: Path) -> None:
        self.engine, self.release, self.python, self.passes, self.work = engine, release, python, passes, work

    def replay(self, cases: Sequence[Case]) -> list[Outcome]:
        theirs, ours = self._engine(cases), self._run([self.passes, self.release, self._write(cases)])
        outcomes = [
            Outcome(self.engine, *results) for results in zip(cases, [[run] for run in theirs], ours, strict=True)
        ]
        again = [outcome for outcome in outcomes if outcome.differs and outcome.has_sets]
        for seed in HASH_SEEDS if again else ():
            runs = self._engine([outcome.case for outcome in again], "--hash-seed", str(seed))
            for outcome, run in zip(again, runs, strict=True):
                outcome.runs.append(run)
        return outcomes

    def _engine(self, cases: Sequence[Case], *options: str) -> list[Case]:
        driver = [self.python, str(HERE / self.engine.driver), self._write(cases), "--passes", "1000000"]
        return self._run([*driver, *options])

    def _write(self, cases: Sequence[Case]) -> str:
        path = self.work / "cases.jsonl"
        path.write_text("".join(json.dumps(case) + "\n" for case in cases))
        return str(path)

    def _run(self, command: Sequence[str]) -> list[Case]:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        results = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        if not results:
            raise SystemExit(f"{command[0]} printed no result: {done.stderr[-2000:]}")
        return results


def difference(engine: Engine, theirs: Case, ours: Case) -> str:
    """The first pass or request that differs, "" if none does. Cases that the engine refuses do not count."""
    if "error" in theirs:
        return ""
    if "error" in ours:
        return f"ours failed: {ours['error']}"
    if engine.by_worker:
        theirs, ours = ({**side, "passes": sorted(side["passes"], key=lambda row: row[0])} for side in (theirs, ours))
    passes = zip(theirs["passes"], ours["passes"], strict=False) if engine.lists_alike else ()
    for number, (want, got) in enumerate(passes, 1):
        if not all(map(same, want, got)):
            return f"pass {number}: the engine {want}, ours {got}"
    for total in engine.totals:
        if theirs[total] != ours[total]:
            return f"{total}: the engine {theirs[total]}, ours {ours[total]}"
    by_row = {request["row"]: request for request in ours["requests"]}
    for want in theirs["requests"]:
        got = by_row.get(want["row"])
        if got is None or not all(same(want[key], got[key]) for key in engine.keys):
            return f"request {want['row']}: the engine {want}, ours {got}"
        for key in engine.reused:
            if not theirs["preemptions"] and want[key] != got[key]:
                return f"request {want['row']}: {key} of the engine is {want[key]}, ours {got[key]}"
    return ""


def same(a: float | str, b: float | str) -> bool:
    if isinstance(a, str) or isinstance(b, str):
        return a == b
    return abs(a - b) <= SAME * max(1.0, abs(a), abs(b))


def shrink(sides: Sides, case: Case) -> Case:
    """The case with as few rows as still differ: of all that lack a half, a quarter and so on, down to one row, the
    smallest that differs, again and again."""
    while True:
        smaller = [{**case, "rows": rows} for rows in _fewer(case["rows"])]
        if not smaller:
            return case
        different = [found.case for found in sides.replay(smaller) if found.differs and not found.depends]
        if not different:
            return case
        case = min(different, key=lambda candidate: len(candidate["rows"]))


def _fewer(rows: list[Case]) -> Iterator[list[Case]]:
    size = (len(rows) + 1) // 2
    while size > 0 and len(rows) > 1:
        for start in range(0, len(rows), size):
            if len(rows) > size:
                yield rows[:start] + rows[start + size :]
        size //= 2


def report(sides: Sides, case: Case) -> None:
    (found,) = sides.replay([case])
    print(json.dumps(case))
    print(found.differs)
    for name, side in ((sides.engine.name, found.runs[0]), ("ours", found.ours)):
        print(f"{name}: start, end, prefills, isl, prefix, {sides.engine.columns}")
        for number, row in enumerate(side.get("passes", []), 1):
            print(f"{number:4} {row}")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", required=True, help="interpreter of an environment with the engine")
    parser.add_argument("--passes", required=True, help="our program, built from gocore/truth/passes")
    parser.add_argument("--engine", choices=[engine.name.lower() for engine in ENGINES], default="vllm")
    parser.add_argument("--kind", help="one kind of workloads (default: all in turn)")
    parser.add_argument("-n", type=int, default=2000, help="cases (default: 2000)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--mode", choices=["sync", "async", "both"], default="both")
    given = parser.parse_args(argv)
    engine = next(engine for engine in ENGINES if engine.name.lower() == given.engine)
    release = release_of(engine, given.python)
    rng = random.Random(given.seed)
    asynchronous = {"sync": (False,), "async": (True,), "both": (False, True)}[given.mode]
    kinds = list(engine.kinds.values()) if given.kind is None else [engine.kinds.get(given.kind)]
    if kinds[0] is None:
        parser.error(f"--kind {given.kind}: {engine.name} has {', '.join(engine.kinds)}")
    if engine.scheduler == "vllm":
        kinds = [partial(draw, release=release) for draw in kinds]
    cases = []
    for number in range(given.n):
        turn, mode = divmod(number, len(asynchronous))
        cases.append(kinds[turn % len(kinds)](rng, number, asynchronous[mode]))
    refused = passes = 0
    depend: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        sides = Sides(engine, release, given.python, given.passes, Path(folder))
        for start in range(0, len(cases), CASES_PER_RUN):
            for found in sides.replay(cases[start : start + CASES_PER_RUN]):
                theirs = found.runs[0]
                refused += "error" in theirs
                passes += sum(value for key, value in theirs.items() if key.endswith("_passes"))
                if found.depends:
                    depend.append(found.case["id"])
                elif found.differs:
                    report(sides, shrink(sides, found.case))
                    return 1
            done = min(start + CASES_PER_RUN, len(cases))
            print(f"{done} cases, {refused} refused by {release}, {passes} passes: no difference", flush=True)
    if depend:
        print(f"{len(depend)} of them depend on the order of a set: {', '.join(depend)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
