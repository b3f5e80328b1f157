"""The page of a validation, in a browser: nothing is cut off or fetched, in narrow and wide windows, light and dark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pagetools import brightness

from dynamo.validate import page, scores
from dynamo.validate.measurement import ClosedLoop, Figures, Measurement, Replay
from dynamo.validate.report import Refused, Validation, as_json
from dynamo.validate.runner import Result
from dynamo.validate.simulate import Outcome
from dynamo.validate.static import Static

HOSTILE = '<script>document.title = "broken"</script>&"'


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
    for engine, model in (("vllm", "a-model-with-quite-a-long-name-for-a-narrow-window"), ("sglang", HOSTILE)):
        for number in range(1, 6):
            row = measured(number, engine, model)
            replay = Replay(row, {}, ClosedLoop(1, 1, 1, 1), ("this for that",))
            outcome = Outcome(Figures(mean=12.0 * 3**number), Figures(mean=4.0 + number))
            results.append(Result(replay, outcome, Static(3.0, 4.0)))
    refused = [Refused(measured(1, "vllm", "other"), f"no data {HOSTILE}")]
    return as_json(Validation(results, refused, {"scheduler": "engine", "engine": {}, "receive_interval": False}))


def test_the_page_is_one_file() -> None:
    text = page.as_html(example())
    assert "http" not in text
    assert "<script" not in text
    assert text.count("<circle") == 2 * 2 * 10 + 2 * 10  # all, by group, and by number of clients
    for grouping in scores.GROUPINGS:
        assert f"<h2>By {grouping}</h2>" in text


def test_a_page_of_nothing() -> None:
    nothing = as_json(Validation([], [], {"scheduler": "dynamo", "engine": {"calibration": "auto"}}))
    text = page.as_html(nothing)
    assert "0 of 0 measurements" in text
    assert "calibration auto" in text


@pytest.mark.parametrize("width", [360, 1200])
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
    charts = shown.locator("svg").all()
    assert len(charts) == 2 + 4 + 2
    for chart in charts:
        box = chart.bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width
        assert box["height"] > 100
    ink, paper = (shown.evaluate(f"getComputedStyle(document.body).{name}") for name in ("color", "backgroundColor"))
    assert (brightness(ink) < brightness(paper)) == (colours == "light")
    # What an axis says is inside of its chart.
    assert shown.evaluate(
        """[...document.querySelectorAll('svg text')].every(text => {
            const inner = text.getBoundingClientRect(), outer = text.closest('svg').getBoundingClientRect();
            return inner.left >= outer.left - 1 && inner.right <= outer.right + 1;
        })"""
    )
