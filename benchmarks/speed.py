#!/usr/bin/env python3
"""Times whole replays: every run is a process of its own, started as a user starts it.

usage: speed.py [-n RUNS] [-k REGEX] [--python PYTHON] [--reference PYTHON] [--newest PYTHON] [--write FILE ...]
                [--scaling | --corners | --record | --gate]

Prints, for each workload, the median over RUNS of the simulation time (`wall_time_ms` of the report), of the time of
the whole process and of its peak memory. --reference names the Python of an environment with ai-dynamo 1.3.1; both are
then run in turn and the ratios are printed (higher is better for us).

--newest names that of an environment with ai-dynamo 1.6, whose function runs the same workloads (newest.py). Of it only
processor time is compared, of whole processes, as the ratio of the least of RUNS on either side.

--scaling shows instead, as the least of RUNS, how the cost of a unit of work changes as requests, workers, blocks,
queues, prompts and outputs grow. Quote ratios rather than seconds: machines differ.

--write puts what was measured into the tables of Markdown files, between their markers (tables.py). Ratios are those
of medians; what the reference was not run for is shown in seconds and megabytes.

--corners takes the kinds of runs that were slow once (corners.py) instead of the usual workloads. --record also
appends the ratios to benchmarks/history, --gate compares them with those recorded on a machine of the same kind and
fails if one has fallen by more than 15 %. Both need --reference, take the least of RUNS on either side, and processor
time instead of the time of whole processes: that hardly depends on what else the machine does. What seems to have
fallen is measured twice more before it counts.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import history
import tables
from corners import CORNERS, SWEEP

NEWEST = Path(__file__).resolve().with_name("newest.py")
TRACES = Path(__file__).resolve().parent.parent / "tests" / "conformance" / "traces"
CONVERSATION = "{conversation_trace}"
MOONCAKE = ["--trace-block-size", "512"]


SYNTHETIC = "{synthetic_trace}"
ROUTED = ["--router-mode", "kv_router"]


def engine(**arguments: int | str) -> list[str]:
    return ["--extra-engine-args", json.dumps(arguments)]


def synthetic(input_tokens: int, output_tokens: int, requests: int) -> list[str]:
    sizes = {"--input-tokens": input_tokens, "--output-tokens": output_tokens, "--request-count": requests}
    return [str(word) for pair in sizes.items() for word in pair]


WORKLOADS = {
    "readme-synthetic": [*synthetic(5000, 500, 1000), "--replay-concurrency", "100", *engine(block_size=512)],
    "synthetic-20k-requests": [*synthetic(2000, 300, 20000), "--arrival-interval-ms", "40", *engine(block_size=64)],
    "conversation-1w": [CONVERSATION, *MOONCAKE, *engine(block_size=64)],
    "conversation-4w-rr": [CONVERSATION, *MOONCAKE, "--num-workers", "4", *engine(block_size=64)],
    "conversation-4w-kv": [CONVERSATION, *MOONCAKE, "--num-workers", "4", *ROUTED, *engine(block_size=64)],
    "conversation-2w-sglang": [
        CONVERSATION,
        *MOONCAKE,
        "--num-workers",
        "2",
        *engine(engine_type="sglang", block_size=64),
    ],
    "conversation-64w-kv": [
        *[CONVERSATION, *MOONCAKE, "--num-workers", "64", *ROUTED, "--arrival-speedup-ratio", "16"],
        *engine(block_size=64),
    ],
    "synthetic-trace-2p2d": [
        *[SYNTHETIC, *MOONCAKE, *ROUTED, "--num-prefill-workers", "2", "--num-decode-workers", "2"],
        *[
            "--prefill-engine-args",
            json.dumps({"worker_type": "prefill", "block_size": 64, "kv_bytes_per_token": 131072}),
        ],
        *[
            "--decode-engine-args",
            json.dumps({"worker_type": "decode", "block_size": 64, "kv_bytes_per_token": 131072}),
        ],
    ],
    "start-up": [*synthetic(16, 2, 1), *engine(block_size=64)],
}


TITLES = {
    "readme-synthetic": "README workload, 1,000 requests",
    "synthetic-20k-requests": "20,000 synthetic requests",
    "conversation-1w": "12,031 Mooncake conversations, one worker",
    "conversation-4w-rr": "the same, four workers in turn",
    "conversation-4w-kv": "the same, four workers behind the KV-aware router",
    "conversation-2w-sglang": "the same, two SGLang workers",
    "conversation-64w-kv": "the same, 64 workers behind the router, 16 times the rate",
    "synthetic-trace-2p2d": "synthetic trace, two prefill and two decode workers",
    "start-up": "one tiny request",
}
"""What tables call the workloads."""

ONLY_STARTS = ["start-up"]
"""Workloads that simulate next to nothing: how long that takes says nothing."""


class Size(NamedTuple):
    """One run of a kind of work."""

    label: str
    work: int  # in units of its scale
    arguments: list[str]


class Scale(NamedTuple):
    """One way to grow: the same kind of work at several sizes, from small to large."""

    name: str
    unit: str
    sizes: list[Size]


def spread(requests: int, workers: int, interval_ms: float, *options: str) -> list[str]:
    """Requests of 2,000 + 200 tokens at equal distances."""
    arguments = [*synthetic(2000, 200, requests), "--arrival-interval-ms", str(interval_ms)]
    return [*arguments, "--num-workers", str(workers), *options, *engine(block_size=64)]


SCALES = [
    Scale(
        "requests, on 64 workers",
        "request",
        [Size(f"{n:,}", n, spread(n, 64, 0.6)) for n in (10_000, 100_000, 1_000_000, 10_000_000)],
    ),
    Scale(
        "requests, on 64 workers behind the KV-aware router",
        "request",
        [Size(f"{n:,}", n, spread(n, 64, 0.6, *ROUTED)) for n in (10_000, 100_000, 1_000_000)],
    ),
    Scale(
        "workers, 500 requests each",
        "request",
        [Size(f"{n:,}", 500 * n, spread(500 * n, n, 100 / n)) for n in (1, 8, 64, 256, 1024, 4096)],
    ),
    Scale(
        "workers behind the KV-aware router, 500 requests each",
        "request",
        [Size(f"{n:,}", 500 * n, spread(500 * n, n, 100 / n, *ROUTED)) for n in (2, 8, 64, 256, 1024, 4096)],
    ),
    Scale(
        "block size, 2,000 requests of 4,096 + 256 tokens",
        "block",
        [
            Size(
                f"{size}",
                2000 * (4096 + 256) // size,
                [
                    *synthetic(4096, 256, 2000),
                    "--replay-concurrency",
                    "32",
                    *engine(block_size=size, num_gpu_blocks=(1 << 20) // size),
                ],
            )
            for size in (512, 256, 64, 16, 8)
        ],
    ),
    Scale(
        "requests waiting at once, 128 + 64 tokens",
        "request",
        [
            Size(
                f"{n:,}",
                n,
                [*synthetic(128, 64, n), "--arrival-interval-ms", "0", *engine(block_size=64, max_num_seqs=256)],
            )
            for n in (1_000, 10_000, 100_000)
        ],
    ),
    Scale(
        "requests waiting in the router, 4 workers",
        "request",
        [
            Size(
                f"{n:,}",
                n,
                [
                    *synthetic(128, 64, n),
                    *["--arrival-interval-ms", "0", "--num-workers", "4", *ROUTED],
                    *["--router-config", json.dumps({"router_queue_threshold": 0.5})],
                    *engine(block_size=64, max_num_seqs=256),
                ],
            )
            for n in (1_000, 10_000, 100_000)
        ],
    ),
    Scale(
        "prompt tokens, 8 million in all",
        "1,000 tokens",
        [
            Size(
                f"{n:,}",
                8_000,
                [
                    *synthetic(n, 64, 8_000_000 // n),
                    "--replay-concurrency",
                    "2",
                    *engine(block_size=64, num_gpu_blocks=65536),
                ],
            )
            for n in (1_000, 10_000, 100_000, 1_000_000)
        ],
    ),
    Scale(
        "output tokens, 100 requests",
        "1,000 tokens",
        [Size(f"{n:,}", n // 10, [*synthetic(128, n, 100), *engine(block_size=64)]) for n in (100, 1_000, 10_000)],
    ),
]


class Sample(NamedTuple):
    simulation_s: float
    process_s: float
    peak_mb: float
    duration_ms: float
    cpu_s: float


def run_once(
    python: str, arguments: Sequence[str], folder: Path, program: Sequence[str] = ("-m", "dynamo.replay")
) -> Sample:
    report = folder / "report.json"
    program = [] if arguments[0] == SWEEP else program
    command = [python, *program, *arguments, "--report-json", str(report)]
    environment = {**os.environ, "DYN_LOG": "error"}  # the reference logs requests, which takes its time
    with (folder / "stderr.txt").open("w+") as messages:  # a pipe would be full at some time
        began = time.perf_counter()
        process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=messages, env=environment)
        _, status, usage = os.wait4(process.pid, 0)
        elapsed = time.perf_counter() - began
        if status:
            messages.seek(0)
            raise SystemExit(f"{' '.join(command)} failed: {messages.read()[-400:]}")
    metrics = json.loads(report.read_text())
    return Sample(
        metrics["wall_time_ms"] / 1000,
        elapsed,
        usage.ru_maxrss / 1024,
        metrics["duration_ms"],
        usage.ru_utime + usage.ru_stime,
    )


def median(samples: Sequence[Sample]) -> Sample:
    return Sample(*(statistics.median(column) for column in zip(*samples, strict=True)))


def unpack_traces(folder: Path) -> dict[str, str]:
    """The public traces as plain files, which the reference needs; their places in argument lists."""
    places = {}
    for packed in TRACES.glob("*.jsonl.gz"):
        plain = folder / packed.stem
        with gzip.open(packed) as source, plain.open("wb") as target:
            shutil.copyfileobj(source, target)
        places["{" + plain.stem + "}"] = str(plain)
    for rows in (400, 2500):
        beginning = folder / f"conversation_{rows}.jsonl"
        with Path(places[CONVERSATION]).open() as whole, beginning.open("w") as target:
            target.writelines(itertools.islice(whole, rows))
        places["{" + beginning.stem + "}"] = str(beginning)
    return places


class Comparison:
    """Runs of workloads, ours and the reference's in turn."""

    def __init__(self, options: argparse.Namespace, folder: Path) -> None:
        self.options, self.folder, self.places = options, folder, unpack_traces(folder)

    def measure(self, workload: str) -> tuple[list[Sample], list[Sample], list[Sample]]:
        """Our samples, and those of the two references, none without one or if it cannot do that."""
        template, comparable, _ = workloads(self.options)[workload]
        arguments = [self.places.get(word, word) for word in template]
        ours: list[Sample] = []
        theirs: list[Sample] = []
        newest: list[Sample] = []
        for _ in range(self.options.runs):
            ours.append(run_once(self.options.python, arguments, self.folder))
            if self.options.reference and comparable:
                theirs.append(run_once(self.options.reference, arguments, self.folder))
            if self.options.newest and comparable:
                newest.append(run_once(self.options.newest, arguments, self.folder, [str(NEWEST)]))
        return ours, theirs, newest

    def show(self) -> dict[str, dict[str, float]]:
        """Prints the table and returns the ratios of the least of all runs."""
        asked = {name: each for name, each in workloads(self.options).items() if re.search(self.options.only, name)}
        if not asked:
            raise SystemExit(
                f"-k (make: ONLY): got {self.options.only!r}, want a part of {', '.join(workloads(self.options))}"
            )
        print(f"{'workload':24} {'ours: simulation':>19} {'process':>10} {'memory':>9}", end="")
        print(f"   {'reference':>12} {'':>10} {'':>9}   ratios" if self.options.reference else "")
        ratios, rows = {}, {}
        with_newest = self.options.newest or not self.options.corners
        for name, (_, _, title) in asked.items():
            ours, theirs, newest = self.measure(name)
            line = f"{name:24} {shown(median(ours)):>40}"
            if theirs:
                m, n = median(theirs), median(ours)
                line += f"   {shown(m):>33}   " + " ".join(f"{m[i] / max(n[i], 1e-9):6.1f}x" for i in range(3))
                ratios[name] = least_ratios(name, ours, theirs)
            if newest:
                line += f"   newest {best(newest).cpu_s:8.2f} s, ours {best(ours).cpu_s:8.2f} s of processor time"
            print(line, flush=True)
            found = cells(median(ours), median(theirs) if theirs else None, simulates=name not in ONLY_STARTS)
            if newest and not theirs:
                found = (None, None, None)
            rows[title] = (*found, cpu_ratio(ours, newest)) if with_newest else found
        if self.options.write:
            titles = [title for _, _, title in workloads(self.options).values()]
            table = tables.Table(HEAD if with_newest else HEAD[:-1], titles, rows)
            write(self.options.write, "corners" if self.options.corners else "workloads", [table])
        return ratios


