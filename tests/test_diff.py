"""``python -m dynamo.replay.diff``: what differs between two runs, and exit codes for CI."""

from __future__ import annotations

import gzip
import json
import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import TINY, Cli, refused, script
from pagetools import faint, watched
from scipy import stats

from dynamo.replay import Report, run_synthetic_trace_replay, run_trace_replay
from dynamo.replay.diff import compare, parse_condition
from dynamo.replay.diff.distributions import kolmogorov_smirnov
from dynamo.replay.explain import LATENCIES, PARTS

TRACE = str(Path(__file__).parent.parent / "examples" / "traces" / "conversation_400.jsonl.gz")


class Runs:
    """Two runs of one trace, as reports and as files."""

    def __init__(self, folder: Path) -> None:
        self.reports = [
            self._run(folder / "a", num_workers=2),
            self._run(folder / "b", num_workers=3, router_mode="kv_router"),
        ]
        self.rows = [str(folder / name / "rows.jsonl") for name in "ab"]
        self.files = [str(folder / name / "report.json") for name in "ab"]

    @staticmethod
    def _run(folder: Path, **options: Any) -> Report:
        folder.mkdir()
        report = run_trace_replay(TRACE, attribution=True, report_jsonl_path=folder / "rows.jsonl", **options)
        (folder / "report.json").write_text(json.dumps(report))
        return report


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    return Runs(tmp_path_factory.mktemp("runs"))


def diff(cli: Cli, *arguments: str) -> Any:
    return cli(*arguments, module="dynamo.replay.diff")


def test_rows_say_what_the_report_says(runs: Runs) -> None:
    """Figures that are computed from rows, and their parts, are those of the report."""
    for report, rows in zip(runs.reports, runs.rows, strict=True):
        from_rows = compare(rows, rows)
        shared = {key: change.a for key, change in from_rows.metrics.items() if key in report}
        assert len(shared) > 45
        for key, value in shared.items():
            assert value == pytest.approx(report[key], rel=1e-12, abs=1e-12), key
        for latency, falls in from_rows.waterfalls.items():
            for statistic, split in report["attribution"][latency]["split"].items():
                assert falls[statistic].a == pytest.approx(split["total"])
    rows = compare(runs.rows[0], runs.rows[1]).waterfalls
    reports = compare(dict(runs.reports[0]), dict(runs.reports[1])).waterfalls
    for latency in LATENCIES:
        for statistic, fall in reports[latency].items():
            assert rows[latency][statistic].parts == pytest.approx(fall.parts, abs=1e-6)


def test_waterfalls_lead_from_a_to_b(runs: Runs) -> None:
    for falls in compare(*runs.reports).waterfalls.values():
        assert set(falls) == {"mean", "median", "p75", "p90", "p95", "p99"}
        for fall in falls.values():
            assert set(fall.parts) == set(PARTS)
            assert fall.a + math.fsum(fall.parts.values()) == pytest.approx(fall.b, abs=1e-9)


def test_files_and_reports_say_the_same(runs: Runs) -> None:
    names = {"a": "", "b": ""}
    from_files = {**compare(*runs.rows).to_dict(), **names}
    from_reports = {**compare(*runs.reports).to_dict(), **names}
    assert from_files["joined"] == from_reports["joined"]
    assert from_files["ks"] == from_reports["ks"]


def test_joined_requests(runs: Runs) -> None:
    a, b = (report.requests for report in runs.reports)
    joined = compare(*runs.reports, movers=3).joined
    assert joined is not None
    assert (joined.key, joined.requests, joined.only_a, joined.only_b, joined.other_shape) == (
        "trace_row",
        400,
        0,
        0,
        0,
    )
    change = b["ttft_ms"] - a["ttft_ms"]
    assert [mover.change for mover in joined.faster] == pytest.approx(sorted(change)[:3])
    assert [mover.change for mover in joined.slower] == pytest.approx(sorted(change)[:-4:-1])
    for mover in (*joined.slower, *joined.faster):
        assert math.fsum(mover.parts.values()) == pytest.approx(mover.change, abs=1e-8)
        assert a["ttft_ms"][mover.trace_row] == mover.a
    moved = a["decode_worker_idx"] != b["decode_worker_idx"]
    routing = joined.routing["decode"]
    assert (routing.changed, routing.of) == (moved.sum(), 400)
    assert routing.mean_change_moved == pytest.approx(change[moved].mean())
    assert "prefill" not in joined.routing


