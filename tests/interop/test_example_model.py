"""The tour of the README: a frontend tokenizes with the model folder of the examples."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from livetools import post

TINY = Path(__file__).parents[2] / "examples" / "models" / "tiny"


def test_chat(site: Callable[..., Any]) -> None:
    s = site("kv")
    s.model = TINY
    s.workers("--num-workers", "2", DYN_TCP_RPC_HOST="")
    s.ready(2)
    body = {"model": "tiny", "messages": [{"role": "user", "content": "Héllo, 日本!"}], "max_tokens": 20}
    status, text = post(s.url + "/v1/chat/completions", body)
    done = json.loads(text)
    assert (status, done["usage"]["completion_tokens"]) == (200, 20)
    assert done["usage"]["prompt_tokens"] > 10
    assert len(done["choices"][0]["message"]["content"]) > 40
