"""Prefill and decode workers over HTTP: the test plays the frontend, which sends a request to both of them."""

from __future__ import annotations

import contextlib
import http.client
import json
import random
import signal
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from livetools import PATIENCE_S, make_model, post, records, until
from test_live import Workers, answer, bad_input, free_port

PROMPT = list(range(3, 163))
ENGINES = {"vllm": [], "sglang": ["--engine-type", "sglang", "--sglang-page-size", "16"]}
LOAD = {
    "vllm": ["vllm:num_requests_running", "vllm:num_requests_waiting"],
    "sglang": ["sglang:num_running_reqs", "sglang:num_queue_reqs"],
}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(make_model(tmp_path_factory.mktemp("models") / "tiny"))


class Pair:
    """A prefill and a decode worker."""

    def __init__(self, prefill: Workers, decode: Workers) -> None:
        self.prefill = prefill
        self.decode = decode
        card = records(prefill.root, "mdc")[0]["card_json"]
        self.meeting: dict[str, Any] = card["runtime_config"]["disaggregated_endpoint"]

    def ask(self, max_tokens: int = 4, prompt: list[int] | None = None) -> tuple[Answer, Answer]:
        """Sends a request to both, as a frontend does, and returns what each of them says."""
        info = {**self.meeting, "bootstrap_room": random.getrandbits(63), "handoff_id": str(uuid.uuid4())}
        body = {"token_ids": prompt or PROMPT, "stop_conditions": {"max_tokens": max_tokens}, "bootstrap_info": info}
        headers = {"request-id": str(uuid.uuid4())}
        prefill = Answer(lambda: post(self.prefill.url(), body, headers))
        return prefill, Answer(lambda: post(self.decode.url(), body, headers))


class Answer:
    """What a worker says, as soon as it has said everything."""

    def __init__(self, ask: Callable[[], tuple[int, str]]) -> None:
        self._got: list[tuple[int, str]] = []
        self._ask = ask
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        with contextlib.suppress(OSError, http.client.HTTPException):  # of a worker that was killed
            self._got.append(self._ask())

    def text(self) -> str:
        self._thread.join(timeout=PATIENCE_S)
        assert self._got, "no answer"
        status, text = self._got[0]
        assert status == 200, text
        return text

    def items(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.text().splitlines()]


@contextmanager
def pair(folder: Path, model: str, engine: list[str], *more: str) -> Iterator[Pair]:
    for name in ("prefill", "decode"):
        (folder / name).mkdir()
    standard = ["--model-path", model, "--model-name", "tiny", *engine, *more]
    port = str(free_port())
    with (
        Workers(folder / "prefill", *standard, "--disaggregation-mode", "prefill", "--bootstrap-ports", port) as p,
        Workers(folder / "decode", *standard, "--disaggregation-mode", "decode") as d,
    ):
        for w in (p, d):
            w.wait_for("serving")
        yield Pair(p, d)


@pytest.mark.parametrize("engine", ENGINES)
def test_handoff(tmp_path: Path, model: str, engine: str) -> None:
    with pair(tmp_path, model, ENGINES[engine]) as workers:
        for _ in range(2):
            prefill, decode = workers.ask(5)
            tokens, finish = answer(decode.text())
            assert (len(tokens), finish) == (5, "length")
            token, end, final = prefill.items()
            assert len(token["data"]["token_ids"]) == 1
            assert token["data"]["disaggregated_params"] == "dummy"
            assert (end["data"]["finish_reason"], final) == ("length", {"complete_final": True})

        # More than the pools hold at a time.
        answers = [workers.ask(20, [i] * 500) for i in range(3, 60)]
        assert all(len(answer(decode.text())[0]) == 20 for _, decode in answers)
        assert all(len(prefill.items()) == 3 for prefill, _ in answers)

        # What concerns only the request.
        for worker, info, problem in [
            (workers.prefill, {"bootstrap_room": 1}, "requires a handoff ID"),
            (workers.decode, {"handoff_id": "x"}, "want a UUID"),
        ]:
            body = {"token_ids": PROMPT, "stop_conditions": {"max_tokens": 1}, "bootstrap_info": info}
            error = json.loads(post(worker.url(), body)[1].splitlines()[0])["error"]
            assert problem in error["message"]

        for w in (workers.prefill, workers.decode):
            w.stop()
            assert w.wait() == 0
            assert records(w.root) == records(w.root, "mdc") == []


