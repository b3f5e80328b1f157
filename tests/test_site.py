"""The style of the documentation site, on the elements that its theme makes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

STYLE = (Path(__file__).parent.parent / "docs/tables.css").read_text()
PAGE = f"""<style>pre, code {{ margin: 0; display: block; font-size: 16px }}
.md-code__nav {{ position: absolute; top: 0; right: 0; height: 30px; width: 30px }} pre {{ position: relative }}
{STYLE}</style><body data-md-color-scheme=SCHEME><div class=md-typeset>
<table id=bare><thead><tr><th></th><th></th></tr></thead><tbody><tr><td>a</td><td>b</td></tr></tbody></table>
<table id=named><thead><tr><th>x</th><th></th></tr></thead><tbody><tr><td>a</td><td>b</td></tr></tbody></table>
<pre><nav class=md-code__nav></nav><code><span>python -m dynamo.replay --num-workers 2</span></code></pre>
<img src="data:,"></div>"""


def test_the_style_of_the_site(browser: Any) -> None:
    """No empty heading, no copy button over a command, no white picture at night."""
    shown = browser.new_page()
    filters = []
    for scheme in ("default", "slate"):
        shown.set_content(PAGE.replace("SCHEME", scheme))
        filters.append(shown.locator("img").evaluate("found => getComputedStyle(found).filter"))
        assert not shown.locator("#bare thead").is_visible()
        assert shown.locator("#named thead").is_visible()
        button, text = shown.locator("nav").bounding_box(), shown.locator("span").bounding_box()
        assert text["y"] >= button["y"] + button["height"]
    assert filters[0] == "none"
    assert "invert" in filters[1]
