"""Generated workloads that are drawn, and workloads that are saved, from the command line and from Python."""

from __future__ import annotations

import itertools
import json
import re
import statistics
import warnings
from pathlib import Path
from typing import Any

import pytest
from conftest import TINY, WALL_CLOCK, Cli, refused, row, write_trace

from dynamo.replay import run_synthetic_trace_replay, run_trace_replay
from dynamo.replay.report import Report

LOGNORMAL = "lognormal(mean=2000,cv=0.8,max=32000)"


def drawn(**options: Any) -> Report:
    """A run of drawn lengths and arrivals without a warning."""
    chosen = {"input_tokens": LOGNORMAL, "output_tokens": "uniform(1,9)", "request_count": 2000, **options}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return run_synthetic_trace_replay(**chosen)


def timeless(report: Report) -> dict[str, Any]:
    """What was measured, but for wall-clock times and for how the workload came about."""
    return {key: value for key, value in report.items() if key not in {*WALL_CLOCK, "provenance"}}


def test_lengths_are_drawn_from_their_distributions() -> None:
    requests = drawn(seed=1).requests
    inputs, outputs = requests["input_length"], requests["output_length"]
    assert inputs.mean() == pytest.approx(2000, rel=0.05)
    assert inputs.std() / inputs.mean() == pytest.approx(0.8, rel=0.1)
    assert inputs.max() <= 32000
    assert sorted(set(outputs.tolist())) == list(range(1, 10))


@pytest.mark.parametrize(
    ("process", "cv", "measured"),
    [("poisson", None, 1), ("gamma", 2.0, 2), ("weibull", 0.5, 0.5), ("constant", None, 0)],
)
def test_arrivals_have_the_rate_and_the_variation(process: str, cv: float | None, measured: float) -> None:
    options = {"arrival_process": process, "request_rate": 50.0, "arrival_cv": cv}
    arrivals = drawn(input_tokens=1, output_tokens="1", **options).requests["arrival_time_ms"].tolist()
    gaps = [later - earlier for earlier, later in itertools.pairwise(arrivals)]
    assert statistics.mean(gaps) == pytest.approx(20, rel=0.15)
    assert statistics.pstdev(gaps) / statistics.mean(gaps) == pytest.approx(measured, rel=0.15, abs=1e-9)


def test_equal_seeds_give_equal_runs() -> None:
    options = {"arrival_process": "gamma", "request_rate": 5.0, "arrival_cv": 2.0, "request_count": 50}
    first, again, other = (timeless(drawn(seed=seed, **options)) for seed in (7, 7, 8))
    assert first == again
    assert first != other


def test_integers_as_text_are_integers() -> None:
    plain, text = (drawn(input_tokens=n, output_tokens=n, request_count=20) for n in (30, "30"))
    assert timeless(plain) == timeless(text)


def test_the_seed_chooses_prefix_groups() -> None:
    shared = {"input_tokens": 640, "output_tokens": 2, "request_count": 40, "shared_prefix_ratio": 0.5}
    runs = [timeless(drawn(**shared, num_prefix_groups=8, seed=seed)) for seed in (0, 0, 3)]
    assert runs[0] == runs[1] != runs[2]
    assert runs[0] == timeless(drawn(**shared, num_prefix_groups=8))


@pytest.mark.parametrize(
    ("options", "warned"),
    [
        ([*TINY], True),
        ([*TINY, "--request-rate", "9", "--arrival-process", "poisson"], False),
        ([*TINY, "--output-tokens", "uniform(1,5)"], False),
        ([*TINY, "--shared-prefix-ratio", "0.5", "--num-prefix-groups", "2"], False),
        ([*TINY, "--shared-prefix-ratio", "0.5", "--num-prefix-groups", "1"], True),
        ([*TINY, "--router-mode", "kv_router", "--num-workers", "2"], False),
    ],
)
def test_a_seed_that_nothing_draws_from(cli: Cli, options: list[str], warned: bool) -> None:
    done = cli(*options, "--seed", "3")
    assert done.returncode == 0
    text = "warning: seed 3 has no effect with router_mode round_robin and a workload in which nothing is drawn\n"
    assert done.stderr == (text if warned else "")


