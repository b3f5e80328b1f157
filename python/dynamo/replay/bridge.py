"""``PlannerReplayBridge``: a replay whose workers a planner changes, as ai-dynamo 1.3 spells it."""

from __future__ import annotations

from typing import Any

from dynamo.replay import api
from dynamo.replay.planner import Planner
from dynamo.replay.report import Report


class PlannerReplayBridge:
    """A replay of a Mooncake trace with one pool of workers, which ``run`` carries out once.

    ``run_trace_replay(..., planner=...)`` and ``run_synthetic_trace_replay`` do the same, and take more options.
    """

    def __init__(
        self,
        trace_file: api.Path,
        extra_engine_args: api.EngineArgs,
        num_workers: int,
        router_mode: api.RouterMode = "round_robin",
        router_config: api.RouterConfig | None = None,
        model_name: str | None = None,
        arrival_speedup_ratio: float = 1.0,
        trace_block_size: int = 512,
        sla_ttft_ms: float | None = None,
        sla_itl_ms: float | None = None,
        sla_e2e_ms: float | None = None,
        replay_concurrency: int | None = None,
    ) -> None:
        self._run: dict[str, Any] | None = {
            "trace_file": trace_file,
            "extra_engine_args": extra_engine_args,
            "num_workers": num_workers,
            "router_mode": router_mode,
            "router_config": router_config,
            "model_name": model_name,
            "arrival_speedup_ratio": arrival_speedup_ratio,
            "trace_block_size": trace_block_size,
            "sla_ttft_ms": sla_ttft_ms,
            "sla_itl_ms": sla_itl_ms,
            "sla_e2e_ms": sla_e2e_ms,
            "replay_concurrency": replay_concurrency,
        }
        self._synthetic = False

    @classmethod
    def create_disagg(
        cls,
        trace_file: api.Path,
        prefill_engine_args: api.EngineArgs,
        decode_engine_args: api.EngineArgs,
        num_prefill_workers: int,
        num_decode_workers: int,
        router_mode: api.RouterMode = "round_robin",
        router_config: api.RouterConfig | None = None,
        model_name: str | None = None,
        arrival_speedup_ratio: float = 1.0,
        trace_block_size: int = 512,
        sla_ttft_ms: float | None = None,
        sla_itl_ms: float | None = None,
        sla_e2e_ms: float | None = None,
        replay_concurrency: int | None = None,
    ) -> PlannerReplayBridge:
        """The same with a pool of prefill and one of decode workers."""
        return cls._of(
            synthetic=False,
            trace_file=trace_file,
            prefill_engine_args=prefill_engine_args,
            decode_engine_args=decode_engine_args,
            num_prefill_workers=num_prefill_workers,
            num_decode_workers=num_decode_workers,
            router_mode=router_mode,
            router_config=router_config,
            model_name=model_name,
            arrival_speedup_ratio=arrival_speedup_ratio,
            trace_block_size=trace_block_size,
            sla_ttft_ms=sla_ttft_ms,
            sla_itl_ms=sla_itl_ms,
            sla_e2e_ms=sla_e2e_ms,
            replay_concurrency=replay_concurrency,
        )

    @classmethod
    def from_synthetic(
        cls,
        input_tokens: int,
        output_tokens: int,
        request_count: int,
        extra_engine_args: api.EngineArgs,
        num_workers: int,
        router_mode: api.RouterMode = "round_robin",
        router_config: api.RouterConfig | None = None,
        model_name: str | None = None,
        replay_concurrency: int | None = None,
        arrival_speedup_ratio: float = 1.0,
        arrival_interval_ms: float = 1.0,
        turns_per_session: int = 1,
        shared_prefix_ratio: float = 0.0,
        num_prefix_groups: int = 0,
        inter_turn_delay_ms: float = 0.0,
        sla_ttft_ms: float | None = None,
        sla_itl_ms: float | None = None,
        sla_e2e_ms: float | None = None,
    ) -> PlannerReplayBridge:
        """The same with a generated workload."""
        return cls._of(
            synthetic=True,
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            request_count=request_count,
            extra_engine_args=extra_engine_args,
            num_workers=num_workers,
            router_mode=router_mode,
            router_config=router_config,
            model_name=model_name,
            replay_concurrency=replay_concurrency,
            arrival_speedup_ratio=arrival_speedup_ratio,
            arrival_interval_ms=arrival_interval_ms,
            turns_per_session=turns_per_session,
            shared_prefix_ratio=shared_prefix_ratio,
            num_prefix_groups=num_prefix_groups,
            inter_turn_delay_ms=inter_turn_delay_ms,
            sla_ttft_ms=sla_ttft_ms,
            sla_itl_ms=sla_itl_ms,
            sla_e2e_ms=sla_e2e_ms,
        )

    @classmethod
    def from_synthetic_disagg(
        cls,
        input_tokens: int,
        output_tokens: int,
        request_count: int,
        prefill_engine_args: api.EngineArgs,
        decode_engine_args: api.EngineArgs,
        num_prefill_workers: int,
        num_decode_workers: int,
        router_mode: api.RouterMode = "round_robin",
        router_config: api.RouterConfig | None = None,
        model_name: str | None = None,
        replay_concurrency: int | None = None,
        arrival_speedup_ratio: float = 1.0,
        arrival_interval_ms: float = 1.0,
        turns_per_session: int = 1,
        shared_prefix_ratio: float = 0.0,
        num_prefix_groups: int = 0,
        inter_turn_delay_ms: float = 0.0,
        sla_ttft_ms: float | None = None,
        sla_itl_ms: float | None = None,
        sla_e2e_ms: float | None = None,
    ) -> PlannerReplayBridge:
        """The same with a generated workload and two pools."""
        return cls._of(
            synthetic=True,
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            request_count=request_count,
            prefill_engine_args=prefill_engine_args,
            decode_engine_args=decode_engine_args,
            num_prefill_workers=num_prefill_workers,
            num_decode_workers=num_decode_workers,
            router_mode=router_mode,
            router_config=router_config,
            model_name=model_name,
            replay_concurrency=replay_concurrency,
            arrival_speedup_ratio=arrival_speedup_ratio,
            arrival_interval_ms=arrival_interval_ms,
            turns_per_session=turns_per_session,
            shared_prefix_ratio=shared_prefix_ratio,
            num_prefix_groups=num_prefix_groups,
            inter_turn_delay_ms=inter_turn_delay_ms,
            sla_ttft_ms=sla_ttft_ms,
            sla_itl_ms=sla_itl_ms,
            sla_e2e_ms=sla_e2e_ms,
        )

    @classmethod
    def _of(cls, *, synthetic: bool, **given: Any) -> PlannerReplayBridge:
        bridge = cls.__new__(cls)
        bridge._run = given
        bridge._synthetic = synthetic
        return bridge

    def run(self, planner: Planner) -> Report:
        """Carries out the replay with this planner, and returns its report. It can be called once."""
        if self._run is None:
            raise RuntimeError("PlannerReplayBridge.run: this bridge has run already, make another one")
        given, self._run = self._run, None
        if self._synthetic:
            return api.run_synthetic_trace_replay(**given, planner=planner)
        return api.run_trace_replay(given.pop("trace_file"), **given, planner=planner)
