"""Work in processes of their own: what crashes takes nothing else along, an interrupt or an error ends all of it."""

from __future__ import annotations

import contextlib
import os
import pickle
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

Piece = TypeVar("Piece")
Done = TypeVar("Done")


_POLL_MS = 100


class Died(Exception):
    """A process has ended in the middle of its work, and how."""


class Process:
    """A process that does one piece of work after another, and ends with this one."""

    def __init__(self) -> None:
        # A session of its own: Ctrl-C on the terminal is a matter of the process that has started this one.
        with _without_interrupts():
            self._process = subprocess.Popen(
                [sys.executable, "-m", "dynamo._shell.child"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                start_new_session=True,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
            )

    def begin(self, work: Callable[[Piece], object], piece: Piece) -> None:
        """Has it call ``work``, a function of a module. Raises Died."""
        assert self._process.stdin is not None
        try:
            sent = pickle.dumps((work, piece))
            self._process.stdin.write(len(sent).to_bytes(8, "big") + sent)
            self._process.stdin.flush()
        except OSError:
            raise self._death() from None

    def fileno(self) -> int:
        """Returns the descriptor that becomes readable when the work is done, or the process has died."""
        assert self._process.stdout is not None
        return self._process.stdout.fileno()

    def done(self, limit_s: float | None, stopped: Callable[[], bool]) -> bool:
        """Waits for the end of the work, for a time at most, and until ``stopped`` says so. Whether it has come."""
        ends = None if limit_s is None else time.monotonic() + limit_s
        ready = select.poll()
        ready.register(self, select.POLLIN)
        while not ready.poll(_POLL_MS):
            if stopped() or (ends is not None and time.monotonic() > ends):
                return False
        return True

    def result(self) -> Any:
        """Returns what came out of the work. Raises the exception with which it has failed, or Died."""
        assert self._process.stdout is not None
        try:
            failed, result = pickle.load(self._process.stdout)
        except (EOFError, OSError, pickle.UnpicklingError):
            raise self._death() from None
        if failed:
            raise result
        return result

    def _death(self) -> Died:
        self.end(kill=False)
        code = self._process.returncode
        return Died(f"was ended by {signal.Signals(-code).name}" if code < 0 else f"has ended with exit code {code}")

    def end(self, *, kill: bool = True) -> None:
        """Ends the process, or waits for the end of one that has closed its output."""
        if kill:
            self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            try:
                pipe.close()
            except OSError:  # what could not be written any more
                continue
        self._process.wait()


@contextlib.contextmanager
def _without_interrupts() -> Iterator[None]:
    """Keeps SIGINT back for a moment, and from processes that are started in it: they inherit that for good.

    One that is still starting would print a traceback.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def spread(work: Callable[[Piece], Done], pieces: Sequence[Piece], jobs: int, what: str) -> Iterator[tuple[int, Done]]:
    """Does ``work``, a function of a module, with each piece in up to ``jobs`` processes; in this one if that is one.

    Yields the place of a piece and what came out, in the order in which pieces are done; they are begun in their own.
    Raises RuntimeError if a process dies, in words about ``what``, or if work fails in it. Closing the iterator, as an
    exception does, KeyboardInterrupt for one, ends the processes.
    """
    jobs = min(jobs, len(pieces))
    if jobs <= 1:
        for place, piece in enumerate(pieces):
            yield place, work(piece)
        return
    waiting = list(reversed(range(len(pieces))))
    processes: list[Process] = []
    busy: dict[int, tuple[Process, int]] = {}
    ready = select.poll()

    def hand_out(process: Process) -> None:
        """Begins the next piece, if there is one left."""
        if waiting:
            place = waiting.pop()
            process.begin(work, pieces[place])
            busy[process.fileno()] = process, place
            ready.register(process, select.POLLIN)

    try:
        for _ in range(jobs):
            processes.append(Process())
            hand_out(processes[-1])
        while busy:
            for descriptor, _ in ready.poll():
                process, place = busy.pop(descriptor)
                ready.unregister(descriptor)
                done = _result(process)
                hand_out(process)
                yield place, done
    except Died:
        raise RuntimeError(f"a process of the {what} ended unexpectedly, perhaps for lack of memory") from None
    finally:
        for process in processes:
            process.end()


def _result(process: Process) -> Any:
    try:
        return process.result()
    except Died:
        raise
    except Exception as error:
        raise RuntimeError(f"a replay failed: {type(error).__name__}: {error}") from None
