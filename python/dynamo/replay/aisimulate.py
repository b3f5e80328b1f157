"""A prediction file of AISimulate as a run for ``--config``.

What it names is converted or refused, each by its path in the file; what changes nothing here is noted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dynamo._core import values
from dynamo.replay import aisimulate_tiers
from dynamo.replay.sections import REQUIRED, Section, above_zero, shown

_FRACTIONS = {
    "vllm": ("gpu_memory_utilization", 0.9),
    "sglang": ("mem_fraction_static", 0.88),
    "trtllm": ("free_gpu_memory_fraction", 0.9),
}
"""What the fraction of memory for the KV pool is called, and its default."""
_BLOCK_SIZES = {"vllm": 64, "sglang": 1, "trtllm": 32}
_FORMATS = ("mooncake", "mooncake-delta", "agentic_mooncake", "weka", "applied_compute_agentic", "dynamo")
_EMBEDDED = ("weka", "dynamo")
"""Formats whose traces say themselves how long their blocks are."""
_AGENTIC = ("agentic_snapshot", "agentic_warmup", "agentic_profile")
_MOST = 2**31
"""A run has fewer requests."""
_SEARCH = ("optimization", "optimizer")
_TRAFFIC = {
    "source": {"type": "synthetic", "input_tokens": 1024, "output_tokens": 128},
    "load": {"type": "concurrency", "concurrency": 10},
    "stop": {"requests": 100},
}
"""The traffic of a file that names none."""
_ROLES = (("aggregated",), ("prefill", "decode"))
_POOLS = ("extra_engine_args", "prefill_engine_args", "decode_engine_args")
_WHOLE_PASSES = "measured durations of whole passes are read as planner_profile_data, not as this"
_NOT_OF_ENGINES = {
    "afd": "attention and experts on workers of their own are not simulated",
    "placement": "router_mode sticky_least_loaded keeps sessions on their workers",
    "estimation_mode": _WHOLE_PASSES,
    "estimator_config": "passes are not fitted to measurements here: dynamo.calibrate does that",
    "fpm_profile": _WHOLE_PASSES,
    "systems_path": "durations are those of the AIC SDK's own tables",
    "systems_paths": "durations are those of the AIC SDK's own tables",
    "database_mode": "the AIC SDK is asked for what it has measured",
    "transfer_policy": "the AIC SDK is asked for what it has measured",
    "attention_backend": "the AIC SDK chooses kernels",
    "moe_backend": "the AIC SDK chooses kernels",
    "moe_kernel_source": "the AIC SDK chooses kernels",
    "enable_eplb": "experts are equally loaded",
    "wideep_num_slots": "experts are equally loaded",
}
"""What an engine, or the durations of a worker, may have and is not simulated, with what there is instead."""
_HARMLESS = ("auto", "op_level", "SILICON", ["default"])
_NOT_OF_WORKERS = dict.fromkeys(
    ("host_loop", "host_profile", "frontend", "vision"), "processors of the host and of images are not simulated"
)
_PRECISIONS = {
    "gemm_quant_mode": "aic_gemm_dtype",
    "moe_quant_mode": "aic_moe_dtype",
    "fmha_quant_mode": "aic_fmha_dtype",
    "kvcache_quant_mode": "aic_kv_cache_dtype",
    "comm_quant_mode": "aic_comm_dtype",
}
_PRESETS = ("scaling_policy", "fpm_sampling", "load_sensitivity", "load_predictor")


def _context_length(section: Section) -> dict[str, int]:
    """Returns the limit on prompt and answer, of all workers or of one pool."""
    if (length := section.take("context_length", "max")) == "max":
        return {}
    return {"max_model_len": values.integer(section.name("context_length"), length)}


def _precisions(section: Section) -> dict[str, str]:
    """Returns the data types for which the AIC SDK is asked."""
    given = {ours: section.take(theirs) for theirs, ours in _PRECISIONS.items()}
    return {ours: str(value) for ours, value in given.items() if value is not None}


class Conversion:
    """The run that a prediction file describes, for ``--config``.

    ``searched`` says that a search may give it more workers, so that one worker has a router, too.
    """

    def __init__(self, content: Mapping[str, Any], *, searched: bool = False) -> None:
        self.run: dict[str, Any] = {}
        self._searched = searched
        self.notes: list[str] = []
        """What the file says and changes nothing here."""
        root = Section("", content)
        for key in _SEARCH:
            if root.take(key) is not None:
                raise ValueError(
                    f"{key}: this is a file for aisimulate recommend; dynamo.sweep searches, see docs/sweeps.md"
                )
        self._traffic(root.within("traffic") if content.get("traffic") else Section("traffic", _TRAFFIC))
        root.take("traffic")
        two_pools = self._engine(root.within("engine", required=True))
        self._router(root.within("router"), two_pools)
        self._planner(root.within("planner"))
        sla = (evaluation := root.within("evaluation")).within("sla")
        for bound in ("ttft_ms", "itl_ms", "e2e_ms"):
            if (value := sla.number(bound)) is not None:
                self.run[f"sla_{bound}"] = value
        if root.take("execution") is not None:
            self.notes.append("execution: the limits of the machine that simulates are not asked for")
        for section in (sla, evaluation, root):
            section.close()

    def _traffic(self, traffic: Section) -> None:
        source, load, stop = traffic.within("source", required=True), traffic.within("load"), traffic.within("stop")
        kind = source.word("type", ("synthetic", "synthetic-session", "trace"), "synthetic")
        load.refuse(dict.fromkeys(_AGENTIC, "a run begins with empty caches and plays the whole trace"))
        if kind == "trace":
            self._trace(source, load, stop)
        else:
            self._synthetic(source, load, stop, "session" if kind == "synthetic-session" else "request")
        for section in (source, load, stop, traffic):
            section.close()

    def _trace(self, source: Section, load: Section, stop: Section) -> None:
        paths = source.take("paths", REQUIRED)
        if not isinstance(paths, list) or not paths:
            raise ValueError(f"{source.name('paths')}: got {shown(paths)}, want a list of paths")
        self.run["trace_files"] = [values.path(source.name("paths"), path) for path in paths]
        self.run["trace_format"] = form = source.word("format", _FORMATS, "mooncake")
        block_size = source.count("block_size", None if form in _EMBEDDED else 512)
        if block_size is not None and form not in _EMBEDDED:
            self.run["trace_block_size"] = block_size
        elif block_size is not None:
            self.notes.append(f"{source.name('block_size')}: a trace of format {form} says it itself")
        if source.take("nested_timestamp_basis", "auto") != "auto":
            self.notes.append(
                f"{source.name('nested_timestamp_basis')}: pauses are read, which both have, see docs/workloads.md"
            )
        if (lanes := load.count("agentic_lanes", None)) is not None:
            load.word("type", ("trace_timestamps",), "trace_timestamps")
            self.run["agentic_lanes"] = lanes
        elif load.word("type", ("trace_timestamps", "concurrency"), "concurrency") == "concurrency":
            self.run["replay_concurrency"] = load.count("concurrency", 10)
        if "replay_concurrency" not in self.run and (speedup := load.number("speedup", 1)) != 1:
            self.run["arrival_speedup_ratio"] = speedup
        if (seconds := stop.number("max_virtual_time_seconds")) is not None:
            self.run["max_sim_time_ms"] = seconds * 1000

    def _synthetic(self, source: Section, load: Section, stop: Section, unit: str) -> None:
        if unit == "session":
            lengths = ("new_input_tokens_per_turn", "output_tokens_per_turn")
            self._session(source.within("session", required=True))
        else:
            lengths = ("input_tokens", "output_tokens")
            source.refuse({"images": "images, their encoders and their cache are not simulated"})
        for ours, theirs in zip(("input_tokens", "output_tokens"), lengths, strict=True):
            self.run[ours] = source.count(theirs, REQUIRED)
        if unit == "request":
            self._common_prefix(source)
        if load.take("fraction") is not None:
            raise ValueError(
                f"{load.name('fraction')}: want it left out: clients are a number here, not a part of the KV pool"
            )
        kinds = ("concurrency", "constant_rate", "poisson")
        if (kind := load.word("type", kinds, "concurrency")) == "concurrency":
            self.run["replay_concurrency"] = amount = load.count("concurrency", 10)
        else:
            self.run["request_rate"] = amount = load.number(f"{unit}s_per_second", REQUIRED)
        if kind == "poisson":
            self.run.update(arrival_process="poisson", arrival_seed=values.integer("seed", load.take("seed", 42)))
        relative = stop.number(f"{unit}s_per_load_unit")
        count = stop.count(f"{unit}s", None if relative else REQUIRED)
        if relative and count:
            raise ValueError(f"{stop.name(f'{unit}s_per_load_unit')}: want it left out beside {stop.name(f'{unit}s')}")
        if relative and not relative * amount < _MOST:
            raise ValueError(f"{stop.name(f'{unit}s_per_load_unit')}: got {shown(relative)}, want fewer requests")
        self.run["request_count"] = count or max(1, round(relative * amount))

    def _common_prefix(self, source: Section) -> None:
        """Converts the tokens that all prompts begin with, of which whole blocks are shared."""
        tokens = values.integer(source.name("cached_prefix_tokens"), source.take("cached_prefix_tokens", 0))
        if not 0 <= tokens <= self.run["input_tokens"]:
            raise ValueError(
                f"{source.name('cached_prefix_tokens')}: got {tokens}, want at most the tokens of a prompt"
            )
        if tokens:
            self.run |= {"shared_prefix_ratio": tokens / self.run["input_tokens"], "num_prefix_groups": 1}
            self.notes.append(f"{source.name('cached_prefix_tokens')}: all prompts share whole blocks of that length")

    def _session(self, session: Section) -> None:
        session.refuse(
            {"turns": "the prompt of each turn has input_tokens here, and does not hold the turns before it"}, (1,)
        )
        if groups := session.take("prefix_groups", 0):
            ratio = session.take("shared_prefix_ratio", 0)
            self.run.update(num_prefix_groups=groups, shared_prefix_ratio=ratio)
        else:
            session.take("shared_prefix_ratio")
        session.take("inter_turn_delay_ms")  # there is no second turn
        session.close()

    def _engine(self, engine: Section) -> bool:
        """Converts the engines, and tells whether there are two pools."""
        engine.refuse(_NOT_OF_ENGINES, _HARMLESS)
        engine.take("fallback_policy")  # nothing falls back here
        two_pools = engine.word("mode", ("aggregated", "disaggregated"), "aggregated") == "disaggregated"
        backend = engine.word("backend", tuple(_FRACTIONS), "vllm")
        shared: dict[str, Any] = {"engine_type": backend, **self._drafts(engine)}
        shared |= _context_length(engine)
        if (chunked := engine.take("enable_chunked_prefill")) is not None:
            shared["enable_chunked_prefill"] = values.flag(engine.name("enable_chunked_prefill"), chunked)
        aic = {"aic_backend": backend, "aic_system": engine.take("hardware"), "aic_model_path": engine.take("model")}
        if (version := engine.take("backend_version")) is not None:
            aic["aic_backend_version"] = str(version)
        aic |= _precisions(engine)
        transfer = self._transfer(engine.within("kv_transfer"), two_pools)
        workers = engine.within("workers")
        workers.refuse({"encoder": "encoders of images are not simulated"})
        if others := [role for role in _ROLES[not two_pools] if workers.take(role) is not None]:
            self.notes.append(f"engine.workers: {' and '.join(others)} left out, which the mode does not have")
        if two_pools:
            for role in ("prefill", "decode"):
                worker = {**shared, "worker_type": role, **(transfer if role == "prefill" else {})}
                sequences = 1 if role == "prefill" else 256
                self._worker(workers.within(role), worker, aic, sequences, f"num_{role}_workers", f"{role}_engine_args")
        else:
            self._worker(workers.within("aggregated"), shared, aic, 256, "num_workers", "extra_engine_args")
        prefill = self.run.get("prefill_engine_args", {})
        if prefill.get("kv_transfer_bandwidth") and not prefill.keys() & {"kv_bytes_per_token", "aic_backend"}:
            raise ValueError(
                'engine.kv_transfer.bytes_per_token: got "auto", want a number of bytes beside '
                "bandwidth_gb_per_second: without default timing no model is asked"
            )
        self._own_scheduler()
        workers.close()
        engine.close()
        return two_pools

    def _own_scheduler(self) -> None:
        """Gives all pools the rules of the engine itself if one has what only these have, and says so."""
        pools = [self.run[name] for name in _POOLS if name in self.run]
        if not any("scheduler" in pool for pool in pools):
            return
        for pool in pools:
            pool["scheduler"] = pool["engine_type"]
        self.notes.append(
            f"engine: ranks and host memory are those of {pools[0]['engine_type']}'s own scheduler, which the run has"
        )

    def _drafts(self, engine: Section) -> dict[str, Any]:
        """Converts speculative decoding with draft layers of the model: whole drafts are always accepted, the rest at
        times.
        """
        section = engine.within("speculation")
        kind = section.take("kind")
        if kind == "ngram":
            raise ValueError(
                f'{section.name("kind")}: got "ngram", want mtp: passes without draft layers have no price here, '
                "and aic_nextn drafts with layers of the model"
            )
        if kind not in (None, "mtp"):
            raise ValueError(f"{section.name('kind')}: got {shown(kind)}, want mtp")
        holder, number, accepted = engine, "nextn", "nextn_accepted"
        if kind == "mtp":
            holder, number, accepted = section, "num_speculative_tokens", "expected_accepted_tokens"
        drafts = values.integer(holder.name(number), holder.take(number, 0))
        mean = holder.take(accepted, REQUIRED if drafts else 0)
        seed = section.take("seed")
        section.close()
        if not drafts:
            return {}
        if not 0 <= values.number(holder.name(accepted), mean) <= drafts:
            raise ValueError(f"{holder.name(accepted)}: got {shown(mean)}, want 0 to {drafts} tokens")
        rates = [min(1, max(0, round(mean - place, 6))) for place in range(drafts)]
        found: dict[str, Any] = {"aic_nextn": drafts, "aic_nextn_accept_rates": ",".join(f"{rate:g}" for rate in rates)}
        return found if seed is None else {**found, "aic_mtp_seed": seed}

    def _transfer(self, transfer: Section, two_pools: bool) -> dict[str, Any]:
        size, bandwidth = transfer.take("bytes_per_token", "auto"), transfer.take("bandwidth_gb_per_second")
        mode = transfer.word("timing_mode", ("destination_missing", "full_prompt"), "destination_missing")
        transfer.close()
        if not two_pools:
            return {}
        found: dict[str, Any] = {"kv_transfer_timing_mode": mode, "kv_transfer_bandwidth": bandwidth or 0}
        return found if bandwidth is None or size == "auto" else {**found, "kv_bytes_per_token": size}

    def _worker(
        self, worker: Section, engine: dict[str, Any], aic: dict[str, Any], sequences: int, number: str, name: str
    ) -> None:
        """Converts the workers of a pool, on each of which ``sequences`` requests run if the file says nothing."""
        worker.refuse(_NOT_OF_WORKERS)
        aic = {**aic, "aic_system": worker.take("hardware", aic["aic_system"])}
        engine |= _context_length(worker)
        self.run[number] = self._parallelism(worker.within("parallelism"), engine)
        self._scheduler(worker.within("scheduler"), engine, sequences)
        timing = worker.within("timing")
        aic |= _precisions(timing)
        self._timing(timing, engine)
        self._kv_cache(worker.within("kv_cache"), engine)
        if "num_gpu_blocks" not in engine or "timing_model" not in engine:
            for key, value in aic.items():
                if value is None:
                    path = {"aic_system": "engine.hardware", "aic_model_path": "engine.model"}[key]
                    raise ValueError(f"{path}: got nothing, want it in the file")
                engine[key] = value
        if startup := worker.take("startup_seconds"):
            engine["startup_time"] = startup
        worker.close()
        self.run[name] = engine

    def _scheduler(self, scheduler: Section, engine: dict[str, Any], sequences: int) -> None:
        engine["max_num_batched_tokens"] = scheduler.count("max_batched_tokens", 8192)
        engine["max_num_seqs"] = scheduler.count("max_sequences", sequences)
        interval = scheduler.count("prefill_schedule_interval", 1)
        if interval > 1 and engine.get("dp_size"):
            engine["prefill_schedule_interval"] = interval
        elif interval > 1:
            self.notes.append(f"{scheduler.name('prefill_schedule_interval')}: changes nothing without attention_data")
        scheduler.refuse({"prefill_decode_interval": "no decode passes are forced between prompts"}, (0,))
        scheduler.close()

    def _parallelism(self, parallel: Section, engine: dict[str, Any]) -> int:
        """Adds the GPUs of a worker to its engine; returns the number of workers."""
        parallel.refuse(
            {
                "pipeline": "pipeline parallelism is not simulated: when a stage takes up the next pass",
                "prefill_context": "context parallelism is not simulated",
                "decode_context": "context parallelism is not simulated",
            },
            (1,),
        )
        if (ranks := parallel.count("attention_data", 1)) > 1:
            if engine["engine_type"] == "trtllm":
                raise ValueError(
                    f"{parallel.name('attention_data')}: got {ranks}, want 1: ranks are those of vllm and sglang"
                )
            engine |= {"scheduler": engine["engine_type"], "dp_size": ranks}
        if (tensor := parallel.count("tensor", 1)) > 1:
            engine["aic_tp_size"] = tensor
        experts = {
            "aic_moe_tp_size": parallel.count("moe_tensor", 1),
            "aic_moe_ep_size": parallel.count("moe_expert", 1),
        }
        if max(experts.values()) > 1:
            engine.update(experts)
        replicas: int = parallel.count("replicas", 1)
        parallel.close()
        return replicas

    def _kv_cache(self, cache: Section, engine: dict[str, Any]) -> None:
        cache.refuse(
            dict.fromkeys(
                ("state_cache", "prefix_match_unit"), "recurrent states are groups of layers here: kv_cache_groups"
            )
        )
        backend = engine["engine_type"]
        engine["block_size"] = block_size = cache.count("block_size", _BLOCK_SIZES[backend])
        if not values.flag(cache.name("prefix_caching"), cache.take("prefix_caching", True)):
            engine["enable_prefix_caching"] = False
        if (size := cache.take("bytes_per_token", "auto")) != "auto":
            size = above_zero(cache.name("bytes_per_token"), size)
        capacity = cache.within("capacity")
        capacity.refuse({"cuda_graph_reserved_bytes": "memory_fraction is all that an estimate leaves out"}, (0,))
        if capacity.word("type", ("default", "fixed"), "default") == "default":
            name, default = _FRACTIONS[backend]
            engine[name] = capacity.number("memory_fraction", default)
        elif (whole := capacity.count("bytes")) is None:
            engine["num_gpu_blocks"] = capacity.count("blocks", REQUIRED)
        elif size == "auto":
            raise ValueError(f'{cache.name("bytes_per_token")}: got "auto", want a number beside capacity.bytes')
        else:
            engine["num_gpu_blocks"] = whole // (size * block_size)
        capacity.close()
        priced = "timing_model" not in engine or "num_gpu_blocks" not in engine
        tiers = aisimulate_tiers.Tiers(cache, engine, None if size == "auto" else size, priced=priced)
        engine |= tiers.found
        self.notes += tiers.notes
        cache.close()

    def _timing(self, timing: Section, engine: dict[str, Any]) -> None:
        timing.refuse(_NOT_OF_ENGINES, _HARMLESS)
        timing.take("fallback_policy")
        timing.refuse({"forward_model": _WHOLE_PASSES}, ("op_level",))
        timing.refuse({"fpm_parquet_path": _WHOLE_PASSES})
        if (kind := timing.word("type", ("default", "fixed", "polynomial"), "default")) != "default":
            engine["timing_model"] = kind
        if kind == "fixed":
            for key in ("prefill_ms", "decode_ms"):
                engine[f"fixed_{key}"] = timing.take(key, REQUIRED)
        timing.close()

    def _router(self, router: Section, two_pools: bool) -> None:
        router.refuse({"affinity": "router_mode sticky_least_loaded keeps sessions on their workers"})
        mode = router.word("policy", ("round_robin", "kv_router"), "round_robin")
        model = router.within("prefill_load_model")
        predicts = model.word("type", ("none", "aic", "ais"), "none") != "none"
        model.close()
        settings = {
            ours: value
            for theirs, ours in (
                ("overlap_score_credit", "overlap_score_credit"),
                ("prefill_load_scale", "prefill_load_scale"),
                ("temperature", "router_temperature"),
            )
            if (value := router.take(theirs)) is not None
        }
        router.close()
        if mode == "round_robin" and (settings or predicts):
            raise ValueError(f"router: got settings of kv_router, want {router.name('policy')} kv_router with them")
        if mode == "kv_router" and not two_pools and self.run["num_workers"] == 1 and not self._searched:
            self.notes.append("router.policy: kv_router changes nothing with one worker")
            return
        if mode == "kv_router" or two_pools:
            self.run["router_mode"] = mode
        if predicts:
            settings["router_prefill_load_model"] = "aic"
            engine = self.run["prefill_engine_args" if two_pools else "extra_engine_args"]
            self.run["aic_perf_config"] = {
                key: value for key, value in engine.items() if key.startswith("aic_") and key != "aic_mtp_seed"
            }
        if settings:
            self.run["router_config"] = settings

    def _planner(self, planner: Section) -> None:
        if planner.word("policy", ("disabled", "enabled"), "disabled") == "enabled":
            raise ValueError(
                f'{planner.name("policy")}: got "enabled", want disabled: autoscaler and planner_config '
                "change the number of workers, see docs/planner.md"
            )
        planner.refuse(
            dict.fromkeys(_PRESETS, "dynamo.sweep does not search planners by presets: planner_config.FIELD")
        )
