"""A recommendation in words, the same in the terminal and on the page: titles, each with lines."""

from __future__ import annotations

import re
import shlex
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from dynamo.replay import durations
from dynamo.sweep.advice import basis
from dynamo.sweep.advice.question import FEWEST_GPUS
from dynamo.sweep.wording import between, number

Content = Mapping[str, Any]
Sections = list[tuple[str, list[str]]]
SHORT, LONGER = "In short", "If passes take longer or shorter"
_ASKED = "What is asked"
_WIDTH = 118
_MOST_REASONS, _LONGEST = 5, 200
_BEYOND = "is not sure: other draws of this traffic go beyond it"
_LONGER = "passes that take 15 % longer"
_ENOUGH = 15
"""The increase in percent with which an answer has to hold for the first lines to list it under what holds."""
_MANY = 0.9
"""The part of requests within all limits below which the answer begins with it."""
_GOT = re.compile(r"([<>]= ([\d.e+-]+): )?got (\d[\d.e+-]*\d|\d)")
_HOW = {
    "beaten": "cannot be the answer",
    "beginning": "miss the service level before the end of their run",
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
    parts = [(title, [renamed(rounded(line), named) for line in lines]) for title, lines in _sections(content) if lines]
    asked = next(lines for title, lines in parts if title == _ASKED)
    asked.extend(f"{name} is called {shown} in tables and charts" for shown, name in named.items())
    return parts


def _sections(content: Content) -> Sections:
    asked, found = (_ASKED, _asked(content)), ("How it was found", _how(content))
    if content["winner"] is None:
        return [asked, ("Answer", [_no_answer(content)]), ("How sure", _sure(content)), found]
    headroom = content["headroom"]
    scaled = [case for case in content["cases"] if "policy" in case]
    lost = [case for case in content["cases"] if "policy" not in case]
    return [
        (SHORT, _short(content)),
        asked,
        ("Start", [content["deployment"], *content["flags"], *_files(content)]),
        ("Cost", [_cost(content)]),
        ("Service level", [*(_target(target) for target in content["targets"]), *_good(content)]),
        ("How sure", _sure(content)),
        ("Headroom", [] if headroom is None else [_headroom(headroom)]),
        ("What breaks it", [_loss(case, content) for case in lost]),
        ("Autoscaling", [_autoscaling(case, content) for case in scaled]),
        (LONGER, [*_longer(content["endurance"]), *[_other(each, content) for each in content["sensitivity"]]]),
        ("Next best", content["next_best"]),
        found,
    ]


def short(content: Content) -> list[str]:
    """What to start, what it costs, how sure it is, and what breaks first."""
    return [renamed(rounded(line), content["named"]) for line in _short(content)]


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
            if line in content["flags"]:
                about, command = commanded(line)
                parts += [*_wrapped(about), *(f"    {part}" for part in command)]
            else:
                parts += _wrapped(line)
    return "\n".join(parts) + "\n"


def rounded(line: str) -> str:
    """A line whose measured figures have four digits, or as many as tell them from the bound that they miss."""
    return _GOT.sub(lambda found: f"{found[1] or ''}got {_digits(found[3], found[2])}", line)


def _digits(written: str, limit: str | None) -> str:
    value = float(written)
    texts = (number(value, digits) for digits in (4, 5, 6))
    return next((text for text in texts if limit is None or float(text) != float(limit)), written)


def _wrapped(line: str) -> list[str]:
    return textwrap.wrap(
        line,
        _WIDTH,
        initial_indent="  ",
        subsequent_indent="    ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def commanded(line: str) -> tuple[str, list[str]]:
    """What a command is for, and the command in lines that a shell takes as one."""
    about, _, command = line.partition(": ")
    lines = [""]
    for word in map(shlex.quote, shlex.split(command)):
        if len(lines[-1]) + len(word) + 7 > _WIDTH and lines[-1]:
            lines[-1] += "\\"
            lines.append("")
        lines[-1] += f"{word} "
    return f"{about}:", [part.rstrip() for part in lines]


def _asked(content: Content) -> list[str]:
    asked = content["question"]
    where = f"{asked['model']} on {asked['system']}" if asked["model"] else "an engine on GPUs of no particular kind"
    rules = (
        "the engine's own scheduler" if asked["accept_rates"] is None else "Dynamo's mocker, which know draft tokens"
    )
    goals = {
        "fewest_gpus": "the fewest GPUs that keep the service level",
        "cost": "the least GPU hours that keep the service level",
        "goodput": "the most requests within the limits of the service level",
    }
    return [
        f"{where}, at most {asked['gpus']} GPUs, {' or '.join(durations.ENGINES[name] for name in asked['engines'])}, "
        f"simulated by the rules of {rules}",
        f"{goals[asked['objective']]}: {', '.join(asked['sla'])}; trace {asked['trace']}",
    ]


def _short(content: Content) -> list[str]:
    lines = [_start(content), "; ".join([_kept(content["targets"]), *_doubts(content)])]
    lines.append(durations.caveat(content["durations"]))
    if broken := _breaking(content):
        lines.append(f"it breaks with {', with '.join(broken)}")
    if kept := _examined(content, True):
        lines.append(f"it holds with {', with '.join(kept)}")
    if (other := _sturdier(content)) is not None:
        slower = ", and is slower for each user" if content["question"]["objective"] == FEWEST_GPUS else ""
        lines.append(f"with as many GPUs, {_named(other)} holds with {_LONGER}{slower}")
    return lines


def _start(content: Content) -> str:
    """What to start, in one sentence."""
    gpus = f"{content['gpus']} GPU{'s' if content['gpus'] > 1 else ''}"
    host, price = content["host_gb"], content["cost_per_hour"]
    text = f"start {content['size']} = {gpus}"
    if host is not None:
        each = host["all"] / content["gpus"]
        of_gpus = "" if each == host["worker"] else f" ({each:g} GB for each GPU)"
        text += f", with {host['worker']:g} GB of host memory for the KV of each worker{of_gpus}, "
        text += f"{host['all']:g} GB in all"
    if not content["size"].startswith("1 x "):
        kind = "KV-aware router" if content["basis"]["router"] == "kv_router" else "frontend"
        text += f", behind Dynamo's {kind}"
    return text + ("" if price is None else f", for {price:.2f} an hour")


def _kept(targets: Sequence[Mapping[str, Any]]) -> str:
    """Whether the bounds are kept, which those of the most goodput need not be, with their figures."""
    values = []
    for target in targets:
        name, _, limit = target["bound"].partition(" ")
        values.append(f"{name} {'none' if target['value'] is None else number(target['value'])} ({limit})")
    holds = "holds" if all(target["met"] for target in targets) else "is missed"
    return f"the service level {holds} on this trace: {', '.join(values)}"


def _doubts(content: Content) -> list[str]:
    """Which bounds are not sure, and how many requests are beyond some limit where they are many."""
    found = [f"{target['bound']} {doubt}" for target in content["targets"] if (doubt := _doubt(target))]
    ratio = content["goodput_ratio"]
    if ratio is not None and ratio < _MANY:
        found.append(f"only {100 * ratio:.3g} % of the requests keep each limit by themselves")
        gap = content["good"].get("sla_tpot_ms")
        if gap is not None and (p90 := content["basis"]["request_gaps_ms"]["p90"]) > gap:
            found[-1] += f", the p90 of their mean gaps between tokens is {p90:.3g} ms"
    return found


def _breaking(content: Content) -> list[str]:
    """What breaks the service level: how much more traffic, longer passes, losses."""
    headroom = content["headroom"]
    found = []
    if headroom is not None and headroom.get("breaks_at") is not None:
        found.append(f"{headroom['breaks_at']:.2f} times this traffic ({headroom['limited_by']})")
    return [*found, *_examined(content, False)]


def _examined(content: Content, holds: bool) -> list[str]:
    """Longer passes and losses with which the service level holds, or breaks."""
    lost = [case for case in content["cases"] if "policy" not in case and case.get("holds") == holds]
    names = [f"the {case['name'].partition(',')[0]}{_survivors(case)}" for case in lost]
    if content["size"].startswith("1 x "):
        names = [name.replace("of a worker", "of the only worker") for name in names]
    return [*_lasting(content, holds), *names]


def _lasting(content: Content, holds: bool) -> list[str]:
    """With how much longer passes the service level holds, or breaks: in the first lines, where one of both stands."""
    found = content["endurance"]
    if found is None or "unknown" in found:
        tried = (each for each in content["sensitivity"] if each["durations"] > 1 and each["holds"] == holds)
        return [_LONGER for _ in tried]
    if (found["holds"] >= _ENOUGH) != holds:
        return []
    if holds:
        return [f"passes that take up to {found['holds']} % longer"]
    kept = f" (it holds with {found['holds']} %)" if found["holds"] else ""
    return [f"passes that take {found['breaks']} % longer{kept}"]


def _longer(found: Mapping[str, Any] | None) -> list[str]:
    """Up to how much longer passes the answer holds."""
    if found is None:
        return []
    if "unknown" in found:
        return [f"up to how much longer the answer holds is not known: {found['unknown']}"]
    if found["breaks"] is None:
        return [f"the answer holds up to {found['holds']} % longer; more was not tried"]
    holds = f"holds up to {found['holds']} % longer, and " if found["holds"] else ""
    return [f"the answer {holds}breaks with {found['breaks']} % longer"]


def _survivors(case: Mapping[str, Any]) -> str:
    """How many workers keep the service level although one is lost, if the answer's do not."""
    spares = case.get("spares")
    return f" ({spares['workers']} such workers survive it)" if spares is not None and spares["holds"] else ""


def _sturdier(content: Content) -> Mapping[str, Any] | None:
    """What has as many GPUs and holds with longer passes, where the answer does not."""
    tried: Sequence[Mapping[str, Any]] = content["sensitivity"]
    for each in tried:
        if each["durations"] > 1 and not each["holds"] and each["best_holds"] and each["gpus"] == content["gpus"]:
            return each
    return None


def _named(other: Mapping[str, Any]) -> str:
    point = "" if other["point"] is None else f" (point {other['point']})"
    return f"{other['best']}{point}"


def _no_answer(content: Content) -> str:
    nearest = content["nearest"]
    if nearest is None:
        return "No deployment keeps the service level with so many GPUs; why is below."
    return (
        f"No deployment keeps the service level with so many GPUs. Of those that were run to the end, the nearest is "
        f"{nearest['name']}: {nearest['reason']}"
    )


def _files(content: Content) -> list[str]:
    if content["not_exported"]:
        return [f"no command line and no file can say it: {content['not_exported']}"]
    if content["point"] is None:
        return []
    model = "" if content["question"]["model"] else " --model MODEL"
    return [
        "as files, with the manifests of Kubernetes and a check of the prediction: "
        f"python -m dynamo.sweep export FOLDER {content['point']} -o NEW{model}, where FOLDER has this answer"
    ]


def _cost(content: Content) -> str:
    gpus = f"{content['gpus']} GPU{'s' if content['gpus'] != 1 else ''}"
    if content["cost_per_hour"] is None:
        return f"{gpus}; {content['gpu_hours']:.4g} GPU hours for the trace (give the price of a GPU for costs)"
    return (
        f"{gpus}; {content['cost_per_hour']:.2f} an hour; {content['cost_per_million_tokens']:.4g} per million tokens "
        f"of prompts and answers, {content['cost_per_million_output_tokens']:.4g} per million of answers alone"
    )


def _target(target: Mapping[str, Any]) -> str:
    parts = [f"{target['bound']}: {number(target['value'])}"]
    if target["p99"] is not None:
        parts.append(f"and p99 {number(target['p99'])}")
    if target["low"] is not None:
        parts.append(f"with other draws of this traffic {between(target['low'], target['high'], 4)} (95 %)")
    if target["error"] is not None:
        parts.append(f"measured error of such durations {100 * target['error']:.0f} %")
    doubt = _doubt(target)
    return ", ".join([*parts, *(["so it is not sure"] if doubt == _BEYOND else filter(None, [doubt]))])


def _doubt(target: Mapping[str, Any]) -> str:
    if not target["met"]:
        return "is missed"
    if target["low"] is not None and not target["sure"]:
        return _BEYOND
    return "is not sure: it is kept by less than the measured error" if target["within_error"] else ""


def _good(content: Content) -> list[str]:
    """How many requests keep every limit, which is less than what a percentile asks for."""
    ratio, limits = content["goodput_ratio"], content["good"]
    if ratio is None:
        return []
    each = " and ".join(f"{_LIMITS[name]} of at most {limit:g} ms" for name, limit in limits.items() if name in _LIMITS)
    lines = [
        f"{100 * ratio:.4g} % of the requests have {each} (goodput_ratio). This counts requests one by one; the bounds "
        "above are on percentiles or means of all, and let single ones be late"
    ]
    if ratio < _MANY:
        asked = renamed(", ".join([*content["question"]["sla"], f"goodput_ratio >= {_MANY:g}"]), content["named"])
        lines.append(f'which deployment does so for {100 * _MANY:g} %: ask again with --sla "{asked}" and a new -o')
    return lines


def _sure(content: Content) -> list[str]:
    lines = [line[0].upper() + line[1:] for line in durations.in_words(content["durations"])]
    if content["basis"] is not None:
        lines += basis.lines(content["basis"])
    return lines + ([content["no_interval"]] if content["no_interval"] else [])


def _headroom(found: Mapping[str, Any]) -> str:
    if "unknown" in found:
        return f"not known: {found['unknown']}"
    factor, rate, nominal = found["factor"], found["rps"], found["nominal_rps"]
    if factor < 1.005:
        return f"holds at this traffic, {nominal:.4g} requests/s, and hardly beyond; {_breaks_at(found)}"
    rates = f"{rate:.4g} instead of {nominal:.4g}"
    more = f"{rates} requests/s"
    if rate < 0.97 * factor * nominal:
        closer = f"with timestamps {factor:.2f} times as close"
        more = f"{closer}: requests then arrive at {rates} a second, as turns wait for answers"
    return f"holds up to {factor:.2f} times this traffic, {more}; {_breaks_at(found)}"


def _breaks_at(found: Mapping[str, Any]) -> str:
    """The least traffic that was found to break the service level."""
    if found["breaks_at"] is None:
        return "more traffic was not tried"
    return f"{found['breaks_at']:.2f} times this traffic breaks it: {found['limited_by']}"


def _loss(case: Mapping[str, Any], content: Content) -> str:
    if "unknown" in case:
        return f"{case['name']}: not simulated: {case['unknown']}"
    lost, basis = "", content["basis"]
    if (noticed := basis["noticed_s"]) is not None:
        lost = f", noticed after {noticed:g} s and back after {basis['back_s']:g} s"
    text = f"{case['name']}{lost}: {_verdict(case)}"
    if "failed_requests" in case["figures"]:
        failed, migrated = case["figures"]["failed_requests"], case["figures"]["migrated_requests"]
        limit = basis["migration_limit"]
        count = case["figures"]["num_requests"]
        text += f". Of {count:g} requests, {failed:g} fail, which percentiles leave out, and "
        text += f"{migrated:g} go on elsewhere (--migration-limit {limit})" if limit else "none goes on elsewhere"
    if (spares := case.get("spares")) is not None:
        hour = content["cost_per_hour"]
        cost = "" if hour is None else f", {hour / content['gpus'] * spares['gpus']:.2f} an hour"
        holds = "keep the service level then" if spares["holds"] else "do not keep the service level then either"
        text += f". {spares['workers']} such workers ({spares['gpus']} GPUs{cost}) {holds}"
    return text


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
    longer = f"takes {-percent} % more, as the run lasts longer,"
    change = f"saves {percent} %" if percent > 0 else longer if percent else "saves nothing"
    minutes = content["basis"]["seconds"] / 60
    return (
        f"{by} {change} on this trace, {after:.4g} instead of {before:.4g} GPU hours, and {_verdict(case)}. It lasts "
        f"{minutes:.3g} minutes: a day with quiet hours may be another matter. The files have a fixed number of workers"
    )


def _other(each: Mapping[str, Any], content: Content) -> str:
    percent = round(100 * (each["durations"] - 1))
    change = f"{abs(percent)} % {'longer' if percent > 0 else 'shorter'}"
    holds = f"the answer {'holds' if each['holds'] else 'breaks'}"
    if each["best"] is None:
        return f"{change}: {holds}; no deployment keeps the service level"
    fewest = content["question"]["objective"] == FEWEST_GPUS
    if each["same"]:
        stays = "" if percent > 0 else ", and fewer GPUs are not enough"
        return f"{change}: {holds}{stays if fewest else ', and stays the best'}"
    if not fewest:
        return f"{change}: {holds}; the best is {_named(each)}, with {each['gpus']} GPUs"
    other = (
        "another deployment of as many GPUs keeps" if each["gpus"] == content["gpus"] else f"{each['gpus']} GPUs keep"
    )
    too = ", too" if each["holds"] else ""
    return f"{change}: {holds}; {other} the service level{too}: {_named(each)}"


def _how(content: Content) -> list[str]:
    counts = content["counts"]
    lines = [
        f"of {counts['candidates']:,} deployments {counts['whole']:,} were run to the end, {counts['ruled_out']:,} "
        f"ruled out before; {counts['runs']:,} runs in all, with beginnings, draws and checks"
    ]
    for group in content["ruled_out"][:_MOST_REASONS]:
        how = _HOW.get(group["how"], group["how"])
        reason = group["reason"].removeprefix("extra_engine_args: ")
        reason = reason if len(reason) <= _LONGEST else f"{reason[:_LONGEST].rpartition(' ')[0]} ..."
        lines.append(f"{group['candidates']:,} {how}, such as {group['example']}: {reason}")
    if rest := sum(group["candidates"] for group in content["ruled_out"][_MOST_REASONS:]):
        lines.append(f"{rest:,} for other reasons, all of them in report.json")
    return lines
