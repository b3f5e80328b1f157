"""The files that a report consists of: a page and a text for people, its content as JSON, tables for programs."""

from __future__ import annotations

import csv
import importlib
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dynamo.replay import deployment, durations, files, latencies
from dynamo.sweep import page, points, reasons, wording
from dynamo.sweep.advice import wording as advice
from dynamo.sweep.page.measured import Measured
from dynamo.sweep.sla import bound_of

JSON_FILE, TEXT_FILE, CSV_FILE, PARQUET_FILE = "report.json", "report.txt", "points.csv", "points.parquet"
PAGE_FILE, RUN_PAGES = "report.html", "runs"
_MOST_ROWS, _MOST_REASONS = 20, 10


def write(content: Mapping[str, Any], folder: Path, measured: Sequence[Measured] = ()) -> list[Path]:
    """Writes all files of a report, or none. Returns their paths. The Parquet file is left out without pyarrow."""
    rows = table(content)
    written = [folder / name for name in (JSON_FILE, TEXT_FILE, CSV_FILE, PAGE_FILE)]
    with files.together():
        files.write_whole(written[0], json.dumps(content, indent=1) + "\n")
        files.write_whole(written[1], text(content))
        files.write_whole(written[2], _csv(rows))
        files.write_whole(written[3], page.as_html(content, measured, _run_pages(content, folder)))
        try:
            arrow, parquet = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
        except ImportError:
            return written
        columns = arrow.table({name: _column(rows, name) for name in _names(rows)})
        files.write_by(folder / PARQUET_FILE, lambda path: parquet.write_table(columns, str(path)))
    return [*written, folder / PARQUET_FILE]


def _run_pages(content: Mapping[str, Any], folder: Path) -> dict[int, str]:
    """The pages about runs of points that are in the folder, by the id of the point."""
    present = {path.stem for path in (folder / RUN_PAGES).glob("*.html")}
    return {
        point["id"]: f"{RUN_PAGES}/{point['id']}.html" for point in content["points"] if str(point["id"]) in present
    }


