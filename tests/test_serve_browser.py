"""The OpenAI-compatible server as a page in a browser sees it, whose origin is another one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

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
