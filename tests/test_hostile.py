"""What hostile peers do to a worker's ports: none of it ends the worker, or makes it grow without bound."""

from __future__ import annotations

import contextlib
import json
import random
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from livetools import PATIENCE_S, get, make_model, records, until
from test_live import Workers, free_port, generate

MIB = 1 << 20
NOISE = random.Random(1).randbytes(MIB)
GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(make_model(tmp_path_factory.mktemp("models") / "tiny"))


class Victim:
    """A worker on the TCP plane that publishes in the engine's own format, too."""

    def __init__(self, workers: Workers, events: int, replay: int) -> None:
        self.workers = workers
        address, _, self.path = records(workers.root)[0]["transport"]["tcp"].partition("/")
        self.requests = int(address.rpartition(":")[2])
        channels = [r["transport"]["config"]["endpoint"] for r in records(workers.root, "event_channels")]
        self.zmq = [events, replay, *(int(c.rpartition(":")[2]) for c in channels)]
        self.status = int(workers.status.rpartition(":")[2])

    @property
    def ports(self) -> Sequence[int]:
        return [self.requests, self.status, *self.zmq]

    def memory(self) -> int:
        """Resident bytes of the process."""
        status = Path(f"/proc/{self.workers.process.pid}/status").read_text()
        (line,) = (line for line in status.splitlines() if line.startswith("VmRSS"))
        return int(line.split()[1]) << 10

    def descriptors(self) -> int:
        return sum(1 for _ in Path(f"/proc/{self.workers.process.pid}/fd").iterdir())

    def generate(self, max_tokens: int = 4) -> int:
        """Plays the frontend of one request and returns the number of tokens in the answer."""
        with socket.create_server(("127.0.0.1", 0)) as server, connect(self.requests) as request:
            request.sendall(self.frame(server.getsockname()[1], json.dumps(generate(max_tokens)).encode()))
            assert request.recv(4) == bytes(4)
            server.settimeout(PATIENCE_S)
            stream, _ = server.accept()
            with stream, stream.makefile("rb") as lines:
                tokens = 0
                while True:
                    header, body, _ = struct.unpack(">QQQ", lines.read(24))
                    data = json.loads(lines.read(header + body))
                    if data == "sentinel":
                        return tokens
                    if "data" in data:
                        tokens += len(data["data"]["data"]["token_ids"])

    def frame(self, port: int, body: bytes) -> bytes:
        """A request that is to be answered at a port of this host."""
        info = {"address": f"127.0.0.1:{port}", "subject": "s", "context": "c", "stream_type": "response"}
        control = {"id": "c", "connection_info": {"transport": "tcp_server", "info": json.dumps(info)}}
        header = json.dumps(control).encode()
        payload = struct.pack(">QQQ", len(header), len(body), 0) + header + body
        return self.head(len(payload)) + payload

    def head(self, size: int) -> bytes:
        path = self.path.encode()
        return struct.pack(">H", len(path)) + path + struct.pack(">HI", 0, size)


def connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)


def say(port: int, data: bytes) -> None:
    """Sends something to a port for as long as the other side takes it, and leaves."""
    with contextlib.suppress(OSError), connect(port) as s:
        s.sendall(data)
        s.settimeout(0.05)
        s.recv(100)


def at_once(jobs: Sequence[Callable[[], None]]) -> None:
    threads = [threading.Thread(target=job) for job in jobs]
    for t in threads:
        t.start()
    for t in threads:
        t.join()


@pytest.fixture(scope="module")
def victim(tmp_path_factory: pytest.TempPathFactory, model: str) -> Iterator[Victim]:
    folder = tmp_path_factory.mktemp("victim")
    events, replay = free_port(), free_port()
    ports = ("--zmq-kv-events-ports", str(events), "--zmq-replay-ports", str(replay))
    with Workers(folder, "--model-path", model, *ports, plane="tcp") as w:
        until(lambda: get(w.status + "/health")[0] == 200 if "status server" in w.log else None)
        found = Victim(w, events, replay)
        assert found.generate() == 4
        yield found
        assert "panic" not in w.log
        w.stop()
        assert w.wait() == 0


def still_serves(victim: Victim, before: int, growth: int) -> None:
    assert victim.generate() == 4
    assert get(victim.workers.status + "/health")[0] == 200
    assert victim.memory() - before < growth


def test_random_bytes(victim: Victim) -> None:
    """Noise at every port, as it is and after whatever makes a port listen."""
    before = victim.memory()
    rng = random.Random(2)

    def attack(port: int) -> None:
        for _ in range(40):
            start = rng.randrange(MIB // 2)
            noise = NOISE[start : start + rng.choice([1, 100, 65_000, 500_000])]
            if port == victim.requests:
                say(port, rng.choice([b"", victim.head(len(noise)), victim.head(1 << 31)]) + noise)
            elif port == victim.status:
                say(port, rng.choice([b"", b"GET /metrics HTTP/1.1\r\n"]) + noise)
            else:
                say(port, rng.choice([b"", GREETING]) + noise)

    at_once([lambda port=port: attack(port) for port in victim.ports])  # type: ignore[misc]
    still_serves(victim, before, 150 * MIB)


def test_half_open_connections(victim: Victim) -> None:
    """Connections that say nothing, or half of what is to be said, at every port; they go when their peers do."""
    before, descriptors = victim.memory(), victim.descriptors()
    halves = {victim.requests: victim.head(1000), victim.status: b"GET /health HTTP/1.1\r\nHost:"}
    with contextlib.ExitStack() as stack:
        for port in victim.ports:
            for i in range(100):
                s = stack.enter_context(connect(port))
                if i % 2:
                    s.sendall(halves.get(port, GREETING[:30]))
        still_serves(victim, before, 150 * MIB)
    until(lambda: victim.descriptors() < descriptors + 20)


def test_large_requests(victim: Victim) -> None:
    """Requests of 30 MB, announced only, or sent and of no use."""
    before = victim.memory()
    with contextlib.ExitStack() as stack:
        for _ in range(200):
            stack.enter_context(connect(victim.requests)).sendall(victim.head(30_000_000) + NOISE[:1000])
        still_serves(victim, before, 150 * MIB)
    with socket.create_server(("127.0.0.1", 0), backlog=100) as server:
        whole = victim.frame(server.getsockname()[1], b'{"token_ids":[' + b"1," * 15_000_000 + b"1]}")
        at_once([lambda: say(victim.requests, whole)] * 24)
        still_serves(victim, before, 900 * MIB)


def test_unread_answers(victim: Victim) -> None:
    """Clients that never read their long answers, nor close the connection."""
    before = victim.memory()
    with contextlib.ExitStack() as stack, socket.create_server(("127.0.0.1", 0), backlog=200) as server:
        request = stack.enter_context(connect(victim.requests))
        for _ in range(100):
            request.sendall(victim.frame(server.getsockname()[1], json.dumps(generate(3000)).encode()))
            stack.enter_context(server.accept()[0])
        time.sleep(3)
        still_serves(victim, before, 150 * MIB)
    until(lambda: victim.workers.metric("vllm:num_requests_running") == 0)


def test_many_connections(victim: Victim) -> None:
    """After a thousand connections at each port no descriptor is left over."""
    before, descriptors = victim.memory(), victim.descriptors()
    for port in victim.ports:
        for _ in range(1000):
            connect(port).close()
    still_serves(victim, before, 100 * MIB)
    until(lambda: victim.descriptors() < descriptors + 20)
