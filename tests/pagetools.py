"""Shared by the tests of pages for a browser: opening them, and reading what is in them."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any


@contextlib.contextmanager
def watched(browser: Any, file: Path) -> Iterator[tuple[Callable[..., Any], list[str]]]:
    """A function that opens a text as a page, and the addresses that pages ask for. None may report an error."""
    asked: list[str] = []
    errors: list[str] = []
    pages: list[Any] = []

    def open_page(text: str, width: int = 1200, colours: str = "light") -> Any:
        file.write_text(text)
        shown = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=colours)
        pages.append(shown)
        shown.on("request", lambda request: asked.append(request.url))
        shown.on("pageerror", lambda error: errors.append(str(error)))
        shown.on("console", lambda message: errors.append(message.text))
        shown.goto(file.as_uri())
        return shown

    yield open_page, asked
    assert errors == []
    for shown in pages:
        shown.close()


def embedded_in(text: str) -> Any:
    """The data that the scripts of a page work on."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    return json.loads(found[1])


def brightness(colour: str) -> int:
    """The sum of a colour's parts, from ``rgb(r, g, b)``."""
    return sum(int(part) for part in colour.removeprefix("rgb(").removesuffix(")").split(","))
