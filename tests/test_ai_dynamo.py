"""dynosim and ai-dynamo in one environment: one clear error, whichever was installed last.

ai-dynamo itself is too large to install in a test. Wheels of its two names stand in for it, with files at the places
where the real ones have theirs.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from importlib.metadata import distribution
from pathlib import Path

import pytest

# What the stand-ins do at import is what the real packages do: they load the extension module of the runtime.
RUNTIME = "from dynamo._core import Something\n"
AI_DYNAMO = {f"dynamo/{name}/__init__.py": RUNTIME for name in ("replay", "mocker")} | {
    f"dynamo/{name}/__main__.py": "import dynamo.replay.main\n" for name in ("replay", "mocker")
}
AI_DYNAMO_RUNTIME = {"dynamo/_core.abi3.so": "no ELF file", "dynamo/llm/__init__.py": RUNTIME}
CLASH = re.compile(
    r"dynosim and ai-dynamo(-runtime)? 1\.3\.1 are installed in one environment \(.+\): .*pip uninstall ai-dynamo"
)


def write_wheel(folder: Path, name: str, version: str, files: dict[str, str | Path]) -> Path:
    path = folder / f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    metadata = {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    with zipfile.ZipFile(path, "w") as wheel:
        for inside, content in (files | metadata).items():
            if isinstance(content, Path):
                wheel.write(content, inside)
            else:
                wheel.writestr(inside, content)
        names = [*wheel.namelist(), f"{info}/RECORD"]
        wheel.writestr(f"{info}/RECORD", "".join(f"{inside},,\n" for inside in names))
    return path


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """The package under test, from the files that are installed of it, and the stand-ins."""
    folder = tmp_path_factory.mktemp("wheels")
    installed = distribution("dynosim")
    ours: dict[str, str | Path] = {
        str(file): Path(str(file.locate()))
        for file in installed.files or ()
        if file.parts[0] == "dynamo" and "__pycache__" not in file.parts
    }
    assert "dynamo/_core/__init__.py" in ours
    return {
        "dynosim": [str(write_wheel(folder, "dynosim", installed.version, ours))],
        "ai-dynamo": [
            str(write_wheel(folder, "ai_dynamo", "1.3.1", dict(AI_DYNAMO))),
            str(write_wheel(folder, "ai_dynamo_runtime", "1.3.1", dict(AI_DYNAMO_RUNTIME))),
        ],
    }


class Environment:
    """A virtual environment to throw away."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True, timeout=300)

    def pip(self, command: str, *arguments: str) -> None:
        pip = [sys.executable, "-m", "pip", "--python", str(self.folder), command, "--quiet"]
        subprocess.run([*pip, "--disable-pip-version-check", *arguments], check=True, timeout=300)

    def install(self, wheels: list[str]) -> None:
        self.pip("install", "--no-deps", "--no-index", "--no-compile", *wheels)

    def python(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        run = [str(self.folder / "bin/python"), *arguments]
        return subprocess.run(run, cwd=self.folder, env=clean, capture_output=True, text=True, timeout=300)


IMPORTS = ["dynamo.replay", "dynamo.mocker", "dynamo.llm"]


@pytest.mark.parametrize("order", [("dynosim", "ai-dynamo"), ("ai-dynamo", "dynosim")], ids=" then ".join)
def test_both_orders(tmp_path: Path, wheels: dict[str, list[str]], order: tuple[str, str]) -> None:
    environment = Environment(tmp_path / "venv")
    for name in order:
        environment.install(wheels[name])
    for module in IMPORTS:
        done = environment.python("-c", f"import {module}")
        assert done.returncode == 1
        last = done.stderr.splitlines()[-1]
        assert last.startswith("ImportError: ")
        assert CLASH.search(last), done.stderr
    for module in ("dynamo.replay", "dynamo.mocker"):
        done = environment.python("-m", module, "--version")
        assert (done.returncode, done.stdout) == (1, "")
        assert len(CLASH.findall(done.stderr)) == 1, done.stderr
        assert done.stderr.count("\n") == 1 or order[1] == "ai-dynamo"  # whose own command does not catch it

    environment.pip("uninstall", "--yes", "ai-dynamo", "ai-dynamo-runtime", "dynosim")
    environment.install(wheels["dynosim"])
    for module in IMPORTS:
        done = environment.python("-c", f"import {module}")
        assert (done.returncode, done.stderr) == (0, "")


def test_one_of_them_in_another_folder(tmp_path: Path, wheels: dict[str, list[str]]) -> None:
    """The folders of one package are searched together, so they clash as well."""
    environment = Environment(tmp_path / "venv")
    environment.install(wheels["dynosim"])
    with zipfile.ZipFile(wheels["ai-dynamo"][0]) as wheel:
        wheel.extractall(tmp_path / "elsewhere")
    look = f"import sys; sys.path.append({str(tmp_path / 'elsewhere')!r}); import dynamo.mocker"
    assert CLASH.search(environment.python("-c", look).stderr.splitlines()[-1])


def test_other_packages_are_welcome(tmp_path: Path, wheels: dict[str, list[str]]) -> None:
    environment = Environment(tmp_path / "venv")
    environment.install(wheels["dynosim"])
    other = {"dynamo/planner/__init__.py": "import dynamo.mocker\n"}
    environment.install([str(write_wheel(tmp_path, "ai_dynamo_tools", "2", dict(other)))])
    assert environment.python("-c", "import dynamo.planner").returncode == 0


def test_the_check_costs_no_import(folder: Path) -> None:
    """importlib.metadata alone would take many times longer than the rest."""
    look = "import os, sys; before = set(sys.modules); import dynamo._alone; print(*set(sys.modules) - before)"
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, timeout=300)
    assert sorted(done.stdout.split()) == ["dynamo", "dynamo._alone"]
