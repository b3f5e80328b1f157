"""How much longer passes may take than predicted before the winner breaks the service level."""

from __future__ import annotations

from typing import Any

from dynamo.sweep.advice.candidates import Candidate
from dynamo.sweep.advice.search import Runner, with_passes
from dynamo.sweep.store import OK

MOST = 100
"""The largest increase of the duration of passes that is tried, in percent."""
_FIRST = 15
"""Below it the answer is to the percent, above it to five."""
_COARSE = 5


def longest(runner: Runner, winner: Candidate) -> dict[str, Any]:
    """By how many percent passes may be longer, found by bisection with runs of the winner alone.

    Returns ``holds`` and ``breaks``, the most that was found to keep the service level and the least that was found to
    break it: None if nothing broke it up to ``MOST``; or ``unknown``, with the reason.
    """

    def holds(percent: int) -> bool:
        return _status(runner, winner, percent) == OK

    try:
        if (status := _status(runner, winner, 0)) != OK:
            return {"unknown": f"with durations from a grid of shapes it is {status} as it is"}
        if not holds(_FIRST):
            low, high, step = 0, _FIRST, 1
        elif not holds(MOST):
            low, high, step = _FIRST, MOST, _COARSE
        else:
            return {"holds": MOST, "breaks": None}
        while high - low > step:
            middle = low + (high - low) // (2 * step) * step
            low, high = (middle, high) if holds(middle) else (low, middle)
    except ValueError as error:  # every run with such durations is refused
        return {"unknown": str(error)}
    return {"holds": low, "breaks": high}


def _status(runner: Runner, winner: Candidate, percent: int) -> str:
    """Returns the status of the winner's run with passes that take a number of percent longer."""
    changed = with_passes(runner.question, winner, 1 + percent / 100) if percent else winner
    return str(runner.run([changed])[winner.name]["status"])
