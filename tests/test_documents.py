"""Every command of README and of the pages under docs/ is run, but for those that a page itself excuses."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import re
import shlex
from pathlib import Path
from typing import get_args

import documents
import pytest
import yaml
from documents import PROJECT, Block
from test_aic import fake

from dynamo import sweep
from dynamo.replay import api

__all__ = ["fake"]

PAGES = documents.pages()
BLOCKS = [block for page in PAGES for block in documents.blocks(page)]
MAKEFILE = (PROJECT / "Makefile").read_text()
# What begins a line of commands.
PROGRAM = re.compile(
    r"^(?:python3? |dynosim [a-z]|(?:make|go|pip|curl|docker|kubectl|npm|export|for|until) |\$ )", re.MULTILINE
)
OUTPUT = re.compile(
    r" (?:-o|--output-file|--html|--timeline|--timeseries|--save-trace|--report-jsonl?|--\w+-log) (\S+)"
)
WITH_COMMANDS = sorted({block.page for block in BLOCKS if block.language in documents.RUN})


@pytest.mark.parametrize("page", WITH_COMMANDS)
def test_page(page: str, folder: Path, fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The blocks of a page, pasted in order: none fails or prints something else than it says."""
    monkeypatch.delenv("PYTHONPATH")  # of the made-up SDK, for blocks about it
    printed = documents.Printed("", "")
    with documents.terminal(folder, None if importlib.util.find_spec("aiconfigurator") else fake) as terminal:
        for block in documents.blocks(page):
            if block.language in documents.DATA:
                (folder / (block.title or f"trace.{block.language}")).write_text(block.text)
            elif block.language == "text":
                assert documents.prints(block.text, printed), (block.place, *printed)
            elif block.language in documents.RUN and not block.excuse:
                printed = terminal.paste(block)
                check(block, printed)
                if not block.predicts:  # the SDK's releases have data for different engines, of which runs warn
                    assert ("arning:" in printed.err) == ("# warns" in block.text), (block.place, printed.err)
    AFTER.get(page, lambda: None)()


# Sweeps that the page does not run: three need an SDK (test_sweep_docs.py, test_aic.py), one is large, one elsewhere.
NOT_SWEPT = {"h200", "disaggregation", "azure_h100", "routers", "shared_store"}


def after_sweeps() -> None:
    """Points of the examples keep their bounds or say that they do not; the page of one shows what was measured."""
    for example in (PROJECT / "examples" / "sweeps").glob("*.yaml"):
        (line,) = re.findall(r"^#     (python .*)$", example.read_text(), re.MULTILINE)
        if example.stem not in NOT_SWEPT:
            assert {point["status"] for point in sweep.load(line.split()[-1])} <= {"ok", "infeasible"}
    page = Path("build/grid/report.html").read_text()
    assert all(f'"label":"{label}"' in page for label in ("production", "old router", "trial on other hosts"))
    assert page.count('"point":null') == 1


AFTER = {"docs/sweeps.md": after_sweeps}


def check(block: Block, printed: documents.Printed) -> None:
    """What holds for any block that was run."""
    assert "Traceback" not in printed.err, (block.place, printed.err)
    missing = [path for path in OUTPUT.findall(block.text) if block.language == "sh" and not Path(path).exists()]
    assert missing == [], block.place


@pytest.mark.parametrize(
    ("language", "text"),
    [("sh", "false\necho later"), ("sh", "echo 'Traceback' >&2"), ("sh", "echo -o none.txt"), ("python", "1 / 0")],
)
def test_a_block_that_fails(folder: Path, language: str, text: str) -> None:
    block = Block("page.md", 7, language, "", f"{text}\n", "")
    with pytest.raises(AssertionError, match=block.place), documents.terminal(folder) as terminal:
        check(block, terminal.paste(block))


@pytest.mark.parametrize(("quoted", "same"), [("a ... c\nd", True), ("a b c", False), ("d", True), ("c ... a", False)])
def test_quotations(quoted: str, same: bool) -> None:
    assert documents.prints(quoted, documents.Printed("a b b c\nd\n", "")) is same


def test_servers_are_asked(folder: Path) -> None:
    """A server without ``&`` runs until the next one, at another port than the page says."""
    block = Block("page.md", 1, "sh", "", "python -m dynamo.mocker --standalone --http-port 8000\n", "")
    with documents.terminal(folder) as terminal:
        terminal.paste(block)
        asked = Block("page.md", 4, "sh", "", "curl -s http://127.0.0.1:8000/v1/models\n", "")
        assert "builtin:bytes" in terminal.paste(asked).out
        terminal.paste(block)
    other = folder / "other"
    other.mkdir()
    with pytest.raises(AssertionError, match=block.place), documents.terminal(other) as terminal:
        terminal.paste(block._replace(text="python -m dynamo.mocker --standalone --model-path none\n"))


