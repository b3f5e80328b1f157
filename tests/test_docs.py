"""Every example of the documents, run as written."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from dynamo.replay import api

PROJECT = Path(__file__).parent.parent
PAGES = (
    "index.md",
    "agreement.md",
    "workloads.md",
    "timing.md",
    "accuracy.md",
    "runs.md",
    "report.md",
    "planner.md",
    "faults.md",
    "timeline.md",
    "faults.md",
    "decisions/0004-reference-quirks.md",
)
DOCS = {name: (PROJECT / "docs" / name).read_text() for name in PAGES}
BLOCK = re.compile(r"^```(jsonl|json|csv|sh|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def examples() -> list[tuple[str, str, str]]:
    """Each block of commands or of Python, with the trace that precedes it and the name of its file."""
    found, file, trace = [], "trace.jsonl", ""
    for kind, text in BLOCK.findall("".join(DOCS.values())):
        if kind in ("jsonl", "json", "csv"):
            file, trace = f"trace.{kind}", text
        else:
            found.append((file, trace, f"python -c {shlex.quote(text)}" if kind == "python" else text))
    return found


def split(commands: str) -> list[str]:
    """The commands of a block, each of which may go over several lines."""
    return re.findall(r"^python .*?(?=^python |\Z)", commands.replace("\\\n", ""), re.MULTILINE | re.DOTALL)


def matches(folder: Path, word: str) -> list[str]:
    """The files that a shell would put in the place of a word, or the word."""
    if "*" not in word or not re.fullmatch(r"[\w./*-]+", word):
        return [word]
    return sorted(str(path.relative_to(folder)) for path in folder.glob(word))


@pytest.mark.parametrize(("file", "trace", "commands"), examples())
def test_examples(folder: Path, file: str, trace: str, commands: str) -> None:
    (folder / file).write_text(trace)
    (folder / "examples").symlink_to(PROJECT / "examples")
    for command in split(commands):
        program, *arguments = shlex.split(command, comments=True)
        assert program == "python"
        arguments = [path for word in arguments for path in matches(folder, word)]
        done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        assert ("warning:" in done.stderr) == ("# warns" in command)


def test_all_formats_have_one() -> None:
    headings = re.findall(r"^## (\S+)$", DOCS["workloads.md"], re.MULTILINE)
    others = {"vidur", "mooncake_delta", "agentic-mooncake"}  # other names of formats
    assert sorted([*headings, *others]) == sorted(get_args(api.TraceFormat))
