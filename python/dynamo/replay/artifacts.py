"""Files about a run that are made from its report: its series, and its page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dynamo._core import RunResult
    from dynamo.replay.report import Report

SHAPES = ("timeline_window", "timeseries_step")
"""Options that say what is in such a file. A run that is repeated may have others."""


def write_of(config: Mapping[str, Any], result: RunResult, command: str = "") -> None:
    """Writes the files that a configuration asks for, as ``write`` does."""
    if "timeseries" not in config and "html" not in config:
        return
    from dynamo.replay.report import Report
    from dynamo.replay.requests import Requests
    from dynamo.replay.timeseries import Timeseries

    # Columns of a million requests take 8 MB each: none is kept.
    report = Report(result.report, Requests(result, keeps=False), Timeseries(result.timeseries))
    write(config, report, command)


def write(config: Mapping[str, Any], report: Report, command: str = "") -> None:
    """Writes the files that a configuration asks for, all whole or none. Raises OSError.

    ``command`` is what the user typed, if it was a command.
    """
    from dynamo.replay import files

    with files.together():
        if path := config.get("timeseries"):
            from dynamo.replay import seriesfile

            seriesfile.write(report.timeseries, path)
        if path := config.get("html"):
            from dynamo.replay import page

            files.write_whole(path, page.as_html(report, command))
