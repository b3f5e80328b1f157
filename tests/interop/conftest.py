"""Frontends of ai-dynamo before our workers. REFERENCE is a Python with release 1.3.1, REFERENCE_NEW one with 1.6.1."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from cluster import Kubernetes
from livetools import Service, get, make_model, mocker, post, until
from servers import Files, Servers, free_port


def interpreter(release: str) -> str:
    """The Python that has a release of ai-dynamo."""
    name = {"1.3": "REFERENCE", "1.6": "REFERENCE_NEW"}[release]
    if name not in os.environ:
        pytest.skip(f"{name} names no Python with ai-dynamo {release}.1")
    return os.environ[name]


RELEASES = pytest.mark.parametrize("release", ["1.3", "1.6"])


class Site:
    """A frontend and the workers behind it, which find each other in a folder or by way of servers."""

    def __init__(
        self,
        folder: Path,
        router_mode: str,
        *arguments: str,
        release: str = "1.3",
        own: bool = False,
        servers: Callable[[Path], Files | Servers | Kubernetes] = Files,
        **environment: str,
    ) -> None:
        self.folder, self.release, self.own = folder, release, own
        self.servers = servers(folder)
        self.root = folder / "kv"
        self.model = make_model(folder / "tiny")
        self.services: list[Service] = []
        self.environment = {**self.servers.environment, "DYN_TCP_RPC_HOST": "127.0.0.1"}
        self.environment |= {"DYN_SYSTEM_HOST": "127.0.0.1", "DYN_LOG": "info", "HF_HUB_OFFLINE": "1"}
        self.url = f"http://127.0.0.1:{free_port()}"
        command = [*self.servers.arguments, "--router-mode", router_mode]
        command += ["--http-port", self.url.rpartition(":")[2], *arguments]
        begin = mocker("--frontend") if own else [interpreter(release), "-m", "dynamo.frontend"]
        self._frontend = [*begin, *command], environment
        self.start_frontend()

    def start_frontend(self) -> None:
        command, environment = self._frontend
        self.frontend = self._start(command, "frontend", environment)

    @property
    def _standard(self) -> list[str]:
        return ["--model-path", str(self.model), "--model-name", "tiny", *self.servers.arguments]

    def start_workers(self, name: str, environment: dict[str, str]) -> Service:
        """Workers whose start is not waited for."""
        return self._start(mocker(*self._standard), name, environment)

    def workers(self, *arguments: str, name: str = "mocker", **environment: str) -> Worker:
        return self._launch(mocker, name, arguments, environment)

    def reference_workers(self, *arguments: str) -> Worker:
        """Workers of the release of the frontend. Ours beside them need cards of that release."""
        command = [interpreter(self.release), "-m", "dynamo.mocker"]
        off = {"DYN_SYSTEM_PORT": "-1"}  # it takes no port above 32767
        return self._launch(lambda *more: [*command, *more], "reference", arguments, off)

    def _launch(self, command: Callable[..., list[str]], name: str, arguments: Any, environment: Any) -> Worker:
        port = str(free_port())
        before = {r["instance_id"] for r in self.instances()}
        full = command(*self._standard, *arguments)
        service = self._start(full, name, {"DYN_SYSTEM_PORT": port, **environment})
        until(lambda: {r["instance_id"] for r in self.instances()} - before)
        return Worker(service, f"http://127.0.0.1:{port}")

    def _start(self, command: list[str], name: str, environment: dict[str, str]) -> Service:
        service = Service(command, self.folder / f"{name}.log", {**self.environment, **environment})
        self.services.append(service)
        return service

    def instances(self) -> list[dict[str, Any]]:
        return [r for r in self.servers.records() if r["endpoint"] == "generate"]

    def ready(self, workers: int) -> None:
        """Waits until the frontend knows so many instances and serves the model."""

        def known() -> bool:
            assert self.frontend.process.poll() is None, self.frontend.log
            try:
                _, text = get(self.url + "/health")
            except OSError:
                return False
            if self.own:
                return self.frontend.log.count('msg="a worker has come"') == workers
            instances = [i for i in json.loads(text).get("instances", []) if i["endpoint"] == "generate"]
            return len(instances) == workers and "tiny" in get(self.url + "/v1/models")[1]

        until(known)
        until(lambda: self.complete("tok5", 1)[0] == 200)

    def complete(self, prompt: str, max_tokens: int | None = 4, **more: Any) -> tuple[int, dict[str, Any]]:
        body = {"model": "tiny", "prompt": prompt, **more}
        if max_tokens is not None:
            body["max_tokens"] = max_tokens
        status, text = post(self.url + "/v1/completions", body)
        return status, json.loads(text) if text else {}

    def close(self) -> None:
        for service in reversed(self.services):
            service.__exit__()
        self.servers.close()


class Worker:
    """Workers of one process, and their status server."""

    def __init__(self, service: Service, status: str) -> None:
        self.service = service
        self.status = status

    def metrics(self, name: str) -> list[float]:
        _, text = get(self.status + "/metrics")
        return [float(line.rpartition(" ")[2]) for line in text.splitlines() if line.startswith(name)]

    def metric(self, name: str) -> float:
        values = self.metrics(name)
        assert values, name
        return sum(values)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Callable[..., Site]]:
    """Makes a site, whose processes end with the test."""
    sites: list[Site] = []

    def make(*arguments: str, **more: Any) -> Site:
        sites.append(Site(tmp_path, *arguments, **more))
        return sites[-1]

    yield make
    for s in sites:
        s.close()
