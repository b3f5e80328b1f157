"""Finds the values of the knobs that agree best with measurements, for engines, GPUs and models at once.

The logarithm of a knob is a sum: what is expected of it, and what the engine, the GPU and the model add. All parts
are found together: the sum of squared errors of logarithms is minimised, with the size of each part as one more
error. Few measurements so move a knob little, and what they cannot tell apart stays where it is expected. How large
parts may be says what they are: kernels are faster or slower than their model by model, while host time comes with
engine and GPU. Large errors count less than their square, because some published measurements are wrong.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from scipy.optimize import least_squares

from dynamo.calibrate.knobs import EXPECTED, HIGH, KNOBS, LOW, SEQUENCE, SPREADS, Vector, rounded
from dynamo.calibrate.response import Response
from dynamo.calibrate.subject import Subject
from dynamo.validate.measurement import Replay
from dynamo.validate.scores import METRICS

Key: TypeAlias = tuple[str, ...]


class Level(NamedTuple):
    """A way to group measurements; ``name`` is what profiles call it."""

    name: str
    key: Callable[[Subject], Key]


# From the least to the most specific. "kin" is for a model that was measured on other GPUs or in other precisions.
LEVELS = (
    Level("engine", lambda s: (s.engine,)),
    Level("gpu", lambda s: (s.engine, s.system)),
    Level("kin", lambda s: (s.engine, s.system, s.model)),
    Level("model", lambda s: (s.engine, s.system, s.model, s.precision)),
)
# What adds to a knob: the engine, the GPU, the model wherever it runs, and the model as it runs there.
_PARTS: tuple[Callable[[Subject], Key], ...] = (
    LEVELS[0].key,
    LEVELS[1].key,
    lambda s: (s.engine, s.model),
    LEVELS[3].key,
)


class FactorKey(NamedTuple):
    """What a factor of a profile is for: any version, model or number of GPUs if "" or 0."""

    engine: str
    version: str = ""
    model: str = ""
    tp: int = 0


# What adds to that for releases of the engine, where that is known, and for numbers of GPUs. None adds nothing.
_FACTORS: tuple[Callable[[Subject], FactorKey | None], ...] = (
    lambda s: FactorKey(s.engine, s.version) if s.version else None,
    lambda s: FactorKey(s.engine, s.version, s.model) if s.version and s.model else None,
    lambda s: FactorKey(s.engine, "", s.model, s.tp) if s.tp and s.model else None,
)
# What a fit leaves of a knob that engines hide, in microseconds.
_HIDDEN = 0.01
# How far two measurements of the same thing are apart, as a standard deviation of the logarithm: another container
# image moves TTFT by 15 % and TPOT by 12 %, the same one by 2.5 % and 0.3 %.
_NOISE = {"ttft": 0.12, "tpot": 0.06}
# Single requests were measured with one image, and a profile of them is for that.
_NOISE_OF_REQUESTS = {"ttft": 0.05, "tpot": 0.025}
# The rows of a configuration share what the simulation has wrong about it, so more of them than this tell nothing new.
_TELLING_ROWS = 8
_TELLING_SIZES = 3
_LEAST_MS = 1e-4


@dataclass(frozen=True)
class Estimate:
    """The knobs of one group, as logarithms, and how they follow from its measurements."""

    level: str
    key: Key
    values: Vector
    # Those of its group, or for "kin" those of its model on all GPUs.
    measurements: int
    # Of each knob: the standard deviation that the measurements leave, as a share of what was expected beforehand.
    freedom: Vector
    # Between errors of two knobs; 1 or -1 where one makes up for the other.
    correlation: np.ndarray

    @property
    def knobs(self) -> tuple[float, ...]:
        """Values as a profile has them."""
        return rounded(np.exp(self.values))


@dataclass(frozen=True)
class Fit:
    """The estimates of all groups, and how far they are from what was expected, as a sum of squares."""

    estimates: Mapping[tuple[str, Key], Estimate]
    departure: float
    # What the fit minimises for each measurement, of its formula and the values of the knobs.
    measure: Callable[[Response, Vector], float]
    # Logarithms of what multiplies these estimates, and how many measurements they are of.
    factors: Mapping[FactorKey, tuple[Vector, int]] = field(default_factory=dict)

    def values(self, subject: Subject) -> Vector | None:
        """Returns the logarithms of the knobs of a subject that was fitted."""
        found = self.best(subject)
        if found is None:
            return None
        total: Vector = found.values.copy()
        for factor in _FACTORS:
            key = factor(subject)
            if key is not None and key in self.factors:
                total += self.factors[key][0]
        return total

    def best(self, subject: Subject) -> Estimate | None:
        """Returns the most specific estimate for a subject that was fitted; None if its engine was not measured."""
        for level in reversed(LEVELS):
            found = self.estimates.get((level.name, level.key(subject)))
            if found is not None:
                return found
        return None

    def misfit(self, responses: Iterable[Response]) -> float:
        """Returns what a fit minimises, with other formulas: those made around it have the errors of real replays."""
        total = self.departure
        for response in responses:
            found = self.values(response.subject)
            assert found is not None, "every response has been fitted"
            total += self.measure(response, np.exp(found))
        return total


def fit(responses: Sequence[Response]) -> Fit:
    """Fits the knobs to measurements."""
    estimates: dict[tuple[str, Key], Estimate] = {}
    factors: dict[FactorKey, tuple[Vector, int]] = {}
    departure = 0.0
    for engine in sorted({r.subject.engine for r in responses}):
        found, by, far = _Problem([r for r in responses if r.subject.engine == engine]).solved()
        estimates |= found
        factors |= by
        departure += far
    return Fit(estimates, departure, misfit_of, factors)


def misfit_of(response: Response, values: Vector) -> float:
    """Returns how far a measurement is from its simulation with these knobs, as a sum of squares."""
    return float(np.sum(_softened(_errors(response, values)) ** 2))


def _hides(replay: Replay) -> bool:
    """Reports whether an engine composes its next pass while one runs, so that the host's time for requests takes no
    time.
    """
    return replay.engine.get("scheduler") == "vllm" and replay.engine.get("async_scheduling", True) is not False


def _telling(responses: Sequence[Response]) -> Callable[[Subject], Iterator[_Group]]:
    """What says which factors a subject has.

    One release of an engine tells nothing apart, and two numbers of GPUs are hardly more than the configurations
    themselves.
    """
    versions = len({r.subject.version for r in responses}) > 1
    sizes: dict[str, set[int]] = {}
    for r in responses:
        sizes.setdefault(r.subject.model, set()).add(r.subject.tp)

    def factors(subject: Subject) -> Iterator[_Group]:
        for at, key in enumerate(_FACTORS):
            tells = versions if at < len(_FACTORS) - 1 else len(sizes[subject.model]) >= _TELLING_SIZES
            if tells and (found := key(subject)) is not None:
                yield len(_PARTS) + at, found

    return factors


_Group: TypeAlias = tuple[int, tuple[Any, ...]]  # place in _PARTS, or behind them in _FACTORS, and key


class _Problem:
    """The fit of one engine, in parts: for each group, what it adds to the logarithms of the knobs."""

    def __init__(self, responses: Sequence[Response]) -> None:
        self._responses = responses
        configurations = [r.replay.measurement.configuration for r in responses]
        rows = Counter(configurations)
        self._weights = [min(1.0, _TELLING_ROWS / rows[name]) ** 0.5 for name in configurations]
        hidden = all(_hides(r.replay) for r in responses)
        self._expected, self._low = EXPECTED.copy(), LOW.copy()
        if hidden:
            self._expected[SEQUENCE] = self._low[SEQUENCE] = math.log(_HIDDEN)
        factors = _telling(responses)
        chains = [[*_groups_of(r.subject), *factors(r.subject)] for r in responses]
        self._rows = Counter(group for chain in chains for group in chain)
        self._groups: list[_Group] = sorted({group for chain in chains for group in chain})
        self._place = {group: i for i, group in enumerate(self._groups)}
        self._chains = [[self._place[group] for group in chain] for chain in chains]
        spreads = np.array([SPREADS[at] for at, _ in self._groups])
        if hidden:
            spreads[:, SEQUENCE] = 1e-3
        self._spread = spreads.ravel()

    def solved(self) -> tuple[dict[tuple[str, Key], Estimate], dict[FactorKey, tuple[Vector, int]], float]:
        """Returns the estimates of the engine and the factors on them, and how far all are from what was expected."""
        solution = least_squares(
            self._residuals,
            np.zeros(len(self._spread)),
            jac=self._jacobian,
            x_scale=self._spread,
            ftol=1e-5,
            max_nfev=40,
        )
        covariance = np.linalg.inv(solution.jac.T @ solution.jac)
        found = {
            (level, key): self._estimate(solution.x, covariance, level, key, chain)
            for level, key, chain in self._wanted()
        }
        factors = {
            FactorKey(*key): (solution.x[self._columns(self._place[at, key])], self._rows[at, key])
            for at, key in self._groups
            if at >= len(_PARTS)
        }
        return found, factors, float(np.sum((solution.x / self._spread) ** 2))

    def _wanted(self) -> Iterator[tuple[str, Key, list[int]]]:
        """The level and key of each estimate, and the groups whose parts add up to it."""
        keys = [[key for at, key in self._groups if at == part] for part in range(len(_PARTS))]
        place = self._place
        for (engine,) in keys[0]:
            yield "engine", (engine,), [place[0, (engine,)]]
        for engine, system in keys[1]:
            above = [place[0, (engine,)], place[1, (engine, system)]]
            yield "gpu", (engine, system), above
            for _, model in keys[2]:
                yield "kin", (engine, system, model), [*above, place[2, (engine, model)]]
        for key in keys[3]:
            chain = next(chain for chain in self._chains if place[3, key] in chain)
            yield "model", key, chain[: len(_PARTS)]

    def _residuals(self, x: Vector) -> Vector:
        parts = []
        for r, w, chain in zip(self._responses, self._weights, self._chains, strict=True):
            parts.append(_softened(w * _errors(r, np.exp(self._sum(x, chain)))))
        return np.concatenate([*parts, x / self._spread])

    def _jacobian(self, x: Vector) -> np.ndarray:
        blocks = []
        for r, w, chain in zip(self._responses, self._weights, self._chains, strict=True):
            values = np.exp(self._sum(x, chain))
            errors, slopes = w * _errors(r, values), w * _slopes(r, values)
            block = np.zeros((len(errors), len(x)))
            for i in chain:
                block[:, self._columns(i)] = _softening(errors)[:, None] * slopes
            blocks.append(block)
        return np.vstack([*blocks, np.diag(1 / self._spread)])

    def _sum(self, x: Vector, chain: Iterable[int]) -> Vector:
        total = self._expected + sum(x[self._columns(i)] for i in chain)
        clipped: Vector = np.clip(total, self._low, HIGH)
        return clipped

    def _columns(self, i: int) -> slice:
        return slice(i * len(KNOBS), (i + 1) * len(KNOBS))

    def _estimate(self, x: Vector, covariance: np.ndarray, level: str, key: Key, chain: Sequence[int]) -> Estimate:
        left = sum(covariance[self._columns(a), self._columns(b)] for a in chain for b in chain)
        deviation = np.sqrt(np.diag(left))
        expected = np.sqrt(np.sum(np.square([SPREADS[self._groups[i][0]] for i in chain]), axis=0))
        rows = self._rows[self._groups[chain[-1]]]
        correlation = left / np.outer(deviation, deviation)
        return Estimate(level, key, self._sum(x, chain), rows, deviation / expected, correlation)


def _groups_of(subject: Subject) -> Iterator[_Group]:
    """Engine, GPU, model, and the model on that GPU."""
    yield from ((at, key(subject)) for at, key in enumerate(_PARTS))


def _errors(response: Response, values: Vector) -> Vector:
    """Logarithms of simulated over measured, in units of noise; all percentiles together count as much as the mean."""
    simulated = response.value(values)
    units = _units(response)
    parts = [
        np.log(np.maximum(simulated[metric], _LEAST_MS) / response.measured[metric]) * units[metric]
        for metric in METRICS
    ]
    return np.concatenate(parts)


def _slopes(response: Response, values: Vector) -> np.ndarray:
    """Derivatives of the errors by the logarithms of the knobs."""
    simulated, slopes, units = response.value(values), response.slope(values), _units(response)
    parts = [
        (slopes[metric] * values[:, None] / np.maximum(simulated[metric], _LEAST_MS) * units[metric]).T
        for metric in METRICS
    ]
    return np.vstack(parts)


def _units(response: Response) -> dict[str, Vector]:
    """Returns by what the errors of figures are multiplied."""
    noise = _NOISE if response.replay.measurement.requests is None else _NOISE_OF_REQUESTS
    found = {}
    for metric in METRICS:
        count = len(response.measured[metric])
        units = np.full(count, 1 / noise[metric])
        units[1:] /= max(1, count - 1) ** 0.5
        found[metric] = units
    return found


def _softened(errors: Vector) -> Vector:
    """Returns errors whose squares grow like their size where they are large."""
    soft: Vector = np.sign(errors) * np.sqrt(2 * (np.sqrt(1 + errors**2) - 1))
    return soft


def _softening(errors: Vector) -> Vector:
    """Returns the derivative of ``_softened``."""
    root = np.sqrt(1 + errors**2)
    slope: Vector = (root + 1) ** 0.5 / (2**0.5 * root)
    return slope
