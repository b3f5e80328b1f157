#!/usr/bin/env python3
"""Say in few lines what SGLang's decode workers do, and compare it with what they did.

usage: sglang_handoff_rules.py RESULTS...
       sglang_handoff_rules.py --draw N --python PYTHON [--seed N]

RESULTS are cases together with what sglang_handoff.py recorded of them (JSON Lines, plain or .gz). With --draw, N
random workloads are run by SGLang's own schedulers, in an environment that has them (PYTHON, see sglang_scheduler.py),
half of them with overlapping batches. A decode worker gets from the case when requests arrive, and when their KV has
come; when their pages are taken, every batch, and every token have to agree. Exit status 1 at the first difference.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sglang_scheduler import ENGINE, decode_ms
from truth import same
from workloads import SGLANG_HANDOFF_KINDS, Case

CASES_PER_RUN = 250  # SGLang's driver imports it first
MOST_OUTPUT = 4096  # that a request is expected to have, whatever clip_max_new_tokens is


@dataclass(eq=False)
class Request:
    """A request on a decode worker."""

    row: int
    arrival: float
    loaded: float  # when its KV has come
    prompt: int
    output: int
    tokens: int = 0  # delivered; the first one comes with the KV
    begun: int = 0  # delivered or in flight
    pages: int = 0
    lost_in: int = -1  # the batch that was in flight when it was retracted
    retractions: int = 0
    allocated: float | None = None
    first: float | None = None
    last: float | None = None


@dataclass
class Batch:
    """A decode."""

    number: int
    members: list[Request]
    end: float


@dataclass
class Worker:
    """A decode worker: what it has, and in which order it looks at it."""

    engine: dict[str, Any]
    reserved: int  # tokens, for each request
    overlap: bool
    name: str
    every: list[Request]  # in order of arrival
    coming: list[Request] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)  # that hold pages
    queue: list[Request] = field(default_factory=list)  # without pages, in order of arrival
    loading: list[Request] = field(default_factory=list)
    retracted: list[Request] = field(default_factory=list)
    waiting: list[Request] = field(default_factory=list)  # with KV, for a seat
    running: list[Request] = field(default_factory=list)  # those that ended in the last batch included
    passes: list[list[Any]] = field(default_factory=list)
    now: float = 0.0
    free_at: float = 0.0  # when the batch launched last ends

    def __post_init__(self) -> None:
        self.coming = list(self.every)
        self.page, self.seats = self.engine["block_size"], self.engine["max_num_seqs"]
        self.pool = self.free = self.engine["num_gpu_blocks"] * self.page
        self.rows = self.seats + (2 * self.seats if self.seats <= 32 else 0)
        self.entries = 2 * self.seats  # for metadata of requests that load

    def ceil(self, tokens: int) -> int:
        return -(-tokens // self.page) * self.page

    def run(self) -> None:
        flying: Batch | None = None
        seen: tuple[Any, ...] = ()
        while True:
            while self.coming and self.coming[0].arrival <= self.now:
                self.queue.append(self.coming.pop(0))
            self.resume()
            if not self.retracted:  # as long as there is one, nothing else happens to those that do not run
                self.allocate()
                self.receive()
            self.join()
            batch = self.compose()
            due, flying = (flying, batch) if self.overlap else (batch, None)
            if due:
                self.deliver(due)
            elif not batch:
                lists = (self.queue, self.loading, self.retracted, self.waiting, self.running)
                now = (self.now, self.free, *map(len, lists))
                times = [r.arrival for r in self.coming[:1]] + [r.loaded for r in self.loading if r.loaded > self.now]
                if now == seen:  # otherwise it looks again at once
                    if not times:
                        return
                    self.now = min(times)
                seen = now

    def set_aside(self) -> int:
        """Tokens that are kept for those that have pages."""
        return self.reserved * (len(self.running) + len(self.loading) + len(self.waiting))

    def take(self, request: Request, tokens: int) -> None:
        request.pages += self.ceil(tokens)
        self.free -= self.ceil(tokens)
        if request not in self.requests:
            self.requests.append(request)

    def give_back(self, request: Request) -> None:
        self.free += request.pages
        request.pages = 0
        self.requests.remove(request)

    def resume(self) -> None:
        """Retracted requests come back in order, with all KV that they had."""
        while self.retracted and len(self.requests) < self.rows:
            request = self.retracted[0]
            had = request.prompt + request.tokens - 1
            if self.ceil(had) + self.reserved > self.free - self.set_aside():
                return
            self.take(request, had)
            self.waiting.append(self.retracted.pop(0))

    def allocate(self) -> None:
        """Requests get the pages of their prompts in order of arrival, which tells the prefill worker to begin."""
        while self.queue and len(self.requests) < self.rows and len(self.loading) < self.entries:
            request = self.queue[0]
            retractable = sum(r.prompt + r.tokens for r in self.running)
            longest = max((self.whole(r) for r in self.running), default=retractable) - retractable
            need = max(self.ceil(request.prompt) + self.reserved, self.whole(request) - retractable)
            if need > self.free - max(self.set_aside(), longest):
                return
            self.take(request, request.prompt)
            request.allocated = self.now
            self.loading.append(self.queue.pop(0))

    def whole(self, request: Request) -> int:
        return request.prompt + min(request.output, MOST_OUTPUT)

    def receive(self) -> None:
        self.waiting += [r for r in self.loading if r.loaded <= self.now]
        self.loading = [r for r in self.loading if r.loaded > self.now]

    def join(self) -> None:
        """As many as there are seats join the running batch. Those that ended in the last batch still have theirs."""
        seats = self.seats - len(self.running)
        self.running = [r for r in self.running if r.last is None]
        joining = self.waiting[: max(seats, 0)]
        del self.waiting[: len(joining)]
        for request in joining:
            if request.first is None:
                request.first, request.tokens = self.now, 1
            request.begun, request.lost_in = request.tokens, -1
            if request.tokens == request.output:
                self.end(request)
            else:
                self.running.append(request)

    def end(self, request: Request) -> None:
        request.last = self.now
        self.give_back(request)

    def short(self, requests: list[Request]) -> bool:
        return self.page * sum(map(self.opens, requests)) > self.free

    def opens(self, request: Request) -> bool:
        """Reports whether the next token takes a new page."""
        return (request.prompt + request.begun - 1) % self.page == 0

    def compose(self) -> Batch | None:
        """One token for each running request, also for one whose last token is in flight."""
        lost = self.retract() if self.short(self.running) else 0
        going = self.running
        if not going:
            return None
        for request in going:
            if self.opens(request):
                self.take(request, self.page)
        context = sum(r.prompt + r.begun for r in going)
        ratio = self.engine["speedup_ratio"] * self.engine["decode_speedup_ratio"]
        start = max(self.now, self.free_at)
        self.free_at = start + decode_ms(len(going), context, self.pool, ratio)
        for request in going:
            request.begun += 1
        self.passes.append([self.name, start, self.free_at, 0, 0, 0, len(going), context, self.pool - self.free, lost])
        return Batch(len(self.passes), self.running[:], self.free_at)

    def retract(self) -> int:
        """Takes the pages of requests, fewest tokens first, then the longest prompt, then the last one."""
        self.running.sort(key=lambda r: (-r.tokens, r.prompt))
        lost = 0
        while len(self.running) > 1 and (not lost or self.short(self.running)):
            request = self.running.pop()
            self.give_back(request)
            request.retractions += 1
            request.lost_in = len(self.passes)
            self.retracted.append(request)
            lost += 1
        return lost

    def deliver(self, batch: Batch) -> None:
        self.now = max(self.now, batch.end)
        for request in batch.members:
            if request.lost_in != batch.number and request.last is None:  # lost: it makes the token again
                request.tokens += 1
                if request.tokens == request.output:
                    self.end(request)


def follow(case: Case, number: int) -> Worker:
    """What decode worker `number` of a case does by these rules."""
    requests = [
        Request(
            row["row"],
            row["arrival"],
            row["transfer_end"],
            case["rows"][row["row"]]["input_length"],
            case["rows"][row["row"]]["output_length"],
        )
        for row in case["requests"]
        if row["decode_worker"] == number
    ]
    requests.sort(key=lambda r: r.arrival)
    engine = {**ENGINE, **case["decode_engine"]}
    overlap = case["sglang"].get("overlap", False)
    worker = Worker(engine, case["reserved_decode_tokens"], overlap, f"d{number}", requests)
    worker.run()
    return worker


def difference(case: Case) -> str:
    """The first batch or request in which a decode worker did something else, "" if there is none."""
    batches = 0
    for number in range(case["num_decode_workers"]):
        worker = follow(case, number)
        batches += len(worker.passes)
        theirs = [batch for batch in case["passes"] if batch[0] == worker.name]
        for want, got in zip(theirs, worker.passes, strict=False):
            if not all(map(same, want, got)):
                return f"batch: SGLang {want}, the rules {got}"
        by_row = {row["row"]: row for row in case["requests"]}
        for request in worker.every:
            want = by_row[request.row]
            pairs = [
                (want["allocated"], request.allocated),
                (want["first"], request.first),
                (want["last"], request.last),
                (want["preemptions"], request.retractions),
            ]
            if not all(a is not None and b is not None and same(a, b) for a, b in pairs):
                return f"request {request.row}: SGLang and the rules {pairs}"
    if batches != case["num_decode_passes"]:
        return f"SGLang has {case['num_decode_passes']} batches, the rules {batches}"
    return ""


def read(path: Path) -> list[Case]:
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as lines:
        return [json.loads(line) for line in lines]


def draw(count: int, seed: int, python: str) -> Iterator[Case]:
    """Random workloads with what SGLang did, those that it refuses left out."""
    rng = random.Random(seed)
    (make,) = SGLANG_HANDOFF_KINDS.values()
    cases = [make(rng, number, number % 2 == 1) for number in range(count)]
    driver = [python, str(Path(__file__).with_name("sglang_handoff.py")), "--passes", "1000000"]
    for start in range(0, count, CASES_PER_RUN):
        part = cases[start : start + CASES_PER_RUN]
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
            file.write("".join(json.dumps(case) + "\n" for case in part))
            file.flush()
            done = subprocess.run([*driver, file.name], stdout=subprocess.PIPE, text=True, check=False)
        results = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        if len(results) < len(part):
            raise SystemExit(f"{python} recorded {len(results)} of {len(part)} cases")
        yield from ({**case, **result} for case, result in zip(part, results, strict=True) if "error" not in result)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="*", type=Path)
    parser.add_argument("--draw", type=int, default=0, metavar="N")
    parser.add_argument("--python", help="interpreter of an environment with SGLang")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(argv)
    if bool(given.results) == (given.draw > 0) or (given.draw > 0) != bool(given.python):
        parser.error("give RESULTS, or --draw N and --python PYTHON")
    cases = (case for path in given.results for case in read(path))
    if given.draw:
        cases = draw(given.draw, given.seed, given.python)
    count = batches = retractions = 0
    for case in cases:
        if found := difference(case):
            print(json.dumps(case))
            print(f"{case['id']}: {found}")
            return 1
        count, batches = count + 1, batches + case["num_decode_passes"]
        retractions += case["preemptions"]
    print(f"{count} cases, {batches} batches of decode workers, {retractions} retractions: no difference")
    return 0


if __name__ == "__main__":
    sys.exit(main())
