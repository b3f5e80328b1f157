"""Carries out many replays on all cores.

Each process opens the AIC SDK once, and replays that ask it about the same model on the same GPUs go to one process,
because loading that takes longer than most replays.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import multiprocessing.connection
import os
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from dynamo.validate.measurement import ClosedLoop, Length, OpenLoop, Recorded, Refusal, Replay
from dynamo.validate.simulate import Outcome, simulate
from dynamo.validate.static import Static, static_prediction


class Result(NamedTuple):
    """A replay carried out: its outcome and AIC's static prediction, or why there is none."""

    replay: Replay
    outcome: Outcome | None
    static: Static | None
    refusal: str = ""


_DEAD = "a process of the validation ended unexpectedly, perhaps for lack of memory"

# How refusals begin that are about what the SDK is asked, whatever the rest of a replay is.
_UNKNOWN = "aic_"

OnResult = Callable[[int, int], object]


def cores() -> int:
    """Cores that this process may use."""
    with contextlib.suppress(AttributeError):  # not on macOS
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def run_all(replays: Sequence[Replay], jobs: int | None = None, on_result: OnResult | None = None) -> list[Result]:
    """The results of replays, in their order. ``on_result`` is called with how many are done, and of how many.

    Raises RuntimeError if a process dies. An exception, KeyboardInterrupt for one, ends the processes first.
    """
    batches = _batches(replays, jobs or cores())
    jobs = min(jobs or cores(), len(batches))
    results: list[Result | None] = [None] * len(replays)
    done = 0
    for batch, found in _carried_out(batches, jobs):
        for index, result in zip(batch.indices, found, strict=True):
            results[index] = result
        done += len(found)
        if on_result is not None:
            on_result(done, len(replays))
    return [result for result in results if result is not None]


class _Batch(NamedTuple):
    indices: list[int]
    replays: list[Replay]


def _batches(replays: Sequence[Replay], jobs: int) -> list[_Batch]:
    """Replays by what they ask the SDK about, those with most work first; a batch has no more than its share of it."""
    groups: dict[object, list[int]] = {}
    for index, replay in enumerate(replays):
        groups.setdefault(_asked(replay), []).append(index)
    share = sum(map(_work, replays)) / (20 * jobs)
    batches: list[list[int]] = []
    for indices in groups.values():
        batches += _split(indices, replays, share)
    batches.sort(key=lambda indices: -sum(_work(replays[index]) for index in indices))
    return [_Batch(indices, [replays[index] for index in indices]) for indices in batches]


def _split(indices: Iterable[int], replays: Sequence[Replay], share: float) -> Iterator[list[int]]:
    part: list[int] = []
    work = 0.0
    for index in indices:
        part.append(index)
        work += _work(replays[index])
        if work > share:
            yield part
            part, work = [], 0.0
    if part:
        yield part


def _asked(replay: Replay) -> object:
    """What a replay asks the SDK about: the engine arguments of one of its sessions."""
    return tuple(sorted((name, str(value)) for name, value in replay.engine.items() if name.startswith("aic_")))


def _work(replay: Replay) -> float:
    """About how many tokens a replay generates."""
    load = replay.workload
    if isinstance(load, Recorded):
        return float(sum(load.requests.osl))
    assert isinstance(load, ClosedLoop | OpenLoop)
    return float(load.requests * _most_tokens(load.osl))


def _most_tokens(length: Length) -> int:
    """The number in a length, or the last one in a distribution: its upper end, or near enough."""
    digits = "".join(c if c.isdigit() else " " for c in str(length)).split()
    return int(digits[-1]) if digits else 1


def _carried_out(batches: Sequence[_Batch], jobs: int) -> Iterator[tuple[_Batch, list[Result]]]:
    if jobs <= 1:
        for batch in batches:
            yield batch, _run_batch(batch.replays)
        return
    # Spawned: a Go runtime does not survive fork. Pipes instead of a pool's queues, whose semaphores would outlive an
    # interrupt.
    context = multiprocessing.get_context("spawn")
    waiting = list(reversed(batches))
    busy: dict[Any, _Batch] = {}
    workers = []
    try:
        for _ in range(jobs):
            ours, theirs = context.Pipe()
            worker = context.Process(target=_work_off, args=(theirs,), daemon=True)
            worker.start()
            theirs.close()
            workers.append(worker)
            _hand_out(waiting, busy, ours)
        while busy:
            for connection in multiprocessing.connection.wait(list(busy)):
                batch, found = busy.pop(connection), _received(connection)
                _hand_out(waiting, busy, connection)
                yield batch, found
    finally:
        for worker in workers:
            worker.terminate()
        for worker in workers:
            worker.join()


def _hand_out(waiting: list[_Batch], busy: dict[Any, _Batch], connection: Any) -> None:
    """Sends the next batch to the process behind a connection, if there is one left."""
    if waiting:
        busy[connection] = waiting.pop()
        try:
            connection.send(busy[connection].replays)
        except OSError:
            raise RuntimeError(_DEAD) from None


def _received(connection: Any) -> list[Result]:
    try:
        found = connection.recv()
    except (EOFError, OSError):
        raise RuntimeError(_DEAD) from None
    if isinstance(found, BaseException):
        raise RuntimeError(f"a replay failed: {type(found).__name__}: {found}")
    results: list[Result] = found
    return results


def _work_off(connection: Any) -> None:
    """What a process does: replays batch after batch, until it is ended or none is left.

    Ctrl-C, which a terminal sends to all processes of a command, is left to the one that started this one.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        try:
            replays = connection.recv()
        except EOFError:
            return
        try:
            connection.send(_run_batch(replays))
        except Exception as error:
            connection.send(error)


def _run_batch(replays: Sequence[Replay]) -> list[Result]:
    """The results of replays. What the SDK does not know it is asked once: looking for a model may take long."""
    unknown: dict[object, str] = {}
    results = []
    for replay in replays:
        asked = _asked(replay)
        result = Result(replay, None, None, unknown[asked]) if asked in unknown else _run(replay)
        if result.refusal.startswith(_UNKNOWN):
            unknown[asked] = result.refusal
        results.append(result)
    return results


def _run(replay: Replay) -> Result:
    try:
        outcome = simulate(replay)
    except Refusal as refusal:
        return Result(replay, None, None, str(refusal))
    return Result(replay, outcome, static_prediction(replay))
