"""The tables of fields and options that Go generates (``dynamo/_core/*_generated.json``)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from dynamo import _core


@cache
def table(name: str = "engine_args") -> Mapping[str, Any]:
    """Returns a generated table, as plain JSON values."""
    path = Path(_core.__file__).with_name(f"{name}_generated.json")
    content: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content
