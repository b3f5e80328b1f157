"""Carries out many replays on all cores.

Each process opens the AIC SDK once, and replays that ask it about the same model on the same GPUs go to one process,
because loading that takes longer than most replays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from dynamo._shell.cores import cores
from dynamo._shell.processes import spread
from dynamo.validate.measurement import ClosedLoop, OpenLoop, Recorded, Refusal, Replay, longest
from dynamo.validate.simulate import Outcome, simulate
from dynamo.validate.static import Static, static_prediction


class Result(NamedTuple):
    """A replay carried out: its outcome and AIC's static prediction, or why there is none."""

    replay: Replay
    outcome: Outcome | None
    static: Static | None
    refusal: str = ""


# How refusals begin that are about what the SDK is asked, whatever the rest of a replay is.
_UNKNOWN = "aic_"

OnResult = Callable[[int, int], object]


def run_all(replays: Sequence[Replay], jobs: int | None = None, on_result: OnResult | None = None) -> list[Result]:
    """Returns the results of replays, in their order. ``on_result`` is called with how many are done, and of how many.

    Raises RuntimeError if a process dies. An exception, KeyboardInterrupt for one, ends the processes first.
    """
    jobs = jobs or cores()
    batches = _batches(replays, jobs)
    results: list[Result | None] = [None] * len(replays)
    done = 0
    pieces = [[replays[index] for index in batch] for batch in batches]
    for place, found in spread(_run_batch, pieces, jobs, "validation"):
        for index, result in zip(batches[place], found, strict=True):
            results[index] = result
        done += len(found)
        if on_result is not None:
            on_result(done, len(replays))
    return [result for result in results if result is not None]


def _batches(replays: Sequence[Replay], jobs: int) -> list[list[int]]:
    """Places of replays by what they ask the SDK about, those with most work first.

    A batch has no more than its share of it.
    """
    groups: dict[object, list[int]] = {}
    for index, replay in enumerate(replays):
        groups.setdefault(asked(replay), []).append(index)
    share = sum(map(_work, replays)) / (20 * jobs)
    batches: list[list[int]] = []
    for indices in groups.values():
        batches += _split(indices, replays, share)
    return sorted(batches, key=lambda indices: -sum(_work(replays[index]) for index in indices))


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


def asked(replay: Replay) -> object:
    """Returns what a replay asks the SDK about: the engine arguments of its sessions."""
    pools = [replay.engine] if replay.split is None else [replay.split.prefill, replay.engine]
    return tuple(
        sorted(
            (pool, name, str(value))
            for pool, args in enumerate(pools)
            for name, value in args.items()
            if name.startswith("aic_")
        )
    )


def _work(replay: Replay) -> float:
    """Returns about how many tokens a replay generates."""
    load = replay.workload
    if isinstance(load, Recorded):
        return float(sum(load.requests.osl))
    assert isinstance(load, ClosedLoop | OpenLoop)
    return float(load.requests * longest(load.osl))


def _run_batch(replays: Sequence[Replay]) -> list[Result]:
    """Returns the results of replays. What the SDK does not know it is asked once: looking for a model may take
    long.
    """
    unknown: dict[object, str] = {}
    results = []
    for replay in replays:
        question = asked(replay)
        result = Result(replay, None, None, unknown[question]) if question in unknown else _run(replay)
        if result.refusal.startswith(_UNKNOWN):
            unknown[question] = result.refusal
        results.append(result)
    return results


def _run(replay: Replay) -> Result:
    try:
        outcome = simulate(replay)
    except Refusal as refusal:
        return Result(replay, None, None, str(refusal))
    return Result(replay, outcome, static_prediction(replay))