def test_two_pools() -> None:
    """Prefill and decode workers are compared by themselves, and the time that the KV takes to move is a part."""
    reports = [
        run_trace_replay(
            TRACE,
            router_mode="round_robin",
            num_prefill_workers=prefill,
            prefill_engine_args={"worker_type": "prefill", "kv_bytes_per_token": 131072, "kv_transfer_bandwidth": 64},
            decode_engine_args={"worker_type": "decode"},
            attribution=True,
        )
        for prefill in (1, 2)
    ]
    found = compare(*reports)
    assert found.joined is not None
    assert found.joined.routing["decode"].changed == 0
    assert found.joined.routing["prefill"].changed > 100
    assert reports[0]["attribution"]["ttft_ms"]["split"]["mean"]["kv_transfer"] > 1
    assert found.metrics["prefix_cache_reused_ratio"].a == reports[0]["prefix_cache_reused_ratio"]


def test_time_lost_to_faults(tmp_path: Path, cli: Cli) -> None:
    """The part that only runs with faults have counts from reports, from rows, and with either run alone."""

    def run(name: str, **options: Any) -> Report:
        return run_synthetic_trace_replay(
            256,
            40,
            60,
            arrival_interval_ms=20.0,
            num_workers=3,
            attribution=True,
            report_jsonl_path=tmp_path / f"{name}.jsonl",
            **options,
        )

    crash = {"kind": "crash", "at_ms": 400, "target": "worker:1", "duration_ms": 100}
    plain, faulty = run("plain"), run("faulty", faults=[crash], migration_limit=1)
    files = [str(tmp_path / f"{name}.jsonl") for name in ("plain", "faulty")]
    for a, b, sign in ((plain, faulty, 1), (files[0], files[1], 1), (files[1], files[0], -1), (plain, files[1], 1)):
        found = compare(a, b)
        for latency in LATENCIES:
            fall = found.waterfalls[latency]["mean"]
            lost = faulty["attribution"][latency]["split"]["mean"]["lost"]
            assert fall.parts["lost"] == pytest.approx(sign * lost) != 0
            assert sum(fall.parts.values()) == pytest.approx(fall.b - fall.a)
        assert found.joined is not None
        assert any(mover.parts["lost"] for mover in (*found.joined.slower, *found.joined.faster))
    done = cli(*files, module="dynamo.replay.diff")
    assert done.returncode == 0, done.stderr
    assert "lost to faults" in done.stdout


def test_rows_of_which_some_are_missing(runs: Runs, tmp_path: Path) -> None:
    lines = Path(runs.rows[1]).read_text().splitlines(keepends=True)
    random.Random(1).shuffle(lines)
    with gzip.open(tmp_path / "some.jsonl.gz", "wt") as file:
        file.writelines(lines[:300])
    joined = compare(runs.rows[0], tmp_path / "some.jsonl.gz").joined
    assert joined is not None
    assert (joined.requests, joined.only_a, joined.only_b, joined.other_shape) == (300, 100, 0, 0)


def test_other_workloads_are_noticed() -> None:
    a, b = (run_synthetic_trace_replay(100, tokens, request_count=20) for tokens in (10, 20))
    joined = compare(a, b).joined
    assert joined is not None
    assert joined.other_shape == 20
    assert compare(a, b).waterfalls == {}


