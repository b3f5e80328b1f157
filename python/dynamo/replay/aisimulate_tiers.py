"""Memory below the GPU's KV blocks in a prediction file of AISimulate: host memory and storage."""

from __future__ import annotations

from typing import Any

from dynamo._core import values
from dynamo.replay.sections import REQUIRED, Section

_BYTES_PER_MS = 1e6  # at 1 GB/s
_HOST_GBPS, _SHARED_GBPS, _STORAGE_GBPS, _STORAGE_MS = 32.0, 80.0, 10.0, 0.1


class Tiers:
    """The host memory of a worker, and the storage behind it.

    ``size`` is the bytes of a token on a GPU, or None for what the AIC SDK says, which it does if ``priced``.
    """

    def __init__(self, cache: Section, engine: dict[str, Any], size: int | None, *, priced: bool) -> None:
        self.found: dict[str, Any] = {}
        self.notes: list[str] = []
        self._cache, self._engine, self._size = cache, engine, size
        host, storage = cache.take("host_offload"), cache.take("g3_offload")
        if storage is not None and host is None:
            raise ValueError(f"{cache.name('g3_offload')}: got it alone, want host_offload, too")
        if host is None:
            return
        if engine["engine_type"] != "vllm" or "worker_type" in engine:
            raise ValueError(
                f"{cache.name('host_offload')}: got it, want it left out: host memory is that of vllm in one pool"
            )
        if size is None and not priced:
            raise self._bytes_wanted("host_offload")
        self._stored = storage is not None
        self._host(Section(cache.name("host_offload"), host))
        if storage is not None:
            self._storage(Section(cache.name("g3_offload"), storage))

    def _bytes_wanted(self, what: str) -> ValueError:
        return ValueError(f'{self._cache.name("bytes_per_token")}: got "auto", want a number of bytes beside {what}')

    def _ms_per_block(self, gbps: float) -> float:
        assert self._size is not None
        return self._size * self._engine["block_size"] / (gbps * _BYTES_PER_MS) if gbps else 0.0

    def _host(self, host: Section) -> None:
        shared = host.word("scope", ("dp_rank_local", "cluster_shared"), "dp_rank_local") == "cluster_shared"
        memory: dict[str, Any] = {"num_blocks": host.count("num_host_blocks", REQUIRED)}
        if latency := _amount(host, "latency_to_first_byte_ms", 0.0):
            memory["latency_ms"] = latency
        if (shared or self._stored) and self._engine.get("dp_size"):
            raise ValueError(
                f"{self._cache.path.rpartition('.')[0]}.parallelism.attention_data: got {self._engine['dp_size']}, "
                "want 1 with cluster_shared host memory or storage"
            )
        bound = self._shared(host, "d2h", "h2d", used=shared)
        if shared:
            memory |= {"shared": True, "shared_ms_per_block": bound}
        # Bytes that are left out are those of all GPUs of a worker here, and of one there.
        gpus = self._engine.get("aic_tp_size", 1) if self._size is None else 1
        self.found |= {"scheduler": "vllm", "host_cache": memory}
        for way in ("d2h", "h2d"):
            gbps = _amount(host, f"{way}_bandwidth_gbps", _HOST_GBPS)
            self.found[f"host_offload_{way}_bandwidth_gbps"] = gbps * gpus
        if self._size is not None:
            self.found["kv_bytes_per_token"] = self._size
        host.close()

    def _shared(self, section: Section, one: str, other: str, *, used: bool = True) -> float:
        """Returns how long a store that is shared takes for a block; both directions have one bound."""
        first, second = (_amount(section, f"shared_{way}_bandwidth_gbps", _SHARED_GBPS) for way in (one, other))
        if not used:
            return 0.0
        if first != second:
            raise ValueError(
                f"{section.name(f'shared_{other}_bandwidth_gbps')}: got {second:g}, want {first:g} as in the other "
                "direction: a store has one speed"
            )
        if self._size is None and first:
            raise self._bytes_wanted(section.path.rpartition(".")[2])
        return self._ms_per_block(first)

    def _storage(self, storage: Section) -> None:
        if storage.word("scope", ("worker_local", "cluster_shared"), REQUIRED) == "worker_local":
            raise ValueError(f'{storage.name("scope")}: got "worker_local", want cluster_shared: all workers share it')
        memory = self.found["host_cache"]
        memory["storage_blocks"] = storage.count("num_g3_blocks", REQUIRED)
        memory["storage_latency_ms"] = _amount(storage, "latency_to_first_byte_ms", _STORAGE_MS)
        for way in ("read", "write"):
            if gbps := _amount(storage, f"{way}_bandwidth_gbps", _STORAGE_GBPS):
                memory[f"storage_{way}_gbps"] = gbps
        memory["storage_shared_ms_per_block"] = self._shared(storage, "read", "write")
        memory |= {"storage_prefetch_policy": "wait_complete", "storage_prefetch_threshold": 1}
        self.notes.append(f"{storage.path}: what the storage does is ours, see docs/tiers.md")
        storage.close()


def _amount(section: Section, key: str, default: float) -> float:
    """Returns a number that is not negative."""
    value = values.number(section.name(key), section.take(key, default))
    if not 0 <= value < float("inf"):
        raise ValueError(f"{section.name(key)}: got {values.show(value)}, want a finite number >= 0")
    return value
