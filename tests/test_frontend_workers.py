"""``--frontend``: live workers of other processes behind the OpenAI-compatible server."""

from __future__ import annotations

import itertools
import json
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from frontendtools import STEADY, Meeting, kill, meeting
from livetools import WORDS, get, post, stream, until

from dynamo.replay import run_trace_replay


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Meeting]:
    with meeting(tmp_path) as m:
        yield m


def test_models_come_and_go(place: Meeting) -> None:
    front = place.frontend()
    assert get(front.url + "/health")[0] == 503
    status, text = post(front.url + "/v1/completions", {"model": "tiny", "prompt": "tok5"})
    assert (status, json.loads(text)["error"]["code"]) == (503, "service_unavailable")
    first = place.workers("--num-workers", "2")
    front.until_models("tiny")
    assert get(front.url + "/health")[0] == 200
    second = place.workers(name="other")
    front.until_models("tiny", "other")
    for model in ("tiny", "other"):
        status, answer = front.complete("tok5 tok6", 5, model)
        assert status == 200, answer
        assert answer["usage"]["completion_tokens"] == 5
        assert answer["usage"]["prompt_tokens"] == 2
        assert set(answer["choices"][0]["text"].split()) <= set(WORDS)
        assert answer["choices"][0]["finish_reason"] == "length"
    assert front.complete("tok5", model="third")[0] == 404
    first.stop()
    front.until_models("other")
    assert front.complete("tok5")[0] == 404
    assert front.complete("tok5", model="other")[0] == 200
    second.stop()
    front.until_models()
    assert get(front.url + "/health")[0] == 503
    front.stop()
    assert front.wait() == 0


def test_chat_streams_what_the_worker_says(place: Meeting) -> None:
    place.workers("--speedup-ratio", "10")
    front = place.frontend()
    front.until_models("tiny")
    body = {"model": "tiny", "messages": [{"role": "user", "content": "tok5"}], "max_tokens": 6, "stream": True}
    events = list(stream(front.url + "/v1/chat/completions", body | {"stream_options": {"include_usage": True}}))
    text = "".join(choice["delta"].get("content", "") for event in events for choice in event["choices"])
    assert len(text.split()) == 6
    assert events[-1]["usage"]["completion_tokens"] == 6
    status, answer = front.complete("tok5", 40, stop=["tok1"])
    assert (status, answer["choices"][0]["finish_reason"], answer["choices"][0]["text"]) == (200, "stop", " ")


@pytest.mark.parametrize("mode", ["round-robin", "random", "kv", "sglang_cache_aware", "endpoint_picker"])
def test_all_workers_are_used(place: Meeting, mode: str) -> None:
    place.workers(
        "--num-workers",
        "3",
        "--speedup-ratio",
        "100",
        "--data-parallel-size",
        "2",
        DYN_SYSTEM_PORT="0",
        DYN_SYSTEM_HOST="127.0.0.1",
    )
    front = place.frontend("--router-mode", mode, "--seed", "1")
    front.until_models("tiny")
    place.until_known(front, 3)
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda i: front.complete(f"tok{i}", 3)[0], range(5, 65)))
    assert answers == [200] * 60
    front.until_metric("dynamo_frontend_requests_total", 60)
    front.until_metric("dynamo_frontend_output_tokens_total", 180)


def test_kv_routing_follows_events(place: Meeting) -> None:
    """Equal prompts go to the worker that has computed the first; a frontend that comes later knows it, too."""
    place.workers("--num-workers", "3", "--speedup-ratio", "100", "--block-size", "4")
    front = place.frontend("--router-mode", "kv")
    front.until_models("tiny")
    place.until_known(front, 3)
    prompt = " ".join(WORDS[10:50])

    def cached(of: object = front) -> int:
        status, answer = of.complete(prompt, 1)  # type: ignore[attr-defined]
        assert status == 200
        found: int = answer["usage"]["prompt_tokens_details"]["cached_tokens"]
        return found

    assert cached() == 0
    until(lambda: cached() >= 36)  # once the events have come
    (place.folder / "later").mkdir()
    place.folder = place.folder / "later"
    later = place.frontend("--router-mode", "kv")
    later.until_models("tiny")
    until(lambda: cached(later) >= 36)


def test_cache_salts_reach_workers(place: Meeting) -> None:
    """A prompt finds what was computed under its own salt only, and the router knows where that is."""
    place.workers("--num-workers", "3", "--speedup-ratio", "100", "--block-size", "4")
    front = place.frontend("--router-mode", "kv")
    front.until_models("tiny")
    place.until_known(front, 3)
    prompt = " ".join(WORDS[10:50])

    def cached(salt: str) -> int:
        status, answer = front.complete(prompt, 1, cache_salt=salt)
        assert status == 200
        found: int = answer["usage"]["prompt_tokens_details"]["cached_tokens"]
        return found

    for salt in ("one", "two"):
        assert cached(salt) == 0
        until(lambda salt=salt: cached(salt) >= 36)  # type: ignore[misc]
    until(lambda: cached("one") >= 36)


