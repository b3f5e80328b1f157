"""KV events in the engine's own format, as the relay of ai-dynamo 1.3.1 reads them from our workers."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

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
    await asyncio.sleep(300)

asyncio.run(relay())
"""
COUNT = re.compile(r'zmq_events_total\{.*event_type="(\w+)",stage="(\w+)".* (\d+)')


def counts(status: str) -> dict[tuple[str, str], int]:
    return {(kind, stage): int(n) for kind, stage, n in COUNT.findall(get(status + "/metrics")[1])}


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
        time.sleep(1)  # for the subscription
        (url,) = (r["transport"]["http"] for r in records(tmp_path / "kv") if r["endpoint"] == "generate")
        for i in range(6):
            prompt = list(range(100 * i, 100 * i + 100))
            assert "complete_final" in post(url, {"token_ids": prompt, "stop_conditions": {"max_tokens": 40}})[1]
        sent = counts(f"http://127.0.0.1:{ours}")
        assert min(sent.values()) > 0
        until(lambda: counts(f"http://127.0.0.1:{theirs}") == sent)
        assert "ERROR" not in relay.log
