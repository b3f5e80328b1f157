"""What measurements cannot tell about the knobs, in words."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dynamo.calibrate.fit import Estimate, Fit
from dynamo.calibrate.knobs import HIGH, KNOBS, LOW, NAMES

# Above, measurements leave a knob about as open as it was, or two of them exchangeable.
_OPEN = 0.8
_EXCHANGEABLE = 0.9


def advice(fit: Fit) -> list[str]:
    """Returns one line for each thing that the measurements of a model leave open."""
    return [line for e in fit.estimates.values() if e.level == "model" for line in _lines(e)]


def _lines(estimate: Estimate) -> Iterator[str]:
    where = " ".join(part for part in estimate.key if part)
    untold = [NAMES[k] for k in range(len(KNOBS)) if estimate.freedom[k] > _OPEN]
    if untold:
        yield f"{where}: nothing in the measurements tells {', '.join(untold)}; kept near what similar engines have"
    for i in range(len(KNOBS)):
        for k in range(i):
            if abs(estimate.correlation[i, k]) > _EXCHANGEABLE:
                other = "with other prompts" if "prefill_scale" in (NAMES[i], NAMES[k]) else "at more and fewer clients"
                yield f"{where}: {NAMES[k]} and {NAMES[i]} make up for each other; measure {other} to tell them apart"
    for k, name in enumerate(NAMES):
        # Below is what a fit has left out: engines hide it.
        if min(abs(estimate.values[k] - LOW[k]), abs(HIGH[k] - estimate.values[k])) < 1e-3:
            bound = f"{np.exp(estimate.values[k]):.4g}"
            yield f"{where}: {name} is at its bound, {bound}; the simulation lacks something else"
