"""The JSON file of a report: where it goes, and how it is written."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from dynamo._core import values
from dynamo.replay import files


def write_report_json(report: Mapping[str, Any], output_path: str | os.PathLike[str] | None = None) -> Path:
    """Writes the report as JSON with sorted keys and returns the path of the file.

    ``output_path`` may be a folder, which then gets a file named like ``default_report_path()``; without a path that
    file goes to the current folder. Missing folders are made. A file that ``output_path`` names is replaced, but a name
    made up here never replaces one: if it is taken, ``_2``, ``_3``, ... follow it. numpy scalars become plain numbers;
    NaN and the infinities, which JSON lacks, become null. Raises OSError.
    """
    return save_report(report, resolve_report_path(output_path))


def save_report(report: Mapping[str, Any], target: ReportPath) -> Path:
    """Does ``write_report_json`` for a path that was resolved before."""
    plain = values.json_object("report", report, lambda _, number: number if values.is_finite(number) else None)
    text = json.dumps(plain, indent=2, sort_keys=True) + "\n"
    if target.made_up:
        return files.write_new(target.path, text)
    files.write_whole(target.path, text)
    return target.path


class ReportPath(NamedTuple):
    """Where a report goes."""

    path: Path
    made_up: bool
    """The user has not chosen the file's name, so it must not replace a file."""


def resolve_report_path(path: str | os.PathLike[str] | None) -> ReportPath:
    """Returns where ``write_report_json(report, path)`` writes if the name is still free then."""
    if path is None:
        return ReportPath(default_report_path(), made_up=True)
    if os.path.isdir(path):
        return ReportPath(Path(path) / default_report_path().name, made_up=True)
    return ReportPath(Path(path), made_up=False)


def default_report_path() -> Path:
    """Returns ``dynamo_replay_report_YYYYMMDD_HHMMSS.json`` (local time) in the current folder, as an absolute path."""
    return Path.cwd() / time.strftime("dynamo_replay_report_%Y%m%d_%H%M%S.json")
