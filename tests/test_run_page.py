"""The page about a run, in a browser, in narrow and wide windows, light and dark; and plots for notebooks."""

from __future__ import annotations

import html
import json
import re
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Cli, refused, row, write_trace
from pagetools import brightness, embedded_in, faint, watched

from dynamo import sweep
from dynamo._core import RunResult
from dynamo.replay import Report, artifacts, planned, requests, run_synthetic_trace_replay, run_trace_replay
from dynamo.replay.page import as_html, data

TRACE = str(Path(__file__).parent.parent / "examples/traces/conversation_400.jsonl.gz")
ENGINE = {"block_size": 64, "num_gpu_blocks": 2000}
SHOWN = {"attribution": True, "timeseries_step": "1s"}
HOSTILE = '</script><img src=x onerror="document.title=1">.jsonl'


@pytest.fixture(scope="module")
def report() -> Report:
    return run_trace_replay(
        TRACE, num_workers=4, router_mode="kv_router", extra_engine_args=ENGINE, sla_ttft_ms=2000, **SHOWN
    )


@pytest.fixture(scope="module")
def pools() -> Report:
    return run_trace_replay(
        TRACE,
        num_prefill_workers=2,
        num_decode_workers=3,
        prefill_engine_args={"worker_type": "prefill", "kv_bytes_per_token": 131072, "kv_transfer_bandwidth": 8},
        decode_engine_args={"worker_type": "decode"},
        router_mode="kv_router",
        **SHOWN,
    )


@pytest.fixture
def opened(folder: Path, browser: Any) -> Iterator[Callable[..., Any]]:
    """Opens a page, which must ask for nothing else and report no error until the test is over."""
    file = folder / "run.html"
    with watched(browser, file) as (open_page, asked):
        yield open_page
    assert set(asked) == {file.as_uri()}


@pytest.mark.parametrize("width", [360, 1200])
@pytest.mark.parametrize("colours", ["light", "dark"])
def test_in_a_window(report: Report, pools: Report, opened: Callable[..., Any], width: int, colours: str) -> None:
    for run in (report, pools):
        shown = opened(as_html(run), width, colours)
        meaning = shown.get_by_text("One number of each request: the mean gap")
        assert not meaning.is_visible()
        shown.get_by_text("Time per Output Token (ms)").click()
        assert meaning.is_visible()
        shown.get_by_text("Provenance: version").click()
        assert shown.title() == "Run of 400 requests"
        # Tables scroll by themselves; the page does not scroll sideways.
        assert shown.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        ink, paper = (
            shown.evaluate(f"getComputedStyle(document.body).{name}") for name in ("color", "backgroundColor")
        )
        assert (brightness(ink) < brightness(paper)) == (colours == "light")
        assert faint(shown) == []
        assert shown.evaluate(
            """[...document.querySelectorAll('svg text')].every(text => {
                const inner = text.getBoundingClientRect(), outer = text.closest('svg').getBoundingClientRect();
                return inner.left >= outer.left - 1 && inner.right <= outer.right + 1 && inner.top >= outer.top - 1;
            })"""
        )


