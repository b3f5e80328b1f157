"""The class that describes a KV-aware router. Like those of engines it never loads the Go extension."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, TypedDict

from dynamo._shell.fields import Field, FieldSet, FieldSignature, by_name, fields_of, parse
from dynamo._shell.unpack import Unpack

_WEIGHT = "overlap_score_weight"


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
    router_prefill_load_model: Literal["none", "aic"]
    router_snapshot_threshold: int | None
    router_reset_states: bool
    router_ttl_secs: float
    router_queue_threshold: float | None
    router_event_threads: int
    router_queue_policy: Literal["fcfs", "lcfs", "wspt"]
    use_remote_indexer: bool
    serve_indexer: bool
    shared_cache_multiplier: float
    shared_cache_type: Literal["none", "hicache"]
    router_predicted_ttl_secs: float | None
    overlap_score_credit: float
    overlap_score_credit_decay: float
    prefill_load_scale: float
    router_policy_config: str | os.PathLike[str] | None
    skip_initial_worker_wait: bool
    router_seed: int | None
    router_max_tree_size: int | None
    router_prune_target_ratio: float | None
    router_enable_cache_control: bool | None


_KEYWORD_ONLY = (
    "overlap_score_credit",
    "overlap_score_credit_decay",
    "prefill_load_scale",
    "router_policy_config",
    "skip_initial_worker_wait",
    "router_seed",
    "router_max_tree_size",
    "router_prune_target_ratio",
    "router_enable_cache_control",
)
_POSITIONAL = tuple(name for name in RouterFields.__annotations__ if name not in _KEYWORD_ONLY)


class KvRouterConfig(FieldSet):
    """A KV-aware router: ``KvRouterConfig(overlap_score_credit=0.5, router_queue_policy="wspt")``.

    The keywords are those of ``RouterFields``; what is left out has its default. A dict of them does as well.

    Args:
        overlap_score_credit: How much of a cached block is taken off the cost of a prompt, 0 to 1.
        overlap_score_credit_decay: Less credit for workers under load; 0 is the same for all.
        prefill_load_scale: Weight of prompt tokens to compute against blocks in use.
        overlap_score_weight: Deprecated name of prefill_load_scale; 0 also sets overlap_score_credit to 0.
        router_temperature: 0 takes the cheapest worker; above, dearer ones are drawn, too.
        router_queue_threshold: Requests wait while every worker has more prompt tokens than this times its
            max_num_batched_tokens; None never waits.
        router_queue_policy: Order of those that wait: ``"fcfs"``, ``"lcfs"`` or ``"wspt"``, short prompts first.
        router_seed: Decides ties between workers; the run's seed if None.
        router_track_active_blocks: Whether blocks in use count.
        router_assume_kv_reuse: Whether equal blocks of running requests count once.
        router_track_prefill_tokens: Whether prompt tokens that workers have yet to compute count.
        router_prefill_load_model: ``"aic"`` lets them shrink while they are computed, see AicPerfConfig; ``"none"``
            takes them away at the first token.
        router_policy_config: A router policy file. Not built yet: refused.
        host_cache_hit_weight: Credit of blocks in host memory, 0 to 1. This field and those below have no effect in
            simulated runs; they are taken and checked, so that configurations of a live router load.
        disk_cache_hit_weight: Credit of blocks on disk, 0 to 1.
        shared_cache_multiplier: Credit of blocks in a shared cache, 0 to 1.
        shared_cache_type: ``"none"`` or ``"hicache"``.
        use_kv_events: Whether caches are known from events of workers.
        durable_kv_events: Whether those events are kept by JetStream; deprecated.
        router_event_threads: Threads that read events.
        router_ttl_secs: Seconds for which blocks count as cached without events.
        router_predicted_ttl_secs: The same beside events.
        router_replica_sync: Whether routers tell each other of their decisions.
        router_track_output_blocks: Whether blocks of outputs count.
        router_snapshot_threshold: Events after which the state is saved.
        router_reset_states: Whether a router starts from nothing.
        use_remote_indexer: Whether another process keeps the index of caches.
        serve_indexer: Whether this one does so for others.
        skip_initial_worker_wait: Whether a router starts before there are workers.
        router_max_tree_size: Retired.
        router_prune_target_ratio: Retired.
        router_enable_cache_control: Retired.

    Every field can be read; the three costs and their deprecated alias ``overlap_score_weight`` can be set.

    Raises TypeError for an unknown keyword or a wrong type, ValueError for a value out of range.
    """

    __slots__ = ()
    __signature__ = FieldSignature(RouterFields, _POSITIONAL)
    _table: ClassVar[str] = "router_config"
    _settable = ("overlap_score_credit", "overlap_score_credit_decay", "prefill_load_scale", _WEIGHT)

    def __init__(self, *positional: Any, **given: Unpack[RouterFields]) -> None:
        super().__init__(by_name(_POSITIONAL, positional, given))
        self._keep(_without_weight(self._given))

    @staticmethod
    def from_json(text: str) -> KvRouterConfig:
        """A configuration from the text of a JSON object. Raises ValueError for anything wrong in it."""
        try:
            given = parse(fields_of(None, KvRouterConfig._table), text)
        except ValueError as error:
            raise ValueError(f"KvRouterConfig JSON: {error}") from None
        return KvRouterConfig._of(_without_weight(given))

    def copy(self) -> KvRouterConfig:
        """An independent copy."""
        return KvRouterConfig._of(dict(self._given))

    def with_overrides(
        self,
        overlap_score_weight: float | None = None,
        *,
        overlap_score_credit: float | None = None,
        overlap_score_credit_decay: float | None = None,
        prefill_load_scale: float | None = None,
    ) -> KvRouterConfig:
        """A copy with these fields changed; None keeps a field as it is."""
        changes = {
            "overlap_score_credit": overlap_score_credit,
            "overlap_score_credit_decay": overlap_score_credit_decay,
            "prefill_load_scale": prefill_load_scale,
            _WEIGHT: overlap_score_weight,
        }
        changed = self.copy()
        for name, value in changes.items():
            if value is not None:
                setattr(changed, name, value)
        return changed

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        self._keep(_without_weight(self._given))

    def _read(self, field: Field) -> Any:
        if field.name == _WEIGHT:
            return self.prefill_load_scale
        return super()._read(field)


def _without_weight(given: Mapping[str, Any]) -> dict[str, Any]:
    """The deprecated weight, spelled out in the fields that it stands for."""
    plain = dict(given)
    weight = plain.pop(_WEIGHT, None)
    if weight is None:
        return plain
    warnings.warn(f"{_WEIGHT} is deprecated, use prefill_load_scale", DeprecationWarning, stacklevel=4)
    plain["prefill_load_scale"] = weight
    if weight == 0:
        plain["overlap_score_credit"] = 0.0
    return plain
