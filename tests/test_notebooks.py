"""examples/notebooks: all cells run as written, and what is kept of their outputs is small."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

PROJECT = Path(__file__).parent.parent
NOTEBOOKS = sorted((PROJECT / "examples/notebooks").glob("*.ipynb"))
_MOST_BYTES = 100_000


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_runs(folder: Path, notebook: Path) -> None:
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    (folder / "examples").symlink_to(PROJECT / "examples")
    found = nbformat.read(notebook, as_version=4)
    resources = {"metadata": {"path": str(folder)}}
    nbclient.NotebookClient(found, timeout=600, kernel_name="python3", resources=resources).execute()
    errors = [output for cell in found.cells for output in cell.get("outputs", []) if output.output_type == "error"]
    assert errors == []


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_shows_its_outputs(notebook: Path) -> None:
    text = notebook.read_text()
    assert len(text.encode()) < _MOST_BYTES
    code = [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]
    assert all(cell["outputs"] for cell in code)
