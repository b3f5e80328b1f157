"""Figures of runs that were accepted, in a file beside the test that is reviewed with it."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

HOW = "run pytest --dynosim-update, and review the file before it is committed"


class Baselines:
    """The file with the baselines of a file of tests: ``test_x.dynosim.json`` for ``test_x.py``."""

    def __init__(self, test_file: Path) -> None:
        self.path = test_file.with_suffix(".dynosim.json")

    def read(self, name: str) -> Mapping[str, float | None]:
        """Returns the figures of a run. Raises AssertionError if there are none."""
        __tracebackhide__ = True
        try:
            with self.path.open(encoding="utf-8") as file:
                known = self._parse(file.read())
        except FileNotFoundError:
            raise AssertionError(f"{self.path.name}: no such file, so nothing to compare with; {HOW}") from None
        if name not in known:
            raise AssertionError(f"{self.path.name}: no baseline {name!r}; {HOW}")
        return known[name]

    def write(self, name: str, figures: Mapping[str, float | None]) -> None:
        """Replaces the figures of a run. Tests in several processes may do so at the same time."""
        with self._locked() as file:
            known = {**self._parse(file.read() or "{}"), name: dict(figures)}
            text = json.dumps(known, indent=2, sort_keys=True) + "\n"
            file.seek(0)
            file.truncate()
            file.write(text)

    @contextmanager
    def _locked(self) -> Iterator[TextIO]:
        with os.fdopen(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644), "r+", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield file

    def _parse(self, text: str) -> dict[str, dict[str, float | None]]:
        try:
            known: dict[str, dict[str, float | None]] = json.loads(text)
            fits = isinstance(known, dict) and all(isinstance(figures, dict) for figures in known.values())
        except ValueError:
            fits = False
        if not fits:
            raise ValueError(f"{self.path.name}: not a file of baselines; delete it, and {HOW}")
        return known
