"""What is exported: a point of a sweep, as deployments see it."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dynamo._core import values
from dynamo.replay import planned
from dynamo.replay.requests import Requests
from dynamo.sweep import points, simulate
from dynamo.sweep.advice import basis
from dynamo.sweep.exports import engine, scaling
from dynamo.sweep.exports.table import MODES, REFUSED, ROUTER, RUN
from dynamo.sweep.figures import offered_rps
from dynamo.sweep.spec import trace_files

_POOLS = {
    "worker": ("extra_engine_args", "num_workers"),
    "prefill": ("prefill_engine_args", "num_prefill_workers"),
    "decode": ("decode_engine_args", "num_decode_workers"),
}
_GPU_PRODUCTS = {
    "a100_sxm": "NVIDIA-A100-SXM4-80GB",
    "b200_sxm": "NVIDIA-B200",
    "b300_sxm": "NVIDIA-B300",
    "gb200": "NVIDIA-GB200",
    "gb300": "NVIDIA-GB300",
    "h100_sxm": "NVIDIA-H100-80GB-HBM3",
    "h200_sxm": "NVIDIA-H200",
    "l40s": "NVIDIA-L40S",
}
"""What NVIDIA's feature discovery calls AIC's systems."""
ENGINE_GIB = 16
"""Host memory that manifests ask for beside that for KV, for each GPU: processes, buffers and shared memory of the
engine. No engine says how much it needs, so this is a guess, and a request without a limit."""
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?")
# Figures that a prediction names, where the point has them.
_FIGURES = re.compile(
    r"(mean|p50|median|p90|p99)_(ttft|tpot|itl|e2e_latency)_ms|.*_per_gpu|arrival_rps|.*_throughput_.*|goodput.*|gpu.*|cost_per_.*"
)


@dataclass(frozen=True)
class Pool:
    """Workers that are alike."""

    role: str
    workers: int
    arguments: Mapping[str, Any]
    """Engine arguments, after defaults."""
    command: engine.Command

    @property
    def gpus(self) -> int:
        """Of one worker."""
        return engine.gpus(self.arguments)

    @property
    def host_gb(self) -> float:
        """Host memory of one worker for KV blocks below its pool."""
        return engine.host_gb(_POOLS[self.role][0], self.arguments) or 0.0

    @property
    def memory_gib(self) -> int:
        """Host memory that manifests ask for, for one worker."""
        return math.ceil(self.host_gb * 1e9 / 2**30) + ENGINE_GIB * self.gpus

    @property
    def ranks(self) -> int:
        """Data-parallel ranks of one worker that run their passes together."""
        return int(self.arguments.get("dp_size") or 1)

    @property
    def by_rank(self) -> bool:
        """Whether the router chooses the rank, too."""
        return self.arguments.get("dp_routing") == "router"

    @property
    def startup_s(self) -> float:
        """Seconds before a worker serves, as it was simulated."""
        return float(self.arguments.get("startup_time") or 0)


@dataclass(frozen=True)
class Plan:
    """A deployment, and what is predicted of it."""

    name: str
    point: int
    model: str
    engine: str
    pools: Sequence[Pool]
    router: str | None
    """Routing mode; None before a single worker."""
    router_words: Sequence[str]
    """Flags of Dynamo's frontend for the router."""
    scalers: Mapping[str, scaling.Scaler]
    """By the role of the pool."""
    given: Mapping[str, Any]
    """The run of the point, as it is simulated again."""
    arguments: Mapping[str, Any]
    """The same after defaults."""
    report: Mapping[str, Any]
    figures: Mapping[str, float]
    intervals: Mapping[str, Sequence[float]]
    sla: Sequence[Mapping[str, Any]]
    measured_error: Mapping[str, Any] | None
    offered_rps: float
    """Requests per second as they arrive, turns that wait for answers when these have come."""
    version: str = ""
    gpu: str | None = None
    warnings: Sequence[str] = field(default_factory=list)
    recommendation: Mapping[str, Any] | None = None
    """What is said of the point if it is the answer to a question (docs/recommend.md)."""

    @property
    def one_pool(self) -> bool:
        """Whether every worker computes prompts and generates."""
        return len(self.pools) == 1

    @property
    def behind_dynamo(self) -> bool:
        """Whether Dynamo's frontend stands before the workers of one host."""
        return not self.one_pool or self.router is not None


