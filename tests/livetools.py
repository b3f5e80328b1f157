"""Shared by the tests of live workers: a tiny model, and workers in processes of their own."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, TypeVar

PATIENCE_S = 300.0  # for what never comes
WORDS = ["<unk>", "<s>", "</s>", *(f"tok{i}" for i in range(3, 2000))]

_Value = TypeVar("_Value")


def make_model(folder: Path) -> Path:
    """A model whose every token is a word: tok17 is token 17."""
    special = [
        {
            "id": i,
            "content": word,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
        for i, word in enumerate(WORDS[:3])
    ]
    files: dict[str, Any] = {
        "tokenizer.json": {
            "version": "1.0",
            "truncation": None,
            "padding": None,
            "added_tokens": special,
            "normalizer": None,
            "pre_tokenizer": {"type": "WhitespaceSplit"},
            "post_processor": None,
            "decoder": None,
            "model": {"type": "WordLevel", "vocab": {word: i for i, word in enumerate(WORDS)}, "unk_token": "<unk>"},
        },
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "bos_token": "<s>",
            "eos_token": "</s>",
            "unk_token": "<unk>",
            "model_max_length": 8192,
            "chat_template": "{% for m in messages %}{{ m['content'] }} {% endfor %}",
        },
        "config.json": {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "hidden_size": 64,
            "vocab_size": len(WORDS),
            "max_position_embeddings": 8192,
            "torch_dtype": "bfloat16",
            "eos_token_id": 2,
            "bos_token_id": 1,
        },
        "generation_config.json": {"eos_token_id": 2, "bos_token_id": 1},
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content))
    return folder


def until(what: Callable[[], _Value | None], patience_s: float = PATIENCE_S) -> _Value:
    """Waits for a true value."""
    deadline = time.monotonic() + patience_s
    while True:
        value = what()
        if value:
            return value
        assert time.monotonic() < deadline, "it did not come in time"
        time.sleep(0.05)


_claims: list[IO[str]] = []


def free_port() -> int:
    """A port below those that the system gives to connections, which could take it before its server does.

    It is claimed as long as this process runs, so that tests in another one do not take it either.
    """
    folder = Path(tempfile.gettempdir(), f"dynosim-ports-{os.getuid()}")
    folder.mkdir(exist_ok=True)
    while True:
        port = random.randrange(15_000, 32_000)
        claim = (folder / str(port)).open("w")
        try:
            fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with socket.socket() as s:
                s.bind(("", port))
        except OSError:
            claim.close()
            continue
        _claims.append(claim)
        return port


class Service:
    """A process with its log, for as long as the block lasts."""

    def __init__(self, command: Sequence[str], log: Path, environment: Mapping[str, str]) -> None:
        self.log_path = log
        with log.open("w") as stream:
            # Workers of ai-dynamo say where a model's files are only if its name is a folder where they run.
            self.process = subprocess.Popen(
                command,
                stdout=stream,
                stderr=stream,
                cwd=log.parent,
                env={**os.environ, **environment},
                start_new_session=True,
            )

    def __enter__(self) -> Service:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    @property
    def log(self) -> str:
        return self.log_path.read_text()

    def wait_for(self, text: str) -> None:
        def there() -> bool:
            assert self.process.poll() is None, self.log
            return text in self.log

        until(there)

    def stop(self, number: int = signal.SIGTERM) -> None:
        os.kill(self.process.pid, number)

    def wait(self) -> int:
        return self.process.wait(timeout=PATIENCE_S)


def records(root: Path, bucket: str = "instances") -> list[dict[str, Any]]:
    folder = root / "v1" / bucket
    if not folder.exists():
        return []
    found = []
    for path in sorted(folder.iterdir()):
        with contextlib.suppress(FileNotFoundError, json.JSONDecodeError):
            if not path.name.startswith("."):
                found.append(json.loads(path.read_text()))
    return found


def get(url: str, patience_s: float = PATIENCE_S) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=patience_s) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def post(url: str, body: Any, headers: Mapping[str, str] | None = None) -> tuple[int, str]:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(url, data=data, headers={"content-type": "application/json", **(headers or {})})
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def stream(url: str, body: Any) -> Iterator[dict[str, Any]]:
    """The lines of an answer, or the events of one from a frontend, as they come."""
    request = urllib.request.Request(url, data=json.dumps(body).encode(), headers={"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as response:
        for line in response:
            text = line.decode().strip().removeprefix("data: ")
            if text and text != "[DONE]":
                yield json.loads(text)


def mocker(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "dynamo.mocker", *arguments]
