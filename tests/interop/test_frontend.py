"""A stock frontend finds our workers, routes to them and streams their tokens."""

from __future__ import annotations

import itertools
import json
import re
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from conftest import RELEASES
from livetools import get, post, records, stream, until

Make = Callable[..., Any]


def words(first: int, count: int) -> str:
    return " ".join(f"tok{i}" for i in range(first, first + count))


def in_threads(count: int, do: Callable[[int], Any]) -> list[Any]:
    results: list[Any] = [None] * count

    def one(i: int) -> None:
        results[i] = do(i)

    threads = [threading.Thread(target=one, args=(i,)) for i in range(count)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return results


def usage(answer: dict[str, Any]) -> tuple[int, int, int]:
    """Tokens of the prompt, of the answer, and of the prompt from the worker's cache."""
    said = answer["usage"]
    assert said["total_tokens"] == said["prompt_tokens"] + said["completion_tokens"]
    return said["prompt_tokens"], said["completion_tokens"], said["prompt_tokens_details"]["cached_tokens"]


@pytest.mark.parametrize(("release", "codec"), [("1.3", "json"), ("1.3", "msgpack"), ("1.6", "msgpack")])
def test_answers(site: Make, release: str, codec: str) -> None:
    s = site("round-robin", release=release, DYN_REQUEST_PLANE_CODEC=codec)
    w = s.workers("--decode-speedup-ratio", "0.05")
    s.ready(1)
    status, done = s.complete(words(5, 40), 6)
    assert (status, done["choices"][0]["finish_reason"]) == (200, "length")
    assert len(done["choices"][0]["text"].split()) == 6
    assert usage(done) == (40, 6, 0)
    assert [usage(s.complete(words(100, 200), 2)[1]) for _ in range(2)] == [(200, 2, 0), (200, 2, 192)]  # blocks of 64
    assert len(s.complete("tok5", None)[1]["choices"][0]["text"].split()) == 16

    chat = {"model": "tiny", "messages": [{"role": "user", "content": words(5, 3)}], "max_tokens": 5}
    status, text = post(s.url + "/v1/chat/completions", chat)
    assert (status, len(json.loads(text)["choices"][0]["message"]["content"].split())) == (200, 5)
    chunks = list(stream(s.url + "/v1/chat/completions", {**chat, "stream": True}))
    deltas = [c["choices"][0]["delta"].get("content") for c in chunks]
    assert len([d for d in deltas if d]) == 5
    assert chunks[-1]["choices"][0]["finish_reason"] == "length"

    # What a client got wrong is told to it, and does not take the worker out of service.
    status, text = post(s.url + "/v1/chat/completions", {**chat, "max_tokens": 2_000_000})
    assert (status, "KV blocks" in text) == (400, release == "1.3"), text  # 1.6 takes 1,048,576 at most by itself
    assert s.complete("tok5", 2_000_000)[0] == {"1.3": 500, "1.6": 400}[release]
    assert s.complete("tok5", 1)[0] == 200

    # A client that goes away.
    lines = stream(s.url + "/v1/completions", {"model": "tiny", "prompt": "tok5", "max_tokens": 8000, "stream": True})
    next(lines)
    until(lambda: w.metric("vllm:num_requests_running") == 1)
    lines.close()  # type: ignore[attr-defined]
    until(lambda: w.metric("vllm:num_requests_running") == w.metric("vllm:kv_cache_usage_perc") == 0)

    w.service.stop()
    assert w.service.wait() == 0
    until(lambda: s.complete("tok5", 1)[0] == 404)


def follows(s: Any) -> Callable[[], bool]:
    """Whether requests with a new prompt go where it was computed: 20 that go anywhere do once in 500,000 times."""
    starts = itertools.count(100, 17)

    def holds() -> bool:
        prompt = words(next(starts) % 1500, 320)
        status, answer = s.complete(prompt, 2)
        assert status == 200, answer
        time.sleep(1)  # mostly enough for the events
        return all(usage(s.complete(prompt, 2)[1])[2] >= 304 for _ in range(20))

    return holds


@RELEASES
def test_kv_router(site: Make, release: str) -> None:
    """Repeated prefixes go to the worker that has them; evictions are learnt; answers can be hit in the next turn."""
    s = site(
        "kv", "--kv-cache-block-size", "16", release=release, DYN_LOG="info,dynamo_kv_router=debug,dynamo_llm=debug"
    )
    ranks = ("--num-workers", "2", "--data-parallel-size", "2")
    s.workers(*ranks, "--block-size", "16", "--num-gpu-blocks-override", "64")
    s.ready(2)

    def publishers() -> set[int]:  # each is announced to frontends of 1.3 and to those of 1.6
        return {r["instance_id"] for r in records(s.root, "event_channels") if r["topic"] == "kv-events"}

    until(lambda: len(publishers()) == 4)
    until(follows(s))

    # An answer is cached too: a prompt that repeats it finds more than the first prompt.
    starts = iter(range(500, 1700, 16))

    def overlap() -> int:
        begin = words(next(starts), 160)
        said = s.complete(begin, 64)[1]["choices"][0]["text"]
        time.sleep(0.5)  # mostly enough for the events
        assert s.complete(begin + " " + said + " tok7", 2)[0] == 200
        found, blocks = re.findall(r"with (\d+)/(\d+) blocks overlap", s.frontend.log)[-1]
        assert int(blocks) == 15
        return int(found)

    until(lambda: overlap() >= 13)  # 160 prompt + 64 answer tokens are 14 blocks

    # Other prompts, until the pool of every rank has been evicted: the frontend hears of removals.
    in_threads(8, lambda i: [s.complete(words(3 + 40 * (8 * j + i) % 1500, 400), 2) for j in range(4)])

    def applied(*words: str) -> float:
        lines = [line for line in get(s.url + "/metrics")[1].splitlines() if "kv_cache_events_applied{" in line]
        return sum(float(line.split()[-1]) for line in lines if all(f'"{word}"' in line for word in words))

    until(lambda: applied("removed", "ok") > 0)
    assert sum(applied(status) for status in ("block_not_found", "parent_block_not_found")) == 0


@RELEASES
def test_kill_under_load(site: Make, release: str) -> None:
    """Requests of a worker that is killed go on at another one; it disappears."""
    s = site("round-robin", "--migration-limit", "3", release=release)
    victim = s.workers(name="victim")
    s.workers(name="survivor")
    s.ready(2)
    results: list[tuple[int, dict[str, Any]]] = []

    def ask(_: int) -> None:
        results.append(s.complete(words(5, 30), 150))

    killer = threading.Timer(0.4, lambda: victim.service.stop(signal.SIGKILL))
    killer.start()
    in_threads(12, ask)
    assert [status for status, _ in results] == [200] * 12
    assert all(len(done["choices"][0]["text"].split()) == 150 for _, done in results)
    until(lambda: len(s.instances()) == 1)
    assert s.complete("tok5", 1)[0] == 200


def test_drain(site: Make) -> None:
    """Requests of a worker that is asked to end are answered, new ones go elsewhere."""
    s = site("round-robin")
    both = [s.workers("--decode-speedup-ratio", "0.2", name=name) for name in ("leaving", "staying")]
    leaving = both[0]
    s.ready(2)

    def stop() -> None:
        until(lambda: sum(w.metric("vllm:num_requests_running") for w in both) == 8)
        leaving.service.stop()

    stopper = threading.Thread(target=stop)
    stopper.start()
    results = in_threads(8, lambda i: s.complete(words(5, 30), 300))  # for ten seconds
    stopper.join()
    assert [status for status, _ in results] == [200] * 8
    assert leaving.service.wait() == 0
    assert [s.complete("tok5", 1)[0] for _ in range(4)] == [200] * 4


def test_overload(site: Make) -> None:
    s = site("round-robin")
    s.workers(DYN_ENGINE_REQUEST_LIMIT="1", DYN_DYNAMO_REQUEST_QUEUE_LIMIT="1")
    s.ready(1)
    body = {"model": "tiny", "prompt": words(5, 30), "max_tokens": 8000, "stream": True}
    first = stream(s.url + "/v1/completions", body)
    next(first)
    results: list[int] = []
    others = [threading.Thread(target=lambda: results.append(s.complete(words(5, 30), 100)[0])) for _ in range(7)]
    for other in others:
        other.start()
    until(lambda: len(results) == 5)
    first.close()  # type: ignore[attr-defined]
    for other in others:
        other.join()
    assert sorted(results) == [200] * 2 + [529] * 5


@RELEASES
def test_beside_reference_workers(site: Make, release: str) -> None:
    """Workers of both makes behind one frontend: it takes them for the same."""
    s = site("round-robin", release=release)
    ours = s.workers("--dynamo-release", release)
    s.reference_workers()
    s.ready(2)
    before = ours.metric("dynamo_component_requests_total")
    assert [s.complete(words(5, 30), 5)[0] for _ in range(10)] == [200] * 10
    assert ours.metric("dynamo_component_requests_total") - before == 5
