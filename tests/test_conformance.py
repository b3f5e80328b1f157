"""Every recorded run of the reference, through the real command-line entry point."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CONFORMANCE = Path(__file__).parent / "conformance"


@pytest.mark.parametrize(
    ("checker", "name", "cases"),
    [
        ("check", "cases", 468),
        ("check", "hard", 330),
        ("check", "timing", 63),
        ("check", "real", 13),
        ("check", "more", 105),
        ("check_planner", "planner", 168),
        ("check_parts", "cases", 468),
        ("check_parts", "hard", 330),
        ("check_parts", "timing", 63),
        ("check_parts", "real", 13),
        ("check_parts", "more", 105),
    ],
)
def test_agrees_with_recorded_runs(checker: str, name: str, cases: int, tmp_path: Path) -> None:
    command = [sys.executable, str(CONFORMANCE / f"{checker}.py"), str(CONFORMANCE / f"{name}.jsonl.gz")]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.splitlines()[-1] == f"{cases} passed, 0 failed"
