"""Shared by the tests of the OpenAI-compatible server: one in a process of its own, and what its metrics say."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from livetools import Service, get, mocker, until

MODEL = "builtin:bytes"
# Whatever a test asks for is answered at once.
FAST = ("--speedup-ratio", "1000")
# A token takes the better part of a second, so that whatever happens to a long answer happens in the middle of it.
# Engines give up a request between two passes.
SLOW = ("--decode-speedup-ratio", "0.01")
DEPLOY = Path(__file__).parents[1] / "examples" / "serve" / "deploy"


def manifests() -> dict[tuple[str, str], dict[str, Any]]:
    """The manifests of a server, by kind and name."""
    documents = [d for path in sorted(DEPLOY.glob("*.yaml")) for d in yaml.safe_load_all(path.read_text())]
    found = {(d["kind"], d["metadata"]["name"]): d for d in documents}
    assert len(found) == len(documents)
    return found


class Server(Service):
    """A server at a port that the system has chosen."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        super().__init__(mocker("--standalone", "--http-port", "0", *arguments), folder / "server.log", {})

    @property
    def url(self) -> str:
        """Where it serves, without a path."""
        self.wait_for("msg=serving url=")
        return re.findall(r"msg=serving url=(\S+)", self.log)[0]

    @property
    def address(self) -> tuple[str, int]:
        host, port = self.url.split("://")[1].rsplit(":", 1)
        return host, int(port)

    def samples(self, name: str) -> dict[str, float]:
        """Values of a metric by the text of its labels."""
        page = get(self.url + "/metrics")[1]
        found = re.findall(rf"^{re.escape(name)}(?:{{(.*)}})? (\S+)$", page, re.MULTILINE)
        return {labels: float(value) for labels, value in found}

    def metric(self, name: str) -> float:
        """The sum of a metric over all labels."""
        return sum(self.samples(name).values())

    def until_metric(self, name: str, value: float) -> None:
        until(lambda: self.metric(name) == value or None)

    def until_idle(self) -> None:
        """Waits until no request is left, neither in the server nor in an engine, and no block is held."""
        for name in (
            "dynosim_requests_in_flight",
            "vllm:num_requests_running",
            "vllm:num_requests_waiting",
            "vllm:kv_cache_usage_perc",
        ):
            self.until_metric(name, 0)


@contextmanager
def serving(folder: Path, *arguments: str) -> Iterator[Server]:
    """A server for as long as the block lasts."""
    folder.mkdir(parents=True, exist_ok=True)
    with Server(folder, *arguments) as server:
        assert server.url
        yield server
