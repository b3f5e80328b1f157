"""What the AIC SDK has said is kept on disk: the made-up SDK of test_aic.py, installed as a distribution."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest
from conftest import Cli, refused
from test_aic import engine, fake, report_of  # noqa: F401  # a fixture
from test_validate import clients, silicon

from dynamo._core import aic_cache

RUN = ["--input-tokens", "1000", "--output-tokens", "30", "--request-count", "9", "--request-rate", "3"]


@pytest.fixture
def kept(fake: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:  # noqa: F811
    """The folder of the cache, with the SDK as an installer leaves it."""
    install(fake, "9.1")
    folder = tmp_path_factory.mktemp("cache") / "new"
    monkeypatch.setenv("DYNOSIM_AIC_CACHE", str(folder))
    return folder


def install(sdk: Path, files: str) -> None:
    information = sdk / "aiconfigurator-9.1.dist-info"
    information.mkdir(exist_ok=True)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: aiconfigurator\nVersion: 9.1\n")
    (information / "RECORD").write_text(f"aiconfigurator/__init__.py,sha256={files},0\n")


def numbers(report: dict[str, Any]) -> dict[str, Any]:
    clock = ("wall_time_ms", "processed_tokens_per_s", "processed_output_tokens_per_s", "provenance")
    return {name: value for name, value in report.items() if name not in clock}


@pytest.mark.parametrize("model", ["org/Alpha-3.1-7B-Instruct", "moe"])
def test_the_second_run_needs_no_sdk(
    kept: Path, cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch, model: str
) -> None:
    arguments = [*RUN, *engine(aic_model_path=model)]
    first, words = report_of(cli, folder, *arguments)
    assert len(list(kept.iterdir())) == 1
    monkeypatch.setenv("FAKE_IS_BROKEN", "1")
    again, words_again = report_of(cli, folder, *arguments)
    assert (numbers(again), words_again) == (numbers(first), words)
    monkeypatch.setenv("DYNOSIM_AIC_CACHE", "off")
    assert "cannot open shared object file" in refused(cli(*arguments))
    monkeypatch.delenv("FAKE_IS_BROKEN")
    without, words_without = report_of(cli, folder, *arguments)
    assert (numbers(without), words_without) == (numbers(first), words)


def test_what_is_new_is_added(kept: Path, cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report_of(cli, folder, *RUN, *engine())
    (file,) = kept.iterdir()
    before = file.stat().st_size
    more = [*RUN[:1], "2000", *RUN[2:], *engine()]
    longer, _ = report_of(cli, folder, *more)
    assert list(kept.iterdir()) == [file]
    assert file.stat().st_size > before
    monkeypatch.setenv("FAKE_IS_BROKEN", "1")
    assert numbers(report_of(cli, folder, *more)[0]) == numbers(longer)
    report_of(cli, folder, *RUN, *engine())


def test_validation_with_what_is_kept(kept: Path, cli: Cli, folder: Path) -> None:
    """The control, the SDK's prediction without a simulation, needs the SDK although no replay does any more."""
    table = silicon(folder, clients(1), clients(2))
    for part in ("first", "again"):
        done = cli(table, "-o", part, "-j", "1", module="dynamo.validate")
        assert (done.returncode, done.stderr) == (0, "")
    assert (folder / "again" / "accuracy.json").read_text() == (folder / "first" / "accuracy.json").read_text()


@pytest.mark.parametrize("broken", [b"", b"nonsense", None])
def test_a_broken_file_is_written_again(
    kept: Path, cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch, broken: bytes | None
) -> None:
    first, _ = report_of(cli, folder, *RUN, *engine())
    (file,) = kept.iterdir()
    whole = file.read_bytes()
    file.write_bytes(whole[:-3] if broken is None else broken)
    again, stderr = report_of(cli, folder, *RUN, *engine())
    assert (numbers(again), stderr) == (numbers(first), "")
    monkeypatch.setenv("FAKE_IS_BROKEN", "1")
    assert numbers(report_of(cli, folder, *RUN, *engine())[0]) == numbers(first)


