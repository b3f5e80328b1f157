"""How the figures of a measurement follow from the knobs, as a formula made from a few replays.

In a closed loop without a request overhead the order of things does not depend on how long passes take: counts decide
which requests share a pass. Then mean TTFT and TPOT are sums of pass durations, and so linear in every knob
that stretches passes; five replays tell all coefficients. The request overhead does move arrivals: what it adds is
taken from replays with a few values of it, and interpolated. Open loops, where arrivals do not wait for passes, are
linear only nearby: their formula is made anew around each fit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dynamo.calibrate import targets
from dynamo.calibrate.knobs import EXPECTED, REQUEST, TOKEN, WAY, Vector
from dynamo.calibrate.subject import Subject
from dynamo.calibrate.targets import Part
from dynamo.calibrate.trials import Task, Trial
from dynamo.validate.measurement import ClosedLoop, Recorded, Replay, mean_length
from dynamo.validate.scores import METRICS

# Request overheads, in microseconds, at which closed loops are replayed.
# The first few milliseconds count most: a request that comes just after a pass has begun waits for all of it.
_REQUEST_US = {"vllm": (4_000.0, 15_000.0, 40_000.0), "sglang": (60_000.0, 120_000.0, 200_000.0)}
_OTHER_REQUEST_US = (15_000.0, 60_000.0, 200_000.0)
# By which factor a knob is changed to see what it does.
_STEP = 1.3
_NEARBY = 1.15


@dataclass(frozen=True)
class Response:
    """A measurement, what its fit is about, and what its figures would be.

    ``value(knobs)`` is the simulated figures by metric for values of the knobs.
    """

    replay: Replay
    subject: Subject
    part: Part
    measured: dict[str, Vector]
    base: Vector
    at_base: dict[str, Vector]
    slopes: dict[str, np.ndarray]  # [knob, figure], per unit of a knob
    request_us: Vector  # where the effect of the request overhead is known, ascending
    at_request: dict[str, np.ndarray]  # [place, figure], what it adds
    tokens: float  # of a prompt, the mean

    def value(self, values: Vector) -> dict[str, Vector]:
        off = values - self.base
        off[list(WAY)] = 0
        return {
            metric: self.at_base[metric] + off @ self.slopes[metric] + self._added(metric, self._way_us(values))
            for metric in METRICS
        }

    def slope(self, values: Vector) -> dict[str, np.ndarray]:
        """Returns the derivatives of the figures by the knobs, [knob, figure]."""
        found = {}
        for metric in METRICS:
            found[metric] = self.slopes[metric].copy()
            i, x, y = self._piece(self._way_us(values)), self.request_us, self.at_request[metric]
            found[metric][REQUEST] = (y[i + 1] - y[i]) / (x[i + 1] - x[i])
            found[metric][TOKEN] = found[metric][REQUEST] * self.tokens
        return found

    def _way_us(self, values: Vector) -> float:
        """Returns how long a request with the mean length of a prompt is on its way."""
        return float(values[REQUEST] + values[TOKEN] * self.tokens)

    def _piece(self, request_us: float) -> int:
        """Returns the place before the piece of the interpolation that holds a request overhead."""
        return int(np.clip(np.searchsorted(self.request_us, request_us) - 1, 0, len(self.request_us) - 2))

    def _added(self, metric: str, request_us: float) -> Vector:
        """Interpolates, and extends in a straight line beyond the ends."""
        x, y = self.request_us, self.at_request[metric]
        i = self._piece(request_us)
        share = (request_us - x[i]) / (x[i + 1] - x[i])
        added: Vector = y[i] + share * (y[i + 1] - y[i])
        return added


def is_closed(replay: Replay) -> bool:
    """Reports whether clients wait for answers, so that the request overhead alone moves arrivals."""
    load = replay.workload
    return isinstance(load, ClosedLoop) or (isinstance(load, Recorded) and load.clients is not None)


def design(replay: Replay, part: Part, around: Vector | None = None) -> Task:
    """Returns the replays that a response is made from, around some values of the knobs in an open loop."""
    base = np.exp(EXPECTED) if around is None else around
    closed = is_closed(replay)
    step = _STEP if closed else _NEARBY
    base = base.copy()
    base[REQUEST] = 0 if closed else base[REQUEST] + base[TOKEN] * _tokens(replay)
    base[TOKEN] = 0
    settings = [tuple(base)]
    for k in range(len(base)):
        if k not in WAY:
            settings.append(_changed(base, k, base[k] * step))
    settings += [_changed(base, REQUEST, us) for us in _request_places(replay, base)]
    return Task(replay, tuple(settings), part)


def _tokens(replay: Replay) -> float:
    """Returns the mean length of a prompt."""
    load = replay.workload
    return float(np.mean(load.requests.isl)) if isinstance(load, Recorded) else mean_length(load.isl)


def _changed(base: Vector, k: int, value: float) -> tuple[float, ...]:
    changed = base.copy()
    changed[k] = value
    return tuple(changed)


def _request_places(replay: Replay, base: Vector) -> tuple[float, ...]:
    if not is_closed(replay):
        return (base[REQUEST] * _STEP,)
    return _REQUEST_US.get(replay.measurement.engine, _OTHER_REQUEST_US)


def response(task: Task, subject: Subject, found: list[Trial]) -> Response | str:
    """Returns the response to a design, or why a replay was refused."""
    trials: list[dict[str, Vector]] = []
    for trial in found:
        if isinstance(trial, str):
            return trial
        trials.append(trial)
    base = np.array(task.settings[0])
    at_base = trials[0]
    others = [k for k in range(len(base)) if k not in WAY]
    slopes = {m: np.zeros((len(base), len(at_base[m]))) for m in METRICS}
    for i, k in enumerate(others, start=1):
        change = np.array(task.settings[i])[k] - base[k]
        for metric in METRICS:
            slopes[metric][k] = (trials[i][metric] - at_base[metric]) / change
    places = trials[1 + len(others) :]
    settings = task.settings[1 + len(others) :]
    assert settings, "a design has a place with another request overhead"
    return Response(
        task.replay,
        subject,
        task.part,
        targets.measured(task.replay.measurement, task.part),
        base,
        at_base,
        slopes,
        np.array([base[REQUEST], *(s[REQUEST] for s in settings if s is not None)]),
        {m: np.array([np.zeros(len(at_base[m])), *(t[m] - at_base[m] for t in places)]) for m in METRICS},
        _tokens(task.replay),
    )
