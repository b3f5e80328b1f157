"""What a release needs: a tag, a version and a changelog that agree; what wheels are built with."""

from __future__ import annotations

import runpy
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


@pytest.mark.parametrize(
    ("tag", "version", "said"),
    [
        ("v1.2.3", "1.2.3", ""),
        ("1.2.3", "1.2.3", "want v and a version"),
        ("v1.2", "1.2", "want v and a version"),
        ("v01.2.3", "01.2.3", "want v and a version"),
        ("v1.2.4", "1.2.3", "want v1.2.3, the version in"),
        ("v1.2.2", "1.2.2", "## 1.2.2 - YYYY-MM-DD"),
        ("v1.2.3-rc.1", "1.2.3-rc.1", "CHANGELOG.md: want"),
    ],
)
def test_what_has_to_agree(release: dict[str, Any], tag: str, version: str, said: str) -> None:
    fault = release["fault"](tag, version, CHANGELOG)
    assert said in fault
    assert bool(said) == bool(fault)


def test_the_version_is_in_one_place_and_in_the_citation(release: dict[str, Any]) -> None:
    assert f"\nversion: {release['version']()}\n" in (PROJECT / "CITATION.cff").read_text()
    done = subprocess.run([sys.executable, "packaging/release.py", "v0"], cwd=PROJECT, capture_output=True, text=True)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)


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
    zigcc["main"](["-target", "t", "-L/opt/python/lib", "-Wl,-rpath,/opt/python/lib", "-Wl,-z,now", "a.o"])
    assert became[1:] == ["-m", "ziglang", "cc", "-target", "t", "-Wl,-z,now", "a.o"]
