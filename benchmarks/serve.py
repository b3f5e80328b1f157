"""Load on the OpenAI-compatible server: requests for each second of a core, beside the reference's frontend and mocker
if its Python is given; memory of many open streams; how late tokens are sent; with --soak, memory over a long time."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from live import cpu_seconds
from livetools import make_model

PATIENCE_S = 120.0


class Processes:
    """A server, which may be several processes."""

    def __init__(self, url: str, model: str) -> None:
        self.url, self.model = url, model
        self.list: list[subprocess.Popen[bytes]] = []
        self.log_paths: list[Path] = []

    def start(self, command: list[str], log: Path, **environment: str) -> None:
        with log.open("w") as stream:
            process = subprocess.Popen(
                command,
                cwd=log.parent,
                env={**os.environ, **environment},
                stdout=stream,
                stderr=stream,
                process_group=0,
            )
        self.list.append(process)
        self.log_paths.append(log)

    def until_ready(self) -> None:
        """Waits until a request is answered."""
        body = {"model": self.model, "messages": [{"role": "user", "content": "tok5"}], "max_tokens": 2}
        request = urllib.request.Request(
            self.url + "/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                with urllib.request.urlopen(request, timeout=10):
                    return
            except (OSError, urllib.error.URLError) as error:
                if time.monotonic() > deadline or any(p.poll() is not None for p in self.list):
                    raise SystemExit(f"the server does not answer: {error}; {self.logs()}") from error
                time.sleep(0.2)

    def logs(self) -> str:
        return "\n".join(path.read_text()[-1000:] for path in self.log_paths)

    def end(self) -> None:
        for process in self.list:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def members(self) -> list[int]:
        """All processes, those that they have started included: each of the list leads a process group."""
        leaders = {str(process.pid) for process in self.list}
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if folder.joinpath("stat").read_text().rpartition(")")[2].split()[2] in leaders:
                    found.append(int(folder.name))
            except OSError:
                pass  # it has ended
        return found

    def cpu_s(self) -> float:
        """User and system time."""
        return sum(cpu_seconds(pid) for pid in self.members())

    def memory_mb(self) -> float:
        """Resident memory now."""
        pages = sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in self.members())
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6

    def late_ms(self) -> Callable[[], float]:
        """What returns how late 99 % of the tokens since now were sent at most, as the server counts it."""
        before = self.delays()

        def since() -> float:
            counts = {le: n - before[le] for le, n in self.delays().items()}
            return 1000 * next(le for le, n in counts.items() if n >= 0.99 * counts[float("inf")])

        return since

    def delays(self) -> dict[float, float]:
        with urllib.request.urlopen(self.url + "/metrics", timeout=60) as page:
            text = page.read().decode()
        found = re.findall(r'^dynosim_token_delay_seconds_bucket\{le="([^"]+)"\} (\S+)', text, re.MULTILINE)
        return {float(le): float(n) for le, n in found}


@contextmanager
def ours(folder: Path, model: Path | None, *arguments: str) -> Iterator[Processes]:
    server = Processes(f"http://127.0.0.1:{free_port()}", "tiny" if model else "builtin:bytes")
    command = [sys.executable, "-m", "dynamo.mocker", "--standalone", "--http-port", server.url.rpartition(":")[2]]
    if model:
        command += ["--model-path", str(model), "--model-name", "tiny"]
    try:
        server.start([*command, *arguments], folder / "server.log")
        server.until_ready()
        yield server
    finally:
        server.end()


@contextmanager
def reference(python: str, folder: Path, model: Path, *arguments: str) -> Iterator[Processes]:
    server = Processes(f"http://127.0.0.1:{free_port()}", "tiny")
    planes = ["--discovery-backend", "file", "--request-plane", "tcp"]
    environment = {"DYN_FILE_KV": str(folder / "kv"), "DYN_LOG": "error", "DYN_TCP_RPC_HOST": "127.0.0.1"}
    worker = [python, "-m", "dynamo.mocker", "--model-path", str(model), "--model-name", "tiny", *planes, *arguments]
    frontend = [python, "-m", "dynamo.frontend", "--http-port", server.url.rpartition(":")[2], *planes]
    try:
        server.start(worker, folder / "mocker.log", **environment)
        server.start(frontend, folder / "frontend.log", **environment)
        server.until_ready()
        yield server
    finally:
        server.end()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as s:
        return int(s.getsockname()[1])


def load(client: str, server: Processes, **options: Any) -> list[str]:
    words = [client, "-url", server.url, "-model", server.model]
    return words + [part for name, value in options.items() for part in (f"-{name}", str(value))]


def rate(name: str, client: str, server: Processes, seconds: int, words: int = 100) -> float:
    """Prompts of 100 tokens, answers of 50, 64 clients: prints and returns the requests for each CPU second."""
    before = server.cpu_s()
    command = load(client, server, clients=64, words=words, duration=f"{seconds}s")
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    cpu, seen = server.cpu_s() - before, json.loads(done.stdout)
    assert seen["failures"] == 0, seen
    each = float(seen["requests"] / cpu)
    print(
        f"{name:28} {seen['requests'] / seen['seconds']:8,.0f} requests/s  {seen['events_per_s']:9,.0f} events/s"
        f"  {cpu / seen['seconds']:.2f} cores  {each:8,.0f} requests per CPU second  {server.memory_mb():6.0f} MB",
        flush=True,
    )
    return each


def wanted(target: str, met: bool) -> str:
    """A target, and whether it has been met."""
    return f"wanted: {target}, {'met' if met else 'missed'}"


REFERENCE = "reference, model folder"


def rates(options: argparse.Namespace, folder: Path, model: Path) -> None:
    """Requests for each CPU second, of each server in turn: what else the machine does meets all of them alike."""
    with contextlib.ExitStack() as opened:
        servers = {}
        for name, path, words in (("model folder", model, 100), ("builtin:bytes", None, 10)):  # a word is 8 bytes
            own = folder / name.replace(":", " ")
            own.mkdir()
            servers[name] = (opened.enter_context(ours(own, path)), words)
        if options.reference:
            servers[REFERENCE] = (opened.enter_context(reference(options.reference, folder, model)), 100)
        seen: dict[str, list[float]] = {name: [] for name in servers}
        for turn in range(options.turns):
            for name in list(servers)[:: -1 if turn % 2 else 1]:
                server, words = servers[name]
                seen[name].append(rate(name, options.client, server, options.seconds, words))
    base = seen.pop(REFERENCE, [])
    for name, values in seen.items() if base else ():
        ratios = [value / other for value, other in zip(values, base, strict=True)]
        ratio = statistics.median(ratios)
        print(
            f"{name}: {ratio:.1f} times the requests per CPU second of the reference (median of {len(ratios)} turns,"
            f" {min(ratios):.1f} to {max(ratios):.1f}); {wanted('3 times', ratio >= 3)}"
        )


def streams(options: argparse.Namespace, folder: Path) -> None:
    """Memory of many open streams, whose tokens come slowly."""
    slow = ["--max-num-seqs", str(options.streams), "--decode-speedup-ratio", "0.2"]
    with ours(folder, None, *slow) as server:
        command = load(options.client, server, clients=options.streams, words=3, tokens=1000, duration="30s")
        peak = during(command, server, lambda memory: None)
        seen = peak[1]
        assert seen["begun"] >= options.streams, seen
        assert seen["failures"] == 0, seen
        most = max(peak[0])
        print(
            f"{options.streams} open streams: {most:.0f} MB at most; {wanted('below 150 MB', most < 150)}", flush=True
        )


def lateness(options: argparse.Namespace, folder: Path) -> None:
    """How late tokens are sent."""
    with ours(
        folder, None, "--num-workers", "8", "--decode-speedup-ratio", str(options.decode_speedup_ratio)
    ) as server:
        late = server.late_ms()
        command = load(
            options.client, server, clients=options.lateness_clients, tokens=300, duration=f"{options.seconds}s"
        )
        seen = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
        delay = late()
        print(
            f"{seen['events_per_s']:,.0f} tokens/s: 99 % are sent at most {delay:g} ms late;"
            f" {wanted('3 ms at 20,000 tokens/s on an idle machine', delay <= 3)};"
            f" at the client TTFT {seen['ttft_p50_ms']:.1f} / {seen['ttft_p99_ms']:.1f} ms,"
            f" ITL {seen['itl_p50_ms']:.2f} / {seen['itl_p99_ms']:.2f} ms (median / 99 %)",
            flush=True,
        )


def during(command: list[str], server: Processes, each: Callable[[float], None]) -> tuple[list[float], Any]:
    """Memory of the server while a client runs, every second, and what the client has seen."""
    memory = []
    with subprocess.Popen(command, stdout=subprocess.PIPE) as client:
        while client.poll() is None:
            time.sleep(1)
            memory.append(server.memory_mb())
            each(memory[-1])
        assert client.stdout
        return memory, json.loads(client.stdout.read())


def soak(options: argparse.Namespace, folder: Path) -> None:
    """Memory must not grow: the last third has at most a tenth more than the second one.

    3 of 10 answers are structured.
    """

    def show(memory: float) -> None:
        print(f"{memory:.0f} MB", end=" ", flush=True)

    arguments = ["--num-workers", "2", "--router-mode", "kv", "--speedup-ratio", "20"]
    with ours(folder, None, *arguments) as server:
        command = load(
            options.client, server, clients=64, tokens=100, leaving=0.2, structured=0.3, duration=f"{options.soak}s"
        )
        memory, seen = during(command, server, show)
        third = len(memory) // 3
        earlier, later = max(memory[third : 2 * third]), max(memory[2 * third :])
        print(
            f"\n{options.soak} s, {seen['requests']} answers, {seen['left']} given up, {seen['failures']} failed:"
            f" {earlier:.0f} MB at most in the second third, {later:.0f} MB in the last"
        )
        if seen["failures"] or later > 1.1 * earlier:
            raise SystemExit("requests have failed, or memory has grown")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--client", required=True, help="the compiled benchmarks/serve")
    parser.add_argument("--reference", help="Python of an environment with ai-dynamo 1.3.1")
    parser.add_argument("--seconds", type=int, default=10, help="of each measurement")
    parser.add_argument("--turns", type=int, default=3, help="in which the servers are measured one after the other")
    parser.add_argument("--streams", type=int, default=2000)
    parser.add_argument("--lateness-clients", type=int, default=256)
    parser.add_argument("--decode-speedup-ratio", type=float, default=1.0, help="chooses the tokens per second")
    parser.add_argument("--only", choices=("rates", "streams", "lateness"))
    parser.add_argument("--soak", type=int, metavar="SECONDS", help="nothing but this")
    options = parser.parse_args()
    options.client = str(Path(options.client).resolve())
    busy, cores = os.getloadavg()[0], os.cpu_count()
    print(
        f"{cores} cores with a load average of {busy:.1f} before this; above 0.5, figures are worse than the server is"
    )
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        if options.soak:
            soak(options, folder)
            return
        if options.only in (None, "rates"):
            rates(options, folder, make_model(folder / "tiny"))
        if options.only in (None, "streams"):
            streams(options, folder)
        if options.only in (None, "lateness"):
            lateness(options, folder)


if __name__ == "__main__":
    main()
