"""Shared by the tests of --frontend: a folder where it meets workers, which are processes of their own."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from livetools import PATIENCE_S, Service, get, make_model, mocker, post, records, until
from servetools import Server

# A token takes about 60 ms.
STEADY = ("--decode-speedup-ratio", "0.1")


class Frontend(Server):
    """A frontend at a port that the system has chosen."""

    def __init__(self, folder: Path, environment: Mapping[str, str], *arguments: str) -> None:
        Service.__init__(
            self, mocker("--frontend", "--http-port", "0", *arguments), folder / "frontend.log", environment
        )

    def models(self) -> list[str]:
        return [model["id"] for model in json.loads(get(self.url + "/v1/models")[1])["data"]]

    def until_models(self, *names: str) -> None:
        until(lambda: sorted(self.models()) == sorted(names))

    def complete(
        self, prompt: str, max_tokens: int = 4, model: str = "tiny", **more: Any
    ) -> tuple[int, dict[str, Any]]:
        body = {"model": model, "prompt": prompt, "max_tokens": max_tokens, **more}
        status, text = post(self.url + "/v1/completions", body)
        return status, json.loads(text)


class Meeting:
    """Workers and frontends that find each other in a folder."""

    def __init__(self, folder: Path, environment: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self.model = make_model(folder / "tiny")
        self.root = folder / "kv"
        self.environment = {
            "DYN_DISCOVERY_BACKEND": "file",
            "DYN_FILE_KV": str(self.root),
            "DYN_TCP_RPC_HOST": "127.0.0.1",
        }
        self.environment |= {"DYN_TCP_RESPONSE_STREAM_HOST": "127.0.0.1", **(environment or {})}
        self.stack = ExitStack()
        self.started = 0

    def workers(self, *arguments: str, name: str = "tiny", **environment: str) -> Service:
        self.started += 1
        command = mocker("--model-path", str(self.model), "--model-name", name, *arguments)
        log = self.folder / f"workers-{self.started}.log"
        return self.stack.enter_context(Service(command, log, {**self.environment, **environment}))

    def frontend(self, *arguments: str, **environment: str) -> Frontend:
        front = Frontend(self.folder, {**self.environment, **environment}, *arguments)
        return self.stack.enter_context(front)

    def instances(self) -> list[dict[str, Any]]:
        return [record for record in records(self.root) if record["endpoint"] == "generate"]

    def until_known(self, front: Frontend, workers: int) -> None:
        """Waits until the frontend has found so many workers in all."""

        def known() -> bool:
            assert front.process.poll() is None, front.log
            return front.log.count('msg="a worker has come"') - front.log.count('msg="a worker has gone"') == workers

        until(known)


@contextmanager
def meeting(folder: Path, environment: Mapping[str, str] | None = None) -> Iterator[Meeting]:
    """A place to meet, whose processes end with the block."""
    place = Meeting(folder, environment)
    with place.stack:
        yield place


def kill(service: Service) -> None:
    """Ends a process as if its machine had failed."""
    os.kill(service.process.pid, 9)
    service.process.wait(timeout=PATIENCE_S)
