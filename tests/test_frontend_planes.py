"""``--frontend`` over every request plane, with discovery by etcd, and with prefill and decode workers."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from frontendtools import Meeting, kill, meeting
from livetools import WORDS, until

sys.path.insert(0, str(Path(__file__).parent / "interop"))

from servers import Etcd, Nats, free_port

FAST = ("--speedup-ratio", "100", "--block-size", "4")
PROMPT = " ".join(WORDS[10:50])


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Meeting]:
    with meeting(tmp_path) as m:
        yield m


@pytest.fixture
def nats(tmp_path: Path) -> Iterator[Nats]:
    server = Nats(tmp_path)
    yield server
    server.kill()


@pytest.fixture
def etcd(tmp_path: Path) -> Iterator[Etcd]:
    server = Etcd(tmp_path)
    yield server
    server.kill()


def answers_and_routes(place: Meeting, *arguments: str) -> None:
    """Requests are answered, and a repeated prompt goes where it is cached."""
    place.workers("--num-workers", "2", *FAST, *arguments)
    front = place.frontend("--router-mode", "kv")
    front.until_models("tiny")
    place.until_known(front, 2)

    def cached() -> int:
        status, answer = front.complete(PROMPT, 3)
        assert status == 200, answer
        assert answer["usage"]["completion_tokens"] == 3
        found: int = answer["usage"]["prompt_tokens_details"]["cached_tokens"]
        return found

    until(lambda: cached() >= 36)
    status, answer = front.complete(" ".join(["tok5"] * 8000), 4000)
    assert status == 400, answer
    assert "context" in answer["error"]["message"]


def test_http_plane(place: Meeting) -> None:
    answers_and_routes(place, "--request-plane", "http")


def test_nats_planes(tmp_path: Path, nats: Nats) -> None:
    with meeting(tmp_path, {"NATS_SERVER": nats.url}) as place:
        answers_and_routes(place, "--request-plane", "nats", "--event-plane", "nats")


def test_etcd(tmp_path: Path, etcd: Etcd) -> None:
    environment = {"DYN_DISCOVERY_BACKEND": "etcd", "ETCD_ENDPOINTS": etcd.url, "ETCD_LEASE_TTL": "60"}
    with meeting(tmp_path, environment) as place:
        answers_and_routes(place)


def test_etcd_that_goes_away(tmp_path: Path, etcd: Etcd) -> None:
    """Workers that are known are served while etcd is away, and new ones are found when it is back."""
    with meeting(tmp_path, {"DYN_DISCOVERY_BACKEND": "etcd", "ETCD_ENDPOINTS": etcd.url}) as place:
        place.workers(*FAST)
        front = place.frontend()
        front.until_models("tiny")
        etcd.kill()
        front.wait_for("cannot be read")
        assert front.complete(PROMPT)[0] == 200
        etcd.start()
        place.workers(*FAST, name="other")
        until(lambda: "other" in front.models())
        assert front.complete(PROMPT, model="other")[0] == 200


def test_without_etcd(place: Meeting) -> None:
    nowhere = f"http://127.0.0.1:{free_port()}"
    front = place.frontend(DYN_DISCOVERY_BACKEND="etcd", ETCD_ENDPOINTS=nowhere)
    assert front.wait() == 1
    assert "ETCD_ENDPOINTS" in front.log


@pytest.mark.parametrize("mode", ["round-robin", "kv"])
@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_prefill_and_decode(place: Meeting, mode: str, engine: str) -> None:
    """A model is there once it has both; hand-offs run between the workers."""
    common = (
        "--engine-type",
        engine,
        "--speedup-ratio",
        "10",
        "--kv-bytes-per-token",
        "1024",
        "--kv-transfer-bandwidth",
        "1",
    )
    place.workers("--disaggregation-mode", "decode", "--num-workers", "2", *common)
    front = place.frontend("--router-mode", mode)
    place.until_known(front, 2)
    assert front.models() == []
    ports = f"{free_port()},{free_port()}"
    prefill = place.workers(
        "--disaggregation-mode",
        "prefill",
        "--num-workers",
        "2",
        "--bootstrap-ports",
        ports,
        *common,
        DYN_HTTP_RPC_HOST="127.0.0.1",
    )
    front.until_models("tiny")
    place.until_known(front, 4)
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda i: front.complete(f"{PROMPT} tok{i}", 5), range(5, 29)))
    for status, answer in answers:
        assert status == 200, answer
        assert answer["usage"]["completion_tokens"] == 5
    prefill.stop()
    front.until_models()
    assert front.complete(PROMPT)[0] == 503


def test_prefill_without_bootstrap(place: Meeting) -> None:
    common = ("--speedup-ratio", "10")
    place.workers("--disaggregation-mode", "prefill", *common)
    place.workers("--disaggregation-mode", "decode", *common)
    front = place.frontend()
    front.until_models("tiny")
    status, answer = front.complete(PROMPT, 5)
    assert (status, answer["usage"]["completion_tokens"]) == (200, 5), answer


def test_prefill_worker_that_is_killed(place: Meeting) -> None:
    """A hand-off that cannot be made is made with another prefill worker."""
    common = ("--speedup-ratio", "10")
    environment = {"DYN_HTTP_RPC_HOST": "127.0.0.1"}
    place.workers("--disaggregation-mode", "decode", *common)
    prefill = ("--disaggregation-mode", "prefill", *common, "--bootstrap-ports")
    doomed = place.workers(*prefill, str(free_port()), **environment)
    front = place.frontend()
    front.until_models("tiny")
    place.workers(*prefill, str(free_port()), **environment)
    place.until_known(front, 3)
    kill(doomed)
    assert [front.complete(PROMPT)[0] for _ in range(6)] == [200] * 6
