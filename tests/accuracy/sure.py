"""Where 80 % of measurements of a deployment are to be expected, from the errors of configurations that were held out.

A row of the table is of a model on a GPU in a precision ("model"), of a model wherever it was measured ("kin"), of a
GPU ("gpu") or of an engine. Its range is that from the 10th to the 90th percentile of measured / simulated, made
wider, as the configurations of a row are alike and another one is not: so that a range from all other configurations
holds about 80 % of one. By how much was chosen on five sixths of the configurations.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dynamo.calibrate.targets import is_comparable
from dynamo.validate.runner import Result
from dynamo.validate.scores import METRICS, errors_of

TITLE = "### How sure: ranges that hold 80 % of measurements"
# Fewer rows, or one configuration, tell less than kin do.
LEAST_ROWS = 8
# By which factor ranges are wider.
WIDER = 1.23
# It was looked at while it had another name, which belonged to the five sixths.
LOOKED_AT = ("MiniMaxAI/MiniMax-M2.5", "h200_sxm", "fp8", "agg", "8", "1", "1", "1", "8")
# How often configurations are drawn anew, for how far the share of rows in ranges is known.
DRAWS = 500


class Row(NamedTuple):
    """A measurement and the logarithms of measured / simulated by metric."""

    group: tuple[str, ...]  # engine, model, GPU, precision
    configuration: str
    off: tuple[float, ...]


LEVELS: dict[str, Callable[[tuple[str, ...]], tuple[str, ...]]] = {
    "model": lambda group: group,
    "kin": lambda group: (group[0], group[1], "", ""),
    "gpu": lambda group: (group[0], "", group[2], ""),
    "engine": lambda group: (group[0], "", "", ""),
}


def rows_of(results: Iterable[Result]) -> list[Row]:
    """The comparable ones that have both metrics."""
    found = []
    for result in results:
        errors = [errors_of(result)[metric] for metric in METRICS]
        if is_comparable(result.replay) and None not in errors:
            off = tuple(-float(np.log1p(error)) for error in errors if error is not None)
            found.append(Row(result.replay.measurement.group, result.replay.measurement.configuration, off))
    return found


def spans(rows: Sequence[Row]) -> NDArray[np.float64] | None:
    """Logarithms of the ends by metric, [end, metric]; None if these rows are too few."""
    if len(rows) < LEAST_ROWS or len({row.configuration for row in rows}) < 2:
        return None
    low, high = np.quantile([row.off for row in rows], (0.1, 0.9), axis=0)
    middle, half = (low + high) / 2, (high - low) / 2 * WIDER
    return np.array([middle - half, middle + half])


class Coverage(NamedTuple):
    """The part of rows that are in their ranges, by metric, and between which ends configurations leave it."""

    part: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]

    def __str__(self) -> str:
        of = zip(*(100 * numbers for numbers in self), strict=True)
        return ", ".join(f"{part:.0f} % [{low:.0f}, {high:.0f}]" for part, low, high in of)


def coverage(rows: Sequence[Row], share: Callable[[Row], bool] = lambda row: True) -> Coverage:
    """How many of the rows are in the ranges of all other configurations."""
    inside: dict[str, list[NDArray[np.bool_]]] = {}
    for row in filter(share, rows):
        for key in LEVELS.values():
            alike = [r for r in rows if r.configuration != row.configuration and key(r.group) == key(row.group)]
            if (found := spans(alike)) is not None:
                inside.setdefault(row.configuration, []).append((found[0] <= row.off) & (row.off <= found[1]))
                break
    hits = np.array([np.sum(found, axis=0) for found in inside.values()])
    counts = np.array([len(found) for found in inside.values()])
    chosen = np.random.default_rng(0).integers(len(counts), size=(DRAWS, len(counts)))
    drawn = hits[chosen].sum(axis=1) / counts[chosen].sum(axis=1)[:, None]
    return Coverage(hits.sum(axis=0) / counts.sum(), *np.quantile(drawn, (0.05, 0.95), axis=0))


def sixth(row: Row) -> bool:
    """Whether a configuration is of the part on which the factor was not chosen."""
    if tuple(row.configuration.split("|")[: len(LOOKED_AT)]) == LOOKED_AT:
        return False
    return int(hashlib.sha256(f"kept{row.configuration}".encode()).hexdigest(), 16) % 6 == 0


def table(plain: Sequence[Result], calibrated: Sequence[Result]) -> Iterator[str]:
    """The table, and how well its rule holds."""
    both = rows_of(plain), rows_of(calibrated)
    after = both[1]
    yield f"{TITLE}\n"
    yield "Of mean TTFT and TPOT, as a factor on the simulated ones, by the nearest kin that was measured: this is"
    yield "what reports of runs say. Ranges that are made from all other configurations hold, of TTFT and TPOT"
    yield "(in brackets 90 % intervals, from draws of configurations):\n"
    yield "| | rows | nothing fitted | calibrated |\n|---|---|---|---|"
    for title, share in (("all", lambda row: True), ("a sixth of the configurations", sixth)):
        parts = [coverage(rows, share) for rows in both]
        yield f"| {title} | {sum(map(share, after))} | {parts[0]} | {parts[1]} |"
    yield "\n| of | engine | model | GPU | precision | rows | TTFT, nothing fitted | TPOT | TTFT, calibrated | TPOT |"
    yield "|---|---|---|---|---|---|---|---|---|---|"
    for level, key in LEVELS.items():
        for about in sorted({key(row.group) for row in after}):
            alike = [[row for row in rows if key(row.group) == about] for rows in both]
            found = [spans(rows) for rows in alike]
            if found[0] is not None and found[1] is not None:
                cells = [
                    f"{np.exp(s[0][m]):.2f} to {np.exp(s[1][m]):.2f}" for s in found if s is not None for m in (0, 1)
                ]
                named = " | ".join(part or "-" for part in about)
                yield f"| {level} | {named} | {len(alike[1])} | {' | '.join(cells)} |"
    yield ""
