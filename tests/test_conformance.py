"""Every recorded run of the reference, through the real command-line entry point."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CONFORMANCE = Path(__file__).parent / "conformance"


@pytest.mark.parametrize(
    ("name", "cases"), [("cases", 468), ("hard", 330), ("timing", 63), ("real", 13), ("more", 105)]
)
def test_agrees_with_recorded_runs(name: str, cases: int, tmp_path: Path) -> None:
    checker = [sys.executable, str(CONFORMANCE / "check.py"), str(CONFORMANCE / f"{name}.jsonl.gz")]
    result = subprocess.run(checker, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.splitlines()[-1] == f"{cases} passed, 0 failed"