class Workload(NamedTuple):
    arguments: list[str]
    comparable: bool
    """Whether the reference can carry it out."""
    title: str


def workloads(options: argparse.Namespace) -> dict[str, Workload]:
    """Those that were asked for, by name."""
    usual = {name: Workload(arguments, True, TITLES[name]) for name, arguments in WORKLOADS.items()}
    corners = {name: Workload(corner.arguments, corner.comparable, corner.title) for name, corner in CORNERS.items()}
    if options.record or options.gate:
        return {**usual, **corners}
    return corners if options.corners else usual


def shown(sample: Sample) -> str:
    return f"{sample.simulation_s:10.4f} s {sample.process_s:8.2f} s {sample.peak_mb:6.0f} MB"


HEAD = ("workload", "simulation", "whole process", "memory", "1.6.1: processor time")


def cpu_ratio(ours: Sequence[Sample], newest: Sequence[Sample]) -> str | None:
    """The last cell of a row, None if nothing was measured."""
    return ratio(best(newest).cpu_s / max(best(ours).cpu_s, 1e-9)) if newest else None


def cells(ours: Sample, theirs: Sample | None, *, simulates: bool) -> tuple[str, ...]:
    """A row of a table, without its title."""
    simulation = ratio(theirs.simulation_s / max(ours.simulation_s, 1e-9)) if theirs else f"{ours.simulation_s:.1f} s"
    whole = ratio(theirs.process_s / ours.process_s) if theirs else f"{ours.process_s:.1f} s"
    memory = ratio(theirs.peak_mb / ours.peak_mb) if theirs else f"{ours.peak_mb:.0f} MB"
    return simulation if simulates else "", whole, memory


