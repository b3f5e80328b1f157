"""Whether a prediction of ``dynamo.sweep export`` held in measured runs, and what to calibrate if not."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from dynamo._core import values
from dynamo.validate.measurement import Figures, Measurement

NOT_HELD = 3
"""The exit code of a prediction that did not hold."""
_SCHEMA = 1
_DEVIATIONS = 3
"""By how many standard deviations between draws of the arrivals a run with a rate may be off, besides."""
COMPARED = (("ttft", "p50"), ("tpot", "mean"))
_EXPECTED = "expected"
_ALSO = (("ttft", "p90"), ("tpot", "p90"))
"""Compared in the run with the traffic of the point, too."""


class Compared(NamedTuple):
    """A figure of a run."""

    run: str
    metric: str
    rank: str
    predicted: float
    measured: float
    allowed: float
    """By how many milliseconds it may be off."""

    @property
    def held(self) -> bool:
        """Whether it is off by no more than that."""
        return abs(self.measured - self.predicted) <= self.allowed

    @property
    def ratio(self) -> float:
        """Measured by predicted."""
        return self.measured / self.predicted if self.predicted else 1.0


class Bounded(NamedTuple):
    """A figure that the service level bounds, in the run with the traffic of the point. It decides nothing."""

    metric: str
    rank: str
    at_most: float
    predicted: float
    measured: float | None
    """None if the benchmark did not say it."""
    allowed: float
    """By how many milliseconds a prediction of it may be off."""

    @property
    def kept(self) -> bool | None:
        """Whether the measured figure is within the bound; None if it is not known."""
        return None if self.measured is None else self.measured <= self.at_most


class Verdict(NamedTuple):
    """All figures of all runs, and requests that were not answered."""

    figures: Sequence[Compared]
    bounded: Sequence[Bounded]
    lost: Mapping[str, int]
    workers: int
    breaks_with_longer_percent: int | None = None
    """With how much longer passes the service level breaks, if that is known."""
    tpot_tolerance: float = 0.0

    @property
    def held(self) -> bool:
        """Whether the prediction held."""
        return not self.lost and all(figure.held for figure in self.figures)


def predictions(path: str) -> Mapping[str, Any]:
    """The predictions of an export. Raises ValueError or FileNotFoundError."""
    file = Path(values.path("--predicted", path))
    if not file.is_file():
        raise FileNotFoundError(f"--predicted: {path!r} is missing, want verify.json of an export")
    try:
        found = json.loads(file.read_text())
    except ValueError as error:
        raise ValueError(f"--predicted: {path}: {error}") from None
    if not isinstance(found, dict) or found.get("schema") != _SCHEMA or not found.get("runs"):
        raise ValueError(f"--predicted: {path}: want verify.json that python -m dynamo.sweep export wrote")
    return found


def judge(predicted: Mapping[str, Any], measurements: Sequence[Measurement]) -> Verdict:
    """Compares measurements, each in a file with the name of its run. Raises ValueError if one is missing."""
    by_run = {Path(measurement.file).name.split(".")[0]: measurement for measurement in measurements}
    if missing := [name for name in predicted["runs"] if name not in by_run]:
        raise ValueError(
            f"MEASURED: no {missing[0]}.json among {len(measurements)} results, want all runs of verify.sh"
        )
    found: list[Compared] = []
    lost: dict[str, int] = {}
    for name, run in predicted["runs"].items():
        measurement = by_run[name]
        without = int(run["completed"]) - int(measurement.request_count or 0)
        if without > 0:
            lost[name] = without
        found += list(_compared(name, run, measurement, predicted["tolerance"]))
    bounded = _bounded(predicted, by_run[_EXPECTED]) if _EXPECTED in by_run else []
    margin, tolerance = predicted.get("breaks_with_longer_percent"), float(predicted["tolerance"]["tpot"])
    return Verdict(found, bounded, lost, int(predicted["workers"]), margin, tolerance)


def _compared(
    name: str, run: Mapping[str, Any], measurement: Measurement, tolerance: Mapping[str, float]
) -> Iterator[Compared]:
    for metric, rank in (*COMPARED, *(_ALSO if name == _EXPECTED else ())):
        figures: Figures = getattr(measurement, metric)
        measured = getattr(figures, rank)
        if measured is None:
            raise ValueError(f"MEASURED: {measurement.file}: {rank} of {metric} is missing, want --save-detailed")
        yield Compared(name, metric, rank, float(run[metric][rank]), measured, _allowed(run, metric, rank, tolerance))


def _allowed(run: Mapping[str, Any], metric: str, rank: str, tolerance: Mapping[str, float]) -> float:
    """Returns the error in milliseconds that a figure is allowed, of gaps between tokens that of their mean."""
    part = tolerance["tpot" if metric == "itl" else metric]
    client = tolerance["ttft_ms"] if metric == "ttft" else 0
    draws = _DEVIATIONS * float(run.get("spread", {}).get(metric, {}).get(rank, 0))
    return part * float(run[metric][rank]) + client + draws


def _bounded(predicted: Mapping[str, Any], measurement: Measurement) -> list[Bounded]:
    """What the service level bounds; nothing of exports that do not say it."""
    run = predicted["runs"][_EXPECTED]
    found = []
    for limit in predicted.get("limits", ()):
        metric, rank = limit["metric"], limit["rank"]
        measured = getattr(getattr(measurement, metric), rank)
        allowed = _allowed(run, metric, rank, predicted["tolerance"])
        found.append(Bounded(metric, rank, float(limit["at_most"]), float(run[metric][rank]), measured, allowed))
    return found


def text(verdict: Verdict) -> str:
    """The verdict for people: a row for each figure, whether the prediction held, and what to calibrate if not."""
    head = ("run", "figure", "predicted ms", "measured ms", "off", "may be off", "")
    rows = [head]
    for f in verdict.figures:
        off = f"{100 * (f.ratio - 1):+.0f} %"
        allowed = f"{100 * f.allowed / f.predicted:.0f} %" if f.predicted else f"{f.allowed:.0f} ms"
        numbers = (f"{f.predicted:.1f}", f"{f.measured:.1f}", off, allowed, "held" if f.held else "NOT HELD")
        rows.append((f.run, f"{f.rank} {f.metric.upper()}", *numbers))
    widths = [max(len(row[at]) for row in rows) for at in range(len(head))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    lines += [f"{run}: {count} requests were not answered" for run, count in verdict.lost.items()]
    lines += [_bound_line(each) for each in verdict.bounded]
    level = _level(verdict)
    if verdict.held:
        return "\n".join([*lines, "", "The prediction held.", *level])
    wrong = ["The prediction did not hold.", *level, *(f"- {line}" for line in advice(verdict))]
    return "\n".join([*lines, "", *wrong])


def _level(verdict: Verdict) -> list[str]:
    """Whether the service level is kept, which a prediction that holds need not mean."""
    said = []
    if any(each.kept is False for each in verdict.bounded):
        said.append(f"The service level is NOT kept by what {_EXPECTED} measured.")
    elif verdict.bounded and all(each.kept for each in verdict.bounded):
        said.append(f"The service level is kept by what {_EXPECTED} measured.")
    elif verdict.bounded:
        said.append("Whether the service level is kept was not measured.")
    percent, tolerance = verdict.breaks_with_longer_percent, 100 * verdict.tpot_tolerance
    if percent is not None and percent <= tolerance:
        said.append(f"By the simulation it breaks with passes that take {percent} % longer, and a TPOT may be off by "
                    f"{tolerance:.3g} % here: that a prediction held does not say that it is kept.")  # fmt: skip
    return said


def _bound_line(found: Bounded) -> str:
    verdict = {None: "not measured", True: "kept", False: "NOT KEPT"}[found.kept]
    measured = "" if found.measured is None else f", {found.measured:.1f} ms measured"
    name = f"{found.rank} {found.metric.upper()}"
    most = found.predicted + found.allowed
    beyond = f". It may be off up to {most:.1f} ms, beyond the bound" if most > found.at_most else ""
    return (
        f"service level, {name} <= {found.at_most:g} ms: {verdict}: {found.predicted:.1f} ms predicted{measured} in "
        f"{_EXPECTED}, with prompts and answers of mean length{beyond}"
    )


def advice(verdict: Verdict) -> list[str]:
    """What is off, and what to calibrate, in the order in which to do it: later figures follow from earlier ones."""
    wrong = {(f.run, f.metric): f for f in verdict.figures if not f.held}
    lines = []
    if verdict.lost:
        lines.append("requests failed: look at the log of the engine first, figures of the others mean little")
    if alone := wrong.get(("alone", "tpot")):
        lines.append(f"a decode pass alone takes {alone.ratio:.2f} times what was predicted: decode_scale or "
                     "step_overhead_us")  # fmt: skip
    if alone := wrong.get(("alone", "ttft")):
        more = alone.measured - alone.predicted
        lines.append(f"a prompt alone takes {more:+.0f} ms: prefill_scale if that grows with the prompt, "
                     "request_overhead_us if not")  # fmt: skip
    loaded = {metric for run, metric in wrong if run != "alone"}
    if "tpot" in loaded and ("alone", "tpot") not in wrong:
        lines.append("decode passes are right alone and wrong in batches: seq_overhead_us, and max_num_seqs and "
                     "max_num_batched_tokens in the log of the engine")  # fmt: skip
    if "ttft" in loaded and ("alone", "ttft") not in wrong:
        lines.append("prompts are right alone and wait otherwise than predicted: the KV pool (num_gpu_blocks) and the "
                     "prefix cache in the log of the engine, and the router")  # fmt: skip
    if wrong:
        lines.append("python -m dynamo.calibrate RESULTS -o profile.json fits these; then sweep again with the engine "
                     "argument calibration")  # fmt: skip
        if verdict.workers > 1:
            lines.append("it takes measurements of one worker: engine.sh of the export starts one, and deployment.json "
                         "beside the results says what it is")  # fmt: skip
    return lines
