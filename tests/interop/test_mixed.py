"""Two workers of ours and two of ai-dynamo 1.6.1 serve one model behind each frontend, with KV-aware routing."""

from __future__ import annotations

import itertools
import signal
from collections.abc import Callable
from functools import partial

import pytest
from conftest import Site, Worker, interpreter
from livetools import until
from servers import Servers
from test_frontend import in_threads, words

Make = Callable[..., Site]

BLOCK, PREFIX = 16, 320  # tokens
ASKED = 4  # requests after the first one of a prefix
GROUPS = 12
_prompts = itertools.count()


def mixed(s: Site, release: str = "1.6") -> list[Worker]:
    """Starts the workers, each in a process of its own, those of ours first. Their cards are those of a release."""
    engine = ("--block-size", str(BLOCK), "--speedup-ratio", "2")
    ours = [s.workers(*engine, "--dynamo-release", release, name=f"ours{i}") for i in range(2)]
    reference = [interpreter(release), "-m", "dynamo.mocker"]
    theirs = [
        s._launch(lambda *more: [*reference, *more], f"theirs{i}", engine, {"DYN_SYSTEM_PORT": "-1"}) for i in range(2)
    ]
    s.ready(4)
    return ours + theirs


def overlap(s: Site) -> float:
    """The share of the tokens of known prefixes that workers find in their caches, for prefixes that are new.

    Requests that go anywhere find half: each worker has a prefix once it has been asked.
    """

    def group(_: int) -> int:
        rows = next(_prompts)
        prefix = " ".join(f"tok{5 + (rows * 389 + i * (7 + rows % 11)) % 1900}" for i in range(PREFIX))
        found = 0
        for number in range(ASKED + 1):
            status, answer = s.complete(f"{prefix} {words(5 + number, 8)}", 4)
            assert status == 200, answer
            cached = (answer["usage"].get("prompt_tokens_details") or {}).get("cached_tokens") or 0
            found += min(cached, PREFIX) if number else 0
        return found

    return sum(in_threads(GROUPS, group)) / (GROUPS * ASKED * PREFIX)


@pytest.mark.parametrize("frontend", ["1.3", "1.6", "ours"])
def test_mixed_fleet(site: Make, frontend: str) -> None:
    """More than 0.7 of the possible overlap; with migration nothing is lost when a worker of each make is killed.

    The KV-aware router of 1.3 loses requests of its own accord (docs/live.md), so none are sent there meanwhile.
    """
    limit = ("--migration-limit", "5")
    if frontend == "ours":
        s = site("kv", *limit, own=True)
    else:
        s = site("kv", *limit, "--kv-cache-block-size", str(BLOCK), release=frontend)
    workers = mixed(s)
    until(lambda: overlap(s) > 0.7)
    if frontend == "1.3":
        return
    killed(s, workers)


def killed(s: Site, workers: list[Worker]) -> None:
    """Sends 36 requests, kills a worker of each make in the middle of them, and expects all answers."""
    answers = []

    def ask(number: int) -> None:
        for turn in range(3):
            answers.append(s.complete(words(5 + 40 * (number + 12 * turn), 30), 150))

    def started() -> bool:
        return all(w.metric("vllm:num_requests_running") > 0 for w in workers[:2])

    def kill(_: int) -> None:
        until(lambda: started() or len(answers) >= 12)
        for victim in (workers[0], workers[2]):
            victim.service.stop(signal.SIGKILL)

    in_threads(13, lambda number: ask(number) if number else kill(number))
    assert [status for status, _ in answers] == [200] * 36, [a for a in answers if a[0] != 200]
    assert {len(done["choices"][0]["text"].split()) for _, done in answers} == {150}


def test_nothing_is_lost_behind_1_3(site: Make) -> None:
    """With round robin, requests over NATS and a large limit; with other settings 1.3.1 loses some (docs/live.md)."""
    s = site("round-robin", "--migration-limit", "1000", release="1.3", servers=partial(Servers, nats=True))
    killed(s, mixed(s, "1.3"))
