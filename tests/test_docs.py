"""Every example of the documents, run as written."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parent.parent
PAGES = ("workloads.md", "timing.md", "accuracy.md", "runs.md", "report.md", "decisions/0004-reference-quirks.md")
DOCS = {name: (PROJECT / "docs" / name).read_text() for name in PAGES}
BLOCK = re.compile(r"^```(jsonl|sh|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def examples() -> list[tuple[str, str]]:
    """Each block of commands or of Python, with the trace that precedes it."""
    found, trace = [], ""
    for kind, text in BLOCK.findall("".join(DOCS.values())):
        if kind == "jsonl":
            trace = text
        else:
            found.append((trace, f"python -c {shlex.quote(text)}" if kind == "python" else text))
    return found


def split(commands: str) -> list[str]:
    """The commands of a block, each of which may go over several lines."""
    return re.findall(r"^python .*?(?=^python |\Z)", commands.replace("\\\n", ""), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(("trace", "commands"), examples())
def test_examples(folder: Path, trace: str, commands: str) -> None:
    (folder / "trace.jsonl").write_text(trace)
    (folder / "examples").symlink_to(PROJECT / "examples")
    for command in split(commands):
        program, *arguments = shlex.split(command, comments=True)
        assert program == "python"
        done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        assert "warning:" not in done.stderr


def test_all_formats_have_one() -> None:
    headings = re.findall(r"^## (\S+)$", DOCS["workloads.md"], re.MULTILINE)
    assert headings == ["mooncake", "mooncake-delta", "agentic_mooncake", "applied_compute_agentic", "dynamo"]
