"""What a validation prints, and the files that it writes: ``accuracy.json``, ``.csv`` and ``.html``."""

from __future__ import annotations

import collections
import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from dynamo._core.version import VERSION
from dynamo.replay import files
from dynamo.validate import scores
from dynamo.validate.measurement import Measurement
from dynamo.validate.runner import Result
from dynamo.validate.scores import METRICS, Key, Summary

_KEY_WIDTH = 46
_SHOWN_REASON = 150
_WIDEST = 5


@dataclass(frozen=True)
class Refused:
    """A measurement that was not replayed, and why."""

    measurement: Measurement
    reason: str


@dataclass(frozen=True)
class Validation:
    """All that a validation has found out."""

    results: Sequence[Result]
    refused: Sequence[Refused]
    settings: Mapping[str, Any]

    @property
    def count(self) -> int:
        return len(self.results) + len(self.refused)


def as_text(validation: Validation) -> str:
    """Returns the tables for a terminal."""
    lines = [
        f"{len(validation.results)} of {validation.count} measurements replayed, {len(validation.refused)} refused"
    ]
    if validation.results:
        lines += [
            "",
            "Errors in percent: mean |error|, median |error|, median signed error, 90th percentile of |error|",
        ]
    for grouping in scores.GROUPINGS if validation.results else ():
        lines += ["", *_table(grouping, scores.grouped(validation.results, grouping))]
    lines += _distributions(validation.results)
    lines += _ranges(validation.results)
    for title, counted in (("Stands in", stand_ins(validation)), ("Refused", reasons(validation))):
        if counted:
            lines += ["", f"{title}:", *(f"{number:6}  {words}" for words, number in counted)]
    return "\n".join(lines)


def _table(grouping: str, groups: Mapping[Key, Mapping[str, Summary | None]]) -> list[str]:
    control = any(summaries["static_ttft"] for summaries in groups.values())
    errors = "".join(f"   {metric.upper() + ': mean  med  signed   p90':30}" for metric in METRICS)
    header = f"{'by ' + grouping:{_KEY_WIDTH}} {'n':>5}{errors}"
    lines = [header + ("   AIC static: TTFT    TPOT" if control else "")]
    for key, summaries in groups.items():
        number = max(s.count for s in summaries.values() if s is not None)
        cells = "  ".join(_cells(summaries[metric]) for metric in METRICS)
        lines.append(f"{' '.join(key):{_KEY_WIDTH}} {number:5}  {cells}")
        if control:
            lines[-1] += "        " + "".join(_mean(summaries[f"static_{metric}"]) for metric in METRICS)
    return [line.rstrip() for line in lines]


def _cells(found: Summary | None) -> str:
    if found is None:
        return f"{'-':>31}"
    return f"{found.mean_abs:11.1f} {found.median_abs:5.1f} {found.signed:+7.1f} {found.p90_abs:6.1f}"


def _mean(found: Summary | None) -> str:
    return f"{found.mean_abs:8.1f}" if found else f"{'-':>8}"


def _distributions(results: Iterable[Result]) -> list[str]:
    """Percentiles and KS distances of measurements with single requests or percentiles."""
    lines = []
    for result in results:
        for metric in METRICS:
            off = percentile_errors(result, metric)
            if len(off) < 2:
                continue
            distance = scores.distances_of(result).get(metric)
            cells = " ".join(f"{name} {100 * value:+7.1f}" for name, value in off.items())
            ks = f"  KS {distance:.3f}" if distance is not None else ""
            lines.append(f"{result.replay.measurement.id[-60:]:60} {metric.upper()}  {cells}{ks}")
    return ["", "Distributions: signed errors of mean and percentiles in percent, KS distance", *lines] if lines else []


def _ranges(results: Sequence[Result]) -> list[str]:
    """Returns what several seeds came to: whose mean differs most, and how many of the measurements are between
    them.
    """
    drawn = [result for result in results if result.outcome is not None and result.outcome.ranges]
    if not drawn:
        return []
    lines = [f"Means of {drawn[0].replay.seeds} seeds, from the least to the largest in ms, and measured:"]
    for metric in METRICS:
        known = [found for result in drawn if (found := scores.holds(result, metric)) is not None]
        lines.append(f"{metric.upper()}: between them are {sum(known)} of {len(known)} measurements; the widest:")
        spreads = sorted(drawn, key=lambda result: -_spread(result, metric))
        lines += [_range(result, metric) for result in spreads[:_WIDEST]]
    return ["", *lines]


def _spread(result: Result, metric: str) -> float:
    """Returns the largest mean of the seeds over the least."""
    assert result.outcome is not None
    low, high = result.outcome.ranges.get(metric, (1.0, 1.0))
    return high / low if low > 0 else 1.0


def _range(result: Result, metric: str) -> str:
    assert result.outcome is not None
    low, high = result.outcome.ranges.get(metric, (0.0, 0.0))
    measured = getattr(result.replay.measurement, metric).mean
    shown = "-" if measured is None else f"{measured:.1f}"
    return f"  {result.replay.measurement.id[-60:]:60} {low:10.1f} {high:10.1f}  {shown:>10}"


