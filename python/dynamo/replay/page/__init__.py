"""The page about a run: one file without any other, for phones, wide windows and paper, light and dark.

What matters most is HTML. Charts are made of the data in the page by the scripts beside this module.
"""

from __future__ import annotations

import html
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dynamo import _page
from dynamo._shell.options import run_options
from dynamo.replay import commandline, durations, latencies, summary
from dynamo.replay.page import balance, data, poolmemory, scaling, slowest, wrong

if TYPE_CHECKING:
    from dynamo.replay.figures import Figures

_SCRIPTS = ("parts.js", "overtime.js", "start.js")


def as_html(report: Figures, command: str = "") -> str:
    """Returns the page about a run that has kept rows. ``command`` repeats it; by default it is made of the
    provenance.
    """
    attribution = report.get("attribution")
    parts = data.part_names(attribution) if attribution and attribution["requests"] else []
    provenance = report.get("provenance", {})
    filled = {
        "TITLE": f"Run of {report['num_requests']:,} requests",
        "HEAD": _headline(report),
        "CARDS": _cards(report),
        "SUMMARY": _summary(report),
        "FAULTS": wrong.section(report),
        "SCALING": scaling.section(report),
        "BALANCE": balance.table(report),
        "MEMORY": poolmemory.section(report),
        "SLOW_HINT": _slow_hint(parts),
        "SLOW": slowest.tables(report, parts),
        "COMMAND": html.escape(command or _command(provenance)),
        "PROVENANCE": html.escape(json.dumps(provenance, indent=1)),
    }
    return _page.whole(__name__, _SCRIPTS, filled, data.of(report))


def _headline(report: Figures) -> str:
    """Returns what was run on what."""
    provenance = report.get("provenance", {})
    arguments = provenance.get("arguments", {})
    workload = ", ".join(arguments.get("trace_files", [])) or "a synthetic workload"
    workers = scaling.workers(report, arguments)
    engine = arguments.get("extra_engine_args", arguments.get("decode_engine_args", {}))
    parts = [
        workload,
        workers,
        str(engine.get("engine_type", "")),
        str(arguments.get("router") or arguments.get("router_mode", "")),
    ]
    lines = [f"<p>{html.escape(', '.join(part for part in parts if part))}</p>"]
    level = [f"{data.BOUNDS[key]} ≤ {limit:g} ms" for key, limit in data.bounds(arguments).items()]
    if level:
        lines.append(f"<p>Service level: {', '.join(level)}</p>")
    said = durations.lines(provenance.get("durations", ()))
    lines += [f"<p>{html.escape(text[0].upper() + text[1:])}</p>" for text in said]
    return "\n".join(lines)


def _cards(report: Figures) -> str:
    """Returns the figures that most readers look for first."""
    cards = [
        ("p99 time to first token", _time(report.get("p99_ttft_ms")), f"mean {_time(report.get('mean_ttft_ms'))}"),
        (
            "p99 time per output token",
            _time(report.get("p99_tpot_ms")),
            f"mean {_time(report.get('mean_tpot_ms'))}; p99 of single gaps {_time(report.get('p99_itl_ms'))}",
        ),
        (
            "Output tokens/s",
            f"{report['output_throughput_tok_s']:,.0f}",
            f"{report['request_throughput_rps']:,.2f} requests/s",
        ),
        (
            "Prompt tokens reused",
            _percent(report.get("prefix_cache_reused_ratio")),
            f"{report['total_input_tokens']:,} prompt tokens",
        ),
        (
            "Completed",
            f"{report['finished_requests']:,}",
            f"of {report['num_requests']:,}, {report['rejected_requests']:,} rejected",
        ),
        ("Simulated time", _time(report["duration_ms"]), f"{report['gpu_hours']:,.3g} GPU hours"),
    ]
    if "goodput_completed_requests" in report:
        good = report["goodput_completed_requests"] / max(1, report["completed_requests"])
        rate = f"{report['goodput_request_throughput_rps']:,.2f} requests/s"
        cards.insert(2, ("Within the service level", _percent(good), rate))
    if "host_stored_blocks" in report:
        cards.insert(4, _host_card(report))
    if failed := wrong.card(report):
        cards.insert(2, failed)
    return "".join(
        f'<article><h3>{title}</h3><p class="big">{big}</p><p>{small}</p></article>' for title, big, small in cards
    )


def _host_card(report: Figures) -> tuple[str, str, str]:
    """Returns what a tier of host memory did: hits by tier, what moved, and how busy that kept the links."""
    whole = report.get("first_admission_prefix_cache_reused_ratio")
    host = report.get("host_reused_ratio")
    on_gpu = None if whole is None or host is None else max(0.0, whole - host)
    moved = "; ".join(summary.host_copies(report))
    return "Prompt tokens found on the host", _percent(host), f"{_percent(on_gpu)} on the GPU; {moved}"


def _time(ms: float | None) -> str:
    return "–" if ms is None else slowest.time(ms)


def _percent(part: float | None) -> str:
    return "–" if part is None else f"{100 * part:.1f} %"


def _summary(report: Figures) -> str:
    """Returns the table that the command line prints."""
    heading, *rows = summary.table_cells(report)
    head = "".join(_summary_cell("th scope=col", at, cell) for at, cell in enumerate(heading))
    lines = [f"{_label(row[0])}{''.join(_summary_cell('td', 1, cell) for cell in row[1:])}" for row in rows]
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _label(text: str) -> str:
    """Returns the cell with the name of a row, which opens to what it means where names are used in several ways."""
    if text not in latencies.MEANINGS:
        return _summary_cell("td", 0, text)
    meaning = html.escape(latencies.MEANINGS[text])
    name = f"<summary title='{meaning}'>{html.escape(text)}</summary>"
    return f"<td class=text><details>{name}<p>{meaning}</p></details></td>"


def _summary_cell(tag: str, at: int, text: str) -> str:
    return f"<{tag} class={'number' if at else 'text'}>{html.escape(text)}</{tag.split()[0]}>"


def _slow_hint(parts: list[str]) -> str:
    number = "The number of a request is its <code>trace_row</code> in the rows, and its name in a timeline."
    return number + (" The bar divides the latency as in the charts above." if parts else "")


def _command(provenance: Mapping[str, Any]) -> str:
    """Returns the command that repeats a run, as far as a command line can have its arguments."""
    known = run_options()
    arguments = {}
    for name, value in provenance.get("arguments", {}).items():
        has_option = name in known and known[name].flag and value != known[name].default
        if name in commandline.OTHERWISE_SPELLED or has_option:
            arguments[name] = value
    return commandline.command(arguments)
