"""examples/notebooks: all cells run as written, and what is kept of their outputs is small."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

PROJECT = Path(__file__).parent.parent
NOTEBOOKS = sorted((PROJECT / "examples/notebooks").glob("*.ipynb"))
_MOST_BYTES = 100_000


def clone(folder: Path) -> Path:
    """A folder with the examples of a clone, into which notebooks may write."""
    notebooks = folder / "examples" / "notebooks"
    notebooks.mkdir(parents=True)
    for other in (PROJECT / "examples").iterdir():
        if other.name != "notebooks":
            (folder / "examples" / other.name).symlink_to(other)
    return notebooks


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_runs(folder: Path, notebook: Path) -> None:
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    clone(folder)
    found = nbformat.read(notebook, as_version=4)
    resources = {"metadata": {"path": str(folder)}}
    nbclient.NotebookClient(found, timeout=600, kernel_name="python3", resources=resources).execute()
    errors = [output for cell in found.cells for output in cell.get("outputs", []) if output.output_type == "error"]
    assert errors == []


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_finds_its_files_from_its_own_folder(folder: Path, monkeypatch: pytest.MonkeyPatch, notebook: Path) -> None:
    """JupyterLab starts kernels there. The cell before the first replay is all that depends on it."""
    monkeypatch.chdir(clone(folder))
    cells = [cell["source"] for cell in json.loads(notebook.read_text())["cells"] if cell["cell_type"] == "code"]
    begin = cells[0].split("\n\n")
    place = next(number for number, lines in enumerate(begin) if "os.chdir(" in lines)
    exec("\n\n".join(begin[: place + 1]), {})
    assert Path.cwd() == folder.resolve()
    assert Path("examples/traces/conversation_400.jsonl.gz").is_file()


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_shows_its_outputs(notebook: Path) -> None:
    text = notebook.read_text()
    assert len(text.encode()) < _MOST_BYTES
    code = [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]
    assert all(cell["outputs"] for cell in code)
