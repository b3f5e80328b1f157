"""The OpenAI-compatible server as a page in a browser sees it, whose origin is another one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pagetools import faint
from servetools import FAST, MODEL, serving

# The second argument of fetch makes the browser ask the server first.
ASK = """async ([url, model]) => {
    const headers = {"Content-Type": "application/json", "Authorization": "Bearer any", "X-Stainless-OS": "page"};
    const body = JSON.stringify({model, messages: [{role: "user", content: "Hi"}], max_tokens: 20, stream: true});
    try {
        const answer = await fetch(url + "/v1/chat/completions", {method: "POST", headers, body});
        return await answer.text();
    } catch (error) {
        return String(error);
    }
}"""


def ask(browser: Any, folder: Path, url: str) -> str:
    page = folder / "page.html"
    page.write_text("<!doctype html><title>A page</title>")
    shown = browser.new_page()
    shown.goto(page.as_uri())
    text: str = shown.evaluate(ASK, [url, MODEL])
    shown.close()
    return text


def test_any_page_may_call(browser: Any, tmp_path: Path) -> None:
    with serving(tmp_path, *FAST) as s:
        assert ask(browser, tmp_path, s.url).endswith("data: [DONE]\n\n")


def test_pages_of_other_origins_may_not(browser: Any, tmp_path: Path) -> None:
    with serving(tmp_path, *FAST, "--allowed-origins", '["https://example.com"]') as s:
        assert "TypeError" in ask(browser, tmp_path, s.url)


def shown(browser: Any, url: str, width: int, colours: str = "light") -> Any:
    """The page of a server once it has news of it."""
    page = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=colours)
    page.problems = []
    page.on("pageerror", lambda error: page.problems.append(str(error)))
    page.on("console", lambda said: page.problems.append(said.text) if said.type == "error" else None)
    page.route(
        "**/sim/**", lambda way: way.fulfill(response=way.fetch(url=way.request.url.replace("/sim/", "/"), timeout=0))
    )
    page.goto(url)
    page.locator("#status", has_text="ready").wait_for()
    return page


@pytest.mark.parametrize(
    ("prefix", "width", "colours"), [("/", 360, "light"), ("/sim/", 1280, "light"), ("/", 1280, "dark")]
)
def test_page(browser: Any, tmp_path: Path, prefix: str, width: int, colours: str) -> None:
    with serving(tmp_path, *FAST, "--num-workers", "3") as s:
        page = shown(browser, s.url + prefix, width, colours)
        page.locator("#workers tr").nth(2).wait_for()
        page.fill("#most", "7")
        page.click("#send")
        page.locator("#took", has_text="all after").wait_for()
        assert len(page.inner_text("#answer")) > 3
        page.locator("#requests tr td", has_text="length").first.wait_for()
        page.locator("#count", has_text="1").wait_for()
        for chart, line in ("#rates", "tokens/s"), ("#ttfts", "SLA 200 ms"):
            page.locator(f"{chart} svg text", has_text=line).first.wait_for()
            page.locator(f"{chart} summary").click()
            page.locator(f"{chart} table tbody td").first.wait_for(state="attached")
        page.hover("#ttfts svg", position={"x": 150, "y": 60})
        page.locator("#ttfts .tip", has_text="answers: ").wait_for()
        assert f"{s.url}{prefix}v1/chat/completions" in page.inner_text("#curl")
        assert '"max_tokens":7' in page.inner_text("#curl")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert faint(page) == []
        assert not page.problems
        page.close()


def test_page_asks_for_a_key(browser: Any, tmp_path: Path) -> None:
    with serving(tmp_path, *FAST, "--api-key", "secret") as s:
        page = browser.new_page()
        page.goto(s.url + "/")
        page.fill("#keyText", "secret")
        page.press("#keyText", "Enter")
        page.locator("#workers tr td", has_text="0").first.wait_for()
        page.close()


def test_no_page(browser: Any, tmp_path: Path) -> None:
    with serving(tmp_path, *FAST, "--no-page") as s:
        page = browser.new_page()
        page.goto(s.url + "/")
        assert page.inner_text("body").startswith("dynosim:")
        page.close()