def of(
    point: Mapping[str, Any],
    model: str | None,
    name: str | None,
    recommendation: Mapping[str, Any] | None = None,
) -> Plan:
    """The plan of a point, by simulating it once more. Raises ValueError for what cannot be exported."""
    given = point["arguments"]
    if given is None or not point["figures"]:
        raise ValueError(f"POINT: got {point['id']}, which has no result: {point['status']} {point['reason']}".rstrip())
    _check_trace(point["id"], given)
    result = planned.run({**simulate.without_page(points.plain(given)), "rows": True}, None, None)
    report = result.report
    arguments = report["provenance"]["arguments"]
    _check(arguments)
    pools = [_pool(role, arguments) for role, (option, _) in _POOLS.items() if option in arguments]
    if not pools:
        raise ValueError("extra_engine_args: got nothing after defaults")
    engines = {engine.program(_POOLS[pool.role][0], pool.arguments) for pool in pools}
    if len(engines) > 1:
        raise ValueError("engine_type: got vllm and sglang, want one: they do not hand KV over to each other")
    mode, words = _router(arguments, pools)
    program = engines.pop()
    scalers = scaling.of(arguments.get("autoscaler"), program, [pool.role for pool in pools])
    first = pools[0].arguments
    return Plan(
        name=_name(name, point["id"]),
        point=int(point["id"]),
        model=_model(model, pools),
        engine=program,
        pools=pools,
        router=mode,
        router_words=words,
        scalers=scalers,
        given=given,
        arguments=arguments,
        report=report,
        figures={key: value for key, value in point["figures"].items() if _FIGURES.fullmatch(key)},
        intervals=point["intervals"],
        sla=point["sla"],
        measured_error=point["measured_error"],
        offered_rps=offered_rps(Requests(result)["arrival_time_ms"].tolist()),
        version=str(first.get("aic_backend_version") or ""),
        gpu=_GPU_PRODUCTS.get(str(first["aic_system"])) if first.get("aic_backend") else None,
        warnings=_doubts(point, pools, mode == "kv_router"),
        recommendation=recommendation,
    )


def _doubts(point: Mapping[str, Any], pools: Sequence[Pool], routed: bool) -> list[str]:
    """What a reader has to know before he starts anything."""
    found = []
    if any(pool.arguments.get("scheduler", "dynamo") == "dynamo" for pool in pools):
        found.append(
            "The point was simulated by the scheduling rules of Dynamo's mocker. "
            "`scheduler: vllm` or `sglang` in the sweep predicts the engine by its own."
        )
    if not any(pool.arguments.get("aic_backend") or pool.arguments.get("planner_profile_data") for pool in pools):
        found.append("Durations are of no particular GPU: verify.sh will say how far off they are.")
    if routed and any(pool.ranks > 1 and not pool.by_rank for pool in pools):
        found.append(
            "The point was simulated with a router that chooses workers only. Dynamo's frontend chooses their "
            "data-parallel ranks, too: `dp_routing: router` predicts that."
        )
    if any(pool.arguments.get("aic_backend") and not pool.arguments.get("aic_kv_cache_dtype") for pool in pools):
        found.append(f"{basis.KV_DTYPE}. The files leave it to the engine.")
    if point["status"] != "ok":
        found.append(f"The point does not keep the service level: {point['reason']}.")
    return found


def _check_trace(point: int, given: Mapping[str, Any]) -> None:
    """Raises FileNotFoundError if the point cannot be simulated once more: its trace may be another folder's."""
    for path in trace_files(given):
        if not Path(path).expanduser().is_file():
            raise FileNotFoundError(
                f"POINT: {point} has the trace {path}, which is not here, {Path.cwd()}: want the folder in which the "
                "sweep was run as working directory"
            )


