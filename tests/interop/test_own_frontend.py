"""Our frontend before workers of ai-dynamo 1.3.1 and 1.6.1."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from conftest import RELEASES, interpreter
from frontendtools import Frontend, Meeting, kill, meeting
from livetools import WORDS, Service, post, stream, until
from servers import Etcd, Nats, free_port

PROMPT = " ".join(WORDS[10:50])


def reference(place: Meeting, *arguments: str, release: str = "1.3", **environment: str) -> Service:
    """Workers of ai-dynamo; they name the files of the model only if its name is a folder where they run."""
    place.started += 1
    command = [interpreter(release), "-m", "dynamo.mocker", "--model-path", str(place.model), "--model-name", "tiny"]
    log = place.folder / f"reference-{place.started}.log"
    variables = {**place.environment, "DYN_SYSTEM_PORT": "-1", "HF_HUB_OFFLINE": "1", **environment}
    return place.stack.enter_context(Service([*command, *arguments], log, variables))


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Meeting]:
    with meeting(tmp_path) as m:
        yield m


@pytest.mark.parametrize(("mode", "release"), [("round-robin", "1.3"), ("random", "1.6"), ("kv", "1.3"), ("kv", "1.6")])
def test_reference_workers(place: Meeting, mode: str, release: str) -> None:
    reference(place, "--num-workers", "2", "--block-size", "4", "--speedup-ratio", "10", release=release)
    front = place.frontend("--router-mode", mode)
    front.until_models("tiny")
    place.until_known(front, 2)
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda i: front.complete(f"{PROMPT} tok{i}", 5), range(5, 25)))
    for status, answer in answers:
        assert status == 200, answer
        assert answer["usage"]["completion_tokens"] == 5
        assert set(answer["choices"][0]["text"].split()) <= set(WORDS)
    if mode == "kv":
        until(lambda: front.log.count("KV events of a worker are heard") == 2)
        until(lambda: front.complete(PROMPT, 1)[1]["usage"]["prompt_tokens_details"]["cached_tokens"] >= 36)


def test_chat(place: Meeting) -> None:
    reference(place, "--speedup-ratio", "10")
    front = place.frontend()
    front.until_models("tiny")
    body = {"model": "tiny", "messages": [{"role": "user", "content": "tok5"}], "max_tokens": 6, "stream": True}
    events = list(stream(front.url + "/v1/chat/completions", body))
    text = "".join(choice["delta"].get("content", "") for event in events for choice in event["choices"])
    assert len(text.split()) == 6


@RELEASES
def test_migration_between_both(place: Meeting, release: str) -> None:
    """A stream of a worker of ai-dynamo that is killed goes on at one of ours."""
    doomed = reference(place, "--decode-speedup-ratio", "0.1", release=release)
    front = place.frontend("--migration-limit", "1")
    front.until_models("tiny")
    body = {"model": "tiny", "prompt": PROMPT, "max_tokens": 200, "ignore_eos": True, "stream": True}
    begun = stream(front.url + "/v1/completions", body)
    parts = [next(begun)]
    place.workers("--speedup-ratio", "10", "--dynamo-release", release)
    place.until_known(front, 2)
    kill(doomed)
    parts += list(begun)
    assert len("".join(event["choices"][0]["text"] for event in parts).split()) == 200


@pytest.mark.parametrize("ours", ["prefill", "decode"])
@pytest.mark.parametrize("bootstrap", [True, False])
def test_split(place: Meeting, ours: str, bootstrap: bool) -> None:
    """Prefill and decode workers, one of them from ai-dynamo."""
    for mode in ("prefill", "decode"):
        start: Callable[..., Service] = place.workers if mode == ours else lambda *a, **e: reference(place, *a, **e)
        arguments = ["--disaggregation-mode", mode, "--speedup-ratio", "10", "--kv-bytes-per-token", "1024"]
        if bootstrap and mode == "prefill":
            arguments += ["--bootstrap-ports", str(free_port())]
        start(*arguments, DYN_HTTP_RPC_HOST="127.0.0.1")
    front = place.frontend("--router-mode", "kv")
    front.until_models("tiny")
    for i in range(5, 10):
        status, answer = front.complete(f"{PROMPT} tok{i}", 5)
        assert (status, answer["usage"]["completion_tokens"]) == (200, 5), answer


def test_servers(tmp_path: Path) -> None:
    """etcd, with requests and events over NATS."""
    etcd, nats = Etcd(tmp_path), Nats(tmp_path)
    environment = {"DYN_DISCOVERY_BACKEND": "etcd", "ETCD_ENDPOINTS": etcd.url, "NATS_SERVER": nats.url}
    try:
        with meeting(tmp_path, environment) as place:
            reference(place, "--block-size", "4", "--request-plane", "nats", "--event-plane", "nats")
            front = place.frontend("--router-mode", "kv")
            front.until_models("tiny")
            until(lambda: front.complete(PROMPT, 1)[1]["usage"]["prompt_tokens_details"]["cached_tokens"] >= 36)
    finally:
        nats.kill()
        etcd.kill()


def before(place: Meeting, make: str, *arguments: str) -> Frontend:
    """A frontend before a worker of either make."""
    if make == "ours":
        place.workers("--speedup-ratio", "10", *arguments)
    else:
        reference(place, "--speedup-ratio", "10", *arguments, release=make.rpartition(" ")[2])
    front = place.frontend(*arguments)
    front.until_models("tiny")
    return front


MAKES = pytest.mark.parametrize("make", ["ours", "ai-dynamo 1.3"])


@pytest.mark.parametrize("make", ["ours", "ai-dynamo 1.3", "ai-dynamo 1.6"])
def test_endpoints(place: Meeting, make: str) -> None:
    """Completions, chats and responses have as many tokens as the client asks for, streamed and not."""
    front = before(place, make)
    status, done = front.complete(PROMPT, 6, n=3)
    assert [c["index"] for c in done["choices"]] == [0, 1, 2]
    assert (status, done["usage"]["prompt_tokens"], done["usage"]["completion_tokens"]) == (200, 40, 18)
    assert {c["finish_reason"] for c in done["choices"]} == {"length"}
    chat = {"model": "tiny", "messages": [{"role": "user", "content": PROMPT}], "max_tokens": 5}
    status, text = post(front.url + "/v1/chat/completions", chat)
    assert (status, json.loads(text)["usage"]["completion_tokens"]) == (200, 5), text
    chat |= {"stream": True, "stream_options": {"include_usage": True}}
    parts = list(stream(front.url + "/v1/chat/completions", chat))
    assert parts[0]["choices"][0]["delta"]["role"] == "assistant"
    assert parts[-1]["usage"]["completion_tokens"] == 5
    status, text = post(front.url + "/v1/responses", {"model": "tiny", "input": PROMPT, "max_output_tokens": 4})
    assert (status, json.loads(text)["usage"]["output_tokens"]) == (200, 4), text
    assert front.complete("tok5", 2_000_000)[0] == 400


@MAKES
def test_stop_sequences(place: Meeting, make: str) -> None:
    """A stop sequence may begin in one token and end in another one; the client sees nothing of it."""
    front = before(place, make)
    choice = front.complete(PROMPT, 300, stop=[f"k{i}" for i in range(1, 10)])[1]["choices"][0]
    assert choice["finish_reason"] == "stop"
    assert re.fullmatch(r"\s*to", choice["text"]), choice
    stops = [f"{i} tok" for i in range(10)]
    body = {"model": "tiny", "prompt": PROMPT, "max_tokens": 300, "stop": stops, "stream": True}
    parts = [part["choices"][0] for part in stream(front.url + "/v1/completions", body)]
    assert re.fullmatch(r" tok\d*", "".join(part["text"] for part in parts)), parts
    assert parts[-1]["finish_reason"] == "stop"
    assert parts[-1]["stop_reason"] in stops


@MAKES
def test_equal_request_ids(place: Meeting, make: str) -> None:
    """Clients may choose ids. Workers of ai-dynamo end all their requests if two of them have the same one."""
    front = before(place, make)
    same = "0123456789abcdef0123456789abcdef"
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda i: front.complete(f"{PROMPT} tok{i}", 100, request_id=same), range(5, 9)))
    assert [(status, answer.get("id")) for status, answer in answers] == [(200, "cmpl-" + same)] * 4, answers


@MAKES
def test_reasoning(place: Meeting, make: str) -> None:
    """What a worker says between its two marks is reasoning in a chat."""
    marks = {"start_thinking_token_id": 10, "end_thinking_token_id": 11, "thinking_ratio": 0.5}
    front = before(place, make, "--reasoning", json.dumps(marks))
    chat = {"model": "tiny", "messages": [{"role": "user", "content": PROMPT}], "max_tokens": 10, "stream": True}
    deltas = [c["delta"] for part in stream(front.url + "/v1/chat/completions", chat) for c in part["choices"]]
    reasoning = "".join(delta.get("reasoning_content") or "" for delta in deltas).split()
    content = "".join(delta.get("content") or "" for delta in deltas).split()
    assert (len(reasoning), len(content)) == (3, 5), deltas
    assert not {"tok10", "tok11"} & {*reasoning, *content}
