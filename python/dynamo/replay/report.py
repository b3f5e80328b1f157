"""What a replay returns: a dict of metrics with the per-request columns behind it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from dynamo.replay.requests import Requests, unknown
from dynamo.replay.timeseries import Timeseries

if TYPE_CHECKING:
    from dynamo.replay.plots import Plots


class Report(dict[str, Any]):
    """The metrics of a run, a dict from key to number, and the rows they were computed from.

    A statistic over no request at all is None. docs/report.md explains every key and column.
    """

    requests: Requests
    """Per-request columns: ``report.requests["ttft_ms"]``."""

    timeseries: Timeseries
    """Figures over time, if the run was given ``timeseries_step``: ``report.timeseries["waiting"]``."""

    def __init__(self, metrics: Mapping[str, Any], requests: Requests, timeseries: Timeseries | None = None) -> None:
        super().__init__(metrics)
        self.requests = requests
        self.timeseries = Timeseries(None) if timeseries is None else timeseries

    def __missing__(self, key: object) -> NoReturn:
        raise unknown("metric", key, self)

    @property
    def plot(self) -> Plots:
        """Plots for notebooks: ``report.plot.cdf()``, ``.timeline()`` and ``.attribution()``. They need plotly."""
        from dynamo.replay.plots import Plots

        return Plots(self)

    def copy(self) -> Report:
        """A shallow copy that shares the per-request columns."""
        return Report(self, self.requests, self.timeseries)

    __copy__ = copy

    def _repr_html_(self) -> str:
        """The table of the command line, for notebooks."""
        from dynamo.replay import notebook

        return notebook.report_html(self)

    def _ipython_key_completions_(self) -> list[str]:
        return list(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return Report, (dict(self), self.requests, self.timeseries)