def _check(arguments: Mapping[str, Any]) -> None:
    """Raises ValueError for options of the run that no file can say."""
    for option, value in arguments.items():
        row = RUN.get(option)
        if row is None:
            raise ValueError(f"{option}: unknown to exports")
        if row.kind == REFUSED and value not in (None, *row.harmless):
            raise ValueError(f"{option}: got {values.brief(values.show(value))}, want it left out: {row.text}")


def _pool(role: str, arguments: Mapping[str, Any]) -> Pool:
    option, count = _POOLS[role]
    given = arguments[option]
    workers = int(arguments.get(count, 1))
    if workers < 1:
        raise ValueError(f"{count}: got {workers}, want 1 or more: nothing would count what waits")
    command = engine.command(option, given)
    return Pool(role, workers, engine.flat(given), command)


def _router(arguments: Mapping[str, Any], pools: Sequence[Pool]) -> tuple[str | None, list[str]]:
    """The routing mode, None before a single target, and flags of Dynamo's frontend."""
    mode = str(arguments.get("router_mode", "round_robin"))
    for pool in pools:
        _check_ranks(pool, mode)
    targets = sum(pool.workers * (pool.ranks if pool.by_rank else 1) for pool in pools)
    if targets == 1 and not arguments.get("autoscaler"):
        return None, []
    if mode not in MODES:
        raise ValueError(f"router_mode: got {mode}, want {' or '.join(MODES)}: other routers are not exported")
    settings = dict(arguments.get("router_config") or {})
    if mode != "kv_router":
        if settings.get("metrics_interval_ms") is not None or settings.get("router_replicas", 1) != 1:
            raise ValueError("router_config: want it left out: one router that counts its own requests is exported")
        if mode == "power_of_two" and settings.get("load", "requests") != "requests":
            raise ValueError(f"router_config.load: got {settings['load']}, want requests")
        return mode, []
    for pool in pools:
        if (policy := pool.arguments.get("router_queue_policy")) is not None:
            settings["router_queue_policy"] = policy
    words: list[str] = []
    for key, value in settings.items():
        row = ROUTER[key]
        if row.kind == REFUSED and value not in (None, *row.harmless):
            raise ValueError(f"router_config.{key}: got {values.show(value)}, want it left out: {row.text}")
        if row.vllm is not None and value is not None:
            words += row.vllm.write(value)
    if settings.get("router_prefill_load_model") == "aic":
        config = arguments["aic_perf_config"]
        for key, value in (config if isinstance(config, Mapping) else json.loads(config)).items():
            words += [f"--{key.replace('_', '-')}", str(value)]
    return mode, words


def _check_ranks(pool: Pool, mode: str) -> None:
    """Raises ValueError if nothing in the deployment chooses the ranks of workers as they were simulated."""
    if pool.ranks == 1:
        return
    name = f"{_POOLS[pool.role][0]}.dp_routing"
    if pool.by_rank and mode != "kv_router":
        raise ValueError(f"{name}: got \"router\", want router_mode kv_router: no other router is exported that "
                         "chooses ranks")  # fmt: skip
    if pool.arguments.get("dp_routing") == "round_robin" and pool.arguments.get("engine_type", "vllm") == "vllm":
        raise ValueError(f"{name}: got \"round_robin\", want \"vllm\" or \"router\": vLLM's load balancer chooses "
                         "the rank")  # fmt: skip


def _model(model: str | None, pools: Sequence[Pool]) -> str:
    if model is not None:
        return values.text("--model", model)
    found = {str(name) for pool in pools for key in ("model", "aic_model_path") if (name := pool.arguments.get(key))}
    if len(found) != 1:
        raise ValueError(f"--model: got nothing, want the model to serve: the point names {', '.join(found) or 'none'}")
    return found.pop()


def _name(name: str | None, point: int) -> str:
    if name is None:
        return f"point-{point}"
    if not _NAME.fullmatch(values.text("--name", name)):
        raise ValueError(f"--name: got {values.show(name)}, want up to 40 lower-case letters, digits and dashes")
    return name
