"""Links between pages of documentation lead to files that exist, and every decision record is listed."""

import re
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[1]
DECISIONS = PROJECT / "docs" / "decisions"
PAGES = [
    PROJECT / "README.md",
    *sorted((PROJECT / "docs").rglob("*.md")),
    *sorted((PROJECT / "examples").rglob("*.md")),
]


def links(page: Path) -> list[str]:
    """The targets of a page's links to other files, without anchors."""
    found = re.findall(r"\]\(([^)#\s]+)", page.read_text())
    return [target for target in found if not re.match(r"[a-z]+:", target)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(PROJECT)))
def test_links_lead_to_files(page: Path) -> None:
    missing = [target for target in links(page) if not (page.parent / target).exists()]
    assert missing == []


def test_every_decision_is_listed() -> None:
    records = sorted(path.name for path in DECISIONS.glob("0*.md"))
    assert records
    assert [target for target in links(DECISIONS / "README.md") if target != "README.md"] == records


@pytest.mark.parametrize("record", sorted(DECISIONS.glob("0*.md")), ids=lambda record: record.stem)
def test_records_have_the_same_headings(record: Path) -> None:
    headings = re.findall(r"^## (.*)$", record.read_text(), re.MULTILINE)
    assert headings == ["Context", "Decision", "Consequences", "What would change it"]


def test_the_package_map_has_every_package() -> None:
    text = (PROJECT / "docs" / "architecture.md").read_text()
    table = text.partition("\n## Package map\n")[2].partition("\n## ")[0]
    packages = {path.parent.relative_to(PROJECT) for path in (PROJECT / "gocore").rglob("doc.go")}
    named = {name.strip("/") for name in re.findall(r"`([\w/]+)`", table)}
    missing = [str(package) for package in packages if not any(str(package).endswith(name) for name in named)]
    assert sorted(missing) == []
