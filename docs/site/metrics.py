"""Writes docs/reference/metrics.md from what running processes say at /metrics.

python docs/site/metrics.py --write docs/reference/metrics.md
python docs/site/metrics.py --check docs/reference/metrics.md
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
MODEL = str(ROOT / "examples" / "models" / "tiny")
LIMIT_S = 300  # for what never comes
LABEL = re.compile(r'(\w+)="')
WORKERS = ["--model-path", MODEL, "--model-name", "tiny", "--discovery-backend", "mem"]
PROCESSES = {
    "vLLM workers": [*WORKERS, "--engine-type", "vllm"],
    "SGLang workers": [*WORKERS, "--engine-type", "sglang"],
    "TensorRT-LLM workers": [*WORKERS, "--engine-type", "trtllm"],
}
SERVER = "OpenAI-compatible server"
HEAD = """# Metrics

<!-- Code generated from running processes by make metrics-page. DO NOT EDIT. -->

Live workers show these at `/metrics` of the port
`DYN_SYSTEM_PORT`, in Prometheus' format; histograms also have the suffixes `_bucket`, `_sum` and `_count`.
[Live workers](../live.md#events-and-metrics) says what they are over. Those with the name of an engine are that
engine's own, so its dashboards show them. [The OpenAI-compatible server](../serve.md) shows its own at `/metrics` of
its port, under the names that vLLM has. Beside all are those of any Go program, `go_...` and `process_...`.
"""


def free_port() -> int:
    with socket.socket() as opened:
        opened.bind(("127.0.0.1", 0))
        port: int = opened.getsockname()[1]
        return port


@contextlib.contextmanager
def running(arguments: list[str], port: int) -> Iterator[subprocess.Popen[bytes]]:
    environment = {**os.environ, "DYN_SYSTEM_PORT": str(port), "DYN_SYSTEM_HOST": "127.0.0.1"}
    if "--standalone" in arguments:
        environment = dict(os.environ)
        arguments = [*arguments, "--http-port", str(port)]
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "dynamo.mocker", *arguments]
        process = subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.DEVNULL)
        try:
            yield process
        finally:
            process.terminate()
            process.wait()


def scrape(arguments: list[str]) -> str:
    """The page of metrics of a process, once it serves."""
    port = free_port()
    with running(arguments, port) as process:
        until = time.monotonic() + LIMIT_S
        while time.monotonic() < until and process.poll() is None:
            with contextlib.suppress(OSError):
                # An error until all engines serve.
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=10)
                answer = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10)
                text: str = answer.read().decode()
                return text
            time.sleep(0.1)
    sys.exit(f"error: no metrics from python -m dynamo.mocker {' '.join(arguments)}")


def table(text: str) -> dict[str, str]:
    """A row for each metric of a page, by its name."""
    helps = dict(re.findall(r"^# HELP (\S+) (.*)$", text, re.MULTILINE))
    rows = {}
    for name, kind in re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE):
        if name.startswith(("go_", "process_")):
            continue
        sample = re.search(rf"^{re.escape(name)}(?:_count)?(?:\{{(.*?)\}})? ", text, re.MULTILINE)
        labels = [label for label in LABEL.findall(sample[1] or "") if label != "le"] if sample else []
        shown = ", ".join(f"`{label}`" for label in labels)
        rows[name] = f"| `{name}` | {kind} | {shown} | {helps.get(name, '')} |"
    return rows


def page() -> str:
    """The whole page: what all processes have in common, then what each has beside it."""
    tables = {title: table(scrape(arguments)) for title, arguments in PROCESSES.items()}
    common = set.intersection(*(set(rows.items()) for rows in tables.values()))
    sections = {"All workers": dict(common)}
    sections |= {title: dict(rows.items() - common) for title, rows in tables.items()}
    sections[SERVER] = table(scrape(["--standalone"]))
    text = HEAD
    for title, rows in sections.items():
        text += f"\n## {title}\n\n| metric | kind | labels | meaning |\n|---|---|---|---|\n"
        text += "".join(f"{rows[name]}\n" for name in sorted(rows))
    return text


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--write", type=Path)
    parser.add_argument("--check", type=Path)
    options = parser.parse_args()
    made = page()
    if options.write:
        options.write.write_text(made)
    elif not options.check:
        print(made, end="")
    elif options.check.read_text() != made:
        sys.exit(f"error: {options.check} is stale: run make metrics-page")


if __name__ == "__main__":
    main()
