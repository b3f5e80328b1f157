"""The figures of a measurement that a fit compares."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dynamo.calibrate.knobs import Vector
from dynamo.validate.campaigns import had_cold_start
from dynamo.validate.measurement import Figures, Measurement, Replay
from dynamo.validate.scores import FIGURES, METRICS
from dynamo.validate.simulate import Outcome
from dynamo.validate.sources.silicon import CAMPAIGNS

# Of single requests, the mean and these percentiles describe the distribution: as many as a KS distance needs.
PERCENTILES = tuple(range(4, 100, 4))


@dataclass(frozen=True)
class Part:
    """The requests of a recorded run that count: from and to which share of them, in order of arrival."""

    begin: float = 0.0
    end: float = 1.0

    def of(self, values: object) -> NDArray[np.float64]:
        """Returns the values of these requests that are known."""
        column = np.asarray(values, dtype=float)
        chosen = column[round(self.begin * len(column)) : round(self.end * len(column))]
        known: Vector = chosen[~np.isnan(chosen)]
        return known


WHOLE = Part()


def measured(measurement: Measurement, part: Part = WHOLE) -> dict[str, Vector]:
    """Returns the figures that a measurement has, by metric, in milliseconds."""
    if measurement.requests is not None:
        return {
            "ttft": _distribution(part.of(measurement.requests.ttft_ms)),
            "tpot": _distribution(part.of(measurement.requests.tpot_ms)),
        }
    return {metric: _known(getattr(measurement, metric), getattr(measurement, metric)) for metric in METRICS}


def simulated(measurement: Measurement, outcome: Outcome, part: Part = WHOLE) -> dict[str, Vector]:
    """Returns the same figures of a replay."""
    if measurement.requests is not None:
        return {"ttft": _distribution(part.of(outcome.ttft_ms)), "tpot": _distribution(part.of(outcome.tpot_ms))}
    return {metric: _known(getattr(measurement, metric), getattr(outcome, metric)) for metric in METRICS}


# Beyond, queues decide the TTFT of a closed loop.
_MOST_CLIENTS = 128


def is_comparable(replay: Replay) -> bool:
    """Reports whether a measurement tells something about the knobs: fits look at these, and scores list them apart.

    Left out are requests that waited for KV, which shows in a TTFT of more than a third of the time that the answer
    took; and, of the silicon table, more than 128 clients, Llama-3.1-8B, which was measured with a prefix cache, and
    cold starts.
    """
    m = replay.measurement
    many = (m.concurrency or 0) > _MOST_CLIENTS
    if m.source in CAMPAIGNS and (many or "Llama-3.1-8B" in m.model or had_cold_start(m)):
        return False
    if m.concurrency is None or not isinstance(m.osl, int):
        return True
    return (m.ttft.mean or 0) <= (m.tpot.mean or 0) * m.osl / 3 or m.osl == 1


def _known(of: Figures, values: Figures) -> Vector:
    names = [name for name in FIGURES if getattr(of, name)]
    return np.array([math.nan if getattr(values, name) is None else getattr(values, name) for name in names])


def distance(simulated: Vector, measured: Vector) -> float:
    """Returns the KS distance of two distributions, from 0 to 1, as far as their percentiles tell it."""
    shares, places = np.array(PERCENTILES) / 100, np.sort(simulated[1:])
    # Where simulated percentiles are equal, the share jumps from the lower to the upper one.
    upper = np.interp(measured[1:], places, shares)
    lower = 1 - np.interp(-measured[1:], -places[::-1], 1 - shares[::-1])
    return float(np.max(np.maximum(0, np.maximum(shares - upper, lower - shares))))


def _distribution(values: NDArray[np.float64]) -> Vector:
    if not len(values):
        return np.array([])
    return np.array([values.mean(), *np.percentile(values, PERCENTILES)])
