"""Files about a run that are made from its report: its series."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dynamo.replay import seriesfile

if TYPE_CHECKING:
    from dynamo._core import RunResult
    from dynamo.replay.report import Report

SHAPES = ("timeline_window", "timeseries_step")
"""Options that say what is in such a file. A run that is repeated may have others."""


def write_of(config: Mapping[str, Any], result: RunResult) -> None:
    """Writes the files that a configuration asks for, as ``write`` does."""
    if "timeseries" not in config:
        return
    from dynamo.replay.report import Report
    from dynamo.replay.requests import Requests
    from dynamo.replay.timeseries import Timeseries

    write(config, Report(result.report, Requests(result), Timeseries(result.timeseries)))


def write(config: Mapping[str, Any], report: Report) -> None:
    """Writes the files that a configuration asks for, each whole or not at all. Raises OSError."""
    if path := config.get("timeseries"):
        seriesfile.write(report.timeseries, path)
