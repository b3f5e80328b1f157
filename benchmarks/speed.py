#!/usr/bin/env python3
"""Times whole replays: every run is a process of its own, started as a user starts it.

usage: speed.py [-n RUNS] [-k REGEX] [--python PYTHON] [--reference PYTHON] [--scaling]

Prints, for each workload, the median over RUNS of the simulation time (`wall_time_ms` of the report), of the time of
the whole process and of its peak memory. --reference names the Python of an environment with ai-dynamo 1.3.1; both are
then run in turn and the ratios are printed (higher is better for us). --scaling shows instead how the cost grows with
the number of requests, output tokens, blocks and waiting requests. Quote ratios rather than seconds: machines differ.
"""

from __future__ import annotations

import argparse
import gzip
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

TRACES = Path(__file__).resolve().parent.parent / "tests" / "conformance" / "traces"
CONVERSATION = "{conversation_trace}"
MOONCAKE = ["--trace-block-size", "512"]


def engine(**arguments: int) -> list[str]:
    return ["--extra-engine-args", json.dumps(arguments)]


def synthetic(input_tokens: int, output_tokens: int, requests: int) -> list[str]:
    sizes = {"--input-tokens": input_tokens, "--output-tokens": output_tokens, "--request-count": requests}
    return [str(word) for pair in sizes.items() for word in pair]


WORKLOADS = {
    "readme-synthetic": [*synthetic(5000, 500, 1000), "--replay-concurrency", "100", *engine(block_size=512)],
    "synthetic-20k-requests": [*synthetic(2000, 300, 20000), "--arrival-interval-ms", "40", *engine(block_size=64)],
    "conversation-1w": [CONVERSATION, *MOONCAKE, *engine(block_size=64)],
    "conversation-4w-rr": [CONVERSATION, *MOONCAKE, "--num-workers", "4", *engine(block_size=64)],
    "start-up": [*synthetic(16, 2, 1), *engine(block_size=64)],
}


class Scale(NamedTuple):
    """One way to grow: the same kind of work at several sizes."""

    unit: str
    amounts: Sequence[int]
    arguments: dict[int, list[str]]


def scale(unit: str, arguments: dict[int, list[str]]) -> Scale:
    return Scale(unit, tuple(arguments), arguments)


SCALES = [
    scale(
        "requests (2000 + 200 tokens, 4 workers)",
        {
            n: [*synthetic(2000, 200, n), "--arrival-interval-ms", "10", "--num-workers", "4", *engine(block_size=64)]
            for n in (1_000, 10_000, 100_000)
        },
    ),
    scale(
        "output tokens (100 requests)",
        {100 * out: [*synthetic(128, out, 100), *engine(block_size=64)] for out in (100, 1_000, 10_000)},
    ),
    scale(
        "prompt blocks (500 requests, block size 512, 64, 8)",
        {
            500 * 4096 // size: [
                *synthetic(4096, 64, 500),
                "--replay-concurrency",
                "32",
                *engine(block_size=size, num_gpu_blocks=(1 << 20) // size),
            ]
            for size in (512, 64, 8)
        },
    ),
    scale(
        "requests that arrive at once (128 + 64 tokens)",
        {n: [*synthetic(128, 64, n), "--arrival-interval-ms", "0"] for n in (1_000, 10_000, 100_000)},
    ),
]


class Sample(NamedTuple):
    simulation_s: float
    process_s: float
    peak_mb: float
    duration_ms: float


def run_once(python: str, arguments: Sequence[str], folder: Path) -> Sample:
    report = folder / "report.json"
    command = [python, "-m", "dynamo.replay", *arguments, "--report-json", str(report)]
    began = time.perf_counter()
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert process.stderr is not None
    _, status, usage = os.wait4(process.pid, 0)
    elapsed = time.perf_counter() - began
    if status:
        raise SystemExit(f"{' '.join(command)} failed: {process.stderr.read().decode()[-400:]}")
    process.stderr.close()
    metrics = json.loads(report.read_text())
    return Sample(metrics["wall_time_ms"] / 1000, elapsed, usage.ru_maxrss / 1024, metrics["duration_ms"])


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
    return places


def compare(options: argparse.Namespace, folder: Path) -> None:
    places = unpack_traces(folder)
    pythons = [options.python, *([options.reference] if options.reference else [])]
    print(f"{'workload':24} {'simulation':>12} {'process':>10} {'memory':>9}   ratios of the reference to ours")
    for name, template in WORKLOADS.items():
        if not re.search(options.only, name):
            continue
        arguments = [places.get(word, word) for word in template]
        samples: list[list[Sample]] = [[] for _ in pythons]
        for _ in range(options.runs):
            for python, mine in zip(pythons, samples, strict=True):
                mine.append(run_once(python, arguments, folder))
        ours = median(samples[0])
        line = f"{name:24} {ours.simulation_s:10.4f} s {ours.process_s:8.2f} s {ours.peak_mb:6.0f} MB"
        if options.reference:
            theirs = median(samples[1])
            ratios = [theirs[i] / max(ours[i], 1e-9) for i in range(3)]
            line += f"   {ratios[0]:6.1f}x {ratios[1]:6.1f}x {ratios[2]:6.1f}x"
        print(line, flush=True)


def show_scaling(options: argparse.Namespace, folder: Path) -> None:
    for kind in SCALES:
        print(f"{kind.unit}\n{'amount':>12} {'simulation':>12} {'process':>10} {'memory':>9} {'per unit':>12}")
        for amount in kind.amounts:
            sample = median([run_once(options.python, kind.arguments[amount], folder) for _ in range(options.runs)])
            print(
                f"{amount:12,} {sample.simulation_s:10.4f} s {sample.process_s:8.2f} s {sample.peak_mb:6.0f} MB"
                f" {sample.simulation_s / amount * 1e6:9.3f} us",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", dest="runs", type=int, default=3)
    parser.add_argument("-k", dest="only", default="")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--reference")
    parser.add_argument("--scaling", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        (show_scaling if options.scaling else compare)(options, Path(folder))


if __name__ == "__main__":
    main()
