"""What the command lines share: exit codes, messages, and how their processes end."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Callable
from typing import Any, NoReturn, TextIO

BAD_INPUT, FAILED, INTERRUPTED = 2, 1, 130


class UsageError(Exception):
    """A command line that cannot be run; its text is the line to print."""


class Parser(argparse.ArgumentParser):
    """Reports a mistake as one line instead of exiting."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(message)


def exit_code(command: Callable[[], int]) -> int:
    """Runs a command; mistakes and interrupts become a line on standard error and an exit code."""
    try:
        return command()
    except SystemExit as stop:  # --help
        return int(stop.code or 0)
    except (UsageError, ValueError, FileNotFoundError) as error:
        return fail(error, BAD_INPUT)
    except RuntimeError as error:
        return fail(error, FAILED)
    except KeyboardInterrupt:
        say("interrupted")
        return INTERRUPTED


def fail(message: object, code: int) -> int:
    say(f"error: {message}")
    return code


def say(message: str) -> None:
    """One line on standard error, whatever the message contains; nothing if that is closed or full."""
    line = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in message)
    if sys.stderr is not None:  # to print(), None would mean standard output
        with contextlib.suppress(OSError):
            print(line, file=sys.stderr)


def print_text(text: str) -> None:
    """Prints text, with question marks where the terminal's encoding lacks a character."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    print(text.encode(encoding, "replace").decode(encoding), flush=True)


def output_width() -> int | None:
    """Characters in a line of standard output: COLUMNS, else the width of the terminal, None without either.

    LINES beside COLUMNS comes from readline, which sets both for all children of an interactive program, and of pytest.
    That describes a terminal, and is no wish about a pipe or a file.
    """
    terminal = sys.stdout is not None and sys.stdout.isatty()
    if terminal or "LINES" not in os.environ:
        with contextlib.suppress(ValueError):
            if (columns := int(os.environ.get("COLUMNS", ""))) > 0:
                return columns
    with contextlib.suppress(AttributeError, OSError, ValueError):  # no terminal, no descriptor
        return (terminal and os.get_terminal_size(sys.stdout.fileno()).columns) or None
    return None


def draws_boxes() -> bool:
    """Whether standard output shows box characters: its encoding has them, and it is no dumb terminal."""
    try:
        "┏━┳┓┃┡╇┩└┴┘…".encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except UnicodeEncodeError:
        return False
    terminal = sys.stdout is not None and sys.stdout.isatty()
    return not (terminal and os.environ.get("TERM", "dumb") in ("", "dumb"))


def progress() -> Any:
    """A progress bar on a terminal, nothing otherwise."""
    if sys.stderr is not None and sys.stderr.isatty():
        from dynamo.replay.progress import ProgressBar

        return ProgressBar()
    return contextlib.nullcontext()


def run_process(main: Callable[[], int]) -> NoReturn:
    """Ends the process with the exit code of a command, with all that it has printed out."""
    status = _status(main)
    _flush_errors()
    if status == INTERRUPTED:
        os._exit(status)  # without freeing what a big run holds; everything printed is out
    sys.exit(status)


def _status(main: Callable[[], int]) -> int:
    try:
        status = main()
        if sys.stdout is not None:
            sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except OSError as error:  # of standard output; files have been written before it
        _discard(sys.stdout)
        if isinstance(error, BrokenPipeError):  # the reader, `head` for one, has seen enough
            return 0
        return fail(f"cannot write to standard output: {error.strerror}", FAILED)
    return status


def _discard(stream: TextIO) -> None:
    """What is left in the buffer of a stream that cannot be written must not fail once more at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _flush_errors() -> None:
    if sys.stderr is not None:
        try:
            sys.stderr.flush()
        except OSError:
            _discard(sys.stderr)
