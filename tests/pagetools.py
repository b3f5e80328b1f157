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


FAINT = """() => {
  const parse = text => text.match(/[\\d.]+/g).map(Number);
  const linear = c => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  const light = rgb => rgb.slice(0, 3).map(c => linear(c / 255))
    .reduce((sum, c, at) => sum + c * [0.2126, 0.7152, 0.0722][at], 0);
  const behind = element => {
    for (let at = element; at; at = at.parentElement) {
      const found = parse(getComputedStyle(at).backgroundColor);
      if (found.length < 4 || found[3] === 1) return found;
    }
    return [255, 255, 255];
  };
  const found = [];
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some(node => node.nodeType === 3 && node.data.trim());
    if (!own || !element.checkVisibility() || element.disabled || element.tagName === "OPTION") continue;
    const style = getComputedStyle(element), inSvg = element instanceof SVGElement;
    const a = light(parse(inSvg ? style.fill : style.color)), b = light(behind(element));
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const size = parseFloat(style.fontSize), large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    const name = `${element.tagName} ${element.className.baseVal ?? element.className}`;
    if (contrast < (large ? 3 : 4.5)) found.push(`${name}: ${contrast.toFixed(2)}`);
  }
  return [...new Set(found)];
}"""


def faint(shown: Any) -> list[str]:
    """The texts of a page whose contrast is below what WCAG 2 wants at level AA."""
    found: list[str] = shown.evaluate(FAINT)
    return found


def brightness(colour: str) -> int:
    """The sum of a colour's parts, from ``rgb(r, g, b)``."""
    return sum(int(part) for part in colour.removeprefix("rgb(").removesuffix(")").split(","))
