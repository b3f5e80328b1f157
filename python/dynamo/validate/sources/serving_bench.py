"""What the results of ``vllm bench serve`` and ``sglang.bench_serving`` have in common.

Both write an object per run, the second one per line. TTFT counts at the HTTP client, from the sending of a request to
the first streamed chunk; TPOT is (latency - TTFT) / (tokens - 1).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from dynamo.validate.measurement import Figures, Length, Measurement, Requests
from dynamo.validate.sources.checks import BadSource, count, number, sequence, text
from dynamo.validate.sources.deployment import configuration, deployment
from dynamo.validate.sources.file import SourceFile
from dynamo.validate.sources.requests import Row, arranged
from dynamo.validate.sources.statistics import figures

_LISTS = ("input_lens", "output_lens", "ttfts", "itls")


def runs(file: SourceFile, source: str, engine: str) -> list[Measurement]:
    """The runs in a result file. Raises BadSource."""
    return [_run(found, file, where, source, engine) for where, found in _objects(file)]


def _objects(file: SourceFile) -> list[tuple[str, dict[str, Any]]]:
    """One object, possibly over several lines, or one per line."""
    if file.text.lstrip()[:1] == "{" and "\n{" not in file.text.strip():
        return [(file.name, file.whole)]
    return file.rows()


def _run(found: Mapping[str, Any], file: SourceFile, where: str, source: str, engine: str) -> Measurement:
    completed = count(found.get("completed"), f"{where}: completed")
    requests = _requests(found, where)
    rate = _rate(found, where)
    fields: dict[str, Any] = {
        "engine": engine,
        "model": text(found, "model_id", where),
        # A rate and a limit of requests in flight: the rate is what the clients kept to, as far as they could.
        "concurrency": _concurrency(found, where) if rate is None else None,
        "request_rate": rate,
        **deployment(file),
    }
    if requests is not None and fields["request_rate"] is None and fields["concurrency"] is None:
        requests = _at_once(requests)
    name = where.removeprefix(f"{file.path.parent}/")
    return Measurement(
        id=name,
        source=source,
        file=file.name,
        request_count=completed,
        isl=_mean_length(found, "total_input_tokens", completed, where),
        osl=_mean_length(found, "total_output_tokens", completed, where),
        ttft=figures(requests.ttft_ms) if requests else _figures(found, "ttft", where),
        tpot=figures(requests.tpot_ms) if requests else _figures(found, "tpot", where),
        itl=_known(found, "itl", where),
        requests=requests,
        configuration=configuration(fields),
        **fields,
    )


def _requests(found: Mapping[str, Any], where: str) -> Requests | None:
    """The requests that were answered, of a run with details; None without details."""
    if any(found.get(name) is None for name in _LISTS):
        return None
    columns = [sequence(found[name], f"{where}: {name}") for name in _LISTS]
    starts = found.get("start_times")
    columns.append(sequence(starts, f"{where}: start_times") if starts else [None] * len(columns[0]))
    if len({len(column) for column in columns}) != 1:
        raise BadSource(f"{where}: want {', '.join(_LISTS)} of one length")
    rows = []
    for number_, (isl, osl, ttft, gaps, start) in enumerate(zip(*columns, strict=True)):
        if osl == 0 or ttft == 0:  # it failed
            continue
        place = f"{where}: request {number_}"
        begin = number(start, f"{place}: start_times") if starts else None
        rows.append(_request(begin, isl, osl, ttft, gaps, place))
    return arranged(rows, where)


def _request(start: float | None, isl: object, osl: object, ttft: object, gaps: object, where: str) -> Row:
    tokens = count(osl, f"{where}: output_lens")
    waits = [number(gap, f"{where}: itls") for gap in sequence(gaps, f"{where}: itls")]
    return Row(
        start,
        count(isl, f"{where}: input_lens"),
        tokens,
        number(ttft, f"{where}: ttfts") * 1e3,
        sum(waits) / (tokens - 1) * 1e3 if tokens > 1 else math.nan,
    )


def _at_once(requests: Requests) -> Requests:
    """Requests without a rate or a limit on their number: all are sent at the start."""
    if requests.arrival_ms:
        return requests
    return Requests(requests.isl, requests.osl, requests.ttft_ms, requests.tpot_ms, [0.0] * len(requests.isl))


def _figures(found: Mapping[str, Any], metric: str, where: str) -> Figures:
    known = _known(found, metric, where)
    if known == Figures():
        raise BadSource(f"{where}: mean_{metric}_ms: missing")
    return known


def _known(found: Mapping[str, Any], metric: str, where: str) -> Figures:
    """The figures that a result has of a metric."""
    names = {"mean": f"mean_{metric}_ms", "p50": f"median_{metric}_ms"}
    names |= {rank: f"{rank}_{metric}_ms" for rank in ("p90", "p99")}
    return Figures(
        **{rank: number(found[name], f"{where}: {name}") for rank, name in names.items() if found.get(name) is not None}
    )


def _concurrency(found: Mapping[str, Any], where: str) -> int | None:
    value = found.get("max_concurrency")
    return None if value is None else count(value, f"{where}: max_concurrency")


def _rate(found: Mapping[str, Any], where: str) -> float | None:
    """Requests per second; None for no limit."""
    value = found.get("request_rate")
    if value in (None, "inf", math.inf):
        return None
    return number(value, f"{where}: request_rate", least=1e-9)


def _mean_length(found: Mapping[str, Any], name: str, completed: int, where: str) -> Length | None:
    if found.get(name) is None:
        return None
    return max(1, round(count(found[name], f"{where}: {name}") / completed))
