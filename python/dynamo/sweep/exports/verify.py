"""``verify.sh``: six runs of ``vllm bench serve`` that would show that a prediction is wrong."""

from __future__ import annotations

import hashlib
import json
import math
import re
import shlex
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from dynamo.replay import latencies, planned
from dynamo.sweep import points, simulate
from dynamo.sweep.exports.plan import Plan
from dynamo.sweep.exports.table import RUN
from dynamo.sweep.sla import bound_of

PREDICTIONS = "verify.json"
_SCHEMA = 1
# What is said about traffic and its service level, which a benchmark replaces; faults, which it does not have.
_TRAFFIC = {name for name, row in RUN.items() if row.text in ("the traffic", "bounds of goodput")} | {
    *("faults", "fault_rate", "max_sim_time_ms", "max_sim_time_seconds", "stop_when_late", "seed", "gpu_hour_price"),
    "planner_log",
}
_ALONE, _FEWEST, _MOST = 16, 50, 1000
_TURNS = 4
"""How many requests a client of a closed loop sends at least, unless these are too many in all."""
_MOMENT_MS = 1.0
"""How long a client takes to ask again, and between its first request and that of the next client. An engine whose pass
has begun takes neither into it."""
_DRAWS = 9
"""How many times the arrivals of a run with a rate are drawn: those of the benchmark are others."""
_SECONDS = 120
"""How long a run with a rate lasts, unless that is too few or too many requests."""
_MOST_CLIENTS = 512
_IN_FLIGHT = "as many clients as the point has requests in flight"
_SHARED = 0.05
"""Prompts share a prefix if more than this part of them was found in caches."""
_RANKS = {"mean": "mean", "median": "p50", "p90": "p90", "p99": "p99"}
"""Statistics of reports, and what the benchmark calls them."""
_MEASURED = re.compile(rf"({'|'.join(_RANKS)})_(ttft|tpot|itl)_ms")
_TOLERANCES = {"ttft": (0.3, 0.15), "tpot": (0.2, 0.1)}
"""How far off a figure may be where no error is known, and at least where one is."""
_CLIENT_MS = 100.0
"""HTTP, tokenizer and client, which are part of a measured TTFT and not of ours."""


class Load(NamedTuple):
    """One run: what it shows, and its traffic."""

    name: str
    shows: str
    requests: int
    rate: float | None
    clients: int | None


class Traffic(NamedTuple):
    """Requests like those of the point: the mean lengths, and how much of a prompt all have in common."""

    input_tokens: int
    output_tokens: int
    cached: float
    """The part of the point's prompts that was found in caches."""

    @property
    def shared_tokens(self) -> int:
        """The prefix that all prompts have in common."""
        return int(self.cached * self.input_tokens) if self.cached > _SHARED else 0

    @property
    def flags(self) -> list[str]:
        """Flags of the benchmark."""
        own = self.input_tokens - self.shared_tokens
        words = ["--random-input-len", str(own), "--random-output-len", str(self.output_tokens)]
        return [*words, "--random-prefix-len", str(self.shared_tokens)] if self.shared_tokens else words


def files(plan: Plan) -> dict[str, str]:
    """The script, its predictions, and what the measurements are of."""
    traffic = _traffic(plan.report)
    runs = {load.name: _predicted(plan, traffic, load) for load in _loads(plan)}
    predictions = {
        "schema": _SCHEMA,
        "model": plan.model,
        "workers": sum(pool.workers for pool in plan.pools),
        "tolerance": {**_tolerance(plan.measured_error), "ttft_ms": _CLIENT_MS},
        "limits": _limits(plan.sla),
        **_margin(plan),
        "runs": runs,
    }
    found = {"verify.sh": _script(plan, traffic), PREDICTIONS: json.dumps(predictions, indent=1) + "\n"}
    if plan.one_pool and plan.pools[0].workers == 1:
        found["deployment.json"] = json.dumps(_deployment(plan), indent=1) + "\n"
    return found


def _margin(plan: Plan) -> dict[str, Any]:
    """With how much longer passes the service level breaks, in percent, where a recommendation knows it."""
    known = (plan.recommendation or {}).get("endurance") or {}
    return {} if known.get("breaks") is None else {"breaks_with_longer_percent": known["breaks"]}


def too_wide(plan: Plan) -> str:
    """That a prediction may hold although the service level is not kept; "" if no such margin is known."""
    breaks = _margin(plan).get("breaks_with_longer_percent")
    tolerance = 100 * _tolerance(plan.measured_error)["tpot"]
    if breaks is None or breaks > tolerance:
        return ""
    return (
        f"`verify.sh` says that the prediction held with a TPOT that is up to {tolerance:.3g} % longer, but the "
        f"service level breaks with passes that take {breaks} % longer: see what it says of the service level, too"
    )


