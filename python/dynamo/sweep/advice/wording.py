"""A recommendation in words, the same in the terminal and on the page: titles, each with lines."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import Any

from dynamo.replay import durations

Content = Mapping[str, Any]
_WIDTH = 118
_MOST_REASONS = 8
_HOW = {
    "beaten": "cannot be the answer",
    "beginning": "miss the SLA by the beginning of their run",
    "bound": "miss it with a single request",
    "prefill": "compute prompts too slowly for the traffic in the long run",
    "kv": "have too little room for the KV of the traffic in the long run",
    "rejected": "cannot be had",
    "failed": "failed",
    "infeasible": "cannot be had",
}


def sections(content: Content) -> list[tuple[str, list[str]]]:
    """All that is said, in the order of what a reader asks first."""
    asked = content["question"]
    found = [("What is asked", _asked(asked))]
    if content["winner"] is None:
        found.append(("Answer", [_no_answer(content)]))
    else:
        found.append(("Start", [content["deployment"], *content["flags"], *_files(content)]))
        found.append(("Cost", [_cost(content)]))
        found.append(("Service level", [_target(target) for target in content["targets"]]))
    found.append(("How sure", _sure(content)))
    if content["winner"] is not None:
        if content["headroom"] is not None:
            found.append(("Headroom", [_headroom(content["headroom"])]))
        if content["cases"]:
            found.append(("What breaks it", [_case(case, content) for case in content["cases"]]))
        if content["sensitivity"]:
            found.append(("If passes take longer or shorter", [_other(each) for each in content["sensitivity"]]))
        if content["next_best"]:
            found.append(("Next best", content["next_best"]))
    found.append(("How it was found", _how(content)))
    return found


def text(content: Content) -> str:
    """The recommendation for a terminal."""
    parts = []
    for title, lines in sections(content):
        parts.append(f"{title}:")
        for line in lines:
            parts += textwrap.wrap(
                line,
                _WIDTH,
                initial_indent="  ",
                subsequent_indent="    ",
                break_long_words=False,
                break_on_hyphens=False,
            )
    return "\n".join(parts) + "\n"


def _asked(asked: Mapping[str, Any]) -> list[str]:
    where = f"{asked['model']} on {asked['system']}" if asked["model"] else "an engine on GPUs of no particular kind"
    goals = {
        "fewest_gpus": "the fewest GPUs that keep the service level",
        "cost": "the least GPU hours that keep the service level",
        "goodput": "the most requests within the limits of the service level",
    }
    return [
        f"{where}, at most {asked['gpus']} GPUs, {' and '.join(asked['engines'])} by the engines' own schedulers "
        "(a prediction, not the rules of Dynamo's mocker)",
        f"{goals[asked['objective']]}: {', '.join(asked['sla'])}; trace {asked['trace']}",
    ]


def _no_answer(content: Content) -> str:
    nearest = content["nearest"]
    if nearest is None:
        return "No deployment keeps the service level with so many GPUs; why is below."
    return (
        f"No deployment keeps the service level with so many GPUs. Of those that were run to the end, the nearest is "
        f"{nearest['name']}: {nearest['reason']}"
    )


def _files(content: Content) -> list[str]:
    if content["point"] is None:
        return []
    return [
        f"as files, with every flag that was simulated: python -m dynamo.sweep export FOLDER {content['point']} -o NEW"
    ]


def _cost(content: Content) -> str:
    gpus = f"{content['gpus']} GPU{'s' if content['gpus'] != 1 else ''}"
    if content["cost_per_hour"] is None:
        return f"{gpus}; {content['gpu_hours']:.4g} GPU hours for the trace (give the price of a GPU for costs)"
    return (
        f"{gpus}; {content['cost_per_hour']:.2f} an hour; {content['cost_per_million_tokens']:.4g} per million tokens, "
        f"{content['cost_per_million_output_tokens']:.4g} per million output tokens"
    )


def _target(target: Mapping[str, Any]) -> str:
    parts = [f"{target['bound']}: {target['value']:.5g}"]
    if target["low"] is not None:
        parts.append(f"95 % from {max(target['low'], 0):.5g} to {target['high']:.5g}")
    if target["error"] is not None:
        parts.append(f"measured error of such durations {100 * target['error']:.0f} %")
    if not target["met"]:
        parts.append("missed")
    elif target["low"] is not None and not target["sure"]:
        parts.append("not sure: the interval goes beyond it")
    elif target["within_error"]:
        parts.append("not sure: kept by less than that error")
    return ", ".join(parts)


def _sure(content: Content) -> list[str]:
    lines = [line[0].upper() + line[1:] for line in durations.lines(content["durations"])]
    return lines + ([content["no_interval"]] if content["no_interval"] else [])


def _headroom(found: Mapping[str, Any]) -> str:
    if "unknown" in found:
        return f"not known: {found['unknown']}"
    traffic = f"{found['factor']:.2f} times this traffic, {found['rps']:.4g} requests/s"
    return f"holds up to {traffic}; then {found['limited_by']}"


def _case(case: Mapping[str, Any], content: Content) -> str:
    if "unknown" in case:
        return f"{case['name']}: not simulated: {case['unknown']}"
    figures = case["figures"]
    verdict = "the service level holds" if case["holds"] else f"the service level breaks ({case['reason']})"
    parts = [f"{case['name']}: {verdict}"]
    if "failed_requests" in figures:
        failed, migrated = figures["failed_requests"], figures["migrated_requests"]
        parts.append(f"{failed:g} requests fail (percentiles leave them out), {migrated:g} go on elsewhere")
    if case["name"] == "autoscaling" and content["gpu_hours"]:
        saved = 1 - figures["gpu_hours"] / content["gpu_hours"]
        parts.append(
            f"{figures['gpu_hours']:.4g} instead of {content['gpu_hours']:.4g} GPU hours ({100 * saved:.0f} % saved)"
        )
    return ", ".join(parts)


def _other(each: Mapping[str, Any]) -> str:
    change = f"{100 * (each['durations'] - 1):+.0f} %"
    holds = "the winner holds" if each["holds"] else "the winner does not hold"
    if each["best"] is None:
        return f"{change}: {holds}; no deployment keeps the service level"
    if each["same"]:
        return f"{change}: {holds}, and stays the best"
    return f"{change}: {holds}; the best is {each['best']} ({each['gpus']} GPUs)"


def _how(content: Content) -> list[str]:
    counts = content["counts"]
    lines = [
        f"{counts['candidates']:,} deployments, {counts['whole']:,} run to the end, {counts['ruled_out']:,} ruled out "
        f"before; {counts['runs']:,} runs simulated with beginnings, draws and checks:"
    ]
    for group in content["ruled_out"][:_MOST_REASONS]:
        how = _HOW.get(group["how"], group["how"])
        lines.append(f"{group['candidates']:,} {how}, such as {group['example']}: {group['reason']}")
    return lines
