#!/usr/bin/env python3
"""Check where latencies come from (``--explain``) in every recorded run, and that asking changes nothing else.

usage: check_parts.py CASES.jsonl.gz [-k REGEX]

The parts of each request must not be negative and must add up to its time to first token and its latency to 1e-9 ms;
the parts of each statistic of the report to that statistic. Report and rows must be those of the run without
``--explain``. The last line is "N passed, N failed".
"""

import argparse
import contextlib
import gzip
import io
import json
import math
import multiprocessing
import re
import sys
import tempfile
from pathlib import Path

from check import EXAMPLES, HERE, trace_path

LATENCIES = {"ttft": "ttft_ms", "e2e": "e2e_latency_ms"}
LIMIT_MS = 1e-9


def replay(case, tracedir, folder, more):
    from dynamo.replay.main import main

    report, rows = Path(folder, "report.json"), Path(folder, "rows.jsonl")
    trace = trace_path(tracedir, case["trace"])
    argv = [word.replace("{trace}", trace).replace("{shared}", EXAMPLES) for word in case["args"]]
    said = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(said):
        code = main([*argv, "--report-json", str(report), "--report-jsonl", str(rows), *more])
    if code:
        raise ValueError(f"exit {code}: {said.getvalue()[-300:]}")
    return json.loads(report.read_text()), [json.loads(line) for line in rows.read_text().splitlines()]


def problems_of_row(row):
    for prefix, latency in LATENCIES.items():
        parts = {key: row[key] for key in row if key.startswith(prefix + "_") and key not in (latency, "ttft_ms")}
        if len(parts) != 11:
            yield f"{len(parts)} parts of {latency}"
        elif row[latency] is None:
            if any(ms is not None for ms in parts.values()):
                yield f"parts of a latency that does not exist: {parts}"
        elif min(parts.values()) < 0 or abs(math.fsum(parts.values()) - row[latency]) > LIMIT_MS:
            yield f"{latency} is {row[latency]!r}, its parts {parts} add up to {math.fsum(parts.values())!r}"


def problems_of_report(report):
    for latency in LATENCIES.values():
        for statistic, split in report["attribution"][latency]["split"].items():
            whole = report[f"{statistic}_{latency}"]
            parts = [ms for part, ms in split.items() if part != "total"]
            if min(parts) < 0 or max(abs(math.fsum(parts) - whole), abs(split["total"] - whole)) > LIMIT_MS:
                yield f"{statistic}_{latency} is {whole!r}, its parts {split}"


def difference(plain, explained):
    """What asking has changed, but for the time that the simulation took."""
    for key, value in plain.items():
        if key != "provenance" and "wall" not in key and not key.startswith("processed_") and explained[key] != value:
            yield f"{key}: {explained[key]!r}, without --explain {value!r}"


def run(case, tracedir):
    with tempfile.TemporaryDirectory() as folder:
        plain, plain_rows = replay(case, tracedir, folder, [])
        report, rows = replay(case, tracedir, folder, ["--explain"])
    problems = [*problems_of_report(report), *difference(plain, report)]
    for before, row in zip(plain_rows, rows, strict=True):
        problems += [f"row {row['trace_row']}: {text}" for text in (*problems_of_row(row), *difference(before, row))]
    return problems


def job(asked):
    case, tracedir = asked
    try:
        return case["id"], run(case, tracedir)
    except Exception as error:
        return case["id"], [f"{type(error).__name__}: {error}"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases")
    parser.add_argument("-k", default="", help="only cases whose id matches")
    options = parser.parse_args()
    with gzip.open(options.cases, "rt") as lines:
        cases = [case for case in map(json.loads, lines) if re.search(options.k, case["id"])]
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for case in cases:
            if case.get("trace_rows") is not None:
                Path(folder, case["trace"]).write_text("".join(json.dumps(row) + "\n" for row in case["trace_rows"]))
        real = str(Path(HERE, "traces"))
        jobs = [(case, folder if case.get("trace_rows") is not None else real) for case in cases]
        with multiprocessing.get_context("spawn").Pool(2) as pool:
            for name, problems in pool.imap_unordered(job, jobs):
                if problems:
                    failed += 1
                    print(f"FAIL {name}: " + "\n     ".join(problems[:3]))
    print(f"{len(cases) - failed} passed, {failed} failed")
    return 1 if failed or not cases else 0


if __name__ == "__main__":
    sys.exit(main())