def _limits(sla: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The bounds of the service level that a benchmark measures, too."""
    found = []
    for verdict in sla:
        bound = bound_of(verdict)
        match = _MEASURED.fullmatch(latencies.recorded(bound.figure))
        if match is not None and bound.at_most:
            found.append({"metric": match[2], "rank": _RANKS[match[1]], "at_most": bound.limit})
    return found


def _traffic(report: Mapping[str, Any]) -> Traffic:
    requests = max(1, int(report["num_requests"]))
    prompt = max(2, round(report["total_input_tokens"] / requests))
    answer = max(2, round(report["total_output_tokens"] / requests))
    return Traffic(prompt, answer, float(report["prefix_cache_reused_ratio"] or 0))


def _loads(plan: Plan) -> list[Load]:
    """The six runs, from a request alone to full batches."""
    closed = plan.arguments.get("replay_concurrency")
    completed = float(plan.report["request_throughput_rps"])
    rate = max(completed if closed else plan.offered_rps or completed, 1e-3)
    busy = _clients(closed or rate * plan.report["mean_e2e_latency_ms"] / 1000)
    full = _clients(
        sum(p.workers * int(p.arguments.get("max_num_seqs") or 256) for p in plan.pools if p.role != "prefill")
    )
    expected = Load("expected", "the traffic of the point", _count(rate), rate, None)
    if closed:
        expected = expected._replace(rate=None, clients=busy, requests=busy * _turns(busy))
    return [
        Load("alone", "durations of a pass with one request", _ALONE, None, 1),
        Load("light", "half of the rate", _count(rate / 2), round(rate / 2, 4), None),
        expected if closed else expected._replace(rate=round(rate, 4)),
        Load("peak", "1.3 times the rate", _count(1.3 * rate), round(1.3 * rate, 4), None),
        Load("busy", *_busy(2 * busy if closed else busy, "twice the clients" if closed else _IN_FLIGHT)),
        Load("full", "batches as large as they may be", full * _turns(full), None, full),
    ]


def _busy(clients: int, shows: str) -> tuple[str, int, None, int]:
    clients = min(clients, _MOST_CLIENTS)
    return shows, clients * _turns(clients), None, clients


def _clients(number: float) -> int:
    return min(max(1, math.ceil(number)), _MOST_CLIENTS)


def _count(rate: float) -> int:
    return min(max(_FEWEST, math.ceil(rate * _SECONDS)), _MOST)


def _turns(clients: int) -> int:
    """How many requests a client of a closed loop sends, one after the other."""
    return max(min(max(_TURNS, math.ceil(_ALONE / clients)), _MOST // clients), 2)


def _predicted(plan: Plan, traffic: Traffic, load: Load) -> dict[str, Any]:
    """What is predicted of a run, by simulations of such requests: the mean over draws, and how far draws differ."""
    run = {name: value for name, value in plan.given.items() if name not in _TRAFFIC}
    run |= {"input_tokens": traffic.input_tokens, "output_tokens": traffic.output_tokens}
    if traffic.shared_tokens:
        run |= {"shared_prefix_ratio": traffic.shared_tokens / traffic.input_tokens, "num_prefix_groups": 1}
    run |= _arrivals(load)
    draws = range(1 if load.clients else _DRAWS)
    reports = [
        planned.run(simulate.without_page(points.plain({**run, "seed": seed})), None, None).report for seed in draws
    ]
    return {
        "shows": load.shows,
        "flags": shlex.join(_flags(load)),
        "completed": min(report["completed_requests"] for report in reports),
        **{metric: _over_draws(reports, metric, statistics.mean) for metric in ("ttft", "tpot", "itl")},
        **(
            {} if load.clients else {"spread": {m: _over_draws(reports, m, statistics.stdev) for m in ("ttft", "tpot")}}
        ),
    }


def _arrivals(load: Load) -> dict[str, Any]:
    """Requests by a rate; or clients, each of which asks again a moment after its answer."""
    if not load.clients:
        return {"request_count": load.requests, "request_rate": load.rate, "arrival_process": "poisson"}
    turns = {"turns_per_session": load.requests // load.clients, "inter_turn_delay_ms": _MOMENT_MS}
    return {"request_count": load.clients, "arrival_interval_ms": _MOMENT_MS, **turns}


def _over_draws(
    reports: Sequence[Mapping[str, Any]], metric: str, of: Callable[[Sequence[float]], float]
) -> dict[str, float]:
    return {rank: of([report[f"{name}_{metric}_ms"] for report in reports]) for name, rank in _RANKS.items()}


def _flags(load: Load) -> list[str]:
    words = ["--num-prompts", str(load.requests)]
    if load.clients:
        return [*words, "--max-concurrency", str(load.clients)]
    return [*words, "--request-rate", f"{load.rate:g}"]


def _tolerance(error: Mapping[str, Any] | None) -> dict[str, float]:
    found = {}
    for metric, (unknown, least) in _TOLERANCES.items():
        known = None if error is None else error.get(metric)
        found[metric] = unknown if known is None else max(least, 2 * float(known))
    return found


def _deployment(plan: Plan) -> dict[str, Any]:
    """What a measurement is of, as ``dynamo.validate`` and ``dynamo.calibrate`` want it beside results."""
    given = plan.pools[0].arguments
    found = {
        "engine": plan.engine,
        "version": plan.version,
        "model": plan.model,
        "system": given.get("aic_system"),
        "tp": given.get("aic_tp_size") or 1,
        "attention_dp": given.get("aic_attention_dp_size") or 1,
        "moe_tp": given.get("aic_moe_tp_size"),
        "moe_ep": given.get("aic_moe_ep_size"),
        "engine_args": {
            name: given[name]
            for name in ("num_gpu_blocks", "block_size", "max_num_seqs", "max_num_batched_tokens", "max_model_len")
            if given.get(name) is not None
        },
    }
    return {name: value for name, value in found.items() if value}


_SCRIPT = """#!/bin/sh
# Is the prediction right? Six benchmark runs say it. Exit codes: 0 it held, 3 it did not, others: not measured.
#
#   URL=http://localhost:8000 sh verify.sh
#
# URL is where the deployment answers, and RESULTS the folder of the results: runs that are there are not run again.
# A folder with results of another deployment or other traffic is refused.
# Needs vllm (its benchmark client, no GPU) and dynosim.
#
# Prompts and answers have the mean lengths of the simulated traffic.
# {prefix}
set -eu
here=$(cd "$(dirname "$0")" && pwd)
URL=${{URL:-http://localhost:8000}}
RESULTS=${{RESULTS:-$here/results}}
mkdir -p "$RESULTS"
of="{of}"
if [ -n "$(ls -A "$RESULTS")" ] && [ "$(cat "$RESULTS/of" 2>/dev/null)" != "$of" ]; then
    echo "verify.sh: $RESULTS has results of something else, want a new folder: RESULTS=NEW sh verify.sh" >&2
    exit 2
fi
echo "$of" >"$RESULTS/of"

bench() {{
    name=$1
    shift
    [ -s "$RESULTS/$name.json" ] || vllm bench serve --backend openai --base-url "$URL" --endpoint /v1/completions \\
        --model {model} --dataset-name random --random-range-ratio 0 --ignore-eos \\
        {traffic} \\
        --percentile-metrics ttft,tpot,itl,e2el --metric-percentiles 50,90,99 \\
        --save-result --save-detailed --result-dir "$RESULTS" --result-filename "$name.json" "$@"
}}

{runs}

{deployment}exec python3 -m dynamo.validate "$RESULTS" --source-format vllm-bench --predicted "$here/{predictions}"
"""


def _prefix(traffic: Traffic, has_host: bool) -> str:
    """Why prompts have a prefix in common, or none."""
    found = f"{100 * traffic.cached:.2g} % of its prompts were found in caches"
    if traffic.shared_tokens:
        host = "\n# It fits into the KV pools of the GPUs: host memory is not measured." if has_host else ""
        return f"{found}: a prefix of {traffic.shared_tokens} tokens, the same for all.{host}"
    return f"{found}: no prefix, which runs have from {100 * _SHARED:g} % on."


def _of(plan: Plan, traffic: Traffic) -> str:
    """What results are of: the point, and a digest of its deployment and of the runs."""
    pools = [[pool.role, pool.workers, dict(pool.arguments)] for pool in plan.pools]
    runs = [_flags(load) for load in _loads(plan)]
    said = json.dumps([plan.model, pools, plan.router, plan.router_words, traffic.flags, runs], sort_keys=True)
    return f"point {plan.point} {hashlib.sha256(said.encode()).hexdigest()[:16]}"


def _script(plan: Plan, traffic: Traffic) -> str:
    alone = plan.one_pool and plan.pools[0].workers == 1
    return _SCRIPT.format(
        model=shlex.quote(plan.model),
        traffic=shlex.join(traffic.flags),
        prefix=_prefix(traffic, any(pool.host_gb for pool in plan.pools)),
        # Each with prompts of its own, or a run would find those of the one before in caches.
        runs="\n".join(
            f"bench {load.name} --seed {at} {shlex.join(_flags(load))}  # {load.shows}"
            for at, load in enumerate(_loads(plan), 1)
        ),
        of=_of(plan, traffic),
        deployment='cp "$here/deployment.json" "$RESULTS/"\n' if alone else "",
        predictions=PREDICTIONS,
    )
