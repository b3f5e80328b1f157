"""The blocks of docs/live.md with a frontend, pasted into a shell: only ports and the frontend's place differ."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from servers import free_port

PROJECT = Path(__file__).parents[2]
PAGE = (PROJECT / "docs" / "live.md").read_text()
BLOCKS = [block for block in re.findall(r"^```\w*\n(.*?)^```$", PAGE, re.M | re.S) if "dynamo.frontend" in block]
# What makes an environment for the frontend; here there is one already.
INSTALL = re.compile(r"^(python3 -m venv build/frontend|build/frontend/bin/pip install .*)\n", re.M)
PATIENCE_S = 600  # for what never comes


def program(path: Path, interpreter: str) -> None:
    path.parent.mkdir(parents=True)
    path.write_text(f'#!/bin/sh\nexec "{interpreter}" "$@"\n')
    path.chmod(0o755)


@pytest.mark.parametrize("block", BLOCKS, ids=["aggregated", "split"])
def test_live_commands(tmp_path: Path, block: str) -> None:
    (tmp_path / "examples").symlink_to(PROJECT / "examples")
    program(tmp_path / "programs" / "python", sys.executable)
    program(tmp_path / "build" / "frontend" / "bin" / "python", os.environ["REFERENCE"])
    port = str(free_port())
    script = INSTALL.sub("", block).replace("localhost:8000", f"localhost:{port}")
    script = re.sub(r"\b899[89]\b", lambda _: str(free_port()), script)
    environment = {
        **os.environ,
        "PATH": f"{tmp_path / 'programs'}{os.pathsep}{os.environ['PATH']}",
        "DYN_FILE_KV": str(tmp_path / "kv"),
        "DYN_HTTP_PORT": port,
        "HF_HUB_OFFLINE": "1",
    }
    environment.pop("DYN_DISCOVERY_BACKEND", None)
    done = subprocess.run(
        ["bash", "-m"], input=script, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert '"finish_reason":"length"' in done.stdout.replace(" ", ""), (done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
