"""The OpenAI-compatible server as the official Node client sees it, if it is installed: ``make test-node``."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from servetools import serving

PROJECT = Path(__file__).parents[1]
INSTALLED = PROJECT / "build" / "node"
CHECKS = PROJECT / "tests" / "node_client.mjs"


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
@pytest.mark.skipif(not (INSTALLED / "node_modules" / "openai").is_dir(), reason="needs the client: make test-node")
def test_node_client(tmp_path: Path) -> None:
    program = INSTALLED / CHECKS.name  # modules are looked for beside it
    shutil.copy(CHECKS, program)
    with serving(tmp_path, "--speedup-ratio", "20", "--lora-modules", "sql") as server:
        done = subprocess.run(["node", program, server.url], capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        results = json.loads(done.stdout)
        assert len(results) == 12
        assert results == dict.fromkeys(results, True)
        server.until_idle()
