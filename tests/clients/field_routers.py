"""Puts the routers of the field before our servers, the real programs: make test-routers ROUTERS=PYTHON.

usage: field_routers.py PYTHON [NAME ...]

PYTHON is that of an environment with sglang-router, smg and vllm-router (installation in the head of
tests/truth/routers.py). Each router gets two servers with an adapter, then a prefill and a decode server, and is asked
for answers, streams, an answer of the adapter and what it knows of the loads. What a router cannot do before any engine
is an expectation here, too.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from livetools import free_port, get, post, stream, until
from servetools import Server, serving

MODEL, ADAPTER = "builtin:bytes", "sql"
MODULES = {
    "sglang-router": ["sglang_router", "launch"],
    "smg": ["smg", "launch"],
    "vllm-router": ["vllm_router.launch_router"],
}
ENGINES = {"sglang-router": "sglang", "smg": "sglang", "vllm-router": "vllm"}
"""The engine that each router is for."""


class Router:
    """A router before servers."""

    def __init__(self, python: str, name: str, *arguments: str) -> None:
        self.name, self.port, self._log = name, free_port(), tempfile.TemporaryFile()  # noqa: SIM115
        command = [python, "-m", *MODULES[name], "--host", "127.0.0.1", "--port", str(self.port)]
        command += ["--prometheus-port", str(free_port()), "--log-level", "info", *arguments]
        self.process = subprocess.Popen(command, stdout=self._log, stderr=self._log, start_new_session=True, cwd="/")
        self.url = f"http://127.0.0.1:{self.port}"

    def until_serving(self, servers: list[Server]) -> None:
        """Waits until an answer comes through from each of the servers."""

        def serves() -> bool:
            if self.process.poll() is not None:
                raise RuntimeError(f"{self.name} has ended: {self.said()}")
            try:
                return self.ask({"prompt": "x"})[0] == 200 and (len(servers) == 1 or self.known() >= len(servers))
            except OSError:
                return False

        until(serves)

    def known(self) -> int:
        """How many workers the router lists."""
        path = "/list_workers" if self.name == "vllm-router" else "/workers"
        return len(set(re.findall(r"http://127\.0\.0\.1:\d+", get(self.url + path)[1])))

    def ask(self, body: dict[str, Any], path: str = "/v1/completions") -> tuple[int, str]:
        return post(self.url + path, {"model": MODEL, "max_tokens": 3, **body})

    def said(self) -> str:
        self._log.seek(0)
        return self._log.read().decode(errors="replace")[-3000:]

    def close(self) -> None:
        for signum in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(self.process.pid, signum)
                self.process.wait(10)
                break
            except (ProcessLookupError, subprocess.TimeoutExpired):
                continue
        self._log.close()


@contextmanager
def routed(python: str, name: str, *arguments: str) -> Iterator[Router]:
    router = Router(python, name, *arguments)
    try:
        yield router
    except BaseException:
        print(router.said(), file=sys.stderr)
        raise
    finally:
        router.close()


def served(servers: list[Server], engine: str) -> list[float]:
    """How many tokens each server has made."""
    return [server.metric(f"{engine}:generation_tokens_total") for server in servers]


def one_pool(python: str, name: str, folder: Path) -> None:
    """Answers, streams, the adapter, and loads, before two servers."""
    engine = ENGINES[name]
    with ExitStack() as stack:
        options = ("--engine-type", engine, "--lora-modules", ADAPTER, "--speedup-ratio", "100")
        servers = [stack.enter_context(serving(folder / f"server-{i}", *options)) for i in range(2)]
        urls = [server.url for server in servers]
        if name == "smg":  # it takes one name from each worker, before every engine
            urls += [f"{server.url}/models/{ADAPTER}" for server in servers]
        router = stack.enter_context(routed(python, name, "--policy", "round_robin", "--worker-urls", *urls))
        router.until_serving(servers)
        before = served(servers, engine)
        talk = {"messages": [{"role": "user", "content": "Hello"}]}
        for _ in range(4):
            status, text = router.ask(talk, "/v1/chat/completions")
            assert status == 200, text
            assert json.loads(text)["usage"]["completion_tokens"] == 3, text
        after = served(servers, engine)
        assert all(new > old for new, old in zip(after, before, strict=True)), (before, after)
        parts = list(
            stream(router.url + "/v1/completions", {"model": MODEL, "prompt": "x", "max_tokens": 3, "stream": True})
        )
        assert "".join(choice["text"] for part in parts for choice in part["choices"])
        asks_adapter(router)
        knows(router, servers)


def asks_adapter(router: Router) -> None:
    """Answers of the adapter: by its name, and for SGLang's routers by its member of the request."""
    wanted: list[dict[str, Any]] = [{"model": ADAPTER}]
    if ENGINES[router.name] == "sglang":
        wanted.append({"lora_path": ADAPTER})
    for named in wanted:
        for path, prompt in (
            ("/v1/completions", {"prompt": "x"}),
            ("/v1/chat/completions", {"messages": [{"role": "user", "content": "Hello"}]}),
        ):
            status, text = router.ask({**prompt, **named}, path)
            assert status == 200, (named, status, text)
            assert json.loads(text)["model"] == ADAPTER, (named, text)