def percentile_errors(result: Result, metric: str) -> dict[str, float]:
    """Returns signed errors of the mean and the percentiles that were measured, by name."""
    measured, simulated = getattr(result.replay.measurement, metric), getattr(result.outcome, metric)
    off = {name: scores.error(getattr(simulated, name), getattr(measured, name)) for name in scores.FIGURES}
    return {name: value for name, value in off.items() if value is not None}


def reasons(validation: Validation) -> list[tuple[str, int]]:
    """Says why measurements were refused, the most frequent reason first."""
    return collections.Counter(_brief(refused.reason) for refused in validation.refused).most_common()


def _brief(reason: str) -> str:
    return reason if len(reason) <= _SHOWN_REASON else reason[:_SHOWN_REASON] + "..."


def stand_ins(validation: Validation) -> list[tuple[str, int]]:
    """Returns what stands in for what was measured, the most frequent first."""
    return collections.Counter(words for r in validation.results for words in r.replay.stand_ins).most_common()


def as_json(validation: Validation) -> dict[str, Any]:
    """Returns everything, for programs."""
    return {
        "version": VERSION,
        "settings": dict(validation.settings),
        "summary": {
            grouping: [
                {"group": list(key), **{name: found and asdict(found) for name, found in summaries.items()}}
                for key, summaries in scores.grouped(validation.results, grouping).items()
            ]
            for grouping in scores.GROUPINGS
        },
        "measurements": [_row(result) for result in validation.results],
        "refused": [{**_about(refused.measurement), "reason": refused.reason} for refused in validation.refused],
    }


def _about(measurement: Measurement) -> dict[str, Any]:
    engine, model, system, precision = measurement.group
    return {
        "id": measurement.id,
        "source": measurement.source,
        "engine": engine,
        "version": measurement.version,
        "model": model,
        "system": system,
        "precision": precision,
        "concurrency": measurement.concurrency,
        "request_rate": measurement.request_rate,
        "isl": measurement.isl,
        "osl": measurement.osl,
        "configuration": measurement.configuration,
    }


def _row(result: Result) -> dict[str, Any]:
    measurement = result.replay.measurement
    return {
        **_about(measurement),
        "measured_ms": {metric: asdict(getattr(measurement, metric)) for metric in METRICS},
        "simulated_ms": {metric: asdict(getattr(result.outcome, metric)) for metric in METRICS},
        "static_ms": {m: getattr(result.static, f"{m}_ms") for m in METRICS} if result.static else None,
        "error": scores.errors_of(result),
        "ks_distance": scores.distances_of(result),
        **_ranges_of(result),
        "stand_ins": list(result.replay.stand_ins),
        "engine_args": dict(result.replay.engine),
        **({} if (split := result.replay.split) is None else {"split": asdict(split)}),
    }


def _ranges_of(result: Result) -> dict[str, Any]:
    """Returns the least and the largest mean of several seeds by metric."""
    if result.outcome is None or not result.outcome.ranges:
        return {}
    return {"simulated_range_ms": {metric: list(ends) for metric, ends in result.outcome.ranges.items()}}


_CSV_ABOUT = (
    *("id", "source", "engine", "version", "model", "system", "precision"),
    *("concurrency", "request_rate", "isl", "osl"),
)


def as_csv(validation: Validation) -> str:
    """Returns a row per measurement; those that were refused have a reason and no simulated values."""
    text = io.StringIO()
    values = [f"{by}_{metric}_ms" for metric in METRICS for by in ("measured", "simulated", "static")]
    errors = [f"error_{metric}" for metric in METRICS]
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*_CSV_ABOUT, *values, *errors, "stand_ins", "refused"])
    for result in validation.results:
        writer.writerow([*_csv_about(result.replay.measurement), *_csv_values(result), ""])
    for refused in validation.refused:
        blank = [""] * (len(values) + len(errors) + 1)
        writer.writerow([*_csv_about(refused.measurement), *blank, refused.reason])
    return text.getvalue()


def _csv_about(measurement: Measurement) -> list[Any]:
    about = _about(measurement)
    return [about[name] for name in _CSV_ABOUT]


def _csv_values(result: Result) -> list[Any]:
    errors = scores.errors_of(result)
    values: list[Any] = []
    for metric in METRICS:
        measured = getattr(result.replay.measurement, metric)
        name = scores.headline(measured)
        static = getattr(result.static, f"{metric}_ms") if result.static else ""
        values += [getattr(measured, name), getattr(getattr(result.outcome, metric), name), static]
    return [*values, *(errors[metric] for metric in METRICS), "; ".join(result.replay.stand_ins)]


def write(validation: Validation, folder: Path) -> list[Path]:
    """Writes the three files into a folder, all or none. Raises OSError."""
    from dynamo.validate.page import as_html

    found = as_json(validation)
    texts = {
        "accuracy.json": json.dumps(found, indent=1) + "\n",
        "accuracy.csv": as_csv(validation),
        "accuracy.html": as_html(found),
    }
    with files.together():
        for name, text in texts.items():
            files.write_whole(folder / name, text)
    return [folder / name for name in texts]
