"""Single requests of a run, as the readers of files with one row for each find them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from dynamo.validate.measurement import Requests
from dynamo.validate.sources.checks import BadSource
from dynamo.validate.sources.statistics import figures


class Row(NamedTuple):
    """A request. ``start`` is in the unit of the file, None if that does not say; TPOT is NaN for one token."""

    start: float | None
    isl: int
    osl: int
    ttft_ms: float
    tpot_ms: float


def _seconds(start: float) -> float:
    return start * 1e3


def arranged(rows: Sequence[Row], where: str, milliseconds: Callable[[float], float] = _seconds) -> Requests:
    """Returns the requests in order of their starts, of which ``milliseconds`` converts differences; as they are
    without all.

    Raises BadSource if there is none.
    """
    if not rows:
        raise BadSource(f"{where}: no request was answered")
    starts = sorted(row.start for row in rows if row.start is not None)
    timed = len(starts) == len(rows)
    if timed:
        rows = sorted(rows, key=lambda row: row.start or 0.0)
    return Requests(
        arrival_ms=[milliseconds(start - starts[0]) for start in starts] if timed else [],
        isl=[row.isl for row in rows],
        osl=[row.osl for row in rows],
        ttft_ms=[row.ttft_ms for row in rows],
        tpot_ms=[row.tpot_ms for row in rows],
    )


def measured(requests: Requests) -> dict[str, Any]:
    """Returns the fields of a Measurement of single requests that follow from them."""
    return {
        "request_count": len(requests.isl),
        "ttft": figures(requests.ttft_ms),
        "tpot": figures(requests.tpot_ms),
        "requests": requests,
    }
