"""Output files: checked before a run, written whole or not at all."""

from __future__ import annotations

import contextlib
import contextvars
import errno
import itertools
import os
import re
import stat
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from dynamo._shell.options import run_options

_SERIES_KINDS = (".csv", ".jsonl", ".parquet")
_LENGTHS_FILE = re.compile(r"\s*empirical\s*\((.*)\)\s*", re.DOTALL)

# Errors of kernels and file systems without unnamed files.
_NO_UNNAMED_FILES = frozenset({errno.EOPNOTSUPP, errno.EISDIR, errno.ENOENT, errno.EINVAL})


def outputs() -> Mapping[str, str]:
    """Returns the options that name a file to be written, and how the command line spells them."""
    return {name: option.flag for name, option in run_options().items() if option.writes}


def check_writable(name: str, path: str | os.PathLike[str]) -> None:
    """Raises ValueError, naming the parameter, unless a file can be written at ``path``. Leaves nothing behind."""
    try:
        if not os.fspath(path):
            raise FileNotFoundError(errno.ENOENT, "the path is empty")
        if os.fspath(path) == "-":
            raise OSError(errno.EINVAL, "for standard output use /dev/stdout")
        mode = _mode(path)
        target = os.path.realpath(path)
        if mode is not None and stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if mode is not None and not os.access(path, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        if mode is None or stat.S_ISREG(mode):
            _try_folder(_nearest_folder(target))
    except OSError as error:
        raise ValueError(f"{name}: cannot write {os.fspath(path)!r}: {error.strerror}") from None
    except ValueError as error:  # a NUL character
        raise ValueError(f"{name}: cannot write {os.fspath(path)!r}: {error}") from None


def check_outputs(
    config: Mapping[str, Any],
    report_json: str | os.PathLike[str] | None = None,
    sources: Iterable[tuple[str, str | os.PathLike[str]]] = (),
) -> None:
    """Raises ValueError if a run of this configuration could not write a file, or would write over another of its own.

    The command line, which also writes a report, has its options named; Python its parameters. Sources are files whose
    content the configuration has already, each with its option; two of them may be one file.
    """
    by_option = report_json is not None
    written = _named(config, outputs(), by_option)
    if report_json is not None:
        written.insert(0, ("--report-json", report_json))
    for name, path in written:
        check_writable(name, path)
    if "timeseries" in config:
        _check_series("--timeseries" if by_option else "timeseries", config["timeseries"])
    if written:
        read = {name: option.flag for name, option in run_options().items() if option.reads}
        traces = (("trace_files", path) for path in config.get("trace_files", ()))
        check_distinct([*written, *_named(config, read, by_option), *_lengths_files(config, by_option), *traces])
        for source in sources:
            check_distinct([*written, source])


def _check_series(name: str, path: str | os.PathLike[str]) -> None:
    """Raises ValueError, naming the option, unless a series can be written to a file of this name."""
    kind = Path(path).suffix
    if kind not in _SERIES_KINDS:
        raise ValueError(f"{name}: got {os.fspath(path)!r}, want a file that ends with .csv, .jsonl or .parquet")
    if kind == ".parquet" and not _has_pyarrow():
        raise ValueError(f"{name}: {os.fspath(path)!r} needs pyarrow: pip install 'dynosim[data]'")


def _has_pyarrow() -> bool:
    import importlib.util  # not before it is needed: every run loads this module

    return importlib.util.find_spec("pyarrow") is not None


def _named(
    config: Mapping[str, Any], options: Mapping[str, str], by_option: bool
) -> list[tuple[str, str | os.PathLike[str]]]:
    return [(option if by_option else name, config[name]) for name, option in options.items() if name in config]


def _lengths_files(config: Mapping[str, Any], by_option: bool) -> Iterable[tuple[str, str | os.PathLike[str]]]:
    """Returns two lengths may come from one file, which counts once."""
    lengths = {name: option.flag for name, option in run_options(takes=["lengths"]).items()}
    found = {}
    for name, text in _named(config, lengths, by_option):
        if match := _LENGTHS_FILE.fullmatch(str(text)):
            found[match[1].strip()] = name
    return ((name, path) for path, name in found.items())


def check_distinct(named: Iterable[tuple[str, str | os.PathLike[str]]]) -> None:
    """Raises ValueError, naming both parameters, if a run would write a file that it also reads or writes elsewhere.

    The trace "-" is standard input. Pipes and devices may serve twice.
    """
    known = [(name, path, _identity("/dev/stdin" if path == "-" else path)) for name, path in named]
    for (first, path, one), (second, _, other) in itertools.combinations(known, 2):
        if one is not None and one == other:
            raise ValueError(f"{first}: {os.fspath(path)!r} is the same file as {second}, want another")


def _identity(path: str | os.PathLike[str]) -> object:
    """Returns what is equal for two paths of one file, also of one that does not exist yet; None if it is no ordinary
    file.
    """
    try:
        if _mode(path) is None:
            return os.path.realpath(path)
        found = os.stat(path)
    except (OSError, ValueError):  # opening it will raise the error
        return None
    return (found.st_dev, found.st_ino) if stat.S_ISREG(found.st_mode) else None


class Together:
    """Files that are written beside their targets, and then appear all at once, or none of them."""

    def __init__(self) -> None:
        self._waiting: list[_Waiting] = []
        self._made: list[Path] = []
        self._undo: list[Callable[[], object]] = []
        self._kept: list[Path] = []
        self._found: dict[Path, Path] = {}

    def add(self, path: str | os.PathLike[str], write: Callable[[Path], object], *, replaces: bool = True) -> None:
        """Lets a function write a file. One that may not replace another gets a name that is free. Raises OSError."""
        with _naming(path):
            mode = _mode(path)
            if replaces and mode is not None and not stat.S_ISREG(mode):
                write(Path(path))  # a rename would replace a device or a pipe
                return
            target = Path(os.path.realpath(path)) if replaces else Path(path)
            self._make(target.parent)
            draft = target.with_name(_draft_name())
            self._waiting.append(_Waiting(draft, target, path, replaces))
            write(draft)

    def adopt(self, written: Iterable[tuple[str, str, str]]) -> None:
        """Takes files that a run has written: each as a draft, its path, and what the user calls it."""
        self._waiting += [_Waiting(Path(draft), Path(path), given, True) for draft, path, given in written]

    def place_of(self, path: Path) -> Path:
        """Returns where a file has gone that may not replace another."""
        return self._found.get(path, path)

    def _make(self, folder: Path) -> None:
        missing = list(itertools.takewhile(lambda above: not above.exists(), (folder, *folder.parents)))
        for above in reversed(missing):
            with contextlib.suppress(FileExistsError):
                above.mkdir()
                self._made.append(above)

    def _place(self) -> None:
        """Moves all files to their targets. After an error everything is as it was."""
        try:
            for waiting in self._waiting:
                with _naming(waiting.given):
                    self._move(waiting)
        except BaseException:
            for undo in reversed(self._undo):
                with contextlib.suppress(OSError):
                    undo()
            raise
        self._made.clear()

    def _move(self, waiting: _Waiting) -> None:
        if not waiting.replaces:
            found = _move_to_free_name(waiting.draft, waiting.target)
            self._found[waiting.target] = found
            self._undo.append(found.unlink)
            return
        mode = _mode(waiting.target)
        if mode is None:
            waiting.draft.replace(waiting.target)
            self._undo.append(waiting.target.unlink)
            return
        waiting.draft.chmod(stat.S_IMODE(mode))
        before = waiting.target.with_name(_draft_name())
        with contextlib.suppress(OSError):  # a file system without hard links: what is replaced cannot come back
            os.link(waiting.target, before)
            self._kept.append(before)
        waiting.draft.replace(waiting.target)
        self._undo.append(lambda: before.replace(waiting.target))

    def _clear(self) -> None:
        """Removes what is in no place of its own: drafts, and folders that were made for nothing."""
        for path in (*(waiting.draft for waiting in self._waiting), *self._kept):
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
        for folder in reversed(self._made):
            with contextlib.suppress(OSError):
                folder.rmdir()


class _Waiting(NamedTuple):
    draft: Path
    target: Path
    given: str | os.PathLike[str]
    replaces: bool


_together: contextvars.ContextVar[Together | None] = contextvars.ContextVar("_together", default=None)


@contextlib.contextmanager
def together() -> Iterator[Together]:
    """Makes all files that are written inside appear at its end, or none. Inside another one it is part of that."""
    if (outer := _together.get()) is not None:
        yield outer
        return
    found = Together()
    before = _together.set(found)
    try:
        yield found
        found._place()
    finally:
        _together.reset(before)
        found._clear()


def write_whole(path: str | os.PathLike[str], text: str) -> None:
    """Writes a text as ``write_by`` does."""
    write_by(path, lambda target: target.write_text(text, encoding="utf-8"))


def write_by(path: str | os.PathLike[str], write: Callable[[Path], object]) -> None:
    """Lets a function write a file beside its target and renames it, so that the target is never half written.

    Missing folders are made, and a file that is replaced passes its permissions on. Devices and pipes, which a rename
    would replace, are written directly. Inside ``together`` the file appears with the others.
    """
    with together() as written:
        written.add(path, write)


def write_new(path: Path, text: str) -> Path:
    """Writes a file whole under a name that nothing has yet: ``path``, else with ``_2``, ``_3``, ... before the suffix.

    Returns the path that was free; inside ``together``, which knows it at its end, ``path``. Two writers at the same
    moment get different ones.
    """
    with together() as written:
        written.add(path, lambda target: target.write_text(text, encoding="utf-8"), replaces=False)
    return written.place_of(path)


@contextlib.contextmanager
def _naming(path: str | os.PathLike[str]) -> Iterator[None]:
    """Makes an OSError name the file that the user has named: by itself it may name a draft, or no file."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, os.strerror(error.errno), os.fspath(path)) from error


def _move_to_free_name(draft: Path, path: Path) -> Path:
    for candidate in _numbered(path):
        with contextlib.suppress(FileExistsError):
            _move_unless_taken(draft, candidate)
            return candidate
    raise AssertionError("there is always another number")


def _numbered(path: Path) -> Iterator[Path]:
    yield path
    for number in itertools.count(2):
        yield path.with_stem(f"{path.stem}_{number}")


def _move_unless_taken(draft: Path, target: Path) -> None:
    """Raises FileExistsError if something has the name. A plain rename would replace it."""
    try:
        os.link(draft, target)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        draft.replace(target)


_drafts = itertools.count()


def _draft_name() -> str:
    """Returns a hidden name that no other writer uses."""
    return f".dynamo-{os.getpid()}-{threading.get_ident()}-{next(_drafts)}.tmp"


def _mode(path: str | os.PathLike[str]) -> int | None:
    """Returns type and permissions of a file, None if there is none."""
    try:
        return os.stat(path).st_mode
    except FileNotFoundError:
        return None


def _nearest_folder(target: str) -> str:
    """Returns the deepest folder above target that exists; the ones below it are made when the file is written."""
    folder = os.path.dirname(target)
    while (mode := _mode(folder)) is None:
        folder = os.path.dirname(folder)
    if not stat.S_ISDIR(mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    return folder


def _try_folder(folder: str) -> None:
    """Makes a temporary file in folder. Permission bits alone do not tell whether that works (for root, in /proc)."""
    try:
        os.close(os.open(folder, os.O_TMPFILE | os.O_WRONLY, 0o600))
        return
    except OSError as error:
        if error.errno not in _NO_UNNAMED_FILES:
            raise
    trial = os.path.join(folder, _draft_name())
    os.close(os.open(trial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    os.unlink(trial)
