"""The model folder of the examples: made by a script, served by workers without a network."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from livetools import post, records
from test_live import answer, generate, workers

MODELS = Path(__file__).parent.parent / "examples" / "models"


def test_the_script_makes_the_files_again(tmp_path: Path) -> None:
    subprocess.run([sys.executable, MODELS / "make_tiny.py", tmp_path / "tiny"], check=True, timeout=300)
    kept = {path.name: path.read_bytes() for path in (MODELS / "tiny").iterdir()}
    made = {path.name: path.read_bytes() for path in (tmp_path / "tiny").iterdir()}
    assert made == kept
    assert sum(map(len, kept.values())) < 100_000


def test_workers_serve_it(tmp_path: Path) -> None:
    with workers(tmp_path, "--model-path", str(MODELS / "tiny"), "--model-name", "tiny") as w:
        assert len(answer(post(w.url(), generate(5))[1])[0]) == 5
        (card,) = records(w.root, "mdc")
        assert card["card_json"]["display_name"] == "tiny"
        assert card["card_json"]["architectural_max_context_length"] == 131072
