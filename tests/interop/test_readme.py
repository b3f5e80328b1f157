"""The live commands of README's tour, behind a stock frontend: as written, but for ports and the place of ai-dynamo."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from livetools import Service, make_model, until
from servers import free_port

PROJECT = Path(__file__).parents[2]
TOUR = (PROJECT / "README.md").read_text().partition("## A tour in five minutes\n")[2].partition("\n## ")[0]
BLOCKS = [block for block in re.findall(r"^```\w*\n(.*?)^```$", TOUR, re.M | re.S) if "-m dynamo.mocker" in block]
REFERENCE = "/path/to/ai-dynamo/bin/python"


class Shell:
    """Carries out the lines of a block: what ends with & goes on, what is exported holds for the rest."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "examples").symlink_to(PROJECT / "examples")
        python = folder / "programs" / "python"
        python.parent.mkdir()
        python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
        python.chmod(0o755)
        self.port = str(free_port())
        self.environment = {
            **{"PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}", "DYN_FILE_KV": str(folder / "kv")},
            **{"DYN_HTTP_PORT": self.port, "DYN_TCP_RPC_HOST": "127.0.0.1", "HF_HUB_OFFLINE": "1"},
        }
        self.services: list[tuple[str, Service]] = []

    def paste(self, block: str) -> None:
        text = block.replace("\\\n", " ").replace(REFERENCE, os.environ["REFERENCE"])
        text = text.replace("localhost:8000", f"localhost:{self.port}")
        text = re.sub(r"(--bootstrap-ports )(\S+)", lambda m: m[1] + ",".join(map(str, free_ports(m[2]))), text)
        for line in filter(None, (line.partition(" #")[0].strip() for line in text.splitlines())):
            self.carry_out(line)

    def carry_out(self, line: str) -> None:
        if line.startswith("export "):
            name, _, value = line.removeprefix("export ").partition("=")
            self.environment[name] = value
        elif line.endswith("&"):
            log = self.folder / f"{len(self.services)}.log"
            service = Service(["bash", "-c", f"exec {line.rstrip('& ')}"], log, self.environment)
            self.services.append((line, service))
        else:
            until(lambda: self.answered(line))

    def answered(self, line: str) -> bool:
        """A user pastes curl when the model is there; here it is tried until then."""
        for _, service in self.services:
            assert service.process.poll() is None, service.log
        environment = {**os.environ, **self.environment}
        done = subprocess.run(["bash", "-c", line], cwd=self.folder, env=environment, capture_output=True, text=True)
        return done.returncode == 0 and '"finish_reason":"length"' in done.stdout.replace(" ", "")

    def stop_workers(self) -> None:
        for line, service in self.services:
            if "dynamo.mocker" in line:
                service.stop()
                assert service.wait() == 0, service.log
        self.services = [(line, service) for line, service in self.services if "dynamo.mocker" not in line]


def free_ports(like: str) -> list[int]:
    return [free_port() for _ in like.split(",")]


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    started = Shell(tmp_path)
    for path in set(re.findall(r"--model-path (\S+)", "".join(BLOCKS))):
        if not (tmp_path / path).exists():  # a model that users bring along
            make_model(tmp_path / path)
    with ExitStack() as ending:
        yield started
        for _, service in started.services:
            ending.push(service.__exit__)


def test_live_commands(shell: Shell) -> None:
    serve, split = BLOCKS
    (ask,) = re.findall(r"^curl .*?[^\\]\n", serve, re.M | re.S)
    shell.paste(serve)
    shell.stop_workers()
    shell.paste(split)
    shell.paste(ask)
