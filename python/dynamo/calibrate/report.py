"""What a calibration came to, as text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from dynamo.calibrate import folds, profile, targets
from dynamo.calibrate.advice import advice
from dynamo.calibrate.calibration import Calibration
from dynamo.calibrate.knobs import KNOBS, engine_arguments
from dynamo.calibrate.targets import Part
from dynamo.calibrate.trials import Trial
from dynamo.validate.measurement import Replay
from dynamo.validate.scores import METRICS, ks_distance
from dynamo.validate.simulate import simulate


def as_text(found: Calibration, part: Part = targets.WHOLE) -> str:
    """Returns errors before and after on what was held out, the knobs, and what measurements leave open."""
    lines = [f"{len(found.replays)} measurements fitted"]
    lines += [f"  {count} refused: {reason}" for reason, count in sorted(found.refused.items())]
    if found.held:
        lines += ["", *_held_out(found)]
    if error := found.error_of_runs:
        lines += ["", _expected(error)]
    if part != targets.WHOLE:
        lines += ["", *_rest(found, part)]
    lines += ["", *_knobs(found)]
    if hints := advice(found.fit):
        lines += ["", *(f"note: {hint}" for hint in hints)]
    return "\n".join(lines)


def _held_out(found: Calibration) -> Iterator[str]:
    others = "runs" if folds.by_run(found.replays) else "configurations"
    yield f"Error of means, %: median [90 % interval], mean; after: with knobs fitted to other {others}"
    yield f"{'':34} {'rows':>5}   {'TTFT before':>13}   {'after':>27}   {'TPOT before':>13}   {'after':>27}"
    for engine, rows, some in _rows(found):
        yield from _line(engine, found, rows)
        if some:
            yield from _line(f"{engine}, those that tell", found, some)


def _expected(error: Mapping[str, float]) -> str:
    """Returns the promise of the profile, which reports repeat."""
    ttft, tpot = (100 * error[metric] for metric in METRICS)
    return (
        f"Expected error of loads like these: TTFT {ttft:.0f} %, TPOT {tpot:.0f} % ({error['measurements']:.0f} runs,"
        " each predicted by a fit to the others, median)"
    )


def _rows(found: Calibration) -> Iterator[tuple[str, list[int], list[int]]]:
    """The places of an engine's replays, and of the comparable ones; of none if all or none are."""
    for engine in sorted({r.measurement.engine for r in found.replays}):
        rows = [i for i, r in enumerate(found.replays) if r.measurement.engine == engine]
        some = [i for i in rows if targets.is_comparable(found.replays[i])]
        yield engine, rows, some if len(some) < len(rows) else []


def _line(name: str, found: Calibration, rows: Sequence[int]) -> Iterator[str]:
    replays = [found.replays[i] for i in rows]
    before = folds.score(replays, [found.before[i] for i in rows])
    after = folds.score(replays, [found.after[i] for i in rows])
    if before is None or after is None:
        return
    cells = []
    for metric in METRICS:
        low, high = after.interval[metric]
        cells.append(f"{before.median[metric]:6.1f}, {before.mean[metric]:6.1f}")
        cells.append(f"{after.median[metric]:5.1f} [{low:5.1f}, {high:5.1f}], {after.mean[metric]:6.1f}")
    yield f"{name:34} {after.count:>5}   " + "   ".join(cells)


def _rest(found: Calibration, part: Part) -> Iterator[str]:
    yield f"Requests that were not fitted (the last {(1 - part.end) * 100:.0f} %), error of the simulation in %:"
    header = f"{'mean':>8} {'p50':>8} {'p99':>8} {'KS':>6}"
    yield f"{'':44} {'TTFT':>5}{header}   {'TPOT':>5}{header}"
    for replay, word, compared in rest(found, part):
        cells = "  ".join(f"     {' '.join(f'{off:+8.1f}' for off in c[:-1])} {c[-1]:6.2f}" for c in compared)
        yield f"{replay.measurement.id[:34]:35} {word:6} {cells}"


def rest(found: Calibration, part: Part) -> Iterator[tuple[Replay, str, list[list[float]]]]:
    """Runs of single requests, the part that the fit has not seen, "before" and "after".

    For TTFT and TPOT the errors of mean, p50 and p99 in percent, and the KS distance.
    """
    unseen = Part(part.end, 1.0)
    for replay in found.replays:
        choice = found.choice(replay)
        if replay.measurement.requests is None or choice is None:
            continue
        unfitted = {"pass_time": "separate"} if "pass_time" in replay.engine else {}  # the default
        for word, knobs in (("before", unfitted), ("after", engine_arguments(choice.knobs))):
            yield replay, word, list(_compared(replay, knobs, unseen))


def _compared(replay: Replay, knobs: Mapping[str, float | str], part: Part) -> Iterator[list[float]]:
    outcome = simulate(replace(replay, engine={**replay.engine, **knobs}))
    requests = replay.measurement.requests
    assert requests is not None, "runs without single requests are left out"
    for metric in METRICS:
        measured, got = part.of(getattr(requests, f"{metric}_ms")), part.of(getattr(outcome, f"{metric}_ms"))
        figures: tuple[Callable[[np.ndarray], float], ...] = (np.mean, np.median, lambda x: float(np.percentile(x, 99)))
        distance = ks_distance(measured, got)
        assert distance is not None, "there are requests in both parts"
        yield [*((f(got) / f(measured) - 1) * 100 for f in figures), distance]


def _knobs(found: Calibration) -> Iterator[str]:
    yield f"{'knobs':58} {'rows':>5} " + " ".join(f"{knob.name:>19}" for knob in KNOBS)
    for estimate in found.fit.estimates.values():
        if estimate.level == "kin":
            continue
        values = " ".join(f"{value:>19.4g}" if value >= profile.LEAST else f"{'-':>19}" for value in estimate.knobs)
        name = f"{estimate.level}: {' '.join(part for part in estimate.key if part)}"
        yield f"{name:58} {estimate.measurements:>5} {values}"


def scores(found: Calibration) -> dict[str, object]:
    """Returns the errors on what was held out, for the profile; empty if nothing was."""
    if not found.held:
        return {}
    return {
        engine: {"all": _score(found, rows), **({"comparable": _score(found, some)} if some else {})}
        for engine, rows, some in _rows(found)
    }


def _score(found: Calibration, rows: Sequence[int]) -> dict[str, object]:
    def rated(trials: Sequence[Trial]) -> dict[str, object]:
        score = folds.score([found.replays[i] for i in rows], [trials[i] for i in rows])
        if score is None:
            return {}
        return {
            "measurements": score.count,
            **{f"median_{m}_error_percent": round(score.median[m], 2) for m in METRICS},
            **{f"mean_{m}_error_percent": round(score.mean[m], 2) for m in METRICS},
        }

    return {"before": rated(found.before), "after": rated(found.after)}
