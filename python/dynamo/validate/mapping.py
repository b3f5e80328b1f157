"""From a measurement to the replay that simulates it."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from dynamo.validate import campaigns, splits, stand_ins
from dynamo.validate.checkpoints import checkpoint, is_dense
from dynamo.validate.measurement import (
    POOLS,
    ClosedLoop,
    Measurement,
    OpenLoop,
    Parallelism,
    Recorded,
    Refusal,
    Replay,
    Split,
)
from dynamo.validate.sources import accelmark, llmservingsim
from dynamo.validate.sources.silicon import CAMPAIGNS

# Limits of an engine that hold for each of its ranks; one simulated engine for all of them has the sum.
_PER_RANK = ("max_num_seqs", "max_num_batched_tokens")
# What the KV pool of a model on a GPU is estimated with.
_MEMORY = ("kv_pool_estimate", "mem_fraction_static")
# Engine arguments with which the SDK would estimate the KV pool of another engine, if they are those of a stand-in.
_OTHERS = ("aic_system", "aic_backend")
# Requests of a run that is described by a rate or a number of clients only.
_OPEN_LOOP_REQUESTS = 300
# Engine arguments that say how long passes take, apart from the polynomial of no GPU in particular.
_TIMING = ("aic_system", "planner_profile_data", "engine_type")


@dataclass(frozen=True)
class Rules:
    """How measurements are replayed.

    own_scheduler: With the engine's own scheduling rules (``scheduler`` "vllm" or "sglang") instead of Dynamo's mocker.
    engine: Engine arguments that win over everything that is known about a measurement; those in "sglang" one by one.
        ``planner_profile_data`` takes the place of all that the AIC SDK is asked.
    splits: Measurements of prefill and decode workers, and those only. vLLM's hand-offs are by its own rules; SGLang's,
        which were not compared, by those of Dynamo's mocker, and so are its workers.
    seeds: How often a load that is not recorded is run; after the first time its lengths are drawn anew, or varied.
    """

    own_scheduler: bool = True
    engine: Mapping[str, Any] = field(default_factory=dict)
    splits: bool = False
    seeds: int = 1


def replay_of(measurement: Measurement, rules: Rules = Rules()) -> Replay:  # immutable
    """The replay of a measurement. Raises Refusal where there is none."""
    if rules.splits:
        return replace(_split_replay(measurement, rules), seeds=rules.seeds)
    if measurement.source in CAMPAIGNS:
        replay = _campaign_replay(measurement, rules)
    else:
        replay = _recorded_replay(measurement, rules)
    engine = _overridden(replay.engine, rules.engine)
    pool = replay.pool if "aic_system" in engine else None
    engine |= _scheduler(engine, rules)
    if measurement.version:
        engine.setdefault("engine_version", measurement.version)
    kernels = {name: engine[name] for name in replay.kernels if name in engine}
    engine = {**_passes(measurement, engine), **engine}
    return replace(replay, engine=engine, pool=pool, kernels=kernels, seeds=rules.seeds)


def _campaign_replay(row: Measurement, rules: Rules) -> Replay:
    """A row of the silicon table: a closed loop of clients against one engine."""
    campaigns.refuse_what_is_not_replayed(row)
    clients = row.concurrency
    assert clients is not None, "refused above"
    spread = campaigns.parallelism(row)
    model, types = checkpoint(row.model, row.precision)
    if cache := campaigns.kv_cache(row):
        types = {**types, "kv_cache": cache}
    engine: dict[str, Any] = {
        **_aic(row, model, types, spread, dense=is_dense(row.model)),
        **_limits(row, clients, spread.attention_dp, own_scheduler=rules.own_scheduler),
    }
    isl, osl = campaigns.lengths(row)
    workload = ClosedLoop(clients, campaigns.requests(row, clients), isl, osl, campaigns.prompts(row))
    instead = stand_ins.stand_in(row)
    if instead is None:
        return Replay(row, {**engine, **_memory(row)}, workload)
    pool = engine if any(name in instead.engine for name in _OTHERS) else None
    engine = {**engine, **({} if pool else _memory(row)), **instead.engine}
    return Replay(row, engine, workload, (instead.words,), pool, kernels=instead.kernels)


def _split_replay(row: Measurement, rules: Rules) -> Replay:
    """A row of the silicon table: a closed loop of clients against prefill workers and decode workers."""
    if row.mode != "disagg":
        raise Refusal("not a split into prefill and decode workers")
    if row.source not in CAMPAIGNS:
        raise Refusal("disaggregated: pools are not replayed")
    splits.refuse_what_is_not_replayed(row)
    clients = row.concurrency
    assert clients is not None, "refused above"
    model, types = checkpoint(row.model, row.precision)
    instead, words = splits.stand_ins(row)
    own_rules = {"scheduler": "vllm"} if row.engine == "vllm" and rules.own_scheduler else {}
    engines = {}
    for pool in POOLS:
        spread = splits.parallelism(row, pool)
        engine = {
            **_aic(row, model, types, spread, dense=is_dense(row.model)),
            **splits.limits(row, spread.attention_dp),
            **own_rules,
            **instead,
            "worker_type": pool,
        }
        engines[pool] = _overridden(engine, rules.engine)
    isl, osl = campaigns.lengths(row)
    workload = ClosedLoop(clients, campaigns.requests(row, clients), isl, osl)
    split = Split(engines["prefill"], *(splits.workers(row, pool) for pool in POOLS))
    return Replay(row, engines["decode"], workload, words, split=split)


def _recorded_replay(measurement: Measurement, rules: Rules) -> Replay:
    """Any other source: what it says about the engine, and the load that it describes or recorded."""
    if measurement.mode != "agg":
        raise Refusal("disaggregated: pools are not replayed")
    spread = measurement.parallelism
    engine: dict[str, Any] = {"engine_type": measurement.engine} if measurement.engine else {}
    if measurement.system and measurement.model:
        model, types = checkpoint(measurement.model, measurement.precision)
        engine |= _aic(measurement, model, types, spread, dense=is_dense(measurement.model))
    elif not any(name in rules.engine for name in _TIMING):
        raise Refusal(
            "the source does not say which model ran on which GPU: put deployment.json beside it, or give --engine"
        )
    engine |= measurement.engine_args
    if _has_ranks(measurement, rules):
        engine["dp_size"] = spread.attention_dp
    else:
        for name in _PER_RANK:
            if name in engine:
                engine[name] *= spread.attention_dp
    workload, words = _workload(measurement)
    return Replay(measurement, engine, workload, (*words, *_other_rules(measurement)))


def _has_ranks(measurement: Measurement, rules: Rules) -> bool:
    """Whether the ranks of an engine are simulated, and not one engine for all of them.

    Recordings of LLMServingSim say when each request was in the engine, so waiting for other ranks is in them. Replicas
    of a dense model never wait.
    """
    own_rules = rules.own_scheduler and rules.engine.get("scheduler", "vllm") == "vllm"
    recorded = measurement.source == llmservingsim.FORMAT and measurement.engine == "vllm"
    return own_rules and recorded and measurement.parallelism.attention_dp > 1 and not is_dense(measurement.model)


def _other_rules(measurement: Measurement) -> tuple[str, ...]:
    """What stands in for a scheduler that is not simulated: vLLM had another one before release 0.8 (release notes)."""
    release = re.match(r"0\.(\d{1,4})(?!\d)", measurement.version)
    if measurement.engine == "vllm" and release and int(release[1]) < 8:
        return ("today's rules of vLLM for its first scheduler, which computed prompts alone and whole",)
    return ()


def _workload(measurement: Measurement) -> tuple[ClosedLoop | OpenLoop | Recorded, tuple[str, ...]]:
    """The load, and what stands in for what is not known of it."""
    requests, clients, rate = measurement.requests, measurement.concurrency, measurement.request_rate
    if requests is not None and (clients is not None or requests.arrival_ms):
        return Recorded(requests, clients), ()
    if requests is not None and rate is not None:
        drawn = replace(requests, arrival_ms=_poisson(rate, len(requests.isl)))
        return Recorded(drawn), ("arrivals drawn from a Poisson process of the rate that was asked for",)
    if measurement.isl is None or measurement.osl is None:
        raise Refusal("lengths of prompts and answers unknown")
    drawn_lengths = measurement.source == accelmark.FORMAT
    words = ("lengths drawn from the percentiles of the data set" if drawn_lengths else "all lengths are the mean",)
    if clients is not None:
        count = measurement.request_count or campaigns.REQUESTS_PER_CLIENT * clients
        return ClosedLoop(clients, count, measurement.isl, measurement.osl), words
    if rate is not None:
        return OpenLoop(rate, measurement.request_count or _OPEN_LOOP_REQUESTS, measurement.isl, measurement.osl), words
    raise Refusal("neither arrivals nor a number of clients nor a rate are known")


def _poisson(rate: float, requests: int) -> list[float]:
    """Arrivals of a Poisson process, the same ones every time, in ms from the first."""
    draw = random.Random(0)
    gaps = [0.0, *(draw.expovariate(rate) * 1e3 for _ in range(requests - 1))]
    return list(itertools.accumulate(gaps))


def _aic(
    measurement: Measurement, model: str, types: Mapping[str, str], spread: Parallelism, *, dense: bool
) -> dict[str, Any]:
    """The engine arguments that describe model and GPUs to the AIC SDK."""
    args: dict[str, Any] = {
        "engine_type": measurement.engine,
        "aic_backend": measurement.engine,
        "aic_system": measurement.system,
        "aic_model_path": model,
        "aic_tp_size": spread.tp,
        **{f"aic_{kind}_dtype": name for kind, name in types.items()},
    }
    if not dense:
        args |= {
            "aic_moe_tp_size": spread.moe_tp,
            "aic_moe_ep_size": spread.moe_ep,
            "aic_attention_dp_size": spread.attention_dp,
        }
    return args


def _limits(row: Measurement, clients: int, ranks: int, *, own_scheduler: bool) -> dict[str, Any]:
    """What an engine computes and runs at a time. With attention data parallelism one engine holds all ranks."""
    if row.engine == "vllm":
        return {
            "enable_prefix_caching": campaigns.prompts(row) > 0,
            "max_num_seqs": ranks * campaigns.vllm_running(row, clients),
            "max_num_batched_tokens": ranks * campaigns.batched_tokens(row),
        }
    chunk = campaigns.sglang_chunk(row)
    sglang: dict[str, Any] = {
        "chunked_prefill_size": ranks * chunk,
        "max_prefill_tokens": ranks * max(chunk, 16384),
    }
    if own_scheduler:  # the rules of Dynamo's mocker have neither
        sglang["ignore_eos"] = True
        if (interval := campaigns.receive_interval(row, clients)) != 1:
            sglang["scheduler_recv_interval"] = interval
    return {"max_num_seqs": campaigns.sglang_running(row), "sglang": sglang}


def _memory(row: Measurement) -> dict[str, Any]:
    """A KV pool that is estimated as the engine does; the SDK's are too small for latent attention.

    Models that the campaigns did not measure keep the SDK's, as it may lack their config.json.
    """
    if not any(name in row.model for name in campaigns.MODELS):
        return {}
    share = campaigns.memory_share(row)
    return {"kv_pool_estimate": "engine", **({"mem_fraction_static": share} if share else {})}


def _scheduler(engine: Mapping[str, Any], rules: Rules) -> dict[str, Any]:
    """The engine's own scheduling rules; vLLM's need a budget of at least one token per running request."""
    kind = engine.get("engine_type")
    if not rules.own_scheduler or "scheduler" in rules.engine or kind not in ("vllm", "sglang"):
        return {}
    chosen: dict[str, Any] = {"scheduler": kind}
    budget, running = engine.get("max_num_batched_tokens"), engine.get("max_num_seqs")
    if kind == "vllm" and budget and running and budget < running:
        chosen["max_num_seqs"] = budget
    return chosen


def _passes(measurement: Measurement, engine: Mapping[str, Any]) -> dict[str, Any]:
    """Whether passes overlap: the recordings of LLMServingSim were made with synchronous scheduling.

    Evidence: in the first half of both public runs, TTFT while few requests run is what one pass takes, not two.
    """
    synchronous = measurement.source == llmservingsim.FORMAT and engine.get("scheduler") == "vllm"
    return {"async_scheduling": False} if synchronous else {}


def _overridden(engine: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Engine arguments of which those given win. Measured durations take the place of the SDK's predictions."""
    if "planner_profile_data" in given:
        engine = {name: value for name, value in engine.items() if not name.startswith("aic_") and name not in _MEMORY}
    merged = {**engine, **given}
    if isinstance(engine.get("sglang"), Mapping) and isinstance(given.get("sglang"), Mapping):
        merged["sglang"] = {**engine["sglang"], **given["sglang"]}
    return merged
