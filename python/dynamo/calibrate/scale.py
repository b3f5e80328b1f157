"""One factor on all durations: what three runs can tell of a card that is slower than predicted as a whole."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.optimize import minimize_scalar

from dynamo.calibrate.fit import LEVELS, Estimate, Fit, misfit_of
from dynamo.calibrate.knobs import KNOBS, NAMES, NEUTRAL, Vector
from dynamo.calibrate.response import Response

SCALED = tuple(NAMES.index(name) for name in ("prefill_scale", "decode_scale"))
# What is left of knobs that are not fitted, as their logarithms have to be numbers: less than profiles show.
_NOTHING = 1e-6
_MOST = math.log(10)


def fit_scale(responses: Sequence[Response]) -> Fit:
    """Fits one factor to the measurements of each engine, and nothing else."""
    estimates = {}
    for engine in sorted({r.subject.engine for r in responses}):
        of_engine = [r for r in responses if r.subject.engine == engine]
        values = np.log(_knobs(_best(of_engine)))
        for level in LEVELS:
            for key in sorted({level.key(r.subject) for r in of_engine}):
                rows = sum(level.key(r.subject) == key for r in of_engine)
                estimates[level.name, key] = Estimate(
                    level.name, key, values, rows, np.zeros(len(KNOBS)), np.eye(len(KNOBS))
                )
    return Fit(estimates, 0.0)


def _best(responses: Sequence[Response]) -> float:
    """Returns the factor with the least errors."""

    def misfit(log: float) -> float:
        return sum(misfit_of(r, _knobs(math.exp(log))) for r in responses)

    return math.exp(minimize_scalar(misfit, bounds=(-_MOST, _MOST), method="bounded").x)


def _knobs(factor: float) -> Vector:
    values = np.maximum(NEUTRAL, _NOTHING)
    values[list(SCALED)] = factor
    return values
