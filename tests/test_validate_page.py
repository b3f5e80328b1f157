"""The page of a validation, in a browser: nothing is cut off or fetched, in narrow and wide windows, light and dark."""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any

import pytest
from pagetools import brightness, embedded_in, faint

from dynamo.validate import page, scores
from dynamo.validate.measurement import ClosedLoop, Figures, Measurement, Replay
from dynamo.validate.report import Refused, Validation, as_json
from dynamo.validate.runner import Result
from dynamo.validate.simulate import Outcome
from dynamo.validate.static import Static

HOSTILE = '<script>document.title = "broken"</script>&"'


LONG = "a-model-with-quite-a-long-name-for-a-narrow-window"


def measured(number: int, engine: str, model: str) -> Measurement:
    return Measurement(
        id=f"{model} {number}",
        source="inferencex",
        file="table.csv",
        engine=engine,
        model=f"org/{model}",
        system="h200_sxm",
        precision="fp8",
        concurrency=4**number,
        ttft=Figures(mean=10.0 * 3**number),
        tpot=Figures(mean=5.0 + number),
    )


def example() -> dict[str, Any]:
    """What a validation of ten measurements comes to."""
    results = []
    for engine, model in (("vllm", LONG), ("sglang", HOSTILE)):
        for number in range(1, 6):
            row = measured(number, engine, model)
            replay = Replay(row, {}, ClosedLoop(1, 1, 1, 1), ("this for that",))
            outcome = Outcome(Figures(mean=12.0 * 3**number), Figures(mean=4.0 + number))
            results.append(Result(replay, outcome, Static(3.0, 4.0)))
    refused = [Refused(measured(1, "vllm", "other"), f"no data {HOSTILE}")]
    return as_json(Validation(results, refused, {"scheduler": "engine", "engine": {}}))


def test_the_page_is_one_file() -> None:
    text = page.as_html(example())
    assert not set(re.findall(r"https?://[\w./]+", text)) - {"http://www.w3.org/2000/svg"}  # a name, nothing is fetched
    assert text.count("<script") == 2  # the data, and what all pages share with what draws these
    data = embedded_in(text)
    assert [len(data["points"][metric]) for metric in scores.METRICS] == [10, 10]
    assert data["points"]["ttft"][0] == [30, 36, 1, 1, f"vllm {LONG} h200_sxm fp8, 4 clients, None/None"]
    assert data["spans"]["ttft"] == [10, 10_000]
    assert [name for name, _ in data["errors"]["ttft"]["vllm"]] == ["1-8", "9-32", "33-64", "129-256", "257+"]
    titles = re.findall(r"<h2>By (.*?)</h2>", text)
    assert sorted("; ".join(titles).split("; ")) == sorted(scores.GROUPINGS)
    # Each engine ran one model on one GPU in one precision, so that only numbers of clients divide them further.
    assert titles == ["engine; model, GPU, precision; model; GPU; precision", "concurrency"]
    assert re.findall(r'<td class="name">([^<]*)</td><td>5</td>', text) == [
        f"sglang {html.escape(HOSTILE.split('/')[-1])} h200_sxm fp8", f"vllm {LONG} h200_sxm fp8",
    ]  # fmt: skip


def test_one_measurement_has_one_table() -> None:
    row = measured(1, "vllm", "m")
    result = Result(Replay(row, {}, ClosedLoop(1, 1, 1, 1), ()), Outcome(row.ttft, row.tpot), None)
    settings = {"scheduler": "engine", "engine": {}}
    text = page.as_html(as_json(Validation([result], [], settings)))
    assert text.count("<table>") == 1
    assert "AIC static" not in text
    assert "<details>" not in text


def test_a_page_of_nothing() -> None:
    nothing = as_json(Validation([], [], {"scheduler": "dynamo", "engine": {"calibration": "auto"}}))
    text = page.as_html(nothing)
    assert "0 of 0 measurements" in text
    assert "calibration auto" in text


@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("colours", ["light", "dark"])
def test_in_a_browser(folder: Path, browser: Any, width: int, colours: str) -> None:
    (folder / "accuracy.html").write_text(page.as_html(example()))
    shown = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=colours)
    asked: list[str] = []
    errors: list[str] = []
    shown.on("request", lambda request: asked.append(request.url))
    shown.on("pageerror", lambda error: errors.append(str(error)))
    shown.goto((folder / "accuracy.html").as_uri())
    for summary in shown.locator("summary").all():
        summary.click()
    assert asked == [(folder / "accuracy.html").as_uri()]
    assert errors == []
    assert shown.title() == "Accuracy against measured engines"
    # Tables scroll by themselves; the page does not scroll sideways.
    assert shown.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    if width > 1000:  # no column is out of sight, and the charts of both latencies are side by side
        assert shown.evaluate(
            "[...document.querySelectorAll('main > .scroll')].every(t => t.scrollWidth <= t.clientWidth)"
        )
        left, right = (chart.bounding_box() for chart in shown.locator(".pair svg").all())
        assert left["y"] == right["y"]
        assert left["width"] + right["width"] > 0.8 * width
    charts = shown.locator("svg").all()
    assert len(charts) == 2 + 4 + 2
    for chart in charts:
        box = chart.bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width
        assert box["height"] > 100
    ink, paper = (shown.evaluate(f"getComputedStyle(document.body).{name}") for name in ("color", "backgroundColor"))
    assert (brightness(ink) < brightness(paper)) == (colours == "light")
    assert faint(shown) == []
    # The pointer finds a point and what it stands for; the table behind the chart has all of them.
    dot = shown.locator(".pair circle").first
    dot.hover(force=True)
    assert shown.locator(".tip").is_visible()
    assert "simulated: " in shown.locator(".tip").inner_text()
    values = shown.locator(".pair table").first
    assert values.locator("tbody tr").count() == 10
    assert values.locator("thead th").all_inner_texts() == ["measured", "simulated", "error"]
    # What an axis says is inside of its chart.
    assert shown.evaluate(
        """[...document.querySelectorAll('svg text')].every(text => {
            const inner = text.getBoundingClientRect(), outer = text.closest('svg').getBoundingClientRect();
            return inner.left >= outer.left - 1 && inner.right <= outer.right + 1;
        })"""
    )
