"""Our frontend before live workers: those of ai-dynamo 1.3.1 and ours, which are the same to it."""

from __future__ import annotations

import json
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from conftest import Site, Worker
from livetools import Service, get, mocker, post, stream, until
from servers import Files, Servers
from test_frontend import in_threads, words
from test_handoffs import decode_arguments, prefill_arguments

Make = Callable[..., "OurSite"]


class OurSite(Site):
    """A site whose frontend is ours."""

    def start_frontend(self) -> None:
        command, environment = self._frontend
        # The options of this make's frontend are those of the other, as far as a site sets them.
        self.frontend: Service = self._start(mocker("--frontend", *command[3:]), "frontend", environment)

    def ready(self, workers: int) -> None:
        """Waits until requests go to so many workers."""
        until(lambda: len(self.instances()) == workers)
        until(self._answers)

    def _answers(self) -> bool:
        assert self.frontend.process.poll() is None, self.frontend.log
        try:
            return self.complete("tok5", 1)[0] == 200
        except OSError:
            return False

    def pair(self, make: str, *arguments: str) -> Worker:
        """Workers of either make."""
        return self.workers(*arguments) if make == "ours" else self.reference_workers(*arguments)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Make]:
    sites: list[OurSite] = []

    def make(*arguments: str, **more: Any) -> OurSite:
        sites.append(OurSite(tmp_path, *arguments, **more))
        return sites[-1]

    yield make
    for s in sites:
        s.close()


SERVERS: dict[str, Callable[[Path], Any]] = {
    "file": Files,
    "etcd": partial(Servers, nats=False),
    "nats": partial(Servers, nats=True),
}


@pytest.mark.parametrize("servers", list(SERVERS))
@pytest.mark.parametrize("make", ["ours", "reference"])
def test_answers(site: Make, make: str, servers: str) -> None:
    """Completions, chats and responses, streamed and not, over each plane."""
    s = site("round-robin", servers=SERVERS[servers])
    s.pair(make)
    s.ready(1)
    assert [m["id"] for m in json.loads(get(s.url + "/v1/models")[1])["data"]] == ["tiny"]
    status, done = s.complete(words(5, 40), 6)
    assert (status, done["choices"][0]["finish_reason"]) == (200, "length"), done
    usage = {name: done["usage"][name] for name in ("prompt_tokens", "completion_tokens", "total_tokens")}
    assert usage == {"prompt_tokens": 40, "completion_tokens": 6, "total_tokens": 46}
    texts = [c["choices"][0] for c in stream(s.url + "/v1/completions", body(stream=True, max_tokens=6))]
    assert texts[-1]["finish_reason"] == "length"
    assert 3 <= len("".join(t["text"] for t in texts).split()) <= 6  # special tokens say nothing

    chat = {"model": "tiny", "messages": [{"role": "user", "content": words(5, 3)}], "max_tokens": 5}
    status, text = post(s.url + "/v1/chat/completions", chat)
    assert (status, json.loads(text)["usage"]["completion_tokens"]) == (200, 5), text
    usage = {"stream": True, "stream_options": {"include_usage": True}}
    chunks = list(stream(s.url + "/v1/chat/completions", {**chat, **usage}))
    assert chunks[0]["choices"][0]["delta"]["role"] == "assistant"
    assert chunks[-1]["usage"]["completion_tokens"] == 5
    status, text = post(s.url + "/v1/responses", {"model": "tiny", "input": words(5, 3), "max_output_tokens": 4})
    assert (status, json.loads(text)["usage"]["output_tokens"]) == (200, 4), text

    several = s.complete(words(5, 3), 4, n=3)[1]
    assert [c["index"] for c in several["choices"]] == [0, 1, 2]
    assert several["usage"]["completion_tokens"] == 12
    assert s.complete("tok5", 2_000_000)[0] == 400  # more than the model's context
    assert s.complete("tok5", 1)[0] == 200


def body(**more: Any) -> dict[str, Any]:
    return {"model": "tiny", "prompt": words(5, 20), "max_tokens": 5, **more}


@pytest.mark.parametrize("make", ["ours", "reference"])
def test_equal_request_ids(site: Make, make: str) -> None:
    """Clients may choose ids. Workers of ai-dynamo end all their requests if two of them have the same one."""
    s = site("round-robin")
    s.pair(make)
    s.ready(1)
    same = {"request_id": "0123456789abcdef0123456789abcdef"}
    results = in_threads(4, lambda i: s.complete(words(5 + i, 20), 100, **same))
    assert [status for status, _ in results] == [200] * 4, results
    assert {done["id"] for _, done in results} == {"cmpl-" + same["request_id"]}