def test_what_it_shows(report: Report, opened: Callable[..., Any]) -> None:
    shown = opened(as_html(report, "python -m dynamo.replay TYPED"))
    cards = shown.locator("article").all_inner_texts()
    assert any("p99 time to first token" in card and f"{report['p99_ttft_ms'] / 1000:,.2f} s" in card for card in cards)
    assert any("Within the service level" in card for card in cards)
    assert shown.locator("#summary tr").count() > 8
    # Attribution: the pieces of a bar are as long as the parts of the latency.
    bar = shown.locator("#parts .part").first.locator(".stack > span")
    widths = [piece.bounding_box()["width"] for piece in bar.all()]
    split = report["attribution"]["ttft_ms"]["split"]["mean"]
    parts = [split[name] for name in data.part_names(report["attribution"]) if split[name] > 0]
    expected = np.array(parts) / sum(parts) * sum(widths)
    assert widths == pytest.approx(expected.tolist(), abs=len(parts))
    # Distributions.
    assert shown.locator("#cdfs .curve").count() == 3
    shown.locator("#cdfs svg").first.hover()
    assert re.fullmatch(r"up to [\d.,]+ ms", shown.locator(".tip b").inner_text())
    assert re.search(r"requests: [\d.]+ %", shown.locator(".tip").inner_text())
    before = shown.locator("#cdfs .curve").first.get_attribute("d")
    shown.locator("#log").check()
    assert shown.locator("#cdfs .curve").first.get_attribute("d") != before
    # Axes have names with units, and each chart a table of what the pointer would show.
    assert shown.locator("#cdfs svg").first.locator("text.name").all_text_contents() == ["ms", "% of requests"]
    assert shown.locator("#cdfs table").count() == 0
    shown.locator("#cdfs .values summary").first.click()
    shown.locator("#cdfs table tbody tr").last.wait_for()  # it is filled when it is opened, not at once
    assert shown.locator("#cdfs table").first.locator("tbody tr").count() == 20
    assert shown.locator("#cdfs table tbody tr").last.inner_text().endswith("%")
    shown.locator("#lines .values summary").click()
    shown.locator("#lines tbody tr").last.wait_for()
    columns = shown.locator("#lines thead th").all_inner_texts()
    assert columns == ["worker 0", "worker 1", "worker 2", "worker 3", "cluster"]
    # Over time: the cluster and four workers, and a row for each worker.
    assert shown.locator("#lines .curve").count() == 5
    assert shown.locator("#heat canvas").get_attribute("height") == "4"
    shown.locator("#figure").select_option("kv_use")
    assert shown.locator("#lines svg").get_attribute("aria-label") == "KV use (part of the blocks) over time"
    shown.locator("#heat canvas").hover()
    assert shown.locator(".tip b").inner_text().startswith("worker ")
    colours = shown.evaluate(
        """() => { const canvas = document.querySelector('#heat canvas');
        const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
        const colour = at => pixels.slice(4 * at, 4 * at + 3).join();
        return new Set(Array.from({length: pixels.length / 4}, (_, at) => colour(at))).size; }"""
    )
    assert colours > 20
    # Balance, slowest requests, command.
    requests = [int(text) for text in shown.locator(".balance tbody td:nth-child(2)").all_inner_texts()]
    assert requests == np.bincount(report.requests["decode_worker_idx"]).tolist()
    slow = [
        int(text) for text in shown.locator(".slow").first.locator("tr td:first-child:not(.story)").all_inner_texts()
    ]
    rows = report.requests
    worst = np.argsort(-np.nan_to_num(rows["ttft_ms"]), kind="stable")[: len(slow)]
    assert slow == rows["trace_row"][worst].tolist()
    story = shown.locator(".slow .story").first.inner_text()
    assert "in the queue of the worker" in story or "for the router to choose a worker" in story
    assert shown.locator(".slow .stack").count() == 2 * len(slow)
    assert shown.locator("#command").inner_text() == "python -m dynamo.replay TYPED"
    assert report["provenance"]["inputs"][0]["sha256"] in shown.content()


def test_two_pools(pools: Report, opened: Callable[..., Any]) -> None:
    shown = opened(as_html(pools))
    assert shown.locator(".balance").count() == 2
    assert shown.locator("#lines-legend").inner_text().startswith("prefill worker 0")
    assert "→" in shown.locator(".slow td:nth-child(6)").first.inner_text()
    shown.locator("#figure").select_option("hit_rate")
    assert shown.locator("#heat canvas").get_attribute("height") == "2"  # decode workers compute no prompts


def test_the_command_line_writes_it(cli: Cli, folder: Path) -> None:
    made = ["--input-tokens", "200", "--output-tokens", "20", "--request-count", "30", "--num-workers", "2"]
    done = cli(*made, "--html", "pages/run.html")
    assert done.returncode == 0, done.stderr
    text = (folder / "pages/run.html").read_text()
    assert "python -m dynamo.replay --input-tokens 200 --output-tokens 20" in text
    embedded = embedded_in(text)
    assert embedded["parts"]["bars"][0]["rows"][0]["name"] == "mean"
    assert embedded["series"]["workers"] == ["worker 0", "worker 1"]
    assert text.count("<script") == 2
    assert "<link" not in text
    assert set(re.findall(r"https?://[^\"]*", text)) == {"http://www.w3.org/2000/svg"}  # a name, not an address
    assert "want true, or no html" in refused(cli(*made, "--html", "x.html", "--config", rows_off(folder)))