def test_records(tmp_path: Path, model: str) -> None:
    with pair(tmp_path, model, []) as workers:
        (prefill,), (decode,) = (records(w.root, "mdc") for w in (workers.prefill, workers.decode))
        assert (prefill["component"], decode["component"]) == ("prefill", "backend")
        card = prefill["card_json"]
        assert (card["model_type"], card["worker_type"], card["needs"]) == ("", "prefill", [["decode"]])
        assert card["runtime_config"]["disaggregated_endpoint"]["bootstrap_host"] == "127.0.0.1"
        card = decode["card_json"]
        assert card["model_type"] == "Chat | Completions"
        assert (card["worker_type"], card["needs"]) == ("decode", [["prefill"]])
        assert card["runtime_config"]["enable_local_indexer"] is False
        assert "disaggregated_endpoint" not in card["runtime_config"]
        topics = {r["topic"] for r in records(workers.decode.root, "event_channels")}
        assert topics == {"kv_metrics", "forward-pass-metrics"}
        assert len(records(workers.decode.root)) == 1
        assert len(records(workers.prefill.root)) == 3  # two for routers that have missed events


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("victim", ["prefill", "decode"])
def test_a_killed_worker(tmp_path: Path, model: str, engine: str, victim: str) -> None:
    """The other one lets go of what it has, says that the answer has no end, and goes on."""
    slow = ["--speedup-ratio", "0.003", "--num-gpu-blocks-override", "1000"]
    with pair(tmp_path, model, ENGINES[engine], *slow) as workers:
        prefill, decode = workers.ask(50)
        other = workers.decode if victim == "prefill" else workers.prefill
        until(lambda: sum(workers.prefill.metric(name) for name in LOAD[engine]) == 1)  # once both have met
        getattr(workers, victim).stop(signal.SIGKILL)
        left = decode if victim == "prefill" else prefill
        assert {"complete_final": True} not in left.items()
        until(lambda: sum(other.metric(name) for name in LOAD[engine]) == 0)
        assert "a hand-off failed" in other.log
        body = {"token_ids": PROMPT[:5], "stop_conditions": {"max_tokens": 1}}
        assert len(answer(post(other.url(), body)[1])[0]) == 1


def test_without_bootstrap(tmp_path: Path, model: str) -> None:
    """The prefill worker waits for the transfer before it says that it is done; the deprecated flags still work."""
    arguments = ["--model-path", model, "--is-prefill-worker", "--kv-bytes-per-token", "1000000"]
    with Workers(tmp_path, *arguments, "--kv-transfer-bandwidth", "0.2") as w:
        w.wait_for("serving")
        assert "is_prefill_worker is deprecated" in w.log
        began = time.monotonic()
        body = {"token_ids": PROMPT, "stop_conditions": {"max_tokens": 7}}
        tokens, finish = answer(post(w.url(), body)[1])
        assert (len(tokens), finish) == (1, "length")
        assert time.monotonic() - began > 0.8  # 160 MB at 0.2 GB/s
        body["bootstrap_info"] = {"handoff_id": str(uuid.uuid4())}
        assert "has no bootstrap port" in post(w.url(), body)[1]


def test_arguments_in_a_file(tmp_path: Path, model: str) -> None:
    file = tmp_path / "engine.json"
    file.write_text(json.dumps({"is_decode": True}))
    standard = ["--model-path", model, "--extra-engine-args", str(file)]
    with Workers(tmp_path, *standard) as w:
        w.wait_for("serving")
        assert records(w.root, "mdc")[0]["card_json"]["worker_type"] == "decode"
    mixed = ["--discovery-backend", "file", *standard, "--disaggregation-mode", "prefill"]
    bad_input(tmp_path, mixed, "disaggregation_mode: got that of prefill workers")
    file.write_text(json.dumps({"bootstrap_port": free_port()}))
    with Workers(tmp_path, *standard, "--disaggregation-mode", "prefill") as w:
        w.wait_for("serving")
        (card,) = [r["card_json"] for r in records(w.root, "mdc") if r["card_json"]["worker_type"] == "prefill"]
        assert card["runtime_config"]["disaggregated_endpoint"]["bootstrap_port"] > 0


def test_a_taken_bootstrap_port(tmp_path: Path, model: str) -> None:
    (tmp_path / "second").mkdir()
    port = str(free_port())
    arguments = ["--model-path", model, "--disaggregation-mode", "prefill", "--bootstrap-ports", port]
    with Workers(tmp_path, *arguments) as first:
        first.wait_for("serving")
        with Workers(tmp_path / "second", *arguments) as second:
            assert second.wait() == 1
            assert "bootstrap port" in second.log
            assert records(second.root, "mdc") == []