@pytest.mark.parametrize("make", ["ours", "reference"])
def test_stop_sequence(site: Make, make: str) -> None:
    """A stop sequence that begins in one token and ends in the next one ends the answer, and is not shown."""
    s = site("round-robin")
    s.pair(make)
    s.ready(1)
    done = s.complete(words(5, 20), 300, stop=["k1", "k2", "k3", "k4", "k5", "k6", "k7", "k8", "k9"])[1]
    assert done["choices"][0]["finish_reason"] == "stop", done
    assert re.fullmatch(r"\s*to", done["choices"][0]["text"]), done
    done = s.complete(words(5, 20), 300, stop=[" tok"])[1]
    assert done["choices"][0]["finish_reason"] == "stop", done
    assert re.fullmatch(r"tok\d+", done["choices"][0]["text"]), done
    parts = list(stream(s.url + "/v1/completions", body(max_tokens=300, stop=[" tok"], stream=True)))
    assert "".join(p["choices"][0]["text"] for p in parts).count("tok") == 1
    assert parts[-1]["choices"][0]["finish_reason"] == "stop"


def test_client_leaves(site: Make) -> None:
    """Blocks of a client that goes away, or whose answer a stop sequence ends, are free at once."""
    s = site("round-robin")
    w = s.workers("--speedup-ratio", "0.1")
    s.ready(1)
    lines = stream(s.url + "/v1/completions", body(max_tokens=5000, stream=True))
    next(lines)
    assert w.metric("vllm:num_requests_running") == 1
    lines.close()  # type: ignore[attr-defined]
    until(lambda: w.metric("vllm:num_requests_running") == 0)
    assert s.complete("tok5", 5000, stop=["tok"])[1]["choices"][0]["text"] == ""
    until(lambda: w.metric("vllm:num_requests_running") == 0)
    assert w.metric("vllm:kv_cache_usage_perc") == 0


@pytest.mark.parametrize("make", ["ours", "reference"])
def test_kv_router(site: Make, make: str) -> None:
    """A prefix that a worker has computed goes to this worker again."""
    s = site("kv")
    first = s.workers("--block-size", "16", name="first")
    s.pair(make, "--block-size", "16")
    s.ready(2)
    prompt = words(100, 320)
    assert [s.complete(prompt, 2)[0] for _ in range(4)] == [200] * 4
    time.sleep(1)  # for events
    before = first.metric("dynamo_component_requests_total")
    for _ in range(6):
        assert s.complete(prompt, 2)[0] == 200
    assert first.metric("dynamo_component_requests_total") - before in (0, 6)


@pytest.mark.parametrize("make", ["ours", "reference"])
def test_kill_under_load(site: Make, make: str) -> None:
    """Requests of a worker that is killed go on at another one; it disappears."""
    s = site("round-robin", "--migration-limit", "3")
    victim = s.workers(name="victim")
    s.pair(make)
    s.ready(2)
    results: list[tuple[int, dict[str, Any]]] = []
    killer = threading.Timer(0.4, lambda: victim.service.stop(signal.SIGKILL))
    killer.start()
    in_threads(12, lambda _: results.append(s.complete(words(5, 30), 150)))
    assert [status for status, _ in results] == [200] * 12
    assert all(done["usage"]["completion_tokens"] == 150 for _, done in results)
    assert [s.complete("tok5", 1)[0] for _ in range(6)] == [200] * 6


def test_workers_leave(site: Make) -> None:
    """Requests of a worker that ends are answered; without workers there is no model."""
    s = site("round-robin")
    w = s.workers()
    s.ready(1)
    stopper = threading.Timer(0.4, w.service.stop)
    stopper.start()
    assert [status for status, _ in in_threads(8, lambda _: s.complete(words(5, 30), 150))] == [200] * 8
    assert w.service.wait() == 0
    until(lambda: s.complete("tok5", 1)[0] in (404, 503))
    s.workers(name="again")
    s.ready(1)


def test_both_makes(site: Make) -> None:
    """Workers of both makes share the requests."""
    s = site("round-robin")
    ours = s.workers()
    s.reference_workers()
    s.ready(2)
    until(lambda: _share(s, ours) == 5)


def _share(s: OurSite, worker: Worker) -> float:
    before = worker.metric("dynamo_component_requests_total")
    assert [s.complete(words(5, 30), 5)[0] for _ in range(10)] == [200] * 10
    return worker.metric("dynamo_component_requests_total") - before


@pytest.mark.parametrize("router", ["round-robin", "kv"])
@pytest.mark.parametrize("prefill", ["ours", "reference"])
@pytest.mark.parametrize("decode", ["ours", "reference"])
def test_split(site: Make, prefill: str, decode: str, router: str) -> None:
    """Prefill workers compute prompts and hand them to decode workers, of whichever make these are."""
    s = site(router)
    for make, name, arguments in ((prefill, "prefill", prefill_arguments()), (decode, "decode", decode_arguments())):
        if make == "ours":
            s.workers(*arguments, name=name, DYN_HTTP_RPC_HOST="127.0.0.1")
        else:
            s.reference_workers(*arguments)
    s.ready(2)
    results = in_threads(12, lambda i: s.complete(words(5 + i, 100 + i), 20))
    assert [(status, done["usage"]["completion_tokens"]) for status, done in results] == [(200, 20)] * 12
