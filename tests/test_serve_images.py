"""Images in prompts, with the tokenizer of a model folder: they are tokens where the chat template writes them."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest
from livetools import make_model, post
from servetools import FAST, Server, serving


def picture(width: int, height: int) -> str:
    """The data URL of a grey PNG."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = zlib.compress(b"\0" * (width + 1) * height)
    png = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")
    return "data:image/png;base64," + base64.b64encode(png).decode()


def asked(server: Server, model: str, *parts: dict[str, Any]) -> dict[str, Any]:
    body = {"model": model, "max_tokens": 1, "messages": [{"role": "user", "content": list(parts)}]}
    status, text = post(f"{server.url}/v1/chat/completions", body)
    return {"status": status, **json.loads(text)}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def image(url: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url}}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_model(tmp_path / "tiny")


def test_images(folder: Path, tmp_path: Path) -> None:
    models = [
        {"model_name": "sees", "image_tokens": 32, "image_tile": 100},
        {"model_name": "sees-more", "image_tokens": 100},
        {"model_name": "blind"},
    ]
    arguments = ("--model-path", str(folder), "--models", json.dumps(models), "--block-size", "4", *FAST)
    with serving(tmp_path / "server", *arguments) as s:

        def tokens(model: str, *parts: dict[str, Any]) -> int:
            answer = asked(s, model, *parts)
            assert answer["status"] == 200, answer
            counted: int = answer["usage"]["prompt_tokens"]
            return counted

        wide, other = picture(201, 100), picture(200, 101)
        assert tokens("sees", text("tok5 "), image(wide), text(" tok6 tok7")) == 3 + 3 * 32
        assert tokens("sees", image(wide), text(" tok6 "), image(other)) == 1 + (3 + 4) * 32
        assert tokens("sees-more", text("tok5 "), image(wide)) == 1 + 100
        again = asked(s, "sees", text("tok5 "), image(wide), text(" tok8 tok7"))
        assert again["usage"]["prompt_tokens_details"]["cached_tokens"] >= 92
        changed = asked(s, "sees", text("tok5 "), image(picture(202, 100)), text(" tok8 tok7"))
        assert changed["usage"]["prompt_tokens_details"]["cached_tokens"] <= 4
        refused = asked(s, "blind", image(wide))
        assert refused["status"] == 400
        assert "blind takes no images (--image-tokens says how many tokens one is)" in refused["error"]["message"]