def test_what_concurrency_makes_of_arrivals(cli: Cli) -> None:
    rate = ["--request-rate", "9", "--arrival-process", "poisson", "--seed", "3", "--replay-concurrency", "2"]
    done = cli(*TINY, *rate)
    assert done.returncode == 0
    assert [line.split(" ")[1] for line in done.stderr.splitlines()] == ["arrival_process", "request_rate", "seed"]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--input-tokens", "0"], "input_tokens: got 0, want an integer from 1 to 2147483647"),
        (["--input-tokens", ""], 'input_tokens: got "", want an integer >= 1, uniform(A,B), '),
        (["--input-tokens", "zipf(2)"], 'got the distribution "zipf", want an integer >= 1, '),
        (["--output-tokens", "uniform(9,1)"], "output_tokens: uniform(9,1): got 9 as the shortest"),
        (["--output-tokens", "normal(mean=5)"], "output_tokens: normal(mean=5): std: missing, want a number >= 0"),
        (["--output-tokens", "empirical(none.txt)"], "output_tokens: none.txt: "),
        (["--output-tokens", "empirical(bad.txt)"], "output_tokens: bad.txt line 2: "),
        (["--arrival-process", "uniform"], 'arrival_process: got "uniform", want one of constant, poisson, '),
        (["--arrival-process", "poisson"], "request_rate: missing, want a number > 0: arrival_process is poisson"),
        (["--arrival-process", "gamma", "--request-rate", "1"], "arrival_cv: missing, want a number from 0.01 to 100"),
        (["--request-rate", "-1"], "request_rate: got -1.0, want a finite number > 0"),
        (["--request-rate", "5", "--arrival-interval-ms", "3"], "arrival_interval_ms: got 3.0, want it left out with"),
        (["--arrival-cv", "2"], "arrival_cv: got 2, want it left out"),
        (["--save-trace", ""], "--save-trace: cannot write '': the path is empty"),
        (["--save-trace", "x", "--report-json", "x"], "--report-json: 'x' is the same file as --save-trace"),
        (["--input-tokens", "empirical(bad.txt)", "--save-trace", "./bad.txt"], "is the same file as --input-tokens"),
    ],
)
def test_refusals(cli: Cli, folder: Path, options: list[str], named: str) -> None:
    (folder / "bad.txt").write_text("5\nfive\n")
    assert named in refused(cli(*TINY, *options))
    assert [path.name for path in folder.iterdir()] == ["bad.txt"]


@pytest.mark.parametrize("option", [["--request-rate", "2"], ["--arrival-cv", "2"], ["--arrival-process", "poisson"]])
def test_a_trace_has_its_own_arrivals(cli: Cli, option: list[str]) -> None:
    assert f"{option[0]} cannot be combined with a trace file" in refused(cli("trace.jsonl", *option))


def test_types_of_lengths() -> None:
    for value in (1.5, None, True, [1]):
        with pytest.raises(TypeError, match=r"input_tokens: got .*, want an integer or a distribution as text"):
            run_synthetic_trace_replay(value, 1, 1)  # type: ignore[arg-type]


def test_lengths_from_a_file(cli: Cli, folder: Path) -> None:
    (folder / "lengths.txt").write_text("# tokens\n7\n\n11\n")
    drawn_from = "empirical(lengths.txt)"
    options = ["--input-tokens", drawn_from, "--output-tokens", drawn_from, "--request-count", "40"]
    assert cli(*options, "--report-jsonl", "rows.jsonl").returncode == 0
    rows = [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]
    assert {row["input_length"] for row in rows} == {row["output_length"] for row in rows} == {7, 11}


SAVED = re.compile(r"workload saved: replay '(.+)' with --trace-format (\S+) --trace-block-size (\d+)\n")
BUSY = ["--extra-engine-args", '{"block_size": 16, "num_gpu_blocks": 400}', "--num-workers", "2"]
DRAWN = ["--input-tokens", "lognormal(mean=300,cv=1)", "--output-tokens", "normal(mean=20,std=5)"]
DRAWN += ["--request-count", "60", "--request-rate", "40", "--arrival-process", "weibull", "--arrival-cv", "2"]
SHARED = ["--input-tokens", "uniform(90,700)", "--output-tokens", "9", "--request-count", "20"]
SHARED += ["--turns-per-session", "3", "--shared-prefix-ratio", "0.6", "--num-prefix-groups", "3"]
SHARED += ["--inter-turn-delay-ms", "7"]


@pytest.mark.parametrize("mode", [[], ["--arrival-speedup-ratio", "3"], ["--replay-concurrency", "5"]])
@pytest.mark.parametrize("workload", [DRAWN, SHARED])
def test_a_saved_workload_replays_to_the_same_report(
    cli: Cli, folder: Path, workload: list[str], mode: list[str]
) -> None:
    first = cli(
        *workload, *mode, *BUSY, "--save-trace", "new/w.jsonl", "--report-json", "a", "--report-jsonl", "a.rows"
    )
    assert first.returncode == 0, first
    match = SAVED.search(first.stderr)
    assert match is not None, first.stderr
    path, trace_format, block_size = match.groups()
    read = [path, "--trace-format", trace_format, "--trace-block-size", block_size]
    again = cli(*read, *mode, *BUSY, "--report-json", "b", "--report-jsonl", "b.rows")
    assert again.returncode == 0, again
    reports = [json.loads((folder / name).read_text()) for name in "ab"]
    assert timeless(reports[0]) == timeless(reports[1])
    rows = [[json.loads(line) for line in (folder / f"{name}.rows").read_text().splitlines()] for name in "ab"]
    for one, other in zip(*rows, strict=True):
        assert {**one, "session_id": ""} == {**other, "session_id": ""}


