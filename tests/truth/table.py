#!/usr/bin/env python3
"""Make the tables of docs/agreement.md: how far each set of rules is from the engine's own scheduler.

usage: table.py [--vllm PYTHON] [--sglang PYTHON] [--write FILE]

The recorded cases need no engine. The public traces do: PYTHON is an environment with vLLM or SGLang (installation in
the heads of the drivers). Our side is the package installed for the interpreter that runs this. Prints Markdown, or
puts it in place of all that follows the line "<!-- tables -->" in FILE.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import io
import json
import statistics
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from dynamo.replay import run_trace_replay

HERE = Path(__file__).parent
TRACES = HERE.parent / "conformance" / "traces"
SAME = 1e-9
Case = dict[str, Any]


class Engine(NamedTuple):
    """An engine whose own scheduler has been recorded."""

    name: str
    title: str
    scheduler: str
    options: Mapping[str, str]
    """What the classes of recorded cases are called in the table."""


VLLM = Engine(
    "vllm",
    "vLLM 0.28",
    "vllm-0.28",
    {
        "default": "synchronous",
        "partial": "`scheduler_reserve_full_isl` false",
        "watermark": "watermark",
        "threshold": "`long_prefill_token_threshold`",
        "async": "asynchronous",
    },
)
SGLANG = Engine(
    "sglang",
    "SGLang 0.5.23",
    "sglang-0.5",
    {"default": "fcfs", "lpm": "lpm", "overlap": "overlapped", "eos": "`ignore_eos`"},
)
PRESSURE = ("none", "mild", "heavy")
_SGLANG_NAMES = {"overlap": "overlap_schedule", "mixed_chunk": "enable_mixed_chunk", "ignore_eos": "ignore_eos"}


def engine_args(engine: Engine, case: Case, own: bool) -> dict[str, Any]:
    """The engine arguments of a case: by the engine's own rules, or by those of Dynamo's mocker."""
    args = dict(case["engine"])
    if not own:
        if engine is VLLM and "watermark" in case["vllm"]:
            args["watermark"] = case["vllm"]["watermark"]
        return args
    args["scheduler"] = engine.scheduler
    if engine is VLLM:
        return {**args, "async_scheduling": False, **case["vllm"]}
    settings = {_SGLANG_NAMES[name]: value for name, value in case["sglang"].items() if name in _SGLANG_NAMES}
    args["sglang"] = {**args.get("sglang", {}), "overlap_schedule": False, **settings}
    return args


@dataclass
class Errors:
    """Relative errors of one group of cases."""

    cases: int = 0
    equal: int = 0
    refused: int = 0
    ttft: list[float] = field(default_factory=list)
    e2e: list[float] = field(default_factory=list)
    mean_ttft: list[float] = field(default_factory=list)
    mean_e2e: list[float] = field(default_factory=list)

    def add(self, case: Case, args: Mapping[str, Any]) -> None:
        self.cases += 1
        with tempfile.TemporaryDirectory() as folder:
            trace = Path(folder, "trace.jsonl")
            trace.write_text("".join(json.dumps(row) + "\n" for row in case["rows"]))
            report = run_trace_replay(trace, trace_block_size=case["trace_block_size"], extra_engine_args=args)
        rows = report.requests
        place = {row: i for i, row in enumerate(rows["trace_row"].tolist())}
        if any(rows["state"][i] != "finished" for i in place.values()):
            self.refused += 1
            return
        wanted = [(want, place[want["row"]]) for want in case["requests"]]
        self.equal += all(
            _near(want["first"], rows["first_token_ms"][i]) and _near(want["last"], rows["last_token_ms"][i])
            for want, i in wanted
        )
        ttft = [(want["first"] - want["arrival"], rows["ttft_ms"][i]) for want, i in wanted]
        e2e = [(want["last"] - want["arrival"], rows["e2e_latency_ms"][i]) for want, i in wanted]
        self.ttft += map(_error, ttft)
        self.e2e += map(_error, e2e)
        self.mean_ttft.append(_error_of_means(ttft))
        self.mean_e2e.append(_error_of_means(e2e))

    def cells(self) -> list[str]:
        """Equal cases; errors of requests, mean and 99th percentile; errors of a case's mean, average and worst."""
        equal = f"{self.equal} of {self.cases}" + (f" ({self.refused} refused)" if self.refused else "")
        cells = [equal]
        for of_requests in (self.ttft, self.e2e):
            cells.append(f"{_percent(statistics.fmean(of_requests))} / {_percent(_p99(of_requests))}")
        for of_means in (self.mean_ttft, self.mean_e2e):
            cells.append(f"{_percent(statistics.fmean(of_means))} / {_percent(max(of_means))}")
        return cells


def _near(a: float, b: float) -> bool:
    return abs(a - b) <= SAME * max(1.0, abs(a), abs(b))


def _error(pair: tuple[float, float]) -> float:
    want, got = pair
    return abs(got - want) / max(want, SAME)


