"""Plots of a run for notebooks, made with plotly, which ``pip install 'dynosim[plots]'`` brings."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from dynamo._core import values
from dynamo.replay.page import data, wrong

if TYPE_CHECKING:
    from dynamo.replay.figures import Figures
    from dynamo.replay.timeseries import Timeseries


class Plots:
    """The plots of a report: ``report.plot.cdf()``. Each returns a plotly Figure, which a notebook shows by itself.

    Without plotly each raises ImportError with the command that installs it.
    """

    def __init__(self, report: Figures) -> None:
        self._report = report

    def cdf(self, *names: str, log: bool = False) -> Any:
        """Returns how many percent of the requests were at most so slow.

        Args:
            names: Per-request columns in milliseconds; by default ``ttft_ms``, ``itl_ms`` and ``e2e_latency_ms``.
            log: Whether the axis of latencies is logarithmic.
        """
        go = _plotly("cdf")
        figure = go.Figure()
        for name in names or ("ttft_ms", "itl_ms", "e2e_latency_ms"):
            points = data.quantiles(self._report, name)
            last = max(1, len(points) - 1)
            percents = [100 * place / last for place in range(len(points))]
            figure.add_scatter(x=points, y=percents, name=name, mode="lines")
        figure.update_layout(xaxis_title="ms", yaxis_title="percent of requests", hovermode="x unified")
        if log:
            figure.update_xaxes(type="log")
        return figure

    def timeline(self, figure: str = "waiting", workers: bool = True) -> Any:
        """Returns a figure of ``report.timeseries`` over time: for the cluster and, with ``workers``, for each worker.

        Times of faults are shaded. Needs a run with ``timeseries_step``; raises KeyError without it.
        """
        go = _plotly("timeline")
        series = self._report.timeseries
        _check(figure, series)
        shown = _rows(series[figure], series["pool"], series["worker"])
        seconds = series["start_ms"] / 1000
        drawn = go.Figure()
        for name, rows in shown.items():
            if workers or name == "cluster":
                width = 3 if name == "cluster" else 1
                line = {"width": width}
                drawn.add_scatter(x=seconds[rows], y=series[figure][rows], name=name, mode="lines", line=line)
        if "fault_events" in self._report:
            end = max(self._report["duration_ms"] / 1000, float(seconds[-1])) if len(seconds) else 0.0
            for shade in wrong.shades(self._report):
                until = end if shade["until"] is None else shade["until"]
                drawn.add_vrect(x0=shade["at"], x1=until, fillcolor="red", opacity=0.13, name=shade["name"])
        drawn.update_layout(xaxis_title="seconds", yaxis_title=figure, hovermode="x unified")
        return drawn

    def attribution(self, latency: str = "ttft_ms") -> Any:
        """Returns what a latency consists of: a bar for its mean and for each percentile, divided among the parts.

        Needs a run with ``attribution=True``; raises ValueError without it.

        Args:
            latency: ``ttft_ms`` or ``e2e_latency_ms``.
        """
        go = _plotly("attribution")
        found = self._report.get("attribution")
        if not found or not found["requests"]:
            raise ValueError("attribution: the run has kept none, give it attribution=True")
        known = [name for name in found if name != "requests"]
        if latency not in known:
            raise ValueError(f"latency: got {values.show(latency)}, want {' or '.join(known)}")
        split = found[latency]["split"]
        figure = go.Figure()
        for name in data.part_names(found):
            times = [split[statistic][name] for statistic in split]
            if any(times):
                figure.add_bar(x=times, y=list(split), name=name.replace("_", " "), orientation="h")
        figure.update_layout(barmode="stack", xaxis_title="ms", yaxis={"autorange": "reversed"}, title=latency)
        return figure


def _plotly(method: str) -> Any:
    try:
        return importlib.import_module("plotly.graph_objects")
    except ImportError as error:
        text = f"report.plot.{method} needs plotly ({error}): pip install 'dynosim[plots]'"
        raise ImportError(text, name="plotly") from None


def _check(figure: str, series: Timeseries) -> None:
    if series and figure not in series.numbers:
        raise KeyError(f"figure: got {values.show(figure)}, want one of {', '.join(series.numbers)}")


def _rows(column: Any, pools: Any, workers: Any) -> dict[str, list[int]]:
    """Returns the rows of the cluster and of each worker, those of which there is a value."""
    rows: dict[str, list[int]] = {}
    for at, (pool, worker) in enumerate(zip(pools, workers.tolist(), strict=True)):
        if column[at] == column[at]:
            rows.setdefault("cluster" if pool == "cluster" else f"{pool} {worker}", []).append(at)
    return rows
