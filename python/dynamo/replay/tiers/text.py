"""The curve as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dynamo.replay import table

_BARS = 24
NOTHING = "No request begins as an earlier one does: a cache finds nothing."


def of(found: Mapping[str, Any], *, ascii_only: bool = False) -> str:
    """Returns what the trace is, a table of sizes, and what is to be read there."""
    border = table.ASCII if ascii_only else table.BOXES
    parts = [headline(found), table.draw(_rows(found, "#" if ascii_only else "█"), border), *_said(found)]
    if found.get("simulated"):
        parts += ["", "Replays with that much host memory:", table.draw(simulated(found), border), conclusion(found)]
    return "\n".join(parts)


def headline(found: Mapping[str, Any]) -> str:
    """Returns the trace in a sentence."""
    return (
        f"{found['requests']:,} requests, {found['input_tokens']:,} prompt tokens,"
        f" {found['different_blocks']:,} different blocks of {found['block_size']} tokens"
    )


def size(point: Mapping[str, Any]) -> str:
    """Returns how large a cache is."""
    gb = f" ({point['gb']:,.1f} GB)" if "gb" in point else ""
    return f"{point['blocks']:,} blocks{gb}"


def shown(found: Mapping[str, Any]) -> list[tuple[Mapping[str, Any], str]]:
    """Returns the sizes of the table with what they are: steps of the curve, those asked for, knee and enough."""
    enough = found["enough"]["blocks"]
    steps = [point for point in found["points"][:: max(1, len(found["points"]) // 10)] if point["blocks"] < enough]
    marks = [
        *([(found["knee"], "knee")] if has_knee(found) else []),
        (found["most"], "nine tenths of what any size finds"),
        *([(found["gpu"], "as large as the GPU's pool")] if "gpu" in found else []),
        (found["enough"], "more finds nothing more"),
        *((at, "asked for") for at in found["asked"]),
    ]
    rows: dict[int, tuple[Mapping[str, Any], str]] = {point["blocks"]: (point, "") for point in steps}
    for point, mark in marks:
        before = rows.get(point["blocks"], (point, ""))[1]
        rows[point["blocks"]] = (point, ", ".join(filter(None, (before, mark))))
    return [rows[blocks] for blocks in sorted(rows)]


def has_knee(found: Mapping[str, Any]) -> bool:
    """Reports whether there is a size up to which most is found: a few blocks that all prompts share are none."""
    return bool(found["knee"]["hit_ratio"] >= found["enough"]["hit_ratio"] / 2)


def verdict(found: Mapping[str, Any]) -> str:
    """Returns what to do about it: how much memory is worth having, and whether the GPU has as much."""
    knee, most, enough = found["knee"], found["most"], found["enough"]
    if has_knee(found):
        shape = f"Knee: {size(knee)} find {knee['hit_ratio']:.1%} of the prompt tokens; behind it more is worth less."
    else:
        shape = f"No knee: behind {size(knee)}, which find {knee['hit_ratio']:.1%}, what is found grows evenly."
    return (
        f"{shape} {size(most)} find {most['hit_ratio']:.1%}, nine tenths of what {size(enough)} find;"
        f" more find no more.{_beside_gpu(found)}"
    )


def _beside_gpu(found: Mapping[str, Any]) -> str:
    """Returns what host memory adds to the GPU's pool, if that is known: the host also has what the GPU has."""
    if "gpu" not in found:
        return ""
    pool, enough = found["gpu"], found["enough"]
    if pool["blocks"] >= enough["blocks"]:
        return (
            f" The GPU's pool of {size(pool)} finds all of that: to requests that run one after another host memory"
            " adds nothing."
        )
    return (
        f" The GPU's pool of {size(pool)} finds {pool['hit_ratio']:.1%} alone: host memory adds something only if it is"
        f" larger than that, and up to {(enough['hit_ratio'] - pool['hit_ratio']):.1%} of the prompt tokens."
    )


def _rows(found: Mapping[str, Any], bar: str) -> table.Rows:
    in_gb = "gb" in found["knee"]
    head = ["Cache (blocks)", *(["GB"] if in_gb else []), "Prompt tokens found", "", ""]
    body = [
        [
            f"{point['blocks']:,}",
            *([f"{point['gb']:,.1f}"] if in_gb else []),
            f"{point['hit_ratio']:.1%}",
            (bar * round(point["hit_ratio"] * _BARS)).ljust(_BARS),
            mark,
        ]
        for point, mark in shown(found)
    ]
    return [head, *body]


def simulated(found: Mapping[str, Any]) -> list[list[str]]:
    """Returns the cells of the table of replays, the heading first."""
    head = ["Host memory", "Found by the curve", "Found in the replay", "Mean TTFT (ms)", "p99 TTFT (ms)"]
    body = [
        [
            size(point) if point["blocks"] else "none",
            f"{point['hit_ratio']:.1%}",
            "N/A" if point["simulated_hit_ratio"] is None else f"{point['simulated_hit_ratio']:.1%}",
            *("N/A" if point[key] is None else f"{point[key]:,.1f}" for key in ("mean_ttft_ms", "p99_ttft_ms")),
        ]
        for point in found["simulated"]
    ]
    return [head, *body]


def conclusion(found: Mapping[str, Any]) -> str:
    """Returns what the replays say, and of which requests that is."""
    return " ".join(filter(None, (_worth(found), _rejected(found))))


def _rejected(found: Mapping[str, Any]) -> str:
    most = max(point["rejected_requests"] for point in found["simulated"])
    if not most:
        return ""
    return (
        f"{most:,} of {found['requests']:,} requests do not fit the GPU's pool. The replays reject them, so their"
        " figures are those of the other requests, while the curve is of all."
    )


def _worth(found: Mapping[str, Any]) -> str:
    """Returns what host memory does for the mean TTFT in the replays, and the least of it with nine tenths of that."""
    means = [(point["mean_ttft_ms"], point) for point in found["simulated"] if point["mean_ttft_ms"] is not None]
    if not means or means[0][1]["blocks"]:
        return ""
    without, least = means[0][0], min(mean for mean, _ in means)
    if least > 0.99 * without:
        return "In the replays host memory does not make the mean TTFT less."
    mean, point = next((mean, point) for mean, point in means if without - mean >= 0.9 * (without - least))
    return (
        f"In the replays {size(point)} of host memory make the mean TTFT {1 - mean / without:.0%} less:"
        f" {without:,.1f} to {mean:,.1f} ms."
    )


def _said(found: Mapping[str, Any]) -> list[str]:
    if not found["enough"]["blocks"]:
        return [NOTHING]
    return [
        verdict(found),
        "One worker, requests one after another, blocks evicted by least recent use.",
    ]
