"""Routers in Python in the OpenAI-compatible server: where requests go, what routers are told, and how they fail."""

from __future__ import annotations

import contextlib
import json
import subprocess
from pathlib import Path

import pytest
from frontendtools import meeting
from livetools import PATIENCE_S, mocker, post, until
from servetools import FAST, MODEL, SLOW, Server, serving

ROUTER = """
import json

from dynamo.replay.routers import REJECT

class Pin:
    '''Sends what a tenant asks for to its worker, and notes what it was told.'''

    def __init__(self, path="notes", worker=1):
        self.path, self.worker = path, worker

    def note(self, **facts):
        with open(self.path, "a") as lines:
            lines.write(json.dumps(facts) + "\\n")

    def choose(self, request, workers):
        self.note(session=request.session, tenant=request.tenant, priority=request.priority, stage=request.stage,
                  left_ms=round(request.deadline_ms - request.arrival_ms, 3) if request.deadline_ms < 1e300 else None,
                  queue=[int(n) for n in workers.queue])
        if request.tenant == "broken":
            raise KeyError("no such tenant")
        if request.tenant == "nobody" and request.stage != "decode":
            return REJECT
        return self.worker if request.tenant == "b" else 0

    def completed(self, request, worker, now_ms):
        self.note(left=worker, stage=request.stage)
"""


@pytest.fixture
def router(tmp_path: Path) -> str:
    (tmp_path / "pin.py").write_text(ROUTER)
    return f"{tmp_path / 'pin.py'}:Pin"