def ratio(times: float) -> str:
    return f"{times:.0f}x" if times >= 10 else f"{times:.1f}x"


def write(paths: Sequence[Path], name: str, measured: Sequence[tables.Table]) -> None:
    for path in paths:
        if tables.write(path, name, measured):
            print(f"written to {path}")


def least_ratios(name: str, ours: Sequence[Sample], theirs: Sequence[Sample]) -> dict[str, float]:
    """What the history holds of a workload: other programs only ever add to what a run takes."""
    mine, reference = best(ours), best(theirs)
    ratios = {"cpu": reference.cpu_s / max(mine.cpu_s, 1e-9), "memory": reference.peak_mb / mine.peak_mb}
    if name not in ONLY_STARTS:
        ratios["simulation"] = reference.simulation_s / max(mine.simulation_s, 1e-9)
    return ratios


def keep_history(comparison: Comparison) -> None:
    """Records the ratios, or compares them with those recorded. Exits with 1 if one has fallen."""
    options = comparison.options
    if not options.reference:
        raise SystemExit("give --reference, the Python of an environment with ai-dynamo 1.3.1 (make: REFERENCE=PYTHON)")
    machine = history.this_machine()
    path = history.file_of(machine)
    before = history.recorded(history.load(path))
    if options.gate and not before:
        raise SystemExit(f"nothing is recorded for {machine['cpu']}, {machine['cores']} cores: record a run first")
    now = comparison.show()
    if options.record:
        history.append(path, history.new_record(machine, now))
        print(f"recorded in {path.name}")
        return
    fallen = history.falls(before, now)
    for _ in range(2):
        for name in sorted({fall["workload"] for fall in fallen}):
            now = history.better(now, {name: least_ratios(name, *comparison.measure(name)[:2])})
        fallen = history.falls(before, now)
    for fall in fallen:
        print(f"{fall['workload']}: {fall['measure']} ratio {fall['now']:.1f}, recorded {fall['before']:.1f}")
    if fallen:
        raise SystemExit(1)
    print(f"no ratio has fallen by more than {history.TOLERANCE:.0%}")