def _error_of_means(pairs: Sequence[tuple[float, float]]) -> float:
    return _error((statistics.fmean(want for want, _ in pairs), statistics.fmean(got for _, got in pairs)))


def _p99(values: Sequence[float]) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))]


def _percent(value: float) -> str:
    if value < 1e-11:
        return "0"
    return f"{100 * value:.0f}" if value >= 1 else f"{100 * value:.2g}"


def recorded(engine: Engine) -> list[Case]:
    with gzip.open(HERE / f"{engine.name}.jsonl.gz", "rt") as lines:
        return [case for case in map(json.loads, lines) if case["options"] in engine.options]


def print_recorded(engine: Engine) -> None:
    cases = recorded(engine)
    print(f"\n### {engine.title}: {len(cases)} recorded workloads, hard on purpose\n")
    head = "TTFT of a request | E2E of a request | mean TTFT of a case | mean E2E of a case"
    print(f"| settings, pressure | rules | equal cases | {head} |")
    print("|---|---|---|---|---|---|---|")
    for option, title in engine.options.items():
        for pressure in PRESSURE:
            group = [case for case in cases if (case["options"], case["pressure"]) == (option, pressure)]
            for own in (False, True) if group else ():
                errors = Errors()
                for case in group:
                    errors.add(case, engine_args(engine, case, own))
                name = f"`{engine.scheduler}`" if own else "`dynamo`"
                print(f"| {title}, {pressure} | {name} | {' | '.join(errors.cells())} |")


def public(engine: Engine) -> Iterator[tuple[str, Case]]:
    """The beginnings of the public Mooncake traces, on ample and tight pools, as titles and cases for a driver."""
    size = 64 if engine is VLLM else 16
    overlap = {"async_scheduling": False} if engine is VLLM else {"overlap": False}
    for name, rows in (("conversation", 400), ("synthetic", 400)):
        with gzip.open(TRACES / f"{name}_trace.jsonl.gz", "rt") as lines:
            head = [json.loads(line) for _, line in zip(range(rows), lines, strict=False)]
        longest = max(row["input_length"] + row["output_length"] for row in head)
        for pool, blocks in (("ample", 16384 * 64 // size), ("tight", 2 * longest // size)):
            for overlapped in (False, True):
                settings = dict.fromkeys(overlap, overlapped)
                how = ("asynchronous" if engine is VLLM else "overlapped") if overlapped else "synchronous"
                yield (
                    f"{name}, first {rows} rows, {pool} pool, {how}",
                    {
                        "id": f"{name}-{pool}-{how}",
                        "rows": head,
                        "trace_block_size": 512,
                        "engine": {"engine_type": engine.name, "block_size": size, "num_gpu_blocks": blocks},
                        engine.name: settings,
                    },
                )


def print_public(engine: Engine, python: str) -> None:
    titles, cases = zip(*public(engine), strict=True)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "cases.jsonl")
        path.write_text("".join(json.dumps(case) + "\n" for case in cases))
        driver = [python, str(HERE / f"{engine.name}_scheduler.py"), str(path), "--passes", "1"]
        done = subprocess.run(driver, capture_output=True, text=True, check=False)
    results = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if len(results) != len(cases):
        raise SystemExit(f"{driver[1]} failed: {done.stderr[-2000:]}")
    print(f"\n### {engine.title}: public traces\n")
    print("| trace | rules | equal requests | mean TTFT | mean E2E |")
    print("|---|---|---|---|---|")
    for title, case, result in zip(titles, cases, results, strict=True):
        for own in (False, True):
            print(f"| {title} | {_public_row(engine, {**case, **result}, own)} |")


def _public_row(engine: Engine, case: Case, own: bool) -> str:
    name = f"`{engine.scheduler}`" if own else "`dynamo`"
    if "error" in case:
        return f"{name} | refused by the engine: {case['error']} | |"
    errors = Errors()
    errors.add(case, engine_args(engine, case, own))
    if errors.refused:
        return f"{name} | refused | | "
    same = 100 * sum(error <= SAME for error in errors.ttft) / len(errors.ttft)
    return f"{name} | {same:.0f} % | {_percent(errors.mean_ttft[0])} % | {_percent(errors.mean_e2e[0])} %"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    pythons: Iterable[Engine] = (VLLM, SGLANG)
    for engine in pythons:
        parser.add_argument(f"--{engine.name}", help=f"interpreter of an environment with {engine.title}")
    parser.add_argument("--write", type=Path, metavar="FILE")
    given = vars(parser.parse_args(argv))
    warnings.simplefilter("ignore")  # rejected requests are counted
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        for engine in pythons:
            print_recorded(engine)
            if given[engine.name]:
                print_public(engine, given[engine.name])
    if given["write"] is None:
        print(text.getvalue())
        return 0
    before, marker, _ = given["write"].read_text().partition("<!-- tables -->\n")
    given["write"].write_text(before + marker + text.getvalue())
    return 0


if __name__ == "__main__":
    sys.exit(main())
