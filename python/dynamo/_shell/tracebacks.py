"""Where in the code of a user an exception was raised."""

from __future__ import annotations

from pathlib import Path
from types import FrameType

_OWN = str(Path(__file__).parents[1])
_INSTALLED = ("site-packages", "dist-packages")


def place_of(error: BaseException) -> str:
    """Returns the file, line and function of the user that an exception comes from, "" if it passed none.

    Code of the user is what is neither this package nor the standard library, and in a package that is installed
    only if there is nothing else, as with a router of such a package.
    """
    frames = list(_foreign(error))
    own = [at for at in frames if not _is_installed(at[0])] or frames
    if not own:
        return ""
    frame, line = own[-1]
    names = [at.f_code.co_name for at, _ in own if not at.f_code.co_name.startswith("<")]
    place = f"{Path(frame.f_code.co_filename).name} line {line}"
    if not names:
        return place
    called = f" called by {names[0]}" if names[0] != names[-1] else ""
    return f"{place}, {names[-1]}{called}"


def placed(error: BaseException) -> str:
    """Returns what an exception says in one line, after its place and its type."""
    said = " ".join(str(error).split())
    return ": ".join(part for part in (place_of(error), type(error).__name__, said) if part)


def _foreign(error: BaseException) -> list[tuple[FrameType, int]]:
    """Returns the frames outside this package and the standard library, the outermost first, with their lines."""
    found = []
    at = error.__traceback__
    while at is not None:
        if not _is_library(at.tb_frame.f_code.co_filename):
            found.append((at.tb_frame, at.tb_lineno))
        at = at.tb_next
    return found


def _is_library(file: str) -> bool:
    if file.startswith(("<frozen ", _OWN)):
        return True
    import sysconfig  # not before it is needed

    return file.startswith(sysconfig.get_paths()["stdlib"]) and not any(name in file for name in _INSTALLED)


def _is_installed(frame: FrameType) -> bool:
    return any(name in Path(frame.f_code.co_filename).parts for name in _INSTALLED)
