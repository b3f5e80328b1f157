"""What is asked: checked arguments of ``recommend``."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dynamo._core import objectfile, spelling, values
from dynamo.replay import latencies
from dynamo.sweep import sla
from dynamo.sweep.calibrated import profile
from dynamo.sweep.sla import Bound

ENGINES = {"vllm": ("vllm",), "sglang": ("sglang",), "both": ("vllm", "sglang")}
FEWEST_GPUS, COST, GOODPUT = "fewest_gpus", "cost", "goodput"
OBJECTIVES = (FEWEST_GPUS, COST, GOODPUT)
AUTO, FP8, BOTH = "auto", "fp8", "both"
KV_TYPES = (AUTO, FP8, BOTH)
_KV_ARGUMENT = "aic_kv_cache_dtype"
MOST_GPUS = 1024
_MOST_DRAFTS = 5
_TERM = re.compile(r"\s*([A-Za-z0-9_]+)\s*(<=|>=)\s*(\S+)\s*")
# GPUs that share a fast link, where it is not eight; by the beginning of the system's name.
_SMALL_NODES = {"gb200": 4, "gb300": 4}
_NODE = 8
_ENERGY = ("energy", "joules", "power", "watts")
_NO_POWER = (
    "the AIC SDK has measured the power of single operations only (in 0.12 attention and expert layers of vLLM on "
    "B200), of no whole model"
)
# What counts as good for a request, by the latency that a bound is about.
GOOD = {"ttft_ms": "sla_ttft_ms", "tpot_ms": "sla_tpot_ms", "itl_ms": "sla_tpot_ms", "e2e_latency_ms": "sla_e2e_ms"}


@dataclass(frozen=True)
class Question:
    """What is asked, with defaults."""

    run: Mapping[str, Any]
    """The base run: the workload, and engine arguments that all deployments share."""
    model: str | None
    system: str | None
    gpus: int
    gpus_per_node: int
    engines: tuple[str, ...]
    objective: str
    sla: Mapping[str, Any]
    bounds: tuple[Bound, ...]
    price: float | None
    seeds: int
    host_gb_per_gpu: float | None = None
    """Host memory for KV blocks, beside each GPU: deployments with it are tried as well."""
    accept_rates: str | None = None
    """How often each draft token is accepted: deployments that draft as many tokens are tried as well."""
    kv_cache_dtype: str | None = None
    """Which data types of the KV cache are tried; None if engine arguments say it, or no model is predicted."""

    @property
    def has_aic(self) -> bool:
        """Whether durations and memory are those that the AIC SDK predicts for a model on a GPU."""
        return self.system is not None

    @property
    def searches_grid(self) -> bool:
        """Whether the search asks for a grid of the shapes of passes, and only its finalists for all of them."""
        return self.has_aic and "aic_shapes" not in self.run["extra_engine_args"]


def ask(
    trace: Any,
    sla_given: Any,
    *,
    gpus: Any,
    model: Any = None,
    system: Any = None,
    engine: Any = "both",
    objective: Any = FEWEST_GPUS,
    run: Mapping[str, Any] | None = None,
    engine_args: Any = None,
    calibration: Any = None,
    gpus_per_node: Any = None,
    gpu_hour_price: Any = None,
    seeds: Any = 5,
    host_gb_per_gpu: Any = None,
    accept_rates: Any = None,
    kv_cache_dtype: Any = None,
) -> Question:
    """Checks what was given. Raises ValueError, naming the argument, the value and what it may be."""
    if (model is None) != (system is None):
        missing = "system" if system is None else "model"
        raise ValueError(
            f"{missing}: got nothing, want model and system together: the AIC SDK predicts a model on a GPU. Without "
            "both, durations are those of engine_args, else built-in ones of no particular GPU"
        )
    _one_of("engine", engine, tuple(ENGINES))
    if objective in _ENERGY:
        raise ValueError(f"objective: got {values.show(objective)}, want one of {', '.join(OBJECTIVES)}: {_NO_POWER}")
    _one_of("objective", objective, OBJECTIVES)
    limits = parse_sla(sla_given)
    shared = _engine_args(engine_args)
    if calibration is not None:
        shared["calibration"] = profile(calibration)
    if accept_rates is not None and host_gb_per_gpu is not None:
        raise ValueError(
            "accept_rates: want it left out, or host_gb_per_gpu: the rules that know draft tokens have no host memory"
        )
    base = {**(run or {}), "trace": trace, "extra_engine_args": shared}
    if system is not None:
        shared |= {"aic_system": _text("system", system), "aic_model_path": _text("model", model)}
        shared.setdefault("calibration", "auto")
    bounds = sla.parse(limits)
    node = next((size for start, size in _SMALL_NODES.items() if str(system).startswith(start)), _NODE)
    return Question(
        run={**base, **_good(bounds, base)},
        model=model,
        system=system,
        gpus=_count("gpus", gpus, MOST_GPUS),
        gpus_per_node=node if gpus_per_node is None else _count("gpus_per_node", gpus_per_node, MOST_GPUS),
        engines=ENGINES[engine],
        objective=objective,
        sla=limits,
        bounds=bounds,
        price=None if gpu_hour_price is None else _above_0("gpu_hour_price", gpu_hour_price),
        seeds=_count("seeds", seeds, 100),
        host_gb_per_gpu=None if host_gb_per_gpu is None else _above_0("host_gb_per_gpu", host_gb_per_gpu),
        accept_rates=None if accept_rates is None else _rates(accept_rates),
        kv_cache_dtype=_kv_type(kv_cache_dtype, shared, has_aic=system is not None),
    )


def _kv_type(given: Any, shared: Mapping[str, Any], *, has_aic: bool) -> str | None:
    """Which data types of the KV cache are tried: by default what engines take without a flag."""
    if given is None:
        return AUTO if has_aic and shared.get(_KV_ARGUMENT) is None else None
    _one_of("kv_cache_dtype", given, KV_TYPES)
    if not has_aic:
        raise ValueError("kv_cache_dtype: want model and system beside it: without them engine_args say the KV pool")
    if shared.get(_KV_ARGUMENT) is not None:
        raise ValueError(f"kv_cache_dtype: want it left out, or {_KV_ARGUMENT} of engine_args: both say the same")
    return str(given)


def parse_sla(given: Any) -> dict[str, Any]:
    """Bounds as ``sla`` of a specification has them: of a text such as ``p90_ttft_ms<=2000, p90_itl_ms<=50``."""
    if isinstance(given, Mapping):
        sla.parse(given)
        return dict(given)
    want = 'want bounds such as "p90_ttft_ms<=2000, p90_itl_ms<=50"'
    if not isinstance(given, str) or not given.strip():
        raise ValueError(f"sla: got {values.show(given)}, {want}")
    found: dict[str, Any] = {}
    for term in given.split(","):
        match = _TERM.fullmatch(term)
        if match is None:
            raise ValueError(f"sla: got {values.show(term.strip())}, {want}")
        name, sign, text = match.groups()
        try:
            limit = float(text)
        except ValueError:
            raise ValueError(f"sla: {name}: got {values.show(text)}, want a number") from None
        side = "max" if sign == "<=" else "min"
        if side in found.setdefault(name, {}):
            raise ValueError(f"sla: {name} {sign} is given twice, want it once")
        found[name][side] = limit
    sla.parse(found)
    return found


def _good(bounds: tuple[Bound, ...], run: Mapping[str, Any]) -> dict[str, float]:
    """What a request must keep to count as good: the limits of the bounds on latencies."""
    found: dict[str, float] = {}
    for bound in bounds:
        shown = latencies.recorded(bound.figure)
        name = next((key for end, key in GOOD.items() if shown.endswith(f"_{end}")), None)
        if name is not None and name not in run and bound.at_most:
            found[name] = min(bound.limit, found.get(name, math.inf))
    return found


def _engine_args(given: Any) -> dict[str, Any]:
    if isinstance(given, str):
        text = objectfile.expand("engine_args", given)
        try:
            given = json.loads(text)
        except ValueError as error:
            raise ValueError(f"engine_args: {error}") from None
    if given is not None and not isinstance(given, Mapping):
        raise ValueError(f"engine_args: got {values.show(given)}, want an object")
    return values.json_object("engine_args", given or {})


def _one_of(name: str, given: object, choices: tuple[str, ...]) -> None:
    if given not in choices:
        near = spelling.nearest(given, choices) if isinstance(given, str) else None
        hint = f"did you mean {near}?" if near else f"want one of {', '.join(choices)}"
        raise ValueError(f"{name}: got {values.show(given)}, {hint}")


def _text(name: str, given: object) -> str:
    if not isinstance(given, str) or not given:
        raise ValueError(f"{name}: got {values.show(given)}, want a text")
    return given


def _count(name: str, given: object, most: int) -> int:
    if isinstance(given, bool) or not isinstance(given, int) or not 1 <= given <= most:
        raise ValueError(f"{name}: got {values.show(given)}, want an integer from 1 to {most}")
    return given


def _above_0(name: str, given: object) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float) or not values.is_finite(given) or given <= 0:
        raise ValueError(f"{name}: got {values.show(given)}, want a finite number above 0")
    return float(given)


def _rates(given: object) -> str:
    """Acceptance rates, one for each draft token, as engine arguments have them."""
    want = f'want 1 to {_MOST_DRAFTS} numbers from 0 to 1, such as "0.85,0.6"'
    if not isinstance(given, str):
        raise ValueError(f"accept_rates: got {values.show(given)}, {want}")
    parts = [part.strip() for part in given.split(",")]
    try:
        fits = all(0 <= float(part) <= 1 for part in parts)
    except ValueError:
        fits = False
    if not fits or len(parts) > _MOST_DRAFTS:
        raise ValueError(f"accept_rates: got {values.show(given)}, {want}")
    return ",".join(parts)
