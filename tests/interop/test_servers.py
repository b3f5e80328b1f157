"""The same over etcd and NATS: a stock frontend finds our workers there, also after these servers were killed."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from livetools import PATIENCE_S, get, stream, until
from servers import Servers
from test_frontend import follows
from test_handoffs import decode_arguments, prefill_arguments

Make = Callable[..., Any]

PLANES = [
    pytest.param(partial(Servers, nats=False), id="etcd-tcp-zmq"),
    pytest.param(partial(Servers, nats=True), id="etcd-nats-nats"),
]


LEASE_S = 10


def words(first: int, count: int) -> str:
    return " ".join(f"tok{i}" for i in range(first, first + count))


@pytest.mark.parametrize("servers", PLANES)
def test_answers(site: Make, servers: Any) -> None:
    s = site("round-robin", servers=servers)
    w = s.workers("--num-workers", "2", "--decode-speedup-ratio", "0.05")
    s.ready(2)
    assert len({r["instance_id"] for r in s.instances()}) == 2
    status, done = s.complete(words(5, 40), 6)
    assert (status, done["choices"][0]["finish_reason"]) == (200, "length")
    assert len(done["choices"][0]["text"].split()) == 6

    # A client that goes away.
    lines = stream(s.url + "/v1/completions", {"model": "tiny", "prompt": "tok5", "max_tokens": 8000, "stream": True})
    next(lines)
    until(lambda: w.metric("vllm:num_requests_running") == 1)
    lines.close()  # type: ignore[attr-defined]
    until(lambda: w.metric("vllm:num_requests_running") == 0)

    w.service.stop()
    assert w.service.wait() == 0
    assert s.instances() == []
    assert s.servers.records("mdc") == []
    until(lambda: s.complete("tok5", 1)[0] == 404)


@pytest.mark.parametrize(
    ("nats", "durable", "release"),
    [
        (False, False, "1.3"),
        (True, False, "1.3"),
        (True, True, "1.3"),
        (True, False, "1.6"),
    ],  # 1.6 has no durable events
)
def test_kv_router(site: Make, nats: bool, durable: bool, release: str) -> None:
    """Repeated prefixes go to the worker that has them."""
    options = {"servers": partial(Servers, nats=nats), "release": release}
    if durable:
        s = site("kv", "--kv-cache-block-size", "16", "--router-durable-kv-events", **options)
        s.workers("--num-workers", "2", "--block-size", "16", "--durable-kv-events")
    else:
        s = site("kv", "--kv-cache-block-size", "16", **options)
        s.workers("--num-workers", "2", "--block-size", "16")
    s.ready(2)
    until(follows(s))
    _, text = get(s.url + "/metrics")
    stored = [
        line
        for line in text.splitlines()
        if "kv_cache_events_applied{" in line and '"stored"' in line and '"ok"' in line
    ]
    assert sum(float(line.split()[-1]) for line in stored) > 0, stored


def test_beside_reference_workers(site: Make) -> None:
    s = site("round-robin", servers=partial(Servers, nats=True))
    ours = s.workers("--dynamo-release", "1.3")
    s.reference_workers()
    s.ready(2)
    before = ours.metric("dynamo_component_requests_total")
    assert [s.complete(words(5, 30), 5)[0] for _ in range(10)] == [200] * 10
    until(lambda: ours.metric("dynamo_component_requests_total") - before == 5)


def test_prefill_and_decode(site: Make) -> None:
    """Workers hand over requests that came to both of them over NATS."""
    s = site("round-robin", servers=partial(Servers, nats=True), DYN_HTTP_RPC_HOST="127.0.0.1")
    p = s.workers(*prefill_arguments(2), name="prefill", DYN_HTTP_RPC_HOST="127.0.0.1")
    d = s.workers(*decode_arguments(2), name="decode")
    s.ready(4)
    before = [sum(w.metrics("dynamo_component_requests_total")) for w in (p, d)]
    assert [s.complete(words(5, 100 + i), 5)[0] for i in range(10)] == [200] * 10
    after = [sum(w.metrics("dynamo_component_requests_total")) for w in (p, d)]
    assert [b - a for a, b in zip(before, after, strict=True)] == [10, 10]


class Load:
    """Requests from several clients, until it is stopped. Every prompt is sent once."""

    def __init__(self, site: Any, clients: int) -> None:
        self.site = site
        self.results: list[tuple[float, float, int, int]] = []  # when sent and answered, status, tokens
        self._stop = threading.Event()
        self._clients = [threading.Thread(target=self._run, daemon=True) for _ in range(clients)]
        for c in self._clients:
            c.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            sent = time.monotonic()
            try:
                status, done = self.site.complete(words(5, 30), 20)
            except (OSError, json.JSONDecodeError):
                status, done = 0, {}
            tokens = len(done["choices"][0]["text"].split()) if status == 200 else 0
            self.results.append((sent, time.monotonic(), status, tokens))
            if status != 200:
                time.sleep(0.05)

    def stop(self) -> None:
        self._stop.set()
        for c in self._clients:
            c.join()

    def since(self, when: float) -> list[int]:
        """How requests ended that were sent after a time."""
        return [status for sent, _, status, _ in self.results if sent > when]


@pytest.mark.parametrize(
    ("nats", "outage_s", "release"),
    [(False, 1, "1.3"), (False, 15, "1.6"), (True, 1, "1.3"), (True, 15, "1.3")],
)
def test_servers_killed_under_load(site: Make, nats: bool, outage_s: float, release: str) -> None:
    """Requests that are accepted after recovery are answered; none gets more than its tokens."""
    s = site("round-robin", servers=partial(Servers, nats=nats), release=release)
    w = s.workers("--num-workers", "2", "--speedup-ratio", "5")
    s.ready(2)
    ids = {r["instance_id"] for r in s.instances()}
    load = Load(s, 6)
    time.sleep(1)
    killed = [server for server in (s.servers.etcd, s.servers.nats) if server is not None]
    for server in killed:
        server.kill()
    time.sleep(outage_s)
    for server in killed:
        server.start()
    until(lambda: {r["instance_id"] for r in s.instances()} == ids)
    if outage_s > LEASE_S and release == "1.3":  # it ends when it has lost its lease, and has to be started again
        until(lambda: s.frontend.process.poll() is not None)
        s.start_frontend()
    restarted = time.monotonic()
    # Requests that were lost with NATS keep their clients until these give up.
    until(lambda: load.since(restarted)[-20:] == [200] * 20, 2 * PATIENCE_S)
    recovered = time.monotonic()
    until(lambda: len(load.since(recovered)) > 20)
    load.stop()
    after = load.since(recovered)
    assert after == [200] * len(after)
    assert {tokens for *_, status, tokens in load.results if status == 200} == {20}
    assert w.service.process.poll() is None
    until(lambda: w.metric("vllm:num_requests_running") == 0)
    w.service.stop()
    assert w.service.wait() == 0
