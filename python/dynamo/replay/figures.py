"""The figures of a run: metrics, rows, and series over time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dynamo.replay import latencies
from dynamo.replay.requests import Requests, unknown
from dynamo.replay.timeseries import Timeseries


class Figures(dict[str, Any]):
    """The metrics of a run, a dict from key to number, and the rows they were computed from."""

    requests: Requests
    """Per-request columns: ``report.requests["ttft_ms"]``."""

    timeseries: Timeseries
    """Figures over time, if the run was given ``timeseries_step``: ``report.timeseries["waiting"]``."""

    def __init__(self, metrics: Mapping[str, Any], requests: Requests, timeseries: Timeseries | None = None) -> None:
        super().__init__(metrics)
        self.requests = requests
        self.timeseries = Timeseries(None) if timeseries is None else timeseries

    def __missing__(self, key: object) -> Any:
        """Returns the metric by its other name, ``p99_token_gap_ms`` for ``p99_itl_ms``. Raises KeyError."""
        if isinstance(key, str) and (name := latencies.recorded(key)) in self:
            return self[name]
        raise unknown("metric", key, self)
