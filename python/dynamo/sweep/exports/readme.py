"""The page of an export: what is in it, what was simulated, what is predicted, and what no file says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dynamo._core import values
from dynamo._shell.fields import fields_of
from dynamo.replay import deployment
from dynamo.sweep import wording
from dynamo.sweep.advice import wording as advice
from dynamo.sweep.exports import scripts, verify
from dynamo.sweep.exports.documents import EVENTS_PORT, PORT
from dynamo.sweep.exports.engine import VLLM
from dynamo.sweep.exports.plan import ENGINE_GIB, Plan
from dynamo.sweep.exports.table import ASSUMED, ENGINE, ROUTER
from dynamo.sweep.sla import bound_of

_FILES = {
    "engine.sh": "one worker by the engine's own server, without a router: `sh engine.sh`",
    "start.sh": "the whole deployment on this host, until one of its processes ends, which ends all: `sh start.sh`. No "
    "worker comes back after its loss, as it did where that was simulated: use manifests or a service manager for that",
    "dynamo-1.3.yaml": "for clusters with the operator of Dynamo 1.3: `kubectl apply -f dynamo-1.3.yaml`",
    "dynamo-1.6.yaml": "for clusters with the operator of Dynamo 1.6: `kubectl apply -f dynamo-1.6.yaml`",
    "kubernetes.yaml": "for clusters without it: `kubectl apply -f kubernetes.yaml`",
    "compose.yaml": "for one host with Docker: `docker compose up`",
    "nginx.conf": "the router of compose.yaml",
    "verify.sh": "six benchmark runs against the deployment, which say whether the prediction holds: `sh verify.sh`",
    "verify.json": "what is predicted of these runs",
    "deployment.json": "what their results are of",
    "prediction.json": "what is predicted, and the run that predicts it",
}
_SHOWN = ("mean_ttft_ms", "p90_ttft_ms", "p99_ttft_ms", "mean_tpot_ms", "p90_tpot_ms", "p99_tpot_ms")
_MORE = {
    "output_tok_s_per_gpu": "",
    "goodput_ratio": ", the part of all requests that keep each limit by themselves",
    "gpu_hours": " of the run",
    "gpu_cost": " of the run",
    "cost_per_million_tokens": "",
}
_SAID = ("Cost", "How sure", "Headroom", "What breaks it", "Autoscaling", advice.LONGER)
"""What a recommendation says of its answer, beside what is in other parts of this page."""
_NOT_EXAMINED = (
    "Headroom, the loss of a worker and other traffic were not examined: `python -m dynamo.sweep recommend` does that "
    "with its answer."
)


def text(plan: Plan, files: Sequence[str], left_out: Mapping[str, str]) -> str:
    """The page as Markdown."""
    parts = [
        f"# {plan.model}: point {plan.point} of a sweep",
        f"{deployment.words(deployment.of(plan.arguments))}.",
        *([] if plan.recommendation is None else [_list(advice.short(plan.recommendation))]),
        *(f"**Note:** {warning}" for warning in plan.warnings),
        "## Files",
        _table(("file", "what"), [(f"`{name}`", _FILES[name]) for name in files if name in _FILES]),
    ]
    if left_out:
        parts += ["Left out:", _list(f"`{name}`: {reason}" for name, reason in left_out.items())]
    parts += ["## Hosts", _list(_hosts(plan, files)), "## To install", _list(_needs(plan, files))]
    parts += ["## Predicted", _predicted(plan), *_sla(plan), *_examined(plan.recommendation)]
    parts += ["## Simulated, and in no file", _assumed(plan)]
    return "\n\n".join(parts) + "\n"


def _hosts(plan: Plan, files: Sequence[str]) -> list[str]:
    """GPUs, memory and ports that hosts need."""
    lines = []
    for pool in plan.pools:
        name = "worker" if pool.role == "worker" else f"{pool.role} worker"
        each = f"each of {pool.workers} {name}s" if pool.workers > 1 else f"the {name}"
        gpus = f"{pool.gpus} GPU{'s' if pool.gpus > 1 else ''}{f' ({plan.gpu})' if plan.gpu else ''}"
        kv = f", {pool.host_gb:g} GB of it for KV blocks" if pool.host_gb else ""
        lines.append(f"{each}: {gpus} of one node and {pool.memory_gib} GiB of its memory{kv}")
    if whole := [f"`{file}`" for file in ("start.sh", "compose.yaml") if file in files]:
        total = sum(pool.workers * pool.gpus for pool in plan.pools)
        memory = sum(pool.workers * pool.memory_gib for pool in plan.pools)
        lines.append(f"one host for all ({', '.join(whole)}): {total} GPU{'s' if total > 1 else ''}, {memory} GiB")
    lines.append(
        f"of the memory, {ENGINE_GIB} GiB for each GPU are a guess at what an engine needs beside KV blocks; manifests "
        "ask for it and set no limit"
    )
    return [*lines, f"ports: {', '.join(_ports(plan, files))}"]


def _ports(plan: Plan, files: Sequence[str]) -> list[str]:
    """Ports that have to be free; pods have addresses of their own."""
    workers = sum(pool.workers for pool in plan.pools)
    found = [f"{PORT} for requests"]
    if "start.sh" in files and plan.router == "kv_router":
        found.append(f"{EVENTS_PORT} to {EVENTS_PORT + workers - 1} for events of KV caches (`start.sh`)")
    if "start.sh" in files and not plan.one_pool and plan.engine == VLLM:
        first, last = (scripts.side_channel(at) for at in (0, workers - 1))
        found.append(f"{first} to {last} and those after them for KV between workers (`start.sh`)")
    return found


def _needs(plan: Plan, files: Sequence[str]) -> list[str]:
    """What has to be there before a file is used."""
    name = {"vllm": "vLLM", "sglang": "SGLang"}[plan.engine]
    exact = f"=={plan.version}" if plan.version else ""
    engine = f"{name} on hosts with GPUs: `pip install {plan.engine}{exact}`"
    dynamo = f"Dynamo with {name} on the host with GPUs: `pip install 'ai-dynamo[{plan.engine}]==1.3.1'`"
    needs = {
        "engine.sh": engine,
        "start.sh": dynamo if plan.behind_dynamo else engine,
        "dynamo-1.3.yaml": "a cluster with GPUs and the operator of Dynamo 1.3",
        "dynamo-1.6.yaml": "a cluster with GPUs and the operator of Dynamo 1.6",
        "kubernetes.yaml": "a cluster with NVIDIA's device plugin",
        "compose.yaml": "Docker with the NVIDIA Container Toolkit",
        "verify.sh": "vLLM for its benchmark client, which needs no GPU, and dynosim: `pip install vllm dynosim` in an "
        "environment of its own, as Dynamo and SGLang want other releases of the same packages",
    }
    lines = [f"`{file}`: {text}" for file, text in needs.items() if file in files]
    return [*lines, f"all: access to the weights of {plan.model}, by `HF_TOKEN` where the model wants one"]


def _examined(recommendation: Mapping[str, Any] | None) -> list[str]:
    if recommendation is None:
        return [_NOT_EXAMINED]
    parts = []
    for title, lines in advice.sections(recommendation):
        if title in _SAID:
            parts += [f"## {title}", _list(lines)]
    return parts


def _predicted(plan: Plan) -> str:
    rows = []
    for name in (*_SHOWN, *_MORE):
        if name in plan.figures:
            low, high = plan.intervals.get(name, (None, None))
            interval = "" if low is None or high is None else wording.between(low, high, 4)
            rows.append((name + _MORE.get(name, ""), f"{plan.figures[name]:.4g}", interval))
    return _table(("figure", "predicted", "95 %"), rows)


def _sla(plan: Plan) -> list[str]:
    named = {} if plan.recommendation is None else plan.recommendation["named"]
    lines = [
        f"{advice.renamed(str(bound_of(v)), named)}: {v['value']:.4g}, "
        f"{('kept' if v['sure'] else 'kept, but not sure') if v['met'] else 'missed'}"
        for v in plan.sla
        if v["value"] is not None and not (v["figure"] == "rejected_requests" and v["met"])  # goes without saying
    ]
    if wide := verify.too_wide(plan):
        lines.append(wide)
    if plan.recommendation is not None:  # which says how sure it is
        return [_list(lines)]
    error = plan.measured_error
    known = (
        "The error of durations like these is not known: nothing like this was measured."
        if error is None
        else "Measured error of durations like these: "
        + ", ".join(f"{name} {value}" for name, value in error.items() if value is not None)
        + "."
    )
    return [_list(lines), known] if lines else [known]


def _assumed(plan: Plan) -> str:
    """What the simulation takes the world to be, as far as the point says something else than the default."""
    defaults = {name: field.default for name, field in fields_of(None).items()}
    said: dict[str, dict[str, Any]] = {}
    for pool in plan.pools:
        for path, value in pool.arguments.items():
            if not _has_effect(path, pool.arguments.get("scheduler") or "dynamo"):
                continue
            if ENGINE[path].kind == ASSUMED and value not in (None, defaults.get(path)):
                said.setdefault(path, {})[pool.role] = value
    rows = [(f"`router_config.{key}`", values.show(value), ROUTER[key].text) for key, value in _credits(plan)]
    for path, each in said.items():
        shown = {values.brief(values.show(value)) for value in each.values()}
        text = shown.pop() if len(shown) == 1 else ", ".join(f"{role} {values.show(v)}" for role, v in each.items())
        rows.append((f"`{path}`", text, ENGINE[path].text))
    return _table(("argument", "simulated", "why it is in no file"), rows)


def _has_effect(path: str, scheduler: str) -> bool:
    """Whether an engine argument, or a member of one after a dot, means something to a scheduler."""
    outer, _, member = path.partition(".")
    table = fields_of(outer if member else None)
    schedulers = table[member or outer].schedulers
    return not schedulers or scheduler in schedulers


def _credits(plan: Plan) -> Iterator[tuple[str, Any]]:
    """What the router credits workers with for KV below their pools, of which no flag is documented."""
    settings = plan.arguments.get("router_config") or {}
    for key, value in settings.items():
        if plan.router == "kv_router" and ROUTER[key].of_host and any(pool.host_gb for pool in plan.pools):
            yield key, value


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _list(lines: Any) -> str:
    return "\n".join(f"- {line}" for line in lines)