def test_blocks_are_found() -> None:
    """So that a change of layout loses no block."""
    for page in PAGES:
        fences = re.findall("^ *```", (PROJECT / page).read_text(), re.MULTILINE)
        assert len(fences) == 2 * len(documents.blocks(page)), page
    assert sum(block.language in documents.RUN and not block.excuse for block in BLOCKS) > 80


def test_every_block_has_a_language() -> None:
    """``sh`` for commands and ``text`` for what they print: a block without one is a drawing."""
    known = {"", "text", "go", "toml", *documents.RUN, *documents.DATA}
    for block in BLOCKS:
        assert block.language in known, block.place
        if block.language not in documents.RUN:
            assert not PROGRAM.search(block.text), f"{block.place}: commands need the language sh"
            assert not block.excuse, block.place


def test_data_can_be_read() -> None:
    for block in BLOCKS:
        if block.language in ("json", "jsonl"):
            for text in block.text.splitlines() if block.language == "jsonl" else [block.text]:
                json.loads(text)
        elif block.language == "yaml":
            assert yaml.safe_load(block.text), block.place


def test_what_is_not_run(capsys: pytest.CaptureFixture[str]) -> None:
    """The list of it is short, says why, and names only options, targets and files that exist."""
    excused = [block for block in BLOCKS if block.excuse]
    with capsys.disabled():
        print("\nBlocks of the documentation that no test runs:")
        for block in excused:
            print(f"  {block.place}: {block.excuse}")
    assert len(excused) <= 19
    for block in excused:
        for line in re.sub(r"\\\n", " ", block.text).splitlines():
            exists(line, block.place)


def test_commands_in_sentences() -> None:
    for page in PAGES:
        for command in re.findall(r"`((?:python|make) [^`]*)`", (PROJECT / page).read_text()):
            exists(command, page)


def exists(command: str, place: str) -> None:
    """Checks what a command names: options of our programs, targets and variables of make, files of the repository."""
    words = shlex.split(command, comments=True)
    for word in words:
        path = re.sub(r":\w+$", "", word.removeprefix("./").removesuffix("/..."))  # without the class of a router
        if re.match(r"(?:\./)?(?:examples|tests|benchmarks|packaging|gocore|cmd)/", word):
            assert (PROJECT / path).exists(), f"{place}: {word}"
    if words[:1] == ["make"]:
        for word in words[1:]:
            name, is_variable, _ = word.partition("=")
            wanted = rf"\({name}\)" if is_variable else rf"^{re.escape(name)}:"
            assert re.search(wanted, MAKEFILE, re.MULTILINE), f"{place}: make {word}"
    if words[:2] == ["python", "-m"] and words[2].startswith("dynamo.") and words[2] != "dynamo.frontend":
        options_exist(words[2], words[3:], place)


def options_exist(module: str, words: list[str], place: str) -> None:
    """That the program knows the options; a command that has them all could be run."""
    found = importlib.util.find_spec(module)
    assert found is not None, f"{place}: {module}"
    main = importlib.import_module(f"{module}.main" if found.submodule_search_locations else module)
    known = options(main._parser())
    for option in (word.partition("=")[0] for word in words if word.startswith("-")):
        assert option in known, f"{place}: {module} {option}"


def options(parser: argparse.ArgumentParser) -> set[str]:
    """The options of a program and of its commands."""
    found = set()
    for action in parser._actions:
        found.update(action.option_strings)
        if isinstance(action, argparse._SubParsersAction):
            found.update(*map(options, action.choices.values()))
    return found


def test_the_readme_is_short() -> None:
    assert len((PROJECT / "README.md").read_text().splitlines()) < 130


def test_all_formats_have_an_example() -> None:
    page = (PROJECT / "docs" / "workloads.md").read_text()
    headings = re.findall(r"^## (\S+)$", page, re.MULTILINE)
    others = {"vidur", "mooncake_delta", "agentic-mooncake"}  # other names of formats
    assert sorted([*headings, *others]) == sorted(get_args(api.TraceFormat))


def test_every_topic_of_python_has_an_example() -> None:
    sections = (PROJECT / "docs" / "python.md").read_text().split("\n## ")
    assert len(sections) > 5
    assert [section.splitlines()[0] for section in sections if "```python" not in section] == []