@pytest.mark.parametrize("sizes", [(5, 5), (40, 70), (1000, 300)])
def test_kolmogorov_smirnov_agrees_with_scipy(sizes: tuple[int, int]) -> None:
    rng = np.random.default_rng(sum(sizes))
    for shift in (0.0, 0.1, 0.5, 2.0):
        a, b = rng.normal(size=sizes[0]), rng.normal(shift, size=sizes[1])
        a[:2] = b[:2]  # ties
        ours, theirs = kolmogorov_smirnov(a, b), stats.ks_2samp(a, b)
        assert ours.statistic == pytest.approx(theirs.statistic)
        if min(sizes) > 10:
            assert ours.p_value == pytest.approx(theirs.pvalue, abs=0.06)
    assert kolmogorov_smirnov(a, a) == (0.0, 1.0)


def test_conditions(runs: Runs) -> None:
    before, after = (report["p99_ttft_ms"] for report in runs.reports)
    fall = (1 - after / before) * 100
    assert 10 < fall < 90
    for text, failed in (
        ("p99_ttft_ms > +5%", False),
        ("p99_ttft_ms < -5%", True),
        (f"p99_ttft_ms<=-{fall - 0.1:.3f}%", True),
        (f"p99_ttft_ms <= -{fall + 0.1:.3f}%", False),
        (f"p99_ttft_ms >= {after - 1}", True),
        (f"p99_ttft_ms > {after + 1}", False),
        (f"p99_ttft_ms < -{before - after - 1}", True),
        ("p99_ttft_ms.worker_wait > +0", False),
        ("mean_e2e_latency_ms.decode > 1", True),
        ("ks_ttft_ms > 0.05", True),
    ):
        found = compare(*runs.reports, fail_if=[text])
        assert (found.verdicts[0].failed, found.failed) == (failed, failed), text


def test_exit_codes_for_ci(cli: Cli, runs: Runs) -> None:
    fine = diff(cli, *runs.files, "--fail-if", "p99_ttft_ms > +5%", "--fail-if", "rejected_requests > 0")
    assert (fine.returncode, fine.stderr) == (0, "")
    assert "ok: p99_ttft_ms > +5% (found: -" in fine.stdout
    worse = diff(cli, *reversed(runs.files), "--fail-if", "p99_ttft_ms > +5%", "--fail-if", "rejected_requests > 0")
    assert worse.returncode == 1
    assert "FAILED: p99_ttft_ms > +5%" in worse.stdout
    assert worse.stderr.startswith("failed: p99_ttft_ms > +5% (found: +")
    assert len(worse.stderr.splitlines()) == 1


def test_rows_beside_reports(cli: Cli, runs: Runs) -> None:
    only = diff(cli, *runs.files).stdout
    both = diff(cli, *runs.files, "--rows", *runs.rows).stdout
    assert "Token Gap p99" in only
    assert "Kolmogorov" not in only
    for words in ("Token Gap p99", "Kolmogorov", "joined by trace_row: 400", "Much faster in B, by ttft_ms"):
        assert words in both
    assert "From A to B: Time to First Token (ms)" in only


def test_json_and_markdown(cli: Cli, runs: Runs) -> None:
    found = json.loads(diff(cli, *runs.rows, "--json", "--fail-if", "ks_ttft_ms > 0.9").stdout)
    assert list(found) == ["a", "b", "metrics", "waterfalls", "ks", "joined", "conditions"]
    assert found["conditions"][0]["failed"] is False
    text = diff(cli, *runs.rows, "--markdown", "--by", "e2e_latency_ms", "--movers", "2").stdout
    tables = [block for block in text.split("\n\n") if block.startswith("|")]
    assert len(tables) == 6
    for block in tables:
        assert len({line.count("|") for line in block.splitlines()}) == 1
    assert "### Much faster in B, by e2e_latency_ms" in text
    assert "┏" not in text


