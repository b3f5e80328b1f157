"""What a release needs: a tag, a version and a changelog that agree; what wheels are built with."""

from __future__ import annotations

import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

PROJECT = Path(__file__).parents[1]
CHANGELOG = "# Changelog\n\n## 1.2.3 - 2030-01-31\n\n## 1.2.2 - soon\n"


@pytest.fixture
def release() -> dict[str, Any]:
    return runpy.run_path(str(PROJECT / "packaging" / "release.py"))


CITATION = "cff-version: 1.2.0\nversion: 1.2.3\n"


@pytest.mark.parametrize(
    ("tag", "found", "said"),
    [
        ("v1.2.3", "1.2.3", ""),
        ("1.2.3", "1.2.3", "want v and a version"),
        ("v1.2", "1.2", "want v and a version"),
        ("v01.2.3", "01.2.3", "want v and a version"),
        ("v1.2.3-nightly.7", "1.2.3", "want v and a version"),
        ("v1.2.4", "1.2.4.dev7+g0123abc", "but this commit is version 1.2.4.dev7+g0123abc"),
        ("v1.2.2", "1.2.2", "## 1.2.2 - YYYY-MM-DD"),
        ("v1.2.3-rc.1", "1.2.3rc1", "CHANGELOG.md: want"),
    ],
)
def test_what_has_to_agree(release: dict[str, Any], tag: str, found: str, said: str) -> None:
    fault = release["fault"](tag, found, CHANGELOG, CITATION)
    assert said in fault
    assert bool(said) == bool(fault)


def test_the_citation_has_to_agree(release: dict[str, Any]) -> None:
    assert "CITATION.cff: want" in release["fault"]("v1.2.3", "1.2.3", CHANGELOG, "cff-version: 1.2.3\n")


def test_a_tag_that_does_not_agree() -> None:
    command = [sys.executable, "packaging/release.py", "v0", "0.1.0"]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)


def git(folder: Path, *words: str) -> str:
    author = ["-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "init.defaultBranch=main"]
    return subprocess.run(["git", *author, *words], cwd=folder, check=True, capture_output=True, text=True).stdout


def version(folder: Path) -> str:
    """What a build in the folder would be."""
    command = [sys.executable, "-W", "ignore", "-m", "setuptools_scm"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SETUPTOOLS_SCM")}
    return subprocess.run(
        command, cwd=folder, env=environment, check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_versions_come_from_tags(tmp_path: Path) -> None:
    """In a repository with the settings of this one, in its archives, and in copies without either."""
    clone, copy, archive = (tmp_path / name for name in ("clone", "copy", "archive"))
    for folder in (clone, copy, archive):
        folder.mkdir()
    for name in ("pyproject.toml", ".gitattributes", ".git_archival.txt"):
        shutil.copy(PROJECT / name, clone / name)
        shutil.copy(PROJECT / name, copy / name)
    git(clone, "init", "-q")
    git(clone, "add", "-A")
    git(clone, "commit", "-q", "-m", "one")
    assert re.fullmatch(r"0\.1\.0\.dev1\+g[0-9a-f]+", version(clone))
    assert version(copy) == "0.1.0.dev0"
    git(clone, "tag", "v1.2.3")
    assert version(clone) == "1.2.3"
    git(clone, "archive", "-o", str(tmp_path / "a.tar"), "HEAD")
    shutil.unpack_archive(tmp_path / "a.tar", archive)
    assert version(archive) == "1.2.3"
    git(clone, "commit", "-q", "--allow-empty", "-m", "two")
    assert re.fullmatch(r"1\.2\.4\.dev1\+g[0-9a-f]+", version(clone))
    git(clone, "tag", "v2.0.0-rc.1")
    assert version(clone) == "2.0.0rc1"


@pytest.mark.parametrize("path", sorted((PROJECT / ".github" / "workflows").glob("*.yml")), ids=lambda path: path.stem)
def test_workflows_call_targets_that_exist(path: Path) -> None:
    makefile = (PROJECT / "Makefile").read_text()
    steps = [step for job in yaml.safe_load(path.read_text())["jobs"].values() for step in job.get("steps", [])]
    commands = [line.split()[1] for step in steps for line in step.get("run", "").split("&&") if "make " in line]
    assert commands or path.stem == "none"
    assert [target for target in commands if f"\n{target}:" not in makefile] == []


def test_the_compiler_of_wheels_drops_paths_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    became: list[str] = []
    zigcc = runpy.run_path(str(PROJECT / "packaging" / "zigcc.py"))
    monkeypatch.setattr("os.execv", lambda _, arguments: became.extend(arguments))
    zigcc["main"](
        [
            "-target",
            "t",
            "-L/opt/python/lib",
            "-Wl,-rpath,/opt/python/lib",
            "-Wl,-Bsymbolic-functions",
            "-Wl,-z,now",
            "a.o",
        ]
    )
    assert became[1:] == ["-m", "ziglang", "cc", "-target", "t", "-Wl,-z,now", "a.o", "-idirafter", "/usr/include"]
