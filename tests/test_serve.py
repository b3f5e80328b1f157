"""The OpenAI-compatible server by its command lines, ``python -m dynamo.mocker --standalone`` and ``dynosim-serve``."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from livetools import PATIENCE_S, Service, get, make_model, mocker, post, stream, until

from dynamo._core.version import VERSION

PROJECT = Path(__file__).parents[1]


@pytest.fixture(scope="session")
def binary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The server as a Go binary."""
    if shutil.which("go") is None:
        pytest.skip("needs Go")
    path = tmp_path_factory.mktemp("binary") / "dynosim-serve"
    flags = ["-ldflags", "-X main.version=1.2.3rc1"]
    subprocess.run(["go", "build", *flags, "-o", path, "./cmd/dynosim-serve"], cwd=PROJECT, check=True)
    return path


def test_the_version_of_the_binary(binary: Path) -> None:
    done = subprocess.run([binary, "--version"], check=True, capture_output=True, text=True)
    assert done.stdout == "dynosim-serve 1.2.3rc1\n"


class Server(Service):
    """A server with a port of its own."""

    def __init__(self, folder: Path, *arguments: str, command: Sequence[str] | None = None) -> None:
        started = list(command) if command else mocker("--standalone")
        super().__init__([*started, "--http-port", "0", *arguments], folder / "server.log", {})

    def __enter__(self) -> Server:
        self.wait_for("url=")
        return self

    @property
    def url(self) -> str:
        found = re.search(r"url=(\S+)", self.log)
        assert found
        return found[1]

    def ask(self, path: str, **body: Any) -> dict[str, Any]:
        """The answer to a request that succeeds."""
        status, text = post(f"{self.url}{path}", body)
        assert status == 200, text
        answer: dict[str, Any] = json.loads(text)
        return answer


HELLO = [{"role": "user", "content": "Hello"}]


def test_answers(folder: Path) -> None:
    with Server(folder) as server:
        whole = server.ask("/v1/chat/completions", messages=HELLO, max_tokens=20)
        assert whole["choices"][0]["finish_reason"] == "length"
        assert whole["usage"]["completion_tokens"] == 20
        text = whole["choices"][0]["message"]["content"]
        body = {"messages": HELLO, "max_tokens": 20, "stream": True}
        parts = list(stream(f"{server.url}/v1/chat/completions", body))
        assert "".join(part["choices"][0]["delta"].get("content", "") for part in parts) == text
        assert [model["id"] for model in json.loads(get(f"{server.url}/v1/models")[1])["data"]] == ["builtin:bytes"]
        assert get(f"{server.url}/health")[0] == get(f"{server.url}/live")[0] == 200
        counted = 'vllm:generation_tokens_total{engine="0",model_name="builtin:bytes",worker_id="0"} 40'
        until(lambda: counted in get(f"{server.url}/metrics")[1])


def test_first_lines(folder: Path) -> None:
    """They say which models are served where, and a line to paste that asks one of them."""
    models = [{"model_name": "a"}, {"model_name": "it's b"}]
    with Server(folder, "--models", json.dumps(models), "--speedup-ratio", "1000") as server:
        server.wait_for(f'msg=serving url={server.url} models="a, it\'s b"')
        server.wait_for("to try it: ")
        line = next(line for line in server.log.splitlines() if line.startswith("to try it: "))
        said = subprocess.run(line.removeprefix("to try it: "), shell=True, capture_output=True, text=True, check=True)
        assert json.loads(said.stdout)["model"] == "a"
        assert json.loads(get(f"{server.url}/version")[1]) == {"name": "dynosim", "version": VERSION}


def test_seed_decides(folder: Path) -> None:
    said = []
    for seed in ("1", "1", "2"):
        with Server(folder, "--seed", seed) as server:
            said.append(server.ask("/v1/completions", prompt="x", max_tokens=30)["choices"][0]["text"])
    assert said[0] == said[1] != said[2]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
@pytest.mark.parametrize("go", [False, True], ids=["python", "binary"])
def test_drains(folder: Path, request: pytest.FixtureRequest, go: bool, number: int, code: int) -> None:
    """An answer that has begun is completed; what comes later is turned away."""
    command = [str(request.getfixturevalue("binary"))] if go else None
    with Server(folder, "--speedup-ratio", "0.5", command=command) as server:
        parts = stream(f"{server.url}/v1/completions", {"prompt": "x", "max_tokens": 50, "stream": True})
        next(parts)
        server.stop(number)
        assert "".join(part["choices"][0]["text"] for part in parts)
        assert server.wait() == code, server.log


