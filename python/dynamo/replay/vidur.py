"""A command line of Vidur, ``python -m vidur.main ...``, as a run for ``--config``."""

from __future__ import annotations

import math
import shlex
from typing import Any

_MODULE, _EARLY = "vidur.main", "simulator.main"
_DEVICES = {"a100": "a100_sxm", "h100": "h100_sxm"}
_ROUTERS = {"round_robin": "round_robin", "random": "random", "lor": "least_requests"}
_SCHEDULERS = ("vllm_v1", "sarathi")
_NOTED = (
    ("random_forrest_execution_time_predictor_config_", "durations are those of the AIC SDK"),
    ("random_forest_execution_time_predictor_config_", "durations are those of the AIC SDK"),
    ("linear_regression_execution_time_predictor_config_", "durations are those of the AIC SDK"),
    ("execution_time_predictor_config_type", "durations are those of the AIC SDK"),
    ("replica_config_network_device", "durations are those of the AIC SDK"),
    ("metrics_config_", "a run has its own reports"),
    ("log_level", "a run has its own reports"),
)
_FALSE = "--no-"


def recognised(text: str) -> bool:
    """Reports whether a file holds a command of Vidur."""
    words = " ".join(text.split())
    return any(f"-m {module}" in words for module in (_MODULE, _EARLY))


def convert(text: str) -> tuple[dict[str, Any], list[str]]:
    """Returns the run of the command, and what changes nothing here. Raises ValueError for what has no counterpart."""
    try:
        words = shlex.split(text.replace("\\\n", " "), comments=True)
    except ValueError as error:
        raise ValueError(f"{_MODULE}: {error}") from None
    if _MODULE not in words:
        raise ValueError(f"{_EARLY}: an early version of Vidur, want a command with python -m {_MODULE}")
    given = _flags(words[words.index(_MODULE) + 1 :])
    command = _Command(given)
    run = command.run()
    return run, command.close()


def _flags(words: list[str]) -> dict[str, str | bool]:
    found: dict[str, str | bool] = {}
    name = None
    for word in words:
        if word.startswith("--"):
            flag, equals, value = word.partition("=")
            name = flag[2:] if not flag.startswith(_FALSE) else flag[len(_FALSE) :]
            found[name] = value if equals else not flag.startswith(_FALSE)
        elif name is None or not isinstance(found[name], bool):
            raise ValueError(f"{word}: got a word, want flags with a value each, and one command")
        else:
            found[name] = word
    return found