def test_other_files_and_settings_are_asked_anew(
    kept: Path,
    fake: Path,  # noqa: F811
    cli: Cli,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    report_of(cli, folder, *RUN, *engine())
    report_of(cli, folder, *RUN, *engine(aic_tp_size=2))
    assert len(list(kept.iterdir())) == 2
    monkeypatch.setenv("DYNAMO_AIC_DISABLE_COMPILED_ENGINE", "1")
    report_of(cli, folder, *RUN, *engine())
    assert len(list(kept.iterdir())) == 3
    install(fake, "another")
    monkeypatch.setenv("FAKE_IS_BROKEN", "1")
    assert "cannot open shared object file" in refused(cli(*RUN, *engine()))


def test_a_package_that_is_not_the_installed_one_is_never_kept(
    kept: Path,
    fake: Path,  # noqa: F811
    cli: Cli,
    folder: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (fake / "aiconfigurator-9.1.dist-info").rename(elsewhere / "aiconfigurator-9.1.dist-info")
    monkeypatch.setenv("PYTHONPATH", f"{fake}:{elsewhere}")
    report_of(cli, folder, *RUN, *engine())
    assert not kept.exists()


def test_a_model_that_is_too_large_stays_so(kept: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    large = [*RUN, *engine(aic_model_path="org/Gamma-30B-A3B")]
    words = refused(cli(*large))
    assert "aic_tp_size: got 1, want 4, the smallest that fits" in words
    monkeypatch.setenv("FAKE_IS_BROKEN", "1")
    assert refused(cli(*large)) == words


def test_a_folder_that_cannot_be_written_is_no_error(kept: Path, cli: Cli, folder: Path) -> None:
    kept.parent.mkdir(exist_ok=True)
    kept.write_text("a file, no folder")
    report, stderr = report_of(cli, folder, *RUN, *engine())
    assert report["num_requests"] == 9
    assert stderr == ""


def test_two_writers_lose_nothing(tmp_path: Path) -> None:
    one, other = aic_cache.Kept(tmp_path / "a.aic"), aic_cache.Kept(tmp_path / "a.aic")
    one.keep_predictions([(0, 1, 2, 3)], [0.1 + 0.2])
    other.keep_predictions([(1, 1, 2, 3), (1, 1, 2, 4)], [5e-324, None])
    other.keep_answer("open", {"version": "1"})
    for writer in (one, other):
        writer.write(all_of_it=True)
    third = aic_cache.Kept(tmp_path / "a.aic")
    assert third.predictions([(0, 1, 2, 3), (1, 1, 2, 3), (1, 1, 2, 4), (0, 2**33, 1, 1)]) == [
        0.1 + 0.2,
        5e-324,
        None,
        None,
    ]
    assert third.answer("open") == {"version": "1"}
    assert one.predictions([(1, 1, 2, 3)]) == [None]
    assert one.refresh()
    assert one.predictions([(1, 1, 2, 3)]) == [5e-324]
    assert [path.name for path in tmp_path.iterdir()] == ["a.aic"]


def test_files_of_another_format_count_as_missing(tmp_path: Path) -> None:
    import zlib

    body = json.dumps({"format": 99, "answers": {"open": {}}}).encode() + b"\n"
    (tmp_path / "a.aic").write_bytes(struct.pack("<I", zlib.crc32(body)) + body)
    assert aic_cache.Kept(tmp_path / "a.aic").answer("open") is None


@pytest.mark.parametrize(
    ("given", "cache_home", "want"),
    [("off", "", None), ("/x", "/y", "/x"), ("", "/y", "/y/dynosim/aic"), ("", "relative", "/h/.cache/dynosim/aic")],
)
def test_where_the_cache_is(monkeypatch: pytest.MonkeyPatch, given: str, cache_home: str, want: str | None) -> None:
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("HOME", "/h")
    monkeypatch.setenv("DYNOSIM_AIC_CACHE", given)
    monkeypatch.setenv("XDG_CACHE_HOME", cache_home)
    found = aic_cache.folder()
    assert (None if found is None else str(found)) == want
