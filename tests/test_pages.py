"""Every command of the documentation runs in a test; those that need hours or an SDK have options that exist."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import test_docs
from test_live import free_port

from dynamo.calibrate import main as calibrate
from dynamo.mocker import main as mocker
from dynamo.replay import main as replay
from dynamo.validate import main as validate

PROJECT = Path(__file__).parents[1]
PAGES = {str(path.relative_to(PROJECT / "docs")): path.read_text() for path in (PROJECT / "docs").rglob("*.md")}
README = (PROJECT / "README.md").read_text()
# Tests that paste these pages: test_tour.py, test_sweep_docs.py, test_python_docs.py, test_calibrate.py,
# test_why.py.
ELSEWHERE = {"tour.md", "sweeps.md", "python.md", "calibrate.md", "why.md"}
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^python -m dynamo\.[^#&]*?(?=^python|\Z|&|#)", re.MULTILINE)
PARSERS = {"calibrate": calibrate, "mocker": mocker, "replay": replay, "validate": validate}


def plain() -> list[tuple[str, str]]:
    """Commands of this package in blocks that no other test runs, with their pages."""
    found = []
    for name, text in {**PAGES, "README.md": README}.items():
        for language, block in BLOCK.findall(text):
            if language or name in ELSEWHERE:
                continue
            joined = re.sub(r"\\\n", " ", block)
            found += [
                (name, line) for line in re.findall(r"^python -m dynamo\.[^#&]*?(?=^python|\Z|&|#)", joined, re.M)
            ]
    return found


def test_pages_with_commands_are_run() -> None:
    with_commands = {name for name, text in PAGES.items() if re.search(r"^```(sh|python)$", text, re.MULTILINE)}
    with_servers = {"serve.md"}  # see below; its Python is that of the package openai
    assert with_commands - ELSEWHERE - with_servers == set(test_docs.PAGES)


@pytest.mark.parametrize(("page", "line"), plain())
def test_options_exist(page: str, line: str) -> None:
    words = shlex.split(line.partition("\n\n")[0])
    name = words[2].removeprefix("dynamo.")
    assert name in PARSERS or name.startswith(("sweep", "replay.")), page
    if name in PARSERS:
        PARSERS[name]._parser().parse_args(words[3:])


def test_targets_of_make_exist() -> None:
    targets = set(re.findall(r"^([\w-]+):", (PROJECT / "Makefile").read_text(), re.MULTILINE))
    for name, text in {**PAGES, "README.md": README}.items():
        asked = re.findall(r"(?:`|^)make ([a-z][\w-]*)", text, re.MULTILINE)
        assert set(asked) <= targets, name


def pasted(folder: Path, commands: str) -> str:
    """What a block prints in a shell where ``python`` is the interpreter of the tests."""
    (folder / "examples").symlink_to(PROJECT / "examples")
    programs = folder / "programs"
    programs.mkdir()
    (programs / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    (programs / "python").chmod(0o755)
    environment = {**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
    # A limit for what never comes.
    done = subprocess.run(
        ["bash", "-m"], input=commands, cwd=folder, env=environment, capture_output=True, text=True, timeout=240
    )
    assert "Traceback" not in done.stderr
    return done.stdout


def test_workers_without_a_frontend(folder: Path) -> None:
    (block,) = [text for _, text in BLOCK.findall(PAGES["live.md"]) if "--request-plane http &" in text]
    assert '"complete_final":true' in pasted(folder, block)


def test_a_cluster_without_a_stock_frontend(folder: Path) -> None:
    (block,) = [text for _, text in BLOCK.findall(PAGES["serve.md"]) if "--frontend --http-port 8000" in text]
    meet = f"export DYN_FILE_KV={folder}/kv\n"
    assert "data: [DONE]" in pasted(folder, meet + block.replace("8000", str(free_port())))


def servers() -> list[str]:
    """The commands of docs/serve.md that start a server."""
    blocks = [re.sub(r"\\\n", " ", text) for _, text in BLOCK.findall(PAGES["serve.md"])]
    found = [command.strip() for text in blocks for command in COMMAND.findall(text) if "--standalone" in command]
    assert len(found) > 3
    return found


@pytest.mark.parametrize("command", servers())
def test_servers_answer(folder: Path, command: str) -> None:
    """Each is started, and asked as the page asks."""
    asked = next(text for _, text in BLOCK.findall(PAGES["serve.md"]) if text.startswith("curl"))
    url = f"http://127.0.0.1:{(port := free_port())}"
    started = re.sub(r"--http-port \d+", "", command) + f" --http-port {port} &"
    wait = f"until curl -sf {url}/health; do kill -0 $! || exit 1; sleep 0.2; done"
    model = f'MODEL=$(curl -s {url}/v1/models | sed \'s/.*"id":"\\([^"]*\\)".*/\\1/\')'
    question = asked.strip().replace("http://127.0.0.1:8000", url).replace("builtin:bytes", "'$MODEL'")
    assert "data: [DONE]" in pasted(folder, "\n".join([started, wait, model, question, "kill $!; wait", ""]))


def test_the_readme_serves(folder: Path) -> None:
    (block,) = [text for _, text in BLOCK.findall(README) if "--standalone" in text]
    port = free_port()
    block = block.replace("localhost:8000", f"localhost:{port}").replace(" &\n", f" --http-port {port} &\n", 1)
    assert '"finish_reason":"length"' in pasted(folder, block).replace(" ", "")
