"""Models by their name on the Hugging Face hub, with a made-up package huggingface_hub."""

from __future__ import annotations

import signal
import subprocess
import textwrap
from pathlib import Path

import pytest
from livetools import Service, make_model, mocker, records, until
from test_live import bad_input, workers

HUB = """
    import os, pathlib, shutil, sys, time
    class RepositoryNotFoundError(OSError): pass
    def snapshot_download(name, allow_patterns):
        if name == "no/model":
            raise RepositoryNotFoundError("\\n404 Client Error.\\nRepository Not Found for url: https://example.invalid\\n")
        if name == "slow/model":
            pathlib.Path(os.environ["HF_HOME"]).mkdir()
            time.sleep(3000)
        assert "*.json" in allow_patterns
        folder = pathlib.Path(os.environ["HF_HOME"], "hub", "models--" + name.replace("/", "--"))
        shutil.copytree(os.environ["FAKE_MODEL"], folder / "snapshots" / "abc")
        (folder / "refs").mkdir()
        (folder / "refs" / "main").write_text("abc")
"""
FILE = ("--discovery-backend", "file")


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A hub that has one model, and an empty cache."""
    packages = tmp_path / "packages"
    packages.mkdir()
    (packages / "huggingface_hub.py").write_text(textwrap.dedent(HUB))
    monkeypatch.setenv("PYTHONPATH", str(packages))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("HF_HUB_CACHE", raising=False)
    monkeypatch.setenv("FAKE_MODEL", str(make_model(tmp_path / "model")))
    return packages


def test_a_model_is_downloaded_once(hub: Path, tmp_path: Path) -> None:
    for i, said in enumerate([True, False]):
        folder = tmp_path / str(i)
        folder.mkdir()
        with workers(folder, "--model-path", "some/model") as w:
            assert ('model_path: downloading "some/model" from the Hugging Face hub' in w.log) == said
            card = records(w.root, "mdc")[0]["card_json"]
            assert card["display_name"] == "some/model"
            assert card["source_path"] == "some/model"
            assert card["tokenizer"]["hf_tokenizer_json"]["path"] == "hf://some/model/tokenizer.json"
            w.stop()
            assert w.wait() == 0


def test_a_model_that_cannot_be_had(hub: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        mocker("--model-path", "no/model", *FILE),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 2
    problem = 'error: model_path: "no/model" cannot be downloaded: RepositoryNotFoundError: 404 Client Error.'
    assert done.stderr.splitlines()[1:] == [problem]


def test_what_is_no_name_is_not_downloaded(hub: Path, tmp_path: Path) -> None:
    for path in ("/no/model", "./none", "a/b/c", "none"):
        bad_input(tmp_path, ["--model-path", path, *FILE], "model_path:")
    arguments = ["--model-path", "some/model", "--planner-profile-data", "/no/such/file", *FILE]
    bad_input(tmp_path, arguments, "planner_profile_data")


def test_without_the_package(hub: Path, tmp_path: Path) -> None:
    (hub / "huggingface_hub.py").write_text("raise ImportError")
    bad_input(
        tmp_path, ["--model-path", "some/model", *FILE], "; pip install huggingface_hub to have it downloaded, or"
    )


def test_ctrl_c_while_downloading(hub: Path, tmp_path: Path) -> None:
    with Service(mocker("--model-path", "slow/model", *FILE), tmp_path / "log", {}) as service:
        until((tmp_path / "cache").exists)
        assert "downloading" in service.log
        service.stop(signal.SIGINT)
        assert service.wait() == 130
        assert "Traceback" not in service.log
