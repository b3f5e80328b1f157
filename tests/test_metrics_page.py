"""docs/reference/metrics.md is what running processes say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).parents[1]


def test_the_page_is_up_to_date() -> None:
    command = [sys.executable, "docs/site/metrics.py", "--check", "docs/reference/metrics.md"]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=600)
    assert (done.returncode, done.stderr) == (0, "")
