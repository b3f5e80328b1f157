"""Starts live workers of the installed package, sends them one request, and ends them.

python packaging/serve_once.py MODEL_FOLDER
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

LIMIT_S = 120  # for what never comes
URL = re.compile(rb'http://[^"]*/generate')


def main(model: str) -> None:
    """Ends with an error unless the answer has as many tokens as were asked for."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "dynamo.mocker", "--model-path", model, "--discovery-backend", "file"]
        environment = {**os.environ, "DYN_FILE_KV": folder}
        workers = subprocess.Popen([*command, "--request-plane", "http"], env=environment)
        try:
            answer = ask(find(Path(folder), workers))
        finally:
            workers.terminate()
            status = workers.wait()
    tokens = [token for line in answer for token in line.get("data", {}).get("token_ids", [])]
    if len(tokens) != 3 or status != 0:
        sys.exit(f"error: want 3 tokens and exit code 0, got {answer} and {status}")


def find(folder: Path, workers: subprocess.Popen[bytes]) -> str:
    """The address in the records of the workers, once they are there."""
    until = time.monotonic() + LIMIT_S
    while time.monotonic() < until and workers.poll() is None:
        for path in folder.rglob("*"):
            found = URL.search(path.read_bytes()) if path.is_file() else None
            if found:
                return found[0].decode()
        time.sleep(0.1)
    sys.exit(f"error: the workers are not found; exit code {workers.poll()}")


def ask(url: str) -> list[dict[str, dict[str, list[int]]]]:
    body = json.dumps({"token_ids": [5, 6, 7], "stop_conditions": {"max_tokens": 3}}).encode()
    with urllib.request.urlopen(urllib.request.Request(url, body), timeout=LIMIT_S) as answer:
        return [json.loads(line) for line in answer.read().splitlines() if line]


if __name__ == "__main__":
    main(*sys.argv[1:])
