"""Whether two samples come from one distribution: the two-sample Kolmogorov-Smirnov test."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from dynamo.replay.diff.figures import Floats

# Terms of the series below that are not small enough to be left out.
_TERMS = 100


class KolmogorovSmirnov(NamedTuple):
    """``statistic``: the largest distance between the two empirical distribution functions, 0 to 1. ``p_value``: how
    likely a distance at least as large is if both samples are drawn independently from one distribution."""

    statistic: float
    p_value: float


def kolmogorov_smirnov(a: Floats, b: Floats) -> KolmogorovSmirnov:
    """The test for two samples that are not empty. The p value is Stephens' approximation of the limit distribution

        Q(x) = 2 (exp(-2 x^2) - exp(-8 x^2) + exp(-18 x^2) - ...),   x = (s + 0.12 + 0.11 / s) D,   s^2 = n m / (n + m)

    which is good from some tens of values on (M. A. Stephens, JRSS B 32, 1970).
    """
    a, b = np.sort(a), np.sort(b)
    both = np.concatenate([a, b])
    below_a = np.searchsorted(a, both, side="right") / len(a)
    below_b = np.searchsorted(b, both, side="right") / len(b)
    distance = float(np.abs(below_a - below_b).max())
    root = math.sqrt(len(a) * len(b) / (len(a) + len(b)))
    return KolmogorovSmirnov(distance, _tail((root + 0.12 + 0.11 / root) * distance))


def _tail(x: float) -> float:
    if x < 0.2:  # the series converges slowly there, to 1
        return 1.0
    series = math.fsum(math.copysign(2, k % 2 - 0.5) * math.exp(-2 * (k * x) ** 2) for k in range(1, _TERMS))
    return min(1.0, max(0.0, series))
