"""Output files: checked before a run, written whole or not at all."""

from __future__ import annotations

import errno
import os
import stat
import threading
from pathlib import Path

# Answers of kernels and file systems that know no unnamed files.
_NO_UNNAMED_FILES = frozenset({errno.EOPNOTSUPP, errno.EISDIR, errno.ENOENT, errno.EINVAL})


def check_writable(name: str, path: str | os.PathLike[str]) -> None:
    """Raises ValueError, naming the parameter, unless a file can be written at ``path``. Leaves nothing behind."""
    try:
        if not os.fspath(path):
            raise FileNotFoundError(errno.ENOENT, "the path is empty")
        target = os.path.realpath(path)
        mode = _mode(target)
        if mode is not None and stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if mode is not None and not os.access(target, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        if mode is None or stat.S_ISREG(mode):
            _try_folder(_nearest_folder(target))
    except OSError as error:
        raise ValueError(f"{name}: cannot write {os.fspath(path)!r}: {error.strerror}") from None
    except ValueError as error:  # a NUL character
        raise ValueError(f"{name}: cannot write {os.fspath(path)!r}: {error}") from None


def write_whole(path: str | os.PathLike[str], text: str) -> None:
    """Writes a file beside its target and renames it, so that the target is never half written.

    Missing folders are made. Devices and pipes, which a rename would replace, are written directly.
    """
    target = Path(os.path.realpath(path))
    mode = _mode(target)
    if mode is not None and not stat.S_ISREG(mode):
        target.write_text(text, encoding="utf-8")
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_name(_draft_name())
    try:
        draft.write_text(text, encoding="utf-8")
        draft.replace(target)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def _draft_name() -> str:
    """A hidden name that no other writer uses."""
    return f".dynamo-{os.getpid()}-{threading.get_ident()}.tmp"


def _mode(path: str | os.PathLike[str]) -> int | None:
    """Type and permissions of a file, None if there is none."""
    try:
        return os.stat(path).st_mode
    except FileNotFoundError:
        return None


def _nearest_folder(target: str) -> str:
    """The deepest folder above target that exists; those between are made when the file is written."""
    folder = os.path.dirname(target)
    while (mode := _mode(folder)) is None:
        folder = os.path.dirname(folder)
    if not stat.S_ISDIR(mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    return folder


def _try_folder(folder: str) -> None:
    """Makes a file in folder that vanishes at once. Permission bits alone promise too much (to root, in /proc)."""
    try:
        os.close(os.open(folder, os.O_TMPFILE | os.O_WRONLY, 0o600))
        return
    except OSError as error:
        if error.errno not in _NO_UNNAMED_FILES:
            raise
    trial = os.path.join(folder, _draft_name())
    os.close(os.open(trial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    os.unlink(trial)
