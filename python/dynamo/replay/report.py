"""What a replay returns: a dict of metrics with the per-request columns behind it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dynamo.replay.figures import Figures

if TYPE_CHECKING:
    from dynamo._core import SavedTrace
    from dynamo.replay.notebook import Explorer
    from dynamo.replay.plots import Plots
    from dynamo.replay.requests import Requests
    from dynamo.replay.telemetry import Telemetry
    from dynamo.replay.timeseries import Timeseries


class Report(Figures):
    """The metrics of a run, a dict from key to number, and the rows they were computed from.

    A statistic over no request at all is None. docs/report.md explains every key and column.
    """

    per_request: list[dict[str, Any]] | None
    """A dict for each request, if the run was given ``capture_per_request=True``."""

    telemetry: Telemetry | None
    """The samples that were taken during the run, if it was given ``telemetry_options`` that keep them."""

    saved_trace: SavedTrace | None
    """Where the workload was saved, and how that trace is read, if the run was given ``save_trace``."""

    def __init__(
        self,
        metrics: Mapping[str, Any],
        requests: Requests,
        timeseries: Timeseries | None = None,
        per_request: list[dict[str, Any]] | None = None,
        telemetry: Telemetry | None = None,
        saved_trace: SavedTrace | None = None,
    ) -> None:
        super().__init__(metrics, requests, timeseries)
        self.per_request = per_request
        self.telemetry = telemetry
        self.saved_trace = saved_trace

    @property
    def summary(self) -> dict[str, Any]:
        """The metrics as ai-dynamo 1.6 has them: those of this report, and its names of some more.

        ``committed_prefill_tokens`` leaves out what requests compute again after they were preempted.
        """
        numbers = {key: value for key, value in self.items() if key != "provenance"}
        cached = self["first_admission_prefix_cache_reused_ratio"] or 0
        return {
            **numbers,
            "kv_eviction_policy": _eviction(self["provenance"]["arguments"]),
            "committed_prefill_tokens": self["total_input_tokens"] - round(cached * self["total_input_tokens"]),
            **{f"num_{group}_samples": self[f"count_{group}_ms"] for group in ("ttft", "tpot", "e2e_latency")},
            "power_w": None,
            "power_coverage": None,
        }

    @property
    def plot(self) -> Plots:
        """Plots for notebooks: ``report.plot.cdf()``, ``.timeline()`` and ``.attribution()``. They need plotly."""
        from dynamo.replay.plots import Plots

        return Plots(self)

    def explore(self, *, height: int = 900) -> Explorer:
        """Returns the page of the run as an output of a notebook, ``height`` pixels high, which also works without a
        kernel.

        Runs with ``attribution=True`` and ``timeseries_step="1s"`` show most.
        """
        from dynamo._core import values
        from dynamo.replay import notebook, page

        if values.integer("height", height) < 1:
            raise ValueError(f"height: got {height}, want an integer >= 1")
        return notebook.Explorer(page.as_html(self), int(height))

    def copy(self) -> Report:
        """Returns a shallow copy that shares the per-request columns."""
        return Report(self, self.requests, self.timeseries, self.per_request, self.telemetry, self.saved_trace)

    __copy__ = copy

    def _repr_html_(self) -> str:
        """Returns the table of the command line, for notebooks."""
        from dynamo.replay import notebook

        return notebook.report_html(self)

    def _ipython_key_completions_(self) -> list[str]:
        return list(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return Report, (dict(self), self.requests, self.timeseries, self.per_request, self.telemetry, self.saved_trace)


def _eviction(arguments: Mapping[str, Any]) -> str:
    """Returns the eviction policy of the workers that compute prompts."""
    engine = arguments.get("prefill_engine_args") or arguments.get("extra_engine_args") or {}
    return str(engine.get("eviction_backend", "lru"))
