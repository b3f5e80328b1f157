"""docs/python.md: its examples are run in order, as one session."""

from __future__ import annotations

import re
from pathlib import Path

from conftest import script

PROJECT = Path(__file__).parent.parent
TEXT = (PROJECT / "docs" / "python.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


def test_the_examples_run(folder: Path) -> None:
    (folder / "examples").symlink_to(PROJECT / "examples")
    done = script("\n\n".join(BLOCKS), cwd=folder)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "reporting: 1000 of 1000 requests" in done.stdout
    assert "dyn://dynamo.backend.generate 256 [8998, 8999]" in done.stdout
    assert {path.name for path in (folder / "build").iterdir()} == {
        "measured.json", "requests.csv", "requests.parquet",
    }  # fmt: skip


def test_every_topic_has_an_example() -> None:
    sections = TEXT.split("\n## ")
    assert len(sections) > 5
    assert [section.splitlines()[0] for section in sections if "```python" not in section] == []