def test_second_signal_ends_at_once(folder: Path) -> None:
    with Server(folder, "--speedup-ratio", "0.01") as server:
        parts = stream(f"{server.url}/v1/completions", {"prompt": "x", "max_tokens": 1000, "stream": True})
        next(parts)
        server.stop()
        server.wait_for("draining")
        status, text = post(f"{server.url}/v1/completions", {"prompt": "x"})  # over a new connection
        assert (status, json.loads(text)["error"]["code"]) == (503, "service_unavailable")
        assert [get(server.url + path)[0] for path in ("/health", "/live", "/metrics")] == [503, 200, 200]
        server.stop()
        assert server.wait() == 0, server.log


@pytest.mark.parametrize("scheduler", ["dynamo", "vllm"])
def test_two_pools(folder: Path, scheduler: str) -> None:
    arguments = ["--num-prefill-workers", "2", "--num-decode-workers", "2", "--router-mode", "kv", "--block-size", "16"]
    prefill = {"kv_bytes_per_token": 131072, "scheduler": scheduler}
    arguments += ["--decode-engine-args", json.dumps({"scheduler": scheduler}), "--kv-event-lag-ms", "1"]
    with Server(folder, *arguments, "--prefill-engine-args", json.dumps(prefill)) as server:
        for cached in (0, 16 * 25):
            usage = server.ask("/v1/completions", prompt="work " * 80, max_tokens=10)["usage"]
            assert usage["prompt_tokens_details"]["cached_tokens"] == cached
        assert 'worker_id="3"' in get(f"{server.url}/metrics")[1]


def test_models_in_a_file(folder: Path) -> None:
    models = [
        {"model_name": "a", "lora_modules": "sql"},
        {"model_name": "b", "response_mode": "echo", "num_workers": 2},
    ]
    (folder / "models.json").write_text(json.dumps(models))
    with Server(folder, "--models", "@models.json") as server:
        listed = json.loads(get(f"{server.url}/v1/models")[1])["data"]
        assert [model["id"] for model in listed] == ["a", "sql", "b"]
        assert server.ask("/v1/completions", model="b", prompt="same", max_tokens=10)["choices"][0]["text"] == "same"
        assert server.ask("/v1/completions", model="sql", prompt="x", max_tokens=3)["model"] == "sql"
        status, text = post(f"{server.url}/v1/completions", {"model": "c", "prompt": "x"})
        assert status == 404
        assert json.loads(text)["error"]["code"] == "model_not_found"


def test_recorded(folder: Path) -> None:
    (folder / "answers.jsonl").write_text(json.dumps({"prompt": "What", "response": "Grüße 🙂"}))
    with Server(folder, "--response-mode", "recorded", "--response-file", "answers.jsonl") as server:
        answer = server.ask("/v1/chat/completions", messages=[{"role": "user", "content": "What now?"}])
        assert answer["choices"][0]["message"]["content"] == "Grüße 🙂"
        assert answer["choices"][0]["finish_reason"] == "stop"


@pytest.mark.parametrize("go", [False, True], ids=["python", "binary"])
def test_model_folder(folder: Path, request: pytest.FixtureRequest, go: bool) -> None:
    """Every word is a token, by the tokenizer of the folder."""
    pytest.importorskip("tokenizers")
    pytest.importorskip("jinja2")
    model = make_model(folder / "model")
    command = None
    if go:
        command = [str(request.getfixturevalue("binary")), "--tokenizer-python", sys.executable]
    with Server(folder, "--model-path", str(model), "--model-name", "words", command=command) as server:
        tokens = server.ask("/tokenize", messages=[{"role": "user", "content": "tok7 tok8"}])["tokens"]
        assert tokens == [7, 8]
        answer = server.ask("/v1/chat/completions", messages=[{"role": "user", "content": "tok7"}], max_tokens=9)
        assert answer["usage"]["prompt_tokens"] == 1
        assert answer["usage"]["completion_tokens"] == 9
        assert server.ask("/detokenize", tokens=[17])["prompt"] == "tok17"


