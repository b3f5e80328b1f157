"""Reports of GuideLLM (``benchmarks.json``): a list of benchmarks with the requests of each.

The inter-token latency of a request is (last - first token) / (tokens - 1), which is called TPOT here; GuideLLM's own
"time per output token" counts the first token too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from dynamo.validate.measurement import Measurement, Requests
from dynamo.validate.sources.checks import count, mapping, number, sequence
from dynamo.validate.sources.deployment import configuration, deployment
from dynamo.validate.sources.file import SourceFile
from dynamo.validate.sources.requests import Row, arranged, measured

FORMAT = "guidellm"
MARKS = ("benchmarks", "requests")
_STARTS = ("request_start_time", "start_time")


def recognised(file: SourceFile) -> bool:
    benchmarks = file.start.get("benchmarks")
    return isinstance(benchmarks, list) and any(isinstance(b, dict) and "requests" in b for b in benchmarks)


def read(file: SourceFile) -> list[Measurement]:
    """Returns a measurement per benchmark of a report. Raises BadSource."""
    report = file.whole
    benchmarks = sequence(report.get("benchmarks"), f"{file.name}: benchmarks")
    return [
        _benchmark(mapping(found, where), report, file, where)
        for index, found in enumerate(benchmarks)
        for where in [f"{file.name}: benchmarks[{index}]"]
    ]


def _benchmark(found: Mapping[str, Any], report: Mapping[str, Any], file: SourceFile, where: str) -> Measurement:
    answered = mapping(found.get("requests"), f"{where}: requests").get("successful")
    requests = _requests(sequence(answered, f"{where}: requests.successful"), where)
    fields = {**_load(found, where), **_model(report, found), **deployment(file)}
    return Measurement(
        id=where,
        source=FORMAT,
        file=file.name,
        configuration=configuration(fields),
        **measured(requests),
        **fields,
    )


def _requests(answered: list[Any], where: str) -> Requests:
    rows = []
    for index, item in enumerate(answered):
        place = f"{where}: requests.successful[{index}]"
        rows.append(_request(mapping(item, place), place))
    return arranged(rows, where)


def _request(item: Mapping[str, Any], where: str) -> Row:
    tokens = count(item.get("output_tokens"), f"{where}: output_tokens")
    start = next((item[name] for name in _STARTS if item.get(name) is not None), None)
    gap = item.get("inter_token_latency_ms")
    return Row(
        None if start is None else number(start, f"{where}: {_STARTS[0]}"),
        count(item.get("prompt_tokens"), f"{where}: prompt_tokens"),
        tokens,
        number(item.get("time_to_first_token_ms"), f"{where}: time_to_first_token_ms"),
        number(gap, f"{where}: inter_token_latency_ms") if tokens > 1 and gap is not None else math.nan,
    )


def _load(found: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Clients or rate, from the strategy of a benchmark, whose place differs between releases."""
    for section in ("config", "args", "scheduler"):
        inside = found.get(section)
        strategy = inside.get("strategy") if isinstance(inside, dict) else None
        if isinstance(strategy, dict):
            return _strategy(strategy, f"{where}: {section}.strategy")
    return {}


def _strategy(strategy: Mapping[str, Any], where: str) -> dict[str, Any]:
    if strategy.get("type_") == "synchronous":
        return {"concurrency": 1}
    if strategy.get("streams"):
        return {"concurrency": count(strategy["streams"], f"{where}.streams")}
    if strategy.get("rate"):
        return {"request_rate": number(strategy["rate"], f"{where}.rate", least=1e-9)}
    return {}


def _model(report: Mapping[str, Any], found: Mapping[str, Any]) -> dict[str, Any]:
    for section in (report.get("args"), found.get("config"), found.get("worker")):
        if isinstance(section, dict) and isinstance(section.get("model"), str):
            return {"model": section["model"]}
    return {}