def test_a_run_without_requests(tmp_path: Path, cli: Cli) -> None:
    """Statistics that do not exist in one of the runs are no reason to fail, unless a condition needs them."""
    for name, more in (("a", []), ("b", ["--extra-engine-args", '{"num_gpu_blocks": 1, "block_size": 2}'])):
        cli(
            *TINY,
            *more,
            "--report-json",
            str(tmp_path / f"{name}.json"),
            "--report-jsonl",
            str(tmp_path / f"{name}.jsonl"),
        )
    for kind in ("json", "jsonl"):
        files = [str(tmp_path / f"{name}.{kind}") for name in "ab"]
        shown = diff(cli, *files)
        assert (shown.returncode, shown.stderr) == (0, "")
        assert "N/A" in shown.stdout
        assert diff(cli, *files, "--fail-if", "mean_ttft_ms > +5%").returncode == 1
        assert "first run has no" in refused(diff(cli, *reversed(files), "--fail-if", "mean_ttft_ms > +5%"))


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (None, "cannot be read: No such file"),
        ("", "got an empty file"),
        ("[1, 2]", "line 1 is no row of a run"),
        ("{}", "line 1 is no row of a run"),
        ('{"arrival_time_ms": 0}', "line 1: last_token_ms is missing"),
        ("\x00\xff", "line 1 is no row of a run"),
        ('{"arrival_time_ms": Infinity}', "line 1: arrival_time_ms: got inf, want a finite number or null"),
        (f'{{"arrival_time_ms": 1{"0" * 400}}}', "line 1: arrival_time_ms: got inf, want a finite number or null"),
        ('{"arrival_time_ms": "soon"}', "line 1: arrival_time_ms: got 'soon', want a number or null"),
    ],
)
def test_bad_files(cli: Cli, folder: Path, content: str | None, named: str) -> None:
    if content is not None:
        (folder / "a").write_text(content)
    assert named in refused(diff(cli, "a", "a"))


def test_an_empty_path(cli: Cli) -> None:
    assert "the path of a run is empty" in refused(diff(cli, "", "a"))


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ('"p99_ttft_ms": NaN', "p99_ttft_ms: got nan, want a finite number or null"),
        ('"p99_ttft_ms": 1e400', "p99_ttft_ms: got inf, want a finite number or null"),
        (f'"p99_ttft_ms": 1{"0" * 400}', "p99_ttft_ms: got inf, want a finite number or null"),
        ('"attribution": 1', "attribution: got 1, want the object that --explain wrote"),
        ('"attribution": {"ttft_ms": {}}', 'attribution: got {"ttft_ms": {}}, want the object'),
        ('"attribution": {"ttft_ms": {"split": {"p99": {"total": "x"}}}}', "want the object that --explain wrote"),
        ('"attribution": {"ttft_ms": {"split": {"p99": {"total": 1}}}}', "want the object that --explain wrote"),
    ],
)
def test_reports_that_were_changed(cli: Cli, runs: Runs, tmp_path: Path, changed: str, named: str) -> None:
    """With a number that is none, no condition would fail, and CI would pass."""
    report = tmp_path / "report.json"
    report.write_text(f'{{"num_requests": 3, {changed}}}')
    shown = refused(diff(cli, runs.files[0], str(report), "--fail-if", "p99_ttft_ms > +5%"))
    assert f"{report}: " in shown
    assert named in shown


@pytest.mark.parametrize(
    ("more", "named"),
    [
        (["--fail-if", "p99_ttft_ms"], "--fail-if: got p99_ttft_ms, want KEY, then >"),
        (["--fail-if", "p99_ttft_ms > 5%"], "want +5% for a rise, or -5% for a fall"),
        (["--fail-if", "p99_ttf_ms > +5%"], "neither run has p99_ttf_ms, did you mean p99_ttft_ms?"),
        (["--fail-if", "p99_itl_ms > +5%"], "neither run has p99_itl_ms"),
        (["--movers", "-1"], "--movers: got -1, want 0 or more"),
        (["--by", "itl_ms"], "--by"),
        (["--json", "--markdown"], "not allowed with"),
    ],
)
def test_bad_options(cli: Cli, runs: Runs, more: list[str], named: str) -> None:
    assert named in refused(diff(cli, *runs.rows, *more))