class _Command:
    """Flags of which each is taken once; those that are left are refused."""

    def __init__(self, given: dict[str, str | bool]) -> None:
        self._rest = dict(given)

    def run(self) -> dict[str, Any]:
        run: dict[str, Any] = {**self._traffic(), "num_workers": self._count("cluster_config_num_replicas", 1)}
        engine: dict[str, Any] = {"engine_type": "vllm", "scheduler": "vllm", **self._engine()}
        router = self._word("global_scheduler_config_type", tuple(_ROUTERS), "round_robin")
        if run["num_workers"] > 1:
            run["router_mode"] = _ROUTERS[router]
        if (seed := self._take("seed")) is not None:
            run["seed"] = self._integer("seed", seed)
        if (limit := self._take("time_limit")) is not None and (seconds := self._number("time_limit", limit)) > 0:
            run["max_sim_time_ms"] = 1000 * seconds
        return {**run, "extra_engine_args": engine}

    def _traffic(self) -> dict[str, Any]:
        kind = self._word("request_generator_config_type", ("synthetic", "trace_replay"), "synthetic")
        if kind == "trace_replay":
            name = "trace_request_generator_config_trace_file"
            file = self._take(name)
            if not isinstance(file, str):
                raise ValueError(f"--{name}: got nothing, want the trace")
            return {"trace_files": [file], "trace_format": "vidur"}
        reason = "lengths of a trace go with its arrivals, --request_generator_config_type trace_replay"
        shape = self._word("length_generator_config_type", ("fixed",), "fixed", reason)
        lengths = f"{shape}_request_length_generator_config_"
        run: dict[str, Any] = {
            "input_tokens": self._count(f"{lengths}prefill_tokens", None),
            "output_tokens": self._count(f"{lengths}decode_tokens", None),
            "request_count": self._count("synthetic_request_generator_config_num_requests", 128),
        }
        interval = self._word("interval_generator_config_type", ("poisson", "gamma", "uniform", "static"), "poisson")
        if interval == "static":
            return {**run, "arrival_interval_ms": 0}
        name = f"{interval}_request_interval_generator_config_qps"
        run["request_rate"] = self._number(name, self._needed(name))
        if interval != "uniform":
            run["arrival_process"] = interval
        if interval == "gamma" and (spread := self._take("gamma_request_interval_generator_config_cv")) is not None:
            run["arrival_cv"] = self._number("gamma_request_interval_generator_config_cv", spread)
        return run

    def _engine(self) -> dict[str, Any]:
        device = self._word("replica_config_device", tuple(_DEVICES), "a100", "the AIC SDK has no data of others")
        model = self._needed("replica_config_model_name")
        engine: dict[str, Any] = {"aic_backend": "vllm", "aic_system": _DEVICES[device], "aic_model_path": model}
        if (tensor := self._count("replica_config_tensor_parallel_size", 1)) > 1:
            engine["aic_tp_size"] = tensor
        if (stages := self._count("replica_config_num_pipeline_stages", 1)) > 1:
            raise ValueError(f"--replica_config_num_pipeline_stages: got {stages}, want 1: pipeline parallelism is not "
                             "simulated")  # fmt: skip
        kind = self._word(
            "replica_scheduler_config_type", _SCHEDULERS, "sarathi", "engines of today schedule like these"
        )
        prefix = f"{kind}_scheduler_config_"
        engine["max_num_seqs"] = self._count(f"{prefix}batch_size_cap", 128)
        engine["max_num_batched_tokens"] = self._count(f"{prefix}chunk_size", 512)
        engine["block_size"] = self._count(f"{prefix}block_size", 16)
        if (blocks := self._take(f"{prefix}num_blocks")) is not None:
            engine["num_gpu_blocks"] = self._integer(f"{prefix}num_blocks", blocks)
        if (margin := self._take("replica_config_memory_margin_fraction")) is not None:
            share = 1 - self._number("replica_config_memory_margin_fraction", margin)
            engine["gpu_memory_utilization"] = round(share, 6)
        cached = self._take("cache_config_enable_prefix_caching")
        engine["enable_prefix_caching"] = cached in (True, "true", "True")
        return engine

    def close(self) -> list[str]:
        """Notes what changes nothing, and refuses what is left."""
        notes: dict[str, str] = {}
        for name in self._rest:
            reason = next((why for prefix, why in _NOTED if name.startswith(prefix)), None)
            if reason is None:
                raise ValueError(f"--{name}: no counterpart, want it left out")
            notes.setdefault(reason, f"--{name}: {reason}")
        return list(notes.values())

    def _take(self, name: str) -> str | bool | None:
        return self._rest.pop(name, None)

    def _needed(self, name: str) -> str:
        value = self._take(name)
        if not isinstance(value, str):
            raise ValueError(f"--{name}: got nothing, want a value")
        return value

    def _word(self, name: str, known: tuple[str, ...], default: str, why: str = "") -> str:
        value = self._take(name) or default
        if value not in known:
            raise ValueError(f"--{name}: got {value}, want {' or '.join(known)}{f': {why}' if why else ''}")
        return str(value)

    def _count(self, name: str, default: int | None) -> Any:
        value = self._needed(name) if default is None else self._take(name)
        if value is None:
            return default
        if (count := self._integer(name, value)) < 1:
            raise ValueError(f"--{name}: got {count}, want an integer above 0")
        return count

    def _integer(self, name: str, value: str | bool) -> int:
        number = self._number(name, value)
        if not number.is_integer():
            raise ValueError(f"--{name}: got {value}, want an integer")
        return int(number)

    def _number(self, name: str, value: str | bool) -> float:
        try:
            number = float(value) if isinstance(value, str) else math.nan
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            raise ValueError(f"--{name}: got {value}, want a number")
        return number
