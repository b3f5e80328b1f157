"""Fits one factor on all durations: what three runs can tell of a card that is slower than predicted as a whole.

First the factor with the smallest errors is found. If single requests were measured, the factor within 3 % of it with
the smallest KS distances is taken instead, as errors of means let the worse one of TTFT and TPOT decide.
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
    return Fit(estimates, 0.0, _apart if any(map(_has_requests, responses)) else misfit_of)


def _best(responses: Sequence[Response]) -> float:
    """Returns the factor with the least errors."""

    def misfit(log: float) -> float:
        return sum(misfit_of(r, _knobs(math.exp(log))) for r in responses)

    return math.exp(minimize_scalar(misfit, bounds=(-_MOST, _MOST), method="bounded").x)


def _closest(responses: Sequence[Response], best: float) -> float:
    """Returns the factor near the best one with which distributions are closest; of equal ones that nearest to it."""

    def apart(share: float) -> tuple[float, float]:
        return sum(_apart(r, _knobs(best * share)) for r in responses), abs(share - 1)

    return best * min(_NEARBY, key=apart)


def _has_requests(response: Response) -> bool:
    return response.replay.measurement.requests is not None


def _apart(response: Response, values: Vector) -> float:
    """Returns how far apart the distributions of single requests are: the larger of the KS distances of TTFT and TPOT.

    Runs of which only means were measured say nothing about that.
    """
    if not _has_requests(response):
        return 0.0
    simulated = response.value(values)
    known = (metric for metric in METRICS if len(response.measured[metric]))
    return max((distance(simulated[metric], response.measured[metric]) for metric in known), default=0.0)


def _knobs(factor: float) -> Vector:
    values = np.maximum(NEUTRAL, _NOTHING)
    values[list(SCALED)] = factor
    return values
