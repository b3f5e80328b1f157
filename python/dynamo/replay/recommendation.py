"""A file for ``aisimulate recommend`` as a specification for ``python -m dynamo.sweep run``.

Each domain of the file is a knob. What a value of it changes in the run is found by converting the file with that value
alone, so that a knob sets all that a value means: a backend also its blocks and its fraction of memory.
"""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Iterator, Mapping
from typing import Any

from dynamo._core import values
from dynamo.replay.aisimulate import Conversion
from dynamo.replay.sections import Section

_TARGETS: Mapping[str, list[str]] = {
    "throughput": ["output_throughput_tok_s"],
    "throughput_per_gpu": ["output_tok_s_per_gpu"],
    "throughput_per_user": ["mean_output_token_throughput_per_user"],
    "goodput": ["goodput_request_throughput_rps"],
    "goodput_per_gpu": ["goodput_rps_per_gpu"],
    "ttft": ["mean_ttft_ms"],
    "e2e_latency": ["mean_e2e_latency_ms"],
    "min_gpus": ["gpus", "goodput_request_throughput_rps"],
    "pareto": ["output_tok_s_per_gpu", "mean_output_token_throughput_per_user"],
}
_MOST_GPUS = 32
"""How many GPUs a candidate may have if the file does not say it."""
# The bound on the ITL is one on the mean time per output token there.
_BOUNDS = {"ttft_ms": "mean_ttft_ms", "itl_ms": "mean_tpot_ms", "e2e_ms": "mean_e2e_latency_ms"}
_HOLDERS = {
    "extra_engine_args": "engine",
    "prefill_engine_args": "prefill",
    "decode_engine_args": "decode",
    "router_config": "router",
    "aic_perf_config": "aic",
}
_MOST_TENSOR, _MOST_VALUES = 8, 10_000
# What labels of values leave out.
_USUAL = {"pipeline": 1, "attention_data": 1, "moe_tensor": 1, "moe_expert": 1, "prefill_load_model": {"type": "none"}}


