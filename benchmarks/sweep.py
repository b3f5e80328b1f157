#!/usr/bin/env python3
"""Runs one trace again and again in this process, each time with another deployment.

usage: sweep.py TRACE RUNS --report-json FILE

The trace is loaded once where the package has ``load_trace``. FILE gets ``wall_time_ms``, of all runs together, and
``duration_ms``, the sum of what they simulated.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

from dynamo import replay


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace")
    parser.add_argument("runs", type=int)
    parser.add_argument("--report-json", type=Path, required=True)
    options = parser.parse_args()
    began = time.perf_counter()
    load_trace = getattr(replay, "load_trace", None)
    trace = load_trace(options.trace) if load_trace else options.trace
    simulated_ms = 0.0
    for run in range(options.runs):
        report = replay.run_trace_replay(trace, num_workers=1 + run % 8)
        simulated_ms += report["duration_ms"]
    wall_ms = (time.perf_counter() - began) * 1000
    options.report_json.write_text(json.dumps({"wall_time_ms": wall_ms, "duration_ms": simulated_ms}))


if __name__ == "__main__":
    main()
