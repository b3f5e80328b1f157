"""The OpenAI-compatible server and clients that do it harm, on purpose or not: all others get their answers."""

from __future__ import annotations

import json
import re
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from livetools import PATIENCE_S, Service, mocker, post, stream, until
from servetools import Server, serving

MAX_BODY = 200_000
MAX_CONNECTIONS = 100


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that says what it is told, with low limits."""
    limits = ("--max-body-bytes", str(MAX_BODY), "--max-connections", str(MAX_CONNECTIONS))
    speed = ("--speedup-ratio", "20")  # long answers take longer than the tests that begin them
    with serving(tmp_path_factory.mktemp("hostile"), *speed, "--response-mode", "echo", *limits) as s:
        yield s


class Others:
    """Clients that behave: each asks again and again, streamed and not, until the end of the block."""

    def __init__(self, server: Server) -> None:
        self.url = server.url + "/v1/completions"
        self.answered = 0
        self.wrong: list[str] = []
        self.over = threading.Event()
        self.threads = [threading.Thread(target=self.ask, args=(number,)) for number in range(3)]

    def ask(self, number: int) -> None:
        while not self.over.is_set():
            said = f"client {number} says {self.answered}"
            body = {"prompt": said, "max_tokens": 100}
            try:
                parts = list(stream(self.url, body | {"stream": True}))
                whole = json.loads(post(self.url, body)[1])
                for text in ("".join(p["choices"][0]["text"] for p in parts), whole["choices"][0]["text"]):
                    if text != said:
                        self.wrong.append(text)
            except Exception as error:
                self.wrong.append(repr(error))
            self.answered += 1

    def until_answered(self) -> None:
        """Waits until all of them have got answers to requests that they make now."""
        wanted = self.answered + 3 * len(self.threads)
        until(lambda: self.answered >= wanted or self.wrong)

    def __enter__(self) -> Others:
        for thread in self.threads:
            thread.start()
        self.until_answered()
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.until_answered()
        finally:
            self.over.set()
            for thread in self.threads:
                thread.join()
        assert self.wrong == []


@contextmanager
def connection(server: Server) -> Iterator[socket.socket]:
    with socket.create_connection(server.address, timeout=PATIENCE_S) as s:
        yield s


def request(body: bytes, path: str = "/v1/completions", *headers: str) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: x", "Content-Type: application/json", *headers]
    if not any(line.startswith(("Content-Length", "Transfer-Encoding")) for line in headers):
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def rest(s: socket.socket, most: int = 65536) -> bytes:
    """What the server sends until it ends the connection, read in pieces of so many bytes at most."""
    return b"".join(iter(lambda: s.recv(most), b""))


def answer_to(server: Server, sent: bytes) -> tuple[int, str]:
    """The status and the body of the answer to raw bytes, after which the server ends the connection."""
    with connection(server) as s:
        received = b""
        with suppress(BrokenPipeError, ConnectionResetError):  # the answer may be on its way already
            s.sendall(sent)
        with suppress(ConnectionResetError):  # not all of it has been read
            while part := s.recv(65536):
                received += part
    head, _, body = received.partition(b"\r\n\r\n")
    status = re.match(rb"HTTP/1\.1 (\d+)", head)
    assert status, received
    return int(status[1]), body.decode()


CLOSE = "Connection: close"


def refusal(server: Server, body: bytes) -> dict[str, Any]:
    """The error of a request that is wrong."""
    status, text = answer_to(server, request(body, "/v1/completions", CLOSE))
    assert status == 400, text[:1000]
    error: dict[str, Any] = json.loads(text)["error"]
    assert error["type"] == "invalid_request_error"
    assert len(text) < 1000
    return error


def long_stream() -> bytes:
    """A request for more than sockets hold."""
    body = {"prompt": "x" * 100, "max_tokens": 100_000, "ignore_eos": True, "stream": True}
    return request(json.dumps(body).encode())


def test_slow_readers(server: Server) -> None:
    """The server holds what a client has not read in the socket alone."""
    with ExitStack() as open_ones:
        readers = [open_ones.enter_context(connection(server)) for _ in range(40)]
        with Others(server) as others:
            for s in readers:
                s.sendall(long_stream())
            for s in readers:
                assert s.recv(4) == b"HTTP"
            others.until_answered()
            assert server.metric("process_resident_memory_bytes") < 500e6
    server.until_idle()


def test_a_slow_reader_gets_everything(server: Server) -> None:
    body = {"prompt": "abc" * 500, "max_tokens": 4_000, "ignore_eos": True, "stream": True}
    with connection(server) as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        s.sendall(request(json.dumps(body).encode(), "/v1/completions", CLOSE))
        received = rest(s, 1_000)
    assert received.rstrip().endswith(b"0"), "the last chunk"
    events = re.findall(r"^data: (\{.*\})\r?$", received.decode(), re.MULTILINE)
    text = "".join(json.loads(event)["choices"][0]["text"] for event in events)
    assert text == ("abc" * 500 * 3)[:4_000]


def test_clients_that_vanish(server: Server) -> None:
    """With a reset instead of a goodbye, in the middle of streams."""
    with Others(server):
        for _ in range(60):
            with connection(server) as s:
                s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                s.sendall(long_stream())
                assert s.recv(100)
    server.until_idle()


@pytest.mark.parametrize(
    "begin",
    [b"", b"POST /v1/compl", request(b'{"prompt": "x', "/v1/completions", "Content-Length: 1000"), b"\x16\x03\x01"],
    ids=["nothing", "head", "body", "tls"],
)
def test_half_open_connections(server: Server, begin: bytes) -> None:
    with ExitStack() as open_ones, Others(server) as others:
        for _ in range(MAX_CONNECTIONS // 2):
            open_ones.enter_context(connection(server)).sendall(begin)
        others.until_answered()
    server.until_idle()


def test_more_connections_than_allowed(server: Server) -> None:
    """Those that have waited for the longest time give way, which are not those of clients that ask for something."""
    with ExitStack() as open_ones, Others(server) as others:
        for _ in range(12):
            for _ in range(MAX_CONNECTIONS // 4):
                open_ones.enter_context(connection(server))
            others.until_answered()


def test_fewer_files_than_connections(tmp_path: Path) -> None:
    """Connections that idle give way to new ones before the process runs out of files."""
    command = ["sh", "-c", 'ulimit -n 100 && exec "$@"', "sh", *mocker("--standalone", "--http-port", "0")]
    with ExitStack() as open_ones, Service(command, tmp_path / "server.log", {}) as service:
        service.wait_for("msg=serving url=")
        assert "max_connections=8192 connections=52" in service.log
        host, port = re.findall(r"msg=serving url=http://(\S+):(\d+)", service.log)[0]
        for _ in range(200):
            s = open_ones.enter_context(socket.create_connection((host, int(port)), timeout=PATIENCE_S))
            s.sendall(b"GET /live HTTP/1.1\r\nHost: x\r\n\r\n")
            assert s.recv(12) == b"HTTP/1.1 200"


@pytest.mark.parametrize("length", [MAX_BODY + 1, 10**12])
def test_a_body_that_says_it_is_too_large(server: Server, length: int) -> None:
    with Others(server):
        status, text = answer_to(server, request(b"{", "/v1/completions", f"Content-Length: {length}"))
        assert status == 413
        assert str(MAX_BODY) in json.loads(text)["error"]["message"]


def test_a_body_that_never_ends(server: Server) -> None:
    chunk = b"10000\r\n" + b" " * 65536 + b"\r\n"
    with Others(server):
        sent = request(b"", "/v1/completions", "Transfer-Encoding: chunked") + chunk * 40
        assert answer_to(server, sent)[0] == 413


@pytest.mark.parametrize(
    "body",
    [
        b'{"prompt": "\xff\xfe"}',
        b'{"prompt": "\xed\xa0\x80"}',
        rb'{"prompt": "\ud800"}',
        b'{"prompt": "x", "prompt": "y"}',
        b'{"prompt": "x"} {"prompt": "y"}',
        b'{"prompt": "x", "max_tokens": 1e999}',
        b'{"prompt": "x", "max_tokens": NaN}',
        b'{"prompt": "x", "max_tokens": 99999999999999999999}',
        b'{"prompt": "x", "max_tokens": -1}',
        b'{"prompt": "x", "max_tokens": 1.5}',
        b'{"prompt": [-1, 4294967296]}',
        b'{"prompt": "x", "n": 2000000000}',
        b'{"prompt": "x", "stop": ' + json.dumps(["a"] * 1000).encode() + b"}",
        b'{"prompt": ' + b"[" * 90_000 + b"]" * 90_000 + b"}",
        b'{"prompt": {"prompt": "x"}}',
        b'{"prompt": "x", "model": ' + json.dumps(["a"] * 1000).encode() + b"}",
        b"[]",
        b"null",
        b"",
        b"\0" * 1000,
        b"\xef\xbb\xbf{}",
    ],
    ids=lambda body: repr(body[:40]),
)
def test_bodies_that_make_no_sense(server: Server, body: bytes) -> None:
    assert refusal(server, body)["message"]
    server.until_idle()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"prompt": ["x"] * 1024, "n": 128, "max_tokens": 1}, "1024 answers"),
        ({"prompt": "x", "n": 128, "max_tokens": 500_000, "ignore_eos": True}, "tokens"),
    ],
)
def test_more_answers_than_a_process_can_hold(server: Server, options: dict[str, Any], says: str) -> None:
    with Others(server):
        assert says in refusal(server, json.dumps(options).encode())["message"]
    assert server.metric("process_resident_memory_bytes") < 500e6


def test_floods_of_headers(server: Server) -> None:
    flood = [f"X-Header-{number}: {'x' * 100}" for number in range(5000)]
    long = f"X-Long: {'x' * 1_000_000}"
    with Others(server):
        for headers in (flood, [long]):
            assert answer_to(server, request(b"{}", "/v1/completions", *headers))[0] == 431
        assert answer_to(server, b"GET / HTTP/1.1\r\n" + b"X-More: and more\r\n" * 100_000)[0] == 431  # without an end


@pytest.mark.parametrize(
    "sent",
    [
        b"\r\n\r\n\r\nnonsense\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",  # no Host
        b"GET / HTTP/1.1\r\nHost: x\r\nBad Header: y\r\n\r\n",
        request(b"{}", "/v1/completions", "Content-Length: 2", "Content-Length: 3"),
        request(b"{}", "/v1/completions", "Content-Length: -1"),
        request(b"zz\r\n{}\r\n0\r\n\r\n", "/v1/completions", "Transfer-Encoding: chunked", CLOSE),
    ],
    ids=["nonsense", "host", "header", "lengths", "negative", "chunk"],
)
def test_requests_that_are_no_http(server: Server, sent: bytes) -> None:
    with Others(server):
        assert answer_to(server, sent)[0] == 400


@pytest.mark.parametrize("identifier", ["x" * 5000, "tab\there", "grün", "a\x7fb"])
def test_request_ids_that_are_not_echoed(server: Server, identifier: str) -> None:
    body = request(b'{"prompt": "x"}', "/v1/completions", CLOSE, f"X-Request-Id: {identifier}")
    with connection(server) as s:
        s.sendall(body)
        received = rest(s)
    assert re.search(rb"(?i)x-request-id: req-[0-9a-f]+\r\n", received) or received.startswith(b"HTTP/1.1 400")


def test_requests_in_a_row(server: Server) -> None:
    """Those that are sent before the first one is answered get their answers in order."""
    prompts = [f"number {number}" for number in range(20)]
    bodies = [json.dumps({"prompt": prompt, "max_tokens": 50}).encode() for prompt in prompts]
    sent = [request(body, "/v1/completions", *([CLOSE] if body is bodies[-1] else [])) for body in bodies]
    with connection(server) as s:
        s.sendall(b"".join(sent))
        received = rest(s)
    assert re.findall(r'"text":"([^"]*)"', received.decode()) == prompts


def test_it_has_ended_no_more_than_it_should(server: Server) -> None:
    """The last word: nothing is left of all that, and the log has no crash."""
    server.until_idle()
    assert server.process.poll() is None
    assert "level=ERROR" not in server.log
    assert "panic" not in server.log
