"""The types of a router configuration.

Code generated from gocore/router/fields.go by go generate ./gocore/router. DO NOT EDIT.
"""

from __future__ import annotations

import os
from typing import Literal, TypeAlias, TypedDict

RouterPrefillLoadModel: TypeAlias = Literal["none", "aic", "ais"]
RouterQueuePolicy: TypeAlias = Literal["fcfs", "lcfs", "wspt", "priority", "edf", "wfq"]
SharedCacheType: TypeAlias = Literal["none", "hicache"]


class RouterFields(TypedDict, total=False):
    """The keywords of KvRouterConfig and their types, also for a dict in its place: see help(KvRouterConfig)."""

    overlap_score_weight: float | None
    host_cache_hit_weight: float
    disk_cache_hit_weight: float
    router_temperature: float
    use_kv_events: bool
    durable_kv_events: bool
    router_replica_sync: bool
    router_track_active_blocks: bool
    router_track_output_blocks: bool
    router_assume_kv_reuse: bool
    router_track_prefill_tokens: bool
    router_prefill_load_model: RouterPrefillLoadModel
    router_snapshot_threshold: int | None
    router_reset_states: bool
    router_ttl_secs: float
    router_queue_threshold: float | None
    router_event_threads: int
    router_queue_policy: RouterQueuePolicy
    use_remote_indexer: bool
    serve_indexer: bool
    shared_cache_multiplier: float
    shared_cache_type: SharedCacheType
    router_predicted_ttl_secs: float | None
    overlap_score_credit: float
    overlap_score_credit_decay: float
    prefill_load_scale: float
    router_policy_config: str | os.PathLike[str] | None
    skip_initial_worker_wait: bool
    router_seed: int | None
    router_tenant_weights: str | None
    metrics_interval_ms: float | None
    router_replicas: int
    router_max_tree_size: int | None
    router_prune_target_ratio: float | None
    router_enable_cache_control: bool | None
