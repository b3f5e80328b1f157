"""What a replay returns: a dict of metrics with the per-request columns behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynamo.replay.figures import Figures

if TYPE_CHECKING:
    from dynamo.replay.plots import Plots


class Report(Figures):
    """The metrics of a run, a dict from key to number, and the rows they were computed from.

    A statistic over no request at all is None. docs/report.md explains every key and column.
    """

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