class Search:
    """The sweep that a recommendation file describes."""

    def __init__(self, content: Mapping[str, Any]) -> None:
        found = copy.deepcopy(dict(content))
        optimization = Section("optimization", found.pop("optimization"))
        optimizer = Section("optimizer", found.pop("optimizer", None) or {})
        self.notes: list[str] = []
        target = optimization.word("target", tuple(_TARGETS), "throughput")
        strict = values.flag("optimization.strict_sla", optimization.take("strict_sla", False))
        limits = optimization.within("constraints")
        self._most = limits.count("max_candidate_gpus", _MOST_GPUS)
        fewest = limits.count("min_candidate_gpus")
        if found.pop("dgd", None) is not None:
            self.notes.append("dgd: dynamo.sweep export writes the manifests of a point, see docs/export.md")
        self._defaults(found, optimization.take("hardware"))
        _join_routers(found)
        knobs = dict(_domains(found))
        base = Conversion(found, searched=True)
        self.notes += base.notes
        self.spec: dict[str, Any] = {"run": base.run, "search": {}}
        for path, choices in knobs.items():
            knob, changed = _knob(path, choices, found)
            self.spec["search"].update(knob)
            _without(base.run, changed)
        self.spec["where"] = [f"gpus <= {self._most}"] + ([f"gpus >= {fewest}"] if fewest else [])
        self._bounds(found, target, strict, limits.number("min_goodput_rps"))
        self.spec["objectives"] = _TARGETS[target]
        if (timeout := optimizer.number("candidate_timeout_seconds")) is not None:
            self.spec["timeout_s"] = timeout
        controls = [optimizer.take(key) for key in ("algorithm", "max_trials", "parallelism", "seed")]
        if any(value is not None for value in controls):
            self.notes.append(
                "optimizer: every combination is tried; sampler, points and jobs of a sweep say otherwise"
            )
        if knobs and not self.spec["search"]:  # presets of one choice each
            number = "num_decode_workers" if "num_decode_workers" in base.run else "num_workers"
            self.spec["search"] = {number: [base.run.pop(number)]}
        if not self.spec["search"]:
            raise ValueError("engine: no domain to search, want choices, a range or a preset, or aisimulate predict")
        for section in (limits, optimization, optimizer):
            section.close()

    def _bounds(self, content: Mapping[str, Any], target: str, strict: bool, goodput_rps: float | None) -> None:
        """Adds the service level that a candidate has to keep: min_gpus cannot do without."""
        sizes = target == "min_gpus"
        if goodput_rps is not None and not sizes:
            raise ValueError("optimization.constraints.min_goodput_rps: want it left out but with target min_gpus")
        if not strict and not sizes:
            return
        sla = (content.get("evaluation") or {}).get("sla") or {}
        bounds: dict[str, Any] = {_BOUNDS[name]: bound for name, bound in sla.items() if bound is not None}
        if sizes and not bounds:
            raise ValueError("evaluation.sla: got nothing, want bounds with target min_gpus")
        if goodput_rps is not None:
            bounds["goodput_request_throughput_rps"] = {"min": goodput_rps}
        self.spec["sla"] = bounds

    def _defaults(self, content: dict[str, Any], hardware: Any) -> None:
        """Makes explicit what a recommendation searches if its file says nothing."""
        engine = Section("", content).within("engine", required=True)
        shown = content["engine"]
        if isinstance(shown.get("mode"), Mapping) or shown.get("mode") is None:
            raise ValueError(
                "engine.mode: got both, want aggregated or disaggregated: a sweep of each, "
                "with --set engine.mode=aggregated"
            )
        if shown.get("backend") is None:
            shown["backend"] = {"choices": ["vllm", "sglang"]}
        if shown.get("hardware") == "auto":
            if hardware is None:
                raise ValueError("optimization.hardware: got nothing, want it with engine.hardware auto")
            shown["hardware"] = hardware
        elif hardware not in (None, shown.get("hardware")):
            raise ValueError(
                f"optimization.hardware: got {values.show(hardware)}, want it with engine.hardware auto only"
            )
        roles = ("aggregated",) if shown["mode"] == "aggregated" else ("prefill", "decode")
        workers = engine.within("workers")
        others = {"aggregated", "prefill", "decode"} - {*roles}
        shown["workers"] = {name: worker for name, worker in (shown.get("workers") or {}).items() if name not in others}
        for role in roles:
            if not isinstance(workers.take(role, {}), Mapping):
                continue  # the conversion says what is wrong
            worker = dict(shown["workers"].get(role) or {})
            worker["parallelism"] = self._presets(worker.get("parallelism"), f"engine.workers.{role}.parallelism")
            shown["workers"][role] = worker

    def _presets(self, given: Any, name: str) -> Any:
        """Returns the choices of a preset of parallelism: those of the file, or all that fit in the most GPUs."""
        if isinstance(given, Mapping) and given.get("preset", "default") in (False, {}):
            return {key: value for key, value in given.items() if key != "preset"}
        if isinstance(given, Mapping) and isinstance(given.get("preset"), list):
            return {"choices": given["preset"]}
        if isinstance(given, Mapping) and set(given) - {"preset"}:
            return given
        if isinstance(given, Mapping) and given.get("preset", "default") != "default":
            raise ValueError(f"{name}.preset: got {values.show(given['preset'])}, want default or a list of mappings")
        self.notes.append(
            f"{name}: tensor of 1, 2, 4 and 8, and replicas, within {self._most} GPUs; experts are not split"
        )
        sizes = [2**power for power in range(4) if 2**power <= min(self._most, _MOST_TENSOR)]
        return {
            "choices": [
                {"replicas": count, "tensor": tensor}
                for tensor in sizes
                for count in range(1, self._most // tensor + 1)
            ]
        }


def _join_routers(content: dict[str, Any]) -> None:
    """Makes one domain of several policies and of the settings that only kv_router has, each with its values."""
    router = content.get("router")
    policy = router.get("policy") if isinstance(router, Mapping) else None
    if (
        not isinstance(router, Mapping)
        or not isinstance(policy, Mapping)
        or "kv_router" not in policy.get("choices", ())
    ):
        return
    settings = {key: value for key, value in router.items() if key != "policy"}
    if not settings.keys() - _USUAL.keys():
        return
    inner: dict[str, Any] = {"router": settings}
    domains = dict(_domains(inner))
    choices: list[Any] = []
    for name in _values("router.policy", policy):
        if name != "kv_router":
            choices.append({"policy": name})
            continue
        for combination in itertools.product(*domains.values()):
            chosen = inner
            for path, value in zip(domains, combination, strict=True):
                chosen = _with(chosen, path, value)
            choices.append({"policy": name, **chosen["router"]})
    content["router"] = {"choices": choices}


def _domains(content: dict[str, Any]) -> Iterator[tuple[str, list[Any]]]:
    """Takes the domains out of a file, in which their first values stay."""

    def walk(holder: dict[str, Any], above: str) -> Iterator[tuple[str, list[Any]]]:
        for key, value in holder.items():
            path = f"{above}.{key}" if above else key
            if not isinstance(value, Mapping):
                continue
            if value.keys() & {"choices", "range"}:
                found = _values(path, value)
                holder[key] = copy.deepcopy(found[0])
                yield path, found
                continue
            if value.get("preset") is not None:
                raise ValueError(f"{path}.preset: got {values.show(value['preset'])}, want the values it stands for")
            holder[key] = inner = dict(value)
            yield from walk(inner, path)

    yield from walk(content, "")


def _values(path: str, domain: Mapping[str, Any]) -> list[Any]:
    """Returns the values of choices or of a range."""
    if len(domain) != 1:
        raise ValueError(f"{path}: got {values.brief(values.show(dict(domain)))}, want choices or range alone")
    if (choices := domain.get("choices")) is not None:
        if not isinstance(choices, list) or not choices:
            raise ValueError(f"{path}.choices: got {values.show(choices)}, want a list of values")
        return choices
    bounds = Section(f"{path}.range", domain["range"])
    low, high = bounds.number("min", math.nan), bounds.number("max", math.nan)
    log, step = bounds.word("scale", ("linear", "log"), "linear") == "log", bounds.number("step")
    bounds.close()
    if not low <= high:
        raise ValueError(f"{path}.range: want min and max, the lower one first")
    if step is None:
        step = 2 if log else 1
    if log and step <= 1:
        raise ValueError(f"{path}.range.step: got {values.show(step)}, want a factor above 1 with scale log")
    count = math.log(high / low, step) if log else (high - low) / step
    if count > _MOST_VALUES:
        raise ValueError(f"{path}.range: got {count:.0f} values, want at most {_MOST_VALUES:,}")
    times = range(math.floor(count + 1e-9) + 1)
    return [_tidy(low * step**n if log else low + step * n) for n in times]


def _tidy(number: float) -> float:
    return int(number) if float(number).is_integer() else number


def _knob(path: str, choices: list[Any], content: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Returns the knob of a domain, and the keys of the run that its values change: one, or several that are set
    together.
    """
    runs = [_flat(Conversion(_with(content, path, choice), searched=True).run) for choice in choices]
    changed = [key for key in dict.fromkeys(key for run in runs for key in run) if _differ(runs, key)]
    if not changed:
        return {}, []
    if len(changed) == 1 and all(changed[0] in run for run in runs):
        return {changed[0]: [run[changed[0]] for run in runs]}, changed
    settings = {
        _label(choice): {key: run[key] for key in changed if key in run}
        for choice, run in zip(choices, runs, strict=True)
    }
    return {path.removeprefix("engine.").removeprefix("workers."): {"settings": settings}}, changed


def _without(run: dict[str, Any], keys: list[str]) -> None:
    """Removes what a knob sets from the base run."""
    names = {short: option for option, short in _HOLDERS.items()}
    for key in keys:
        holder, _, field = key.partition(".")
        if holder in names and field:
            run.get(names[holder], {}).pop(field, None)
        else:
            run.pop(key, None)


def _differ(runs: list[dict[str, Any]], key: str) -> bool:
    return any(run.get(key) != runs[0].get(key) for run in runs)


def _label(choice: Any) -> str:
    if not isinstance(choice, Mapping):
        return str(choice)
    return " ".join(_named(name, value) for name, value in choice.items() if _USUAL.get(name) != value)


def _named(name: str, value: Any) -> str:
    words = " ".join(map(str, value.values())) if isinstance(value, Mapping) else str(value)
    return words if name == "policy" else f"{name} {words}"


def _with(content: Mapping[str, Any], path: str, value: Any) -> dict[str, Any]:
    """Returns a copy of a file with another value at a path."""
    found = copy.deepcopy(dict(content))
    place: Any = found
    *above, last = path.split(".")
    for key in above:
        place = place[key]
    place[last] = copy.deepcopy(value)
    return found


def _flat(run: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a run with the names that a sweep has for its keys."""
    found: dict[str, Any] = {}
    for key, value in run.items():
        if key in _HOLDERS and isinstance(value, Mapping):
            found |= {f"{_HOLDERS[key]}.{name}": each for name, each in value.items()}
        else:
            found[key] = value
    return found
