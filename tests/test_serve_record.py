"""What the OpenAI-compatible server records is a trace: a replay finds the same in its caches, at the same times."""

from __future__ import annotations

import json
import random
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest
from conftest import refused
from livetools import mocker, post
from servetools import MODEL, Server, serving

from dynamo.mocker import MockEngineArgs
from dynamo.replay import run_trace_replay

WORKERS, BLOCK, BLOCKS, SPEEDUP = 4, 16, 900, 20.0
CLIENTS, SESSIONS, TURNS = 12, 4, 5


def converse(url: str, client: int, answers: list[dict[str, Any]]) -> None:
    """Sessions of several turns: each begins with one of a few system prompts, and has all that was said before."""
    draw = random.Random(client)
    for _ in range(SESSIONS):
        said = f"Instructions, number {draw.randrange(5)}. " * 12
        for _ in range(TURNS):
            said += " And then?" * draw.randrange(1, 9)
            body = {"model": MODEL, "prompt": said, "max_tokens": draw.randrange(1, 90)}
            status, text = post(url + "/v1/completions", body)
            assert status == 200, text
            answers.append(json.loads(text))
            said += answers[-1]["choices"][0]["text"]


def ended(server: Server) -> None:
    """Ends a server, which then has written all rows."""
    server.stop()
    assert server.wait() == 0


def recorded(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_replay_finds_the_same(tmp_path: Path) -> None:
    trace = tmp_path / "recorded.jsonl"
    answers: list[dict[str, Any]] = []
    arguments = ["--num-workers", str(WORKERS), "--router-mode", "kv", "--block-size", str(BLOCK)]
    arguments += ["--num-gpu-blocks-override", str(BLOCKS), "--speedup-ratio", str(SPEEDUP), "--record", str(trace)]
    with serving(tmp_path, *arguments) as s:
        clients = [threading.Thread(target=converse, args=(s.url, i, answers)) for i in range(CLIENTS)]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
        ended(s)
    rows = recorded(trace)
    assert len(rows) == len(answers) == CLIENTS * SESSIONS * TURNS
    told = {a["id"]: a["usage"]["prompt_tokens_details"]["cached_tokens"] for a in answers}
    assert told == {row["answer_id"]: row["cached_tokens"] for row in rows}
    assert sum(told.values()) > 0
    engine = MockEngineArgs(block_size=BLOCK, num_gpu_blocks=BLOCKS, speedup_ratio=SPEEDUP)
    replayed = run_trace_replay(
        trace, trace_block_size=BLOCK, num_workers=WORKERS, router_mode="kv_router", extra_engine_args=engine
    ).requests
    assert replayed["reused_input_tokens"].tolist() == [row["cached_tokens"] for row in rows]
    assert replayed["ttft_ms"].tolist() == pytest.approx([row["ttft_ms"] for row in rows], abs=1e-6)


def test_sessions_and_adapters(tmp_path: Path) -> None:
    trace = tmp_path / "recorded.jsonl"
    with serving(tmp_path, "--block-size", "16", "--lora-modules", "sql", "--record", str(trace)) as s:
        for model in (MODEL, "sql"):
            body = {"model": model, "prompt": "x" * 40, "max_tokens": 2}
            assert post(s.url + "/v1/completions", body, {"X-Session-Id": f"of {model}"})[0] == 200
        ended(s)
    base, adapter = recorded(trace)
    assert (base["model"], adapter["model"]) == (MODEL, "sql")
    assert (base["session_id"], adapter["session_id"]) == (f"of {MODEL}", "of sql")
    assert not set(base["hash_ids"]) & set(adapter["hash_ids"])
    assert base["outcome"] == "completed"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--record", "no/such/folder/x"], "record: got 'no/such/folder/x', want a file that can be written"),
        (["--record", "x", "--models", '[{"model_name": "a"}, {"model_name": "b"}]'], "record: got the same file"),
    ],
)
def test_refused(folder: Path, arguments: list[str], message: str) -> None:
    done = subprocess.run(
        mocker("--standalone", "--http-port", "0", *arguments), cwd=folder, capture_output=True, text=True, timeout=300
    )
    assert message in refused(done).replace('"', "'")