def test_routers_of_workers_with_hybrid_caches(place: Meeting) -> None:
    """Routers are told of a prefix up to where a prompt can go on, so equal prompts go to the worker that has it."""
    groups = [{"type": "full"}, {"type": "sliding_window", "window": 8}]
    engine = {"scheduler": "vllm", "block_size": 4, "num_gpu_blocks": 400, "kv_cache_groups": groups}
    place.workers("--num-workers", "3", "--extra-engine-args", json.dumps({**engine, "speedup_ratio": 100}))
    front = place.frontend("--router-mode", "kv")
    front.until_models("tiny")
    place.until_known(front, 3)

    def found(prompt: str) -> int:
        status, answer = front.complete(prompt, 1)
        assert status == 200
        tokens: int = answer["usage"]["prompt_tokens_details"]["cached_tokens"]
        return tokens

    firsts = iter(WORDS[10:])

    def follows() -> bool:
        """Whether 16 requests after the first find what it has stored: random choices do once in 43 million times."""
        prompt = " ".join([next(firsts), *WORDS[11:50]])
        assert found(prompt) == 0
        return [found(prompt) for _ in range(16)] == [36] * 16  # the last block is computed anew

    until(follows)  # once the events have come


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_frontends_choose_ranks_as_simulations_do(place: Meeting, engine: str) -> None:
    """Conversations of several turns, one request after the other: each finds as much as it does in a simulation whose
    router chooses ranks, and more than in one whose router chooses workers."""
    arguments = {"engine_type": engine, "scheduler": engine, "dp_size": 3, "block_size": 4, "num_gpu_blocks": 2000}
    turns = [(number, 12 + 20 * turn) for turn in range(4) for number in range(3)]  # conversation, tokens
    rows = [
        {"timestamp": 2000 * at, "input_length": tokens, "output_length": 1,
         "hash_ids": [1000 * number + block for block in range(tokens // 4)]}
        for at, (number, tokens) in enumerate(turns)
    ]  # fmt: skip
    trace = place.folder / "trace.jsonl"
    trace.write_text("".join(json.dumps(row) + "\n" for row in rows))

    def simulated(routing: str) -> list[int]:
        given = {**arguments, "dp_routing": routing}
        report = run_trace_replay(
            trace, trace_block_size=4, num_workers=2, router_mode="kv_router", extra_engine_args=given
        )
        return [int(tokens) for tokens in report.requests["reused_input_tokens"]]

    expected = simulated("router")
    assert sum(expected) > sum(simulated("round_robin"))
    place.workers("--num-workers", "2", "--extra-engine-args", json.dumps({**arguments, "speedup_ratio": 100}))
    front = place.frontend("--router-mode", "kv")
    front.until_models("tiny")
    place.until_known(front, 2)
    salts = itertools.count()

    def as_simulated() -> bool:
        """Whether all turns find what they do in the simulation; they do not while events are late."""
        salt, found = str(next(salts)), []
        for number, tokens in turns:
            words = " ".join([WORDS[3 + number], *WORDS[10 : 9 + tokens]])
            status, answer = front.complete(words, 1, cache_salt=salt)
            assert status == 200
            found.append(answer["usage"]["prompt_tokens_details"]["cached_tokens"])
        return found == expected

    until(as_simulated)


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_kv_routing_follows_host_memory(place: Meeting, engine: str) -> None:
    """Prompts that have left all GPUs go to the worker that has them on its host, which finds them there."""
    arguments = {
        "engine_type": engine,
        "scheduler": engine,
        "block_size": 4,
        "num_gpu_blocks": 40,
        "speedup_ratio": 100,
    }
    arguments |= {"host_cache": {"num_blocks": 2000, "load_ms_per_block": 0.01, "store_ms_per_block": 0.01}}
    place.workers("--num-workers", "4", "--extra-engine-args", json.dumps(arguments))
    front = place.frontend("--router-mode", "kv")
    front.until_models("tiny")
    place.until_known(front, 4)
    until(lambda: front.log.count("KV events of a worker are heard") == 4)

    def cached(number: int) -> int:
        words = WORDS[3 + number :]
        status, answer = front.complete(" ".join(words[:64]), 1)
        assert status == 200
        found: int = answer["usage"]["prompt_tokens_details"]["cached_tokens"]
        return found

    assert [cached(number) for number in range(8)] == [0] * 8
    for number in range(8, 32):  # each has 17 of the 40 blocks of a GPU
        cached(number)
    found = [cached(number) for number in range(8)]
    assert sum(tokens >= 60 for tokens in found) >= 6, found  # 2 if workers were chosen without regard to it


@pytest.mark.parametrize("lag_ms", [1, 3_600_000])
def test_kv_events_that_are_late(place: Meeting, lag_ms: int) -> None:
    """Equal prompts find their blocks once the router has heard of them, and go anywhere until then."""
    engine = ("--speedup-ratio", "100", "--block-size", "4")
    place.workers("--num-workers", "4", *engine, "--kv-event-lag-ms", str(lag_ms))
    front = place.frontend("--router-mode", "kv")
    front.until_models("tiny")
    place.until_known(front, 4)
    firsts = iter(WORDS)

    def follows() -> bool:
        """Whether 12 requests after the first find what it has stored: random choices do once in 16 million times."""
        prompt = " ".join([next(firsts), *WORDS[10:50]])
        answers = [front.complete(prompt, 1)[1] for _ in range(13)]
        return all(answer["usage"]["prompt_tokens_details"]["cached_tokens"] >= 36 for answer in answers[1:])

    if lag_ms == 1:
        until(follows)
    else:
        assert not follows()


def test_killed_worker_is_replaced(place: Meeting) -> None:
    """Every stream goes on at the other worker, and later requests notice nothing, though the record is still there."""
    doomed = place.workers(*STEADY)
    front = place.frontend("--migration-limit", "1")
    front.until_models("tiny")
    body = {"model": "tiny", "prompt": "tok5 tok6", "max_tokens": 200, "ignore_eos": True, "stream": True}
    with ThreadPoolExecutor(4) as pool:
        begun = [stream(front.url + "/v1/completions", body) for _ in range(4)]
        parts = list(pool.map(next, begun))
        survivor = place.workers("--speedup-ratio", "10")
        place.until_known(front, 2)
        kill(doomed)
        rests = list(pool.map(list, begun))
    for part, rest in zip(parts, rests, strict=True):
        text = "".join(event["choices"][0]["text"] for event in [part, *rest])
        assert len(text.split()) == 200
        assert rest[-1]["choices"][0]["finish_reason"] == "length"
    assert survivor.process.poll() is None
    assert [front.complete(f"tok{i}")[0] for i in range(5, 25)] == [200] * 20
    place.until_known(front, 1)


def test_broken_answer_without_migration(place: Meeting) -> None:
    doomed = place.workers(*STEADY)
    front = place.frontend()
    front.until_models("tiny")
    events = stream(
        front.url + "/v1/completions", {"model": "tiny", "prompt": "tok5", "max_tokens": 500, "stream": True}
    )
    next(events)
    kill(doomed)
    last = list(events)[-1]
    assert "--migration-limit" in last["error"]["message"]
    status, answer = front.complete("tok5")
    assert status in (404, 503), answer
    assert answer["error"]["message"]


def test_client_that_goes_away_stops_the_worker(place: Meeting) -> None:
    worker = place.workers("--decode-speedup-ratio", "0.05", DYN_SYSTEM_PORT="0", DYN_SYSTEM_HOST="127.0.0.1")
    front = place.frontend()
    front.until_models("tiny")
    worker.wait_for("status server")
    page = "http://" + worker.log.split('"status server" address=')[1].split()[0] + "/metrics"

    def running() -> float:
        found = [line for line in get(page)[1].splitlines() if line.startswith("vllm:num_requests_running{")]
        return sum(float(line.split()[-1]) for line in found)

    body = json.dumps({"model": "tiny", "prompt": "tok5", "max_tokens": 4000, "stream": True}).encode()
    request = urllib.request.Request(front.url + "/v1/completions", data=body)
    with urllib.request.urlopen(request) as response:
        response.readline()
        until(lambda: running() == 1)
    until(lambda: running() == 0)
    until(lambda: front.metric("dynosim_requests_in_flight") == 0)


def test_overload(place: Meeting) -> None:
    """Requests beyond what workers accept get 503, and --max-queue gives 429."""
    place.workers("--decode-speedup-ratio", "0.01", DYN_ENGINE_REQUEST_LIMIT="1", DYN_DYNAMO_REQUEST_QUEUE_LIMIT="2")
    front = place.frontend()
    front.until_models("tiny")
    begun = stream(
        front.url + "/v1/completions", {"model": "tiny", "prompt": "tok5", "max_tokens": 4000, "stream": True}
    )
    next(begun)
    body = {"model": "tiny", "prompt": "tok5", "max_tokens": 4000, "stream": True}
    with ThreadPoolExecutor(8) as pool:
        for _ in range(8):
            pool.submit(post, front.url + "/v1/completions", body)
        until(lambda: front.samples("dynosim_http_errors_total").get('status="503"', 0) >= 1)
        begun.close()
        front.process.kill()


def test_bad_input(place: Meeting) -> None:
    for arguments, says in {
        ("--standalone",): "standalone, frontend",
        ("--discovery-backend", "mem"): "discovery_backend",
        ("--model-path", "/nowhere"): "model_path",
        ("--router-config", '{"x": 1}'): "router_config",
        ("--migration-limit", "-1"): "migration",
    }.items():
        front = place.frontend(*arguments)
        assert front.wait() == 2, front.log
        assert says in front.log
        assert len(front.log.strip().splitlines()) == 1
