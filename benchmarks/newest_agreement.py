#!/usr/bin/env python3
"""Compares ai-dynamo 1.6 with our two sets of rules on small workloads.

usage: newest_agreement.py --newest PYTHON [-k REGEX] [--write FILE]

PYTHON is that of an environment with ai-dynamo 1.6. Prints two Markdown tables, of vLLM and of SGLang: the means of
1.6, and by how much ours lie above (+) or below (-) them. --write puts them into a file, between its markers
(tables.py). The workloads have arrivals and lengths of their own, and workers in turn, so that nothing is drawn on
either side.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tables

from dynamo.replay import run_synthetic_trace_replay, run_trace_replay

CONVERSATION = Path(__file__).resolve().parent.parent / "examples" / "traces" / "conversation_400.jsonl.gz"
RUNNER = Path(__file__).resolve().with_name("newest.py")
ENGINES = {"vllm": "vLLM", "sglang": "SGLang"}
OWN: dict[str, dict[str, Any]] = {
    "vllm": {"scheduler": "vllm", "async_scheduling": False},
    "sglang": {"scheduler": "sglang", "sglang": {"overlap_schedule": False}},
}
"""The engines' own rules. Those of ai-dynamo compose no pass while another one runs, so these do not, either."""


def requests(input_tokens: int, output_tokens: int, count: int, **options: Any) -> dict[str, Any]:
    """A synthetic workload."""
    return {"input_tokens": input_tokens, "output_tokens": output_tokens, "request_count": count, **options}


WORKLOADS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "one request of 256 tokens": (requests(256, 20, 1), {}),
    "200 requests, one every 40 ms": (requests(500, 50, 200, arrival_interval_ms=40), {}),
    "200 requests, 16 at a time": (requests(1000, 100, 200, replay_concurrency=16), {}),
    "10 prompts of 20,000 tokens": (requests(20_000, 10, 10, arrival_interval_ms=100), {}),
    "shared prefixes, two workers": (
        requests(800, 40, 200, arrival_interval_ms=20, shared_prefix_ratio=0.5, num_prefix_groups=1, num_workers=2),
        {},
    ),
    "a pool of 300 blocks": (requests(600, 200, 40, arrival_interval_ms=50), {"num_gpu_blocks": 300}),
    "conversation_400, four workers": ({"trace": str(CONVERSATION), "trace_block_size": 512, "num_workers": 4}, {}),
}
"""The options of each run, and its engine arguments besides those of all."""

COMMON = {"block_size": 16, "num_gpu_blocks": 16384, "max_num_seqs": 256, "max_num_batched_tokens": 8192}
MEANS = {"mean_ttft_ms": "TTFT", "mean_tpot_ms": "TPOT"}
REUSE = "first_admission_prefix_cache_reused_ratio"


def of_newest(python: str, run: Mapping[str, Any], arguments: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The report of ai-dynamo 1.6."""
    options = dict(run)
    words = []
    if "trace" in options:
        plain = folder / "trace.jsonl"
        plain.write_bytes(gzip.decompress(Path(options.pop("trace")).read_bytes()))
        words.append(str(plain))
    options.update(extra_engine_args=json.dumps(arguments), report_json=folder / "report.json")
    for name, value in options.items():
        words += ["--" + name.replace("_", "-"), str(value)]
    environment = {**os.environ, "DYN_LOG": "error"}
    ended = subprocess.run([python, str(RUNNER), *words], env=environment, capture_output=True, text=True)
    if ended.returncode:
        raise SystemExit(f"{' '.join(words)} failed: {ended.stderr[-400:]}")
    report: dict[str, Any] = json.loads((folder / "report.json").read_text())
    return report


def of_ours(run: Mapping[str, Any], arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """Our report."""
    options = {"extra_engine_args": dict(arguments), **run}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if "trace" in options:
            return run_trace_replay(options.pop("trace"), **options)
        sizes = [options.pop(name) for name in ("input_tokens", "output_tokens", "request_count")]
        return run_synthetic_trace_replay(*sizes, **options)


def above(ours: float, theirs: float) -> str:
    """By how much ours is above theirs; "equal" to five digits."""
    if math.isclose(ours, theirs, rel_tol=1e-5):
        return "equal"
    return f"{(ours / theirs - 1) * 100:+.2g} %"


def compare(python: str, engine: str, name: str, folder: Path) -> tuple[str, ...]:
    """A row of the table of an engine, without its name."""
    run, more = WORKLOADS[name]
    arguments = {"engine_type": engine, **COMMON, **more}
    theirs = of_newest(python, run, arguments, folder)
    cells = [", ".join(f"{theirs[key]:.2f}" for key in MEANS), f"{theirs[REUSE]:.3f}"]
    for rules in ({}, OWN[engine]):
        ours = of_ours(run, {**arguments, **rules})
        cells += [", ".join(above(ours[key], theirs[key]) for key in MEANS), f"{ours[REUSE]:.3f}"]
    return tuple(cells)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--newest", required=True)
    parser.add_argument("-k", dest="only", default="")
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    asked = [name for name in WORKLOADS if re.search(options.only, name)]
    if not asked:
        raise SystemExit(f"-k: got {options.only!r}, want a part of {', '.join(WORKLOADS)}")
    measured = []
    with tempfile.TemporaryDirectory() as folder:
        for engine, title in ENGINES.items():
            rows = {name: compare(options.newest, engine, name, Path(folder)) for name in asked}
            head = (
                f"{title}: mean TTFT, TPOT",
                *("1.6.1, ms", "reuse", "our default rules", "reuse", f'our `"{engine}"`, synchronous', "reuse"),
            )
            measured.append(tables.Table(head, list(WORKLOADS), rows))
            for line in (head, *((name, *cells) for name, cells in rows.items())):
                print("| " + " | ".join(line) + " |", flush=True)
    if options.write and not tables.write(options.write, "newest", measured):
        sys.exit(f"{options.write} has no place for the table")


if __name__ == "__main__":
    main()
