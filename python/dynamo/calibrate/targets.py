"""The figures of a measurement that a fit compares."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dynamo.calibrate.knobs import Vector
from dynamo.validate.measurement import Figures, Measurement
from dynamo.validate.simulate import Outcome

METRICS = ("ttft", "tpot")
_FIGURES = ("mean", "p50", "p90", "p99")
# Of single requests, the mean and these percentiles describe the distribution.
_PERCENTILES = tuple(range(10, 100, 10))


@dataclass(frozen=True)
class Part:
    """The requests of a recorded run that count: from and to which share of them, in order of arrival."""

    begin: float = 0.0
    end: float = 1.0

    def of(self, values: object) -> NDArray[np.float64]:
        """The values of these requests that are known."""
        column = np.asarray(values, dtype=float)
        chosen = column[round(self.begin * len(column)) : round(self.end * len(column))]
        return chosen[~np.isnan(chosen)]


WHOLE = Part()


def measured(measurement: Measurement, part: Part = WHOLE) -> dict[str, Vector]:
    """The figures that a measurement has, by metric, in milliseconds."""
    if measurement.requests is not None:
        return {
            "ttft": _distribution(part.of(measurement.requests.ttft_ms)),
            "tpot": _distribution(part.of(measurement.requests.tpot_ms)),
        }
    return {metric: _known(getattr(measurement, metric), getattr(measurement, metric)) for metric in METRICS}


def simulated(measurement: Measurement, outcome: Outcome, part: Part = WHOLE) -> dict[str, Vector]:
    """The same figures of a replay."""
    if measurement.requests is not None:
        return {"ttft": _distribution(part.of(outcome.ttft_ms)), "tpot": _distribution(part.of(outcome.tpot_ms))}
    return {metric: _known(getattr(measurement, metric), getattr(outcome, metric)) for metric in METRICS}


def _known(of: Figures, values: Figures) -> Vector:
    names = [name for name in _FIGURES if getattr(of, name)]
    return np.array([math.nan if getattr(values, name) is None else getattr(values, name) for name in names])


def _distribution(values: NDArray[np.float64]) -> Vector:
    if not len(values):
        return np.array([])
    return np.array([values.mean(), *np.percentile(values, _PERCENTILES)])