def notes(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def ask(server: Server, **headers: str) -> tuple[int, str]:
    body = {"model": MODEL, "prompt": "Hello there", "max_tokens": 3, "priority": 7}
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    return post(f"{server.url}/v1/completions", body, headers=named)


def test_it_decides_and_is_told(tmp_path: Path, router: str) -> None:
    told = tmp_path / "notes"
    settings = json.dumps({"path": str(told), "worker": 2})
    with serving(
        tmp_path / "server", "--num-workers", "3", "--router", router, "--router-config", settings, *FAST
    ) as s:
        assert ask(s, X_Tenant_ID="b", X_Deadline_Ms="2500", X_Session_ID="chat")[0] == 200
        status, text = ask(s, X_Tenant_ID="nobody")
        assert (status, json.loads(text)["error"]["code"]) == (429, "rate_limit_exceeded")
        assert "the router refused it" in text
        status, text = ask(s, X_Deadline_Ms="soon")
        assert (status, json.loads(text)["error"]["message"]) == (
            400,
            'header X-Deadline-Ms: got "soon", want a number of milliseconds above 0 and up to 1e12',
        )
        assert ask(s)[0] == 200
        until(lambda: sorted(s.samples("vllm:generation_tokens_total").values()) == [0, 3, 3])
    first, left, refused, last, *_ = notes(told)
    assert first == {
        **{"session": "chat", "tenant": "b", "priority": 7, "stage": "", "left_ms": 2500},
        "queue": [0, 0, 0],
    }
    assert left == {"left": 2, "stage": ""}
    assert (refused["tenant"], last["tenant"], last["left_ms"]) == ("nobody", "", None)


def test_two_pools_and_two_models(tmp_path: Path, router: str) -> None:
    models = [
        {"model_name": "one", "num_workers": 2, "router": router, "router_config": {"path": str(tmp_path / "one")}},
        {"model_name": "two", "num_prefill_workers": 2, "num_decode_workers": 2}
        | {"router": router, "router_config": {"path": str(tmp_path / "two")}},
        {"model_name": "three", "num_workers": 2},
    ]
    with serving(tmp_path / "server", "--models", json.dumps(models), *FAST) as s:
        for name in ("one", "two", "three"):
            assert post(f"{s.url}/v1/completions", {"model": name, "prompt": "Hello", "max_tokens": 3})[0] == 200
    assert [note["stage"] for note in notes(tmp_path / "one") if "queue" in note] == [""]
    assert [note["stage"] for note in notes(tmp_path / "two") if "queue" in note] == ["prefill", "decode"]


def test_it_keeps_requests_while_workers_are_idle(tmp_path: Path) -> None:
    """Until two wait: neither the first one nor the server is given up meanwhile."""
    (tmp_path / "both.py").write_text(
        "class Both:\n"
        "    waiting = set()\n"
        "    def choose(self, request, workers):\n"
        "        self.waiting.add(request.id)\n"
        "        return 0 if len(self.waiting) > 1 else None\n"
        "    def tick(self, now_ms, workers):\n"
        "        pass\n"
        "    tick_ms = 10\n"
    )
    with serving(tmp_path / "server", "--num-workers", "2", "--router", f"{tmp_path}/both.py:Both", *FAST) as s:
        body = json.dumps({"model": MODEL, "prompt": "Hello", "max_tokens": 3})
        command = ["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "-d", body, f"{s.url}/v1/completions"]
        command += ["-H", "Content-Type: application/json"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as first:
            s.until_metric("dynosim_requests_in_flight", 1)
            assert ask(s)[0] == 200
            assert first.communicate(timeout=PATIENCE_S)[0] == "200"


def test_what_it_raises_ends_the_server(tmp_path: Path, router: str) -> None:
    settings = json.dumps({"path": str(tmp_path / "notes")})
    with serving(
        tmp_path / "server", "--num-workers", "2", "--router", router, "--router-config", settings, *SLOW
    ) as s:
        with contextlib.suppress(OSError):  # the answer is 503, unless the process has ended before that
            assert ask(s, X_Tenant_ID="broken")[0] == 503
        assert s.wait() == 1
        assert "KeyError: 'no such tenant'" in s.log.splitlines()[-1]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--router", "nowhere.py:Pin"], 'router: "nowhere.py" does not exist'),
        (["--router", "PIN", "--router-mode", "kv"], "router_mode: got"),
        (["--router", "PIN", "--router-config", "[]"], "router_config: got"),
        (["--router", "PIN", "--router-config", '{"no": 1}'], "cannot be made with (no=1)"),
        (["--router-mode", "own.py:Pin"], "a router in Python is --router own.py:Pin"),
        (["--router", "no-such-router"], 'router: got "no-such-router", want MODULE:CLASS'),
    ],
)
def test_refused(tmp_path: Path, router: str, arguments: list[str], says: str) -> None:
    command = mocker("--standalone", "--http-port", "0", *(router if a == "PIN" else a for a in arguments))
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 2, done.stderr
    assert says in done.stderr


def test_before_live_workers(tmp_path: Path, router: str) -> None:
    """It decides about workers that are other processes, rejects requests, and ends the server when it fails."""
    told = tmp_path / "notes"
    with meeting(tmp_path) as place:
        place.workers("--num-workers", "2", *FAST)
        front = place.frontend("--router", router, "--router-config", json.dumps({"path": str(told)}))
        front.until_models("tiny")
        place.until_known(front, 2)

        def ask_front(**headers: str) -> tuple[int, str]:
            body = {"model": "tiny", "prompt": "tok5 tok6", "max_tokens": 3, "priority": 7}
            named = {name.replace("_", "-"): text for name, text in headers.items()}
            return post(f"{front.url}/v1/completions", body, headers=named)

        assert ask_front(X_Tenant_ID="b", X_Deadline_Ms="250000", X_Session_ID="chat")[0] == 200
        status, text = ask_front(X_Tenant_ID="nobody")
        assert (status, json.loads(text)["error"]["code"]) == (429, "rate_limit_exceeded")
        assert ask_front()[0] == 200
        first, _, last = [note for note in notes(told) if "queue" in note]
        left_ms = first["left_ms"]
        assert isinstance(left_ms, float)
        assert 0 < left_ms <= 250000
        assert first["queue"] == [0, 0]
        assert (first["session"], first["tenant"], first["priority"], first["stage"]) == ("chat", "b", 7, "")
        assert last["tenant"] == ""
        until(lambda: {"left": 1, "stage": ""} in notes(told) or ask_front()[0] != 200)
        assert {"left": 1, "stage": ""} in notes(told)
        with contextlib.suppress(OSError):  # the answer is 503, unless the process has ended before that
            assert ask_front(X_Tenant_ID="broken")[0] == 503
        assert front.wait() == 1
        assert "KeyError: 'no such tenant'" in front.log.splitlines()[-1]
