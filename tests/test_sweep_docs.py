"""docs/sweeps.md and examples/sweeps: every command and every example is run as written."""

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


def run(line: str) -> str:
    """The output of a command that begins with ``python``."""
    program, *arguments = shlex.split(line)
    assert program == "python"
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("example", [path for path in EXAMPLES if path.stem != "h200"], ids=lambda path: path.stem)
def test_examples(clone: Path, example: Path) -> None:
    """Each says with which command it is run, and has points that keep its bounds."""
    (line,) = re.findall(r"^#     (python .*)$", example.read_text(), re.MULTILINE)
    assert f"examples/sweeps/{example.name}" in line
    assert line in TEXT
    output = run(line)
    assert "Not beaten by any other point" in output
    found = sweep.load(line.split()[-1])
    assert {point["status"] for point in found} <= {"ok", "infeasible"}


def test_gpus_of_the_sdk(clone: Path, fake: Path) -> None:
    """With a made-up SDK in place of the real one."""
    (line,) = re.findall(r"^#     (python .*)$", (PROJECT / "examples/sweeps/h200.yaml").read_text(), re.MULTILINE)
    assert line in TEXT
    run(line)
    found = sweep.load(line.split()[-1])
    tried = {(point["knobs"]["engine.aic_tp_size"], point["figures"].get("gpus")) for point in found}
    assert tried >= {(1, 4), (2, 4), (2, None)}  # the last one has more than it may


def test_the_commands_about_a_folder(clone: Path) -> None:
    lines = re.search(r"^```sh\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    assert lines is not None
    outputs = [run(line) for line in lines[1].splitlines()]
    assert len(outputs) == 3
    assert outputs[1].startswith("40 of 40 points are finished: ")
    (line,) = re.findall(r"^(python .* --measured .*)$", TEXT, re.MULTILINE)
    run(line)
    page = Path("build/grid/report.html").read_text()
    assert all(f'"label":"{label}"' in page for label in ("production", "old router", "trial on other hosts"))
    assert page.count('"point":null') == 1


def test_the_python_example(clone: Path) -> None:
    (block,) = re.findall(r"^```python\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    done = subprocess.run([sys.executable, "-c", block], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")


def test_every_key_and_figure_is_described() -> None:
    for name in (*spec._KEYS, *figures.DERIVED):
        assert f"`{name}`" in TEXT, name


def test_the_structure_is_described(clone: Path) -> None:
    made = {"input_tokens": 20, "output_tokens": 3, "request_count": 5}
    found = sweep.run({"run": made, "search": {"num_workers": [1]}})
    for name in (*found.content, *found.points[0]):
        assert f"`{name}`" in TEXT, name


def test_help_lists_the_commands(folder: Path) -> None:
    done = subprocess.run(command("--help", module="dynamo.sweep"), capture_output=True, text=True, timeout=60)
    assert re.findall(r"^    (\w+) ", done.stdout, re.MULTILINE) == ["run", "resume", "status", "report", "diff"]