def test_the_api_says_how_to_read_a_saved_trace(folder: Path) -> None:
    with pytest.warns(
        UserWarning, match=r"save_trace: 'w\.jsonl' replays with trace_format='mooncake' and trace_b"
    ) as seen:
        report = run_synthetic_trace_replay(100, 3, 9, save_trace="w.jsonl")
    size = re.search(r"trace_block_size=(\d+)", str(seen[0].message))
    assert size is not None
    again = run_trace_replay("w.jsonl", trace_format="mooncake", trace_block_size=int(size[1]))
    assert timeless(again) == timeless(report)


def test_no_trace_is_saved_by_a_run_that_is_refused(cli: Cli, folder: Path) -> None:
    trace = write_trace(folder / "t.jsonl", [{**row(0, 8, 2, [1]), "timestamp": None, "session_id": "s"}])
    assert "timestamp" in refused(cli(trace, "--save-trace", "w.jsonl"))
    assert [path.name for path in folder.iterdir()] == ["t.jsonl"]


def test_a_trace_that_cannot_be_saved_ends_the_run(cli: Cli) -> None:
    done = cli(*TINY, "--save-trace", "/dev/full", "--report-json", "r.json")
    assert (done.returncode, done.stdout) == (1, "")
    assert re.fullmatch(r"error: save_trace: .*no space left on device\n", done.stderr)


def test_a_rate_that_changes(folder: Path, cli: Cli) -> None:
    """Requests start where the integral of the rate reaches their number; without a count, until the curve ends."""
    curve = write_text(folder / "curve.csv", "time_s,rate_rps\n0,1\n2,1\n2,0\n5,0\n5,2\n6,2\n")
    sizes = ("--input-tokens", "8", "--output-tokens", "1")
    assert cli("--request-rate-curve", curve, *sizes, "--report-jsonl", "rows.jsonl").returncode == 0
    rows = [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]
    assert [row["arrival_time_ms"] for row in rows] == [0.0, 1000.0, 5000.0, 5500.0]
    again = run_synthetic_trace_replay(8, 1, 5, request_rate_curve=curve, rows=True)
    assert list(again.requests["arrival_time_ms"]) == [0.0, 1000.0, 5000.0, 5500.0, 6000.0]
    drawn = [
        run_synthetic_trace_replay(8, 1, request_rate_curve=Path(curve), arrival_process="poisson", seed=s, rows=True)
        for s in (1, 1, 2)
    ]
    first, same, other = ([*report.requests["arrival_time_ms"]] for report in drawn)
    assert first == same != other
    assert not any(2000 < ms < 5000 for ms in first + other)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--request-rate-curve", "none.csv"), "request_rate_curve: none.csv: "),
        (("--request-rate-curve", "curve.csv", "--request-rate", "3"), "request_rate: got 3, want it left out with"),
        (("--request-rate-curve", "curve.csv", "--arrival-interval-ms", "3"), "left out with request_rate_curve"),
        (("--request-rate-curve", "flat.csv"), "request_rate_curve: flat.csv: the rate is 0 all the time"),
        ((), "missing: --request-count"),
    ],
)
def test_curves_that_are_refused(folder: Path, cli: Cli, options: Any, message: str) -> None:
    write_text(folder / "curve.csv", "time_s,rate_rps\n0,1\n2,1\n")
    write_text(folder / "flat.csv", "time_s,rate_rps\n0,0\n2,0\n")
    assert message in refused(cli(*options, "--input-tokens", "8", "--output-tokens", "1"))


def test_reports_repeat_a_curve(folder: Path, cli: Cli) -> None:
    curve = write_text(folder / "curve.csv", "time_s,rate_rps\n0,1\n2,1\n")
    assert (
        cli(
            *("--request-rate-curve", curve, "--input-tokens", "8", "--output-tokens", "1", "--report-json", "a.json")
        ).returncode
        == 0
    )
    assert cli("--from-report", "a.json", "--report-json", "b.json").returncode == 0
    write_text(folder / "curve.csv", "time_s,rate_rps\n0,2\n2,1\n")
    assert "has changed since the report" in refused(cli("--from-report", "a.json", "--report-json", "c.json"))


def write_text(path: Path, text: str) -> str:
    path.write_text(text)
    return path.name