def test_options_are_read_before_numpy_is_loaded(folder: Path) -> None:
    check = "import sys; from dynamo.replay.diff.main import main; main(['--help']); assert 'numpy' not in sys.modules"
    done = script(check, cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")


def test_rows_that_cannot_be_told_apart(runs: Runs, tmp_path: Path, cli: Cli) -> None:
    line = Path(runs.rows[0]).read_text().splitlines(keepends=True)[0]
    (tmp_path / "twice.jsonl").write_text(2 * line)
    assert "rows cannot be joined" in refused(diff(cli, runs.rows[0], str(tmp_path / "twice.jsonl")))


def test_what_python_refuses() -> None:
    with pytest.raises(TypeError, match="A: got 3, want a report or a path"):
        compare(3, 4)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="B: the report has no key num_requests"):
        compare({"num_requests": 3}, {})
    with pytest.raises(ValueError, match="--fail-if"):
        parse_condition("")


@pytest.mark.parametrize(("width", "colours"), [(360, "light"), (1280, "light"), (1280, "dark")])
def test_the_page_has_the_latencies_of_both(cli: Cli, folder: Path, browser: Any, width: int, colours: str) -> None:
    for name, workers in (("a.jsonl", "1"), ("b.jsonl", "2")):
        assert cli(*TINY, "--num-workers", workers, "--report-jsonl", name).returncode == 0
    done = cli("a.jsonl", "b.jsonl", "--html", "diff.html", module="dynamo.replay.diff")
    assert (done.returncode, done.stderr) == (0, "")
    found = compare("a.jsonl", "b.jsonl")
    with watched(browser, folder / "shown.html") as (open_page, asked):
        shown = open_page((folder / "diff.html").read_text(), width, colours)
        charts = shown.locator("#curves .chart")
        charts.nth(2).locator("svg .curve").nth(1).wait_for()
        assert charts.count() == 3
        median = f"{found.quantiles['ttft_ms'][1][50]:.5g}"
        assert f"B {median} ms" in (charts.first.locator("svg").get_attribute("aria-label") or "")
        charts.first.locator("summary").click()
        charts.first.locator("tbody tr").last.wait_for()
        assert charts.first.locator("th.number").all_text_contents() == ["A", "B"]
        assert faint(shown) == []
        assert shown.evaluate("document.documentElement.scrollWidth") <= width
    assert len(set(asked)) == 1


def test_the_page_of_a_comparison(cli: Cli, folder: Path, browser: Any) -> None:
    """It has the sections of the text, asks for nothing else, and fits a phone; what users name is no markup."""
    for name, workers in (("<b>a.json", "1"), ("b.json", "2")):
        assert cli(*TINY, "--num-workers", workers, "--explain", "--report-json", name).returncode == 0
    done = cli("<b>a.json", "b.json", "--html", "diff.html", module="dynamo.replay.diff")
    assert (done.returncode, done.stderr) == (0, "")
    with watched(browser, folder / "shown.html") as (open_page, asked):
        shown = open_page((folder / "diff.html").read_text(), 360)
        titles = shown.locator("h2").all_text_contents()
        assert titles[0] == "Metrics"
        assert all(f"\n{title}\n" in done.stdout for title in titles)
        assert "<b>a.json" in shown.locator("header").inner_text()
        assert shown.get_by_text("Time per Output Token avg").count() == 1
        assert shown.evaluate("document.documentElement.scrollWidth") <= 360
    assert len(set(asked)) == 1
    message = refused(cli("b.json", "b.json", "--html", ".", module="dynamo.replay.diff"))
    assert "--html: cannot write" in message
