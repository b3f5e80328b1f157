"""What the command lines share: exit codes, messages, and how their processes end."""

from __future__ import annotations

import argparse
import atexit
import contextlib
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any, NoReturn, TextIO

from dynamo import _core
from dynamo._core import spelling, values
from dynamo._core.version import VERSION
from dynamo._start import begin

# argparse takes these for options; a number or a text with a blank is a value.
_OPTION = re.compile(r"--?[^-\d\s.]\S*$|--\S+$")

BAD_INPUT, FAILED, INTERRUPTED = 2, 1, 130


class UsageError(Exception):
    """A command line that cannot be run; its text is the line to print."""


class Parser(argparse.ArgumentParser):
    """Reports a mistake as one line instead of exiting. Options are written out, and ``--version`` is one of them."""

    def __init__(self, *, product: str = "dynosim", **options: Any) -> None:
        super().__init__(**{"formatter_class": _HelpFormatter, **options}, allow_abbrev=False)
        self.add_argument(
            "--version",
            action=_Version,
            nargs=0,
            const=product,
            default=argparse.SUPPRESS,
            help="print the version and exit",
        )

    def parse_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:  # type: ignore[override]
        given = sys.argv[1:] if args is None else args
        self._check_options(given)
        return super().parse_args(given, namespace)

    def error(self, message: str) -> NoReturn:
        raise UsageError(message)

    def _check_options(self, given: Sequence[str]) -> None:
        """Names the option that the first unknown one probably means; argparse would first report missing options."""
        known = self._known_options()
        for text in given:
            if text == "--":
                return
            name = text.partition("=")[0]
            if not _OPTION.match(name) or name in known:
                continue
            long = [option.removeprefix("--") for option in known if option.startswith("--")]
            word = name.lstrip("-")
            near = (spelling.nearest(word, long) or spelling.ending(word, long)) if len(name) > len("-x") else None
            hint = f"did you mean --{near}?" if near else "--help lists all"
            self.error(f"unknown option {values.brief(name)}, {hint}")

    def _known_options(self) -> list[str]:
        known = list(self._option_string_actions)
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                for parser in action.choices.values():
                    known += parser._known_options()
        return known


class _HelpFormatter(argparse.HelpFormatter):
    """That of argparse, which asks shutil for the width of each option: that imports all kinds of compression."""

    def __init__(self, prog: str, **options: Any) -> None:
        super().__init__(prog, **{"width": _help_width() - 2, **options})


def _help_width() -> int:
    """Characters in a line of help: COLUMNS, else the width of the terminal, else 80."""
    return _columns() or _terminal_width(sys.__stdout__) or 80


def _columns() -> int | None:
    """Returns COLUMNS of the environment, None if it is no number above 0."""
    with contextlib.suppress(ValueError):
        return max(int(os.environ.get("COLUMNS", "")), 0) or None
    return None


def _terminal_width(stream: TextIO | None) -> int | None:
    """Characters in a line of the terminal that a stream writes to, None if it does not or the width is unknown."""
    with contextlib.suppress(AttributeError, OSError, ValueError):  # no terminal, no descriptor
        return (stream and os.get_terminal_size(stream.fileno()).columns) or None
    return None


class _Version(argparse.Action):
    """Prints the version and ends the command."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        print_text(f"{self.const} {VERSION}")
        parser.exit()


def exit_code(command: Callable[[], int]) -> int:
    """Runs a command. Errors and interrupts become a line on standard error and an exit code."""
    try:
        return command()
    except SystemExit as stop:  # --help
        return int(stop.code or 0)
    except RuntimeError as error:  # first, as a wrong answer of a rule in Python is a ValueError, too
        return fail(error, FAILED)
    except (UsageError, ValueError, FileNotFoundError) as error:
        return fail(error, BAD_INPUT)
    except KeyboardInterrupt:
        say("interrupted")
        return INTERRUPTED


def fail(message: object, code: int) -> int:
    say(f"error: {message}")
    return code


def say(message: str) -> None:
    """Writes one line on standard error, whatever the message contains; nothing if that is closed or full."""
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
    That describes the terminal; it does not mean a pipe or a file.
    """
    terminal = sys.stdout is not None and sys.stdout.isatty()
    columns = _columns() if terminal or "LINES" not in os.environ else None
    return columns or (_terminal_width(sys.stdout) if terminal else None)


def draws_boxes() -> bool:
    """Reports whether standard output shows box characters: its encoding has them, and it is no dumb terminal."""
    try:
        "┏━┳┓┃┡╇┩└┴┘…".encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except UnicodeEncodeError:
        return False
    terminal = sys.stdout is not None and sys.stdout.isatty()
    return not (terminal and os.environ.get("TERM", "dumb") in ("", "dumb"))


def run_process(main: Callable[[], int]) -> NoReturn:
    """Ends the process with the exit code of a command, with all that it has printed out.

    SIGTERM and SIGHUP end it as they end any program, but leave no half-written file.
    """
    try:
        _listen()
        status = _status(main)
    except _Terminated as terminated:
        _core.remove_drafts()
        _die_of(terminated.number)
    except KeyboardInterrupt:
        status = INTERRUPTED
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # the remaining clean-up could not report more about it
    _flush_errors()
    if status == INTERRUPTED:
        _core.remove_drafts()
        os._exit(status)  # without freeing the memory of a big run; everything printed was flushed
    if threading.active_count() > 1 or sys.flags.inspect or sys.getprofile() or sys.gettrace():
        sys.exit(status)  # which waits for threads, and tells whatever runs the command, a profiler for example
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, OSError, ValueError):
            stream.flush()
    os._exit(status)  # taking the interpreter apart takes longer than a short run


class _Terminated(BaseException):
    """A signal asks the process to end. Code that handles errors does not catch it."""

    def __init__(self, number: int) -> None:
        self.number = number


def _listen() -> None:
    """Turns Ctrl-C into KeyboardInterrupt and other signals to end into _Terminated; ignored signals stay ignored."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _terminate)
    begin()


def _terminate(number: int, _frame: FrameType | None) -> None:
    for other in (signal.SIGTERM, signal.SIGHUP):  # later signals change nothing
        if signal.getsignal(other) is _terminate:
            signal.signal(other, signal.SIG_IGN)
    raise _Terminated(number)


def _die_of(number: int) -> NoReturn:
    """Ends the process by a signal, as if there was no handler: its parent sees which signal."""
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    raise AssertionError("a signal that ends processes has not")


def _status(main: Callable[[], int]) -> int:
    try:
        status = main()
        if sys.stdout is not None:
            sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except OSError as error:  # of standard output; files have been written before it
        _discard(sys.stdout)
        if isinstance(error, BrokenPipeError):  # the reader, for example `head`, wants no more
            return 0
        return fail(f"cannot write to standard output: {error.strerror}", FAILED)
    return status


def _discard(stream: TextIO) -> None:
    """Drops the buffer of a stream that cannot be written, which would fail once more at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _flush_errors() -> None:
    if sys.stderr is not None:
        try:
            sys.stderr.flush()
        except OSError:
            _discard(sys.stderr)