def rows_off(folder: Path) -> str:
    (folder / "off.json").write_text('{"rows": false}')
    return "off.json"


def test_the_command_of_a_python_run_repeats_it(cli: Cli, folder: Path) -> None:
    trace = write_trace(folder / "t.jsonl", [row(at * 30, 300, 20, [at % 3, at]) for at in range(20)])
    first = run_trace_replay(trace, num_workers=2, extra_engine_args={"max_num_seqs": 4}, max_sim_time_ms=500.0)
    command = re.search(r'<pre id="command">(.*?)</pre>', as_html(first), re.DOTALL)
    assert command is not None
    words = shlex.split(html.unescape(command[1]))
    assert words[:3] == ["python", "-m", "dynamo.replay"]
    done = cli(*words[3:], "--report-json", "again.json")
    assert done.returncode == 0, done.stderr
    again = json.loads((folder / "again.json").read_text())
    assert again["mean_ttft_ms"] == first["mean_ttft_ms"]
    assert again["duration_ms"] == first["duration_ms"]


def test_nothing_of_a_user_is_markup(folder: Path) -> None:
    trace = write_trace(folder / "t.jsonl", [row(0, 300, 20, [1])])
    found = run_trace_replay(trace, **SHOWN)
    found["provenance"]["arguments"]["trace_files"] = [HOSTILE]
    text = as_html(found)
    assert text.count("<script") == 2
    assert "<img" not in text


def test_without_tokens_and_without_series(opened: Callable[..., Any], tmp_path: Path) -> None:
    nothing = tmp_path / "nothing.html"
    with (
        pytest.warns(UserWarning, match="can never run"),
        pytest.raises(RuntimeError, match="every request was rejected"),
    ):
        run_synthetic_trace_replay(500, 5, 3, extra_engine_args={"num_gpu_blocks": 2}, html=nothing, **SHOWN)
    shown = opened(nothing.read_text())
    assert "No request has got a token." in shown.locator("main").inner_text()
    bare = opened(as_html(run_synthetic_trace_replay(500, 5, 3)))
    assert not bare.locator("#series-section").is_visible()
    assert not bare.locator("#parts-section").is_visible()
    assert bare.locator("#cdfs .curve").count() == 3


def test_many_requests_and_workers_stay_small(opened: Callable[..., Any]) -> None:
    report = run_synthetic_trace_replay(
        64, 40, 12_000, num_workers=500, arrival_interval_ms=2, timeseries_step="100ms", attribution=True
    )
    text = as_html(report)
    assert len(text) < 10e6
    series = embedded_in(text)["series"]
    assert len(series["workers"]) * series["windows"] <= data.MOST_CELLS
    total = sum(value or 0 for line in figure(series, "completions_per_s") for value in line)
    assert total * series["step_ms"] / 1000 == pytest.approx(12_000, rel=0.02)
    shown = opened(text)
    assert shown.locator("#heat canvas").get_attribute("height") == "500"


