"""From a measurement to the replay that simulates it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dynamo.validate import campaigns, stand_ins
from dynamo.validate.checkpoints import checkpoint, is_dense
from dynamo.validate.measurement import ClosedLoop, Measurement, OpenLoop, Parallelism, Recorded, Refusal, Replay
from dynamo.validate.sources.silicon import CAMPAIGNS

# Limits of an engine that hold for each of its ranks. One simulated engine stands for all of them.
_PER_RANK = ("max_num_seqs", "max_num_batched_tokens")
# Requests of a run that is described by a rate or a number of clients only.
_OPEN_LOOP_REQUESTS = 300


@dataclass(frozen=True)
class Rules:
    """How measurements are replayed.

    own_scheduler: With the engine's own scheduling rules (``scheduler`` "vllm" or "sglang") instead of Dynamo's mocker.
    receive_interval: With the ``scheduler_recv_interval`` that the scripts give SGLang.
    engine: Engine arguments that win over everything that is known about a measurement; those in "sglang" one by one.
    """

    own_scheduler: bool = True
    receive_interval: bool = False
    engine: Mapping[str, Any] = field(default_factory=dict)


def replay_of(measurement: Measurement, rules: Rules = Rules()) -> Replay:  # immutable
    """The replay of a measurement. Raises Refusal where there is none."""
    if measurement.source in CAMPAIGNS:
        replay = _campaign_replay(measurement, rules)
    else:
        replay = _recorded_replay(measurement, rules)
    engine = _overridden(replay.engine, rules.engine)
    return Replay(measurement, engine, replay.workload, replay.stand_ins)


def _campaign_replay(row: Measurement, rules: Rules) -> Replay:
    """A row of the silicon table: a closed loop of clients against one engine."""
    campaigns.refuse_what_is_not_replayed(row)
    clients = row.concurrency
    assert clients is not None, "refused above"
    spread = campaigns.parallelism(row)
    model, types = checkpoint(row.model, row.precision)
    if campaigns.has_fp8_cache(row):
        types = {**types, "kv_cache": "fp8"}
    engine = {
        **_aic(row, model, types, spread, dense=is_dense(row.model)),
        **_limits(row, clients, spread.attention_dp, rules),
    }
    words: tuple[str, ...] = ()
    if instead := stand_ins.stand_in(row):
        engine |= instead.engine
        words = (instead.words,)
    isl, osl = campaigns.lengths(row)
    workload = ClosedLoop(clients, campaigns.REQUESTS_PER_CLIENT * clients, isl, osl)
    return Replay(row, {**engine, **_scheduler(row, engine, rules)}, workload, words)


def _recorded_replay(measurement: Measurement, rules: Rules) -> Replay:
    """Any other source: what it says about the engine, and the load that it describes or recorded."""
    if measurement.mode != "agg":
        raise Refusal("disaggregated: pools are not replayed")
    if not measurement.engine and "engine_type" not in rules.engine:
        raise Refusal("the source does not say which engine ran: give --engine '{\"engine_type\": ...}'")
    spread = measurement.parallelism
    engine: dict[str, Any] = {}
    if measurement.system and measurement.model:
        model, types = checkpoint(measurement.model, measurement.precision)
        engine = _aic(measurement, model, types, spread, dense=is_dense(measurement.model))
    engine |= measurement.engine_args
    for name in _PER_RANK:
        if name in engine:
            engine[name] *= spread.attention_dp
    return Replay(measurement, {**engine, **_scheduler(measurement, engine, rules)}, _workload(measurement))


def _workload(measurement: Measurement) -> ClosedLoop | OpenLoop | Recorded:
    requests, clients = measurement.requests, measurement.concurrency
    if requests is not None and (requests.arrival_ms or clients is not None):
        return Recorded(requests, None if requests.arrival_ms else clients)
    if measurement.isl is None or measurement.osl is None:
        raise Refusal("lengths of prompts and answers unknown")
    if clients is not None:
        count = measurement.request_count or campaigns.REQUESTS_PER_CLIENT * clients
        return ClosedLoop(clients, count, measurement.isl, measurement.osl)
    if measurement.request_rate is not None:
        count = measurement.request_count or _OPEN_LOOP_REQUESTS
        return OpenLoop(measurement.request_rate, count, measurement.isl, measurement.osl)
    raise Refusal("neither arrivals nor a number of clients nor a rate are known")


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


def _limits(row: Measurement, clients: int, ranks: int, rules: Rules) -> dict[str, Any]:
    """What an engine computes and runs at a time. With attention data parallelism one engine holds all ranks."""
    if row.engine == "vllm":
        return {
            "enable_prefix_caching": False,
            "max_num_seqs": campaigns.vllm_running(row, clients),
            "max_num_batched_tokens": ranks * campaigns.batched_tokens(row),
        }
    chunk = campaigns.sglang_chunk(row)
    sglang: dict[str, Any] = {
        "chunked_prefill_size": ranks * chunk,
        "max_prefill_tokens": ranks * max(chunk, 16384),
    }
    if rules.own_scheduler:
        sglang["ignore_eos"] = True
    interval = campaigns.receive_interval(row, clients) if rules.receive_interval else 1
    if interval != 1:
        sglang["scheduler_recv_interval"] = interval
    return {"max_num_seqs": campaigns.sglang_running(row), "sglang": sglang}


def _scheduler(measurement: Measurement, engine: Mapping[str, Any], rules: Rules) -> dict[str, Any]:
    """The engine's own scheduling rules, which need a budget of at least one token per running request with vLLM."""
    if not rules.own_scheduler or measurement.engine not in ("vllm", "sglang"):
        return {}
    chosen: dict[str, Any] = {"scheduler": measurement.engine}
    budget, running = engine.get("max_num_batched_tokens"), engine.get("max_num_seqs")
    if measurement.engine == "vllm" and budget and running and budget < running:
        chosen["max_num_seqs"] = budget
    return chosen


def _overridden(engine: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    merged = {**engine, **given}
    if isinstance(engine.get("sglang"), Mapping) and isinstance(given.get("sglang"), Mapping):
        merged["sglang"] = {**engine["sglang"], **given["sglang"]}
    return merged
