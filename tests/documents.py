"""The documentation as a reader uses it: the blocks of a page, in order, and a terminal to paste them into.

A block's language says what it is:

- ``sh`` and ``python`` are run. The blocks of a page share a folder, a shell and an interpreter, so later ones use what
  earlier ones have made. ``# warns`` in a block says that it warns; no other does.
- ``text`` is what the block before it prints, with ``...`` for what is left out.
- ``jsonl``, ``json``, ``csv``, ``yaml`` are data: the file that ``title="NAME"`` names, or ``trace.LANGUAGE``.
- a block without a language is a drawing, and holds no command.

``<!-- not run: REASON -->`` before a block excuses it; what it names has to exist all the same. A server that a block
starts without ``&`` is what a reader starts in a terminal of its own: it is asked once, and ends when the next one
starts or the page does. Ports are replaced by free ones, and the AIC SDK, where it is not installed, by a made-up one.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from livetools import free_port

PROJECT = Path(__file__).parent.parent
PATIENCE_S = 600  # for what never comes
RUN = ("sh", "python")
DATA = ("jsonl", "json", "csv", "yaml")
FENCE = re.compile(
    r"(?:^ *<!-- not run: (?P<excuse>[^>]+?) -->\n\s*)?"
    r'^(?P<indent> *)```(?P<language>\w*)(?: title="(?P<title>[^"]+)")?\n(?P<text>.*?)^(?P=indent)```$',
    re.MULTILINE | re.DOTALL,
)
SERVER = re.compile(r"^python -m dynamo\.mocker\b(?:\\\n|'[^']*'|[^&#'\n])*$", re.MULTILINE)
PORTS = re.compile(r"((?:localhost|127\.0\.0\.1):|--[a-z-]*ports?[ =])(\d[\d,]*)")


class Block(NamedTuple):
    """A fenced block of a page, and the reason why no test runs it, if there is one."""

    page: str
    line: int
    language: str
    title: str
    text: str
    excuse: str

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def predicts(self) -> bool:
        """Whether it asks the AIC SDK."""
        return "aic_" in self.text or "--aic-" in self.text


def pages() -> list[str]:
    """README and the pages of the site, by their paths in the repository."""
    found = sorted(path.relative_to(PROJECT).as_posix() for path in (PROJECT / "docs").rglob("*.md"))
    return ["README.md", *found]


def blocks(page: str) -> list[Block]:
    text = (PROJECT / page).read_text()
    found = []
    for match in FENCE.finditer(text):
        line = text.count("\n", 0, match.start("language")) + 1
        content = textwrap.dedent(match["text"])
        found.append(Block(page, line, match["language"], match["title"] or "", content, match["excuse"] or ""))
    return found


class Printed(NamedTuple):
    """What a block has written."""

    out: str
    err: str


class Terminal:
    """A shell and an interpreter in a folder that looks like a clone."""

    def __init__(self, folder: Path, sdk: Path | None) -> None:
        self.folder = folder
        self.sdk = sdk
        self.ports: dict[str, str] = {"8000": str(free_port())}
        self.count = 0
        (folder / "examples").symlink_to(PROJECT / "examples")
        programs = folder / "programs"
        programs.mkdir()
        (programs / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
        (programs / "python").chmod(0o755)
        searched = [str(programs), str(Path(sys.executable).parent), os.environ["PATH"]]
        self.environment = {
            **os.environ,
            "PATH": os.pathsep.join(searched),
            "PYTHONUTF8": "1",
            "DYN_FILE_KV": str(folder / "records"),
            "HF_HUB_OFFLINE": "1",
        }
        self.shell = self._start("bash", "-e")
        self._say(self.shell, f". {shlex.quote(str(Path(__file__).parent / 'terminal.sh'))} {self.ports['8000']}\n")
        self.interpreter: subprocess.Popen[str] | None = None

    def paste(self, block: Block) -> Printed:
        """Runs a block; raises AssertionError if it fails."""
        self.count += 1
        path = self.folder / f".block-{self.count}"
        path.write_text(self._with_ports(block.text) if block.language == "python" else self._script(block.text))
        if block.language == "python":
            self.interpreter = self.interpreter or self._start("python", str(Path(__file__).parent / "interpreter.py"))
            done = self._ask(self.interpreter, f"{path}\n")
        else:
            sdk = f"PYTHONPATH={shlex.quote(str(self.sdk))} " if self.sdk and block.predicts else ""
            done = self._ask(self.shell, f"{sdk}. {path} >{path}.out 2>{path}.err </dev/null; echo done\n")
        found = Printed(Path(f"{path}.out").read_text(), Path(f"{path}.err").read_text())
        assert done == "done", f"{block.place} failed:\n{found.out}{found.err}"
        return found

    def close(self) -> None:
        """Ends the server that is left, and the shell and the interpreter."""
        self._ask(self.shell, "end_server; echo done\n")
        for process in self._processes():
            assert process.stdin is not None
            process.stdin.close()
            process.wait()

    def kill(self) -> None:
        """Ends the shell and the interpreter, whatever they are at."""
        for process in self._processes():
            process.kill()
            process.wait()

    def _processes(self) -> list[subprocess.Popen[str]]:
        return [process for process in (self.shell, self.interpreter) if process is not None]

    def _start(self, *command: str) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        return subprocess.Popen(command, cwd=self.folder, env=self.environment, stdin=pipe, stdout=pipe, text=True)

    def _say(self, process: subprocess.Popen[str], text: str) -> None:
        assert process.stdin is not None
        process.stdin.write(text)
        process.stdin.flush()

    def _ask(self, process: subprocess.Popen[str], text: str) -> str:
        """The line that the process answers with; "" if it has ended."""
        watch = threading.Timer(PATIENCE_S, process.kill)
        watch.start()
        try:
            self._say(process, text)
            assert process.stdout is not None
            return process.stdout.readline().strip()
        except BrokenPipeError:
            return ""
        finally:
            watch.cancel()

    def _with_ports(self, text: str) -> str:
        def replaced(found: re.Match[str]) -> str:
            numbers = found[2].split(",")
            return found[1] + ",".join(self.ports.setdefault(number, str(free_port())) for number in numbers)

        return PORTS.sub(replaced, text)

    def _script(self, text: str) -> str:
        """The commands for the shell: with free ports, and servers in the background.

        A block that starts servers itself may need the port of the one that is left.
        """
        text = re.sub(r"--standalone(?!(?:\\\n|.)*--http-port)", "--standalone --http-port 8000", text)
        kind = "frontend" if "--standalone" in text else "workers"
        alone = SERVER.sub(lambda found: f"end_server\n{found[0]} &\nserver {kind}", self._with_ports(text))
        return f"end_server\n{alone}" if re.search(r"&$", text, re.MULTILINE) else alone


@contextmanager
def terminal(folder: Path, sdk: Path | None = None) -> Iterator[Terminal]:
    """A terminal for as long as the block lasts. ``sdk`` is the folder of a made-up AIC SDK."""
    opened = Terminal(folder, sdk)
    try:
        yield opened
        opened.close()
    finally:
        opened.kill()


def prints(quoted: str, printed: Printed) -> bool:
    """Whether a quotation, with ``...`` for what is left out, is in what a block has printed."""
    pattern = ".*?".join(re.escape(part) for part in re.split(r"\.\.\.|…", quoted.strip("\n")))
    return any(re.search(pattern, text, re.DOTALL) for text in printed)
