"""What `make bench-corners WRITE=...` does to Markdown files, with made-up figures."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]
PAGE = """# A page

<!-- measured: corners -->
| workload | simulation | memory |
|---|---|---|
| gone | 1x | 1x |
| second | 2x | 2x |
| third |  | 3x |
<!-- end of measured -->
| workload | elsewhere |
"""


@pytest.fixture
def tables() -> ModuleType:
    spec = importlib.util.spec_from_file_location("tables", ROOT / "benchmarks" / "tables.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_rows_that_were_not_measured_stay(tables: ModuleType, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    measured = {"second": ("20x", "21x"), "first": ("10x", "11x")}
    table = tables.Table(("workload", "simulation", "memory"), ["first", "second", "third", "never"], measured)
    assert tables.write(page, "corners", [table])
    assert page.read_text() == PAGE.replace("| gone | 1x | 1x |", "| first | 10x | 11x |").replace(
        "2x | 2x", "20x | 21x"
    ).replace("third |  |", "third | |")


def test_tables_of_one_place_are_told_apart(tables: ModuleType, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- measured: scaling -->\n<!-- end of measured -->\n")
    one = tables.Table(("workers", "us"), ["1", "8"], {"1": ("2.0",), "8": ("2.5",)})
    other = tables.Table(("requests", "us"), ["1"], {"1": ("7.0",)})
    assert tables.write(page, "scaling", [one, other])
    assert tables.write(page, "scaling", [one._replace(rows={}), other._replace(rows={"1": ("9.0",)})])
    assert page.read_text() == (
        "<!-- measured: scaling -->\n| workers | us |\n|---|---|\n| 1 | 2.0 |\n| 8 | 2.5 |\n\n"
        "| requests | us |\n|---|---|\n| 1 | 9.0 |\n<!-- end of measured -->\n"
    )


def test_a_page_without_the_markers_is_left_alone(tables: ModuleType, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    assert not tables.write(page, "scaling", [])
    assert page.read_text() == PAGE


@pytest.mark.parametrize(
    ("page", "names"), [("README.md", ["workloads"]), ("docs/performance.md", ["workloads", "corners", "scaling"])]
)
def test_the_pages_have_places_for_figures(page: str, names: list[str]) -> None:
    text = (ROOT / page).read_text()
    for name in names:
        assert text.count(f"<!-- measured: {name} -->\n") == 1
    assert text.count("<!-- end of measured -->") == len(names)


def test_cells_that_were_not_measured_stay(tables: ModuleType, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    rows = {"second": (None, "21x", "9x"), "third": ("5x", None, None)}
    table = tables.Table(("workload", "simulation", "memory", "newest"), ["second", "third"], rows)
    assert tables.write(page, "corners", [table])
    assert "| second | 2x | 21x | 9x |\n| third | 5x | 3x | |\n" in page.read_text()
