"""docs/sweeps.md and examples/sweeps describe everything; test_documents.py runs the page."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import command
from test_aic import fake

from dynamo import sweep
from dynamo.sweep import figures, spec

__all__ = ["fake"]

PROJECT = Path(__file__).parent.parent
TEXT = (PROJECT / "docs/sweeps.md").read_text()
EXAMPLES = sorted((PROJECT / "examples/sweeps").glob("*.yaml"))


@pytest.fixture
def clone(folder: Path) -> Path:
    """What the commands need of a clone."""
    (folder / "examples").symlink_to(PROJECT / "examples")
    return folder


def run(line: str, code: int = 0) -> str:
    """The output of a command that begins with ``python``."""
    program, *arguments = shlex.split(line)
    assert program == "python"
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=900)
    assert done.returncode == code, done.stderr
    return done.stdout


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_examples(example: Path) -> None:
    """Each says with which command it is run, and the page has it; test_documents.py runs it."""
    (line,) = re.findall(r"^#     (python .*)$", example.read_text(), re.MULTILINE)
    assert f"examples/sweeps/{example.name}" in line
    assert line in TEXT


def test_gpus_of_the_sdk(clone: Path, fake: Path) -> None:
    """With a made-up SDK in place of the real one."""
    (line,) = re.findall(r"^#     (python .*)$", (PROJECT / "examples/sweeps/h200.yaml").read_text(), re.MULTILINE)
    assert line in TEXT
    run(line, code=3)  # its pools are too small for the longest prompts
    found = sweep.load(line.split()[-1])
    tried = {(point["knobs"]["engine.aic_tp_size"], point["figures"].get("gpus")) for point in found}
    assert tried >= {(1, 4), (2, 4), (2, None)}  # the last one has more than it may


def test_every_key_and_figure_is_described() -> None:
    for name in (*spec._KEYS, *figures.DERIVED):
        assert f"`{name}`" in TEXT, name


def test_the_structure_is_described(clone: Path) -> None:
    made = {"input_tokens": 20, "output_tokens": 3, "request_count": 5}
    found = sweep.run({"run": made, "search": {"num_workers": [1]}})
    for name in (*found.content, *found.points[0]):
        assert f"`{name}`" in TEXT, name


def test_help_lists_the_commands(folder: Path) -> None:
    done = subprocess.run(command("--help", module="dynamo.sweep"), capture_output=True, text=True, timeout=300)
    commands = ["run", "resume", "recommend", "status", "report", "diff", "export"]
    assert re.findall(r"^    (\w+)\b", done.stdout, re.MULTILINE) == commands
