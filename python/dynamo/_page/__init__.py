"""What pages for a browser have in common: one file each, for phones, wide windows and paper, light and dark.

A page is a frame, ``frame.html``, which is the same for all, and a template of its main part, with the names of further
parts between ``@@`` and ``@@``; styles, scripts, and data for the scripts. The scripts put texts into the page as text
only, and the page forbids the browser everything else that could run.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

_FRAME, _SHARED_STYLE = "frame.html", "page.css"
SHARED_SCRIPTS = ("elements.js", "charts.js")
"""What is before the scripts of a page that has any."""


def whole(package: str, scripts: Sequence[str], parts: Mapping[str, str], data: Any) -> str:
    """Returns the text of a page.

    Args:
        package: The package with the template of the main part, ``page.html``, the styles ``page.css`` and the scripts.
        scripts: Names of the scripts, in their order.
        parts: What goes into the template and the frame, as HTML. MAIN, POLICY, STYLE, DATA and SCRIPT are added here.
        data: What the scripts work on, JSON values without NaN.
    """
    shared = "".join(_file(__name__, name) for name in SHARED_SCRIPTS if scripts)
    script = '"use strict";\n' + shared + "".join(_file(package, name) for name in scripts)
    hashed = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    every = {
        **parts,
        "POLICY": f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{hashed}'",
        "STYLE": _file(__name__, _SHARED_STYLE) + _file(package, "page.css"),
        # Within a script element only "<" could end it; it is in strings only, where JSON has another spelling for it.
        "DATA": json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c"),
        "SCRIPT": script,
    }
    template = _file(__name__, _FRAME).replace("@@MAIN@@", _file(package, "page.html"))
    pieces = template.split("@@")
    return "".join(every[piece] if at % 2 else piece for at, piece in enumerate(pieces))


def _file(package: str, name: str) -> str:
    return resources.files(package).joinpath(name).read_text(encoding="utf-8")


def short(number: float | None) -> float | int | None:
    """Returns a number with six digits, which is more than a chart shows. None for NaN."""
    if number is None or number != number:
        return None
    digits = float(f"{number:.6g}")
    return int(digits) if digits.is_integer() else digits


def breakable(name: str) -> str:
    """Returns a name as HTML that narrow windows break between its words only, after dots, underscores and slashes."""
    return re.sub(r"([._/])(?=.)", r"\1<wbr>", html.escape(name))
