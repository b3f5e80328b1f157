"""A comparison as text for a terminal, and as Markdown for a pull request."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from dynamo.replay import table
from dynamo.replay.diff.comparison import Change, Comparison
from dynamo.replay.diff.joining import Joined, Mover
from dynamo.replay.explain import LATENCIES, PARTS_WITH_LOST

_SHOWN = {"mean": "avg", "median": "p50", "p90": "p90", "p99": "p99"}
_GROUPS = {
    "ttft_ms": "Time to First Token",
    "tpot_ms": "Time per Output Token",
    "itl_ms": "Token Gap",
    "e2e_latency_ms": "Request Latency",
}
_SCALARS = {
    "output_throughput_tok_s": "Output Token Throughput (tokens/sec)",
    "request_throughput_rps": "Request Throughput (requests/sec)",
    "goodput_request_throughput_rps": "Goodput (requests/sec)",
    "prefix_cache_reused_ratio": "Prefix Cache Reused Ratio",
    "completed_requests": "Request Count (requests)",
    "rejected_requests": "Rejected Requests (requests)",
    "gpu_hours": "GPU Hours",
}
_LARGEST = 2  # parts that are named for a request


class Section(NamedTuple):
    """A part of the text: a table, whose first row is the heading, or lines."""

    title: str
    cells: table.Rows = ()
    lines: Sequence[str] = ()


def as_text(found: Comparison, *, ascii_only: bool = False) -> str:
    """The comparison as tables, without a final newline."""
    border = table.ASCII if ascii_only else table.BOXES
    parts = [f"A: {found.a}\nB: {found.b}"]
    for section in sections(found):
        parts.append(
            "\n".join([section.title, *([table.draw(section.cells, border)] if section.cells else []), *section.lines])
        )
    return "\n\n".join(parts)


def as_markdown(found: Comparison) -> str:
    """The comparison as Markdown, without a final newline."""
    parts = [f"**A**: `{found.a}`, **B**: `{found.b}`"]
    for section in sections(found):
        parts.append(f"### {section.title}")
        if section.cells:
            parts.append(_markdown_table(section.cells))
        if section.lines:
            parts.append("\n".join(f"- {line}" for line in section.lines))
    return "\n\n".join(parts)


def _markdown_table(cells: table.Rows) -> str:
    heading, *rows = ([_escaped(cell) for cell in row] for row in cells)
    rule = [":--", *["--:"] * (len(heading) - 1)]
    return "\n".join(f"| {' | '.join(row)} |" for row in (heading, rule, *rows))


def _escaped(text: str) -> str:
    """Blanks that indent a label are kept."""
    stripped = text.lstrip(" ")
    return "&nbsp;" * (len(text) - len(stripped)) + stripped.replace("|", "\\|")


def sections(found: Comparison) -> Iterable[Section]:
    """The parts of a comparison in their order, for texts and pages."""
    if found.verdicts:
        lines = [f"{'FAILED' if v.failed else 'ok'}: {v.condition} (found: {v.found})" for v in found.verdicts]
        yield Section("Conditions", lines=lines)
    yield Section("Metrics", [["Metric", "A", "B", "change", "%"], *_metric_rows(found)])
    for latency, falls in found.waterfalls.items():
        statistics = {name: label for name, label in _SHOWN.items() if name in falls}
        label = LATENCIES[latency]
        rows = [[f"{label} of A", *(_number(falls[name].a) for name in statistics)]]
        rows += [
            [f"  {words}", *(_signed(falls[name].parts[part]) for name in statistics)]
            for part, words in PARTS_WITH_LOST.items()
            if any(falls[name].parts.get(part) for name in statistics)
        ]
        rows.append([f"{label} of B", *(_number(falls[name].b) for name in statistics)])
        yield Section(f"From A to B: {label}", [["", *statistics.values()], *rows])
    if found.tests:
        rows = [[_GROUPS[key], f"{test.statistic:.3f}", f"{test.p_value:.3g}"] for key, test in found.tests.items()]
        yield Section("Distributions (Kolmogorov-Smirnov)", [["", "distance", "p value"], *rows])
    if found.joined:
        yield from _joined(found.joined)


def _metric_rows(found: Comparison) -> Iterable[list[str]]:
    for group, label in _GROUPS.items():
        for statistic, short in _SHOWN.items():
            change = found.metrics.get(f"{statistic}_{group}")
            if change and change != Change(None, None, None, None):
                yield _metric_row(f"{label} {short} (ms)", change)
    for key, label in _SCALARS.items():
        change = found.metrics.get(key)
        if change and (change.a or change.b):
            yield _metric_row(label, change)


def _metric_row(label: str, change: Change) -> list[str]:
    relative = "" if change.percent is None or math.isinf(change.percent) else f"{change.percent:+.1f}%"
    return [
        label,
        _number(change.a),
        _number(change.b),
        "" if change.change is None else _signed(change.change),
        relative,
    ]


def _joined(joined: Joined) -> Iterable[Section]:
    lines = [f"joined by {joined.key}: {joined.requests:,}"]
    lines += [f"only in {side}: {count:,}" for side, count in (("A", joined.only_a), ("B", joined.only_b)) if count]
    if joined.other_shape:
        lines.append(f"with another prompt or output length: {joined.other_shape:,}, so the workloads differ")
    for pool, routing in joined.routing.items():
        line = f"on another {pool} worker: {routing.changed:,} of {routing.of:,}"
        means = (("moved", routing.mean_change_moved), ("others", routing.mean_change_others))
        changes = [f"{_signed(mean)} ms for {which}" for which, mean in means if mean is not None]
        lines.append(f"{line}; mean change of {joined.by}: {', '.join(changes)}" if changes else line)
    yield Section("Requests", lines=lines)
    for title, movers in (("slower", joined.slower), ("faster", joined.faster)):
        if movers:
            yield Section(f"Much {title} in B, by {joined.by}", [_MOVER_HEADING, *map(_mover_row, movers)])


_MOVER_HEADING = ["trace row", "ISL", "OSL", "A", "B", "change", "worker", "mostly"]


def _mover_row(mover: Mover) -> list[str]:
    same = mover.worker_a == mover.worker_b
    worker = _worker(mover.worker_b) if same else f"{_worker(mover.worker_a)} to {_worker(mover.worker_b)}"
    largest = sorted(mover.parts.items(), key=lambda item: -abs(item[1]))[:_LARGEST]
    return [
        "" if mover.trace_row is None else str(mover.trace_row),
        f"{mover.input_length:,}",
        f"{mover.output_length:,}",
        _number(mover.a),
        _number(mover.b),
        _signed(mover.change),
        worker,
        ", ".join(f"{PARTS_WITH_LOST[part]} {_signed(ms)}" for part, ms in largest if ms),
    ]


def _worker(worker: int | None) -> str:
    return "none" if worker is None else str(worker)


def _number(value: float | None) -> str:
    return "N/A" if value is None else f"{value:,.2f}"


def _signed(value: float) -> str:
    return f"{value:+,.2f}"