def test_a_tokenizer_without_its_packages(folder: Path) -> None:
    """The line to install them comes before anything else."""
    bare = folder / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    bare.chmod(0o755)
    model = PROJECT / "examples" / "models" / "tiny"
    command = [*mocker("--standalone"), "--http-port", "0", "--model-path", str(model), "--tokenizer-python", str(bare)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 2
    assert re.match(
        r"error: \w+ is missing: pip install 'dynosim\[serve\]', or tokenizers and jinja2 \(for ", done.stderr
    )


def test_keys_and_faults(folder: Path) -> None:
    (folder / "keys").write_text("# of the tests\nsecret\n")
    faults = '{"share": 1, "status": 429, "retry_after_s": 3, "path": "/v1/completions"}'
    with Server(folder, "--api-key-file", "keys", "--inject-errors", faults) as server:
        assert post(f"{server.url}/v1/completions", {"prompt": "x"})[0] == 401
        key = {"Authorization": "Bearer secret"}
        assert post(f"{server.url}/v1/completions", {"prompt": "x"}, key)[0] == 429
        assert post(f"{server.url}/v1/chat/completions", {"messages": HELLO}, key)[0] == 200


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")
def test_tls(folder: Path) -> None:
    import ssl

    certificate = "req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 1 -subj /CN=localhost"
    command = ["openssl", *certificate.split(), "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    with Server(folder, "--tls-cert", "cert.pem", "--tls-key", "key.pem") as server:
        assert server.url.startswith("https://")
        context = ssl.create_default_context(cafile=str(folder / "cert.pem"))
        with urllib.request.urlopen(f"{server.url}/health", context=context, timeout=PATIENCE_S) as answer:
            assert answer.status == 200


def test_engines_that_start_slowly(folder: Path) -> None:
    with Server(folder, "--startup-time", "2") as server:
        if get(f"{server.url}/health")[0] == 503:  # unless this test was slower
            assert post(f"{server.url}/v1/completions", {"prompt": "x"})[0] in (200, 503)
        until(lambda: get(f"{server.url}/health")[0] == 200)
        server.ask("/v1/completions", prompt="x")


@pytest.mark.parametrize("go", [False, True], ids=["python", "binary"])
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--http-port", "70000"], "http_port"),
        (["--http-host", "192.0.2.1"], 'http-host: got "192.0.2.1", want an address of this machine'),
        (["--http-host", "999.1.1.1"], 'http-host: got "999.1.1.1", want an address of this machine'),
        (["--response-mode", "recorded"], "response_file"),
        (["--response-mode", "recorded", "--response-file", "none"], "response_file"),
        (["--models", "[]"], "models"),
        (["--inject-errors", '{"share": 7}'], "share"),
        (["--num-prefill-workers", "1"], "num_decode_workers"),
        (["--num-workers", "0"], "num_workers"),
        (["--model-path", "/none"], "model_path"),
        (["--tls-cert", "none", "--tls-key", "none"], "tls_cert"),
        (["--tls-cert", "keys", "--tls-key", "keys"], 'got "keys", "keys", want a certificate chain'),
        (["--api-key-file", "keys"], 'api_key_file: "keys" is no UTF-8 text, want a key in each line'),
        (["--inject-errors", "{"], "inject_errors: line 1 column 2"),
        (["--models", "@none.json"], "none.json"),
        (["--models", ""], 'models: got "", want a list of at least one object'),
        (["--models", '[{"lora_modules": "a,a"}]'], 'lora_modules: got "a", want a name that no other'),
        (["--model-path", "."], 'model_path: got ".", which has no config.json, want builtin:bytes'),
        (["--http-port", "many"], 'got "many", want an integer from 0 to 65535'),
        (["--speedup-ratio", "fast"], 'got "fast", want a finite number >= 0'),
        (["--request-timeout", "nan"], "want a finite number from 0 to 86400"),
        (["--num-workers", "4096", "--data-parallel-size", "1024"], "want at most 65536 for all models"),
    ],
)
def test_bad_input(folder: Path, request: pytest.FixtureRequest, go: bool, arguments: Sequence[str], says: str) -> None:
    """One line that names the option, and code 2."""
    (folder / "keys").write_bytes(b"\xff\n")
    command = [str(request.getfixturevalue("binary"))] if go else mocker("--standalone")
    done = subprocess.run([*command, *arguments], cwd=folder, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 2, done.stderr
    assert says.replace("_", "-") in done.stderr.replace("_", "-")
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert "Traceback" not in done.stderr


def test_port_in_use(folder: Path) -> None:
    with Server(folder) as server:
        port = server.url.rpartition(":")[2]
        command = mocker("--standalone", "--http-port", port)
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE_S)
        assert done.returncode == 2
        assert "in use" in done.stderr


def test_demo(folder: Path) -> None:
    """``make demo-serve``."""
    import sys

    demo = PROJECT / "examples" / "serve" / "demo.py"
    done = subprocess.run([sys.executable, demo], cwd=folder, capture_output=True, text=True, timeout=2 * PATIENCE_S)
    assert done.returncode == 0, done.stderr
    for shown in ("'cached_tokens': 448", "vllm:num_requests_running", "OpenAI(base_url="):
        assert shown in done.stdout