def table(content: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A flat row for each point, with the same columns: knobs, status, deployment, figures, command.

    Every figure has the ends of its interval beside it. One that is called like a knob is not repeated.
    """
    rows: list[dict[str, Any]] = []
    deployed = dict.fromkeys(name for point in content["points"] for name in wording.columns(point["deployment"]))
    for point in content["points"]:
        knobs = {knob["name"]: _cell(point["knobs"].get(knob["name"])) for knob in content["search"]}
        row = {"id": point["id"], **knobs}
        row |= {"topology": point["topology"], "status": point["status"], "reason": point["reason"]}
        row["on_front"] = point["on_front"]
        found = wording.columns(point["deployment"])
        for name in deployed:
            row.setdefault(name, found.get(name))
        said = [durations.line(point["durations"]), durations.hand_off_line(point["durations"])]
        row["durations"] = "; ".join(filter(None, said)).removeprefix("durations: ")
        row.setdefault("gpus", point["figures"].get("gpus"))
        for name, number in point["figures"].items():
            row.setdefault(name, number)
            if name in point["intervals"]:
                row[f"{name}_low"], row[f"{name}_high"] = point["intervals"][name]
        row["command"] = point["command"]
        rows.append(row)
    return rows


def _cell(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, list | dict) else value


def _names(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """All columns; the command is the last."""
    names = dict.fromkeys(name for row in rows for name in row if name != "command")
    return [*names, "command"]


def _column(rows: Sequence[Mapping[str, Any]], name: str) -> list[Any]:
    """A column of one type: texts if the values are mixed."""
    found = [row.get(name) for row in rows]
    types = {type(value) for value in found if value is not None}
    if len(types) > 1 and types != {int, float}:
        return [None if value is None else points.label(value) for value in found]
    return (
        [float(value) for value in found if value is not None] if types == {int, float} and None not in found else found
    )


def _csv(rows: Sequence[Mapping[str, Any]]) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, _names(rows), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def text(content: Mapping[str, Any]) -> str:
    """The report for people: the answer, the front, which knobs matter, and why the other points are out."""
    by_id = {point["id"]: point for point in content["points"]}
    parts = [advice.text(content["recommendation"]).rstrip()] if "recommendation" in content else []
    parts.append(_counts(content))
    front = [by_id[found] for found in content["fronts"]["all"]]
    if front:
        parts += [_answer(content), _front(content, front)]
        parts += [_influence(figure, entries) for figure, entries in content["influence"].items() if entries]
    else:
        parts.append(wording.nearest(content))
    if why_not := _why_not(content):
        parts.append(why_not)
    return "\n\n".join(parts) + "\n"


def _counts(content: Mapping[str, Any]) -> str:
    counts = content["counts"]
    total = sum(counts.values())
    each = ", ".join(f"{count} {status}" for status, count in counts.items())
    bounds = f"\nSLA: {', '.join(content['sla'])}" if content["sla"] else ""
    return "\n".join([f"{total} points: {each}{bounds}", *wording.durations_lines(content)])


def _answer(content: Mapping[str, Any]) -> str:
    """The best deployment by each objective."""
    lines = []
    for objective, point in wording.answers(content):
        figure, way = objective["figure"], "Most" if objective["maximize"] else "Least"
        lines.append(f"{way} {latencies.shown(figure)}: {_shown(point, figure)} with point {point['id']}:")
        lines.append(f"  {wording.deployed_in_a_line(point)}")
    return "\n".join(lines)


def _front(content: Mapping[str, Any], front: Sequence[Mapping[str, Any]]) -> str:
    """Knobs and objectives of the points that no other one beats."""
    figures = list(dict.fromkeys([*(o["figure"] for o in content["objectives"]), "gpus"]))
    knobs = [knob["name"] for knob in content["search"]]
    header = ["point", *knobs, "workers", *map(latencies.shown, figures)]
    rows = [
        [str(p["id"]), *(points.label(p["knobs"][name]) if name in p["knobs"] else "-" for name in knobs)]
        + ["-" if p["deployment"] is None else deployment.size(p["deployment"])]
        + [_shown(p, name) for name in figures]
        for p in front[:_MOST_ROWS]
    ]
    lines = [
        f"Not beaten by any other point ({len(front)}, best {header[-len(figures)]} first):",
        *_aligned(header, rows),
    ]
    if len(front) > _MOST_ROWS:
        lines.append(f"... and {len(front) - _MOST_ROWS} more, see {CSV_FILE}")
    if front[0]["limited_by"]:
        lines.append(f"Point {front[0]['id']} is limited by {front[0]['limited_by']}")
    lines += _doubts(front[:_MOST_ROWS])
    return "\n".join([*lines, f"Point {front[0]['id']} again:", f"  {front[0]['command']}"])


def _doubts(front: Sequence[Mapping[str, Any]]) -> list[str]:
    """Bounds that a point keeps on average, but not within its whole interval, or by less than its measured error."""
    lines = []
    for point in front:
        for verdict in point["sla"]:
            if verdict["met"] and not verdict["sure"]:
                low, high = point["intervals"][verdict["figure"]]
                lines.append(
                    f"Not sure at point {point['id']}: {bound_of(verdict)}, with 95 % from {low:.5g} to {high:.5g}"
                )
            if "within_error" in verdict:
                lines.append(f"Not sure at point {point['id']}: {wording.within_error(verdict)}")
    return lines


def _shown(point: Mapping[str, Any], name: str) -> str:
    number = point["figures"].get(name)
    if number is None:
        return "-"
    interval = point["intervals"].get(name)
    half = f" +- {(interval[1] - interval[0]) / 2:.3g}" if interval and interval[1] > interval[0] else ""
    return f"{number:.6g}{half}"


def _influence(figure: str, entries: Sequence[Mapping[str, Any]]) -> str:
    """The table of what each knob changes, with all other knobs equal."""
    rows = []
    for entry in entries:
        first = [entry["knob"], f"{100 * entry['share']:.0f} %" if entry["pairs"] else "-", str(entry["pairs"])]
        if not entry["effects"]:
            rows.append([*first, "no two points differ in it alone", "", "", ""])
        for effect in entry["effects"]:
            rows.append([*first, *wording.effect_cells(effect)])
            first = ["", "", ""]
    header = ["knob", "share", "pairs", "from -> to", "mean of pairs", "better, worse", "SLA kept by one alone"]
    title = f"What decides {latencies.shown(figure)} (pairs of points that keep the SLA and differ in one knob only):"
    return "\n".join([title, *_aligned(header, rows)])


def _why_not(content: Mapping[str, Any]) -> str:
    ordered = reasons.counted(content)
    if not ordered:
        return ""
    rows = [[str(count), status, reason] for (status, reason), count in ordered[:_MOST_REASONS]]
    more = len(ordered) - _MOST_REASONS
    lines = ["Why not:", *_aligned(["points", "status", "reason"], rows)]
    return "\n".join([*lines, f"... and {more} more reasons"] if more > 0 else lines)


def _aligned(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
    return [
        "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in [header, *rows]
    ]
