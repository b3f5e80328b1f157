"""The OpenAI-compatible server as the official Node client sees it, if it is installed: ``make test-node``."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from servetools import MODEL, serving

PROJECT = Path(__file__).parents[1]
INSTALLED = PROJECT / "build" / "node"
CHECKS = PROJECT / "tests" / "node"
FAULTS: list[dict[str, Any]] = [
    {"model": "fails-429", "share": 1, "status": 429, "retry_after_s": 1},
    {"model": "fails-500", "share": 1, "status": 500, "message": "out of luck"},
    {"model": "fails-503", "share": 1, "status": 503},
    {"model": "breaks", "share": 1, "break_after_tokens": 5},
]
THINKING = {"start_thinking_token_id": 1, "end_thinking_token_id": 2, "thinking_ratio": 0.5}


def models(recording: Path) -> list[dict[str, Any]]:
    """Those that the checks name. Requests for the adapters with faults meet these."""
    return [
        {"model_name": MODEL, "max_model_len": 4096, "lora_modules": ",".join(["sql", *(f["model"] for f in FAULTS)])},
        {"model_name": "org/echo", "response_mode": "echo"},
        {"model_name": "recorded", "response_mode": "recorded", "response_file": str(recording)},
        {"model_name": "thinker", "reasoning": THINKING},
        {"model_name": "slow", "speedup_ratio": 1, "decode_speedup_ratio": 0.01},
        {"model_name": "pools", "num_prefill_workers": 1, "num_decode_workers": 2, "router_mode": "kv"},
    ]


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
@pytest.mark.skipif(not (INSTALLED / "node_modules" / "openai").is_dir(), reason="needs the client: make test-node")
def test_node_client(tmp_path: Path) -> None:
    recording = tmp_path / "answers.jsonl"
    recording.write_text(
        '{"prompt": "What is", "response": "It depends."}\n{"prompt": "What is a block", "response": "Some tokens."}\n'
    )
    program = INSTALLED / "checks"  # modules are looked for beside and above it
    shutil.rmtree(program, ignore_errors=True)
    shutil.copytree(CHECKS, program)
    options = (
        "--models",
        json.dumps(models(recording)),
        "--inject-errors",
        json.dumps(FAULTS),
        "--api-key",
        "secret,second",
    )
    with serving(tmp_path, "--speedup-ratio", "20", *options) as server:
        command = ["node", str(program / "main.mjs"), server.url]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600)
        print(done.stdout)  # a line for each check
        assert done.returncode == 0, done.stdout + done.stderr
        assert len(re.findall("^ok", done.stdout, re.MULTILINE)) >= 60
        assert "FAILED" not in done.stdout
        server.until_idle()
