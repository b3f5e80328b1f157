"""Timing models and scheduler policies in Python, in the OpenAI-compatible server."""

from __future__ import annotations

import contextlib
import itertools
import json
import re
import subprocess
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from livetools import PATIENCE_S, mocker, post, stream
from servetools import MODEL, SLOW, Server, serving

PROFILE = Path(__file__).parents[1] / "examples" / "profiles" / "small.npz"
TIMING = """
def fixed(batch):
    return 50.0

fixed.pure = True

def broken(batch):
    raise KeyError("no such batch")
"""
POLICY = """
import json

class Highest:
    '''The highest priority first.'''

    def next(self, waiting, engine):
        with open("NOTES", "a") as notes:
            notes.write(json.dumps([[r.priority, r.tenant, r.prompt_tokens] for r in waiting]) + "\\n")
        if any(r.tenant == "broken" for r in waiting):
            raise KeyError("no such tenant")
        return max(range(len(waiting)), key=lambda i: waiting[i].priority)
"""


def ask(server: Server, tokens: int, tenant: str = "", **more: object) -> tuple[int, str]:
    body = {"model": MODEL, "prompt": "Hello", "max_tokens": tokens, **more}
    return post(f"{server.url}/v1/completions", body, headers={"X-Tenant-ID": tenant} if tenant else None)


@pytest.fixture
def timing(tmp_path: Path) -> str:
    (tmp_path / "timing.py").write_text(TIMING)
    return str(tmp_path / "timing.py")


@pytest.mark.parametrize("pools", [[], ["--num-prefill-workers", "1", "--num-decode-workers", "1"]])
def test_timing_model(tmp_path: Path, timing: str, pools: list[str]) -> None:
    """Six tokens of which each pass takes 50 ms; with the polynomial they take some 40 ms altogether."""
    with serving(tmp_path / "server", "--timing-model", f"{timing}:fixed", *pools) as s:
        begin = time.monotonic()
        assert ask(s, 6)[0] == 200
        assert time.monotonic() - begin > 0.25


def test_timing_model_that_fails(tmp_path: Path, timing: str) -> None:
    with serving(tmp_path / "server", "--timing-model", f"{timing}:broken") as s:
        with contextlib.suppress(OSError):  # the answer is 503, unless the process has ended before that
            assert ask(s, 6)[0] == 503
        assert s.wait() == 1
        assert "KeyError: 'no such batch'" in s.log.splitlines()[-1]


def test_scheduler_policy(tmp_path: Path) -> None:
    """Requests that wait behind a running one are given to the policy. A policy that fails ends the server."""
    notes = tmp_path / "notes"
    (tmp_path / "policy.py").write_text(POLICY.replace("NOTES", str(notes)))
    policy = ("--scheduler-policy", f"{tmp_path / 'policy.py'}:Highest", "--max-num-seqs", "1")
    with serving(tmp_path / "server", *policy, *SLOW) as s, ThreadPoolExecutor(8) as pool:

        def behind(*waiting: tuple[int, str]) -> list[Future[None]]:
            """Begins requests with priorities and tenants, behind one that runs until they wait."""
            running = stream(f"{s.url}/v1/completions", {"prompt": "Hello", "max_tokens": 2000, "stream": True})
            next(running)
            calls = []
            for n, (priority, tenant) in enumerate(waiting, 1):
                calls.append(pool.submit(call, priority, tenant))
                s.until_metric("vllm:num_requests_waiting", n)
            running.close()
            return calls

        def call(priority: int, tenant: str) -> None:
            with contextlib.suppress(OSError):  # the last ones are not answered
                ask(s, 1, tenant, priority=priority)

        for done in behind((3, "a"), (9, "b"), (5, "a"), (1, "a")):
            done.result(PATIENCE_S)
        heard = [[row[:2] for row in json.loads(line)] for line in notes.read_text().splitlines()]
        assert [rows for rows, _ in itertools.groupby(heard)] == [
            [[3, "a"], [9, "b"], [5, "a"], [1, "a"]],
            [[3, "a"], [5, "a"], [1, "a"]],
            [[3, "a"], [1, "a"]],
        ]
        behind((1, "a"), (1, "broken"))
        assert s.wait() == 1
        assert "KeyError: 'no such tenant'" in s.log.splitlines()[-1]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--timing-model", "nowhere.py:f"], '"nowhere.py" does not exist'),
        (["--scheduler-policy", "nowhere.py:F"], '"nowhere.py" does not exist'),
        (["--scheduler-policy", "POLICY", "--engine-type", "sglang"], "scheduler_policy: got"),
        (["--timing-model", "TIMING:fixed", "--planner-profile-data", "PROFILE"], "timing_model: got"),
    ],
)
def test_refused(tmp_path: Path, timing: str, arguments: list[str], says: str) -> None:
    (tmp_path / "policy.py").write_text(POLICY)
    texts = {"TIMING": timing, "POLICY": f"{tmp_path / 'policy.py'}:Highest", "PROFILE": str(PROFILE)}
    named = [re.sub("TIMING|POLICY|PROFILE", lambda found: texts[found[0]], a) for a in arguments]
    command = mocker("--standalone", "--http-port", "0", *named)
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 2, done.stderr
    assert says in done.stderr
