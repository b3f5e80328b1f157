"""The two functions that run a replay from Python.

They check Python types and pass every value on. Defaults, ranges and combinations are checked in Go before anything
runs. A parameter that is None is not passed on, so its default is defined in one place.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from dynamo._core import Progress, values
from dynamo._shell import notebookbar, plugins, schedulers, timings
from dynamo._shell.aic import AicPerfConfig
from dynamo._shell.aic_fields import AicFields
from dynamo._shell.engine import MockEngineArgs
from dynamo._shell.engine_fields import EngineFields
from dynamo._shell.fields import Fields, FieldSet, fields_of
from dynamo._shell.options import run_options
from dynamo._shell.router import KvRouterConfig
from dynamo._shell.router_fields import RouterFields
from dynamo._shell.routers import Router, described, hook_of
from dynamo.replay import artifacts, files, newer, planned
from dynamo.replay.faults import Faults, script
from dynamo.replay.planner import Autoscaler, Hook, Planner
from dynamo.replay.report import Report
from dynamo.replay.requests import Requests
from dynamo.replay.schedulers import SchedulerPolicy
from dynamo.replay.telemetry import Sampler, TelemetryOptions, interval_ms
from dynamo.replay.timeseries import Timeseries
from dynamo.replay.timings import TimingModel
from dynamo.replay.trace import OPTIONS, Workload, load_trace, loaded, trace_paths

__all__ = [
    "Planner",
    "Progress",
    "Report",
    "Requests",
    "TelemetryOptions",
    "Workload",
    "load_trace",
    "run_mocker_trace_replay",
    "run_synthetic_trace_replay",
    "run_trace_replay",
]

Path: TypeAlias = str | os.PathLike[str]
# Dicts are named twice: a literal is completed and checked as the TypedDict, and every other mapping is accepted.
EngineArgs: TypeAlias = MockEngineArgs | EngineFields | Mapping[str, Any]
RouterConfig: TypeAlias = KvRouterConfig | RouterFields | Mapping[str, Any]
AicConfig: TypeAlias = AicPerfConfig | AicFields | Mapping[str, Any]
OnProgress: TypeAlias = Callable[[Progress], object]

# Code generated from gocore/job/table.go by go generate ./gocore/job. DO NOT EDIT.

TraceFormat: TypeAlias = Literal[
    "mooncake",
    "mooncake-delta",
    "mooncake_delta",
    "agentic_mooncake",
    "agentic-mooncake",
    "applied_compute_agentic",
    "dynamo",
    "azure",
    "burstgpt",
    "splitwise",
    "vidur",
    "servegen",
    "weka",
    "bailian",
    "llmservingsim",
    "sharegpt",
    "aiperf",
    "sglang-bench",
    "vllm-bench",
    "guidellm",
]
ArrivalProcess: TypeAlias = Literal["constant", "poisson", "gamma", "weibull"]
RouterMode: TypeAlias = Literal[
    "round_robin",
    "kv_router",
    "random",
    "least_requests",
    "least_tokens",
    "power_of_two",
    "consistent_hash",
    "prefix_hash",
    "sticky_least_loaded",
    "manual",
    "bucket",
    "sglang_cache_aware",
    "smg_cache_aware",
    "vllm_cache_aware",
    "endpoint_picker",
]
RouterDecisionsMode: TypeAlias = Literal["check", "force"]
RouterRules: TypeAlias = Literal["1.3", "1.6"]
ReplayMode: TypeAlias = Literal["offline", "online"]


@newer.words
def run_trace_replay(
    trace_files: Path | Sequence[Path] | Workload,
    *,
    trace_format: TraceFormat | None = None,
    trace_block_size: int | None = None,
    trace_shared_prefix_ratio: float | None = None,
    trace_num_prefix_groups: int | None = None,
    num_workers: int | None = None,
    num_prefill_workers: int | None = None,
    num_decode_workers: int | None = None,
    extra_engine_args: EngineArgs | None = None,
    prefill_engine_args: EngineArgs | None = None,
    decode_engine_args: EngineArgs | None = None,
    router_mode: RouterMode | None = None,
    router_config: RouterConfig | None = None,
    router: Router | Sequence[Router] | str | None = None,
    kv_event_lag_ms: float | None = None,
    timing_model: TimingModel | str | None = None,
    scheduler_policy: SchedulerPolicy | str | None = None,
    router_log: Path | None = None,
    router_decisions: Path | None = None,
    router_decisions_mode: RouterDecisionsMode | None = None,
    router_policy_config: Path | None = None,
    model: str | None = None,
    model_name: str | None = None,
    planner: Planner | None = None,
    autoscaler: Autoscaler | None = None,
    planner_log: Path | None = None,
    planner_config: Mapping[str, Any] | Path | None = None,
    planner_python: Path | None = None,
    benchmark_granularity: int | None = None,
    gpu_hour_price: float | None = None,
    faults: Faults | None = None,
    fault_rate: float | None = None,
    migration_limit: int | None = None,
    detection_ms: float | None = None,
    avoid_ms: float | None = None,
    retry_refused_ms: float | None = None,
    router_rules: RouterRules | None = None,
    client_timeout_ms: float | None = None,
    client_retries: int | None = None,
    client_backoff_ms: float | None = None,
    hedge_after_ms: float | None = None,
    replay_mode: ReplayMode | None = None,
    replay_concurrency: int | None = None,
    agentic_lanes: int | None = None,
    arrival_speedup_ratio: float | None = None,
    seed: int | None = None,
    max_sim_time_ms: float | None = None,
    stop_when_late: str | None = None,
    sla_ttft_ms: float | None = None,
    sla_tpot_ms: float | None = None,
    sla_itl_ms: float | None = None,
    sla_e2e_ms: float | None = None,
    aic_perf_config: AicConfig | None = None,
    rows: bool | None = None,
    capture_per_request: bool | None = None,
    attribution: bool | None = None,
    report_jsonl_path: Path | None = None,
    timeline: Path | None = None,
    timeline_window: str | None = None,
    timeseries: Path | None = None,
    timeseries_step: str | None = None,
    telemetry_options: TelemetryOptions | None = None,
    html: Path | None = None,
    save_trace: Path | None = None,
    on_progress: OnProgress | None = None,
) -> Report:
    """Replays a request trace through simulated workers, in virtual time.

    Every keyword may be None, which means its default.

    Args:
        trace_files: A trace, plain, ``.gz`` or ``.zst``; ``"-"`` reads standard input. A sequence of several for
            ``trace_format="dynamo"``, ``"servegen"`` and ``"weka"``. Or a ``Workload`` from ``load_trace``, which
            already includes the options of the trace.
        trace_format: ``"mooncake"`` (default), ``"mooncake-delta"``, ``"agentic_mooncake"``,
            ``"applied_compute_agentic"``, ``"dynamo"``, or the format of a public trace or of a load generator;
            docs/workloads.md has an example of each.
        trace_block_size: Tokens that one ``hash_ids`` entry of the trace stands for; 512 if not given.
        trace_shared_prefix_ratio: Fraction of each prompt that is replaced by a prefix shared between sessions, 0
            (default) to 1, for traces without block ids.
        trace_num_prefix_groups: Number of different shared prefixes; 0 (default) is none.
        num_workers: Number of simulated workers in one pool; 1 if not given.
        num_prefill_workers: Prefill workers of two pools; 1 if not given.
        num_decode_workers: Decode workers of two pools; 1 if not given.
        extra_engine_args: The engine that every worker simulates: a MockEngineArgs or a dict of its fields.
        prefill_engine_args: The engine of prefill workers, which compute prompts: overrides of extra_engine_args. This
            argument, decode_engine_args and both numbers of workers make two pools instead of one.
        decode_engine_args: The engine of decode workers, which receive the KV of prompts and generate: overrides of
            extra_engine_args.
        router_mode: ``"round_robin"`` (default), ``"kv_router"``, ``"random"``, ``"least_requests"``,
            ``"least_tokens"``, ``"power_of_two"``, ``"consistent_hash"``, ``"prefix_hash"``, ``"sticky_least_loaded"``,
            ``"manual"``, ``"bucket"``, ``"sglang_cache_aware"``, ``"smg_cache_aware"``, ``"vllm_cache_aware"`` or
            ``"endpoint_picker"``, for two workers or more.
        router_config: Settings of the router: a KvRouterConfig for ``"kv_router"``, or a dict of the settings of that
            ``router_mode`` (docs/reference/routing-modes.md).
        router: A router in Python instead of ``router_mode``: an object with ``choose(request, workers)``, or a pair of
            objects for two pools; or the string ``"module:Class"``, ``"file.py:Class"`` or the name of an installed
            one, which is instantiated for each pool with ``router_config``. See docs/routers.md. An exception that it
            raises ends the run.
        kv_event_lag_ms: Delay until the router learns that a worker has stored or removed blocks, in milliseconds of
            simulated time; 0 if not given. Computed prompts and completed requests have no delay. For
            ``router_mode="kv_router"`` and routers in Python.
        timing_model: A timing model in Python, in place of the one in the engine arguments: a function of a batch of
            parts of passes that returns their milliseconds, or the string ``"module:name"``, ``"file.py:name"`` or the
            name of an installed one. See docs/timing.md. An exception that it raises ends the run.
        scheduler_policy: A policy in Python for which waiting request an engine admits next, and which running one it
            preempts: an object with ``next(waiting, engine)`` or ``victim(running, engine)``, or the string
            ``"module:Class"``, ``"file.py:Class"`` or the name of an installed one. For the engines of Dynamo's mocker
            of type vllm and trtllm. See docs/schedulers.md. An exception that it raises ends the run.
        router_log: Write every decision of the router, with all workers and their costs, to this JSONL file.
        router_decisions: Repeat the decisions in this JSONL file (``trace_row`` and ``decode_worker_idx``, with
            ``dp_rank`` if the router chooses ranks), which may be a per-request file of another run.
        router_decisions_mode: With ``"check"`` (default) a repeated decision that is not among the cheapest is an
            error, with ``"force"`` it is carried out.
        router_policy_config: A router policy file. Not built yet: refused.
        model: A model that vLLM serves, which determines KV cache groups, block size, blocks and GPUs: the engine
            argument of this name, for all pools. See docs/hybrid.md.
        model_name: Name of the model, which selects a profile of a router policy file; without one it has no effect.
        planner: A planner that changes the number of workers of each pool during the run: an object with
            ``initial_tick_ms()`` and ``on_tick(metrics)``, see docs/planner.md. An exception that it raises ends the
            run.
        autoscaler: A policy that changes the number of workers during the run: a dict with the key ``policy``
            (``"hpa"``, ``"keda"``, ``"queue"`` or ``"schedule"``), or a list of dicts for two pools. See
            docs/planner.md.
        planner_log: Write what the planner or autoscaler saw and decided, one JSON object for each tick, to this file.
        planner_config: Settings of ai-dynamo's planner, which then changes the number of workers: a dict or the path of
            a JSON or YAML file. It needs ``planner_python``. See docs/planner.md.
        planner_python: The interpreter of an environment with ai-dynamo, which ``planner_config`` needs; if not given,
            the environment variable ``DYNOSIM_PLANNER_PYTHON``.
        benchmark_granularity: Steps per axis of the initial AIC predictions for ``planner_config`` with the
            optimization target ``sla``; 8 if not given.
        gpu_hour_price: The price of a GPU for an hour, in any currency. It adds ``gpu_cost`` to the report: GPU hours
            times price.
        faults: Faults: a list of dicts with the keys ``kind``, ``at_ms`` or ``mtbf_s``, ``target`` and others, or the
            path of a JSONL or YAML file with them. See docs/faults.md.
        fault_rate: Factor on the frequency of faults with ``mtbf_s``; 1.0 if not given, 0 for never.
        migration_limit: How often a request whose worker is lost may continue on another one, with its tokens as part
            of the prompt, as with Dynamo's frontend; 0 if not given.
        detection_ms: Time until the loss of a worker is noticed, in milliseconds. Until then requests are sent to it. 0
            if not given; the records of live workers expire after 10,000.
        avoid_ms: How long a worker gets no requests after its streams have broken, in milliseconds; 0 if not given.
            Dynamo's frontend avoids it for up to 5,000.
        retry_refused_ms: How long after the streams of a lost worker have broken requests sent to it return to the
            router, at most ``migration_limit`` times, in milliseconds; 0 if not given. Later ones fail immediately.
            Dynamo's frontend does this with its KV-aware router.
        router_rules: The release of Dynamo whose rules apply to a lost worker until its loss is noticed: ``1.3`` if not
            given. With ``1.6``, a worker that breaks a stream or refuses a request is avoided until the frontend lists
            its workers again, ``avoid_ms`` after the loss and every 5,000 ms from then on, and a refused request
            returns to the router.
        client_timeout_ms: Time after which a client gives up a request, in milliseconds; never if not given.
        client_retries: How often a client restarts a request that has failed or timed out; 0 if not given.
        client_backoff_ms: Pause before the first retry of a client, in milliseconds, which doubles each time; 1000.0 if
            not given.
        hedge_after_ms: Time without a token, in milliseconds, after which a request is sent a second time. The attempt
            with the first token counts; the other one is cancelled. Never if not given.
        replay_mode: ``"offline"`` (default) runs in virtual time, ``"online"`` in real time.
        replay_concurrency: Ignore arrival times and keep this many requests in flight instead.
        agentic_lanes: For traces of agents (``agentic_mooncake``, ``weka``, ``dynamo`` with agents): ignore the
            recorded start of each graph of dependent requests, and keep this many graphs in flight. When all requests
            of a graph have ended, the next one begins.
        arrival_speedup_ratio: Divides all gaps between arrivals; 2.0 makes them half as long. 1.0 if not given.
        seed: Seed of everything random: ties between workers, and the draws of a synthetic workload. Equal seeds give
            equal runs; 0 if not given.
        max_sim_time_ms: Stop at this simulated time, in milliseconds.
        stop_when_late: Stop once more values than a number are over a limit: ``"ttft_ms>2000:24,itl_ms>50:900"`` ends
            at the 25th TTFT over 2,000 ms, or the 901st gap over 50 ms; also ``tpot_ms`` and ``e2e_ms``. The report has
            lower bounds of their numbers: ``late_ttft_ms`` and similar keys count requests that have ended. So a run
            that cannot meet a service level ends early.
        sla_ttft_ms: Bound on the time to first token, in milliseconds. Bounds add the goodput keys to the report:
            requests that meet all of them.
        sla_tpot_ms: Bound on the time per output token, the mean gap between a request's tokens, in milliseconds.
        sla_itl_ms: The other name of sla_tpot_ms.
        sla_e2e_ms: Bound on the time from arrival to the last token, in milliseconds.
        aic_perf_config: The GPUs for which a router with ``router_prefill_load_model="aic"`` predicts the duration of
            prompts: an AicPerfConfig or a dict of its fields.
        rows: With False, the run keeps no per-request columns: ``report.requests`` is empty, and a run of many requests
            takes much less memory. True if not given.
        capture_per_request: With True, ``report.per_request`` is a list with a dict for each request, as files of
            ``report_jsonl_path`` have it. None if not given.
        attribution: Divide the time to first token and the latency of every request exactly into parts, such as waiting
            for a worker, its own prompt, or others' prompts: ``report["attribution"]``, and columns of the rows. See
            docs/why.md. False if not given.
        report_jsonl_path: Also write one JSON object per request to this file.
        timeline: Also write a timeline to this file, which ui.perfetto.dev shows: passes and counters of each worker,
            what each request waited for, and arrows from the router to its workers. See docs/timeline.md.
        timeline_window: Only this part of simulated time in the timeline, such as ``"10s:40s"``; either side may be
            missing.
        timeseries: Also write ``report.timeseries`` to this file, which ends with ``.csv``, ``.jsonl`` or ``.parquet``.
        timeseries_step: Keep ``report.timeseries``, with windows of this length, such as ``"1s"`` or ``"500ms"``. 1s if
            only the file is given.
        telemetry_options: Takes samples of queues, KV use and traffic **during** the run: a
            ``TelemetryOptions(sample_interval_ms=1000.0, capture_in_memory=None, callback=None, jsonl_path=None)``. A
            callback is called with each sample, in the calling thread, and an exception that it raises ends the run. A
            file gets a line for each sample. ``report.telemetry.samples`` has all, unless only a callback or a file is
            given.
        html: Also write a self-contained HTML page about the run to this file: summary, distributions, queues and KV
            use over time, slowest requests. The report also gets the attribution of latencies.
        save_trace: Also write the workload to this file, as a Mooncake trace that replays to the same report. A warning
            gives the ``trace_format`` and ``trace_block_size`` for it.
        on_progress: Called about twenty times a second during the run and once at its end, in the calling thread, with
            a ``Progress``: ``phase``, ``simulated_ms``, and requests ``done`` of ``total``. An exception that it raises
            stops the run.

    Returns:
        The report: a dict of metrics whose ``requests`` attribute holds the per-request columns.

    Raises:
        TypeError: An argument has the wrong Python type.
        ValueError: An argument, an engine argument or the trace breaks a rule. Nothing has run.
        FileNotFoundError: A trace file is missing.
        RuntimeError: The run failed after it began, or every request was rejected (its files are there).
        OSError: The per-request file could not be written after the run.
        UserWarning: Only where warnings are turned into errors (``python -W error``): the run has ended and its
            per-request file is written, but the report is lost. Filter UserWarning to keep it.
    """
    return _replay(
        "trace",
        trace_files=trace_files,
        trace_format=trace_format,
        trace_block_size=trace_block_size,
        trace_shared_prefix_ratio=trace_shared_prefix_ratio,
        trace_num_prefix_groups=trace_num_prefix_groups,
        num_workers=num_workers,
        num_prefill_workers=num_prefill_workers,
        num_decode_workers=num_decode_workers,
        extra_engine_args=extra_engine_args,
        prefill_engine_args=prefill_engine_args,
        decode_engine_args=decode_engine_args,
        router_mode=router_mode,
        router_config=router_config,
        router=router,
        kv_event_lag_ms=kv_event_lag_ms,
        timing_model=timing_model,
        scheduler_policy=scheduler_policy,
        router_log=router_log,
        router_decisions=router_decisions,
        router_decisions_mode=router_decisions_mode,
        router_policy_config=router_policy_config,
        model=model,
        model_name=model_name,
        planner=planner,
        autoscaler=autoscaler,
        planner_log=planner_log,
        planner_config=planner_config,
        planner_python=planner_python,
        benchmark_granularity=benchmark_granularity,
        gpu_hour_price=gpu_hour_price,
        faults=faults,
        fault_rate=fault_rate,
        migration_limit=migration_limit,
        detection_ms=detection_ms,
        avoid_ms=avoid_ms,
        retry_refused_ms=retry_refused_ms,
        router_rules=router_rules,
        client_timeout_ms=client_timeout_ms,
        client_retries=client_retries,
        client_backoff_ms=client_backoff_ms,
        hedge_after_ms=hedge_after_ms,
        replay_mode=replay_mode,
        replay_concurrency=replay_concurrency,
        agentic_lanes=agentic_lanes,
        arrival_speedup_ratio=arrival_speedup_ratio,
        seed=seed,
        max_sim_time_ms=max_sim_time_ms,
        stop_when_late=stop_when_late,
        sla_ttft_ms=sla_ttft_ms,
        sla_tpot_ms=sla_tpot_ms,
        sla_itl_ms=sla_itl_ms,
        sla_e2e_ms=sla_e2e_ms,
        aic_perf_config=aic_perf_config,
        rows=rows,
        capture_per_request=capture_per_request,
        attribution=attribution,
        report_jsonl_path=report_jsonl_path,
        timeline=timeline,
        timeline_window=timeline_window,
        timeseries=timeseries,
        timeseries_step=timeseries_step,
        telemetry_options=telemetry_options,
        html=html,
        save_trace=save_trace,
        on_progress=on_progress,
    )


@newer.words
def run_synthetic_trace_replay(
    input_tokens: int | str,
    output_tokens: int | str,
    request_count: int | None = None,
    *,
    arrival_interval_ms: float | None = None,
    arrival_process: ArrivalProcess | None = None,
    request_rate: float | None = None,
    request_rate_curve: Path | None = None,
    arrival_seed: int | None = None,
    arrival_cv: float | None = None,
    turns_per_session: int | None = None,
    shared_prefix_ratio: float | None = None,
    num_prefix_groups: int | None = None,
    inter_turn_delay_ms: float | None = None,
    num_workers: int | None = None,
    num_prefill_workers: int | None = None,
    num_decode_workers: int | None = None,
    extra_engine_args: EngineArgs | None = None,
    prefill_engine_args: EngineArgs | None = None,
    decode_engine_args: EngineArgs | None = None,
    router_mode: RouterMode | None = None,
    router_config: RouterConfig | None = None,
    router: Router | Sequence[Router] | str | None = None,
    kv_event_lag_ms: float | None = None,
    timing_model: TimingModel | str | None = None,
    scheduler_policy: SchedulerPolicy | str | None = None,
    router_log: Path | None = None,
    router_decisions: Path | None = None,
    router_decisions_mode: RouterDecisionsMode | None = None,
    router_policy_config: Path | None = None,
    model: str | None = None,
    model_name: str | None = None,
    planner: Planner | None = None,
    autoscaler: Autoscaler | None = None,
    planner_log: Path | None = None,
    planner_config: Mapping[str, Any] | Path | None = None,
    planner_python: Path | None = None,
    benchmark_granularity: int | None = None,
    gpu_hour_price: float | None = None,
    faults: Faults | None = None,
    fault_rate: float | None = None,
    migration_limit: int | None = None,
    detection_ms: float | None = None,
    avoid_ms: float | None = None,
    retry_refused_ms: float | None = None,
    router_rules: RouterRules | None = None,
    client_timeout_ms: float | None = None,
    client_retries: int | None = None,
    client_backoff_ms: float | None = None,
    hedge_after_ms: float | None = None,
    replay_mode: ReplayMode | None = None,
    replay_concurrency: int | None = None,
    arrival_speedup_ratio: float | None = None,
    seed: int | None = None,
    max_sim_time_ms: float | None = None,
    stop_when_late: str | None = None,
    sla_ttft_ms: float | None = None,
    sla_tpot_ms: float | None = None,
    sla_itl_ms: float | None = None,
    sla_e2e_ms: float | None = None,
    aic_perf_config: AicConfig | None = None,
    rows: bool | None = None,
    capture_per_request: bool | None = None,
    attribution: bool | None = None,
    report_jsonl_path: Path | None = None,
    timeline: Path | None = None,
    timeline_window: str | None = None,
    timeseries: Path | None = None,
    timeseries_step: str | None = None,
    telemetry_options: TelemetryOptions | None = None,
    html: Path | None = None,
    save_trace: Path | None = None,
    on_progress: OnProgress | None = None,
) -> Report:
    """Generates requests of one shape and replays them through simulated workers, in virtual time.

    Every keyword may be None, which means its default. Those not described here are as in ``run_trace_replay``:
    num_workers, num_prefill_workers, num_decode_workers, extra_engine_args, prefill_engine_args, decode_engine_args,
    router_mode, router_config, router, kv_event_lag_ms, timing_model, scheduler_policy, router_log, router_decisions,
    router_decisions_mode, router_policy_config, model, model_name, planner, autoscaler, planner_log, planner_config,
    planner_python, benchmark_granularity, gpu_hour_price, faults, fault_rate, migration_limit, detection_ms, avoid_ms,
    retry_refused_ms, router_rules, client_timeout_ms, client_retries, client_backoff_ms, hedge_after_ms, replay_mode,
    replay_concurrency, arrival_speedup_ratio, seed, max_sim_time_ms, stop_when_late, sla_ttft_ms, sla_tpot_ms,
    sla_itl_ms, sla_e2e_ms, aic_perf_config, rows, capture_per_request, attribution, report_jsonl_path, timeline,
    timeline_window, timeseries, timeseries_step, telemetry_options, html, save_trace and on_progress.

    Args:
        input_tokens: Prompt tokens of each request: a number, or a distribution from which each turn draws:
            ``"uniform(100,4000)"``, ``"normal(mean=2000,std=500)"``, ``"lognormal(mean=2000,cv=0.8,max=32000)"``, or
            ``"empirical(FILE)"`` for a file with one number per line. The middle two take ``min`` and ``max``.
        output_tokens: Output tokens of each request: a number, or a distribution as for input_tokens.
        request_count: Number of requests, or of sessions if they have several turns. With request_rate_curve it may be
            left out: the run then has the requests of one pass through the curve.
        arrival_interval_ms: Time between arrivals, in milliseconds; 1.0 if not given.
        arrival_process: How the gaps between arrivals vary: ``"constant"`` (default), ``"poisson"``, ``"gamma"`` or
            ``"weibull"``. All but the first need request_rate or request_rate_curve.
        request_rate: Mean arrivals per second, instead of arrival_interval_ms.
        request_rate_curve: Arrivals per second that change with time, instead of request_rate: a CSV file with the
            columns ``time_s`` (seconds, from 0) and ``rate_rps``, interpolated linearly. It repeats after the last row.
        arrival_seed: Seed of random arrivals, in place of seed, which still applies to everything else.
        arrival_cv: Standard deviation of gamma or weibull gaps divided by their mean; above 1 requests come in bursts.
        turns_per_session: Number of turns in a session; 1 if not given.
        shared_prefix_ratio: Fraction of the prompt blocks shared within a prefix group, 0 (default) to 1.
        num_prefix_groups: Number of different shared prefixes; 0 (default) is none.
        inter_turn_delay_ms: Pause between the end of a turn and the start of the next, in milliseconds; 0 if not given.

    Returns and raises as ``run_trace_replay``.
    """
    return _replay(
        "synthetic",
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        request_count=request_count,
        arrival_interval_ms=arrival_interval_ms,
        arrival_process=arrival_process,
        request_rate=request_rate,
        request_rate_curve=request_rate_curve,
        arrival_seed=arrival_seed,
        arrival_cv=arrival_cv,
        turns_per_session=turns_per_session,
        shared_prefix_ratio=shared_prefix_ratio,
        num_prefix_groups=num_prefix_groups,
        inter_turn_delay_ms=inter_turn_delay_ms,
        num_workers=num_workers,
        num_prefill_workers=num_prefill_workers,
        num_decode_workers=num_decode_workers,
        extra_engine_args=extra_engine_args,
        prefill_engine_args=prefill_engine_args,
        decode_engine_args=decode_engine_args,
        router_mode=router_mode,
        router_config=router_config,
        router=router,
        kv_event_lag_ms=kv_event_lag_ms,
        timing_model=timing_model,
        scheduler_policy=scheduler_policy,
        router_log=router_log,
        router_decisions=router_decisions,
        router_decisions_mode=router_decisions_mode,
        router_policy_config=router_policy_config,
        model=model,
        model_name=model_name,
        planner=planner,
        autoscaler=autoscaler,
        planner_log=planner_log,
        planner_config=planner_config,
        planner_python=planner_python,
        benchmark_granularity=benchmark_granularity,
        gpu_hour_price=gpu_hour_price,
        faults=faults,
        fault_rate=fault_rate,
        migration_limit=migration_limit,
        detection_ms=detection_ms,
        avoid_ms=avoid_ms,
        retry_refused_ms=retry_refused_ms,
        router_rules=router_rules,
        client_timeout_ms=client_timeout_ms,
        client_retries=client_retries,
        client_backoff_ms=client_backoff_ms,
        hedge_after_ms=hedge_after_ms,
        replay_mode=replay_mode,
        replay_concurrency=replay_concurrency,
        arrival_speedup_ratio=arrival_speedup_ratio,
        seed=seed,
        max_sim_time_ms=max_sim_time_ms,
        stop_when_late=stop_when_late,
        sla_ttft_ms=sla_ttft_ms,
        sla_tpot_ms=sla_tpot_ms,
        sla_itl_ms=sla_itl_ms,
        sla_e2e_ms=sla_e2e_ms,
        aic_perf_config=aic_perf_config,
        rows=rows,
        capture_per_request=capture_per_request,
        attribution=attribution,
        report_jsonl_path=report_jsonl_path,
        timeline=timeline,
        timeline_window=timeline_window,
        timeseries=timeseries,
        timeseries_step=timeseries_step,
        telemetry_options=telemetry_options,
        html=html,
        save_trace=save_trace,
        on_progress=on_progress,
    )


@newer.words
def run_mocker_trace_replay(
    trace_files: Path | Sequence[Path] | Workload,
    extra_engine_args: EngineArgs | None = None,
    router_config: RouterConfig | None = None,
    num_workers: int | None = None,
    replay_concurrency: int | None = None,
    router_mode: RouterMode | None = None,
    arrival_speedup_ratio: float | None = None,
    trace_block_size: int | None = None,
    trace_format: TraceFormat | None = None,
    trace_shared_prefix_ratio: float | None = None,
    trace_num_prefix_groups: int | None = None,
    model_name: str | None = None,
    sla_ttft_ms: float | None = None,
    sla_itl_ms: float | None = None,
    sla_e2e_ms: float | None = None,
) -> Report:
    """``run_trace_replay`` as ``dynamo.mocker`` has it: offline, with one pool, arguments also by position.

    Args, result and exceptions: see ``run_trace_replay``.
    """
    return _replay(
        "trace",
        trace_files=trace_files,
        extra_engine_args=extra_engine_args,
        router_config=router_config,
        num_workers=num_workers,
        replay_concurrency=replay_concurrency,
        router_mode=router_mode,
        arrival_speedup_ratio=arrival_speedup_ratio,
        trace_block_size=trace_block_size,
        trace_format=trace_format,
        trace_shared_prefix_ratio=trace_shared_prefix_ratio,
        trace_num_prefix_groups=trace_num_prefix_groups,
        model_name=model_name,
        sla_ttft_ms=sla_ttft_ms,
        sla_itl_ms=sla_itl_ms,
        sla_e2e_ms=sla_e2e_ms,
    )


# End of what is generated


def _replay(kind: str, **given: Any) -> Report:
    on_progress: OnProgress | None = given.pop("on_progress", None)
    if on_progress is not None and not callable(on_progress):
        raise TypeError(f"on_progress: got {values.show(on_progress)}, want a function")
    hook = Hook(given["planner"]) if given.get("planner") is not None else None
    rules: planned.Rules = {
        rule: hook(given[name]) for name, (rule, hook) in _RULES.items() if not isinstance(given.get(name), str | None)
    }
    sampler = Sampler(given["telemetry_options"]) if given.get("telemetry_options") is not None else None
    workload = given.get("trace_files")
    trace = None
    if isinstance(workload, Workload):
        _take_over(workload, given)
        trace = loaded(workload)
    config: dict[str, Any] = {"kind": kind}
    for name, value in given.items():
        option = run_options()[name]
        if value is not None or (option.positional and not option.instead):
            config[name] = plain(name, value)
    script = given.get("faults")
    files.check_outputs(config, sources=[("faults", script)] if isinstance(script, str | os.PathLike) else [])
    try:
        with notebookbar.bar("requests") as bar:
            show = on_progress or (None if bar is None else lambda now: bar(now.done, now.total, now.phase))
            result = planned.run(config, show, trace, hook, rules, sampler)
    finally:
        samples = sampler.close() if sampler is not None else None
    if on_progress is not None:
        result.show_end(on_progress)
    for text in result.warnings:
        warnings.warn(text, UserWarning, stacklevel=4)
    if result.write_error:
        raise OSError(f"report_jsonl_path: {result.write_error}")
    requests = Requests(result)
    per_request = requests.to_dicts() if given.get("capture_per_request") else None
    report = Report(result.report, requests, Timeseries(result.timeseries), per_request, samples, result.saved_trace)
    with files.together() as written:
        written.adopt(result.files)
        artifacts.write(config, report)
    if saved := result.saved_trace:
        how = f"trace_format={saved.trace_format!r} and trace_block_size={saved.trace_block_size}"
        warnings.warn(f"save_trace: {saved.path!r} replays with {how}", UserWarning, stacklevel=4)
    if (rejected := report["rejected_requests"]) and rejected == report["num_requests"]:
        raise RuntimeError(f"every request was rejected ({rejected} of {rejected})")
    return report


def plain(name: str, value: object) -> Any:
    """Returns the value of a parameter as Go takes it. Raises TypeError or ValueError, naming the parameter."""
    option = run_options()[name]
    return _CONVERSIONS[option.takes or option.type](name, value)


def _take_over(workload: Workload, given: dict[str, Any]) -> None:
    """Replaces a workload by its files and options."""
    for name in OPTIONS:
        if given.get(name) is not None:
            raise ValueError(f"{name}: got {values.show(given[name])}, want it left out: load_trace has read the trace")
    given.update(workload.options, trace_files=workload.trace_files)


def _lengths(name: str, value: object) -> int | str:
    if isinstance(value, str):
        return values.text(name, value)
    return values.integer(name, value, "an integer or a distribution as text")


def _json_text(name: str, value: object) -> str:
    if not isinstance(value, Mapping):
        raise TypeError(f"{name}: got {values.show(value)}, want a dict")
    return json.dumps(values.json_object(name, value))


def _engine_args(name: str, value: object) -> str:
    if isinstance(value, MockEngineArgs):
        return value.to_json()
    if isinstance(value, Mapping):
        return _fields_text("engine_args", name, value)
    raise TypeError(f"{name}: got {values.show(value)}, want a MockEngineArgs or a dict")


def _fields_text(table: str, name: str, value: object) -> str:
    """Returns a dict of fields as JSON text; objects of nested fields and paths may stand in it."""
    if isinstance(value, Mapping):
        fields = fields_of(None, table)
        value = {key: _plain_field(fields, key, item) for key, item in value.items()}
    return _json_text(name, value)


def _plain_field(fields: Fields, name: str, value: object) -> object:
    if isinstance(value, FieldSet):
        return value.to_dict()
    takes_path = name in fields and fields[name].path
    return values.path(name, value) if takes_path and isinstance(value, os.PathLike) else value


def _router_config(name: str, value: object) -> str:
    return value.to_json() if isinstance(value, KvRouterConfig) else _fields_text("router_config", name, value)


def _aic_config(name: str, value: object) -> str:
    return value.to_json() if isinstance(value, AicPerfConfig) else _fields_text("aic_perf_config", name, value)


def _planner_config(name: str, value: object) -> str:
    return _json_text(name, value) if isinstance(value, Mapping) else values.path(name, value)


def _autoscaler(name: str, value: object) -> str:
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_json_text(f"{name}[{i}]", policy) for i, policy in enumerate(value)) + "]"
    if isinstance(value, Mapping):
        return _json_text(name, value)
    raise TypeError(f"{name}: got {values.show(value)}, want a dict, or a list of dicts for two pools")


def _router(name: str, value: object) -> str:
    return described(value)


def _timing_model(name: str, value: object) -> str:
    return timings.described(value)


def _scheduler_policy(name: str, value: object) -> str:
    return schedulers.described(value)


_RULES: Mapping[str, tuple[str, Callable[[Any], plugins.Answers | None]]] = {
    "router": ("router", hook_of),
    "timing_model": ("timing", timings.hook_of),
    "scheduler_policy": ("scheduler", schedulers.hook_of),
}


def _planner(name: str, value: object) -> bool:
    return True  # Hook has checked it


_CONVERSIONS: Mapping[str, Callable[[str, Any], Any]] = {
    "path": values.path,
    "paths": trace_paths,
    "lengths": _lengths,
    "engine_args": _engine_args,
    "router_config": _router_config,
    "aic_config": _aic_config,
    "object_or_path": _planner_config,
    "planner": _planner,
    "autoscaler": _autoscaler,
    "router": _router,
    "timing_model": _timing_model,
    "scheduler_policy": _scheduler_policy,
    "faults": script,
    "telemetry": interval_ms,
    "uint": values.integer,
    "float": values.number,
    "bool": values.flag,
    "enum": values.text,
    "string": values.text,
}
