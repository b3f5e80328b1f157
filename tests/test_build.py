"""What a build needs, what it says when that is missing, and what the source distribution holds."""

from __future__ import annotations

import re
import runpy
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zlib
from pathlib import Path
from typing import Any

import pytest
import setuptools

import dynamo

ROOT = Path(__file__).parents[1]


@pytest.fixture
def build(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The names in setup.py, loaded without building anything."""
    monkeypatch.setattr(setuptools, "setup", lambda **_: None)
    return runpy.run_path(str(ROOT / "setup.py"))


@pytest.mark.parametrize(
    ("parts", "modules"), [(None, ["_core", "_live"]), ("replay", ["_core"]), ("live,replay", ["_live", "_core"])]
)
def test_parts(build: dict[str, Any], monkeypatch: pytest.MonkeyPatch, parts: str | None, modules: list[str]) -> None:
    if parts is not None:
        monkeypatch.setenv("DYNOSIM_PARTS", parts)
    assert [extension.name for extension in build["extensions"]()] == [f"dynamo._core.{name}" for name in modules]


def test_an_unknown_part(build: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DYNOSIM_PARTS", "replay,router")
    with pytest.raises(SystemExit, match=r"^error: DYNOSIM_PARTS: got 'router', want replay or live"):
        build["extensions"]()


def test_linker_flags_of_python_are_let_through(build: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    assert re.fullmatch(build["build_environment"]()["CGO_LDFLAGS_ALLOW"], "-fwrapv")
    monkeypatch.setenv("CGO_LDFLAGS_ALLOW", "-O2")
    assert build["build_environment"]()["CGO_LDFLAGS_ALLOW"] == "-O2"


def test_an_editable_installation_leaves_the_sources_as_they_are(build: dict[str, Any], tmp_path: Path) -> None:
    """It has no copy of version.py to write to."""
    command = build["VersionedModules"](setuptools.Distribution())
    command.ensure_finalized()
    command.build_lib, command.editable_mode = str(tmp_path), True
    command.run()
    assert list(tmp_path.iterdir()) == []


def test_tools_are_built_for_this_machine(build: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOARCH", "arm64")
    monkeypatch.setenv("CC", "cross-gcc")
    assert build["build_environment"]()["GOARCH"] == "arm64"
    assert not build["tools_environment"]().keys() & {"GOARCH", "CC"}


def test_a_wheel_is_small() -> None:
    """What is installed, compressed as in a wheel, has no more than 13 MB."""
    found: dict[Path, Path] = {}  # of several folders, the first counts
    for folder in dynamo.__path__:
        for path in Path(folder).rglob("*"):
            if path.is_file():
                found.setdefault(path.relative_to(folder), path)
    files = found.values()
    extensions = {path.name.partition(".")[0] for path in files if path.suffix == ".so"}
    if extensions < {"_core", "_live"}:
        pytest.skip("needs both extensions")
    size = sum(len(zlib.compress(path.read_bytes())) for path in files if path.suffix != ".pyc")
    assert 1e6 < size <= 13e6


@pytest.mark.parametrize("package", ["./bindings", "./bindings/live"])
def test_the_linker_can_drop_methods(build: dict[str, Any], package: str) -> None:
    """Templates call methods by name: with them in an extension all methods stay, and it is a third larger."""
    listed = subprocess.run(
        ["go", "list", "-deps", package],
        cwd=ROOT, env=build["build_environment"](), check=True, capture_output=True, text=True,
    )  # fmt: skip
    packages = listed.stdout.split()
    assert len(packages) > 100
    assert [name for name in packages if name in ("text/template", "html/template")] == []


def program(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def message(build: dict[str, Any], check: str) -> str:
    with pytest.raises(build["MissingTool"]) as caught:
        build[check]()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_nothing_is_missing_here(build: dict[str, Any]) -> None:
    for check in ("check_go", "check_c_compiler", "check_python_headers"):
        build[check]()


def test_no_go(build: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "`go` was not found on PATH" in message(build, "check_go")


@pytest.mark.parametrize(
    ("does", "said"),
    [
        ("echo go1.20.3", "newer is needed to build dynosim: found go1.20.3"),
        ("echo broken >&2; exit 1", "failed: broken"),
    ],
)
def test_an_unusable_go(
    build: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, does: str, said: str
) -> None:
    program(tmp_path, "go", does)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert said in message(build, "check_go")


@pytest.mark.parametrize(
    ("does", "said"),
    [
        (None, "was not found on PATH"),
        (
            "echo 'try.c:1:10: fatal error: stdlib.h: No such file' >&2; exit 1",
            "cannot build a program: try.c:1:10: fatal",
        ),
        ("exit 3", "cannot build a program: exit code 3"),
    ],
)
def test_an_unusable_compiler(
    build: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, does: str | None, said: str
) -> None:
    compiler = str(tmp_path / "nowhere") if does is None else program(tmp_path, "cc", does)
    monkeypatch.setenv("CC", compiler)
    assert said in message(build, "check_c_compiler")


def test_no_headers(build: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sysconfig, "get_path", lambda _: str(tmp_path))
    said = message(build, "check_python_headers")
    assert "Python.h: No such file" in said
    (tmp_path / "Python.h").write_text("#error unusable")
    assert "unusable" in message(build, "check_python_headers")


def stamp_here() -> str:
    """What make writes into an environment of this interpreter."""
    (listed,) = re.findall(r"^requires = \[(.*)\]$", (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    interpreter = " ".join(map(str, (sys.implementation.name, *sys.version_info[:3])))
    return f"{interpreter} {listed.translate(str.maketrans('', '', ',' + chr(34)))}"


@pytest.mark.skipif(shutil.which("make") is None, reason="no make")
def test_the_demo_builds_no_live_workers(tmp_path: Path) -> None:
    """Unless everything has been built: then it is kept up to date."""
    make = ["make", "--dry-run", f"VENV={tmp_path}", f"PYTHON={sys.executable}", "demo"]
    first = subprocess.run(make, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    (tmp_path / ".environment").write_text(stamp_here())
    (tmp_path / ".installed").touch()
    again = subprocess.run(make, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    assert "DYNOSIM_PARTS=replay" in first
    assert "pip install" not in again


def embedded() -> list[str]:
    """Files that Go sources take in."""
    found = []
    for source in (ROOT / "gocore").rglob("*.go"):
        for name in re.findall(r"^//go:embed (\S+)$", source.read_text(), re.MULTILINE):
            found.append(str((source.parent / name).relative_to(ROOT)))
    assert found
    return found


def test_the_source_distribution_holds_what_a_build_needs(tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    skipped = shutil.ignore_patterns(".*", "_gopy", "build", "*.egg-info", "*.jsonl.gz", "__pycache__")
    shutil.copytree(ROOT, copy, ignore=skipped)
    pack = f"from setuptools.build_meta import build_sdist; build_sdist({str(tmp_path)!r})"
    subprocess.run([sys.executable, "-c", pack], cwd=copy, check=True, capture_output=True)
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        names = {name.partition("/")[2] for name in packed.getnames()}
    wanted = {
        "go.mod",
        "setup.py",
        "bindings/core.go",
        "python/dynamo/_core/engine_args_generated.json",
        "tests/requirements.txt",
        *embedded(),
        *(str(path.relative_to(ROOT)) for path in (ROOT / "python").glob("*-requirements.txt")),
    }
    assert wanted <= names
    assert {name for name in names if name.startswith("tests/")} == {"tests/requirements.txt"}
    unwanted = ("_test.go", "Makefile", "benchmarks", "examples", "testdata")
    assert not [name for name in names if name.endswith(unwanted)]


@pytest.mark.skipif(shutil.which("make") is None, reason="no make")
@pytest.mark.parametrize("stamp", [None, "cpython 3 1 0"])
def test_an_environment_that_is_broken_or_foreign_is_made_anew(tmp_path: Path, stamp: str | None) -> None:
    make = ["make", "--dry-run", f"VENV={tmp_path}", f"PYTHON={sys.executable}", "build"]

    def commands() -> str:
        return subprocess.run(make, cwd=ROOT, check=True, capture_output=True, text=True).stdout

    if stamp is not None:
        (tmp_path / ".environment").write_text(stamp)
    (tmp_path / ".installed").touch()
    assert "venv --clear" in commands()
    (tmp_path / ".environment").write_text(stamp_here())
    (tmp_path / ".installed").touch()
    assert "venv" not in commands().replace(str(tmp_path), "")
