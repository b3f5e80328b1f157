"""Servers that deployments share: etcd and NATS, in processes that can be killed and started again."""

from __future__ import annotations

import atexit
import base64
import contextlib
import json
import shutil
import socket
import urllib.error
from pathlib import Path
from typing import Any

import pytest
from livetools import Service, free_port, post, records, until


class Server:
    """A program on a port of its own, which keeps its data while it is away."""

    def __init__(self, folder: Path, name: str, package: str) -> None:
        program = shutil.which(name) or shutil.which(name, path="/usr/sbin")
        if program is None:
            pytest.skip(f"no {name} on PATH (Debian: {package})")
        self.folder = folder / name
        self.folder.mkdir(parents=True)
        self.port = free_port()
        self.command = [program]
        self._process: Service | None = None
        atexit.register(self.kill)  # also if what needs the server fails to start

    def start(self) -> None:
        self._process = Service(self.command, self.folder / "log", {})
        until(self._listens)

    def kill(self) -> None:
        if self._process is not None:
            self._process.__exit__()

    def _listens(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
        except OSError:
            return False
        return True


class Etcd(Server):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder, "etcd", "etcd-server")
        self.url = f"http://127.0.0.1:{self.port}"
        peer = f"http://127.0.0.1:{free_port()}"
        self.command += ["--data-dir", str(self.folder / "data")]
        self.command += ["--listen-client-urls", self.url, "--advertise-client-urls", self.url]
        self.command += ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer]
        self.command += ["--initial-cluster", f"default={peer}"]
        self.start()

    def records(self, bucket: str = "instances") -> list[dict[str, Any]]:
        """The documents of a bucket; none while the server is away."""

        def text(key: str) -> str:
            return base64.b64encode(key.encode()).decode()

        body = {"key": text(f"v1/{bucket}/"), "range_end": text(f"v1/{bucket}0")}
        with contextlib.suppress(OSError, urllib.error.URLError):
            status, answer = post(f"{self.url}/v3/kv/range", body)
            if status == 200:
                return [json.loads(base64.b64decode(kv["value"])) for kv in json.loads(answer).get("kvs", [])]
        return []


class Nats(Server):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder, "nats-server", "nats-server")
        self.url = f"nats://127.0.0.1:{self.port}"
        self.command += ["-a", "127.0.0.1", "-p", str(self.port), "-js", "-sd", str(self.folder / "data")]
        self.start()


class Files:
    """A folder where processes of a host find each other, and what frontends and workers are told about it."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "kv"
        self.arguments = ["--discovery-backend", "file"]
        self.environment = {"DYN_FILE_KV": str(self.root)}

    def records(self, bucket: str = "instances") -> list[dict[str, Any]]:
        return records(self.root, bucket)

    def close(self) -> None:
        pass


class Servers:
    """etcd for discovery, and NATS for both planes if it is asked for."""

    def __init__(self, folder: Path, *, nats: bool) -> None:
        self.etcd = Etcd(folder)
        self.arguments = ["--discovery-backend", "etcd"]
        self.environment = {"ETCD_ENDPOINTS": self.etcd.url}
        self.records = self.etcd.records
        try:
            self.nats = Nats(folder) if nats else None
        except BaseException:  # pytest's skip, if there is no such program
            self.etcd.kill()
            raise
        if self.nats is not None:
            self.arguments += ["--request-plane", "nats", "--event-plane", "nats"]
            self.environment["NATS_SERVER"] = self.nats.url

    def close(self) -> None:
        self.etcd.kill()
        if self.nats is not None:
            self.nats.kill()
