"""How well a fit predicts what it has not seen: configurations are held out in turn."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np

from dynamo.calibrate import profile, targets
from dynamo.calibrate.fit import Fit, fit
from dynamo.calibrate.response import Response
from dynamo.calibrate.targets import Part, is_comparable
from dynamo.calibrate.trials import Task, Trial
from dynamo.validate.measurement import Replay
from dynamo.validate.scores import METRICS

_RESAMPLES = 500
# Two runs leave one to fit, which tells nothing about loads.
_LEAST_RUNS = 3
_MOST_ALONE = 12


Fitter: TypeAlias = Callable[[Sequence[Response]], Fit]


class Held(NamedTuple):
    """A replay that a fit has not seen, and the knobs that its engine reads from the profile of that fit.

    None and "" if the profile has nothing for that engine.
    """

    replay: Replay
    part: Part
    knobs: tuple[float, ...] | None
    level: str


def fold_of(configuration: str, folds: int) -> int:
    """Returns which fold holds a configuration out. Engines, shapes and concurrencies of one stay together."""
    return int(hashlib.sha256(configuration.encode()).hexdigest(), 16) % folds


def by_run(replays: Sequence[Replay]) -> bool:
    """Reports whether runs are held out instead of configurations: all are of one."""
    return len({replay.measurement.configuration for replay in replays}) == 1 and len(replays) >= _LEAST_RUNS


def places(replays: Sequence[Replay], folds: int) -> list[int]:
    """Returns the fold that holds each replay out. Runs of one configuration are held out one by one if they are
    few.
    """
    if not by_run(replays):
        return [fold_of(replay.measurement.configuration, folds) for replay in replays]
    count = len(replays) if len(replays) <= _MOST_ALONE else folds
    return [place % count for place in range(len(replays))]


class Fold(NamedTuple):
    """A fit without the configurations of a fold, and the responses that it was made from."""

    fit: Fit
    responses: Sequence[Response]


def fits(responses: Sequence[Response], folds: int, fit: Fitter = fit) -> list[Fold]:
    """Returns, for each fold, a fit to the responses of all others that tell something about knobs."""
    telling = {id(r) for r in tells(responses)}
    replays = [r.replay for r in responses]
    held = places(replays, folds)
    found = []
    for fold in range(1 + max(held) if by_run(replays) else folds):
        others = [r for r, place in zip(responses, held, strict=True) if id(r) in telling and place != fold]
        found.append(Fold(fit(others), others))
    return found


def held_out(responses: Sequence[Response], without: Sequence[Fold]) -> list[Held]:
    """Returns, for each response, the knobs of the fit that has not seen its configuration."""
    replays = [r.replay for r in responses]
    choices = [profile.chosen(fold.fit, fold.responses, replays) for fold in without]
    found = []
    for place, (r, fold) in enumerate(zip(responses, places(replays, len(without)), strict=True)):
        choice = choices[fold][place]
        known = (choice.knobs, choice.level) if choice else (None, "")
        found.append(Held(r.replay, r.part, *known))
    return found


def tells(responses: Sequence[Response]) -> list[Response]:
    """Returns the responses that a fit looks at, or all if it would look at none."""
    return [r for r in responses if is_comparable(r.replay)] or list(responses)


@dataclass(frozen=True)
class Score:
    """Errors of a group of replays, in percent: medians and means of their sizes, 90 % intervals of the medians."""

    count: int
    median: dict[str, float]
    mean: dict[str, float]
    interval: dict[str, tuple[float, float]]


def score(replays: Sequence[Replay], trials: Sequence[Trial], part: Part = targets.WHOLE) -> Score | None:
    """Returns the errors of trials; None if there are none. Intervals come from drawing configurations anew.

    Runs are drawn where all are of one configuration.
    """
    rows: list[dict[str, float]] = []
    clusters: dict[str, list[int]] = {}
    alone = by_run(replays)
    for replay, trial in zip(replays, trials, strict=True):
        if isinstance(trial, str):
            continue
        measured = targets.measured(replay.measurement, part)
        row = {m: float(abs(trial[m][0] / measured[m][0] - 1) * 100) for m in METRICS if len(measured[m])}
        name = replay.measurement.id if alone else replay.measurement.configuration
        clusters.setdefault(name, []).append(len(rows))
        rows.append(row)
    if not rows:
        return None
    sizes = {m: np.array([row.get(m, np.nan) for row in rows]) for m in METRICS}
    draws = _draws(list(clusters.values()))
    return Score(
        len(rows),
        {m: float(np.nanmedian(sizes[m])) for m in METRICS},
        {m: float(np.nanmean(sizes[m])) for m in METRICS},
        {m: _interval(np.array([np.nanmedian(sizes[m][draw]) for draw in draws])) for m in METRICS},
    )


def _draws(clusters: Sequence[Sequence[int]]) -> list[np.ndarray]:
    random = np.random.default_rng(0)
    indices = [np.array(cluster) for cluster in clusters]
    return [
        np.concatenate([indices[k] for k in random.integers(len(indices), size=len(indices))])
        for _ in range(_RESAMPLES)
    ]


def _interval(values: np.ndarray) -> tuple[float, float]:
    low, high = np.percentile(values, (5, 95))
    return float(low), float(high)


def tasks_of(held: Sequence[Held]) -> list[Task]:
    """Returns the replays that say how good held-out knobs are."""
    return [Task(h.replay, (h.knobs,), h.part) for h in held]
