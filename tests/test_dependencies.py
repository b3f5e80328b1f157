"""docs/dependencies.md names every dependency, and docs/reference/environment.md every environment variable."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[1]
TEXT = (PROJECT / "docs" / "dependencies.md").read_text()
VARIABLES = (PROJECT / "docs" / "reference" / "environment.md").read_text()


def direct_modules() -> list[str]:
    """The Go modules that this one requires itself, and those of its tools."""
    text = (PROJECT / "go.mod").read_text()
    required = [line.split()[0] for line in re.findall(r"^\t(\S+ v\S+)$", text, re.MULTILINE)]
    assert len(required) > 10
    return required


def requirements() -> list[tuple[str, str]]:
    """Packages of pyproject.toml and of its extras, with the name of the file."""
    project = (PROJECT / "pyproject.toml").read_text()
    (listed,) = re.findall(r"^dependencies = \[(.*)\]$", project, re.MULTILINE)
    found = [("pyproject.toml", name) for name in re.findall(r'"([\w-]+)', listed)]
    for path in [*(PROJECT / "python").glob("*-requirements.txt"), PROJECT / "docs/site/requirements.txt"]:
        names = re.findall(r"^([A-Za-z][\w-]*)", path.read_text(), re.MULTILINE)
        found += [(path.name, name) for name in names]
    return found


@pytest.mark.parametrize("module", direct_modules())
def test_go_modules_are_named(module: str) -> None:
    assert f"`{module}`" in TEXT


@pytest.mark.parametrize(("file", "package"), requirements())
def test_python_packages_are_named(file: str, package: str) -> None:
    assert f"`{package}`" in TEXT


def test_extras_are_named() -> None:
    project = (PROJECT / "pyproject.toml").read_text()
    table = project.partition("[tool.setuptools.dynamic.optional-dependencies]\n")[2].partition("\n\n")[0]
    extras = re.findall(r"^(\w+) = ", table, re.MULTILINE)
    assert [extra for extra in extras if f"| `{extra}` |" not in TEXT] == []


def test_environment_variables_are_named() -> None:
    known = r'"((?:DYN|DYNOSIM|DYNAMO|ETCD|NATS|HF|POD|KUBE|CONTAINER|CUDA|NVIDIA)_[A-Z_]*[A-Z]|KUBECONFIG)"'
    sources = [path for path in (PROJECT / "gocore").rglob("*.go") if not path.name.endswith("_test.go")]
    sources += (PROJECT / "python").rglob("*.py")
    used = {name for path in sources for name in re.findall(known, path.read_text())}
    assert len(used) > 30
    assert sorted(name for name in used if f"`{name}`" not in VARIABLES) == []
