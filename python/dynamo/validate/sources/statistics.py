"""Mean and percentiles of measured values."""

from __future__ import annotations

import math
from collections.abc import Iterable

from dynamo.validate.measurement import PERCENTILES, Figures


def figures(found: Iterable[float]) -> Figures:
    """Returns mean and nearest-rank percentiles, as the report of a replay has them; NaN counts as no value."""
    ordered = sorted(value for value in found if not math.isnan(value))
    if not ordered:
        return Figures()
    p50, p90, p99 = (ordered[max(0, math.ceil(rank / 100 * len(ordered)) - 1)] for rank in PERCENTILES)
    return Figures(math.fsum(ordered) / len(ordered), p50, p90, p99)
