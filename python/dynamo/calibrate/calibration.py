"""From measurements to a profile: the whole of a calibration."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dynamo.calibrate import folds, profile, targets
from dynamo.calibrate.fit import Fit, fit
from dynamo.calibrate.folds import tells
from dynamo.calibrate.knobs import NEUTRAL
from dynamo.calibrate.response import Response, design, is_closed, response
from dynamo.calibrate.scale import fit_scale
from dynamo.calibrate.subject import subjects
from dynamo.calibrate.targets import Part
from dynamo.calibrate.trials import Memory, OnTrial, Task, Trial, run_all
from dynamo.validate.mapping import Rules, replay_of
from dynamo.validate.measurement import Measurement, Refusal, Replay
from dynamo.validate.scores import METRICS

# How often the formula of an open loop is made anew around its last fit.
_ROUNDS = 8


@dataclass(frozen=True)
class Options:
    """How to calibrate.

    Attributes:
        rules: How measurements are replayed.
        folds: Into how many parts configurations are split for the score on what was held out; 0 holds nothing out.
            Runs of one configuration are held out one by one instead.
        part: Which requests of runs with single requests the fit sees.
        jobs: Processes.
        memory: File in which replays are kept, so that an interrupted calibration goes on; None keeps none.
        on_trial, on_step: Called with how much is done, and with what comes next in words.
        single_scale: Whether one factor on all durations is fitted, and nothing else.
    """

    rules: Rules = field(default_factory=Rules)
    folds: int = 5
    part: Part = targets.WHOLE
    jobs: int = 1
    memory: str | None = None
    on_trial: OnTrial | None = None
    on_step: Callable[[str], object] = lambda step: None
    single_scale: bool = False


@dataclass(frozen=True)
class Calibration:
    """What a calibration came to.

    Attributes:
        fit: The knobs of all groups.
        responses: How figures of each replay follow from the knobs.
        before: Trials without any knob.
        after: Trials with the knobs of a fit that had not seen their configuration; empty without folds.
        held: How these knobs were found, in the order of ``after``.
        without: The fit without each fold; empty without folds.
        refused: Measurements that were not replayed, by reason.
    """

    fit: Fit
    responses: Sequence[Response]
    before: Sequence[Trial]
    after: Sequence[Trial] = ()
    held: Sequence[folds.Held] = ()
    without: Sequence[folds.Fold] = ()
    refused: Mapping[str, int] = field(default_factory=dict)

    @property
    def replays(self) -> list[Replay]:
        """All that were replayed; not all of them are fitted (``folds.tells``)."""
        return [r.replay for r in self.responses]

    def choice(self, replay: Replay) -> profile.Choice | None:
        """Returns what the engine of a replay reads from the profile; None if nothing in it is for that."""
        return profile.chosen(self.fit, tells(self.responses), [replay])[0]

    def profile(self, about: Mapping[str, Any], kv_tokens: int = 0) -> dict[str, Any]:
        """Returns the profile, as ``profile.write`` takes it."""
        return profile.build(self.fit, tells(self.responses), about, kv_tokens, self.error_of_runs)

    @property
    def error_of_runs(self) -> dict[str, float] | None:
        """The median errors of runs that were held out one by one; None if configurations were, or nothing was."""
        if not self.held or not folds.by_run(self.replays):
            return None
        score = folds.score(self.replays, self.after)
        if score is None:
            return None
        medians = {metric: round(score.median[metric] / 100, 4) for metric in METRICS}
        return {**medians, "measurements": score.count}

    def fold_profiles(self, about: Mapping[str, Any], kv_tokens: int = 0) -> list[dict[str, Any]]:
        """Returns, for each fold, the profile that has not seen its configurations (``folds.fold_of`` tells which they
        are).
        """
        return [
            profile.build(fold.fit, fold.responses, {**about, "without_fold": place}, kv_tokens)
            for place, fold in enumerate(self.without)
        ]


def calibrate(measurements: Sequence[Measurement], options: Options = Options()) -> Calibration:  # immutable
    """Fits the knobs to measurements. Raises Refusal if none of them can be replayed."""
    refused: dict[str, int] = {}
    memory = Memory(options.memory)
    replays = _replays(measurements, options.rules, refused)

    def run(tasks: Sequence[Task]) -> list[list[Trial]]:
        return run_all(tasks, memory, options.jobs, options.on_trial)

    options.on_step(f"replaying {len(replays)} measurements with different knobs")
    tasks = [design(replay, options.part) for replay in replays]
    responses: list[Response] = []
    for task, subject, trials in zip(tasks, subjects(replays), run(tasks), strict=True):
        made = response(task, subject, trials)
        if isinstance(made, str):
            refused[made] = refused.get(made, 0) + 1
        else:
            responses.append(made)
    if not responses:
        raise Refusal("; ".join(refused) or "there are no measurements")
    options.on_step("fitting")
    before = [r.value(NEUTRAL) for r in responses]  # closed loops: exactly that
    fitter = fit_scale if options.single_scale else fit
    responses, fitted = _settled(responses, run, fitter)
    if not options.folds:
        return Calibration(fitted, responses, before, refused=refused)
    runs = folds.by_run([r.replay for r in responses])
    options.on_step("holding out each run" if runs else f"holding out configurations in {options.folds} folds")
    without = folds.fits(responses, options.folds, fitter)
    held = folds.held_out(responses, without)
    options.on_step("replaying what was held out")
    after = [trials[0] for trials in run(folds.tasks_of(held))]
    return Calibration(fitted, responses, before, after, held, without, refused)


def _replays(measurements: Sequence[Measurement], rules: Rules, refused: dict[str, int]) -> list[Replay]:
    found = []
    for measurement in measurements:
        try:
            found.append(_as_one_forward(replay_of(measurement, rules)))
        except Refusal as refusal:
            refused[str(refusal)] = refused.get(str(refusal), 0) + 1
    return found


def _as_one_forward(replay: Replay) -> Replay:
    """Returns the replay that a fit looks at: with durations of AIC, vLLM's passes are counted as one forward.

    What AIC predicts for prompts and for decoding counts twice in passes that do both; knobs would make up for that.
    """
    engine = replay.engine
    if engine.get("scheduler") != "vllm" or "aic_backend" not in engine:
        return replay
    return replace(replay, engine={"pass_time": "fused", **engine})


def _settled(
    responses: list[Response], run: Callable[[Sequence[Task]], list[list[Trial]]], fit: folds.Fitter
) -> tuple[list[Response], Fit]:
    """Fits, and for open loops makes the formulas anew around the fit, a few times: the best of these fits is returned.

    With formulas made around an estimate, its misfit is that of real replays.
    """
    found = fit(tells(responses))
    moving = [i for i, r in enumerate(responses) if not is_closed(r.replay)]
    if not moving:
        return responses, found
    settled: list[tuple[float, list[Response], Fit]] = []
    for _ in range(_ROUNDS):
        around = list(responses)
        tasks = [_around(found, responses[i]) for i in moving]
        for i, task, trials in zip(moving, tasks, run(tasks), strict=True):
            made = response(task, responses[i].subject, trials)
            if not isinstance(made, str):
                around[i] = made
        settled.append((found.misfit(tells(around)), around, found))
        responses, found = around, fit(tells(around))
    _, responses, found = min(settled, key=lambda one: one[0])
    return responses, found


def _around(found: Fit, old: Response) -> Task:
    values = found.values(old.subject)
    assert values is not None, "every response has been fitted"
    return design(old.replay, old.part, np.exp(values))
