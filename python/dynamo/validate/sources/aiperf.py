"""Results of AIPerf: ``profile_export.jsonl`` with single requests, or ``profile_export_aiperf.json`` with statistics.

TTFT counts from the sending of a request to its first token at the HTTP client; the inter-token latency of a request is
(latency - TTFT) / (tokens - 1), which is called TPOT here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from dynamo.validate.measurement import Measurement, Requests
from dynamo.validate.sources import stats_export
from dynamo.validate.sources.checks import BadSource, count, mapping, number
from dynamo.validate.sources.deployment import configuration, deployment
from dynamo.validate.sources.file import SourceFile, open_source
from dynamo.validate.sources.requests import Row, arranged, measured

FORMAT = "aiperf"
MARKS = ("request_start_ns", "time_to_first_token")
_RECORDS, _STATISTICS = "profile_export.jsonl", "profile_export_aiperf.json"


def recognised(file: SourceFile) -> bool:
    return _has_records(file) or (stats_export.recognised(file) and "aiperf_version" in file.start)


def read(file: SourceFile) -> list[Measurement]:
    """Returns the one run of a file; of statistics with records beside them, the records. Raises BadSource."""
    if not _has_records(file):
        records = file.path.with_name(_RECORDS)
        if records != file.path and records.is_file():
            return read(open_source(records))
        return stats_export.read(file, FORMAT)
    requests = _requests(file)
    fields = {**_settings(file), **deployment(file)}
    return [
        Measurement(
            id=file.name,
            source=FORMAT,
            file=file.name,
            configuration=configuration(fields),
            **measured(requests),
            **fields,
        )
    ]


def _has_records(file: SourceFile) -> bool:
    return isinstance(file.start.get("metadata"), dict) and isinstance(file.start.get("metrics"), dict)


def _settings(file: SourceFile) -> dict[str, Any]:
    """Returns what the statistics beside the records say about model and load."""
    path = file.path.with_name(_STATISTICS)
    return stats_export.settings(open_source(path).whole, str(path)) if path.is_file() else {}


def _requests(file: SourceFile) -> Requests:
    rows = []
    for where, record in file.rows():
        metadata = mapping(record.get("metadata"), f"{where}: metadata")
        phase = metadata.get("benchmark_phase", "profiling")
        if phase != "profiling" or record.get("error") or metadata.get("was_cancelled"):
            continue
        rows.append(_request(metadata, mapping(record.get("metrics"), f"{where}: metrics"), where))
    return arranged(rows, file.name, milliseconds=lambda ns: ns / 1e6)


def _request(metadata: Mapping[str, Any], metrics: Mapping[str, Any], where: str) -> Row:
    tokens = count(_value(metrics, "output_sequence_length", where), f"{where}: output_sequence_length")
    gap = math.nan
    if tokens > 1 and "inter_token_latency" in metrics:
        gap = _milliseconds(metrics, "inter_token_latency", where)
    # AIPerf's own count lacks what the chat template adds.
    prompt = "usage_prompt_tokens" if "usage_prompt_tokens" in metrics else "input_sequence_length"
    return Row(
        number(metadata.get("request_start_ns"), f"{where}: request_start_ns"),
        count(_value(metrics, prompt, where), f"{where}: {prompt}"),
        tokens,
        _milliseconds(metrics, "time_to_first_token", where),
        gap,
    )


def _value(metrics: Mapping[str, Any], name: str, where: str) -> object:
    if name not in metrics:
        raise BadSource(f"{where}: {name}: missing; was the run streaming?")
    return mapping(metrics[name], f"{where}: {name}").get("value")


def _milliseconds(metrics: Mapping[str, Any], name: str, where: str) -> float:
    value = number(_value(metrics, name, where), f"{where}: {name}")
    return value * stats_export.unit_ms(metrics[name], f"{where}: {name}")
