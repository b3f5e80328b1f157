"""The class that describes a KV-aware router. Like those of engines it never loads the Go extension."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, ClassVar

from dynamo._core import values
from dynamo._shell.fields import Field, FieldSet, FieldSignature, fields_of, parse
from dynamo._shell.router_fields import RouterFields
from dynamo._shell.unpack import Unpack

_WEIGHT = "overlap_score_weight"


class KvRouterConfig(FieldSet):
    """A KV-aware router: ``KvRouterConfig(overlap_score_credit=0.5, router_queue_policy="wspt")``.

    The keywords are those of ``RouterFields``; what is left out has its default. A dict of them does as well.

    Args:
        overlap_score_weight: Deprecated name of prefill_load_scale; 0 also sets overlap_score_credit to 0.
        host_cache_hit_weight: Credit of blocks that a worker has in host memory only, 0 to 1, as far as its engine
            tells of them (host_cache).
        disk_cache_hit_weight: Credit of blocks on disk, 0 to 1. Works with live routers only.
        router_temperature: 0 takes the cheapest worker. Above 0 the worker is drawn, and a cheaper one is more
            probable.
        use_kv_events: Whether the router knows caches from the KV events of workers. Works with live routers only.
        durable_kv_events: Whether KV events are kept by NATS JetStream; deprecated. Works with live routers only.
        router_replica_sync: Whether routers tell each other of their decisions. Works with live routers only.
        router_track_active_blocks: Whether the cost of a worker counts the blocks that its requests use.
        router_track_output_blocks: Whether that cost counts blocks of outputs, too. Works with live routers only.
        router_assume_kv_reuse: Whether a block that several requests of a worker share counts once.
        router_track_prefill_tokens: Whether the cost of a worker counts the prompt tokens that it has yet to compute.
        router_prefill_load_model: ``"aic"`` lets the prompt tokens that a worker computes shrink while it computes
            them, see AicPerfConfig; ``"none"`` takes them away at the first token.
        router_snapshot_threshold: Events after which the state of the router is saved. Works with live routers only.
        router_reset_states: Whether a router starts without its saved state. Works with live routers only.
        router_ttl_secs: Seconds for which blocks count as cached without events. Works with live routers only.
        router_queue_threshold: Requests wait while every worker has more prompt tokens than this times its
            max_num_batched_tokens; None never waits.
        router_event_threads: Threads that read KV events. Works with live routers only.
        router_queue_policy: Order of the requests that wait in the router: ``"fcfs"``, ``"lcfs"`` or ``"wspt"``, short
            prompts first; not in Dynamo: ``"priority"``, ``"edf"``, earliest deadline first, or ``"wfq"``, tenants in
            turn by their weights.
        use_remote_indexer: Whether another process keeps the index of caches. Works with live routers only.
        serve_indexer: Whether this process keeps the index of caches for other routers. Works with live routers only.
        shared_cache_multiplier: Credit of blocks that only a store has which workers share (host_cache with shared), 0
            to 1.
        shared_cache_type: Kind of a cache that workers share: ``"none"`` or ``"hicache"``. Works with live routers
            only.
        router_predicted_ttl_secs: Seconds for which blocks that a decision makes likely count as cached, beside events.
            Works with live routers only.
        overlap_score_credit: How much of a cached block is taken off the cost of a prompt, 0 to 1.
        overlap_score_credit_decay: Above 0, workers with more prompt tokens to compute get less credit; 0 gives all the
            same.
        prefill_load_scale: Weight of prompt tokens to compute, against the blocks in use.
        router_policy_config: A router policy file. Not built yet: refused. Works with nothing yet.
        skip_initial_worker_wait: Whether a router starts before there are workers. Works with live routers only.
        router_seed: Decides ties between workers; the seed of the run if None.
        router_tenant_weights: Weights of tenants with router_queue_policy ``"wfq"``, such as ``"gold=3,free=1"``; 1 for
            others.
        metrics_interval_ms: Milliseconds between two looks at the loads of workers, by which it decides; None counts
            each request at once. Not in Dynamo.
        router_replicas: Routers that get requests in turn, each of which knows only its own; all learn of the same
            caches. Not in Dynamo.
        router_max_tree_size: Retired: nothing uses it. Works with nothing any longer.
        router_prune_target_ratio: Retired: nothing uses it. Works with nothing any longer.
        router_enable_cache_control: Retired: nothing uses it. Works with nothing any longer.

    Every field can be read; the three costs and their deprecated alias ``overlap_score_weight`` can be set.

    Raises TypeError for an unknown keyword or a wrong type, ValueError for a value out of range.
    """

    __slots__ = ()
    __signature__ = FieldSignature(RouterFields)
    _table: ClassVar[str] = "router_config"

    def __init__(self, *positional: Any, **given: Unpack[RouterFields]) -> None:
        super().__init__(self._by_name(positional, given))
        _refuse_policies(self._given)
        self._keep(_without_weight(self._given))

    @staticmethod
    def from_json(text: str) -> KvRouterConfig:
        """Returns a configuration from the text of a JSON object. Raises ValueError for anything wrong in it."""
        try:
            given = parse(fields_of(None, KvRouterConfig._table), text)
            _refuse_policies(given)
        except ValueError as error:
            raise ValueError(f"KvRouterConfig JSON: {error}") from None
        return KvRouterConfig._of(_without_weight(given))

    def copy(self) -> KvRouterConfig:
        """Returns an independent copy."""
        return KvRouterConfig._of(dict(self._given))

    def with_overrides(
        self,
        overlap_score_weight: float | None = None,
        *,
        overlap_score_credit: float | None = None,
        overlap_score_credit_decay: float | None = None,
        prefill_load_scale: float | None = None,
    ) -> KvRouterConfig:
        """Returns a copy with these fields changed; None keeps a field as it is."""
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


def _refuse_policies(given: Mapping[str, Any]) -> None:
    """Refuses a router policy file, as runs do, which would be the first to read it."""
    if (path := given.get("router_policy_config")) is not None:
        raise ValueError(f"router_policy_config: {values.show(path)} is not built yet (router policy files)")


def _without_weight(given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the values with the deprecated weight replaced by the fields that it stands for."""
    plain = dict(given)
    weight = plain.pop(_WEIGHT, None)
    if weight is None:
        return plain
    warnings.warn(f"{_WEIGHT} is deprecated, use prefill_load_scale", DeprecationWarning, stacklevel=4)
    plain["prefill_load_scale"] = weight
    if weight == 0:
        plain["overlap_score_credit"] = 0.0
    return plain
