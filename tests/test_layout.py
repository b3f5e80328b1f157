"""Which Python modules import which: the arrows go one way."""

from __future__ import annotations

import ast
from graphlib import TopologicalSorter
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "python" / "dynamo"


def name_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def imports(path: Path, *, anywhere: bool) -> set[str]:
    """The modules of the package that a module imports: when it is loaded, or also later and for type checkers."""
    tree = ast.parse(path.read_text())
    nodes = ast.walk(tree) if anywhere else tree.body
    found = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            submodules = {f"{node.module}.{alias.name}" for alias in node.names} & MODULES.keys()
            found |= submodules or {node.module}
    return (found & MODULES.keys()) - {name_of(path)}


def test_no_import_circle() -> None:
    order = TopologicalSorter({name: imports(path, anywhere=True) for name, path in MODULES.items()})
    assert set(order.static_order()) == MODULES.keys()  # a circle raises CycleError


def test_the_arrows_between_packages() -> None:
    arrows = {
        (name.split(".")[1], imported.split(".")[1])
        for name, path in MODULES.items()
        for imported in imports(path, anywhere=True)
        if name.count(".") and name.split(".")[1] != imported.split(".")[1]
    }
    assert ("replay", "mocker") not in arrows
    assert not arrows & {("_shell", "replay"), ("_shell", "mocker"), ("_core", "_shell"), ("_core", "replay")}


def test_the_workers_need_no_replay() -> None:
    """Only the function that runs replays does, which is loaded at its first use."""
    users = [
        name
        for name, path in MODULES.items()
        if name.startswith("dynamo.mocker")
        and any(imported.startswith("dynamo.replay") for imported in imports(path, anywhere=True))
    ]
    assert users == ["dynamo.mocker"]
    at_once = imports(MODULES["dynamo.mocker"], anywhere=False)
    assert not any(imported.startswith("dynamo.replay") for imported in at_once)