def best(samples: Sequence[Sample]) -> Sample:
    """The least of every column: other processes only ever add."""
    return Sample(*(min(column) for column in zip(*samples, strict=True)))


def show_scaling(options: argparse.Namespace, folder: Path) -> None:
    written = []
    for scale in SCALES:
        head = (scale.name, "simulation", f"per {scale.unit}", "whole process", "memory")
        rows: dict[str, tuple[str, ...]] = {}
        if re.search(options.only, scale.name):
            print(f"\n| {' | '.join(head)} |\n|---|---|---|---|---|")
            for size in scale.sizes:
                sample = best([run_once(options.python, size.arguments, folder) for _ in range(options.runs)])
                rows[size.label] = (
                    f"{sample.simulation_s:.4f} s",
                    f"{sample.simulation_s / size.work * 1e6:.3f} us",
                    f"{sample.process_s:.2f} s",
                    f"{sample.peak_mb:.0f} MB",
                )
                print(f"| {' | '.join([size.label, *rows[size.label]])} |", flush=True)
        written.append(tables.Table(head, [size.label for size in scale.sizes], rows))
    write(options.write, "scaling", written)


def program(name: str) -> str:
    """The path of a command, as runs have working directories of their own."""
    return os.path.abspath(shutil.which(name) or name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", dest="runs", type=int, default=3)
    parser.add_argument("-k", dest="only", default="")
    parser.add_argument("--python", default=sys.executable, type=program)
    parser.add_argument("--reference", type=program)
    parser.add_argument("--newest", type=program)
    parser.add_argument("--write", nargs="+", default=[], type=Path)
    what = parser.add_mutually_exclusive_group()
    for flag in ("--scaling", "--corners", "--record", "--gate"):
        what.add_argument(flag, action="store_true")
    options = parser.parse_args()
    if options.write and (options.record or options.gate):
        parser.error("--write: a history is no table, want --corners, --scaling or neither")
    with tempfile.TemporaryDirectory() as folder:
        if options.scaling:
            show_scaling(options, Path(folder))
        elif options.record or options.gate:
            keep_history(Comparison(options, Path(folder)))
        else:
            Comparison(options, Path(folder)).show()


if __name__ == "__main__":
    main()
