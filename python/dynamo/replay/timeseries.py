"""The series of a run: figures over time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynamo.replay.requests import Requests

if TYPE_CHECKING:
    from dynamo._core import RunResult, SeriesSource
    from dynamo.replay.columns import Column


class Timeseries(Requests):
    """Figures over time as columns by name: for each window of time a row for the cluster, then one for each worker.

    Numbers are float64 arrays with NaN for none, ``worker`` and ``preemptions`` int64 arrays, ``pool`` is a list of
    str. ``to_pandas()`` and the other methods are those of ``report.requests``. Empty unless the run was given
    ``timeseries_step`` or a file for the series.

    Columns:
        start_ms: When the window begins, in milliseconds of simulated time. The last window may be shorter than others.
        pool: ``cluster``, or the pool of the worker: ``agg``, ``prefill`` or ``decode``.
        worker: Its number, from 0; -1 for the cluster.
        waiting: Requests that wait, for a worker or on it. Means over the window, as are the next four.
        router_waiting: Those of them for which the router has not chosen a worker yet; the cluster only.
        running: Requests that were admitted and are not over.
        busy: Part of the time in which passes ran, 0 to 1.
        kv_use: Part of the blocks of the KV pool in use, 0 to 1. During passes that merely decode it is taken to grow
            evenly.
        hit_rate: Part of the prompt tokens of requests first admitted in the window that was cached.
        prompt_tokens_per_s: These prompt tokens, the cached ones included.
        output_tokens_per_s: Tokens emitted.
        arrivals_per_s, completions_per_s: Requests that arrived, and that emitted their last token; the cluster only.
        goodput_per_s: Completed requests within the service level, if there is one; the cluster only.
        preemptions: How often a request lost its KV and had to wait again.
        ttft_p50_ms, ttft_p90_ms, ttft_p99_ms: Of the requests whose first token fell into the window.
        itl_p50_ms, itl_p90_ms, itl_p99_ms: Of the gaps between tokens that ended in the window, to 0.2 %.

    Runs whose data-parallel ranks run their passes together have one more:
        rank_wait: Part of the time of ranks in passes that they waited for the slowest, 0 to 1; none without passes.

    Runs with a tier of host memory have five more, the last four of which are about copies while they run:
        host_hit_rate: Part of the prompt tokens of requests first admitted in the window that was on the host only.
        host_store_busy, host_load_busy: Part of the time in which a copy to the host ran, and one back, 0 to 1.
        host_stored_blocks_per_s, host_loaded_blocks_per_s: Blocks copied to the host, and back.

    Runs whose KV caches have several groups have four more:
        kv_use_full_attention, kv_use_other_groups: Part of the blocks that the group of full attention has in use, and
            that those of sliding windows or linear attention have; together kv_use. With SGLang each is of its
            own pool.
        kv_wait_full_attention, kv_wait_other_groups: Part of the time in which passes ran and the first request in line
            had no room: as its blocks of full attention alone were too many, and as those of the other groups did not
            fit beside them.

    Runs with faults have more. There tokens count when clients get them, and those that were lost only as such:
        workers_working: The mean number of workers that are not lost, can be reached and do not stand still; of one
            worker, the part of the time.
        failures_per_s, migrations_per_s, retries_per_s: Requests that failed for good, went on at another worker, and
            were begun anew; the cluster only.
        recomputed_tokens_per_s: Prompt tokens that later attempts admitted in the window had to compute.
        lost_tokens_per_s: Tokens that clients got and could not use.
    """

    _MISSING = "the run has kept no series, give it timeseries_step='1s'"

    def __init__(self, source: SeriesSource | RunResult | None, fetched: dict[str, Column] | None = None) -> None:
        super().__init__(source, fetched)
        self.step_ms: float | None = getattr(source, "step_ms", None)
        """The length of a window; None without series."""

    @property
    def numbers(self) -> list[str]:
        """The columns that are figures of a window, not what the row is about."""
        return [name for name in self if name not in ("start_ms", "pool", "worker")]

    def _fetch(self, name: str) -> Column:
        if not self._names:
            raise KeyError(f"{name}: {self._MISSING}")
        return super()._fetch(name)

    def __repr__(self) -> str:
        return f"<series: {', '.join(self._names)}>"

    def _repr_html_(self) -> str:
        """Returns the first and last rows, for notebooks."""
        from dynamo.replay import notebook

        return notebook.timeseries_html(self)
