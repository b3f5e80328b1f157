"""A recommendation in words, the same in the terminal and on the page: titles, each with lines."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import Any

from dynamo.replay import durations
from dynamo.sweep.advice import basis
from dynamo.sweep.wording import between

Content = Mapping[str, Any]
Sections = list[tuple[str, list[str]]]
SHORT = "In short"
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
_LIMITS = {
    "sla_ttft_ms": "a TTFT",
    "sla_tpot_ms": "a mean gap between tokens",
    "sla_e2e_ms": "a whole latency",
}


def sections(content: Content) -> Sections:
    """All that is said, in the order of what a reader asks first, with figures called as in the question."""
    named = content["named"]
    parts = [(title, [renamed(line, named) for line in lines]) for title, lines in _sections(content) if lines]
    parts[0][1].extend(f"{name} is called {shown} in tables and charts" for shown, name in named.items())
    return parts


def _sections(content: Content) -> Sections:
    asked, found = ("What is asked", _asked(content)), ("How it was found", _how(content))
    if content["winner"] is None:
        return [asked, ("Answer", [_no_answer(content)]), ("How sure", _sure(content)), found]
    headroom = content["headroom"]
    scaled = [case for case in content["cases"] if "policy" in case]
    lost = [case for case in content["cases"] if "policy" not in case]
    return [
        asked,
        (SHORT, _short(content)),
        ("Start", [content["deployment"], *content["flags"], *_files(content)]),
        ("Cost", [_cost(content)]),
        ("Service level", [*(_target(target) for target in content["targets"]), *_good(content)]),
        ("How sure", _sure(content)),
        ("Headroom", [] if headroom is None else [_headroom(headroom)]),
        ("What breaks it", [_loss(case, content) for case in lost]),
        ("Autoscaling", [_autoscaling(case, content) for case in scaled]),
        ("If passes take longer or shorter", [_other(each) for each in content["sensitivity"]]),
        ("Next best", content["next_best"]),
        found,
    ]


def renamed(line: str, names: Mapping[str, str]) -> str:
    """A line with figures called as in the question."""
    for shown, name in names.items():
        line = line.replace(shown, name)
    return line


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


def _asked(content: Content) -> list[str]:
    asked = content["question"]
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


def _short(content: Content) -> list[str]:
    """What to start, what it costs, how sure it is, and what breaks first."""
    price = content["cost_per_hour"]
    size, engine = content["deployment"].split(", ")[:2]
    lines = [f"start {size} of {engine}" + ("" if price is None else f", for {price:.2f} an hour")]
    doubts = [f"{target['bound']} {doubt}" for target in content["targets"] if (doubt := _doubt(target))]
    found = content["durations"]
    if durations.errors(found) is None and not durations.expected_line(found):
        doubts.append("how far durations are off is not known")
    lines.append("; ".join(["the service level holds on this trace", *doubts]))
    headroom = content["headroom"]
    if headroom is not None and "unknown" not in headroom:
        lines.append(_breaks_at(headroom))
    broken = [case["name"].partition(",")[0] for case in content["cases"] if not case.get("holds", True)]
    if broken:
        lines.append(f"the {' and the '.join(broken)} break{'s' if len(broken) == 1 else ''} it")
    return lines


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
        "as files that start it, with GPUs, ports and every other flag that was simulated: "
        f"python -m dynamo.sweep export FOLDER {content['point']} -o NEW, where FOLDER has this answer"
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
        parts.append(f"95 % {between(target['low'], target['high'], 5)}")
    if target["error"] is not None:
        parts.append(f"measured error of such durations {100 * target['error']:.0f} %")
    return ", ".join([*parts, *filter(None, [_doubt(target)])])


def _doubt(target: Mapping[str, Any]) -> str:
    if not target["met"]:
        return "is missed"
    if target["low"] is not None and not target["sure"]:
        return "is not sure: the interval goes beyond it"
    return "is not sure: it is kept by less than the measured error" if target["within_error"] else ""


def _good(content: Content) -> list[str]:
    """How many requests keep every limit, which is less than what a percentile asks for."""
    ratio, limits = content["goodput_ratio"], content["good"]
    if ratio is None:
        return []
    each = " and ".join(f"{_LIMITS[name]} of at most {limit:g} ms" for name, limit in limits.items() if name in _LIMITS)
    return [
        f"of the requests, {100 * ratio:.4g} % have {each} (goodput_ratio). This counts requests one by one, while "
        "the bounds above are on percentiles or means of all, and let single ones be late"
    ]


def _sure(content: Content) -> list[str]:
    lines = [line[0].upper() + line[1:] for line in durations.lines(content["durations"])]
    if content["basis"] is not None:
        lines += basis.lines(content["basis"])
    return lines + ([content["no_interval"]] if content["no_interval"] else [])


def _headroom(found: Mapping[str, Any]) -> str:
    if "unknown" in found:
        return f"not known: {found['unknown']}"
    factor, rate, nominal = found["factor"], found["rps"], found["nominal_rps"]
    if factor < 1.005:
        return f"holds at this traffic, {nominal:.4g} requests/s, and hardly beyond; {_breaks_at(found)}"
    more = f"{factor:.2f} times this traffic, {rate:.4g} instead of {nominal:.4g} requests/s"
    return f"holds up to {more}; {_breaks_at(found)}"


def _breaks_at(found: Mapping[str, Any]) -> str:
    """The least traffic that was found to break the service level."""
    if found["breaks_at"] is None:
        return "more traffic was not tried"
    return f"{found['breaks_at']:.2f} times this traffic breaks it: {found['limited_by']}"


def _loss(case: Mapping[str, Any], content: Content) -> str:
    if "unknown" in case:
        return f"{case['name']}: not simulated: {case['unknown']}"
    parts = [f"{case['name']}: {_verdict(case)}"]
    if "failed_requests" in case["figures"]:
        failed, migrated = case["figures"]["failed_requests"], case["figures"]["migrated_requests"]
        limit = content["basis"]["migration_limit"]
        count = case["figures"]["num_requests"]
        parts.append(f"failed requests: {failed:g} of {count:g} (percentiles leave them out)")
        parts.append(f"migrated ones: {migrated:g} (--migration-limit {limit})" if limit else "none migrates")
    return ", ".join(parts)


def _verdict(case: Mapping[str, Any]) -> str:
    return "the service level holds" if case["holds"] else f"the service level breaks ({case['reason']})"


def _autoscaling(case: Mapping[str, Any], content: Content) -> str:
    policy = case["policy"]
    by = (
        f"a HorizontalPodAutoscaler with {policy['min']} to {policy['max']} workers that aims at {policy['target']} "
        "waiting request per worker"
    )
    if "unknown" in case:
        return f"{by}: not simulated: {case['unknown']}"
    before, after = content["gpu_hours"], case["figures"]["gpu_hours"]
    percent = round(100 * (1 - after / before))
    change = f"saves {percent} %" if percent > 0 else f"takes {-percent} % more" if percent else "saves nothing"
    minutes = content["basis"]["seconds"] / 60
    return (
        f"{by} {change} on this trace, {after:.4g} instead of {before:.4g} GPU hours, and {_verdict(case)}. It lasts "
        f"{minutes:.3g} minutes: a day with quiet hours may be another matter. The files have a fixed number of workers"
    )


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
