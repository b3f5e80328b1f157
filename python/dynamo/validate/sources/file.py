"""A file of measurements, opened: plain or compressed text."""

from __future__ import annotations

import contextlib
import gzip
import zlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from dynamo.validate.sources.checks import BadSource, json_object

MEASUREMENT_SUFFIXES = (".csv", ".csv.gz", ".json", ".json.gz", ".jsonl", ".jsonl.gz")
# What load generators write is far smaller; more would be read into memory whole.
_LARGEST = 1 << 30


@dataclass(frozen=True)
class SourceFile:
    """The text of a file and where it is."""

    path: Path
    text: str

    @property
    def name(self) -> str:
        return str(self.path)

    @property
    def first_line(self) -> str:
        return self.text[: self.text.find("\n")] if "\n" in self.text else self.text

    @cached_property
    def start(self) -> dict[str, Any]:
        """The JSON object that the file, or its first line, is; empty if it is none. Its keys tell formats apart."""
        if self.text.lstrip()[:1] != "{":
            return {}
        with contextlib.suppress(BadSource):
            if self.first_line.strip() != self.text.strip():
                return json_object(self.first_line, self.name)
        with contextlib.suppress(BadSource):
            return self.whole
        return {}

    @cached_property
    def whole(self) -> dict[str, Any]:
        """The JSON object that the file is. Raises BadSource."""
        return json_object(self.text, self.name)

    def rows(self) -> list[tuple[str, dict[str, Any]]]:
        """Returns the objects of a JSON lines file, each with where it stands."""
        lines = ((f"{self.name} line {number}", line) for number, line in enumerate(self.text.splitlines(), start=1))
        rows = [(where, json_object(line, where)) for where, line in lines if line.strip()]
        if not rows:
            raise BadSource(f"{self.name}: the file is empty")
        return rows


def open_source(path: Path) -> SourceFile:
    """Reads a file. Raises BadSource if it cannot be read as text."""
    try:
        data = path.read_bytes()
        if data[:2] == b"\x1f\x8b":
            with gzip.open(path) as file:
                data = file.read(_LARGEST + 1)
        if len(data) > _LARGEST:
            raise BadSource(f"{path}: larger than {_LARGEST >> 20} MiB, want a file of measurements")
        return SourceFile(path, data.decode("utf-8-sig"))  # some programs on Windows begin with a mark
    except UnicodeDecodeError:
        raise BadSource(f"{path}: not UTF-8 text") from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise BadSource(f"{path}: not a whole gzip file: {error}") from None
    except OSError as error:
        raise BadSource(f"{path}: cannot be read: {error.strerror}") from None