def knows(router: Router, servers: list[Server]) -> None:
    """What routers show of the loads and labels of their workers."""
    if router.name == "vllm-router":
        assert router.known() == len(servers)
        return
    workers = json.loads(get(router.url + "/workers")[1])["workers"]
    if router.name == "smg":
        served = sorted(worker["model_id"] for worker in workers)
        assert served == sorted([MODEL, ADAPTER] * len(servers)), workers
        labels = json.dumps(workers)
        assert "max_running_requests" in labels, labels
        status, text = get(router.url + "/loads")
        assert status == 200, text
        assert len(re.findall(r"max_total_num_tokens|\"load\"|num_running_reqs", text)) >= len(servers), text
    else:
        assert len(workers) == len(servers)
        status, text = get(router.url + "/get_loads")
        assert status == 200, text
        loads = json.loads(text)["workers"]
        assert [load["load"] >= 0 for load in loads] == [True] * len(servers), text


def two_pools(python: str, name: str, folder: Path) -> None:
    """Answers through a prefill and a decode server. Behind SGLang's routers both compute prompts: docs/serve.md."""
    engine = ENGINES[name]
    with ExitStack() as stack:
        speeds = {"prefill": ("--speedup-ratio", "100"), "decode": ("--speedup-ratio", "100")}
        if name == "vllm-router":  # a prompt would take the decode server more than ten seconds
            speeds["decode"] = ("--speedup-ratio", "0.001", "--decode-speedup-ratio", "100000")
        servers = [
            stack.enter_context(serving(folder / role, "--engine-type", engine, *speed))
            for role, speed in speeds.items()
        ]
        pools = ["--vllm-pd-disaggregation" if name == "vllm-router" else "--pd-disaggregation"]
        pools += ["--prefill", servers[0].url, "--decode", servers[1].url]
        router = stack.enter_context(routed(python, name, *pools))
        router.until_serving(servers[:1])
        before = served(servers, engine)
        since = time.monotonic()
        status, text = router.ask({"messages": [{"role": "user", "content": "Hello"}]}, "/v1/chat/completions")
        assert status == 200, text
        assert time.monotonic() - since < 8, "the decode server has computed the prompt"
        assert json.loads(text)["usage"]["completion_tokens"] == 3, text
        after = served(servers, engine)
        assert all(new > old for new, old in zip(after, before, strict=True)), (before, after)


CHECKS: dict[str, Callable[[str, str, Path], None]] = {"one pool": one_pool, "two pools": two_pools}


def main(python: str, names: list[str]) -> int:
    failed = 0
    for name in MODULES:
        if names and name not in names:
            continue
        for what, check in CHECKS.items():
            with tempfile.TemporaryDirectory() as folder:
                try:
                    check(python, name, Path(folder))
                    outcome = "ok"
                except (AssertionError, RuntimeError, OSError) as error:
                    failed += 1
                    outcome = f"failed: {type(error).__name__}: {error}"
            print(f"{name}, {what}: {outcome}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
