"""Several files of one command: all of them, or none."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from conftest import command
from test_validate_sources import DETAILS, SERVING, write

from dynamo.replay import files, run_synthetic_trace_replay

RUN = ["--input-tokens", "200", "--output-tokens", "3", "--request-count", "20", "--num-workers", "2"]
BIGGEST = 40
"""KiB that a file may have below: less than a page needs, more than the others. It stands for a full disk."""


def with_small_files(*arguments: str, module: str = "dynamo.replay", most: int = BIGGEST) -> Any:
    words = ["bash", "-c", f'ulimit -f {most}; exec "$@"', "bash", *command(*arguments, module=module)]
    return subprocess.run(words, capture_output=True, text=True, timeout=300)


def found(folder: Path) -> list[str]:
    """All files and folders in a folder, hidden ones, too."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def failed(done: Any, message: str) -> None:
    assert (done.returncode, done.stderr) == (1, f"error: {message}\n"), done
    assert "Saved" not in done.stdout


OTHERS = {
    "--report-json": "r.json",
    "--report-jsonl": "rows.jsonl",
    "--save-trace": "t.jsonl",
    "--timeseries": "s.csv",
    "--timeline": "x.pftrace",
    "--router-log": "log.jsonl",
}


def test_a_page_that_does_not_fit_leaves_no_other_file(folder: Path) -> None:
    others = [word for option in OTHERS.items() for word in option]
    run = [*RUN, "--router-mode", "kv_router", *others, "--html", "full/p.html"]
    failed(with_small_files(*run), "cannot write 'full/p.html': File too large")
    assert found(folder) == []
    (folder / "r.json").write_text("of an earlier run")
    failed(with_small_files(*run), "cannot write 'full/p.html': File too large")
    assert found(folder) == ["r.json"]
    assert (folder / "r.json").read_text() == "of an earlier run"
    done = with_small_files(*run, most=1000)
    assert done.returncode == 0
    assert found(folder) == sorted([*OTHERS.values(), "full", "full/p.html"])


@pytest.mark.parametrize(
    ("option", "name", "more"),
    [("--report-jsonl", "rows.jsonl", []), ("--timeline", "x.pftrace", ["--router-mode", "kv_router"])],
)
def test_a_file_of_the_run_that_does_not_fit_leaves_none(folder: Path, option: str, name: str, more: list[str]) -> None:
    outputs = ["--save-trace", "t.jsonl", "--html", "p.html", "--report-json", "r.json", option, name, *more]
    done = with_small_files(*RUN, *outputs, most=2)
    failed(
        done, f"{option.removeprefix('--') if option == '--timeline' else option}: cannot write {name}: file too large"
    )
    assert found(folder) == []


def test_a_report_with_a_name_of_its_own_goes_with_the_page(folder: Path) -> None:
    failed(with_small_files(*RUN, "--html", "p.html"), "cannot write 'p.html': File too large")
    assert found(folder) == []


def test_the_function_leaves_none(folder: Path) -> None:
    def full(series: Any, path: Any) -> None:
        raise OSError(28, "No space left on device", path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dynamo.replay.seriesfile.write", full)
        with pytest.raises(OSError, match="No space left"):
            run_synthetic_trace_replay(200, 3, 20, report_jsonl_path="rows.jsonl", save_trace="t", timeseries="s.csv")
    assert found(folder) == []


def test_the_report_of_a_sweep_is_whole(folder: Path) -> None:
    spec = {"run": {"input_tokens": 100, "output_tokens": 30, "request_count": 20}, "search": {"num_workers": [1, 2]}}
    (folder / "spec.json").write_text(json.dumps(spec))
    report = ["points.csv", "report.html", "report.json", "report.txt"]
    words = command("run", "spec.json", "-o", "out", module="dynamo.sweep")
    assert subprocess.run(words, capture_output=True, timeout=300).returncode == 0
    for name in report:
        (folder / "out" / name).write_text("earlier")
    done = with_small_files("report", "out", module="dynamo.sweep", most=45)
    failed(done, "cannot write 'out/report.html': File too large")
    assert {(folder / "out" / name).read_text() for name in report} == {"earlier"}
    assert not list((folder / "out").glob(".dynamo*"))


def test_the_files_of_a_validation_are_whole(folder: Path) -> None:
    write(folder, {"run.json": {**SERVING, **DETAILS}})
    words = ["run.json", "--engine", '{"engine_type": "vllm"}', "-o", "new"]
    failed(with_small_files(*words, module="dynamo.validate", most=6), "cannot write to 'new': File too large")
    assert found(folder) == ["run.json"]


def test_a_target_that_cannot_be_replaced(folder: Path) -> None:
    """Something may happen to the targets while the files are written."""
    (folder / "old").write_text("before")
    (folder / "old").chmod(0o640)

    def last(draft: Path) -> None:
        draft.write_text("last")
        (folder / "target").mkdir()

    with pytest.raises(IsADirectoryError) as error, files.together():  # noqa: PT012
        files.write_whole("old", "new")
        files.write_whole("made/deep/new", "new")
        files.write_new(Path("numbered"), "new")
        files.write_by("target", last)
    assert error.value.filename == "target"
    assert found(folder) == ["old", "target"]
    assert (folder / "old").read_text() == "before"
    assert (folder / "old").stat().st_mode & 0o777 == 0o640


def test_a_command_that_is_interrupted_between_files(folder: Path) -> None:
    with pytest.raises(KeyboardInterrupt), files.together():  # noqa: PT012
        files.write_whole("one", "1")
        raise KeyboardInterrupt
    assert found(folder) == []


def test_files_appear_at_the_end(folder: Path) -> None:
    (folder / "numbered").write_text("taken")
    (folder / "old").write_text("before")
    with files.together() as outputs:
        files.write_whole("old", "new")
        with files.together() as inner:
            files.write_whole("two", "2")
        files.write_new(Path("numbered"), "3")
        assert inner is outputs
        assert (folder / "old").read_text() == "before"
        assert not (folder / "two").exists()
    assert {name: (folder / name).read_text() for name in found(folder)} == {
        "numbered": "taken", "numbered_2": "3", "old": "new", "two": "2",
    }  # fmt: skip
    assert outputs.place_of(Path("numbered")) == Path("numbered_2")
