"""What the command lines share: exit codes, messages, and how their processes end."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, NoReturn, TextIO

from dynamo import _core
from dynamo._start import begin

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


def progress() -> Any:
    """A progress bar on a terminal, nothing otherwise."""
    if sys.stderr is not None and sys.stderr.isatty():
        from dynamo.replay.progress import ProgressBar

        return ProgressBar()
    return contextlib.nullcontext()


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
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # nothing of what is left to do could say more about it
    _flush_errors()
    if status == INTERRUPTED:
        _core.remove_drafts()
        os._exit(status)  # without freeing what a big run holds; everything printed is out
    sys.exit(status)


class _Terminated(BaseException):
    """A signal asks the process to end. No handler of errors catches it."""

    def __init__(self, number: int) -> None:
        self.number = number


def _listen() -> None:
    """Ctrl-C becomes KeyboardInterrupt, what else asks the process to end _Terminated; ignored signals stay so."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _terminate)
    begin()


def _terminate(number: int, _frame: FrameType | None) -> None:
    for other in (signal.SIGTERM, signal.SIGHUP):  # one is enough
        if signal.getsignal(other) is _terminate:
            signal.signal(other, signal.SIG_IGN)
    raise _Terminated(number)


def _die_of(number: int) -> NoReturn:
    """Ends the process by a signal, as if it had not been listened to: its parent sees which one."""
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
