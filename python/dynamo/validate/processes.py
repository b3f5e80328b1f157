"""Spreads work that takes long over processes, which an interrupt or an error ends."""

from __future__ import annotations

import contextlib
import multiprocessing
import multiprocessing.connection
import multiprocessing.resource_tracker
import signal
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

Piece = TypeVar("Piece")
Done = TypeVar("Done")


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
    # Spawned: a Go runtime does not survive fork. Pipes instead of a pool's queues, whose semaphores would outlive an
    # interrupt.
    context = multiprocessing.get_context("spawn")
    waiting = list(reversed(range(len(pieces))))
    busy: dict[Any, int] = {}
    dead = f"a process of the {what} ended unexpectedly, perhaps for lack of memory"
    processes = []

    def hand_out(connection: Any) -> None:
        """Sends the next piece to the process behind a connection, if there is one left."""
        if waiting:
            busy[connection] = waiting.pop()
            try:
                connection.send(pieces[busy[connection]])
            except OSError:
                raise RuntimeError(dead) from None

    try:
        for _ in range(jobs):
            ours, theirs = context.Pipe()
            process = context.Process(target=_work_off, args=(theirs, work), daemon=True)
            with _without_interrupts():
                process.start()
            theirs.close()
            processes.append(process)
            hand_out(ours)
        while busy:
            for connection in multiprocessing.connection.wait(list(busy)):
                place, done = busy.pop(connection), _received(connection, dead)
                hand_out(connection)
                yield place, done
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.join()


@contextlib.contextmanager
def _without_interrupts() -> Iterator[None]:
    """Keeps Ctrl-C back for a moment, and from processes that are started in it: they inherit that for good.

    A terminal sends it to all processes of a command, and one that is still starting would print a traceback.
    """
    multiprocessing.resource_tracker.ensure_running()  # it unblocks Ctrl-C when it is started
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _received(connection: Any, dead: str) -> Any:
    try:
        done = connection.recv()
    except (EOFError, OSError):
        raise RuntimeError(dead) from None
    if isinstance(done, BaseException):
        raise RuntimeError(f"a replay failed: {type(done).__name__}: {done}")
    return done


def _work_off(connection: Any, work: Callable[[Any], object]) -> None:
    """What a process does: piece after piece, until it is ended or none is left.

    Ctrl-C, which a terminal sends to all processes of a command, is left to the one that started this one.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        try:
            piece = connection.recv()
        except EOFError:
            return
        try:
            connection.send(work(piece))
        except Exception as error:
            connection.send(error)
