"""The slowest requests of a run, each with its story."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dynamo._page import short

if TYPE_CHECKING:
    from dynamo.replay.figures import Figures

MOST = 12
"""Requests that are listed, by time to first token and by latency."""
_LEAST_PART = 0.02  # of the latency: parts below it are no part of the story
_SHOWN = (
    "trace_row",
    "arrival_time_ms",
    "input_length",
    "output_length",
    "prefill_worker_idx",
    "decode_worker_idx",
    "reused_input_tokens",
    "state",
)

# What a request did, in the words of a sentence. {} stands for how long.
_WORDS = {
    "router_wait": "{} for the router to choose a worker",
    "worker_wait": "{} in the queue of the worker",
    "own_prompt": "{} computing its own prompt",
    "other_prompts": "{} for others' prompts in the same passes",
    "preempted": "{} preempted",
    "recompute": "{} computing again what a preemption had lost",
    "kv_wait": "{} for room for its KV, or for the decode worker to take it over",
    "kv_transfer": "{} moving its KV",
    "decode": "{} in the decode part of its passes",
    "decode_slowed": "{} slowed down by others' prompts while it decoded",
    "host": "{} of host time",
    "lost": "{} lost to faults",
}


def tables(report: Figures, parts: list[str]) -> str:
    """Returns two tables of requests, slowest first. ``parts`` are those of the attribution, none without one."""
    found = [
        f"<h3>{title}</h3>\n{_table(report, name, parts)}"
        for name, title in (("ttft_ms", "To the first token"), ("e2e_latency_ms", "To the last token"))
    ]
    return "\n".join(found)


def _table(report: Figures, latency: str, parts: list[str]) -> str:
    import numpy as np

    values = report.requests[latency]
    kept = np.flatnonzero(~np.isnan(values))
    order = kept[np.argsort(-values[kept], kind="stable")[:MOST]]
    if not len(order):
        return "<p class=none>No request has got a token.</p>"
    heads = ("request", "arrived", "latency", "prompt", "output", "worker")
    head = "".join(f"<th scope=col class=number>{name}</th>" for name in heads)
    rows = "".join(_row(row, latency, parts) for row in _picked(report, order, _columns(latency, parts)))
    return f'<div class="scroll" tabindex="0"><table class="slow"><thead><tr>{head}</tr></thead>{rows}</table></div>'


def _columns(latency: str, parts: list[str]) -> list[str]:
    """Returns the columns that a table needs."""
    divided = [_part(latency, name) for name in parts] or ["first_admit_ms"]
    return [*_SHOWN, latency, *divided]


def _part(latency: str, name: str) -> str:
    """Returns the column of a part of a latency."""
    return f"{'ttft' if latency == 'ttft_ms' else 'e2e'}_{name}_ms"


def _picked(report: Figures, order: Any, names: Sequence[str]) -> list[dict[str, Any]]:
    """Returns some requests. Columns are looked at one after the other: those of many requests are large."""
    found: list[dict[str, Any]] = [{} for _ in order]
    for name in names:
        column = report.requests[name]
        for row, at in zip(found, order, strict=True):
            row[name] = column[at]
    return found


def _row(row: Mapping[str, Any], latency: str, parts: list[str]) -> str:
    spent = _spent(row, latency, parts)
    cells = (
        f"{row['trace_row']:,}",
        f"{row['arrival_time_ms'] / 1000:,.1f} s",
        time(row[latency]),
        f"{row['input_length']:,}",
        f"{row['output_length']:,}",
        _worker(row),
    )
    story = html.escape(_story(row, spent, float(row[latency])))
    data = html.escape(json.dumps([short(ms) for ms in spent.values()])) if parts else ""
    bar = f' data-parts="{data}"' if data else ""
    first = "".join(f"<td>{cell}</td>" for cell in cells)
    return f"<tbody><tr>{first}</tr><tr><td class=story colspan={len(cells)}{bar}>{story}</td></tr></tbody>\n"


def _spent(row: Mapping[str, Any], latency: str, parts: list[str]) -> dict[str, float]:
    """Returns what a request spent its latency on, in milliseconds; without attribution, what its times tell."""
    if parts:
        return {name: float(row[_part(latency, name)]) for name in parts}
    return {"worker_wait": float(row["first_admit_ms"] - row["arrival_time_ms"])}


def _story(row: Mapping[str, Any], spent: Mapping[str, float], total: float) -> str:
    told = [
        _WORDS[name].format(time(ms))
        for name, ms in sorted(spent.items(), key=lambda part: -part[1])
        if ms >= _LEAST_PART * total
    ]
    text = "; ".join(told) if told else "computed at once"
    reused, prompt = int(row["reused_input_tokens"]), int(row["input_length"])
    if reused > 0:
        text += f"; {reused:,} of {prompt:,} prompt tokens were cached"
    state = row["state"]
    return text if state == "finished" else f"{text}; {state} when the run ended"


def _worker(row: Mapping[str, Any]) -> str:
    prefill, decode = (int(row[f"{kind}_worker_idx"]) for kind in ("prefill", "decode"))
    return f"{prefill} → {decode}" if prefill >= 0 else str(decode)


def time(ms: float) -> str:
    """Returns a time in words, in seconds if that is not less than one."""
    return f"{ms / 1000:,.2f} s" if ms >= 1000 else f"{ms:,.1f} ms"
