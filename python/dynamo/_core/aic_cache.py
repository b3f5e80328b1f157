"""Keeps on disk what the AIC SDK has said, so that a deployment that was simulated once does not load it again.

A file holds the answers about one session: a line of JSON, then 24 bytes for each prediction. Its name is the hash of
all that decides them: the files of the installed SDK, the question that opens the session, and the variables that the
SDK reads. Files are replaced whole; one that is broken counts as missing. Numbers are kept to the last bit.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import struct
import sys
import tempfile
import zlib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib import metadata, util
from pathlib import Path
from typing import Any

VARIABLE = "DYNOSIM_AIC_CACHE"
"""The environment variable that names the folder, or turns the cache off."""
_OFF = ("off", "0", "no", "false")
_PACKAGE = "aiconfigurator"
# The second distribution holds the measurements in newer releases.
_DISTRIBUTIONS = (_PACKAGE, f"{_PACKAGE}-core")
# Variables that may change what the SDK says, by the beginning of their names.
_VARIABLES = ("AICONFIGURATOR", "AIC_", "DYNAMO_AIC_")
_FORMAT = 2
_QUESTION, _PREDICTION = struct.Struct("<IIII"), struct.Struct("<16sd")
# 24 MB; what is beyond it is asked again.
_MOST_PREDICTIONS = 1_000_000
# A file is written again when what is new is at least this part of it, so that many small additions stay cheap.
_WORTH_WRITING = 20


class Kept:
    """What is known of one session. Not safe for threads: its user has a lock."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp: tuple[int, int] | None = None
        self._fresh = 0
        self._answers: dict[str, Any] = {}
        self._predictions: dict[bytes, float] = {}
        self.refresh()

    def refresh(self) -> bool:
        """Takes up what the file holds, if it was written since: another process may have asked the same."""
        try:
            found = self._path.stat()
            stamp = (found.st_mtime_ns, found.st_ino)
            if stamp == self._stamp:
                return False
            content = self._path.read_bytes()
        except OSError:
            return False
        self._stamp = stamp
        if (read := _read(content)) is None:
            return False
        self._answers = {**read[0], **self._answers}
        self._predictions = {**read[1], **self._predictions}
        return True

    def answer(self, name: str) -> Any:
        """Returns an answer about the whole session, None if it is not known."""
        return self._answers.get(name)

    def keep_answer(self, name: str, answer: Any) -> None:
        """Remembers an answer about the whole session."""
        self._answers[name] = answer
        self._fresh += 1 + len(self._predictions)  # rare and dear: worth writing at once

    def predictions(self, questions: Sequence[Sequence[int]]) -> list[float | None]:
        """Returns what is known of each of these questions."""
        known = self._predictions
        found: list[float | None] = []
        for question in questions:
            key = _key(question)
            found.append(None if key is None else known.get(key))
        return found

    def keep_predictions(self, questions: Iterable[Sequence[int]], ms: Iterable[float | None]) -> None:
        """Remembers predictions, but for those without a value."""
        for question, value in zip(questions, ms, strict=True):
            key = _key(question)
            if value is not None and key is not None and len(self._predictions) < _MOST_PREDICTIONS:
                self._predictions[key] = value
                self._fresh += 1

    def write(self, *, all_of_it: bool) -> None:
        """Writes the file again if something is new, and enough of it unless ``all_of_it`` counts.

        A folder that cannot be written leaves the cache as it was: the run has its numbers.
        """
        if not self._fresh or (not all_of_it and self._fresh * _WORTH_WRITING < len(self._predictions)):
            return
        self.refresh()
        with contextlib.suppress(OSError):
            _replace(self._path, _written(self._answers, self._predictions))
            found = self._path.stat()
            self._stamp = (found.st_mtime_ns, found.st_ino)
        self._fresh = 0


def _key(question: Sequence[int]) -> bytes | None:
    try:
        return _QUESTION.pack(*question)
    except struct.error:  # beyond 32 bits, which no engine computes
        return None


