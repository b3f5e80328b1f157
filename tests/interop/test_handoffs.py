"""Prefill and decode workers behind a stock frontend, beside those of ai-dynamo and alone."""

from __future__ import annotations

import random
import re
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from conftest import free_port
from livetools import until
from test_frontend import in_threads, words

Make = Callable[..., Any]

ENGINES = {"vllm": (), "sglang": ("--engine-type", "sglang", "--sglang-page-size", "16")}
RUNNING = {"vllm": "vllm:num_requests_running", "sglang": "sglang:num_running_reqs"}


def prefill_arguments(count: int = 1) -> tuple[str, ...]:
    ports = ",".join(str(free_port()) for _ in range(count))
    return ("--disaggregation-mode", "prefill", "--num-workers", str(count), "--bootstrap-ports", ports)


def decode_arguments(count: int = 1) -> tuple[str, ...]:
    return ("--disaggregation-mode", "decode", "--num-workers", str(count))


@pytest.mark.parametrize("router", ["round-robin", "kv"])
@pytest.mark.parametrize("engine", ENGINES)
def test_two_and_two(site: Make, engine: str, router: str) -> None:
    s = site(router, DYN_HTTP_RPC_HOST="127.0.0.1", DYN_REQUEST_PLANE_CODEC="msgpack" if router == "kv" else "json")
    p = s.workers(*ENGINES[engine], *prefill_arguments(2), name="prefill", DYN_HTTP_RPC_HOST="127.0.0.1")
    d = s.workers(*ENGINES[engine], *decode_arguments(2), name="decode")
    s.ready(4)

    def ask(i: int) -> list[tuple[int, int]]:
        rng = random.Random(i)
        outcomes = []
        for _ in range(4):
            status, done = s.complete(words(rng.randrange(5, 900), rng.randrange(20, 900)), 12)
            outcomes.append((status, done.get("usage", {}).get("completion_tokens", 0)))
        return outcomes

    assert in_threads(24, ask) == [[(200, 12)] * 4] * 24
    for w in (p, d):
        assert all(n > 10 for n in w.metrics("dynamo_component_requests_total")[:2])
        until(lambda w=w: w.metric(RUNNING[engine]) == 0)  # type: ignore[misc]
    assert "failed" not in p.service.log + d.service.log


@pytest.mark.parametrize("ours", ["prefill", "decode"])
@pytest.mark.parametrize(("engine", "release"), [("vllm", "1.3"), ("sglang", "1.3"), ("vllm", "1.6")])
def test_beside_the_reference(site: Make, engine: str, ours: str, release: str) -> None:
    """A hand-off between workers of both makes."""
    s = site("round-robin", release=release)
    for role, arguments in (("prefill", prefill_arguments()), ("decode", decode_arguments())):
        if role == ours:
            mine = s.workers(*ENGINES[engine], *arguments, name=role, DYN_HTTP_RPC_HOST="127.0.0.1", DYN_LOG="debug")
        else:
            s.reference_workers(*ENGINES[engine], *arguments)
    s.ready(2)
    for i in range(5):
        status, done = s.complete(words(5 + i, 160), 6)
        assert (status, done["usage"]["completion_tokens"]) == (200, 6)
    results = in_threads(16, lambda i: s.complete(words(5 + i, 100 + i), 20))
    assert [(status, done["usage"]["completion_tokens"]) for status, done in results] == [(200, 20)] * 16
    until(lambda: mine.metric(RUNNING[engine]) == 0)
    assert "failed" not in mine.service.log


@pytest.mark.parametrize("victim", ["prefill", "decode"])
def test_killed_in_a_handoff(site: Make, victim: str) -> None:
    """Clients get an error, or the answer of another worker; the side that is left has nothing of it."""
    s = site("round-robin", "--migration-limit", "3")
    slow = ("--kv-bytes-per-token", "1000000", "--kv-transfer-bandwidth", "0.2")  # 100 tokens take half a second
    workers = {}
    for number in (1, 2):
        host = {"DYN_HTTP_RPC_HOST": "127.0.0.1"}
        workers["prefill", number] = s.workers(*prefill_arguments(), *slow, name=f"prefill{number}", **host)
        workers["decode", number] = s.workers(*decode_arguments(), name=f"decode{number}")
    s.ready(4)
    killer = threading.Timer(0.3, lambda: workers[victim, 1].service.stop(signal.SIGKILL))
    killer.start()
    results = in_threads(8, lambda i: s.complete(words(5 + i, 100), 10))
    assert {status for status, _ in results} <= {200, 500, 502, 503}, results
    assert all(done["usage"]["completion_tokens"] == 10 for status, done in results if status == 200)
    assert sum(status == 200 for status, _ in results) >= 4
    for role, number in (("prefill", 1), ("prefill", 2), ("decode", 1), ("decode", 2)):
        if (role, number) != (victim, 1):
            w = workers[role, number]
            until(lambda w=w: w.metric("vllm:num_requests_running") + w.metric("vllm:kv_cache_usage_perc") == 0)
    until(lambda: len(s.instances()) == 3)
    assert [s.complete(words(5, 50), 3)[0] for _ in range(4)] == [200] * 4


def test_a_client_that_leaves(site: Make) -> None:
    """In the middle of a hand-off: both workers let go of the request."""
    s = site("round-robin")
    slow = ("--kv-bytes-per-token", "1000000", "--kv-transfer-bandwidth", "0.0001")  # 100 tokens take 1,000 s
    p = s.workers(*prefill_arguments(), *slow, name="prefill", DYN_HTTP_RPC_HOST="127.0.0.1")
    d = s.workers(*decode_arguments(), name="decode")
    s.ready(2)
    with pytest.raises(TimeoutError):
        leave_after(s.url, 1.0)
    for w in (p, d):
        until(lambda w=w: w.metric("vllm:kv_cache_usage_perc") == 0)


def leave_after(url: str, seconds: float) -> None:
    import json
    import urllib.request

    body = json.dumps({"model": "tiny", "prompt": words(5, 100), "max_tokens": 5}).encode()
    request = urllib.request.Request(url + "/v1/completions", data=body, headers={"content-type": "application/json"})
    urllib.request.urlopen(request, timeout=seconds)


def test_handoffs_are_quick(site: Make) -> None:
    """Time to the first token of a decode worker, less that of both passes, is the hand-off and the frontend."""
    s = site("round-robin")
    p = s.workers(*prefill_arguments(), "--kv-transfer-bandwidth", "0", name="prefill", DYN_HTTP_RPC_HOST="127.0.0.1")
    s.workers(*decode_arguments(), name="decode", DYN_LOG="debug")
    s.ready(2)
    times = []
    for i in range(20):
        began = time.monotonic()
        assert s.complete(words(5 + i, 64), 1)[0] == 200
        times.append(time.monotonic() - began)
    assert min(times) < 0.2, times  # the passes alone take some 24 ms; busy cores add several times as much
    assert re.search("failed", p.service.log) is None
