"""KV events in the engine's own format, as the relay of ai-dynamo 1.3.1 reads them from our workers."""

from __future__ import annotations

import itertools
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest
from conftest import free_port
from livetools import Service, get, make_model, mocker, post, records, until

RELAY = """
import asyncio, sys
from dynamo.llm import KvEventPublisher
from dynamo.runtime import DistributedRuntime

async def relay():
    runtime = DistributedRuntime(asyncio.get_running_loop(), "file", "tcp")
    endpoint = runtime.endpoint("dynamo.relay.generate")
    publisher = KvEventPublisher(
        endpoint, kv_block_size=16, enable_local_indexer=True, zmq_endpoint=sys.argv[1], zmq_topic=""
    )
    print("relaying", flush=True)
    await asyncio.sleep(3000)

asyncio.run(relay())
"""
T = TypeVar("T")
COUNT = re.compile(r'zmq_events_total\{.*event_type="(\w+)",stage="(\w+)".* (\d+)')


def counts(status: str) -> dict[tuple[str, str], int]:
    return {(kind, stage): int(n) for kind, stage, n in COUNT.findall(get(status + "/metrics")[1])}


def settled(look: Callable[[], T]) -> T:
    """What is the same for a second."""
    while True:
        seen = [look()]
        for _ in range(10):
            time.sleep(0.1)
            seen.append(look())
        if all(each == seen[0] for each in seen):
            return seen[0]


@pytest.mark.parametrize("engine", [[], ["--engine-type", "sglang", "--sglang-page-size", "16"]])
def test_the_relay_accepts_everything(tmp_path: Path, engine: list[str]) -> None:
    """Prompts go through a small pool: as many stored and removed events as our worker sends are accepted."""
    port, ours, theirs = free_port(), free_port(), 20000 + free_port() % 10000  # theirs takes no port above 32767
    environment = {
        "DYN_FILE_KV": str(tmp_path / "kv"),
        "DYN_HTTP_RPC_HOST": "127.0.0.1",
        "DYN_TCP_RPC_HOST": "127.0.0.1",
        "DYN_SYSTEM_HOST": "127.0.0.1",
        "DYN_LOG": "info",
    }
    model = make_model(tmp_path / "tiny")
    pool = ["--block-size", "16", "--num-gpu-blocks-override", "20"]
    planes = ["--discovery-backend", "file", "--request-plane", "http", "--zmq-kv-events-ports", str(port)]
    command = mocker("--model-path", str(model), *planes, *pool, *engine)
    script = tmp_path / "relay.py"
    script.write_text(RELAY)
    relay_command = [os.environ["REFERENCE"], str(script), f"tcp://127.0.0.1:{port}"]
    with (
        Service(command, tmp_path / "worker.log", {**environment, "DYN_SYSTEM_PORT": str(ours)}) as worker,
        Service(relay_command, tmp_path / "relay.log", {**environment, "DYN_SYSTEM_PORT": str(theirs)}) as relay,
    ):
        worker.wait_for("serving")
        relay.wait_for("relaying")
        (url,) = (r["transport"]["http"] for r in records(tmp_path / "kv") if r["endpoint"] == "generate")
        numbers = itertools.count()

        def compute(prompts: int) -> None:
            for i in itertools.islice(numbers, prompts):
                prompt = list(range(100 * i, 100 * i + 100))
                assert "complete_final" in post(url, {"token_ids": prompt, "stop_conditions": {"max_tokens": 40}})[1]

        def difference() -> dict[tuple[str, str], int]:
            """What was sent and not accepted."""
            accepted = counts(f"http://127.0.0.1:{theirs}")
            sent = counts(f"http://127.0.0.1:{ours}")
            return {kind: n - accepted.get(kind, 0) for kind, n in sent.items()}

        def heard() -> bool:
            compute(1)
            return bool(counts(f"http://127.0.0.1:{theirs}"))

        until(heard)  # once the subscription is there; what came before it is lost
        lost = settled(difference)
        compute(6)
        assert min(counts(f"http://127.0.0.1:{ours}").values()) > 0
        until(lambda: difference() == lost)
        assert "ERROR" not in relay.log
