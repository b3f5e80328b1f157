"""Statistics as AIPerf and GenAI-Perf export them: an object per metric with its unit, mean and percentiles."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dynamo._core import values
from dynamo.validate.measurement import Figures, Measurement
from dynamo.validate.sources.checks import BadSource, count, mapping, number
from dynamo.validate.sources.deployment import configuration, deployment
from dynamo.validate.sources.file import SourceFile

_UNITS = {"ns": 1e-6, "us": 1e-3, "ms": 1.0, "s": 1e3, "sec": 1e3, "seconds": 1e3}


def recognised(file: SourceFile) -> bool:
    first = file.start.get("time_to_first_token")
    return isinstance(first, dict) and "avg" in first


def read(file: SourceFile, source: str) -> list[Measurement]:
    """Returns the one run of a file. Raises BadSource."""
    found = file.whole
    fields = {**settings(found, file.name), **deployment(file)}
    return [
        Measurement(
            id=file.name,
            source=source,
            file=file.name,
            request_count=_mean(found, "request_count", file.name),
            isl=_mean(found, "input_sequence_length", file.name),
            osl=_mean(found, "output_sequence_length", file.name),
            ttft=_figures(found, "time_to_first_token", file.name),
            tpot=_figures(found, "inter_token_latency", file.name),
            configuration=configuration(fields),
            **fields,
        )
    ]


def settings(found: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Returns model and load, as far as the exported configuration says; its sections have moved between releases."""
    config = found.get("input_config")
    if not isinstance(config, dict):
        return {}
    fields: dict[str, Any] = {}
    models = config.get("model_names") or _section(config, "endpoint").get("model_names")
    if isinstance(models, list) and len(models) == 1 and isinstance(models[0], str):
        fields["model"] = models[0]
    load = {**_section(_section(config, "perf_analyzer"), "stimulus"), **_section(config, "loadgen")}
    if load.get("concurrency"):
        fields["concurrency"] = count(load["concurrency"], f"{where}: concurrency")
    elif load.get("request_rate"):
        fields["request_rate"] = number(load["request_rate"], f"{where}: request_rate", least=1e-9)
    return fields


def unit_ms(metric: Mapping[str, Any], where: str) -> float:
    """Returns how many milliseconds the unit of a metric is."""
    unit = metric.get("unit", "ms")
    if not isinstance(unit, str) or unit not in _UNITS:
        raise BadSource(f"{where}: unit: got {values.show(unit)}, want one of {', '.join(_UNITS)}")
    return _UNITS[unit]


def _section(config: Mapping[str, Any], name: str) -> dict[str, Any]:
    found = config.get(name)
    return found if isinstance(found, dict) else {}


def _figures(found: Mapping[str, Any], name: str, where: str) -> Figures:
    where = f"{where}: {name}"
    metric = mapping(found.get(name), where)
    scale = unit_ms(metric, where)
    known = {
        figure: number(metric[key], f"{where}: {key}") * scale
        for figure, key in (("mean", "avg"), ("p50", "p50"), ("p90", "p90"), ("p99", "p99"))
        if metric.get(key) is not None
    }
    if "mean" not in known:
        raise BadSource(f"{where}: avg: missing")
    return Figures(**known)


def _mean(found: Mapping[str, Any], name: str, where: str) -> int | None:
    """Returns the mean of a metric, rounded; None if it is not there."""
    if name not in found:
        return None
    metric = mapping(found[name], f"{where}: {name}")
    return max(1, round(number(metric.get("avg"), f"{where}: {name}: avg")))
