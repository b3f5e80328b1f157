"""One factor on all durations: what three runs can tell of a card that is slower than predicted as a whole.

It is the one with the least errors, and where single requests were measured the one near that with which their
distributions are closest: one factor cannot make both mean TTFT and mean TPOT right, and errors of means let the worse
one decide.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.optimize import minimize_scalar

from dynamo.calibrate.fit import LEVELS, Estimate, Fit, misfit_of
from dynamo.calibrate.knobs import KNOBS, NAMES, NEUTRAL, Vector
from dynamo.calibrate.response import Response
from dynamo.calibrate.targets import distance
from dynamo.validate.scores import METRICS

SCALED = tuple(NAMES.index(name) for name in ("prefill_scale", "decode_scale"))
# What is left of knobs that are not fitted, as their logarithms have to be numbers: less than profiles show.
_NOTHING = 1e-6
_MOST = math.log(10)
# Where the closest factor is looked for, around the one with the least errors.
_NEARBY = tuple(0.97 + 0.001 * step for step in range(61))


def fit_scale(responses: Sequence[Response]) -> Fit:
    """Fits one factor to the measurements of each engine, and nothing else."""
    estimates = {}
    for engine in sorted({r.subject.engine for r in responses}):
        of_engine = [r for r in responses if r.subject.engine == engine]
        values = np.log(_knobs(_closest(of_engine, _best(of_engine))))
        for level in LEVELS:
            for key in sorted({level.key(r.subject) for r in of_engine}):
                rows = sum(level.key(r.subject) == key for r in of_engine)
                estimates[level.name, key] = Estimate(
                    level.name, key, values, rows, np.zeros(len(KNOBS)), np.eye(len(KNOBS))
                )
    return Fit(estimates, 0.0, measure=_apart)


def _best(responses: Sequence[Response]) -> float:
    """Returns the factor with the least errors."""

    def misfit(log: float) -> float:
        return sum(misfit_of(r, _knobs(math.exp(log))) for r in responses)

    return math.exp(minimize_scalar(misfit, bounds=(-_MOST, _MOST), method="bounded").x)


def _closest(responses: Sequence[Response], best: float) -> float:
    """Returns the factor near the best one with which distributions are closest; the best one if there are none."""
    if all(r.replay.measurement.requests is None for r in responses):
        return best
    return min(
        (best * share for share in _NEARBY), key=lambda factor: sum(_apart(r, _knobs(factor)) for r in responses)
    )


def _apart(response: Response, values: Vector) -> float:
    """Returns how far apart the distributions of single requests are, the larger of the KS distances of TTFT and TPOT;
    the misfit where only means were measured.
    """
    if response.replay.measurement.requests is None:
        return misfit_of(response, values)
    simulated = response.value(values)
    known = (metric for metric in METRICS if len(response.measured[metric]))
    return max((distance(simulated[metric], response.measured[metric]) for metric in known), default=0.0)


def _knobs(factor: float) -> Vector:
    values = np.maximum(NEUTRAL, _NOTHING)
    values[list(SCALED)] = factor
    return values
