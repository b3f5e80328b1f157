"""Carries out the replay of a measurement."""

from __future__ import annotations

import json
import os
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from dynamo.mocker import MockEngineArgs
from dynamo.replay import Report, run_synthetic_trace_replay, run_trace_replay
from dynamo.validate.measurement import ClosedLoop, Figures, Length, OpenLoop, Recorded, Refusal, Replay, Requests
from dynamo.validate.static import session_of

# One id stands for a whole prompt: prompts of recorded requests share nothing.
_WHOLE_PROMPT = 1 << 20
_COLUMNS = {"ttft_ms": "ttft_ms", "tpot_ms": "itl_ms"}


@dataclass(frozen=True)
class Outcome:
    """What a replay came to, in milliseconds.

    Values of single requests are there where single requests were measured, NaN where a request has none. With several
    seeds ``ranges`` has the least and the largest mean by metric; all else is of the first one.
    """

    ttft: Figures
    tpot: Figures
    ttft_ms: Sequence[float] = ()
    tpot_ms: Sequence[float] = ()
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)


def simulate(replay: Replay) -> Outcome:
    """Runs a replay. Raises Refusal if the engine arguments cannot be simulated, or requests were rejected."""
    outcome = _simulate(replay, None)
    load = replay.workload
    if replay.seeds == 1 or isinstance(load, Recorded):
        return outcome
    varied = replace(replay, workload=replace(load, isl=_about(load.isl), osl=_about(load.osl)))
    others = [_simulate(varied, seed) for seed in range(1, replay.seeds)]
    return replace(outcome, ranges=_ranges([outcome, *others]))


def _about(length: Length) -> Length:
    """Returns a fixed length varied by a fiftieth: clients whose answers always end together run in lockstep."""
    if isinstance(length, str) or length < 2:
        return length
    least = length - max(1, length // 50)
    return f"uniform({least},{2 * length - least})"


def _ranges(outcomes: Sequence[Outcome]) -> dict[str, tuple[float, float]]:
    """Returns the least and the largest mean by metric."""
    found = {}
    for metric in ("ttft", "tpot"):
        means = [mean for outcome in outcomes if (mean := getattr(outcome, metric).mean) is not None]
        if means:
            found[metric] = (min(means), max(means))
    return found


def _simulate(replay: Replay, seed: int | None) -> Outcome:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            report = _run(replay, MockEngineArgs(**engine_args(replay)), seed)
    except (ValueError, TypeError, RuntimeError) as error:
        raise Refusal(" ".join(str(error).split()).removeprefix("extra_engine_args: ")) from error
    if rejected := report["rejected_requests"]:
        raise Refusal(f"{rejected} of {report['num_requests']} requests do not fit into the simulated engine")
    outcome = Outcome(_figures(report, "ttft_ms"), _figures(report, "tpot_ms"))
    if isinstance(replay.workload, Recorded):
        return replace(outcome, **{name: report.requests[column].tolist() for name, column in _COLUMNS.items()})
    return outcome


def engine_args(replay: Replay) -> dict[str, Any]:
    """Returns the engine arguments of a replay, with the KV pool of the GPU that was measured. Raises ValueError."""
    if replay.pool is None or "num_gpu_blocks" in replay.engine:
        return dict(replay.engine)
    run_synthetic_trace_replay(1, 1, 1, extra_engine_args=MockEngineArgs(**replay.pool), rows=False)
    session = session_of(replay.pool)
    if session is None or session.pool_blocks is None:
        raise ValueError("num_gpu_blocks: the SDK has not estimated the KV pool")
    ranks = int(replay.pool.get("aic_attention_dp_size", 1))
    return {**replay.engine, "num_gpu_blocks": ranks * session.pool_blocks}


def _run(replay: Replay, engine: MockEngineArgs, seed: int | None) -> Report:
    load = replay.workload
    if isinstance(load, Recorded):
        return _run_recorded(load, engine)
    common: dict[str, Any] = {"rows": False, "seed": seed}
    if (split := replay.split) is None:
        common |= {"extra_engine_args": engine, "num_workers": 1}
    else:
        common |= {
            "prefill_engine_args": MockEngineArgs(**split.prefill),
            "decode_engine_args": engine,
            "num_prefill_workers": split.prefill_workers,
            "num_decode_workers": split.decode_workers,
        }
    if isinstance(load, ClosedLoop):
        common["replay_concurrency"] = load.clients
        if load.prompts:
            common |= {"shared_prefix_ratio": 1.0, "num_prefix_groups": load.prompts}
    elif isinstance(load, OpenLoop):
        common |= {"arrival_process": "poisson", "request_rate": load.rate}
    return run_synthetic_trace_replay(load.isl, load.osl, load.requests, **common)


def _run_recorded(load: Recorded, engine: MockEngineArgs) -> Report:
    handle, path = tempfile.mkstemp(suffix=".jsonl", prefix="dynamo-validate-")
    try:
        with os.fdopen(handle, "w") as file:
            file.writelines(json.dumps(row) + "\n" for row in _trace(load.requests))
        return run_trace_replay(
            path,
            trace_block_size=_WHOLE_PROMPT,
            extra_engine_args=engine,
            num_workers=1,
            replay_concurrency=load.clients,
        )
    finally:
        os.unlink(path)


def _trace(requests: Requests) -> list[dict[str, Any]]:
    arrivals = requests.arrival_ms or [0.0] * len(requests.isl)
    return [
        {"timestamp": arrival, "input_length": isl, "output_length": osl, "hash_ids": [row]}
        for row, (arrival, isl, osl) in enumerate(zip(arrivals, requests.isl, requests.osl, strict=True))
    ]


def _figures(report: Mapping[str, Any], name: str) -> Figures:
    return Figures(report[f"mean_{name}"], report[f"median_{name}"], report[f"p90_{name}"], report[f"p99_{name}"])
