"""Results of AccelMark: percentiles of TTFT and TPOT at several request rates, of vLLM inside the client's process.

Prompts and answers are not recorded. Their suite (``suites/`` beside ``results/``) says how long prompts and answers of
its data set are; lengths are drawn from a log-normal distribution through those percentiles.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dynamo.validate.measurement import Figures, Length, Measurement, Parallelism
from dynamo.validate.sources.checks import BadSource, count, mapping, number, sequence, text
from dynamo.validate.sources.file import SourceFile, open_source
from dynamo.validate.sources.gpus import aic_system

FORMAT = "accelmark"
MARKS = ("suite_id", "chip", "metrics", "task")
_REQUESTS = 300
# The value below which 99 % of a standard normal distribution lie.
_P99 = 2.3263478740408408
_SHARES = ("tensor_parallel_size", "data_parallel_size", "expert_parallel_size")


def recognised(file: SourceFile) -> bool:
    return {"suite_id", "chip", "metrics", "task"} <= file.start.keys()


def read(file: SourceFile) -> list[Measurement]:
    """Returns a measurement per request rate. Raises BadSource."""
    found = file.whole
    where = file.name
    metrics = mapping(found.get("metrics"), f"{where}: metrics")
    online = mapping(metrics.get("online"), f"{where}: metrics.online")
    rates = sequence(online.get("results_by_qps"), f"{where}: metrics.online.results_by_qps")
    fields = _deployment(found, where)
    isl, osl = _lengths(file, text(found, "suite_id", where))
    return [
        Measurement(
            id=f"{file.path.name.partition('.')[0]} at {rate:g}/s",
            source=FORMAT,
            file=file.name,
            request_rate=rate,
            request_count=_REQUESTS,
            isl=isl,
            osl=osl,
            ttft=_figures(point, "ttft", place),
            tpot=_figures(point, "tpot", place),
            **fields,
        )
        for index, item in enumerate(rates)
        for place in [f"{where}: results_by_qps[{index}]"]
        for point in [mapping(item, place)]
        for rate in [number(point.get("target_qps"), f"{place}: target_qps", least=1e-9)]
    ]


def _deployment(found: Mapping[str, Any], where: str) -> dict[str, Any]:
    chip = mapping(found.get("chip"), f"{where}: chip")
    software = mapping(found.get("software"), f"{where}: software")
    model = mapping(found.get("model"), f"{where}: model")
    shares = mapping(mapping(found.get("task"), f"{where}: task").get("parallelism"), f"{where}: task.parallelism")
    tp, dp, ep = (count(shares.get(name) or 1, f"{where}: task.parallelism.{name}") for name in _SHARES)
    fields = {
        "engine": text(software, "framework", where).lower(),
        "version": text(software, "framework_version", where),
        "model": text(model, "model_id", where),
        "system": _system(chip, where),
        "precision": text(model, "precision", where).lower(),
        "parallelism": Parallelism(tp, dp, tp * dp // ep or 1, ep),
    }
    return {**fields, "configuration": "|".join(map(str, fields.values()))}


def _system(chip: Mapping[str, Any], where: str) -> str:
    return aic_system(text(chip, "name", f"{where}: chip"))


def _figures(point: Mapping[str, Any], metric: str, where: str) -> Figures:
    names = {rank: f"{metric}_ms_{rank}" for rank in ("p50", "p90", "p99")}
    return Figures(**{rank: number(point.get(name), f"{where}: {name}") for rank, name in names.items()})


def _lengths(file: SourceFile, suite: str) -> tuple[Length | None, Length | None]:
    """Distributions of prompt and answer of a suite; None where its file is missing or does not tell."""
    path = next((p for p in _suite_paths(file.path, suite) if p.is_file()), None)
    if path is None:
        return None, None
    described = open_source(path).whole
    percentiles = described.get("request_distribution")
    if not isinstance(percentiles, dict):
        return None, None
    most = described.get("output_tokens_max")
    cap = None if most is None else count(most, f"{path}: output_tokens_max")
    return _log_normal(percentiles, "input", str(path)), _log_normal(percentiles, "output", str(path), cap)


def _suite_paths(result: Path, suite: str) -> list[Path]:
    if not suite or Path(suite).name != suite:
        raise BadSource(f"{result}: suite_id: got {suite!r}, want the name of a suite")
    return [result.parent / f"{suite}.json", result.parent.parent / "suites" / f"{suite}.json"]


def _log_normal(percentiles: Mapping[str, Any], kind: str, where: str, most: int | None = None) -> Length | None:
    """Returns the distribution whose median and 99th percentile are these, a number if they are equal; None if not
    known.
    """
    ranks = [f"{kind}_tokens_{rank}" for rank in ("p50", "p99")]
    if any(percentiles.get(name) is None for name in ranks):
        return None
    p50, p99 = (number(percentiles[name], f"{where}: {name}", least=1.0) for name in ranks)
    if p99 < p50:
        raise BadSource(f"{where}: {ranks[1]}: got {p99:g}, want at least {ranks[0]}, {p50:g}")
    sigma = min(math.log(p99 / p50) / _P99, 3.0)
    cv = math.sqrt(math.expm1(sigma**2))
    if cv < 0.001:
        return round(p50) if most is None else min(round(p50), most)
    mean = p50 * math.exp(sigma**2 / 2)
    return f"lognormal(mean={mean:.6g},cv={cv:.6g},min=1{'' if most is None else f',max={most}'})"