def _written(answers: Mapping[str, Any], predictions: Mapping[bytes, float]) -> bytes:
    head = json.dumps({"format": _FORMAT, "answers": answers}, sort_keys=True).encode() + b"\n"
    body = head + b"".join(_PREDICTION.pack(key, ms) for key, ms in predictions.items())
    return struct.pack("<I", zlib.crc32(body)) + body


def _read(content: bytes) -> tuple[dict[str, Any], dict[bytes, float]] | None:
    """Returns the answers and predictions of a file, None if it is broken or of another format."""
    body = content[4:]
    if len(content) < 4 or struct.unpack("<I", content[:4])[0] != zlib.crc32(body):
        return None
    head, _, rows = body.partition(b"\n")
    try:
        found = json.loads(head)
        if found["format"] != _FORMAT:
            return None
        return dict(found["answers"]), dict(_PREDICTION.iter_unpack(rows))
    except (ValueError, KeyError, TypeError, struct.error):
        return None


def _replace(path: Path, content: bytes) -> None:
    """Puts a file in its place in one step, even if other processes do so at the same time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    number, draft = tempfile.mkstemp(prefix=path.name, suffix=".part", dir=path.parent)
    try:
        with os.fdopen(number, "wb") as file:
            file.write(content)
        Path(draft).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(draft).unlink()
        raise


def folder() -> Path | None:
    """Returns where answers are kept, None if they are not.

    ``DYNOSIM_AIC_CACHE`` is a folder, or ``off``; without it the place of the platform for caches.
    """
    given = os.environ.get(VARIABLE, "")
    if given.lower() in _OFF:
        return None
    if given:
        return Path(given).expanduser()
    home = os.path.expanduser("~")
    if home == "~":  # a user without a home
        return None
    if sys.platform == "darwin":
        return Path(home, "Library", "Caches", "dynosim", "aic")
    base = os.environ.get("XDG_CACHE_HOME", "")
    return Path(base if os.path.isabs(base) else os.path.join(home, ".cache"), "dynosim", "aic")


def of_session(question: Mapping[str, Any]) -> Kept | None:
    """Returns what is kept of the session that a question opens; None if the cache is off or nothing tells the SDK's
    files.
    """
    place = folder()
    if place is None or (sdk := _sdk()) is None:
        return None
    variables = {name: value for name, value in sorted(os.environ.items()) if name.startswith(_VARIABLES)}
    model = str(question.get("model", ""))
    config = os.path.join(model, "config.json")
    try:
        local = hashlib.sha256(Path(config).read_bytes()).hexdigest() if os.path.isfile(config) else ""
    except OSError:
        return None
    identity = json.dumps([_FORMAT, sdk, question, variables, local], sort_keys=True)
    return Kept(place / f"{hashlib.sha256(identity.encode()).hexdigest()[:40]}.aic")


@cache
def _sdk() -> str | None:
    """Returns a hash of what is installed as the SDK, without loading it; None if that cannot be told.

    The list of files that an installer leaves has the hash of each. A package that is found before the installed one,
    or one that is worked on in place, has no such list.
    """
    try:
        spec = util.find_spec(_PACKAGE)
        if spec is None or spec.origin is None:
            return None
        digest = hashlib.sha256()
        for name in _DISTRIBUTIONS:
            try:
                found = metadata.distribution(name)
            except metadata.PackageNotFoundError:
                if name == _PACKAGE:
                    return None
                continue
            record = found.read_text("RECORD")
            if not record or "editable" in (found.read_text("direct_url.json") or ""):
                return None
            if (
                name == _PACKAGE
                and Path(str(found.locate_file(_PACKAGE))).resolve() != Path(spec.origin).resolve().parent
            ):
                return None
            digest.update(f"{name} {found.version}\n{record}".encode())
    except (OSError, ValueError, ImportError):
        return None
    return digest.hexdigest()
