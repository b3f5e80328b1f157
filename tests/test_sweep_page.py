"""The page of a sweep: in a browser, in narrow and wide windows, light and dark, and the measurements on it."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import Cli, refused
from pagetools import brightness, embedded_in, faint, watched

from dynamo import sweep
from dynamo.sweep import explorer, page, report
from dynamo.sweep.explorer import SweepExplorer
from dynamo.sweep.page import data, measured

HOSTILE = '</script><script>document.title = "broken"</script><img src=x onerror="document.title=1">&"\''
MADE = {"input_tokens": "uniform(100,500)", "output_tokens": 20, "request_count": 60, "arrival_interval_ms": 5}
SPEC = {
    "run": MADE,
    "search": {
        "topology": ["agg", "disagg"],
        "size": {"settings": {HOSTILE: {"engine.max_num_seqs": 4}, "large": {"engine.max_num_seqs": 64}}},
        "num_workers": [1, 2, 4],
        "num_prefill_workers": [1, 2],
    },
    "where": "gpus <= 3",
    "sla": {"p99_ttft_ms": 700},
    "seeds": 3,
}
KNOBS = {"topology": "agg", "size": "large", "num_workers": "1"}
Content = dict[str, Any]


@pytest.fixture(scope="module")
def content() -> Content:
    """A sweep with both topologies, intervals, and points that are out for several reasons."""
    found: Content = dict(sweep.run(SPEC).content)
    assert {point["topology"] for point in found["points"] if point["status"] == "ok"} == {"agg", "disagg"}
    assert len({point["reason"] for point in found["points"]}) > 2
    return found


def rows_of(content: Content) -> list[measured.Measured]:
    Path("measured.csv").write_text(
        "label,topology,size,num_workers,output_tok_s_per_gpu,tok_s_per_user,tok_s_per_user_low,tok_s_per_user_high\n"
        "one,agg,large,1.0,700,60,50,70\n<b>two</b>,,,,900,80,,\n"
    )
    return measured.read("measured.csv", content, ["output_tok_s_per_gpu", "tok_s_per_user"])


def test_the_command_writes_it(cli: Cli, folder: Path) -> None:
    spec = {"run": {**MADE, "output_tokens": 3}, "search": {"num_workers": [1, 2]}}
    (folder / "spec.json").write_text(json.dumps(spec))
    assert cli("run", "spec.json", "-o", "out", module="dynamo.sweep").returncode == 0
    first = (folder / "out/report.html").read_text()
    assert "<h1>Sweep of 2 points</h1>" in first
    (folder / "real.csv").write_text("num_workers,gpus,tok_s_per_user\n2,2,33\n")
    (folder / "out/runs").mkdir()
    (folder / "out/runs/2.html").write_text("a run")
    done = cli("report", "out", "--measured", "real.csv", module="dynamo.sweep")
    assert "out/report.html" in done.stdout
    embedded = embedded_in((folder / "out/report.html").read_text())
    assert [row["point"] for row in embedded["measured"]] == [2]
    assert [point.get("page") for point in embedded["points"]] == [None, "runs/2.html"]
    assert cli("report", "out", module="dynamo.sweep").returncode == 0
    assert embedded_in((folder / "out/report.html").read_text())["measured"] == []


def test_nothing_of_a_user_is_markup(content: Content, folder: Path) -> None:
    text = page.as_html(content, rows_of(content))
    assert text.count("<script") == 2
    assert "<img" not in text
    assert "<b>two" not in text
    labels = [name for point in embedded_in(text)["points"] for name in point["knobs"].values()]
    assert HOSTILE in labels


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("p99_tfft_ms\n3\n", 'unknown column "p99_tfft_ms", did you mean p99_ttft_ms?'),
        ("label,num_workers\na,1\n", "no column is a figure"),
        ("gpus,gpus\n1,2\n", "column gpus is there twice"),
        ("gpus\nmany\n", 'line 2: gpus: got "many", want a number'),
        ("gpus\nnan\n", 'line 2: gpus: got "nan", want a number'),
        ("gpus,label\n1\n", "line 2: got another number of cells than the header has"),
        ("gpus,gpus_low\n1,0\n", "line 2: gpus: got _low 0.0 and _high None, want both"),
        ("\0", "--measured: bad.csv: "),
        ("", "no column is a figure"),
        (None, "--measured: bad.csv: no such file"),
    ],
)
def test_bad_measurements(cli: Cli, folder: Path, text: str | None, message: str) -> None:
    sweep.run({"run": {**MADE, "output_tokens": 3}, "search": {"num_workers": [1]}}, "out")
    before = (folder / "out/report.html").read_text()
    if text is not None:
        (folder / "bad.csv").write_text(text)
    assert message in refused(cli("report", "out", "--measured", "bad.csv", module="dynamo.sweep"))
    assert (folder / "out/report.html").read_text() == before


def test_a_measurement_of_several_points_belongs_to_none(content: Content, folder: Path) -> None:
    (folder / "few.csv").write_text("topology,gpus\nagg,1\nnone,2\n")
    assert [row.point for row in measured.read("few.csv", content, ["gpus"])] == [None, None]


def test_a_large_sweep_keeps_the_best(content: Content, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = {point for ids in (*content["fronts"].values(), *content["hulls"].values()) for point in ids}
    monkeypatch.setattr(data, "MOST_POINTS", len(kept) + 1)
    text = page.as_html(content)
    assert len(kept) + 1 < len(content["points"])
    assert {point["id"] for point in embedded_in(text)["points"]} >= kept
    assert len(embedded_in(text)["points"]) == len(kept) + 1
    assert f"{len(kept) + 1} of {len(content['points'])} points are on this page" in text


@pytest.fixture
def opened(folder: Path, browser: Any) -> Iterator[Callable[..., Any]]:
    """Opens a page, which must ask for nothing else and report no error until the test is over."""
    file = folder / report.PAGE_FILE
    with watched(browser, file) as (open_page, asked):
        yield open_page
    assert asked == [file.as_uri()]


@pytest.mark.parametrize("width", [360, 1200])
@pytest.mark.parametrize("colours", ["light", "dark"])
def test_in_a_window(content: Content, opened: Callable[..., Any], width: int, colours: str) -> None:
    shown = opened(page.as_html(content, rows_of(content)), width, colours)
    shown.locator("#missed").check()
    for summary in shown.locator("summary").all():
        summary.click()
    assert shown.title() == f"Sweep of {len(content['points'])} points"
    # Tables and the second chart scroll by themselves; the page does not scroll sideways.
    assert shown.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    ink, paper = (shown.evaluate(f"getComputedStyle(document.body).{name}") for name in ("color", "backgroundColor"))
    assert (brightness(ink) < brightness(paper)) == (colours == "light")
    assert faint(shown) == []
    assert shown.evaluate(
        """[...document.querySelectorAll('#pareto text, #parallel text')].every(text => {
            const inner = text.getBoundingClientRect(), outer = text.closest('svg').getBoundingClientRect();
            return inner.left >= outer.left - 1 && inner.right <= outer.right + 1 && inner.top >= outer.top - 1;
        })"""
    )


def test_what_it_shows(content: Content, opened: Callable[..., Any]) -> None:
    shown = opened(page.as_html(content, rows_of(content)))
    fine = [point for point in content["points"] if point["status"] == "ok"]
    assert shown.locator("#pareto .mark[data-id]").count() == len(fine)
    assert shown.locator("#pareto .mark.front").count() == len(content["fronts"]["all"])
    assert shown.locator("#pareto .hull").count() == 2
    assert shown.locator("#pareto .bar:not(.measured)").count() >= 2 * len(content["fronts"]["all"])
    assert shown.locator("#pareto .mark.measured").count() == 2
    assert shown.locator("#pareto .pair").count() == 1
    assert shown.locator("#parallel .line").count() == len(fine)
    assert shown.locator(".influence").count() == 2
    out = [int(cell) for cell in shown.locator(".reasons td:first-child").all_inner_texts()]
    assert sum(out) == len(content["points"]) - len(fine)
    shown.locator("#missed").check()
    assert shown.locator("tbody tr.row").count() == len(content["points"])


def test_the_measured_error_is_beside_the_interval(content: Content, opened: Callable[..., Any]) -> None:
    """Where the error of durations is known, points of the front have a second bar as long as it says."""
    text = page.as_html(content)
    known = embedded_in(text)
    for timing in known["timings"]:
        assert timing["errors"] is None
        timing["errors"] = [0.25 if name == "tok_s_per_user" else None for name in known["figures"]]
    packed = json.dumps(known).replace("<", "\\u003c")
    data_of_page = re.compile(r'(<script type="application/json" id="data">).*?(</script>)', re.DOTALL)
    shown = opened(data_of_page.sub(lambda found: found[1] + packed + found[2], text))
    bars = shown.locator("#pareto .bar.error")
    front = content["fronts"]["all"]
    assert bars.count() == len(front)
    assert shown.locator("#legend").inner_text().count("measured error") == 1
    widths = [bar.bounding_box() for bar in bars.all()]
    speeds = [point["figures"]["tok_s_per_user"] for point in content["points"] if point["id"] in front]
    lengths = [max(box["width"], box["height"]) for box in widths]
    assert max(lengths) / min(lengths) == pytest.approx(max(speeds) / min(speeds), rel=0.05)


def test_hover_and_selection(content: Content, opened: Callable[..., Any]) -> None:
    (paired,) = (row.point for row in rows_of(content) if row.point)
    shown = opened(page.as_html(content, rows_of(content), {paired: f"runs/{paired}.html"}))
    by_id = {point["id"]: point for point in content["points"]}
    best = content["best"]["output_tok_s_per_gpu"]
    assert shown.locator("#detail pre").inner_text() == by_id[best]["command"]
    other = next(found for found in reversed(content["fronts"]["all"]) if found != best)
    mark = shown.locator(f'#pareto .mark[data-id="{other}"]')
    mark.scroll_into_view_if_needed()
    mark.hover(force=True)
    assert shown.locator(".tip b").inner_text() == f"Point {other}"
    mark.click(force=True)
    assert shown.locator("#detail pre").inner_text() == by_id[other]["command"]
    assert shown.locator("tr.selected td").first.inner_text() == str(other)
    assert shown.locator("#parallel .selected").count() == 1
    # By the keyboard: the leftmost point is the slowest for a user.
    shown.locator("#pareto svg").focus()
    shown.keyboard.press("Home")
    fine = [point for point in content["points"] if point["status"] == "ok"]
    slowest = min(point["figures"]["tok_s_per_user"] for point in fine)
    chosen = int(shown.locator("tr.selected td").first.inner_text())
    assert by_id[chosen]["figures"]["tok_s_per_user"] == slowest
    shown.keyboard.press("ArrowRight")
    assert int(shown.locator("tr.selected td").first.inner_text()) != chosen
    # A measurement stands beside the figures of its point, and the page of its run is linked.
    shown.locator("tr.row", has=shown.get_by_role("button", name=f"Point {paired}", exact=True)).click()
    assert "measured: one" in shown.locator("#detail").inner_text()
    assert shown.locator("#detail a").get_attribute("href") == f"runs/{paired}.html"


def test_filter_and_sort(content: Content, opened: Callable[..., Any]) -> None:
    shown = opened(page.as_html(content))
    fine = [point for point in content["points"] if point["status"] == "ok"]

    def ids() -> list[int]:
        return [int(text) for text in shown.locator("tr.row td:first-child").all_inner_texts()]

    shown.locator("#filter").fill("disagg tok_s_per_user>0")
    wanted = {point["id"] for point in fine if point["topology"] == "disagg"}
    assert set(ids()) == wanted
    assert shown.locator("#matches").inner_text() == f"{len(wanted)} of {len(content['points'])} points"
    assert shown.locator("#pareto .mark[data-id]").count() == len(wanted)
    shown.locator("#filter").fill("gpsu<3")
    assert shown.locator("#matches").inner_text() == "gpsu<3: no such knob or figure"
    shown.locator("#filter").fill("")
    shown.locator('#parallel [aria-label="filter by num_workers 2"]').press("Enter")
    assert shown.locator("#filter").input_value() == "num_workers=2"
    assert set(ids()) == {point["id"] for point in fine if point["knobs"].get("num_workers") == 2}
    shown.locator("#filter").fill("")
    shown.get_by_role("button", name="tokens/s per user").click()
    figures = {point["id"]: point["figures"]["tok_s_per_user"] for point in fine}
    assert [figures[found] for found in ids()] == sorted(figures.values())
    shown.get_by_role("button", name="tokens/s per user").press("Enter")
    assert [figures[found] for found in ids()] == sorted(figures.values(), reverse=True)
    assert shown.locator("th[aria-sort=descending]").count() == 1


def test_on_paper_and_empty(content: Content, opened: Callable[..., Any]) -> None:
    """Without any result it still opens; in print there are no controls, and colours are those of paper."""
    nothing = sweep.run({"run": MADE, "search": {"num_workers": [1]}, "sla": {"p99_ttft_ms": 0.001}}).content
    shown = opened(page.as_html(dict(nothing)), colours="dark")
    assert "No point keeps the SLA. The nearest is point 1" in shown.locator("main").inner_text()
    shown.emulate_media(media="print")
    assert not shown.locator("#controls").is_visible()
    assert shown.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--paper')").strip() == "#fff"


def test_the_chart_has_the_bounds_of_the_service_level(content: Content, opened: Callable[..., Any]) -> None:
    shown = opened(page.as_html(content))
    shown.locator("#missed").check()
    shown.locator("#x").select_option("p99_ttft_ms")
    assert shown.locator("#pareto .bound-name").all_text_contents() == ["SLA 700"]


def test_a_notebook_shows_the_page_and_runs_of_points(content: Content, browser: Any) -> None:
    """The script of the widget, with a model in place of a kernel: it gets the number of a point, and shows a page."""
    explored = SweepExplorer(content, 700)
    assert repr(explored) == f"a page of {len(content['points'])} points, which notebooks show"
    script = base64.b64encode(Path(explorer.__file__).with_name("page").joinpath("widget.mjs").read_bytes()).decode()
    shown = browser.new_page(viewport={"width": 1200, "height": 1600})  # frames out of sight are not drawn
    errors: list[str] = []
    shown.on("pageerror", lambda error: errors.append(str(error)))
    shown.set_content("<title>notebook</title><div id=cell></div>")
    shown.evaluate(
        """async ([page, script]) => {
            const { default: widget } = await import(`data:text/javascript;base64,${script}`);
            const values = { page, height: 700, picked: -1, run_page: "", status: "" }, hears = {};
            window.told = null;
            const put = (name, value) => { values[name] = value; };
            window.set = (name, value) => { put(name, value); hears[`change:${name}`].forEach(hear => hear()); };
            const on = (name, hear) => { (hears[name] = hears[name] || []).push(hear); };
            const model = { get: name => values[name], on, set: put, save_changes: () => { told = values.picked; } };
            widget.render({ model, el: document.getElementById("cell") });
        }""",
        [explored.html, script],
    )
    sweep = shown.frame_locator("iframe").first
    sweep.get_by_role("button", name="Show its run").click()
    shown.wait_for_function("() => window.told !== null")
    point = shown.evaluate("window.told")
    assert point == data.of(content, (), {})["best"]
    shown.evaluate("page => window.set('run_page', page)", explored.run_page(point))
    shown.frame_locator("iframe").nth(1).locator("#cdfs svg").first.wait_for()
    shown.close()
    assert errors == []
    for wrong in (-5, 10**6):
        with pytest.raises(ValueError, match="want the id of a point"):
            explored.run_page(wrong)


def test_explorers_say_what_went_wrong(content: Content) -> None:
    pytest.importorskip("anywidget")
    explored = SweepExplorer(content, 700)
    explored.widget.picked = 10**6
    assert explored.widget.status == "point: got 1000000, want the id of a point"
    explored.widget.picked = content["points"][0]["id"]
    assert explored.widget.run_page.startswith("<!doctype html>")
    shown, _ = explored._repr_mimebundle_()
    assert {"text/html", "application/vnd.jupyter.widget-view+json"} <= set(shown)
    assert "sandbox" in shown["text/html"]


def test_either_latency_between_tokens_may_be_bounded(cli: Cli, folder: Path) -> None:
    """By its name or the recorded one; texts and the page have the name, with what it means."""
    run = {"input_tokens": 300, "output_tokens": 5, "request_count": 4}
    sla = {"p99_token_gap_ms": 900, "max_itl_ms": 1000, "p99_tpot_ms": 800}
    spec = {"run": run, "search": {"num_workers": [1, 2]}, "sla": sla, "objectives": ["mean_token_gap_ms", "gpus"]}
    (folder / "spec.json").write_text(json.dumps(spec))
    done = cli("run", "spec.json", "-o", "out", module="dynamo.sweep")
    assert done.returncode == 0, done.stderr
    bounds = "p99_token_gap_ms <= 900, max_token_gap_ms <= 1000, p99_tpot_ms <= 800"
    assert f"SLA: rejected_requests <= 0, {bounds}\n" in done.stdout
    assert "Least mean_token_gap_ms: " in done.stdout
    shown = embedded_in((folder / "out/report.html").read_text())
    assert shown["titles"]["mean_itl_ms"] == "mean_token_gap_ms"
    assert shown["meanings"]["p99_itl_ms"].startswith("Every single gap")
    assert "AIPerf calls it" in shown["meanings"]["p99_tpot_ms"]
    (folder / "spec.json").write_text(json.dumps({**spec, "sla": {"p99_token_gab_ms": 9}}))
    done = cli("run", "spec.json", "-o", "other", module="dynamo.sweep")
    assert "did you mean p99_token_gap_ms?" in refused(done)


def test_a_phone_shows_names_values_and_axes_whole(content: Content, opened: Callable[..., Any]) -> None:
    """At 360 px no number breaks, names break between their words, and all axes are in the window."""
    shown = opened(page.as_html(content), 360)
    numbers = [found for found in shown.locator("article li b, #detail td").all() if found.inner_text().isdigit()]
    assert len(numbers) > 3
    for found in numbers:
        text = "element => { const range = document.createRange(); range.selectNodeContents(element);"
        assert found.evaluate(f"{text} return new Set([...range.getClientRects()].map(box => box.top)).size }}") == 1
    assert shown.locator(".influence summary span wbr").count() > 0
    assert shown.locator("#parallel .axis").count() > 3
    edges = shown.locator("#parallel > svg").bounding_box()
    assert edges["x"] + edges["width"] <= 360
    for found in shown.locator("#parallel .axis, #parallel .name").all():
        box = found.bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 360
    assert shown.evaluate("document.documentElement.scrollWidth") <= 360


@pytest.mark.parametrize("width", [360, 1280])
def test_long_values_are_broken_and_not_cut(content: Content, opened: Callable[..., Any], width: int) -> None:
    """Names of deployments, as recommendations have them: whole in the second chart, and in a table that fits."""
    knob = content["search"][0]["name"]
    long = [
        {**point, "knobs": {knob: f"{point['id'] % 3} prefill + 3 decode x vllm TP 2, 256 sequences, kv_router"}}
        for point in content["points"]
    ]
    shown = opened(page.as_html({**content, "search": content["search"][:1], "points": long}), width)
    labels = shown.locator("#parallel .value text").all_text_contents()
    assert len(labels) == 3
    assert all("kv_router" in label and "…" not in label for label in labels)
    assert shown.evaluate(
        """(() => {
            const labels = [...document.querySelectorAll('#parallel .value text')];
            const boxes = labels.map(text => text.getBoundingClientRect());
            return boxes.every((a, i) => boxes.every((b, j) => i === j || a.right <= b.left || b.right <= a.left
                || a.bottom <= b.top || b.bottom <= a.top));
        })()"""
    )
    table = shown.locator("#table .scroll")
    assert (table.evaluate("box => box.scrollWidth <= box.clientWidth")) == (width > 360)


def test_names_stay_whole_beside_long_values(content: Content, opened: Callable[..., Any]) -> None:
    """On a phone the value breaks, not the name, and the number of a point stays when its row is moved sideways."""
    words = "2 x sglang TP 2, 256 GB host, 64 sequences, 2048 tokens, kv_router, "
    long = [{**point, "knobs": {"deployment": 2 * words + str(point["id"])}} for point in content["points"]]
    search = [{**content["search"][0], "name": "deployment"}]
    shown = opened(page.as_html({**content, "search": search, "points": long}), 360)
    shown.locator("#table td button").first.click()
    lines = shown.evaluate(
        """(() => {
            const name = [...document.querySelectorAll('#detail ul.knobs li > :first-child')].find(
                each => each.textContent === 'deployment');
            const text = document.createRange();
            text.selectNodeContents(name);
            return new Set([...text.getClientRects()].map(box => box.top)).size;
        })()"""
    )
    assert lines == 1
    assert shown.locator("#sideways").is_visible()
    shown.locator("#table .scroll").evaluate("box => box.scrollLeft = 300")
    assert shown.locator("#table td button").first.bounding_box()["x"] >= 0