def test_the_command_keeps_no_column_of_requests(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of a million requests fill the memory: each is fetched where it is needed, and only a few times."""
    fetched: list[str] = []
    kept: list[requests.Requests] = []

    class Watched(requests.Requests):
        def __init__(self, source: RunResult, **options: Any) -> None:
            super().__init__(source, **options)
            kept.append(self)

        def _fetch(self, name: str) -> Any:
            fetched.append(name)
            return super()._fetch(name)

    monkeypatch.setattr(requests, "Requests", Watched)
    sizes = {"input_tokens": 64, "output_tokens": 4, "request_count": 50}
    config = {"kind": "synthetic", **sizes, "attribution": True, "timeseries_step": "1s", "html": "run.html"}
    result = planned.run({**config, "rows": True}, None)
    artifacts.write_of(config, result)
    assert len(embedded_in(Path("run.html").read_text())["cdfs"]) == 3
    (rows,) = kept
    assert not rows._fetched
    assert max(map(fetched.count, fetched)) <= 4, fetched
    assert rows["ttft_ms"] is not rows["ttft_ms"]


def figure(series: dict[str, Any], name: str) -> list[list[float | None]]:
    found = next(found for found in series["figures"] if found["name"] == name)
    return [found["cluster"]]


def test_plots(report: Report) -> None:
    names = [curve.name for curve in report.plot.cdf().data]
    assert names == ["ttft_ms", "itl_ms", "e2e_latency_ms"]
    (curve,) = report.plot.cdf("ttft_ms", log=True).data
    assert (curve.x[0], curve.x[-1]) == (np.nanmin(report.requests["ttft_ms"]), np.nanmax(report.requests["ttft_ms"]))
    lines = report.plot.timeline("kv_use").data
    assert [line.name for line in lines] == ["cluster", "agg 0", "agg 1", "agg 2", "agg 3"]
    assert len(report.plot.timeline("kv_use", workers=False).data) == 1
    bars = report.plot.attribution("e2e_latency_ms").data
    total = sum(bar.x[0] for bar in bars)
    assert total == pytest.approx(report["mean_e2e_latency_ms"])


def test_a_notebook_shows_the_page(report: Report, browser: Any) -> None:
    """In a frame of its own, as an output that needs no kernel."""
    explored = report.explore(height=700)
    assert explored.html == as_html(report)
    assert repr(explored) == f"a page of {len(explored.html):,} characters, which notebooks show"
    shown = browser.new_page()
    errors: list[str] = []
    shown.on("pageerror", lambda error: errors.append(str(error)))
    shown.set_content(f"<title>notebook</title>{explored._repr_html_()}")
    inner = shown.frame_locator("iframe")
    inner.locator("#cdfs svg").first.wait_for()
    assert inner.locator("#cdfs svg").count() == 3
    assert inner.locator("#lines svg").is_visible()
    assert shown.locator("iframe").bounding_box()["height"] == 700
    assert shown.title() == "notebook"
    shown.close()
    assert errors == []
    with pytest.raises(ValueError, match="height: got 0, want an integer >= 1"):
        report.explore(height=0)
    with pytest.raises(TypeError, match="height: got "):
        report.explore(height="x")  # type: ignore[arg-type]


def test_plots_that_cannot_be_made(report: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    bare = run_synthetic_trace_replay(100, 10, 5)
    with pytest.raises(KeyError, match="give it timeseries_step='1s'"):
        bare.plot.timeline()
    with pytest.raises(ValueError, match="give it attribution=True"):
        bare.plot.attribution()
    with pytest.raises(KeyError, match='figure: got "kv", want one of'):
        report.plot.timeline("kv")
    with pytest.raises(ValueError, match="latency: got"):
        report.plot.attribution("ttft")
    monkeypatch.setitem(sys.modules, "plotly.graph_objects", None)
    with pytest.raises(ImportError, match=r"report.plot.cdf needs plotly .*: pip install 'dynosim\[plots\]'"):
        report.plot.cdf()


def test_a_sweep_writes_pages_of_runs(cli: Cli, folder: Path) -> None:
    made = {"input_tokens": 300, "output_tokens": 20, "request_count": 30}
    sweep.run({"run": made, "search": {"engine.speedup_ratio": [1, 2]}}, "out")
    done = cli("report", "out", "--runs", "front", module="dynamo.sweep")
    assert done.returncode == 0, done.stderr
    points = embedded_in((folder / "out/report.html").read_text())["points"]
    linked = {point["id"]: point["page"] for point in points if "page" in point}
    assert set(linked) == {point["id"] for point in points if point.get("front")}
    for page in linked.values():
        assert "<h1>Run of 30 requests</h1>" in (folder / "out" / page).read_text()
    other = next(point["id"] for point in points if point["id"] not in linked)
    assert cli("report", "out", "--runs", str(other), module="dynamo.sweep").returncode == 0
    assert (folder / f"out/runs/{other}.html").exists()
    assert '--runs: got "77", want front or ids' in refused(cli("report", "out", "--runs", "77", module="dynamo.sweep"))


def test_faults(opened: Callable[..., Any]) -> None:
    """A run with faults has a table of them, and shades in the charts over time."""
    run = run_synthetic_trace_replay(
        256,
        40,
        100,
        arrival_interval_ms=20.0,
        num_workers=3,
        faults=[
            {"kind": "crash", "at_ms": 400, "target": "worker:1", "duration_ms": 300},
            {"kind": "slow", "at_ms": 900, "target": "worker:0", "factor": 2},
        ],
        migration_limit=1,
        **{**SHOWN, "timeseries_step": "50ms"},
    )
    for width in (360, 1200):
        shown = opened(as_html(run), width)
        assert shown.locator("#faults tbody tr").count() == 2
        cells = shown.locator("#faults tbody tr").first.locator("td").all_inner_texts()
        event = run["fault_events"][0]
        assert cells[:5] == ["0.4 s", "crash", "1", "300.0 ms", str(event["lost_attempts"])]
        assert any("Failed for good" in card for card in shown.locator("article").all_inner_texts())
        assert shown.locator("#lines .shade").count() == 2
        shown.locator("#figure").select_option("workers_working")
        chart = shown.locator("#lines svg")
        shade = shown.locator("#lines .shade").first
        middle = float(shade.get_attribute("x")) + float(shade.get_attribute("width")) / 2
        chart.hover(position={"x": middle, "y": 100})
        assert "fault: crash, worker 1" in shown.locator(".tip").inner_text()
        assert shown.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert embedded_in(as_html(run))["faults"] == [
        {"name": "crash, worker 1", "at": 0.4, "until": 0.7},
        {"name": "slow, worker 0", "at": 0.9, "until": None},
    ]
    drawn = run.plot.timeline("workers_working")
    assert [shape.x0 for shape in drawn.layout.shapes] == [0.4, 0.9]
    plain = run_synthetic_trace_replay(256, 40, 10, arrival_interval_ms=20.0, **SHOWN)
    assert "faults" not in embedded_in(as_html(plain))
    assert "Failed for good" not in as_html(plain)


def test_the_numbers_of_workers_of_a_planner(opened: Callable[..., Any]) -> None:
    """The head has all counts, a section each change, and a chart the number over time."""
    steps = [[5 * at, count] for at, count in enumerate((1, 2, 3, 4, 3))]
    run = run_trace_replay(
        TRACE,
        extra_engine_args=ENGINE,
        autoscaler={"policy": "schedule", "schedule": steps},
        max_sim_time_ms=40_000.0,
        **SHOWN,
    )
    counts = [(event["from"], event["to"]) for event in run["scaling_events"]]
    assert counts == [(1, 2), (2, 3), (3, 4), (4, 3)]
    text = as_html(run)
    assert "1 to 4 workers (from 1 to 3, 4 changes)" in text
    assert "<td class=text>4 → 3</td>" in text
    (found,) = [figure for figure in embedded_in(text)["series"]["figures"] if figure["name"] == "workers"]
    assert [found["cluster"][at] for at in (2, 7, 12, 17, 30)] == [1, 2, 3, 4, 3]
    shown = opened(text)
    shown.select_option("#figure", "workers")
    assert shown.locator("#lines .curve").count() == 1
    assert "1 worker," in as_html(run_trace_replay(TRACE, extra_engine_args=ENGINE, max_sim_time_ms=1000.0, **SHOWN))


def test_every_chart_of_a_latency_has_its_bound(opened: Callable[..., Any]) -> None:
    bounds = {"sla_ttft_ms": 2000, "sla_tpot_ms": 50, "sla_e2e_ms": 9000}
    run = run_trace_replay(TRACE, num_workers=4, extra_engine_args=ENGINE, **bounds, **SHOWN)
    text = as_html(run)
    assert "Service level: TTFT ≤ 2000 ms, time per output token ≤ 50 ms, latency ≤ 9000 ms" in text
    shown = opened(text)
    assert shown.locator("#cdfs .bound").count() == 3
    assert shown.locator("#cdfs .bound-name").all_text_contents() == ["SLA 2,000 ms", "SLA 50 ms", "SLA 9,000 ms"]
    assert shown.locator("#parts").get_by_text("SLA 2,000 ms").count() == 1
    assert shown.locator("#parts .bound-mark").count() > 0
    shown.select_option("#figure", "ttft_p99_ms")
    assert shown.locator("#lines .bound").count() == 1
    shown.select_option("#figure", "waiting")
    assert shown.locator("#lines .bound").count() == 0
