"""The program ``dynosim``: its commands are those that ``python -m`` runs."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from conftest import TINY, Cli, refused

from dynamo._core.version import VERSION
from dynamo._shell import program


def dynosim(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs the script that pip has made of the entry point, beside the interpreter of the tests."""
    script = Path(sys.executable).parent / "dynosim"
    return subprocess.run([str(script), *arguments], cwd=folder, capture_output=True, text=True, timeout=300)


def test_a_replay_is_that_of_the_module(cli: Cli, folder: Path) -> None:
    ours = dynosim(folder, "replay", *TINY, "--report-jsonl", "ours.jsonl")
    assert (ours.returncode, ours.stderr) == (0, "")
    assert cli(*TINY, "--report-jsonl", "theirs.jsonl").returncode == 0
    assert (folder / "ours.jsonl").read_text() == (folder / "theirs.jsonl").read_text()


@pytest.mark.parametrize("name", program.COMMANDS)
def test_every_command_has_help(folder: Path, name: str) -> None:
    done = dynosim(folder, name, "--help")
    assert done.returncode == 0, done.stderr
    assert "usage:" in done.stdout.lower()
    assert f"  {name} " in dynosim(folder, "--help").stdout


@pytest.mark.parametrize("command", ["replay", "serve", "mocker", "validate", "sweep"])
def test_mistakes_are_one_line(folder: Path, command: str) -> None:
    assert "--no-such-option" in refused(dynosim(folder, command, "--no-such-option"))


def test_a_sweep_on_two_processes(folder: Path) -> None:
    """Processes that are spawned import the script again, and must not run it again."""
    spec = '{"run": {"input_tokens": 20, "output_tokens": 3, "request_count": 5}, "search": {"num_workers": [1, 2]}}'
    (folder / "spec.json").write_text(spec)
    done = dynosim(folder, "sweep", "run", "spec.json", "-o", "out")
    assert done.returncode == 0, done.stderr
    assert "2 ok" in done.stdout


def test_an_unknown_command(folder: Path) -> None:
    assert "did you mean replay?" in refused(dynosim(folder, "repaly"))
    assert "want replay, sweep, serve" in refused(dynosim(folder, "\x1b[31m"))


def test_version(folder: Path) -> None:
    assert dynosim(folder, "--version").stdout == f"dynosim {VERSION}\n"
    assert dynosim(folder, "replay", "--version").stdout == f"dynosim {VERSION}\n"
    if not VERSION.endswith("+unknown"):  # sources copied over an installation
        assert metadata.version("dynosim") == VERSION
